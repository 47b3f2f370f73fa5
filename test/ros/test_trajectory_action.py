# SPDX-License-Identifier: Apache-2.0
"""The action ~/follow_joint_trajectory of the controller, called by a client.

What becomes of goals is tested in test/control/test_goals.py. One controller lives through most
tests.
"""

import os
import signal

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

pytest.importorskip('control_msgs', reason='control_msgs is not installed')

from action_msgs.msg import GoalStatus
from control_msgs.action import FollowJointTrajectory
from control_msgs.msg import JointTolerance, JointTrajectoryControllerState, SpeedScalingFactor
from echo_arm import EchoArm
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from peer import LATCHED
from rclpy.action import ActionClient
from resting_arm import ARM, JOINTS, PLACE, trajectory

from robot_dynamics_ros.messages import NANO

GOAL = PLACE + 0.1
Result = FollowJointTrajectory.Result


class Client:
    """An action client whose arm moves while it waits."""

    def __init__(self, peer) -> None:
        self.peer, self.arm, self.feedback = peer, EchoArm(peer), []
        self._client = ActionClient(
            peer.node, FollowJointTrajectory, 'controller/follow_joint_trajectory'
        )
        self.arm.until(lambda: len(self.arm.commands) > 5, 'commands')
        self.arm.until(self._client.server_is_ready, 'the action server')

    def send_silently(self, goal):
        return self._client.send_goal_async(
            goal, feedback_callback=lambda msg: self.feedback.append(msg.feedback)
        )

    def send(self, goal):
        future = self.send_silently(goal)
        self.arm.until(future.done, 'answer to a goal')
        return future.result()

    def result(self, handle):
        future = handle.get_result_async()
        self.arm.until(future.done, 'result')
        return future.result()

    def is_moving(self) -> bool:
        return abs(self.arm.references[-1].velocity[0]) > 0.02

    def change_state(self, name: str) -> None:
        """Request a transition without waiting for the answer."""
        service = self.peer.node.create_client(ChangeState, 'controller/change_state')
        self.arm.until(service.service_is_ready, 'the service')
        number = getattr(Transition, f'TRANSITION_{name}')
        service.call_async(ChangeState.Request(transition=Transition(id=number)))


def goal(target=GOAL, names=JOINTS, *, times=(1.0,), **tolerances):
    given = {
        f'{kind}_tolerance': [JointTolerance(name=name, position=x)]
        for kind, (name, x) in tolerances.items()
    }
    points = trajectory([(seconds, target) for seconds in times], names)
    return FollowJointTrajectory.Goal(trajectory=points, **given)


@pytest.fixture(scope='module')
def living(lasting):
    """Return the process of a controller that lives through many tests, and a client."""
    processes, peer = lasting
    node = processes.start('controller', ARM)
    return node, Client(peer)


@pytest.fixture
def client(living) -> Client:
    """Return that client, its arm at rest at PLACE."""
    _, found = living
    assert found.result(found.send(goal(PLACE))).status == GoalStatus.STATUS_SUCCEEDED
    # A goal is reached within its tolerance a few ticks before the reference comes to rest.
    found.arm.until(lambda: np.allclose(found.arm.position, PLACE, rtol=0.0, atol=1e-9), 'rest')
    found.feedback.clear()
    return found


