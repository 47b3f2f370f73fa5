# SPDX-License-Identifier: Apache-2.0
"""URDF text and xacro files as a :class:`RobotDescription`, without model checks.

The data classes hold names, numbers and units as written, nothing derived.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import NamedTuple, TypeVar
from xml.etree import ElementTree
from xml.parsers import expat

from robot_dynamics_ros.description.source import (
    WHOLE,
    is_text,
    rpy_of_quaternion,
    shortened,
    urdf_text,
    with_rpy,
)
from robot_dynamics_ros.description.unread import DescriptionRemark, unread_parts
from robot_dynamics_ros.errors import DescriptionError, FaultHandler, raise_fault, shown

Element = ElementTree.Element
Vector = tuple[float, float, float]


class Pose(NamedTuple):
    """Pose of a child in its parent: xyz in m, rpy in rad (fixed axes x, y, z)."""

    xyz: Vector = (0.0, 0.0, 0.0)
    rpy: Vector = (0.0, 0.0, 0.0)


class Inertial(NamedTuple):
    """Mass (kg) and inertia tensor about the centre of mass (kg m^2) in the axes of ``origin``."""

    mass: float
    origin: Pose
    ixx: float
    ixy: float
    ixz: float
    iyy: float
    iyz: float
    izz: float

    @property
    def is_zero(self) -> bool:
        """Whether mass and tensor are all 0, as in some files for links that are only frames."""
        return self.mass == 0.0 and not any(self[2:])


#: Names of the elements of an inertia tensor.
TENSOR = Inertial._fields[2:]


class Link(NamedTuple):
    """A link; ``inertial`` is None if the file does not specify it."""

    name: str
    inertial: Inertial | None = None


class Limit(NamedTuple):
    """Joint limits: rad or m, rad/s or m/s, N m or N; None if the file does not specify them."""

    lower: float | None = None
    upper: float | None = None
    velocity: float | None = None
    effort: float | None = None

    @property
    def range(self) -> tuple[float, float] | None:
        """Lower and upper limit, rad or m; None unless both exist and lower < upper."""
        if self.lower is None or self.upper is None or self.lower >= self.upper:
            return None
        return self.lower, self.upper


class Mimic(NamedTuple):
    """Mimic relation of a mimic joint: ``position = multiplier * position of joint + offset``.

    The multiplier has the unit of the mimic joint divided by that of ``joint``, the offset the
    unit of the mimic joint (rad or m).
    """

    joint: str
    multiplier: float = 1.0
    offset: float = 0.0


class Lock(NamedTuple):
    """What a fixed joint of our own text was before it was locked, see ``fix_joints``.

    ``position`` (rad or m) is where it is locked, ``origin`` the pose of its child at position 0.
    """

    kind: str
    position: float
    origin: Pose
    mimic: Mimic | None = None


class Joint(NamedTuple):
    """A joint between two links; the frame of the child is the joint frame.

    ``armature`` (kg m^2 or kg) is the reflected inertia of the drive, given by the attribute
    ``armature`` of the ``<dynamics>`` element, an extension that other URDF parsers ignore.
    ``soft`` are the soft position limits of the ``<safety_controller>``; None if it has none.
    """

    name: str
    kind: str
    parent: str
    child: str
    origin: Pose = Pose()
    axis: Vector = (1.0, 0.0, 0.0)
    limit: Limit | None = None
    damping: float = 0.0
    friction: float = 0.0
    armature: float = 0.0
    mimic: Mimic | None = None
    lock: Lock | None = None
    soft: tuple[float, float] | None = None


class RobotDescription(NamedTuple):
    """Links and joints of a robot in the order of the file.

    Attributes:
        xml: The expanded URDF text; quaternions of origins are written as rpy, which all readers
            know.
        remarks: What is not used of the text.
    """

    name: str
    links: tuple[Link, ...]
    joints: tuple[Joint, ...]
    xml: str
    remarks: tuple[DescriptionRemark, ...] = ()


T = TypeVar('T', Link, Joint)

#: Maximum nesting depth of elements; descriptions need five levels, plugins some more.
_MAX_DEPTH = 100
_MAX_NUMBER = 1e50  # in any unit; its powers are still finite


def read_description(
    path_or_xml: str | os.PathLike[str],
    mappings: Mapping[str, str] | None = None,
    on_fault: FaultHandler = raise_fault,
) -> RobotDescription:
    """Read a robot from URDF text, a URDF file or a xacro file.

    Args:
        path_or_xml: URDF text (starts with ``<``), or the path of a URDF or xacro file.
        mappings: Values of the xacro file's arguments, such as ``{'limits_profile': 'wide'}``.
        on_fault: See :func:`parse_urdf`.

    Returns:
        The description as written, except that paths of meshes relative to the file or in a
        package that is not installed become absolute.

    Raises:
        DescriptionError: The file is missing or malformed; names the element and the remedy.
        MissingDependencyError: A xacro file was given and xacro is not installed.
    """
    text = urdf_text(path_or_xml, mappings or {})
    try:
        return parse_urdf(text, on_fault)
    except DescriptionError as error:
        if error.culprit != WHOLE or is_text(path_or_xml):
            raise
        culprit = f'{WHOLE} {shown(os.fspath(path_or_xml))}'
        raise DescriptionError(culprit, error.problem, error.remedy) from error


def parse_urdf(xml: str, on_fault: FaultHandler = raise_fault) -> RobotDescription:
    """Parse URDF text.

    Args:
        xml: The text of one ``<robot>`` element.
        on_fault: Called with every fault of an element; raises by default. If it returns, parsing
            continues with NaN for an invalid number, an empty name for a missing one, and the
            first of several elements of the same name, so that all faults can be reported.

    Returns:
        The description as written.

    Raises:
        DescriptionError: Malformed XML, missing elements or attributes, invalid numbers.
    """
    root = parse_xml(xml)
    if root.tag != 'robot':
        raise DescriptionError(WHOLE, f'root element is <{root.tag}>', 'it must be <robot>')
    return _Reader(on_fault).robot(root, xml)


def parse_xml(xml: str) -> Element:
    """Return the root element of XML text.

    Names are taken as written, with their prefix: the readers of URDF in ROS know no XML
    namespaces, so that files exist with a prefix that nothing declares, or with a default one.

    Raises:
        DescriptionError: The text is malformed or nested too deeply.
    """
    builder, parser = ElementTree.TreeBuilder(), expat.ParserCreate()
    depth = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > _MAX_DEPTH:
            problem = f'more than {_MAX_DEPTH} nested elements'
            raise DescriptionError(WHOLE, problem, 'close each <element>')
        builder.start(tag, attributes)

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(tag)

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = builder.data
    try:  # text, so that its declared encoding does not matter
        parser.Parse(xml, True)
    except (expat.ExpatError, ValueError) as error:
        if isinstance(error, DescriptionError):
            raise
        other = '' if is_text(xml) else f', not {shown(xml)}'  # a text of another kind
        remedy = f'one <robot> element is expected{other}'
        raise DescriptionError(WHOLE, f'malformed XML ({error})', remedy) from error
    return builder.close()


class _Reader:
    """Reads elements and reports every fault to one handler."""

    def __init__(self, on_fault: FaultHandler) -> None:
        self._on_fault = on_fault

    def _fault(self, culprit: str, problem: str, remedy: str) -> None:
        self._on_fault(DescriptionError(culprit, problem, remedy))

    def robot(self, root: Element, xml: str) -> RobotDescription:
        links = [self._link(element) for element in root.findall('link')]
        joints = [self._joint(element) for element in root.findall('joint')]
        links, joints = self._distinct('link', links), self._distinct('joint', joints)
        remarks = tuple(unread_parts(root))
        name, text = root.get('name', ''), with_rpy(xml)
        return RobotDescription(name, tuple(links), tuple(joints), text, remarks)

    def _distinct(self, kind: str, parts: list[T]) -> list[T]:
        """Return the first part of each name; report the names of several."""
        named: dict[str, list[T]] = {}
        for part in parts:
            named.setdefault(part.name, []).append(part)
        for name, same in named.items():
            if name and len(same) > 1:
                remedy = f'every {kind} needs its own name'
                self._fault(f'{kind} {name!r}', 'declared more than once', remedy)
        return [same[0] for same in named.values()]

    def _name(self, element: Element) -> str:
        name = element.get('name', '')
        if not name:
            self._fault(
                f'<{element.tag}>', 'has no name', 'every link and joint needs a name attribute'
            )
        return name

    def _number(
        self, element: Element, key: str, culprit: str, default: float | None = None
    ) -> float:
        text = element.get(key)
        if text is not None:
            return self._finite(text, f'{culprit} <{element.tag} {key}>')
        if default is not None:
            return default
        self._fault(culprit, f'<{element.tag}> has no {key!r}', f'give {key}="<number>"')
        return math.nan

    def _finite(self, text: str, culprit: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if abs(value) < _MAX_NUMBER:
            return value
        if math.isfinite(value):
            self._fault(culprit, f'{value:g} is too large', 'give SI units')
        else:
            self._fault(culprit, f'{shortened(text)} is not a finite number', 'give one number')
        return math.nan

    def _vector(self, element: Element | None, key: str, culprit: str, default: Vector) -> Vector:
        if element is None or (text := element.get(key)) is None:
            return default
        culprit, parts = f'{culprit} <{element.tag} {key}>', text.split()
        if len(parts) != 3:
            self._fault(culprit, f'{shortened(text)} has {len(parts)} numbers', 'give three')
            return (math.nan, math.nan, math.nan)
        x, y, z = (self._finite(part, culprit) for part in parts)
        return (x, y, z)

    def _pose(self, parent: Element, culprit: str) -> Pose:
        origin, zero = parent.find('origin'), (0.0, 0.0, 0.0)
        xyz, rpy = (self._vector(origin, key, culprit, zero) for key in ('xyz', 'rpy'))
        if origin is None or (text := origin.get('quat_xyzw')) is None:
            return Pose(xyz, rpy)
        if origin.get('rpy') is not None:
            self._fault(culprit, '<origin> has both rpy and quat_xyzw', 'give one of them')
            return Pose(xyz, rpy)
        try:
            return Pose(xyz, rpy_of_quaternion(text))
        except ValueError as error:
            remedy = 'give four numbers x y z w, not all zero'
            self._fault(f'{culprit} <origin quat_xyzw>', str(error), remedy)
            return Pose(xyz, (math.nan, math.nan, math.nan))

    def _link(self, element: Element) -> Link:
        name, inertial = self._name(element), element.find('inertial')
        if inertial is None:
            return Link(name)
        culprit, values = f'link {name!r}', []
        for tag, keys in (('mass', ('value',)), ('inertia', TENSOR)):
            child = inertial.find(tag)
            if child is None:
                remedy = 'give <mass value> and <inertia ixx ... izz>'
                self._fault(culprit, f'<inertial> has no <{tag}>', remedy)
            for key in keys:
                values.append(math.nan if child is None else self._number(child, key, culprit))
        mass, *tensor = values
        return Link(name, Inertial(mass, self._pose(inertial, culprit), *tensor))

    def _joint(self, element: Element) -> Joint:
        name = self._name(element)
        culprit = f'joint {name!r}'
        parent, child = (self._end(element, tag, culprit) for tag in ('parent', 'child'))
        limit, dynamics, locked = (element.find(tag) for tag in ('limit', 'dynamics', 'locked'))
        drive = Element('dynamics') if dynamics is None else dynamics
        damping, friction, armature = (
            self._number(drive, key, culprit, 0.0) for key in ('damping', 'friction', 'armature')
        )
        return Joint(
            name,
            element.get('type', ''),
            parent,
            child,
            self._pose(element, culprit),
            self._vector(element.find('axis'), 'xyz', culprit, (1.0, 0.0, 0.0)),
            None if limit is None else self._limit(limit, culprit),
            damping,
            friction,
            armature,
            self._mimic(element, culprit),
            None if locked is None else self._lock(locked, culprit),
            self._soft_limits(element, culprit),
        )

    def _soft_limits(self, joint: Element, culprit: str) -> tuple[float, float] | None:
        """Return the soft limits of a joint, which default to 0; None if they are equal."""
        element = joint.find('safety_controller')
        if element is None:
            return None
        lower, upper = (
            self._number(element, f'soft_{end}_limit', culprit, 0.0) for end in ('lower', 'upper')
        )
        return (lower, upper) if lower < upper or lower > upper else None

    def _lock(self, element: Element, culprit: str) -> Lock:
        position, kind = self._number(element, 'position', culprit), element.get('type', '')
        pose, mimic = self._pose(element, culprit), self._mimic(element, culprit)
        return Lock(kind, position, pose, mimic)

    def _end(self, joint: Element, tag: str, culprit: str) -> str:
        """Return the parent or child link of a joint."""
        end = joint.find(tag)
        if end is None:
            self._fault(culprit, f'has no <{tag}>', 'give <parent link> and <child link>')
            return ''
        return end.get('link', '')

    def _mimic(self, parent: Element, culprit: str) -> Mimic | None:
        element = parent.find('mimic')
        if element is None:
            return None
        return Mimic(
            element.get('joint', ''),
            self._number(element, 'multiplier', culprit, 1.0),
            self._number(element, 'offset', culprit, 0.0),
        )

    def _limit(self, element: Element, culprit: str) -> Limit:
        given = (key for key in Limit._fields if key in element.attrib)
        return Limit(**{key: self._number(element, key, culprit) for key in given})
