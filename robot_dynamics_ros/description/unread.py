# SPDX-License-Identifier: Apache-2.0
"""Elements and attributes of a URDF that the model does not use, one remark per cause.

Known extensions of other programs, elements in other XML namespaces, and what only concerns
appearance, contact or sensors are not remarked.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from xml.etree.ElementTree import Element


class DescriptionRemark(NamedTuple):
    """What is unusual about a part of a description, and what follows.

    Attributes:
        culprit: The elements, such as "joints 'a', 'b'".
        problem: What is unusual.
        remedy: How to correct it, or what the reader does instead.
    """

    culprit: str
    problem: str
    remedy: str


class _Known(NamedTuple):
    """Attributes and children of an element that are read, and those that are ignored."""

    attributes: list[str]
    children: list[str]
    ignored: list[str]


#: An element; its attributes, and its children, that are read; what is ignored of both.
_ELEMENTS = """
robot | name version | link joint | material gazebo transmission sensor mujoco ros2_control disable_collisions self_collide isaac klampt plugin
link | name | inertial visual collision | type contact sensor gazebo material surface kinematic collision_checking self_collision_checking self_collide self_filter
inertial | | origin mass inertia |
origin | xyz rpy quat_xyzw | |
mass | value | |
inertia | ixx ixy ixz iyy iyz izz | |
visual | name | origin geometry | group material verbose surface contact meta bounce contact_coefficients friction laser_retro max_contacts cast_shadows transparency concave
collision | name | origin geometry | group material verbose surface contact meta bounce contact_coefficients friction laser_retro max_contacts cast_shadows transparency concave
geometry | name | box cylinder capsule sphere mesh |
box | size | |
cylinder | radius length | |
capsule | radius length | |
sphere | radius | |
mesh | filename scale | | convex concave
joint | name type | origin parent child axis limit dynamics mimic safety_controller locked | dont_collapse calibration hardwareInterface
locked | type position | origin mimic |
parent | link | |
child | link | |
axis | xyz | |
limit | lower upper effort velocity | |
dynamics | damping friction armature | |
mimic | joint multiplier offset | |
safety_controller | soft_lower_limit soft_upper_limit k_position k_velocity | |
"""  # noqa: E501
_ROWS = [[part.split() for part in line.split('|')] for line in _ELEMENTS.strip().splitlines()]
_SCHEMA = {tag: _Known(*parts) for [tag], *parts in _ROWS}
_REPEATED = {'link', 'joint', 'visual', 'collision'}
#: Gazebo's extensions that change the mechanics, unless they are zero, or leave gravity as it is.
_MECHANICAL = {
    *('springStiffness', 'springReference', 'spring_stiffness', 'spring_reference'),
    *('dampingFactor', 'turnGravityOff', 'gravity'),
}
_ZERO = re.compile(r'-?0*\.?0*|false')
_VERSIONS = '1', '1.0', '1.1', '1.2'
_MOST_NAMES = 6  # in a remark
_PLURAL = {'has': 'have', 'is': 'are'}


def unread_parts(root: Element) -> list[DescriptionRemark]:
    """Return a remark for each kind of element or attribute that is not used.

    Args:
        root: The <robot> element.
    """
    found: dict[tuple[str, str, str], list[str]] = {}
    for kind, name, problem, remedy in (*_in_element(root, '', ''), *_of_gazebo(root)):
        found.setdefault((kind, problem, remedy), []).append(name)
    remarks = [
        DescriptionRemark(*of_several(kind, names, problem), remedy)
        for (kind, problem, remedy), names in found.items()
    ]
    return [*_of_version(root), *remarks]


def of_several(kind: str, names: Iterable[str], problem: str) -> tuple[str, str]:
    """Return the elements of a kind that share a problem, and the problem, in words.

    Elements are "joint 'a'" or "joints 'a', 'b'", shortened if many.
    """
    distinct = list(dict.fromkeys(names))
    if not distinct[0]:
        return f'<{kind}>', problem
    if len(distinct) == 1:
        return f'{kind} {distinct[0]!r}', problem
    listed = ', '.join(map(repr, distinct[:_MOST_NAMES]))
    more = f' and {len(distinct) - _MOST_NAMES} more' if len(distinct) > _MOST_NAMES else ''
    verb, _, rest = problem.partition(' ')
    return f'{kind}s {listed}{more}', f'{_PLURAL.get(verb, verb)} {rest}'


Found = tuple[str, str, str, str]  # kind and name of the link or joint, problem, remedy


def without_effort(root: Element, joints: Iterable[str]) -> str:
    """Return which joints <ros2_control> offers no effort command for, in words; empty: none.

    Joints that no <ros2_control> names are not judged.
    """
    offered: dict[str, set[str]] = {}
    for joint in root.findall('ros2_control/joint'):
        names = {one.get('name', '') for one in joint.findall('command_interface')}
        offered.setdefault(joint.get('name', ''), set()).update(names)
    without = [name for name in joints if 'effort' not in offered.get(name, {'effort'})]
    if not without:
        return ''
    others = ', '.join(sorted(set().union(*(offered[name] for name in without)))) or 'none'
    culprit, _ = of_several('joint', without, '')
    return f'{culprit}: <ros2_control> offers no effort command (but: {others}); no law drives it'


def _in_element(element: Element, kind: str, name: str) -> Iterator[Found]:
    """Yield what is not used in an element that is read, and below it."""
    tag, known = element.tag, _SCHEMA[element.tag]
    is_part = tag in ('robot', 'link', 'joint')
    if is_part:
        kind, name = tag, element.get('name', '') if tag != 'robot' else ''
    attributes = f'<{tag}> has {", ".join(known.attributes)}'
    parts = [f'<{part}>' for part in known.children]
    unused = [key for key in element.attrib if _is_strange(key, known)]
    if unused:
        yield kind, name, f'<{tag} {", ".join(unused)}> is not used', attributes
    if not parts and (element.text or '').strip():
        yield kind, name, f'the text in <{tag}> is not used', attributes
    for child in element:
        if child.tag in known.children:
            yield from _in_element(child, kind, name)
        elif _is_strange(child.tag, known) and not _is_neutral(child):
            unused_child = f'{"" if is_part else f"<{tag}>"}<{child.tag}> is not used'
            has = f'<{tag}> has {", ".join(parts)}' if parts else attributes
            yield kind, name, unused_child, has
    counts = Counter(child.tag for child in element)
    for key in known.children:
        if counts[key] > 1 and key not in _REPEATED:
            yield kind, name, f'has {counts[key]} <{key}>', 'the first one is used'


def _is_strange(name: str, known: _Known) -> bool:
    """Return whether a name is unknown, has no prefix, such as ``drake:``, and declares none."""
    return ':' not in name and name != 'xmlns' and all(name not in names for names in known)


def _is_neutral(element: Element) -> bool:
    """Return whether an element says what is the case anyway: no displacement, gravity acts."""
    text = (element.get('value') or element.text or '').strip().lower()
    if element.tag == 'gravity':
        return text in ('', 'true', '1')
    values = (
        text.split() if element.tag in _MECHANICAL else ' '.join(element.attrib.values()).split()
    )
    return element.tag in ('origin', *_MECHANICAL) and all(map(_ZERO.fullmatch, values))


def _of_gazebo(root: Element) -> Iterator[Found]:
    """Yield what Gazebo would add to the mechanics of a link or joint."""
    joints = {joint.get('name') for joint in root.findall('joint')}
    for element in root.findall('gazebo'):
        name = element.get('reference', '')
        tags = [x.tag for x in element if x.tag in _MECHANICAL and not _is_neutral(x)]
        if name and not all(tag.lower().endswith('reference') for tag in tags):
            kind, listed = 'joint' if name in joints else 'link', ''.join(f'<{x}>' for x in tags)
            yield kind, name, f'<gazebo>{listed} is not part of the model', 'only Gazebo has it'


def _of_version(root: Element) -> Iterator[DescriptionRemark]:
    """Yield a remark on a version that is too new, or too old for what the file contains."""
    text = root.get('version', '1.0')
    if text not in _VERSIONS:
        problem = f'version {text!r} is unknown; what it adds is not read'
        yield DescriptionRemark('<robot>', problem, f'versions up to {_VERSIONS[-1]} are known')
    elif text not in _VERSIONS[2:] and root.find('.//origin[@quat_xyzw]') is not None:
        problem = f'quat_xyzw is used; other readers ignore it in version {text}'
        yield DescriptionRemark('<robot>', problem, 'write version="1.1", or rpy')
