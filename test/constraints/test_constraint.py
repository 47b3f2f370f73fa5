# SPDX-License-Identifier: Apache-2.0
"""Every kind of constraint: Jacobian, rate and bias acceleration are derivatives of its value.

The oracle is the difference quotient in 40 digits (mpmath): the value is evaluated along an
accelerated path q(s) = q + v s + a s^2/2 while time advances, so the total derivatives are
differences of one function of s.
"""

import mpmath
import numpy as np
import pytest
import yaml
from numpy.testing import assert_allclose, assert_array_equal
from oracles import PinocchioOracle, central_difference, complex_step
from samples import random_state, sample
from scipy.spatial.transform import Rotation

from robot_dynamics_ros.constraints.constrained_motion import second_derivatives
from robot_dynamics_ros.constraints.constraint import Stack
from robot_dynamics_ros.constraints.registry import CONSTRAINTS, make_constraint, signal

# A tip behind a slider and a fixed joint, a link of the other branch, joints that move neither.
ROBOT, TIP, OTHER = sample('branched'), 'left_camera', 'right_lower'
TREE = ROBOT.tree
TIME = 1.3  # within the ramps of all signals, so that all vary


def moving(loader, node):
    """Return a signal of which no derivative vanishes at TIME, from its centre."""
    center = loader.construct_sequence(node)
    figure = {'center': center, 'amplitude': [0.1] * len(center)}
    for name, first, step in (('frequency', 0.31, 0.07), ('phase', 0.4, 0.5)):
        figure[name] = [first + step * k for k in range(len(center))]
    return {'lissajous': figure, 'start': 0.2, 'ramp': 2.0}


class Loader(yaml.SafeLoader):
    """Reads signals from their centres."""


Loader.add_constructor('!moving', moving)
#: One truly rheonomic description of every kind.
DESCRIBED = yaml.load(
    """
axis_alignment: &turning {frame: left_camera, axis: [0.2, 1.0, -0.4], reference: &frame {
  origin: !moving [0.1, -0.2, 0.3], rpy: [0.3, -0.5, 0.8], turn: {axis: [1.0, -2.0, 0.5], angle: {
    lissajous: {center: [0.2], amplitude: [0.7], frequency: [0.31], phase: [0.4]},
    start: 0.2, ramp: 2.0}}}}
axis_angle: {<<: *turning, angle: !moving [0.7]}
coincidence: &both {frame: left_camera, point: &point [0.05, -0.03, 0.08],
                    other_frame: right_lower, other_point: [0.1, 0.2, 0.0]}
cylinder: {frame: left_camera, point: *point, cylinder: *frame, radius: !moving [0.2]}
distance: {<<: *both, length: !moving [0.3]}
joint_coupling: {coefficients: [{waist: 1.5, neck: -0.7}, {left_shoulder: 1.0}],
                 value: !moving [0.1, 0.2]}
joint_program: {position: !moving [0.1, 0.18, 0.26, 0.34, 0.42, 0.5]}
line: {frame: left_camera, point: *point, line: *frame}
orientation: {frame: left_camera, target: *frame}
pitch: {frame: left_camera, angle: !moving [0.3], hinge: [0.1, 0.2, 1.0],
        approach: [2.0, -1.0, 0.0], up: [0.1, 0.2, 1.0]}
plane: {frame: left_camera, point: *point, plane: *frame, distance: !moving [0.05]}
point: {frame: left_camera, point: *point, axes: zx, target: !moving [0.1, 0.2], reference: *frame}
pose: {frame: left_camera, point: *point, target: *frame}
sphere: {frame: left_camera, point: *point, sphere: *frame, radius: !moving [0.2]}
""",
    Loader,
)
FRAME = DESCRIBED['line']['line']


@pytest.fixture(params=[*CONSTRAINTS, 'stack'])
def constraint(request):
    assert set(DESCRIBED) == set(CONSTRAINTS), 'every kind must be examined'
    if request.param != 'stack':
        return make_constraint(request.param, TREE, 'c', DESCRIBED[request.param])
    kinds = ('plane', 'orientation', 'joint_coupling')
    return Stack([make_constraint(kind, TREE, kind, DESCRIBED[kind]) for kind in kinds])


def in_many_digits(constraint, q, v, a):
    """Return s -> f(q(s), TIME + s) along an accelerated path, over 40-digit numbers."""

    def value(s):
        path = [mpmath.mpf(x) + y * s + z * s * s / 2 for x, y, z in zip(q, v, a, strict=True)]
        still = np.zeros(len(q), dtype=object)
        found = constraint.evaluate(np.array(path, dtype=object), still, mpmath.mpf(TIME) + s)
        return found.f

    return value


def test_rates_jacobian_and_bias_are_derivatives_of_the_value(constraint, rng):
    """Results are new arrays, and the arguments, which are read-only, unchanged."""
    q, v, a = state = random_state(TREE, rng)
    for argument in state:
        argument.setflags(write=False)
    found, again = (constraint.evaluate(q, v, TIME) for _ in range(2))
    for x, y in zip(found, again, strict=True):
        assert_array_equal(x, y)
        assert not np.shares_memory(x, y)
    with mpmath.workdps(40):
        f, h = in_many_digits(constraint, q, v, a), mpmath.mpf(10) ** -10
        before, now, after = f(-h), f(mpmath.mpf(0)), f(h)
        rate = ((after - before) / (2 * h)).astype(float)
        second = ((after - 2 * now + before) / h**2).astype(float)
        value = now.astype(float)
    # Differences: h^2 = 1e-20. Doubles: 1e-15 of lengths and rates near 1, a few hundred
    # operations, and up to 1/sin of an angle near half a turn in the rotation vectors.
    assert_allclose(found.f, value, rtol=0.0, atol=2e-14)
    assert_allclose(found.f_dot, rate, rtol=1e-12, atol=2e-12)
    assert_allclose(found.Gamma @ a + found.beta, second, rtol=1e-11, atol=2e-11)
    expected = complex_step(lambda x: constraint.evaluate(x, v, TIME).f, q)
    assert_allclose(found.Gamma, expected, rtol=1e-11, atol=1e-12)


