# SPDX-License-Identifier: Apache-2.0
"""Collision checks of arm motions: self-collisions, the ground and obstacle boxes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.description.urdf import parse_urdf
from robot_dynamics_ros.errors import MissingDependencyError, ParameterError, TrajectoryError
from robot_dynamics_ros.geometry.robot_shapes import RobotShapes, collision_shapes
from robot_dynamics_ros.geometry.solids import Solids, make_solids
from robot_dynamics_ros.geometry.triangles import Triangles, box
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.model.kinematics import FramePose, link_poses
from robot_dynamics_ros.spatial.scalar import Array

#: Minimum distance to obstacles, and between links, which are designed to pass each other
#: closely, m.
CLEARANCE, LINK_CLEARANCE = 0.005, 0.0005
_STEP = 0.002  # relative motion of a pair between two measurements, m
_MEASURE_DISTANCE = 0.05  # distance of the bounding spheres below which the solids are measured, m
GROUND = 'the ground'
_SAMPLE_COUNT = 100  # random postures used to detect pairs that always touch
_GROUND_SIZE = (20.0, 20.0, 1.0)  # size of a slab whose top is the ground, m


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
    """

    boxes: Sequence[Sequence[float]] = ()
    ground_below: float = 0.0

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
        rows = np.asarray(numbers if len(numbers) > 1 else (), dtype=float)
        if rows.size % 6 or not np.isfinite(rows).all() or (rows.reshape(-1, 6)[:, 3:] <= 0).any():
            raise ParameterError('boxes', list(numbers), 'give centre and size, six numbers each')
        return cls(rows.reshape(-1, 6).tolist(), ground_below)


