# SPDX-License-Identifier: Apache-2.0
"""The law constraint_stabilization: its effort, clock, limits, parts, loops, and refusals."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import PinocchioOracle
from samples import effort_of, random_state, sample, shipped

from robot_dynamics_ros.constraints.feasibility import check_feasibility, starting_configuration
from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.constraints.stabilization import stabilizing_effort
from robot_dynamics_ros.control.laws.registry import make_law
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.description.shipped import share_directory
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model import load_robot

NAME = 'constraint_stabilization'
SCARA = shipped('scara')
PROGRAMS = {'scara': 'scara_circle', 'four_dof': 'four_dof_moving_plane'}


@pytest.fixture(params=PROGRAMS)
def robot(request):
    return shipped(request.param)


@cache
def loaded(name):
    """Return the program of a robot; its feasibility check takes half a second."""
    return load_program(PROGRAMS[name], shipped(name).tree)


def law_of(robot, **parameters):
    return make_law(NAME, robot.tree, program=loaded(robot.tree.name), **parameters)


AWAY = np.array([1.0, -1.0, 0.1, 1.0])  # beyond the effort limits, with half of it


def near_path(law, rng, t=0.0):
    """Return a state a little off the program's start."""
    q = starting_configuration(law.program)
    return q + 0.01 * rng.normal(size=len(q)), 0.1 * rng.normal(size=len(q))


@pytest.mark.slow
@pytest.mark.parametrize(
    ('robot', 'follow'), [('scara', 'desired'), ('four_dof', 'measured')], indirect=['robot']
)
def test_effort_is_3_1_plus_armature_and_friction_and_its_terms_are_shown(robot, follow, rng):
    """Where a joint sticks, friction is that of the velocity by which the program goes on."""
    law = law_of(robot, friction_velocity=follow, stiction_velocity=0.1)
    program, tree, oracle = law.program, robot.tree, PinocchioOracle.of(robot)
    G0, G1 = program.G0, program.G1
    for t in (0.0, 1.3, 2.7):
        q, v = near_path(law, rng)
        if t:  # else the clock starts at the first tick
            law.reset(10.0, q, v)
        found = effort_of(law, q, v, t=10.0 + t)
        f, f_dot, Gamma, beta = program.stack.evaluate(q, v, t)
        A, b = oracle.mass_matrix(q), oracle.coriolis_matrix(q, v) @ v + oracle.gravity_forces(q)
        free, singularity = program.free_acceleration(q, v), program.singularity
        expected = stabilizing_effort(
            A, b, Gamma, beta, f, f_dot, G0, G1, free, singularity=singularity
        )
        sliding = v
        if follow == 'desired':  # its velocity is v plus what f lacks of settling by its gains
            lacking = f_dot + np.linalg.solve(G1, G0 @ f)
            sliding = v + (v - np.linalg.solve(Gamma, lacking)) / (1.0 + (v / 0.1) ** 2)
        drives = tree.armature * expected.acceleration + tree.damping * v
        wanted = expected.effort + drives + tree.coulomb_friction * np.tanh(sliding / 0.1)
        assert_allclose(found, wanted, atol=1e-11 * np.abs(wanted).max())
        assert_allclose(law.acceleration, expected.acceleration, atol=1e-10)
        seen, sigma = law.constraints(), np.linalg.svd(Gamma, compute_uv=False)
        assert_allclose(seen.f, f, atol=1e-14)
        assert_allclose(seen.f_dot, f_dot, atol=1e-13)
        assert (seen.sigma_min, seen.condition) == pytest.approx((sigma[-1], sigma[0] / sigma[-1]))
        assert (seen.damped, seen.scale) == (False, 1.0)
        inertia = Gamma @ np.linalg.solve(A + np.diag(tree.armature), Gamma.T)
        multipliers = np.linalg.solve(inertia, -(beta + G1 @ f_dot + G0 @ f))
        assert_allclose(seen.multipliers, multipliers, rtol=1e-7, atol=1e-8)
    effort_of(law, q + 0.1, v, t=20.0)
    assert_allclose(seen.f, f, atol=1e-14)  # a copy


