# SPDX-License-Identifier: Apache-2.0
"""The controller node in a separate process: commands, rejections and recovery.

Oracle of the commands: Pinocchio's gravity and inverse dynamics, built from the URDF text.
"""

from __future__ import annotations

import math
import signal
from collections.abc import Sequence
from unittest.mock import Mock

import numpy as np
import pinocchio
import pytest
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import PoseStamped, WrenchStamped
from lifecycle_msgs.msg import Transition
from peer import RELIABLE, Peer
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import (
    DescribeParameters,
    GetParameters,
    SetParameters,
    SetParametersAtomically,
)
from rclpy.qos import DurabilityPolicy, QoSProfile
from resting_arm import COMMANDS, JOINTS, NANO, PERIOD_NS, RestingArm, stamp_of
from samples import sample
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64, Float64MultiArray, String
from std_srvs.srv import SetBool
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.ros.controller import parameter_services

LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
LIMITS = np.array([15.0, 35.0, 15.0, 3.0])  # N m, urdf/four_dof.urdf.xacro
PLACE = np.array([0.0, -1.0, -0.5, 0.7])
#: On a busy machine states arrive late; for a gap on purpose it is SHORT.
ARM = {'robot': 'four_dof', 'state_timeout_s': 30.0, 'activation_ramp_s': 0.0}
SHORT = {'state_timeout_s': 0.3}


def gravity(q) -> np.ndarray:
    model = pinocchio.buildModelFromXML(sample('four_dof').xml)
    return pinocchio.computeGeneralizedGravity(model, model.createData(), np.asarray(q, float))


class Arm(RestingArm):
    """The driver, which also sends trajectories and receives their status."""

    def __init__(self, peer) -> None:
        super().__init__(peer, PLACE)
        self.status = peer.collect(String, 'controller/trajectory_status', LATCHED)
        self._trajectories = peer.node.create_publisher(
            JointTrajectory, 'controller/joint_trajectory', 1
        )

    def send(self, msg: JointTrajectory | bytes) -> str:
        """Send a trajectory and return the controller's response."""
        self.peer.spin_until(
            self._trajectories.get_subscription_count, 20.0, 'subscription of trajectories'
        )
        before = len(self.status)
        self._trajectories.publish(msg)
        self.peer.spin_until(lambda: len(self.status) > before, 20.0, 'answer to a trajectory')
        return self.status[-1].data


@pytest.fixture
def arm(peer) -> Arm:
    return Arm(peer)


def trajectory(points, names=JOINTS, stamp_s=0) -> JointTrajectory:
    msg = JointTrajectory(joint_names=list(names))
    msg.header.stamp.sec = stamp_s
    for time, position in points:
        point = JointTrajectoryPoint(positions=list(position), velocities=[0.0] * len(position))
        point.time_from_start.sec = int(time)
        point.time_from_start.nanosec = int((time % 1.0) * NANO)
        msg.points.append(point)
    return msg


def set_parameter(peer, name, value):
    request = SetParameters.Request(parameters=[parameter(name, value)])
    return peer.call(SetParameters, 'controller/set_parameters', request).results[0]


def parameter(name, value) -> Parameter:
    kinds = {
        float: (ParameterType.PARAMETER_DOUBLE, 'double_value'),
        str: (ParameterType.PARAMETER_STRING, 'string_value'),
        list: (ParameterType.PARAMETER_DOUBLE_ARRAY, 'double_array_value'),
    }
    kind, field = kinds[type(value)]
    return Parameter(name=name, value=ParameterValue(type=kind, **{field: value}))


def assert_safe(commands, limits=LIMITS) -> None:
    for command in commands:
        values = np.array(command.data)
        assert np.isfinite(values).all()
        assert (np.abs(values) <= limits).all()


# Commands --------------------------------------------------------------------------------------


def test_a_state_is_answered_by_name_whatever_its_order_and_extra_joints(processes, arm):
    processes.start('controller', ARM | {'law': 'gravity_compensation'})
    names = ['joint3', 'gripper', 'joint1', 'joint4', 'joint2']
    q = [PLACE[2], 9.9, PLACE[0], PLACE[3], PLACE[1]]
    effort = arm.command(q, [0.0] * 5, names, [math.nan] * 5)
    assert effort == pytest.approx(gravity(PLACE), abs=1e-12)  # rounding of two recursions


def test_commands_come_in_the_order_of_the_parameter_joints(processes, arm):
    order = ['joint4', 'joint2', 'joint3', 'joint1']
    processes.start('controller', ARM | {'law': 'gravity_compensation', 'joints': order})
    expected = gravity(PLACE)[[3, 1, 2, 0]]
    assert arm.command() == pytest.approx(expected, abs=1e-12)


def test_partial_states_are_merged_and_answered_once_complete(processes, arm):
    processes.start('controller', ARM | {'law': 'gravity_compensation'})
    arm.command()
    count = len(arm.commands)
    for _ in range(5):
        arm.publish(PLACE[:2], [0.0] * 2, JOINTS[:2])
    arm.peer.spin_for(0.3)
    assert len(arm.commands) == count  # joints 3 and 4 are not new
    effort = arm.command(PLACE[2:], [0.0] * 2, JOINTS[2:])
    assert effort == pytest.approx(gravity(PLACE), abs=1e-12)


def test_every_state_is_answered_once_and_a_repeated_stamp_not_again(processes, arm):
    processes.start('controller', ARM)
    arm.command()
    before = len(arm.commands), len(arm.references)
    stamps = [arm.stamp]
    for _ in range(3):
        arm.publish(step=0)
        arm.publish(step=0)
        arm.command()  # including the repetitions, all answers have arrived by now
        stamps.append(arm.stamp)
    answered = [stamp_of(msg) for msg in arm.references[before[1] :]]
    assert answered == sorted(set(answered))
    assert stamps[0] not in answered
    assert set(stamps[1:]) <= set(answered)
    assert len(arm.commands) == before[0] + len(answered)


