# SPDX-License-Identifier: Apache-2.0
"""A recorded run as arrays by joint name, and its conversion to the names and units of a model.

Implements the options ``--recorded-joints`` and ``--driver-profile`` of all commands that read
bags.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from robot_dynamics_ros.control.drivers.driver_interface import DriverInterface
from robot_dynamics_ros.control.drivers.profile import (
    JOINT_EFFORT_UNITS,
    MOTOR_EFFORT_UNITS,
    NEED_CONSTANT,
    POSITION_UNITS,
    VELOCITY_UNITS,
    DriverProfile,
    JointProfile,
    load_driver_profile,
)
from robot_dynamics_ros.errors import ConfigurationError, RecordingError, known_name
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.joint_limits import TURN
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.spatial.validation import array

NANO = 1_000_000_000
LEAST_STATES = 16  #: in a row, without which nothing is told of a recording
#: Columns of a recording with a value for each joint.
PER_JOINT = (
    'position',
    'velocity',
    'effort',
    'reference_position',
    'reference_velocity',
    'measured_effort',
)
#: Efforts to use; 'auto' for each command's choice.
EFFORTS = ('auto', 'measured', 'commanded')
UNCONVERTED = 'efforts are in '  # begins the note on efforts in a unit that nothing converts
_COMPLETE = 0.9  # fraction of finite measured efforts from which they are used
ROUNDING_S = 1e-9  #: of times
_TOLD_S = 1e-6  # of times as texts name them
_PER_STATE = ('time', 'stamp_ns', 'arrival_ns', 'answer_ns')


def format_time(time: float) -> str:
    """Format a time, s, to the microsecond, also for times since 1970."""
    return f'{time:.6f}'.rstrip('0').rstrip('.') + ' s'


def format_duration(seconds: float) -> str:
    """Format a duration in µs, ms or s, to three digits before its point and without exponent."""
    if not np.isfinite(seconds):
        return '–'
    factor, unit = next(
        (pair for pair in ((1e6, 'µs'), (1e3, 'ms')) if abs(seconds) * pair[0] < 999.5), (1.0, 's')
    )
    value = factor * seconds
    return f'{value:.3g} {unit}' if abs(value) < 999.5 else f'{value:,.0f} {unit}'


def _nothing() -> Array:
    return np.zeros(0)


@dataclass(frozen=True, eq=False)
class Recording:
    """States, references and efforts at common timestamps.

    Row k holds the state at ``time[k]``, the reference at that instant and the effort commanded
    in response to that state; NaN where missing in the bag.

    Attributes:
        joints: Joint names, n of them.
        time: Timestamps of the states, shape (N,), s, increasing.
        position, velocity: Measured, shape (N, n), rad or m, rad/s or m/s.
        effort: Commanded, shape (N, n), N m or N.
        reference_position, reference_velocity: Shape (N, n), rad or m, rad/s or m/s.
        description: URDF text in the bag, or empty.
        notes: Remarks about the bag, one sentence each.
        measured_effort: Effort in the joint states, shape (N, n), N m or N; NaN if missing.
        stamp_ns: Exact timestamps of the states, shape (N,), int64, ns.
        arrival_ns: Receive time of each state, shape (N,), int64, ns; possibly on another clock
            than the timestamps.
        answer_ns: Receive time of each command, shape (N,), int64, ns; -1 if missing.
        parameters: Those of the controller that gave the reference, YAML text, or empty.
        carried: What a known payload adds to the inertial parameters of the bodies, shape
            (10 bodies,), whose effort identification subtracts; or empty.
        origin: Zero of the times that texts name, s, see ``span_origin``.

    Raises:
        ShapeError, ParameterError: What is measured, commanded or followed is no (N, n) numbers.
    """

    joints: tuple[str, ...]
    time: Array
    position: Array
    velocity: Array
    effort: Array
    reference_position: Array
    reference_velocity: Array
    description: str = ''
    notes: tuple[str, ...] = ()
    measured_effort: Array = field(default_factory=_nothing)
    stamp_ns: Array = field(default_factory=_nothing)
    arrival_ns: Array = field(default_factory=_nothing)
    answer_ns: Array = field(default_factory=_nothing)
    parameters: str = ''
    carried: Array = field(default_factory=_nothing)
    origin: float = 0.0

    def __post_init__(self) -> None:
        shape = len(self.time), len(self.joints)
        for name in PER_JOINT[:-1]:
            array(name, getattr(self, name), shape, finite=False)
        omitted = {
            'measured_effort': lambda: np.full(np.shape(self.position), np.nan),
            'stamp_ns': lambda: np.rint(np.asarray(self.time) * NANO).astype(np.int64),
            'arrival_ns': lambda: self.stamp_ns,
            'answer_ns': lambda: np.where(np.isfinite(self.effort).all(axis=1), self.stamp_ns, -1),
        }
        for name, values in omitted.items():
            if len(getattr(self, name)) != len(self.time):
                object.__setattr__(self, name, values())

    @property
    def has_measured(self) -> bool:
        """Whether nearly all efforts, or the only ones, were measured, and some are not zero."""
        known, commanded = np.isfinite(self.measured_effort), np.isfinite(self.effort).any(axis=0)
        least = _COMPLETE * len(known) * (known.any(axis=0) | commanded).sum() * commanded.any()
        return bool(known.sum() >= least and (known & (self.measured_effort != 0.0)).any())

    @property
    def period(self) -> float:
        """Usual time between two states, the median, s; 0 of fewer than two."""
        return float(np.median(np.diff(self.stamp_ns))) / NANO if len(self.stamp_ns) > 1 else 0.0

    @property
    def complete(self) -> Array:
        """Mask of the states with all positions and velocities, shape (N,)."""
        known = np.isfinite(self.position) & np.isfinite(self.velocity)
        return np.asarray(known.all(axis=1))

    def of_joints(self, joints: Sequence[str]) -> Recording:
        """Return the recording with the columns of the given joints, in that order.

        Raises:
            UnknownNameError: A joint was not recorded; the message lists the recorded ones.
        """
        if tuple(joints) == self.joints:
            return self
        names = (known_name('recorded joint', name, self.joints) for name in joints)
        columns = [*map(self.joints.index, names)]
        changed = {key: getattr(self, key)[:, columns] for key in PER_JOINT}
        return replace(self, joints=tuple(joints), **changed)

    def told(self, time: float) -> str:
        """Return a time of the recording, s, as texts name it, and options take it."""
        return format_time(time - self.origin)

    def between(self, start: float, end: float) -> Recording:
        """Return the rows with ``start <= time <= end``, s: since its origin, or since 1970.

        Times are compared to the microsecond, to which texts name them.

        Raises:
            RecordingError: There are no such rows.
        """
        start, end = times_of((start, end), self.origin)
        first = int(np.searchsorted(self.time, start - _TOLD_S))
        last = int(np.searchsorted(self.time, end + _TOLD_S, side='right'))
        if last <= first:
            spanned = ' to '.join(map(self.told, self.time[[0, -1]])) if len(self.time) else '0 s'
            bounds = ('from', start), ('to', end)
            part = [f'{word} {self.told(x)}' for word, x in bounds if math.isfinite(x)]
            raise RecordingError(
                f'the part {" ".join(part)}',
                'holds no state',
                f'the recording spans {spanned}: choose a part of it',
            )
        return self.rows(slice(first, last))

    def rows(self, rows: Array | slice) -> Recording:
        """Return the rows selected by a mask, indices or a slice."""
        if isinstance(rows, np.ndarray) and rows.dtype.kind == 'b' and rows.all():
            return self
        changed = {key: getattr(self, key)[rows] for key in (*_PER_STATE, *PER_JOINT)}
        return replace(self, **changed)


#: First and last second of a whole recording.
WHOLE = (-math.inf, math.inf)
_KINDS = POSITION_UNITS, VELOCITY_UNITS, JOINT_EFFORT_UNITS
#: Units that leave SI numbers as they are.
_SI = ('rad', 'm', 'rad/s', 'm/s', 'N m', 'N', 'motor N m', 1.0)
#: Later times are on a wall clock, not simulation time, s.
WALL_CLOCK = 1e6


def recorded_driver(
    profile: DriverProfile | None, joints: Sequence[str], tree: Robot
) -> DriverInterface | None:
    """Return the conversion from recorded to model units; None if SI by the same names.

    Args:
        profile: Driver profile, or None.
        joints: Recorded names of the model's joints, in model order, or empty.
        tree: The model.

    Raises:
        ConfigurationError: The profile does not fit this robot.
        RecordingError: There are more or fewer names than joints.
    """
    if profile:
        return DriverInterface(_as_currents(profile) if current_unit(profile) else profile, tree)
    if not joints:
        return None
    if len(joints) != tree.n:
        raise RecordingError(
            f'joints {", ".join(joints)}',
            f'are {len(joints)}, the robot has {tree.n}',
            f'name the recorded joint of each of {", ".join(tree.joint_names)}',
        )
    rows = (JointProfile(*names) for names in zip(tree.joint_names, joints, strict=True))
    return DriverInterface(DriverProfile('--recorded-joints', joints=tuple(rows)), tree)


def require_one_unit(profile: DriverProfile, declared: Mapping[str, Mapping[str, str]]) -> None:
    """Refuse units of a profile for numbers whose unit a table has declared already.

    Args:
        profile: Driver profile.
        declared: Units from which a table was converted to SI, by key of its columns and joint.

    Raises:
        ConfigurationError: A quantity would be converted twice; names the key and both units.
    """
    for row in profile.joints or (profile.defaults,):
        measured = 'measured_effort_unit' if row.measured_effort_unit else 'effort_unit'
        keys = {'position': 'position_unit', 'velocity': 'velocity_unit', 'effort': measured}
        for column, key in {**keys, 'command': 'effort_unit'}.items():
            own, units = getattr(row, key), {*declared.get(column, {}).values()}
            if own and own not in _SI and (twice := units - {*MOTOR_EFFORT_UNITS}):
                si = 'N m, or motor N m with a gear_ratio' if 'effort' in key else 'SI units'
                problem = f'is {own}, and the table declares {min(twice)}: converted twice'
                culprit = f'driver profile {profile.name!r}, {key}'
                raise ConfigurationError(culprit, problem, f'give {si}, or leave it out')


def require_units_of(
    tree: Robot, driver: DriverInterface | None, declared: Mapping[str, Mapping[str, str]]
) -> None:
    """Refuse units that a table declares for joints of the other kind, as degrees of a slide.

    Args:
        tree: The model.
        driver: The conversion to its joints; None if they have the same names.
        declared: See :func:`require_one_unit`.

    Raises:
        RecordingError: Names the joint, and the units that it may have.
    """
    joints = {row.name: row.joint for row in driver.profile.joints} if driver else {}
    for key, own in declared.items():
        for recorded, unit in own.items():
            joint = joints.get(recorded, recorded)
            kinds = next((x for x in _KINDS if unit in x and joint in tree.joint_names), {})
            slides = bool(kinds) and bool(tree.joint_is_prismatic[tree.joint_index(joint)])
            if kinds and kinds[unit][1] is not slides:
                known = ', '.join(x for x, (_, kind) in kinds.items() if kind is slides)
                raise RecordingError(
                    f'{key} of joint {joint!r} of the table',
                    f'is in {unit}, but the joint {"slides" if slides else "turns"}',
                    f'known: {known}; correct the name of its column, or give the units of all '
                    'joints in a YAML file (docs/recordings.md, "Tables of other loggers")',
                )


def current_unit(profile: DriverProfile | None) -> str:
    """Return the unit of efforts that cannot be converted: A, or rated current.

    Efforts stay currents if they are recorded as such and no joint has a torque constant.

    Args:
        profile: Driver profile, or None.

    Returns:
        Empty if efforts are N m or N at the joints.
    """
    rows = (profile.joints or (profile.defaults,)) if profile else ()
    units = {row.measured_effort_unit or row.effort_unit for row in rows}
    known = any(row.torque_constant for row in rows) or (profile and profile.transmissions)
    if not units or not units <= set(NEED_CONSTANT) or known:
        return ''
    return 'A' if units <= {'A', 'mA'} else 'rated'


def require_torques(profile: str) -> None:
    """Refuse efforts that cannot be converted, see :func:`current_unit`.

    Args:
        profile: Driver profile, or empty.

    Raises:
        ConfigurationError: Names the profile, and how to find a constant.
    """
    if unit := current_unit(load_driver_profile(profile) if profile else None):
        raise ConfigurationError(
            f'driver profile {profile!r}',
            f'is in {unit} without any torque_constant, so masses and torques cannot be known',
            'give each joint one; if it is rough, identify --gains UNLOADED LOADED --load KG '
            'corrects it by a known load',
        )


def _as_currents(profile: DriverProfile) -> DriverProfile:
    """Return the profile changed to convert efforts to currents, whatever the gear ratio."""
    first, *rows = (
        replace(row, torque_constant=1.0 / row.gear_ratio)
        for row in (profile.defaults, *profile.joints)
    )
    return replace(profile, defaults=first, joints=tuple(rows))


def span_origin(first: float) -> float:
    """Return the zero of a time span and of displayed times, s: the first one on a wall clock."""
    return first if first > WALL_CLOCK else 0.0


def times_of(span: tuple[float, float], first: float) -> tuple[float, float]:
    """Return the first and last time of a span of a recording whose first time is given, s."""
    origin = span_origin(first)
    start, end = (bound + origin * (bound < WALL_CLOCK) for bound in span)
    return start, end


def unwrapped(run: Recording, tree: Robot) -> Recording:
    """Return a recording whose continuous joints turn on instead of jumping by whole turns.

    Args:
        run: A recording with the joints of the model, in its order and units.
        tree: The model.

    Returns:
        The recording; its reference is that nearest to the positions.
    """
    columns = tree.joint_is_continuous
    if not columns.any():
        return run
    finite = np.isfinite(run.position).all(axis=1)
    position = run.position.copy()
    position[np.ix_(finite, columns)] = np.unwrap(position[np.ix_(finite, columns)], axis=0)
    turns = np.rint((position - run.reference_position) / TURN) * columns
    reference = run.reference_position + TURN * np.where(columns, turns, 0.0)
    return replace(run, position=position, reference_position=reference)


def in_model_units(recording: Recording, driver: DriverInterface | None) -> Recording:
    """Convert a recording to the model's joint names and SI units at the joints.

    The reference of our controller, which records its parameters, is in these units already.

    Args:
        recording: Recording in driver units; must contain the joints of the driver.
        driver: The conversion; None if the recording is in SI by the names of the model.

    Raises:
        UnknownNameError: A joint was not recorded; the message lists the recorded ones.
    """
    if driver is None:
        return recording
    known = {row.name: row.joint for row in driver.profile.joints}
    run = recording.of_joints(driver.names)
    reference, velocity = run.reference_position, run.reference_velocity
    if not run.parameters:
        reference, velocity = driver.position(reference), driver.velocity(velocity)
    return replace(
        run,
        joints=tuple(known.get(name, name) for name in driver.names),
        position=driver.position(run.position),
        velocity=driver.velocity(run.velocity),
        effort=driver.commanded_effort(run.effort),
        measured_effort=driver.measured_effort(run.measured_effort),
        reference_position=reference,
        reference_velocity=velocity,
    )
