# SPDX-License-Identifier: Apache-2.0
"""Analysis of recordings: figures against Pinocchio, named causes, consistent files."""

import csv
import json
import re
from base64 import b64decode
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from bags import MS, SECOND, command, state, text, write
from numpy.testing import assert_allclose, assert_array_equal
from plotly.graph_objects import Figure
from recorded_arm import (
    GRAVITY,
    NAMES,
    RecordedArm,
    arm_xml,
    measured_arm,
    sinusoidal_run,
    write_run,
)
from recorded_bags import NOMINAL, UNKNOWN

from robot_dynamics_ros.description.shipped import shipped_mechanism
from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.model import load_mechanism, load_robot
from robot_dynamics_ros.recordings import timing
from robot_dynamics_ros.recordings.metrics import analysis
from robot_dynamics_ros.recordings.metrics.analysis import AnalysisSettings, analyze_bag, evaluate
from robot_dynamics_ros.recordings.reading import RobotChoice
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.recordings.report.figures import Plots
from robot_dynamics_ros.recordings.report.runs import analysis_report, run_animation
from robot_dynamics_ros.recordings.report.toolkit import Report

ORACLE = RecordedArm.oracle_of(arm_xml(), GRAVITY)
PROGRAM = """
name: plane
constraints:
  - {kind: point, name: height, frame: tool, axes: z, target: 0.3, natural_frequency: 10}
"""


def analyzed(bag: Path, folder: Path | None = None, *, robot=None, **choices):
    if folder is not None:
        folder.mkdir()
    return analyze_bag(bag, AnalysisSettings(robot=robot or RobotChoice(), **choices), folder)


def evaluated(run, **choices):
    """Return the evaluation of a run without a bag."""
    return evaluate(run, load_robot(run.description), AnalysisSettings(**choices))


def said(result) -> str:
    return '\n'.join(f'{finding.severity}: {finding}' for finding in result.findings)


# Recordings of Gazebo ---------------------------------------------------------------------------


@pytest.mark.slow
def test_the_gravity_of_gazebo_is_found_and_named_and_explains_it():
    result = analyzed(NOMINAL)
    gravity = result.figures['effort']['gravity']
    assert gravity['verdict'] == 'mismatch'
    assert gravity['fitted'] == pytest.approx([0.0, 0.0, -9.8], abs=1e-9)
    assert gravity['residual_before'][2] == pytest.approx((1.15 + 0.72) * 0.01, abs=1e-9)
    assert said(result).startswith(
        "error: gravity differs: the efforts fit 9.8000 m/s², the model has 9.8100 (Gazebo's own "
        'default is 9.8)'
    )
    assert str(result.findings[0]).endswith('--gravity 0 0 -9.8')
    assert result.report.steps[0].endswith(f'analyze {NOMINAL} --gravity 0 0 -9.8')
    result = analyzed(NOMINAL, robot=RobotChoice(gravity=(0.0, 0.0, -9.8)), formulation='kane')
    effort = result.figures['effort']
    # A difference of velocities of 1 rad/s over 1 ms leaves 1e-13 rad/s^2.
    assert max(effort['residual_peak']) < 1e-9
    assert effort['left_out']['at a joint limit'] == [0, 0, 5, 0]
    assert min(effort['evaluated']) >= 1990
    assert result.figures['cross_check']['relative'] < 1e-12


@pytest.mark.slow
def test_a_wrong_model_is_not_mistaken_for_another_gravity():
    result = analyzed(UNKNOWN)
    assert result.figures['effort']['gravity']['verdict'] == 'agrees'
    assert 'gravity' not in said(result)
    assert 'the residual of j3 is friction that the model lacks' in said(result)
    assert 'misses' not in said(result), 'of every joint the cause is told'
    assert re.search(r' identify .*gazebo_scara_unknown_plant$', result.report.steps[-1])


