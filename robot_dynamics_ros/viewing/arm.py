# SPDX-License-Identifier: Apache-2.0
"""What the viewer knows about an arm: its links, and its state at an instant.

The links are those of any description, including those that are not valid models.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.description.urdf import Joint, RobotDescription, parse_urdf
from robot_dynamics_ros.errors import RobotDynamicsError
from robot_dynamics_ros.model import FramePose
from robot_dynamics_ros.model.arm import load_arm, tool_frame
from robot_dynamics_ros.model.joint_limits import TURN
from robot_dynamics_ros.model.selection import resolved_mimic
from robot_dynamics_ros.spatial.rotation import rotation_about, rotation_from_rpy
from robot_dynamics_ros.spatial.scalar import Array

Numbers = Mapping[str, float]
Status = Mapping[str, str]

#: How long a touched link is highlighted, s.
FLASH_S = 1.0


class ArmInstant(NamedTuple):
    """State of an arm at an instant; empty or NaN where unknown.

    Attributes:
        time: Time of the state, s.
        position: Measured position by joint, rad or m.
        reference: Reference position by joint, rad or m.
        velocity: Measured velocity by joint, rad/s or m/s.
        effort: Commanded effort by joint, the measured one without a controller, N m or N.
        measured: Measured effort by joint, N m or N.
        components: Components of the effort, by origin and joint, N m or N.
        f: Values of the constraint program by row, m or rad.
        sigma_min: Smallest singular value of the constraint Jacobian.
        wrenches: Wrenches on the arm by kind, ``external`` as observed or the simulated ``push``:
            a link, and force and moment at its origin in its axes, shape (6,), N, N m.
        touched: Link with a new contact, or empty.
        program_time: Time on the clock of the program, s.
        status: Diagnostics of the controller and the viewer, by key.
        alarm: Why the arm is not shown in its actual state; empty if it is.
    """

    time: float = math.nan
    position: Numbers = {}
    reference: Numbers = {}
    velocity: Numbers = {}
    effort: Numbers = {}
    measured: Numbers = {}
    components: Mapping[str, Numbers] = {}
    f: Numbers = {}
    sigma_min: float = math.nan
    wrenches: Mapping[str, tuple[str, Array]] = {}
    touched: str = ''
    program_time: float = math.nan
    status: Status = {}
    alarm: str = ''

    @property
    def error(self) -> dict[str, float]:
        """Reference minus position by joint, rad or m; empty if the law follows no reference."""
        if self.f or self.status.get('law') == 'constraint_stabilization':
            return {}
        common = self.reference.keys() & self.position.keys()
        return {name: self.reference[name] - self.position[name] for name in common}

    def in_turn(self, joints: Mapping[str, Joint]) -> ArmInstant:
        """Return the instant with references of continuous joints in the turn of the state.

        A driver may wrap their positions; the controller's reference turns on.
        """
        reference = dict(self.reference)
        for name in reference.keys() & self.position.keys() & joints.keys():
            turns = (self.position[name] - reference[name]) / TURN
            if joints[name].kind == 'continuous' and math.isfinite(turns):
                reference[name] += TURN * round(turns)
        return self._replace(reference=reference)


class ContactFlash:
    """Detects new contacts by the controller's contact count, and reports their link for 1 s."""

    def __init__(self) -> None:
        self._count, self._start = '', -math.inf

    def update(self, status: Status, time: float) -> None:
        """Process the status at a time, s."""
        before, self._count = self._count, status.get('contacts', '')
        if before not in ('', self._count) and self._count not in ('', '0'):
            self._start = time

    def link(self, status: Status, time: float) -> str:
        """Return the link with a new contact at a time, s; empty if there is none."""
        fresh = 0.0 <= time - self._start < FLASH_S
        return status.get('touched_link', '') if fresh else ''


def by_origin(names: Sequence[str], values: Sequence[float]) -> dict[str, dict[str, float]]:
    """Group values named ``JOINT/ORIGIN`` by origin and joint."""
    result: dict[str, dict[str, float]] = {}
    for name, value in zip(names, values, strict=False):
        joint, _, origin = name.rpartition('/')
        result.setdefault(origin, {})[joint] = value
    return result


def number(text: str | None) -> float:
    """Return the number in a value of a status; NaN if it is none."""
    try:
        return float(text or 'nan')
    except ValueError:
        return math.nan


