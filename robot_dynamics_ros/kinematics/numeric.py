# SPDX-License-Identifier: Apache-2.0
r"""Numeric inverse kinematics of any robot: damped least squares with restarts.

Each iteration solves

.. math:: \Delta q = J^T (J J^T + \lambda^2 E)^{-1} e, \qquad
          e = \begin{pmatrix} p_{target} - p \\ \log(R_{target} R^T)^\vee \end{pmatrix}

with a damping that increases when a step fails and decreases when it succeeds (Levenberg,
Marquardt), without the joints that it would press against a limit, and clips the others to theirs.
If an attempt does not reach the target, the next starts from a random configuration within the
limits; the sequence is determined by the seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.kinematics.solution import is_rotation
from robot_dynamics_ros.model import Robot, frame_motion, frame_pose
from robot_dynamics_ros.model.robot_tree import require_robot
from robot_dynamics_ros.spatial.rotation import rotation_vector
from robot_dynamics_ros.spatial.scalar import Array, errstate
from robot_dynamics_ros.spatial.validation import array, require_counts, require_positive

Status = Literal['converged', 'at_limits', 'not_converged']


class NumericSolution(NamedTuple):
    """Result of :func:`inverse_kinematics`; check ``converged`` before using ``q``.

    Attributes:
        q: The best joint positions found, within the limits, shape (n,), rad or m.
        status: 'converged'; 'at_limits' (no solution found, the best one has joints at their
            limits); 'not_converged'.
        position_error: Remaining distance, m.
        rotation_error: Remaining angle, rad; 0 if only a position was given.
        iterations: Total over all attempts.
        attempts: Number of starting configurations tried.
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


