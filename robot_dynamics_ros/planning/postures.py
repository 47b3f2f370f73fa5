# SPDX-License-Identifier: Apache-2.0
"""Postures from which an arm moves well, for the motions that are planned without configuration.

They are the best of random ones with a fixed seed: the smallest singular value of the tool's
Jacobian is large (lengths relative to that of the arm), the joints are far from their limits,
gravity and Coulomb friction are small relative to the effort limits, and there is no collision.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.dynamics.joint_terms import JointTerms
from robot_dynamics_ros.errors import ModelError
from robot_dynamics_ros.geometry.collisions import CollisionChecker
from robot_dynamics_ros.model import Robot, TreeState, frame_jacobian, frame_pose
from robot_dynamics_ros.model.arm import chain_hint
from robot_dynamics_ros.model.build import with_exact_angles
from robot_dynamics_ros.spatial.scalar import Array

_HOLDING_SHARE = 0.55  # largest fraction of the effort limits to hold a posture
_POSTURES, _ROUNDS = 500, 12  # postures per round; rounds
_INNER, _SPREAD = 0.7, 0.15  # fractions of each joint's range: limit, and deviation from others
STILL = 1e-3  # a frame that moves less per rad, in relation to the arm's length, stands still


def arm_length(tree: Robot) -> float:
    """Return the length of the arm along its longest chain of joints and slides, m.

    The way to the first joint counts up to twice the rest: the base may be far, as of a hall.
    """
    way, along = np.linalg.norm(tree.p_PJ, axis=1), np.zeros(tree.bodies)
    for i, parent in enumerate(tree.parent):
        if parent >= 0:
            way[i], along[i] = way[parent], along[parent] + way[i]
    slides = float(tree.position_range[np.array(tree.joint_is_prismatic)].sum())
    return max(float((along + np.minimum(way, 2.0 * (along + slides))).max()), 0.1)


def easy_directions(tree: Robot, q: Array, frame: str) -> tuple[Array, Array, Array]:
    """Return the point of a frame, shape (3,), m, and the directions in which it moves easily.

    Returns:
        The point; unit vectors, shape (3, 3), the easiest first; how far it moves along the first
        of them, at most three, in relation to the arm's length, 1/rad or 1/m.
    """
    J = frame_jacobian(with_exact_angles(tree), q, frame)
    directions, sizes, _ = np.linalg.svd(J[:3])
    return frame_pose(tree, q, frame).p_WF, directions, sizes / arm_length(tree)


def comfortable_postures(
    tree: Robot, frame: str, checker: CollisionChecker | None = None
) -> Iterator[Array]:
    """Yield the postures from which a frame moves best, best first, shape (n,), rad or m.

    Args:
        tree: The robot.
        frame: Name of the frame.
        checker: Collision checker; None: collisions are not checked.

    Raises:
        ModelError: In all postures, gravity and Coulomb friction alone exceed the permitted
            fraction of a joint's effort limit (names the joint, and the fraction at the best
            posture), or there is a collision.
    """
    rng, feasible, rating = np.random.default_rng(0), list[Array](), _Rating(tree, frame)
    touching, count = None, 0
    for _ in range(_ROUNDS):
        drawn = _draw(rng, tree.n, feasible)
        rated = [pair for relative in drawn if (pair := rating.rate(relative))]
        feasible += [relative for _, relative in rated]
        for _, relative in sorted(rated, key=lambda pair: -pair[0]):
            q = rating.posture(relative)
            near = None if checker is None else checker.find_close_pair(q)
            touching = touching or near
            if near is None:
                count += 1
                yield q
    if touching is not None and not count:
        raise ModelError(
            f'robot {tree.name!r}',
            f'{touching.first!r} and {touching.second!r} are {1e3 * touching.distance:.1f} mm '
            f'apart in its best posture; all {_ROUNDS * _POSTURES} are in collision',
            'check the collision geometry, or move the obstacles' + chain_hint(tree),
        )
    if not count:
        raise _overload_error(tree, *rating.least)


def _draw(rng: np.random.Generator, n: int, feasible: list[Array]) -> Array:
    """Return random postures relative to the joints' ranges, half of them near feasible ones."""
    samples = rng.uniform(-_INNER, _INNER, size=(_POSTURES, n))
    if feasible:
        half = _POSTURES // 2
        chosen = rng.integers(len(feasible), size=half)
        near = np.array(feasible)[chosen] + rng.normal(0.0, _SPREAD, (half, n))
        samples[:half] = np.clip(near, -_INNER, _INNER)
    return samples