def test_without_a_program_it_is_computed_torque(rng):
    tree, reference = sample('rrpr').tree, Reference(4)
    options = {'friction_compensation': False, 'period': 0.002}
    law, other = make_law(NAME, tree, **options), make_law('computed_torque', tree, **options)
    law.set_parameters({'limit_effort': False})
    for _ in range(10):
        (q, v, _), reference.rows[:] = random_state(tree, rng), rng.normal(size=(3, 4))
        expected = effort_of(other, q, v, reference)
        found = effort_of(law, q, v, reference)
        assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize('hold', ['continuous', 'semi_implicit', 'zero_order'])
def test_without_an_error_the_acceleration_comes_to_that_of_the_reference(hold, rng):
    """The reference is predicted as the arm is: with the acceleration of the last tick."""
    given = {'discretization': hold, 'period': 0.002, 'limit_effort': False}
    law, reference = make_law(NAME, SCARA.tree, **given), Reference(4)
    reference.rows[:] = random_state(SCARA.tree, rng)
    for _ in range(20):
        effort_of(law, reference.position, reference.velocity, reference)
    assert_allclose(law.acceleration, reference.acceleration, atol=1e-9)


def test_a_blend_starts_without_a_demand_and_ends_on_the_program():
    """The target is led from the measured f by o(t), see test_curves: at first no feedback."""
    plain = law_of(SCARA, limit_effort=False)
    program = replace(plain.program, blend=1.0)
    law = make_law(NAME, SCARA.tree, program=program, limit_effort=False)
    q, v = starting_configuration(program) + 0.05, np.full(4, 0.02)
    parts = law.decompose(q, v, Reference(4), effort_of(law, q, v))
    assert_allclose(parts['task'], 0.0, atol=1e-10)
    assert np.abs(law.f).max() > 0.01
    effort_of(plain, q, v)
    for t, ended in ((0.5, False), (0.99, False), (1.0, True), (1.5, True)):
        found, expected = (effort_of(each, q, v, t=t) for each in (law, plain))
        assert np.allclose(found, expected, rtol=1e-12) == ended


# ---- limits -------------------------------------------------------------------------------------


def test_beyond_the_limits_the_acceleration_keeps_its_direction(robot, rng):
    law, free = law_of(robot), law_of(robot, limit_effort=False)
    limit, scales = robot.tree.effort_limit, []
    for distance in (0.1, 0.3, 0.6):
        q, v = near_path(law, rng)
        q = q + distance * AWAY
        for each in (law, free):
            each.reset(0.0, q, v)
        whole, found = effort_of(free, q, v), effort_of(law, q, v)
        scales.append(law.scale)
        assert_allclose(law.acceleration, law.scale * free.acceleration, atol=1e-9)
        # Not smaller than need be: the efforts are within the limits, or one is at its own.
        share, wanted = (np.max(np.abs(x) / limit) for x in (found, whole))
        assert share == pytest.approx(min(wanted, 1.0), rel=1e-12)
        assert share <= 1.0
        assert (law.scale == 1.0) == (wanted <= 1.0)
    assert 0.0 <= scales[-1] < 1.0, 'a case must meet the limits'


@pytest.mark.slow
@pytest.mark.parametrize('quill', [40.0, 4.0])  # N, more and less than its gravity
def test_where_the_motion_alone_passes_a_limit_gravity_is_kept(quill):
    limit = np.array([5.0, 5.0, quill, 5.0])
    law = make_law(NAME, SCARA.tree.with_changes(effort_limit=limit), program='scara_circle')
    q, v = np.array([0.8, -1.4, 0.12, -0.6]), np.array([6.0, -7.0, 0.0, 3.0])
    found = effort_of(law, q, v)
    gravity = PinocchioOracle.of(SCARA).gravity_forces(q)
    assert np.all(np.abs(found) <= limit)
    assert law.scale == 0.0
    assert found[2] == pytest.approx(max(gravity[2], -quill), abs=1e-9)


