# SPDX-License-Identifier: Apache-2.0
"""Joints that follow others, locked or coupled, in every computation with their robot.

``test_identities`` contains the dynamics of all formulations, ``test_kane`` those of loops.
"""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from oracles import EliminationOracle, PinocchioOracle, relative_error
from samples import mimic_arm, world_files
from urdf_text import follow, joint, link, robot, symmetric

from robot_dynamics_ros.control.payload import PayloadModel
from robot_dynamics_ros.description.shipped import shipped_mechanism
from robot_dynamics_ros.dynamics import linearize_driven, make_formulation
from robot_dynamics_ros.dynamics.registry import FORMULATIONS
from robot_dynamics_ros.errors import MechanismError, ModelError, ParameterError
from robot_dynamics_ros.estimation.regressor import inertial_parameters, regressor
from robot_dynamics_ros.kinematics.numeric import inverse_kinematics
from robot_dynamics_ros.model import Robot, load_mechanism, load_robot
from robot_dynamics_ros.model.kinematics import frame_motion, frame_pose
from robot_dynamics_ros.model.payload import Payload, with_payload
from robot_dynamics_ros.model.robot_parameters import ROBOT, robot_from_parameters
from robot_dynamics_ros.parameters import defaults
from robot_dynamics_ros.symbolic.closed_form import derive
from robot_dynamics_ros.symbolic.equations import write_python
from robot_dynamics_ros.symbolic.kernel import compile_kernel

DOWN = (0.0, 0.0, -9.81)
ALIKE = 1e-12  # relative: two recursions in another order of summation


I = symmetric(0.02, 0.05, 0.06, 0.003, -0.002, 0.004)
WAYS = '<dynamics damping="{}" friction="{}" armature="{}"/>'
#: An arm whose two fingers and a slide follow one joint, one of them over another.
GRIPPER = robot(
    'gripper',
    link('base'),
    link('arm', 3.0, (0.1, 0.02, 0), I),
    link('f1', 0.6, (0.05, 0, 0.01), I),
    link('f2', 0.5, (0.05, 0.01, 0), I),
    link('rail', 0.4, (0.02, 0, 0.03), I),
    joint('j1', 'base', 'arm', axis=(0, 0.6, 0.8)),
    joint('g1', 'arm', 'f1', xyz=(0.2, 0.1, 0), rpy=(0.3, 0, 0.2), limits=(-1.0, 2.0),
          dynamics=WAYS.format(0.1, 0.2, 0.01)),
    follow(joint('g2', 'arm', 'f2', xyz=(0.2, -0.1, 0), axis=(0, 0.6, 0.8), limits=(-1, 1),
                 velocity=4.0, dynamics=WAYS.format(0.3, 0.4, 0.02)), 'g1', -0.8, 0.15),
    follow(joint('g3', 'f1', 'rail', 'prismatic', xyz=(0.1, 0, 0), axis=(1, 0, 0),
                 limits=(-9.0, 9.0), dynamics=WAYS.format(5.0, 6.0, 0.7)), 'g2', 0.5, 0.02),
)  # fmt: skip


def state(tree, rng):
    return rng.uniform(-0.5, 0.5, tree.n), rng.normal(size=tree.n), rng.normal(size=tree.n)


def test_they_agree_with_pinocchios_own_mimic_joints(rng):
    text = next(f.locate().read_text() for f in world_files() if f.name == 'panda.urdf')
    tree, model = load_robot(text, DOWN), pin.buildModelFromXML(text, mimic=True)
    at = [model.joints[model.getJointId(name)].idx_v for name in tree.joint_names]
    q, v, a = moving = state(tree, rng)
    inside = np.zeros((3, model.nv))
    inside[:, at] = moving
    expected = pin.rnea(model, model.createData(), *inside)[at]
    found = make_formulation('newton_euler', tree).inverse_dynamics(q, v, a)
    assert relative_error(found, expected) < ALIKE


