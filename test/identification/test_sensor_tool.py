# SPDX-License-Identifier: Apache-2.0
"""The tool on a force-torque sensor: weighed, subtracted, tared. Its weight is Pinocchio's."""

from dataclasses import replace
from math import nan

import numpy as np
import pytest
import tables
import yaml
from bags import SECOND, Message, T, header, state, text
from numpy.testing import assert_allclose
from oracles import PinocchioOracle
from recorded_arm import measured_arm
from samples import DOWN_Z, sample
from urdf_text import joint, link

from robot_dynamics_ros.control.requests import (
    prepare_parameters,
    tared,
)
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.setup import PARAMETERS
from robot_dynamics_ros.errors import (
    ConfigurationError,
    ModelError,
    UnknownNameError,
)
from robot_dynamics_ros.identification.sensor_tool import (
    SensorPose,
    estimate_tool,
    poses_at_rest,
)
from robot_dynamics_ros.parameters import checked

MS = 1_000_000
ARM = measured_arm()
JOINTS = ('pan', 'lift', 'elbow')
MASS, COM = 1.7, (0.02, -0.03, 0.11)
BIAS = np.array([3.0, -8.0, 12.0, 0.4, 0.2, -0.3])
TOOL = {'sensor_tool_mass': MASS, 'sensor_tool_com': list(COM), 'sensor_bias': BIAS.tolist()}
POSES = [(0.1, 0.2, -0.3), (0.4, 1.1, 0.2), (0.0, -0.9, 1.4), (-1.0, 2.0, 0.9), (0.3, 0.1, 2.5)]
TILTED = (1.0, -2.0, -9.5)


class SensorOracle:
    """A sensor at link 'tool': the joint force of a body that it carries, by Pinocchio."""

    def __init__(self, gravity=DOWN_Z):
        carried = link('carried', MASS, COM, 1e-3 * np.eye(3))
        sensor = joint('sensor', 'tool', 'carried')
        xml = ARM.xml.replace('</robot>', f'{carried}{sensor}</robot>')
        self.arm = PinocchioOracle(xml, gravity, (*JOINTS, 'sensor'))

    def measured(self, q):
        state = np.zeros((3, 4))
        state[0, :3] = q
        return BIAS - self.arm.joint_wrenches(*state)[-1]  # of the arm on the body


def poses(oracle, which=POSES):
    return [SensorPose(np.array(q), oracle.measured(q), 50) for q in which]


ZERO, EXACT = SensorPose(np.zeros(4), np.zeros(6), 9), poses(SensorOracle())


# Weighed -----------------------------------------------------------------------------------------


@pytest.mark.parametrize('gravity', [DOWN_Z, TILTED])
def test_three_poses_give_mass_centre_and_bias(gravity):
    given = poses(SensorOracle(gravity), POSES[:3])
    tool = estimate_tool(ARM.tree.with_gravity(gravity), 'tool', given)
    assert_allclose([tool.mass, *tool.com, *tool.bias], [MASS, *COM, *BIAS], atol=1e-10)
    assert max(tool.residual) < 1e-12


@pytest.mark.parametrize(('count', 'mass'), [(3, MASS), (5, MASS), (3, 0.1), (3, 0.04), (3, 0.0)])
def test_its_deviations_are_those_of_the_noise(count, mass):
    """Of 200 estimates; of three poses 13 % were beyond two deviations, and up to 19 of them.

    Of a light tool in three poses 74 % were told as nothing, most of them beyond two deviations.
    """
    rng, normal = np.random.default_rng(5), []
    exact = [BIAS + mass / MASS * (x.wrench - BIAS) for x in EXACT[:count]]
    for _ in range(200):
        felt = [x + 0.1 * rng.normal(size=6) for x in exact]
        noisy = [x._replace(wrench=wrench) for x, wrench in zip(EXACT, felt, strict=False)]
        tool = estimate_tool(ARM.tree, 'tool', noisy)
        errors = np.array([tool.mass, *tool.com, *tool.bias]) - [mass, *COM, *BIAS]
        deviations = [tool.mass_deviation, *tool.com_deviation, *tool.bias_deviation]
        normal.append(errors / deviations)
        assert tool.mass or not tool.com.any()
    size = np.abs(normal)
    # Three deviations cover 99.7 %, whatever the number of poses; of 2000 values 99.3 % do.
    assert np.mean(size[np.isfinite(size)] < 3.0) > 0.993
    assert np.mean(size[:, 0] < 2.0) > 0.95
    # Student's distribution with 9 to 11 degrees of freedom has an RMS of 1.13, and the factor is
    # 1.3 to 1.36; with 3 to 5 it has up to 1.7, and 1.8 to 3.1.
    if mass == MASS:
        assert 0.4 < np.sqrt(np.mean(np.square(size), axis=0)).min() < 1.0


