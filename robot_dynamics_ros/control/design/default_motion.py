# SPDX-License-Identifier: Apache-2.0
r"""A posture and a circle for an arm that nobody has configured: comfortable, and within limits.

Postures are the best of seeded random ones: the tool moves and turns easily in every direction
(the smallest singular value of its Jacobian, lengths in units of the arm's), the joints are far
from their limits, gravity and Coulomb friction leave the drives most of their effort, and nothing
touches. The circle lies in the plane in which the tool moves most easily there. The largest one
that some posture allows is taken, and run so slowly that no joint needs more than half of its
velocity and 60 % of its effort limit: at s times the speed the efforts are

.. math:: \tau(s) = g + s^2 (\tau - g) + s\,b v + \tau_c \tanh(s v / v_s).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice, product

import numpy as np

from robot_dynamics_ros.constraints.curves import Circle
from robot_dynamics_ros.control.trajectories.tool_path import ToolPath
from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.dynamics.joint_terms import JointTerms
from robot_dynamics_ros.errors import (
    ModelError,
    SingularityError,
    TrajectoryError,
    UnreachableError,
)
from robot_dynamics_ros.geometry.collisions import CollisionChecker, Obstacles, make_checker
from robot_dynamics_ros.kinematics.tool_task import middle, tool_task
from robot_dynamics_ros.model import RobotTree, frame_motion
from robot_dynamics_ros.spatial.scalar import Array

VELOCITY_SHARE, EFFORT_SHARE = 0.5, 0.6  # of the limits, at most
_HOLDING_SHARE = 0.55  # of the effort limits: what a posture may need
_POSTURES, _ROUNDS = 500, 12  # drawn at once; times
_TRIED, _BATCHES = 8, 4  # postures of which all circles are tried before the next ones are
_INNER, _NEAR = 0.7, 0.15  # parts of each joint's range: postures are within, and near others
_RADII = (0.2, 0.14, 0.1, 0.07, 0.05, 0.035, 0.025, 0.0175, 0.0125)  # of the arm's length
_LAPS, _RAMP = 2.0, 0.6  # turns; s
_SLOWER = 0.95  # speeds tried, each by the one before
_SAMPLES, _KNOTS = 100, 75
_POINTS = 16  # of a circle, looked at before its path is solved
_SLOWEST = 5e-3  # m/s


@dataclass(frozen=True, eq=False)
class DefaultMotion:
    """A circle of the tool from a posture.

    Attributes:
        home: The posture, shape (n,), rad or m; the tool is on the circle there.
        frame: Name of the frame that is led.
        center: In the base, shape (3,), m.
        radius: m.
        normal, toward: Axis of the circle, and direction from its centre to its start; (3,) each.
        speed: Along the circle, m/s.
        ramp: Time of speeding up and of slowing down, s.
        velocity_share, effort_share: Largest part of the limits that it needs.
        remarks: What was not looked at.
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
        """Return the circle, so often, as a motion of the joints; every lap is the same.

        Raises:
            TrajectoryError: It cannot be followed.
            SingularityError: The tool cannot be led from the posture.
        """
        circle = self.circle(laps)
        task = tool_task(tree, self.home, frame=self.frame)
        step = circle.length / self.speed / (laps * _KNOTS)
        return ToolPath(task, circle, self.speed, self.ramp, self.home, step, tolerance=1e-4)

    def circle(self, laps: float) -> Circle:
        """Return the curve."""
        numbers = (self.normal.tolist(), self.toward.tolist())
        return Circle(self.center.tolist(), self.radius, *numbers, laps)


def default_motion(
    tree: RobotTree, frame: str, obstacles: Obstacles | None = None
) -> DefaultMotion:
    """Plan a posture and a circle.

    Args:
        tree: The robot.
        frame: Name of the frame to lead.
        obstacles: What stands around it; collisions are looked for where a library can.

    Raises:
        UnknownNameError: There is no such frame.
        ModelError: The tool cannot be led around any circle within the limits; says what is left.

    Cost: a second for six joints, some seconds for more. The same result in every call.
    """
    tree.frame(frame)
    checker, remarks = make_checker(tree, obstacles)
    postures = comfortable_postures(tree, frame, checker)
    why: dict[str, None] = {}
    for _ in range(_BATCHES):
        batch = list(islice(postures, _TRIED))
        for part, home in product(_RADII, batch):
            try:
                circle = _circle(tree, frame, home, part * _length(tree))
                return replace(_planned(tree, circle, checker), remarks=remarks)
            except (TrajectoryError, SingularityError) as refusal:
                why[str(refusal)] = None
    raise _unled(tree, frame, 'follows no circle from its best postures', '; '.join([*why][-2:]))


