# SPDX-License-Identifier: Apache-2.0
r"""Default posture and circular motion for an arm without a configuration, within its limits.

The circle is in the plane in which the tool moves most easily. The largest feasible circle is
used whose laps take at most 15 s, at a speed for which no joint needs more than half of its
velocity limit and 60 % of its effort limit. At s times the speed, the efforts are

.. math:: \tau(s) = g + s^2 (\tau - g) + s\,b v + \tau_c \tanh(s v / v_s).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Any

import numpy as np

from robot_dynamics_ros.constraints.curves import Circle
from robot_dynamics_ros.control.trajectories.trajectory import Trajectory
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
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.arm import arm_ends, chain_hint
from robot_dynamics_ros.planning.motions import ToolPath
from robot_dynamics_ros.planning.postures import (
    STILL,
    Load,
    arm_length,
    comfortable_postures,
    easy_directions,
)
from robot_dynamics_ros.spatial.scalar import Array

VELOCITY_SHARE, EFFORT_SHARE = 0.5, 0.6  # largest fractions of the limits
_BATCH_SIZE, _BATCHES = 8, 4  # postures per batch, for which all circles are tried; batches
_RADII = (0.2, 0.14, 0.1, 0.07, 0.05, 0.035, 0.025, 0.0175, 0.0125)  # relative to the arm's length
_LAPS, _RAMP = 2.0, 0.6  # turns; s
SHORTEST, LONGEST = 5.0, 15.0  # duration of the motion, s
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
        laps: Number of laps.
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
    laps: float = _LAPS
    velocity_share: float = math.inf
    effort_share: float = math.inf
    remarks: tuple[str, ...] = ()

    @property
    def point(self) -> Array:
        """Tool point at the posture, in the base frame, shape (3,), m."""
        return self.center + self.radius * self.toward

    @property
    def size(self) -> float:
        """Distance over which the tool point moves easily along ``toward``, m."""
        return self.radius

    @property
    def duration(self) -> float:
        """Duration of all laps, s."""
        return self.circle(self.laps).length / self.speed + self.ramp

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the trajectory node."""
        return {
            'kind': 'circle',
            'center': self.center.tolist(),
            'radius': self.radius,
            'normal': self.normal.tolist(),
            'toward': self.toward.tolist(),
            'laps': self.laps,
            'home': np.round(self.home, 9).tolist(),
            'speed': self.speed,
            'ramp_s': self.ramp,
        }

    def __str__(self) -> str:
        return f'{self.frame} along a circle of radius {self.radius:.3g} m at {self.speed:.3g} m/s'

    def path(self, tree: Robot, laps: float | None = None) -> ToolPath:
        """Return the joint motion of a number of laps of the circle, all alike; None: all.

        Raises:
            TrajectoryError: The circle cannot be followed.
            SingularityError: The tool cannot be moved from the posture.
        """
        laps = self.laps if laps is None else laps
        circle = self.circle(laps)
        task = tool_task(tree, self.home, frame=self.frame)
        step = circle.length / self.speed / (laps * _KNOTS)
        return ToolPath(task, circle, self.speed, self.ramp, self.home, step, tolerance=1e-4)

    def circle(self, laps: float) -> Circle:
        """Return the curve of a number of laps."""
        numbers = (self.normal.tolist(), self.toward.tolist())
        return Circle(self.center.tolist(), self.radius, *numbers, laps)


def default_motion(
    tree: Robot,
    frame: str,
    obstacles: Obstacles | None = None,
    radii: Sequence[float] = _RADII,
) -> DefaultMotion:
    """Plan a posture and a circle.

    Args:
        tree: The robot.
        frame: Name of the frame to move.
        obstacles: Obstacles around the arm; collisions are checked if a library is available.
        radii: Radii to try, relative to the arm's length, the largest first.

    Raises:
        UnknownNameError: There is no such frame.
        NoCircleError: The frame cannot follow a circle, from any of the best postures.
        ModelError: No circle is feasible within the limits; gives the reason, the joint and what
            it needs.

    Cost: one second for six joints, several seconds for more. The result is deterministic.
    """
    tree.frame(frame)
    checker, remarks = make_checker(tree, obstacles)
    postures = comfortable_postures(tree, frame, checker)
    reasons: dict[str, None] = {}
    overloads: list[OverloadError] = []
    for _ in range(_BATCHES):
        batch = list(islice(postures, _BATCH_SIZE))
        for part, home in product(radii, batch):
            try:
                circle = _circle(tree, frame, home, part * arm_length(tree))
                planned = _plan(tree, circle, checker)
            except OverloadError as refusal:
                overloads.append(refusal)
            except (TrajectoryError, SingularityError) as refusal:
                reasons[str(refusal)] = None
            else:
                return replace(_short(tree, planned, checker), remarks=remarks)
        if overloads and not reasons:
            break  # other postures are not lighter
    if overloads:
        raise min(overloads, key=lambda overload: overload.share).of_model()
    problem, remedy = 'cannot follow a circle from its best postures', '; '.join([*reasons][-2:])
    raise NoCircleError(tree, frame, problem, remedy)


class NoCircleError(ModelError):
    """A frame cannot follow a circle because of the arm's structure."""

    def __init__(self, tree: Robot, frame: str, problem: str, remedy: str) -> None:
        hint = f'; choose another frame{chain_hint(arm_ends(tree))}'
        super().__init__(f'robot {tree.name!r}', f'its frame {frame!r} {problem}', remedy + hint)


