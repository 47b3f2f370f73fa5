# SPDX-License-Identifier: Apache-2.0
r"""Inverse-dynamics regressor: effort as a matrix times the inertial parameters, for batches.

.. math:: \tau = M(q)\,a + c(q, v) + g(q) = Y(q, v, a)\,\pi

Ten parameters per body, in the order of ``INERTIAL``: mass, first moment :math:`m\,c` and the
inertia tensor about the **origin of the body frame**, both in body axes. The force and the moment
about the body origin that a motion requires are linear in these,

.. math::
    F = m\,\dot v_O + (\langle\dot\omega\rangle + \langle\omega\rangle^2)\,m c, \qquad
    N = m c \times \dot v_O + I\dot\omega + \omega\times I\omega,

and the effort at joint j is their product with the partial velocities of joint j, summed over the
bodies that it moves (Kane). Gravity is included as the acceleration :math:`-g` of the base.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.errors import ModelError
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.robot_tree import require_robot
from robot_dynamics_ros.spatial.inertia import (
    TENSOR_ELEMENTS,
    RigidBodyInertia,
    body_inertia,
    body_parameters,
)
from robot_dynamics_ros.spatial.scalar import Array, cross_matrix
from robot_dynamics_ros.spatial.validation import array

#: The parameters of one body, in the order of the columns: kg, kg m, kg m^2.
INERTIAL = ('m', 'mx', 'my', 'mz', 'Ixx', 'Ixy', 'Ixz', 'Iyy', 'Iyz', 'Izz')
PER_BODY = len(INERTIAL)

_BLOCK = 4096  # states whose regressor is in memory at once
_NEXT, _LAST = [1, 2, 0], [2, 0, 1]


def inertial_parameters(tree: Robot) -> Array:
    r"""Return :math:`\pi` of a robot with b bodies, new array of shape (10 b,)."""
    require_robot(tree)
    bodies = zip(tree.mass, tree.com, tree.inertia, strict=True)
    return np.concatenate([body_parameters(RigidBodyInertia(*body)) for body in bodies])


def load_parameters(tree: Robot, frame: str) -> Array:
    r"""Return the parameters of the body of a frame that parts of a load add, shape (10, 10).

    Rows: a mass of 1 kg at the origin of the frame, first moments of 1 kg m along its axes, and
    1 kg m^2 of each element of the inertia about the origin of the body. A point mass at p adds
    :math:`p^2 1 - p p^T`, a quadratic: the central difference between two is exact.
    """
    at = tree.frame(frame)

    def point(p: Array) -> Array:
        return body_parameters(RigidBodyInertia(1.0, p, np.zeros((3, 3))))

    axes = at.R_BF.T
    moments = [0.5 * (point(at.p_BF + axis) - point(at.p_BF - axis)) for axis in axes]
    return np.array([point(at.p_BF), *moments, *np.eye(PER_BODY)[4:]])


def with_inertial_parameters(tree: Robot, parameters: Array) -> Robot:
    """Return the robot with other inertial parameters.

    Args:
        tree: The robot.
        parameters: Shape (10 b,), in the order of ``INERTIAL``.

    Raises:
        ShapeError: The number of parameters is wrong.
        ModelError: A mass is not positive, so its centre of mass is undefined.
    """
    require_robot(tree)
    values = array('parameters', parameters, (PER_BODY * tree.bodies,))
    blocks = values.reshape(tree.bodies, PER_BODY)
    for name, mass in zip(tree.link_names, blocks[:, 0], strict=True):
        if not mass > 0.0:
            raise ModelError(f'body {name!r}', f'mass {mass:g} kg', 'the mass must be positive')
    bodies = [body_inertia(block) for block in blocks]
    mass, com, inertia = (np.array(values) for values in zip(*bodies, strict=True))
    return tree.with_changes(mass=mass, com=com, inertia=inertia)


def regressor(tree: Robot, q: Array, v: Array, a: Array) -> Array:
    """Return Y with ``tau = Y @ inertial_parameters(tree)`` for N states.

    Args:
        tree: The robot; its inertias are not used.
        q: Positions, shape (N, n), rad or m.
        v: Velocities, shape (N, n), rad/s or m/s.
        a: Accelerations, shape (N, n), rad/s^2 or m/s^2.

    Returns:
        New array, shape (N, n, 10 b), with b bodies (more than n if there are mimic joints).

    Raises:
        ShapeError: An argument has the wrong shape.

    Source: conventions of Atkeson, An and Hollerbach 1986, section 2; partial velocities of Kane.
    Validity: fixed base, rigid bodies, open tree; friction and armature are separate columns.
    Cost: 5 us per state of a four-joint arm, in numpy.
    """
    require_robot(tree)
    q = array('q', q, ('N', tree.n))
    v, a = array('v', v, q.shape), array('a', a, q.shape)
    A, motion = _tree_motion(tree, q, v, a)
    return _of_joints(A, _tree_regressor(tree.tree, *motion))


def _tree_motion(tree: Robot, q: Array, v: Array, a: Array) -> tuple[Array | None, list[Array]]:
    """Return the rates A of the joints of all bodies by those of the robot, and their motion.

    A is None if they are the same, and one matrix or N; the motion is q, v, a, shape (N, b).
    """
    if tree.tree is tree:
        return None, [q, v, a]
    if tree.has_constant_rates:
        A = tree.rate
        return A, [tree.joint_positions(q), v @ A.T, a @ A.T]
    states = [tree.tree_state(*row) for row in zip(q, v, a, strict=True)]
    *motion, A, _ = map(np.array, zip(*states, strict=True))
    return A, motion


def _of_joints(A: Array | None, Y: Array) -> Array:
    """Return the rows of a regressor of the tree for the robot's joints."""
    return Y if A is None else np.swapaxes(A, -1, -2) @ Y