def test_of_a_few_states_no_model_is_judged():
    """Too few tell whether a joint moves: a moving arm was told to miss its efforts, at rest."""
    few = evaluated(RecordedArm(300).recording().rows(slice(100, 115)))
    told = 'no usable efforts were recorded: the recording: has 15 states with position and vel'
    assert told in said(few)
    assert 'misses' not in said(few)


def test_a_step_that_cannot_be_written_here_is_named_all_the_same(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'out').touch()
    step = analyzed(UNKNOWN).report.steps[0]
    assert '--output out/identified/gazebo_scara_unknown_plant' in step


# An exact run: efforts, energy, tracking, program, files ----------------------------------------


@pytest.fixture(scope='module')
def exact(tmp_path_factory):
    """A run, its analysis with a program, and the folder of the files."""
    folder, arm = tmp_path_factory.mktemp('exact'), RecordedArm(1500)
    bag = arm.bag(folder / 'bag')
    return arm, analyzed(bag, folder / 'out', program=PROGRAM), folder / 'out'


@pytest.mark.slow
def test_the_efforts_and_the_energy_of_pinocchio_are_explained(exact):
    arm, result, _ = exact
    effort, energy = result.figures['effort'], result.figures['energy']
    assert effort['source'] == 'commanded (none were measured)'
    # Positions of 1 rad with 1e-16 rounding, differenced twice at 1 ms: 1e-10 rad/s^2.
    assert max(effort['residual_share']) < 1e-8
    assert (effort['evaluated'], energy['steps']) == ([1499] * 3, 1499)
    first, last = (sum(ORACLE.energies(arm.q[k], arm.v[k])) for k in (0, -1))
    assert energy['gained'] == pytest.approx(last - first, rel=1e-9)
    # A semi-implicit step misses the energy by the order of the period.
    assert energy['unexplained_share'] < 2e-3


@pytest.mark.slow
def test_errors_of_joints_tool_and_program_are_those_of_pinocchios_points(exact):
    arm, result, _ = exact
    tracking, program = result.figures['tracking'], result.figures['program']
    measured, desired = (
        np.array([ORACLE.frame_pose('tool', row)[1] for row in rows])
        for rows in (arm.q, arm.reference)
    )
    distance, height = 1e3 * np.linalg.norm(measured - desired, axis=1), measured[::10, 2] - 0.3
    rms, *of_program = (np.sqrt(np.mean(x**2)) for x in (distance, height, height[-37:]))
    found = tracking['tool_rms_mm'], tracking['tool_peak_mm']
    assert found == pytest.approx((rms, distance.max()), rel=1e-9)
    told = f'tool: tool is {rms:.4g} mm from its reference, RMS'
    assert any(note.startswith(told) for note in result.report.notes)
    assert tracking['rms_error'] == pytest.approx([1e-3, 2e-3, 5e-4], rel=1e-9)
    assert tracking['rms_velocity_error'] == [0.0] * 3
    found = [*program['rms'], *program['peak'], program['start'], program['evaluations']]
    expected = of_program[0], np.abs(height).max(), 0.0, 150
    assert found == pytest.approx(expected, rel=1e-9)
    tile = 'f of the program, RMS in the last quarter, worst row'
    assert (f'{of_program[1]:.4g} m', tile) in result.report.tiles


@pytest.mark.slow
def test_the_files_tell_the_same_as_the_figures(exact):
    arm, result, folder = exact
    document = json.loads((folder / 'metrics.json').read_text('utf-8'), parse_constant=pytest.fail)
    assert document['effort']['residual_rms'] == result.figures['effort']['residual_rms']
    judged = [x for x in document['findings'] if 'explains the efforts' in x['text']]
    assert [x['severity'] for x in judged] == ['ok']
    rows = list(csv.DictReader((folder / 'rows.csv').read_text().splitlines()))
    assert len(rows) == 1500
    row = {name: float(x or 'nan') for name, x in rows[123].items()}
    found = row['position.elbow'], row['effort.shoulder'], row['error.lift']
    assert found == pytest.approx((arm.q[123, 1], arm.tau[123, 0], 5e-4), rel=1e-9)
    parts = ('inertia', 'coriolis', 'gravity', 'armature', 'friction')
    total = sum(row[f'{part}.shoulder'] for part in parts)
    assert total == pytest.approx(row['model.shoulder'], abs=1e-12)
    assert rows[-1]['residual.shoulder'] == '', 'the last state has no step'
    report = (folder / 'report.html').read_text('utf-8')
    assert 'the model explains the efforts' in report
    peak = result.figures['program']['peak'][0]
    assert f'<td>{peak:.4g}</td>' in report[report.index('<th>constraint of plane</th>') :]


