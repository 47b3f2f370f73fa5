# SPDX-License-Identifier: Apache-2.0
"""The controller node over DDS: wiring, life cycle, services and process.

What is decided is tested on the session (``test/control``); here one process lives through most
tests, which leave it active. Oracle of the commands: Pinocchio's gravity of the URDF text.
"""

from __future__ import annotations

import math
import signal
from unittest.mock import Mock

import numpy as np
import pytest
import yaml
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import PoseStamped, Vector3, WrenchStamped
from lifecycle_msgs.msg import Transition
from peer import LATCHED, RELIABLE, Peer
from rcl_interfaces.srv import SetParameters, SetParametersAtomically
from rclpy.parameter import Parameter
from resting_arm import (
    ARM,
    COMMANDS,
    JOINTS,
    ORACLE,
    PERIOD_NS,
    PLACE,
    RestingArm,
    joint_state,
    trajectory,
)
from samples import sample
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64, Float64MultiArray, String
from std_srvs.srv import SetBool, Trigger

from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.messages import stamp_ns
from robot_dynamics_ros.ros.controller import parameter_services
from robot_dynamics_ros.ros.controller.running import RunningController

ACTIVATE, DEACTIVATE = Transition.TRANSITION_ACTIVATE, Transition.TRANSITION_DEACTIVATE
ANEW = Transition.TRANSITION_CLEANUP, Transition.TRANSITION_CONFIGURE
gravity = ORACLE.gravity_forces
REMEDY = 'end one, or give each arm its own ROS_DOMAIN_ID, namespace or topic of the states'


class Arm(RestingArm):
    """The driver, which also requests transitions and reads diagnostics."""

    def __init__(self, peer) -> None:
        super().__init__(peer)
        self._diagnostics = peer.collect(DiagnosticArray, '/diagnostics')

    def change(self, *transitions: int) -> bool:
        return all(self.peer.change_state('controller', x) for x in transitions)

    def activate(self) -> None:
        """Publish states until the controller has received one and can be activated."""
        self.until(lambda: self.change(ACTIVATE), 'activation')

    def statuses(self) -> list[DiagnosticStatus]:
        """Return each status of the diagnostics so far."""
        return [status for array in self._diagnostics for status in array.status]

    def said(self, text: str, *levels: bytes) -> bool:
        """Return whether a text is in a message of the diagnostics, of any or of some levels."""
        found = self.statuses()
        return any(text in x.message for x in found if not levels or x.level in levels)


@pytest.fixture
def arm(peer) -> Arm:
    return Arm(peer)


@pytest.fixture(scope='module')
def living(lasting):
    """Return the arm of an active controller that lives through many tests, and its process."""
    processes, peer = lasting
    arm, given = Arm(peer), ARM | {'diagnostics_period_s': 0.1}
    node = processes.start('controller', given, '--log-level', 'controller:=debug')
    arm.command()
    return arm, node


def parameters(**values) -> list:
    return [Parameter(name, value=x).to_parameter_msg() for name, x in values.items()]


# One process -----------------------------------------------------------------------------------


def test_a_state_is_answered_by_names_and_a_part_of_one_is_not(living):
    arm, _ = living
    names = ['joint3', 'gripper', 'joint1', 'joint4', 'joint2']
    q = [PLACE[2], 9.9, PLACE[0], PLACE[3], PLACE[1]]
    assert arm.command(q, None, names, [math.nan] * 5) == pytest.approx(gravity(PLACE), abs=1e-9)
    before, last = len(arm.references), arm.stamp
    for _ in range(5):
        arm.publish(PLACE[:2], None, JOINTS[:2])  # joints 3 and 4 are not new
    partial = arm.stamp
    arm.command()
    answered = [stamp_ns(msg) for msg in arm.references[before:]]
    assert not [stamp for stamp in answered if last < stamp <= partial]


