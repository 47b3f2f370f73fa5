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
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice, product
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.control.trajectories.trajectory import Trajectory
from robot_dynamics_ros.dynamics.joint_terms import JointTerms
from robot_dynamics_ros.errors import (
    MechanismError,
    ModelError,
    SingularityError,
    TrajectoryError,
    UnreachableError,
)
from robot_dynamics_ros.geometry.collisions import CollisionChecker, Obstacles, make_checker
from robot_dynamics_ros.kinematics.tool_task import ranges, tool_task
from robot_dynamics_ros.model import Robot, frame_jacobian, frame_pose
from robot_dynamics_ros.model.arm import chain_hint
from robot_dynamics_ros.parameters import Values, defaults
from robot_dynamics_ros.planning.postures import (
    STILL,
    arm_length,
    comfortable_postures,
    easy_directions,
    holding_shares,
)
from robot_dynamics_ros.planning.trajectory_plan import KINDS, MOTION, circle_of, tool_path
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import compile_kernel

VELOCITY_SHARE, EFFORT_SHARE = 0.5, 0.6  # largest fractions of the limits
SHORTEST, LONGEST = 5.0, 15.0  # duration of the motion, s
_BATCH_SIZE, _BATCHES = 8, 4  # postures per batch, for which all circles are tried; batches
_RADII = (0.2, 0.14, 0.1, 0.07, 0.05, 0.035, 0.025, 0.0175, 0.0125)  # relative to the arm's length
_LAPS, _RAMP = 2.0, 0.6  # turns; s
_SLOWER, _SLOWEST = 0.95, 0.02  # ratio of successive speeds; the lowest, of the full speed
_SAMPLES, _KNOTS = 100, 75  # of a motion; of a lap
_POINTS = 16  # points of a circle that are checked before its path is solved
_AMPLITUDE = 0.1  # of sines, of the range of a joint, at most one turn or 1 m
_PARTS = (1.0, 0.5, 0.25, 0.1, 0.04)  # of this amplitude
_FREQUENCY, _SINE_RAMP, _DURATION = 0.5, 1.0, 8.0  # of sines: Hz, s, s; at most, at least, about
_UNLIMITED = 1e9  # rad/s or m/s, of a joint without a velocity limit


class DefaultMotion(NamedTuple):
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
        return self._replace(settings=self.settings | settings)

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


def duration_of(settings: Values) -> float:
    """Return the duration of a motion without its approach, s; parameters as of an own arm."""
    if settings['kind'] == 'sine':
        return float(settings['duration_s'])
    return circle_of(settings).length / float(settings['speed']) + float(settings['ramp_s'])


