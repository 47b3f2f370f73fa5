# SPDX-License-Identifier: Apache-2.0
"""The simulator node in a separate process, driven by the test over DDS."""

from __future__ import annotations

import signal

import numpy as np
from geometry_msgs.msg import WrenchStamped
from peer import LATCHED, RELIABLE
from resting_arm import COMMANDS, JOINTS
from rosgraph_msgs.msg import Clock
from samples import sample
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64, Float64MultiArray, String
from std_srvs.srv import SetBool, Trigger

from robot_dynamics_ros.messages import NANO, stamp_ns
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.model.payload import Payload
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant

FIRST = [0.3, -0.4, 0.1, 0.5]
STIFFNESS, DAMPING = np.array([80.0, 40.0, 900.0, 2.0]), np.array([9.0, 4.0, 60.0, 0.1])
GOAL = np.array([0.5, 0.2, 0.15, -0.2])
ARM = {'robot': 'scara', 'initial_position': FIRST}


def law(q, v):
    """Return the effort of the test's own controller."""
    return STIFFNESS * (GOAL - q) - DAMPING * v


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
        if not self.states or stamp_ns(msg) != stamp_ns(self.states[-1]):
            self.states.append(msg)
            self._open = stamp_ns(msg) <= self.last_stamp
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
    """Paused at any moment, with a load from 40 ms on, to an exact end."""
    driver, clock = Driver(peer), peer.collect(Clock, '/clock')
    given = {'end_time_s': 0.2, 'on_end': 'exit', 'payload_mass': 1.5, 'payload_time_s': 0.04}
    # A repeated state is accompanied by the clock, whatever its time.
    given |= {'start_paused': True, 'republish_period_s': 2.0}
    simulator = processes.start('simulator', ARM | given)
    peer.spin_until(lambda: driver.answers, 60, 'answer to the first state')
    peer.spin_for(0.2)
    assert len(driver.states) == 1
    driver.publish([9.0, 9.0, 9.0, 9.0])  # overruled by the next answer to the same state
    driver.publish(driver.answers[0])
    driver.delivered()
    for paused in (True, False, True, False, True, True, False):
        answer = peer.call(SetBool, 'simulator/pause', SetBool.Request(data=paused))
        assert answer.success
        assert ('paused' if paused else 'running') in answer.message
    peer.spin_until(lambda: len(driver.states) == 201, 60, '200 steps')
    assert simulator.wait() == 0
    assert 'end of the run: t = 0.200000 s' in simulator.output
    states, efforts = in_process_loop(200, payload_from=40)
    np.testing.assert_array_equal(arrays(driver.states), states)
    assert [stamp_ns(msg) for msg in driver.states] == [k * 1_000_000 for k in range(201)]
    assert driver.states[0].name == list(JOINTS)
    # The effort in a state is that of the previous step, within its limit.
    limit = sample('scara').tree.effort_limit
    acted = np.array([msg.effort for msg in driver.states])
    np.testing.assert_array_equal(acted[1:], np.clip(efforts, -limit, limit))
    np.testing.assert_array_equal(acted[0], np.zeros(4))

    def ticks():
        return sorted({msg.clock.sec * NANO + msg.clock.nanosec for msg in clock})

    peer.spin_until(lambda: ticks() and ticks()[-1] == 200_000_000, 20, 'the last tick')
    assert set(ticks()) <= {k * 10_000_000 for k in range(21)}


def test_a_second_answer_to_a_state_does_not_answer_the_next(processes, peer):
    class Stutterer(Driver):
        def effort(self, msg):
            effort = super().effort(msg)
            self.publish(effort)  # and again by the caller
            return effort

    driver = Stutterer(peer, last_stamp=299_000_000)
    simulator = processes.start('simulator', ARM)
    peer.spin_until(lambda: len(driver.states) == 301, 60, '300 steps')
    simulator.stop()
    # Some of the 300 second answers are sent only after the next state; most are in the queue.
    assert ' 0 dropped' not in simulator.output