def test_a_refused_parameter_says_why_and_of_several_none_acts_later(living):
    arm, _ = living
    assert 'computed_torque' in arm.set(law='magic').reason
    assert not arm.set(period=0.01).successful
    changes = {'law': 'gravity_compensation', 'payload_mass': 1.0, 'payload_frame': 'hand'}
    request = SetParametersAtomically.Request(parameters=parameters(**changes))
    service = 'controller/set_parameters_atomically'
    result = arm.peer.call(SetParametersAtomically, service, request).result
    assert "unknown payload_frame 'hand'" in result.reason
    assert arm.set(start_tolerance=0.1).successful
    assert arm.peer.get('controller', 'law') == 'computed_torque'
    assert arm.command() == pytest.approx(gravity(PLACE), abs=1e-6)


def test_a_changed_law_is_in_log_and_diagnostics(living):
    arm, node = living

    def told(name: str) -> str:
        return {pair.key: pair.value for x in arm.statuses()[-1:] for pair in x.values}.get(name)

    for law in ('pd_gravity', 'computed_torque'):
        assert arm.set(law=law).successful
        arm.until(lambda law=law: told('law') == law, 'diagnostics')
    node.says('changed: law', 10.0)
    arm.until(lambda: told('rate_hz'), 'a rate')
    assert float(told('latency_p50_us')) <= float(told('latency_p99_us'))
    assert told('saturated') == 'none'


def test_a_trajectory_that_is_wrong_or_cannot_be_read_is_rejected(living):
    """Others are followed: ``test_long_trajectory``; an empty one holds: below."""
    arm, _ = living
    for message, text in (
        (trajectory([(2.0, PLACE)], ['a', *JOINTS[1:]]), "joint 'a'"),
        (b'\0\1\0\0' + bytes(16), 'trajectory: cannot be read'),
    ):
        answer = arm.send(message)
        assert answer.startswith('rejected: ')
        assert text in answer


def test_streamed_targets_lead_the_reference_and_a_wrench_needs_a_law_that_yields(living):
    arm, node = living
    assert arm.set(law='impedance').successful
    pose, wrench = PoseStamped(), WrenchStamped()
    turned = ORACLE.frame_pose('tool', PLACE + [0.1, 0.0, 0.0, 0.0])[1]
    pose.pose.position.x, pose.pose.position.y, pose.pose.position.z = turned
    pose.header.frame_id, pose.pose.orientation.w = 'world', 0.0  # any
    wrench.header.frame_id = 'moon'

    def led(joint: int, way: float) -> bool:
        return abs(arm.references[-1].position[joint] - PLACE[joint] - way) < 1e-3

    for name, message, done in (
        ('joint', joint_state(0, [PLACE[1] + 0.05], names=['joint2']), lambda: led(1, 0.05)),
        ('pose', pose, lambda: led(0, 0.1)),
        ('wrench', wrench, lambda: "frame 'moon'" in node.output),
    ):
        topic = arm.peer.node.create_publisher(type(message), f'controller/target_{name}', 1)
        arm.until(
            lambda t=topic, m=message, d=done: t.publish(m) or d(), f'target: {name}',
            step=10 * PERIOD_NS,
        )  # fmt: skip
    assert arm.set(law='computed_torque').successful


def test_a_tare_is_a_parameter_and_refused_without_a_sensor(living):
    arm, peer = living[0], living[0].peer
    published = peer.collect(String, 'controller/parameters', LATCHED)
    sensor = peer.node.create_publisher(WrenchStamped, 'controller/measured_wrench', 1)

    def answer() -> Trigger.Response:
        return peer.call(Trigger, 'controller/tare_wrench', Trigger.Request())

    # Before, the arm may not stand still for long.
    arm.until(lambda: 'no wrench was measured' in answer().message, 'a refusal without a sensor')
    wrench, bias = WrenchStamped(), [1.0, -2.0, 3.5, 0.25, 0.0, -0.5]
    wrench.header.frame_id = 'tool'
    wrench.wrench.force, wrench.wrench.torque = (
        Vector3(x=x, y=y, z=z) for x, y, z in (bias[:3], bias[3:])
    )

    def tared() -> bool:
        for _ in range(5):
            arm.publish()
            sensor.publish(wrench)
            peer.spin_for(0.01)
        return answer().success

    peer.spin_until(tared, 60.0, 'a tare')
    assert list(peer.get('controller', 'sensor_bias')) == bias
    peer.spin_until(
        lambda: published and yaml.safe_load(published[-1].data)['sensor_bias'] == bias,
        20.0, 'the published bias',
    )  # fmt: skip


