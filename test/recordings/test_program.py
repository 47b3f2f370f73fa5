# SPDX-License-Identifier: Apache-2.0
"""Recorded constraint programs: their designed decay, and their clock, which is the controller's.

It does not depend on the part that is evaluated.
"""

from __future__ import annotations

import numpy as np
import pytest
import yaml
from bags import SECOND, STORE, Message, text
from recorded_loop import CHANGES, GIVEN, PARAMETERS, RecordedLoop

from robot_dynamics_ros.recordings.metrics.program import decay

STEPS = 2400
PROGRAM = {'law': 'constraint_stabilization', 'program': 'scara_circle', 'lead_in': 0.25}


def test_a_deviation_is_a_share_of_the_largest_start_in_its_unit():
    time = np.linspace(0.0, 1.0, 5)
    design = np.array([0.2, 0.1, 5e-17]) * np.exp(-2.0 * time[:, None])
    f = design.copy()
    f[2] += [0.01, 0.02, 0.03]
    found = decay(['x (m)', 'y (m)', 'pitch (rad)'], f, design)
    np.testing.assert_allclose(found['relative'][:2], [0.01 / 0.2, 0.02 / 0.2], rtol=1e-9)
    assert np.isnan(found['relative'][2])  # no radian at the start, so no share of it
    np.testing.assert_allclose(found['deviation'], [0.01, 0.02, 0.03], rtol=1e-9)
    np.testing.assert_allclose(found['floor'], np.abs(f[-1]), rtol=1e-9)


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
    damaged = yaml.safe_dump({**loop.given, 'activation_ramp_s': '0,2 s'})
    loop.messages[1] = text(loop.messages[1].time, damaged, PARAMETERS)
    figures = command('analyze --no-report', loop.messages).figures['program']
    assert max(figures['relative']) > 0.1  # as of a controller without a ramp


@pytest.mark.slow
def test_the_program_begins_after_the_motion_to_its_start(loop, command):
    bag = command.word(loop.messages)
    ended = command('analyze --no-report', bag)
    whole = ended.figures['program']
    begin = float(loop.session.loop.law.status()['program_start_s'])
    assert whole['start'] == pytest.approx(begin, abs=1e-6)
    assert begin > 0.5
    assert 'singularity' not in ended.said
    part = command('analyze --no-report --from 2.0', bag).figures['program']
    assert part['start'] == whole['start']
    # What is left of the initial error; with the clock from the first command or from 2 s it is
    # a tenth of a metre, which the circle covers in that time.
    assert max(part['rms']) < 1e-3


@pytest.mark.slow
def test_the_diagnostics_of_the_controller_tell_the_start(loop, command):
    """A recorder that was started late knows it from them only."""
    T = STORE.types
    begin = loop.session.loop.law.status()['program_start_s']
    pair = T['diagnostic_msgs/msg/KeyValue'](key='program_start_s', value=begin)
    status = T['diagnostic_msgs/msg/DiagnosticStatus'](
        level=0, name='controller: law', message='', hardware_id='scara', values=[pair]
    )
    stamp = T['builtin_interfaces/msg/Time'](sec=2, nanosec=0)
    header = T['std_msgs/msg/Header'](stamp=stamp, frame_id='')
    message = T['diagnostic_msgs/msg/DiagnosticArray'](header=header, status=[status])
    late = [m for m in loop.messages if m.time > 1.5 * SECOND or m.time == 0]
    late.append(
        Message('/diagnostics', 2 * SECOND, 'diagnostic_msgs/msg/DiagnosticArray', message)
    )
    figures = command('analyze --no-report', late).figures['program']
    assert figures['start'] == pytest.approx(float(begin))
    assert max(figures['rms']) < 1e-3


@pytest.fixture(scope='module')
def deactivated():
    """The run with further states, in which the controller is deactivated."""
    given = {**GIVEN, **PROGRAM, 'lead_in': 0.0}
    return RecordedLoop(given, behind={300: RecordedLoop.deactivate}).run(1600)


def _without(messages, topic):
    return [message for message in messages if message.topic != topic]


@pytest.mark.slow
@pytest.mark.parametrize('log', [True, False], ids=['log', 'commands'])
def test_the_program_ends_with_the_controller(deactivated, command, log):
    """Afterwards nothing leads the arm: it was a tenth of a metre off, in the last quarter."""
    messages = deactivated.messages if log else _without(deactivated.messages, CHANGES)
    found = command('analyze --no-report', messages)
    ended = float(found.said.partition('is evaluated until ')[2].partition(' s')[0])
    if log:
        assert ended == pytest.approx(0.301, abs=1e-6)
        assert 'the controller was deactivated' in found.said
    else:  # the last command that brakes the arm
        assert 0.301 < ended < 1.5
        assert 'there are no more commands' in found.said
    whole = found.figures['program']
    cut = command(f'analyze --no-report --to {ended - 5e-4}', messages)
    part = cut.figures['program']
    assert 'is evaluated until' not in cut.said
    assert whole['evaluations'] == part['evaluations']
    for figure in ('rms', 'peak', 'floor', 'deviation'):
        np.testing.assert_allclose(whole[figure], part[figure], rtol=1e-6, err_msg=figure)


@pytest.mark.slow
@pytest.mark.parametrize(
    ('event', 'why'),
    [
        (lambda loop: loop.change(law='computed_torque'), 'its law or program was changed'),
        (lambda loop: loop.change(program='scara_press'), 'its law or program was changed'),
        (lambda loop: loop.recover(), 'the stop action acted'),
        (lambda loop: loop.change(limit_effort=False), ''),
        (lambda loop: loop.hold(), ''),
    ],
    ids=['law', 'program', 'silence', 'parameter of the law', 'hold'],
)
def test_the_program_ends_where_its_law_does(command, event, why):
    """A parameter that the law takes as it acts, or a held reference, does not end it."""
    given = {**GIVEN, **PROGRAM, 'lead_in': 0.0}
    loop = RecordedLoop(given, behind={300: event}).run(600)
    found = command('analyze --no-report', loop.messages)
    told = 'is evaluated until 0.301 s only: then ' + why
    assert (told in found.said) if why else ('is evaluated until' not in found.said)
    assert found.figures['program']['evaluations'] == (31 if why else 60)


@pytest.mark.slow
@pytest.mark.parametrize('reaction', ['stop', 'float'])
def test_the_program_ends_where_the_arm_reacts_to_a_contact(command, reaction):
    """Only the end was logged: the way of an arm that was pushed aside was an error of f."""
    given = {**GIVEN, **PROGRAM, 'lead_in': 0.0, 'contact_reaction': reaction}
    pushed = {300: lambda loop: loop.push((-60.0, 0.0, 0.0))}
    loop = RecordedLoop(given, behind={**pushed, 500: lambda loop: loop.go_on()}).run(600)
    found = command('analyze --no-report', loop.messages)
    end, _, why = found.said.partition('is evaluated until ')[2].partition(' s only: then ')
    assert why.startswith('the arm reacted to a contact')
    assert 0.301 < float(end) < 0.33  # the reaction begins in the tick after the contact
    assert found.figures['program']['evaluations'] == np.ceil(float(end) / 0.01)
