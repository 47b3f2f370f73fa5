# SPDX-License-Identifier: Apache-2.0
"""Joints that follow others, locked or coupled, in every computation with their robot.

``test_identities`` contains the dynamics of all formulations, ``test_kane`` those of loops.
"""

import numpy as np
import pytest
from oracles import EliminationOracle, relative_error
from urdf_text import described

from robot_dynamics_ros.description.shipped import shipped_mechanism
from robot_dynamics_ros.dynamics import linearize_driven, make_formulation
from robot_dynamics_ros.dynamics.registry import FORMULATIONS
from robot_dynamics_ros.errors import MechanismError, ModelError, ParameterError
from robot_dynamics_ros.model import load_mechanism, load_robot
from robot_dynamics_ros.model.robot_parameters import ROBOT, robot_from_parameters
from robot_dynamics_ros.parameters import defaults
from robot_dynamics_ros.symbolic.closed_form import derive
from robot_dynamics_ros.symbolic.equations import write_python

DOWN = (0.0, 0.0, -9.81)
#: An arm whose two fingers and a slide follow one joint, one of them over another.
GRIPPER = described(
    'gripper',
    """
base: []
arm: [3.0, [0.1, 0.02, 0], &I [0.02, 0.05, 0.06, 0.003, -0.002, 0.004]]
f1: [0.6, [0.05, 0, 0.01], *I]
f2: [0.5, [0.05, 0.01, 0], *I]
rail: [0.4, [0.02, 0, 0.03], *I]
j1: {of: [base, arm], axis: [0, 0.6, 0.8]}
g1: {of: [arm, f1], xyz: [0.2, 0.1, 0], rpy: [0.3, 0, 0.2], limits: [-1.0, 2.0],
  dynamics: <dynamics damping="0.1" friction="0.2" armature="0.01"/>}
g2: {of: [arm, f2], xyz: [0.2, -0.1, 0], axis: [0, 0.6, 0.8], limits: [-1, 1], velocity: 4.0,
  dynamics: <dynamics damping="0.3" friction="0.4" armature="0.02"/>, follows: [g1, -0.8, 0.15]}
g3: {of: [f1, rail, prismatic], xyz: [0.1, 0, 0], axis: [1, 0, 0], limits: [-9.0, 9.0],
  dynamics: <dynamics damping="5.0" friction="6.0" armature="0.7"/>, follows: [g2, 0.5, 0.02]}
""",
)


def test_friction_armature_and_limits_of_mimic_joints_are_those_of_their_joint():
    tree, k2, k3 = load_robot(GRIPPER), -0.8, -0.4
    for name, expected in {
        'damping': 0.1 + 0.3 * k2**2 + 5.0 * k3**2,
        'coulomb_friction': 0.2 - 0.4 * k2 - 6.0 * k3,
        'armature': 0.01 + 0.02 * k2**2 + 0.7 * k3**2,
        # g2 = -0.8 g1 + 0.15 stays within [-1, 1], and turns at 4 rad/s at most.
        'position_lower': -1.0,
        'position_upper': (-1.0 - 0.15) / k2,
        'velocity_limit': 4.0 / 0.8,
    }.items():
        assert getattr(tree, name)[1] == pytest.approx(expected, rel=1e-14), name
    endless = load_robot(GRIPPER.replace('"g1" type="revolute"', '"g1" type="continuous"'))
    assert endless.position_lower[1] == pytest.approx((1.0 - 0.15) / k2, rel=1e-14)
    assert endless.position_upper[1] == tree.position_upper[1]
    still = load_robot(GRIPPER.replace('velocity="10.0"', 'velocity="0.0"'))
    assert still.velocity_limit[1] == tree.velocity_limit[1]
    assert any("'g1'" in x and 'velocity limit is 0' in x for x in still.remarks)


SLIDE = """
base: []
l1: [3.0, [0.1, 0.02, 0], &I [0.02, 0.05, 0.06, 0.003, -0.002, 0.004]]
l2: [0.6, [0.05, 0, 0.01], *I]
j1: {of: [base, l1, %s], rpy: [1.5707963267948966, 0, 0]}
j2: {of: [l1, l2, %s], xyz: [0.2, 0.1, 0], axis: [1, 0, 0], follows: [j1, -5.0]}
"""


TURN, SLIDES = 'revolute', 'prismatic'


@pytest.mark.parametrize('kinds', [None, (SLIDES, TURN), (TURN, SLIDES), (TURN, TURN)])
def test_printed_equations_are_in_the_independent_joints(kinds, rng):
    """Also where a slide moves a joint that turns, by one factor, or where it is moved by one.

    A joint that turns five times as fast has fifth powers of sines.
    """
    text, names = (described('slide', SLIDE % kinds), ['j1']) if kinds else (GRIPPER, ['g1'])
    tree, space = load_robot(text, DOWN, joints=names), {}
    exec(write_python(derive(tree)), space)
    q, v = rng.uniform(-0.5, 0.5, 1), rng.normal(size=1)
    model = EliminationOracle(text, DOWN, names, tree.locked)
    still, moving = (model.inverse_dynamics(q, rate, 0 * q) for rate in (0 * v, v))
    assert np.allclose(space['mass_matrix'](q), model.mass_matrix(q), rtol=1e-12)
    assert np.allclose(space['gravity_forces'](q), still, rtol=1e-11)
    assert np.allclose(space['velocity_forces'](q, v), moving - still, rtol=1e-10)


