# SPDX-License-Identifier: Apache-2.0
"""Solutions of closed-form inverse kinematics: joint positions, branch and status."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from robot_dynamics_ros.errors import (
    ModelError,
    UnreachableError,
    known_name,
)
from robot_dynamics_ros.model import BodyFrame, Robot
from robot_dynamics_ros.model.joint_limits import TURN
from robot_dynamics_ros.spatial.scalar import Array, Scalar
from robot_dynamics_ros.spatial.validation import scalars

#: Rounding error of a few operations on lengths whose exact result is 0.
ROUNDING = 16.0 * sys.float_info.epsilon
_SLACK = 1e-9  # rad or m: rounding error of a joint at its limit

#: Sine of the elbow angle below which the arm is treated as stretched or folded.
ELBOW_SINGULAR = 1e-6

Axes = Literal['base', 'tool']
Status = Literal['ok', 'singular', 'outside_limits']


class Solution(NamedTuple):
    """One branch of an inverse kinematics solution.

    Attributes:
        q: Joint positions, shape (n,), rad or m; angles in (-pi, pi].
        branch: Name of the branch, such as 'left' or 'front_up'.
        singular: Names of the singularities at or near this configuration: there a joint is free,
            or angles are accurate only to about 1e-8 rad.
        violations: Violated joint limits, one sentence per joint.
    """

    q: Array
    branch: str
    singular: tuple[str, ...] = ()
    violations: tuple[str, ...] = ()

    @property
    def within_limits(self) -> bool:
        """Whether all joints are within their limits."""
        return not self.violations

    @property
    def status(self) -> Status:
        """The most severe status: 'outside_limits', 'singular', or 'ok'."""
        if self.violations:
            return 'outside_limits'
        return 'singular' if self.singular else 'ok'


def components(name: str, value: Array | Sequence[Scalar], size: int) -> Array:
    """Return the components of a vector of a given size, finite numbers or symbols.

    Raises:
        ShapeError, ParameterError, NonFiniteError: As in :func:`.scalars`.
    """
    # A symbolic vector is a matrix of one column for NumPy.
    listed = hasattr(value, '__len__') and not isinstance(value, (np.ndarray, str))
    return scalars(name, list(value) if listed else value, (size,))


def is_rotation(R: Array, tolerance: float) -> bool:
    """Return whether a matrix, shape (3, 3), is a rotation within a tolerance."""
    return bool(np.abs(R.T @ R - np.eye(3)).max() <= tolerance and np.linalg.det(R) > 0.0)


def turned(R: Array, rows: Array) -> Array:
    """Rotate six rows, linear part first, by R, shape (3, 3)."""
    return np.concatenate([R @ rows[:3], R @ rows[3:]])


def in_axes(axes: Axes, R: Array, rows: Array) -> Array:
    """Return six rows of the base, linear part first, in the axes 'base' or 'tool' (rotated by R).

    Raises:
        UnknownNameError: The axes are unknown.
    """
    return rows if known_name('axes', axes, ('base', 'tool')) == 'base' else turned(R.T, rows)


def lengths(tree: Robot, *places: tuple[int, int]) -> list[float]:
    """Return coordinates (joint, axis) of joint origins, m; zeros if not a four-joint arm."""
    return [float(tree.p_PJ[place]) if tree.n == 4 else 0.0 for place in places]


def require_frames(
    tree: Robot,
    tool: BodyFrame,
    arm: str,
    origins: Any,
    rotations: Any,
    prismatic: tuple[bool, ...],
    tool_origin: Array | None = None,
) -> None:
    """Check that a robot has the frames of a given four-joint arm.

    Args:
        tree: The robot.
        tool: The tool frame; its axes must be those of the last link.
        arm: Name of the arm for the error message.
        origins: Joint origins in the parent link, shape (4, 3), m.
        rotations: Joint frame rotations in the parent link, shape (4, 3, 3).
        prismatic: Whether each joint is prismatic.
        tool_origin: Origin of the tool in the last link, shape (3,), m; any if None.

    Raises:
        ModelError: The robot has different frames.
    """
    if not (
        tree.joint_is_prismatic == prismatic
        and tree.parent == (-1, 0, 1, 2)
        and tool.body == 3
        and np.allclose(tree.p_PJ, origins)
        and np.allclose(tree.R_PJ, rotations)
        and np.allclose(tree.axis, [0.0, 0.0, 1.0])
        and np.allclose(tool.R_BF, np.eye(3))
        and (tool_origin is None or np.allclose(tool.p_BF, tool_origin))
    ):
        raise ModelError(
            f'robot {tree.name!r}',
            f'does not have the frames of the {arm}',
            'use kinematics.numeric for other robots',
        )


def wrap(angle: float) -> float:
    """Wrap an angle (rad) to (-pi, pi]."""
    turned = math.remainder(angle, TURN)
    return math.pi if turned == -math.pi else turned


def elbow_sine(cosine: float) -> float:
    """Return the nonnegative sine of an elbow angle; 0 if |cosine| is 1 within rounding error."""
    square = (1.0 - cosine) * (1.0 + cosine)
    return math.sqrt(square) if square > ROUNDING else 0.0


def violations(q: Array, lower: Sequence[float], upper: Sequence[float]) -> tuple[str, ...]:
    """Return a sentence for each joint outside its limits by more than rounding error."""
    return tuple(
        f'joint {i + 1} at {x:.6g} is outside {low:.6g} to {high:.6g}'
        for i, (x, low, high) in enumerate(zip(q.tolist(), lower, upper, strict=True))
        if not low - _SLACK <= x <= high + _SLACK
    )


def nearest(
    solutions: Sequence[Solution],
    current: Array,
    *,
    weights: Array | None = None,
    keep_branch: str | None = None,
    revolute: Sequence[bool] | Array | None = None,
    limits: tuple[Array, Array] | None = None,
) -> Solution:
    r"""Return the solution within the joint limits that is nearest to a configuration.

    The distance is :math:`\sum_i w_i (q_i - q_{now,i})^2`.

    Args:
        solutions: Solutions of an inverse kinematics.
        current: Current joint positions, shape (n,), rad or m.
        weights: w, shape (n,); ones if None.
        keep_branch: Branch to keep while its solution is within the limits and marked singular,
            where two branches meet and the nearest may alternate.
        revolute: Whether each joint is revolute. With ``limits``, revolute joints are first
            shifted by whole turns to be within the limits and, there, nearest to ``current``.
        limits: Lower and upper joint limits, each shape (n,).

    Raises:
        UnreachableError: No solution is within the limits; the message lists the violations.
    """
    if revolute is not None and limits is not None:
        solutions = [_unwound(each, current, revolute, limits) for each in solutions]
    usable = [solution for solution in solutions if solution.within_limits]
    if not usable:
        reasons = '; '.join(f'{s.branch}: {", ".join(s.violations)}' for s in solutions)
        raise UnreachableError('target', f'every solution leaves the limits ({reasons})')
    for solution in usable:
        if solution.branch == keep_branch and solution.singular:
            return solution
    w = 1.0 if weights is None else weights
    return min(usable, key=lambda solution: float(np.sum(w * (solution.q - current) ** 2)))


def _unwound(
    solution: Solution,
    current: Array,
    revolute: Sequence[bool] | Array,
    limits: tuple[Array, Array],
) -> Solution:
    q, (lower, upper) = solution.q, limits
    least, most = np.ceil((lower - q - _SLACK) / TURN), np.floor((upper - q + _SLACK) / TURN)
    turns = np.clip(np.round((current - q) / TURN), least, most)
    q = np.where(revolute & (least <= most), q + TURN * turns, q)
    return Solution(
        q, solution.branch, solution.singular, violations(q, lower.tolist(), upper.tolist())
    )