@pytest.mark.slow
def test_the_motion_of_a_frame_is_in_the_independent_joints(rng):
    """Other kernels and energies: ``symbolic/test_kernel``, ``test_identities``."""
    tree, frame = mimic_arm().tree, 'tool'
    by_hand = EliminationOracle(mimic_arm().xml, DOWN, tree.joint_names)
    kernels, (q, v, _) = (
        compile_kernel(tree, outputs=('frame_motion',), frame=frame),
        state(tree, rng),
    )
    found = R, p, J, bias = [np.empty(shape) for shape in ((3, 3), 3, (6, tree.n), 6)]
    kernels.frame_motion(q, v, *found)
    everywhere, pinocchio = by_hand.G @ q + by_hand.o, by_hand.pinocchio
    R_0, p_0 = pinocchio.frame_pose(frame, everywhere)
    assert np.allclose(R, R_0, atol=1e-13)
    assert np.allclose(p, p_0, atol=1e-13)
    expected = pinocchio.frame_jacobian(frame, everywhere) @ by_hand.G
    assert np.allclose(J, expected, atol=1e-13)
    expected = pinocchio.frame_bias(frame, everywhere, by_hand.G @ v)
    assert np.allclose(bias, expected, atol=1e-12)
    assert np.allclose(frame_motion(tree, q, v, frame).J, J, atol=1e-14)


def test_friction_armature_and_limits_are_carried_to_the_leader():
    tree = load_robot(GRIPPER)
    k2, k3 = -0.8, -0.4
    assert tree.damping[1] == pytest.approx(0.1 + 0.3 * k2**2 + 5.0 * k3**2, rel=1e-14)
    assert tree.coulomb_friction[1] == pytest.approx(0.2 - 0.4 * k2 - 6.0 * k3, rel=1e-14)
    assert tree.armature[1] == pytest.approx(0.01 + 0.02 * k2**2 + 0.7 * k3**2, rel=1e-14)
    # g2 = -0.8 g1 + 0.15 stays within [-1, 1], and turns at 4 rad/s at most.
    assert tree.position_lower[1] == -1.0
    assert tree.position_upper[1] == pytest.approx((-1.0 - 0.15) / -0.8, rel=1e-14)
    assert tree.velocity_limit[1] == pytest.approx(4.0 / 0.8, rel=1e-14)
    endless = load_robot(GRIPPER.replace('"g1" type="revolute"', '"g1" type="continuous"'))
    assert endless.position_lower[1] == pytest.approx((1.0 - 0.15) / -0.8, rel=1e-14)
    assert endless.position_upper[1] == tree.position_upper[1]


def test_a_payload_on_a_follower_is_felt_at_the_leader(rng):
    tree = load_robot(GRIPPER, DOWN)
    load = Payload(0.7, np.array([0.03, 0.0, 0.05]), 1e-3 * np.eye(3), 'rail')
    q, v, a = state(tree, rng)
    expected = make_formulation('kane', with_payload(tree, load)).inverse_dynamics(q, v, a)
    bare = make_formulation('kane', tree).inverse_dynamics(q, v, a)
    carried, found = PayloadModel(tree), np.empty(tree.n)
    carried.change(load, 0.0, 0.0)
    carried.add(q, v, a, bare, found)
    assert relative_error(found, expected) < ALIKE


def test_printed_equations_are_in_the_independent_joints(rng):
    tree = load_robot(GRIPPER, DOWN, joints=['g1'])
    space: dict = {}
    exec(write_python(derive(tree)), space)
    q, v = rng.uniform(-0.5, 0.5, 1), rng.normal(size=1)
    model = make_formulation('pinocchio', tree)
    assert np.allclose(space['mass_matrix'](q), model.mass_matrix(q), rtol=1e-12)
    assert np.allclose(space['gravity_forces'](q), model.gravity_forces(q), rtol=1e-11)
    c = model.bias_forces(q, v) - model.gravity_forces(q)
    assert np.allclose(space['velocity_forces'](q, v), c, rtol=1e-10)


