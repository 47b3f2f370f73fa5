# SPDX-License-Identifier: Apache-2.0
"""A robot as frozen arrays, parents first, fixed joints lumped."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from robot_dynamics_ros.errors import NonFiniteError, ShapeError, UnknownNameError
from robot_dynamics_ros.spatial.rotation import rotation_about
from robot_dynamics_ros.spatial.scalar import Array, Scalar

STANDARD_GRAVITY = (0.0, 0.0, -9.81)


@dataclass(frozen=True)
class BodyFrame:
    """A frame fixed in a body, such as a URDF link lumped into it.

    Attributes:
        body: Index of the body, -1 for the base.
        R_BF: Rotation, shape (3, 3): maps frame components to body components.
        p_BF: Origin in the body frame, shape (3,), m.
    """

    body: int
    R_BF: Array
    p_BF: Array


@dataclass(frozen=True, eq=False)
class RobotTree:
    """A tree of rigid bodies, one degree of freedom each; body i moves with joint i.

    Arrays are read-only. They hold floats, or symbols (dtype object) for printed equations.

    Attributes:
        name: The robot's name.
        base_link: Name of the root link.
        joint_names: Names of the moving joints, parents first, n of them.
        link_names: Name of the link that each joint moves.
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
        xml: The expanded URDF text it was made from; empty if built by hand.
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

    def __post_init__(self) -> None:
        for value in vars(self).values():
            if hasattr(value, 'setflags'):
                value.setflags(write=False)

    @property
    def n(self) -> int:
        """Number of joints, bodies and degrees of freedom."""
        return len(self.joint_names)

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
        return replace(self, gravity=_vector('gravity', gravity))

    def with_changes(self, **changes: Any) -> RobotTree:
        """Return a copy with some attributes replaced (a payload, a wrong model, symbols)."""
        return replace(self, **changes)


def _vector(name: str, value: Any) -> Array:
    import numpy as np

    array = np.array(value)
    if array.dtype != object:
        array = array.astype(float)
    if array.shape != (3,):
        raise ShapeError(name, array.shape, '(3,)')
    if array.dtype != object and not np.isfinite(array).all():
        raise NonFiniteError(name, array.tolist())
    return array


def load_robot(
    path_or_xml: str | os.PathLike[str],
    gravity: Any = STANDARD_GRAVITY,
    *,
    effort_limit: float | Mapping[str, float] | None = None,
    mappings: Mapping[str, str] | None = None,
) -> RobotTree:
    """Load a robot from URDF text, a URDF file or a xacro file.

    Args:
        path_or_xml: URDF text, or the path of a ``.urdf`` or ``.xacro`` file.
        gravity: Free-fall acceleration in the base frame, shape (3,), m/s^2.
        effort_limit: Limit in N m or N where the file gives none or 0: one number for all such
            joints, or a number by joint name (which also replaces a limit of the file).
        mappings: Arguments of a xacro file.

    Returns:
        The robot as frozen arrays, joints in the order of the file, parents first.

    Raises:
        DescriptionError: The text is malformed, or its links and joints form no tree.
        ModelError: A mass, inertia, axis or limit is not usable; names it and the remedy.
        ShapeError, NonFiniteError: Gravity is no vector of three finite numbers.
        MissingDependencyError: A xacro file was given and xacro is not installed.
    """
    from robot_dynamics_ros.description.urdf import read_description
    from robot_dynamics_ros.model.build import build_tree

    description = read_description(path_or_xml, mappings)
    return build_tree(description, _vector('gravity', gravity), effort_limit)
