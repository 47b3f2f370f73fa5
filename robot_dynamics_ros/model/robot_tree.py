# SPDX-License-Identifier: Apache-2.0
"""Robot model: bodies (``body_tree``), limits (``joint_limits``), drives and source."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from robot_dynamics_ros.errors import MechanismError, ModelError, known_name
from robot_dynamics_ros.model.body_tree import frozen
from robot_dynamics_ros.model.dependence import Affine, TreeState
from robot_dynamics_ros.model.joint_limits import TURN, LimitedTree
from robot_dynamics_ros.spatial.scalar import Array, common_dtype, zeros
from robot_dynamics_ros.spatial.validation import require_type, scalars

if TYPE_CHECKING:
    from typing_extensions import Self

STANDARD_GRAVITY = (0.0, 0.0, -9.81)


@dataclass(frozen=True, eq=False, kw_only=True)
class DriveTerms:
    """What the drives add to the rigid bodies; mimic joints are included in their joints.

    Attributes:
        damping: Viscous friction, shape (n,), N m s/rad or N s/m.
        coulomb_friction: Coulomb friction, shape (n,), N m or N.
        armature: Reflected drive inertia, shape (n,), kg m^2 or kg.
        drive_friction: Additional friction terms by name, see ``model.identified``; shape (n,)
            each.
    """

    damping: Array
    coulomb_friction: Array
    armature: Array
    drive_friction: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, kw_only=True)
class RobotSource:
    """Where a robot comes from, and what was made of it.

    Attributes:
        xml: Source URDF text, expanded and with locked joints fixed; empty if not from a URDF.
        mechanism: Text of the mechanism file that closes its loops; empty without one.
        locked: Positions of the locked joints by name, rad or m.
        influential: Those locked joints on whose position the dynamics depend: the ones that a
            controlled revolute joint carries, and the ones that turn controlled joints against
            gravity or a controlled slide.
        turning_locks: Those locked joints whose positions are angles: continuous ones that no
            joint mimics.
        lock_paths: Names of the locked joints between the root and a link, by the name of the
            link; links without any are missing.
        remarks: Suspicious or reinterpreted parts of the description, one sentence each.
    """

    xml: str = ''
    mechanism: str = ''
    locked: Mapping[str, float] = field(default_factory=dict)
    influential: tuple[str, ...] = ()
    turning_locks: tuple[str, ...] = ()
    lock_paths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    def lock_error(self, name: str, position: float) -> float:
        """Return how far a locked joint at a position is from that of the model, rad or m.

        Whole turns of a continuous joint do not count. NaN at NaN.
        """
        away = position - self.locked[known_name('locked joint', name, self.locked)]
        if name in self.turning_locks and math.isfinite(away):
            away = math.remainder(away, TURN)
        return abs(away)


@dataclass(frozen=True, eq=False, kw_only=True)
class Robot(LimitedTree, DriveTerms, RobotSource):
    """A robot: rigid bodies with the limits, drives and source of its independent joints.

    It is a :class:`RobotTree`, or has joints that depend on others
    (:class:`~robot_dynamics_ros.model.mechanism.Mechanism`): mimic joints, closed loops.
    Arrays are read-only copies of those given. They hold floats, or symbols (dtype object) for
    printed equations. The attributes are those of ``BodyTree`` (kinematics and inertia),
    :class:`LimitedTree` (limits), :class:`DriveTerms` (friction, rotor inertia) and
    :class:`RobotSource` (text, remarks, locked joints).
    """

    @property
    @abstractmethod
    def tree(self) -> RobotTree:
        """The same bodies with all joints independent."""

    @property
    def closed_loops(self) -> Any:  # an ``Assembly``, which needs the types of this module
        """The loops that close the tree, with their checks; None without loops."""
        return None

    @property
    def drive(self) -> Array:
        """Matrix from the rates of all joints to those of the drives, shape (n, bodies)."""
        return np.eye(self.bodies, dtype=int)[self.body_of_joint]

    @property
    def actuator_names(self) -> tuple[str, ...]:
        """Names of the n drives, in the order of efforts."""
        return self.joint_names

    @cached_property
    def drives_coordinates(self) -> bool:
        """Whether each drive moves exactly its own joint, as without a loop file."""
        return np.array_equal(self.drive, np.eye(self.bodies)[self.body_of_joint])

    def reaches(self, q: Array) -> bool:
        """Return whether the dependent joints have positions at q, shape (n,).

        Those of loops solved by iteration do if these close all the way from the assembly to q,
        and determine the joints there.
        """
        return self.closed_loops is None or self.closed_loops.reaches(q)

    def random_positions(self, rng: np.random.Generator, count: int) -> list[Array]:
        """Return those of random positions within ``sampled_range`` to which the loops close.

        Args:
            rng: Source of the positions.
            count: How many are drawn; if the loops close to none, the result is ``middle``.
        """
        drawn = rng.uniform(*self.sampled_range, (count, self.n))
        return [q for q in drawn if self.reaches(q)] or [self.middle]

    def require_direct_drives(self, what: str) -> None:
        """Raise an error unless each drive moves exactly its own joint.

        Args:
            what: What needs it, for the message, such as 'the law pd_gravity'.

        Raises:
            MechanismError: A drive moves another combination of joints.
        """
        if not self.drives_coordinates:
            raise MechanismError(
                f'actuators of {self.name!r}',
                f'{what} needs a drive on each coordinate',
                'give one actuator per coordinate with rate {COORDINATE: 1}, or leave actuators '
                'out',
            )

    def require_closed_form(self, what: str) -> None:
        """Raise an error if loops are solved by iteration.

        Args:
            what: What cannot iterate, for the message, such as 'C source could not check'.

        Raises:
            MechanismError: They are.
        """
        if self.closed_loops is not None and self.closed_loops.formula is None:
            problem = f'its loops are solved by iteration, which {what}'
            raise MechanismError(f'mechanism {self.name!r}', problem, 'declare a closed_form')

    def with_tree(self, tree: RobotTree) -> Robot:
        """Return the same robot with another tree of the same joints; see Mechanism."""
        return tree

    def with_gravity(self, gravity: Any) -> Self:
        """Return a copy with another gravity vector, shape (3,), m/s^2."""
        return replace(self, gravity=scalars('gravity', gravity, (3,)))

    def with_changes(self, **changes: Any) -> Self:
        """Return a copy with some attributes replaced (payload, model error, symbols)."""
        return replace(self, **changes)


@dataclass(frozen=True, eq=False, kw_only=True)
class RobotTree(Robot):
    """A robot with as many joints as moving bodies: joint i moves body i.

    Raises:
        ModelError: The number of joints is not that of the bodies.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n != self.bodies:
            problem = f'has {self.n} joints for {self.bodies} bodies'
            raise ModelError(f'robot {self.name!r}', problem, 'give one joint for each body')

    @property
    def tree(self) -> RobotTree:
        """The robot itself."""
        return self

    @property
    def body_joints(self) -> tuple[str, ...]:
        """Names of the joints, in body order."""
        return self.joint_names

    @cached_property
    def dependence(self) -> Affine:
        """The identity; exact integers."""
        return frozen(Affine(np.eye(self.n, dtype=int), np.zeros(self.n, dtype=int)))

    @property
    def rate(self) -> Array:
        """The identity; exact integers."""
        return self.dependence.rate

    def positions(self, q: Array, near: Array | None = None) -> Array:
        """Return q, shape (..., n)."""
        return q

    def tree_state(self, q: Array, v: Array, a: Array, near: Array | None = None) -> TreeState:
        """Return the motion as given."""
        return TreeState(q, v, a, self.rate, zeros(self.n, common_dtype(q, v)))


def require_robot(tree: Any) -> None:
    """Raise ParameterError unless an argument is a robot."""
    require_type('tree', tree, Robot, 'a robot, as load_robot and load_arm return it')
