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
from oracles import PinocchioOracle, complex_step
from samples import random_state, sample
from scipy.spatial.transform import Rotation

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


def test_rates_jacobian_and_bias_are_derivatives_of_the_value(constraint, rng):
    """Results are new arrays, and the arguments, which are read-only, unchanged."""
    q, v, a = state = random_state(TREE, rng)
    for argument in state:
        argument.setflags(write=False)
    found, again = (constraint.evaluate(q, v, TIME) for _ in range(2))
    for x, y in zip(found, again, strict=True):
        assert_array_equal(x, y)
        assert not np.shares_memory(x, y)
    still = np.zeros(TREE.n, dtype=object)
    with mpmath.workdps(40):
        h = mpmath.mpf(10) ** -10
        before, now, after = (
            constraint.evaluate(q + s * v + s * s / 2 * a, still, TIME + s).f
            for s in (-h, mpmath.mpf(0), h)
        )
        rate, second = (after - before) / (2 * h), (after - 2 * now + before) / h**2
    # Differences: h^2 = 1e-20. Doubles: 1e-15 of lengths and rates near 1, a few hundred
    # operations, and up to 1/sin of an angle near half a turn in the rotation vectors.
    assert_allclose(found.f, now.astype(float), rtol=0.0, atol=2e-14)
    assert_allclose(found.f_dot, rate.astype(float), rtol=1e-12, atol=2e-12)
    second = second.astype(float)
    assert_allclose(found.Gamma @ a + found.beta, second, rtol=1e-11, atol=2e-11)
    expected = complex_step(lambda x: constraint.evaluate(x, v, TIME).f, q)
    assert_allclose(found.Gamma, expected, rtol=1e-11, atol=1e-12)


def given(described, t):
    """Return a signal's value at a time; ``test_curves`` has the signals."""
    return np.array(signal('x', described).at(t)[0])


def frame_at(t):
    """Return origin and axes (columns) of FRAME, by scipy's rotations."""
    axis = np.array(FRAME['turn']['axis'])
    turned = Rotation.from_rotvec(given(FRAME['turn']['angle'], t) * unit(axis))
    axes = turned * Rotation.from_euler('xyz', FRAME['rpy'])
    return given(FRAME['origin'], t), axes.as_matrix()


def unit(x):
    return np.array(x) / np.linalg.norm(x)


#: In poses of the tip, of the other link and of the frame, and the kind's signals.
FORMULAS = yaml.safe_load("""
axis_alignment: (C.T @ axis)[:2]
axis_angle: arccos(axis @ C[:, 2]) - angle
coincidence: point - second
cylinder: hypot(*seen[:2]) - radius
distance: norm(point - second) - length
joint_coupling: coupling @ q - value
joint_program: q - position
line: seen[:2]
orientation: rotation
pitch: (pitch - angle + pi) % (2 * pi) - pi
plane: seen[2] - distance
point: seen[[2, 0]] - target
pose: concatenate([point - o, rotation])
sphere: norm(point - o) - radius
""")


def test_the_value_is_what_the_kind_says(rng):
    """By Pinocchio's poses, scipy's rotations and the plain formula of every kind."""
    t, oracle, d = TIME, PinocchioOracle.of(ROBOT), DESCRIBED
    q, v, _ = random_state(TREE, rng)
    (R, p), (R2, p2), (o, C) = oracle.frame_pose(TIP, q), oracle.frame_pose(OTHER, q), frame_at(t)
    point, second = p + R @ d['point']['point'], p2 + R2 @ d['distance']['other_point']
    h, u, up = (np.array(d['pitch'][name]) for name in ('hinge', 'approach', 'up'))
    rows = d['joint_coupling']['coefficients']
    names = vars(np) | {
        'norm': np.linalg.norm, 'q': q, 'o': o, 'C': C, 'point': point, 'second': second,
        'seen': C.T @ (point - o),
        'axis': R @ unit(d['axis_angle']['axis']),
        'rotation': Rotation.from_matrix(C.T @ R).as_rotvec(),
        'coupling': np.array([[row.get(name, 0.0) for name in TREE.joint_names] for row in rows]),
        'pitch': np.arctan2(-up @ R @ np.cross(unit(u), unit(h)), -up @ R @ unit(u)),
    }  # fmt: skip
    assert set(FORMULAS) == set(CONSTRAINTS)
    for kind, formula in FORMULAS.items():
        signals = {key: given(x, t) for key, x in d[kind].items() if 'lissajous' in x}
        found = make_constraint(kind, TREE, kind, d[kind]).evaluate(q, v, t).f
        # Lengths and angles near 1; the angle of near half a turn amplifies rounding.
        expected = np.ravel(eval(formula, names, signals))
        assert_allclose(found, expected, atol=1e-13, err_msg=kind)
