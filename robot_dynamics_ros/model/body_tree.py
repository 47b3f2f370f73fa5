# SPDX-License-Identifier: Apache-2.0
"""Kinematics and inertia of a robot as read-only arrays: parents first, fixed joints lumped."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.errors import ModelError, ShapeError, UnknownNameError, known_name
from robot_dynamics_ros.model.dependence import Affine, Dependence, TreeState
from robot_dynamics_ros.spatial.rotation import rotation_about
from robot_dynamics_ros.spatial.scalar import Array, Scalar

_OF_A_BODY: dict[str, tuple[int, ...]] = {
    'axis': (3,),
    'R_PJ': (3, 3),
    'p_PJ': (3,),
    'mass': (),
    'com': (3,),
    'inertia': (3, 3),
}


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


@dataclass(frozen=True, eq=False, kw_only=True)
class BodyTree(ABC):
    """A tree of rigid bodies, each moved by one joint; n of the joints are independent.

    *Joint* attributes have n entries, *body* attributes (link_names to inertia below) one entry
    per body.

    Attributes:
        name: Name of the robot.
        base_link: Name of the root link.
        joint_names: Names of the n independent joints, parents first.
        link_names: Name of the child link of each body's joint.
        parent: Index of the parent body of each body; -1 for the base.
        prismatic: Whether the joint of each body is prismatic (True) or revolute (False); of the
            independent joints see ``joint_is_prismatic``.
        axis: Unit joint axes in the joint's own frame, shape (bodies, 3).
        R_PJ: Rotation of each joint frame in its parent body, shape (bodies, 3, 3).
        p_PJ: Origin of each joint frame in its parent body at q = 0, shape (bodies, 3), m.
        mass: Body masses, shape (bodies,), kg.
        com: Centres of mass in the body frames, shape (bodies, 3), m.
        inertia: Tensors about the centres of mass, body axes, shape (bodies, 3, 3), kg m^2.
        gravity: Free-fall acceleration in the base frame, shape (3,), m/s^2.
        frames: Frame of every link of the file in the body that it is lumped into, by link name.

    Raises:
        ShapeError: A body attribute, or gravity, has another shape.
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
    frames: Mapping[str, BodyFrame]

    def __post_init__(self) -> None:
        shapes = {name: (self.bodies, *shape) for name, shape in _OF_A_BODY.items()}
        for name, expected in (shapes | {'gravity': (3,)}).items():
            if (shape := np.shape(getattr(self, name))) != expected:
                raise ShapeError(name, shape, expected)
        for name, value in vars(self).items():
            object.__setattr__(self, name, frozen(value))

    @property
    def n(self) -> int:
        """Number of independent joints, the degrees of freedom."""
        return len(self.joint_names)

    @property
    def bodies(self) -> int:
        """Number of bodies; more than ``n`` if there are mimic joints."""
        return len(self.parent)

    @property
    @abstractmethod
    def body_joints(self) -> tuple[str, ...]:
        """Names of the joints of all bodies, in body order."""

    @property
    @abstractmethod
    def dependence(self) -> Dependence:
        """Positions of the joints of all bodies as functions of the independent ones."""

    @property
    @abstractmethod
    def rate(self) -> Array:
        """Rates of the joints of all bodies by those of the independent ones, shape (bodies, n).

        Those of the assembly if they depend on the position.
        """

    @property
    def has_constant_rates(self) -> bool:
        """Whether ``rate`` holds at every position, as without loops."""
        return isinstance(self.dependence, Affine)

    @abstractmethod
    def positions(self, q: Array, near: Array | None = None) -> Array:
        """Return the joint positions of all bodies, shape (..., bodies), from q, (..., n).

        Of loops, those that continue the branch of ``near``, shape (bodies,); see ``Mechanism``.
        """

    @abstractmethod
    def tree_state(self, q: Array, v: Array, a: Array, near: Array | None = None) -> TreeState:
        """Return the motion of the joints of all bodies.

        Args:
            q: Positions of the independent joints, shape (n,), rad or m; numbers or symbols.
            v: Their velocities, shape (n,), rad/s or m/s.
            a: Their accelerations, shape (n,), rad/s^2 or m/s^2.
            near: As for ``positions``.
        """

    @property
    def mimic_joints(self) -> tuple[str, ...]:
        """Names of the joints that depend on others, in body order."""
        return tuple(name for name in self.body_joints if name not in self.joint_names)

    @property
    def body_of_joint(self) -> Array:
        """Index of the body that each independent joint moves, shape (n,)."""
        return np.array([self.body_joints.index(name) for name in self.joint_names])

    @property
    def joint_of_body(self) -> Array:
        """Index of the independent joint that each body's joint is or follows most, (bodies,)."""
        return np.asarray(np.abs(self.rate).argmax(axis=1))

    @property
    def joint_is_prismatic(self) -> tuple[bool, ...]:
        """Whether each of the n independent joints is prismatic (True) or revolute (False)."""
        return tuple(self.prismatic[body] for body in self.body_of_joint)

    def joint_index(self, name: str) -> int:
        """Return the index of a joint.

        Raises:
            UnknownNameError: There is no such joint; the message lists the known joints.
        """
        return self.joint_names.index(known_name('joint', name, self.joint_names))

    def frame(self, name: str | BodyFrame, kind: str = 'frame') -> BodyFrame:
        """Return a frame by its link name.

        Args:
            name: Name of the link, or a frame fixed in a body.
            kind: What names it, for errors, such as the parameter 'payload_frame'.

        Raises:
            UnknownNameError: There is no such frame or body; the message lists the known ones.
        """
        if isinstance(name, BodyFrame):
            if not -1 <= name.body < self.bodies:
                known = map(str, range(-1, self.bodies))
                raise UnknownNameError(f'body of a {kind}', name.body, known)
            return name
        return self.frames[known_name(kind, name, self.frames)]

    def moving_frame(self, name: str, kind: str = 'frame') -> BodyFrame:
        """Return a frame that joints move, see :meth:`frame`.

        Raises:
            UnknownNameError: There is no such frame.
            ModelError: It is fixed to the base, where wrenches, masses and efforts have no effect.
        """
        frame = self.frame(name, kind)
        if frame.body < 0:
            raise ModelError(f'{kind} {name!r}', 'is on the base', 'choose a frame that moves')
        return frame

    def placement(self, i: int, q_i: Scalar) -> tuple[Array, Array]:
        """Return the pose of body i in its parent at joint position q_i.

        Returns:
            ``R_PB`` (3, 3), mapping body to parent components, and ``p_PB`` (3,), m, in parent
            axes.
        """
        if self.prismatic[i]:
            return self.R_PJ[i], self.p_PJ[i] + self.R_PJ[i] @ self.axis[i] * q_i
        return self.R_PJ[i] @ rotation_about(self.axis[i], q_i), self.p_PJ[i]

    def path(self, body: int) -> tuple[int, ...]:
        """Return the indices of the bodies from the base to a body, inclusive."""
        bodies: list[int] = []
        while body >= 0:
            bodies.append(body)
            body = self.parent[body]
        return tuple(reversed(bodies))


def frozen(value: Any) -> Any:
    """Return an array that nobody can write to, and containers of arrays with such ones."""
    if isinstance(value, (Affine, BodyFrame)):
        return type(value)(*map(frozen, value))
    if isinstance(value, Mapping):
        return {key: frozen(part) for key, part in value.items()}
    if not isinstance(value, np.ndarray) or not (value.flags.writeable or value.base is not None):
        return value
    value = value.copy()
    value.setflags(write=False)
    return value