def at_rest(tree: Robot, q: Array) -> TreeState:
    """Return the state of all joints of a robot that rests at q, shape (n,), rad or m."""
    return tree.tree_state(q, 0.0 * q, 0.0 * q)


class Load:
    """Efforts of gravity and breakaway friction, relative to the limits.

    Args:
        tree: The robot.
    """

    def __init__(self, tree: Robot) -> None:
        self._model, self._terms = make_formulation('newton_euler', tree.tree), JointTerms.of(tree)
        self._limit = tree.effort_limit

    def heaviest(self, state: TreeState) -> tuple[float, int]:
        """Return the largest fraction of an effort limit that holds a posture, and its joint."""
        gravity = state.A.T @ self._model.gravity_forces(state.q)
        shares = (np.abs(gravity) + self._terms.breakaway(gravity)) / self._limit
        joint = int(np.argmax(shares))
        return float(shares[joint]), joint


class _Rating:
    """Rating of postures.

    Attributes:
        least: Smallest fraction of an effort limit that was needed so far, and the joint's index.
    """

    def __init__(self, tree: Robot, frame: str) -> None:
        self._tree, self._frame, self.least = tree, frame, (math.inf, 0)
        self._load, self._exact = Load(tree), with_exact_angles(tree)
        self._scale = np.repeat([arm_length(tree), 1.0], 3)[:, np.newaxis]
        lower, upper = tree.planning_range
        self._middle, self._half = 0.5 * (lower + upper), 0.5 * (upper - lower)

    def posture(self, relative: Array) -> Array:
        """Return joint positions from values relative to the ranges, shape (n,), rad or m."""
        return self._middle + relative * self._half

    def rate(self, relative: Array) -> tuple[float, Array] | None:
        """Return a score, higher is better, with the posture; None if it cannot be held."""
        tree, q = self._tree, self.posture(relative)
        if not self._exact.reaches(q):
            return None
        state = at_rest(self._exact, q)
        heaviest = self._load.heaviest(state)
        self.least = min(self.least, heaviest)
        if heaviest[0] > _HOLDING_SHARE:
            return None
        J = frame_jacobian(self._exact.tree, state.q, self._frame) @ state.A / self._scale
        sizes = np.linalg.svd(J if tree.n >= 6 else J[:3], compute_uv=False)
        least = float(np.min(sizes, where=sizes > 1e-9, initial=math.inf))
        eases = least if math.isfinite(least) else 1.0  # nothing moves the frame
        return eases * (1.0 - float(np.max(np.abs(relative)))), relative


def _overload_error(tree: Robot, share: float, joint: int) -> ModelError:
    dry = tree.coulomb_friction[joint] > 0.0
    cause = 'gravity and Coulomb friction alone take' if dry else 'gravity alone takes'
    unit = 'N' if tree.joint_is_prismatic[joint] else 'N m'
    culprit = f'joint {tree.joint_names[joint]!r}'
    return ModelError(
        culprit,
        f'{cause} {share:.0%} of its effort limit of {tree.effort_limit[joint]:g} {unit} at the '
        'best posture found',
        f'at most {_HOLDING_SHARE:.0%} leave room to move; raise the limit, or lock the joint'
        + chain_hint(tree, culprit),
    )
