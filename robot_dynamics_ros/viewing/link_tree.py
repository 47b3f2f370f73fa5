# SPDX-License-Identifier: Apache-2.0
"""Link poses of any description, including those that are not valid models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.description.robot_description import Joint, RobotDescription
from robot_dynamics_ros.description.urdf import parse_urdf
from robot_dynamics_ros.model import FramePose
from robot_dynamics_ros.spatial.rotation import rotation_about, rotation_from_rpy
from robot_dynamics_ros.spatial.scalar import Array

_TURNING, _SLIDING = ('revolute', 'continuous'), ('prismatic',)


@dataclass(frozen=True, eq=False)
class PlacedLink:
    """A link and its pose in its parent.

    Attributes:
        name: Name of the link.
        parent: Index of the parent in the tree's links; -1 for a root.
        joint: The joint to the parent; None for a root.
        R, p: Pose of the joint frame in the parent, shapes (3, 3) and (3,), m.
        axis: Unit axis of the joint, shape (3,).
    """

    name: str
    parent: int
    joint: Joint | None
    R: Array
    p: Array
    axis: Array

    @property
    def moves(self) -> bool:
        """Whether it can move in its parent."""
        return self.joint is not None and self.joint.kind in (*_TURNING, *_SLIDING)

    def pose(self, position: float) -> FramePose:
        """Return the link's pose in its parent at a joint position, rad or m."""
        kind = '' if self.joint is None else self.joint.kind
        if kind in _TURNING:
            return FramePose(self.R @ rotation_about(self.axis, position), self.p)
        if kind in _SLIDING:
            return FramePose(self.R, self.p + self.R @ self.axis * position)
        return FramePose(self.R, self.p)


class LinkTree:
    """The links of a description, parents first.

    Attributes:
        name: Name of the robot.
        links: All links connected to a root.
        joints: Movable joints except mimic joints, in the order of the links, by name.

    Raises:
        DescriptionError: The text is not a URDF.
    """

    def __init__(self, xml: str) -> None:
        description = parse_urdf(xml, lambda fault: None)
        self.name = description.name or 'arm'
        self.links = tuple(_placed(description))
        moving = [link.joint for link in self.links if link.joint and link.moves]
        self.joints = {joint.name: joint for joint in moving if joint.mimic is None}

    def position(self, joint: Joint, positions: Mapping[str, float]) -> float:
        """Return a joint position, of a mimic joint from its leader; 0 if unknown."""
        value = positions.get(joint.name, 0.0)
        if joint.mimic is not None:
            leader = positions.get(joint.mimic.leader, 0.0)
            value = joint.mimic.multiplier * leader + joint.mimic.offset
        return value if np.isfinite(value) else 0.0

    def relative(self, positions: Mapping[str, float]) -> list[FramePose]:
        """Return the pose of every link in its parent."""
        return [
            link.pose(0.0 if link.joint is None else self.position(link.joint, positions))
            for link in self.links
        ]

    def poses(self, relative: list[FramePose]) -> list[FramePose]:
        """Return the pose of every link in the base frame, from the poses in their parents."""
        poses: list[FramePose] = []
        for link, (R, p) in zip(self.links, relative, strict=True):
            if link.parent >= 0:
                above = poses[link.parent]
                R, p = above.R_WF @ R, above.p_WF + above.R_WF @ p
            poses.append(FramePose(R, p))
        return poses

    def tool(self) -> int:
        """Return the index of the tool: the first link named ``...tool``, else the deepest."""
        for place, link in enumerate(self.links):
            if link.name.endswith('tool'):
                return place
        depth: list[int] = []
        for link in self.links:
            depth.append(0 if link.parent < 0 else depth[link.parent] + 1)
        return int(np.argmax(depth))


def _placed(description: RobotDescription) -> Iterator[PlacedLink]:
    """Yield the links, parents first, except those not connected to a root."""
    children: dict[str, list[Joint]] = {}
    for each in description.joints:
        children.setdefault(each.parent, []).append(each)
    has_parent = {x.child for x in description.joints}
    named = {link.name for link in description.links}
    origin = (np.eye(3), np.zeros(3), np.array([1.0, 0.0, 0.0]))
    pending: list[tuple[str, int, Joint | None]] = [
        (x.name, -1, None) for x in description.links if x.name not in has_parent
    ]
    places: dict[str, int] = {}
    while pending:
        name, parent, joint = pending.pop(0)
        if name in places or name not in named:
            continue
        places[name] = len(places)
        yield PlacedLink(name, parent, joint, *(origin if joint is None else _origin(joint)))
        pending += [(x.child, places[name], x) for x in children.get(name, [])]


def _origin(joint: Joint) -> tuple[Array, Array, Array]:
    """Return rotation, position and unit axis of a joint; defaults for non-finite values."""
    axis = np.array(joint.axis, dtype=float)
    length = float(np.linalg.norm(axis))
    axis = axis / length if length > 0.0 else np.array([1.0, 0.0, 0.0])
    numbers = np.nan_to_num(np.array([*joint.origin.rpy, *joint.origin.xyz]))
    return rotation_from_rpy(*numbers[:3]), numbers[3:], np.nan_to_num(axis)