def test_a_life_cycle_refuses_what_cannot_be_ends_in_silence_and_begins_again(living):
    arm, node = living
    for impossible in (Transition.TRANSITION_CONFIGURE, 77):
        assert not arm.change(impossible)
        node.says(f'transition {impossible} refused: the node is active; possible: deactivate, ')
    assert arm.set(stop_action='zero').successful
    assert arm.change(DEACTIVATE)
    node.says('not active any more: last command by stop action zero', 10.0)
    arm.ends_with(np.zeros(4), 0.0)
    count = len(arm.commands)
    for _ in range(20):
        arm.publish()
    assert arm.change(*ANEW)
    node.says('cleaned up', 10.0)
    assert len(arm.commands) == count
    arm.activate()
    assert arm.command() == pytest.approx(gravity(PLACE), abs=1e-6)
    assert arm.set(stop_action='gravity').successful


def test_it_is_activated_neither_without_a_fresh_state_nor_beside_a_rival(living):
    arm, node = living
    assert arm.change(DEACTIVATE, *ANEW)
    assert not arm.change(ACTIVATE)
    node.says('not activated: no fresh state on /joint_states')
    assert 'never seen: joint1, joint2, joint3, joint4' in node.output
    expected = 'not active: no fresh state on /joint_states'
    arm.peer.spin_until(lambda: arm.said(expected, DiagnosticStatus.WARN), 30.0, 'a warning')
    rival = arm.peer.node.create_publisher(Float64MultiArray, COMMANDS, 1)
    two = '2 nodes command /effort_controller/commands: /controller, '

    def refused() -> bool:
        if arm.change(ACTIVATE):  # before the rival was discovered
            arm.change(DEACTIVATE)
        return two in node.output

    arm.until(refused, 'a rival')
    arm.peer.node.destroy_publisher(rival)
    arm.activate()
    assert arm.command() == pytest.approx(gravity(PLACE), abs=1e-6)


def test_a_state_without_a_stamp_is_answered_by_topics_stamped_on_arrival(living):
    arm, _ = living
    errors = arm.peer.collect(JointState, 'controller/error')
    arm.stamp, now = 0, arm.peer.node.get_clock().now
    begin, topics = now().nanoseconds, (arm.references, errors)

    def answered() -> bool:
        return all(topic and begin < stamp_ns(topic[-1]) <= now().nanoseconds for topic in topics)

    arm.until(answered, 'topics of the present time', step=0)


def test_at_last_a_shut_down_controller_leaves_nothing_that_ends_the_node(living):
    """Timers that were already due publish nothing. It is the last test of this process."""
    arm, node = living
    assert arm.change(Transition.TRANSITION_ACTIVE_SHUTDOWN)
    arm.peer.spin_for(0.5)
    assert node.returncode is None
    assert 'Traceback' not in node.output


# Processes of their own ------------------------------------------------------------------------


