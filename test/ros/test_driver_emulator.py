# SPDX-License-Identifier: Apache-2.0
"""The driver emulator and the controller, in separate processes, with the same profile.

States and commands are checked in the driver's units, against numbers given here.
"""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import tables
import yaml
from numpy.testing import assert_allclose
from oracles import PinocchioOracle
from peer import LATCHED, RELIABLE
from resting_arm import COMMANDS, JOINTS, trajectory
from samples import sample
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String
from trajectory_msgs.msg import JointTrajectory
from urdf_text import described

from robot_dynamics_ros.control.drivers.profile import shipped_profiles
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.parameters import defaults
from robot_dynamics_ros.ros.driver_emulator import EmulatedArm, own_position
from robot_dynamics_ros.ros.node_parameters import EMULATOR
from robot_dynamics_ros.simulation.plant import CommandBuffer

NAMES = ('axis_1', 'axis_2', 'axis_4', 'axis_3')  # of the profile 'template', in its order
PLACE = [0.2, 0.6, 0.1, -0.3]
GOAL = [0.4, 0.3, 0.15, 0.1]
LAW = {
    'natural_frequency': [25.0],
    'activation_ramp_s': 0.1,
    'state_timeout_s': 20.0,
}


gravity = PinocchioOracle.of(sample('scara')).gravity_forces


def written(tmp_path, name: str, **changes) -> str:
    """Return the path of a shipped profile with a longer timeout and other changes."""
    data = yaml.safe_load(shipped_profiles()[name].read_text(encoding='utf-8'))
    data['state']['timeout_s'] = 20.0  # a loaded machine may be slow
    for key, value in changes.items():
        data[key] = {**data[key], **value} if isinstance(value, dict) else value
    path = tmp_path / f'{name}.yaml'
    path.write_text(yaml.safe_dump(data), encoding='utf-8')
    return str(path)


@pytest.fixture
def ends(peer):
    """Return the states of a driver, and the publisher of its commands."""
    commands = peer.publisher(Float64MultiArray, COMMANDS, RELIABLE)
    return peer.collect(JointState, 'joint_states'), commands


def start(processes, profile: str, **given):
    """Start a driver."""
    settings = {'robot': 'scara', 'driver_profile': profile, 'initial_position': PLACE}
    return processes.start('driver_emulator', settings | given)


def start_pair(processes, profile: str, emulator=None, **controller):
    """Start driver and controller in lockstep, and return them."""
    driver = start(processes, profile, mode='lockstep', publish_clock=True, **(emulator or {}))
    law = {'robot': 'scara', 'driver_profile': profile, 'use_sim_time': True} | LAW
    return driver, processes.start('controller', law | controller)


def lead(peer, tolerance: float) -> None:
    """Send the arm to the goal, and wait until the errors of the controller are small there."""
    status = peer.collect(String, 'controller/trajectory_status', LATCHED)
    errors, references = (
        peer.collect(JointState, f'controller/{name}') for name in ('error', 'reference')
    )
    publisher = peer.publisher(JointTrajectory, 'controller/joint_trajectory', 1)
    peer.spin_until(publisher.get_subscription_count, 60.0, 'subscription of trajectories')
    while not any(text.data.startswith('accepted') for text in status):
        publisher.publish(trajectory([(0.5, GOAL)]))
        peer.spin_for(0.1)

    def there() -> bool:
        ended = references and np.allclose(references[-1].position, GOAL, atol=1e-9)
        return ended and np.abs(errors[-1].position).max() < tolerance

    peer.spin_until(there, 60.0, 'the goal')


# Encoder steps of 1e-5 and their differences as velocity leave 2e-3, rad and m; stuck within what
# 25 rad/s bear of 1.3 times the Coulomb friction: 0.02. The fault campaign takes every profile.
@tables.rows(
    'name changes emulator tolerance',
    """
template, {command: {topic: arm/efforts, form: joint_state}}, {}, 2.0e-3
generic_ros2_control, {}, {command_jitter: 2, state_jitter: 1, command_loss: 0.05, state_loss: 0.05, torque_ripple: [0.03], cogging: [0.1], breakaway: [1.3], position_resolution: [5.0e-5], rate_check: false}, 0.02
""",  # noqa: E501
)
def test_a_profile_drives_its_arm_to_the_goal(
    processes, peer, tmp_path, name, changes, emulator, tolerance
):
    received = peer.collect(JointState, 'arm/efforts')
    _, controller = start_pair(processes, written(tmp_path, name, **changes), emulator)
    lead(peer, tolerance)
    assert 'reflex' not in processes.outputs()
    assert f'driver {name}' in controller.output
    told = 'velocities are differentiated, delayed by 2.03 ms' in controller.output
    assert told == (name == 'template')  # at 80 Hz, sampled
    assert 'is held with' not in controller.output  # the efforts are those of the model
    assert {tuple(msg.name) for msg in received} == ({NAMES} if changes else set())