def test_the_numeric_inverse_moves_the_leader():
    tree = load_robot(GRIPPER, DOWN)
    q = np.array([0.4, 0.9])
    goal = frame_pose(tree, q, 'rail')
    found = inverse_kinematics(tree, goal.p_WF, frame='rail', start=np.array([0.3, 0.7]))
    assert np.allclose(frame_pose(tree, found.q, 'rail').p_WF, goal.p_WF, atol=1e-8)


def test_followers_can_be_locked_where_their_leader_rests():
    tree = load_robot(GRIPPER, mimic='lock')
    assert isinstance(tree, Robot)
    assert tree.joint_names == ('j1', 'g1')
    assert tree.locked == pytest.approx({'g2': 0.15, 'g3': 0.5 * 0.15 + 0.02}, rel=1e-14)
    text = GRIPPER
    for g1 in (0.5, 0.2):  # the text of a robot keeps the position until another one is given
        tree = load_robot(text, locked={'g1': g1})
        text = tree.xml
        assert tree.locked['g2'] == pytest.approx(-0.8 * g1 + 0.15, rel=1e-14)
        assert load_robot(text).locked == tree.locked


def test_a_follower_of_a_locked_joint_is_locked_where_that_puts_it(rng):
    """The oracle is Pinocchio's model of all joints, of which only j1 and g1 move."""
    tree = load_robot(GRIPPER, DOWN, locked={'g2': 0.4})
    assert isinstance(tree, Robot)
    assert tree.locked == pytest.approx({'g2': 0.4, 'g3': 0.5 * 0.4 + 0.02}, rel=1e-14)
    by_hand = PinocchioOracle(GRIPPER, DOWN, ['j1', 'g1', 'g2', 'g3'])
    q, v, a = state(tree, rng)
    still = np.zeros(2)
    everywhere = np.append(q, [0.4, 0.22]), np.append(v, still), np.append(a, still)
    expected = by_hand.inverse_dynamics(*everywhere)[:2]
    for arm in (tree, load_robot(tree.xml, DOWN)):
        found = make_formulation('newton_euler', arm).inverse_dynamics(q, v, a)
        assert relative_error(found, expected) < ALIKE


def test_a_mechanism_file_couples_or_locks_the_mimic_joints():
    tree = load_robot(GRIPPER)
    with pytest.raises(ModelError, match='has mimic joints; use make_formulation'):
        FORMULATIONS['kane'](tree)
    loops = '{coordinates: [j1, g1], actuators: {a: {rate: {j1: 1}}, b: {rate: {g1: 1}}}}'
    assert load_mechanism(GRIPPER, loops).joint_names == ('j1', 'g1')
    assert load_mechanism(GRIPPER, loops, mimic='lock').tree.joint_names == ('j1', 'g1')


# ---- closed loops -------------------------------------------------------------------------------

FOUR_BAR = shipped_mechanism('four_bar')


@pytest.mark.parametrize('loops', [False, True])
def test_the_regressor_times_the_parameters_is_inverse_dynamics(loops, rng):
    robot = load_robot(FOUR_BAR[0], loops=FOUR_BAR[1]) if loops else mimic_arm().tree
    motions = 0.3 * rng.normal(size=(3, 4, robot.n))
    efforts = regressor(robot, *motions) @ inertial_parameters(robot)
    model = make_formulation('pinocchio', robot)
    for row, motion in zip(efforts, np.swapaxes(motions, 0, 1), strict=True):
        np.testing.assert_allclose(row, model.inverse_dynamics(*motion), rtol=1e-11)


