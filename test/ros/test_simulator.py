# SPDX-License-Identifier: Apache-2.0
"""The simulator node in a separate process, driven by the test over DDS."""

from __future__ import annotations

import signal

import numpy as np
import pytest
from geometry_msgs.msg import WrenchStamped
from peer import RELIABLE
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile
from rosgraph_msgs.msg import Clock
from samples import sample
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64, Float64MultiArray, String
from std_srvs.srv import SetBool, Trigger

from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.model.payload import Payload
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant

COMMANDS = 'effort_controller/commands'
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
FIRST = [0.3, -0.4, 0.1, 0.5]
STIFFNESS, DAMPING = np.array([80.0, 40.0, 900.0, 2.0]), np.array([9.0, 4.0, 60.0, 0.1])
GOAL = np.array([0.5, 0.2, 0.15, -0.2])
NANO = 1_000_000_000


def law(q, v):
    """Return the effort of the test's own controller."""
    return STIFFNESS * (GOAL - q) - DAMPING * v


def stamp_of(msg) -> int:
    return msg.header.stamp.sec * NANO + msg.header.stamp.nanosec


class Driver:
    """Answers each new state exactly once, as a controller in lockstep must.

    A state received before the simulator subscribes stays unanswered: it is repeated.
    """

    def __init__(self, peer, *, last_stamp: int = 10**18) -> None:
        self.states: list[JointState] = []
        self.answers: list[np.ndarray] = []
        self.last_stamp = last_stamp
        self._open, self._peer = False, peer
        self._publisher = peer.node.create_publisher(Float64MultiArray, COMMANDS, 10)
        peer.node.create_subscription(JointState, 'joint_states', self._on_state, RELIABLE)

    def _on_state(self, msg):
        if not self.states or stamp_of(msg) != stamp_of(self.states[-1]):
            self.states.append(msg)
            self._open = stamp_of(msg) <= self.last_stamp
        if self._open and self.connected:
            self._open = False
            effort = self.effort(msg)
            self.answers.append(effort)
            self.publish(effort)

    @property
    def connected(self) -> bool:
        return self._publisher.get_subscription_count() > 0

    def effort(self, msg):
        return law(np.array(msg.position), np.array(msg.velocity))

    def publish(self, values) -> None:
        self._publisher.publish(Float64MultiArray(data=values))

    def delivered(self) -> None:
        """Wait until the simulator has all answers, so that later requests come after them."""
        self._peer.delivered(self._publisher)


def in_process_loop(steps: int, payload_from: int | None = None):
    """Return the states (steps + 1, 2, n) and efforts of the same loop in this process."""
    plant = MujocoPlant(load_robot(sample('scara').xml))
    plant.reset(np.array(FIRST))
    q, v = np.empty((2, 4))
    plant.read(q, v)
    states, efforts = [np.stack([q, v])], []
    for k in range(steps):
        if k == payload_from:
            plant.set_payload(Payload(1.5))
        efforts.append(law(q, v))
        plant.step(efforts[-1])
        plant.read(q, v)
        states.append(np.stack([q, v]))
    return np.array(states), np.array(efforts)


def arrays(messages):
    return np.array([[msg.position, msg.velocity] for msg in messages])


def test_lockstep_over_dds_equals_the_loop_in_one_process_bit_for_bit(processes, peer):
    driver = Driver(peer, last_stamp=299_000_000)
    simulator = processes.start('simulator', {'robot': 'scara', 'initial_position': FIRST})
    peer.spin_until(lambda: len(driver.states) == 301, 60, '300 steps')
    states, efforts = in_process_loop(300)
    np.testing.assert_array_equal(arrays(driver.states), states)
    assert [stamp_of(msg) for msg in driver.states] == [k * 1_000_000 for k in range(301)]
    assert driver.states[0].name == ['joint1', 'joint2', 'joint3', 'joint4']
    # The effort in a state is that of the previous step, within its limit.
    limit = sample('scara').tree.effort_limit
    acted = np.array([msg.effort for msg in driver.states])
    np.testing.assert_array_equal(acted[1:], np.clip(efforts, -limit, limit))
    np.testing.assert_array_equal(acted[0], np.zeros(4))
    assert simulator.stop() == 0
    assert '300 steps to t = 0.300000 s; commands: 300 accepted, 0 refused' in simulator.output