def test_states_and_commands_are_in_the_names_units_signs_and_order_of_the_driver(
    processes, peer, ends, tmp_path
):
    """Joint 3 lifted by a current: 1.87 kg up against 9.81 m/s^2 needs 100 N/A * c."""
    states, commands = ends
    exact = {'position_resolution': [0.0], 'coulomb_friction_factor': [0.0]}
    start(processes, written(tmp_path, 'template'), mode='lockstep', **exact)
    peer.spin_until(lambda: states and commands.get_subscription_count(), 60.0, 'a state')
    assert tuple(states[0].name) == NAMES
    # degrees; degrees against the axis; rad; mm with the zero at 20 mm
    expected = [math.degrees(0.2), -math.degrees(0.6), -0.3, 120.0]
    assert_allclose(states[0].position, expected, atol=1e-12)
    assert len(states[0].velocity) == 0  # the profile says: differentiate
    weight = gravity(np.array(PLACE))[2]
    for k in range(50):  # A, on axis 3, the last of a command
        commands.publish(Float64MultiArray(data=[0.0, 0.0, 0.0, weight / 100.0]))
        peer.spin_until(lambda: len(states) > k + 1, 20.0, f'state {k + 1}')  # noqa: B023
    # Held for 50 ms: without the current it would have fallen by 12 mm.
    assert states[-1].position[3] == pytest.approx(120.0, abs=0.05)
    assert states[-1].effort[3] == pytest.approx(weight, rel=1e-6)  # N, as it says


def test_efforts_are_laid_over_the_positions_where_the_arm_is(processes, peer, tmp_path):
    rows = [{'joint': name} for name in reversed(JOINTS)]
    rows[3] |= {'position_unit': 'deg', 'sign': -1}
    profile = written(tmp_path, 'kuka_lbr', joints=rows)
    below = peer.collect(Float64MultiArray, 'position_controller/commands')
    states = peer.collect(JointState, 'joint_states')
    # With noise no state is like another one.
    start_pair(processes, profile, {'position_resolution': [0.0], 'position_noise': [1e-6]})
    peer.spin_until(lambda: states and below, 60.0, 'states and positions')
    assert_allclose(below[0].data, [-0.3, 0.1, 0.6, -math.degrees(0.2)], atol=1e-3)
    lead(peer, 2e-3)
    assert 'reflex' not in processes.outputs()
    # States and positions come through queues of their own; of a paused driver, to the last.
    assert peer.ask('driver_emulator/pause', True).success
    peer.spin_until(
        lambda: np.allclose(states[-1].position, below[-1].data, rtol=0.0, atol=1e-12),
        60.0,
        'the positions that answer the last state',
    )
    far = peer.publisher(Float64MultiArray, 'position_controller/commands', RELIABLE)
    peer.spin_until(lambda: far.get_subscription_count() > 1, 20.0, 'the driver')
    far.publish(Float64MultiArray(data=[-0.3, 0.1, 0.6, 90.0]))
    peer.spin_until(lambda: 'reflex: the positions sent' in processes.outputs(), 60.0, 'reflex')


def test_any_number_of_states_in_a_row_may_be_lost_in_lockstep(processes, peer, ends):
    """With this seed the first 500 and more are: one command leads to the exact end."""
    _, commands = ends
    lossy = {'state_loss': 0.99, 'noise_seed': 83, 'end_time_s': 0.5, 'on_end': 'exit'}
    driver = processes.start('driver_emulator', {'robot': 'scara', 'mode': 'lockstep'} | lossy)
    peer.spin_until(commands.get_subscription_count, 60.0, 'the driver')

    def ended():  # a first command may come before the first state, or before the connection
        commands.publish(Float64MultiArray(data=[0.0] * 4))
        return driver.returncode is not None

    peer.spin_until(ended, 20.0, 'end of the run')
    assert driver.wait() == 0
    assert 'end of the run: t = 0.500000 s' in driver.output


# Driver properties -----------------------------------------------------------------------------


