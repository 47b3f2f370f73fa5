# SPDX-License-Identifier: Apache-2.0
"""Friction terms of ``identify`` only: formula, file, plant and laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
import yaml
from oracles import PinocchioOracle, central_difference
from samples import random_state, sample

from robot_dynamics_ros.contact.observer import MomentumObserver
from robot_dynamics_ros.control.laws.registry import make_law
from robot_dynamics_ros.control.setup import PARAMETERS
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.dynamics import linearize_driven, make_formulation
from robot_dynamics_ros.dynamics.joint_terms import JointTerms
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.model import load_arm, load_robot
from robot_dynamics_ros.model.robot_parameters import robot_from_parameters
from robot_dynamics_ros.parameters import defaults
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant
from robot_dynamics_ros.symbolic.kernel import compile_kernel

#: Of the four joints of the arm; every term at some joint.
DRIVE = {
    'offset': [0.4, 0.0, -0.3, 0.0],
    'load_friction': [0.05, 0.1, 0.08, 0.02],
    'root_friction': [0.6, 0.0, 0.4, 0.1],
    'square_friction': [-0.2, 0.3, 0.0, 0.05],
    'cubic_friction': [0.05, 0.0, 0.2, 0.01],
    'stribeck_friction': [0.5, 0.8, 0.0, 0.1],
    'stribeck_velocity': [0.1, 0.2, 0.05, 0.15],
}
NAMES = ('joint1', 'joint2', 'joint3', 'joint4')


def arm(**changes):
    """A four-joint arm whose drives have all kinds of friction."""
    drive = {key: np.array(value) for key, value in DRIVE.items()}
    return sample('four_dof').tree.with_changes(drive_friction=drive, **changes)


def formula(j, v, load, direction):
    """The friction of joint j beyond that of the description, in plain numbers."""
    at = {key: value[j] for key, value in DRIVE.items()}
    stribeck = math.exp(-((v / at['stribeck_velocity']) ** 2))
    return (
        at['offset']
        + at['load_friction'] * abs(load) * direction
        + at['root_friction'] * math.sqrt(abs(v)) * direction
        + at['square_friction'] * v * abs(v)
        + at['cubic_friction'] * v**3
        + at['stribeck_friction'] * stribeck * direction
    )


def further(v, load, direction):
    rows = zip(v.tolist(), load.tolist(), direction.tolist(), strict=True)
    return np.array([formula(j, *row) for j, row in enumerate(rows)])


def test_each_term_is_what_the_formula_says(rng):
    tree = arm()
    for _ in range(20):
        v, load = rng.uniform(-2.0, 2.0, 4), rng.uniform(-30.0, 30.0, 4)
        expected = tree.damping * v + tree.coulomb_friction * np.sign(v)
        expected += further(v, load, np.sign(v))
        found = JointTerms.of(tree).friction(v, load, np.sign(v))
        # A few operations on numbers of about 10, and 1e-16 of the exponential.
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)


def test_what_a_contact_may_be_taken_for_is_the_friction_of_a_start_under_the_load(rng):
    tree = arm()
    kernel = compile_kernel(tree, outputs=('inverse_dynamics',)).inverse_dynamics
    observer = MomentumObserver(tree, kernel)
    q, v = rng.normal(size=4), rng.normal(size=4)
    observer.begin(q, v)
    observer.update(1e-3, q + 1e-3 * v, v, np.zeros(4))
    oracle = PinocchioOracle(sample('four_dof').xml, tree.gravity, tree.joint_names)
    load = oracle.inverse_dynamics(observer.q, v, np.zeros(4))
    expected = tree.coulomb_friction + np.array(DRIVE['stribeck_friction'])
    expected += np.array(DRIVE['load_friction']) * np.abs(load)
    np.testing.assert_allclose(observer.breakaway, expected, rtol=1e-12)


def test_at_rest_only_the_offset_is_left():
    rest, load = np.zeros(4), np.array([7.0, -20.0, 5.0, 1.0])
    np.testing.assert_array_equal(JointTerms.of(arm()).friction(rest, load, rest), DRIVE['offset'])


@pytest.mark.parametrize('seed', range(5))
def test_the_linear_model_has_the_slope_of_all_friction(seed):
    """Against differences of the motors' efforts, written with Pinocchio and by hand."""
    tree = arm()
    oracle = PinocchioOracle(sample('four_dof').xml, tree.gravity, tree.joint_names)

    def motors(q, v, a):
        load = oracle.mass_matrix(q) @ a + oracle.coriolis_matrix(q, v) @ v
        load += oracle.gravity_forces(q)
        drives = tree.damping * v + tree.coulomb_friction * np.sign(v) + tree.armature * a
        return load + drives + further(v, load, np.sign(v))

    q, v, a = random_state(tree, np.random.default_rng(seed))
    v = np.sign(v) * np.maximum(np.abs(v), 0.3)  # slides in one direction, with its slope
    by_q = central_difference(lambda x: motors(x, v, a), q)
    by_v = central_difference(lambda x: motors(q, x, a), v)
    inertia = central_difference(lambda x: motors(q, v, x), a)
    A, B = linearize_driven(make_formulation('newton_euler', tree), q, v, a)
    expected = np.linalg.solve(inertia, np.hstack([-by_q, -by_v, np.eye(4)]))
    scale = np.abs(expected).max()
    # Central differences of fourth order with h = 1e-3, and exp(-(v / 0.05)^2) within.
    np.testing.assert_allclose(np.hstack([A, B])[4:], expected, rtol=0, atol=1e-6 * scale)


