# SPDX-License-Identifier: Apache-2.0
"""A URDF as data: names, numbers and units as written, nothing derived."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

Vector = tuple[float, float, float]


class Pose(NamedTuple):
    """Placement of a child in its parent: xyz in m, rpy in rad (fixed axes x, y, z)."""

    xyz: Vector = (0.0, 0.0, 0.0)
    rpy: Vector = (0.0, 0.0, 0.0)


class Inertial(NamedTuple):
    """Mass in kg; inertia tensor elements about the centre of mass in kg m^2, in origin's axes."""

    mass: float
    origin: Pose
    ixx: float
    ixy: float
    ixz: float
    iyy: float
    iyz: float
    izz: float

    @property
    def is_nothing(self) -> bool:
        """Whether mass and tensor are all written as 0, the habit of some files for a frame."""
        tensor = (self.ixx, self.ixy, self.ixz, self.iyy, self.iyz, self.izz)
        return self.mass == 0.0 and not any(tensor)


class Link(NamedTuple):
    """A link; inertial is None where the file gives none."""

    name: str
    inertial: Inertial | None = None


class Limit(NamedTuple):
    """Joint limits: rad or m, rad/s or m/s, N m or N. None where the file is silent."""

    lower: float | None = None
    upper: float | None = None
    velocity: float | None = None
    effort: float | None = None

    @property
    def range(self) -> tuple[float, float] | None:
        """Lower and upper limit, rad or m; None without both, or without room between them."""
        if self.lower is None or self.upper is None or self.lower >= self.upper:
            return None
        return self.lower, self.upper


class Mimic(NamedTuple):
    """A joint that follows another one, its leader: ``position = multiplier * leader + offset``.

    The multiplier has the unit of the follower over that of the leader, the offset that of the
    follower (rad or m).
    """

    leader: str
    multiplier: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True)
class Joint:
    """A joint between two links; the child's frame is the joint's frame.

    ``armature`` (kg m^2 or kg) is the reflected inertia of the drive: the attribute ``armature``
    of the ``<dynamics>`` element, an extension that other readers of the URDF ignore.
    """

    name: str
    kind: str
    parent: str
    child: str
    origin: Pose = field(default_factory=Pose)
    axis: Vector = (1.0, 0.0, 0.0)
    limit: Limit | None = None
    damping: float = 0.0
    friction: float = 0.0
    armature: float = 0.0
    mimic: Mimic | None = None


class RobotDescription(NamedTuple):
    """Links and joints of one robot, in the order of the file; xml is the expanded URDF text."""

    name: str
    links: tuple[Link, ...]
    joints: tuple[Joint, ...]
    xml: str
