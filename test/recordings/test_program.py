# SPDX-License-Identifier: Apache-2.0
"""Recorded constraint programs: their designed decay, and their clock, which is the controller's.

It does not depend on the part that is evaluated.
"""

import numpy as np
import pytest
import yaml
from bags import SECOND, STORE, Message, header, text
from numpy.testing import assert_allclose
from recorded_arm import RecordedArm, arm_xml, write_run
from recorded_loop import CHANGES, GIVEN, PARAMETERS, RecordedLoop, event

from robot_dynamics_ros.control.health import SessionHealth
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.recordings.metrics.analysis import AnalysisSettings, analyze_bag
from robot_dynamics_ros.recordings.metrics.program import decay

STEPS = 2400
PROGRAM = {'law': 'constraint_stabilization', 'program': 'scara_circle', 'lead_in': 0.25}


def test_a_deviation_is_a_share_of_the_largest_start_in_its_unit():
    time = np.linspace(0.0, 1.0, 5)
    design = np.array([0.2, 0.1, 5e-17]) * np.exp(-2.0 * time[:, None])
    f = design.copy()
    f[2] += [0.01, 0.02, 0.03]
    found = decay(['x (m)', 'y (m)', 'pitch (rad)'], f, design)
    assert_allclose(found['relative'][:2], [0.01 / 0.2, 0.02 / 0.2], rtol=1e-9)
    assert np.isnan(found['relative'][2])  # no radian at the start, so no share of it
    assert_allclose(found['deviation'], [0.01, 0.02, 0.03], rtol=1e-9)


@pytest.fixture(scope='module')
def loop():
    """A run that first moves to the start of the circle: that takes most of a second."""
    return RecordedLoop({**GIVEN, **PROGRAM}, activated=120).run(STEPS)


@pytest.mark.slow
def test_the_designed_decay_begins_when_the_law_acts_alone(command):
    """Until then its effort is blended in, over 0.2 s: it lags behind by a fifth of the start."""
    loop = RecordedLoop({**GIVEN, **PROGRAM, 'lead_in': 0.0}).run(900)
    figures = command('analyze --no-report', loop.messages).figures['program']
    assert max(map(abs, figures['initial'])) > 0.1
    assert max(figures['relative']) < 5e-3
    assert (
        'relative'
        not in command('analyze --no-report --to 0.15', loop.messages).figures['program']
    )
    damaged = yaml.safe_dump({**loop.given, 'activation_ramp_s': '0,2 s'})
    loop.messages[1] = text(loop.messages[1].time, damaged, PARAMETERS)
    figures = command('analyze --no-report', loop.messages).figures['program']
    assert max(figures['relative']) > 0.1  # as of a controller without a ramp


def test_the_last_quarter_is_that_of_the_motion_and_its_end_is_told(tmp_path):
    """The target stands at 0 for 0.3 s, so f are the positions; they are evaluated each 10 ms.

    The elbow has turned twice before, which a program does not unwind.
    """
    ends = 'name="elbow" type="{}"'.format
    arm = RecordedArm(600, xml=arm_xml().replace(ends('revolute'), ends('continuous')))
    floor = np.sqrt(np.mean(arm.q[240:301:10] ** 2, axis=0))
    arm.q[:, 1] += 4.0 * np.pi
    program = """{name: rest, constraints: [{kind: joint_program, name: posture,
        natural_frequency: 9,
        position: {waypoints: {times: [0, 0.3], points: [[0, 0, 0], [0, 0, 0]]}}}]}"""
    settings = AnalysisSettings(program=program, program_start=0.0)
    result = analyze_bag(write_run(tmp_path / 'bag', arm.recording()), settings)
    found = result.figures['program']
    assert found['end'] == pytest.approx(0.3)
    assert_allclose(found['floor'], floor, rtol=1e-9)
    moves = 'the program moves from 0.000 s to 0.300 s: --from 0.000 --to 0.300'
    assert moves in result.report.notes


def test_a_tree_is_not_judged_by_the_efforts_of_a_loop_that_the_program_closes(tmp_path):
    """The load of the last link was called another mass: the loop bears it."""
    arm = RecordedArm(600)
    program = """{passive: [lift], constraints: [
        {kind: joint_program, joints: [lift], position: [0.1], mechanical: true}]}"""
    arm.tau[:, 2] = 0.0
    bag = write_run(tmp_path / 'bag', arm.recording())
    with pytest.raises(ConfigurationError, match=r'--program-start: .* ran no program'):
        analyze_bag(bag, AnalysisSettings(program_start=0.0))
    for given in ({}, {'program': program, 'program_start': 0.0}):
        said = str(analyze_bag(bag, AnalysisSettings(**given)).report.findings)
        assert ('no effort acts' in said) is not bool(given)
        assert ('closes a loop: no verdict' in said) is bool(given)


