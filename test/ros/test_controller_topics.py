# SPDX-License-Identifier: Apache-2.0
"""What a controller tells and takes besides states and commands, under a constraint program.

One process lives through all tests. What is told is decided by session and law.
"""

from itertools import product

import numpy as np
import pytest
import yaml
from geometry_msgs.msg import PoseStamped, WrenchStamped
from oracles import PinocchioOracle
from peer import LATCHED
from rclpy.qos import QoSProfile, ReliabilityPolicy
from resting_arm import JOINTS, PERIOD_NS, RestingArm, joint_state
from samples import sample
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray, String

from robot_dynamics_ros.description.shipped import share_directory
from robot_dynamics_ros.messages import stamp_ns

PLACE = np.array([-0.315, 1.398, 0.12, 1.083])  # the start of scara_circle, to a millimetre
NODE = yaml.safe_load("""
robot: scara
law: constraint_stabilization
program: scara_circle
activation_ramp_s: 0.0
state_timeout_s: 30.0
diagnostics_period_s: 0.2
observer_effort: measured
observer_bandwidth: [1.0e+4]
wrench_frame: tool
""")
ROWS = ['circle: tool x (m)', 'circle: tool y (m)', 'height: tool z (m)']
ORACLE = PinocchioOracle.of(sample('scara'))


@pytest.fixture(scope='module')
def living(lasting):
    """Return arm and process of a controller that lives through all tests."""
    processes, peer = lasting
    return RestingArm(peer, PLACE), processes.start('controller', NODE)


def components(message: WrenchStamped) -> list[tuple[object, str]]:
    """Return force and moment, each by its axes."""
    return list(product((message.wrench.force, message.wrench.torque), 'xyz'))