def _circle(tree: RobotTree, frame: str, home: Array, radius: float) -> DefaultMotion:
    """Return a circle from a posture, in the plane in which the frame moves most easily.

    Raises:
        ModelError: It moves along a line only.
    """
    motion = frame_motion(tree, home, 0.0 * home, frame)
    directions, sizes, _ = np.linalg.svd(motion.J[:3])
    if len(sizes) < 2 or sizes[1] < 1e-3 * _length(tree):
        raise _unled(tree, frame, 'moves along a line only', 'use kind sine or waypoints')
    toward, normal = directions[:, 0], directions[:, 2]
    center = motion.p_WF - radius * toward
    return DefaultMotion(home, frame, center, radius, normal, toward, math.sqrt(radius))


def comfortable_postures(
    tree: RobotTree, frame: str, checker: CollisionChecker | None = None
) -> Iterator[Array]:
    """Yield the postures from which a frame moves best, the best first, shape (n,), rad or m.

    Args:
        tree: The robot.
        frame: Name of the frame.
        checker: Looks whether anything touches; None: nobody does.

    Raises:
        ModelError: Gravity and Coulomb friction alone take too much of some joint's effort limit
            everywhere; says which joint, and how much at the best posture. Or something touches
            in every posture.
    """
    draws, rating = _Draws(tree), _Rating(tree, frame)
    touching, count = None, 0
    for _ in range(_ROUNDS):
        rated = [pair for inside in draws.draw() if (pair := rating.rate(inside))]
        draws.held += [inside for _, inside in rated]
        for _, inside in sorted(rated, key=lambda pair: -pair[0]):
            q = rating.posture(inside)
            near = None if checker is None else checker.nearest(q)
            touching = touching or near
            if near is None:
                count += 1
                yield q
    if touching is not None and not count:
        raise ModelError(
            f'robot {tree.name!r}',
            f'{touching.first!r} and {touching.second!r} are {1e3 * touching.distance:.1f} mm '
            f'apart in its best posture; something touches in all of {_ROUNDS * _POSTURES}',
            'check the collision geometry, or move what stands around',
        )
    if not count:
        raise _held_by_nothing(tree, *rating.least)


class _Draws:
    """Random postures as parts of the joints' ranges, half of them near ones that can be held."""

    def __init__(self, tree: RobotTree) -> None:
        self.held: list[Array] = []
        self._rng, self._n = np.random.default_rng(0), tree.n

    def draw(self) -> Array:
        rng, size = self._rng, (_POSTURES, self._n)
        drawn = rng.uniform(-_INNER, _INNER, size=size)
        if self.held:
            half = _POSTURES // 2
            chosen = rng.integers(len(self.held), size=half)
            near = np.array(self.held)[chosen] + rng.normal(0.0, _NEAR, (half, self._n))
            drawn[:half] = np.clip(near, -_INNER, _INNER)
        return drawn


class _Rating:
    """How comfortable postures are.

    Attributes:
        least: Least share of an effort limit that was needed so far, and the joint's index.
    """

    def __init__(self, tree: RobotTree, frame: str) -> None:
        self._tree, self._frame, self.least = tree, frame, (math.inf, 0)
        self._model, self._terms = make_formulation('newton_euler', tree), JointTerms.of(tree)
        self._scale = np.repeat([_length(tree), 1.0], 3)[:, np.newaxis]
        self._middle, upper = middle(tree), tree.position_upper
        upper = np.minimum(np.where(np.isfinite(upper), upper, math.pi), self._middle + math.pi)
        self._half = upper - self._middle

    def posture(self, inside: Array) -> Array:
        """Return joint positions from parts of the ranges, shape (n,)."""
        return self._middle + inside * self._half

    def rate(self, inside: Array) -> tuple[float, Array] | None:
        """Return a mark, the higher the better, with the posture; None if it cannot be held."""
        tree, q = self._tree, self.posture(inside)
        gravity = self._model.gravity_forces(q)
        shares = (np.abs(gravity) + self._terms.breakaway(gravity)) / tree.effort_limit
        heaviest = int(np.argmax(shares))
        self.least = min(self.least, (float(shares[heaviest]), heaviest))
        if shares[heaviest] > _HOLDING_SHARE:
            return None
        J = frame_motion(tree, q, 0.0 * q, self._frame).J / self._scale
        sizes = np.linalg.svd(J if tree.n >= 6 else J[:3], compute_uv=False)
        return float(sizes[sizes > 1e-9][-1]) * (1.0 - float(np.max(np.abs(inside)))), inside


