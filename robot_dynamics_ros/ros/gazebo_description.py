# SPDX-License-Identifier: Apache-2.0
"""The description of a robot of one's own as Gazebo wants it."""

from __future__ import annotations

from collections.abc import Mapping
from xml.etree import ElementTree

from robot_dynamics_ros.description.shipped import share_directory
from robot_dynamics_ros.description.urdf import parse_xml, read_description
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.ros.gazebo_files import model_name

_ARGUMENTS = ('gazebo', 'controllers_file', 'namespace', 'initial_position')


def gazebo_description(tree: RobotTree, mappings: Mapping[str, str]) -> str:
    """Return URDF text with what Gazebo needs, as ``urdf/gazebo.xacro`` gives it to shipped arms.

    The robot is tied to the world. Plugins and ``<ros2_control>`` of its own are left out: they
    would command the same joints, or are for the older Gazebo. Drive inertia is left out, which
    SDF cannot say, and Coulomb friction if so asked: whoever reads the text computes with what is
    simulated.

    Args:
        tree: The robot; its controlled joints are driven.
        mappings: Arguments of ``urdf/gazebo.xacro``; others are not used.

    Raises:
        DescriptionError: An argument is refused.
    """
    root = parse_xml(tree.xml)
    chosen = {key: mappings[key] for key in _ARGUMENTS if key in mappings}
    names = {'robot': model_name(tree), 'joints': '|'.join(tree.joint_names)}
    file = share_directory() / 'urdf' / 'gazebo_parts.urdf.xacro'
    parts = parse_xml(read_description(file, chosen | names).xml)
    for element in [*root.findall('ros2_control'), *root.findall('gazebo[plugin]')]:
        root.remove(element)
    _tie_to_world(root, parts)
    root.extend(part for part in parts if part.tag != 'link')
    for dynamics in root.iter('dynamics'):
        dynamics.attrib.pop('armature', None)
        if mappings.get('coulomb_friction') == 'false':
            dynamics.set('friction', '0')
    return ElementTree.tostring(root, encoding='unicode')


def _tie_to_world(root: ElementTree.Element, parts: ElementTree.Element) -> None:
    """Put the link ``world`` before the robot's first link, unless that has this name."""
    children = {child.get('link') for child in root.iterfind('joint/child')}
    names = [link.get('name', '') for link in root.findall('link')]
    first = next(name for name in names if name not in children)
    if first == 'world':
        return
    root.extend(parts.findall('link'))
    anchor = ElementTree.SubElement(root, 'joint', name='world_anchor', type='fixed')
    ElementTree.SubElement(anchor, 'parent', link='world')
    ElementTree.SubElement(anchor, 'child', link=first)
