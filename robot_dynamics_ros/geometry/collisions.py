# SPDX-License-Identifier: Apache-2.0
"""Whether an arm in motion keeps clear of itself, of the ground and of boxes."""

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

#: Least distance that a motion keeps from what stands around, and between links, which are built
#: to pass each other closely, m.
CLEARANCE, BETWEEN_LINKS = 0.005, 0.0005
_STEP = 0.002  # m that a pair may move between two looks
_NEAR = 0.05  # m between enclosing spheres: the solids are measured
GROUND = 'the ground'
_SAMPLES = 100  # postures in which pairs that always touch are looked for
_GROUND = (20.0, 20.0, 1.0)  # m: a slab; its top is the ground


class Near(NamedTuple):
    """Two things that are too near to each other, by name, and their distance, m."""

    first: str
    second: str
    distance: float


@dataclass(frozen=True, eq=False)
class Obstacles:
    """What stands around an arm.

    Attributes:
        boxes: Centre and size of each in the base frame, shape (6,), m.
        ground_below: How far the ground is below the base frame and all that does not move, m.
    """

    boxes: Sequence[Sequence[float]] = ()
    ground_below: float = 0.0

    @property
    def numbers(self) -> list[float]:
        """The numbers of all boxes one after the other, as :meth:`of` takes them."""
        return [x for row in self.boxes for x in row] or [0.0]

    @classmethod
    def of(cls, numbers: Sequence[float], ground_below: float = 0.0) -> Obstacles:
        """Return obstacles from the numbers of all boxes; fewer than two numbers are none.

        Raises:
            ParameterError: They are no boxes.
        """
        rows = np.asarray(numbers if len(numbers) > 1 else (), dtype=float)
        if rows.size % 6 or not np.isfinite(rows).all() or (rows.reshape(-1, 6)[:, 3:] <= 0).any():
            raise ParameterError('boxes', list(numbers), 'give centre and size, six numbers each')
        return cls(rows.reshape(-1, 6).tolist(), ground_below)


