# SPDX-License-Identifier: Apache-2.0
"""Whether links and joints form one tree, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from robot_dynamics_ros.description.robot_description import Joint, RobotDescription
from robot_dynamics_ros.errors import DescriptionError, FaultHandler, raise_fault

MOVING = ('revolute', 'continuous', 'prismatic')


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
    names = [link.name for link in description.links]
    if not names:
        fault(culprit, 'has no link', 'give <link> elements')
        return None
    for joint in description.joints:
        _check_joint(joint, names, fault)
    parent_joint = _parent_joints(description, fault)
    roots = [name for name in names if name not in parent_joint]
    if len(roots) != 1:
        problem = f'has {len(roots)} roots: {", ".join(roots)}' if roots else 'is a closed loop'
        fault(f'robot {description.name!r}', problem, 'exactly one link must have no parent joint')
    elif not faults:
        _check_cycles(names, parent_joint, roots[0], fault)
        if not any(joint.kind in MOVING for joint in description.joints):
            fault(culprit, 'has no moving joint', f'give one of type {MOVING}')
    return None if faults else roots[0]


def parents_first(description: RobotDescription, root: str) -> list[Joint]:
    """Return the joints so that each follows the joint that carries it, else as in the file."""
    placed, waiting, order = {root}, list(description.joints), []
    while waiting:
        joint = next(joint for joint in waiting if joint.parent in placed)
        waiting.remove(joint)
        placed.add(joint.child)
        order.append(joint)
    return order


_Fault = Callable[[str, str, str], None]


def _check_joint(joint: Joint, names: list[str], fault: _Fault) -> None:
    culprit = f'joint {joint.name!r}'
    if joint.kind not in (*MOVING, 'fixed'):
        fault(culprit, f'unsupported type {joint.kind!r}', f'use one of {(*MOVING, "fixed")}')
    for role, link in (('parent', joint.parent), ('child', joint.child)):
        if link not in names:
            fault(
                culprit,
                f'{role} link {link!r} does not exist',
                f'known links: {", ".join(names)}',
            )


def _parent_joints(description: RobotDescription, fault: _Fault) -> dict[str, Joint]:
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


def _check_cycles(
    names: list[str], parent_joint: Mapping[str, Joint], root: str, fault: _Fault
) -> None:
    for link in names:
        seen, name = {link}, link
        while name != root:
            name = parent_joint[name].parent
            if name in seen:
                fault(
                    f'link {link!r}',
                    'is in or below a closed loop of joints',
                    'every link must lead to the root',
                )
                break
            seen.add(name)