def gravity_regressor(tree: Robot, q: Array, parameters: Array | None = None) -> Array:
    """Return the efforts of gravity of 1 m/s^2 along each axis of the base, shape (N, n, 3).

    Args:
        tree: The robot.
        q: Positions, shape (N, n), rad or m.
        parameters: Inertial parameters, shape (10 b,); None for those of the robot.
    """
    require_robot(tree)
    q = array('q', q, ('N', tree.n))
    parameters = inertial_parameters(tree) if parameters is None else parameters
    efforts, axes = np.empty((*q.shape, 3)), [tree.tree.with_gravity(axis) for axis in np.eye(3)]
    for start in range(0, len(q), _BLOCK):
        some = q[start : start + _BLOCK]
        A, motion = _tree_motion(tree, some, 0.0 * some, 0.0 * some)
        columns = [_of_joints(A, _tree_regressor(one, *motion)) @ parameters for one in axes]
        efforts[start : start + _BLOCK] = np.stack(columns, axis=2)
    return efforts


def _tree_regressor(tree: Robot, q: Array, v: Array, a: Array) -> Array:
    """Return the regressor of a tree whose joints are all independent, shape (N, n, 10 n)."""
    count = len(q)
    Y = np.zeros((count, tree.n, PER_BODY * tree.n))
    still, bodies = np.zeros((count, 3)), list[_BodyStates]()
    base = _BodyStates(still, still, np.tile(-tree.gravity.astype(float), (count, 1)), {})
    for i in range(tree.n):
        parent = tree.parent[i]
        above = base if parent < 0 else bodies[parent]
        bodies.append(_outward(tree, i, above, q[:, i], v[:, i], a[:, i]))
        columns = slice(PER_BODY * i, PER_BODY * (i + 1))
        force, moment = _wrench_columns(bodies[i])
        for j, (linear, angular) in bodies[i].partial.items():
            Y[:, j, columns] = _project(linear, force) + _project(angular, moment)
    return Y


@dataclass(frozen=True, eq=False)
class _BodyStates:
    """Motion of one body in N states, in its own axes, shape (N, 3) each.

    Attributes:
        w: Angular velocity, rad/s.
        dw: Angular acceleration, rad/s^2.
        dv: Acceleration of the origin minus gravity, m/s^2.
        partial: Partial velocities (linear, angular) of each joint that moves the body.
    """

    w: Array
    dw: Array
    dv: Array
    partial: dict[int, tuple[Array, Array]]


