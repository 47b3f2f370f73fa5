# SPDX-License-Identifier: Apache-2.0
"""Edit URDF text: inertials, joint dynamics, fixed joints and effort limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from xml.etree import ElementTree
from xml.parsers import expat

from robot_dynamics_ros.description.urdf import TENSOR, Inertial, Joint, Lock, Pose, parse_xml
from robot_dynamics_ros.errors import known_name


class JointDynamics(NamedTuple):
    """Values for the <dynamics> of a joint: N m s/rad or N s/m, N m or N, kg m^2 or kg."""

    damping: float
    friction: float
    armature: float = 0.0


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
    parse_xml(xml)  # which tells of malformed text
    data = xml.encode('utf-8')
    places, edits = _places(data), []
    for kind, replacements in (
        ('link', {name: _inertial(value) for name, value in inertials.items()}),
        ('joint', {name: _dynamics(value) for name, value in dynamics.items()}),
    ):
        for name, text in replacements.items():
            start, end, around = places[kind][known_name(kind, name, places[kind])]
            edits.append((start, end, around.format(text).encode('utf-8')))
    for start, end, content in sorted(edits, reverse=True):
        data = data[:start] + content + data[end:]
    return data.decode('utf-8')


def with_fixed_link(xml: str, parent: str, name: str, inertial: Inertial) -> str:
    """Return URDF text with another link, fixed to a link with equal axes and origin.

    Args:
        xml: URDF text, xacro already expanded.
        parent: Name of that link.
        name: Name of the new one, and of its joint.
        inertial: Mass and inertia of the new one.
    """
    from xml.sax.saxutils import quoteattr  # deferred: loads urllib, 35 ms of every start

    parent, child = quoteattr(parent), quoteattr(name)
    before, end, behind = xml.rpartition('</robot')
    return (
        f'{before}  <link name={child}>{_inertial(inertial)}</link>\n  <joint name={child} '
        f'type="fixed"><parent link={parent}/><child link={child}/></joint>\n{end}{behind}'
    )


def fix_joints(xml: str, joints: Iterable[Joint]) -> str:
    """Return URDF text in which some joints are fixed.

    What a locked joint was is kept in an element ``<locked>``, which only our reader knows.

    Args:
        xml: URDF text, xacro already expanded.
        joints: The joints as they shall be, of type 'fixed'.

    Returns:
        The text; if a joint changes it is serialized again, without comments.

    Raises:
        DescriptionError: The text is malformed.
    """
    fixed = {joint.name: joint for joint in joints}
    if not fixed:
        return xml
    root = parse_xml(xml)
    for element in root.findall('joint'):
        joint = fixed.get(element.get('name', ''))
        if joint is None:
            continue
        element.set('type', 'fixed')
        for tag in ('mimic', 'locked'):
            for child in element.findall(tag):
                element.remove(child)
        _set_origin(element, joint.origin)
        if joint.lock is not None:
            _add_lock(element, joint.lock)
    return ElementTree.tostring(root, encoding='unicode')


def _add_lock(element: ElementTree.Element, lock: Lock) -> None:
    given = {'type': lock.kind, 'position': repr(lock.position)}
    child = ElementTree.SubElement(element, 'locked', given)
    _set_origin(child, lock.origin)
    if lock.mimic is not None:
        joint, multiplier, offset = lock.mimic
        given = {'joint': joint, 'multiplier': repr(multiplier), 'offset': repr(offset)}
        ElementTree.SubElement(child, 'mimic', given)


def _set_origin(element: ElementTree.Element, pose: Pose) -> None:
    origin = _child(element, 'origin')
    origin.attrib.pop('quat_xyzw', None)
    for key in ('xyz', 'rpy'):
        origin.set(key, ' '.join(map(repr, getattr(pose, key))))


def set_effort_limits(xml: str, limits: Mapping[str, float]) -> str:
    """Return URDF text, serialized again, with effort limits, N m or N, by joint name.

    Raises:
        DescriptionError: The text is malformed.
    """
    root = parse_xml(xml)
    for joint in root.findall('joint'):
        if (name := joint.get('name', '')) in limits:
            _child(joint, 'limit').set('effort', repr(float(limits[name])))
    return ElementTree.tostring(root, encoding='unicode')


def _child(parent: ElementTree.Element, tag: str) -> ElementTree.Element:
    """Return the child of an element, added if it is missing."""
    child = parent.find(tag)
    return ElementTree.SubElement(parent, tag) if child is None else child


def _places(data: bytes) -> dict[str, dict[str, tuple[int, int, str]]]:
    """Return where to write the child of every link and joint, by 'link' or 'joint', and name.

    The bytes to replace, from start to end, and the text around the child.
    """
    places: dict[str, dict[str, tuple[int, int, str]]] = {kind: {} for kind in _CHILD}
    open_elements: list[tuple[str, str, int]] = []  # tag, name, first byte
    children: list[tuple[int, int]] = []  # of the open link or joint
    parser = expat.ParserCreate('utf-8')

    def start(tag: str, attributes: dict[str, str]) -> None:
        open_elements.append((tag, attributes.get('name', ''), parser.CurrentByteIndex))

    def end(tag: str) -> None:
        _, name, begin = open_elements.pop()
        at = closed = parser.CurrentByteIndex  # after an element without content
        if data.startswith(f'</{tag}'.encode(), at):
            closed = data.index(b'>', at) + 1
        if len(open_elements) == 2 and tag == _CHILD.get(open_elements[1][0]):
            children.append((begin, closed))
        elif len(open_elements) == 1 and tag in _CHILD:
            place = (at, at, '{}')
            if children:
                place = (*children[0], '{}')
            elif at == closed:
                place = (data.rindex(b'/>', begin, at), at, f'>{{}}</{tag}>')
            places[tag].setdefault(name, place)
            children.clear()

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.Parse(data, True)
    return places


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