def test_a_description_by_topic_gives_a_topic_per_joint_and_external_efforts_are_told(
    processes, arm
):
    """An interrupt ends it with gravity compensation."""
    latched = arm.peer.node.create_publisher(String, 'robot_description', LATCHED)
    given = {'robot': '', 'command_form': 'per_joint', 'law': 'gravity_compensation',
             'observer_effort': 'measured', 'observer_bandwidth': [1e4], 'wrench_frame': 'tool',
             'diagnostics_period_s': 0.2}  # fmt: skip
    node = processes.start('controller', ARM | given)
    waits = 'no robot: set robot, or publish robot_description'
    node.says(f'not active yet: {waits}')
    warning = f'not active: {waits}'
    arm.peer.spin_until(lambda: arm.said(warning, DiagnosticStatus.WARN), 30.0, 'a warning')
    xml = sample('four_dof').xml
    clash = xml.replace('"joint1"', '"joint-2"').replace('"joint2"', '"joint_2"')
    latched.publish(String(data=clash))
    node.says("would have the same topic 'joint_2/cmd_force'")
    latched.publish(String(data=xml))
    arm.peer.spin_until(lambda: arm.change(ANEW[1]), 30.0, 'the second description')
    received = [arm.peer.collect(Float64, f'{joint}/cmd_force') for joint in JOINTS]
    external, rest = (
        arm.peer.collect(JointState, f'controller/{name}_effort')
        for name in ('external', 'unexplained')
    )
    wrenches = arm.peer.collect(WrenchStamped, 'controller/external_wrench')
    push, still = {'tool': [3.0, -2.0, 4.0, 0.0, 0.0, 0.0]}, np.zeros(4)
    measured = ORACLE.inverse_dynamics(PLACE, still, still, push)
    arm.activate()
    # The observer converges from 0 first; with K h = 10 that takes three samples.
    arm.until(lambda: len(wrenches) > 5 and all(received), 'external efforts', effort=measured)
    assert [topic[-1].data for topic in received] == pytest.approx(gravity(PLACE), abs=1e-12)
    assert external[-1].effort == pytest.approx(gravity(PLACE) - measured, abs=1e-6)
    assert wrenches[-1].header.frame_id == 'tool'
    force, moment = wrenches[-1].wrench.force, wrenches[-1].wrench.torque
    found = {'tool': [force.x, force.y, force.z, moment.x, moment.y, moment.z]}
    explained = gravity(PLACE) - ORACLE.inverse_dynamics(PLACE, still, still, found)
    assert explained + rest[-1].effort == pytest.approx(gravity(PLACE) - measured, abs=1e-6)
    assert node.stop(signal.SIGINT) == 0
    arm.peer.spin_for(0.2)
    assert [topic[-1].data for topic in received] == pytest.approx(gravity(PLACE), abs=1e-12)


def test_a_locked_joint_is_measured_at_each_activation_and_its_moves_are_told_at_once(
    processes, arm
):
    published = arm.peer.collect(String, 'controller/parameters', LATCHED)
    law = {'law': 'gravity_compensation', 'diagnostics_period_s': 60.0}
    processes.start('controller', ARM | law | {'locked': ['joint2:=measured']})
    # Two recursions, and a rotation by the locked position that is written as three angles.
    assert arm.command() == pytest.approx(np.delete(gravity(PLACE), 1), abs=1e-10)
    moved = PLACE + [0.0, 0.4, 0.0, 0.0]
    text = "locked joint 'joint2' stands at -0.6, the model has it at -1"
    # The node waits for a state after the model has been rebuilt, so they have to go on.
    states = arm.peer.node.create_timer(0.02, lambda: arm.publish(moved))
    arm.peer.spin_until(lambda: arm.said(text), 20.0, 'the move on /diagnostics')
    assert arm.change(DEACTIVATE, ACTIVATE)
    arm.peer.node.destroy_timer(states)
    assert arm.command(moved) == pytest.approx(np.delete(gravity(moved), 1), abs=1e-10)
    arm.peer.spin_until(lambda: 'joint2:=-0.6' in published[-1].data, 20.0, '~/parameters')


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