def test_who_may_miss_messages_costs_the_controller_fewer(living):
    """Parts of the effort, at 1 kHz: every tick to reliable subscribers, else every 20th."""
    arm, peer = living[0], living[0].peer
    best_effort = QoSProfile(depth=100, reliability=ReliabilityPolicy.BEST_EFFORT)
    parts = peer.collect(JointState, 'controller/effort_components', best_effort)
    peer.spin_until(lambda: (arm.command(), len(parts) > 5)[1], 60.0, 'parts')

    def periods() -> list[int]:
        """Return simulated ms between the last messages."""
        return (np.diff([stamp_ns(x) for x in parts[-4:]]) // 10**6).tolist()

    assert min(periods()) >= 20
    peer.collect(JointState, 'controller/effort_components')
    peer.spin_until(lambda: (arm.command(), max(periods()) < 20)[1], 20.0, 'more for all')


def test_it_shows_f_multipliers_conditioning_and_the_effort_by_origin(living):
    arm, peer = living[0], living[0].peer
    constraint, split, condition = topics = [
        peer.collect(kind, f'controller/{name}')
        for kind, name in ((JointState, 'constraint'), (JointState, 'effort_components'),
                           (Float64MultiArray, 'constraint_condition'))
    ]  # fmt: skip
    shown = lambda: arm.command().any() and all(topics) and arm.figure('sigma_min')  # noqa: E731
    peer.spin_until(shown, 60.0, 'all topics of the program')
    rows = constraint[-1]
    assert list(rows.name)[:3] == ROWS
    assert np.isfinite([rows.position, rows.velocity, rows.effort]).sum() == 12
    # The tool at rest on the start of the circle, by the closed form of the arm.
    q1, q12 = PLACE[0], PLACE[0] + PLACE[1]
    x = 0.325 * np.cos(q1) + 0.275 * np.cos(q12) - 0.44
    assert constraint[0].position[0] == pytest.approx(x, abs=1e-9)
    sigma_min, number, *rest = condition[-1].data
    assert 0.0 < sigma_min < 1.0 < number
    assert rest == [0.0, 1.0]  # damped, scale
    origins = 'inertia', 'coriolis', 'gravity', 'friction', 'task', 'null_space'
    names = [f'{joint}/{origin}' for joint, origin in product(JOINTS, origins)]
    parts = dict(zip(split[-1].name, split[-1].effort, strict=True))
    assert parts.keys() >= {*names}
    whole = sum(x for name, x in parts.items() if name.startswith('joint3/'))
    assert whole == pytest.approx(arm.commands[-1].data[2], abs=1.0)  # a tick apart


def test_external_efforts_are_told_with_the_wrench_that_explains_them_and_the_rest(living):
    """Oracle: Pinocchio, of the wrench that is told."""
    arm, peer = living[0], living[0].peer
    external, rest = (
        peer.collect(JointState, f'controller/{name}_effort')
        for name in ('external', 'unexplained')
    )
    wrenches, still = peer.collect(WrenchStamped, 'controller/external_wrench'), np.zeros(4)

    def held(wrench) -> np.ndarray:
        return ORACLE.inverse_dynamics(PLACE, still, still, {'tool': wrench})

    measured = held([3.0, -2.0, 4.0, 0, 0, 1.0]) + [0.0, 0.0, 0.0, 1.0]
    # The observer converges from 0 first; with K h = 10 that takes three samples.
    arm.until(lambda: len(wrenches) > 5, 'external efforts', effort=measured)
    away = ORACLE.gravity_forces(PLACE) - measured
    assert external[-1].effort == pytest.approx(away, abs=1e-6)
    assert wrenches[-1].header.frame_id == 'tool'
    found = held([getattr(vector, axis) for vector, axis in components(wrenches[-1])])
    assert rest[-1].effort == pytest.approx(found - measured, abs=1e-6)


def test_a_tare_is_a_parameter_and_refused_without_a_sensor(living):
    arm, peer = living[0], living[0].peer
    published = peer.collect(String, 'controller/parameters', LATCHED)
    sensor = peer.publisher(WrenchStamped, 'controller/measured_wrench', 1)
    wrench, bias = WrenchStamped(), [1.0, -2.0, 3.5, 0.25, 0.0, -0.5]
    wrench.header.frame_id = 'tool'
    for (vector, axis), value in zip(components(wrench), bias, strict=True):
        setattr(vector, axis, value)
    # Before, the arm may not stand still for long.
    refused = lambda: 'no wrench was measured' in peer.ask('controller/tare_wrench').message  # noqa: E731
    arm.until(refused, 'a refusal without a sensor')

    def tared() -> bool:
        for _ in range(5):
            arm.publish()
            sensor.publish(wrench)
            peer.spin_for(0.01)
        return peer.ask('controller/tare_wrench').success

    peer.spin_until(tared, 60.0, 'a tare')
    assert list(peer.get('controller', 'sensor_bias')) == bias
    told = lambda: yaml.safe_load(published[-1].data)['sensor_bias'] == bias  # noqa: E731
    peer.spin_until(told, 20.0, 'the bias')


def test_another_program_acts_and_what_it_or_the_law_leaves_without_effect_is_said(living):
    arm, node = living
    file = share_directory() / 'config' / 'programs' / 'scara_circle.yaml'
    text = file.read_text(encoding='utf-8').replace('radius: 0.10', 'radius: 0.08')
    text += 'null_space: {damping: 1.0}\n'  # without effect on four rows of four: a remark
    assert arm.set(program=text).successful
    node.says('the null_space task acts only where the program is singular')
    assert np.isfinite(arm.command()).all()
    assert arm.set(law='impedance').successful
    node.says("parameter 'program' has no effect under law impedance")


def test_streamed_targets_lead_the_reference_and_others_are_refused_of_each_stream(living):
    """A refusal of one stream does not silence those of another."""
    arm, node = living
    assert arm.set(law='impedance').successful
    arm.command()
    pose, wrench = PoseStamped(), WrenchStamped()
    place = np.array(arm.references[-1].position)
    there = ORACLE.frame_pose('tool', place + [0.1, 0.0, 0.0, 0.0])[1]
    pose.pose.position.x, pose.pose.position.y, pose.pose.position.z = there
    pose.header.frame_id, pose.pose.orientation.w = 'world', 0.0  # any
    wrench.header.frame_id = 'moon'

    def led(joint: int, way: float) -> bool:
        return abs(arm.references[-1].position[joint] - place[joint] - way) < 1e-3

    refused = 'controller.target_{}]: refused: '.format  # by the log of each
    for name, message, done in (
        ('joint', joint_state(0, [place[1] + 0.05], names=['joint2']), lambda: led(1, 0.05)),
        ('pose', pose, lambda: led(0, 0.1)),
        ('joint', joint_state(0, [0.0], names=['elbow']), lambda: refused('joint') in node.output),
        ('wrench', wrench, lambda: refused('wrench') in node.output),
    ):
        topic = arm.peer.publisher(type(message), f'controller/target_{name}', 1)
        sent = lambda: topic.publish(message) or done()  # noqa: B023, E731
        arm.until(sent, name, step=10 * PERIOD_NS)
    assert "'elbow'" in node.output
    assert "frame 'moon'" in node.output


def test_a_press_of_the_switch_frees_the_arm_and_its_way_points_are_written(living, tmp_path):
    """Which press enables, and what ends it, is decided by the session."""
    arm, peer = living[0], living[0].peer
    path, away = tmp_path / 'taught.yaml', PLACE + 0.002  # not far enough for a jump
    assert arm.set(waypoint_file=str(path), law='hand_guiding').successful
    switch = peer.publisher(Bool, 'controller/enable_guiding', 1)

    def is_weightless() -> bool:
        switch.publish(Bool(data=True))
        return np.allclose(arm.commands[-1].data, ORACLE.gravity_forces(away), rtol=0, atol=1e-9)

    for _ in range(100):  # the brake ends after some states at rest
        arm.command()
    # Of the stiffness w^2 = 100 1/s^2 of 2 mrad: hundredths of a newton metre.
    assert np.abs(arm.command(away) - ORACLE.gravity_forces(away)).max() > 1e-2
    arm.until(is_weightless, 'weightlessness', away)
    assert '1 point' in peer.ask('controller/add_waypoint').message
    (point,) = yaml.safe_load(path.read_text('utf-8'))['points']
    assert point['positions'] == away.tolist()


def test_at_last_a_state_without_a_stamp_is_answered_by_topics_stamped_on_arrival(living):
    arm, clock = living[0], living[0].peer.node.get_clock()
    topics = arm.references, arm.peer.collect(JointState, 'controller/error')
    begin, arm.stamp = clock.now().nanoseconds, 0

    def stamped() -> bool:
        end = clock.now().nanoseconds
        return all(topic and begin < stamp_ns(topic[-1]) <= end for topic in topics)

    arm.until(stamped, 'topics of the present time', step=0)
