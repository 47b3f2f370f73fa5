# SPDX-License-Identifier: Apache-2.0
"""When an action goal has succeeded, failed, or continues, and what is said of it."""

import math
import re
from types import SimpleNamespace as Message

import numpy as np
import pytest
import tables
import yaml
from followed_arm import Arm, duration, rest

from robot_dynamics_ros.control.goals import (
    TrajectoryWatch,
    goal_time,
    tolerances,
)
from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.control.trajectories.points import read_trajectory
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.errors import ConfigurationError, RefusedGoalError, RobotDynamicsError

JOINTS = ('shoulder', 'slide')
ANY = (math.inf, math.inf)


@tables.written("""
{elapsed: -1, error: [0.0999, -0.1999]}                         | goes on
{elapsed: 1.999, error: [0.0999, -0.1999]}                      | goes on
{elapsed: 1.25, error: [0.05, -0.25]} | PATH_TOLERANCE_VIOLATED: joint 'slide': position error -0.25 m exceeds the 0.2 m of the path tolerance at 1.250 s
{elapsed: 1, error: [.nan, 0.0]}                                | PATH_TOLERANCE_VIOLATED
{elapsed: 2.1, error: [0.05, 0], path: [0.001, 0.1], late: 10}  | goes on
{elapsed: 2, error: [0, 0]}                                     | SUCCESSFUL
{elapsed: 2.3, error: [0.011, 0]}                               | goes on
{elapsed: 2.4, error: [0.009, -0.019]}                          | SUCCESSFUL
{elapsed: 2.51, error: [0.5, 0.0]} | GOAL_TOLERANCE_VIOLATED: joint 'shoulder': position error 0.5 rad exceeds the 0.01 rad of the goal tolerance at 2.510 s, 0.510 s after the end
{elapsed: 1.0e+6, error: [0.5, 0], late: .inf}                  | goes on
{elapsed: 2.2, error: [0, 0], rate: [0, 0.02], fastest: 0.01}   | goes on
{elapsed: 2.6, error: [0, 0], rate: [0, -0.02], fastest: 0.01}  | GOAL_TOLERANCE_VIOLATED: joint 'slide': velocity error -0.02 m/s exceeds the 0.01 m/s of the goal
""")  # noqa: E501
def test_path_tolerances_count_until_the_end_and_those_of_the_goal_from_then_on(given, said):
    """The error is reference minus state."""
    goal = np.array([(0.01, 0.02), (given.get('fastest', math.inf),) * 2])
    path = np.array([given.get('path', (0.1, 0.2)), ANY])
    watch = TrajectoryWatch(JOINTS, (False, True), path, goal, given.get('late', 0.5))
    reference = Reference(2)
    reference.position[:], reference.velocity[:] = [1.0, 3.0], [0.5, -0.5]
    q = reference.position - given['error']
    v = reference.velocity - given.get('rate', (0.0, 0.0))
    found = watch.verdict(given['elapsed'], 2.0, reference, q, v)
    assert re.match(said, f'{found.code.name}: {found.reason}' if found else 'goes on')


#: Default of the parameters, tolerances of a goal by joint, and what is checked.
TOLERANCES = yaml.safe_load("""
- {default: [0.1], goal: {}, checked: [0.1, 0.1]}
- {default: [0.0], goal: {}, checked: [.inf, .inf]}
- {default: [0.1, 0.2], goal: {slide: 0.5}, checked: [0.1, 0.5]}
- {default: [0.1], goal: {slide: 0.0}, checked: [0.1, 0.1]}
- {default: [0.1], goal: {slide: -1.0}, checked: [0.1, .inf]}
- {default: [0.0], goal: {shoulder: 0.3}, checked: [0.3, .inf]}
""")