def test_a_state_without_a_stamp_is_answered_by_topics_stamped_on_arrival(processes, arm):
    errors = arm.peer.collect(JointState, 'controller/error')
    processes.start('controller', ARM | {'law': 'gravity_compensation'})
    arm.command()
    arm.stamp, now = 0, arm.peer.node.get_clock().now
    begin, topics = now().nanoseconds, (arm.references, errors)

    def answered() -> bool:
        arm.publish(step=0)
        return all(topic and begin < stamp_of(topic[-1]) <= now().nanoseconds for topic in topics)

    arm.peer.spin_until(answered, 5.0, 'topics of the present time')


def test_per_joint_commands_go_to_one_topic_each(processes, peer, arm):
    parameters = {'law': 'gravity_compensation', 'command_form': 'per_joint'}
    processes.start('controller', ARM | parameters)
    received = [peer.collect(Float64, f'{joint}/cmd_force') for joint in JOINTS]

    def complete() -> bool:
        arm.publish()
        return all(received)

    peer.spin_until(complete, 30.0, 'a command for every joint')
    assert [topic[-1].data for topic in received] == pytest.approx(gravity(PLACE), abs=1e-12)


def test_the_description_may_come_by_topic(processes, peer, arm):
    publisher = peer.node.create_publisher(String, 'robot_description', LATCHED)
    publisher.publish(String(data=sample('four_dof').xml))
    parameters = {**ARM, 'robot': '', 'law': 'gravity_compensation'}
    processes.start('controller', parameters)
    assert arm.command() == pytest.approx(gravity(PLACE), abs=1e-12)


def test_joints_that_would_share_a_topic_are_named_and_leave_nothing_behind(processes, peer, arm):
    latched = peer.node.create_publisher(String, 'robot_description', LATCHED)
    node = processes.start('controller', ARM | {'robot': '', 'command_form': 'per_joint'})
    clash = (
        sample('four_dof').xml.replace('"joint1"', '"joint-2"').replace('"joint2"', '"joint_2"')
    )
    latched.publish(String(data=clash))
    node.says("would have the same topic 'joint_2/cmd_force'")
    latched.publish(String(data=sample('four_dof').xml))

    def configured() -> bool:  # once the second description has arrived
        return peer.change_state('controller', Transition.TRANSITION_CONFIGURE)

    peer.spin_until(configured, 30.0, 'configuration')

    def publishers(topic: str) -> int:
        return len(peer.node.get_publishers_info_by_topic(topic))

    peer.spin_until(lambda: publishers('/joint1/cmd_force'), 20.0, 'the topic of a joint')
    assert publishers('/controller/reference') == 1
    assert node.returncode is None


def test_external_efforts_and_the_wrench_that_explains_them_are_told_to_listeners(
    processes, peer, arm
):
    observer = {'observer_effort': 'measured', 'observer_bandwidth': [1e4], 'wrench_frame': 'tool'}
    processes.start('controller', ARM | {'law': 'gravity_compensation'} | observer)
    efforts = peer.collect(JointState, 'controller/external_effort')
    rests = peer.collect(JointState, 'controller/unexplained_effort')
    wrenches = peer.collect(WrenchStamped, 'controller/external_wrench')
    F = np.array([3.0, -2.0, 4.0, 0.0, 0.0, 0.0])
    model = pinocchio.buildModelFromXML(sample('four_dof').xml)
    tool = model.getFrameId('tool')
    J = pinocchio.computeFrameJacobian(model, model.createData(), PLACE, tool)  # tool's axes
    measured = gravity(PLACE) - J.T @ F  # effort of the motors while the environment adds J^T F

    def received() -> bool:
        arm.publish(effort=measured)
        return len(efforts) > 20 and len(rests) > 5 and len(wrenches) > 5

    peer.spin_until(received, 60.0, 'external efforts')
    # The observer converges from 0 first; with K h = 10 that takes three samples.
    assert efforts[-1].effort == pytest.approx(J.T @ F, abs=1e-6)
    assert (efforts[-1].name, list(efforts[-1].position)) == (list(JOINTS), list(PLACE))
    assert wrenches[-1].header.frame_id == 'tool'
    force, moment = wrenches[-1].wrench.force, wrenches[-1].wrench.torque
    wrench = np.array([force.x, force.y, force.z, moment.x, moment.y, moment.z])
    assert J.T @ wrench + rests[-1].effort == pytest.approx(J.T @ F, abs=1e-6)
    assert np.abs(rests[-1].effort).max() < 1e-3 * np.abs(J.T @ F).max()  # the damping's part