def test_a_push_by_topic_moves_the_robot_and_one_on_no_link_is_refused(processes, peer):
    driver = Driver(peer, last_stamp=-1)
    simulator = processes.start('simulator', {'robot': 'scara', 'initial_position': FIRST})
    push = peer.node.create_publisher(WrenchStamped, 'simulator/push', 10)
    peer.spin_until(lambda: driver.states and driver.connected, 60, 'first state')
    peer.spin_until(lambda: push.get_subscription_count(), 20, 'the simulator listens')
    message = WrenchStamped()
    message.header.frame_id = 'nowhere'
    push.publish(message)
    simulator.says('push refused')
    message.header.frame_id, message.wrench.force.y = 'tool', 30.0
    push.publish(message)
    peer.delivered(push)
    assert peer.call(SetBool, 'simulator/pause', SetBool.Request(data=False)).success
    driver.publish(law(np.array(FIRST), np.zeros(4)))
    peer.spin_until(lambda: len(driver.states) == 2, 20, 'a step')
    pushed = arrays(driver.states)[1]
    assert np.abs(pushed - in_process_loop(1)[0][1]).max() > 1e-4


def test_pausing_in_between_changes_nothing(processes, peer):
    """State 0 is answered while paused, more than once; pauses come at any moment."""
    driver = Driver(peer, last_stamp=199_000_000)
    processes.start(
        'simulator', {'robot': 'scara', 'initial_position': FIRST, 'start_paused': True}
    )
    peer.spin_until(lambda: driver.answers, 60, 'answer to the first state')
    peer.spin_for(0.2)
    assert len(driver.states) == 1
    driver.publish([9.0, 9.0, 9.0, 9.0])  # overruled by the next answer to the same state
    driver.publish(driver.answers[0])
    driver.delivered()
    assert peer.call(SetBool, 'simulator/pause', SetBool.Request(data=True)).success
    assert peer.call(Trigger, 'simulator/step', Trigger.Request()).success
    for pause in (False, True, False, True, True, False):
        answer = peer.call(SetBool, 'simulator/pause', SetBool.Request(data=pause))
        assert answer.success
        assert ('paused' if pause else 'running') in answer.message
    peer.spin_until(lambda: len(driver.states) == 201, 60, '200 steps')
    np.testing.assert_array_equal(arrays(driver.states), in_process_loop(200)[0])


def test_a_paused_simulator_can_be_stepped_and_reset(processes, peer):
    simulator = processes.start(
        'simulator', {'robot': 'scara', 'initial_position': FIRST, 'start_paused': True}
    )
    for service in ('step', 'reset'):  # while paused: connects the test to both
        answer = peer.call(Trigger, f'simulator/{service}', Trigger.Request(), 60)
        assert answer.success == (service == 'reset')
        assert answer.message in (
            'no command answers the present state yet', 'at the first state, paused'
        )  # fmt: skip
    driver = Driver(peer)
    peer.spin_until(lambda: driver.answers, 60, 'answer to the first state')
    for count in (2, 3):
        driver.delivered()
        answer = peer.call(Trigger, 'simulator/step', Trigger.Request())
        assert answer.success, answer.message
        peer.spin_until(lambda count=count: len(driver.answers) == count, 20, 'next state')
    assert peer.call(Trigger, 'simulator/reset', Trigger.Request()).success
    simulator.says('2 steps to t = 0.002000 s; commands: 3 accepted', 10.0)
    peer.spin_until(lambda: len(driver.states) == 4, 20, 'first state again')
    np.testing.assert_array_equal(
        arrays(driver.states)[[0, 1, 2, 3]], in_process_loop(2)[0][[0, 1, 2, 0]]
    )
    assert stamp_of(driver.states[3]) == 0
    peer.call(SetBool, 'simulator/pause', SetBool.Request(data=False))
    peer.spin_until(lambda: len(driver.states) > 20, 20, 'running')
    answer = peer.call(Trigger, 'simulator/step', Trigger.Request())
    assert (answer.success, answer.message) == (False, 'not paused')