@pytest.mark.parametrize('case', TOLERANCES)
def test_zero_means_the_default_and_negative_means_not_checked(case):
    none = {'position': 0.0, 'velocity': 0.0}
    for k, kind in enumerate(none):
        rows = [Message(**none | {'name': name, kind: x}) for name, x in case['goal'].items()]
        defaults = [case['default'] if row == k else [0.0] for row in range(2)]
        assert list(tolerances(JOINTS, *defaults, rows)[k]) == case['checked']
    late = goal_time(case['goal'].get('slide', 0.0), case['default'][-1])
    assert late == case['checked'][-1], 'the same of the time after the end'


# Goals of a session ------------------------------------------------------------------------------


def near(x: float, joint='joint2', **more) -> list[Message]:
    """A tolerance of a joint, as a field of a goal."""
    return [Message(name=joint, position=x, velocity=0.0, **more)]


def ended(arm: Arm) -> list[tuple[int, str]]:
    """Return code and reason of each end."""
    return [(int(end.code), end.reason) for end in arm.ends]


def test_a_goal_is_reached_or_missed_and_the_status_says_so():
    arm = Arm()
    arm.send([rest(1.0, 0.1, 0.1)], path_tolerance=near(0.05))
    arm.run(1300)
    assert arm.statuses == ['accepted: goal of 1 point, 1.000 s', 'goal reached']
    arm.send([rest(1.0, 0.2, 0.2)], goal_tolerance=near(0.01), goal_time_tolerance=duration(0.2))
    arm.run(1210, stuck=1)
    ((_, _), (code, reason)) = ended(arm)
    assert (code, '0.201 s after the end' in reason) == (-5, True)


def test_a_goal_of_another_clock_says_when_it_begins():
    assert re.search('1.000 s, begins in 999.* s', Arm().send([rest(1.0, 0.1, 0.1)], 1_000_000))


def test_a_violated_path_tolerance_names_the_joint_and_holds_where_the_arm_is():
    arm = Arm()
    arm.send([rest(1.0, 0.1, 0.1)], path_tolerance=near(0.03))
    arm.run(400, stuck=1)
    ((code, reason),) = ended(arm)
    # 0.1 rad by a cubic in 1 s pass 0.03 rad at 0.363 s, the root of 3 t^2 - 2 t^3 = 0.3.
    assert (code, arm.session.mode) == (-4, SessionMode.HOLDING)
    assert re.match(r"joint 'joint2': position error 0.030.* at 0\.364 s", reason)
    assert arm.statuses[-1].startswith("goal aborted, PATH_TOLERANCE_VIOLATED: joint 'joint2'")
    arm.run(50, stuck=1)  # the reference glides there
    assert arm.session.loop.reference.position[1] == arm.q[1] == 0.0


ONE = [rest(1.0, 0.1, 0.1)]


@tables.written("""
{names: [a, joint2]}                                      | -2 joint 'a'
{points: []}                                              | -1 ... no points
{path_tolerance: {x: 0.1, joint: x}}                      | -1 ... 'x' ... no such joint ... known: joint1, joint2
{path_tolerance: {x: .nan}}                               | -1 ... 'joint2' ... NaN
{stamp_ms: 1}                                             | -3 ... over
{component_path_tolerance: [1]}                           | -1 ... component_path_tolerance is not supported
{component_goal_tolerance: [1]}                           | -1 ... component_goal_tolerance is not supported
{multi_dof_trajectory: {points: [1]}}                     | -1 ... multi_dof_trajectory is not
{path_tolerance: {x: 0.1, acceleration: 1.0}}             | -1 ... joint 'joint2': limits the acceleration to 1; leave it 0
{goal_tolerance: {x: 0.1, acceleration: .nan}}            | -1 ... limits the acceleration
""")  # noqa: E501
def test_a_goal_that_breaks_a_rule_is_refused_with_its_code_and_the_running_one_goes_on(
    given, said
):
    arm = Arm()
    arm.send([rest(2.0, 0.1, 0.1)])
    arm.run(1100)
    fields = {
        key: (near if 'tolerance' in key else Message)(**x) if isinstance(x, dict) else x
        for key, x in given.items()
    }
    with pytest.raises(RobotDynamicsError) as refusal:
        arm.send(**{'points': ONE} | fields)
    assert re.match(said, f'{getattr(refusal.value, "code", None)} {refusal.value}')
    assert ended(arm.run(1000)) == [(0, '')]


