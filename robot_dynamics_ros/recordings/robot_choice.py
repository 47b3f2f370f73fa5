# SPDX-License-Identifier: Apache-2.0
"""The robot that explains a recording, from the user, the bag, or the recorded controller."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from robot_dynamics_ros.description.shipped import robot_file
from robot_dynamics_ros.errors import ModelError, RecordingError
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.model.robot_tree import STANDARD_GRAVITY, RobotTree
from robot_dynamics_ros.recordings.reading import RecordingReader

_UNLIMITED = 1e12  # N m or N, where the description is silent


@dataclass(frozen=True)
class RobotChoice:
    """Which robot explains a recording.

    Attributes:
        robot: Name of a shipped one, or another word that names a robot; empty: see the next.
        description: URDF or xacro file; empty: the description in the bag.
        gravity: m/s^2 in the base frame; None: of the controller's parameters, else the standard.
        effort_limit: Where the description gives none, N m or N; None: not judged there.
        joints: Names in the recording of the model's joints, in its order; empty: the same names.
        namespace: Of the robot, if the bag has several.
        mappings: Arguments of a xacro file.
    """

    robot: str = ''
    description: str = ''
    gravity: tuple[float, float, float] | None = None
    effort_limit: float | None = None
    joints: tuple[str, ...] = ()
    namespace: str = ''
    mappings: tuple[tuple[str, str], ...] = ()

    def read(self, bag: str | os.PathLike[str]) -> RecordingReader:
        """Return a reader of the robot's run in a bag."""
        return RecordingReader(bag, namespace=self.namespace, joints=self.joints)

    def load(self, reader: RecordingReader) -> tuple[RobotTree, bool]:
        """Return the robot, and whether its efforts are limited.

        Raises:
            RecordingError: The bag has no description, and no other was chosen.
            DescriptionError: The description is refused.
        """
        source: Any = self.description or reader.description
        if self.robot:
            source = robot_file(self.robot)
        if not source:
            raise RecordingError(
                f'bag {str(reader.bag.path)!r}',
                'has no robot description',
                'give --robot or --description',
            )
        gravity = self.gravity or recorded_gravity(recorded_parameters(reader.parameters))
        mappings = dict(self.mappings)
        try:
            tree = load_robot(source, gravity, effort_limit=self.effort_limit, mappings=mappings)
            return tree, True
        except ModelError:
            if self.effort_limit is not None:
                raise
            return load_robot(source, gravity, effort_limit=_UNLIMITED, mappings=mappings), False


def recorded_parameters(text: str) -> dict[str, Any]:
    """Return the controller's parameters by name from their YAML; empty if there are none."""
    try:
        found = yaml.safe_load(text) if text else None
    except (yaml.YAMLError, ValueError, TypeError, RecursionError):  # any text may stand there
        return {}
    return found if isinstance(found, dict) else {}


def recorded_gravity(parameters: Mapping[str, Any]) -> tuple[float, float, float]:
    """Return the gravity that the controller was told, else the standard one, m/s^2."""
    try:
        x, y, z = (float(value) for value in parameters['gravity'])
    except (KeyError, TypeError, ValueError):
        return STANDARD_GRAVITY
    return x, y, z


def recorded_program(parameters: Mapping[str, Any]) -> str:
    """Return the constraint program that the controller held; empty if it held none."""
    holds = parameters.get('law') == 'constraint_stabilization'
    return str(parameters.get('program') or '') if holds else ''