def diagnostic_status(status: Any) -> dict[str, str]:
    """Convert a DiagnosticStatus to strings: level, message and values by key."""
    level = int.from_bytes(status.level, 'little')
    return {
        'level': ('ok', 'warning', 'error')[min(level, 2)],
        'message': status.message,
        **{pair.key: pair.value for pair in status.values},
    }


def begins_anew(before: Status, status: Status) -> bool:
    """Return whether a status is that of another run of the controller, which counts anew."""
    return number(status.get('commands')) < number(before.get('commands'))


_TURNING, _SLIDING = ('revolute', 'continuous'), ('prismatic',)


class PlacedLink(NamedTuple):
    """A link and its pose in its parent.

    Attributes:
        name: Name of the link.
        parent: Index of the parent in the tree's links; -1 for a root.
        joint: The joint to the parent; a fixed one without a name for a root.
        origin: Pose of the joint frame in the parent.
        axis: Unit axis of the joint, shape (3,).
    """

    name: str
    parent: int
    joint: Joint
    origin: FramePose
    axis: Array

    @property
    def moves(self) -> bool:
        """Whether it can move in its parent."""
        return self.joint.kind in (*_TURNING, *_SLIDING)

    def pose(self, positions: Numbers) -> FramePose:
        """Return the link's pose in its parent, from joint positions by name, rad or m."""
        R, p = self.origin
        position = self.position(positions)
        if self.joint.kind in _TURNING:
            return FramePose(R @ rotation_about(self.axis, position), p)
        if self.joint.kind in _SLIDING:
            return FramePose(R, p + R @ self.axis * position)
        return self.origin

    def position(self, positions: Numbers) -> float:
        """Return the joint position, of a mimic joint from its joint; 0 if unknown."""
        mimic = self.joint.mimic
        value = positions.get(mimic.joint if mimic else self.joint.name, 0.0)
        if mimic:
            value = mimic.multiplier * value + mimic.offset
        return value if math.isfinite(value) else 0.0


class LinkTree:
    """The links of a description, parents first.

    Attributes:
        links: All links connected to a root.
        joints: Movable joints except mimic joints, in the order of the links, by name.

    Raises:
        DescriptionError: The text is not a URDF.
    """

    def __init__(self, xml: str) -> None:
        self._xml, self.links = xml, tuple(_placed(parse_urdf(xml, lambda fault: None)))
        moving = [link.joint for link in self.links if link.moves]
        self.joints = {joint.name: joint for joint in moving if joint.mimic is None}

    def relative(self, positions: Numbers) -> list[FramePose]:
        """Return the pose of every link in its parent."""
        return [link.pose(positions) for link in self.links]

    def poses(self, relative: list[FramePose]) -> list[FramePose]:
        """Return the pose of every link in the base frame, from the poses in their parents."""
        poses: list[FramePose] = []
        for link, pose in zip(self.links, relative, strict=True):
            poses.append(poses[link.parent].of(*pose) if link.parent >= 0 else pose)
        return poses

    def tool(self) -> int:
        """Return the index of the tool frame; of what is no valid model, of the deepest link."""
        with suppress(RobotDynamicsError):
            tool = tool_frame(load_arm(self._xml, effort_limit=1.0))
            return [link.name for link in self.links].index(tool)
        depth: list[int] = []
        for link in self.links:
            depth.append(depth[link.parent] + 1 if link.parent >= 0 else 0)
        return int(np.argmax(depth))


def _placed(description: RobotDescription) -> Iterator[PlacedLink]:
    """Yield the links, parents first, except those not connected to a root."""
    children = {joint.child for joint in description.joints}
    names = [link.name for link in description.links]
    pending = [Joint('', 'fixed', '', name) for name in names if name not in children]
    places: dict[str, int] = {}
    moving = {joint.name: joint for joint in description.joints if joint.kind != 'fixed'}
    for joint in pending:  # grows in the loop
        name = joint.child
        if name not in places and name in names:
            axis = np.array(joint.axis, dtype=float)
            length = float(np.linalg.norm(axis))
            axis = axis / length if length > 0.0 else np.array([1.0, 0.0, 0.0])
            rpy, xyz = (np.nan_to_num(np.array(x)) for x in (joint.origin.rpy, joint.origin.xyz))
            origin = FramePose(rotation_from_rpy(*rpy), xyz)
            parent = places.get(joint.parent, -1)
            places[name] = len(places)
            if joint.mimic:
                joint = joint._replace(mimic=resolved_mimic(joint, moving, {}) or joint.mimic)
            yield PlacedLink(name, parent, joint, origin, np.nan_to_num(axis))
            pending += [other for other in description.joints if other.parent == name]
