# SPDX-License-Identifier: Apache-2.0
"""Does the model explain the efforts of a running robot, and if not, what may be wrong?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.dynamics.formulation import Formulation
from robot_dynamics_ros.dynamics.joint_terms import JointTerms
from robot_dynamics_ros.dynamics.registry import make_formulation
from robot_dynamics_ros.estimation.gravity_fit import GravityFit, GravitySums
from robot_dynamics_ros.estimation.model_steps import Instant
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import compile_kernel

ORIGINS = ('inertia', 'coriolis', 'gravity', 'armature', 'friction')
_SLOW = 5e-3  # rad/s or m/s, below which a joint with Coulomb friction may stick


@dataclass(frozen=True, eq=False)
class Explanation:
    """What the model says of one instant; arrays of shape (n,), N m or N.

    Attributes:
        instant: The instant.
        effort: The effort that the model asks for.
        other: The same by the formulation that is compared with; None without one.
        parts: The model's effort by origin.
        residual: What acted less what the model asks for; NaN where it is not known.
        good: Whether the motion alone explains each effort: a joint limit or the stick of dry
            friction may hold what it does not tell.
        excess: Of the residual what cannot be Coulomb friction of a joint that sticks; NaN where
            it is not known, or a joint limit may hold anything.
    """

    instant: Instant
    effort: Array
    other: Array | None
    parts: Mapping[str, Array]
    residual: Array
    good: Array
    excess: Array

    @property
    def difference(self) -> Array | None:
        """The model's effort less that of the other formulation."""
        return None if self.other is None else self.effort - self.other


@dataclass(frozen=True, eq=False)
class Summary:
    """What was seen since the last summary.

    Attributes:
        count: Instants.
        known: Efforts that were known and not held by a joint limit, per joint, shape (n,).
        rms, largest: Of the residual per joint, shape (n,), N m or N; while a joint sticks, of
            what is beyond its Coulomb friction.
        difference: Largest difference of both formulations, relative to the largest effort.
        gravity: Which gravity fits; None if that cannot be told.
    """

    count: int
    known: Array
    rms: Array
    largest: Array
    difference: float
    gravity: GravityFit | None


class ModelMonitor:
    """Explains instants and sums up what is left.

    Args:
        tree: The robot, with what it carries.
        formulation: Name of the formulation.
        compare_with: Name of another one; empty: none.
        friction: Whether the description's friction and armature belong to the model.

    Attributes:
        compared: Name of the other formulation, or empty.

    Raises:
        UnknownNameError: There is no such formulation.
        MissingDependencyError: It needs a library that is not installed.

    Cost: about 40 us an instant, without the other formulation.
    """

    def __init__(
        self,
        tree: RobotTree,
        formulation: str = 'newton_euler',
        compare_with: str = 'pinocchio',
        *,
        friction: bool = True,
    ) -> None:
        self.tree = tree
        self._terms = JointTerms.of(tree, friction=friction, armature=friction)
        names = ('inverse_dynamics', 'bias_forces', 'gravity_forces')
        self._kernels = compile_kernel(tree, formulation, names)
        self.compared = compare_with
        self._other: Formulation | None = None
        if compare_with:
            self._other = make_formulation(compare_with, tree)
        self._pull = [
            compile_kernel(tree.with_gravity(unit), formulation, ('gravity_forces',))
            for unit in np.eye(3)
        ]
        self._may_stick = self._terms.coulomb_friction > 0.0
        self._start()

    def explain(self, instant: Instant) -> Explanation:
        """Return what the model says of an instant, and remember what it leaves unexplained."""
        n, tree = self.tree.n, self.tree
        q, v, a = (np.ascontiguousarray(x) for x in instant[:3])
        rigid, bias, gravity = np.zeros(n), np.zeros(n), np.zeros(n)
        self._kernels.inverse_dynamics(q, v, a, rigid)
        self._kernels.bias_forces(q, v, bias)
        self._kernels.gravity_forces(q, gravity)
        armature = self._terms.armature * a
        friction = self._terms.friction(instant.v_friction)
        parts = dict(
            zip(ORIGINS, (rigid - bias, bias - gravity, gravity, armature, friction), strict=True)
        )
        drives = armature + friction
        effort = rigid + drives
        other = None
        if self._other is not None:
            other = self._other.inverse_dynamics(q, v, a) + drives
        residual = instant.effort - effort
        at_limit = (q <= tree.position_lower) | (q >= tree.position_upper)
        sticking = self._may_stick & (np.abs(instant.v_friction) < _SLOW)
        good = np.isfinite(residual) & ~at_limit & ~sticking
        held = np.where(sticking, self._terms.coulomb_friction, 0.0)
        free = residual + np.where(sticking, friction, 0.0)
        excess = np.where(sticking, free - np.clip(free, -held, held), residual)
        excess[at_limit] = np.nan
        found = Explanation(instant, effort, other, parts, residual, good, excess)
        self._remember(found, q)
        return found

    def summary(self) -> Summary:
        """Return what was seen since the last call, and start anew."""
        known = np.maximum(self._known, 1)
        found = Summary(
            self._count,
            self._known,
            np.sqrt(self._squares / known),
            self._largest,
            self._difference / max(self._effort, 1e-300),
            self._gravity.fit(self.tree.gravity) if self._count else None,
        )
        self._start()
        return found

    def _start(self) -> None:
        n = self.tree.n
        self._count, self._known = 0, np.zeros(n, dtype=np.int64)
        self._squares, self._largest = np.zeros(n), np.zeros(n)
        self._difference = self._effort = 0.0
        self._gravity = GravitySums(n)

    def _remember(self, found: Explanation, q: Array) -> None:
        self._count += 1
        if found.difference is not None:
            self._difference = max(self._difference, float(np.abs(found.difference).max()))
            self._effort = max(self._effort, float(np.abs(found.effort).max()))
        known, good = np.isfinite(found.excess), found.good
        beyond = np.where(known, found.excess, 0.0)
        self._known += known
        self._squares += np.square(beyond)
        self._largest = np.maximum(self._largest, np.abs(beyond))
        if not good.any():
            return
        left = np.where(good, found.residual, 0.0)
        pull = np.zeros((3, self.tree.n))
        for kernels, row in zip(self._pull, pull, strict=True):
            kernels.gravity_forces(q, row)
        effort = found.instant.effort
        self._gravity.take(
            pull.T[np.newaxis], left[np.newaxis], effort[np.newaxis], good[np.newaxis]
        )
