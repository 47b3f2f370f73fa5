# SPDX-License-Identifier: Apache-2.0
"""The controller node over DDS: wiring, life cycle, services and process.

What is decided is tested on the session (``test/control``); here one process lives through most
tests, which leave it active. Oracle of the commands: Pinocchio's gravity of the URDF text.
"""

import signal
from unittest.mock import Mock

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from lifecycle_msgs.msg import Transition
from peer import LATCHED, RELIABLE, Peer
from processes import STOPPABLE
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
from rosgraph_msgs.msg import Clock
from samples import sample
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64, Float64MultiArray, String

from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.messages import stamp_ns
from robot_dynamics_ros.ros.controller.parameter_requests import ParameterRequests
from robot_dynamics_ros.ros.controller.running import RunningController
from robot_dynamics_ros.ros.conversions import ns_to_stamp

ACTIVATE, DEACTIVATE = Transition.TRANSITION_ACTIVATE, Transition.TRANSITION_DEACTIVATE
ANEW = Transition.TRANSITION_CLEANUP, Transition.TRANSITION_CONFIGURE
gravity = ORACLE.gravity_forces
RIVALS = '2 nodes publish /effort_controller/commands: /controller, /test_peer'
REMEDY = 'end one, or give each arm its own ROS_DOMAIN_ID, namespace or topic of the states'


@pytest.fixture
def arm(peer) -> RestingArm:
    return RestingArm(peer)


@pytest.fixture(scope='module')
def living(lasting):
    """Return the arm of an active controller that lives through many tests, and its process."""
    processes, peer = lasting
    arm, given = RestingArm(peer), ARM | {'diagnostics_period_s': 0.1}
    log = '--log-level', 'controller:=debug'
    node = processes.start('controller', given, *log, env=STOPPABLE)
    arm.command()
    return arm, node


def parameters(**values) -> list:
    return [Parameter(name, value=x).to_parameter_msg() for name, x in values.items()]


# One process -----------------------------------------------------------------------------------


def test_parts_of_a_state_that_wait_together_are_one_state(living):
    """As of an arm and its gripper on one topic; what names none of its joints changes nothing.

    They wait together if the node is slower than the publications, which it mostly is. A part
    alone is not answered.
    """
    arm, _ = living
    arm.command()
    for _ in range(20):
        arm.publish(PLACE[:2], None, JOINTS[:2])
        arm.publish(PLACE[2:], None, JOINTS[2:])
        whole = arm.stamp
        arm.publish(PLACE[:1], None, ['finger'])
        arm.peer.spin_until(lambda: stamp_ns(arm.references[-1]) == whole, 20.0, 'their answer')  # noqa: B023


def test_what_cannot_be_is_refused_with_the_reason_and_of_several_parameters_none_acts_later(
    living,
):
    """Trajectories that can be are followed: ``test_long_trajectory``."""
    arm, _ = living
    assert arm.send(b'\0\1\0\0' + bytes(16)).startswith('rejected: trajectory: cannot be read')
    for changes, said in (
        ({'payload_mass': 1.0, 'payload_frame': 'hand'}, "unknown payload_frame 'hand'"),
        ({'payload_mass': 0.0, 'laws': 'x'}, "unknown parameter 'laws'; did you mean 'law'?"),
        ({'law': None}, 'unknown law None; known: '),
        ({'use_sim_time': 3}, 'parameter use_sim_time = 3 refused: must be true or false'),
    ):
        request = SetParametersAtomically.Request(parameters=parameters(**changes))
        service = 'controller/set_parameters_atomically'
        assert said in arm.peer.call(SetParametersAtomically, service, request).result.reason
    assert arm.set(start_tolerance=0.1).successful
    assert arm.peer.get('controller', 'law') == 'computed_torque'
    assert arm.command() == pytest.approx(gravity(PLACE), abs=1e-6)