def test_states_that_grow_old_or_stop_bring_no_activation_and_the_stop_action(processes, arm):
    """A signal brings the stop action, too."""
    given = {'stop_action': 'zero', 'diagnostics_period_s': 0.1, 'state_timeout_s': 0.3}
    node = processes.start('controller', ARM | given, code=HELD_UP)
    old = 'not activated: no fresh state on /joint_states within 0.3 s'
    arm.until(lambda: old in node.output, 'a refused activation')
    assert np.abs(arm.command()).max() > 1.0
    assert 'behind the clock of this node: check use_sim_time' in node.output
    missing = 'no longer seen: joint3'
    others = [joint for joint in JOINTS if joint != 'joint3']
    arm.until(
        lambda: missing in node.output and arm.said(missing, DiagnosticStatus.ERROR),
        f'{missing!r} in log and diagnostics', np.delete(PLACE, 2), None, others,
    )  # fmt: skip
    node.says('stop action zero')
    arm.ends_with(np.zeros(4), 0.0)
    arm.command()
    node.says('fresh states again')
    assert node.stop(signal.SIGTERM) == 0
    arm.ends_with(np.zeros(4), 0.0)


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


def test_while_a_law_is_built_states_are_answered_and_what_stops_the_arm_begins_at_once(
    processes, arm
):
    """The law is refused then; and nobody activates the controller again."""
    node = processes.start('controller', ARM | {'await_listeners': ['late_peer']}, code=SLOW_LAW)
    arm.activate()
    arm.command()
    peer, changed = arm.peer, []
    client = peer.node.create_client(SetParameters, 'controller/set_parameters')
    peer.spin_until(client.service_is_ready, 20.0, 'service')
    request = SetParameters.Request(parameters=parameters(law='pd_gravity'))
    client.call_async(request).add_done_callback(lambda call: changed.append(call.result()))
    node.says('building')
    assert arm.send(trajectory([])) == 'held: empty trajectory'
    assert arm.command() == pytest.approx(gravity(PLACE), abs=1e-6)
    with Peer(processes, 'late_peer') as late:
        received = late.collect(Float64MultiArray, COMMANDS)
        late.spin_until(lambda: arm.publish() or received, 20.0, 'a command')
        assert arm.change(DEACTIVATE)
        late.spin_for(1.0)  # in which an activation would be tried 50 times
    assert node.output.count('active: ') == 1
    peer.spin_until(lambda: changed, 20.0, 'answer to the change')
    assert 'too late' not in node.output
    (result,) = changed[0].results
    assert not result.successful
    assert result.reason.startswith('parameters: was being prepared when the controller was deac')
    assert peer.get('controller', 'law') == 'computed_torque'


#: Effective tolerances if set by both of their names, before and after a cleanup; and what remains
#: after a cleanup, if simulated time began while it was configured, or the configuration failed.
INSIDE = """
import sys
import rclpy
from rclpy.parameter import Parameter
from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.ros.controller import running
from robot_dynamics_ros.ros.controller.node import Controller
from robot_dynamics_ros.ros.rclpy_compat import entities, lifecycle_state

rclpy.init(args=sys.argv)
node = Controller()
before = entities(node)
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

assert node._missing == 'waiting for the transition activate'
assert acting() == [0.2, 0.0, 0.0], acting()
assert put(joint2__trajectory=0.1) and put(goal_time=3.0)
assert not put(joint2__trajectory=-0.1)
assert acting() == [0.2, 0.1, 3.0], acting()
checks = len(node._on_set_parameters_callbacks)
node.trigger_cleanup()
assert put(joint1__trajectory=0)
node.trigger_configure()
assert acting() == [0.0, 0.1, 3.0], acting()
assert len(node._on_set_parameters_callbacks) == checks
assert node.set_parameters([Parameter('null_space_frequency', value=4.0)])[0].successful

node.set_parameters([Parameter('use_sim_time', value=True)])
node.trigger_cleanup()
(clock,) = entities(node, but=before)
assert clock.topic_name == '/clock' and set(before) < set(entities(node))
node.trigger_configure()
node._run.activate = lambda: {}['nobody foresaw it']  # rclpy would not say it
node._run.missing, node._autostart = lambda: '', node.create_timer(9.0, int)
node._start_when_ready()  # this time, as by autostart
node.destroy_timer(node._autostart)

def ended(why):
    return (node._run, lifecycle_state(node), node._missing) == (None, 'unconfigured', why)

assert ended("KeyError: 'nobody foresaw it'")
node.trigger_configure()
run, node._run.activate = node._run, lambda: None
node.trigger_activate()
run.session.mode, run._monitor.publish_changes = SessionMode.HOLDING, lambda: {}['nor this']
run._trajectories.end = lambda: {}['nor that']
node.trigger_deactivate()
assert ended("KeyError: 'nor this'") and run.session.mode is SessionMode.ENDED
running.ControllerTrajectories = None  # the last part that is built
node.trigger_configure()
assert node._run is None
assert node._missing.startswith("TypeError: 'NoneType'")
assert set(entities(node)) == {*before, clock}
print('as expected')
"""


