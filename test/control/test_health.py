# SPDX-License-Identifier: Apache-2.0
"""Periods without a command are counted, and the worst latency is reported."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tables
from samples import sample
from still_arm import MS, StillArm

from robot_dynamics_ros.control.health import SessionHealth
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.recordings.lockstep import SessionOnPlant
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant


def test_missed_periods_add_up_and_the_worst_latency_is_of_each_report():
    session = ControllerSession(sample('scara').tree, {'robot': 'scara', 'period': 0.001})
    health, stamp = SessionHealth(), 0
    for k, skipped in enumerate([0, 0, 3, 0, 1, 0]):
        stamp += (1 + skipped) * MS + 100_000 * (k % 2)  # jitter is not a loss
        health.count(stamp, 20_000 + 5_000 * k)
    values = health.report(session).values
    assert values['missed_periods'] == 4
    assert values['latency_worst_us'] == '45'
    for latency in (30_000, 20_000):
        stamp += MS
        health.count(stamp, latency)
    values = health.report(session).values
    assert values['missed_periods'] == 4
    assert [values[f'latency_{name}_us'] for name in ('p50', 'p99', 'worst')] == ['20', '30', '30']


class Answered(StillArm):
    """An active session whose answers are counted."""

    def __init__(self, law: str = 'computed_torque', period: float = 0.001) -> None:
        given = {'robot': 'scara', 'period': period, 'law': law}
        super().__init__(ControllerSession(sample('scara').tree, given), [0.2, 1.0, 0.1, 0.0])
        self.health = SessionHealth()
        self.active()

    def state(self, *state: Any, **given: Any) -> bool:
        answered = super().state(*state, **given)
        if answered:
            self.health.count(self.stamp, 20_000)
        return answered

    def report(self, periods: int, count: int = 100):
        for _ in range(count):
            self.state(step=periods * MS)
        return self.health.report(self.session)

    def logged(self) -> list[str]:
        texts = self.said('warning')
        self.session.remarks.clear()
        return texts


def test_missing_commands_are_said_once_in_the_log_and_always_in_the_diagnostics():
    run = Answered()
    assert run.report(1).level == 'ok'
    for again in (False, True):
        found = run.report(3)
        assert found.level == 'warning'
        assert found.message.startswith('67% of the periods of 1 ms have no command: control may')
        assert 'lockstep' in found.message
        assert len(run.logged()) == (not again)
    run.wait(5000)
    assert run.health.report(run.session).level == 'error'
    run.state(step=5000 * MS)  # a pause is no missing command, and no jump of the time
    assert run.report(1).level == 'ok'
    assert [text[:19] for text in run.logged()] == ['fresh states again:']
    run.session.deactivate()
    run.health.report(run.session)
    run.session.activate(run.stamp)
    run.report(3)
    assert [text[:3] for text in run.logged()] == ['67%']


@tables.rows(
    'off step said',
    """
0.3, 1, "joint 'joint1' jumped by 0.3 rad within 2 ms, which its velocities do not expl"
0.3, 20, "joint 'joint1' jumped by 0.3 rad within 21 ms, which"
0.0, -3_600_000, 'the timestamps on joint_states jumped back by 3.6e+03 s: check use'
0.0, 3_600_000, 'the timestamps on joint_states jumped ahead by 3.6e+03 s: check use_s'
""",
)
def test_a_jump_is_said_once_and_a_single_outlier_is_dropped(off, step, said):
    run = Answered()
    run.report(step if off else 1)
    run.logged()
    answers = run.session.answers
    if off:
        run.state(run.q + np.array([off, 0.0, 0.0, 0.0]), step=step * MS)
        run.state(step=step * MS)
        assert run.session.answers == answers + 1
        run.health.report(run.session)
        assert not any('jumped' in text for text in run.logged())
    for _ in range(2):
        run.q = run.q + np.array([off, 0.0, 0.0, 0.0])
        run.state(step=step * MS)
        run.report(1)
    assert [text[: len(said)] for text in run.logged() if 'jumped' in text] == [said]


def test_an_arm_far_from_its_reference_is_said_once_unless_its_law_yields():
    for law, said in (('computed_torque', True), ('gravity_compensation', False)):
        run = Answered(law)
        run.report(1)
        run.session.loop.reference.position[2] += 0.2
        for found in (run.health.report(run.session) for _ in range(2)):
            assert (found.level == 'warning') is said
            text = 'joint3 is 0.2 m from its reference: control is lost'
            assert (text in found.message) is said
        assert len(run.logged()) == said


@pytest.mark.parametrize(('measured', 'moves'), [(True, True), (False, True), (False, False)])
def test_a_driver_that_measures_no_velocity_is_said_once_the_arm_moves(measured, moves):
    run, reference = Answered(), None
    run.move(5.0, run.q + np.array([0.0, 1.0, 0.0, 0.0]))
    reference, found = run.session.loop.reference, []
    for k in range(3000):
        run.state(v=reference.velocity * measured)
        run.q = reference.position.copy() if moves else run.q
        if k % 500 == 499:
            found.append(run.health.report(run.session).message)
    texts = [text for text in run.logged() if 'velocity' in text]
    assert [text[:21] for text in texts] == ['joint2 has moved by 0'] * (moves and not measured)
    assert ('its velocity on joint_states is 0, so that' in found[-1]) is bool(texts)


PROGRAM = """
constraints: [{kind: point, frame: tool, axes: xy, target: TARGET}]
null_space: {damping: 6, stiffness: 9}
"""


def programmed(target: str, begin: Any, **plant: Any) -> SessionOnPlant:
    """Return an arm under a program at a position, on a plant with changes."""
    tree, given = sample('scara').tree, {'robot': 'scara', 'law': 'constraint_stabilization'}
    session = ControllerSession(tree, given | {'program': PROGRAM.replace('TARGET', target)})
    arm = SessionOnPlant(session, MujocoPlant(tree.with_changes(**plant)))
    arm.plant.reset(np.array(begin))
    return arm


@pytest.mark.slow
@tables.rows(
    'rate friction begin said',
    """