def test_a_changed_law_is_in_log_and_diagnostics_a_late_rival_in_these(living):
    arm, node = living
    rival = arm.peer.publisher(Float64MultiArray, COMMANDS, 1)
    arm.until(lambda: arm.said(f'{RIVALS}; end one, or set share_command_topic'), 'a warning')
    arm.peer.node.destroy_publisher(rival)
    for law in ('pd_gravity', 'computed_torque'):
        assert arm.set(law=law).successful
        arm.until(lambda: arm.figure('law') == law and arm.figure('rate_hz'), 'the law')  # noqa: B023
    node.says('changed: law', 10.0)
    median, late = (float(arm.figure(f'latency_{part}_us')) for part in ('p50', 'p99'))
    assert 0.0 < median <= late < 1e7


def test_a_life_cycle_refuses_what_cannot_be_ends_in_silence_and_begins_again(living):
    """Neither without a fresh state nor beside a rival."""
    arm, node = living
    assert not arm.change(77)
    node.says('transition 77 refused: the node is active; possible: deactivate, ')
    assert arm.set(stop_action='zero').successful
    assert arm.change(DEACTIVATE)
    node.says('not active any more: last command by stop action zero', 10.0)
    arm.ends_without_effort()
    count = len(arm.commands)
    for _ in range(20):
        arm.publish()
    assert arm.change(*ANEW)
    assert not arm.change(ACTIVATE)
    assert len(arm.commands) == count
    node.says('not activated: no fresh state on /joint_states')
    assert 'never seen: joint1, joint2, joint3, joint4' in node.output
    rival = arm.peer.publisher(Float64MultiArray, COMMANDS, 1)

    def refused() -> bool:
        if arm.change(ACTIVATE):  # before the rival was discovered
            arm.change(DEACTIVATE)
        return '2 nodes publish /effort_controller/commands: /controller, ' in node.output

    arm.until(refused, 'a rival')
    arm.peer.node.destroy_publisher(rival)
    arm.until(lambda: arm.change(ACTIVATE), 'activation')
    assert arm.command() == pytest.approx(gravity(PLACE), abs=1e-6)


def test_a_payload_is_taken_at_run_time_and_put_down_by_the_service(living):
    arm, _ = living
    assert arm.set(payload_mass=1.0).successful
    away = lambda: np.abs(np.subtract(arm.commands[-1].data, gravity(PLACE))).max()  # noqa: E731
    arm.until(lambda: away() > 1.0, 'its weight')
    assert arm.peer.ask('controller/carry_payload', False).success
    arm.until(lambda: away() < 1e-6, 'the effort of the arm alone')


def test_at_last_a_shut_down_controller_leaves_nothing_that_ends_the_node(living):
    """Timers that were already due publish nothing. It is the last test of this process."""
    arm, node = living
    assert arm.change(Transition.TRANSITION_ACTIVE_SHUTDOWN)
    arm.peer.spin_for(0.5)
    assert node.returncode is None
    assert 'Traceback' not in node.output


# Processes of their own ------------------------------------------------------------------------


def test_a_description_by_topic_gives_a_topic_per_joint_and_an_interrupt_ends_with_its_gravity(
    processes, arm
):
    given = {'robot': '', 'command_form': 'per_joint', 'law': 'gravity_compensation'}
    given['diagnostics_period_s'] = 0.2
    node, peer = processes.start('controller', ARM | given), arm.peer
    missing = 'not active: no robot: set robot, or publish robot_description'
    peer.spin_until(lambda: arm.said(missing), 30.0, 'a warning')
    latched = peer.publisher(String, 'robot_description', LATCHED)
    latched.publish(String(data=sample('four_dof').xml))
    received = [peer.collect(Float64, f'{joint}/cmd_force') for joint in JOINTS]
    arm.until(lambda: all(received), 'commands')
    assert node.stop(signal.SIGINT) == 0
    peer.spin_for(0.2)
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
    # The node waits for a state after the model has been rebuilt, so they have to go on.
    states = arm.peer.node.create_timer(0.02, lambda: arm.publish(moved))
    text = "locked joint 'joint2' stands at -0.6, the model has it at -1"
    arm.peer.spin_until(lambda: arm.said(text), 20.0, 'the move on /diagnostics')
    assert arm.change(DEACTIVATE, ACTIVATE)
    arm.peer.node.destroy_timer(states)
    assert arm.command(moved) == pytest.approx(np.delete(gravity(moved), 1), abs=1e-10)
    arm.peer.spin_until(lambda: 'joint2:=-0.6' in published[-1].data, 20.0, '~/parameters')