ALIKE = poses(SensorOracle(), [POSES[0], (2.0, 0.21, -0.31), POSES[1], POSES[1]])
SCARA, FLOATING = sample('scara').tree, ARM.tree.with_gravity((0, 0, 0))
NEGATIVE, ROLLED = (
    [x._replace(wrench=change(x.wrench)) for x in EXACT]
    for change in (np.negative, lambda wrench: np.roll(wrench, 1))
)

test_what_does_not_determine_a_tool_is_refused = tables.called("""
estimate_tool(ARM.tree, 'tool', [])       | RecordingError: in 0 poses at rest
estimate_tool(SCARA, 'tool', [ZERO] * 4)  | RecordingError: ~/tare_wrench is enough
estimate_tool(ARM.tree, 'tool', ALIKE)    | RecordingError: in 4 poses at rest, do not determine
estimate_tool(FLOATING, 'tool', EXACT)    | RecordingError: gravity: is zero
estimate_tool(ARM.tree, 'tool', NEGATIVE) | RecordingError: negate it
estimate_tool(ARM.tree, 'tool', ROLLED)   | RecordingError: is tool the link in whose axes they are
""", globals())  # fmt: skip


def test_motion_gaps_and_damaged_measurements_are_no_poses():
    time = np.arange(0.0, 9.0, 0.01)
    moving = np.clip(time - 3.0, 0.0, 3.0)
    position, wrench = np.outer(moving, [1.0, 0.0]), np.full((len(time), 6), nan)
    wrench[::2] = 5.0 + moving[::2, np.newaxis]
    first, last = poses_at_rest(time, position, time, time, wrench)
    assert_allclose([first.wrench, last.wrench], [[5.0] * 6, [8.0] * 6])
    assert (first.q[0], last.q[0]) == (0.0, 3.0)
    assert not poses_at_rest(time[::100], position[::100], time[::100], time, wrench)
    assert not poses_at_rest(time, position, time, time, nan * wrench)


