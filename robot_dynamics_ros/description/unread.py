# SPDX-License-Identifier: Apache-2.0
"""Elements and attributes of a URDF that the model does not use, one remark per cause.

Known extensions of other programs, elements in other XML namespaces, and what only concerns
appearance, contact or sensors are not remarked.
"""

from __future__ import annotations

import re
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

    attributes: str = ''
    children: str = ''
    ignored: str = ''

    def knows(self, name: str) -> bool:
        return name in f'{self.attributes} {self.children} {self.ignored}'.split()


_SHAPE = _Known('name', 'origin geometry', 'group material verbose surface contact meta bounce '
                'contact_coefficients friction laser_retro max_contacts cast_shadows '
                'transparency concave')  # fmt: skip
_SCHEMA = {
    'robot': _Known('name version', 'link joint', 'material gazebo transmission sensor mujoco '
                    'ros2_control disable_collisions self_collide isaac klampt plugin'),
    'link': _Known('name', 'inertial visual collision', 'type contact sensor gazebo material '
                   'surface kinematic collision_checking self_collision_checking self_collide '
                   'self_filter'),
    'inertial': _Known('', 'origin mass inertia'),
    'origin': _Known('xyz rpy quat_xyzw'),
    'mass': _Known('value'),
    'inertia': _Known('ixx ixy ixz iyy iyz izz'),
    'visual': _SHAPE,
    'collision': _SHAPE,
    'geometry': _Known('name', 'box cylinder capsule sphere mesh'),
    'box': _Known('size'),
    'cylinder': _Known('radius length'),
    'capsule': _Known('radius length'),
    'sphere': _Known('radius'),
    'mesh': _Known('filename scale', '', 'convex concave'),
    'joint': _Known('name type', 'origin parent child axis limit dynamics mimic '
                    'safety_controller locked', 'dont_collapse calibration hardwareInterface'),
    'locked': _Known('type position', 'origin mimic'),  # our own, see ``fix_joints``
    'parent': _Known('link'),
    'child': _Known('link'),
    'axis': _Known('xyz'),
    'limit': _Known('lower upper effort velocity'),
    'dynamics': _Known('damping friction armature'),
    'mimic': _Known('joint multiplier offset'),
    'safety_controller': _Known('soft_lower_limit soft_upper_limit k_position k_velocity'),
}  # fmt: skip
_REPEATED = {'link', 'joint', 'visual', 'collision'}
#: Attributes of URDF 1.2 that the model has no use for.
_LATER = {'acceleration', 'deceleration', 'jerk'}
#: Gazebo's extensions that change the mechanics, with the values that do not.
_MECHANICAL = {
    'springStiffness': ('0',), 'springReference': (), 'spring_stiffness': ('0',),
    'spring_reference': (), 'dampingFactor': ('0',), 'turnGravityOff': ('false', '0'),
    'gravity': ('true', '1'),
}  # fmt: skip
_NEWEST = 1.2
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
    tag = element.tag
    if tag in ('robot', 'link', 'joint'):
        kind, name = tag, element.get('name', '') if tag != 'robot' else ''
    known = _SCHEMA[tag]
    unused = [key for key in element.attrib if not known.knows(key) and _is_plain(key)]
    later = [key for key in unused if tag == 'limit' and key in _LATER]
    if later:
        used = 'motions keep the limits of velocity and effort'
        yield kind, name, f'<limit {", ".join(later)}> is not used', used
    if unused := [key for key in unused if key not in later]:
        yield kind, name, f'<{tag} {", ".join(unused)}> is not used', _has(tag)
    if not known.children and (element.text or '').strip():
        yield kind, name, f'the text in <{tag}> is not used', _has(tag)
    tags = [child.tag for child in element]
    for child in element:
        if child.tag in known.children.split():
            yield from _in_element(child, kind, name)
        elif _is_plain(child.tag) and not known.knows(child.tag) and not _without_effect(child):
            place = '' if tag in ('robot', 'link', 'joint') else f'<{tag}>'
            unused_child = f'{place}<{child.tag}> is not used'
            yield kind, name, unused_child, _has(tag, child=bool(known.children))
    for key in dict.fromkeys(tags):
        if tags.count(key) > 1 and key in known.children.split() and key not in _REPEATED:
            yield kind, name, f'has {tags.count(key)} <{key}>', 'the first one is used'


def _is_plain(name: str) -> bool:
    """Return whether a name has no prefix, such as ``drake:``, and declares none."""
    return ':' not in name and name != 'xmlns'


def _without_effect(element: Element) -> bool:
    """Return whether an element says what is the case anyway: no displacement, gravity acts."""
    values = ' '.join(element.attrib.values()).split()
    if element.tag == 'gravity':
        return (element.text or '').strip() in _MECHANICAL['gravity']
    return element.tag == 'origin' and all(re.fullmatch(r'-?0*\.?0*', x) for x in values)


def _has(tag: str, *, child: bool = False) -> str:
    """Return which attributes or, for a child, which children of an element are read."""
    known = _SCHEMA[tag]
    children = [f'<{name}>' for name in known.children.split()]
    return f'<{tag}> has {", ".join(children if child else known.attributes.split())}'


def _of_gazebo(root: Element) -> Iterator[Found]:
    """Yield what Gazebo would add to the mechanics of a link or joint."""
    joints = {joint.get('name') for joint in root.findall('joint')}
    for element in root.findall('gazebo'):
        name = element.get('reference', '')
        values = {
            child.tag: text
            for child in element
            if child.tag in _MECHANICAL
            and (text := (child.get('value') or child.text or '').strip().lower())
            and not _is_neutral(text, _MECHANICAL[child.tag])
        }
        if name and values and set(values) - {'springReference', 'spring_reference'}:
            kind = 'joint' if name in joints else 'link'
            tags = ''.join(f'<{tag}>' for tag in values)
            yield kind, name, f'<gazebo>{tags} is not part of the model', 'only Gazebo has it'


def _is_neutral(text: str, neutral: tuple[str, ...]) -> bool:
    try:
        return text in neutral or f'{float(text):g}' in neutral
    except ValueError:
        return False


def _of_version(root: Element) -> Iterator[DescriptionRemark]:
    """Yield remarks on a version that is too new, or too old for what the file contains."""
    text = root.get('version', '1.0')
    try:
        version = float(text)
    except ValueError:
        version = float('inf')
    if version > _NEWEST:
        problem = f'version {text!r} is unknown; what it adds is not read'
        yield DescriptionRemark('<robot>', problem, f'versions up to {_NEWEST} are known')
    elif version < 1.1 and next(root.iterfind('.//origin[@quat_xyzw]'), None) is not None:
        problem = f'quat_xyzw is used; other readers ignore it in version {text}'
        yield DescriptionRemark('<robot>', problem, 'write version="1.1", or rpy')
