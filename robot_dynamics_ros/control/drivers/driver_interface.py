# SPDX-License-Identifier: Apache-2.0
"""What is between a driver and a model: units, signs, order, gears, compensation; both ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar, cast

import numpy as np

from robot_dynamics_ros.control.drivers.filtered_derivative import FilteredDerivative
from robot_dynamics_ros.control.drivers.friction import DriveFriction
from robot_dynamics_ros.control.drivers.profile import (
    CommandProfile,
    DriverProfile,
    StateProfile,
    load_driver_profile,
)
from robot_dynamics_ros.control.drivers.transmission import Transmission
from robot_dynamics_ros.control.drivers.units import rows_of, scales_of
from robot_dynamics_ros.control.topics import FORCE, force_topics
from robot_dynamics_ros.errors import ConfigurationError, ParameterError, UnknownNameError
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.build import EffortLimit
from robot_dynamics_ros.model.robot_parameters import robot_from_parameters
from robot_dynamics_ros.parameters import Values
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.spatial.validation import array
from robot_dynamics_ros.symbolic.kernel import Kernel

_Loaded = TypeVar('_Loaded')


@dataclass(slots=True)
class ArmState:
    """A state of an arm, as a driver measures it; may be filled again with every state.

    Attributes:
        stamp_ns: Its timestamp, ns.
        arrival_ns: Time of its arrival on a steady clock, ns.
        position: Shape (n,), in the driver's units and the model's order; may contain invalid
            values, as all arrays.
        velocity: Shape (n,), in the same units and order.
        effort: Measured efforts, shape (n,), in the same units and order; None: not given.
    """

    stamp_ns: int
    arrival_ns: int
    position: Array
    velocity: Array
    effort: Array | None = None


class DriverInterface:
    r"""Converts states and efforts of a driver to those of a model, and back.

    ``read`` and ``write`` are for the tick of one controller; the functions of arrays take any
    number of instants, shape (..., n). All arrays except commands are in the model's order.
    Without a profile, the driver has the names and SI units of the model.

    A driver may add an effort itself: gravity, friction, both or none,

    .. math:: \tau_{driver} = g(q) + b\,v + \tau_c \tanh(v / v_s)

    A law computes the total motor effort; the command is that effort without the driver's share at
    the state of the tick. Validity: the driver's model equals that of the robot; its friction is
    that of the description.

    Attributes:
        profile: The driver profile; a default one if none is given.
        has_profile: Whether one is given; without one, states need no conversion.
        converts: Whether a command differs from the efforts of the model, by profile or order.
        names: The driver's name of each joint of the model.
        order: Index in the model of each effort of a command, shape (n,).
        position_scale, position_zero: ``q = scale * (x - zero)``, shape (n,); with the offsets of
            transmissions.
        velocity_scale: ``v = scale * y``, shape (n,).
        effort_scale, effort_offset: ``c = (tau + offset) / scale``, shape (n,).
        measured_scale: ``tau = scale * m``, shape (n,).
        command_limit: Largest effort of each joint that a command with its offset may hold, (n,).
        drive_limit: The same, and of shared motors in the rows of their joints, shape (n,).
        loads: From efforts of the joints to these and those of the drives, shape (2n, n).
        rate_limit: Largest rate of change of the effort, shape (n,), N m/s or N/s; infinite if
            unlimited.
        transmissions: Transmissions; the values of their joints above are those of the motors.
        differentiates: Whether velocities are derived from positions; ``v`` is not used then.
        q, v: The last state, shape (n,), rad or m and rad/s or m/s.
        compensates: Whether the driver adds an effort, see ``compensate``.
        share: The last effort added by the driver, shape (n,), N m or N.
        command: The last command, shape (n,), in the driver's units and order.
        overlaid: Positions sent with the command, shape (n,), in the driver's units and order; 0
            unless the form of the command is overlay.

    Args:
        profile: The driver profile; None: none.
        tree: The robot.
        joints: Order of the command without a profile; empty: the model's.
        form: Form of the command without a profile, parameter ``command_form``.

    Raises:
        ConfigurationError: The profile's joints are not those of the robot, a unit does not match
            the joint type, or a motor constant is missing or has no effect.
        UnknownNameError: The robot has no such joint.
        ParameterError: The order does not name every joint exactly once.
    """

    def __init__(
        self,
        profile: DriverProfile | None,
        tree: Robot,
        joints: Sequence[str] = (),
        form: str = 'group',
    ) -> None:
        self.has_profile, self._tree = profile is not None, tree
        if profile is None:
            command = CommandProfile(FORCE, form) if form == 'per_joint' else CommandProfile()
            profile = DriverProfile('', command=command, state=StateProfile(effort='total'))
        self.profile = profile
        self.q, self.v, self.share, self.command, self.overlaid, self._motors = np.zeros(
            (6, tree.n)
        )
        self.compensates, self._gravity = False, cast('Kernel | None', None)
        self._friction: DriveFriction | None = None
        self.transmissions = _transmissions(profile, tree)
        rows = rows_of(profile, tree)
        self.order = command_order(joints if any(joints) else [row.joint for row in rows], tree)
        self.converts = self.has_profile or bool((self.order != np.arange(tree.n)).any())
        by_name = {row.joint: row for row in rows}
        rows = [by_name[name] for name in tree.joint_names]
        self.names = tuple(row.name for row in rows)
        scales = np.transpose([scales_of(profile, row, tree) for row in rows]).copy()
        self.position_scale, self.velocity_scale, self.effort_scale, self.measured_scale = scales
        self.position_zero = np.array([row.position_zero for row in rows])
        self.effort_offset = np.array([row.effort_offset for row in rows])
        self.rate_limit = np.array([row.effort_rate_limit or np.inf for row in rows])
        self._offset, self._scale = self.effort_offset[self.order], self.effort_scale[self.order]
        own, drives = np.abs(self.effort_offset), np.eye(tree.n)
        self.command_limit = tree.effort_limit - own
        self.drive_limit = self.command_limit.copy()
        for one in self.transmissions:
            at = one.places
            one.limit[:] -= own[at]
            self.position_zero[at] += one.origin / self.position_scale[at]
            self.command_limit[at], self.drive_limit[at] = tree.effort_limit[at], one.limit
            drives[np.ix_(at, at)] = one.matrix.T
        self.loads = np.vstack([np.eye(tree.n), drives])
        i = self.drive_limit.argmin()
        if self.drive_limit[i] <= 0.0:
            problem = f'is {self.effort_offset[i]:g}, beyond the limit'
            remedy = f'give it in N m or N, within {self.drive_limit[i] + own[i]:g}'
            raise ConfigurationError(f'joint {rows[i].joint!r}, effort_offset', problem, remedy)
        self.differentiates = profile.state.cutoff_hz is not None
        self._overlays = profile.command.form == 'overlay'

    @property
    def command_names(self) -> tuple[str, ...]:
        """The driver's names in the order of a command."""
        return tuple(self.names[i] for i in self.order)

    @property
    def command_topics(self) -> list[str]:
        """The topics of a command: one, or one per joint in the order of the command.

        Raises:
            ConfigurationError: Two joints have names that are one as a topic.
        """
        topic = self.profile.command.topic
        if self.profile.command.form != 'per_joint':
            return [topic]
        return force_topics(self.command_names, topic)

    def velocity_filter(self) -> FilteredDerivative | None:
        """Return the filter of the velocities; None if they are measured."""
        state = self.profile.state
        if state.cutoff_hz is None:
            return None
        return FilteredDerivative(len(self.names), state.cutoff_hz, state.timeout_s)

    # The tick -----------------------------------------------------------------------------------

    def read(self, x: Array, y: Array) -> None:
        """Convert a state into ``q`` and, unless ``differentiates``, ``v``.

        Args:
            x: Positions, shape (n,), in the driver's units.
            y: Velocities, shape (n,), in the driver's units; ignored if ``differentiates``.
        """
        self.position(x, self.q)
        if not self.differentiates:
            self.velocity(y, self.v)

    def total_effort(self, z: Array, q: Array, v: Array) -> Array:
        """Return the total motor effort, new array, shape (n,), N m or N; NaN if unknown.

        Args:
            z: Measured efforts, shape (n,), in the driver's units.
            q: Positions of the same state, shape (n,), rad or m.
            v: Velocities of the same state, shape (n,), rad/s or m/s.
        """
        if self.profile.state.effort == 'none':
            return np.full(len(z), np.nan)
        measured = self.measured_effort(z)
        added = self.reports_less and self.compensates
        return measured + self.compensation(q, v) if added else measured

    @property
    def reports_less(self) -> bool:
        """Whether the efforts of the states lack what the driver compensates."""
        return self.profile.state.effort == 'without_compensation'

    def compensate(self, loaded: Kernel, bare: Kernel) -> None:
        """Compute the driver's share from now on, if the profile has one.

        Args:
            loaded: Kernel of the gravity forces with payload.
            bare: Kernel of the gravity forces without payload.
        """
        profile = self.profile
        terms = profile.compensated_by_driver
        if 'gravity' in terms:
            self._gravity = loaded if profile.payload_known_to_driver else bare
        if 'friction' in terms:
            self._friction = DriveFriction(self._tree.with_changes(drive_friction={}))
        self.compensates = bool(terms)

    def compensation(self, q: Array, v: Array, out: Array | None = None) -> Array:
        """Return the driver's share at a state: ``share`` itself or ``out``, (n,), N m or N."""
        share = self.share if out is None else out
        if self._gravity is not None:
            self._gravity(q, share)
        else:
            share.fill(0.0)
        if self._friction is not None:
            share += self._friction.at(v, share)
        return share

    def write(self, effort: Array, q: Array | None = None) -> None:
        """Convert limited efforts into ``command`` and, for overlays, positions into ``overlaid``.

        Args:
            effort: Shape (n,), N m or N.
            q: Measured positions, shape (n,), rad or m; None: those of the last call.
        """
        motors = effort
        if self.transmissions:
            motors = self._motors
            motors[:] = effort
            self._convert('efforts_of_motors', motors)
        motors.take(self.order, out=self.command, mode='clip')
        if self.has_profile:
            self.command += self._offset
            self.command /= self._scale
            if self._overlays and q is not None:
                np.take(self.position_reading(q), self.order, out=self.overlaid, mode='clip')

    def effort_of_command(self, command: Array) -> Array:
        """Return the efforts of a command in the driver's order, new array, (n,), N m or N."""
        ordered = np.empty(len(command))
        ordered[self.order] = command
        return self.commanded_effort(ordered)

    # Driver to model, and commands --------------------------------------------------------------

    def position(self, reading: Array, out: Array | None = None) -> Array:
        """Convert the driver's positions to rad or m; into ``out`` or a new array."""
        q = np.subtract(reading, self.position_zero, out=out)
        q *= self.position_scale
        return self._convert('velocities_of_joints', q)

    def velocity(self, reading: Array, out: Array | None = None) -> Array:
        """Convert the driver's velocities to rad/s or m/s; into ``out`` or a new array."""
        v = np.multiply(reading, self.velocity_scale, out=out)
        return self._convert('velocities_of_joints', v)

    def measured_effort(self, reading: Array) -> Array:
        """Convert the driver's measured efforts to N m or N at the joints, new array."""
        return self._convert('efforts_of_joints', self.measured_scale * reading)

    def motor_effort(self, effort: Array) -> Array:
        """Convert joint efforts to motor efforts for joints that share motors; new array."""
        return self._convert('efforts_of_motors', effort.copy())

    @property
    def joint_rate_limit(self) -> Array:
        """Rate limits at the joints that respect those of the motors, shape (n,), N m/s or N/s."""
        rates = self.rate_limit.copy()
        for one in self.transmissions:
            one.rates_of_joints(rates)
        return rates

    # Model to driver, and received commands -----------------------------------------------------

    def state(
        self, stamp_ns: int, arrival_ns: int, q: Array, v: Array, effort: Array | None = None
    ) -> ArmState:
        """Return the state that the driver measures; in rad or m, rad/s or m/s, N m or N."""
        shape = (len(self.position_scale),)
        x = self.position_reading(array('q', q, shape, finite=False))
        y = self.velocity_reading(array('v', v, shape, finite=False))
        if effort is not None:
            effort = self.effort_reading(array('effort', effort, shape, finite=False))
        return ArmState(stamp_ns, arrival_ns, x, y, effort)

    def position_reading(self, q: Array) -> Array:
        """Return the driver's reading at positions, rad or m, new array."""
        motors = self._convert('velocities_of_motors', q.copy())
        return motors / self.position_scale + self.position_zero

    def velocity_reading(self, v: Array) -> Array:
        """Return the driver's reading at velocities, rad/s or m/s, new array."""
        return self._convert('velocities_of_motors', v.copy()) / self.velocity_scale

    def effort_reading(self, effort: Array) -> Array:
        """Return the driver's reading at efforts, N m or N, new array."""
        return self.motor_effort(effort) / self.measured_scale

    def driven_effort(self, command: Array) -> Array:
        """Return the effort that results from a command, with drives at their limits, N m or N."""
        motors = self.effort_scale * command - self.effort_offset
        motors.clip(-self.drive_limit, self.drive_limit, out=motors)
        return self._convert('efforts_of_joints', motors)

    def commanded_effort(self, command: Array) -> Array:
        """Return the effort requested by a command, N m or N, new array."""
        motors = self.effort_scale * command - self.effort_offset
        return self._convert('efforts_of_joints', motors)

    def _convert(self, kind: str, values: Array) -> Array:
        """Convert values in place by a matrix of every transmission; return them."""
        for one in self.transmissions:
            values[..., one.places] = values[..., one.places] @ getattr(one, kind)
        return values