def test_streamed_targets_lead_the_reference_and_a_wrench_needs_a_law_that_yields(
    processes, peer, arm
):
    controller = processes.start('controller', ARM | {'law': 'impedance'})
    references = peer.collect(JointState, 'controller/reference')
    joints = peer.node.create_publisher(JointState, 'controller/target_joint', 1)
    poses = peer.node.create_publisher(PoseStamped, 'controller/target_pose', 1)
    wrenches = peer.node.create_publisher(WrenchStamped, 'controller/target_wrench', 1)
    target = PLACE + [0.0, 0.05, 0.0, -0.1]
    message = JointState(name=JOINTS[1:4:2], position=list(target[1:4:2]))

    def led(sender, message, joint, position) -> bool:
        arm.publish()
        sender.publish(message)
        return bool(references) and abs(references[-1].position[joint] - position) < 1e-3

    peer.spin_until(lambda: led(joints, message, 1, target[1]), 60.0, 'target of joints')
    model = pinocchio.buildModelFromXML(sample('four_dof').xml)
    data = model.createData()
    pinocchio.framesForwardKinematics(model, data, PLACE + [0.1, 0.0, 0.0, 0.0])
    pose = PoseStamped()
    p = data.oMf[model.getFrameId('tool')].translation
    pose.pose.position.x, pose.pose.position.y, pose.pose.position.z = p
    pose.header.frame_id, pose.pose.orientation.w = 'world', 0.0  # any
    peer.spin_until(lambda: led(poses, pose, 0, PLACE[0] + 0.1), 60.0, 'target of a pose')
    wrench = WrenchStamped()
    wrench.header.frame_id = 'moon'
    peer.spin_until(
        lambda: led(wrenches, wrench, 0, np.inf) or "frame 'moon'" in controller.output,
        60.0,
        'refusal of a wrench',
    )


# Recovery --------------------------------------------------------------------------------------


def test_a_locked_joint_is_measured_at_each_activation_and_its_moves_are_told_at_once(
    processes, arm
):
    found = arm.peer.collect(DiagnosticArray, '/diagnostics')
    parameters = arm.peer.collect(String, 'controller/parameters', LATCHED)
    law = {'law': 'gravity_compensation', 'diagnostics_period_s': 60.0}
    processes.start('controller', ARM | law | {'locked': ['joint2:=measured']})
    # Two recursions, and a rotation by the locked position that is written as three angles.
    assert arm.command() == pytest.approx(np.delete(gravity(PLACE), 1), abs=1e-10)
    moved = PLACE + [0.0, 0.4, 0.0, 0.0]
    assert arm.command(moved) == pytest.approx(np.delete(gravity(PLACE), 1), abs=1e-10)

    def said() -> list[str]:
        return [status.message for array in found for status in array.status]

    text = "locked joint 'joint2' stands at -0.6, the model has it at -1"
    arm.peer.spin_until(lambda: text in said(), 20.0, 'the move on /diagnostics')
    assert arm.peer.change_state('controller', Transition.TRANSITION_DEACTIVATE)
    activate(arm, moved)
    assert arm.command(moved) == pytest.approx(np.delete(gravity(moved), 1), abs=1e-10)
    arm.peer.spin_until(lambda: 'joint2:=-0.6' in parameters[-1].data, 20.0, '~/parameters')


@pytest.mark.parametrize('bad', [math.nan, math.inf, 1e300, -1e300])
def test_a_broken_state_never_reaches_the_motors_and_the_next_good_one_does(processes, arm, bad):
    processes.start('controller', ARM)
    arm.command()
    for position in (True, False):
        for joint in range(4):
            q, v = PLACE.copy(), np.zeros(4)
            (q if position else v)[joint] = bad
            for _ in range(3):
                arm.publish(q, v)
            arm.peer.spin_for(0.02)
    assert arm.command() == pytest.approx(gravity(PLACE), abs=1.0)  # holds where it is
    assert_safe(arm.commands)


def test_a_wild_but_finite_state_is_answered_within_the_limits(processes, arm):
    processes.start('controller', ARM)
    arm.command()
    rng = np.random.default_rng(3)
    quiet, count = np.abs(gravity(PLACE)).max(), len(arm.commands)

    def wild() -> bool:
        for _ in range(10):
            # Inconsistent states, such as a velocity without motion, are rejected.
            arm.publish(PLACE + rng.normal(size=4) * 0.002, rng.normal(size=4) * 5.0)
            arm.peer.spin_for(0.001)
        return len(arm.commands) > count + 100

    arm.peer.spin_until(wild, 30.0, 'answers to wild states')
    assert_safe(arm.commands)
    assert max(np.abs(np.array(c.data)).max() for c in arm.commands) > 1.1 * quiet  # it did react


def test_silence_brings_the_stop_action_and_fresh_states_bring_control_back(processes, arm):
    given = {'stop_action': 'zero', 'diagnostics_period_s': 0.1}
    node = processes.start('controller', ARM | SHORT | given)
    assert np.abs(arm.command()).max() > 1.0
    node.says('stop action zero')
    arm.ends_with(np.zeros(4), 0.0)
    arm.command()
    node.says('fresh states again')
    for _ in range(30):  # by a twentieth of the limits per ms: no jump
        last = arm.command()
    assert last == pytest.approx(gravity(PLACE), abs=1e-6)
    levels, missing = diagnosed(arm.peer), 'no longer seen: joint3'
    others = [joint for joint in JOINTS if joint != 'joint3']

    def without_a_joint() -> bool:
        arm.publish(np.delete(PLACE, 2), [0.0] * 3, others)
        said = [text for level, text in levels() if level == DiagnosticStatus.ERROR]
        return missing in node.output and any(missing in text for text in said)

    arm.peer.spin_until(without_a_joint, 30.0, f'{missing!r} in log and diagnostics')
    arm.ends_with(np.zeros(4), 0.0)
    arm.command()