def test_a_paused_simulator_is_stepped_pushed_reset_and_changed(processes, peer):
    simulator = processes.start('simulator', ARM | {'start_paused': True, 'paylod_mass': 1.0})
    for service in ('step', 'reset'):  # while paused: connects the test to both
        answer = peer.call(Trigger, f'simulator/{service}', Trigger.Request(), 60)
        assert answer.success == (service == 'reset')
        assert answer.message in (
            'no command answers the present state yet', 'at the first state, paused'
        )  # fmt: skip
    warning = "parameter 'paylod_mass' is unknown and has no effect; did you mean 'payload_mass'?"
    assert simulator.output.count(warning) == 1
    driver, push = Driver(peer), peer.node.create_publisher(WrenchStamped, 'simulator/push', 10)
    peer.spin_until(lambda: driver.answers, 60, 'answer to the first state')

    def step() -> int:
        """Make a step, wait for the answer to its state, and return the number of answers."""
        driver.delivered()
        count = len(driver.answers)
        answer = peer.call(Trigger, 'simulator/step', Trigger.Request())
        assert answer.success, answer.message
        peer.spin_until(lambda: len(driver.answers) > count, 20, 'next state')
        return count + 1

    def reset() -> None:
        count = len(driver.answers)
        assert peer.call(Trigger, 'simulator/reset', Trigger.Request()).success
        peer.spin_until(lambda: len(driver.answers) > count, 20, 'first state again')

    assert [step(), step()] == [2, 3]
    reset()
    simulator.says('2 steps to t = 0.002000 s; commands: 3 accepted', 10.0)
    expected = in_process_loop(2)[0][[0, 1, 2, 0]]
    np.testing.assert_array_equal(arrays(driver.states), expected)
    assert stamp_ns(driver.states[3]) == 0

    for bad in ([0.0, np.nan, 0.0, 0.0], [np.inf] * 4, [1.0, 2.0], []):
        driver.publish(bad)  # none replaces the answer
    simulator.says('refused: not finite')
    step()
    np.testing.assert_array_equal(arrays(driver.states)[-1], expected[1])

    peer.spin_until(push.get_subscription_count, 20, 'the simulator listens')
    message = WrenchStamped()
    message.header.frame_id = 'nowhere'
    push.publish(message)
    simulator.says('push refused')
    reset()
    message.header.frame_id, message.wrench.force.y = 'tool', 30.0
    push.publish(message)
    peer.delivered(push)
    step()
    assert np.abs(arrays(driver.states)[-1] - expected[1]).max() > 1e-4

    for name, value, reason in (
        ('payload_mass', 2.0, ''),
        ('payload_frame', 'hand', "unknown payload_frame 'hand'; known:"),
        ('on_peer_timeout', 'panic', "unknown on peer timeout 'panic'; known: exit, wait, zero"),
        ('period', 0.5, 'read-only'),
        ('mass_factor', [1.3], ''),
        ('mass_factor', [1.0, 0.0, 1.0, 1.0], 'a mass factor must be positive'),
    ):
        result = peer.set('simulator', **{name: value})
        assert result.successful == (not reason)
        assert reason in result.reason
    peer.call(SetBool, 'simulator/pause', SetBool.Request(data=False))
    peer.spin_until(lambda: len(driver.states) > 30, 20, 'running')
    answer = peer.call(Trigger, 'simulator/step', Trigger.Request())
    assert (answer.success, answer.message) == (False, 'not paused')
    assert simulator.stop(signal.SIGTERM) == 0
    assert ' 4 refused' in simulator.output


def test_a_missing_peer_is_named_a_late_one_goes_on_and_others_are_replaced_or_end_the_run(
    processes, peer
):
    states = peer.collect(JointState, 'joint_states')
    simulator = processes.start('simulator', ARM | {'lockstep_timeout_s': 0.3})
    simulator.says(f'no publisher of /{COMMANDS}: no command answering the state at t = 0.000000')
    driver = Driver(peer, last_stamp=9_000_000)
    peer.spin_until(lambda: len(driver.states) == 11, 30, '10 steps')
    expected = in_process_loop(11)[0]
    np.testing.assert_array_equal(arrays(driver.states), expected[:11])
    simulator.says('/test_peer, publisher of /effort_controller/commands: no command answering '
                   'the state at t = 0.010000 s within ')  # fmt: skip
    stamps = {k * 1_000_000 for k in range(11)}  # by another subscription, perhaps later
    peer.spin_until(lambda: {stamp_ns(msg) for msg in states} >= stamps, 30, 'all states')
    assert {stamp_ns(msg) for msg in states} == stamps
    assert peer.set('simulator', on_peer_timeout='zero').successful
    peer.spin_until(lambda: len(driver.states) > 13, 30, 'three steps')
    plant = MujocoPlant(load_robot(sample('scara').xml))
    plant.reset(*expected[10])
    free = np.empty((2, 4))
    for state in arrays(driver.states)[11:14]:
        plant.step(np.zeros(4))
        plant.read(*free)
        # The solver begins its iterations elsewhere than that of the simulator.
        np.testing.assert_allclose(state, free, rtol=0, atol=1e-9)
    assert peer.set('simulator', on_peer_timeout='exit').successful
    assert simulator.wait(60) == 1
    assert (
        'error: /test_peer, publisher of /effort_controller/commands: no comm' in simulator.output
    )