# ---- published quantities -----------------------------------------------------------------------


@pytest.mark.parametrize('offset', [0.0, 0.5])
def test_the_parts_add_up_and_mean_what_they_say(robot, offset, rng):
    """For the predicted state; that of the null space moves nothing of the program."""
    given = {'discretization': 'zero_order', 'period': 0.002, 'friction_compensation': False}
    law = law_of(robot, **given)
    q, v = near_path(law, rng)
    q = q + offset * AWAY
    for t in (0.0, 1.2):
        found = effort_of(law, q, v, t=t)
        parts = law.decompose(q, v, Reference(4), found)
        largest = max(np.abs(part).max() for part in parts.values())
        assert_allclose(parts['friction'], 0.0, atol=1e-12 * largest)  # the rest
        assert np.any(parts['saturation'] != 0.0) == (law.scale < 1.0)
    said = 'coriolis friction gravity inertia null_space saturation task'
    assert ' '.join(sorted(parts)) == said
    A = PinocchioOracle.of(robot).mass_matrix(law._kernel.q) + np.diag(robot.tree.armature)
    a = np.linalg.solve(A, parts['null_space'])
    assert_allclose(law.Gamma @ a, 0.0, atol=1e-6 * max(1.0, np.abs(a).max()))


# ---- parameters ---------------------------------------------------------------------------------


def test_gains_that_the_period_cannot_carry_are_refused_by_the_program_that_was_given():
    file = str(share_directory() / 'config' / 'programs' / 'scara_circle.yaml')
    for given, name in ((file, file), (loaded('scara'), 'scara_circle')):
        law = make_law(NAME, SCARA.tree, program=given)
        with pytest.raises(ParameterError, match='at a period of 0.2 s; multiply its') as refused:
            law.set_parameters({'period': 0.2})
        assert str(refused.value).startswith("parameter program = '")
        assert refused.value.value == name


# ---- a loop held by the mechanism ---------------------------------------------------------------


@pytest.mark.slow
def test_joints_without_a_drive_get_no_effort_and_still_move_as_commanded():
    """Accelerations of the closed linkage from the cut tree and its loop reaction (Pinocchio)."""
    tree = load_robot(share_directory() / 'urdf' / 'four_bar.urdf.xacro', effort_limit=1.0)
    law = make_law(NAME, tree, program='four_bar_loop', limit_effort=False)
    path, oracle = check_feasibility(law.program, samples=40), PinocchioOracle.of(tree)
    driven = [tree.joint_index(name) for name in ('lower_arm_joint', 'crank_joint')]
    for t, q, v in [*zip(path.times, path.q, path.v, strict=True)][::5]:
        law.reset(0.0, q, v)
        tau = effort_of(law, q, v, t=t)
        assert_array_equal(np.delete(tau, driven), 0.0)
        seen = law.program.stack.evaluate(q, v, t)
        # Motion under the drives alone with the loop's reaction as an unknown.
        Gamma, b = seen.Gamma[:2], oracle.coriolis_matrix(q, v) @ v + oracle.gravity_forces(q)
        K = np.block([[oracle.mass_matrix(q), -Gamma.T], [Gamma, np.zeros((2, 2))]])
        a = np.linalg.solve(K, np.concatenate([tau - b, -seen.beta[:2]]))[:4]
        # The start of the feasibility check satisfies the loop to 1e-8 only, times G0 = 400.
        assert_allclose(a, law.acceleration, atol=1e-4)
    parts = law.decompose(q, v, Reference(4), tau)
    assert (np.abs(parts['gravity'])[driven] > 1.0).all()