def test_a_killed_simulator_is_noticed_and_a_new_one_is_taken_up(processes, peer):
    commands = peer.collect(Float64MultiArray, COMMANDS)
    states = peer.collect(JointState, 'joint_states')
    settings = {'robot': 'four_dof', 'initial_position': PLACE.tolist(), 'mode': 'real_time'}
    simulator = processes.start('simulator', settings)
    controller = processes.start('controller', ARM | SHORT | {'stop_action': 'gravity'})
    peer.spin_until(
        lambda: len(commands) > 100 and states and np.abs(states[-1].velocity).max() < 1e-3,
        30.0,
        'rest',
    )
    # On a busy machine states may already have been missing that long.
    stops = controller.output.count('stop action gravity')
    simulator.stop(signal.SIGKILL)
    controller.says('stop action gravity', times=stops + 1)
    # Wherever it had fallen before it was caught. The last states may have reached only one of
    # us: at 1e-3 rad/s and 10 N m/rad this is a tenth of a second of them.
    peer.spin_until(
        lambda: np.allclose(commands[-1].data, gravity(states[-1].position), rtol=0, atol=1e-3),
        20.0,
        'gravity',
    )
    returns = controller.output.count('fresh states again')
    processes.start('simulator', settings)
    controller.says('fresh states again', times=returns + 1)
    count = len(commands)
    peer.spin_until(lambda: len(commands) > count + 500, 30.0, 'control after the restart')
    assert_safe(commands)


def test_time_that_jumps_back_starts_the_loop_anew(processes, arm):
    processes.start('controller', ARM)
    arm.stamp = 100 * NANO
    arm.command()
    arm.stamp = 5 * NANO
    assert arm.command() == pytest.approx(gravity(PLACE), abs=1e-6)


@pytest.mark.parametrize('step', [-50 * NANO, 50 * NANO])
def test_a_motion_that_a_jump_of_time_ends_does_not_end_in_silence(processes, arm, step):
    """Its sender must be notified that it is no longer followed."""
    processes.start('controller', ARM)
    arm.stamp = 100 * NANO
    arm.command()
    assert arm.send(trajectory([(60.0, PLACE + 0.1)])).startswith('accepted')
    arm.command()
    arm.command(step=step)
    arm.peer.spin_until(
        lambda: arm.status[-1].data == 'held: the time of the states jumped', 20.0, 'the word'
    )
    assert len(arm.status) == 2


# Ending ----------------------------------------------------------------------------------------


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize('action', ['zero', 'gravity', 'hold', 'damping'])
def test_a_signal_leaves_a_last_safe_command(processes, arm, number, action):
    node = processes.start('controller', ARM | {'stop_action': action})
    q = PLACE + 0.05
    arm.command()
    for _ in range(20):
        arm.command(q)
    assert node.stop(number) == 0
    arm.ends_with(np.zeros(4) if action == 'zero' else gravity(q), 1e-12)


def test_deactivation_ends_with_the_stop_action_and_silence(processes, arm):
    processes.start('controller', ARM | {'stop_action': 'zero'})
    arm.command()
    assert arm.peer.change_state('controller', Transition.TRANSITION_DEACTIVATE)
    arm.ends_with(np.zeros(4), 0.0)
    count = len(arm.commands)
    for _ in range(20):
        arm.publish()
        arm.peer.spin_for(0.01)
    assert len(arm.commands) == count


#: The controller, in which a law takes until the deactivation to be built, or a minute.
SLOW_LAW = """
import sys
import time
from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.ros.executables import run_executable

make_law = ControllerSession.make_law

def slow(session, parameters):
    end = time.monotonic() + 60.0
    print('building', flush=True)
    while session.mode is not SessionMode.INACTIVE and time.monotonic() < end:
        time.sleep(1e-3)
    print('deactivated' if time.monotonic() < end else 'too late', flush=True)
    return make_law(session, parameters)

ControllerSession.make_law = slow
sys.exit(run_executable('controller'))
"""


def test_what_stops_the_arm_begins_at_once_while_a_law_is_built_which_is_refused_then(
    processes, arm
):
    node = processes.start('controller', ARM, code=SLOW_LAW)
    arm.command()
    peer, changed = arm.peer, []
    client = peer.node.create_client(SetParameters, 'controller/set_parameters')
    peer.spin_until(client.service_is_ready, 20.0, 'service')
    request = SetParameters.Request(parameters=[parameter('law', 'pd_gravity')])
    client.call_async(request).add_done_callback(lambda call: changed.append(call.result()))
    node.says('building')
    while_built = arm.send(trajectory([]))
    assert while_built == 'held: empty trajectory'
    assert arm.command() == pytest.approx(gravity(PLACE), abs=1e-6)
    assert arm.peer.change_state('controller', Transition.TRANSITION_DEACTIVATE)
    peer.spin_until(lambda: changed, 20.0, 'answer to the change')
    assert 'too late' not in node.output
    (result,) = changed[0].results
    assert not result.successful
    assert result.reason.startswith('parameters: was being prepared when the controller was deac')
    names = GetParameters.Request(names=['law'])
    (law,) = peer.call(GetParameters, 'controller/get_parameters', names).values
    assert law.string_value == 'computed_torque'


# Life cycle ------------------------------------------------------------------------------------


def activate(arm, *state) -> None:
    """Publish states until the controller has received one and can be activated."""

    def activated() -> bool:
        arm.publish(*state)
        return arm.peer.change_state('controller', Transition.TRANSITION_ACTIVATE)

    arm.peer.spin_until(activated, 30.0, 'activation')


def test_without_a_fresh_state_it_cannot_be_activated(processes, arm):
    node = processes.start('controller', ARM | {'autostart': False})
    assert arm.peer.change_state('controller', Transition.TRANSITION_CONFIGURE)
    assert not arm.peer.change_state('controller', Transition.TRANSITION_ACTIVATE)
    node.says('not activated: no fresh state on /joint_states')
    assert 'never seen: joint1, joint2, joint3, joint4' in node.output
    activate(arm)


#: A controller that is delayed by half a second when it first becomes active.
HELD_UP = """
import sys, time
from robot_dynamics_ros.ros.controller.running import RunningController
from robot_dynamics_ros.ros.executables import run_executable
delays, activate = [0.5], RunningController.activate
def late(self):
    time.sleep(delays.pop() if delays else 0.0)
    activate(self)
RunningController.activate = late
sys.exit(run_executable('controller'))
"""