def test_a_command_that_is_not_finite_or_of_wrong_size_is_refused_and_never_applied(
    processes, peer
):
    driver = Driver(peer, last_stamp=-1)
    simulator = processes.start('simulator', {'robot': 'scara', 'initial_position': FIRST})
    peer.spin_until(lambda: driver.states and driver.connected, 60, 'first state')
    for bad in ([0.0, np.nan, 0.0, 0.0], [np.inf] * 4, [1.0, 2.0], []):
        driver.publish(bad)
    simulator.says('command 1 refused: not finite')
    peer.spin_for(0.3)
    assert len(driver.states) == 1
    effort = law(np.array(FIRST), np.zeros(4))
    driver.publish(effort)
    peer.spin_until(lambda: len(driver.states) == 2, 20, 'a step')
    np.testing.assert_array_equal(arrays(driver.states), in_process_loop(1)[0])
    assert simulator.stop(signal.SIGTERM) == 0
    assert '1 accepted, 4 refused' in simulator.output


def test_a_second_answer_to_a_state_does_not_answer_the_next(processes, peer):
    class Stutterer(Driver):
        def effort(self, msg):
            effort = super().effort(msg)
            self.publish(effort)  # and again by the caller
            return effort

    driver = Stutterer(peer, last_stamp=299_000_000)
    simulator = processes.start('simulator', {'robot': 'scara', 'initial_position': FIRST})
    peer.spin_until(lambda: len(driver.states) == 301, 60, '300 steps')
    simulator.stop()
    # Some of the 300 second answers are sent only after the next state; most are in the queue.
    assert ' 0 dropped' not in simulator.output


def test_a_missing_peer_is_named_and_a_late_one_goes_on(processes, peer):
    states = peer.collect(JointState, 'joint_states')
    simulator = processes.start(
        'simulator', {'robot': 'scara', 'initial_position': FIRST, 'lockstep_timeout_s': 0.3}
    )
    simulator.says(f'no publisher of /{COMMANDS}: no command answering the state at t = 0.000000')
    driver = Driver(peer, last_stamp=9_000_000)
    peer.spin_until(lambda: len(driver.states) == 11, 30, '10 steps')
    np.testing.assert_array_equal(arrays(driver.states), in_process_loop(10)[0])
    simulator.says('/test_peer, publisher of /effort_controller/commands: no command answering '
                   'the state at t = 0.010000 s within ')  # fmt: skip
    expected = {k * 1_000_000 for k in range(11)}  # by another subscription, perhaps later
    peer.spin_until(lambda: {stamp_of(msg) for msg in states} >= expected, 30, 'all states')
    assert {stamp_of(msg) for msg in states} == expected
    driver.publish(law(*arrays(driver.states)[-1]))
    peer.spin_until(lambda: len(driver.states) == 12, 20, 'one more step')


def test_a_missing_peer_ends_the_run_if_told_so(processes):
    simulator = processes.start(
        'simulator', {'robot': 'scara', 'lockstep_timeout_s': 0.2, 'on_peer_timeout': 'exit'}
    )
    assert simulator.wait(60) == 1
    assert f'error: no publisher of /{COMMANDS}: no command answering' in simulator.output


def test_a_missing_peer_is_replaced_by_zero_effort_if_told_so(processes, peer):
    states = peer.collect(JointState, 'joint_states')
    processes.start(
        'simulator',
        {
            'robot': 'scara',
            'initial_position': FIRST,
            'lockstep_timeout_s': 0.05,
            'on_peer_timeout': 'zero',
        },
    )
    peer.spin_until(lambda: states and stamp_of(states[-1]) >= 3_000_000, 60, 'three steps')
    plant = MujocoPlant(load_robot(sample('scara').xml))
    plant.reset(np.array(FIRST))
    q, v = np.empty((2, 4))
    by_stamp = {stamp_of(msg): msg for msg in states}
    for k in range(4):
        plant.read(q, v)
        if k * 1_000_000 in by_stamp:  # the first ones may precede the test's subscription
            np.testing.assert_array_equal(by_stamp[k * 1_000_000].position, q)
        plant.step(np.zeros(4))


def test_commands_by_joint_and_in_another_order_act_alike(processes, peer):
    order = ['joint3', 'joint1', 'joint4', 'joint2']
    parameters = {'robot': 'scara', 'initial_position': FIRST, 'command_form': 'per_joint'}
    processes.start('simulator', parameters | {'joints': order})
    publishers = {
        name: peer.node.create_publisher(Float64, f'{name}/cmd_force', 10) for name in order
    }
    states: list[JointState] = []

    def on_state(msg):
        if states and stamp_of(states[-1]) == stamp_of(msg):
            return
        states.append(msg)
        effort = law(np.array(msg.position), np.array(msg.velocity))
        for name, value in zip(msg.name, effort, strict=True):
            if len(states) <= 50:
                publishers[name].publish(Float64(data=value))

    ready = publishers.values()
    peer.spin_until(lambda: all(p.get_subscription_count() for p in ready), 60, 'subscriptions')
    peer.node.create_subscription(JointState, 'joint_states', on_state, RELIABLE)
    peer.spin_until(lambda: len(states) == 51, 60, '50 steps')
    np.testing.assert_array_equal(arrays(states), in_process_loop(50)[0])


