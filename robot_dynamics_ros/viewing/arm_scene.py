# SPDX-License-Identifier: Apache-2.0
"""One arm in the scene: its links, its reference as a ghost, what acts on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from robot_dynamics_ros.description.robot_description import Limit
from robot_dynamics_ros.geometry import LinkShape
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.viewing.annotations import ForceArrow, Rgb, Trail
from robot_dynamics_ros.viewing.instant import ArmInstant
from robot_dynamics_ros.viewing.link_nodes import REFERENCE_COLOUR, LinkNodes
from robot_dynamics_ros.viewing.link_tree import LinkTree

TOOL_COLOUR: Rgb = (230, 20, 140)
_NEAR: Rgb = (245, 170, 30)
_AT_LIMIT: Rgb = (215, 40, 40)
_UNKNOWN: Rgb = (150, 70, 200)
_TOUCHED: Rgb = (255, 225, 0)
#: Colours of the forces on an arm, by what they are.
FORCE_COLOURS: dict[str, Rgb] = {'external': (200, 60, 30), 'push': (240, 150, 20)}
#: Shares of a joint's range that are left when its link changes colour.
NEAR_SHARE, AT_SHARE = 0.1, 0.02
_SAME = 2e-3  # rad or m: the ghost is not worth showing
_MOVED = 1e-6  # m: less is not worth a message


class ArmScene:
    """An arm, its ghost, its tool, both trails and the forces on it.

    Attributes:
        tree: Its links.
        tool: Place of the link whose way is drawn.
        trail_grows: Whether each instant lengthens the trails.
        radius: Of a sphere about it whose joints are at 0, m.

    Args:
        scene: Of viser.
        name: Of the arm, part of a path.
        tree: As above.
        shapes: Surfaces of the links.
        offset: Where its base is put, shape (3,), m.
    """

    def __init__(
        self,
        scene: Any,
        name: str,
        tree: LinkTree,
        shapes: tuple[LinkShape, ...],
        offset: Array,
    ) -> None:
        self.tree, self.tool = tree, tree.tool()
        self._root = scene.add_frame(f'/{name}', show_axes=False, position=offset)
        self._arm = LinkNodes(scene, f'/{name}/arm', tree, shapes)
        self._ghost = LinkNodes(scene, f'/{name}/ghost', tree, shapes, ghost=True)
        self._ghost.root.visible = False
        self._shapes = shapes
        _, self.radius = surroundings(tree, shapes, {})
        self._tip = scene.add_icosphere(
            f'/{name}/tool', 0.03 * self.radius, TOOL_COLOUR, subdivisions=2
        )
        self.trail = Trail(scene, f'/{name}/trail', TOOL_COLOUR, 2.5)
        self.reference_trail = Trail(scene, f'/{name}/reference', REFERENCE_COLOUR, 1.5)
        scene.add_label(f'/{name}/label', name, anchor='top-center')
        self._forces = {
            kind: ForceArrow(scene, f'/{name}/{kind}', kind, colour, self.radius)
            for kind, colour in FORCE_COLOURS.items()
        }
        self._places = {link.name: place for place, link in enumerate(tree.links)}
        self._known: dict[str, float] = {}
        self._limits: dict[int, Rgb | None] = {}
        self.trail_grows = True

    def show(self, now: ArmInstant) -> None:
        """Move arm, ghost and tool to an instant; positions that are no numbers stay as they were.

        What is wrong with a joint is told by the colour of its link.
        """
        self._known |= {name: x for name, x in now.position.items() if np.isfinite(x)}
        relative = self.tree.relative(self._known)
        poses = self.tree.poses(relative)
        self._arm.move(relative)
        tip = poses[self.tool].p_WF
        if np.abs(self._tip.position - tip).max() > _MOVED:
            self._tip.position = tip
        if now.position and self.trail_grows:
            self.trail.add(tip)
        self._warn(now)
        self._follow(now)
        for kind, arrow in self._forces.items():
            link, wrench = now.wrenches.get(kind, ('', np.zeros(6)))
            if link in self._places:
                arrow.show(poses[self._places[link]], wrench[:3])
            else:
                arrow.hide()

    def tip(self, positions: Mapping[str, float]) -> Array:
        """Return where the tool is in the base, shape (3,), m."""
        return self.tree.poses(self.tree.relative(positions))[self.tool].p_WF

    def surroundings(self) -> tuple[Array, float]:
        """Return centre, shape (3,), and radius of a sphere about the arm as it stands, m."""
        return surroundings(self.tree, self._shapes, self._known)

    def send_trails(self) -> None:
        """Send what is new of the trails."""
        self.trail.send()
        self.reference_trail.send()

    def remove(self) -> None:
        """Take all of it out of the scene."""
        self._root.remove()

    def _follow(self, now: ArmInstant) -> None:
        error = now.error
        apart = max((abs(x) for x in error.values() if np.isfinite(x)), default=0.0)
        visible = apart > _SAME
        if self._ghost.root.visible != visible:
            self._ghost.root.visible = visible
        if error:
            relative = self.tree.relative({**self._known, **now.reference})
            if self.trail_grows:
                self.reference_trail.add(self.tree.poses(relative)[self.tool].p_WF)
            if visible:
                self._ghost.move(relative)

    def _warn(self, now: ArmInstant) -> None:
        """Colour the links: a contact that begins, else what is wrong with the joint."""
        for place, link in enumerate(self.tree.links):
            name = '' if link.joint is None else link.joint.name
            if link.joint is not None and name in now.position:
                self._limits[place] = limit_colour(now.position[name], link.joint.limit)
            touched = link.name == now.touched
            self._arm.warn(place, _TOUCHED if touched else self._limits.get(place))


def limit_colour(position: float, limit: Limit | None) -> Rgb | None:
    """Return the colour of a link whose joint is near a limit or unknown; None: its own."""
    if not np.isfinite(position):
        return _UNKNOWN
    if limit is None or limit.lower is None or limit.upper is None or limit.lower >= limit.upper:
        return None
    left = min(position - limit.lower, limit.upper - position) / (limit.upper - limit.lower)
    if left < AT_SHARE:
        return _AT_LIMIT
    return _NEAR if left < NEAR_SHARE else None


def surroundings(
    tree: LinkTree, shapes: tuple[LinkShape, ...], positions: Mapping[str, float]
) -> tuple[Array, float]:
    """Return centre, shape (3,), and radius of a sphere about an arm in a posture, m."""
    poses = tree.poses(tree.relative(positions))
    places = {link.name: pose for link, pose in zip(tree.links, poses, strict=True)}
    points = [pose.p_WF[np.newaxis] for pose in poses]
    points += [
        shape.vertices @ places[shape.link].R_WF.T + places[shape.link].p_WF
        for shape in shapes
        if shape.link in places
    ]
    corners = np.concatenate(points)
    lowest, highest = corners.min(axis=0), corners.max(axis=0)
    return (lowest + highest) / 2.0, max(float(np.linalg.norm(highest - lowest)) / 2.0, 0.1)