def test_goals_replace_each_other_trajectories_replace_goals_and_an_end_ends_them():
    arm = Arm()
    for _ in range(2):
        arm.send([rest(5.0, 0.1, 0.1)])
    arm.publish(ONE)
    arm.send(ONE)
    arm.session.deactivate()
    text = 'Current goal preempted by new {}.'  # of joint_trajectory_controller
    reasons = [text.format('incoming action'), text.format('trajectory')]
    assert [reason for _, reason in ended(arm)] == [*reasons, 'the controller was deactivated']
    told = [(x.level, x.status) for x in arm.session.remarks if 'preempted' in x.text]
    assert told[0] == ('info', 'goal preempted by new incoming action')


def test_an_error_of_the_caller_at_the_end_of_a_goal_keeps_the_arm_from_no_braking():
    arm = Arm()
    arm.ends = Message(append=lambda _: {}['caller'])
    arm.send([rest(4.0, 0.4, 0.4)])
    arm.run(2000).session.deactivate()
    assert arm.session.mode is SessionMode.DEACTIVATING
    assert arm.said('error') == ["KeyError in the end of a goal: 'caller'"]


def test_a_goal_that_was_read_while_the_arm_began_to_brake_is_refused(monkeypatch):
    def read(*given):
        arm.session.brake()
        return read_trajectory(*given)

    arm = Arm()
    arm.send([rest(4.0, 0.4, 0.4)])
    arm.run(2000)
    monkeypatch.setattr('robot_dynamics_ros.control.goals.read_trajectory', read)
    with pytest.raises(RefusedGoalError, match='came before the arm was brought to a hold'):
        arm.send(ONE)


def test_cancelling_brings_the_reference_to_rest():
    """At once, as under an arm that brakes, which it then follows."""
    arm = Arm()
    session, reference = arm.session, arm.session.loop.reference
    session.cancel_goal()  # none is followed: nothing happens
    arm.send([rest(4.0, 0.4, 0.4)])
    arm.run(2000)
    assert reference.velocity.any()
    before = reference.position.copy()
    session.cancel_goal()
    assert arm.ends[-1].canceled
    assert arm.statuses[-1] == 'goal canceled: the arm comes to rest and holds'
    arm.run(300)
    assert session.mode is SessionMode.HOLDING
    assert not reference.velocity.any()
    np.testing.assert_array_equal(reference.position, before)  # where the arm has stopped


@pytest.mark.parametrize('send', [Arm.send, Arm.publish])
def test_what_a_law_ignores_is_refused_or_ends_and_is_not_reached(send):
    arm = Arm()
    send(arm, ONE)
    arm.run(100)
    arm.change(law='gravity_compensation')
    why = "law 'gravity_compensation' follows no reference"
    subject = arm.session.goals.subject
    assert bool(subject) == (send is Arm.publish)
    assert arm.statuses[-1].endswith(f'{why}{subject}')
    assert [end.code.name for end in arm.ends] == ['INVALID_GOAL'] * (send is Arm.send)
    count = len(arm.statuses)
    assert arm.session.hold() == f'held: empty trajectory{subject}'
    arm.run(1000)
    assert not arm.session.loop.reference.velocity.any()
    with pytest.raises(ConfigurationError, match=f'{why}; switch to one that does'):
        send(arm, ONE)
    assert len(arm.statuses) == count


def test_feedback_comes_at_its_period():
    arm, due = Arm(action_feedback_period=0.1), 0
    arm.send(ONE)
    for _ in range(500):
        due += arm.run(1).session.goals.feedback_due()
    assert due == 5