def test_tolerances_act_as_set_and_a_cleanup_or_a_failed_configuration_leaves_nothing(processes):
    given = {
        'constraints.joint1.trajectory': 0.2,
        'constraints.joint9.goal': 0.1,
        'path_tolerance': [0.1],
        'payload_mas': 1.0,
    }
    node = processes.start('controller', ARM | given | {'autostart': False}, code=INSIDE)
    assert node.wait(60) == 0, node.output
    assert 'as expected' in node.output
    for said in (
        "not activated: KeyError: 'nobody foresaw it'",
        "not deactivated: KeyError: 'nor this'",
        "not closed in order: KeyError: 'nor that'",
    ):
        assert node.output.count(said) == 1, node.output
    for warning in (
        "'constraints.joint9.goal' is unknown and has no effect",
        "'path_tolerance' was removed and has no effect: set constraints.<joint>.trajectory",
        "'payload_mas' is unknown and has no effect; did you mean 'payload_mass'?",
        "'null_space_frequency' has no effect with law 'computed_torque', it is kept for others",
    ):
        assert node.output.count(warning) == 1, node.output


def test_a_change_that_fails_while_it_begins_to_act_does_not_end_the_node(monkeypatch):
    """Otherwise rclpy, which has already accepted the values, would end the node."""
    node, session = Mock(), Mock(parameters={}, published_parameters=dict, remarks=[])
    commit = Mock(side_effect=ConfigurationError('parameters', 'nobody', 'foresaw it'))
    monkeypatch.setattr(parameter_services, 'prepare_parameters', lambda *_: commit)
    changes = parameter_services.ParameterServices(node, session, Mock(), Mock())
    changes.check({})
    changes.apply()
    node.get_logger().error.assert_called_once_with('parameters: nobody; foresaw it')


def test_a_state_that_was_pending_as_the_controller_was_closed_is_not_answered():
    """Its topics are destroyed: what was said on them would end the node."""
    run = object.__new__(RunningController)
    run.session, run.connection = Mock(mode=SessionMode.ENDED, remarks=[1]), Mock()
    run._on_state(b'')
    run.connection.reader.read.assert_not_called()


def test_an_automatic_activation_waits_until_one_node_publishes_the_states():
    """Else it would be refused once, as by a request, instead of awaited."""
    run = object.__new__(RunningController)
    run._watch = run._node = run.session = run.connection = run._rivals = Mock()
    run.session.is_silent.return_value, run._node.get_parameter().value = False, []
    run.session.locked.missing.return_value = ''
    run.connection.missing_subscriber.return_value = ''
    run.connection.competitors.return_value = ''
    run.session.loop.state.validator.contradictions = 3
    run.connection.reader.other_layouts = 4
    run._rivals.sentence.side_effect = ['2 nodes publish /joint_states', '']
    assert [run.missing(), run.missing()] == [f'2 nodes publish /joint_states: {REMEDY}', '']
    run._rivals.sentence.assert_called_with(7)