def test_commands_by_joint_in_another_order_drive_a_robot_that_comes_by_topic(processes, peer):
    """What is set before it comes takes effect."""
    order = ['joint3', 'joint1', 'joint4', 'joint2']
    given = {'initial_position': FIRST, 'command_form': 'per_joint', 'joints': order}
    simulator = processes.start('simulator', given | {'on_end': 'exit'})
    assert peer.set('simulator', end_time_s=0.05).successful
    publishers = {
        name: peer.node.create_publisher(Float64, f'{name}/cmd_force', 10) for name in order
    }
    states: list[JointState] = []

    def on_state(msg):
        if states and stamp_ns(states[-1]) == stamp_ns(msg):
            return
        states.append(msg)
        effort = law(np.array(msg.position), np.array(msg.velocity))
        for name, value in zip(msg.name, effort, strict=True):
            publishers[name].publish(Float64(data=value))

    description = peer.node.create_publisher(String, 'robot_description', LATCHED)
    description.publish(String(data=sample('scara').xml))
    ready = publishers.values()
    peer.spin_until(lambda: all(p.get_subscription_count() for p in ready), 60, 'subscriptions')
    peer.node.create_subscription(JointState, 'joint_states', on_state, RELIABLE)
    peer.spin_until(lambda: len(states) == 51, 60, '50 steps')
    np.testing.assert_array_equal(arrays(states), in_process_loop(50)[0])
    assert simulator.wait() == 0
    assert 'end of the run: t = 0.050000 s' in simulator.output


def test_in_real_time_an_arm_at_rest_is_held_until_the_first_command(processes, peer):
    """One node per terminal: until somebody has started the controller, the arm does not fall."""
    description = peer.collect(String, 'robot_description', LATCHED)
    states = peer.collect(JointState, 'joint_states')
    start = [0.1, -1.3, 0.8, -0.4]
    given = {'robot': 'four_dof', 'limits_profile': 'wide', 'initial_position': start}
    given |= {'mode': 'real_time', 'real_time_factor': 2.0, 'command_timeout_s': 0.5}
    simulator = processes.start('simulator', given)
    publisher = peer.node.create_publisher(Float64MultiArray, COMMANDS, 10)
    peer.spin_until(publisher.get_subscription_count, 60, 'the command subscription')
    peer.spin_until(lambda: states and stamp_ns(states[-1]) > 5e8, 60, 'half a second')
    assert {(*msg.position, *msg.velocity) for msg in states} == {(*start, *[0.0] * 4)}
    simulator.says('holding the arm until the first command')
    publisher.publish(Float64MultiArray(data=[0.1, 0.2, 0.3, 0.4]))

    def acting(effort):
        return states and list(states[-1].effort) == effort

    peer.spin_until(lambda: acting([0.1, 0.2, 0.3, 0.4]), 20, 'the command to act')
    simulator.says(': released')
    peer.spin_until(lambda: acting([0.0] * 4), 20, 'zero effort, once that is too old')
    peer.spin_until(lambda: abs(states[-1].position[1] - start[1]) > 0.1, 20, 'its fall')
    steps = np.diff([stamp_ns(msg) for msg in states])
    # A test that reads fewer than 2000 states per second misses some of them.
    assert (steps > 0).all()
    assert not np.any(steps % 1_000_000)
    peer.spin_until(lambda: description, 20, 'robot_description')
    assert load_robot(description[0].data).joint_names == tuple(states[-1].name)


def test_locked_joints_are_in_the_states_where_they_are_locked_and_what_is_not_held_falls(
    processes, peer
):
    states = peer.collect(JointState, 'joint_states')
    given = {'robot': 'scara', 'joints': ['joint1', 'joint3'], 'locked': ['joint4:=0.4']}
    given |= {'mode': 'real_time', 'hold_until_command': False}
    processes.start('simulator', given | {'initial_position': [0.3, 0.1]})
    peer.spin_until(lambda: states, 60, 'a state')
    assert states[0].name == ['joint1', 'joint3', 'joint2', 'joint4']
    assert states[0].position.tolist()[2:] == [0.0, 0.4]
    assert len(states[0].velocity) == len(states[0].effort) == 4
    peer.spin_until(lambda: states[-1].position[1] > 0.15, 60, 'the fall of the quill')
