# SPDX-License-Identifier: Apache-2.0
"""Bodies and the links they are made of: which link takes a correction, which stay as they are.

A body is what moves with a joint: the joint's own link and all links fixed to it. A correction of
the body goes to one of them, its carrier: the joint's own link if it has an <inertial>, else the
heaviest. The others keep their inertia.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.description.robot_description import Inertial, Pose
from robot_dynamics_ros.description.urdf import parse_urdf
from robot_dynamics_ros.identification.regressor import PER_BODY, inertial_parameters
from robot_dynamics_ros.model.link_inertia import link_inertia
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.inertia import RigidBodyInertia
from robot_dynamics_ros.spatial.scalar import Array


@dataclass(frozen=True, eq=False)
class BodyLinks:
    """The links of one body.

    Attributes:
        carrier: Name of the link that takes the correction.
        fixed: Inertial parameters of all other links, about the body's origin, shape (10,).
    """

    carrier: str
    fixed: Array


def body_links(tree: RobotTree) -> list[BodyLinks]:
    """Return the links of every body, in the order of the tree.

    Args:
        tree: The robot; one without URDF text has bodies of one link each.
    """
    if not tree.xml:
        return [BodyLinks(name, np.zeros(PER_BODY)) for name in tree.link_names]
    parts: list[dict[str, Array]] = [{} for _ in range(tree.bodies)]
    for link in parse_urdf(tree.xml).links:
        frame = tree.frame(link.name)
        if link.inertial is None or frame.body < 0 or link.inertial.is_nothing:
            continue
        inertia = link_inertia(link.inertial)
        parts[frame.body][link.name] = _parameters(tree, inertia.seen_from(frame.R_BF, frame.p_BF))
    found = []
    for own, links in zip(tree.link_names, parts, strict=True):
        carrier = own if own in links else max(links, key=lambda name: links[name][0])
        others = [value for name, value in links.items() if name != carrier]
        found.append(BodyLinks(carrier, np.sum([np.zeros(PER_BODY), *others], axis=0)))
    return found


def _parameters(tree: RobotTree, inertia: RigidBodyInertia) -> Array:
    """Return the ten parameters of an inertia given in a body's frame."""
    one = tree.with_changes(
        mass=np.array([inertia.mass]),
        com=np.array([inertia.com]),
        inertia=np.array([inertia.inertia]),
    )
    return inertial_parameters(one)


def link_inertial(tree: RobotTree, link: str, inertia: RigidBodyInertia) -> Inertial:
    """Return an inertia in a body's frame as the <inertial> of a link of that body."""
    frame = tree.frame(link)
    own = inertia.seen_from(frame.R_BF.T, -frame.R_BF.T @ frame.p_BF)
    x, y, z = own.com.tolist()
    I = own.inertia
    elements = (I[0, 0], I[0, 1], I[0, 2], I[1, 1], I[1, 2], I[2, 2])
    return Inertial(float(own.mass), Pose((x, y, z)), *(float(element) for element in elements))
