# SPDX-License-Identifier: Apache-2.0
r"""Inverse-dynamics regressor: effort as a matrix times the inertial parameters, for batches.

.. math:: \tau = M(q)\,a + c(q, v) + g(q) = Y(q, v, a)\,\pi

Ten parameters per body, in the order of ``INERTIAL``: mass, first moment :math:`m\,c` and the
inertia tensor about the **origin of the body frame**, both in body axes. The recursion is that of
:meth:`.NewtonEuler.regressor`, in which each scalar stands for its values in all states.
"""

from __future__ import annotations

import numpy as np

from robot_dynamics_ros.dynamics.newton_euler import NewtonEuler
from robot_dynamics_ros.errors import ModelError
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.robot_tree import RobotTree, require_robot
from robot_dynamics_ros.spatial.inertia import (
    RigidBodyInertia,
    body_inertia,
    body_parameters,
)
from robot_dynamics_ros.spatial.scalar import Array, Scalar, operators
from robot_dynamics_ros.spatial.validation import array

#: The parameters of one body, in the order of the columns: kg, kg m, kg m^2.
INERTIAL = ('m', 'mx', 'my', 'mz', 'Ixx', 'Ixy', 'Ixz', 'Iyy', 'Iyz', 'Izz')
PER_BODY = len(INERTIAL)


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

    Source: see :meth:`.NewtonEuler.regressor`.
    Validity: fixed base, rigid bodies, open tree; friction and armature are separate columns.
    Cost: 2 ms, and 2 us per state, of a four-joint arm.
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
        return A, [tree.positions(q), v @ A.T, a @ A.T]
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
    A, motion = _tree_motion(tree, q, 0.0 * q, 0.0 * q)
    axes = (tree.tree.with_gravity(axis) for axis in np.eye(3))
    efforts = [_of_joints(A, _tree_regressor(one, *motion)) @ parameters for one in axes]
    return np.stack(efforts, axis=2)


def _tree_regressor(tree: RobotTree, *motion: Array) -> Array:
    """Return the regressor of a tree whose joints are all independent, shape (N, n, 10 n)."""
    columns = [[_BatchScalar(x) if x.any() else 0 for x in part.T] for part in motion]
    entries = NewtonEuler(tree).regressor(*np.array(columns, dtype=object))
    Y = np.zeros((len(motion[0]), *entries.shape))
    for place, entry in np.ndenumerate(entries):
        Y[(..., *place)] = _values(entry)
    return Y


class _BatchScalar:
    """A scalar of a recursion, with its values in N states; exact zeros are numbers.

    Args:
        values: Shape (N,).
    """

    __slots__ = ('values',)

    def __init__(self, values: Array) -> None:
        self.values = values

    __add__, __radd__ = operators(
        lambda x, y: _BatchScalar(_values(x) + _values(y)) if x and y else x or y, int, float
    )
    __sub__, __rsub__ = operators(
        lambda x, y: _BatchScalar(_values(x) - _values(y)) if y else x, int, float
    )
    __mul__, __rmul__ = operators(
        lambda x, y: _BatchScalar(_values(x) * _values(y)) if x and y else 0, int, float
    )

    def __neg__(self) -> _BatchScalar:
        return _BatchScalar(-self.values)

    def cos(self) -> _BatchScalar:
        """Return the cosine."""
        return _BatchScalar(np.cos(self.values))

    def sin(self) -> _BatchScalar:
        """Return the sine."""
        return _BatchScalar(np.sin(self.values))


def _values(x: Scalar) -> Scalar:
    return x.values if isinstance(x, _BatchScalar) else x
