# SPDX-License-Identifier: Apache-2.0
"""Periods without a command are counted, and the worst latency is reported."""

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


def test_missed_periods_add_up_and_latencies_are_of_each_report():
    session = ControllerSession(sample('scara').tree, {'robot': 'scara', 'period': 0.001})
    health, stamp, found = SessionHealth(), 0, []
    for latency, steps in ((45, [1, 1.1, 4, 0.9, 2, 1]), (30, [1, 1, 1e6, 1])):
        # Jitter is not a loss, nor is a pause or a jump of the time.
        for k, step in enumerate(steps):
            stamp += round(step * MS)
            health.count(stamp, 1000 * (latency - 10 * (k % 2)))
        values = health.report(session).values
        found.append([values['missed_periods'], values['latency_p50_us']])
        found[-1].append(values['latency_worst_us'])
    assert found == [[4, '35', '45'], [4, '20', '30']]


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

    def report(self, periods: int = 1, count: int = 100):
        for _ in range(count):
            self.state(step=periods * MS)
        return self.health.report(self.session)

    def logged(self) -> list[str]:
        texts = self.said('warning')
        self.session.remarks.clear()
        return texts


def test_missing_commands_are_said_once_in_the_log_and_always_in_the_diagnostics():
    run, said = Answered(), '67% of the periods of 1 ms have no command: control may'
    assert run.report().level == 'ok'
    for again in (False, True):
        found = run.report(3)
        assert (found.level, found.message[: len(said)]) == ('warning', said)
        assert len(run.logged()) == (not again)
    run.wait(5000)
    assert run.health.report(run.session).level == 'error'
    run.state(step=5000 * MS)  # a pause is no missing command, and no jump of the time
    assert run.report().level == 'ok'
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
0.0, -3_600_000, 'the timestamps on joint_states jumped back by 3.6e+03 s: check use'
0.0, 3_600_000, 'the timestamps on joint_states jumped ahead by 3.6e+03 s: check use_s'
""",
)
def test_a_jump_is_said_once_and_a_single_outlier_is_dropped(off, step, said):
    run, way = Answered(), np.array([off, 0.0, 0.0, 0.0])
    run.report()
    run.state(run.q + way)  # an outlier
    run.report()
    assert not any('jumped' in text for text in run.logged())
    for _ in range(2):
        run.q = run.q + way
        run.state(step=step * MS)
        run.report()
    assert [text[: len(said)] for text in run.logged() if 'jumped' in text] == [said]


def test_an_arm_far_from_its_reference_is_said_once_unless_its_law_yields():
    for law, said in (('computed_torque', True), ('gravity_compensation', False)):
        run = Answered(law)
        run.session.loop.reference.position[2] += 0.2
        found = [run.health.report(run.session) for _ in range(2)]
        assert [one.level == 'warning' for one in found] == [said] * 2
        text = 'joint3 is 0.2 m from its reference: control is lost; check model, order of the'
        assert [x.startswith(text) for x in run.logged()] == [True] * said


@pytest.mark.parametrize(('measured', 'moves'), [(True, True), (False, True), (False, False)])
def test_a_driver_that_measures_no_velocity_is_said_once_the_arm_moves(measured, moves):
    run = Answered()
    run.move(5.0, run.q + np.array([0.0, 1.0, 0.0, 0.0]))
    reference, said = run.session.loop.reference, moves and not measured
    for k in range(3000):
        run.state(v=reference.velocity * measured)
        run.q = reference.position.copy() if moves else run.q
        if k % 500 == 499:
            message = run.health.report(run.session).message
    texts = [text for text in run.logged() if 'velocity' in text]
    assert [text[:21] for text in texts] == ['joint2 has moved by 0'] * said
    assert ('its velocity on joint_states is 0, so that' in message) is said


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


@tables.rows(
    'kind i x said',
    """
v, 2, -22.0, 'implausible: joint3 moves at -22, 20 times its limit'
v, 2, .nan, 'not finite: the velocity of joint3 is nan'
q, 3, -.inf, 'not finite: the position of joint4 is -inf'
q, 1, 0.3, 'jumped: joint2 by 0.3 in 1 ms, 0 by its velocities'
v, 0, 60.0, 'jumped: joint1 by 0 in 1 ms, 0.03 by its velocities'
""",
)
def test_states_that_are_refused_are_told_with_the_number_that_is_wrong(kind, i, x, said):
    """Before the timeout, once, unless they may be outliers."""
    run = Answered()
    run.report()
    wrong = {'q': run.q.copy(), 'v': run.v.copy()}
    wrong[kind][i] += x
    assert not run.state(**wrong)
    for _ in range(2):
        run.health.report(run.session)
    texts = [f'no command: the states on joint_states are refused, {said}'] * ('jump' not in said)
    assert run.logged() == texts
    assert run.wait()
    assert f'(last one refused: {said}' in run.said()[-1]
    run.state()
    assert run.report().level == 'ok'


@pytest.mark.slow
def test_the_begin_and_the_end_of_a_program_are_told_on_the_clock_of_the_states():
    """Viewer and ``analyze`` compare them with timestamps, which rarely begin at 0."""
    target = '{line: {from: [0.4, 0.1], to: [0.45, 0.1]}, duration: 0.5}'
    arm, health = programmed(target, [0.9, 0.4, 0.1, 0.0]), SessionHealth()
    session = arm.session
    assert 'program_start_s' not in health.report(session).values
    for times in (1, 2):
        arm.now_ns += 1_700_000_000_000 * MS
        arm.activate()
        values = health.report(session).values
        assert values['following'] == 'program'
        start = session.activated_ns / 1e9
        assert float(values['program_start_s']) == pytest.approx(start, abs=1e-5, rel=0.0)
        told = [remark.text for remark in session.remarks if 'its motion ends' in remark.text]
        assert len(told) == times
        assert told[-1].endswith(f'at t = {start + 0.5:.3f} s')
        session.deactivate()
        health.report(session)