@pytest.mark.slow
def test_the_program_begins_after_the_motion_to_its_start(loop, command):
    bag = command.word(loop.messages)
    ended = command('analyze --no-report', bag)
    whole = ended.figures['program']
    begin = float(loop.session.loop.law.status()['program_start_s'])
    assert whole['start'] == pytest.approx(begin, abs=1e-6)
    assert begin > 0.5
    assert 'singularity' not in ended.said
    assert 'most off its decay' in ended.said
    assert max(whole['deviation']) < 1e-3
    part = command('analyze --no-report --from 2.0', bag).figures['program']
    assert part['start'] == whole['start']
    # What is left of the initial error; with the clock from the first command or from 2 s it is
    # a tenth of a metre, which the circle covers in that time.
    assert max(part['rms']) < 1e-3
    # No start is left from which f could decay: its errors, and their rates, are of the motion.
    assert 'relative' in whole
    assert not {'initial', 'deviation', 'relative'} & part.keys()


@pytest.mark.slow
def test_the_controller_names_the_times_of_the_states_as_options_take_them(command):
    """Its own clock starts with the first state that it sees, here a tenth of a second later."""
    unseen = tuple(range(100))
    loop = RecordedLoop({**GIVEN, **PROGRAM}, activated=120, unseen=unseen).run(1200)
    found = command('analyze --no-report', loop.messages).figures['program']
    told = next(x.text for x in loop.session.remarks if x.text.startswith('active: '))
    assert f'begins at t = {found["start"]:.3f} s' in told
    status = SessionHealth().report(loop.session).values
    assert told == f'active: constraint_stabilization; {status["start"]}'


@pytest.mark.slow
def test_the_diagnostics_of_the_controller_tell_the_start(loop, command):
    """A recorder that was started late knows it from them only."""
    begin, kind = loop.session.loop.law.status()['program_start_s'], 'diagnostic_msgs/msg/'
    T, statuses = STORE.types, []
    for name, value in (('other/controller', '0.1'), ('controller', begin)):  # of two robots
        pair = T[f'{kind}KeyValue'](key='program_start_s', value=value)
        told = f'{name}: control loop', '', 'scara', [pair]
        statuses.append(T[f'{kind}DiagnosticStatus'](0, *told))
    message = T[f'{kind}DiagnosticArray'](header(2 * SECOND), statuses)
    late = [m for m in loop.messages if m.time > 1.5 * SECOND or m.time == 0]
    late.append(Message('/diagnostics', 2 * SECOND, f'{kind}DiagnosticArray', message))
    figures = command('analyze --no-report', late).figures['program']
    assert figures['start'] == pytest.approx(float(begin))
    assert max(figures['rms']) < 1e-3


@pytest.mark.slow
def test_without_a_log_the_program_ends_with_the_commands(command):
    """Afterwards nothing leads the arm: it was a tenth of a metre off, in the last quarter."""
    given = {**GIVEN, **PROGRAM, 'lead_in': 0.0}
    loop = RecordedLoop(given, behind={300: RecordedLoop.deactivate}).run(1600)
    messages = [message for message in loop.messages if message.topic != CHANGES]
    found = command('analyze --no-report', messages)
    end, _, why = found.said.partition('is evaluated until ')[2].partition(' s only: then ')
    assert why.startswith('there are no more commands')
    assert 0.301 < float(end) < 1.5  # with the last command that brakes the arm
    cut = command(f'analyze --no-report --to {float(end) - 5e-4}', messages)
    assert 'is evaluated until' not in cut.said
    whole, part = (ended.figures['program'] for ended in (found, cut))
    for figure in ('evaluations', 'rms', 'peak', 'floor', 'deviation'):
        assert_allclose(whole[figure], part[figure], rtol=1e-6, err_msg=figure)


#: Further parameters, events, why the program ends, and when at the latest. A parameter that the
#: law takes as it acts, or a held reference, does not end it; a reaction does in the tick after
#: the contact.
ENDS = yaml.safe_load("""
deactivation: [{}, {300: deactivate}, the controller was deactivated, 0.301]
program: [{}, {300: {change: {program: scara_press}}}, its law or program was changed, 0.301]
silence: [{}, {300: recover}, the stop action acted, 0.301]
parameter of the law: [{}, {300: {change: {limit_effort: false}}}, '', 0.45]
hold: [{}, {300: hold}, '', 0.45]
float: [{contact_reaction: float}, {300: [push, [-60.0, 0.0, 0.0]]},
        the arm reacted to a contact, 0.33]
""")


@pytest.mark.slow
@pytest.mark.parametrize('kind', ENDS)
def test_the_program_ends_where_its_law_does(command, kind):
    given, events, why, latest = ENDS[kind]
    behind = {step: event(spec) for step, spec in events.items()}
    given = {**GIVEN, **PROGRAM, 'lead_in': 0.0, **given}
    found = command('analyze --no-report', RecordedLoop(given, behind=behind).run(450).messages)
    end, _, told = found.said.partition('is evaluated until ')[2].partition(' s only: then ')
    assert told.startswith(why)
    end = float(end) if why else 0.45
    assert 0.301 <= end <= latest
    assert found.figures['program']['evaluations'] == np.ceil(end / 0.01)
    assert ('is evaluated until' in found.said) == bool(why)
