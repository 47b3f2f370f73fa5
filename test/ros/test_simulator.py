# SPDX-License-Identifier: Apache-2.0
"""The simulator node in a separate process, driven by the test over DDS.

Its steps, commands and pace are tested in ``test/simulation``.
"""

import signal
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
from answering import Answering, law
from geometry_msgs.msg import WrenchStamped
from numpy.testing import assert_allclose, assert_array_equal
from peer import LATCHED, RELIABLE
from resting_arm import COMMANDS, JOINTS
from rosgraph_msgs.msg import Clock
from samples import sample
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String

from robot_dynamics_ros.messages import NANO, stamp_ns
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.model.payload import Payload
from robot_dynamics_ros.ros import simulator
from robot_dynamics_ros.ros.simulator import Simulator
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant

FIRST = [0.3, -0.4, 0.1, 0.5]
ARM = {'robot': 'scara', 'initial_position': FIRST}


def in_process_loop(steps: int, payload_from: int | None = None):
    """Return the states (steps + 1, 2, n) and efforts of the same loop in this process."""
    plant = MujocoPlant(sample('scara').tree)
    plant.reset(np.array(FIRST))
    states, efforts = np.empty((steps + 1, 2, 4)), np.empty((steps, 4))
    for k in range(steps):
        plant.read(*states[k])
        if k == payload_from:
            plant.set_payload(Payload(1.5))
        efforts[k] = law(*states[k])
        plant.step(efforts[k])
    plant.read(*states[steps])
    return states, efforts


def arrays(messages):
    return np.array([[msg.position, msg.velocity] for msg in messages])


def test_lockstep_over_dds_equals_the_loop_in_one_process_bit_for_bit(processes, peer):
    """Paused at any moment, with a load from 40 ms on, to an exact end."""
    driver, clock = Answering(peer), peer.collect(Clock, '/clock')
    given = {'end_time_s': 0.2, 'on_end': 'exit', 'payload_mass': 1.5, 'payload_time_s': 0.04}
    # A repeated state is accompanied by the clock, whatever its time.
    given |= {'start_paused': True, 'republish_period_s': 2.0}
    simulator = processes.start('simulator', ARM | given)
    peer.spin_until(lambda: driver.answers, 60, 'answer to the first state')
    peer.spin_for(0.2)
    assert len(driver.states) == 1
    driver.publish([9.0] * 4)  # overruled by the next answer to the same state
    driver.answer()
    driver.delivered()
    for paused in (True, False, True, False, True, True, False):
        answer = peer.ask('simulator/pause', paused)
        assert ('paused' if paused else 'running') in answer.message
    peer.spin_until(lambda: len(driver.states) == 201, 60, '200 steps')
    assert simulator.wait() == 0
    assert 'end of the run: t = 0.200000 s' in simulator.output
    states, efforts = in_process_loop(200, payload_from=40)
    assert_array_equal(arrays(driver.states), states)
    assert [stamp_ns(msg) for msg in driver.states] == [k * 1_000_000 for k in range(201)]
    assert driver.states[0].name == list(JOINTS)
    # The effort in a state is that of the previous step, within its limit.
    limit = sample('scara').tree.effort_limit
    acted = np.array([msg.effort for msg in driver.states])
    assert_array_equal(acted, [np.zeros(4), *np.clip(efforts, -limit, limit)])

    def ticks() -> set[int]:
        return {msg.clock.sec * NANO + msg.clock.nanosec for msg in clock}

    peer.spin_until(lambda: 200_000_000 in ticks(), 20, 'the last tick')
    assert ticks() <= {k * 10_000_000 for k in range(21)}


def test_a_second_answer_to_a_state_does_not_answer_the_next(processes, peer):
    class Stutterer(Answering):
        def answer(self):
            super().answer()
            super().answer()

    driver = Stutterer(peer, last_stamp=299_000_000)
    simulator = processes.start('simulator', ARM)
    peer.spin_until(lambda: len(driver.states) == 301, 60, '300 steps')
    simulator.stop()
    # Some of the 300 second answers are sent only after the next state; most are in the queue.
    assert ' 0 dropped' not in simulator.output