def test_the_end_of_time_is_exact_and_exits_if_told_so(processes, peer):
    driver = Driver(peer)
    clock = peer.collect(Clock, '/clock')
    simulator = processes.start(
        'simulator',
        {
            'robot': 'scara',
            'initial_position': FIRST,
            'end_time_s': 0.1,
            'on_end': 'exit',
            'payload_mass': 1.5,
            'payload_time_s': 0.04,
            # A repeated state is accompanied by the clock, whatever its time.
            'republish_period_s': 2.0,
        },
    )
    peer.spin_until(lambda: len(driver.states) == 101, 60, '100 steps')
    assert simulator.wait() == 0
    assert 'end of the run: t = 0.100000 s' in simulator.output
    np.testing.assert_array_equal(arrays(driver.states), in_process_loop(100, payload_from=40)[0])

    def ticks():
        return sorted({msg.clock.sec * NANO + msg.clock.nanosec for msg in clock})

    peer.spin_until(lambda: ticks() and ticks()[-1] == 100_000_000, 20, 'the last tick')
    assert set(ticks()) <= {k * 10_000_000 for k in range(11)}


def test_in_real_time_an_arm_at_rest_is_held_until_the_first_command(processes, peer):
    """One node per terminal: until somebody has started the controller, the arm does not fall."""
    states = peer.collect(JointState, 'joint_states')
    start = [0.1, -1.3, 0.8, -0.4]
    given = {'robot': 'four_dof', 'limits_profile': 'wide', 'initial_position': start}
    given['mode'] = 'real_time'
    simulator = processes.start('simulator', given)
    publisher = peer.node.create_publisher(Float64MultiArray, COMMANDS, 10)
    peer.spin_until(publisher.get_subscription_count, 60, 'the command subscription')
    peer.spin_until(lambda: states and stamp_of(states[-1]) > 5e8, 60, 'half a second')
    assert {(*msg.position, *msg.velocity) for msg in states} == {(*start, *[0.0] * 4)}
    assert (np.diff([stamp_of(msg) for msg in states]) > 0).all()
    simulator.says('holding the arm until the first command')
    publisher.publish(Float64MultiArray(data=[0.0] * 4))

    def fell(received):
        return received and abs(received[-1].position[1] - start[1]) > 0.1

    peer.spin_until(lambda: fell(states), 20, 'its fall')
    simulator.says(': released')
    simulator = processes.start(
        'simulator', given | {'hold_until_command': False}, '-r', '__ns:=/b'
    )
    free = peer.collect(JointState, '/b/joint_states')
    peer.spin_until(lambda: fell(free), 60, 'a free fall')


def test_real_time_holds_the_last_command_until_it_is_too_old(processes, peer):
    description = peer.collect(String, 'robot_description', LATCHED)
    states = peer.collect(JointState, 'joint_states')
    processes.start(
        'simulator',
        {
            'robot': 'four_dof',
            'limits_profile': 'wide',
            'mode': 'real_time',
            'real_time_factor': 2.0,
            'command_timeout_s': 0.5,
        },
    )
    publisher = peer.node.create_publisher(Float64MultiArray, COMMANDS, 10)
    peer.spin_until(publisher.get_subscription_count, 60, 'the command subscription')
    publisher.publish(Float64MultiArray(data=[0.1, 0.2, 0.3, 0.4]))

    def acting(effort):
        return states and list(states[-1].effort) == effort

    peer.spin_until(lambda: acting([0.1, 0.2, 0.3, 0.4]), 20, 'the command to act')
    peer.spin_until(lambda: acting([0.0] * 4), 20, 'zero effort')
    steps = np.diff([stamp_of(msg) for msg in states])
    # A test that reads fewer than 2000 states per second misses some of them.
    assert (steps > 0).all()
    assert not np.any(steps % 1_000_000)
    peer.spin_until(lambda: description, 20, 'robot_description')
    assert load_robot(description[0].data).joint_names == tuple(states[-1].name)


