# SPDX-License-Identifier: Apache-2.0
"""Write URDF text with exact numbers, so that any parser can read the robots of the tests."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import yaml

FRICTION = '<dynamics damping="0.1" friction="0.2"/>'


def numbers(values: Iterable[float]) -> str:
    """Return numbers that read back exactly."""
    return ' '.join(repr(float(value)) for value in values)


def link(name, mass=None, com=(0, 0, 0), inertia=None, rpy=(0, 0, 0)) -> str:
    """Return a link; massless without a mass, inertia 3x3 about the centre of mass."""
    if mass is None:
        return f'<link name="{name}"/>'
    I = np.asarray(inertia, dtype=float)
    names = ('ixx', 'ixy', 'ixz', 'iyy', 'iyz', 'izz')
    moments = zip(names, I[np.triu_indices(3)].tolist(), strict=True)
    tensor = ' '.join(f'{key}="{value!r}"' for key, value in moments)
    return (
        f'<link name="{name}"><inertial>'
        f'<origin xyz="{numbers(com)}" rpy="{numbers(rpy)}"/>'
        f'<mass value="{float(mass)!r}"/><inertia {tensor}/></inertial></link>'
    )


def joint(
    name,
    parent,
    child,
    kind='revolute',
    xyz=(0, 0, 0),
    rpy=(0, 0, 0),
    axis=(0, 0, 1),
    limits=(-3.0, 3.0),
    velocity=10.0,
    effort=100.0,
    dynamics='',
) -> str:
    """Return a joint; ``dynamics`` is the text of that element, if any."""
    text = (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="{numbers(xyz)}" rpy="{numbers(rpy)}"/>'
    )
    if kind != 'fixed':
        ends = f'lower="{limits[0]!r}" upper="{limits[1]!r}" ' if kind != 'continuous' else ''
        text += (
            f'<axis xyz="{numbers(axis)}"/>'
            f'<limit {ends}velocity="{velocity!r}" effort="{effort!r}"/>{dynamics}'
        )
    return text + '</joint>'


def follow(text: str, other: str, multiplier: float = 1.0, offset: float = 0.0) -> str:
    """Return the text of a joint with a mimic relation to another one."""
    mimic = f'<mimic joint="{other}" multiplier="{multiplier!r}" offset="{offset!r}"/>'
    return text.replace('</joint>', f'{mimic}</joint>')


def robot(name: str, *elements: str) -> str:
    """Return the text of a robot."""
    return '\n'.join([f'<robot name="{name}">', *elements, '</robot>'])


def symmetric(ixx, iyy, izz, ixy=0.0, ixz=0.0, iyz=0.0) -> np.ndarray:
    """Return a symmetric tensor from its elements, in the order of the tables."""
    return np.array([[ixx, ixy, ixz], [ixy, iyy, iyz], [ixz, iyz, izz]])


def described(name: str, elements: Mapping[str, Any] | str, **of_joints: Any) -> str:
    """Return the text of a robot from its elements by name, or their YAML.

    A link is a list of mass, centre, elements of the inertia, angles; a joint a mapping of the
    arguments of :func:`joint`, with its links and kind in ``of``, and of :func:`follow`.

    Args:
        name: Of the robot.
        elements: Links and joints.
        of_joints: Arguments of all joints that move.
    """
    found = []
    for key, row in (yaml.safe_load(elements) if isinstance(elements, str) else elements).items():
        if isinstance(row, list):
            mass, com, inertia, *rpy = row or (None, (0, 0, 0), ())
            found.append(link(key, mass, com, symmetric(*inertia) if inertia else None, *rpy))
        else:
            given = of_joints | row
            of, mimic = given.pop('of'), given.pop('follows', None)
            text = joint(key, *of, **given)
            found.append(follow(text, *mimic) if mimic else text)
    return robot(name, *found)


def two_link_arm(box, tensor=None, mass=2.0, com=(0, 0, 0.2), **of_joint) -> str:
    """Return an arm of two links of 0.4 m and 2 kg with the tensor of a box.

    Link 'upper' and joint 'shoulder' are as given.
    """
    given = {'axis': (1, 0, 0), 'dynamics': FRICTION} | of_joint
    return robot(
        'arm',
        link('base'),
        link('upper', mass, com, box if tensor is None else tensor),
        link('lower', 2.0, (0, 0, 0.2), box),
        joint('shoulder', 'base', 'upper', **given),
        joint('elbow', 'upper', 'lower', xyz=(0, 0, 0.4), axis=(1, 0, 0), dynamics=FRICTION),
    )


def good_parts() -> dict[str, str]:
    """Return links and joints of a sound arm that turns and slides, by name."""
    tensor = np.diag([0.02, 0.03, 0.04])
    return {
        'base': link('base'),
        'arm': link('arm', 2.0, (0.1, 0, 0), tensor),
        'hand': link('hand', 1.0, (0, 0, 0.1), tensor),
        'j1': joint('j1', 'base', 'arm'),
        'j2': joint('j2', 'arm', 'hand', 'prismatic', xyz=(0.3, 0, 0), limits=(0.0, 0.2)),
    }
