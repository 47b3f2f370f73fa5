# SPDX-License-Identifier: Apache-2.0
r"""Any formulation of a spanning tree, reduced to the independent coordinates of a mechanism.

The joints q of the tree are functions of the N coordinates u, see ``model.mechanism``. By the
principle of virtual power, neither the forces that close loops nor those of gears appear:

.. math::
    A^T\tau_{tree}(q, A\dot u, A\ddot u+\gamma) = B^T\tau, \qquad M = A^TM_{tree}A, \qquad
    C = A^T(C_{tree}A + M_{tree}\dot A),

where :math:`\dot A = \tfrac12\,\partial\gamma/\partial\dot u`. The drives have the rates
:math:`\sigma = B\dot u`; with one drive on each coordinate, B is the identity. A constant A (mimic
joints) preserves the structure of every term.

The derivatives follow from those of the tree's formulation; with the forces
:math:`\rho = \tau_{tree} - D^T\tau` that the loops and gears transmit,

.. math::
    B^T\frac{\partial\tau}{\partial u} = A^T\Big(\frac{\partial\tau_{tree}}{\partial q}A
    + \frac{\partial\tau_{tree}}{\partial v}\frac{\partial v}{\partial u}
    + M_{tree}\frac{\partial a}{\partial u}\Big) + \frac{\partial A^T}{\partial u}\rho .

Forces in the loops and joints, which the dynamics do not require, follow from the efforts that a
motion requires at the joints of the tree. The drives supply :math:`D^T\tau`, the loops the rest,

.. math:: \Phi_\varphi^T\lambda = \tau_{tree,\varphi} - (D^T\tau)_\varphi ,

and the wrench on each link from its equilibrium, by the recursion of ``screw``. A mechanism with
linearly dependent loop equations (a planar loop of spatial pins) is statically indeterminate: some
components depend on the elasticity and play of the parts. They are NaN.

Source: Kane's equation with the rates A, Ma, Xu, Li 1988, sections 1 and 3; the same elimination
as in Featherstone 2008, *Rigid Body Dynamics Algorithms*, chapters 8 (loops) and 10 (gears).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.dynamics.formulation import (
    Formulation,
    InverseDynamicsDerivatives,
    Wrenches,
)
from robot_dynamics_ros.dynamics.screw import Screw
from robot_dynamics_ros.errors import MechanismError, ShapeError, SingularityError
from robot_dynamics_ros.model import Mechanism, RobotTree, TreeState
from robot_dynamics_ros.model.kinematics import FramePose, link_poses
from robot_dynamics_ros.model.loops import LoopEquations, rotation_gradient
from robot_dynamics_ros.spatial.linear_algebra import real_values, solve, solve_positive_definite
from robot_dynamics_ros.spatial.scalar import Array, common_dtype, cross, jacobian, zeros
from robot_dynamics_ros.spatial.validation import array

_DRIVE_SINGULAR_BELOW = 1e-6
_DEPENDENT_BELOW = 1e-9  # of scaled loop equations, of order 1 if independent


class LoopWrench(NamedTuple):
    """Wrench that the first link of a loop exerts on the second, at the second frame's origin.

    Attributes:
        wrench: ``[F; M]`` in axes of the first frame, about the origin of the second, shape (6,),
            N and N m. Zero for unconstrained components; NaN for components that rigid-body
            mechanics does not determine.
        determinate: Whether each component is determined, shape (6,).
    """

    wrench: Array
    determinate: Array


class Reduced(Formulation):
    r"""Dynamics of a mechanism in its N independent coordinates u.

    .. math:: M(u)\,\ddot u + c(u, \dot u) + g(u) = B^T\tau + \sum_i J_i^T F_i

    ``mass_matrix``, ``bias_forces``, ``gravity_forces`` and ``coriolis_matrix`` are the terms of
    this equation, generalized forces of the coordinates; ``inverse_dynamics`` and
    ``forward_dynamics`` use the efforts :math:`\tau` of the drives. The arguments q, v, a of the
    base class are u and its derivatives here, of shape (N,). Row i of ``wrenches`` is for body i
    of the tree, shape (n, 6).

    Loops that are solved by iteration start from the last solution, so that a motion keeps its
    branch beyond the reach of the declared assembly.

    Attributes:
        mechanism: The robot.
        open: The formulation of the tree, in which every joint is independent; it has the methods
            of its paper beyond the common interface.

    Args:
        make: The formulation to reduce.
        robot: The robot, with mimic joints, loops or both.

    Validity: loops of rigid bodies away from singular configurations; as many drives as degrees
    of freedom. SymPy's symbols require a closed form, or an explicit tree state.
    Cost: that of the tree and a few products with A, after the loops are solved.
    """

    def __init__(self, make: Callable[[RobotTree], Formulation], robot: Mechanism) -> None:
        self.open = make(robot.tree)
        self.name = self.open.name
        self.numbers_only = self.open.numbers_only
        self.robot = self.mechanism = robot
        self.n, self.tree = robot.n, robot.tree
        self._last: Array | None = None

    def tree_state(self, u: Array, ud: Array, udd: Array, near: Array | None = None) -> TreeState:
        """Return the motion of all joints for a motion of the coordinates.

        See :meth:`Mechanism.tree_state` for arguments and errors; without ``near``, it starts
        from the last solution, or from the assembly if that leads nowhere.
        """
        start = self._last if near is None else near
        try:
            state = self.mechanism.tree_state(u, ud, udd, start)
        except (MechanismError, SingularityError):
            if near is not None or start is None:
                raise
            state = self.mechanism.tree_state(u, ud, udd)
        if self.mechanism.closed_form is None:
            self._last = real_values(state.q)
        return state

    def inverse_dynamics(
        self, q: Array, v: Array, a: Array, wrenches: Wrenches | None = None
    ) -> Array:
        r"""Return the efforts of the drives, :math:`\tau = B^{-T}A^T\tau_{tree}`, shape (N,).

        Args:
            q: Coordinates u, shape (N,), rad or m.
            v: Coordinate rates, shape (N,), rad/s or m/s.
            a: Coordinate accelerations, shape (N,), rad/s^2 or m/s^2.
            wrenches: External wrenches, see the class; none if None.

        Returns:
            New array, N m or N, in the order of ``Mechanism.actuator_names``.

        Raises:
            ShapeError: An argument does not have the shape (N,).
            MechanismError: The loops cannot be closed at u.
            SingularityError: The loops or B are (nearly) singular at u.
            UnknownNameError: A wrench refers to an unknown frame.
        """
        q, v, a = self.vectors(q=q, v=v, a=a)
        state = self.tree_state(q, v, a)
        return self._efforts(state, self._forces_at(state, wrenches))

    def mass_matrix(self, q: Array) -> Array:
        """Return M(u), shape (N, N)."""
        return self._mass_matrix_at(self._state(q))

    def gravity_forces(self, q: Array) -> Array:
        """Return g(u), generalized forces, shape (N,)."""
        state = self._state(q)
        return state.A.T @ self.open.gravity_forces(state.q)

    def bias_forces(self, q: Array, v: Array, wrenches: Wrenches | None = None) -> Array:
        """Return c(u, ud) + g(u) - J^T F, generalized forces, shape (N,)."""
        return self._forces_at(self._state(q, v), wrenches)

    def coriolis_matrix(self, q: Array, v: Array) -> Array:
        """Return the Coriolis matrix C(u, ud), shape (N, N)."""
        q, v = self.vectors(q=q, v=v)
        state = self._state(q, v)
        C = self.open.coriolis_matrix(state.q, state.v) @ state.A
        if not self.mechanism.has_constant_rates:
            C = C + self.open.mass_matrix(state.q) @ self._by_rates(state, v) / 2
        return state.A.T @ C

    def forward_dynamics(
        self, q: Array, v: Array, tau: Array, wrenches: Wrenches | None = None
    ) -> Array:
        """Return the coordinate accelerations for given drive efforts, shape (N,)."""
        (tau,) = self.vectors(tau=tau)
        state = self._state(q, v)
        force = self.mechanism.actuator_matrix(state.A).T @ tau
        force = force - self._forces_at(state, wrenches)
        return solve_positive_definite(self._mass_matrix_at(state), force)

    def derivatives(
        self, q: Array, v: Array, a: Array, wrenches: Wrenches | None = None
    ) -> InverseDynamicsDerivatives:
        r"""Return the derivatives of the drive efforts; see the base class and the module.

        That with respect to accelerations is :math:`B^{-T}M`, symmetric in general only if B is
        the identity.
        """
        q, v, a = self.vectors(q=q, v=v, a=a)
        state = self.tree_state(q, v, a)
        A, at = state.A, (state.q, state.v, state.a)
        by_q, by_v, M = self.open.derivatives(*at, wrenches)
        if self.mechanism.has_constant_rates:
            by_u, by_ud = A.T @ by_q @ A, A.T @ by_v @ A
        else:
            motion = jacobian(lambda u: _rows(self.mechanism.tree_state(u, v, a, self._last)), q)
            by_u = A.T @ (by_q @ A + by_v @ motion[:, 0] + M @ motion[:, 1])
            forces = self.open.inverse_dynamics(*at, wrenches)
            efforts = self._efforts(state, A.T @ forces)
            transmitted = forces - self.mechanism.drive.T @ efforts
            by_u = by_u + np.tensordot(transmitted, motion[:, 2:], 1)
            by_ud = A.T @ (by_v @ A + M @ self._by_rates(state, v))
        results = (by_u, by_ud, A.T @ M @ A)
        return InverseDynamicsDerivatives(*(self._efforts(state, matrix) for matrix in results))

    def generalized_forces(self, q: Array, efforts: Array) -> Array:
        r"""Return :math:`B^T\tau`, shape of ``efforts``."""
        return self.mechanism.actuator_matrix(self._state(q).A).T @ efforts

    def project(self, u: Array, efforts: Array) -> Array:
        r"""Return the drive efforts equivalent in power to efforts at all joints of the tree.

        :math:`\tau = B^{-T}A^T\tau_{tree}` maps joint friction, armature (``joint_terms``) or a
        spring at any pin to the drives.

        Args:
            u: Coordinates, shape (N,), rad or m.
            efforts: Efforts at the joints of the tree, shape (n,) or (n, k), N m or N.

        Returns:
            New array, shape (N,) or (N, k), N m or N.
        """
        shape = (self.mechanism.tree.n, *np.shape(efforts)[1:])
        if np.shape(efforts) != shape:
            raise ShapeError('efforts', np.shape(efforts), shape)
        state = self._state(u)
        return self._efforts(state, state.A.T @ efforts)

    def loop_forces(
        self, u: Array, ud: Array, udd: Array, wrenches: Wrenches | None = None
    ) -> dict[str, LoopWrench]:
        """Return the constraint wrench in the joint that closes each loop, by loop name.

        See :class:`LoopWrench`; arguments and errors as for ``inverse_dynamics``.
        """
        return self._wrenches(u, ud, udd, wrenches)[0]

    def joint_forces(
        self, u: Array, ud: Array, udd: Array, wrenches: Wrenches | None = None
    ) -> Array:
        """Return the wrench that each joint of the tree exerts on its link, including the drive.

        Returns:
            New array, shape (n, 6): row i is ``[F; M]`` exerted at joint i by the parent on link
            i, in axes of link i, about its origin; N, N m. NaN for components that rigid-body
            mechanics does not determine, see :class:`LoopWrench`.
        """
        return self._wrenches(u, ud, udd, wrenches)[1]

    def _state(self, u: Array, ud: Array | None = None) -> TreeState:
        """Return the motion of the tree at zero coordinate acceleration, at rest without ud."""
        (u,) = self.vectors(q=u)
        ud = zeros(self.n, common_dtype(u)) if ud is None else self.vectors(v=ud)[0]
        return self.tree_state(u, ud, zeros(self.n, common_dtype(u, ud)))

    def _forces_at(self, state: TreeState, wrenches: Wrenches | None = None) -> Array:
        """Return the generalized forces that the motion of a tree state requires, shape (N,)."""
        at = (state.q, state.v, state.a)
        return state.A.T @ self.open.inverse_dynamics(*at, wrenches)

    def _mass_matrix_at(self, state: TreeState) -> Array:
        return state.A.T @ self.open.mass_matrix(state.q) @ state.A

    def _by_rates(self, state: TreeState, ud: Array) -> Array:
        r"""Return :math:`\partial\gamma/\partial\dot u`, shape (n, N), which is twice A's rate."""
        return jacobian(lambda x: self.mechanism.tree_state_at(state.q, x, 0 * ud).gamma, ud)

    def _efforts(self, state: TreeState, forces: Array) -> Array:
        """Return the drive efforts equivalent to generalized forces, shape of ``forces``."""
        if self.mechanism.drives_coordinates:
            return forces
        rates = real_values(state.A)
        if rates is not None:
            measure = self.mechanism.drive_conditioning(rates)
            if not measure >= _DRIVE_SINGULAR_BELOW:
                raise SingularityError(
                    f'actuator matrix B of {self.mechanism.name!r}',
                    measure,
                    _DRIVE_SINGULAR_BELOW,
                    'the drives do not control every motion here',
                )
        B = self.mechanism.actuator_matrix(state.A)
        return solve(B.T.astype(common_dtype(B, forces)), forces)

    def _wrenches(
        self, u: Array, ud: Array, udd: Array, wrenches: Wrenches | None
    ) -> tuple[dict[str, LoopWrench], Array]:
        """Return ``loop_forces`` and ``joint_forces`` of a motion in numbers."""
        given = zip('qva', (u, ud, udd), strict=True)
        state = self.tree_state(*(array(name, value, (self.n,)) for name, value in given))
        equations, tree = self.mechanism.equations, self.tree
        poses = link_poses(tree, state.q)
        motion, dynamics = (state.q, state.v, state.a), Screw(tree)
        external = dynamics.body_wrenches(wrenches)
        outside = np.zeros((tree.n, 6)) if external is None else external
        efforts = self._efforts(state, self._forces_at(state, wrenches))
        required = dynamics.inverse_dynamics(*motion, outside) - self.mechanism.drive.T @ efforts
        value, null_space = _multipliers(equations, state.q, equations.mimic.rate.T @ required)
        in_loops = _loop_wrenches(equations, poses, value)
        held = outside + _on_links(equations, poses, in_loops)
        transmitted = dynamics.joint_wrenches(*motion, held)
        resting, still = Screw(tree.with_gravity(np.zeros(3))), np.zeros(tree.n)
        for column in null_space.T:
            free = _loop_wrenches(equations, poses, column)
            in_loops[np.abs(free) >= _DEPENDENT_BELOW] = np.nan
            on_links = _on_links(equations, poses, free)
            effect = resting.joint_wrenches(state.q, still, still, on_links)
            transmitted[np.abs(effect) > _DEPENDENT_BELOW] = np.nan
        pairs = zip(equations.loops, in_loops, strict=True)
        return {loop.name: LoopWrench(x, ~np.isnan(x)) for loop, x in pairs}, transmitted


