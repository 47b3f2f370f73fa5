# SPDX-License-Identifier: Apache-2.0
"""The action ~/follow_joint_trajectory of the controller, called by a client."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

pytest.importorskip('control_msgs', reason='control_msgs is not installed')

from action_msgs.msg import GoalStatus
from builtin_interfaces.msg import Duration
from control_msgs.action import FollowJointTrajectory
from control_msgs.msg import JointTolerance, JointTrajectoryControllerState, SpeedScalingFactor
from echo_arm import NANO, EchoArm
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from peer import RELIABLE
from rcl_interfaces.srv import SetParameters
from rclpy.action import ActionClient
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

JOINTS = [f'joint{i}' for i in range(1, 5)]
PLACE = np.array([0.0, -1.0, -0.5, 0.7])
GOAL = PLACE + 0.1
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
ARM = {'robot': 'four_dof', 'state_timeout_s': 30.0, 'activation_ramp_s': 0.0}
Result = FollowJointTrajectory.Result


class Client:
    """An action client whose arm moves while it waits."""

    def __init__(self, peer, arm) -> None:
        self.arm, self.feedback = arm, []
        self._client = ActionClient(
            peer.node, FollowJointTrajectory, 'controller/follow_joint_trajectory'
        )
        arm.until(lambda: len(arm.commands) > 5, 30.0, 'commands')
        arm.until(self._client.server_is_ready, 30.0, 'the action server')

    def send_silently(self, goal):
        return self._client.send_goal_async(
            goal, feedback_callback=lambda msg: self.feedback.append(msg.feedback)
        )

    def send(self, goal):
        future = self.send_silently(goal)
        self.arm.until(future.done, 30.0, 'answer to a goal')
        return future.result()

    def result(self, handle):
        future = handle.get_result_async()
        self.arm.until(future.done, 60.0, 'result')
        return future.result()

    def run(self, goal):
        handle = self.send(goal)
        assert handle.accepted
        return self.result(handle)


@pytest.fixture
def arm(peer) -> EchoArm:
    return EchoArm(peer, JOINTS, PLACE)


@pytest.fixture
def client(processes, peer, arm) -> Client:
    processes.start('controller', ARM | {'law': 'gravity_compensation'})
    return Client(peer, arm)


def goal(points=((1.0, GOAL),), names=JOINTS, *, stamp_s=0, path=(), end=(), late=0.0):
    msg = JointTrajectory(joint_names=list(names))
    msg.header.stamp.sec = stamp_s
    for time, position in points:
        point = JointTrajectoryPoint(positions=list(position), velocities=[0.0] * len(position))
        point.time_from_start = duration(time)
        msg.points.append(point)
    return FollowJointTrajectory.Goal(
        trajectory=msg,
        path_tolerance=[JointTolerance(name=name, position=x) for name, x in path],
        goal_tolerance=[JointTolerance(name=name, position=x) for name, x in end],
        goal_time_tolerance=duration(late),
    )


def duration(seconds) -> Duration:
    whole = round(abs(seconds) * NANO) * (1 if seconds >= 0.0 else -1)
    return Duration(sec=whole // NANO, nanosec=whole % NANO)


def test_a_goal_is_followed_to_its_end_with_feedback(client):
    found = client.run(goal(path=[('joint1', 0.05)], end=[('joint2', 0.01)]))
    assert found.status == GoalStatus.STATUS_SUCCEEDED
    assert found.result.error_code == Result.SUCCESSFUL
    assert found.result.error_string == ''
    client.arm.until(lambda: np.allclose(client.arm.position, GOAL, atol=1e-12), 10.0, 'the end')
    assert len(client.feedback) >= 10  # every 0.05 s of 1 s, less what the network drops
    shown = client.feedback[len(client.feedback) // 2]
    assert list(shown.joint_names) == JOINTS
    elapsed = shown.desired.time_from_start.sec + shown.desired.time_from_start.nanosec / NANO
    assert 0.0 < elapsed < 1.0
    desired, actual = np.array(shown.desired.positions), np.array(shown.actual.positions)
    assert (desired > PLACE).all()
    assert (desired < GOAL).all()
    np.testing.assert_allclose(shown.error.positions, desired - actual, atol=1e-15)
    assert len(shown.desired.accelerations) == 4


def test_a_joint_that_does_not_follow_is_named_with_error_tolerance_and_time(client):
    client.arm.stuck = {1}
    found = client.run(goal(path=[('joint2', 0.03)]))
    assert found.status == GoalStatus.STATUS_ABORTED
    assert found.result.error_code == Result.PATH_TOLERANCE_VIOLATED
    assert found.result.error_string.startswith("joint 'joint2': position error 0.0")


def test_cancelling_brings_the_reference_to_rest_and_holds(client, peer):
    references = peer.collect(JointState, 'controller/reference')
    handle = client.send(goal(points=[(4.0, GOAL)]))
    client.arm.until(
        lambda: references and abs(references[-1].velocity[0]) > 0.02, 30.0, 'a moving reference'
    )
    canceled = handle.cancel_goal_async()
    client.arm.until(canceled.done, 20.0, 'cancellation')
    found = client.result(handle)
    assert found.status == GoalStatus.STATUS_CANCELED
    assert found.result.error_code == Result.SUCCESSFUL, 'as joint_trajectory_controller has it'
    assert 'canceled' in found.result.error_string
    client.arm.until(lambda: not np.any(references[-1].velocity), 20.0, 'rest')


def test_wrong_goals_are_rejected_with_the_reason_and_the_running_one_goes_on(client, peer):
    latched = QoSProfile(depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    statuses = peer.collect(String, 'controller/trajectory_status', latched)
    running = client.send(goal(points=[(8.0, GOAL)]))
    assert not client.send(goal(names=['a', *JOINTS[1:]])).accepted
    client.arm.until(lambda: statuses and "joint 'a'" in statuses[-1].data, 10.0, 'the reason')
    assert statuses[-1].data.startswith('rejected: ')
    assert client.result(running).result.error_code == Result.SUCCESSFUL


@pytest.mark.parametrize('end', ['SIGINT', 'SIGTERM', 'shutdown', 'deactivate'])
def test_the_result_of_a_goal_comes_however_the_controller_ends(processes, peer, arm, end):
    """In motion: the arm brakes first, and states are answered meanwhile."""
    node = processes.start('controller', ARM | {'law': 'computed_torque'})
    client = Client(peer, arm)
    result = client.send(goal(points=[(5.0, GOAL)])).get_result_async()
    arm.until(lambda: abs(arm.velocity[0]) > 0.01, 30.0, 'a motion')
    if end.startswith('SIG'):
        os.kill(node.pid, getattr(signal, end))
    else:
        number = getattr(Transition, f'TRANSITION_{"ACTIVE_" * (end == "shutdown")}{end.upper()}')
        service = peer.node.create_client(ChangeState, 'controller/change_state')
        peer.spin_until(service.service_is_ready, 20.0, 'the service')
        service.call_async(ChangeState.Request(transition=Transition(id=number)))
    arm.until(result.done, 20.0, 'the result')
    found = result.result()
    assert found.status == GoalStatus.STATUS_ABORTED
    assert found.result.error_code == Result.INVALID_GOAL
    assert found.result.error_string == 'the controller is being deactivated'
    assert not any(word in node.says('not active any more') for word in ('Traceback', 'Error'))
    assert not arm.velocity.any()


def test_a_goal_that_comes_while_the_driver_is_silent_ends_at_once_and_says_so(
    processes, peer, arm
):
    controller = processes.start('controller', ARM | {'state_timeout_s': 0.3})
    client = Client(peer, arm)
    peer.spin_until(lambda: 'no fresh state' in controller.output, 20.0, 'the timeout')
    sent = client.send_silently(goal(points=[(5.0, GOAL)]))
    peer.spin_until(sent.done, 20.0, 'answer to a goal')
    result = sent.result().get_result_async()
    peer.spin_until(result.done, 20.0, 'result, without any state')
    found = result.result()
    assert found.status == GoalStatus.STATUS_ABORTED
    assert found.result.error_code == Result.INVALID_GOAL
    assert 'no fresh state on /joint_states within 0.3 s' in found.result.error_string
    client.arm.until(lambda: 'fresh states again' in controller.output, 20.0, 'states')
    assert client.run(goal(points=[(0.5, GOAL)])).result.error_code == Result.SUCCESSFUL


def test_without_an_active_controller_a_goal_is_rejected(processes, peer, arm):
    processes.start('controller', ARM | {'autostart': False})
    assert peer.change_state('controller', Transition.TRANSITION_CONFIGURE)
    client = ActionClient(peer.node, FollowJointTrajectory, 'controller/follow_joint_trajectory')
    peer.spin_until(client.server_is_ready, 30.0, 'the action server')
    future = client.send_goal_async(goal())
    peer.spin_until(future.done, 20.0, 'answer')
    assert not future.result().accepted


def test_the_state_is_told_and_the_speed_ordered_as_of_joint_trajectory_controller(
    processes, client, peer
):
    states = peer.collect(JointTrajectoryControllerState, 'controller/controller_state')
    client.arm.until(lambda: len(states) > 3, 20.0, 'states')
    state = states[-1]
    assert list(state.joint_names) == JOINTS
    np.testing.assert_allclose(state.reference.positions, PLACE, atol=1e-9)
    np.testing.assert_allclose(state.feedback.positions, PLACE, atol=1e-9)
    np.testing.assert_array_equal(state.output.effort, client.arm.commands[-1].data)

    orders = peer.node.create_publisher(
        SpeedScalingFactor, 'controller/speed_scaling_input', LATCHED
    )

    def order(factor: float, until, what: str) -> None:
        orders.publish(SpeedScalingFactor(factor=factor))
        client.arm.until(until, 30.0, what)

    references = peer.collect(JointState, 'controller/reference', RELIABLE)
    handle, begin = client.send(goal(points=[(2.0, GOAL)])), client.arm.stamp
    order(1.5, lambda: 'is 1.5; give a factor of 0 to 1' in processes.outputs(), 'a refusal')
    client.arm.until(
        lambda: references and references[-1].velocity[0] > 0.02, 30.0, 'a moving reference'
    )
    assert states[-1].speed_scaling_factor == 1.0
    order(0.0, lambda: states[-1].speed_scaling_factor == 0.0, 'a pause')
    paused = client.arm.stamp
    client.arm.until(lambda: client.arm.stamp > paused + NANO, 30.0, 'a second')
    assert not np.any(references[-1].velocity)
    assert PLACE[0] < references[-1].position[0] < GOAL[0]
    order(1.0, lambda: states[-1].speed_scaling_factor == 1.0, 'the whole speed')
    assert client.result(handle).result.error_code == Result.SUCCESSFUL
    assert client.arm.stamp - begin > 3 * NANO
    # At once, a speed of up to 1.5 * 0.1 rad / 2 s would be gone in one step.
    assert np.abs(np.diff([msg.velocity[0] for msg in references])).max() < 0.01


def test_tolerances_have_their_known_names(processes, peer, arm):
    known = {
        'constraints.joint1.trajectory': 0.03,
        'constraints.stopped_velocity_tolerance': 0.02,
        'constraints.goal_time': 1.5,
    }
    processes.start('controller', ARM | known | {'law': 'gravity_compensation'})
    client = Client(peer, arm)
    arm.stuck = {0}
    found = client.run(goal())
    assert found.result.error_code == Result.PATH_TOLERANCE_VIOLATED
    assert 'the 0.03 rad of the path tolerance' in found.result.error_string
    request = SetParameters.Request()
    request.parameters = [Parameter('constraints.joint1.trajectory', value=0.5).to_parameter_msg()]
    assert peer.call(SetParameters, 'controller/set_parameters', request).results[0].successful
    assert client.run(goal()).result.error_code == Result.SUCCESSFUL


def test_some_of_the_joints_move_if_that_is_allowed(processes, peer, arm):
    processes.start('controller', ARM | {'law': 'gravity_compensation'})
    client = Client(peer, arm)
    some = goal([(0.5, GOAL[:2])], JOINTS[:2])
    assert not client.send(some).accepted
    request = SetParameters.Request()
    request.parameters = [Parameter('allow_partial_joints_goal', value=True).to_parameter_msg()]
    assert peer.call(SetParameters, 'controller/set_parameters', request).results[0].successful
    assert client.run(some).result.error_code == Result.SUCCESSFUL
    target = [*GOAL[:2], *PLACE[2:]]
    # The goal is reached within its tolerance a few ticks before the reference comes to rest.
    peer.spin_until(lambda: np.allclose(arm.position, target, rtol=0.0, atol=1e-9), 20.0, 'rest')