def test_a_controller_whose_first_state_grew_old_becomes_active_at_a_fresh_one(processes, arm):
    node = processes.start('controller', ARM | SHORT, code=HELD_UP)

    def refused() -> bool:
        arm.publish()
        return 'not activated: no fresh state on /joint_states within 0.3 s' in node.output

    arm.peer.spin_until(refused, 30.0, 'a refused activation')
    assert arm.command() == pytest.approx(gravity(PLACE), abs=1e-6)


def test_one_that_was_activated_by_hand_is_not_activated_again_once_all_listen(processes, arm):
    node = processes.start('controller', ARM | {'await_listeners': ['late_peer']})
    activate(arm)
    with Peer(processes, 'late_peer') as late:
        received = late.collect(Float64MultiArray, COMMANDS)
        late.spin_until(lambda: arm.publish() or received, 20.0, 'a command')
        late.spin_for(1.0)  # in which it would be tried 50 times
        assert arm.command() == pytest.approx(gravity(PLACE), abs=1e-6)
        assert arm.peer.change_state('controller', Transition.TRANSITION_DEACTIVATE)
        late.spin_for(1.0)
    assert node.output.count('active: ') == 1
    assert node.returncode is None


def test_a_transition_that_cannot_be_made_is_refused_and_control_goes_on(processes, arm):
    node = processes.start('controller', ARM)
    arm.command()
    for impossible in (Transition.TRANSITION_CONFIGURE, 77):
        assert not arm.peer.change_state('controller', impossible)
        node.says(f'transition {impossible} refused: the node is active; possible: deactivate, ')
    assert arm.command() == pytest.approx(gravity(PLACE), abs=1e-6)
    assert node.returncode is None


def test_it_can_be_cleaned_up_and_configured_again(processes, arm):
    processes.start('controller', ARM | {'law': 'gravity_compensation'})
    arm.command()
    for transition in (
        Transition.TRANSITION_DEACTIVATE,
        Transition.TRANSITION_CLEANUP,
        Transition.TRANSITION_CONFIGURE,
    ):
        assert arm.peer.change_state('controller', transition)
    activate(arm)
    assert arm.command() == pytest.approx(gravity(PLACE), abs=1e-12)


@pytest.mark.parametrize(
    ('parameters', 'texts'),
    [
        ({'robot': 'scada'}, ["unknown robot 'scada'", 'four_dof, ', 'scara']),
        ({'law': 'magic'}, ["unknown law 'magic'", 'computed_torque', 'pd_gravity']),
        ({'formulation': 'x'}, ["unknown formulation 'x'", 'newton_euler']),
        ({'stop_action': 'x'}, ["unknown stop action 'x'", 'damping, gravity, hold, zero']),
        ({'joints': ['joint1', 'joint1']}, ['parameter joints', 'each of joint1 once']),
        ({'joints': ['a', 'b', 'c', 'd']}, ["unknown joint 'a'", 'joint1']),
        ({'natural_frequency': [10.0, 10.0]}, ['natural_frequency', 'one per joint']),
        ({'natural_frequency': [-1.0]}, ['natural_frequency', 'of at least 0']),
        ({'damping_ratio': [math.nan]}, ['damping_ratio', 'finite']),
        (
            {'effort_rate_limit': [1.0, 2.0]},
            ['effort_rate_limit', 'give 1 or 4 finite numbers of'],
        ),
        ({'effort_limit': [1.0, 2.0]}, ['effort_limit', 'give 4 numbers']),
        ({'robot': '', 'robot_description': '<robot'}, ['malformed XML']),
        (
            {'qos_overrides./effort_controller/commands.publisher.depth': -5},
            ["error: topic 'effort_controller/commands': ", "or its 'qos_overrides'"],
        ),
        (
            {'qos_overrides./joint_states.subscription.reliability': 'magic'},
            ["error: topic 'joint_states': Unexpected QoS override for policy `reliability`"],
        ),
        ({'use_sim_time': -0.5}, ["error: node: Trying to set parameter 'use_sim_time'"]),
    ],
)
def test_a_wrong_parameter_ends_the_start_with_one_clear_line(processes, parameters, texts):
    node = processes.start('controller', ARM | parameters)
    assert node.wait() == 2
    assert 'Traceback' not in node.output
    for text in texts:
        assert text in node.output


# Parameters ------------------------------------------------------------------------------------


def test_a_parameter_is_refused_with_its_reason_and_nothing_changes(processes, arm):
    processes.start('controller', ARM)
    arm.command()
    result = set_parameter(arm.peer, 'natural_frequency', [5.0, -1.0, 5.0, 5.0])
    assert not result.successful
    assert 'give 1 or 4 finite numbers of at least 0' in result.reason
    result = set_parameter(arm.peer, 'law', 'magic')
    assert not result.successful
    assert 'computed_torque' in result.reason
    assert not set_parameter(arm.peer, 'period', 0.01).successful  # fixed at start
    assert arm.command() == pytest.approx(gravity(PLACE), abs=1e-6)


def test_of_several_parameters_refused_together_none_acts_later(processes, arm):
    processes.start('controller', ARM | {'law': 'gravity_compensation'})
    arm.command()
    changes = {'law': 'computed_torque', 'payload_mass': 1.0, 'payload_frame': 'hand'}
    request = SetParametersAtomically.Request(
        parameters=[parameter(name, value) for name, value in changes.items()]
    )
    service = 'controller/set_parameters_atomically'
    result = arm.peer.call(SetParametersAtomically, service, request).result
    assert not result.successful
    assert "unknown frame 'hand'" in result.reason
    assert set_parameter(arm.peer, 'start_tolerance', 0.1).successful
    away = PLACE + 0.03  # where computed torque would pull back
    past_the_ramp(arm, away)
    assert arm.command(away) == pytest.approx(gravity(away), abs=1e-12)


