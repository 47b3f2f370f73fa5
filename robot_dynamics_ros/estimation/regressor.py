# SPDX-License-Identifier: Apache-2.0
r"""Inverse-dynamics regressor: effort as a matrix times the inertial parameters, for batches.

.. math:: \tau = M(q)\,a + c(q, v) + g(q) = Y(q, v, a)\,\pi

Ten parameters per body, in the order of ``INERTIAL``: mass, first moment :math:`m\,c` and the
inertia tensor about the **origin of the body frame**, both in body axes. The recursion is that of
:meth:`.NewtonEuler.regressor`, traced once for a robot and run on arrays of states; machine code
takes seconds to compile, and is faster by a factor of two only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from robot_dynamics_ros.dynamics.newton_euler import NewtonEuler
from robot_dynamics_ros.errors import ModelError
from robot_dynamics_ros.model import Robot, TreeState
from robot_dynamics_ros.model.robot_tree import RobotTree, require_robot
from robot_dynamics_ros.spatial.inertia import RigidBodyInertia, body_inertia, body_parameters
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.spatial.validation import array
from robot_dynamics_ros.symbolic.kernel import PythonBackend
from robot_dynamics_ros.symbolic.straight_line import module_source, trace_function

#: The parameters of one body, in the order of the columns: kg, kg m, kg m^2.
INERTIAL = ('m', 'mx', 'my', 'mz', 'Ixx', 'Ixy', 'Ixz', 'Iyy', 'Iyz', 'Izz')
PER_BODY = len(INERTIAL)
_KEPT = 16  # robots whose code is kept


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
        New array, shape (N, n, 10 b), with b bodies (more than n if there are mimic joints); the
        rows are those of the drives.

    Raises:
        ShapeError: An argument has the wrong shape.

    Source: see :meth:`.NewtonEuler.regressor`.
    Validity: fixed base, rigid bodies, open tree; friction and armature are separate columns.
    Cost: of four joints 5 ms for a robot, then 0.2 ms, and 0.5 us per state; with loops that are
    solved by iteration up to 0.4 s, and 0.2 ms per state.
    """
    require_robot(tree)
    q = array('q', q, ('N', tree.n))
    v, a = array('v', v, q.shape), array('a', a, q.shape)
    A, motion = _tree_motion(tree, q, v, a)
    gravity = np.broadcast_to(tree.gravity, (len(q), 3))
    return _of_drives(tree, A, _regressor_of(_Joints.of(tree.tree))(*motion, gravity))


def _tree_motion(tree: Robot, q: Array, v: Array, a: Array) -> tuple[Array | None, list[Array]]:
    """Return the rates A of the joints of all bodies by those of the robot, and their motion.

    A is None if they are the same, and one matrix or N; the motion is q, v, a, shape (N, b).
    """
    if tree.tree is tree:
        return None, [q, v, a]
    if tree.has_constant_rates:
        A = tree.rate
        return A, [tree.positions(q), v @ A.T, a @ A.T]
    states, size = _loop_states_of(tree)(q, v, a), 3 * tree.bodies
    rows, closures = states[:, :-4], states[:, -4:]
    for i in np.flatnonzero(~tree.closed_loops.closed(*closures.T)):  # by a search, or its error
        rows[i] = _row(tree.tree_state(q[i], v[i], a[i]))
    return rows[:, size:].reshape(-1, tree.bodies, tree.n), np.split(rows[:, :size], 3, axis=1)


def _of_drives(tree: Robot, A: Array | None, Y: Array) -> Array:
    """Return the rows of a regressor of the tree for the robot's drives."""
    if A is None:
        return Y
    if not tree.drives_coordinates:
        A = A @ np.linalg.inv(tree.drive @ A)
    return np.swapaxes(A, -1, -2) @ Y


def gravity_regressor(tree: Robot, q: Array, parameters: Array | None = None) -> Array:
    """Return the efforts of gravity of 1 m/s^2 along each axis of the base, shape (N, n, 3).

    Args:
        tree: The robot.
        q: Positions, shape (N, n), rad or m.
        parameters: Inertial parameters, shape (10 b,); None for those of the robot.
    """
    require_robot(tree)
    q = array('q', q, ('N', tree.n))
    given = inertial_parameters(tree) if parameters is None else parameters
    parameters = array('parameters', given, (10 * tree.bodies,))
    A, (positions, *_) = _tree_motion(tree, q, 0.0 * q, 0.0 * q)
    rows = np.broadcast_to(parameters, (len(q), len(parameters)))
    return _of_drives(tree, A, _gravity_of(_Joints.of(tree.tree))(positions, rows))


@dataclass(frozen=True)
class _Joints:
    """A tree, equal to those that differ in inertia and gravity: their code is the same."""

    tree: RobotTree = field(compare=False)
    placed: tuple[Any, ...]

    @classmethod
    def of(cls, tree: RobotTree) -> _Joints:
        arrays = tree.axis, tree.R_PJ, tree.p_PJ
        return cls(tree, (tree.parent, tree.prismatic, *(tuple(x.flat) for x in arrays)))


@lru_cache(_KEPT)
def _regressor_of(joints: _Joints) -> Callable[..., Array]:
    tree = joints.tree

    def efforts(q: Array, v: Array, a: Array, gravity: Array) -> Array:
        return NewtonEuler(tree.with_gravity(gravity)).regressor(q, v, a)

    return _batch(efforts, q=tree.n, v=tree.n, a=tree.n, gravity=3)


@lru_cache(_KEPT)
def _gravity_of(joints: _Joints) -> Callable[..., Array]:
    tree = joints.tree
    still = np.zeros(tree.n)
    along = [NewtonEuler(tree.with_gravity(axis)) for axis in np.eye(3)]

    def efforts(q: Array, parameters: Array) -> Array:
        return np.stack([one.regressor(q, still, still) @ parameters for one in along], axis=1)

    return _batch(efforts, q=tree.n, parameters=PER_BODY * tree.n)


@lru_cache(_KEPT)
def _loop_states_of(robot: Robot) -> Callable[..., Array]:
    def states(q: Array, v: Array, a: Array) -> Array:
        return np.append(_row(robot.tree_state(q, v, a)), robot.closed_loops.closure(q))

    return np.errstate(all='ignore')(_batch(states, q=robot.n, v=robot.n, a=robot.n))


def _row(state: TreeState) -> Array:
    """Return q, v, a of all joints and their rates A in one row."""
    return np.concatenate([state.q, state.v, state.a, state.A.ravel()])


def _batch(compute: Callable[..., Array], **inputs: int) -> Callable[..., Array]:
    """Return a function of vectors, of the given lengths, for many of them in rows."""
    code = trace_function('batch', inputs, None, compute)
    backend = PythonBackend(module_source([code], compute.__name__))
    return lambda *rows: backend.batch(code.arguments, list(rows))[0]
