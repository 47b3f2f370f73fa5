# SPDX-License-Identifier: Apache-2.0
"""The compiled program: equal to the pure functions everywhere, and without branches."""

import numpy as np
import pytest
import yaml
from numpy.testing import assert_allclose, assert_array_equal
from oracles import PinocchioOracle
from samples import sample, shipped

from robot_dynamics_ros.constraints.program import NullSpaceTask
from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.constraints.program_kernel import ProgramKernel
from robot_dynamics_ros.constraints.stabilization import stabilizing_effort

CASES = {
    'one row': ['plane'],
    'three rows': ['point'],
    'square': ['point', 'coupling'],
    'six rows': ['pose'],
}
DESCRIBED = yaml.safe_load("""
plane: {kind: plane, frame: tool, weight: 0.7, plane: &turning {
  origin: &path {lissajous: {center: [0.2, 0.1, 0.6], amplitude: [0.1, 0.1, 0.1],
                             frequency: [0.3, 0.4, 0.5]}},
  turn: {axis: [1, 2, 0], angle: {linear: {from: 0.1, rate: 0.5}}}}}
point: {kind: point, frame: tool, point: [0.1, 0.0, 0.05], target: *path}
pose: {kind: pose, frame: tool, target: *turning, weight: 1.7}
coupling: {kind: joint_coupling, coefficients: {j2: 1.0, j4: 2.0},
           value: {spline: {points: [[0.1], [0.3], [0.2]]}, speed: 0.1}}
""")
SINGULAR = """
constraints: [{kind: point, frame: link4, target: [0.2, 0.05, 0.68]}]
null_space: {damping: 4.0, stiffness: 4.0}
inverse: inertia
singularity: {threshold: 0.02}
"""
TASK = {'damping': 3.0, 'stiffness': 2.0, 'limit_gain': 20.0, 'limit_margin': 0.3}


def program_of(tree, kinds, inverse='euclidean', threshold=1e-6):
    content = {
        'constraints': [{'name': kind, **DESCRIBED[kind]} for kind in kinds],
        'null_space': TASK,
        'inverse': inverse,
        'singularity': {'threshold': threshold},
    }
    return load_program(content, tree, check=False)


def compare(program, robot, q, v, t):
    """Return kernel and pure answer at a state, equal to rounding."""
    kernel = ProgramKernel(program)
    kernel.run(t, q, v)
    expected = program.stack.evaluate(q, v, t)
    names = ('f', 'f_dot', 'Gamma', 'beta')
    for name, wanted in zip(names, expected, strict=True):
        scale = max(1.0, np.abs(wanted).max())
        assert_allclose(getattr(kernel, name), wanted, atol=1e-13 * scale)
    oracle = PinocchioOracle.of(robot)
    A = oracle.mass_matrix(q) + np.diag(program.tree.armature)
    pure = stabilizing_effort(
        A, np.zeros(4), expected.Gamma, expected.beta, expected.f, expected.f_dot,
        program.G0, program.G1, program.free_acceleration(q, v), program.inverse,
        program.weights if program.m > program.n else None,
        metric=program.metric, singularity=program.singularity,
    )  # fmt: skip
    return kernel, pure


@pytest.mark.parametrize(
    ('case', 'inverse', 'threshold'),
    [
        ('one row', 'inertia', 3.0),
        ('three rows', 'inertia', 0.8),
        ('three rows', {'metric': [1.0, 2.0, 9.0, 0.5]}, 0.8),
        ('square', 'inertia', 0.8),
        ('six rows', 'euclidean', 2.0),
    ],
)
def test_the_kernel_equals_the_pure_function(case, inverse, threshold, rng):
    robot = sample('rrpr')
    program = program_of(robot.tree, CASES[case], inverse, threshold)
    q, v = np.array([0.3, -0.5, 0.2, 0.7]), rng.normal(size=4)
    kernel, pure = compare(program, robot, q, v, 1.7)
    assert pure.damped == (threshold > 0.1), 'the case must show what it is for'
    # Two decompositions; the condition of the Jacobian and of the metric is up to 1e4.
    scale = np.abs(pure.acceleration).max()
    assert_allclose(kernel.acceleration, pure.acceleration, atol=1e-10 * scale)
    assert kernel.damped == pure.damped
    assert kernel.sigma.min() == pytest.approx(pure.sigma_min, rel=1e-9)
    assert kernel.sigma.max() / kernel.sigma.min() == pytest.approx(pure.condition, rel=1e-9)
    solution = kernel.inverse()
    again = solution.solve(kernel.u) + solution.project(kernel.free)
    assert_allclose(again, pure.acceleration, atol=1e-10 * scale)


@pytest.mark.slow
def test_the_kernel_equals_the_pure_function_through_a_singularity(rng):
    robot, content = shipped('four_dof'), yaml.safe_load(SINGULAR)
    program = load_program(content, robot.tree, check=False)
    for theta3 in (-0.1, -1e-4, -1e-7, -1e-9, 0.0, 1e-8):
        q, v = np.array([0.2, -1.0, theta3, 0.5]), rng.normal(size=4)
        kernel, pure = compare(program, robot, q, v, 0.0)
        scale = np.abs(pure.acceleration).max()
        # A direction of length 1e-9 is accurate to 1e-7 of its length only.
        assert_allclose(kernel.acceleration, pure.acceleration, atol=1e-6 * scale)
        assert abs(kernel.sigma.min() - pure.sigma_min) < 1e-15
        assert kernel.damped == pure.damped


def test_states_that_are_no_numbers_give_answers_that_are_none():
    program = program_of(sample('rrpr').tree, ['point'])
    kernel = ProgramKernel(program)
    for bad in (np.nan, np.inf):
        kernel.run(0.0, np.full(4, bad), np.zeros(4))
        assert not np.all(np.isfinite(kernel.acceleration))
    kernel.run(0.0, np.zeros(4), np.zeros(4))
    assert np.all(np.isfinite(kernel.acceleration)), 'nothing is left behind'


# ---- the parts ----------------------------------------------------------------------------------


def test_the_null_space_task_damps_returns_and_pushes_off_the_limits():
    tree, v = shipped('four_dof').tree, np.array([0.1, -0.2, 0.3, 0.4])
    lower, upper = tree.position_lower, tree.position_upper
    widths = np.array([0.1, 0.2, 0.3, 0.1])
    task = NullSpaceTask.of(tree, 2.0, 3.0, limit_gain=50.0, limit_margin=widths)
    middle, half_zone = 0.5 * (lower + upper), 0.5 * widths * (upper - lower)
    assert_allclose(task.acceleration(middle, v), -2.0 * v, atol=1e-14)
    for q, push in ((upper, -50.0), (lower, 50.0), (lower + half_zone, 50.0 / 4.0)):
        assert_allclose(task.pull(q), push - 3.0 * (q - middle))
    assert_allclose(task.settling_velocity(middle + 0.1, v), -0.15, atol=1e-12)
    endless = sample('branched').tree
    at_ease = NullSpaceTask.of(endless, limit_gain=50.0).pull(np.full(endless.n, 40.0))
    assert not at_ease[~np.isfinite(endless.position_lower)].any(), 'without limits, no push'
    free = NullSpaceTask.of(tree)
    assert free.empty
    assert_array_equal(free.settling_velocity(middle, v), v)