class OverloadError(TrajectoryError):
    """A motion needs more effort than a joint may use.

    Attributes:
        share: The largest share of an effort limit.

    Args:
        tree: The robot.
        share: See above.
        joint: Index of the joint.
    """

    def __init__(self, tree: Robot, share: float, joint: int) -> None:
        self.share, name, limit = share, tree.joint_names[joint], tree.effort_limit[joint]
        unit = 'N' if tree.joint_is_prismatic[joint] else 'N m'
        super().__init__(
            f'joint {name!r}',
            f'needs {share * limit:.3g} {unit} even slowly, its effort limit is {limit:g} {unit}',
            f'at most {EFFORT_SHARE:.0%} of it are used; raise it, or lock the joint'
            + chain_hint(arm_ends(tree)),
        )

    def of_model(self) -> ModelError:
        """Return the same as an error of the model."""
        return ModelError(self.culprit, self.problem, self.remedy)


def _short(tree: Robot, motion: DefaultMotion, checker: CollisionChecker | None) -> DefaultMotion:
    """Return a motion of 5 to 15 s: more laps, or a smaller circle from the same posture."""
    for part in _RADII:
        if motion.duration <= LONGEST:
            break
        radius = part * arm_length(tree)
        if radius < motion.radius:
            smaller = _circle(tree, motion.frame, motion.home, radius)
            with suppress(TrajectoryError, SingularityError):
                motion = min(motion, _plan(tree, smaller, checker), key=lambda one: one.duration)
    lap = (motion.duration - motion.ramp) / motion.laps
    return replace(motion, laps=max(motion.laps, float(math.ceil((SHORTEST - motion.ramp) / lap))))


def _circle(tree: Robot, frame: str, home: Array, radius: float) -> DefaultMotion:
    """Return a circle from a posture, in the plane in which the frame moves most easily.

    Raises:
        NoCircleError: The frame moves along a line only.
    """
    point, directions, sizes = easy_directions(tree, home, frame)
    if len(sizes) < 2 or sizes[1] < STILL:
        raise NoCircleError(tree, frame, 'moves along a line only', 'use kind sine or waypoints')
    toward, normal = directions[:, 0], directions[:, 2]
    center = point - radius * toward
    return DefaultMotion(home, frame, center, radius, normal, toward, math.sqrt(radius))


def _plan(tree: Robot, motion: DefaultMotion, checker: CollisionChecker | None) -> DefaultMotion:
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


def _check_reach(tree: Robot, motion: DefaultMotion, checker: CollisionChecker | None) -> None:
    """Check that the arm can reach and hold points of a circle without collisions.

    Raises:
        TrajectoryError: A point is not feasible, with the reason.
        SingularityError: The tool cannot be moved from the posture.
    """
    task, circle = tool_task(tree, motion.home, frame=motion.frame), motion.circle(1.0)
    load, q = Load(tree), motion.home
    for s in np.linspace(0.0, circle.length, _POINTS, endpoint=False):
        try:
            q = task.solve(np.array(circle.at(float(s))[0], dtype=float), q)
        except UnreachableError as refusal:
            raise TrajectoryError('circle', str(refusal), 'move it') from refusal
        share, i = load.heaviest(q)
        if share > EFFORT_SHARE:
            raise OverloadError(tree, share, i)
        if checker is not None:
            checker.require_free('circle', [q])


def _slowed(tree: Robot, motion: DefaultMotion, path: ToolPath) -> DefaultMotion:
    """Return the motion slowed down to the permitted fractions of velocity and effort limits."""
    slow, velocity, effort = slowed(tree, path, _SLOWEST / motion.speed)
    return replace(
        motion,
        speed=slow * motion.speed,
        ramp=motion.ramp / slow,
        velocity_share=velocity,
        effort_share=effort,
    )


def slowed(tree: Robot, path: Trajectory, least: float) -> tuple[float, float, float]:
    """Return by which factor a path must be slowed down, and the shares of the limits it needs.

    Args:
        tree: The robot.
        path: The motion at full speed.
        least: The smallest factor.

    Returns:
        The factor, at most 1; the largest shares of a velocity limit and of an effort limit.

    Raises:
        OverloadError: It needs too much effort at any speed.
        TrajectoryError: A joint is too fast even so.
    """
    q, v, a = path.table(np.linspace(0.0, path.duration, _SAMPLES))
    model, terms = make_formulation('newton_euler', tree), JointTerms.of(tree)
    gravity = np.array([model.gravity_forces(row) for row in q])
    moving = np.array([model.inverse_dynamics(*rows) for rows in zip(q, v, a, strict=True)])
    speeds, slow, shares = np.max(np.abs(v), axis=0) / tree.velocity_limit, 1.0, np.zeros(tree.n)
    velocity = float(speeds.max())
    while slow >= least:
        load = gravity + slow**2 * (moving - gravity)
        tau = load + terms.effort(slow * v, slow**2 * a, load)
        shares = np.max(np.abs(tau), axis=0) / tree.effort_limit
        if slow * velocity <= VELOCITY_SHARE and shares.max() <= EFFORT_SHARE:
            return slow, slow * velocity, float(shares.max())
        slow *= _SLOWER
    joint = int(np.argmax(shares))
    if shares[joint] > EFFORT_SHARE:
        raise OverloadError(tree, float(shares[joint]), joint)
    name = tree.joint_names[int(np.argmax(speeds))]
    raise TrajectoryError('motion', f'is too fast for joint {name!r}', 'raise its velocity limit')