#: Effective tolerances if set by both of their names, before and after a cleanup.
TOLERANCES = """
import sys
import rclpy
from rclpy.parameter import Parameter
from robot_dynamics_ros.ros.controller.node import Controller

rclpy.init(args=sys.argv)
node = Controller()
node.trigger_configure()

def put(**values):
    given = [
        Parameter('constraints.' + name.replace('__', '.'), value=x) for name, x in values.items()
    ]
    return node.set_parameters_atomically(given).successful

def acting():
    values = node._run.session.parameters
    names = ['joint1.trajectory', 'joint2.trajectory', 'goal_time']
    return [values[f'constraints.{name}'] for name in names]

def again(**meanwhile):
    node.trigger_cleanup()
    assert put(**meanwhile)
    node.trigger_configure()

assert acting() == [0.2, 0.0, 0.0], acting()
assert put(joint2__trajectory=0.1) and put(goal_time=3.0)
assert not put(joint2__trajectory=-0.1)
assert acting() == [0.2, 0.1, 3.0], acting()
checks = len(node._on_set_parameters_callbacks)
again(joint1__trajectory=0)
assert acting() == [0.0, 0.1, 3.0], acting()
assert len(node._on_set_parameters_callbacks) == checks
assert node.set_parameters([Parameter('null_space_frequency', value=4.0)])[0].successful
print('as expected')
"""


def test_tolerances_act_as_set_also_across_reconfigurations_and_what_is_unknown_is_said(processes):
    given = {
        'constraints.joint1.trajectory': 0.2,
        'constraints.joint9.goal': 0.1,
        'path_tolerance': [0.1],
        'payload_mas': 1.0,
    }
    node = processes.start('controller', ARM | given | {'autostart': False}, code=TOLERANCES)
    assert node.wait(60) == 0, node.output
    assert 'as expected' in node.output
    for warning in (
        "'constraints.joint9.goal' is unknown and has no effect",
        "'path_tolerance' was removed and has no effect: set constraints.<joint>.trajectory",
        "'payload_mas' is unknown and has no effect; did you mean 'payload_mass'?",
        "'null_space_frequency' has no effect with law 'computed_torque', it is kept for others",
    ):
        assert node.output.count(warning) == 1, node.output


#: What remains of a controller after a cleanup, if simulated time began while it was configured.
REMAINING = """
import sys
import rclpy
from rclpy.parameter import Parameter
from robot_dynamics_ros.ros.controller import running
from robot_dynamics_ros.ros.controller.node import Controller
from robot_dynamics_ros.ros.rclpy_compat import entities

rclpy.init(args=sys.argv)
node = Controller()
before = entities(node)
node.trigger_configure()
node.set_parameters([Parameter('use_sim_time', value=True)])
node.trigger_cleanup()
(clock,) = entities(node, but=before)
assert clock.topic_name == '/clock' and set(before) < set(entities(node))
running.ControllerTrajectories = None  # the last part that is built
node.trigger_configure()
assert node._run is None
assert set(entities(node)) == {*before, clock}
print('as expected')
"""


def test_a_cleanup_or_a_failed_configuration_leaves_what_was_there_before(processes):
    node = processes.start('controller', ARM | {'autostart': False}, code=REMAINING)
    assert node.wait(60) == 0, node.output
    assert 'as expected' in node.output


def test_a_change_that_fails_while_it_begins_to_act_does_not_end_the_node(monkeypatch):
    """Otherwise rclpy, which has already accepted the values, would end the node."""
    node, session = Mock(), Mock(parameters={}, locked=Mock(taken={}), remarks=[])
    commit = Mock(side_effect=ConfigurationError('parameters', 'nobody', 'foresaw it'))
    monkeypatch.setattr(parameter_services, 'prepare_parameters', lambda *_: commit)
    changes = parameter_services.ParameterServices(node, session, Mock(), Mock())
    changes.check({})
    changes.apply()
    node.get_logger().error.assert_called_once_with('parameters: nobody; foresaw it')


def test_gains_change_at_run_time_without_a_jump_where_there_is_no_error(processes, arm):
    processes.start('controller', ARM)
    before = arm.command()
    assert set_parameter(arm.peer, 'natural_frequency', [40.0]).successful
    assert arm.command() == pytest.approx(before, abs=1e-6)


def test_a_new_law_is_blended_in(processes, arm):
    processes.start('controller', ARM | {'activation_ramp_s': 1.0})
    arm.command()
    away = PLACE + np.array([0.03, 0.0, 0.0, 0.0])  # less than what counts as a jump
    past_the_ramp(arm, away)
    pulling = arm.command(away)
    assert abs(pulling[0]) > 0.1
    assert set_parameter(arm.peer, 'law', 'gravity_compensation').successful
    first = arm.command(away)
    assert abs(first[0] - pulling[0]) < 0.02 * abs(pulling[0])  # the ramp's first millisecond
    past_the_ramp(arm, away)
    assert arm.command(away) == pytest.approx(gravity(away), abs=1e-9)


def past_the_ramp(arm, q) -> None:
    """Let more than the ramp's second pass on the state clock."""
    for _ in range(120):
        arm.command(q, step=10 * PERIOD_NS)


# Trajectories ----------------------------------------------------------------------------------

GOAL = PLACE + 0.05