def test_a_loop_with_friction_and_rotors_is_linearized(rng):
    """The oracle differentiates the accelerations by differences."""
    urdf, loops = FOUR_BAR
    plain = load_robot(urdf, loops=loops)
    damping, armature = np.array([3.0, 2.0]), np.array([0.4, 0.3])
    model = make_formulation('kane', plain.with_changes(damping=damping, armature=armature))
    q, v, a = 0.2 * rng.normal(size=2), rng.normal(size=2), rng.normal(size=2)

    def acceleration(x):
        q, v, tau = np.split(x, 3)
        M = model.mass_matrix(q) + np.diag(armature)
        return np.linalg.solve(M, tau - model.bias_forces(q, v) - damping * v)

    tau = (model.mass_matrix(q) + np.diag(armature)) @ a + model.bias_forces(q, v) + damping * v
    x, h = np.concatenate([q, v, tau]), 1e-5
    steps = h * np.eye(6)
    expected = np.transpose([acceleration(x + s) - acceleration(x - s) for s in steps]) / (2 * h)
    A, B = linearize_driven(model, q, v, a)
    # Differences of steps of 1e-5 are good to 1e-9 of second derivatives up to 1e3.
    np.testing.assert_allclose(A[2:], expected[:, :4], atol=1e-5)
    np.testing.assert_allclose(B[2:], expected[:, 4:], atol=1e-6)


def test_a_robot_with_loops_is_one_of_its_independent_joints():
    urdf, loops = shipped_mechanism('welding_arm')
    robot, tree = load_robot(urdf, loops=loops), load_robot(urdf, effort_limit=1.0)
    assert robot.n == 5
    assert robot.bodies == 7
    at = [tree.joint_names.index(name) for name in robot.joint_names]
    for name in ('position_lower', 'position_upper', 'velocity_limit', 'effort_limit', 'damping'):
        np.testing.assert_array_equal(getattr(robot, name), getattr(tree, name)[at])
    assert [remark for remark in robot.remarks if 'its friction' in remark] == []
    head, tail = text_of(urdf).split('<joint name="rod_joint"')
    tail = tail.replace('<limit', '<dynamics damping="1" friction="0"/><limit', 1)
    passive = f'{head}<joint name="rod_joint"{tail}'
    assert "joint 'rod_joint': its friction and rotor inertia act in MuJoCo only" in ' '.join(
        load_robot(passive, loops=loops).remarks
    )


def text_of(urdf) -> str:
    """Return the expanded text of a shipped description."""
    return load_robot(urdf, effort_limit=1.0).xml


@pytest.mark.parametrize('bad', [['1', 'x'], [0, [1]], np.array([0, 1], 'm8[s]')])
def test_motions_of_loops_that_are_no_numbers_are_refused_by_name(bad):
    robot = load_mechanism(*shipped_mechanism('four_bar'))
    model, u = make_formulation('kane', robot), np.zeros(2)
    for call, name in (
        (lambda: robot.positions(bad), 'u'),
        (lambda: robot.positions(u, near=[*bad, *bad]), 'near'),
        (lambda: model.tree_state(u, bad, u), 'ud'),
        (lambda: model.loop_forces(u, u, bad), 'a'),
    ):
        with pytest.raises(ParameterError, match=f'parameter {name} = .*must be real numbers'):
            call()
    forces = model.loop_forces(u.astype(object), u, u)['pin'].wrench
    assert np.array_equal(forces, model.loop_forces(u, u, u)['pin'].wrench)


def test_drive_friction_between_joints_is_refused():
    urdf, loops = FOUR_BAR
    belt = """
actuators:
  lower: {rate: {lower_arm_joint: 1}}
  elbow: {rate: {upper_arm_joint: 1, lower_arm_joint: 1}, effort_limit: 9}
"""
    model = make_formulation('kane', load_robot(urdf, loops=loops.read_text() + belt))
    with pytest.raises(MechanismError, match='friction needs a drive on each coordinate'):
        linearize_driven(model, *np.zeros((3, 2)))


@pytest.mark.parametrize('given', [{'robot': 'four_bar'}, {}])
def test_the_parameter_loops_makes_a_robot_of_its_coordinates(given):
    text = {'robot_description': text_of(FOUR_BAR[0]), 'loops': str(FOUR_BAR[1])}
    robot = robot_from_parameters(defaults(ROBOT) | text | given)
    assert robot.joint_names == ('lower_arm_joint', 'crank_joint')
    limited = robot_from_parameters(defaults(ROBOT) | text | given | {'effort_limit': [7.0]})
    assert limited.effort_limit.tolist() == [7.0, 7.0]