def described(settings: Values) -> str:
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
        ModelError, TrajectoryError: Nothing is feasible within the limits; gives the reason.
    """
    try:
        return default_motion(tree, frame, obstacles)
    except NoCircleError as error:
        checker, remarks = make_checker(tree, obstacles)
        planned, refusals = _search(tree, frame, _sines, _PARTS, 1, checker)
        if planned is None:
            raise refusals[-1] from error
        return planned._replace(remarks=(f'{error}; the joints move instead', *remarks))


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
    circle = partial(_circle, checker)
    planned, refusals = _search(tree, frame, circle, radii, _BATCHES, checker)
    if planned is None:
        problem, reasons = 'cannot follow a circle from its best postures', map(str, refusals)
        raise NoCircleError(tree, frame, problem, '; '.join([*dict.fromkeys(reasons)][-2:]))
    laps, ramp = planned.settings['laps'], planned.settings['ramp_s']
    lap = (planned.duration - ramp) / laps
    most = max(laps, float(math.ceil((SHORTEST - ramp) / lap)))
    return planned.using(laps=most)._replace(remarks=remarks)


def _search(
    tree: Robot,
    frame: str,
    make: Callable[[Robot, str, Array, float], DefaultMotion],
    parts: Sequence[float],
    batches: int,
    checker: CollisionChecker | None,
) -> tuple[DefaultMotion | None, list[Exception]]:
    """Return the first feasible motion of at most 15 s, else the shortest; and why not others.

    Args:
        tree: The robot.
        frame: Name of the tool frame.
        make: Returns a motion from a posture, of a size, at full speed.
        parts: Sizes to try for all postures of a batch, the largest first.
        batches: Number of batches of postures, of which the first with a motion decides.
        checker: Collision checker; None: collisions are not checked.

    Raises:
        UnknownNameError: There is no such frame.
        ModelError: There is no posture, or the motions from all of them need too much effort.
    """
    tree.frame(frame)
    postures = comfortable_postures(tree, frame, checker)
    refusals, overloads = list[Exception](), list[OverloadError]()
    for _ in range(batches):
        feasible = list[DefaultMotion]()
        for part, home in product(parts, list(islice(postures, _BATCH_SIZE))):
            try:
                feasible.append(_slowed(tree, make(tree, frame, home, part), checker))
            except OverloadError as refusal:
                overloads.append(refusal)
            except (TrajectoryError, SingularityError, UnreachableError, MechanismError) as reason:
                refusals.append(reason)
            else:
                if feasible[-1].duration <= LONGEST:
                    return feasible[-1], refusals
        if feasible:
            return min(feasible, key=lambda motion: motion.duration), refusals
        if overloads and not refusals:
            break  # other postures are not lighter
    if overloads:
        worst = min(overloads, key=lambda overload: overload.share)
        raise ModelError(worst.culprit, worst.problem, worst.remedy)
    return None, refusals


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


def _circle(
    checker: CollisionChecker | None, tree: Robot, frame: str, home: Array, part: float
) -> DefaultMotion:
    """Return a circle from a posture, in the plane in which the frame moves most easily.

    Its radius is a part of the arm's length.

    Raises:
        NoCircleError: The frame moves along a line only.
        OverloadError: A drive cannot hold a point of it.
        TrajectoryError: The joints are too slow for any circle, or it collides.
        UnreachableError, SingularityError: A point of it cannot be reached.
    """
    point, directions, sizes = easy_directions(tree, home, frame)
    if len(sizes) < 2 or sizes[1] < STILL:
        raise NoCircleError(tree, frame, 'moves along a line only', 'use kind sine or waypoints')
    toward, radius = directions[:, 0], part * arm_length(tree)
    speed = math.sqrt(radius)
    reach = np.linalg.norm(frame_jacobian(tree, home, frame)[:3], axis=0)
    # Of the tool, by each joint alone.
    speeds = VELOCITY_SHARE * reach * tree.velocity_limits(_UNLIMITED)
    if speeds.sum() < _SLOWEST * speed:  # before any path is solved
        raise _too_fast(tree, int(np.argmax(speeds)))
    settings = {
        'kind': 'circle',
        'center': (point - radius * toward).tolist(),
        'radius': radius,
        'normal': directions[:, 2].tolist(),
        'toward': toward.tolist(),
        'laps': _LAPS,
        'home': np.round(home, 9).tolist(),
        'speed': speed,
        'ramp_s': _RAMP,
        'tool_frame': frame,
    }
    task, curve, way = tool_task(tree, home, frame=frame), circle_of(settings), [home]
    for s in np.linspace(0.0, curve.lap, _POINTS, endpoint=False):
        way.append(task.solve(np.array(curve.at(float(s))[0], dtype=float), way[-1]))
    shares = holding_shares(tree, np.array(way)).max(axis=0)
    if shares.max() > EFFORT_SHARE:
        raise OverloadError(tree, float(shares.max()), int(shares.argmax()))
    if checker is not None:
        checker.require_free('circle', way)
    return DefaultMotion(home, frame, settings, point, toward, radius, speed)


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
    motion = DefaultMotion(home, frame, settings, point, toward, 0.0, 0.0)
    times = np.linspace(0.0, _DURATION, _SAMPLES)
    points = [frame_pose(tree, q, frame).p_WF for q in motion.path(tree).table(times)[0]]
    steps = np.linalg.norm(np.diff(points, axis=0), axis=1)
    size = toward.any() * float(np.linalg.norm(points - point, axis=1).max())
    return motion._replace(size=size, speed=float(steps.max()) / times[1])


def _slowed(tree: Robot, motion: DefaultMotion, checker: CollisionChecker | None) -> DefaultMotion:
    """Return a motion at a speed within the permitted fractions of the limits.

    Raises:
        OverloadError: It needs too much effort at any speed.
        TrajectoryError: A joint is too fast even slowly, or it cannot be followed, or collides.
        SingularityError: The tool cannot be moved from the posture.
    """
    path = motion.using(laps=1.0).path(tree)  # all laps are alike
    q, v, a = path.table(np.linspace(0.0, path.duration, _SAMPLES))
    terms, model = JointTerms.of(tree), compile_kernel(tree, outputs=('inverse_dynamics',))
    gravity, moving = (model.batch('inverse_dynamics', q, k * v, k * a) for k in (0.0, 1.0))
    speeds, slow = np.max(np.abs(v), axis=0) / tree.velocity_limit, 1.0
    while True:
        load = gravity + slow**2 * (moving - gravity)
        tau = load + terms.effort(slow * v, slow**2 * a, load)
        shares = np.max(np.abs(tau), axis=0) / tree.effort_limit
        velocity, effort = slow * float(speeds.max()), float(shares.max())
        if velocity <= VELOCITY_SHARE and effort <= EFFORT_SHARE:
            break
        slow *= _SLOWER
        if slow < _SLOWEST:
            if effort > EFFORT_SHARE:
                raise OverloadError(tree, effort, int(np.argmax(shares)))
            raise _too_fast(tree, int(np.argmax(speeds)))
    if checker is not None:
        checker.require_free('motion', q)
    ramp = motion.settings['ramp_s'] / slow
    if motion.settings['kind'] == 'sine':
        frequency = slow * _FREQUENCY
        duration = max(1, round(_DURATION * frequency)) / frequency + ramp
        motion = motion.using(frequency=[frequency], ramp_s=ramp, duration_s=duration)
    else:
        motion = motion.using(speed=slow * motion.speed, ramp_s=ramp)
    speed = slow * motion.speed
    return motion._replace(speed=speed, velocity_share=velocity, effort_share=effort)


def _too_fast(tree: Robot, joint: int) -> TrajectoryError:
    name = tree.joint_names[joint]
    problem = f'is too fast for joint {name!r}'
    return TrajectoryError('motion', problem, 'raise its velocity limit')
