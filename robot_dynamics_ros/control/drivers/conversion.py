# SPDX-License-Identifier: Apache-2.0
"""Conversion between a driver's units and q, v, tau of a robot, built from a driver profile."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

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
from robot_dynamics_ros.control.drivers.transmission import Transmission
from robot_dynamics_ros.errors import ConfigurationError, ParameterError
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.build import EffortLimit
from robot_dynamics_ros.model.robot_parameters import robot_from_parameters
from robot_dynamics_ros.spatial.scalar import Array


class DriverConversion(NamedTuple):
    """Factors and offsets, all of shape (n,), in the order of the model.

    Attributes:
        profile: The driver profile.
        names: The driver's name of each joint of the model.
        order: Index in the model of each effort of a command.
        position_scale, position_zero: ``q = scale * (x - zero)``.
        velocity_scale: ``v = scale * y``.
        effort_scale, effort_offset: ``c = (tau + offset) / scale``.
        measured_scale: ``tau = scale * m``.
        rate_limit: Largest rate of change of the effort, N m/s or N/s; infinite if unlimited.
        transmissions: Transmissions; the values of their joints above are those of the motors.
    """

    profile: DriverProfile
    names: tuple[str, ...]
    order: Array
    position_scale: Array
    position_zero: Array
    velocity_scale: Array
    effort_scale: Array
    effort_offset: Array
    measured_scale: Array
    rate_limit: Array
    transmissions: tuple[Transmission, ...] = ()

    @property
    def command_names(self) -> tuple[str, ...]:
        """The driver's names in the order of a command."""
        return tuple(self.names[i] for i in self.order)

    @property
    def command_topics(self) -> tuple[str, ...]:
        """The topics of a command: one, or one per joint in the order of the command."""
        topic = self.profile.command.topic
        if self.profile.command.form != 'per_joint':
            return (topic,)
        return tuple(topic.replace('{joint}', name) for name in self.command_names)

    # Driver to model, and commands --------------------------------------------------------------

    def position(self, reading: Array, out: Array | None = None) -> Array:
        """Convert the driver's positions to rad or m; into ``out`` or a new array.

        Both are in the model's order.
        """
        q = np.subtract(reading, self.position_zero, out=out)
        q *= self.position_scale
        return self._convert(Transmission.positions_of_joints, q)

    def velocity(self, reading: Array, out: Array | None = None) -> Array:
        """Convert the driver's velocities to rad/s or m/s; into ``out`` or a new array."""
        v = np.multiply(reading, self.velocity_scale, out=out)
        return self._convert(Transmission.velocities_of_joints, v)

    def measured_effort(self, reading: Array) -> Array:
        """Convert the driver's measured efforts to N m or N at the joints, new array."""
        return self._convert(Transmission.efforts_of_joints, self.measured_scale * reading)

    def command(self, effort: Array) -> Array:
        """Return the command of efforts, new array in the driver's units and the model's order."""
        return (self.motor_effort(effort) + self.effort_offset) / self.effort_scale

    def motor_effort(self, effort: Array) -> Array:
        """Convert joint efforts to motor efforts for joints that share motors; new array."""
        return self._convert(Transmission.efforts_of_motors, effort.copy())

    @property
    def joint_rate_limit(self) -> Array:
        """Rate limits at the joints that respect those of the motors, shape (n,), N m/s or N/s."""
        return self._convert(Transmission.rates_of_joints, self.rate_limit.copy())

    # Model to driver, and received commands -----------------------------------------------------

    def position_reading(self, q: Array) -> Array:
        """Return the driver's reading at positions, rad or m, new array."""
        motors = self._convert(Transmission.positions_of_motors, q.copy())
        return motors / self.position_scale + self.position_zero

    def velocity_reading(self, v: Array) -> Array:
        """Return the driver's reading at velocities, rad/s or m/s, new array."""
        return self._convert(Transmission.velocities_of_motors, v.copy()) / self.velocity_scale

    def effort_reading(self, effort: Array) -> Array:
        """Return the driver's reading at efforts, N m or N, new array."""
        return self.motor_effort(effort) / self.measured_scale

    def driven_effort(self, command: Array) -> Array:
        """Return the effort that results from a command, with shared motors clipped, N m or N."""
        motors = self.effort_scale * command - self.effort_offset
        self._convert(Transmission.clip, motors)
        return self._convert(Transmission.efforts_of_joints, motors)

    def commanded_effort(self, command: Array) -> Array:
        """Return the effort requested by a command, N m or N, new array."""
        motors = self.effort_scale * command - self.effort_offset
        return self._convert(Transmission.efforts_of_joints, motors)

    def _convert(self, conversion: Callable[[Transmission, Array], None], values: Array) -> Array:
        """Apply a method of every transmission to values in place; return them."""
        for one in self.transmissions:
            conversion(one, values)
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


def robot_and_driver(
    values: Mapping[str, Any], topic_description: str = ''
) -> tuple[Robot, DriverConversion | None]:
    """Load the robot that a node's parameters specify, and the driver of ``driver_profile``.

    Args:
        values: Parameters of the robot, see ``robot_from_parameters``, and ``driver_profile``.
        topic_description: URDF text received by topic.

    Returns:
        The robot with the effort limits of the driver, and its driver; None if no profile is
        given.

    Raises:
        RobotDynamicsError: The robot or the profile is invalid, or they do not match.
    """
    if not values['driver_profile']:
        return robot_from_parameters(values, topic_description), None
    profile = load_driver_profile(values['driver_profile'])
    tree = robot_from_parameters(values, topic_description, effort_limits(profile))
    return tree, bind(profile, tree)


