# SPDX-License-Identifier: Apache-2.0
r"""Default posture and motion for an arm without a configuration, within its limits.

The motion is a circle of the tool, in the plane in which the tool moves most easily. The largest
feasible circle is used whose laps take at most 15 s, at a speed for which no joint needs more than
half of its velocity limit and 60 % of its effort limit. At s times the speed, the efforts are

.. math:: \tau(s) = g + s^2 (\tau - g) + s\,b v + \tau_c \tanh(s v / v_s).

One joint, a wrist whose tool moves on a sphere, or a tool on the last axis has no circle: its
joints move by sines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Any

import numpy as np

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
from robot_dynamics_ros.kinematics.tool_task import ranges, tool_task
from robot_dynamics_ros.model import Robot, frame_jacobian, frame_pose
from robot_dynamics_ros.model.arm import chain_hint
from robot_dynamics_ros.parameters import defaults
from robot_dynamics_ros.planning.postures import (
    STILL,
    Load,
    arm_length,
    at_rest,
    comfortable_postures,
    easy_directions,
)
from robot_dynamics_ros.planning.trajectory_plan import KINDS, MOTION, circle_of, tool_path
from robot_dynamics_ros.spatial.scalar import Array

VELOCITY_SHARE, EFFORT_SHARE = 0.5, 0.6  # largest fractions of the limits
SHORTEST, LONGEST = 5.0, 15.0  # duration of the motion, s
_BATCH_SIZE, _BATCHES = 8, 4  # postures per batch, for which all circles are tried; batches
_RADII = (0.2, 0.14, 0.1, 0.07, 0.05, 0.035, 0.025, 0.0175, 0.0125)  # relative to the arm's length
_LAPS, _RAMP = 2.0, 0.6  # turns; s
_SLOWEST = 5e-3  # m/s
_SLOWER = 0.95  # ratio of successive speeds
_SAMPLES, _KNOTS = 100, 75  # of a motion; of a lap
_POINTS = 16  # points of a circle that are checked before its path is solved
_AMPLITUDE = 0.1  # of sines, of the range of a joint, at most one turn or 1 m
_PARTS = (1.0, 0.5, 0.25, 0.1, 0.04)  # of this amplitude
_FREQUENCY, _SINE_RAMP, _DURATION = 0.5, 1.0, 8.0  # of sines: Hz, s, s; at most, at least, about
_LOWEST = 0.02  # Hz
_UNLIMITED = 1e9  # rad/s or m/s, of a joint without a velocity limit
_FASTER = 'raise its velocity limit'


@dataclass(frozen=True, eq=False)
class DefaultMotion:
    """Motion of the trajectory node that starts at a posture.

    Attributes:
        home: The posture, shape (n,), rad or m.
        frame: Name of the tool frame.
        settings: Parameters of the trajectory node: a circle of the tool or sines of the joints.
        point: Tool point at the posture, in the base frame, shape (3,), m.
        toward: Direction in which the tool moves most easily there, shape (3,); 0 if it stands
            still.
        size: Distance that the tool point moves easily along ``toward``, m; 0 if it stands still.
        speed: Largest speed of the tool point, m/s.
        velocity_share, effort_share: Largest fraction of the limits that the motion needs.
        remarks: Why there is no circle, and remarks on checks that were not possible.
    """

    home: Array
    frame: str
    settings: dict[str, Any]
    point: Array
    toward: Array
    size: float
    speed: float
    velocity_share: float = math.inf
    effort_share: float = math.inf
    remarks: tuple[str, ...] = ()

    @property
    def duration(self) -> float:
        """Duration of the motion, s."""
        return duration_of(self.settings)

    def using(self, **settings: Any) -> DefaultMotion:
        """Return the motion with other parameters."""
        return replace(self, settings=self.settings | settings)

    def path(self, tree: Robot) -> Trajectory:
        """Return the joint motion.

        Raises:
            TrajectoryError: The circle cannot be followed.
            SingularityError: The tool cannot be moved from the posture.
        """
        given = defaults(MOTION) | self.settings
        if given['kind'] == 'sine':
            return KINDS['sine'](tree, given, self.home)
        circle = circle_of(given)
        step = circle.length / given['speed'] / (given['laps'] * _KNOTS)
        return tool_path(tree, given, self.home, circle, step=step, tolerance=1e-4)


def duration_of(settings: Mapping[str, Any]) -> float:
    """Return the duration of a motion without its approach, s; parameters as of an own arm."""
    if settings['kind'] == 'sine':
        return float(settings['duration_s'])
    return circle_of(settings).length / float(settings['speed']) + float(settings['ramp_s'])


def described(settings: Mapping[str, Any]) -> str:
    """Return what a motion is, from the parameters of the trajectory node of an own arm."""
    given = {**defaults(MOTION), **settings}
    seconds = f'{duration_of(given):.3g} s'
    if given['kind'] == 'sine':
        largest = ', '.join(f'{x:.3g}' for x in given['amplitude'])
        waves = f'sines of {given["frequency"][0]:.3g} Hz and {largest} rad or m'
        return f'the joints by {waves}, {seconds}'
    waves = f', {given["waves"]:g} waves of {given["height"]:g} m' if given['height'] else ''
    return (
        f'{given["tool_frame"]} along a circle of radius {given["radius"]:.3g} m at '
        f'{given["speed"]:.3g} m/s{waves}, laps: {given["laps"]:g}, {seconds}'
    )


def plan_motion(tree: Robot, frame: str, obstacles: Obstacles | None = None) -> DefaultMotion:
    """Plan a posture and a circle of a frame, else sines of the joints.

    Args:
        tree: The robot.
        frame: Name of the tool frame.
        obstacles: Obstacles around the arm; collisions are checked if a library is available.

    Raises:
        UnknownNameError: There is no such frame.
        ModelError: Nothing is feasible within the limits; gives the reason.
    """
    try:
        return default_motion(tree, frame, obstacles)
    except NoCircleError as error:
        planned = sine_motion(tree, frame, obstacles)
        return replace(planned, remarks=(f'{error}; the joints move instead', *planned.remarks))


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
    checker, remarks = make_checker(tree, obstacles)
    refusals: list[Exception] = []
    for planned in _feasible(tree, frame, _circle, radii, _BATCHES, checker, refusals):
        return replace(_short(tree, planned, checker), remarks=remarks)
    problem, reasons = 'cannot follow a circle from its best postures', [*map(str, refusals)]
    raise NoCircleError(tree, frame, problem, '; '.join([*dict.fromkeys(reasons)][-2:]))


def sine_motion(tree: Robot, frame: str, obstacles: Obstacles | None = None) -> DefaultMotion:
    """Plan a posture and sines of the joints, with the largest amplitude that is feasible.

    Raises:
        UnknownNameError: There is no such frame.
        ModelError, TrajectoryError: No amplitude is feasible within the limits; gives the reason.
    """
    checker, remarks = make_checker(tree, obstacles)
    refusals, best = list[Exception](), None
    for planned in _feasible(tree, frame, _sines, _PARTS, 1, checker, refusals):
        if best is None or planned.duration < best.duration:
            best = replace(planned, remarks=remarks)
        if best.duration <= LONGEST:
            break
    if best is None:
        raise refusals[-1]
    return best


def _feasible(
    tree: Robot,
    frame: str,
    make: Callable[[Robot, str, Array, float], DefaultMotion],
    parts: Sequence[float],
    batches: int,
    checker: CollisionChecker | None,
    refusals: list[Exception],
) -> Iterator[DefaultMotion]:
    """Yield feasible motions, slowed down, from the best postures.

    Args:
        tree: The robot.
        frame: Name of the tool frame.
        make: Returns a motion from a posture, of a size.
        parts: Sizes to try for all postures of a batch, the largest first.
        batches: Number of batches of postures.
        checker: Collision checker; None: collisions are not checked.
        refusals: Receives why other motions are not feasible.

    Raises:
        UnknownNameError: There is no such frame.
        ModelError: There is no posture, or the motions from all of them need too much effort.
    """
    tree.frame(frame)
    postures = comfortable_postures(tree, frame, checker)
    overloads, found = list[OverloadError](), False
    for _ in range(batches):
        for part, home in product(parts, list(islice(postures, _BATCH_SIZE))):
            try:
                planned = _plan(tree, make(tree, frame, home, part), checker)
            except OverloadError as refusal:
                overloads.append(refusal)
            except (TrajectoryError, SingularityError) as refusal:
                refusals.append(refusal)
            else:
                found = True
                yield planned
        if overloads and not refusals:
            break  # other postures are not lighter
    if overloads and not found:
        worst = min(overloads, key=lambda overload: overload.share)
        raise ModelError(worst.culprit, worst.problem, worst.remedy)


class NoCircleError(ModelError):
    """A frame cannot follow a circle because of the arm's structure."""

    def __init__(self, tree: Robot, frame: str, problem: str, remedy: str) -> None:
        hint = f'; choose another frame{chain_hint(tree)}'
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
        unit, culprit = 'N' if tree.joint_is_prismatic[joint] else 'N m', f'joint {name!r}'
        super().__init__(
            culprit,
            f'needs {share * limit:.3g} {unit} even slowly, its effort limit is {limit:g} {unit}',
            f'at most {EFFORT_SHARE:.0%} of it are used; raise it, or lock the joint'
            + chain_hint(tree, culprit),
        )