@pytest.mark.slow
def test_tables_hold_as_many_rows_as_asked_for_and_parts_are_those_of_the_whole(
    tmp_path, monkeypatch
):
    """Also if a part is no multiple of the rows left out; Parquet holds every row."""
    arm, written, texts = RecordedArm(3000), [], []
    bag = arm.bag(tmp_path / 'bag')
    monkeypatch.setattr(analysis, 'analysis_figures', lambda _, x, *__: written.append(x))
    monkeypatch.setattr(analysis, 'run_events', lambda *_: [])
    monkeypatch.setattr(Report, 'write', lambda *_: None)
    for block in (1 << 15, 64):
        monkeypatch.setattr(analysis, '_BLOCK', block)
        folder = tmp_path / str(block)
        assert analyzed(bag, folder, rows=1000).figures['rows_csv_every'] == 3
        texts.append((folder / 'rows.csv').read_text())
        table = pq.read_table(folder / 'rows.parquet')
        written[-1] |= {f'{name} of the table': table[name] for name in table.column_names}
    assert texts[0] == texts[1]
    times = [float(line.split(',')[0]) for line in texts[0].splitlines()[1:]]
    assert times == pytest.approx(arm.stamps[::3] * 1e-9)
    assert table['position.elbow'].to_pylist() == arm.q[:, 1].tolist()
    for (name, parts), (_, whole) in zip(written[1].items(), written[0].items(), strict=True):
        assert_array_equal(parts, whole, err_msg=name)


# Causes -----------------------------------------------------------------------------------------


#: The arm, a constant added to its efforts, and what is said then and of no other arm; what
#: another gravity says, too, is in ``estimation/test_residual_causes``.
CAUSES = yaml.safe_load("""
a constant:
  [{}, [0.0, 0.7, 0.0],
   "joint 'elbow': its efforts are +0.7 N m off: 100 % of the residual of elbow; an offset"]
currents:
  [{factor: [0.1, 0.2, 0.15]}, 0.0,
   "joint 'shoulder': wrong unit of effort: it must be multiplied by about 10;"]
a sign:
  [{factor: [1.0, -1.0, 1.0]}, 0.0, "joint 'elbow': wrong sign of effort; change effort_sign"]
rotors: [{armature: [0.0, 0.3, 0.0]}, 0.0, 'is inertia that the model lacks: about 0.3 kg m²']
friction and a constant:
  [{viscous: [0.0, 2.0, 0.0], dry: [0.0, 1.5, 0.0]}, [0.0, 0.7, 0.0],
   'of elbow is friction that the model lacks: about 2 N m per rad/s and 1.5 N m dry']
a tilted base:
  [{gravity: [0.5134157307432791, 0.0, -9.79655573594237]}, 0.0, 3.00° from that of the model]
a load: [{mass: [1.2, 1.7]}, 0.0, the arm moves as if it carried 0.5 kg more]
no tool: [{mass: [1.2, 0.7]}, 0.0, the arm moves as if it carried 0.5 kg less]
a heavier link: [{mass: [2.5, 3.2]}, 0.0, as if fore weighed 0.7 kg more than the 2.5 kg of]
another unit: [{factor: [1.3, 1.3, 1.3]}, 0.0, as if all masses were about 1.3 times]
half a unit: [{factor: [0.4, 0.4, 0.4]}, 0.0, as if all masses were about 0.4 times]
a passive joint:
  [{factor: [1.0, 0.0, 1.0]}, 0.0,
   'warning: no effort acts at elbow though the motion needs some']
""")


