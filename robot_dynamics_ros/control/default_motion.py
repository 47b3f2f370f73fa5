# SPDX-License-Identifier: Apache-2.0
r"""Default posture and circular motion for an arm without a configuration, within its limits.

Postures are the best of random ones with a fixed seed: the smallest singular value of the tool's
Jacobian is large (lengths relative to that of the arm), the joints are far from their limits,
gravity and Coulomb friction are small relative to the effort limits, and there is no collision.
The circle is in the plane in which the tool moves most easily. The largest feasible circle is
used, at a speed for which no joint needs more than half of its velocity limit and 60 % of its
effort limit. At s times the speed, the efforts are

.. math:: \tau(s) = g + s^2 (\tau - g) + s\,b v + \tau_c \tanh(s v / v_s).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice, product

import numpy as np

from robot_dynamics_ros.constraints.curves import Circle
from robot_dynamics_ros.control.trajectories.motions import ToolPath
from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.dynamics.joint_terms import JointTerms
from robot_dynamics_ros.errors import (
    ModelError,
    SingularityError,
    TrajectoryError,
    UnreachableError,
)
from robot_dynamics_ros.geometry.collisions import CollisionChecker, Obstacles, make_checker
from robot_dynamics_ros.kinematics.tool_task import tool_task
from robot_dynamics_ros.model import RobotTree, frame_jacobian, frame_pose
from robot_dynamics_ros.model.build import with_exact_angles
from robot_dynamics_ros.spatial.scalar import Array

VELOCITY_SHARE, EFFORT_SHARE = 0.5, 0.6  # largest fractions of the limits
_HOLDING_SHARE = 0.55  # largest fraction of the effort limits to hold a posture
_POSTURES, _ROUNDS = 500, 12  # postures per round; rounds
_BATCH_SIZE, _BATCHES = 8, 4  # postures per batch, for which all circles are tried; batches
_INNER, _SPREAD = 0.7, 0.15  # fractions of each joint's range: limit, and deviation from others
_RADII = (0.2, 0.14, 0.1, 0.07, 0.05, 0.035, 0.025, 0.0175, 0.0125)  # relative to the arm's length
_LAPS, _RAMP = 2.0, 0.6  # turns; s
_SLOWER = 0.95  # ratio of successive speeds
_SAMPLES, _KNOTS = 100, 75
_POINTS = 16  # points of a circle that are checked before its path is solved
_SLOWEST = 5e-3  # m/s


@dataclass(frozen=True, eq=False)
class DefaultMotion:
    """Circle of the tool that starts at a posture.

    Attributes:
        home: The posture, shape (n,), rad or m; the tool is on the circle there.
        frame: Name of the frame on the circle.
        center: Centre in the base frame, shape (3,), m.
        radius: m.
        normal, toward: Axis of the circle, and direction from its centre to its start; (3,) each.
        speed: Speed along the circle, m/s.
        ramp: Duration of each ramp of the speed, s.
        velocity_share, effort_share: Largest fraction of the limits that the motion needs.
        remarks: Remarks on checks that were not possible.
    """

    home: Array
    frame: str
    center: Array
    radius: float
    normal: Array
    toward: Array
    speed: float
    ramp: float = _RAMP
    velocity_share: float = math.inf
    effort_share: float = math.inf
    remarks: tuple[str, ...] = ()

    def path(self, tree: RobotTree, laps: float = _LAPS) -> ToolPath:
        """Return the joint motion of a number of laps of the circle, all alike.

        Raises:
            TrajectoryError: The circle cannot be followed.
            SingularityError: The tool cannot be moved from the posture.
        """
        circle = self.circle(laps)
        task = tool_task(tree, self.home, frame=self.frame)
        step = circle.length / self.speed / (laps * _KNOTS)
        return ToolPath(task, circle, self.speed, self.ramp, self.home, step, tolerance=1e-4)

    def circle(self, laps: float) -> Circle:
        """Return the curve of a number of laps."""
        numbers = (self.normal.tolist(), self.toward.tolist())
        return Circle(self.center.tolist(), self.radius, *numbers, laps)


def default_motion(
    tree: RobotTree, frame: str, obstacles: Obstacles | None = None
) -> DefaultMotion:
    """Plan a posture and a circle.

    Args:
        tree: The robot.
        frame: Name of the frame to move.
        obstacles: Obstacles around the arm; collisions are checked if a library is available.

    Raises:
        UnknownNameError: There is no such frame.
        ModelError: No circle is feasible within the limits; gives the reason.

    Cost: one second for six joints, several seconds for more. The result is deterministic.
    """
    tree.frame(frame)
    checker, remarks = make_checker(tree, obstacles)
    postures = comfortable_postures(tree, frame, checker)
    reasons: dict[str, None] = {}
    for _ in range(_BATCHES):
        batch = list(islice(postures, _BATCH_SIZE))
        for part, home in product(_RADII, batch):
            try:
                circle = _circle(tree, frame, home, part * _length(tree))
                return replace(_plan(tree, circle, checker), remarks=remarks)
            except (TrajectoryError, SingularityError) as refusal:
                reasons[str(refusal)] = None
    raise _no_circle(
        tree, frame, 'cannot follow a circle from its best postures', '; '.join([*reasons][-2:])
    )


def _circle(tree: RobotTree, frame: str, home: Array, radius: float) -> DefaultMotion:
    """Return a circle from a posture, in the plane in which the frame moves most easily.

    Raises:
        ModelError: The frame moves along a line only.
    """
    J = frame_jacobian(with_exact_angles(tree), home, frame)
    directions, sizes, _ = np.linalg.svd(J[:3])
    if len(sizes) < 2 or sizes[1] < 1e-3 * _length(tree):
        raise _no_circle(tree, frame, 'moves along a line only', 'use kind sine or waypoints')
    toward, normal = directions[:, 0], directions[:, 2]
    center = frame_pose(tree, home, frame).p_WF - radius * toward
    return DefaultMotion(home, frame, center, radius, normal, toward, math.sqrt(radius))


def comfortable_postures(
    tree: RobotTree, frame: str, checker: CollisionChecker | None = None
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
            'check the collision geometry, or move the obstacles',
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


class _Load:
    """Efforts of gravity and breakaway friction, relative to the limits."""

    def __init__(self, tree: RobotTree) -> None:
        self._model, self._terms = make_formulation('newton_euler', tree), JointTerms.of(tree)
        self._limit = tree.effort_limit

    def heaviest(self, q: Array) -> tuple[float, int]:
        """Return the largest fraction of an effort limit that holds a posture, and its joint."""
        gravity = self._model.gravity_forces(q)
        shares = (np.abs(gravity) + self._terms.breakaway(gravity)) / self._limit
        joint = int(np.argmax(shares))
        return float(shares[joint]), joint


class _Rating:
    """Rating of postures.

    Attributes:
        least: Smallest fraction of an effort limit that was needed so far, and the joint's index.
    """

    def __init__(self, tree: RobotTree, frame: str) -> None:
        self._tree, self._frame, self.least = tree, frame, (math.inf, 0)
        self._load, self._exact = _Load(tree), with_exact_angles(tree)
        self._scale = np.repeat([_length(tree), 1.0], 3)[:, np.newaxis]
        self._middle, self._half = tree.middle, tree.sampled_range[1] - tree.middle

    def posture(self, relative: Array) -> Array:
        """Return joint positions from values relative to the ranges, shape (n,), rad or m."""
        return self._middle + relative * self._half

    def rate(self, relative: Array) -> tuple[float, Array] | None:
        """Return a score, higher is better, with the posture; None if it cannot be held."""
        tree, q = self._tree, self.posture(relative)
        heaviest = self._load.heaviest(q)
        self.least = min(self.least, heaviest)
        if heaviest[0] > _HOLDING_SHARE:
            return None
        J = frame_jacobian(self._exact, q, self._frame) / self._scale
        sizes = np.linalg.svd(J if tree.n >= 6 else J[:3], compute_uv=False)
        return float(sizes[sizes > 1e-9][-1]) * (1.0 - float(np.max(np.abs(relative)))), relative


def _overload_error(tree: RobotTree, share: float, joint: int) -> ModelError:
    dry = tree.coulomb_friction[joint] > 0.0
    cause = 'gravity and Coulomb friction alone take' if dry else 'gravity alone takes'
    return ModelError(
        f'joint {tree.joint_names[joint]!r}',
        f'{cause} {share:.0%} of its effort limit at the best posture found',
        f'at most {_HOLDING_SHARE:.0%} leave room to move; raise the limit, or lock the joint',
    )


def _plan(
    tree: RobotTree, motion: DefaultMotion, checker: CollisionChecker | None
) -> DefaultMotion:
    """Return the motion at a speed within the permitted fractions of the limits.

    Raises:
        TrajectoryError: It needs too much effort at any speed, cannot be followed, or collides.
        SingularityError: The tool cannot be moved from the posture.
    """
    fast = tree.with_changes(velocity_limit=np.full(tree.n, math.inf))  # checked in _slowed
    _check_reach(fast, motion, checker)
    path = motion.path(fast, laps=1.0)
    motion = _slowed(tree, motion, path)
    if checker is not None:
        checker.require_free('circle', path.table(path.instants(path.duration))[0])
    return motion


def _check_reach(tree: RobotTree, motion: DefaultMotion, checker: CollisionChecker | None) -> None:
    """Check that the arm can reach and hold points of a circle without collisions.

    Raises:
        TrajectoryError: A point is not feasible, with the reason.
        SingularityError: The tool cannot be moved from the posture.
    """
    task, circle = tool_task(tree, motion.home, frame=motion.frame), motion.circle(1.0)
    load, q = _Load(tree), motion.home
    for s in np.linspace(0.0, circle.length, _POINTS, endpoint=False):
        try:
            q = task.solve(np.array(circle.at(float(s))[0], dtype=float), q)
        except UnreachableError as refusal:
            raise TrajectoryError('circle', str(refusal), 'move it') from refusal
        share, i = load.heaviest(q)
        if share > EFFORT_SHARE:
            needed = f'gravity and friction take {share:.0%} of the limit of joint'
            raise TrajectoryError(
                'circle', f'{needed} {tree.joint_names[i]!r}', 'reduce the payload'
            )
        if checker is not None:
            checker.require_free('circle', [q])


def _slowed(tree: RobotTree, motion: DefaultMotion, path: ToolPath) -> DefaultMotion:
    """Return the motion slowed down to the permitted fractions of velocity and effort limits."""
    q, v, a = path.table(np.linspace(0.0, path.duration, _SAMPLES))
    model, terms = make_formulation('newton_euler', tree), JointTerms.of(tree)
    gravity = np.array([model.gravity_forces(row) for row in q])
    moving = np.array([model.inverse_dynamics(*rows) for rows in zip(q, v, a, strict=True)])
    velocity, slow = float(np.max(np.abs(v) / tree.velocity_limit)), 1.0
    while slow * motion.speed >= _SLOWEST:
        load = gravity + slow**2 * (moving - gravity)
        tau = load + slow**2 * tree.armature * a + terms.friction(slow * v, load)
        effort = float(np.max(np.abs(tau) / tree.effort_limit))
        if slow * velocity <= VELOCITY_SHARE and effort <= EFFORT_SHARE:
            return replace(
                motion,
                speed=slow * motion.speed,
                ramp=motion.ramp / slow,
                velocity_share=slow * velocity,
                effort_share=effort,
            )
        slow *= _SLOWER
    i = int(np.argmax(np.max(np.abs(tau), axis=0) / tree.effort_limit))
    needed = f'{effort:.0%} of the effort limit of joint {tree.joint_names[i]!r}'
    raise TrajectoryError('circle', f'needs {needed} at any speed', 'reduce the payload')


def _length(tree: RobotTree) -> float:
    """Return the length of the arm along its longest chain of joints, m."""
    along = np.zeros(tree.bodies)
    for i, parent in enumerate(tree.parent):
        along[i] = float(np.linalg.norm(tree.p_PJ[i])) + (along[parent] if parent >= 0 else 0.0)
    return max(float(along.max()), 0.1)


def _no_circle(tree: RobotTree, frame: str, problem: str, remedy: str) -> ModelError:
    return ModelError(f'robot {tree.name!r}', f'its frame {frame!r} {problem}', remedy)
