# SPDX-License-Identifier: Apache-2.0
"""Analysis of recordings: figures against Pinocchio, named causes, consistent files."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from bags import MS, REFERENCE, SECOND, STATES, command, state, text, write
from oracles import PinocchioOracle
from recorded_arm import GRAVITY, NAMES, RecordedArm, arm_xml
from recorded_bags import NOMINAL, UNKNOWN
from rosbags.highlevel import AnyReader

from robot_dynamics_ros.__main__ import main
from robot_dynamics_ros.errors import RecordingError, UnknownNameError
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.recordings.metrics import analysis
from robot_dynamics_ros.recordings.metrics.analysis import AnalysisSettings, analyze_bag, evaluate
from robot_dynamics_ros.recordings.reading import RobotChoice, read_recording
from robot_dynamics_ros.recordings.report.figures import PlotLine, panels
from robot_dynamics_ros.recordings.report.toolkit import Report


def analyzed(bag: Path, folder: Path | None = None, *, robot=None, program='', **choices):
    settings = AnalysisSettings(robot=robot or RobotChoice(), program=program, **choices)
    return analyze_bag(bag, settings, folder)


def said(result) -> str:
    return '\n'.join(f'{finding.severity}: {finding}' for finding in result.findings)


# Recordings of Gazebo ---------------------------------------------------------------------------


@pytest.mark.slow
def test_the_model_explains_gazebo_at_its_own_gravity():
    robot = RobotChoice(gravity=(0.0, 0.0, -9.8))
    result = analyzed(NOMINAL, robot=robot, formulation='kane')
    effort = result.figures['effort']
    # A difference of velocities of 1 rad/s over 1 ms leaves 1e-13 rad/s^2.
    assert max(effort['residual_peak']) < 1e-9
    assert effort['left_out']['at a joint limit'] == [0, 0, 5, 0]
    assert min(effort['evaluated']) >= 1990
    assert result.figures['timing']['name'] == 'semi_implicit'
    assert result.figures['cross_check']['relative'] < 1e-12
    assert said(result).startswith('ok: the model explains the efforts to')


def test_the_gravity_of_gazebo_is_found_and_named_without_being_told():
    result = analyzed(NOMINAL)
    gravity = result.figures['effort']['gravity']
    assert gravity['verdict'] == 'mismatch'
    assert gravity['fitted'] == pytest.approx([0.0, 0.0, -9.8], abs=1e-9)
    assert gravity['residual_before'][2] == pytest.approx((1.15 + 0.72) * 0.01, abs=1e-9)
    assert result.findings[0].severity == 'error'
    assert (
        "gravity differs: the efforts fit 9.8000 m/s², the model has 9.8100 (Gazebo's own "
        'default is 9.8)' in str(result.findings[0])
    )
    assert str(result.findings[0]).endswith('--gravity 0 0 -9.8')


def test_tracking_errors_of_gazebo_are_references_minus_positions():
    tracking = analyzed(NOMINAL).figures['tracking']
    with AnyReader([NOMINAL]) as reader:
        position, reference = (
            np.array([reader.deserialize(data, row.msgtype).position
                      for row, _, data in reader.messages() if row.topic == topic])
            for topic in (STATES, REFERENCE)
        )  # fmt: skip
    rms = np.sqrt(np.mean(np.square(reference - position[: len(reference)]), axis=0))
    assert tracking['rms_error'] == pytest.approx(rms, rel=1e-12)


@pytest.mark.slow
def test_errors_of_zero_are_explained(tmp_path, capsys):
    for offset in (0.0, 1e-6):
        arm = RecordedArm(300)
        arm.reference = arm.q + offset
        out = tmp_path / f'out{offset}'
        assert main(['analyze', str(arm.bag(tmp_path / f'{offset}')), '--output', str(out)]) == 0
        explained = 'tracking errors are zero up to rounding' in capsys.readouterr().out
        assert explained == (offset == 0.0)


def test_a_wrong_model_is_not_mistaken_for_another_gravity():
    result = analyzed(UNKNOWN)
    assert result.figures['effort']['gravity']['verdict'] == 'agrees'
    assert 'gravity' not in said(result)
    assert 'identify the arm' in said(result)
    assert 'the residual of j3 is friction that the model lacks' in said(result)


# Causes -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_efforts_of_pinocchio_are_explained_whatever_the_storage(tmp_path):
    for form in ('mcap', 'sqlite3'):
        bag = RecordedArm(600).bag(tmp_path / form, form)
        result = analyzed(bag)
        effort = result.figures['effort']
        assert effort['source'] == 'commanded (none were measured)'
        # Positions of 1 rad with 1e-16 rounding, differenced twice at 1 ms: 1e-10 rad/s^2.
        assert max(effort['residual_share']) < 1e-8
        assert effort['evaluated'] == [599] * 3


def test_a_tilted_base_is_named(tmp_path):
    angle = np.radians(3.0)
    tilted = 9.81 * np.array([np.sin(angle), 0.0, -np.cos(angle)])
    result = analyzed(RecordedArm(800, gravity=tilted).bag(tmp_path / 'bag'))
    gravity = result.figures['effort']['gravity']
    assert gravity['verdict'] == 'tilt'
    assert gravity['fitted'] == pytest.approx(tilted, abs=1e-6)
    assert '3.00° from that of the model' in said(result)


@pytest.mark.slow
def test_a_driver_that_compensates_gravity_is_named(tmp_path):
    result = analyzed(RecordedArm(800, gravity=(0.0, 0.0, 0.0)).bag(tmp_path / 'bag'))
    assert result.figures['effort']['gravity']['verdict'] == 'compensated'
    assert 'the efforts contain no gravity: the driver compensates it' in said(result)


@pytest.mark.slow
def test_an_opposite_sign_and_a_wrong_unit_are_named(tmp_path):
    arm = RecordedArm(800, factor=np.array([1.0, -1.0, 1.0]))
    result = analyzed(arm.bag(tmp_path / 'bag'))
    assert "joint 'elbow': wrong sign of its effort; change effort_sign" in said(result)
    arm = RecordedArm(800, factor=np.array([1.0, 1.0, 0.1]))
    assert "joint 'lift': wrong unit of effort: it must be multiplied by 10;" in said(
        analyzed(arm.bag(tmp_path / 'second'))
    )


CAUSES = {
    'a constant': (
        lambda: RecordedArm(1200),
        np.array([0.0, 0.7, 0.0]),
        "joint 'elbow': its efforts are +0.7 N m off: 100 % of the residual of elbow; an offset",
    ),
    'currents': (
        lambda: RecordedArm(1200, factor=np.array([0.1, 0.2, 0.15])),
        0.0,
        "joint 'shoulder': wrong unit of effort: it must be multiplied by 10;",
    ),
    'rotors': (
        lambda: RecordedArm(1200, armature=np.array([0.0, 0.3, 0.0])),
        0.0,
        'is inertia that the model lacks: about 0.3 kg m²',
    ),
    'friction and a constant': (
        lambda: RecordedArm(1200, viscous=np.array([0.0, 2.0, 0.0])),
        np.array([0.0, 0.7, 0.0]),
        'of the residual of elbow is friction that the model lacks',
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize('kind', CAUSES)
def test_the_cause_that_explains_best_is_named_and_no_other(kind, tmp_path):
    make, constant, sentence = CAUSES[kind]
    arm = make()
    arm.tau = arm.tau + constant
    result = analyzed(arm.bag(tmp_path / 'bag'))
    assert sentence in said(result)
    others = [text for name, (_, _, text) in CAUSES.items() if name not in kind]
    assert not any(other in said(result) for other in others)
    assert 'gravity' not in said(result)


def test_a_load_is_named_with_its_mass(tmp_path):
    arm = RecordedArm(1200, xml=arm_xml().replace('value="1.2"', 'value="1.7"'))
    arm.xml = arm_xml()
    assert 'the arm moves as if it carried 0.5 kg more' in said(analyzed(arm.bag(tmp_path / 'b')))


def test_five_states_name_no_cause(tmp_path):
    result = analyzed(RecordedArm(5, factor=np.array([1.0, -1.0, 1.0])).bag(tmp_path / 'bag'))
    assert 'wrong sign' not in said(result)


def test_what_no_cause_explains_is_unknown(tmp_path):
    arm = RecordedArm(1200)
    arm.tau = arm.tau + 4.0 * np.sin(40.0 * arm.stamps * 1e-9)[:, np.newaxis]
    result = analyzed(arm.bag(tmp_path / 'bag'))
    assert 'the model misses' in said(result)
    assert 'of the residual' not in said(result)
    assert 'times what its motion needs' not in said(result)
    assert 'gravity' not in said(result)


@pytest.mark.slow
def test_missing_friction_is_named_with_its_size(tmp_path):
    arm = RecordedArm(1200, viscous=np.array([0.0, 2.0, 0.0]), dry=np.array([0.0, 1.5, 0.0]))
    result = analyzed(arm.bag(tmp_path / 'bag'))
    fits = result.figures['effort']['joint_fits']
    assert fits['viscous'][1] == pytest.approx(2.0, rel=0.02)
    assert fits['dry'][1] == pytest.approx(1.5, rel=0.02)
    assert 'of the residual of elbow is friction that the model lacks' in said(result)


@pytest.mark.slow
def test_friction_and_armature_of_the_description_belong_to_the_model(tmp_path):
    xml = arm_xml('<dynamics damping="2.0" friction="1.5" armature="0.3"/>')
    arm = RecordedArm(1200, viscous=2.0, dry=1.5, armature=0.3, xml=xml)
    result = analyzed(arm.bag(tmp_path / 'bag'))
    effort = result.figures['effort']
    # The smooth sign of Coulomb friction is off by 2 exp(-2 |v| / vs) at the slowest evaluated
    # velocity.
    assert max(effort['residual_peak']) < 2.0 * 1.5 * np.exp(-2.0 * 5.0) + 1e-8
    slow = (np.abs(arm.v_next[:-1]) < 5e-3).sum(axis=0)
    assert effort['left_out']['at rest with Coulomb friction'] == slow.tolist()
    h = 1e-3
    lost = h * np.sum((2.0 * arm.v_next + 1.5 * np.sign(arm.v_next)) * 0.5 * (arm.v_next + arm.v))
    assert result.figures['energy']['lost_in_friction'] == pytest.approx(lost, rel=1e-3)


@pytest.mark.slow
def test_measured_efforts_that_tell_of_the_step_before_are_recognized(tmp_path):
    arm = RecordedArm(800, measured_late=True)
    result = analyzed(arm.bag(tmp_path / 'bag', commands=False))
    effort = result.figures['effort']
    assert effort['source'] == 'measured, delayed by one step'
    assert max(effort['residual_share']) < 1e-8
    with pytest.raises(UnknownNameError, match="unknown effort 'felt'"):
        analyzed(tmp_path / 'bag', effort='felt')


@pytest.mark.slow
def test_passive_joints_of_a_closed_loop_are_told_instead_of_evaluated(tmp_path):
    arm = RecordedArm(600, factor=np.array([1.0, 0.0, 1.0]))
    result = analyzed(arm.bag(tmp_path / 'bag'))
    assert said(result).startswith('warning: no effort acts at elbow though the motion needs some')


# Timing of the samples ---------------------------------------------------------------------------


def smooth_arm(path: Path, rng, noise: float, *, measured: bool) -> Path:
    """Record a real arm: continuous motion, noise, efforts measured or held commands."""
    arm = RecordedArm(4000)
    h, t = 1e-3, 1e-3 * np.arange(4000)[:, np.newaxis]
    w, size, phase = np.array([2.0, 3.1, 4.3]), np.array([0.7, 0.9, 0.12]), [0.1, 0.7, 1.3]
    oracle = PinocchioOracle(arm.xml, GRAVITY, NAMES)

    def motion(t):
        x = w * t + phase
        return size * np.sin(x), size * w * np.cos(x), -size * w**2 * np.sin(x)

    at = t if measured else t + 0.5 * h
    tau = [oracle.inverse_dynamics(*row) for row in zip(*motion(at), strict=True)]
    q, v, _ = motion(t)
    v = v + noise * rng.normal(size=v.shape)
    q = q + 1e-3 * noise * rng.normal(size=q.shape)
    messages = [text(0, arm.xml)]
    for k in range(4000):
        effort = tau[k] if measured else ()
        messages.append(state(k * MS, NAMES, q[k], v[k], effort))
        if not measured:
            messages.append(command(k * MS, tau[k]))
    return write(path, messages)


@pytest.mark.slow
@pytest.mark.parametrize('measured', [True, False])
def test_a_real_arm_without_noise_is_explained_to_second_order(measured, rng, tmp_path):
    result = analyzed(smooth_arm(tmp_path / 'bag', rng, 0.0, measured=measured))
    timing = result.figures['timing']
    assert timing['name'] == ('sampled' if measured else 'continuous')
    assert timing['semi_implicit_remainder'] > 1e-4
    # h^2 / 24 of the third derivative and the like: (4.3 rad/s)^2 * 1e-6 = 2e-5, relative.
    assert max(result.figures['effort']['residual_share']) < 5e-5


@pytest.mark.slow
@pytest.mark.parametrize('measured', [True, False])
def test_noise_is_filtered_without_delay_and_the_cutoff_is_told(measured, rng, tmp_path):
    result = analyzed(smooth_arm(tmp_path / 'bag', rng, 1e-3, measured=measured))
    timing = result.figures['timing']
    assert 0.5 < timing['cutoff_hz'] < 60.0
    assert f'zero-phase low-pass at {timing["cutoff_hz"]:.3g} Hz' in timing['reason']
    # Unfiltered, noise of 1e-3 rad/s gives 1.4 rad/s^2, a tenth of the acceleration and more.
    assert max(result.figures['effort']['residual_share']) < 0.02


@pytest.mark.slow
@pytest.mark.parametrize('integrated', [True, False])
def test_the_timing_is_told_by_the_first_minute_that_moves(integrated, rng, tmp_path):
    bag = tmp_path / 'bag'
    RecordedArm(4000).bag(bag) if integrated else smooth_arm(bag, rng, 1e-3, measured=True)
    run, evaluations = read_recording(bag), []
    rest = at_rest(run.rows(np.arange(60_000) % 1000), rng, 0.0 if integrated else 1e-3)
    tree = load_robot(run.description)
    for parts in ([run], [rest, run], [rest]):
        evaluations.append(evaluate(in_sequence(parts), tree, AnalysisSettings()).figures)
    timing = [figures['timing'] for figures in evaluations]
    assert timing[1] == timing[0]
    assert timing[0]['name'] == ('semi_implicit' if integrated else 'sampled')
    assert np.isnan(timing[2]['semi_implicit_remainder']) or timing[2] != timing[0]
    assert [figures['rates']['states'] for figures in evaluations] == [4000, 64_000, 60_000]


def at_rest(run, rng, noise: float):
    shape = run.position.shape
    position = run.position[0] + 1e-3 * noise * rng.normal(size=shape)
    return replace(run, position=position, velocity=noise * rng.normal(size=shape))


def in_sequence(parts):
    """Return the parts as one recording with a state every millisecond."""
    stamps = MS * np.arange(sum(len(part.time) for part in parts))
    columns = (
        'position', 'velocity', 'effort', 'reference_position', 'reference_velocity',
        'measured_effort', 'arrival_ns', 'answer_ns',
    )  # fmt: skip
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in columns}
    return replace(parts[-1], stamp_ns=stamps, time=1e-9 * stamps, **joined)


# Energy, rates, limits, programs ----------------------------------------------------------------


def test_the_energy_balance_closes_and_equals_pinocchios(tmp_path):
    arm = RecordedArm(1500)
    energy = analyzed(arm.bag(tmp_path / 'bag')).figures['energy']
    oracle = PinocchioOracle(arm.xml, GRAVITY, NAMES)
    ends = [sum(oracle.energies(arm.q[k], arm.v[k])) for k in (0, -1)]
    assert energy['gained'] == pytest.approx(ends[1] - ends[0], rel=1e-9)
    # A semi-implicit step misses the energy by the order of the period.
    assert energy['unexplained_share'] < 2e-3
    assert energy['steps'] == 1499


@pytest.mark.slow
def test_energy_that_comes_from_nowhere_is_told(tmp_path):
    result = analyzed(RecordedArm(1500, viscous=np.array([8.0, 4.0, 30.0])).bag(tmp_path / 'bag'))
    assert result.figures['energy']['unexplained_share'] > 0.05
    assert 'vanish without a cause in the model' in said(result)


def test_rates_gaps_and_delays_are_those_that_were_recorded(tmp_path):
    arm = RecordedArm(1000)
    messages = []
    wall = 1_700_000_000 * SECOND
    for k, message in enumerate(arm.messages()[1::3]):
        stamp = wall + k * MS + (200_000 if k % 2 else 0) + (30 * MS if k >= 500 else 0)
        messages.append(state(stamp, NAMES, arm.q[k], arm.v[k]))
        messages.append(command(stamp + 300_000 + 1000 * (k % 100), arm.tau[k]))
        assert message.topic == STATES
    bag = write(tmp_path / 'bag', messages)
    result = analyzed(bag, robot=RobotChoice(robot=str(_file(tmp_path, arm.xml))))
    rates = result.figures['rates']
    assert rates['gaps'] == 1
    assert rates['longest_gap_ms'] == pytest.approx(30.8)
    assert '1 gap between states, the longest 30.8 ms' in said(result)
    assert rates['latency_us']['p50'] == pytest.approx(350.0, abs=2.0)
    assert rates['latency_us']['max'] == pytest.approx(399.0)
    assert rates['commands'] == 1000
    assert rates['period_ms']['p99'] == pytest.approx(1.2)


def _file(folder: Path, xml: str) -> Path:
    path = folder / 'arm.urdf'
    path.write_text(xml, encoding='utf-8')
    return path


def test_saturated_commands_and_states_beyond_the_limits_are_counted(tmp_path):
    arm = RecordedArm(600, xml=arm_xml(effort=25.0))
    arm.tau = np.clip(arm.tau, -25.0, 25.0)
    arm.q[100:110, 2] += 0.3
    result = analyzed(arm.bag(tmp_path / 'bag'))
    limits = result.figures['limits']
    assert limits['saturated_ticks'] == (np.abs(arm.tau) == 25.0).sum(axis=0).tolist()
    assert limits['saturated_ticks'][0] > 0
    assert f'shoulder: {limits["saturated_ticks"][0]} commands at the effort limit' in said(result)
    assert limits['states_outside'] == [0, 0, 10]
    assert 'lift: 10 states beyond the position limits' in said(result)
    assert limits['velocity_peak'] == pytest.approx(np.abs(arm.v).max(axis=0))


def test_a_description_without_effort_limits_is_enough(tmp_path):
    arm = RecordedArm(300, xml=arm_xml(effort=0.0))
    result = analyzed(arm.bag(tmp_path / 'bag'))
    assert max(result.figures['effort']['residual_share']) < 1e-8
    assert result.figures['limits']['saturated_ticks'] == []
    assert 'gives no effort limits: saturation is not evaluated' in ' '.join(result.notes)


def test_the_tool_error_is_the_distance_between_the_points_of_pinocchio(tmp_path):
    arm = RecordedArm(400)
    tracking = analyzed(arm.bag(tmp_path / 'bag')).figures['tracking']
    oracle = PinocchioOracle(arm.xml, GRAVITY, NAMES)
    points = [
        [oracle.frame_pose('tool', row)[1] for row in rows] for rows in (arm.q, arm.reference)
    ]
    distance = np.linalg.norm(np.subtract(*points), axis=1)
    assert tracking['tool_rms_mm'] == pytest.approx(1e3 * np.sqrt(np.mean(distance**2)), rel=1e-9)
    assert tracking['tool_peak_mm'] == pytest.approx(1e3 * distance.max(), rel=1e-9)
    assert tracking['rms_error'] == pytest.approx([1e-3, 2e-3, 5e-4], rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize('share', [0.8, 0.6, 0.4])
def test_references_of_a_slow_controller_are_those_of_the_states_it_answered(share, rng, tmp_path):
    arm, messages, answered = RecordedArm(2000), [], 0
    for k, stamp in enumerate(arm.stamps.tolist()):
        messages.append(state(stamp, NAMES, arm.q[k], arm.v[k]))
        if rng.random() < share:
            answered += 1
            messages.append(command(stamp, arm.tau[k]))
            reference = state(stamp, NAMES, arm.reference[k], arm.v[k], topic=REFERENCE)
            messages.append(reference)
    bag = write(tmp_path / 'bag', [text(0, arm.xml), *messages])
    tracking = analyzed(bag).figures['tracking']
    assert tracking['states'] == answered
    assert tracking['rms_error'] == pytest.approx([1e-3, 2e-3, 5e-4], rel=1e-9)
    assert tracking['peak_error'] == pytest.approx([1e-3, 2e-3, 5e-4], rel=1e-9)


PROGRAM = """
name: plane
constraints:
  - {kind: point, name: height, frame: tool, axes: z, target: 0.3, natural_frequency: 10}