class CollisionChecker:
    """Checks distances of the moving links to each other, to fixed links and to obstacles.

    The shape of a link is given by its ``<collision>`` elements, otherwise by its ``<visual>``
    elements. Excluded are pairs of links of the same body, of adjacent links along the arm, and
    pairs that are too close in each of 100 random postures.

    Attributes:
        excluded: Names of the excluded pairs, except those of one body.
        remarks: Shapes that could not be read.

    Args:
        tree: The robot; its ``xml`` contains the shapes.
        obstacles: The obstacles around it.

    Raises:
        MissingDependencyError: No library for distance queries is installed.

    Cost: some microseconds per pair of links with overlapping bounding spheres.
    """

    def __init__(self, tree: RobotTree, obstacles: Obstacles | None = None) -> None:
        self._tree = tree
        link_shapes = collision_shapes(tree.xml) if tree.xml else RobotShapes((), ())
        names = [shape.link for shape in link_shapes.shapes]
        surfaces: list[Triangles] = list(link_shapes.shapes)
        self._n_links = len(names)
        for name, surface in [*_obstacles(tree, surfaces, names, obstacles or Obstacles())]:
            names.append(name)
            surfaces.append(surface)
        self._names = names
        self._solids: Solids = make_solids(surfaces)
        centres = [_box_centre(surface.vertices) for surface in surfaces]
        self._radius = np.array(
            [
                np.linalg.norm(surface.vertices - centre, axis=1).max()
                for surface, centre in zip(surfaces, centres, strict=True)
            ]
        )
        self._centre = np.array(centres).reshape(-1, 3)
        pairs, adjacent = self._pairs()
        always = self._always_close(pairs)
        self._first, self._second = np.array(
            [pair for pair in pairs if pair not in always], dtype=int
        ).reshape(-1, 2).T  # fmt: skip
        self.excluded = tuple(sorted({self._named(pair) for pair in {*always, *adjacent}}))
        self.remarks = link_shapes.remarks
        self._motion_bounds = self._relative_motion(_reach(tree, names, surfaces))

    def _named(self, pair: tuple[int, int]) -> tuple[str, str]:
        first, second = sorted(self._names[i] for i in pair)
        return first, second

    def find_close_pair(self, q: Array) -> ClosePair | None:
        """Return the first pair found closer than the clearance at q, shape (n,), or None."""
        return self._measure(q, np.zeros(len(self._first)))

    def require_free(self, what: str, positions: Iterable[Array]) -> None:
        """Raise an error if any pair comes too close during a motion.

        Args:
            what: Name of the motion, for the message.
            positions: Points of the motion, shape (n,) each, rad or m, interpolated linearly.

        Raises:
            TrajectoryError: A pair is too close; names it, its distance and the posture.
        """
        if violation := self._first_violation(positions):
            near, q = violation
            raise TrajectoryError(
                what,
                f'leaves {1e3 * max(near.distance, 0.0):.1f} mm between {near.first!r} and '
                f'{near.second!r} at q = {np.round(q, 3).tolist()}',
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
        remaining, before = np.zeros(len(self._first)), None
        for q in positions:
            start = q if before is None else before
            motion = self._motion_bounds @ np.abs(q - start)
            due = motion[motion > remaining]
            count = max(1, math.ceil(float(due.max(initial=0.0)) / _STEP))
            for k in range(1, count + 1):
                between = start + k / count * (q - start)
                remaining -= motion / count
                if near := self._measure(between, remaining):
                    return near, between
            before = q
        return None

    def _measure(self, q: Array, remaining: Array) -> ClosePair | None:
        """Measure the pairs with no remaining distance; return the first that is too close."""
        due = np.flatnonzero(remaining <= 0.0)
        if not len(due):
            return None
        poses = self._poses(q)
        gaps = self._gaps(poses, self._first[due], self._second[due])
        remaining[due] = gaps - CLEARANCE
        for k in due[gaps < _MEASURE_DISTANCE]:
            i, j = int(self._first[k]), int(self._second[k])
            distance = self._solids.distance(i, poses[i], j, poses[j])
            remaining[k] = max(distance - self._clearance(i, j), _STEP)
            if distance < self._clearance(i, j):
                return ClosePair(self._names[i], self._names[j], distance)
        return None

    def _poses(self, q: Array) -> list[FramePose]:
        links = link_poses(self._tree, q)
        identity = FramePose(np.eye(3), np.zeros(3))
        poses = [links.get(name, identity) for name in self._names[: self._n_links]]
        return poses + [identity] * (len(self._names) - self._n_links)

    def _clearance(self, i: int, j: int) -> float:
        return LINK_CLEARANCE if max(i, j) < self._n_links else CLEARANCE

    def _close_spheres(
        self, poses: list[FramePose], first: Array, second: Array
    ) -> Iterator[tuple[int, int]]:
        """Yield the pairs whose bounding spheres are within the clearance."""
        close = self._gaps(poses, first, second) < CLEARANCE
        yield from zip(first[close].tolist(), second[close].tolist(), strict=True)

    def _gaps(self, poses: list[FramePose], first: Array, second: Array) -> Array:
        """Return the distances between the bounding spheres of pairs, m."""
        centres = np.array([R @ c + p for (R, p), c in zip(poses, self._centre, strict=True)])
        apart = np.linalg.norm(centres[first] - centres[second], axis=1)
        return apart - self._radius[first] - self._radius[second]

    def _relative_motion(self, reach: Array) -> Array:
        """Return bounds on the relative motion of pairs per unit of each joint, (pairs, n)."""
        tree = self._tree
        moves_with = np.zeros((len(self._names), tree.bodies), dtype=bool)
        for row, name in zip(moves_with, self._names[: self._n_links], strict=False):
            row[list(tree.path(tree.frames[name].body))] = True
        between = (moves_with[self._first] != moves_with[self._second]) * reach
        coupling = tree.coupling
        return between if coupling is None else np.asarray(between @ np.abs(coupling.rate))

    def _pairs(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Return the pairs that may collide, and those of adjacent links."""
        tree, names = self._tree, self._names
        adjacent = _adjacent(tree, names[: self._n_links])
        bodies = [tree.frames[name].body for name in names[: self._n_links]]
        bodies += [-1] * (len(names) - self._n_links)
        moving = [(i, j) for i, j in combinations(range(len(names)), 2) if bodies[i] != bodies[j]]
        apart = [frozenset((names[i], names[j])) not in adjacent for i, j in moving]
        pairs = [pair for pair, free in zip(moving, apart, strict=True) if free]
        return pairs, [pair for pair, free in zip(moving, apart, strict=True) if not free]

    def _always_close(self, pairs: list[tuple[int, int]]) -> set[tuple[int, int]]:
        """Return the pairs of links that are too close in every sampled posture."""
        boxes = {i for i in range(self._n_links, len(self._names)) if self._names[i] != GROUND}
        candidates = {pair for pair in pairs if not boxes & {*pair}}
        for q in random_postures(self._tree, _SAMPLE_COUNT):
            if not candidates:
                break
            poses = self._poses(q)
            first, second = np.array(sorted(candidates), dtype=int).T
            candidates = {
                (i, j)
                for i, j in self._close_spheres(poses, first, second)
                if self._solids.distance(i, poses[i], j, poses[j]) < self._clearance(i, j)
            }
        return candidates


def make_checker(
    tree: RobotTree, obstacles: Obstacles | None = None
) -> tuple[CollisionChecker | None, tuple[str, ...]]:
    """Return a checker and its remarks; None and the reason if no library is installed."""
    try:
        checker = CollisionChecker(tree, obstacles)
    except MissingDependencyError as error:
        return None, (f'collisions are not checked: {error}',)
    return checker, checker.remarks


def random_postures(tree: RobotTree, count: int) -> Iterator[Array]:
    """Yield random postures within the joint limits, shape (n,), the same in every call."""
    rng = np.random.default_rng(0)
    lower = np.maximum(tree.position_lower, -math.pi)
    upper = np.maximum(np.minimum(tree.position_upper, math.pi), lower)
    for _ in range(count):
        yield rng.uniform(lower, upper)


def _adjacent(tree: RobotTree, names: Sequence[str]) -> set[frozenset[str]]:
    """Return the pairs of adjacent links.

    These are the links of a body and of its parent body. Of the fixed links, only the one that
    carries the arm counts, or the nearest one with a shape.
    """
    by_body: dict[int, list[str]] = {}
    for name in dict.fromkeys(names):
        by_body.setdefault(tree.frames[name].body, []).append(name)
    pairs = set()
    for body, parent in enumerate(tree.parent):
        carriers = by_body.get(parent, [])
        if parent < 0:
            carriers = _closest_fixed(tree, body, carriers)
        pairs |= {frozenset((a, b)) for a in carriers for b in by_body.get(body, [])}
    return pairs


def _closest_fixed(tree: RobotTree, body: int, fixed: Sequence[str]) -> list[str]:
    """Return the fixed link with a shape that is closest to a body's joint along the tree."""
    description = parse_urdf(tree.xml, lambda fault: None)
    above = {joint.child: joint.parent for joint in description.joints}
    link: str | None = above.get(tree.link_names[body])
    while link is not None and link not in fixed:
        link = above.get(link)
    return [] if link is None else [link]


def _obstacles(
    tree: RobotTree, surfaces: Sequence[Triangles], names: Sequence[str], obstacles: Obstacles
) -> Iterator[tuple[str, Triangles]]:
    """Yield the boxes and, if gravity points down, the ground, in the base frame."""
    for k, numbers in enumerate(obstacles.boxes):
        shift = np.array(numbers[:3])
        yield f'box {k + 1}', box(np.array(numbers[3:])).transformed(np.eye(3), shift)
    down = np.asarray(tree.gravity, dtype=float)
    if not down[2] < -0.99 * float(np.linalg.norm(down)) or not down.any():
        return  # weightless, wall or ceiling mounted: the location of the ground is unknown
    height = 0.0
    for name, surface in zip(names, surfaces, strict=True):
        frame = tree.frames[name]
        if frame.body < 0:
            points = surface.vertices @ np.asarray(frame.R_BF).T + frame.p_BF
            height = min(height, float(points[:, 2].min()))
    centre = np.array([0.0, 0.0, height - obstacles.ground_below - _GROUND_SIZE[2] / 2.0])
    yield GROUND, box(np.array(_GROUND_SIZE)).transformed(np.eye(3), centre)


def _reach(tree: RobotTree, names: Sequence[str], surfaces: Sequence[Triangles]) -> Array:
    """Return bounds on the motion of any point per unit of each joint, (bodies,), m/rad or 1."""
    farthest = np.zeros(tree.bodies)
    for name, surface in zip(names, surfaces, strict=False):
        if name in tree.frames and (frame := tree.frames[name]).body >= 0:
            points = surface.vertices @ np.asarray(frame.R_BF).T + frame.p_BF
            size = float(np.linalg.norm(points, axis=1).max())
            farthest[frame.body] = max(farthest[frame.body], size)
    travel = [
        max(abs(low), abs(high)) if slides and np.isfinite((low, high)).all() else 0.0
        for slides, low, high in zip(
            tree.open.prismatic, tree.open.position_lower, tree.open.position_upper, strict=True
        )
    ]
    for i in reversed(range(tree.bodies)):
        parent = tree.parent[i]
        if parent >= 0:
            beyond = float(np.linalg.norm(tree.p_PJ[i])) + travel[i] + farthest[i]
            farthest[parent] = max(farthest[parent], beyond)
    return np.where(tree.prismatic, 1.0, farthest)


def _box_centre(points: Array) -> Array:
    return 0.5 * (points.min(axis=0) + points.max(axis=0))