class CollisionChecker:
    """Distances of the moving links to each other, to the fixed ones and to what stands around.

    Links are what their ``<collision>`` elements say, else their ``<visual>`` ones. Left out are
    links of one body, links next to each other along the arm, and pairs that are too near to each
    other in each of 100 random postures.

    Attributes:
        remarks: What could not be read, and what is not looked at.

    Args:
        tree: The robot; its ``xml`` holds the shapes.
        obstacles: What stands around it.

    Raises:
        MissingDependencyError: No library that measures distances is installed.

    Cost: some microseconds per pair of links whose surroundings meet.
    """

    def __init__(self, tree: RobotTree, obstacles: Obstacles | None = None) -> None:
        self._tree = tree
        link_shapes = collision_shapes(tree.xml) if tree.xml else RobotShapes((), ())
        names = [shape.link for shape in link_shapes.shapes]
        surfaces: list[Triangles] = list(link_shapes.shapes)
        self._own = len(names)
        for name, surface in [*_surroundings(tree, surfaces, names, obstacles or Obstacles())]:
            names.append(name)
            surfaces.append(surface)
        self._names = names
        self._solids: Solids = make_solids(surfaces)
        middles = [_middle(surface.vertices) for surface in surfaces]
        self._radius = np.array(
            [
                np.linalg.norm(surface.vertices - middle, axis=1).max()
                for surface, middle in zip(surfaces, middles, strict=True)
            ]
        )
        self._centre = np.array(middles).reshape(-1, 3)
        pairs, adjacent = self._pairs()
        always = self._always_near(pairs)
        self._left, self._right = np.array(
            [pair for pair in pairs if pair not in always], dtype=int
        ).reshape(-1, 2).T  # fmt: skip
        self.left_out = tuple(sorted({self._named(pair) for pair in {*always, *adjacent}}))
        self.remarks = link_shapes.remarks
        self._motion = self._relative_motion(_reach(tree, names, surfaces))

    def _named(self, pair: tuple[int, int]) -> tuple[str, str]:
        first, second = sorted(self._names[i] for i in pair)
        return first, second

    def nearest(self, q: Array) -> Near | None:
        """Return the first pair found nearer than the clearance at q, shape (n,); or None."""
        return self._measure(q, np.zeros(len(self._left)))

    def require_free(self, what: str, positions: Iterable[Array]) -> None:
        """Refuse a motion that comes too near to something, at whichever of its positions.

        Args:
            what: What moves, for the message.
            positions: The motion, shape (n,) each, rad or m; straight lines between them.

        Raises:
            TrajectoryError: Names the pair, its distance and the posture.
        """
        if met := self._first_near(positions):
            near, q = met
            raise TrajectoryError(
                what,
                f'leaves {1e3 * max(near.distance, 0.0):.1f} mm between {near.first!r} and '
                f'{near.second!r} at q = {np.round(q, 3).tolist()}',
                f'{1e3 * BETWEEN_LINKS:g} mm are kept between links, {1e3 * CLEARANCE:g} mm '
                'elsewhere; move it, or start from another posture',
            )

    def is_free(self, positions: Iterable[Array]) -> bool:
        """Return whether a motion keeps clear of everything, see :meth:`require_free`."""
        return self._first_near(positions) is None

    def _first_near(self, positions: Iterable[Array]) -> tuple[Near, Array] | None:
        """Return the first pair that comes too near to each other in a motion, and where.

        A pair is measured again once it may have moved by as much as was left, or by 2 mm.
        """
        left, before = np.zeros(len(self._left)), None
        for q in positions:
            start = q if before is None else before
            moved = self._motion @ np.abs(q - start)
            due = moved[moved > left]
            count = max(1, math.ceil(float(due.max(initial=0.0)) / _STEP))
            for k in range(1, count + 1):
                between = start + k / count * (q - start)
                left -= moved / count
                if near := self._measure(between, left):
                    return near, between
            before = q
        return None

    def _measure(self, q: Array, left: Array) -> Near | None:
        """Measure the pairs of which nothing is left; return the first that is too near."""
        due = np.flatnonzero(left <= 0.0)
        if not len(due):
            return None
        poses = self._poses(q)
        gaps = self._gaps(poses, self._left[due], self._right[due])
        left[due] = gaps - CLEARANCE
        for k in due[gaps < _NEAR]:
            i, j = int(self._left[k]), int(self._right[k])
            distance = self._solids.distance(i, poses[i], j, poses[j])
            left[k] = max(distance - self._clearance(i, j), _STEP)
            if distance < self._clearance(i, j):
                return Near(self._names[i], self._names[j], distance)
        return None

    def _poses(self, q: Array) -> list[FramePose]:
        links = link_poses(self._tree, q)
        here = FramePose(np.eye(3), np.zeros(3))
        return [links.get(name, here) for name in self._names[: self._own]] + [here] * (
            len(self._names) - self._own
        )

    def _clearance(self, i: int, j: int) -> float:
        return BETWEEN_LINKS if max(i, j) < self._own else CLEARANCE

    def _close(
        self, poses: list[FramePose], left: Array, right: Array
    ) -> Iterator[tuple[int, int]]:
        """Yield the pairs whose enclosing spheres meet."""
        meet = self._gaps(poses, left, right) < CLEARANCE
        yield from zip(left[meet].tolist(), right[meet].tolist(), strict=True)

    def _gaps(self, poses: list[FramePose], left: Array, right: Array) -> Array:
        """Return the distances of the enclosing spheres of pairs, m."""
        centres = np.array([R @ c + p for (R, p), c in zip(poses, self._centre, strict=True)])
        apart = np.linalg.norm(centres[left] - centres[right], axis=1)
        return apart - self._radius[left] - self._radius[right]

    def _relative_motion(self, reach: Array) -> Array:
        """Return how far a pair moves at most by a unit of each joint, shape (pairs, n)."""
        tree = self._tree
        carried = np.zeros((len(self._names), tree.bodies), dtype=bool)
        for row, name in zip(carried, self._names[: self._own], strict=False):
            row[list(tree.path(tree.frames[name].body))] = True
        between = (carried[self._left] != carried[self._right]) * reach
        coupling = tree.coupling
        return between if coupling is None else np.asarray(between @ np.abs(coupling.rate))

    def _pairs(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Return the pairs that may meet, and those of links next to each other."""
        tree, names = self._tree, self._names
        adjacent = _adjacent(tree, names[: self._own])
        bodies = [tree.frames[name].body for name in names[: self._own]]
        bodies += [-1] * (len(names) - self._own)
        moving = [(i, j) for i, j in combinations(range(len(names)), 2) if bodies[i] != bodies[j]]
        apart = [frozenset((names[i], names[j])) not in adjacent for i, j in moving]
        pairs = [pair for pair, free in zip(moving, apart, strict=True) if free]
        return pairs, [pair for pair, free in zip(moving, apart, strict=True) if not free]

    def _always_near(self, pairs: list[tuple[int, int]]) -> set[tuple[int, int]]:
        """Return the pairs of links that are too near to each other in every sampled posture."""
        boxes = {i for i in range(self._own, len(self._names)) if self._names[i] != GROUND}
        suspects = {pair for pair in pairs if not boxes & {*pair}}
        for q in random_postures(self._tree, _SAMPLES):
            if not suspects:
                break
            poses = self._poses(q)
            left, right = np.array(sorted(suspects), dtype=int).T
            suspects = {
                (i, j)
                for i, j in self._close(poses, left, right)
                if self._solids.distance(i, poses[i], j, poses[j]) < self._clearance(i, j)
            }
        return suspects


def make_checker(
    tree: RobotTree, obstacles: Obstacles | None = None
) -> tuple[CollisionChecker | None, tuple[str, ...]]:
    """Return a checker and its remarks; none, and why, where nothing can be looked at."""
    try:
        checker = CollisionChecker(tree, obstacles)
    except MissingDependencyError as error:
        return None, (f'collisions are not looked for: {error}',)
    return checker, checker.remarks


def random_postures(tree: RobotTree, count: int) -> Iterator[Array]:
    """Yield postures within the joint limits, shape (n,), the same ones in every call."""
    rng = np.random.default_rng(0)
    lower = np.maximum(tree.position_lower, -math.pi)
    upper = np.maximum(np.minimum(tree.position_upper, math.pi), lower)
    for _ in range(count):
        yield rng.uniform(lower, upper)


def _adjacent(tree: RobotTree, names: Sequence[str]) -> set[frozenset[str]]:
    """Return pairs of links that are next to each other.

    Those are the links of a body and of the one that carries it. Of what does not move it is
    only the link that carries the arm, or the nearest one with a shape.
    """
    by_body: dict[int, list[str]] = {}
    for name in dict.fromkeys(names):
        by_body.setdefault(tree.frames[name].body, []).append(name)
    pairs = set()
    for body, parent in enumerate(tree.parent):
        carriers = by_body.get(parent, [])
        if parent < 0:
            carriers = _carriers(tree, body, carriers)
        pairs |= {frozenset((a, b)) for a in carriers for b in by_body.get(body, [])}
    return pairs


def _carriers(tree: RobotTree, body: int, fixed: Sequence[str]) -> list[str]:
    """Return the fixed link with a shape that is nearest to a body's joint along the tree."""
    description = parse_urdf(tree.xml, lambda fault: None)
    above = {joint.child: joint.parent for joint in description.joints}
    link: str | None = above.get(tree.link_names[body])
    while link is not None and link not in fixed:
        link = above.get(link)
    return [] if link is None else [link]


def _surroundings(
    tree: RobotTree, surfaces: Sequence[Triangles], names: Sequence[str], obstacles: Obstacles
) -> Iterator[tuple[str, Triangles]]:
    """Yield the ground, if gravity says where it is, and the boxes, in the base frame."""
    for k, numbers in enumerate(obstacles.boxes):
        shift = np.array(numbers[:3])
        yield f'box {k + 1}', box(np.array(numbers[3:])).moved(np.eye(3), shift)
    down = np.asarray(tree.gravity, dtype=float)
    if not down[2] < -0.99 * float(np.linalg.norm(down)) or not down.any():
        return  # weightless, on a wall or below a ceiling: nobody knows where the ground is
    height = 0.0
    for name, surface in zip(names, surfaces, strict=True):
        frame = tree.frames[name]
        if frame.body < 0:
            points = surface.vertices @ np.asarray(frame.R_BF).T + frame.p_BF
            height = min(height, float(points[:, 2].min()))
    middle = np.array([0.0, 0.0, height - obstacles.ground_below - _GROUND[2] / 2.0])
    yield GROUND, box(np.array(_GROUND)).moved(np.eye(3), middle)


def _reach(tree: RobotTree, names: Sequence[str], surfaces: Sequence[Triangles]) -> Array:
    """Return how far anything moves at most by a unit of each joint, (bodies,), m/rad or 1."""
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


def _middle(points: Array) -> Array:
    return 0.5 * (points.min(axis=0) + points.max(axis=0))