def write(folder, **changes):
    """A file of identify for the four-joint arm."""
    described = {'damping': 0.7, 'coulomb_friction': 0.2, 'armature': 0.3}
    joints = {
        name: described | {key: value[j] for key, value in DRIVE.items()}
        for j, name in enumerate(NAMES)
    }
    inertia = {'ixx': 0.2, 'ixy': 0.0, 'ixz': 0.0, 'iyy': 0.2, 'iyz': 0.0, 'izz': 0.2}
    origin = {'xyz': [0.0, 0.0, 0.1], 'rpy': [0.0, 0.0, 0.0]}
    link = {'mass': 7.25, 'origin': origin, 'inertia': inertia}
    data = {'gravity': [0, 0, -9.81], 'links': {'link2': link}, 'joints': joints} | changes
    (folder / 'parameters.yaml').write_text(yaml.safe_dump(data))
    return folder / 'parameters.yaml'


def test_a_robot_is_loaded_with_all_that_was_identified(tmp_path):
    found = load_robot(sample('four_dof').xml, effort_limit=9.0, identified=write(tmp_path))
    assert found.joint_names == NAMES
    assert (found.mass[1], found.damping[3], found.armature[0]) == (7.25, 0.7, 0.3)
    for key, value in DRIVE.items():
        np.testing.assert_array_equal(found.drive_friction[key], value)
    assert not any('gravity' in remark for remark in found.remarks)
    tilted = load_robot(found.xml, (3.0, 0, -9.3), identified=write(tmp_path))
    assert any('identified under another gravity' in remark for remark in tilted.remarks)


def test_a_node_takes_the_file_by_its_parameter(tmp_path):
    values = defaults(PARAMETERS) | {'robot': 'four_dof', 'identified': str(write(tmp_path))}
    found = robot_from_parameters(values)
    assert found.damping[3] == 0.7
    np.testing.assert_array_equal(found.drive_friction['offset'], DRIVE['offset'])
    assert robot_from_parameters(values | {'identified': ''}).drive_friction == {}


def without(joint):
    return {name: {'damping': 0.0} for name in NAMES if name != joint}


def full(names):
    terms = {'damping': 0.1, 'coulomb_friction': 0.2, 'armature': 0.3, 'stribeck_velocity': 0.1}
    return dict.fromkeys(names, terms)


WRONG = [
    ({'joints': {}}, 'joint1'),
    ({'joints': without('joint2')}, 'coulomb_friction'),
    ({'effort_unit': 'A'}, 'in A'),
    ({'gravity': [0, 0, '.nan']}, 'finite|convert'),
    ({'links': {'link9': {}}}, 'origin'),
]


@pytest.mark.parametrize(('changes', 'message'), WRONG)
def test_a_file_that_is_wrong_is_refused_by_name(tmp_path, changes, message):
    with pytest.raises(ConfigurationError, match=rf'parameters\.yaml.*({message})'):
        load_robot(sample('four_dof').xml, identified=write(tmp_path, **changes))