def test_a_paused_simulator_is_stepped_pushed_reset_and_changed(processes, peer):
    simulator = processes.start('simulator', ARM | {'start_paused': True})
    answer = peer.ask('simulator/step')
    assert answer.message == 'no command answers the present state yet'
    driver, push = Answering(peer), peer.publisher(WrenchStamped, 'simulator/push')
    peer.spin_until(lambda: driver.answers, 60, 'answer to the first state')

    def after(service: str) -> np.ndarray:
        """Return the state after a step or a reset, once it is answered."""
        driver.delivered()
        count = len(driver.answers)
        assert peer.ask(f'simulator/{service}').success
        peer.spin_until(lambda: len(driver.answers) > count, 20, f'the state after {service}')
        return arrays(driver.states)[-1]

    expected = in_process_loop(2)[0]
    for service, step in (('step', 1), ('step', 2), ('reset', 0)):
        assert_array_equal(after(service), expected[step])
    simulator.says('2 steps to t = 0.002000 s; commands: 3 accepted', 10.0)
    assert stamp_ns(driver.states[3]) == 0
    peer.spin_until(push.get_subscription_count, 20, 'the simulator listens')
    message = WrenchStamped()
    message.header.frame_id, message.wrench.force.y = 'nowhere', 30.0
    push.publish(message)
    simulator.says('push refused')
    message.header.frame_id = 'tool'
    push.publish(message)
    peer.delivered(push)
    assert np.abs(after('step') - expected[1]).max() > 1e-4

    refused = peer.set('simulator', mass_factor=[1.0, 0.0, 1.0, 1.0])
    assert 'a mass factor must be positive' in refused.reason
    assert peer.set('simulator', mass_factor=[1.3]).successful
    assert peer.set('simulator', payload_mass=2.0, end_time_s=0.001).successful
    tree = sample('scara').tree
    heavy = MujocoPlant(tree.with_changes(mass=1.3 * tree.mass, inertia=1.3 * tree.inertia))
    heavy.set_payload(Payload(2.0))
    heavy.reset(np.array(FIRST))
    heavy.step(law(*expected[0]))
    state = np.empty((2, 4))
    heavy.read(*state)
    after('reset')
    assert_allclose(after('step'), state, rtol=0, atol=1e-9)
    simulator.says('end of the run: t = 0.001000 s')
    assert simulator.stop(signal.SIGTERM) == 0


def test_a_missing_peer_is_named_a_late_one_goes_on_and_others_are_replaced_or_end_the_run(
    processes, peer
):
    simulator = processes.start('simulator', ARM | {'lockstep_timeout_s': 0.3})
    text = f'no publisher of /{COMMANDS}: no command answering the state at t = 0.000000 s within '
    waited = float(simulator.says(text).partition(text)[2].split()[0])
    assert 0.3 < waited < 60.0
    driver = Answering(peer, last_stamp=9_000_000)
    peer.spin_until(lambda: len(driver.states) == 11, 30, '10 steps')
    expected = in_process_loop(10)[0]
    assert_array_equal(arrays(driver.states), expected)
    peers = f'/test_peer, publisher of /{COMMANDS}'
    simulator.says(f'{peers}: no command answering the state at t = 0.010000')
    assert peer.set('simulator', on_peer_timeout='zero').successful
    peer.spin_until(lambda: len(driver.states) > 13, 30, 'three steps')
    plant = MujocoPlant(sample('scara').tree)
    plant.reset(*expected[10])
    free = np.empty((2, 4))
    for state in arrays(driver.states)[11:14]:
        plant.step(np.zeros(4))
        plant.read(*free)
        # The solver begins its iterations elsewhere than that of the simulator.
        assert_allclose(state, free, rtol=0, atol=1e-9)
    assert peer.set('simulator', on_peer_timeout='exit').successful
    assert simulator.wait(60) == 1
    assert f'error: {peers}: no command' in simulator.output


def test_commands_by_joint_in_another_order_drive_a_robot_that_comes_by_topic(processes, peer):
    """What is set before it comes takes effect."""
    order = ['joint3', 'joint1', 'joint4', 'joint2']
    given = {'initial_position': FIRST, 'command_form': 'per_joint', 'joints': order}
    simulator = processes.start('simulator', given | {'on_end': 'exit'})
    assert peer.set('simulator', end_time_s=0.05).successful
    driver, description = Answering(peer, JOINTS), String(data=sample('scara').xml)
    peer.publisher(String, 'robot_description', LATCHED).publish(description)
    peer.spin_until(lambda: len(driver.states) == 51, 60, '50 steps')
    assert_array_equal(arrays(driver.states), in_process_loop(50)[0])
    assert simulator.wait() == 0