@pytest.mark.slow
@pytest.mark.parametrize('kind', CAUSES)
def test_the_cause_that_explains_best_is_named_and_no_other(kind):
    given, constant, sentence = CAUSES[kind]
    drives = {key: np.array(value) for key, value in given.items() if key != 'mass'}
    mass, acting = given.get('mass', (1.2, 1.2))
    xml = arm_xml().replace(f'value="{mass}"', f'value="{acting}"')
    arm = RecordedArm(1200, **drives, xml=xml)
    arm.tau, arm.xml = arm.tau + constant, arm_xml()
    found = said(evaluated(arm.recording()))
    others = {text for name, (_, _, text) in CAUSES.items() if name not in kind} - {sentence}
    assert [text for text in (sentence, *others) if text in found] == [sentence]
    assert ('gravity' in found) == ('gravity' in given)


def test_joints_without_effort_hide_no_load_and_no_delay_of_the_others():
    xml, factor = arm_xml().replace('value="1.2"', 'value="1.7"'), np.array([1.0, 1.0, 0.0])
    arm = RecordedArm(1200, factor=factor, xml=xml)
    found = said(evaluated(replace(arm.recording(), description=arm_xml())))
    assert 'error: the arm moves as if it carried 0.5 kg more' in found
    assert 'the residual of shoulder, elbow;' in found
    assert 'warning: no effort acts at lift though the motion needs some' in found
    assert found.endswith('without a gripper: --joints shoulder,elbow')
    late = evaluated(RecordedArm(1200, factor=factor, measured_late=True).recording())
    assert late.figures['effort']['source'] == 'measured, delayed by one step'
    assert 'ok: the model explains the efforts' in said(late)


def test_five_states_name_no_cause_and_what_no_cause_explains_is_unknown():
    few = RecordedArm(5, factor=np.array([1.0, -1.0, 1.0])).recording()
    assert 'wrong sign' not in said(evaluated(few))
    arm = RecordedArm(1200)
    arm.tau = arm.tau + 4.0 * np.sin(40.0 * arm.stamps * 1e-9)[:, np.newaxis]
    text = said(evaluated(arm.recording()))
    assert 'the model misses' in text
    for _, _, cause in CAUSES.values():
        assert cause not in text


def test_friction_and_armature_of_the_description_belong_to_the_model():
    xml = arm_xml('<dynamics damping="2.0" friction="1.5" armature="0.3"/>')
    arm = RecordedArm(1200, viscous=2.0, dry=1.5, armature=0.3, xml=xml)
    effort = evaluated(arm.recording()).figures['effort']
    # The smooth sign of Coulomb friction is off by 2 exp(-2 |v| / vs) at the slowest evaluated
    # velocity.
    assert max(effort['residual_peak']) < 2.0 * 1.5 * np.exp(-2.0 * 5.0) + 1e-8
    slow = (np.abs(arm.v_next[:-1]) < 5e-3).sum(axis=0)
    assert effort['left_out']['at rest with Coulomb friction'] == slow.tolist()


def test_viscous_friction_takes_energy_that_vanishes_where_the_model_has_none():
    """It is that of the velocity at the end of each step."""
    arm = RecordedArm(1200, viscous=8.0)
    lossy = evaluated(arm.recording())
    energy, (balance,) = (
        lossy.figures['energy'],
        lossy.columns(slice(1199, 1200))['unexplained_energy'],
    )
    assert energy['unexplained_share'] > 0.05
    assert balance == pytest.approx(energy['unexplained'])
    assert 'vanish without a cause in the model' in said(lossy)
    known = replace(arm.recording(), description=arm_xml('<dynamics damping="8.0"/>'))
    lost = np.sum(8.0 * arm.v_next[:-1] * 0.5e-3 * (arm.v_next + arm.v)[:-1])
    energy = evaluated(known).figures['energy']
    assert energy['lost_in_friction'] == pytest.approx(lost, rel=1e-9)


# Timing of the samples ---------------------------------------------------------------------------