def command_order(joints: Sequence[str], tree: Robot) -> Array:
    """Return the model index of each commanded joint, shape (n,).

    Args:
        joints: Names in the order of a command; the order of the model if empty.
        tree: The robot.

    Raises:
        UnknownNameError: The robot does not have such a joint.
        ParameterError: A joint is missing or named twice.
    """
    names = [name for name in joints if name] or list(tree.joint_names)
    order = [tree.joint_index(name) for name in names]
    if sorted(order) != list(range(tree.n)):
        known = ', '.join(tree.joint_names)
        raise ParameterError('joints', names, f'must name each of {known} once')
    return np.array(order, dtype=np.intp)


def effort_limits(profile: DriverProfile) -> EffortLimit:
    """Return the effort limits of a profile, N m or N, as an argument of ``load_robot``.

    Limits of listed joints override the description. Without listed joints, the default limit
    applies to joints for which the description has none.
    """
    if not profile.joints:
        return profile.defaults.effort_limit
    limits = {row.joint: row.effort_limit for row in profile.joints}
    return {name: limit for name, limit in limits.items() if limit is not None}


def robot_and_driver(values: Values, topic_description: str = '') -> tuple[Robot, DriverInterface]:
    """Load the robot that a node's parameters specify, and its driver.

    Args:
        values: Parameters of the robot, see ``robot_from_parameters``, ``driver_profile`` if the
            node has it, and without a profile those of ``COMMAND``.
        topic_description: URDF text received by topic.

    Returns:
        The robot with the effort limits of the driver, and its driver.

    Raises:
        RobotDynamicsError: The robot or the profile is invalid, or they do not match.
    """
    load = partial(robot_from_parameters, values, topic_description)
    if not values.get('driver_profile'):
        tree = load()
        return tree, DriverInterface(None, tree, values['joints'], values['command_form'])
    profile = load_driver_profile(values['driver_profile'])
    tree = driven_robot(profile, load)
    return tree, DriverInterface(profile, tree)


def driven_robot(profile: DriverProfile, load: Callable[[EffortLimit], _Loaded]) -> _Loaded:
    """Load a robot with the effort limits of a driver profile.

    Raises:
        UnknownNameError: The robot lacks a joint of the profile, which is named.
        RobotDynamicsError: The description is rejected.
    """
    try:
        return load(effort_limits(profile))
    except UnknownNameError as error:
        if error.name not in {row.joint for row in profile.joints}:
            raise
        kind = f'joint in joints of driver profile {profile.name!r}'
        raise UnknownNameError(kind, error.name, error.known) from error


def _transmissions(profile: DriverProfile, tree: Robot) -> tuple[Transmission, ...]:
    unknown = [name for name in profile.coupled if name not in tree.joint_names]
    if unknown:
        raise ConfigurationError(
            f'driver profile {profile.name!r}, transmissions',
            f'names {", ".join(unknown)}',
            f'known joints of {tree.name!r}: {", ".join(tree.joint_names)}',
        )
    return tuple(Transmission(one, tree.joint_names) for one in profile.transmissions)
