# SPDX-License-Identifier: Apache-2.0
"""Edit URDF text: inertials, joint dynamics, fixed joints and effort limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple
from xml.etree import ElementTree
from xml.parsers import expat

from robot_dynamics_ros.description.robot_description import TENSOR, Inertial, Pose
from robot_dynamics_ros.description.urdf import parse_xml
from robot_dynamics_ros.errors import DescriptionError, known_name


class JointDynamics(NamedTuple):
    """Values for the <dynamics> of a joint: N m s/rad or N s/m, N m or N, kg m^2 or kg."""

    damping: float
    friction: float
    armature: float = 0.0


@dataclass
class _Element:
    """Byte offsets of an element in the text: start, end tag, end, and the child to replace."""

    start: int
    end_tag: int = 0
    end: int = 0
    child: tuple[int, int] | None = None


_CHILD = {'link': 'inertial', 'joint': 'dynamics'}


def patch_urdf(
    xml: str, inertials: Mapping[str, Inertial], dynamics: Mapping[str, JointDynamics]
) -> str:
    """Return URDF text with some elements replaced, or added if missing.

    Args:
        xml: URDF text, xacro already expanded.
        inertials: New <inertial> by link name.
        dynamics: New <dynamics> by joint name; the armature is written only if it is not 0.

    Returns:
        The text; all other content, including comments and whitespace, is unchanged.

    Raises:
        UnknownNameError: A link or joint does not exist; lists the existing ones.
        DescriptionError: The text is malformed.
    """
    data = xml.encode('utf-8')
    locations = _locate(data)
    edits: list[tuple[int, int, str]] = []
    for kind, replacements in (
        ('link', {name: _inertial(value) for name, value in inertials.items()}),
        ('joint', {name: _dynamics(value) for name, value in dynamics.items()}),
    ):
        for name, text in replacements.items():
            element = locations[kind][known_name(kind, name, locations[kind])]
            edits.append(_edit(data, kind, element, text))
    for start, end, text in sorted(edits, reverse=True):
        data = data[:start] + text.encode('utf-8') + data[end:]
    return data.decode('utf-8')


def fix_joints(xml: str, poses: Mapping[str, Pose]) -> str:
    """Return URDF text in which some joints are fixed.

    Args:
        xml: URDF text, xacro already expanded.
        poses: Pose of the child in the parent, by joint name.

    Returns:
        The text; if a joint changes it is serialized again, without comments.

    Raises:
        DescriptionError: The text is malformed.
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
    """Return URDF text, serialized again, with effort limits, N m or N, by joint name.

    Raises:
        DescriptionError: The text is malformed.
    """
    root = parse_xml(xml)
    for joint in root.findall('joint'):
        if joint.get('name', '') in limits:
            limit = joint.find('limit')
            limit = ElementTree.SubElement(joint, 'limit') if limit is None else limit
            limit.set('effort', repr(float(limits[joint.get('name', '')])))
    return ElementTree.tostring(root, encoding='unicode')


def _locate(data: bytes) -> dict[str, dict[str, _Element]]:
    """Return the locations of the robot's links and joints by 'link' or 'joint', and name."""
    locations: dict[str, dict[str, _Element]] = {kind: {} for kind in _CHILD}
    path: list[str] = []
    parser = expat.ParserCreate('utf-8')
    current: list[_Element] = []
    child_start: list[int] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        path.append(tag)
        at = parser.CurrentByteIndex
        if len(path) == 2 and tag in _CHILD:
            element = _Element(at)
            current[:] = [element]
            locations[tag].setdefault(attributes.get('name', ''), element)
        elif len(path) == 3 and current and tag == _CHILD.get(path[1]):
            child_start[:] = [at]

    def end(tag: str) -> None:
        at = closed = parser.CurrentByteIndex  # after an element without content
        if data.startswith(f'</{tag}'.encode(), at):
            closed = data.index(b'>', at) + 1
        if len(path) == 3 and child_start:
            if current[0].child is None:
                current[0].child = (child_start.pop(), closed)
            child_start.clear()
        elif len(path) == 2 and current:
            element = current.pop()
            element.end_tag, element.end = at, closed
        path.pop()

    parser.StartElementHandler, parser.EndElementHandler = start, end
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise DescriptionError(
            'robot description', f'malformed XML ({error})', 'one <robot> element is expected'
        ) from error
    return locations


def _edit(data: bytes, kind: str, element: _Element, text: str) -> tuple[int, int, str]:
    """Return start and end of the bytes to replace, and the replacement."""
    if element.child is not None:
        return *element.child, text
    if data[element.start : element.end].rstrip().endswith(b'/>'):
        slash = data.rindex(b'/>', element.start, element.end)
        return slash, element.end, f'>{text}</{kind}>'
    return element.end_tag, element.end_tag, text


def _inertial(value: Inertial) -> str:
    xyz, rpy = (' '.join(map(repr, vector)) for vector in (value.origin.xyz, value.origin.rpy))
    tensor = ' '.join(f'{key}="{getattr(value, key)!r}"' for key in TENSOR)
    return (
        f'<inertial><origin xyz="{xyz}" rpy="{rpy}"/><mass value="{value.mass!r}"/>'
        f'<inertia {tensor}/></inertial>'
    )


def _dynamics(value: JointDynamics) -> str:
    armature = f' armature="{value.armature!r}"' if value.armature else ''
    return f'<dynamics damping="{value.damping!r}" friction="{value.friction!r}"{armature}/>'