def smooth(rng, noise: float, *, measured: bool):
    """Return a run of a real arm: continuous motion, noise, efforts measured or held commands."""
    time = 1e-3 * np.arange(4000)
    run = RecordedArm.at(time)
    v = run.velocity + noise * rng.normal(size=run.velocity.shape)
    q = run.position + 1e-3 * noise * rng.normal(size=v.shape)
    run = replace(run, position=q, velocity=v)
    if measured:
        return run
    held = RecordedArm.at(time + 0.5e-3).measured_effort
    return replace(run, effort=held, measured_effort=np.nan * held, answer_ns=())


@pytest.mark.slow
@pytest.mark.parametrize('measured', [True, False])
def test_a_real_arm_is_explained_to_second_order_and_noise_filtered_without_delay(measured, rng):
    clean, noisy = (evaluated(smooth(rng, size, measured=measured)) for size in (0.0, 1e-3))
    timing = clean.figures['timing']
    assert timing['name'] == ('sampled' if measured else 'continuous')
    assert timing['semi_implicit_remainder'] > 1e-4
    # h^2 / 24 of the third derivative and the like: (4.3 rad/s)^2 * 1e-6 = 2e-5, relative.
    assert max(clean.figures['effort']['residual_share']) < 5e-5
    timing = noisy.figures['timing']
    assert 0.5 < timing['cutoff_hz'] < 60.0
    assert f'zero-phase low-pass at {timing["cutoff_hz"]:.3g} Hz' in timing['reason']
    # Unfiltered, noise of 1e-3 rad/s gives 1.4 rad/s^2, a tenth of the acceleration and more.
    assert max(noisy.figures['effort']['residual_share']) < 0.02


@pytest.mark.parametrize('count', [1e-5, 2e-6])
def test_velocities_that_are_differences_of_an_encoder_are_those_of_no_simulator(count):
    """Positions advance by them exactly; unfiltered, counts were taken for a wrong unit."""
    run = RecordedArm.at(1e-3 * np.arange(4001))
    q = count * np.rint(run.position / count)
    v = np.vstack([run.velocity[:1], np.diff(q, axis=0) / 1e-3])
    found = evaluated(replace(run, position=q, velocity=v))
    assert found.figures['timing']['name'] == 'sampled'
    # Half a count of two readings over 1 ms is 10 rad/s^2 of 18; the filter leaves its band.
    assert max(found.figures['effort']['residual_share']) < 0.02
    assert 'unit' not in said(found)


@pytest.mark.slow
def test_the_timing_is_told_by_the_first_part_that_moves(rng, monkeypatch):
    """As by the run alone; of rest alone it would be another."""
    monkeypatch.setattr(timing, 'PART_S', 5.0)
    run = smooth(rng, 1e-3, measured=True)
    rows = run.rows(np.append(np.arange(5000) % 1000, np.arange(4000)))
    rows.position[:5000], rows.velocity[:5000] = run.position[0], 1e-3 * rng.normal(size=(5000, 3))
    rests = {'time': 1e-3 * np.arange(9000), 'stamp_ns': (), 'arrival_ns': (), 'answer_ns': ()}
    alone, later = (evaluated(x).figures['timing'] for x in (run, replace(rows, **rests)))
    assert later == alone
    assert alone['name'] == 'sampled'


def test_a_joint_that_moves_by_the_last_digits_of_its_position_does_not_tell_the_timing():
    """A controller leaves 1e-12 rad at a joint that its motion does not need."""
    run = RecordedArm(2000).recording()
    q, v = run.position.copy(), run.velocity.copy()
    v[:, 2] = 1e-12 * np.sin(0.02 * np.arange(2000))
    q[:, 2] = 0.7 + np.cumsum(1e-3 * v[:, 2])
    found = timing.find_timing(replace(run, position=q, velocity=v), commanded=True)
    assert found.name == 'semi_implicit'