def test_the_robot_may_come_by_topic(processes, peer):
    publisher = peer.node.create_publisher(String, 'robot_description', LATCHED)
    publisher.publish(String(data=sample('planar_2r').xml))
    states = peer.collect(JointState, 'joint_states')
    processes.start('simulator', {'start_paused': True})
    peer.spin_until(lambda: states, 60, 'a state')
    assert states[0].name == ['joint1', 'joint2']


def test_locked_joints_are_in_the_states_where_they_are_locked(processes, peer):
    states = peer.collect(JointState, 'joint_states')
    given = {'robot': 'scara', 'joints': ['joint1', 'joint3'], 'locked': ['joint4:=0.4']}
    processes.start('simulator', given | {'initial_position': [0.3, 0.1]})
    peer.spin_until(lambda: states, 60, 'a state')
    assert states[0].name == ['joint1', 'joint3', 'joint2', 'joint4']
    assert states[0].position.tolist() == [0.3, 0.1, 0.0, 0.4]
    assert len(states[0].velocity) == len(states[0].effort) == 4


def test_parameters_that_are_set_before_the_robot_comes_take_effect(processes, peer):
    driver = Driver(peer)
    simulator = processes.start('simulator', {'initial_position': FIRST, 'on_end': 'exit'})
    end = Parameter('end_time_s', value=0.02).to_parameter_msg()
    request = SetParameters.Request(parameters=[end])
    answer = peer.call(SetParameters, 'simulator/set_parameters', request)
    assert answer.results[0].successful
    publisher = peer.node.create_publisher(String, 'robot_description', LATCHED)
    publisher.publish(String(data=sample('scara').xml))
    peer.spin_until(lambda: len(driver.states) >= 21, 60, '20 steps')
    assert simulator.wait() == 0
    assert 'end of the run: t = 0.020000 s' in simulator.output


def test_parameters_are_checked_while_running(processes, peer):
    processes.start('simulator', {'robot': 'scara', 'start_paused': True})

    def set_parameter(name, value):
        request = SetParameters.Request(
            parameters=[Parameter(name, value=value).to_parameter_msg()]
        )
        return peer.call(SetParameters, 'simulator/set_parameters', request).results[0]

    assert set_parameter('payload_mass', 2.0).successful
    refused = set_parameter('payload_frame', 'hand')
    assert not refused.successful
    assert "unknown payload_frame 'hand'; known:" in refused.reason
    refused = set_parameter('on_peer_timeout', 'panic')
    assert "unknown on peer timeout 'panic'; known: exit, wait, zero" in refused.reason
    assert not set_parameter('period', 0.5).successful
    assert set_parameter('mass_factor', [1.3]).successful
    refused = set_parameter('mass_factor', [1.0, 0.0, 1.0, 1.0])
    assert not refused.successful
    assert 'a mass factor must be positive' in refused.reason


def test_a_parameter_that_does_not_exist_is_told(processes):
    simulator = processes.start('simulator', {'robot': 'scara', 'paylod_mass': 1.0})
    warning = "parameter 'paylod_mass' is unknown and has no effect; did you mean 'payload_mass'?"
    simulator.says(warning, 60)
    assert simulator.output.count('is unknown') == 1


@pytest.mark.parametrize(
    ('parameters', 'message'),
    [
        ({'robot': 'puma'}, "unknown robot 'puma'; known: "),
        (
            {'robot': 'scara', 'initial_position': [0.0, 9.0, 0.1, 0.0]},
            "initial_position = 9.0 refused: the limits of joint 'joint2'",
        ),
        ({'robot': 'scara', 'joints': ['joint1', 'joint2', 'joint2']}, 'must name each of'),
        ({'robot': 'scara', 'mass_factor': [0.0]}, 'a mass factor must be positive'),
        ({'robot_description': '<robot'}, 'malformed XML'),
        ({'robot': 'scara', 'period': 'fast'}, "parameter 'period': is 'fast'; must be a finite"),
    ],
)
def test_wrong_parameters_end_the_node_with_one_clear_line(processes, parameters, message):
    simulator = processes.start('simulator', parameters)
    assert simulator.wait(60) == 2
    errors = [line for line in simulator.output.splitlines() if line.startswith('error: ')]
    assert len(errors) == 1
    assert message in errors[0]
    assert 'Traceback' not in simulator.output