def _held_by_nothing(tree: RobotTree, share: float, joint: int) -> ModelError:
    dry = tree.coulomb_friction[joint] > 0.0
    cause = 'gravity and Coulomb friction alone take' if dry else 'gravity alone takes'
    return ModelError(
        f'joint {tree.joint_names[joint]!r}',
        f'{cause} {share:.0%} of its effort limit at the best posture found',
        f'at most {_HOLDING_SHARE:.0%} leave room to move; raise the limit, or lock the joint',
    )


def _planned(
    tree: RobotTree, motion: DefaultMotion, checker: CollisionChecker | None
) -> DefaultMotion:
    """Return the motion at a speed that keeps within the shares of the limits.

    Raises:
        TrajectoryError: It needs too much at any speed, cannot be followed, or touches something.
        SingularityError: The tool cannot be led from the posture.
    """
    fast = tree.with_changes(velocity_limit=np.full(tree.n, math.inf))  # judged here instead
    _look_around(fast, motion, checker)
    path = motion.path(fast, laps=1.0)
    motion = _slowed(tree, motion, path)
    if checker is not None:
        checker.require_free('circle', path.table(path.instants(path.duration))[0])
    return motion


def _look_around(tree: RobotTree, motion: DefaultMotion, checker: CollisionChecker | None) -> None:
    """Refuse a circle with a point that the arm cannot reach or hold, or where it touches.

    Raises:
        TrajectoryError: Says why.
        SingularityError: The tool cannot be led from the posture.
    """
    task, circle = tool_task(tree, motion.home, frame=motion.frame), motion.circle(1.0)
    model, terms, q = make_formulation('newton_euler', tree), JointTerms.of(tree), motion.home
    for s in np.linspace(0.0, circle.length, _POINTS, endpoint=False):
        try:
            q = task.solve(np.array(circle.at(float(s))[0], dtype=float), q)
        except UnreachableError as refusal:
            raise TrajectoryError('circle', str(refusal), 'move it') from refusal
        gravity = model.gravity_forces(q)
        held = np.abs(gravity) + terms.breakaway(gravity)
        i = int(np.argmax(held / tree.effort_limit))
        if held[i] > EFFORT_SHARE * tree.effort_limit[i]:
            share = held[i] / tree.effort_limit[i]
            needed = f'gravity and friction take {share:.0%} of the limit of joint'
            raise TrajectoryError('circle', f'{needed} {tree.joint_names[i]!r}', 'carry less')
        if checker is not None:
            checker.require_free('circle', [q])


def _slowed(tree: RobotTree, motion: DefaultMotion, path: ToolPath) -> DefaultMotion:
    """Return the motion slowed down, from its joints' motion at the speed that it has."""
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
    raise TrajectoryError('circle', f'needs {needed} at any speed', 'give it less to carry')


def _length(tree: RobotTree) -> float:
    """Return the length of the arm, m: the way along its longest chain of joints."""
    along = np.zeros(tree.bodies)
    for i, parent in enumerate(tree.parent):
        along[i] = float(np.linalg.norm(tree.p_PJ[i])) + (along[parent] if parent >= 0 else 0.0)
    return max(float(along.max()), 0.1)


def _unled(tree: RobotTree, frame: str, problem: str, remedy: str) -> ModelError:
    return ModelError(f'robot {tree.name!r}', f'its frame {frame!r} {problem}', remedy)