@errstate(over='ignore', invalid='ignore')  # a step that overflows is rejected
def inverse_kinematics(
    tree: Robot,
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
    """Compute joint positions that move a frame to a target.

    Args:
        tree: The robot.
        position: Target of the frame's origin in the base frame, shape (3,), m.
        R: Target rotation, shape (3, 3), frame to base components; free if None.
        frame: Name of the frame.
        start: First configuration tried, shape (n,); the middle of the limits if None.
        tolerance: On the remaining distance (m) and angle (rad).
        iterations: Maximum number of iterations per attempt.
        restarts: Maximum number of attempts from random configurations after the first.
        seed: Seed of the random configurations.

    Returns:
        The best configuration found and its status. The iteration may fail for a reachable
        target, so failure is a status, not an exception.

    Raises:
        UnknownNameError: The robot has no such frame.
        ShapeError: The target or start has the wrong shape.
        NonFiniteError: The target or start is not finite.
        ParameterError: R is no rotation matrix, or the tolerance or number of iterations is not
            positive.

    Validity: where several solutions exist, the one on the branch of the start. A robot with
    fewer than six joints reaches few full poses; prefer its closed form if available.

    Cost: about 0.2 ms per iteration for an arm of a few joints.
    """
    require_robot(tree)
    require_counts(iterations=iterations, restarts=restarts, seed=seed)
    p, R = _target(position, R)
    require_positive(tolerance=tolerance, iterations=iterations)
    q = tree.middle if start is None else array('start', start, (tree.n,))
    rng = np.random.default_rng(seed)
    total, attempts, best = 0, 0, (math.inf, 0, q, np.full(3, np.inf))
    while attempts <= restarts:
        q, error, count = _descend(tree, frame, p, R, q, tolerance, iterations)
        total, attempts = total + count, attempts + 1
        best = min(best, (float(np.linalg.norm(error)), attempts, q, error))
        if _reached(error, tolerance):
            break
        [q] = tree.random_positions(rng, 1)
    _, _, q, error = best
    distance, angle = float(np.linalg.norm(error[:3])), float(np.linalg.norm(error[3:]))
    status = _status(tree, q, _reached(error, tolerance))
    return NumericSolution(q, status, distance, angle, total, attempts)


_ROUNDED = 1e-3  # deviation of a rotation matrix from orthogonality, by few decimals
#: Weight of a metre relative to a radian for unreachable poses: position has priority.
_POSITION_WEIGHT = 1e3
_NEAREST_STEPS = 30


@errstate(over='ignore', invalid='ignore')  # a step that overflows is rejected
def nearest_configuration(
    tree: Robot, position: Array, R: Array | None, frame: str, start: Array
) -> Array:
    """Return joint positions within the limits that move a frame as close to a pose as possible.

    Descends from the start by minimum-norm steps, so that a stream of poses gives a continuous
    stream of joint positions. Position has priority over rotation.

    Args:
        tree: The robot.
        position: Target of the frame's origin in the base frame, shape (3,), m.
        R: Target rotation, frame to base components, shape (3, 3); free if None.
        frame: Name of the frame.
        start: Initial configuration, shape (n,), rad or m.

    Raises:
        UnknownNameError: The robot has no such frame.
        ShapeError, ParameterError, NonFiniteError: The pose or start is none.
    """
    require_robot(tree)
    p, R = _target(position, R)
    weight = np.array([_POSITION_WEIGHT] * 3 + ([] if R is None else [1.0] * 3))
    start = array('start', start, (tree.n,))
    return _descend(tree, frame, p, R, start, 1e-9, _NEAREST_STEPS, weight)[0]


def _target(position: Any, R: Any) -> tuple[Array, Array | None]:
    if R is not None:
        R = array('R', R, (3, 3))
        if not is_rotation(R, _ROUNDED):
            raise ParameterError('R', R.tolist(), 'must be a rotation matrix')
    return array('position', position, (3,)), R


def _status(tree: Robot, q: Array, reached: bool) -> Status:
    if reached:
        return 'converged'
    at_limit = (q <= tree.reference_lower + 1e-9) | (q >= tree.reference_upper - 1e-9)
    return 'at_limits' if at_limit.any() else 'not_converged'


def _descend(
    tree: Robot,
    frame: str,
    p: Array,
    R: Array | None,
    q: Array,
    tolerance: float,
    iterations: int,
    weight: Array | float = 1.0,
) -> tuple[Array, Array, int]:
    """Run one attempt; return the final configuration, its weighted error and the iterations."""
    damping, q = 1e-2, np.clip(q, tree.reference_lower, tree.reference_upper)
    error = weight * _error(tree, frame, p, R, q)
    zero = np.zeros(tree.n)
    for count in range(iterations):
        if _reached(error, tolerance):
            return q, error, count
        J = (weight * frame_motion(tree, q, zero, frame).J[: len(error)].T).T
        free = _free_joints(tree, q, J.T @ error)
        # Least squares of [J; lambda E] dq = [e; 0] avoids squaring the condition number.
        stacked = np.concatenate([J * free, damping * np.eye(tree.n)])
        step = np.linalg.lstsq(stacked, np.concatenate([error, zero]), rcond=None)[0]
        new = np.clip(q + step, tree.reference_lower, tree.reference_upper)
        closes = tree.reaches(new)
        new_error = weight * _error(tree, frame, p, R, new) if closes else error
        if new_error @ new_error < error @ error:
            q, error, damping = new, new_error, max(0.1 * damping, 1e-9)
        elif damping > 1e3:
            return q, error, count
        else:
            damping *= 5.0
    return q, error, iterations


def _free_joints(tree: Robot, q: Array, direction: Array) -> Array:
    """Return whether each joint may move: not one at a limit that the step would violate."""
    blocked: Array = ((q <= tree.reference_lower) & (direction < 0.0)) | (
        (q >= tree.reference_upper) & (direction > 0.0)
    )
    return ~blocked


def _error(tree: Robot, frame: str, p: Array, R: Array | None, q: Array) -> Array:
    pose = frame_pose(tree, q, frame)
    if R is None:
        return p - pose.p_WF
    return np.concatenate([p - pose.p_WF, rotation_vector(R @ pose.R_WF.T)])


def _reached(error: Array, tolerance: float) -> bool:
    return bool(np.linalg.norm(error[:3]) <= tolerance and np.linalg.norm(error[3:]) <= tolerance)
