# SPDX-License-Identifier: Apache-2.0
"""Plan the trajectory that a node's parameters describe, from the current arm position."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.constraints.curves import Circle, Curve, Line
from robot_dynamics_ros.constraints.signals import offset_duration
from robot_dynamics_ros.control.trajectories.points import trajectory_of_file
from robot_dynamics_ros.control.trajectories.spline import JointSpline, Points
from robot_dynamics_ros.control.trajectories.trajectory import (
    Reference,
    Trajectory,
    check_limits,
)
from robot_dynamics_ros.dynamics.joint_terms import JointTerms
from robot_dynamics_ros.errors import (
    ParameterError,
    SingularityError,
    TrajectoryError,
    UnreachableError,
)
from robot_dynamics_ros.geometry.collisions import (
    CollisionChecker,
    Obstacles,
    make_checker,
    random_postures,
)
from robot_dynamics_ros.kinematics import inverse_kinematics
from robot_dynamics_ros.kinematics.tool_task import tool_task
from robot_dynamics_ros.messages import NANO
from robot_dynamics_ros.model import Robot, frame_pose
from robot_dynamics_ros.model.payload import PAYLOAD
from robot_dynamics_ros.model.robot_parameters import ROBOT
from robot_dynamics_ros.parameters import FixedParameter, Parameter, Values, checked, only, spread
from robot_dynamics_ros.planning.motions import Quintic, Sine, ToolPath, WavyCurve
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import compile_kernel

P, F = Parameter, FixedParameter
_AT_START = 1e-6  # rad or m: closer to the start, no approach is needed
_CHECK_PERIOD = 0.02  # s between postures checked for collisions
_RANDOM_STARTS = 12  # of the search for branches
_BRANCH_DISTANCE = 0.2  # minimum distance between branches, rad or m
_MAX_POINTS, _MAX_DURATION = 1e6, 1e5  # points in the message; s: about a minute of planning
_MIN_INTERVAL = 0.5e-9  # s between waypoints: 1 ns, as rounded
_LEAST_STEP = 1e-3  # sample periods from a point to the end; in less, quintics are rounding
_SHORTEST_S = 1.0  # of a motion of point_settings at full speed
_DEFAULT_SPEED = 1.0  # rad/s or m/s, if a description has no velocity limit
MARGIN = 0.9  # share of an effort limit beyond which a motion is remarked
_PIECES = 8  # into which a quintic between two points is divided to compute efforts
_APPROACH_SPEED = 0.5  # fraction of the velocity limits, at most


class SampledTrajectory(NamedTuple):
    """A sampled trajectory.

    Attributes:
        times_ns: Time of each point from the start, ns, length k.
        position, velocity, acceleration: Shape (k, n), SI units.
        approach: Duration of the approach before the requested motion, s.
        duration: Total duration including the approach, s.
        remarks: What was not checked; a joint that is near its effort limit.
        effort_share: Largest share of an effort limit that the motion needs by the model.
        heaviest: The joint that needs it.
    """

    times_ns: tuple[int, ...]
    position: Array
    velocity: Array
    acceleration: Array
    approach: float
    duration: float
    remarks: tuple[str, ...] = ()
    effort_share: float = 0.0
    heaviest: str = ''


def make_plan(tree: Robot, settings: Values, q: Array) -> SampledTrajectory:
    """Return the sampled motion that the parameters describe.

    For tool paths, ``home`` and other inverse-kinematics branches are tried if the current posture
    fails, for example because it is singular.

    Args:
        tree: The robot.
        settings: The parameters of ``MOTION`` by name; any kind except none.
        q: Current joint positions, shape (n,), rad or m.

    Raises:
        UnknownNameError: The kind is unknown; lists the known kinds.
        ParameterError: A value is invalid, or the motion is too long.
        TrajectoryError: The motion leaves the workspace or violates a limit; says where.
    """
    settings = checked(MOTION, settings, tree.n)
    (checker, remarks), refusals = _checker(tree, settings), list[TrajectoryError]()
    for posture in _postures(tree, settings, q):
        try:
            plan = _planned(tree, settings, q, posture, checker)
            break
        except TrajectoryError as refusal:
            refusals.append(refusal)
        except (SingularityError, UnreachableError) as refusal:
            remedy = 'move the arm first, by kind point, or set home'
            refusals.append(TrajectoryError('tool path', str(refusal), remedy))
    else:
        raise refusals[0]
    if plan.effort_share > MARGIN:
        remarks += (
            f'joint {plan.heaviest!r} needs {plan.effort_share:.0%} of its effort limit: the '
            'controller slows the motion down there, or the arm leaves its path; lower '
            'speed_scale, or give smoother points with velocities',
        )
    return plan._replace(remarks=remarks)


def check_motion(tree: Robot, settings: Values) -> None:
    """Check what does not depend on where the arm is; arguments and errors of ``make_plan``."""
    settings = checked(MOTION, settings, tree.n)
    if settings['kind'] not in _OF_TOOL:
        KINDS[settings['kind']](tree, settings, np.zeros(tree.n))


def is_possible(tree: Robot, settings: Values, q: Array) -> bool:
    """Return whether an arm at q is within its limits and free; arguments of ``make_plan``."""
    checker = _checker(tree, checked(MOTION, settings, tree.n))[0]
    inside = (q >= tree.reference_lower) & (q <= tree.reference_upper)
    return bool(inside.all()) and (checker is None or checker.find_close_pair(q) is None)


def point_settings(
    tree: Robot, q: Array, goal: Mapping[str, float], share: float
) -> dict[str, Any]:
    """Return the parameters of a motion at a fraction of the velocity limits.

    Args:
        tree: The robot.
        q: Current joint positions, shape (n,), rad or m.
        goal: Final positions by joint; others stay, within their limits.
        share: Fraction of the velocity limits.

    Raises:
        UnknownNameError: The robot has no such joint.
    """
    end = np.clip(q, tree.reference_lower, tree.reference_upper)
    for name, position in goal.items():
        end[tree.joint_index(name)] = position
    way = tree.nearest_turn(end, q) - q
    seconds = offset_duration(way, tree.velocity_limits(_DEFAULT_SPEED))
    duration = max(seconds, share * _SHORTEST_S)
    return {'kind': 'point', 'goal': end.tolist(), 'duration_s': duration, 'speed_scale': share}


def circle_settings(
    tree: Robot, q: Array, frame: str, radius: float, share: float
) -> dict[str, Any]:
    """Return the parameters of a horizontal circle of a frame, inwards from its position.

    Args:
        tree: The robot.
        q: Current joint positions, shape (n,), rad or m.
        frame: Name of the frame.
        radius: Radius, m.
        share: Fraction of the default speed.
    """
    p = frame_pose(tree, q, frame).p_WF
    outward = np.array([p[0], p[1], 0.0]) / max(float(np.hypot(p[0], p[1])), 1e-9)
    return {
        'kind': 'circle',
        'tool_frame': frame,
        'radius': radius,
        'center': (p - radius * outward).tolist(),
        'toward': outward.tolist(),
        'speed_scale': share,
    }


def _planned(
    tree: Robot,
    settings: Values,
    q: Array,
    posture: Array,
    checker: CollisionChecker | None,
) -> SampledTrajectory:
    """Return the motion from q; a tool path starts on the branch of the posture."""
    kind, scale = settings['kind'], settings['speed_scale']
    motion = KINDS[kind](tree, settings, posture)
    start, approach, begin = motion.table(np.zeros(1))[0][0], None, 0.0
    if np.abs(start - q).max() > _AT_START:
        least = offset_duration(start - q, _APPROACH_SPEED * tree.velocity_limit)
        begin = max(settings['approach_s'], least)
        approach = Quintic(q, start, begin)
    _check_duration(settings, begin + motion.duration)
    end = (begin + motion.duration) / scale
    times_ns = _sample_times_ns(end, scale * settings['sample_rate'])
    times = np.array([*times_ns[:-1], end * NANO]) / NANO
    rows = np.array(motion.table(scale * times - begin))
    if approach is not None:
        first = scale * times < begin
        rows[:, first] = approach.table(scale * times[first])
    position, velocity, acceleration = rows[0], scale * rows[1], scale**2 * rows[2]
    spline = JointSpline(Points(times, position, velocity, acceleration))  # which is followed
    outside = np.maximum(tree.reference_lower - q, q - tree.reference_upper)
    check_limits(spline, tree, outside=np.maximum(outside, 0.0))
    if checker is not None:
        checked_at = np.append(np.arange(0.0, end, _CHECK_PERIOD / scale), end)
        checker.require_free(kind, spline.table(checked_at)[0])
    share, joint = _largest_effort(tree, spline, float(np.diff(times).min()) / _PIECES)
    return SampledTrajectory(
        times_ns, position, velocity, acceleration, begin / scale, end, (), share, joint
    )


def _sample_times_ns(end: float, rate: float) -> tuple[int, ...]:
    """Return the times of points at a constant rate, Hz, and of the end, s; in ns."""
    count = max(math.ceil(end * rate - _LEAST_STEP), 1)
    return (*(round(k * NANO / rate) for k in range(count)), round(end * NANO))


def _largest_effort(tree: Robot, spline: JointSpline, step: float) -> tuple[float, str]:
    """Return the largest share of an effort limit along a motion by the model, and its joint."""
    q, v, a = spline.table(spline.instants(step))
    rigid = compile_kernel(tree, outputs=('inverse_dynamics',)).batch('inverse_dynamics', q, v, a)
    shares = np.abs(rigid + JointTerms.of(tree).effort(v, a, rigid)) / tree.effort_limit
    most = shares.max(axis=0)
    return float(most.max()), tree.joint_names[int(most.argmax())]


def _check_duration(settings: Values, seconds: float) -> None:
    """Raise an error if a motion that takes this long at full speed, s, is too long to send."""
    name, rate = _DURATION_PARAMETER[settings['kind']], settings['sample_rate']
    points, duration = seconds * rate, seconds / settings['speed_scale']
    if points > _MAX_POINTS or duration > _MAX_DURATION:
        raise ParameterError(
            name,
            settings[name],
            f'the motion would last {duration:g} s and have {points:g} points by its sample_rate '
            f'of {rate:g} Hz; at most {_MAX_DURATION:g} s and {_MAX_POINTS:g} points are sent',
        )


def _checker(tree: Robot, settings: Values) -> tuple[CollisionChecker | None, tuple[str, ...]]:
    if not settings['avoid_collisions']:
        return None, ()
    return make_checker(tree, Obstacles.of(settings['boxes'], settings['ground_below']))


def _postures(tree: Robot, settings: Values, q: Array) -> Iterator[Array]:
    """Yield the current posture and, for a tool path, others from which it may begin."""
    yield q
    frame = settings['tool_frame']
    if settings['kind'] not in _OF_TOOL:
        return
    tree.frame(frame, 'tool_frame')
    pose, branches = frame_pose(tree, q, frame), [q]
    point = pose.p_WF
    if settings['kind'] == 'circle':
        point = np.array(circle_of(settings).at(0.0)[0], dtype=float)
        if len(settings['home']) == tree.n:
            branches.append(tree.nearest_turn(settings['home'], q))
            yield branches[-1]
    for start in random_postures(tree, _RANDOM_STARTS):
        rotation = pose.R_WF if tree.n >= 6 else None
        other = inverse_kinematics(tree, point, rotation, frame=frame, start=start, restarts=0)
        apart = min(np.abs(other.q - one).max() for one in branches)
        if other.converged and apart > _BRANCH_DISTANCE:
            branches.append(other.q)
            yield tree.nearest_turn(other.q, q)


def _point(tree: Robot, settings: Values, q: Array) -> Trajectory:
    goal = tree.nearest_turn(_per_joint(tree, settings, 'goal'), q)
    return Quintic(q, goal, settings['duration_s'])


def _waypoints(tree: Robot, settings: Values, q: Array) -> Trajectory:
    times, flat = settings['waypoint_times'], settings['waypoints']
    if len(flat) != len(times) * tree.n:
        raise ParameterError(
            'waypoints', f'{len(flat)} numbers', f'{len(times)} times {tree.n} numbers are needed'
        )
    points = [q]
    for point in np.array(flat, dtype=float).reshape(len(times), tree.n):
        points.append(tree.nearest_turn(point, points[-1]))
    spans = np.diff([0.0, *times])
    if not (spans > _MIN_INTERVAL).all():
        raise ParameterError(
            'waypoint_times', list(times), 'must increase strictly, by at least 1 ns, from above 0'
        )
    return JointSpline(Points.at_rest([0.0, *times], np.array(points)))


def _file(tree: Robot, settings: Values, q: Array) -> Trajectory:
    if not settings['file']:
        raise ParameterError('file', '', 'give the path of a YAML file with a JointTrajectory')
    start, continuous = Reference(tree.n), tree.joint_is_continuous
    start.position[:] = q
    return trajectory_of_file(settings['file'], tree.joint_names, continuous, start)


def _sine(tree: Robot, settings: Values, q: Array) -> Trajectory:
    amplitude, frequency, phase = (
        _per_joint(tree, settings, name) for name in ('amplitude', 'frequency', 'phase')
    )
    centre = q - amplitude * np.sin(phase)
    return Sine(centre, amplitude, frequency, phase, settings['ramp_s'], settings['duration_s'])


def _circle(tree: Robot, settings: Values, q: Array) -> Trajectory:
    return tool_path(tree, settings, q, circle_of(settings))


def circle_of(settings: Values) -> Circle:
    """Return the circle of the parameters of kind circle."""
    names = ('center', 'radius', 'normal', 'toward', 'laps')
    return Circle(*(settings[name] for name in names))


def _line(tree: Robot, settings: Values, q: Array) -> Trajectory:
    frame = tree.frame(settings['tool_frame'], 'tool_frame')
    start = frame_pose(tree, q, frame).p_WF
    return tool_path(tree, settings, q, Line(start.tolist(), settings['line_to']))


def tool_path(
    tree: Robot, settings: Values, q: Array, curve: Curve, **accuracy: float
) -> ToolPath:
    """Return the motion of the tool along a curve by the parameters of kinds circle and line.

    Args:
        tree: The robot.
        settings: Parameters of ``MOTION`` by name.
        q: Joint positions that select the branch at the start, shape (n,), rad or m.
        curve: The curve.
        accuracy: ``step`` and ``tolerance`` of :class:`ToolPath`.

    Raises:
        UnknownNameError, ParameterError: There is no such frame, or the motion is too long.
        TrajectoryError, SingularityError: The curve cannot be followed.
    """
    if settings['height']:
        curve = WavyCurve(curve, settings['normal'], settings['height'], settings['waves'])
    tree.frame(settings['tool_frame'], 'tool_frame')
    angle = None if settings['keep_tool_angle'] else settings['tool_angle']
    _check_duration(settings, curve.length / settings['speed'])
    task = tool_task(tree, q, angle, settings['tool_frame'])
    return ToolPath(task, curve, settings['speed'], settings['ramp_s'], q, **accuracy)


def _per_joint(tree: Robot, settings: Values, name: str) -> Array:
    return np.array(spread(settings[name], tree.n))


#: Builder of each kind: takes the robot, the parameters and the current joint positions.
KINDS: dict[str, Callable[[Robot, Values, Array], Trajectory]] = {
    'point': _point,
    'waypoints': _waypoints,
    'sine': _sine,
    'file': _file,
    'circle': _circle,
    'line': _line,
}

_OF_TOOL = ('circle', 'line')
#: The parameter of each kind that determines its duration.
_DURATION_PARAMETER = {
    'point': 'duration_s',
    'waypoints': 'waypoint_times',
    'sine': 'duration_s',
    'file': 'file',
    'circle': 'laps',
    'line': 'speed',
}

_if_any = only('kind', *KINDS)

#: The motion; each kind reads its own parameters.
MOTION = (
    F('kind', 'point', 'Kind of motion: point, waypoints, sine, file (joint space); circle, line '
      '(tool path); none: send nothing, for a law without a reference.', choices=(*KINDS, 'none')),
    *only('kind', 'point', 'sine')(
        P('duration_s', 3.0, 'Duration.', 0.001, _MAX_DURATION, unit='s'),
    ),
    *only('kind', 'point')(
        P('goal', [0.0], 'Final joint positions; of continuous joints angles.',
          unit='rad or m', per_joint=True),
    ),
    *only('kind', 'waypoints')(
        P('waypoints', [0.0], 'Joint positions, rad or m, point by point in one list; the '
          'arm stops at each point.'),
        P('waypoint_times', [0.0], 'Time of each waypoint from the start.', unit='s'),
    ),
    *only('kind', 'file')(
        P('file', '', 'YAML file with the fields of a JointTrajectory; if its first point is '
          'after time 0, the motion starts where the arm is; for example an output of the command '
          'excite.'),
    ),
    *only('kind', 'sine')(
        P('amplitude', [0.1], 'Amplitude.', unit='rad or m', per_joint=True),
        P('frequency', [0.5], 'Frequency, Hz.', per_joint=True),
        P('phase', [0.0], 'Phase, rad, of at most two turns.', -12.567, 12.567, per_joint=True),
    ),
    *only('kind', 'circle')(
        P('center', [0.0, 0.0, 0.0], 'Centre in the base frame.', unit='m', size=3),
        P('radius', 0.1, 'Radius, m.', 0.0001, 100.0),
        P('toward', [1.0, 0.0, 0.0], 'Direction from the centre to the start point.', size=3),
        P('laps', 1.0, 'Number of laps.', 0.001, 1e6),
        P('home', [0.0], 'Posture near the start of the circle that is taken if the circle is not '
          'possible from the current one, rad or m, one per joint; a single number: none.',
          per_joint=True),
    ),
    *only('kind', 'line')(
        P('line_to', [0.0, 0.0, 0.0], 'End point in the base frame, m; the line starts at the '
          'current tool position.', size=3),
    ),
    *only('kind', *_OF_TOOL)(
        P('normal', [0.0, 0.0, 1.0], 'Axis of a circle; the motion is counterclockwise about it '
          '(right-hand rule). Direction of height.', size=3),
        P('height', 0.0, 'Peak height of the waves along normal.', -10.0, 10.0, unit='m'),
        P('waves', 1.0, 'Number of waves (rise and fall) along the path.', 0.0, 1e6),
        P('speed', 0.2, 'Speed along the path, without its waves.', 0.0001, 100.0, unit='m/s'),
        P('tool_frame', 'tool', 'Name of the frame that follows the path, including its '
          'prefix.'),
        P('keep_tool_angle', True, 'Keep the current tool angle instead of tool_angle.'),
    ),
    *only('kind', *_OF_TOOL, 'sine')(
        P('ramp_s', 0.5, 'Duration of the ramp at the start and at the end.',
          0.001, 1000.0, unit='s'),
    ),
    *only('keep_tool_angle', False)(
        P('tool_angle', 0.0, 'Yaw of the tool (SCARA) or its pitch (four-joint arm).', -6.284,
          6.284, unit='rad'),
    ),
    *_if_any(
        P('avoid_collisions', True, 'Reject a motion with less than 5 mm distance to the ground '
          'or a box, or 0.5 mm between links; requires coal, installed with Pinocchio.'),
        P('boxes', [0.0], 'Obstacle boxes: centre and size of each in the base frame, six numbers '
          'per box; a single number: none.', unit='m'),
        P('ground_below', 0.0, 'Distance of the ground below the base frame and below all fixed '
          'links.', -100.0, 100.0, unit='m'),
        P('approach_s', 2.0, 'Shortest duration of the approach from the current position to the '
          'start; longer where a joint would exceed half of its velocity limit.', 0.01, 1000.0,
          unit='s'),
        P('speed_scale', 1.0, 'Speed factor of the whole motion, including the approach; 0.25 for '
          'a first test.', 0.01, 1.0),
        P('sample_rate', 100.0, 'Trajectory points per second at full speed.', 1.0, 10000.0,
          unit='Hz'),
    ),
)  # fmt: skip

#: When the motion is sent, and the peers it waits for.
SENDING = (
    *_if_any(
        P('start_time_s', 0.0, 'Time on the node clock at which the motion starts, s; 0: '
          'start_delay_s from now.', 0.0, 2.0**31 - 1.0),
        P('start_delay_s', 0.5, 'Time from sending to the start of the motion.', 0.0, 1e6,
          unit='s'),
    ),
    F('controller', 'controller', 'Name of the controller node.'),
    F('state_topic', 'joint_states', 'Topic with the initial state in names and units of the '
      'model; controller/reference if the driver has other names, signs or units.'),
    P('confirm', True, 'Wait until the controller is active and has accepted the trajectory; set '
      'to false for controllers without ~/trajectory_status.'),
    P('ready_services', [''], 'Trigger services that must succeed before the trajectory is sent, '
      'such as recorder/ready.'),
    P('simulator', 'simulator', 'Name of the simulator node.'),
    P('unpause_simulator', False, 'Unpause the simulator at the end of the sequence.'),
    P('wait', False, 'Stay until the motion has ended; exit code 1 unless it was reached.'),
    P('end_simulator', False, "Set the simulator's end_time_s to settle_s after the motion: then "
      'it pauses, or exits if its on_end is exit. With wait, the node stays until then.'),
    P('settle_s', 0.5, 'Simulated time after the end of the motion.', 0.0, 1e6, unit='s'),
    P('timeout_s', 60.0, 'Longest wait for any one peer.', 0.1, 1e6, unit='s'),
    F('exit_when_done', True, 'Exit once everything has been sent.'),
)  # fmt: skip

#: With the payload that the arm carries, for its efforts.
TRAJECTORY = (*ROBOT, *MOTION, *SENDING, *PAYLOAD)