# Rates, limits, references ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ('lost', 'told'),
    [(range(40, 201, 40), 'note'), (range(40, 1601, 40), 'warning'), (range(300, 306), 'warning')],
)
def test_few_single_states_that_are_lost_are_a_note(lost, told, rng):
    run = sinusoidal_run(measured_arm(), rng, 20.0)
    kept = np.delete(np.arange(2000), lost)
    result = evaluated(run.rows(kept))
    tree = measured_arm().tree
    notes = analysis_report('bag', tree, result.figures, result.findings, ()).notes
    given = {'warning': map(str, result.findings), 'note': notes}
    ((kind, text),) = ((kind, x) for kind in given for x in given[kind] if 'between states' in x)
    assert kind == told
    assert f': {100.0 - len(kept) / 20.0:.2g} % of the states are missing' in text
    assert text.endswith('is bridged') == (told == 'note')


def test_rates_gaps_and_delays_are_those_that_were_recorded(tmp_path):
    arm, messages = RecordedArm(1000), []
    for k in range(1000):
        stamp = 1_700_000_000 * SECOND + k * MS + 200_000 * (k % 2) + 30 * MS * (k >= 500)
        messages.append(state(stamp, NAMES, arm.q[k], arm.v[k]))
        messages.append(command(stamp + 300_000 + 1000 * (k % 100), arm.tau[k]))
    bag = write(tmp_path / 'bag', messages)
    with pytest.raises(RecordingError, match='no robot description; give --robot or --descr'):
        analyzed(bag)
    result = analyzed(bag, robot=RobotChoice(arm.xml))
    text = '1 gap between states, the longest 30.8 ms at 1700000000.4992 s: 2.91 % of the states'
    assert text in said(result)
    rates = result.figures['rates']
    assert (rates['gaps'], rates['commands']) == (1, 1000)
    found = rates['longest_gap_ms'], rates['latency_us']['max'], rates['period_ms']['p99']
    assert found == pytest.approx((30.8, 399.0, 1.2))
    assert rates['latency_us']['p50'] == pytest.approx(350.0, abs=2.0)


SHARE = ' % of the states have no command of their own'


@pytest.mark.parametrize(
    ('left_out', 'told'),
    [
        (lambda k: 500 <= k < 520, f'2{SHARE}, for up to 21 ms'),
        (lambda k: k % 3 == 0 or k == 500, f'33{SHARE}'),
        (lambda k: k < 100 or k >= 900, ''),
        (lambda k: 300 <= k < 700, ''),  # the controller is inactive
        (lambda k: k % 2 == 0, ''),  # it commands at half of the rate
    ],
    ids=['20', 'a third', 'ends', 'inactive', 'half'],
)
def test_states_that_an_active_controller_did_not_answer_are_told(left_out, told):
    arm = RecordedArm(1000)
    answer = np.where([left_out(k) for k in range(1000)], -1, MS * np.arange(1, 1001))
    found = said(evaluated(replace(arm.recording(), answer_ns=answer)))
    assert ('no command of their own' in found) == bool(told)
    assert told in found


def test_saturated_commands_and_states_beyond_the_limits_are_counted():
    arm = RecordedArm(600, xml=arm_xml(effort=25.0))
    arm.tau = np.clip(arm.tau, -25.0, 25.0)
    arm.tau[300, 2] = 25.0
    arm.q[100:110, 2] += 0.3
    limit = 0.8 * np.abs(arm.v[:, 1]).max()
    arm.xml = re.sub('velocity="[^"]*"', f'velocity="{limit}"', arm.xml)
    run = arm.recording()
    result, fast = evaluated(run), np.abs(arm.v[:, 1]) / limit
    limits, saturated = result.figures['limits'], (np.abs(arm.tau) == 25.0).sum(axis=0).tolist()
    assert limits['saturated_ticks'] == saturated
    assert limits['states_outside'] == [0, 0, 10]
    count, when = (fast > 1.02).sum(), run.time[fast.argmax()]
    for told in (
        f'shoulder: {saturated[0]} commands at the effort limit',
        'lift: 1 command at the effort limit',
        'lift: 10 states beyond the position limits, by up to ',
        f'elbow: {count} states beyond the velocity limit, up to 1.25 times, at {when:.6g} s',
    ):
        assert told in said(result)
    measured = evaluated(replace(run, measured_effort=arm.tau))
    assert f'shoulder: {saturated[0]} measured efforts at the effort limit' in said(measured)