def _short(tree: Robot, motion: DefaultMotion, checker: CollisionChecker | None) -> DefaultMotion:
    """Return a circle of 5 to 15 s: more laps, or a smaller one from the same posture."""
    for part in _RADII:
        if motion.duration <= LONGEST:
            break
        if part * arm_length(tree) < motion.size:
            smaller = _circle(tree, motion.frame, motion.home, part)
            with suppress(TrajectoryError, SingularityError):
                motion = min(motion, _plan(tree, smaller, checker), key=lambda one: one.duration)
    laps, ramp = motion.settings['laps'], motion.settings['ramp_s']
    lap = (motion.duration - ramp) / laps
    return motion.using(laps=max(laps, float(math.ceil((SHORTEST - ramp) / lap))))


def _circle(tree: Robot, frame: str, home: Array, part: float) -> DefaultMotion:
    """Return a circle from a posture, in the plane in which the frame moves most easily.

    Its radius is a part of the arm's length.

    Raises:
        NoCircleError: The frame moves along a line only.
    """
    point, directions, sizes = easy_directions(tree, home, frame)
    if len(sizes) < 2 or sizes[1] < STILL:
        raise NoCircleError(tree, frame, 'moves along a line only', 'use kind sine or waypoints')
    toward, radius = directions[:, 0], part * arm_length(tree)
    settings = {
        'kind': 'circle',
        'center': (point - radius * toward).tolist(),
        'radius': radius,
        'normal': directions[:, 2].tolist(),
        'toward': toward.tolist(),
        'laps': _LAPS,
        'home': np.round(home, 9).tolist(),
        'speed': math.sqrt(radius),
        'ramp_s': _RAMP,
        'tool_frame': frame,
    }
    return DefaultMotion(home, frame, settings, point, toward, radius, math.sqrt(radius))