"""


def test_constraint_values_are_those_of_the_program_on_the_recorded_states(tmp_path):
    arm = RecordedArm(500)
    result = analyzed(arm.bag(tmp_path / 'bag'), program=_program(tmp_path))
    oracle = PinocchioOracle(arm.xml, GRAVITY, NAMES)
    height = np.array([oracle.frame_pose('tool', q)[1][2] for q in arm.q[::10]]) - 0.3
    program = result.figures['program']
    assert program['rms'] == pytest.approx([np.sqrt(np.mean(height**2))], rel=1e-9)
    assert program['peak'] == pytest.approx([np.abs(height).max()], rel=1e-9)
    assert program['start'] == 0.0
    assert program['evaluations'] == 50


@pytest.mark.slow
def test_the_report_and_the_terminal_show_the_constraints(tmp_path, capsys):
    bag, out = RecordedArm(60).bag(tmp_path / 'bag'), tmp_path / 'out'
    words = ['analyze', str(bag), '--output', str(out), '--program', _program(tmp_path)]
    assert main(words) == 0
    peak = json.loads((out / 'metrics.json').read_text('utf-8'))['program']['peak'][0]
    report = (out / 'report.html').read_text('utf-8')
    assert '<th>constraint of plane</th>' in report
    assert f'<td>{peak:.4g}</td>' in report
    assert f'{peak:.4g}' in capsys.readouterr().out.split('constraint of plane')[1]


def test_a_constant_is_drawn_with_zero_beside_it():
    """Alone in its panel it would appear as zero in its middle."""
    rows = np.linspace(0.0, 1.0, 50)
    values = np.column_stack([np.full(50, -0.02), np.sin(rows), np.zeros(50)])
    figure = panels(rows, ['1', '2', '3'], [PlotLine(values, 'residual', '#000000')])
    low, high = figure.layout.yaxis.range
    assert low < -0.02 < 0.0 < high
    assert figure.layout.yaxis2.range is None
    assert figure.layout.yaxis3.range is None


def test_axes_begin_with_zero_and_limits_flatten_no_curve():
    time = 1.6e9 + np.linspace(0.0, 2.0, 50)
    values = np.column_stack([np.sin(time), 11.0 * np.sin(time)])
    lines = [PlotLine(values, 'effort', '#000000')]
    figure = panels(time, ['low [N m]', 'high [N m]'], lines, limits=[10.0, 10.0])
    assert all(min(trace.x) == 0.0 for trace in figure.data)
    assert figure.layout.xaxis.title.text.startswith('time since 1600000000')
    low, high = figure.layout.yaxis.range
    assert -1.6 < low < high < 1.2, 'a limit ten times as high would flatten the curve'
    lines = {shape.y0 for shape in figure.layout.shapes if shape.type == 'line'}
    assert lines == {-10.0, 10.0}, 'drawn; seen where the curve gets there'
    shares = [note.text for note in figure.layout.annotations if '%' in note.text]
    assert len(shares) == 2
    assert all('of ±10' in text for text in shares)


def test_a_band_below_each_curve_shows_the_share_of_its_limit():
    time = np.linspace(0.0, 2.0, 50)
    values = np.column_stack([-2.0 * np.sin(time), 12.0 * np.sin(time)])
    lines = [PlotLine(values, 'effort', '#000000'), PlotLine(9.0 * values, 'model', '#000000')]
    figure = panels(time, ['low', 'high'], lines, limits=[10.0, 10.0])
    low, high, beyond = (trace for trace in figure.data if trace.fill == 'tozeroy')
    np.testing.assert_allclose(low.y, 0.2 * np.sin(time), rtol=1e-6)
    np.testing.assert_allclose(high.y, np.minimum(1.2 * np.sin(time), 1.0), rtol=1e-6)
    np.testing.assert_array_equal(np.isfinite(beyond.y), 12.0 * np.sin(time) >= 10.0)
    assert (low.xaxis, high.xaxis, beyond.xaxis) == ('x', 'x2', 'x2')
    least = 9.0 * values.min(axis=0)
    for curve, band, lowest in zip(('yaxis', 'yaxis3'), ('yaxis2', 'yaxis4'), least, strict=True):
        bottom, top = figure.layout[curve].range
        assert figure.layout[band].overlaying == curve.replace('axis', '')
        used = 1.0 / figure.layout[band].range[1]  # of the height, by a full band
        assert (lowest - bottom) / (top - bottom) > used, 'no curve runs through the band'


def test_a_long_series_is_drawn_with_few_points_and_all_of_its_peaks():
    time = np.linspace(0.0, 100.0, 100_000)
    values = np.sin(time)[:, np.newaxis]
    values[[4321, 77_777], 0] = 7.0, -9.0
    (trace,) = panels(time, ['q'], [PlotLine(values, 'q', '#000000')]).data
    assert len(trace.x) == len(trace.y) <= 2000
    assert (max(trace.y), min(trace.y)) == (7.0, -9.0)
    assert trace.x[int(np.argmax(trace.y))] == pytest.approx(time[4321], abs=0.1)


def _program(folder: Path) -> str:
    path = folder / 'plane.yaml'
    path.write_text(PROGRAM, encoding='utf-8')
    return str(path)


def test_the_program_of_the_recorded_controller_is_evaluated_by_itself(tmp_path):
    arm = RecordedArm(300)
    parameters = f'law: constraint_stabilization\nprogram: {_program(tmp_path)}\n'
    messages = [text(0, parameters, '/controller/parameters'), *arm.messages()]
    result = analyzed(write(tmp_path / 'bag', messages))
    assert result.figures['program']['program'] == 'plane'
    assert result.figures['tracking'] == {}
    assert 'tracking is not evaluated' in ' '.join(result.notes)


# Files ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_files_tell_the_same_as_the_figures(tmp_path):
    arm = RecordedArm(700)
    folder = tmp_path / 'out'
    folder.mkdir()
    result = analyzed(arm.bag(tmp_path / 'bag'), folder)
    document = json.loads((folder / 'metrics.json').read_text('utf-8'), parse_constant=pytest.fail)
    assert document['effort']['residual_rms'] == result.figures['effort']['residual_rms']
    assert document['joints'] == list(NAMES)
    assert document['findings'][0]['severity'] == 'ok'
    with (folder / 'rows.csv').open(encoding='utf-8') as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 700
    assert float(rows[123]['position.elbow']) == arm.q[123, 1]
    assert float(rows[123]['error.lift']) == pytest.approx(5e-4)
    assert float(rows[123]['effort.shoulder']) == arm.tau[123, 0]
    parts = ('inertia', 'coriolis', 'gravity', 'armature', 'friction')
    total = sum(float(rows[123][f'{part}.shoulder']) for part in parts)
    assert total == pytest.approx(float(rows[123]['model.shoulder']), abs=1e-12)
    assert rows[-1]['residual.shoulder'] == '', 'the last state has no step'
    report = (folder / 'report.html').read_text('utf-8')
    assert 'the model explains the efforts' in report
    assert 'src="http' not in report.split('<script', 1)[0]
    assert '<link' not in report, 'it needs no network'
    assert report.count('<h2>') == 9, 'events and eight plots'


def test_the_table_holds_no_more_rows_than_asked_for(tmp_path):
    bag = RecordedArm(1000).bag(tmp_path / 'bag')
    folder = tmp_path / 'out'
    folder.mkdir()
    result = analyze_bag(bag, AnalysisSettings(rows=300, report=False), folder)
    lines = (folder / 'rows.csv').read_text('utf-8').splitlines()
    assert len(lines) == 1 + 250
    assert result.figures['rows_csv_every'] == 4
    assert [line.split(',')[0] for line in lines[1:4]] == ['0.0', '0.004', '0.008']
    assert not (folder / 'report.html').exists()


def test_parquet_holds_every_row(tmp_path):
    folder = tmp_path / 'out'
    folder.mkdir()
    arm = RecordedArm(500)
    analyze_bag(arm.bag(tmp_path / 'bag'), AnalysisSettings(rows=100), folder)
    table = pq.read_table(folder / 'rows.parquet')
    assert table.num_rows == 500
    assert table['position.elbow'].to_pylist() == arm.q[:, 1].tolist()


@pytest.mark.slow
def test_tables_written_in_parts_are_those_written_at_once(tmp_path, monkeypatch):
    """Also if a part is no multiple of the rows left out; the curves are those of the whole."""
    bag = RecordedArm(3000).bag(tmp_path / 'bag')
    texts, written = [], []
    monkeypatch.setattr(analysis, 'analysis_figures', lambda _, curves, __: written.append(curves))
    monkeypatch.setattr(analysis, 'run_events', lambda *_: [])
    monkeypatch.setattr(Report, 'write', lambda *_: None)
    for block in (1 << 15, 64):
        monkeypatch.setattr(analysis, '_BLOCK', block)
        folder = tmp_path / str(block)
        folder.mkdir()
        analyze_bag(bag, AnalysisSettings(rows=1000), folder)
        texts.append((folder / 'rows.csv').read_bytes())
        table = pq.read_table(folder / 'rows.parquet')
        written[-1] |= {f'{name} of the table': table[name] for name in table.column_names}
    assert texts[0] == texts[1]
    for (name, parts), (_, whole) in zip(written[1].items(), written[0].items(), strict=True):
        np.testing.assert_array_equal(parts, whole, err_msg=name)


def test_a_window_is_evaluated_alone_and_an_empty_one_is_refused(tmp_path):
    bag = RecordedArm(1000).bag(tmp_path / 'bag')
    choice = RobotChoice(span=(0.2, 0.4))
    assert analyzed(bag, robot=choice).figures['rates']['states'] == 201
    with choice.read(bag) as reader:
        part = choice.run(reader, choice.load(reader))
    assert part.time[[0, -1]].tolist() == [0.2, 0.4]
    with pytest.raises(RecordingError, match='from 5 s to 6 s: holds no state'):
        analyzed(bag, robot=RobotChoice(span=(5.0, 6.0)))


def test_joints_of_other_names_are_matched_by_a_list(tmp_path):
    arm = RecordedArm(300)
    messages = arm.messages(description=False)
    for message in messages:
        if hasattr(message.content, 'name'):
            message.content.name = ['left/1', 'left/2', 'left/3']
    bag = write(tmp_path / 'bag', messages)
    xml = str(_file(tmp_path, arm.xml))
    with pytest.raises(RecordingError, match='shoulder, .* have no states; recorded are left/1'):
        analyzed(bag, robot=RobotChoice(robot=xml))
    names = ('left/1', 'left/2', 'left/3')
    result = analyzed(bag, robot=RobotChoice(robot=xml, recorded_joints=names))
    assert max(result.figures['effort']['residual_share']) < 1e-8
    with pytest.raises(RecordingError, match='are 2, the robot has 3'):
        analyzed(bag, robot=RobotChoice(robot=xml, recorded_joints=names[:2]))


def test_a_bag_without_a_description_says_what_to_give(tmp_path):
    bag = RecordedArm(50).bag(tmp_path / 'bag', description=False)
    with pytest.raises(
        RecordingError, match='no robot description; give --robot or --description'
    ):
        analyzed(bag)