def test_a_file_of_another_robot_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match='another robot'):
        load_robot(sample('planar_2r').xml, identified=write(tmp_path))
    with pytest.raises(ConfigurationError, match=r"another robot: it locks joint 'finger'"):
        load_robot(sample('four_dof').xml, identified=write(tmp_path, locked={'finger': 0.0}))
    with pytest.raises(ConfigurationError, match=r"'joint4', which was not .*another robot"):
        load_robot(sample('four_dof').xml, identified=write(tmp_path, joints=full(NAMES[:3])))


def test_the_joints_that_were_locked_are_locked_again(tmp_path):
    file = write(tmp_path, joints=full(NAMES[:3]), locked={'joint4': 0.3})
    for load, options in ((load_robot, {}), (load_arm, {}), (load_robot, {'tip': 'link4'})):
        found = load(sample('four_dof').xml, identified=file, **options)
        assert found.joint_names == NAMES[:3]
        assert found.locked == {'joint4': 0.3}
        assert any(f'locked as in {file}: joint4 at 0.3' in text for text in found.remarks)
    fixed = load_robot(sample('four_dof').xml, locked={'joint4': 0.1}, identified=file)
    assert fixed.locked == {'joint4': 0.1}, 'a given position precedes that of the file'
    with pytest.raises(ConfigurationError, match="'joint4', which was locked"):
        load_robot(sample('four_dof').xml, joints=NAMES, identified=file)


LAWS = ('computed_torque', 'impedance', 'hand_guiding', 'constraint_stabilization')
NEUTRAL = {'guiding_damping': 0.0, 'guiding_friction_share': 1.0, 'guiding_speed_share': 1.0,
           'guiding_wall_frequency': 0.0}  # fmt: skip


@pytest.mark.parametrize('name', LAWS)
def test_every_law_that_compensates_friction_compensates_all_of_it(name, rng):
    """At zero error a law with these drives gives so much more than one without them."""
    tree, plain = arm(), sample('four_dof').tree
    oracle = PinocchioOracle(sample('four_dof').xml, tree.gravity, tree.joint_names)
    laws = [
        make_law(name, robot, **(NEUTRAL if 'guid' in name else {})) for robot in (tree, plain)
    ]
    for _ in range(5):
        reference = Reference(4)
        q, v, a = random_state(tree, rng)
        reference.position[:], reference.velocity[:], reference.acceleration[:] = q, v, a
        load = oracle.gravity_forces(q)
        if name != 'hand_guiding':
            load = oracle.mass_matrix(q) @ a + oracle.coriolis_matrix(q, v) @ v + load
        efforts = np.zeros((2, 4))
        for law, out in zip(laws, efforts, strict=True):
            law.effort(0.0, q, v, reference, out)
            parts = law.decompose(q, v, reference, out)
            np.testing.assert_allclose(sum(parts.values()), out, atol=1e-11)
        expected = further(v, load, np.tanh(v / 1e-3))
        # Two libraries in double precision; the largest effort is some hundred N m.
        np.testing.assert_allclose(efforts[0] - efforts[1], expected, atol=1e-10)


def test_the_plant_needs_what_the_formula_says_to_move_as_it_does():
    """A step reveals the effort that moved the rigid bodies: the rest is friction."""
    rigid = np.zeros(4)
    tree = arm(coulomb_friction=rigid, damping=rigid, armature=rigid)
    plant, v = MujocoPlant(tree, 1e-4, joint_limits=False), np.array([0.5, -0.4, 0.6, 0.3])
    oracle = PinocchioOracle(sample('four_dof').xml, tree.gravity, tree.joint_names)
    q = np.array([0.2, 0.4, 0.7, 0.1])
    plant.reset(q, v)
    effort = oracle.gravity_forces(q) + np.array([3.0, -2.0, 4.0, 0.5])
    for _ in range(3):
        before, now = np.zeros((2, 4)), np.zeros((2, 4))
        plant.read(*before)
        plant.step(effort)
        plant.read(*now)
    a = (now[1] - before[1]) / 1e-4
    load = oracle.mass_matrix(before[0]) @ a + oracle.coriolis_matrix(*before) @ before[1]
    load += oracle.gravity_forces(before[0])
    expected = further(before[1], load, np.sign(before[1]))
    # The load is that of the step before: it changes by some thousandth in 0.1 ms.
    np.testing.assert_allclose(effort - load, expected, rtol=0.01, atol=0.01)