def _sines(tree: Robot, frame: str, home: Array, part: float) -> DefaultMotion:
    """Return sines of all joints in phase from a posture, with a part of the amplitude."""
    point, directions, sizes = easy_directions(tree, home, frame)
    settings = {
        'kind': 'sine',
        'amplitude': (part * _AMPLITUDE * ranges(tree)).tolist(),
        'frequency': [_FREQUENCY],
        'phase': [0.0],
        'ramp_s': _SINE_RAMP,
        'duration_s': _DURATION,
    }
    toward = directions[:, 0] * (sizes[0] > STILL)
    return DefaultMotion(home, frame, settings, point, toward, 0.0, 0.0)


def _plan(tree: Robot, motion: DefaultMotion, checker: CollisionChecker | None) -> DefaultMotion:
    """Return the motion at a speed within the permitted fractions of the limits.

    Raises:
        TrajectoryError: It needs too much effort at any speed, cannot be followed, or collides.
        SingularityError: The tool cannot be moved from the posture.
    """
    if motion.settings['kind'] == 'sine':
        return _planned_sines(tree, motion, checker)
    reach = np.linalg.norm(frame_jacobian(tree, motion.home, motion.frame)[:3], axis=0)
    # Of the tool, by each joint alone.
    speeds = VELOCITY_SHARE * reach * tree.velocity_limits(_UNLIMITED)
    if speeds.sum() < _SLOWEST:  # before any path is solved
        name = tree.joint_names[int(np.argmax(speeds))]
        raise TrajectoryError('motion', f'is too fast for joint {name!r}', _FASTER)
    _check_reach(tree, motion, checker)
    path = motion.using(laps=1.0).path(tree)  # all laps are alike
    slow, velocity, effort = _slowed(tree, path, _SLOWEST / motion.speed)
    if checker is not None:
        checker.require_free('circle', path.table(path.instants(path.duration))[0])
    speed = slow * motion.speed
    motion = motion.using(speed=speed, ramp_s=_RAMP / slow)
    return replace(motion, speed=speed, velocity_share=velocity, effort_share=effort)