def recorded(*, frame='tool', which=POSES[:3], extra='/other'):
    """Return messages with the same wrench on two topics."""
    oracle, messages, rng = SensorOracle(), [text(0, ARM.xml)], np.random.default_rng(7)
    vector, wrench = (T[f'geometry_msgs/msg/{name}'] for name in ('Vector3', 'Wrench'))
    kind = 'geometry_msgs/msg/WrenchStamped'
    for k, stamp in enumerate(range(0, 2 * len(which) * SECOND, 20 * MS)):
        # each pose takes two seconds; in the first half second of it the arm moves
        past, now = np.array([which[max(0, k // 100 - 1)], which[k // 100]])
        q = past + min(k % 100 / 25.0, 1.0) * (now - past)
        messages.append(state(stamp, JOINTS, q, np.zeros(3)))
        felt = oracle.measured(q) + 0.01 * rng.normal(size=6)
        content = T[kind](header(stamp, frame), wrench(vector(*felt[:3]), vector(*felt[3:])))
        messages += [Message(name, stamp, kind, content) for name in ('/wrist/wrench', extra)]
    return messages


def test_the_command_writes_parameters_of_the_controller(command):
    """Means of 50 samples with noise of 0.01 N: a tenth of that, times the geometry.

    A corrupted state does not make slow motion a rest; states may arrive together.
    """
    sound, damaged = (recorded(extra='/controller/target_wrench') for _ in range(2))
    states = [message for message in damaged if message.topic == '/joint_states']
    states[150].content.position[0] += 1.0  # in the middle of the second pose
    bursts = [replace(x, time=x.time // (100 * MS) * 100 * MS) for x in sound]
    for messages in (sound, damaged, bursts):
        ended = command('weigh_tool', messages)
        assert 'tool carries 1.7' in ended.said
        assert '3 poses' in ended.said
        written = ended.text('tool.yaml')
        assert ' ± ' in written.splitlines()[1]
        values = checked(PARAMETERS, yaml.safe_load(written)['/**']['ros__parameters'])
        assert values['sensor_frame'] == 'tool'
        assert values['sensor_tool_mass'] == pytest.approx(MASS, abs=2e-3)
        assert_allclose(values['sensor_tool_com'], COM, atol=2e-3)
        assert_allclose(values['sensor_bias'], BIAS, atol=0.02)


@pytest.mark.slow
def test_the_command_names_what_it_cannot_choose(command):
    two, few = (command.word(recorded(frame='', which=POSES[:count])) for count in (3, 2))
    for words, bag, problem in (
        ('', two, 'has several wrenches: /wrist/wrench, /other'),
        ('--wrench /other', two, 'name the link of the sensor with --sensor'),
        ('--wrench /other --sensor hand', two, "'hand'"),
        ('--wrench /third', two, "'/third'"),
        ('--wrench /other --sensor tool', few, 'along three axes of tool'),
    ):
        ended = command(f'weigh_tool {words}', bag, code=2)
        assert problem in ended.err
        assert not ended.folder.exists()


# Subtracted --------------------------------------------------------------------------------------


class FeelingArm:
    """A session at given states, with a sensor; 1 kHz."""

    def __init__(self, tree=ARM.tree, **parameters):
        self.session = ControllerSession(tree, parameters)
        self.stamp = 0

    def feel(self, q, wrench, v=0.0, frame='tool'):
        """Pass states and a measurement; return the external effort at the next state."""
        if (self.session.loop.q != q).any():  # states in between are missing
            self.stamp += 10_000 * MS
        self.state(q, v)
        self.session.measure_wrench(frame, wrench)
        self.state(q, v)
        return self.session.loop.force.external

    def state(self, q, v=0.0):
        """Pass a state, whose first joint has a velocity."""
        self.stamp += MS
        q, v = np.array(q), np.array([v, 0.0, 0.0])
        self.session.update(self.session.driver.state(self.stamp, self.stamp, q, v))
        self.session.loop.force.update(self.stamp, q)

    def tare(self):
        parameters, said = tared(self.session, self.stamp)
        prepare_parameters(self.session, parameters)()
        return said


@pytest.mark.parametrize('gravity', [DOWN_Z, TILTED])
def test_what_remains_is_the_wrench_of_the_environment(gravity):
    oracle = SensorOracle(gravity)
    arm = FeelingArm(ARM.tree.with_gravity(gravity), **TOOL)
    pushed = np.array([5.0, -20.0, 9.0, 0.6, -0.2, 1.5])
    for q in POSES:
        external = arm.feel(q, oracle.measured(q) + pushed)
        R, _ = oracle.arm.frame_pose('tool', [*q, 0.0])
        J = oracle.arm.frame_jacobian('tool', [*q, 0.0])[:, :3]
        assert external.measured
        assert_allclose(external.effort, np.kron(np.eye(2), R) @ pushed @ J, atol=1e-11)


def test_the_weight_is_that_where_it_was_measured():
    """The sensor is slower than the states: it still reports the weight of the former pose."""
    arm = FeelingArm(**TOOL)
    arm.feel(POSES[0], SensorOracle().measured(POSES[0]))
    arm.state(np.array(POSES[0]) + 0.002)
    assert_allclose(arm.session.loop.force.external.effort, 0.0, atol=1e-11)


def test_parameters_of_one_link_are_not_used_at_another():
    """Nor is a wrench in the axes of the base, as of a driver that publishes that at the tool."""
    arm = FeelingArm(**TOOL, sensor_frame='tool')
    arm.feel(POSES[0], BIAS)
    with pytest.raises(ConfigurationError, match="is at 'fore', but"):
        arm.feel(POSES[0], BIAS, frame='fore')
    with pytest.raises(UnknownNameError, match='hand'):
        prepare_parameters(arm.session, {'sensor_frame': 'hand'})
    prepare_parameters(arm.session, {'sensor_frame': 'fore'})()
    arm.feel(POSES[0], BIAS, frame='fore')
    base = ARM.tree.base_link
    with pytest.raises(ModelError, match=f"frame '{base}': is on the base"):
        FeelingArm().feel(POSES[0], BIAS, frame=base)


# Tared -------------------------------------------------------------------------------------------


def test_a_tare_makes_the_rest_zero_in_every_pose():
    oracle, drift = SensorOracle(), np.array([1.0, 2.0, -3.0, 0.1, 0.0, 0.2])
    arm, noise = FeelingArm(**TOOL), np.array([1.0, -1.0, 1.0, 1.0, 1.0, 1.0])
    for earlier in (0.0, 0.5):  # neither counts
        arm.feel(POSES[0], 100.0 * noise, earlier)
    for k in range(20):
        arm.feel(POSES[0], oracle.measured(POSES[0]) + drift + (-1) ** k * noise)
    assert 'the mean of 20 measurements at tool; it was 3, -8, 12' in arm.tare()
    assert_allclose(arm.session.parameters['sensor_bias'], BIAS + drift, atol=1e-11)
    for q in POSES:
        assert_allclose(arm.feel(q, oracle.measured(q) + drift).effort, 0.0, atol=1e-11)
    for frame in ('fore', 'tool'):
        arm.feel(POSES[-1], BIAS, frame=frame)
    assert 'the mean of 1 measurement at tool' in arm.tare()


def test_a_tare_is_refused_in_motion_without_sensor_and_without_states():
    arm = FeelingArm()
    for before, why in (
        (lambda: None, 'no fresh state'),
        (lambda: arm.state(POSES[0]), 'no wrench was measured within 0.1 s'),
        (lambda: arm.feel(POSES[0], BIAS, 0.5), 'the arm moves'),
        (lambda: arm.state(POSES[0]), 'at rest'),  # all were measured in motion
    ):
        before()
        with pytest.raises(ConfigurationError, match=why):
            arm.tare()
    arm.feel(POSES[0], BIAS)
    arm.tare()
    for _ in range(100):
        arm.state(POSES[0])
    with pytest.raises(ConfigurationError, match='no wrench was measured'):
        arm.tare()
    assert_allclose(arm.session.parameters['sensor_bias'], BIAS)