def given(described, t):
    """Return a signal's value at a time; ``test_curves`` has the signals."""
    return np.array(signal('x', described).at(t)[0])


def frame_at(t):
    """Return origin and axes (columns) of FRAME, by scipy's rotations."""
    turn = FRAME['turn']
    axis = np.array(turn['axis']) / np.linalg.norm(turn['axis'])
    turned = Rotation.from_rotvec(given(turn['angle'], t) * axis)
    return given(FRAME['origin'], t), (
        turned * Rotation.from_euler('xyz', FRAME['rpy'])
    ).as_matrix()


def angle_between(a, b):
    return np.arccos(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_the_value_is_what_the_kind_says(rng):
    """By Pinocchio's poses, scipy's rotations and the plain formula of every kind."""
    t, oracle, d = TIME, PinocchioOracle.of(ROBOT), DESCRIBED
    q, v, _ = random_state(TREE, rng)
    (R, p), (R2, p2), (o, C) = oracle.frame_pose(TIP, q), oracle.frame_pose(OTHER, q), frame_at(t)
    point = p + R @ d['point']['point']
    second = p2 + R2 @ d['distance']['other_point']
    seen, axis = C.T @ (point - o), R @ d['axis_angle']['axis']
    rotation = Rotation.from_matrix(C.T @ R).as_rotvec()
    names, coupled = list(TREE.joint_names), d['joint_coupling']['coefficients']
    h = np.array(d['pitch']['hinge']) / np.linalg.norm(d['pitch']['hinge'])
    u = np.array(d['pitch']['approach']) / np.linalg.norm(d['pitch']['approach'])
    up = np.array(d['pitch']['up'])
    pitch = np.arctan2(-up @ R @ np.cross(u, h), -up @ R @ u) - given(d['pitch']['angle'], t)
    expected = {
        'axis_alignment': (C.T @ axis)[:2] / np.linalg.norm(axis),
        'axis_angle': angle_between(axis, C[:, 2]) - given(d['axis_angle']['angle'], t),
        'coincidence': point - second,
        'cylinder': np.hypot(*seen[:2]) - given(d['cylinder']['radius'], t),
        'distance': np.linalg.norm(point - second) - given(d['distance']['length'], t),
        'joint_coupling': [
            sum(c * q[names.index(joint)] for joint, c in row.items()) for row in coupled
        ]
        - given(d['joint_coupling']['value'], t),
        'joint_program': q - given(d['joint_program']['position'], t),
        'line': seen[:2],
        'orientation': rotation,
        'pitch': (pitch + np.pi) % (2.0 * np.pi) - np.pi,
        'plane': seen[2] - given(d['plane']['distance'], t),
        'point': seen[[2, 0]] - given(d['point']['target'], t),
        'pose': np.concatenate([point - o, rotation]),
        'sphere': np.linalg.norm(point - o) - given(d['sphere']['radius'], t),
    }
    assert set(expected) == set(CONSTRAINTS)
    for kind, value in expected.items():
        found = make_constraint(kind, TREE, kind, d[kind]).evaluate(q, v, t).f
        # Lengths and angles near 1; the angle of near half a turn amplifies rounding.
        assert_allclose(found, np.ravel(value), atol=1e-13, err_msg=kind)


def test_second_derivatives_are_derivatives_of_jacobian_and_drift(constraint, rng):
    q, v, a = random_state(TREE, rng)
    N = rng.normal(size=constraint.m)
    found, C_q, found_C_v = second_derivatives(constraint, q, v, TIME, N, a)

    hessian = central_difference(lambda x: constraint.evaluate(x, v, TIME).Gamma.T @ N, q)

    def acceleration(x):
        e = constraint.evaluate(x, v, TIME)
        return e.Gamma @ a + e.beta

    # h^4 = 1e-12 times a fifth derivative of up to 1e5.
    assert_allclose(found, hessian, rtol=1e-6, atol=1e-6)
    assert_allclose(C_q, central_difference(acceleration, q), rtol=1e-6, atol=1e-6)
    C_v = central_difference(lambda x: constraint.evaluate(q, x, TIME).beta, v)
    assert_allclose(found_C_v, C_v, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(
    ('joints', 'unit'), [((0, 1), ' (rad)'), ((2,), ' (m)'), ((0, 2), '')], ids=str
)
def test_a_combination_of_joints_has_their_unit_if_they_share_one(joints, unit):
    tree = sample('rrpr').tree
    coefficients = [{tree.joint_names[i]: 2.0 for i in joints}]
    described = {'coefficients': coefficients, 'value': 0.0}
    [row] = make_constraint('joint_coupling', tree, 'c', described).rows
    assert row == ' '.join(f'+2*{tree.joint_names[i]}' for i in joints) + unit