def test_its_own_controller_holds_the_arm_goes_where_it_is_told_and_holds_without_commands(
    processes, peer, ends, tmp_path
):
    states, commands = ends
    profile = written(tmp_path, 'generic_ros2_control')
    driver = start(processes, profile, own_speed=2.0, command_timeout_s=0.2)
    peer.spin_until(lambda: len(states) > 200, 60.0, 'states')
    is_at = lambda place, within: np.abs(np.subtract(states[-1].position, place)).max() < within  # noqa: E731
    assert is_at(PLACE, 2e-3)
    there = [0.1, 0.5, 0.12, -0.2]
    assert peer.set('driver_emulator', own_position=there).successful
    peer.spin_until(lambda: is_at(there, 5e-3), 20.0, 'the commanded position')
    refused = peer.set('driver_emulator', own_position=[9.0] * 4)
    assert "the limits of joint 'joint1' are" in refused.reason
    commands.publish(Float64MultiArray(data=gravity(np.array(there)).tolist()))
    driver.says('commands take over from the own controller')
    driver.says('no command for 0.2 s, the own controller holds')
    peer.spin_for(0.5)
    assert is_at(there, 5e-3)


def test_a_single_own_position_leaves_an_arm_of_any_size_where_it_is():
    lever = load_robot(described('lever', """
base: []
arm: [2, [0.3, 0, 0], [0.1, 0.1, 0.1]]
hinge: {of: [base, arm], axis: [0, 1, 0]}
"""))  # fmt: skip
    for tree in (lever, sample('scara').tree):
        assert own_position(tree, {'own_position': [0.0]}) is None
    assert own_position(tree, {'own_position': PLACE}).tolist() == PLACE


def test_a_command_that_changes_too_fast_ends_in_a_reflex_until_recovery(
    processes, peer, ends, tmp_path
):
    states, commands = ends
    driver = start(processes, written(tmp_path, 'franka_like'), own_controller='none')
    peer.spin_until(commands.get_subscription_count, 60.0, 'the driver')
    # While there was no reflex, this changes nothing; from now on a request is sent once.
    assert not peer.ask('driver_emulator/recover').success

    def acts(first: float) -> bool:
        """Whether the command of the first joint, on which no gravity acts, has come through."""
        return bool(states) and states[-1].effort[0] == pytest.approx(first, abs=1e-9)

    for first in (0.0, 0.9, 0.0, 40.0):  # less than 1 N m in 1 ms, but for the last
        assert 'reflex' not in driver.output
        commands.publish(Float64MultiArray(data=[first, 0.0, 0.0, 0.0]))
        peer.spin_until(lambda: first == 40.0 or acts(first), 20.0, f'{first} N m')  # noqa: B023
    driver.says('reflex: the command of joint1 changed by 40 in one period, more than 1')
    answer = peer.ask('driver_emulator/recover')
    assert answer.success
    assert 'was: the command of joint1' in answer.message
    assert not peer.ask('driver_emulator/recover').success


PUSH = [30.0, 5.0, 5.0, 1.0]


@pytest.fixture
def limited():
    """Return an arm without own controller whose driver limits rates, its buffer, what it says."""
    said = []
    log = SimpleNamespace(info=said.append, error=said.append)
    profile = '{name: p, state: {effort: total}, defaults: {effort_rate_limit: 1000.0}}'
    given = {'robot': 'scara', 'driver_profile': profile, 'own_controller': 'none'}
    settings = defaults(EMULATOR) | {'period': 1e-3} | given
    arm = EmulatedArm(SimpleNamespace(get_logger=lambda: log), settings)
    buffer = CommandBuffer(arm.load(''), arm.driver.order)
    arm.build().reset(np.full(4, 0.1))
    arm.restart(lockstep=True)
    return arm, buffer, said


def test_zero_effort_that_nobody_commanded_is_no_command_that_changes_too_fast(limited):
    arm, buffer, said = limited
    buffer.store(range(4), PUSH)
    assert arm.admit(0.0)
    assert arm.effort(buffer.effort).tolist() == PUSH
    assert arm.miss_commands(buffer) == 'zero effort is applied'
    assert not arm.effort(buffer.effort).any()
    assert said == []


def test_an_arm_that_is_reset_after_a_reflex_is_held_at_its_initial_state(limited):
    arm, buffer, said = limited
    for sign in (1.0, -1.0):
        buffer.store(range(4), [sign * x for x in PUSH])
        assert arm.admit(0.0)
        arm.plant.step(arm.effort(buffer.effort))
    assert 'changed by' in said[-1]
    arm.plant.reset(np.full(4, 0.2))
    arm.restart(lockstep=True)
    for _ in range(300):
        arm.plant.step(arm.effort(buffer.effort))
    q, v = np.zeros((2, 4))
    arm.plant.read(q, v)
    assert_allclose(q, 0.2, atol=1e-3)