@pytest.mark.parametrize(
    ('msg', 'texts'),
    [
        (trajectory([(1.0, GOAL)], names=['a', *JOINTS[1:]]), ["joint 'a'", 'known: joint1']),
        (trajectory([(1.0, GOAL[:3])], names=JOINTS[:3]), ['joints joint4', 'missing']),
        (trajectory([(1.0, GOAL)], names=['joint1'] * 4), ["joint 'joint1'", 'twice']),
        (trajectory([(1.0, GOAL[:2])]), ['point 0', '2 positions', 'give 4']),
        (trajectory([(1.0, GOAL), (1.0, GOAL)]), ['point 1', 'increase strictly']),
        (trajectory([(1.0, [math.nan] * 4)]), ['finite']),
        (trajectory([(9.0, PLACE + [2.0, 0, 0, 0])]), ["joint 'joint1'", 'limits']),
        (trajectory([(0.0, GOAL + 0.1)]), ['point 0', 'time 0']),
        (trajectory([(0.02, GOAL)]), ['velocity limit']),
        (trajectory([(0.1, GOAL)], stamp_s=1), ['header.stamp', 'over']),
        pytest.param(b'\0\1\0\0' + bytes(16), ['trajectory: cannot be read'], id='cut off'),
    ],
)
def test_a_wrong_trajectory_is_rejected_with_the_reason(processes, arm, msg, texts):
    processes.start('controller', ARM)
    arm.stamp = 50 * NANO
    arm.command()
    answer = arm.send(msg)
    assert answer.startswith('rejected: ')
    for text in texts:
        assert text in answer


def test_a_trajectory_is_followed_and_an_empty_one_holds(processes, arm):
    processes.start('controller', ARM)
    arm.command()
    assert arm.send(trajectory([(2.0, GOAL)])).startswith('accepted: 1 point ')
    start = arm.stamp
    while arm.stamp < start + NANO:
        arm.command(step=10 * PERIOD_NS)
    middle = np.array(arm.references[-1].position)
    assert (middle > PLACE + 0.005).all()
    assert (middle < GOAL - 0.005).all()
    assert arm.send(trajectory([])).startswith('held')
    for _ in range(50):
        arm.command(step=10 * PERIOD_NS)
    # The arm has not moved, so it and the reference come to rest where it is.
    assert np.array(arm.references[-1].position) == pytest.approx(PLACE, abs=1e-12)
    assert not np.any(arm.references[-1].velocity)
    assert len(arm.references[-1].effort) == 4


def test_diagnostics_tell_rate_latency_law_and_saturation(processes, peer, arm):
    found = peer.collect(DiagnosticArray, '/diagnostics')
    processes.start('controller', ARM | {'diagnostics_period_s': 0.1})

    def complete() -> bool:
        arm.publish()
        return any('rate_hz' in keys(message) for message in found)

    def keys(message) -> dict[str, str]:
        return {pair.key: pair.value for pair in message.status[0].values}

    peer.spin_until(complete, 30.0, 'diagnostics')
    last = next(keys(m) for m in reversed(found) if 'rate_hz' in keys(m))
    assert last['law'] == 'computed_torque'
    assert float(last['latency_p50_us']) <= float(last['latency_p99_us'])
    assert last['saturated'] == 'none'
    assert found[-1].status[0].name == 'controller: control loop'


def test_in_lockstep_the_paused_simulator_is_not_taken_for_a_dead_one(processes, peer):
    commands = peer.collect(Float64MultiArray, COMMANDS)
    settings = {'robot': 'four_dof', 'mode': 'lockstep', 'start_paused': True}
    processes.start('simulator', settings | {'initial_position': PLACE.tolist()})
    waits = {'state_timeout_s': 1.5, 'use_sim_time': True, 'await_listeners': ['test_peer']}
    node = processes.start('controller', ARM | waits)
    peer.spin_until(lambda: commands, 30.0, 'the answer to the first state')
    peer.spin_for(3.0)  # longer than state_timeout_s
    assert len(commands) == 1
    assert 'stop action' not in node.output
    # A late subscriber receives the answer as well; there is no other while time is stopped.
    late = peer.collect(Float64MultiArray, COMMANDS)
    peer.spin_until(lambda: late, 10.0, 'the answer once more')
    assert late[0].data == commands[0].data
    peer.spin_for(0.5)
    assert len(commands) == 2
    assert peer.call(SetBool, 'simulator/pause', SetBool.Request(data=False)).success
    peer.spin_until(lambda: len(commands) > 200, 30.0, 'lockstep')


def test_while_another_node_commands_the_arm_it_is_not_activated(processes, peer, arm):
    rival = peer.node.create_publisher(Float64MultiArray, COMMANDS, 1)
    node = processes.start('controller', ARM | {'autostart': False})
    assert arm.peer.change_state('controller', Transition.TRANSITION_CONFIGURE)
    for _ in range(5):
        arm.publish()
        arm.peer.spin_for(0.05)
    assert not arm.peer.change_state('controller', Transition.TRANSITION_ACTIVATE)
    node.says('2 nodes command /effort_controller/commands: /controller, /test_peer')
    peer.node.destroy_publisher(rival)
    activate(arm)
    assert arm.command() == pytest.approx(gravity(PLACE), abs=1e-6)