def _planned_sines(
    tree: Robot, motion: DefaultMotion, checker: CollisionChecker | None
) -> DefaultMotion:
    """Return sines at a frequency within the permitted fractions; errors as in :func:`_plan`."""
    slow, velocity, effort = _slowed(tree, motion.path(tree), _LOWEST / _FREQUENCY)
    frequency, ramp = slow * _FREQUENCY, _SINE_RAMP / slow
    duration = max(1, round(_DURATION * frequency)) / frequency + ramp
    motion = motion.using(frequency=[frequency], ramp_s=ramp, duration_s=duration)
    positions = motion.path(tree).table(np.linspace(0.0, duration, _SAMPLES))[0]
    if checker is not None:
        checker.require_free('motion', positions)
    points = np.array([frame_pose(tree, q, motion.frame).p_WF for q in positions])
    steps = np.linalg.norm(np.diff(points, axis=0), axis=1)
    return replace(
        motion,
        size=motion.toward.any() * float(np.linalg.norm(points - motion.point, axis=1).max()),
        speed=float(steps.max()) * _SAMPLES / duration,
        velocity_share=velocity,
        effort_share=effort,
    )


def _check_reach(tree: Robot, motion: DefaultMotion, checker: CollisionChecker | None) -> None:
    """Check that the arm can reach and hold points of a circle without collisions.

    Raises:
        TrajectoryError: A point is not feasible, with the reason.
        SingularityError: The tool cannot be moved from the posture.
    """
    task, circle = tool_task(tree, motion.home, frame=motion.frame), circle_of(motion.settings)
    load, q = Load(tree), motion.home
    for s in np.linspace(0.0, circle.lap, _POINTS, endpoint=False):
        try:
            q = task.solve(np.array(circle.at(float(s))[0], dtype=float), q)
        except UnreachableError as refusal:
            raise TrajectoryError('circle', str(refusal), 'move it') from refusal
        share, i = load.heaviest(at_rest(tree, q))
        if share > EFFORT_SHARE:
            raise OverloadError(tree, share, i)
        if checker is not None:
            checker.require_free('circle', [q])


def _slowed(tree: Robot, path: Trajectory, least: float) -> tuple[float, float, float]:
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
    raise TrajectoryError('motion', f'is too fast for joint {name!r}', _FASTER)
