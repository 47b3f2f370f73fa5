# SPDX-License-Identifier: Apache-2.0
"""Collision checks of arm motions: self-collisions, the ground and obstacle boxes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations, product
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.description.urdf import parse_urdf
from robot_dynamics_ros.errors import (
    MechanismError,
    MissingDependencyError,
    ParameterError,
    TrajectoryError,
)
from robot_dynamics_ros.geometry.containment import Solid, contained
from robot_dynamics_ros.geometry.robot_shapes import CollisionShapes, collision_shapes
from robot_dynamics_ros.geometry.triangles import Triangles, box, distance_between
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.kinematics import FramePose, body_poses
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.spatial.validation import array

#: Minimum distance to obstacles, and between links, which are designed to pass each other
#: closely, m.
CLEARANCE, LINK_CLEARANCE = 0.005, 0.0005
_STEP, _ROUNDING = 0.002, 1e-12  # least relative motion of a pair between two measurements, m
_MEASURE_DISTANCE = 0.05  # distance of the bounding spheres below which the solids are measured, m
#: Begins a remark on what is not checked.
UNCHECKED = 'NOT CHECKED FOR COLLISIONS'
GROUND, _WIDE = 'the ground', 2e7  # its name, and the edges of the cube that stands for it, m
_SAMPLE_COUNT = 100  # random postures used to detect pairs that always touch
_UPRIGHT = 0.9  # least cosine of the tilt of a link that stands on the ground
_MAX_NAMES, _BARE = 6, 'no <collision> or <visual> element'  # in a message


class ClosePair(NamedTuple):
    """A pair of links or obstacles that are too close, by name, and their distance, m."""

    first: str
    second: str
    distance: float


@dataclass(frozen=True, eq=False)
class Obstacles:
    """Obstacles around an arm.

    Attributes:
        boxes: Centre and size of each box in the base frame, shape (6,), m.
        ground_below: Distance of the ground below the base frame and all fixed links, m.

    Raises:
        ParameterError: The numbers do not describe boxes.
        ShapeError, NonFiniteError: The distance is not a finite number.
    """

    boxes: Sequence[Sequence[float]] = ()
    ground_below: float = 0.0

    def __post_init__(self) -> None:
        array('ground_below', self.ground_below, ())
        with suppress(TypeError, ValueError):
            rows = np.array(self.boxes, dtype=float).reshape(-1, 6)
            if np.isfinite(rows).all() and (rows[:, 3:] > 0).all():
                object.__setattr__(self, 'boxes', rows.tolist())
                return
        reason = 'give centre and size, six numbers each, no size 0 or less'
        raise ParameterError('boxes', self.boxes, reason)

    @property
    def numbers(self) -> list[float]:
        """The numbers of all boxes in one list, the format of :meth:`of`."""
        return [x for row in self.boxes for x in row] or [0.0]

    @classmethod
    def of(cls, numbers: Sequence[float], ground_below: float = 0.0) -> Obstacles:
        """Return obstacles from the numbers of all boxes; fewer than two numbers mean no boxes.

        Raises:
            ParameterError: The numbers do not describe boxes.
        """
        return cls([numbers] if len(numbers) > 1 else (), ground_below)


class _Collider(NamedTuple):
    """A link or an obstacle.

    Attributes:
        name: Its name.
        body: Index of the body that carries it, -1 for the base.
        surface: Its surface in the axes of that body.
        is_link: Whether it is a link.
    """

    name: str
    body: int
    surface: Triangles
    is_link: bool = False

    @classmethod
    def of_box(cls, name: str, centre: Sequence[float], size: Sequence[float]) -> _Collider:
        """Return a box in the base frame, m."""
        return cls(name, -1, box(np.array(size)).transformed(np.eye(3), np.array(centre)))


class CollisionChecker:
    """Checks distances of the moving links to each other, to fixed links and to obstacles.

    Links and obstacles are solids: a link inside a box or below the ground is in collision. The
    shape of a link is given by its ``<collision>`` elements; if one cannot be read, also by its
    ``<visual>`` elements. Excluded are pairs of links of the same body, of adjacent links along
    the arm, and pairs that are too close in each of 100 random postures.

    Attributes:
        excluded: Names of the excluded pairs, except those of one body.
        unchecked: Links of which no shape or only a part could be read, and moving links that
            have none, like all that is fixed to them; with the reasons.
        remarks: Sentences about unchecked links and about an arm that stands on no ground, has
            no box, and may therefore move through what it is mounted on.

    Args:
        tree: The robot; its ``xml`` contains the shapes.
        obstacles: The obstacles around it.

    Raises:
        MissingDependencyError: No library for distance queries is installed.

    Cost: some microseconds per pair of links with overlapping bounding spheres.
    """

    def __init__(self, tree: Robot, obstacles: Obstacles | None = None) -> None:
        if not tree.has_constant_rates:
            raise MechanismError(
                f'collisions of {tree.name!r}',
                'have no bound: joints of its loops move at rates that depend on the posture',
                'check it without shapes, or give the loops a linear closed_form',
            )
        self._tree = tree
        known = collision_shapes(tree.xml) if tree.xml else CollisionShapes((), {})
        self.unchecked = unchecked_links(tree, known)
        links, obstacles = [], obstacles or Obstacles()
        for shape in known.shapes:
            frame = tree.frames[shape.link]
            surface = shape.transformed(frame.R_BF, frame.p_BF)
            if np.isfinite(surface.vertices).all():
                links.append(_Collider(shape.link, frame.body, surface, is_link=True))
            else:
                self.unchecked[shape.link] = 'its place is not described by finite numbers'
        self.remarks = _remarks(tree, self.unchecked)
        if not obstacles.boxes:
            self.remarks += _mounting_remarks(tree)
        boxes = [
            _Collider.of_box(f'box {k + 1}', row[:3], row[3:])
            for k, row in enumerate(obstacles.boxes)
        ]
        self._parts = [*links, *boxes, *_ground(tree, links, obstacles)]
        surfaces = [part.surface for part in self._parts]
        self._solids, self._measured = [*map(Solid, surfaces)], distance_between(surfaces)
        self._centre = np.array([solid.centre for solid in self._solids]).reshape(-1, 3)
        self._radius = np.array([solid.radius for solid in self._solids])
        excluded, parts = {*_adjacent(tree, links)}, self._parts
        pairs = [
            (i, j)
            for i, j in combinations(range(len(parts)), 2)
            if parts[i].body != parts[j].body and (i, j) not in excluded
        ]
        excluded |= self._always_close(pairs)
        self._pairs = np.array([x for x in pairs if x not in excluded], int).reshape(-1, 2)
        named = (sorted((parts[i].name, parts[j].name)) for i, j in excluded)
        self.excluded = tuple(sorted(set(map(tuple, named))))
        self._closest = 0

    def find_close_pair(self, q: Array) -> ClosePair | None:
        """Return the first pair found closer than the clearance at q, shape (n,), or None."""
        return self._measure(q, np.zeros(len(self._pairs)))

    def require_free(self, what: str, positions: Iterable[Array]) -> None:
        """Raise an error if any pair comes too close during a motion.

        Args:
            what: Name of the motion, for the message.
            positions: Points of the motion, shape (n,) each, rad or m, interpolated linearly.

        Raises:
            TrajectoryError: A pair is too close; names it, its distance and the posture.
            ShapeError, ParameterError, NonFiniteError: A position is not n finite numbers.
        """
        if violation := self._first_violation(positions):
            near, q = violation
            left = np.floor(1e5 * max(near.distance, 0.0)) / 100  # mm, not rounded up to enough
            raise TrajectoryError(
                what,
                f'leaves {left:g} mm between {near.first!r} and {near.second!r} at q = '
                f'{np.round(q, 3).tolist()}',
                f'{1e3 * LINK_CLEARANCE:g} mm are required between links, {1e3 * CLEARANCE:g} mm '
                'elsewhere; change the motion, or start from another posture',
            )

    def is_free(self, positions: Iterable[Array]) -> bool:
        """Return whether a motion is free of collisions, see :meth:`require_free`."""
        return self._first_violation(positions) is None

    def _first_violation(self, positions: Iterable[Array]) -> tuple[ClosePair, Array] | None:
        """Return the first pair that comes too close during a motion, and the posture.

        A pair is measured again once its relative motion may have used up the remaining distance,
        or 2 mm if that is larger.
        """
        if not (rows := list(positions)):
            return None
        q = array('positions', rows, ('count', self._tree.n))
        remaining, start = np.zeros(len(self._pairs)), q[0]
        bounds = self._relative_motion(np.abs(q).max(axis=0))
        for end in q:
            motion = bounds @ np.abs(end - start)
            at, moves = 0.0, motion > 0.0
            while at < 1.0:
                step = min((remaining[moves] / motion[moves]).min(initial=np.inf), 1.0 - at)
                at += step
                remaining -= step * motion
                between = start + at * (end - start)
                if near := self._measure(between, remaining):
                    return near, between
            start = end
        return None

    def _measure(self, q: Array, remaining: Array) -> ClosePair | None:
        """Measure the pairs with no remaining distance; return the first that is too close."""
        due = np.flatnonzero(remaining <= _ROUNDING)
        if not len(due):
            return None
        poses = self._poses(q)
        gaps = self._gaps(poses, self._pairs)
        np.maximum(remaining, gaps - CLEARANCE, out=remaining)
        near = due[gaps[due] < _MEASURE_DISTANCE]
        for k in near[np.argsort(near != self._closest, kind='stable')]:
            i, j = self._pairs[k].tolist()
            distance, beyond = self._distance(poses, i, j)
            remaining[k] = max(beyond, _STEP)
            if beyond < 0.0:
                self._closest = k  # likely so in the next posture, too
                return ClosePair(self._parts[i].name, self._parts[j].name, distance)
        return None

    def _poses(self, q: Array) -> list[FramePose]:
        """Return the poses of the bodies that carry the parts."""
        base = FramePose(np.eye(3), np.zeros(3))  # last: that of body -1
        bodies = [*body_poses(self._tree, q), base]
        return [bodies[part.body] for part in self._parts]

    def _distance(self, poses: list[FramePose], i: int, j: int) -> tuple[float, float]:
        """Return the distance of two parts, and what it exceeds the required one by, m."""
        distance = self._measured(i, poses[i], j, poses[j])
        if distance > 0.0 and contained(self._solids[i], poses[i], self._solids[j], poses[j]):
            distance = 0.0
        links = self._parts[i].is_link and self._parts[j].is_link
        return distance, distance - (LINK_CLEARANCE if links else CLEARANCE)

    def _gaps(self, poses: list[FramePose], pairs: Array) -> Array:
        """Return the distances between the bounding spheres of pairs, shape (pairs,), m."""
        R, p = (np.array(part) for part in zip(*poses, strict=True))
        first, second = pairs.T
        centres = (R @ self._centre[..., None])[..., 0] + p
        apart = np.linalg.norm(centres[first] - centres[second], axis=1)
        return np.asarray(apart - self._radius[first] - self._radius[second])

    def _relative_motion(self, most: Array) -> Array:
        """Return bounds on the relative motion of pairs per unit of each joint, (pairs, n).

        Args:
            most: Bounds on the joint positions of the motion, shape (n,), rad or m.
        """
        tree = self._tree
        moves_with = np.zeros((len(self._parts), tree.bodies), dtype=bool)
        # Points of the body and those it carries from its joint; last: of the base, body -1.
        farthest = np.zeros(tree.bodies + 1)
        sizes = np.linalg.norm(self._centre, axis=1) + self._radius
        for row, part, size in zip(moves_with, self._parts, sizes, strict=True):
            row[list(tree.path(part.body))] = True
            farthest[part.body] = max(farthest[part.body], size)
        rates = np.abs(tree.rate)
        stroke = rates @ most + np.abs(tree.positions(0.0 * most))
        travel = np.where(tree.prismatic, stroke, 0.0)
        for i in reversed(range(tree.bodies)):
            parent, beyond = tree.parent[i], np.linalg.norm(tree.p_PJ[i]) + travel[i] + farthest[i]
            farthest[parent] = max(farthest[parent], beyond)
        first, second = self._pairs.T
        reach = np.where(tree.prismatic, 1.0, farthest[:-1])
        between = (moves_with[first] != moves_with[second]) * reach
        return np.asarray(between @ rates)

    def _always_close(self, pairs: list[tuple[int, int]]) -> set[tuple[int, int]]:
        """Return the pairs of links that are too close in every sampled posture."""
        firm = [part.is_link or part.name == GROUND for part in self._parts]
        candidates = [pair for pair in pairs if firm[pair[1]]]
        for q in random_postures(self._tree, _SAMPLE_COUNT):
            if not candidates:
                break
            poses = self._poses(q)
            near = self._gaps(poses, np.array(candidates)) < CLEARANCE
            candidates = [
                pair
                for pair, close in zip(candidates, near, strict=True)
                if close and self._distance(poses, *pair)[1] < 0.0
            ]
        return set(candidates)


def make_checker(
    tree: Robot, obstacles: Obstacles | None = None
) -> tuple[CollisionChecker | None, tuple[str, ...]]:
    """Return a checker and its remarks; None and the reason if there is none."""
    try:
        checker = CollisionChecker(tree, obstacles)
    except (MissingDependencyError, MechanismError) as error:
        return None, (f'{UNCHECKED}: {error}',)
    return checker, checker.remarks


def random_postures(tree: Robot, count: int) -> list[Array]:
    """Return random postures within the joint limits, shape (n,), the same in every call."""
    return tree.random_positions(np.random.default_rng(0), count)


def _adjacent(tree: Robot, links: Sequence[_Collider]) -> Iterator[tuple[int, int]]:
    """Yield the pairs of adjacent links, by index, the lower one first.

    These are the links of a body and of its parent body. Of the fixed links, only the one that
    carries the arm counts, or the nearest one with a shape along the tree.
    """
    above = _links_above(tree) if links else {}
    for body, parent in enumerate(tree.parent):
        carriers = [i for i, link in enumerate(links) if link.body == parent]
        if parent < 0:
            name = above.get(tree.link_names[body])
            while name is not None and all(links[i].name != name for i in carriers):
                name = above.get(name)
            carriers = [i for i in carriers if links[i].name == name]
        own = [j for j, link in enumerate(links) if link.body == body]
        yield from ((min(pair), max(pair)) for pair in product(carriers, own))


def _links_above(tree: Robot) -> dict[str, str]:
    """Return the parent of every link of the file but the root."""
    joints = parse_urdf(tree.xml, lambda fault: None).joints
    return {joint.child: joint.parent for joint in joints}


def _ground(tree: Robot, links: Sequence[_Collider], obstacles: Obstacles) -> Iterator[_Collider]:
    """Yield the ground, unless gravity points elsewhere than down in the base frame.

    Where the ground is below an arm on a wall or a ceiling is unknown.
    """
    down = tree.gravity
    if down[2] < -0.99 * float(np.linalg.norm(down)):
        heights = [float(link.surface.vertices[:, 2].min()) for link in links if link.body < 0]
        top = min([0.0, *heights]) - obstacles.ground_below
        yield _Collider.of_box(GROUND, (0.0, 0.0, top - 0.5 * _WIDE), 3 * (_WIDE,))


def unchecked_links(tree: Robot, known: CollisionShapes) -> dict[str, str]:
    """Return the links that are not or only partly checked, with the reasons.

    Args:
        tree: The robot.
        known: The shapes of its text.
    """
    shaped = {tree.frames[link].body for link in (*known.unread, *(x.link for x in known.shapes))}
    bare = [link for i, link in enumerate(tree.link_names) if i not in shaped]
    return {**known.unread, **dict.fromkeys(bare if tree.xml else [], _BARE)}


def _remarks(tree: Robot, unchecked: Mapping[str, str]) -> tuple[str, ...]:
    if not unchecked:
        return ()
    names = ', '.join(map(repr, list(unchecked)[:_MAX_NAMES]))
    names += ', …' if len(unchecked) > _MAX_NAMES else ''
    reasons = list(dict.fromkeys(unchecked.values()))
    more = ', and other reasons' if len(reasons) > 1 else ''
    return (
        f'{UNCHECKED}: {len(unchecked)} of {len(tree.frames)} links ({names}): {reasons[0]}{more}',
    )


def _mounting_remarks(tree: Robot) -> tuple[str, ...]:
    """Return a sentence if a link that carries an arm does not stand upright: z is not up."""
    up = -tree.gravity
    above = _links_above(tree) if tree.xml and up.any() else {}
    roots = (above.get(tree.link_names[body]) for body, at in enumerate(tree.parent) if at < 0)
    for link in filter(None, roots):
        if up @ tree.frames[link].R_BF[:, 2] < _UPRIGHT * np.linalg.norm(up):
            return (
                f'z of {link!r} does not point up: if it hangs or is tilted, give what it is '
                'mounted on as a box (--box, parameter boxes): motions may lead through it',
            )
    return ()
