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
    program, tree = law.program, robot.tree
    oracle = PinocchioOracle.of(robot)
    for t in (0.0, 1.3, 2.7):
        q, v = near_path(law, rng)
        if t:  # else the clock starts at the first tick
            law.reset(10.0, q, v)
        found = effort_of(law, q, v, t=10.0 + t)
        f, f_dot, Gamma, beta = program.stack.evaluate(q, v, t)
        A, b = oracle.mass_matrix(q), oracle.coriolis_matrix(q, v) @ v + oracle.gravity_forces(q)
        free = program.free_acceleration(q, v)
        expected = stabilizing_effort(
            A, b, Gamma, beta, f, f_dot, program.G0, program.G1, free,
            singularity=program.singularity,
        )  # fmt: skip
        sliding = v
        if follow == 'desired':  # its velocity is v plus what f lacks of settling by its gains
            lacking = f_dot + np.linalg.solve(program.G1, program.G0 @ f)
            sliding = v + (v - np.linalg.solve(Gamma, lacking)) / (1.0 + (v / 0.1) ** 2)
        drives = tree.armature * expected.acceleration + tree.damping * v
        drives += tree.coulomb_friction * np.tanh(sliding / 0.1)
        wanted = expected.effort + drives
        assert_allclose(found, wanted, atol=1e-11 * np.abs(wanted).max())
        assert_allclose(law.acceleration, expected.acceleration, atol=1e-10)
        seen, sigma = law.constraints(), np.linalg.svd(Gamma, compute_uv=False)
        assert_allclose(seen.f, f, atol=1e-14)
        assert_allclose(seen.f_dot, f_dot, atol=1e-13)
        assert (seen.sigma_min, seen.condition) == pytest.approx((sigma[-1], sigma[0] / sigma[-1]))
        assert (seen.damped, seen.scale) == (False, 1.0)
        u = -(beta + program.G1 @ f_dot + program.G0 @ f)
        inertia = Gamma @ np.linalg.solve(A + np.diag(tree.armature), Gamma.T)
        multipliers = np.linalg.solve(inertia, u)
        assert_allclose(seen.multipliers, multipliers, rtol=1e-7, atol=1e-8)
    effort_of(law, q + 0.1, v, t=20.0)
    assert_allclose(seen.f, f, atol=1e-14)  # a copy


def test_without_a_program_it_is_computed_torque(rng):
    tree = sample('rrpr').tree
    options = {'friction_compensation': False, 'period': 0.002}
    laws = [make_law(name, tree, **given) for name, given in (
        (NAME, {**options, 'limit_effort': False}), ('computed_torque', options))]  # fmt: skip
    for _ in range(10):
        q, v, _ = random_state(tree, rng)
        reference = Reference(4)
        reference.rows[:] = rng.normal(size=(3, 4))
        ours, theirs = (effort_of(law, q, v, reference) for law in laws)
        assert_allclose(ours, theirs, rtol=0, atol=1e-12 * np.abs(theirs).max())


@pytest.mark.parametrize('hold', ['continuous', 'semi_implicit', 'zero_order'])
def test_without_an_error_the_acceleration_comes_to_that_of_the_reference(hold, rng):
    """The reference is predicted as the arm is: with the acceleration of the last tick."""
    law, reference = (
        make_law(NAME, SCARA.tree, discretization=hold, period=0.002, limit_effort=False),
        Reference(4),
    )
    reference.rows[:] = random_state(SCARA.tree, rng)
    for _ in range(20):
        effort_of(law, reference.position, reference.velocity, reference)
    assert_allclose(law.acceleration, reference.acceleration, atol=1e-9)


def test_a_blend_starts_without_a_demand_and_ends_on_the_program(robot):
    """The target is led from the measured f by o(t), see test_curves: at first no feedback."""
    plain = law_of(robot, limit_effort=False)
    program = replace(plain.program, blend=1.0)
    law = make_law(NAME, robot.tree, program=program, limit_effort=False)
    q, v = starting_configuration(program) + 0.05, np.full(4, 0.02)
    for each in (law, plain):
        each.reset(0.0, q, v)
    parts = law.decompose(q, v, Reference(4), effort_of(law, q, v))
    assert_allclose(parts['task'], 0.0, atol=1e-10)
    assert np.abs(law.f).max() > 0.01
    for t, ended in ((0.5, False), (0.99, False), (1.0, True), (1.5, True)):
        found, expected = effort_of(law, q, v, t=t), effort_of(plain, q, v, t=t)
        assert np.allclose(found, expected, rtol=1e-12) == ended


# ---- limits -------------------------------------------------------------------------------------


def test_beyond_the_limits_the_acceleration_keeps_its_direction_and_gravity_stays(robot, rng):
    law = law_of(robot)
    limit = robot.tree.effort_limit
    free = law_of(robot, limit_effort=False)
    for distance in (0.1, 0.3, 0.6):
        q, v = near_path(law, rng)
        q = q + distance * AWAY
        for each in (law, free):
            each.reset(0.0, q, v)
        whole, found = effort_of(free, q, v), effort_of(law, q, v)
        assert np.all(np.abs(found) <= limit)
        if np.all(np.abs(whole) <= limit):
            assert law.scale == 1.0
            continue
        assert 0.0 <= law.scale < 1.0
        assert_allclose(law.acceleration, law.scale * free.acceleration, atol=1e-9)
        assert np.any(np.abs(found) >= limit * (1 - 1e-12)), 'no smaller than need be'
    assert law.scale < 1.0, 'a case must meet the limits'


