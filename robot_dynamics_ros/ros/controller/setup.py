# SPDX-License-Identifier: Apache-2.0
"""From the controller's parameters to its loop: made once, and changed as far as it may be."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from robot_dynamics_ros.control.drivers.conversion import effort_limits
from robot_dynamics_ros.control.laws.control_law import ControlLaw
from robot_dynamics_ros.control.setup import (
    PARAMETERS,
    as_driven,
    build_loop,
    check_laws,
    concerns_law,
    loop_settings,
)
from robot_dynamics_ros.model.from_parameters import robot_from_parameters
from robot_dynamics_ros.parameters import checked
from robot_dynamics_ros.ros.driver_connection import (
    DriverConnection,
    bound,
    profile_from_parameters,
)


class ControllerSetup:
    """Robot, driver and loop as the parameters describe them.

    Args:
        given: The node's parameters.
        description: URDF text from the topic; used if the parameters name no robot.

    Attributes:
        tree: The robot without what it carries.
        connection: Its driver's topics and units.
        built: Its loop, and what that was made of.

    Raises:
        RobotDynamicsError: A parameter or the description is refused.
    """

    def __init__(self, given: Mapping[str, Any], description: str) -> None:
        profile = profile_from_parameters(given)
        limits = None if profile is None else effort_limits(profile)
        self.tree = robot_from_parameters(given, description, limits)
        self._driver = bound(profile, self.tree)
        given = self.driven(given)
        self.connection = DriverConnection(self.tree, given, self._driver)
        self.built = build_loop(self.tree, given, self._driver)
        self._next_law: ControlLaw | None = None

    def driven(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return parameters with what the driver's profile decides."""
        return as_driven(given, self._driver)

    def check(self, given: Mapping[str, Any], changed: Collection[str]) -> None:
        """Refuse a change that could not be applied, and prepare what takes time of one that can.

        Args:
            given: All parameters as they would be.
            changed: Names of those that differ.

        Raises:
            RobotDynamicsError: Says which one is refused, and why.
        """
        self._next_law = None  # of a change that was refused after it had passed here
        given = self.driven(given)
        checked(PARAMETERS, given, self.tree.n)
        check_laws(self.tree, given, changed)
        if concerns_law(given, changed):
            self._next_law = self.built.make_law(given)

    def apply(self, given: Mapping[str, Any], changed: Collection[str]) -> None:
        """Let a change that was checked act, between two ticks.

        Args:
            given: All parameters, as they are now.
            changed: Names of those that differ.
        """
        loop, law, self._next_law = self.built.loop, self._next_law, None
        if law is not None:
            loop.change_law(law, blend='law' in changed or 'program' in changed)
        loop.change_settings(loop_settings(self.driven(given)))
