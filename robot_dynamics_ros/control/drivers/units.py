# SPDX-License-Identifier: Apache-2.0
"""SI values of the units in a driver profile, and the rows of its joints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from robot_dynamics_ros.control.drivers.profile import (
    JOINT_EFFORT_UNITS,
    MOTOR_EFFORT_UNITS,
    NEED_CONSTANT,
    POSITION_UNITS,
    VELOCITY_UNITS,
    DriverProfile,
    JointProfile,
)
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.model import Robot


def rows_of(profile: DriverProfile, tree: Robot) -> list[JointProfile]:
    """Return the profiles of all joints, in the order of a command.

    Raises:
        ConfigurationError: The profile's joints are not those of the robot, or the effort limit of
            its defaults would not bound a joint.
    """
    if not profile.joints:
        limit, larger = profile.defaults.effort_limit, tree.effort_limit.max()
        if limit is not None and larger > limit:
            raise ConfigurationError(
                f'driver profile {profile.name!r}, defaults, effort_limit',
                f'is {limit:g}, but the description has up to {larger:g}',
                'it is for joints without one: leave it out, or list joints with theirs',
            )
        return [replace(profile.defaults, joint=name) for name in tree.joint_names]
    joints = [row.joint for row in profile.joints]
    if sorted(joints) != sorted(tree.joint_names):
        raise ConfigurationError(
            f'driver profile {profile.name!r}, joints',
            f'names {", ".join(joints)}',
            f'name each joint of {tree.name!r} once: {", ".join(tree.joint_names)}',
        )
    return list(profile.joints)


def scales_of(profile: DriverProfile, row: JointProfile, tree: Robot) -> tuple[float, ...]:
    """Return the signed SI values of the units of position, velocity, command and effort.

    Raises:
        ConfigurationError: A unit does not match the joint type, or a motor constant is missing or
            has no effect.
    """
    _refuse_unused(row)
    slides = bool(tree.joint_is_prismatic[tree.joint_index(row.joint)])
    if row.joint in profile.coupled:  # a row of a shared motor
        slides = row.position_unit in ('m', 'mm')
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
    for key, units in ('gear_ratio', MOTOR_EFFORT_UNITS), ('torque_constant', NEED_CONSTANT):
        given = getattr(row, key) != getattr(JointProfile, key)
        if given and not {row.effort_unit, row.measured_effort_unit} & {*units}:
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