def _rows(state: TreeState) -> Array:
    """Return v, a and A in columns, shape (n, 2 + N)."""
    return np.column_stack([state.v, state.a, state.A])


def _multipliers(equations: LoopEquations, q: Array, required: Array) -> tuple[Array, Array]:
    """Return the multipliers that supply the efforts, zero for redundant equations.

    Also the combinations of multipliers that do not affect motion, in columns.
    """
    J, dependent = equations.motion(q, 0.0 * q).J, equations.dependent
    value = np.zeros(len(J))
    if equations.rows:
        square = equations.by_dependent(J)
        value[list(equations.rows)] = np.linalg.solve(square.T, required[dependent])
    U, sigma, _ = np.linalg.svd(equations.scaled(q)[1][:, dependent])
    rank = int(np.sum(sigma > _DEPENDENT_BELOW))
    return value, equations.scale[:, None] * U[:, rank:]


def _loop_wrenches(
    equations: LoopEquations, poses: Mapping[str, FramePose], multipliers: Array
) -> Array:
    """Return for each loop the ``[F; M]`` on its second link at its frame, axes of the first."""
    wrenches, first = np.zeros((len(equations.loops), 6)), 0
    for loop, wrench in zip(equations.loops, wrenches, strict=True):
        part, count = multipliers[first : first + len(loop.rows)], len(loop.position)
        first += len(loop.rows)
        wrench[list(loop.rows[:count])] = part[:count]
        if loop.rotation:
            R = poses[loop.first].R_WF.T @ poses[loop.second].R_WF
            wrench[3:] = rotation_gradient(loop, R).T @ part[count:]
    return wrenches


def _on_links(equations: LoopEquations, poses: Mapping[str, FramePose], wrenches: Array) -> Array:
    """Return the ``[F; M]`` of the loops on every link, about its origin, link axes, (n, 6)."""
    tree = equations.tree
    rows = np.zeros((tree.n, 6))
    for loop, wrench in zip(equations.loops, wrenches, strict=True):
        R_W1 = poses[loop.first].R_WF
        force, moment = R_W1 @ wrench[:3], R_W1 @ wrench[3:]
        for frame, sign in ((loop.first, -1.0), (loop.second, 1.0)):
            body = tree.frame(frame).body
            if body >= 0:
                R, p = poses[tree.link_names[body]]
                body_moment = moment + cross(poses[loop.second].p_WF - p, force)
                rows[body] += sign * np.concatenate([R.T @ force, R.T @ body_moment])
    return rows
