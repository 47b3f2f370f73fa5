# SPDX-License-Identifier: Apache-2.0
"""Robots to measure with, as URDF text that other libraries can read."""

from __future__ import annotations

from importlib import metadata
from xml.etree import ElementTree

from robot_dynamics_ros.description.shipped import ROBOTS, shipped_robot
from robot_dynamics_ros.model import load_robot

_QUARTER = 1.5707963267948966


def arms() -> dict[str, str]:
    """Return the shipped arms, a chain of six, and the UR5 if example-robot-data is installed."""
    found = {name: _rigid_bodies(load_robot(shipped_robot(name)).xml) for name in ROBOTS}
    try:
        files = metadata.files('example-robot-data') or ()
    except metadata.PackageNotFoundError:
        files = ()
    for file in files:
        if file.name == 'ur5_robot.urdf':
            found['ur5'] = _rigid_bodies(file.read_text())
    return found | {'chain of 6': chain(6)}


def _rigid_bodies(text: str) -> str:
    """Return a robot without meshes, friction and drives, which not all libraries count alike."""
    root = ElementTree.fromstring(text)
    for parent in root.iter():
        for tag in ('visual', 'collision', 'dynamics', 'transmission', 'gazebo'):
            for element in parent.findall(tag):
                parent.remove(element)
    return ElementTree.tostring(root, encoding='unicode')


def chain(n: int) -> str:
    """Return a serial arm of n turning joints, axes across each other, no constant zero."""
    elements = ['<link name="link0"/>']
    for i in range(1, n + 1):
        turn = _QUARTER if i % 2 else -_QUARTER
        elements.append(
            f'<link name="link{i}"><inertial><origin xyz="0.02 -0.03 0.11"/><mass value="1.5"/>'
            '<inertia ixx="0.02" iyy="0.025" izz="0.01" ixy="0.001" ixz="-0.002" iyz="0.003"/>'
            '</inertial></link>'
            f'<joint name="joint{i}" type="revolute"><parent link="link{i - 1}"/>'
            f'<child link="link{i}"/><origin xyz="0.01 0.02 0.2" rpy="{turn} 0 0"/>'
            '<axis xyz="0 0 1"/><limit lower="-3" upper="3" velocity="3" effort="100"/></joint>'
        )
    return f'<robot name="chain_{n}">{"".join(elements)}</robot>'
