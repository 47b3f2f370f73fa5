# SPDX-License-Identifier: Apache-2.0
"""A robot as frozen arrays, parents first, fixed joints lumped, followers coupled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.errors import NonFiniteError, ShapeError, UnknownNameError
from robot_dynamics_ros.spatial.rotation import rotation_about
from robot_dynamics_ros.spatial.scalar import Array, Scalar

STANDARD_GRAVITY = (0.0, 0.0, -9.81)


class BodyFrame(NamedTuple):
    """A frame fixed in a body, such as a URDF link lumped into it.

    Attributes:
        body: Index of the body, -1 for the base.
        R_BF: Rotation, shape (3, 3): maps frame components to body components.
        p_BF: Origin in the body frame, shape (3,), m.
    """

    body: int
    R_BF: Array
    p_BF: Array


class Coupling(NamedTuple):
    r"""Joints that follow others: every joint as an affine function of the n independent ones.

    .. math:: q_{bodies} = G\,q + o

    Attributes:
        joint_names: The joint of every body, in the order of the bodies, b of them.
        rate: G, shape (b, n): a row of a leader has a single 1; whole numbers where all are.
        offset: o, shape (b,), rad or m.
    """

    joint_names: tuple[str, ...]
    rate: Array
    offset: Array


@dataclass(frozen=True, eq=False)
class RobotTree:
    """A tree of rigid bodies, each moved by one joint; n of the joints are independent.

    Without a coupling every joint is independent, and body i moves with joint i. With one, the
    attributes of *joints* have n entries and those of *bodies* (link_names to inertia below) one
    for each body; friction and armature of the followers are carried to their leaders.

    Arrays are read-only. They hold floats, or symbols (dtype object) for printed equations.

    Attributes:
        name: The robot's name.
        base_link: Name of the root link.
        joint_names: Names of the independent joints, parents first, n of them.
        link_names: Name of the link that the joint of each body moves.
        parent: Index of the parent body of each body; -1 is the base.
        prismatic: Whether each joint slides (True) or turns (False).
        axis: Unit joint axes in the joint's own frame, shape (n, 3).
        R_PJ: Rotation of each joint frame in its parent body, shape (n, 3, 3).
        p_PJ: Origin of each joint frame in its parent body at q = 0, shape (n, 3), m.
        mass: Body masses, shape (n,), kg.
        com: Centres of mass in the body frames, shape (n, 3), m.
        inertia: Tensors about the centres of mass, body axes, shape (n, 3, 3), kg m^2.
        gravity: Free-fall acceleration in the base frame, shape (3,), m/s^2.
        position_lower, position_upper: Joint limits, shape (n,), rad or m; infinite if continuous.
        velocity_limit: Shape (n,), rad/s or m/s; infinite where the file is silent.
        effort_limit: Shape (n,), N m or N; positive.
        damping: Viscous friction, shape (n,), N m s/rad or N s/m.
        coulomb_friction: Coulomb friction, shape (n,), N m or N.
        armature: Reflected drive inertia, shape (n,), kg m^2 or kg.
        frames: Every link of the file by name, as a frame of the body it is lumped into.
        xml: The expanded URDF text it was made from, locked joints fixed; empty if built by hand.
        coupling: How followers (mimic joints) move with the independent joints; None without any.
        locked: Positions of the joints that were locked, rad or m.
        remarks: What is suspicious in the description, or how it was taken; one sentence each.
        drive_friction: Friction beyond the description's by name, see ``model.identified``; shape
            (n,) each.
    """

    name: str
    base_link: str
    joint_names: tuple[str, ...]
    link_names: tuple[str, ...]
    parent: tuple[int, ...]
    prismatic: tuple[bool, ...]
    axis: Array
    R_PJ: Array
    p_PJ: Array
    mass: Array
    com: Array
    inertia: Array
    gravity: Array
    position_lower: Array
    position_upper: Array
    velocity_limit: Array
    effort_limit: Array
    damping: Array
    coulomb_friction: Array
    armature: Array
    frames: Mapping[str, BodyFrame]
    xml: str = ''
    coupling: Coupling | None = None
    locked: Mapping[str, float] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    drive_friction: Mapping[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for value in vars(self).values():
            if hasattr(value, 'setflags'):
                value.setflags(write=False)

    @property
    def n(self) -> int:
        """Number of independent joints: the degrees of freedom."""
        return len(self.joint_names)

    @property
    def bodies(self) -> int:
        """Number of bodies; more than ``n`` if there are followers."""
        return len(self.parent)

    def joint_positions(self, q: Array) -> Array:
        """Return the position of every body's joint, shape (bodies,), from q of shape (n,)."""
        coupling = self.coupling
        return q if coupling is None else coupling.rate @ q + coupling.offset

    def joint_rates(self, v: Array) -> Array:
        """Return the rate of every body's joint; v of shape (n,), or (n, k) for k of them."""
        return v if self.coupling is None else self.coupling.rate @ v

    @property
    def open(self) -> RobotTree:
        """The same bodies, every joint independent; followers have no limits and no friction."""
        coupling = self.coupling
        if coupling is None:
            return self
        own = [coupling.joint_names.index(name) for name in self.joint_names]
        others = {'position_lower': -np.inf, 'position_upper': np.inf, 'velocity_limit': np.inf}
        changes: dict[str, Any] = {'effort_limit': np.inf, 'damping': 0.0, **others}
        for name in (*changes, 'coulomb_friction', 'armature'):
            spread = np.full(self.bodies, changes.get(name, 0.0))
            spread[own] = getattr(self, name)
            changes[name] = spread
        changes |= {'joint_names': coupling.joint_names, 'coupling': None, 'drive_friction': {}}
        return replace(self, **changes)

    @property
    def slides(self) -> tuple[bool, ...]:
        """Whether each independent joint slides (True) or turns (False), n of them."""
        kinds = dict(zip(self.open.joint_names, self.prismatic, strict=True))
        return tuple(kinds[name] for name in self.joint_names)

    @property
    def position_range(self) -> Array:
        """How far apart the position limits are, shape (n,), rad or m; 0 where there is none."""
        span = self.position_upper - self.position_lower
        return np.where(np.isfinite(span), span, 0.0)

    def speeds(self, usual: float = 1.0) -> Array:
        """Return the velocity limits, shape (n,), rad/s or m/s; another where there is none."""
        return np.where(np.isfinite(self.velocity_limit), self.velocity_limit, usual)

    def joint_index(self, name: str) -> int:
        """Return the index of a joint.

        Raises:
            UnknownNameError: There is no such joint; lists those that exist.
        """
        if name not in self.joint_names:
            raise UnknownNameError('joint', name, self.joint_names)
        return self.joint_names.index(name)

    def frame(self, name: str) -> BodyFrame:
        """Return a frame by its link name.

        Raises:
            UnknownNameError: There is no such frame; lists those that exist.
        """
        if name not in self.frames:
            raise UnknownNameError('frame', name, self.frames)
        return self.frames[name]

    def placement(self, i: int, q_i: Scalar) -> tuple[Array, Array]:
        """Return the pose of body i in its parent at joint coordinate q_i.

        Returns:
            ``R_PB`` (3, 3) mapping body to parent components and ``p_PB`` (3,), m, in the parent.
        """
        if self.prismatic[i]:
            return self.R_PJ[i], self.p_PJ[i] + self.R_PJ[i] @ self.axis[i] * q_i
        return self.R_PJ[i] @ rotation_about(self.axis[i], q_i), self.p_PJ[i]

    def path(self, body: int) -> tuple[int, ...]:
        """Return the bodies from the base to a body, it included."""
        bodies: list[int] = []
        while body >= 0:
            bodies.append(body)
            body = self.parent[body]
        return tuple(reversed(bodies))

    def with_gravity(self, gravity: Any) -> RobotTree:
        """Return the same robot under another gravity vector, shape (3,), m/s^2."""
        return replace(self, gravity=vector('gravity', gravity))

    def with_changes(self, **changes: Any) -> RobotTree:
        """Return a copy with some attributes replaced (a payload, a wrong model, symbols)."""
        return replace(self, **changes)


def vector(name: str, value: Any) -> Array:
    """Return three numbers or symbols as an array.

    Raises:
        ShapeError: They are not three.
        NonFiniteError: One is NaN or infinite.
    """
    array = np.array(value)
    if array.dtype != object:
        array = array.astype(float)
    if array.shape != (3,):
        raise ShapeError(name, array.shape, '(3,)')
    if array.dtype != object and not np.isfinite(array).all():
        raise NonFiniteError(name, array.tolist())
    return array
