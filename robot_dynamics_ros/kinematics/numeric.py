# SPDX-License-Identifier: Apache-2.0
r"""Inverse kinematics of any robot by damped least squares with restarts.

Each iteration solves

.. math:: \Delta q = J^T (J J^T + \lambda^2 E)^{-1} e, \qquad
          e = \begin{pmatrix} p_{target} - p \\ \log(R_{target} R^T)^\vee \end{pmatrix}

with a damping that grows when a step fails and shrinks when it succeeds (Levenberg, Marquardt),
and clips the joints to their limits. Where an attempt ends short of the target, the next starts
from a random configuration within the limits, always the same ones for the same seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model import RobotTree, frame_motion, frame_pose
from robot_dynamics_ros.spatial.linear_algebra import array
from robot_dynamics_ros.spatial.rotation import rotation_vector
from robot_dynamics_ros.spatial.scalar import Array

Status = Literal['converged', 'at_limits', 'not_converged']


class NumericSolution(NamedTuple):
    """What the iteration ended with; look at ``converged`` before using ``q``.

    Attributes:
        q: The best joint positions found, within the limits, shape (n,), rad or m.
        status: 'converged'; 'at_limits' (no solution found, joints of the best one rest on their
            limits); 'not_converged'.
        position_error: Distance left, m.
        rotation_error: Angle left, rad; 0 if only a position was asked for.
        iterations: Over all attempts.
        attempts: Starting configurations tried.
    """

    q: Array
    status: Status
    position_error: float
    rotation_error: float
    iterations: int
    attempts: int

    @property
    def converged(self) -> bool:
        """Whether the target is reached within the tolerance."""
        return self.status == 'converged'


def inverse_kinematics(
    tree: RobotTree,
    position: Array | Sequence[float],
    R: Array | None = None,
    *,
    frame: str = 'tool',
    start: Array | None = None,
    tolerance: float = 1e-10,
    iterations: int = 100,
    restarts: int = 20,
    seed: int = 0,
) -> NumericSolution:
    """Find joint positions that bring a frame to a target.

    Args:
        tree: The robot.
        position: Target of the frame's origin in the base, shape (3,), m.
        R: Target of its rotation, shape (3, 3), frame to base components; any if None.
        frame: Name of the frame.
        start: First configuration tried, shape (n,); the middle of the limits if None.
        tolerance: On the distance (m) and on the angle (rad) left.
        iterations: Most iterations of one attempt.
        restarts: Most attempts from random configurations after the first.
        seed: Of their random numbers.

    Returns:
        The best configuration found with its status. An iteration may fail on a target that can
        be reached, so failing is no error.

    Raises:
        UnknownNameError: The robot has no such frame.
        ShapeError: A target or start has the wrong shape.
        NonFiniteError: A target or start is not finite.
        ParameterError: A number that must be positive is not.

    Validity: solutions on the same branch as the start where there are several. A robot with fewer
    than six joints reaches few full poses; use its closed form where there is one.

    Cost: about 0.2 ms per iteration for a handful of joints.
    """
    p = array('position', position, (3,))
    if R is not None:
        R = array('R', R, (3, 3))
    if not 0.0 < tolerance < math.inf or iterations < 1:
        raise ParameterError('tolerance', tolerance, 'tolerance and iterations must be positive')
    lower = np.maximum(tree.position_lower, -math.pi)
    upper = np.minimum(tree.position_upper, math.pi)
    q = 0.5 * (lower + upper) if start is None else array('start', start, (tree.n,))
    q = np.clip(q, tree.position_lower, tree.position_upper)
    rng = np.random.default_rng(seed)
    best: tuple[float, Array] = (math.inf, q)
    used = attempts = 0
    while attempts <= restarts:
        q, error, count = _descend(tree, frame, p, R, q, tolerance, iterations)
        used, attempts = used + count, attempts + 1
        size = float(np.linalg.norm(error))
        if size < best[0]:
            best = (size, q)
        if _reached(error, tolerance):
            break
        q = rng.uniform(lower, upper)
    q = best[1]
    error = _error(tree, frame, p, R, q)
    distance, angle = float(np.linalg.norm(error[:3])), float(np.linalg.norm(error[3:]))
    status = _status(tree, q, _reached(error, tolerance))
    return NumericSolution(q, status, distance, angle, used, attempts)


#: Radians that count as much as a metre where a pose cannot be reached: the point comes first.
_POINT_FIRST = 1e3
_NEAREST_STEPS = 30


def nearest_configuration(
    tree: RobotTree, position: Array, R: Array | None, frame: str, start: Array
) -> Array:
    """Return joint positions within the limits that bring a frame as near to a pose as they can.

    From the start downhill: the point first, then as much of the rotation as the joints can do; of
    all ways the shortest, so that a stream of poses gives a stream of positions.

    Args:
        tree: The robot.
        position: Of the frame's origin in the base, shape (3,), m.
        R: Of its rotation, frame to base components, shape (3, 3); any if None.
        frame: Name of the frame.
        start: Shape (n,), rad or m.

    Raises:
        UnknownNameError: The robot has no such frame.
        ShapeError: The position has another shape.
    """
    p = array('position', position, (3,))
    weight = np.array([_POINT_FIRST] * 3 + ([] if R is None else [1.0] * 3))
    inside = np.clip(start, tree.position_lower, tree.position_upper)
    return _descend(tree, frame, p, R, inside, 1e-9, _NEAREST_STEPS, weight)[0]


def _status(tree: RobotTree, q: Array, reached: bool) -> Status:
    if reached:
        return 'converged'
    resting = (q <= tree.position_lower + 1e-9) | (q >= tree.position_upper - 1e-9)
    return 'at_limits' if resting.any() else 'not_converged'


def _descend(
    tree: RobotTree,
    frame: str,
    p: Array,
    R: Array | None,
    q: Array,
    tolerance: float,
    iterations: int,
    weight: Array | float = 1.0,
) -> tuple[Array, Array, int]:
    """Run one attempt; return where it ended, its weighted error and the iterations used."""
    damping = 1e-2
    error = weight * _error(tree, frame, p, R, q)
    still = np.zeros(tree.n)
    for count in range(iterations):
        if _reached(error, tolerance):
            return q, error, count
        J = (weight * frame_motion(tree, q, still, frame).J[: len(error)].T).T
        free = _free(tree, q, J.T @ error)
        # As least squares of [J; lambda E] dq = [e; 0], which does not square the condition.
        stacked = np.concatenate([J * free, damping * np.eye(tree.n)])
        step = np.linalg.lstsq(stacked, np.concatenate([error, still]), rcond=None)[0]
        new = np.clip(q + step, tree.position_lower, tree.position_upper)
        after = weight * _error(tree, frame, p, R, new)
        if after @ after < error @ error:
            q, error, damping = new, after, max(0.1 * damping, 1e-9)
        elif damping > 1e3:
            return q, error, count
        else:
            damping *= 5.0
    return q, error, iterations


def _free(tree: RobotTree, q: Array, downhill: Array) -> Array:
    """Return 0 for joints that rest on a limit and would leave it, 1 for the others."""
    blocked = ((q <= tree.position_lower) & (downhill < 0.0)) | (
        (q >= tree.position_upper) & (downhill > 0.0)
    )
    return np.where(blocked, 0.0, 1.0)


def _error(tree: RobotTree, frame: str, p: Array, R: Array | None, q: Array) -> Array:
    pose = frame_pose(tree, q, frame)
    if R is None:
        return p - pose.p_WF
    return np.concatenate([p - pose.p_WF, rotation_vector(R @ pose.R_WF.T)])


def _reached(error: Array, tolerance: float) -> bool:
    return bool(np.linalg.norm(error[:3]) <= tolerance and np.linalg.norm(error[3:]) <= tolerance)