#: A controller that is delayed by half a second before and while it becomes active.
HELD_UP = """
import sys, time
from robot_dynamics_ros.ros.controller.running import DriverConnection, RunningController
from robot_dynamics_ros.ros.executables import run_executable
delays, activate, begin = [0.5], RunningController.activate, DriverConnection.begin
def late(self):
    time.sleep(delays.pop() if delays else 0.0)
    activate(self)
RunningController.activate = late
DriverConnection.begin = lambda *args: [time.sleep(0.5), begin(*args)]
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
    assert 'stop action' not in node.output
    missing = 'no longer seen: joint3'
    others = [joint for joint in JOINTS if joint != 'joint3']
    arm.until(
        lambda: missing in node.output and arm.said(missing, DiagnosticStatus.ERROR),
        f'{missing!r} in log and diagnostics', np.delete(PLACE, 2), None, others,
    )  # fmt: skip
    node.says('stop action zero')
    arm.ends_without_effort()
    arm.command()
    node.says('fresh states again')
    assert node.stop(signal.SIGTERM) == 0
    arm.ends_without_effort()


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
    arm.until(lambda: arm.change(ACTIVATE), 'activation')
    arm.command()
    peer = arm.peer
    client = peer.node.create_client(SetParameters, 'controller/set_parameters')
    peer.spin_until(client.service_is_ready, 20.0, 'service')
    change = client.call_async(SetParameters.Request(parameters=parameters(law='pd_gravity')))
    node.says('building')
    assert arm.send(trajectory([])) == 'held: empty trajectory'
    assert arm.command() == pytest.approx(gravity(PLACE), abs=1e-6)
    with Peer(processes, 'late_peer') as late:
        received = late.collect(Float64MultiArray, COMMANDS)
        late.spin_until(lambda: arm.publish() or received, 20.0, 'a command')
        assert arm.change(DEACTIVATE)
        late.spin_for(1.0)  # in which an activation would be tried 50 times
    assert node.output.count('active: ') == 1
    peer.spin_until(change.done, 20.0, 'answer to the change')
    assert 'too late' not in node.output
    (result,) = change.result().results
    assert 'was being prepared when the controller was deac' in result.reason
    assert peer.get('controller', 'law') == 'computed_torque'


#: Effective tolerances if set by both of their names, before and after a cleanup; and what remains
#: after a cleanup, if simulated time began while it was configured, or the configuration failed.
INSIDE = """
import sys
from unittest.mock import Mock
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
assert node._autostart.is_canceled()
node._autostart.reset()  # as while it waits for states
opened = entities(node, but=before)
node.trigger_cleanup()
for _, one in opened:  # an executor handles what was pending; an error would end the node
    getattr(one, 'callback', print)(b'')
    getattr(one, 'send_response', print)(None, None)
assert node._autostart.is_canceled() and put(joint1__trajectory=0)
node.trigger_configure()
assert acting() == [0.0, 0.1, 3.0], acting()
assert len(node._on_set_parameters_callbacks) == checks
assert node.set_parameters([Parameter('null_space_frequency', value=4.0)])[0].successful

node.set_parameters([Parameter('use_sim_time', value=True)])
assert node._run.session.simulated_time
node.trigger_cleanup()
(clock,) = entities(node, but=before)
assert clock[1].topic_name == '/clock' and set(before) < set(entities(node))
node.trigger_configure()
node._run.activate = lambda: {}['nobody foresaw it']  # rclpy would not say it
node._run.missing = lambda: ''
node._start_when_ready()  # this time, as by autostart

