# SPDX-License-Identifier: Apache-2.0
"""Change URDF text: inertias and joint dynamics, all else to the letter as it was; fix joints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from xml.etree import ElementTree
from xml.parsers import expat

from robot_dynamics_ros.description.robot_description import Inertial, Pose
from robot_dynamics_ros.description.urdf import parse_xml
from robot_dynamics_ros.errors import DescriptionError, UnknownNameError


class JointDynamics(NamedTuple):
    """What the <dynamics> of a joint shall say: N m s/rad or N s/m, N m or N, kg m^2 or kg."""

    damping: float
    friction: float
    armature: float = 0.0


@dataclass
class _Element:
    """Bytes of an element in the text: its own, its start tag's, and the child to replace."""

    start: int
    inside: int = 0
    end: int = 0
    child: tuple[int, int] | None = None


@dataclass
class _Places:
    """Where links and joints stand in a text."""

    links: dict[str, _Element] = field(default_factory=dict)
    joints: dict[str, _Element] = field(default_factory=dict)


_CHILD = {'link': 'inertial', 'joint': 'dynamics'}


def patch_urdf(
    xml: str, inertials: Mapping[str, Inertial], dynamics: Mapping[str, JointDynamics]
) -> str:
    """Return URDF text with some elements replaced, or added where there was none.

    Args:
        xml: URDF text, xacro already expanded.
        inertials: New <inertial> by link name.
        dynamics: New <dynamics> by joint name; its armature is written if it is not 0.

    Returns:
        The text; comments, order and spacing of all else are kept.

    Raises:
        UnknownNameError: There is no such link or joint; lists those that exist.
        DescriptionError: The text is no XML.
    """
    data = xml.encode('utf-8')
    places = _find(data)
    edits: list[tuple[int, int, str]] = []
    for kind, wanted, patched in (
        ('link', {name: _inertial(value) for name, value in inertials.items()}, places.links),
        ('joint', {name: _dynamics(value) for name, value in dynamics.items()}, places.joints),
    ):
        for name, text in wanted.items():
            if name not in patched:
                raise UnknownNameError(kind, name, patched)
            edits.append(_edit(data, kind, patched[name], text))
    for start, end, text in sorted(edits, reverse=True):
        data = data[:start] + text.encode('utf-8') + data[end:]
    return data.decode('utf-8')


def fix_joints(xml: str, poses: Mapping[str, Pose]) -> str:
    """Return URDF text in which some joints are fixed, the child at a pose in the parent.

    Args:
        xml: URDF text, xacro already expanded.
        poses: Pose by joint name.

    Returns:
        The text, written anew without its comments if a joint changes.

    Raises:
        DescriptionError: The text is no XML.
    """
    if not poses:
        return xml
    root = parse_xml(xml)
    for joint in root.findall('joint'):
        pose = poses.get(joint.get('name', ''))
        if pose is None:
            continue
        joint.set('type', 'fixed')
        for mimic in joint.findall('mimic'):
            joint.remove(mimic)
        origin = joint.find('origin')
        origin = ElementTree.SubElement(joint, 'origin') if origin is None else origin
        for key in ('xyz', 'rpy'):
            origin.set(key, ' '.join(map(repr, getattr(pose, key))))
    return ElementTree.tostring(root, encoding='unicode')


def set_effort_limits(xml: str, limits: Mapping[str, float]) -> str:
    """Return URDF text, written anew, whose joints have effort limits, N m or N, by name.

    Raises:
        DescriptionError: The text is no XML.
    """
    root = parse_xml(xml)
    for joint in root.findall('joint'):
        if joint.get('name', '') in limits:
            limit = joint.find('limit')
            limit = ElementTree.SubElement(joint, 'limit') if limit is None else limit
            limit.set('effort', repr(float(limits[joint.get('name', '')])))
    return ElementTree.tostring(root, encoding='unicode')


def _find(data: bytes) -> _Places:
    """Return where the links and joints of the robot stand."""
    places, path = _Places(), []
    parser = expat.ParserCreate('utf-8')
    current: list[_Element] = []
    child_start: list[int] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        path.append(tag)
        at = parser.CurrentByteIndex
        if len(path) == 2 and tag in _CHILD:
            element = _Element(at)
            current[:] = [element]
            kept = places.links if tag == 'link' else places.joints
            kept.setdefault(attributes.get('name', ''), element)
        elif len(path) == 3 and current and tag == _CHILD.get(path[1]):
            child_start[:] = [at]

    def end(tag: str) -> None:
        at = closed = parser.CurrentByteIndex  # behind an element without content
        if data.startswith(f'</{tag}'.encode(), at):
            closed = data.index(b'>', at) + 1
        if len(path) == 3 and child_start:
            if current[0].child is None:
                current[0].child = (child_start.pop(), closed)
            child_start.clear()
        elif len(path) == 2 and current:
            element = current.pop()
            element.inside, element.end = at, closed
        path.pop()

    parser.StartElementHandler, parser.EndElementHandler = start, end
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise DescriptionError(
            'robot description', f'malformed XML ({error})', 'one <robot> element is expected'
        ) from error
    return places


def _edit(data: bytes, kind: str, element: _Element, text: str) -> tuple[int, int, str]:
    """Return the bytes to replace and what to put there."""
    if element.child is not None:
        return *element.child, text
    if data[element.start : element.end].rstrip().endswith(b'/>'):
        slash = data.rindex(b'/>', element.start, element.end)
        return slash, element.end, f'>{text}</{kind}>'
    return element.inside, element.inside, text


def _inertial(value: Inertial) -> str:
    xyz, rpy = (' '.join(map(repr, vector)) for vector in (value.origin.xyz, value.origin.rpy))
    keys = ('ixx', 'ixy', 'ixz', 'iyy', 'iyz', 'izz')
    tensor = ' '.join(f'{key}="{getattr(value, key)!r}"' for key in keys)
    return (
        f'<inertial><origin xyz="{xyz}" rpy="{rpy}"/><mass value="{value.mass!r}"/>'
        f'<inertia {tensor}/></inertial>'
    )


def _dynamics(value: JointDynamics) -> str:
    armature = f' armature="{value.armature!r}"' if value.armature else ''
    return f'<dynamics damping="{value.damping!r}" friction="{value.friction!r}"{armature}/>'