def bind(profile: DriverProfile, tree: Robot) -> DriverConversion:
    """Return the conversion of a profile for a robot.

    Raises:
        ConfigurationError: The profile's joints are not those of the robot, a unit does not match
            the joint type, or a motor constant is missing or has no effect.
    """
    rows = _rows(profile, tree)
    for row in rows:
        _refuse_unused(row)
    by_name = {row.joint: row for row in rows}
    ordered = [by_name[name] for name in tree.joint_names]
    scales = [_scales(row, _slides(profile, row, tree)) for row in ordered]
    position, velocity, command, measured = np.array(scales).T.copy()
    return DriverConversion(
        profile,
        tuple(row.name for row in ordered),
        np.array([tree.joint_index(row.joint) for row in rows], dtype=np.intp),
        position,
        np.array([row.position_zero for row in ordered]),
        velocity,
        command,
        np.array([row.effort_offset for row in ordered]),
        measured,
        np.array([row.effort_rate_limit or np.inf for row in ordered]),
        _transmissions(profile, tree),
    )


def _transmissions(profile: DriverProfile, tree: Robot) -> tuple[Transmission, ...]:
    unknown = [name for name in profile.coupled if name not in tree.joint_names]
    if unknown:
        raise ConfigurationError(
            f'driver profile {profile.name!r}, transmissions',
            f'names {", ".join(unknown)}',
            f'known joints of {tree.name!r}: {", ".join(tree.joint_names)}',
        )
    return tuple(Transmission(one, tree.joint_names) for one in profile.transmissions)


def _slides(profile: DriverProfile, row: JointProfile, tree: Robot) -> bool:
    """Return whether a row is of a prismatic joint or a linear shared motor."""
    if row.joint in profile.coupled:
        return row.position_unit in ('m', 'mm')
    return bool(tree.joint_is_prismatic[tree.joint_index(row.joint)])


def _rows(profile: DriverProfile, tree: Robot) -> list[JointProfile]:
    if not profile.joints:
        return [replace(profile.defaults, joint=name) for name in tree.joint_names]
    joints = [row.joint for row in profile.joints]
    if sorted(joints) != sorted(tree.joint_names):
        raise ConfigurationError(
            f'driver profile {profile.name!r}, joints',
            f'names {", ".join(joints)}',
            f'name each joint of {tree.name!r} once: {", ".join(tree.joint_names)}',
        )
    return list(profile.joints)


def _scales(row: JointProfile, slides: bool) -> tuple[float, ...]:
    """Return the signed SI values of the units of position, velocity, command and effort."""
    unit = row.position_unit or ('m' if slides else 'rad')
    position = velocity = row.sign * _factor(row, 'position_unit', unit, POSITION_UNITS, slides)
    if row.velocity_unit:
        factor = _factor(row, 'velocity_unit', row.velocity_unit, VELOCITY_UNITS, slides)
        velocity = row.sign * factor
    efforts = [_effort(row, slides, key) for key in ('effort_unit', 'measured_effort_unit')]
    return position, velocity, *efforts


def _effort(row: JointProfile, slides: bool, key: str) -> float:
    unit = getattr(row, key) or row.effort_unit or ('N' if slides else 'N m')
    sign = row.effort_sign or row.sign
    if unit in JOINT_EFFORT_UNITS:
        return sign * _factor(row, key, unit, JOINT_EFFORT_UNITS, slides)
    if unit in NEED_CONSTANT and row.torque_constant is None:
        raise ConfigurationError(
            f'joint {row.joint!r}, {key}',
            f'is {unit} without a torque_constant',
            'give the torque of the motor for 1 A, N m/A, or its rated torque, N m',
        )
    constant = row.torque_constant if unit in NEED_CONSTANT else None
    return sign * MOTOR_EFFORT_UNITS[unit] * (constant or 1.0) * row.gear_ratio


def _refuse_unused(row: JointProfile) -> None:
    """Check that motor constants are given only with effort units that use them."""
    units = {row.effort_unit, row.measured_effort_unit}
    checks = [
        ('gear_ratio', row.gear_ratio != 1.0 and not units & MOTOR_EFFORT_UNITS.keys()),
        ('torque_constant', row.torque_constant is not None and not units & set(NEED_CONSTANT)),
    ]
    for key, unused in checks:
        if unused:
            raise ConfigurationError(
                f'joint {row.joint!r}, {key}',
                'has no effect: efforts are those of the joint',
                f"leave it out, or give an effort_unit of the motor's: "
                f'{", ".join(MOTOR_EFFORT_UNITS)}',
            )


def _factor(
    row: JointProfile,
    key: str,
    unit: str | float,
    known: Mapping[str, tuple[float, bool]],
    slides: bool,
) -> float:
    if not isinstance(unit, str):
        return float(unit)
    value, for_sliding = known[unit]
    if for_sliding == slides:
        return value
    listed = ', '.join(name for name, (_, kind) in known.items() if kind == slides)
    moves = 'slides' if slides else 'turns'
    raise ConfigurationError(
        f'joint {row.joint!r}, {key}', f'is {unit}, but the joint {moves}', f'known: {listed}'
    )