def ended(why):
    return (node._run, lifecycle_state(node), node._missing) == (None, 'unconfigured', why)

assert ended("KeyError: 'nobody foresaw it'")
node.trigger_configure()
run, node._run.activate = node._run, lambda: None
node.trigger_activate()
run.session.mode, run._monitor.publish_changes = SessionMode.HOLDING, lambda: {}['nor this']
run.requests.worker.close = lambda: {}['nor that']
node.trigger_deactivate()
assert ended("KeyError: 'nor this'") and run.session.mode is SessionMode.ENDED
node._action = Mock()
running.ParameterRequests.publish = lambda _: {}['nor the last']
node.trigger_configure()
assert node._run is None
assert node._missing == "KeyError: 'nor the last'"
assert not node._action.serve.called  # no goal for what failed
assert set(entities(node)) == {*before, clock}
print('as expected')
"""


def test_tolerances_act_as_set_and_a_cleanup_or_a_failed_configuration_leaves_nothing(processes):
    given = {
        'constraints.joint1.trajectory': 0.2,
        'constraints.joint9.goal': 0.1,
        'payload_mas': 1.0,
    }
    node = processes.start('controller', ARM | given | {'autostart': False}, code=INSIDE)
    assert node.wait(60) == 0, node.output
    assert 'as expected' in node.output
    for said in (
        "not activated: KeyError: 'nobody foresaw it'",
        "not deactivated: KeyError: 'nor this'",
        "not closed in order: KeyError: 'nor that'",
        "'constraints.joint9.goal' is unknown and has no effect",
        "'payload_mas' is unknown and has no effect; did you mean 'payload_mass'?",
        "'null_space_frequency' has no effect with law 'computed_torque', it is kept for others",
    ):
        assert node.output.count(said) == 1, node.output


def test_a_change_that_fails_while_it_begins_to_act_does_not_end_the_node():
    """Otherwise rclpy, which has already accepted the values, would end the node."""
    node, session = Mock(), Mock(parameters={}, published_parameters=dict, remarks=[])
    changes = ParameterRequests(node, session, Mock(), Mock())
    changes._commit = Mock(side_effect=ConfigurationError('parameters', 'nobody', 'foresaw it'))
    changes.apply()
    node.get_logger().error.assert_called_once_with('parameters: nobody; foresaw it')


def test_an_automatic_activation_waits_until_one_node_publishes_the_states():
    """Else it would be refused once, as by a request, instead of awaited."""
    run = object.__new__(RunningController)
    run._watch = run.session = run.connection = run._rivals = Mock()
    run.session.loop.state.validator.contradictions = 3
    run.connection.reader.other_layouts = 4
    run._rivals.sentence.return_value = '2 nodes publish /joint_states'
    assert run.missing() == '2 nodes publish /joint_states'
    run._rivals.sentence.assert_called_with(7)


def test_in_lockstep_the_paused_simulator_is_not_taken_for_a_dead_one(processes, peer):
    commands = peer.collect(Float64MultiArray, COMMANDS)
    settings = {'robot': 'four_dof', 'start_paused': True, 'end_time_s': 0.3, 'on_end': 'exit'}
    processes.start('simulator', settings)
    waits = {'state_timeout_s': 0.5, 'use_sim_time': True, 'await_listeners': ['test_peer']}
    node = processes.start('controller', ARM | waits)
    peer.spin_until(lambda: commands, 30.0, 'the answer to the first state')
    peer.spin_for(1.0)  # longer than state_timeout_s
    assert len(commands) == 1
    # A late subscriber receives the answer as well; there is no other while time is stopped.
    late = peer.collect(Float64MultiArray, COMMANDS)
    peer.spin_until(lambda: late, 10.0, 'the answer once more')
    assert late[0].data == commands[0].data
    assert peer.ask('simulator/pause', False).success
    node.says('its publisher has ended', 30.0)
    assert '[ERROR]' not in node.output


def test_a_late_repetition_of_the_state_at_0_is_not_taken_for_the_next_one(processes, peer):
    """A paused Gazebo repeats it; one may be handled after the clock of the first step."""
    clock, arm = peer.publisher(Clock, '/clock', RELIABLE), RestingArm(peer)
    arm.stamp = 0
    processes.start('controller', ARM | {'use_sim_time': True})
    arm.until(lambda: arm.references, 'the answer to the state at 0', step=0)
    peer.spin_for(0.5)
    clock.publish(Clock(clock=ns_to_stamp(PERIOD_NS)))
    peer.spin_for(0.5)
    arm.publish(step=0)
    peer.spin_for(0.5)
    arm.command(PLACE + 1e-3)
    assert arm.references[1].effort != arm.references[0].effort


PATIENT = """
import sys
from robot_dynamics_ros.ros import driver_connection
from robot_dynamics_ros.ros.executables import run_executable

