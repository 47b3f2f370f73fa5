# SPDX-License-Identifier: Apache-2.0
"""Plausibility checks: recording against robot model, and identified against nominal model."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.estimation.filtering import moving_joints
from robot_dynamics_ros.identification.identify import Identification
from robot_dynamics_ros.identification.preparation import effort_source, equal_intervals
from robot_dynamics_ros.identification.regressor import inertial_parameters, regressor
from robot_dynamics_ros.identification.validation import Residuals
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.spatial.linear_algebra import correlation
from robot_dynamics_ros.spatial.scalar import Array

_STATES = 4000  # states of a recording that are checked
_OUTSIDE = 0.2  # share of the states beyond a limit above which the recording is rejected
_MARGIN = 0.05  # margin at the position limits, of a joint's range
_TOO_FAST = 2.0  # times the velocity limit
_ALIKE, _UNLIKE = 0.9, 0.6  # correlations
_SAME = 0.2  # relative tolerance between velocities and derivatives of positions
_CURRENT = 0.3  # of the gravity effort: lower measured efforts are in another unit
_HEAVY = 0.3  # of the largest gravity variation of a joint: not masked by friction
_CARRIES = 0.1  # of the largest gravity variation of a joint: minimum to check units
_TOTAL = (0.5, 1.6)  # plausible range of the arm's mass, relative to nominal
_LINK = (0.2, 3.0)  # plausible range of a link's mass, relative to nominal;
_GROWN = 0.25  # exceeding it matters above this increase, relative to the arm's mass
_UNEXPLAINED = 60.0  # percent of the effort
_REACH = 1.5  # maximum distance of the centre of mass from its joint, in link sizes


class StillError(RecordingError):
    """Too few joints move in this part of a recording; a later part may be usable."""


def check_recording(
    recording: Recording, tree: RobotTree, effort: str = 'auto', *, currents: bool = False
) -> None:
    """Reject a recording that cannot be of this robot in SI units.

    Args:
        recording: The recording, in the units and signs of the model.
        tree: The robot.
        effort: One of ``EFFORTS``.
        currents: Whether efforts are currents with unknown torque constants.

    Raises:
        RecordingError: Names the joint, the problem and its possible cause.
        StillError: Fewer than two joints move.
        UnknownNameError: A joint was not recorded.
    """
    run = max(equal_intervals(recording, tree, effort), key=len)
    step = max(1, len(run.time) // _STATES)
    moves = moving_joints(run.q, run.v)
    _check_efforts(run.effort, moves, tree)
    _check_units(run.q, run.v, tree)
    _check_motion(run.q, run.v, run.period, moves, tree)
    if effort_source(recording, effort) == 'measured':
        slopes = _check_load(run.q[::step], run.v[::step], run.effort[::step], tree)
        if not currents:
            _check_size(slopes)


def _refuse(joint: str, problem: str, remedy: str) -> None:
    raise RecordingError(f'joint {joint!r} of the recording', problem, remedy)


def _check_efforts(effort: Array, moves: Array, tree: RobotTree) -> None:
    known = np.isfinite(effort)
    if not known.any():
        raise RecordingError(
            'the recording',
            'holds no efforts (all NaN)',
            'record commands, or states with efforts',
        )
    if not np.where(known, effort, 0.0).any():
        raise RecordingError(
            'the recording', 'has zero efforts only', 'record the actual efforts of the drives'
        )
    for i, name in enumerate(tree.joint_names):
        if not known[:, i].any():
            _refuse(name, 'has no effort (all NaN)', 'record the effort of every joint')
        if moves[i] and not np.nan_to_num(effort[:, i]).any():
            _refuse(name, 'moves, but its effort is always 0', 'record the effort of its drive')


def _check_units(q: Array, v: Array, tree: RobotTree) -> None:
    lower, upper = tree.position_lower, tree.position_upper
    margin = _MARGIN * tree.position_range
    limit = np.where(tree.velocity_limit > 0.0, tree.velocity_limit, np.inf)
    for i, name in enumerate(tree.joint_names):
        outside = (q[:, i] < lower[i] - margin[i]) | (q[:, i] > upper[i] + margin[i])
        unit = 'millimetres' if tree.prismatic[i] else 'degrees'
        if outside.mean() > _OUTSIDE:
            _refuse(
                name,
                f'is at {q[:, i].min():.4g} to {q[:, i].max():.4g}, its limits are {lower[i]:.4g} '
                f'to {upper[i]:.4g}',
                f'are these {unit}, or is it another joint, sign or zero? declare it with '
                '--driver_profile',
            )
        fast = float(np.percentile(np.abs(v[:, i]), 95.0))
        if fast > _TOO_FAST * limit[i]:
            _refuse(
                name,
                f'moves at {fast:.4g}, its limit is {limit[i]:.4g}',
                f'are these {unit} per second? declare it with --driver_profile',
            )


def _check_motion(q: Array, v: Array, period: float, moves: Array, tree: RobotTree) -> None:
    if tree.n > 1 and moves.sum() < 2:
        names = ', '.join(np.array(tree.joint_names)[moves]) or 'no joint'
        raise StillError(
            'the recording',
            f'moves {names} only: the others cannot be identified',
            'record a motion of all joints (command excite designs one)',
        )
    rate = np.gradient(q, period, axis=0)
    for i in np.flatnonzero(moves).tolist():
        alike = [correlation(v[:, i], rate[:, j]) for j in range(tree.n)]
        other, name = int(np.argmax(np.abs(alike))), tree.joint_names[i]
        size = max(float(rate[:, i] @ rate[:, i]), np.finfo(float).tiny)
        factor = float(v[:, i] @ rate[:, i]) / size
        if abs(alike[other]) > _ALIKE and abs(alike[i]) < _UNLIKE:
            remedy = 'are joints in another order? name them with --driver_profile'
            _refuse(name, f'has the velocity of {tree.joint_names[other]}', remedy)
        if alike[i] < -_ALIKE:
            _refuse(name, 'has velocities of the wrong sign', 'correct it with --driver_profile')
        if alike[i] > _ALIKE and abs(factor - 1.0) > _SAME:
            _refuse(
                name,
                f'has velocities that are {factor:.4g} times the derivatives of its positions',
                'is one of them in another unit? declare it with --driver_profile',
            )


def _check_load(q: Array, v: Array, effort: Array, tree: RobotTree) -> list[float]:
    """Reject efforts that contradict the gravity effort of a joint.

    Returns:
        Slopes of the effort over the gravity effort, for joints where both correlate.
    """
    weight = regressor(tree, q, 0.0 * v, 0.0 * v) @ inertial_parameters(tree)
    effort = np.nan_to_num(effort)
    swing = np.ptp(weight, axis=0)
    carries = np.flatnonzero(swing > _CARRIES * max(float(swing.max()), np.finfo(float).tiny))
    slopes: list[float] = []
    if not float(swing.max()) > 0.0:
        return slopes
    for i in carries.tolist():
        alike = [correlation(effort[:, j], weight[:, i]) for j in range(tree.n)]
        other, name = int(np.argmax(np.abs(alike))), tree.joint_names[i]
        heavy = swing[i] > _HEAVY * swing.max()
        if heavy and abs(alike[other]) > _ALIKE and abs(alike[i]) < 0.5 * _UNLIKE:
            _refuse(
                name,
                f'carries a weight that the efforts of {tree.joint_names[other]} hold up',
                'are efforts in another order? name the joints with --driver_profile',
            )
        if heavy and alike[i] < -_ALIKE:
            _refuse(
                name,
                'has efforts that pull its weight down',
                'is their sign inverted, or gravity (--gravity)? see --driver_profile',
            )
        centred = weight[:, i] - weight[:, i].mean()
        if alike[i] > _UNLIKE:
            slopes.append(float(effort[:, i] @ centred) / float(centred @ centred))
    return slopes


def _check_size(slopes: list[float]) -> None:
    if slopes and (max(slopes) < _CURRENT or min(slopes) > 1.0 / _CURRENT):
        raise RecordingError(
            'the efforts of the recording',
            f'are {np.median(slopes):.2g} times what the weight of the arm requires',
            'are these amperes or percent (give the drive gains with --driver_profile), or is it '
            'another robot?',
        )


def implausible(identified: Identification, after: Residuals | None = None) -> list[str]:
    """Return the reasons why an identified model is implausible; empty if it is plausible.

    Args:
        identified: The identification.
        after: Its residuals on the validation recordings, if known.
    """
    nominal, tree = identified.plan.unknowns.tree, identified.tree
    total, said = float(nominal.mass.sum()), []
    ratio = float(tree.mass.sum()) / total
    if not _TOTAL[0] <= ratio <= _TOTAL[1]:
        said.append(f'the whole arm would weigh {ratio:.2g} times its nominal mass')
    for name, mass, before in zip(tree.link_names, tree.mass, nominal.mass, strict=True):
        low, high = _LINK
        grown = mass > high * before and mass - before > _GROWN * total
        if mass < low * before or grown:
            said.append(f'{name} would weigh {mass:.3g} kg, its nominal mass is {before:.3g} kg')
    for name, distance, size in _far_centres(nominal, tree):
        said.append(
            f'the centre of mass of {name} would be {distance:.2g} m from its joint, the link '
            f'reaches {size:.2g} m'
        )
    if after and after.worst > _UNEXPLAINED:
        joint = after.joints[int(np.nanargmax(after.percent))]
        said.append(f'{after.worst:.3g} % of the effort of {joint} remain unexplained')
    asked = 'check units, gains, the order of joints, gravity, the load and the description'
    return [f'the data do not match this robot: {"; ".join(said)}: {asked}'] if said else []


def _far_centres(nominal: RobotTree, tree: RobotTree) -> Iterator[tuple[str, float, float]]:
    """Yield links whose centre of mass would be far outside, as with wrong link lengths.

    The size of a link is the distance to its child joints, or to the end of its nominal mass
    distribution. Links without child joints are skipped: they may carry a tool of any length.

    Yields:
        Name, distance of the centre of mass from the joint, m, and size of the link, m.
    """
    for body in sorted({parent for parent in nominal.parent if parent >= 0}):
        joints = [k for k, parent in enumerate(nominal.parent) if parent == body]
        spread = math.sqrt(float(np.trace(nominal.inertia[body])) / (2.0 * nominal.mass[body]))
        nominal_end = float(np.linalg.norm(nominal.com[body])) + spread
        size = max(nominal_end, *(float(np.linalg.norm(nominal.p_PJ[k])) for k in joints))
        distance = float(np.linalg.norm(tree.com[body]))
        if distance > _REACH * size:
            yield nominal.link_names[body], distance, size
