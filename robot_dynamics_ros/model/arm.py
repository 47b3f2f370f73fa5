# SPDX-License-Identifier: Apache-2.0
"""The arm within a description: its chains of joints, its grippers, its tool frame.

A description may contain more than an arm. Joints of a gripper at the end of a chain are found by
their names, or as branches that are shorter than the chain that carries them; the tool frame is
the end of the longest chain, fixed links included.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from robot_dynamics_ros.description.urdf import (
    Joint,
    RobotDescription,
    parse_urdf,
    read_description,
)
from robot_dynamics_ros.errors import ModelError
from robot_dynamics_ros.model.build import MOVING, movers
from robot_dynamics_ros.model.load import load_robot
from robot_dynamics_ros.model.robot_tree import STANDARD_GRAVITY, Robot
from robot_dynamics_ros.model.selection import released

_GRIPPER = re.compile('grip|finger|jaw|knuckle|thumb|claw', re.IGNORECASE)
_FINGER = re.compile('finger|jaw|knuckle|thumb|claw', re.IGNORECASE)
_OF_WRIST = re.compile('wrist|roll|rotat|yaw|pitch', re.IGNORECASE)
#: Words in the names of links that are tool frames, and of links that are not.
_TOOL = {'tool', 'tcp', 'ee', 'eef', 'effector', 'tip', 'nozzle', 'probe', 'grasp', 'pinch'}
_NO_TOOL = {'camera', 'optical', 'imu', 'sensor', 'ft', 'lidar', 'pad', 'visual', 'collision'}
_SAME_PLACE = 1e-4  # m
_MAX_NAMES = 6  # in a message


class Chains:
    """The moving joints of a description as a tree.

    Args:
        description: The description.
    """

    def __init__(self, description: RobotDescription) -> None:
        # Joints without a name are refused by those who load the description.
        moving = {x.name: x for x in description.joints if x.name and x.kind in MOVING}
        carried, self._carrier = movers(description), dict[str, str]()
        self._joints, self._below = moving, {name: list[str]() for name in ('', *moving)}
        for name, joint in moving.items():
            self._carrier[name] = carried[joint.parent].name if joint.parent in carried else ''
            self._below[self._carrier[name]].append(name)
        self._independent = [name for name, joint in moving.items() if joint.mimic is None]
        self._length = {name: self._length_below(name) for name in moving}

    def _length_below(self, name: str) -> int:
        """Return the largest number of independent joints of a chain that begins with a joint."""
        own = name in self._independent
        return own + max(map(self._length_below, self._below[name]), default=0)

    def path(self, name: str) -> Iterator[str]:
        """Yield the independent joints from one to the root."""
        while name:
            if name in self._independent:
                yield name
            name = self._carrier[name]

    def fingers(self) -> set[str]:
        """Return the joints of grippers, mimic joints included; none if there is no arm."""
        found = {name for first in self._below[''] for name in self._grippers(first)}
        return found if self._joints.keys() - found else set()

    def grippers(self) -> tuple[str, ...]:
        """Return the independent joints of grippers, in the order of the file."""
        found = self.fingers()
        return tuple(name for name in self._independent if name in found)

    def _grippers(self, name: str) -> set[str]:
        """Return the joints of grippers, mimic joints included, from a joint on."""
        below = self._below[name]
        found = set().union(*map(self._grippers, below))
        ends, carried = found.issuperset(below), self._length_to(name)
        if len(below) > 1 and all(self._length[other] < carried for other in below):
            found |= {one for other in below for one in self._subtree(other)}
            ends = True
        if ends and _is_gripper(self._joints[name]):
            found.add(name)
        return found

    def _length_to(self, name: str) -> int:
        return sum(1 for _ in self.path(name))

    def _subtree(self, name: str) -> Iterator[str]:
        yield name
        for other in self._below[name]:
            yield from self._subtree(other)

    def arm(self) -> list[str]:
        """Return the independent joints without those of grippers, in the order of the file."""
        found = self.fingers()
        return [name for name in self._independent if name not in found]

    def ends(self, longest: bool = False, culprit: str = '') -> list[str]:
        """Return the last links of the chains of the arm, longest first, without grippers.

        Args:
            longest: Whether chains with fewer joints than the longest are left out.
            culprit: That of an error: chains through this joint are left out.
        """
        arm = self.arm()
        carriers = {carrier for name in arm for carrier in [*self.path(name)][1:]}
        last = [name for name in arm if name not in carriers]
        last.sort(key=self._length_to, reverse=True)
        least = self._length_to(last[0]) if longest else 0
        return [
            self._joints[name].child
            for name in last
            if self._length_to(name) >= least
            and culprit not in (f'joint {carrier!r}' for carrier in self.path(name))
        ]

    def hint(self, culprit: str = '') -> str:
        """Return the end of a remedy: to choose one of several chains; empty if none helps."""
        ends = self.ends(culprit=culprit)
        if not ends or len(self.ends()) < 2:
            return ''
        more = ', …' if len(ends) > _MAX_NAMES else ''
        return f'; or control one chain: --tip {" or ".join(ends[:_MAX_NAMES])}{more}'


def _is_gripper(joint: Joint) -> bool:
    """Return whether a joint at the end of a chain is named like one of a gripper."""
    if joint.mimic is not None:
        return True
    named = _GRIPPER.search(joint.name) or _FINGER.search(joint.child)
    return bool(named) and not _OF_WRIST.search(joint.name)


def load_arm(
    path_or_xml: str | os.PathLike[str], gravity: Any = STANDARD_GRAVITY, **options: Any
) -> Robot:
    """Load a robot to move its arm: grippers are locked unless joints or a chain are chosen.

    Where the text of a robot has locked joints, the others are chosen.

    Args:
        path_or_xml: URDF text, or the path of a ``.urdf`` or ``.xacro`` file.
        gravity: Free-fall acceleration in the base frame, shape (3,), m/s^2.
        options: Further arguments of :func:`~robot_dynamics_ros.model.load.load_robot`.

    Raises:
        RobotDynamicsError: As ``load_robot``. If the description has several chains, the remedy
            names them, since the rejected part may be outside of the arm.
    """
    chosen = any(options.get(name) for name in ('base', 'tip', 'loops'))
    if chosen or options.get('joints') is not None:
        return load_robot(path_or_xml, gravity, **options)
    mappings, given = options.pop('mappings', None), options.pop('locked', None) or {}
    description = read_description(path_or_xml, mappings, lambda fault: None)
    chains = Chains(description)
    chosen = any(joint.lock for joint in description.joints)  # by whom this text was written
    grippers = [name for name in chains.grippers() if name not in given and not chosen]
    if grippers:
        options['joints'] = [name for name in chains.arm() if name not in given]
    try:
        tree = load_robot(description.xml, gravity, locked=given, **options)
    except ModelError as error:
        remedy = error.remedy + chains.hint(error.culprit)
        raise ModelError(error.culprit, error.problem, remedy) from error
    if not grippers:
        return tree
    names = ', '.join(map(repr, grippers))
    remark = f'{names}: taken for a gripper and locked; name the joints to control to change this'
    return replace(tree, remarks=(remark, *tree.remarks))


def chain_hint(tree: Robot, culprit: str = '') -> str:
    """Return the end of a remedy for a robot, see :meth:`Chains.hint`."""
    return Chains(parse_urdf(tree.xml, lambda fault: None)).hint(culprit) if tree.xml else ''


def arm_ends(tree: Robot, longest: bool = False) -> list[str]:
    """Return the last moving links of the chains of an arm, see :meth:`Chains.ends`."""
    if not tree.xml:
        return [tree.link_names[-1]]
    return Chains(parse_urdf(tree.xml, lambda fault: None)).ends(longest)


def tool_frame(tree: Robot, name: str = '') -> str:
    """Return the tool frame: the one named, else one at the end of the longest chain.

    Of the links that are fixed at its end, one named like a tool is taken, else the one that is
    farthest from the last joint. Of several chains of the same length the first is taken with a
    link named like a tool, else the first.

    Raises:
        UnknownNameError: The frame does not exist.
    """
    if name:
        tree.frame(name)
        return name
    last = [tree.frame(end).body for end in arm_ends(tree, longest=True)]
    ends = {link: frame for link, frame in tree.frames.items() if frame.body in last}

    def rank(link: str) -> Any:
        kind, nearness = _rank(link, float(np.linalg.norm(ends[link].p_BF)))
        return kind > 0, last.index(ends[link].body), kind, nearness, len(link)

    of_gripper = _gripper_links(tree)
    return min([link for link in ends if link not in of_gripper] or ends, key=rank)


def _gripper_links(tree: Robot) -> set[str]:
    """Return the links that a gripper moves, also where its joints are locked."""
    if not tree.xml:
        return set()
    description = released(parse_urdf(tree.xml, lambda fault: None))[0]
    chains, joints = Chains(description), {joint.name: joint for joint in description.joints}
    found = {joints[name].child for name in chains.fingers()}
    while more := {x.child for x in joints.values() if x.parent in found} - found:
        found |= more
    return found


def _rank(link: str, distance: float) -> tuple[int, int]:
    """Return the key by which candidates for the tool frame are sorted, the best first.

    It consists of the kind of link, and of the distance from the last joint, m. A link at this
    joint comes last, because a rotation does not move it.
    """
    words, place = set(re.findall('[a-z]+', link.lower())), round(distance / _SAME_PLACE)
    finger = _FINGER.search(link) is not None
    kinds = (
        not finger and bool(words & _TOOL),
        not finger and place > 0 and not words & _NO_TOOL,
        place > 0,
        True,
    )
    return kinds.index(True), -place