driver_connection._DISCOVERY_S = 600.0  # however busy this machine is
sys.exit(run_executable('controller'))
"""


def test_of_two_that_discover_each_other_late_the_one_that_commanded_first_stays(processes, arm):
    """As on a busy machine, where a second controller became active before it knew the first.

    The one that has sent more commands is the first, however seldom health is reported.
    """
    node = processes.start('controller', ARM | {'diagnostics_period_s': 60.0}, code=PATIENT)
    for _ in range(10):
        arm.command()
    rival = arm.peer.publisher(Float64MultiArray, COMMANDS, 1)
    subscribed = lambda: rival.get_subscription_count() == 2  # noqa: E731 that of the arm, too
    arm.peer.spin_until(subscribed, 60.0, 'the controller to hear the rival')
    rival.publish(Float64MultiArray(data=[1.0, 2.0, 3.0, 4.0]))
    arm.until(lambda: [1.0, 2.0, 3.0, 4.0] in [[*x.data] for x in arm.commands], 'its command')
    arm.command()  # it stays

    def ended() -> bool:
        rival.publish(Float64MultiArray(data=[0.0] * 4))
        return f'deactivated: {RIVALS}; end one, or set share_command_topic' in node.output

    arm.peer.spin_until(ended, 60.0, 'the end')
    count = len(arm.references)
    for _ in range(20):
        arm.publish()
    arm.peer.spin_for(0.2)
    assert len(arm.references) == count


def test_two_publishers_of_the_states_are_named_and_refused(processes, peer, arm):
    """As of a joint_state_publisher beside the driver; who is none: ``test_two_arms``."""
    given = ARM | {'autostart': False, 'diagnostics_period_s': 0.3, 'state_timeout_s': 5.0}
    node = processes.start('controller', given)
    assert arm.change(Transition.TRANSITION_CONFIGURE)
    second = peer.publisher(JointState, 'joint_states', RELIABLE)
    peer.spin_until(second.get_subscription_count, 20.0, 'the second publisher')
    named = '/joint_states, and contradict each other: /test_peer, /test_peer'
    sentence = f'2 nodes publish {named}; {REMEDY}'

    def told() -> bool:
        """Publish states of both; return whether diagnostics have the sentence."""
        arm.publish()
        peer.spin_for(0.01)
        second.publish(joint_state(arm.stamp + 1, [0.0] * 4))
        peer.spin_for(0.01)
        return arm.said(sentence)

    def refused() -> bool:
        for _ in range(30):
            told()
        if arm.change(ACTIVATE):  # before enough of both were heard
            arm.change(DEACTIVATE)
        return f'not activated: {sentence}' in node.output

    peer.spin_until(refused, 60.0, 'a refusal')
    # They are believed again after state_timeout_s by their stamps, whatever an answer takes.
    arm.until(lambda: arm.change(ACTIVATE), 'an activation', step=100 * PERIOD_NS)
    peer.spin_until(told, 20.0, 'the warning')
