# SPDX-License-Identifier: Apache-2.0
"""Postures from which an arm moves well, for the motions that are planned without configuration.

They are the best of random ones with a fixed seed: the smallest singular value of the tool's
Jacobian is large (lengths relative to that of the arm), the joints are far from their limits,
gravity and Coulomb friction are small relative to the effort limits, and there is no collision.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np

from robot_dynamics_ros.dynamics.joint_terms import JointTerms
from robot_dynamics_ros.errors import ModelError
from robot_dynamics_ros.geometry.collisions import GROUND, CollisionChecker
from robot_dynamics_ros.model import Robot, frame_jacobian, frame_pose
from robot_dynamics_ros.model.arm import chain_hint
from robot_dynamics_ros.model.build import with_exact_angles
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import LoopCheck, compile_kernel

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
    rng, feasible, score = np.random.default_rng(0), np.empty((0, tree.n)), _rating(tree, frame)
    lower, upper = tree.planning_range
    loops = None if tree.closed_loops is None else LoopCheck(tree.closed_loops)
    touching, found, least = Counter[tuple[str, str]](), False, (math.inf, 0)
    for _ in range(_ROUNDS):
        drawn = _draw(rng, feasible)
        postures = 0.5 * (lower + upper) + 0.5 * (upper - lower) * drawn
        if loops is not None:
            closed = [loops.closes(q) for q in postures]
            drawn, postures = drawn[closed], postures[closed]
        if not len(postures):
            continue
        shares = holding_shares(tree, postures)
        heaviest = shares.max(axis=1)
        lightest = int(heaviest.argmin())
        least = min(least, (float(heaviest[lightest]), int(shares[lightest].argmax())))
        held = heaviest <= _HOLDING_SHARE
        drawn, postures = drawn[held], postures[held]
        feasible = np.vstack([feasible, drawn])
        for k in np.argsort(-score(postures, drawn), kind='stable'):
            near = None if checker is None else checker.find_close_pair(postures[k])
            if near is None:
                found = True
                yield postures[k]
            else:
                touching[near.first, near.second] += 1
    if touching and not found:
        raise _collision_error(tree, touching)
    if not found:
        raise _overload_error(tree, *least)


def _draw(rng: np.random.Generator, feasible: Array) -> Array:
    """Return random postures relative to the joints' ranges, half of them near feasible ones."""
    samples = rng.uniform(-_INNER, _INNER, size=(_POSTURES, feasible.shape[1]))
    if len(feasible):
        half = _POSTURES // 2
        chosen = feasible[rng.integers(len(feasible), size=half)]
        near = chosen + rng.normal(0.0, _SPREAD, chosen.shape)
        samples[:half] = np.clip(near, -_INNER, _INNER)
    return samples


def holding_shares(tree: Robot, q: Array) -> Array:
    """Return which fractions of the effort limits hold postures, shape (k, n).

    By gravity and breakaway friction, at k positions, shape (k, n), rad or m.
    """
    gravity = compile_kernel(tree, outputs=('gravity_forces',)).batch('gravity_forces', q)
    return (np.abs(gravity) + JointTerms.of(tree).breakaway(gravity)) / tree.effort_limit


def _rating(tree: Robot, frame: str) -> Callable[[Array, Array], Array]:
    """Return the function that rates postures, higher is better, shape (k,).

    Its arguments are k positions, and the same relative to the joints' ranges, shape (k, n).
    """
    kernels = compile_kernel(with_exact_angles(tree), outputs=('frame_jacobian',), frame=frame)
    scale = np.repeat([arm_length(tree), 1.0], 3)[:, np.newaxis]

    def score(q: Array, relative: Array) -> Array:
        J = kernels.batch('frame_jacobian', q) / scale
        sizes = np.linalg.svd(J if tree.n >= 6 else J[:, :3], compute_uv=False)
        least = np.min(sizes, axis=1, where=sizes > 1e-9, initial=math.inf)
        eases = np.where(np.isfinite(least), least, 1.0)  # infinite: nothing moves the frame
        return eases * (1.0 - np.abs(relative).max(axis=1))

    return score


def _collision_error(tree: Robot, touching: Counter[tuple[str, str]]) -> ModelError:
    (first, second), count = touching.most_common(1)[0]
    deeper = ', tell where the ground is (--ground-below)' if GROUND in (first, second) else ''
    return ModelError(
        f'robot {tree.name!r}',
        f'all {touching.total()} postures that its motors hold are in collision, {count} of them '
        f'between {first!r} and {second!r}',
        f'check the collision geometry{deeper}, or move the obstacles' + chain_hint(tree),
    )


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