def test_in_real_time_an_arm_at_rest_is_held_until_the_first_command(processes, peer):
    """One node per terminal: until somebody has started the controller, the arm does not fall."""
    description = peer.collect(String, 'robot_description', LATCHED)
    states = peer.collect(JointState, 'joint_states')
    start = [0.1, -1.3, 0.8, -0.4]
    given = {'robot': 'four_dof', 'limits_profile': 'wide', 'initial_position': start}
    given |= {'mode': 'real_time', 'real_time_factor': 2.0, 'command_timeout_s': 0.5}
    simulator = processes.start('simulator', given)
    publisher = peer.publisher(Float64MultiArray, COMMANDS, RELIABLE)
    peer.spin_until(publisher.get_subscription_count, 60, 'the command subscription')
    peer.spin_until(lambda: states and stamp_ns(states[-1]) > 5e8, 60, 'half a second')
    assert {(*msg.position, *msg.velocity) for msg in states} == {(*start, *[0.0] * 4)}
    simulator.says('holding the arm until the first command')
    command = Float64MultiArray(data=[0.1, 0.2, 0.3, 0.4])
    # Until it is seen: it is soon too old, and a state may be lost.
    acts = lambda: publisher.publish(command) or states[-1].effort == command.data  # noqa: E731
    peer.spin_until(acts, 20, 'the command')
    released = lambda: not any(states[-1].effort) and states[-1].position[1] != start[1]  # noqa: E731
    peer.spin_until(released, 20, 'that being too old')
    assert ': released' in simulator.output
    steps = np.diff([stamp_ns(msg) for msg in states])
    # A test that reads fewer than 2000 states per second misses some of them.
    assert [steps.min() > 0, np.any(steps % 1_000_000)] == [True, False]
    assert load_robot(description[0].data).joint_names == tuple(states[-1].name)


def test_locked_joints_are_in_the_states_where_they_are_locked_and_what_is_not_held_falls(
    processes, peer
):
    states = peer.collect(JointState, 'joint_states')
    given = {'robot': 'scara', 'joints': ['joint1', 'joint3'], 'locked': ['joint4:=0.4']}
    given |= {'mode': 'real_time', 'hold_until_command': False}
    processes.start('simulator', given | {'initial_position': [0.3, 0.1]})
    peer.spin_until(lambda: states and states[-1].position[1] > 0.15, 60, 'the fall of the quill')
    assert states[0].name == ['joint1', 'joint3', 'joint2', 'joint4']
    assert states[0].position.tolist()[2:] == [0.0, 0.4]
    assert len(states[0].velocity) == len(states[0].effort) == 4


def test_after_a_pause_a_missing_peer_is_named_within_one_timeout(monkeypatch):
    """However long it was missing before."""
    now, named = [0.0], []
    monkeypatch.setattr(simulator.time, 'monotonic', lambda: now[0])
    node = Mock(_lockstep=True, _paused=False, _answered=False, _sent_at=0.0, _published_at=0.0)
    node._warned_at, node._run.time = 0.0, 0.0
    node._settings = {'republish_period_s': 0.02, 'lockstep_timeout_s': 5.0}
    node._on_peer_timeout = lambda waited: named.append((now[0], waited))
    for now[0] in (4.0, 6.0, 7.0, 12.0, 18.0):
        Simulator._on_idle(node)
    assert named == [(6.0, 6.0), (12.0, 12.0), (18.0, 18.0)]
    now[0] = 100.0
    for paused in (True, False):
        Simulator._on_pause(node, SimpleNamespace(data=paused))
    for now[0] in (104.0, 106.0):
        Simulator._on_idle(node)
    assert named[3:] == [(106.0, 6.0)]


def test_the_clock_is_published_with_the_first_state_of_every_10_ms():
    node = Mock(_next_clock=0, _origin_ns=0, _wrenches=None)
    node._run.plant.stale = node._arm.has_own_clock = False
    node._state.doubles, told = (), []
    node._publish_clock = lambda: told.append(node._run.time_ns)
    for node._run.time_ns in range(0, 45_000_000, 3_000_000):
        Simulator._publish_new_state(node)
    assert told == [0, 12_000_000, 21_000_000, 30_000_000, 42_000_000]