def test_mimic_joints_can_be_locked_where_their_joint_rests():
    tree = load_robot(GRIPPER, mimic='lock')
    assert tree.joint_names == ('j1', 'g1')
    assert tree.locked == pytest.approx({'g2': 0.15, 'g3': 0.5 * 0.15 + 0.02}, rel=1e-14)
    text = GRIPPER
    for g1 in (0.5, 0.2):  # the text of a robot keeps the position until another one is given
        tree = load_robot(text, locked={'g1': g1})
        text = tree.xml
        assert tree.locked['g2'] == pytest.approx(-0.8 * g1 + 0.15, rel=1e-14)
        assert load_robot(text).locked == tree.locked


def test_a_mimic_joint_of_a_locked_one_is_locked_where_that_puts_it(rng):
    tree = load_robot(GRIPPER, DOWN, locked={'g2': 0.4})
    assert tree.locked == pytest.approx({'g2': 0.4, 'g3': 0.5 * 0.4 + 0.02}, rel=1e-14)
    expected = EliminationOracle(GRIPPER, DOWN, tree.joint_names, {'g2': 0.4})
    motion = rng.uniform(-0.5, 0.5, (3, tree.n))
    found = make_formulation('newton_euler', load_robot(tree.xml, DOWN)).inverse_dynamics(*motion)
    # Two recursions in another order of summation.
    assert relative_error(found, expected.inverse_dynamics(*motion)) < 1e-12


def test_a_mechanism_file_couples_or_locks_the_mimic_joints():
    tree = load_robot(GRIPPER)
    with pytest.raises(ModelError, match='has mimic joints; use make_formulation'):
        FORMULATIONS['kane'](tree)
    loops = '{coordinates: [j1, g1], actuators: {a: {rate: {j1: 1}}, b: {rate: {g1: 1}}}}'
    assert load_mechanism(GRIPPER, loops).joint_names == ('j1', 'g1')
    assert load_mechanism(GRIPPER, loops, mimic='lock').tree.joint_names == ('j1', 'g1')


# ---- closed loops -------------------------------------------------------------------------------

FOUR_BAR = shipped_mechanism('four_bar')


def test_a_robot_with_loops_is_one_of_its_independent_joints():
    urdf, loops = shipped_mechanism('welding_arm')
    robot, tree = load_robot(urdf, loops=loops), load_robot(urdf, effort_limit=1.0)
    assert (robot.n, robot.bodies) == (5, 7)
    at = [tree.joint_names.index(name) for name in robot.joint_names]
    for name in ('position_lower', 'position_upper', 'velocity_limit', 'effort_limit', 'damping'):
        np.testing.assert_array_equal(getattr(robot, name), getattr(tree, name)[at])
    rubs = "joint 'rod_joint': its friction and rotor inertia act in MuJoCo only"
    head, tail = text_of(urdf).split('<joint name="rod_joint"')
    tail = tail.replace('<limit', '<dynamics damping="1" friction="0"/><limit', 1)
    passive = load_robot(f'{head}<joint name="rod_joint"{tail}', loops=loops)
    assert [sum(rubs in remark for remark in x.remarks) for x in (robot, passive)] == [0, 1]


def text_of(urdf) -> str:
    """Return the expanded text of a shipped description."""
    return load_robot(urdf, effort_limit=1.0).xml


@pytest.mark.parametrize('bad', [['1', 'x'], [0, [1]], np.array([0, 1], 'm8[s]')])
def test_motions_of_loops_that_are_no_numbers_are_refused_by_name(bad):
    u, model = np.zeros(2), make_formulation('kane', load_mechanism(*FOUR_BAR))
    for name, call, *given in (
        ('u', model.mechanism.positions, bad),
        ('near', model.mechanism.positions, u, [*bad, *bad]),
        ('a', model.loop_forces, u, u, bad),
    ):
        with pytest.raises(ParameterError, match=f'parameter {name} = .*must be real numbers'):
            call(*given)
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


def test_the_parameter_loops_makes_a_robot_of_its_coordinates():
    text = {'robot_description': text_of(FOUR_BAR[0]), 'loops': str(FOUR_BAR[1])}
    robot = robot_from_parameters(defaults(ROBOT) | text | {'effort_limit': [7.0]})
    assert robot.joint_names == ('lower_arm_joint', 'crank_joint')
    assert robot.effort_limit.tolist() == [7.0, 7.0]