def _outward(tree: Robot, i: int, above: _BodyStates, q: Array, v: Array, a: Array) -> _BodyStates:
    """Return the motion of body i from that of its parent; q, v, a of joint i have shape (N,)."""
    Z = np.tile(tree.axis[i].astype(float), (len(q), 1))
    R_BP, p_PB = _placements(tree, i, q)
    w, dw = _turn(R_BP, above.w), _turn(R_BP, above.dw)
    centripetal = _cross(above.w, _cross(above.w, p_PB))
    dv = _turn(R_BP, above.dv + _cross(above.dw, p_PB) + centripetal)
    partial = {
        j: (_turn(R_BP, linear + _cross(angular, p_PB)), _turn(R_BP, angular))
        for j, (linear, angular) in above.partial.items()
    }
    rate, push = Z * v[:, np.newaxis], Z * a[:, np.newaxis]
    if tree.prismatic[i]:
        partial[i] = (Z, np.zeros_like(Z))
        return _BodyStates(w, dw, dv + 2.0 * _cross(w, rate) + push, partial)
    partial[i] = (np.zeros_like(Z), Z)
    return _BodyStates(w + rate, dw + _cross(w, rate) + push, dv, partial)


def _placements(tree: Robot, i: int, q: Array) -> tuple[Array, Array]:
    """Return R_BP (N, 3, 3) or (3, 3), parent to body axes, and p_PB (N, 3) or (3,)."""
    R_PJ, p_PJ, axis = tree.R_PJ[i], tree.p_PJ[i], tree.axis[i]
    if tree.prismatic[i]:
        return R_PJ.T, p_PJ + np.outer(q, R_PJ @ axis)
    K = cross_matrix(axis)
    versine, sine = (
        (1.0 - np.cos(q))[:, np.newaxis, np.newaxis],
        np.sin(q)[:, np.newaxis, np.newaxis],
    )
    R_BJ = np.eye(3) + versine * (K @ K) - sine * K
    return R_BJ @ R_PJ.T, p_PJ


def _cross(a: Array, b: Array) -> Array:
    """Return the cross products of vectors (N, 3) or (3,), several times faster than numpy's."""
    return a[..., _NEXT] * b[..., _LAST] - a[..., _LAST] * b[..., _NEXT]


def _turn(R: Array, vectors: Array) -> Array:
    """Return R applied to vectors (N, 3)."""
    return (R @ vectors[:, :, np.newaxis])[:, :, 0]


def _project(partial: Array, columns: Array) -> Array:
    """Return the products of partial velocities (N, 3) with columns (N, 3, 10), shape (N, 10)."""
    return (partial[:, np.newaxis, :] @ columns)[:, 0, :]


def _wrench_columns(body: _BodyStates) -> tuple[Array, Array]:
    """Return force and moment about the body origin per parameter, each (N, 3, 10)."""
    force = np.zeros((len(body.w), 3, PER_BODY))
    moment = np.zeros_like(force)
    spin = _skew(body.w)
    force[:, :, 0] = body.dv
    force[:, :, 1:4] = _skew(body.dw) + spin @ spin
    moment[:, :, 1:4] = -_skew(body.dv)
    moment[:, :, 4:] = _tensor_columns(body.dw) + spin @ _tensor_columns(body.w)
    return force, moment


def _skew(x: Array) -> Array:
    """Return the skew matrices of vectors (N, 3), shape (N, 3, 3)."""
    matrices = np.zeros((len(x), 3, 3))
    for row, column, axis in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        matrices[:, row, column], matrices[:, column, row] = -x[:, axis], x[:, axis]
    return matrices


def _tensor_columns(x: Array) -> Array:
    """Return the matrices (N, 3, 6) with ``I @ x = matrix @ elements of I``."""
    matrices = np.zeros((len(x), 3, 6))
    for element, (row, column) in enumerate(zip(*TENSOR_ELEMENTS, strict=True)):
        matrices[:, row, element] = x[:, column]
        matrices[:, column, element] = x[:, row]
    return matrices