def test_without_effort_limits_no_saturation_is_told(tmp_path):
    unlimited = analyzed(RecordedArm(300, xml=arm_xml(effort=0.0)).bag(tmp_path / 'bag'))
    assert unlimited.figures['limits']['saturated_ticks'] == []
    assert 'gives no effort limits: saturation is not evaluated' in ' '.join(unlimited.notes)
    some = arm_xml().replace('effort="', 'effort="0" was="', 1)
    partly = analyzed(RecordedArm(300, xml=some).bag(tmp_path / 'some'))
    assert np.isnan(partly.figures['limits']['effort_share']).tolist() == [True, False, False]
    assert 'limits of shoulder: saturation of shoulder is not evaluated' in ' '.join(partly.notes)


@pytest.mark.parametrize(('lost', 'told'), [(20, False), (60, True)])
def test_many_states_without_a_position_are_a_finding(lost, told, tmp_path):
    run = RecordedArm(300).recording()
    run.position[:lost, 1] = np.nan
    findings = said(analyzed(write_run(tmp_path / 'bag', run)))
    assert ('20% of the states have a non-finite position of elbow: read' in findings) == told


def test_references_of_a_slow_controller_are_those_of_the_states_it_answered(rng):
    run, answered = RecordedArm(1000).recording(), rng.random((1000, 1)) < 0.6
    columns = ('effort', 'reference_position', 'reference_velocity')
    some = {name: np.where(answered, getattr(run, name), np.nan) for name in columns}
    tracking = evaluated(replace(run, **some)).figures['tracking']
    assert tracking['states'] == answered.sum()
    for figure in ('rms_error', 'peak_error'):
        assert tracking[figure] == pytest.approx([1e-3, 2e-3, 5e-4], rel=1e-9)


@pytest.mark.slow
def test_a_joint_without_reference_takes_no_tracking_from_the_others(command):
    whole = RecordedArm(300).recording()
    some = replace(whole, reference_position=whole.reference_position.copy())
    some.reference_position[:, 2] = np.nan
    every, found = (evaluated(run, frame='fore').figures['tracking'] for run in (whole, some))
    for name in ('rms_error', 'peak_error', 'peak_error_at', 'travel'):
        every[name][2] = np.nan
    for name, values in every.items():
        assert_array_equal(found[name], values, err_msg=name)
    # The third joint moves the frame 'tool', whose errors are not known, and not told.
    page = command('analyze', some).text('report.html')
    assert 'largest error of elbow' in page
    assert not any(words in page for words in ('error of lift', 'nan mm', 'tool error, RMS'))


def test_a_joint_that_rests_without_an_effort_has_a_note_and_no_row_in_the_table(tmp_path):
    """A gripper in a bag: a stranger read the zeros of its row as results."""
    run = RecordedArm(400, xml=arm_xml('<dynamics friction="2.0"/>')).recording()
    for column in (run.position, run.velocity, run.effort):
        column[:, 1] = 0.0
    run.reference_position[:] = run.reference_velocity[:] = np.nan
    report = analyzed(write_run(tmp_path / 'bag', run)).report
    excluded = 'left out of the residual, at rest with Coulomb friction: '
    assert any(excluded in note for note in report.notes)
    assert (
        f'no state tells an effort of {NAMES[1]} (at rest with Coulomb friction)' in report.notes
    )
    (table,) = report.tables
    assert [row[0] for row in table.rows] == [NAMES[0], NAMES[2]]
    assert not {'RMS error', 'saturated ticks'} & {*table.head}, 'columns of dashes'


