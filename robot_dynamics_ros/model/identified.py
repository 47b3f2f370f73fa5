# SPDX-License-Identifier: Apache-2.0
"""Identified parameters of a robot: the file ``parameters.yaml`` of the command ``identify``.

Inertias, viscous and Coulomb friction and armature replace those of the description. Other
friction terms, which a URDF cannot represent, are stored in ``Robot.drive_friction``. The
terms are defined in ``dynamics.joint_terms`` and in the header of the file.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.description.urdf import (
    TENSOR,
    Inertial,
    Pose,
    RobotDescription,
    Vector,
)
from robot_dynamics_ros.description.urdf_patch import JointDynamics, patch_urdf
from robot_dynamics_ros.errors import ConfigurationError, RobotDynamicsError, UnknownNameError
from robot_dynamics_ros.model.build import MOVING
from robot_dynamics_ros.model.robot_tree import Robot
from robot_dynamics_ros.model.selection import released
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.spatial.validation import require_type
from robot_dynamics_ros.yaml_reader import (
    Section,
    built,
    mapping_of,
    number,
    positive,
    text,
    vector3,
)
from robot_dynamics_ros.yaml_reader.parsing import read_yaml

#: Drive friction terms that a URDF cannot represent.
DRIVE_TERMS = (
    'offset',
    'load_friction',
    'root_friction',
    'square_friction',
    'cubic_friction',
    'stribeck_friction',
)
#: Velocity above which the Stribeck effect is mostly decayed, rad/s or m/s.
STRIBECK_VELOCITY = 'stribeck_velocity'
#: Highest speed in the recording, beyond which friction is compensated no further, rad/s or m/s.
RECORDED_SPEED = 'recorded_speed'
#: Comment at the end of a corrected URDF.
NOTE = 'inertias, friction and armature identified by robot_dynamics_ros'
#: Begins the remark on joints that are locked because they were when the arm was identified.
LOCKED = 'locked as in'
_SPEEDS = (STRIBECK_VELOCITY, RECORDED_SPEED)
_IN_URDF = ('damping', 'coulomb_friction', 'armature')
_GRAVITY_TOLERANCE = 0.02  # m/s^2: tolerates Gazebo's default 9.8 instead of 9.81


class IdentifiedParameters(NamedTuple):
    """Content of a file ``parameters.yaml``.

    Attributes:
        path: Path of the file.
        links: New <inertial> of each link that differs, by link name.
        joints: Terms of every joint: those of a URDF, ``DRIVE_TERMS``, ``STRIBECK_VELOCITY`` and
            ``RECORDED_SPEED``, infinite if the file has none.
        gravity: Gravity during identification, base frame, m/s^2.
        locked: Positions of the joints that were locked, by name, rad or m.
    """

    path: str
    links: Mapping[str, Inertial]
    joints: Mapping[str, Mapping[str, float]]
    gravity: Vector
    locked: Mapping[str, float]

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> IdentifiedParameters:
        """Read a parameter file, or its text.

        Raises:
            ConfigurationError: The file cannot be read or is not a parameter file.
        """
        require_type('identified', path, (str, os.PathLike), 'a path')
        source = os.fspath(path)
        file = 'in the recording' if '\n' in source else source
        section = Section(f'identified {file!r}', read_yaml(source, 'identified'))
        unit = section.optional('effort_unit', text)
        if unit:
            raise _fault(file, f'is refused: its terms are in {unit}, not in N m or N')
        links = section.optional('links', mapping_of(_inertial)) or {}
        joints = section.take('joints', mapping_of(_terms))
        locked = section.optional('locked', mapping_of(number)) or {}
        return cls(file, links, joints, section.take('gravity', _vector), locked)

    def patched(self, xml: str) -> str:
        """Return the URDF text with the identified inertias and dynamics inserted.

        Raises:
            ConfigurationError: The file belongs to another robot.
        """
        dynamics = {
            name: JointDynamics(*(terms[key] for key in _IN_URDF))
            for name, terms in self.joints.items()
        }
        try:
            return patch_urdf(xml, self.links, dynamics)
        except UnknownNameError as error:
            raise _fault(self.path, f'is of another robot: {error}') from error

    def locks(self, description: RobotDescription, controlled: Sequence[str]) -> dict[str, float]:
        """Return the positions of the joints that were locked, unless they are to be controlled.

        Raises:
            ConfigurationError: The file belongs to another robot.
        """
        kinds = {joint.name: joint.kind for joint in released(description)[0].joints}
        for name in self.locked:
            if name not in kinds:
                raise _fault(self.path, f'is of another robot: it locks joint {name!r}')
        return {
            name: position
            for name, position in self.locked.items()
            if kinds[name] in MOVING and name not in controlled
        }

    def completed(self, tree: Robot) -> Robot:
        """Return a robot loaded from the patched text, with its drive friction added.

        Raises:
            ConfigurationError: A joint of the robot is missing in the file.
        """
        missing = [name for name in tree.joint_names if name not in self.joints]
        if missing:
            was = 'locked' if missing[0] in self.locked else 'not there (is it another robot?)'
            raise _fault(self.path, f'has no values of joint {missing[0]!r}, which was {was}')
        terms = {
            term: np.array([self.joints[name][term] for name in tree.joint_names])
            for term in (*DRIVE_TERMS, *_SPEEDS)
        }
        at = ', '.join(f'{k} at {x:g}' for k, x in tree.locked.items() if k in self.locked)
        remarks = (*tree.remarks, f'{LOCKED} {self.path}: {at}') if at else tree.remarks
        if math.dist(self.gravity, tree.gravity) > _GRAVITY_TOLERANCE:
            written = ' '.join(f'{x:.4g}' for x in self.gravity)
            remarks += (f'{self.path} was identified under another gravity: {written} m/s^2',)
        return tree.with_changes(drive_friction=terms_in_use(terms), remarks=remarks)


def terms_in_use(drive: Mapping[str, Array]) -> dict[str, Array]:
    """Return the terms that are nonzero at any joint, and the speeds if any joint has one."""
    used = {term: drive[term] for term in DRIVE_TERMS if np.any(drive.get(term))}
    limited = np.any(np.isfinite(drive[RECORDED_SPEED]))
    return {**used, **{speed: drive[speed] for speed in _SPEEDS}} if used or limited else {}


def has_drive_terms(tree: Robot) -> bool:
    """Return whether a robot has friction that a URDF cannot represent: it is identified."""
    return any(term in tree.drive_friction for term in DRIVE_TERMS)


def _fault(path: str, problem: str) -> RobotDynamicsError:
    remedy = 'give the parameters.yaml of command identify for this robot'
    return ConfigurationError(f'identified {path!r}', problem, remedy)


def _terms(place: str, value: Any) -> dict[str, float]:
    section = Section(place, value)
    terms = {name: section.take(name, number) for name in _IN_URDF}
    terms |= {name: section.take(name, number, 0.0) for name in DRIVE_TERMS}
    fastest = section.optional(RECORDED_SPEED, positive)
    terms[RECORDED_SPEED] = math.inf if fastest is None else fastest
    return {**terms, STRIBECK_VELOCITY: section.take(STRIBECK_VELOCITY, positive)}


def _inertial(place: str, value: Any) -> Inertial:
    section = Section(place, value)
    origin = section.take('origin', built(Pose, {'xyz': _vector, 'rpy': _vector}))
    mass = section.take('mass', number)
    inertia = Section(f'{place}, inertia', section.take('inertia', lambda _, tensor: tensor))
    return Inertial(mass, origin, *(inertia.take(name, number) for name in TENSOR))


def _vector(place: str, value: Any) -> Vector:
    x, y, z = vector3(place, value)
    return x, y, z