0.018, 0.0, [-0.3, 1.2, 0.1, 0.0], which is singular or out of reach there
0.0, 60.0, [0.9, 0.4, 0.1, 0.0], 'and by the model nothing hinders it: check payload, friction'
0.0, 0.0, [0.9, 0.4, 0.1, 0.0], ''
""",
)
def test_an_arm_that_does_not_follow_its_program_is_said_once(rate, friction, begin, said):
    target = f'{{linear: {{from: [0.4, 0.1], rate: [{rate}, 0]}}}}'
    arm = programmed(target, begin, coulomb_friction=np.full(4, friction))
    health = SessionHealth()
    arm.activate()
    for _ in range(19 if rate else 3):
        arm.settle(1.0)
        report = health.report(arm.session)
    assert (report.level == 'warning') is bool(said)
    texts = [remark.text for remark in arm.session.remarks if remark.level == 'warning']
    assert len(texts) == bool(said)
    assert all(said in text and text.startswith('point: tool ') for text in texts)


def test_states_of_a_slow_driver_and_of_a_second_publisher_are_said_once():
    """Of 500 Hz with news at 50 Hz; and zeros between the states, which are refused."""
    run = Answered(period=0.002)
    for k in range(1, 401):
        v = np.array([0.4, 0.0, 0.0, 0.0])
        run.state(run.q + 0.02 * (k // 10) * v, v, step=(1 if k > 201 else 2) * MS)
        if k > 200:
            run.state(run.v, step=MS)
        if k % 100 == 0:
            run.health.report(run.session)
    texts = run.said('warning')
    slow = [text for text in texts if 'repeat one of up to 18 ms before' in text]
    second = [text for text in texts if 'as of a second publisher on joint_states' in text]
    assert (len(slow), len(second)) == (1, 1), texts


def test_states_that_are_all_refused_are_said_before_the_timeout_and_name_the_joint():
    run, speed = Answered(), np.array([0.0, 0.0, -22.0, 0.0])  # its limit is 1.1 m/s
    run.report(1)
    run.logged()
    for _ in range(2):
        assert not run.state(v=speed)
        found = run.health.report(run.session)
        assert found.level == 'warning'
    (said,) = run.logged()
    assert said == found.message
    assert said.endswith('are refused, implausible: joint3 moves at -22, 20 times its limit')
    assert run.wait()
    assert '(last one refused: implausible: joint3 moves at -22, 20 times' in run.said()[-1]
    run.state()
    run.report(1)
    assert run.health.report(run.session).level == 'ok'


@tables.rows(
    'kind i x said',
    """
v, 2, .nan, 'not finite: the velocity of joint3 is nan'
q, 3, -.inf, 'not finite: the position of joint4 is -inf'
q, 1, 0.3, 'jumped: joint2 by 0.3 in 1 ms, 0 by its velocities'
v, 0, 60.0, 'jumped: joint1 by 0 in 1 ms, 0.03 by its velocities'
""",
)
def test_a_refused_state_is_told_with_the_number_that_is_wrong(kind, i, x, said):
    run = Answered()
    wrong = {'q': run.q.copy(), 'v': run.v.copy()}
    wrong[kind][i] += x
    assert not run.state(**wrong)
    assert run.wait()
    assert f'(last one refused: {said})' in run.said()[-1]
    assert run.state()
    assert run.session.loop.state.validator.culprit == ''


def test_the_start_of_a_program_is_told_on_the_clock_of_the_states():
    """The viewer and ``analyze`` compare it with timestamps, which rarely begin at 0."""
    given = {'robot': 'scara', 'period': 0.001, 'law': 'constraint_stabilization'}
    given |= {'program': 'scara_circle', 'lead_in': 0.0}
    session = ControllerSession(sample('scara').tree, given)
    arm = StillArm(session, [-0.3, 1.28, 0.1, 0.9], 1_700_000_000 * 1000 * MS)
    arm.state()
    assert 'program_start_s' not in SessionHealth().report(session).values
    arm.now = 0  # another clock
    arm.state(step=2500 * MS)
    session.activate(arm.now)
    values = SessionHealth().report(session).values
    start = float(values['program_start_s'])
    assert values['following'] == 'program'
    assert start == pytest.approx(arm.stamp / 1e9, abs=1e-5, rel=0.0)


@pytest.mark.slow
def test_the_end_of_a_program_is_told_once_and_again_of_the_next_activation():
    target = '{line: {from: [0.4, 0.1], to: [0.45, 0.1]}, duration: 0.5}'
    arm, health = programmed(target, [0.9, 0.4, 0.1, 0.0]), SessionHealth()
    session = arm.session
    for times in (1, 2):
        arm.activate()
        for _ in range(30):
            arm.settle(0.1)
            health.report(session)
        told = [remark.text for remark in session.remarks if 'has ended' in remark.text]
        assert len(told) == times
        assert f'{told[-1].partition(": ")[0][-7:-2]}' in session.loop.law.start(
            session.loop.state.origin
        )
        session.deactivate()
        health.report(session)


def test_an_arm_that_is_moved_by_hand_follows_nothing():
    values = Answered('gravity_compensation').report(1).values
    assert values['following'] == 'nothing'