def test_a_goal_is_followed_to_its_end_with_feedback(client):
    handle = client.send(goal(path=('joint1', 0.05), goal=('joint2', 0.01)))
    found = client.result(handle)
    assert found.status == GoalStatus.STATUS_SUCCEEDED
    assert (found.result.error_code, found.result.error_string) == (Result.SUCCESSFUL, '')
    client.arm.until(lambda: np.allclose(client.arm.position, GOAL, atol=1e-12), 'the end')
    assert len(client.feedback) >= 10  # every 0.05 s of 1 s, less what the network drops
    shown = client.feedback[len(client.feedback) // 2]
    assert list(shown.joint_names) == list(JOINTS)
    elapsed = shown.desired.time_from_start.sec + shown.desired.time_from_start.nanosec / NANO
    assert 0.0 < elapsed < 1.0
    desired, actual = np.array(shown.desired.positions), np.array(shown.actual.positions)
    assert ((desired > PLACE) & (desired < GOAL)).all()
    assert_allclose(shown.error.positions, desired - actual, atol=1e-15)
    assert len(shown.desired.accelerations) == 4


@pytest.mark.parametrize('count', [1, 150])
def test_of_two_goals_sent_at_once_the_later_one_is_followed(client, count):
    """The second is prepared before the first one begins, which many points take time for."""
    times = np.linspace(1.0, 0.5, count)[::-1]
    goals = goal(times=times), goal(PLACE + 0.05, times=times)
    answers = [client.send_silently(one) for one in goals]
    client.arm.until(lambda: all(x.done() for x in answers), 'answers to both')
    first, second = (client.result(x.result()) for x in answers)
    assert second.status == GoalStatus.STATUS_SUCCEEDED, second.result.error_string
    assert first.status == GoalStatus.STATUS_ABORTED
    assert first.result.error_string == 'Current goal preempted by new incoming action.'


def test_cancelling_brings_the_reference_to_rest_and_holds(client):
    handle = client.send(goal(times=[4.0]))
    client.arm.until(client.is_moving, 'a moving reference')
    canceled = handle.cancel_goal_async()
    client.arm.until(canceled.done, 'cancellation')
    found = client.result(handle)
    assert found.status == GoalStatus.STATUS_CANCELED
    assert found.result.error_code == Result.SUCCESSFUL, 'as joint_trajectory_controller has it'
    assert 'canceled' in found.result.error_string
    client.arm.until(lambda: not np.any(client.arm.references[-1].velocity), 'rest')


def test_a_wrong_goal_is_rejected_with_the_reason(client):
    """What is wrong, and that a running one goes on: ``test/control/test_goals.py``."""
    assert not client.send(goal(names=['a', *JOINTS[1:]])).accepted
    client.arm.until(
        lambda: client.arm.status[-1].data.startswith("rejected: joint 'a'"), 'the reason'
    )


def test_the_state_is_told_and_the_speed_ordered_as_of_joint_trajectory_controller(living, client):
    node, arm = living[0], client.arm
    states = client.peer.collect(JointTrajectoryControllerState, 'controller/controller_state')
    arm.until(lambda: len(states) > 3, 'states')
    state = states[-1]
    assert list(state.joint_names) == list(JOINTS)
    assert_allclose(state.reference.positions, PLACE, atol=1e-9)
    assert_allclose(state.feedback.positions, PLACE, atol=1e-9)
    assert_array_equal(state.output.effort, arm.commands[-1].data)
    orders = client.peer.publisher(SpeedScalingFactor, 'controller/speed_scaling_input', LATCHED)
    handle = client.send(goal(times=[2.0]))
    for factor, done, what in (
        (1.5, lambda: 'is 1.5; give a factor of 0 to 1' in node.output, 'a refusal'),
        (0.0, lambda: states[-1].speed_scaling_factor == 0.0, 'a pause'),
    ):
        orders.publish(SpeedScalingFactor(factor=factor))
        arm.until(done, what)
    paused = arm.stamp
    arm.until(lambda: arm.stamp > paused + NANO, 'a second')
    assert not np.any(arm.references[-1].velocity)
    assert PLACE[0] < arm.references[-1].position[0] < GOAL[0]
    orders.publish(SpeedScalingFactor(factor=1.0))
    assert client.result(handle).result.error_code == Result.SUCCESSFUL


def ends_in_motion(client, node, end) -> None:
    """Check that a goal ends with its result while the arm brakes."""
    result = client.send(goal(times=[5.0])).get_result_async()
    client.arm.until(client.is_moving, 'a motion')
    end()
    client.arm.until(result.done, 'the result')
    found = result.result()
    assert found.status == GoalStatus.STATUS_ABORTED
    assert found.result.error_code == Result.INVALID_GOAL
    assert found.result.error_string == 'the controller is being deactivated'
    assert not any(word in node.says('not active any more') for word in ('Traceback', 'Error'))
    assert not client.arm.velocity.any()


def test_at_last_a_deactivated_controller_has_ended_its_goal_and_rejects_others(living, client):
    ends_in_motion(client, living[0], lambda: client.change_state('DEACTIVATE'))
    assert not client.send(goal()).accepted


# Processes of their own ------------------------------------------------------------------------


@pytest.mark.parametrize('end', ['signal', 'shutdown'])
def test_the_result_of_a_goal_comes_however_the_controller_ends(processes, peer, end):
    """In motion: the arm brakes first, and states are answered meanwhile."""
    node = processes.start('controller', ARM | {'law': 'computed_torque'})
    client = Client(peer)
    ends = {
        'signal': lambda: os.kill(node.pid, signal.SIGTERM),
        'shutdown': lambda: client.change_state('ACTIVE_SHUTDOWN'),
    }
    ends_in_motion(client, node, ends[end])


#: A controller that is deactivated and cleaned up after it has accepted a goal, before it begins.
CLEANED_UP = """
import sys
from rclpy.action import ActionServer
from robot_dynamics_ros.ros.controller.node import Controller
from robot_dynamics_ros.ros.executables import run_executable
made, controllers, execute = Controller.__init__, [], ActionServer.notify_execute
def make(self):
    controllers.append(self)
    made(self)
def late(server, handle, callback):
    execute(server, handle, callback)
    controllers[0].trigger_deactivate()
    controllers[0].trigger_cleanup()
Controller.__init__, ActionServer.notify_execute = make, late
sys.exit(run_executable('controller'))
"""


def test_a_goal_that_is_accepted_as_the_controller_is_cleaned_up_gets_its_result(processes, peer):
    node = processes.start('controller', ARM, code=CLEANED_UP)
    client = Client(peer)
    handle = client.send(goal())
    assert handle.accepted
    found = client.result(handle)
    assert found.status == GoalStatus.STATUS_ABORTED
    assert found.result.error_string == 'the controller was cleaned up'
    assert not any(word in node.says('cleaned up', 5.0) for word in ('Traceback', 'Error'))
    assert node.stop(signal.SIGTERM) == 0


def test_goals_that_arrive_as_the_controller_is_cleaned_up_are_rejected(processes, peer):
    """What they left in the executor for a server that was gone ended the process."""
    node = processes.start('controller', ARM)
    client = Client(peer)
    assert peer.change_state('controller', Transition.TRANSITION_DEACTIVATE)
    answers = [client.send_silently(goal())]
    client.change_state('CLEANUP')
    answers += [client.send_silently(goal()) for _ in range(30)]
    peer.spin_until(lambda: all(x.done() for x in answers), 20.0, 'answers to all goals')
    assert not any(x.result().accepted for x in answers)
    assert node.stop(signal.SIGTERM) == 0


def test_a_goal_that_comes_after_an_error_says_so_with_what_moved(processes, peer):
    """States go on: that there are none is not the reason."""
    given = ARM | {'locked': ['joint4:=0.7'], 'locked_joint_moved': 'stop'}
    node = processes.start('controller', given)
    client = Client(peer)
    client.arm.position[3] += 0.5
    client.arm.until(lambda: 'stopped by an error' in node.output, 'the stop')
    found = client.result(client.send(goal(GOAL[:3], JOINTS[:3])))
    assert found.result.error_code == Result.INVALID_GOAL
    text = "stopped by an error: robot: locked joint 'joint4' stands at 1.2"
    assert text in found.result.error_string


def test_a_goal_that_comes_while_the_driver_is_silent_ends_at_once_and_says_so(processes, peer):
    controller = processes.start('controller', ARM | {'state_timeout_s': 0.3})
    client = Client(peer)
    peer.spin_until(lambda: 'no fresh state' in controller.output, 20.0, 'the timeout')
    sent = client.send_silently(goal(times=[5.0]))
    peer.spin_until(sent.done, 20.0, 'answer to a goal')
    result = sent.result().get_result_async()
    peer.spin_until(result.done, 20.0, 'result, without any state')
    found = result.result()
    assert found.status == GoalStatus.STATUS_ABORTED
    assert found.result.error_code == Result.INVALID_GOAL
    assert 'no fresh state on /joint_states within 0.3 s' in found.result.error_string
    client.arm.until(lambda: 'fresh states again' in controller.output, 'states')
    assert client.result(client.send(goal())).result.error_code == Result.SUCCESSFUL