def test_in_lockstep_the_paused_simulator_is_not_taken_for_a_dead_one(processes, peer):
    commands = peer.collect(Float64MultiArray, COMMANDS)
    settings = {'robot': 'four_dof', 'mode': 'lockstep', 'start_paused': True}
    settings |= {'initial_position': PLACE.tolist(), 'end_time_s': 0.3, 'on_end': 'exit'}
    processes.start('simulator', settings)
    waits = {'state_timeout_s': 0.5, 'use_sim_time': True, 'await_listeners': ['test_peer']}
    node = processes.start('controller', ARM | waits)
    peer.spin_until(lambda: commands, 30.0, 'the answer to the first state')
    peer.spin_for(1.0)  # longer than state_timeout_s
    assert len(commands) == 1
    assert 'stop action' not in node.output
    # A late subscriber receives the answer as well; there is no other while time is stopped.
    late = peer.collect(Float64MultiArray, COMMANDS)
    peer.spin_until(lambda: late, 10.0, 'the answer once more')
    assert late[0].data == commands[0].data
    assert peer.call(SetBool, 'simulator/pause', SetBool.Request(data=False)).success
    peer.spin_until(lambda: len(commands) > 200, 30.0, 'lockstep')
    peer.spin_until(lambda: 'its publisher has ended' in node.output, 30.0, 'the end')
    assert '[ERROR]' not in node.output


def test_two_publishers_of_the_states_are_named_and_refused_unless_they_give_other_joints(
    processes, peer, arm
):
    """As of a joint_state_publisher beside the driver."""
    given = ARM | {'autostart': False, 'diagnostics_period_s': 0.3, 'state_timeout_s': 5.0}
    node = processes.start('controller', given)
    assert arm.change(Transition.TRANSITION_CONFIGURE)
    second = peer.node.create_publisher(JointState, 'joint_states', RELIABLE)
    peer.spin_until(second.get_subscription_count, 20.0, 'the second publisher')
    sentence = '2 nodes publish /joint_states, and contradict each other: /test_peer, /test_peer'
    fingers = [f'finger{k}' for k in range(4)]

    def warned(names=JOINTS, place=(0.0,) * 4, ahead=1) -> bool:
        """Publish states of both; return whether the last status is the sentence."""
        arm.publish()
        peer.spin_for(0.01)
        second.publish(joint_state(arm.stamp + ahead, place, names=names))
        peer.spin_for(0.01)
        return [x.message for x in arm.statuses()[-1:]] == [f'{sentence}: {REMEDY}']

    for _ in range(30):
        warned()
    assert not arm.change(ACTIVATE)
    node.says(f'not activated: {sentence}; {REMEDY}')
    peer.spin_until(lambda: not warned(fingers) and arm.change(ACTIVATE), 20.0, 'activation')
    peer.spin_until(lambda: not warned(fingers), 20.0, 'no warning')
    # Another arm at the same place, in simulated time: every state is a jump of the time.
    peer.spin_until(lambda: warned(place=PLACE, ahead=10**18), 20.0, 'the warning')
    assert node.returncode is None


BEGUN = """
import os, signal, sys
from robot_dynamics_ros.ros.executables import run_executable
"""
#: An interrupt between the installations of two handlers.
BETWEEN = """
original, installed = signal.signal, []
def interrupted(number, handler):
    former = original(number, handler)
    installed.append(number)
    if installed == [signal.SIGINT, signal.SIGINT]:
        os.kill(os.getpid(), signal.SIGINT)
    return former
signal.signal = interrupted
"""


@pytest.mark.parametrize('between', ['', BETWEEN], ids=['while libraries load', 'handlers'])
def test_an_early_interrupt_ends_the_node_without_a_traceback(processes, between):
    run = "print('begun', flush=True)\nsys.exit(run_executable('controller'))\n"
    node = processes.start('controller', code=BEGUN + between + run)
    if not between:
        node.says('begun', 20.0)
        node.stop(signal.SIGINT)
    assert node.wait(5.0) == 0, node.output
    assert 'Traceback' not in node.output
