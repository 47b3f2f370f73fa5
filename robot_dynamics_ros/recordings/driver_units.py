# SPDX-License-Identifier: Apache-2.0
"""A recording in the units of its driver, as one in the units of the model."""

from __future__ import annotations

from dataclasses import replace

from robot_dynamics_ros.control.drivers.conversion import DriverConversion
from robot_dynamics_ros.recordings.recording import Recording


def in_model_units(recording: Recording, driver: DriverConversion) -> Recording:
    """Return a recording in SI units at the joints, by the names of the model.

    Args:
        recording: As the driver counts; must hold the joints that the driver names.
        driver: What its numbers mean.

    Raises:
        UnknownNameError: A joint was not recorded; lists those that were.
    """
    joints = tuple(
        row.joint for name in driver.names for row in driver.profile.joints if row.name == name
    )
    run = recording.of_joints(driver.names)
    return replace(
        run,
        joints=joints or run.joints,
        position=driver.position(run.position),
        velocity=driver.velocity(run.velocity),
        effort=driver.commanded_effort(run.effort),
        measured_effort=driver.measured_effort(run.measured_effort),
        reference_position=driver.position(run.reference_position),
        reference_velocity=driver.velocity(run.reference_velocity),
    )
