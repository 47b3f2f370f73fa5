# SPDX-License-Identifier: Apache-2.0
"""Whether links and joints form one tree, and in which order."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Mapping

from robot_dynamics_ros.description.robot_description import Joint, RobotDescription
from robot_dynamics_ros.errors import DescriptionError, FaultHandler, raise_fault

MOVING = ('revolute', 'continuous', 'prismatic')

_MOST_LISTED = 50  # names in a message


def find_root(description: RobotDescription, on_fault: FaultHandler = raise_fault) -> str | None:
    """Return the name of the root link.

    Args:
        description: The robot as written.
        on_fault: Called with every fault; as given it raises.

    Returns:
        The root, or None after a fault that leaves no tree.

    Raises:
        DescriptionError: Unknown links, kinds of joints that are not supported, loops, several
            roots, no moving joint; nothing if ``on_fault`` returns.
    """
    faults: list[DescriptionError] = []

    def fault(culprit: str, problem: str, remedy: str) -> None:
        faults.append(DescriptionError(culprit, problem, remedy))
        on_fault(faults[-1])

    culprit = f'robot {description.name!r}'
    names = dict.fromkeys(link.name for link in description.links)
    if not names:
        fault(culprit, 'has no link', 'give <link> elements')
        return None
    for joint in description.joints:
        _check_joint(joint, names, fault)
    parent_joint = _parent_joints(description, fault)
    roots = [name for name in names if name not in parent_joint]
    if len(roots) != 1:
        problem = f'has {len(roots)} roots: {_listed(roots)}' if roots else 'is a closed loop'
        fault(f'robot {description.name!r}', problem, 'exactly one link must have no parent joint')
    elif not faults:
        reached = {joint.child for joint in parents_first(description, roots[0])} | {roots[0]}
        for name in names:
            if name not in reached:
                problem = 'is in or below a closed loop of joints'
                fault(f'link {name!r}', problem, 'every link must lead to the root')
        if not any(joint.kind in MOVING for joint in description.joints):
            fault(culprit, 'has no moving joint', f'give one of type {MOVING}')
    return None if faults else roots[0]


def parents_first(description: RobotDescription, root: str) -> list[Joint]:
    """Return the joints so that each follows the joint that carries it, else as in the file.

    Joints that the root does not carry are left out.
    """
    joints = description.joints
    on_link: dict[str, list[int]] = {}
    for place, joint in enumerate(joints):
        on_link.setdefault(joint.parent, []).append(place)
    ready, order = list(on_link.get(root, ())), []
    while ready:
        joint = joints[heapq.heappop(ready)]
        order.append(joint)
        for place in on_link.get(joint.child, ()):
            heapq.heappush(ready, place)
    return order


_Fault = Callable[[str, str, str], None]


def _listed(names: Collection[str]) -> str:
    """Return names for a message; the first ones if there are very many."""
    shown = ', '.join(list(names)[:_MOST_LISTED])
    return shown + ', …' if len(names) > _MOST_LISTED else shown


def _check_joint(joint: Joint, names: Collection[str], fault: _Fault) -> None:
    culprit = f'joint {joint.name!r}'
    if joint.kind not in (*MOVING, 'fixed'):
        fault(culprit, f'unsupported type {joint.kind!r}', f'use one of {(*MOVING, "fixed")}')
    for role, link in (('parent', joint.parent), ('child', joint.child)):
        if link not in names:
            known = _listed(names)
            fault(culprit, f'{role} link {link!r} does not exist', f'known links: {known}')


def _parent_joints(description: RobotDescription, fault: _Fault) -> Mapping[str, Joint]:
    """Return the joint above each link; of two joints the first."""
    parent_joint: dict[str, Joint] = {}
    for joint in description.joints:
        other = parent_joint.setdefault(joint.child, joint)
        if other is not joint:
            fault(
                f'link {joint.child!r}',
                f'is the child of two joints, {other.name!r} and {joint.name!r}: a loop',
                'keep one joint in the URDF and declare the loop in a mechanism file',
            )
    return parent_joint