@pytest.mark.slow
def test_where_the_motion_alone_passes_a_limit_gravity_is_kept():
    robot = SCARA
    tree = robot.tree.with_changes(effort_limit=np.array([5.0, 5.0, 40.0, 5.0]))
    law = make_law(NAME, tree, program='scara_circle')
    q, v = np.array([0.8, -1.4, 0.12, -0.6]), np.array([6.0, -7.0, 0.0, 3.0])
    found = effort_of(law, q, v)
    gravity = PinocchioOracle.of(robot).gravity_forces(q)
    assert np.all(np.abs(found) <= tree.effort_limit)
    assert law.scale == 0.0
    assert found[2] == pytest.approx(gravity[2], abs=1e-9)
    weak = tree.with_changes(effort_limit=np.array([5.0, 5.0, 4.0, 5.0]))  # than gravity, too
    assert effort_of(make_law(NAME, weak, program='scara_circle'), q, v)[2] == -4.0


@pytest.mark.parametrize('limit_effort', [True, False])
@pytest.mark.parametrize('bad', [np.nan, np.inf])
def test_states_that_are_no_numbers_raise_nothing_and_leave_nothing(bad, limit_effort, rng):
    law = law_of(SCARA, discretization='zero_order', period=0.001, limit_effort=limit_effort)
    q, v = near_path(law, rng)
    good = effort_of(law, q, v)
    assert not np.isfinite(effort_of(law, np.full(4, bad), v, t=0.001)).all()
    assert np.isfinite(effort_of(law, q, v, t=0.002)).all(), 'the next good state is answered'
    law.reset(0.0, q, v)
    assert_allclose(effort_of(law, q, v), good, rtol=1e-12)


# ---- published quantities -----------------------------------------------------------------------


@pytest.mark.parametrize('offset', [0.0, 0.5])
def test_the_parts_add_up_and_mean_what_they_say(robot, offset, rng):
    """For the predicted state; that of the null space moves nothing of the program."""
    law = law_of(robot, discretization='zero_order', period=0.002)
    q, v = near_path(law, rng)
    q = q + offset * AWAY
    for t in (0.0, 1.2):
        found = effort_of(law, q, v, t=t)
        parts = law.decompose(q, v, Reference(4), found)
        names = 'inertia coriolis gravity friction task null_space saturation'
        assert set(parts) == set(names.split())
        largest = max(np.abs(part).max() for part in parts.values())
        assert_allclose(sum(parts.values()), found, atol=1e-12 * largest)
        assert np.any(parts['saturation'] != 0.0) == (law.scale < 1.0)
    A = PinocchioOracle.of(robot).mass_matrix(law._kernel.q) + np.diag(robot.tree.armature)
    a = np.linalg.solve(A, parts['null_space'])
    assert_allclose(law.Gamma @ a, 0.0, atol=1e-6 * max(1.0, np.abs(a).max()))


# ---- parameters ---------------------------------------------------------------------------------


@pytest.mark.parametrize('hold', ['zero_order', 'semi_implicit', 'continuous'])
def test_gains_that_the_period_cannot_carry_are_refused_by_the_program_that_was_given(hold):
    file, tree = share_directory() / 'config' / 'programs' / 'scara_circle.yaml', SCARA.tree
    for given, name in ((str(file), str(file)), (loaded('scara'), 'scara_circle')):
        law = make_law(NAME, tree, program=given)
        with pytest.raises(ParameterError, match='at a period of 0.2 s; multiply its') as refused:
            law.set_parameters({'discretization': hold, 'period': 0.2})
        assert str(refused.value).startswith("parameter program = '")
        assert refused.value.value == name
        law.set_parameters({'discretization': hold, 'period': 0.01})


# ---- a loop held by the mechanism ---------------------------------------------------------------


@pytest.mark.slow
def test_joints_without_a_drive_get_no_effort_and_still_move_as_commanded():
    """Accelerations of the closed linkage from the cut tree and its loop reaction (Pinocchio)."""
    tree = load_robot(share_directory() / 'urdf' / 'four_bar.urdf.xacro', effort_limit=1.0)
    law = make_law(NAME, tree, program='four_bar_loop', limit_effort=False)
    path, oracle = check_feasibility(law.program, samples=40), PinocchioOracle.of(tree)
    names = ('lower_arm_joint', 'crank_joint')
    passive = [i for i, name in enumerate(tree.joint_names) if name not in names]
    for k in range(0, 40, 5):
        t, q, v = path.times[k], path.q[k], path.v[k]
        law.reset(0.0, q, v)
        tau = effort_of(law, q, v, t=t)
        assert_array_equal(tau[passive], 0.0)
        seen = law.program.stack.evaluate(q, v, t)
        Gamma, beta = seen.Gamma[:2], seen.beta[:2]
        # Motion under the drives alone with the loop's reaction as an unknown.
        b = oracle.coriolis_matrix(q, v) @ v + oracle.gravity_forces(q)
        K = np.block([[oracle.mass_matrix(q), -Gamma.T], [Gamma, np.zeros((2, 2))]])
        a = np.linalg.solve(K, np.concatenate([tau - b, -beta]))[:4]
        # The start of the feasibility check satisfies the loop to 1e-8 only, times G0 = 400.
        assert_allclose(a, law.acceleration, atol=1e-4)
    parts = law.decompose(q, v, Reference(4), tau)
    assert_allclose(sum(parts.values()), tau, atol=1e-10)
    assert (np.delete(np.abs(parts['gravity']), passive) > 1.0).all()
