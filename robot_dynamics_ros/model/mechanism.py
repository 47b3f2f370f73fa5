# SPDX-License-Identifier: Apache-2.0
r"""A robot with joints that depend on others: mimic joints, closed loops.

The N independent joint variables are the generalized coordinates u. The motion of every joint of
the tree is

.. math:: \dot\theta_i = \sum_j A_{ij}\dot u_j, \qquad
          \ddot\theta_i = \sum_j A_{ij}\ddot u_j + \gamma_i,

which for mimic joints and linear loops is affine, for loops with a formula explicit, and for all
others implicit: the loop equations :math:`\Phi(u,\varphi) = 0`, solved for the dependent joints
(``assembly``).

The rate of drive a is :math:`\sigma_a = \sum_j B_{aj}\dot u_j`, a declared combination of joint
rates.

The mechanism file is described in ``mechanism_file`` and in docs/mechanisms.md.

To all others a mechanism is a robot of its independent joints, see :class:`Robot`.

Source: kane-recursion, section 4.1; Ma, Xu, Li 1988, section 3, for the parallelogram.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from robot_dynamics_ros.model.assembly import Assembly
from robot_dynamics_ros.model.body_tree import BodyTree, frozen
from robot_dynamics_ros.model.dependence import Affine, Dependence, Explicit, TreeState
from robot_dynamics_ros.model.loops import Loop, LoopEquations
from robot_dynamics_ros.model.robot_tree import Robot, RobotTree
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.spatial.validation import array, scalars

#: Attributes of every joint of the spanning tree.
_OF_JOINTS = (
    *('position_lower', 'position_upper', 'velocity_limit', 'effort_limit'),
    *('soft_lower', 'soft_upper'),
    *('damping', 'coulomb_friction', 'armature'),
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Mechanism(Robot):
    """A robot some of whose joints depend on the n independent ones, its coordinates u.

    The attributes of :class:`Robot` with n entries are those of the independent joints, in the
    order of u; ``effort_limit`` is that of the n drives.

    Attributes:
        every_joint: Names of the joints of all bodies, in body order.
        mimic: Their positions by those that follow no other, shape (bodies, bodies); columns of
            mimic joints are zero.
        of_every_joint: Limits, friction and rotor inertia of the joints of all bodies, shape
            (bodies,) each, by attribute; those of the independent joints are superseded by the
            mechanism's own.
        actuators: Rate of each of the n drives by the rates of the joints, shape (bodies,), by
            name, in the order of efforts.
        closed_form: The joint positions as functions of u; None if they are solved by Newton's
            method.
        loops: The loops that close the tree.
        rows: Indices of the loop equations that determine the dependent joints; the others are
            redundant.
        assembled: Tree positions on the declared branch, shape (bodies,), rad or m.
        singular_below: Smallest conditioning of the loops accepted.
    """

    every_joint: tuple[str, ...]
    mimic: Affine
    of_every_joint: Mapping[str, Array]
    actuators: Mapping[str, Array]
    closed_form: Affine | Explicit | None
    loops: tuple[Loop, ...] = ()
    rows: tuple[int, ...] = ()
    assembled: Array
    singular_below: float = 0.0

    @classmethod
    def of(cls, tree: RobotTree, coordinates: list[int], **given: Any) -> Mechanism:
        """Return the mechanism of a tree in which some joints are the coordinates.

        Args:
            tree: The spanning tree.
            coordinates: Indices of these joints, in the order of u.
            given: Attributes of the mechanism; those not given are of the tree.
        """
        values = {part.name: getattr(tree, part.name) for part in fields(RobotTree)}
        every = {name: values[name] for name in _OF_JOINTS}
        values |= {name: value[coordinates] for name, value in every.items()}
        values['joint_names'] = tuple(tree.joint_names[i] for i in coordinates)
        values |= {'every_joint': tree.joint_names, 'of_every_joint': every}
        return cls(**values | given)

    @property
    def body_joints(self) -> tuple[str, ...]:
        """Names of the joints of all bodies, in body order."""
        return self.every_joint

    @cached_property
    def tree(self) -> RobotTree:
        """The spanning tree: the same bodies with all joints independent."""
        changes: dict[str, Any] = {'joint_names': self.every_joint, 'drive_friction': {}}
        for name, values in self.of_every_joint.items():
            changes[name] = values.copy()
            changes[name][self.body_of_joint] = getattr(self, name)
        kept = {part.name: getattr(self, part.name) for part in fields(RobotTree)}
        return RobotTree(**kept | changes)

    @cached_property
    def equations(self) -> LoopEquations:
        """The loops and mimic joints, with the rows that determine the dependent joints."""
        coordinates = self.body_of_joint.tolist()
        return LoopEquations(self.tree, self.loops, coordinates, self.mimic, self.rows)

    @cached_property
    def assembly(self) -> Assembly:
        """The loops on the declared branch, and the checks whether they are closed there."""
        at = self.assembled[self.body_of_joint]
        reach = np.max(np.abs(np.array(self.sampled_range) - at), axis=0)
        kept = self.closed_form, self.singular_below, reach
        return Assembly(self.equations, self.assembled, *kept)

    @cached_property
    def planning_range(self) -> tuple[Array, Array]:
        """The sampled range, narrowed to where the loops close; shape (n,) each, rad or m."""
        lower, upper = self.sampled_range
        at = self.assembled[self.body_of_joint]
        bounds = self.assembly.narrowed(np.minimum(lower, at), np.maximum(upper, at))
        lower, upper = np.clip(bounds, lower, upper)
        return lower, upper

    @cached_property
    def middle(self) -> Array:
        """The middle of the limits, or the assembly if the loops do not close to it, (n,)."""
        middle, assembled = self.limits_middle, self.assembled[self.body_of_joint]
        return middle if self.reaches(middle) else assembled

    @property
    def actuator_names(self) -> tuple[str, ...]:
        """Names of the n drives, in the order of efforts."""
        return tuple(self.actuators)

    @cached_property
    def drive(self) -> Array:
        """Matrix from the rates of all joints to those of the drives, shape (n, bodies)."""
        return frozen(np.array([*self.actuators.values()]))

    def actuator_matrix(self, A: Array) -> Array:
        """Return B, coordinate rates to drive rates, shape (n, n), from A of a tree state."""
        return self.drive @ A

    def drive_conditioning(self, A: Array) -> float:
        """Return how well the drives control the coordinates; 0 if a motion is not driven.

        The smallest singular value of B, each row divided by the drive's largest factor.
        """
        size = np.max(np.abs(self.drive), axis=1, keepdims=True)
        return float(np.linalg.svd(self.actuator_matrix(A) / size, compute_uv=False)[-1])

    @property
    def closed_loops(self) -> Assembly | None:
        """The assembly; None without loops."""
        return self.assembly if self.loops else None

    @property
    def dependence(self) -> Dependence:
        """The functions q(u), A(u) and gamma."""
        return self.closed_form or self.assembly

    @property
    def rate(self) -> Array:
        """Joint rates by those of the independent joints, at the assembly; shape (bodies, n)."""
        return self.dependence.rates(self.assembled, np.zeros(self.n))[0]

    def with_tree(self, tree: RobotTree) -> Mechanism:
        """Return the same mechanism with another tree: other masses, gravity or symbols.

        The tree must have the same joints; if its lengths differ, it must have the same branch.
        """
        names = {part.name for part in fields(BodyTree)} - {'joint_names'}
        return self.with_changes(**{name: getattr(tree, name) for name in names})

    def positions(self, q: Array, near: Array | None = None) -> Array:
        """Return the joint positions of all bodies, which close the loops.

        Args:
            q: Coordinates u, shape (n,), rad or m. Numbers of any type, or symbols; those of SymPy
                only if the mechanism has a closed form. Or several in rows, shape (..., n), each
                of which continues the branch of the last.
            near: Joint positions, shape (bodies,), that close the loops and from which the branch
                is continued, such as the previous ones of a motion; the declared assembly if None.

        Returns:
            New array, shape (..., bodies), rad or m.

        Raises:
            ShapeError: u does not have the shape (n,), or near the shape (bodies,).
            NonFiniteError, ParameterError: They are not finite numbers.
            MechanismError: The loops cannot be closed at u.
            SingularityError: The loops close only in a singular configuration.

        Cost: about 20 evaluations of the loop equations; none with a closed form.
        """
        if getattr(q, 'ndim', 1) < 2:
            near = None if near is None else array('near', near, (self.bodies,))
            return self.dependence.positions(scalars('u', q, (self.n,)), near)
        if self.has_constant_rates:
            return self.dependence.positions(q)
        rows: list[Array] = []
        for u in q.reshape(-1, self.n):
            near = self.positions(u, near)
            rows.append(near)
        return np.array(rows).reshape(*q.shape[:-1], self.bodies)

    def tree_state(self, q: Array, v: Array, a: Array, near: Array | None = None) -> TreeState:
        """Return the motion of the tree for a motion of the coordinates.

        Args:
            q: Coordinates u, shape (n,), rad or m.
            v: Coordinate rates, shape (n,), rad/s or m/s.
            a: Coordinate accelerations, shape (n,), rad/s^2 or m/s^2.
            near: As for ``positions``.

        Returns:
            New arrays, see :class:`TreeState`.

        Raises:
            ShapeError: An argument does not have the shape (n,).
            NonFiniteError: u is not finite.
            MechanismError: The loops cannot be closed at u.
            SingularityError: The loops are (nearly) singular at u.
        """
        return self.tree_state_at(self.positions(q, near), v, a)

    def tree_state_at(self, q: Array, ud: Array, udd: Array) -> TreeState:
        """Return the motion of the tree at joint positions that close the loops.

        Args:
            q: Joint positions, shape (bodies,), rad or m; numbers or symbols.
            ud: Coordinate rates, shape (n,), rad/s or m/s.
            udd: Coordinate accelerations, shape (n,), rad/s^2 or m/s^2.

        Returns:
            New arrays, see :class:`TreeState`.

        Raises:
            ShapeError: ud or udd does not have the shape (n,).
            NonFiniteError, ParameterError: They are not finite numbers.
            SingularityError: The loops are (nearly) singular at q.

        Source: kane-recursion, section 4.1.
        """
        ud, udd = scalars('ud', ud, (self.n,)), scalars('udd', udd, (self.n,))
        self.assembly.require_regular(q)
        A, gamma = self.dependence.rates(q, ud)
        return TreeState(q, A @ ud, A @ udd + gamma, A, gamma)