@pytest.mark.parametrize(
    ('names', 'place', 'velocity'),
    [
        (JOINTS, [0.0] * 4, [0.0] * 4),
        (JOINTS[::-1], PLACE[::-1], [0.0] * 4),
        (JOINTS, PLACE, []),
    ],
    ids=['zeros', 'another order', 'no velocity'],
)
def test_two_publishers_of_the_states_are_named_and_refused_unless_they_give_other_joints(
    processes, peer, arm, names, place, velocity
):
    """As of a joint_state_publisher beside the driver."""
    seen = diagnosed(peer)
    given = ARM | {'autostart': False, 'diagnostics_period_s': 1.0, 'state_timeout_s': 5.0}
    node = processes.start('controller', given)
    assert peer.change_state('controller', Transition.TRANSITION_CONFIGURE)
    second = peer.node.create_publisher(JointState, 'joint_states', RELIABLE)
    peer.spin_until(second.get_subscription_count, 20.0, 'the second publisher')

    def publish(names: Sequence[str]) -> None:
        for _ in range(30):
            arm.publish()
            peer.spin_for(0.01)
            message = JointState(name=[*names], position=[*place], velocity=velocity)
            message.header.stamp.sec, message.header.stamp.nanosec = divmod(arm.stamp + 1, NANO)
            second.publish(message)
            peer.spin_for(0.01)

    sentence = '2 nodes publish /joint_states, and contradict each other: /test_peer, /test_peer'
    publish(names)
    assert not peer.change_state('controller', Transition.TRANSITION_ACTIVATE)
    node.says(f'not activated: {sentence}; end one')
    publish([f'finger{k}' for k in range(4)])
    peer.spin_for(2.2)  # for two reports since then
    activate(arm)
    before = len(seen())
    assert sentence not in [text for _, text in seen()[-1:]]
    publish(names)
    said = lambda: sentence in [text for _, text in seen()[before:]]  # noqa: E731
    peer.spin_until(said, 20.0, 'the warning')
    assert node.returncode is None


def test_a_shut_down_controller_leaves_nothing_that_ends_the_node(processes, peer, arm):
    """Timers that were already due publish nothing."""
    node = processes.start('controller', ARM | {'diagnostics_period_s': 0.05})
    arm.command()
    assert arm.peer.change_state('controller', Transition.TRANSITION_ACTIVE_SHUTDOWN)
    arm.peer.spin_for(0.5)
    assert node.returncode is None
    assert 'Traceback' not in node.output


def diagnosed(peer):
    """Return a collector of levels and messages of the controller's diagnostics."""
    arrays = peer.collect(DiagnosticArray, '/diagnostics')
    return lambda: [(x.status[0].level, x.status[0].message) for x in arrays]


def test_without_a_robot_it_says_for_what_it_waits(processes, peer):
    seen = diagnosed(peer)
    node = processes.start('controller', {'diagnostics_period_s': 0.2})
    waits = 'no robot: set robot, or publish robot_description'
    expected = (DiagnosticStatus.WARN, f'not active: {waits}')
    peer.spin_until(lambda: expected in seen(), 30.0, 'a warning')
    node.says(f'not active yet: {waits}', 20.0)


def test_without_states_it_says_for_what_it_waits(processes, peer):
    seen = diagnosed(peer)
    processes.start('controller', ARM | {'diagnostics_period_s': 0.2})
    expected = 'not active: no fresh state on /joint_states'
    peer.spin_until(
        lambda: any(level == DiagnosticStatus.WARN and expected in text for level, text in seen()),
        30.0, 'a warning',
    )  # fmt: skip


def test_what_it_is_told_is_in_its_log_and_its_status(processes, peer, arm):
    latched = QoSProfile(depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    statuses = peer.collect(String, 'controller/trajectory_status', latched)
    node = processes.start('controller', ARM, '--log-level', 'controller:=debug')
    arm.command()
    node.says('states on /joint_states, efforts on /effort_controller/commands', 5.0)
    assert 'natural_frequency: ' in node.output
    assert set_parameter(peer, 'law', 'pd_gravity').successful
    node.says('changed: law', 10.0)
    assert arm.peer.change_state('controller', Transition.TRANSITION_DEACTIVATE)
    node.says('not active any more: last command by stop action gravity', 10.0)
    peer.spin_until(
        lambda: statuses and statuses[-1].data == 'ended: the controller was deactivated',
        10.0, 'a status',
    )  # fmt: skip
    assert arm.peer.change_state('controller', Transition.TRANSITION_CLEANUP)
    node.says('cleaned up', 10.0)


def test_an_interrupt_while_libraries_are_loaded_leaves_no_traceback(processes):
    code = (
        'import sys\nfrom robot_dynamics_ros.ros.executables import run_executable\n'
        'print("begun", flush=True)\nsys.exit(run_executable("controller"))\n'
    )
    node = processes.start('controller', code=code)
    node.says('begun', 20.0)
    assert node.stop(signal.SIGINT) == 0
    assert 'Traceback' not in node.output


def test_an_interrupt_between_two_handlers_is_not_lost(processes):
    code = (
        'import os, signal, sys\n'
        'from robot_dynamics_ros.ros.executables import run_executable\n'
        'original, installed = signal.signal, []\n'
        'def interrupted(number, handler):\n'
        '    former = original(number, handler)\n'
        '    installed.append(number)\n'
        '    if installed == [signal.SIGINT, signal.SIGINT]:\n'
        '        os.kill(os.getpid(), signal.SIGINT)\n'
        '    return former\n'
        'signal.signal = interrupted\n'
        'sys.exit(run_executable("controller"))\n'
    )
    node = processes.start('controller', code=code)
    assert node.wait(5.0) == 0, node.output


def test_names_that_are_allowed_are_described(processes, peer):
    processes.start('controller', ARM)
    names = ['law', 'formulation', 'stop_action']
    request = DescribeParameters.Request(names=names)
    answer = peer.call(DescribeParameters, 'controller/describe_parameters', request)
    law, formulation, stop = (one.additional_constraints for one in answer.descriptors)
    assert 'computed_torque' in law
    assert 'pd_gravity' in law
    assert 'newton_euler' in formulation
    assert 'gravity' in stop