def test_the_model_has_what_the_recorded_controller_had_identified(command, tmp_path):
    terms = {'damping': 0.7, 'coulomb_friction': 0.0, 'armature': 0.0, 'stribeck_velocity': 0.1}
    found = command.word({'gravity': list(GRAVITY), 'joints': dict.fromkeys(NAMES, terms)})
    recorded = text(0, f'identified: {found}', '/controller/parameters')
    arm = RecordedArm(300, viscous=0.7)
    result = analyzed(write(tmp_path / 'bag', [recorded, *arm.messages()]))
    told = f'of the recorded description; identified: {found}, as the recorded controller had it'
    assert f'model: test_arm, {told}' in result.notes
    assert max(result.figures['effort']['residual_share']) < 1e-8


def test_unknown_states_of_closed_loops_spoil_no_others():
    """An outlier, or a reference that was not recorded yet, was refused as not finite."""
    tree = load_mechanism(*shipped_mechanism('four_bar'))
    time = 0.002 * np.arange(400)
    low, high = tree.position_lower, tree.position_upper
    at = np.clip(0.0, low + 0.1, high - 0.1) + 0.05 * np.sin(5.0 * time)[:, np.newaxis]
    reference, v = at.copy(), np.gradient(at, time, axis=0)
    at[200], reference[:50] = at[200] + 0.3, np.nan
    run = Recording(tree.joint_names, time, at, v, 0.0 * v, reference, v)
    found = evaluate(run, tree, AnalysisSettings())
    assert found.figures['timing']['contradictions'] == 1
    assert found.figures['tracking']['states'] == 349
    _, motion = run_animation(run, tree, found.evaluated.frame).parts()
    ghost = np.frombuffer(b64decode(motion['motions'][1]['positions']), '<f4')
    assert_array_equal(np.isnan(ghost.reshape(400, -1)).all(axis=1), time < 0.1)


# Figures ----------------------------------------------------------------------------------------


def drawn(time, values, origin=0.0, **options):
    names = [str(k) for k in range(values.shape[1])]
    plots = Plots({'time': time, 'effort': values}, origin)
    plots.add('drawn', names, ('effort', 'effort', '#000000'), **options)
    return Figure(plots.drawn[0][1])


def test_a_constant_is_drawn_with_zero_beside_it():
    """Alone in its panel it would appear as zero in its middle."""
    rows = np.linspace(0.0, 1.0, 50)
    layout = drawn(rows, np.column_stack([0.0 * rows - 0.02, np.sin(rows)])).layout
    low, high = layout.yaxis.range
    assert low < -0.02 < 0.0 < high
    assert layout.yaxis2.range is None


def test_limits_flatten_no_curve_and_a_band_below_shows_their_used_share():
    time = np.linspace(0.0, 2.0, 50)
    values = np.outer(np.sin(time), [-2.0, 12.0])
    figure = drawn(1.6e9 + time, values, origin=1.6e9, limits=[10.0, 10.0])
    low, high, beyond = (trace for trace in figure.data if trace.fill == 'tozeroy')
    assert_allclose(low.y, 0.2 * np.sin(time), rtol=1e-6)
    assert_allclose(high.y, np.minimum(1.2 * np.sin(time), 1.0), rtol=1e-6)
    assert_array_equal(np.isfinite(beyond.y), values[:, 1] >= 10.0)
    assert (low.xaxis, high.xaxis, beyond.xaxis) == ('x', 'x2', 'x2')
    assert all(min(trace.x) == 0.0 for trace in figure.data)
    assert figure.layout.xaxis.title.text.startswith('time since 1600000000')
    bottom, top = figure.layout.yaxis.range
    assert -3.2 < bottom < top < 0.4, 'a limit five times as high would flatten the curve'
    lines = {shape.y0 for shape in figure.layout.shapes if shape.type == 'line'}
    assert lines == {-10.0, 10.0}, 'drawn; seen where the curve gets there'


def test_times_of_a_clock_that_ran_for_days_are_drawn_apart():
    """As of libfranka; in single precision, states of a kilohertz came in groups of 60."""
    time = 9e5 + 1e-3 * np.arange(50)
    assert np.diff(drawn(time, np.ones((50, 1))).data[0].x) == pytest.approx(1e-3, rel=1e-6)
