# SPDX-License-Identifier: Apache-2.0
"""Data classes of a URDF: names, numbers and units as written, nothing derived."""

from __future__ import annotations

from typing import NamedTuple

Vector = tuple[float, float, float]


class Pose(NamedTuple):
    """Pose of a child in its parent: xyz in m, rpy in rad (fixed axes x, y, z)."""

    xyz: Vector = (0.0, 0.0, 0.0)
    rpy: Vector = (0.0, 0.0, 0.0)


class Inertial(NamedTuple):
    """Mass (kg) and inertia tensor about the centre of mass (kg m^2) in the axes of ``origin``."""

    mass: float
    origin: Pose
    ixx: float
    ixy: float
    ixz: float
    iyy: float
    iyz: float
    izz: float

    @property
    def is_zero(self) -> bool:
        """Whether mass and tensor are all 0, as in some files for links that are only frames."""
        return self.mass == 0.0 and not any(self[2:])


#: Names of the elements of an inertia tensor.
TENSOR = Inertial._fields[2:]


class Link(NamedTuple):
    """A link; ``inertial`` is None if the file does not specify it."""

    name: str
    inertial: Inertial | None = None


class Limit(NamedTuple):
    """Joint limits: rad or m, rad/s or m/s, N m or N; None if the file does not specify them."""

    lower: float | None = None
    upper: float | None = None
    velocity: float | None = None
    effort: float | None = None

    @property
    def range(self) -> tuple[float, float] | None:
        """Lower and upper limit, rad or m; None unless both exist and lower < upper."""
        if self.lower is None or self.upper is None or self.lower >= self.upper:
            return None
        return self.lower, self.upper


class Mimic(NamedTuple):
    """Mimic relation of a joint to its leader: ``position = multiplier * leader + offset``.

    The multiplier has the unit of the follower divided by that of the leader, the offset the unit
    of the follower (rad or m).
    """

    leader: str
    multiplier: float = 1.0
    offset: float = 0.0


class Joint(NamedTuple):
    """A joint between two links; the frame of the child is the joint frame.

    ``armature`` (kg m^2 or kg) is the reflected inertia of the drive, given by the attribute
    ``armature`` of the ``<dynamics>`` element, an extension that other URDF parsers ignore.
    """

    name: str
    kind: str
    parent: str
    child: str
    origin: Pose = Pose()
    axis: Vector = (1.0, 0.0, 0.0)
    limit: Limit | None = None
    damping: float = 0.0
    friction: float = 0.0
    armature: float = 0.0
    mimic: Mimic | None = None


class RobotDescription(NamedTuple):
    """Links and joints of a robot in the order of the file; ``xml`` is the expanded URDF text."""

    name: str
    links: tuple[Link, ...]
    joints: tuple[Joint, ...]
    xml: str
