# SPDX-License-Identifier: Apache-2.0
r"""Kane's recursion for closed loops, without cutting them.

The rates of all joints follow from those of the independent coordinates,
:math:`\dot\theta_i=\sum_jA_{ij}\dot u_j`, :math:`\ddot\theta_i=\sum_jA_{ij}\ddot u_j+\gamma_i`.
The recursion of ``kane`` is evaluated with these rates and with the sources :math:`A_{ij}k` of the
partial velocities; pin forces do no work on such motions and do not appear. The sum (k) yields the
generalized forces of the coordinates; drives with the rates :math:`\sigma=B\dot u` generate them
by the efforts :math:`\tau = B^{-T}\sum_iM_i^{(\cdot)}`.

Source: Ma, Xu, Li 1988, sections 1 and 3; kane-recursion, section 4.1. Errata corrected: K5 (the
numeric partial velocities of the paper have the source :math:`\delta_{ij}k`, wrong for a loop), K8
(the placement of the drives, B) and K9 (a link reached by two paths counts once).

The forces in the joints, which the dynamics does not require, follow from the efforts
:math:`\tau_{tree}` that a motion requires at the joints of the spanning tree. The drives supply
:math:`D^T\tau`, the loops the remainder,

.. math:: \Phi_\varphi^T\lambda = \tau_{tree,\varphi} - (D^T\tau)_\varphi .

Given the loop forces, the wrench on each link follows from its equilibrium, by the recursion of
``screw`` from the tips to the base. A mechanism with linearly dependent loop equations (a planar
loop of spatial pins) is statically indeterminate: some components depend on the elasticity and
play of the parts. They are NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.dynamics.formulation import (
    Formulation,
    InverseDynamicsDerivatives,
    Wrenches,
)
from robot_dynamics_ros.dynamics.kane import Rates, link_contributions, mass_from_partials
from robot_dynamics_ros.dynamics.screw import Screw
from robot_dynamics_ros.errors import ShapeError, SingularityError
from robot_dynamics_ros.model import Mechanism, TreeState
from robot_dynamics_ros.model.kinematics import FramePose, link_poses
from robot_dynamics_ros.model.loops import LoopEquations, rotation_gradient
from robot_dynamics_ros.spatial.linear_algebra import real_values, solve, solve_positive_definite
from robot_dynamics_ros.spatial.scalar import (
    Array,
    common_dtype,
    cross,
    zeros,
)

_DRIVE_SINGULAR_BELOW = 1e-6
_DEPENDENT_BELOW = 1e-9  # of scaled loop equations, of order 1 if independent


class PinForce(NamedTuple):
    """Wrench that the first link of a loop exerts on the second, at the second frame's origin.

    Attributes:
        wrench: ``[F; M]`` in axes of the first frame, about the origin of the second, shape (6,),
            N and N m. Zero for unconstrained components; NaN for components that rigid-body
            mechanics does not determine.
        determinate: Whether each component is determined, shape (6,).
    """

    wrench: Array
    determinate: Array


class KaneMechanism(Formulation):
    r"""Dynamics of a closed-loop mechanism in its N independent coordinates u.

    .. math:: M(u)\,\ddot u + c(u, \dot u) + g(u) = B^T\tau + \sum_i J_i^T F_i

    ``mass_matrix``, ``bias_forces``, ``gravity_forces`` and ``coriolis_matrix`` are the terms of
    this equation, generalized forces of the coordinates; ``inverse_dynamics`` and
    ``forward_dynamics`` use the efforts :math:`\tau` of the drives. With one drive per coordinate,
    B is the identity and both are the same. The arguments q, v, a of the base class are u and its
    derivatives here, of shape (N,). Row i of ``wrenches`` is for body i of the tree, shape (n, 6).

    Validity: loops of rigid bodies away from singular configurations; as many drives as degrees
    of freedom. Symbols require a mechanism with a closed form, or an explicit tree state.
    Cost: one recursion over n links and N coordinates, after the loops are solved.
    """

    name = 'kane'

    def __init__(self, mechanism: Mechanism) -> None:
        super().__init__(mechanism.tree)
        self.mechanism, self.n = mechanism, mechanism.n

    def tree_state(self, u: Array, ud: Array, udd: Array) -> TreeState:
        """Return the motion of all joints for a motion of the coordinates.

        See :meth:`Mechanism.tree_state` for arguments and errors.
        """
        return self.mechanism.tree_state(u, ud, udd)

    def inverse_dynamics(
        self, q: Array, v: Array, a: Array, wrenches: Wrenches | None = None
    ) -> Array:
        r"""Return the efforts of the drives, :math:`\tau = B^{-T}\sum_iM_i`, shape (N,).

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

        Source: [Ma, Xu, Li], (k), with erratum K8.
        """
        self._check(q=q, v=v, a=a)
        state = self.tree_state(q, v, a)
        return self._efforts(state, self.contributions_at(state, wrenches).sum(axis=0))

    def contributions(
        self, u: Array, ud: Array, udd: Array, wrenches: Wrenches | None = None
    ) -> Array:
        """Return the contribution of each link to each generalized force, shape (n, N).

        The column sums are the generalized forces of the coordinates, not the drive efforts.
        Arguments and errors as for ``inverse_dynamics``.

        Source: [Ma, Xu, Li], (j).
        """
        return self.contributions_at(self.tree_state(u, ud, udd), wrenches)

    def contributions_at(self, state: TreeState, wrenches: Wrenches | None = None) -> Array:
        """Return ``contributions`` at a tree state consistent with the loops; symbols allowed."""
        external = self._body_wrenches(wrenches)
        arrays = (state.q, state.v, state.a, state.A)
        dtype = self._dtype(*arrays) if external is None else self._dtype(*arrays, external)
        out = zeros((self.tree.n, self.mechanism.n), dtype)
        rates = self._rates(state.A)
        return link_contributions(self.tree, state.q, state.v, state.a, external, rates, out)

    def mass_matrix(self, q: Array) -> Array:
        """Return M(u) computed from the partial velocities, shape (N, N)."""
        return self._mass_matrix_at(self._rest_state(q))

    def gravity_forces(self, q: Array) -> Array:
        """Return g(u), generalized forces, shape (N,)."""
        return self.contributions_at(self._rest_state(q)).sum(axis=0)

    def bias_forces(self, q: Array, v: Array, wrenches: Wrenches | None = None) -> Array:
        """Return c(u, ud) + g(u) - J^T F, generalized forces, shape (N,)."""
        self._check(q=q, v=v)
        return self.contributions(q, v, zeros(self.mechanism.n, common_dtype(q, v)), wrenches).sum(
            axis=0
        )

    def forward_dynamics(
        self, q: Array, v: Array, tau: Array, wrenches: Wrenches | None = None
    ) -> Array:
        """Return the coordinate accelerations for given drive efforts, shape (N,)."""
        self._check(q=q, v=v, tau=tau)
        state = self.tree_state(q, v, zeros(len(q), common_dtype(q, v)))
        bias = self.contributions_at(state, wrenches).sum(axis=0)
        force = self.mechanism.actuator_matrix(state.A).T @ tau
        return solve_positive_definite(self._mass_matrix_at(state), force - bias)

    def project(self, u: Array, efforts: Array) -> Array:
        r"""Return the drive efforts equivalent in power to efforts at all joints of the tree.

        :math:`\tau = B^{-T}A^T\tau_{tree}` maps joint friction, armature (``joint_terms``) or a
        spring at any pin to the drives.

        Args:
            u: Coordinates, shape (N,), rad or m.
            efforts: Efforts at the joints of the tree, shape (n,), N m or N.

        Returns:
            New array, shape (N,), N m or N.
        """
        if np.shape(efforts) != (self.tree.n,):
            raise ShapeError('efforts', np.shape(efforts), (self.tree.n,))
        state = self._rest_state(u)
        return self._efforts(state, state.A.T @ efforts)

    def loop_forces(
        self, u: Array, ud: Array, udd: Array, wrenches: Wrenches | None = None
    ) -> dict[str, PinForce]:
        """Return the force in the joint that closes each loop, by loop name.

        See :class:`PinForce`; arguments and errors as for ``inverse_dynamics``.
        """
        return self._pin_forces(u, ud, udd, wrenches)[0]

    def joint_forces(
        self, u: Array, ud: Array, udd: Array, wrenches: Wrenches | None = None
    ) -> Array:
        """Return the wrench that each joint of the tree exerts on its link, including the drive.

        Returns:
            New array, shape (n, 6): row i is ``[F; M]`` exerted at joint i by the parent on link
            i, in axes of link i, about its origin; N, N m. NaN for components that rigid-body
            mechanics does not determine, see :class:`PinForce`.
        """
        return self._pin_forces(u, ud, udd, wrenches)[1]

    def _pin_forces(
        self, u: Array, ud: Array, udd: Array, wrenches: Wrenches | None
    ) -> tuple[dict[str, PinForce], Array]:
        self._check(q=u, v=ud, a=udd)
        state = self.tree_state(u, ud, udd)
        tau = self._efforts(state, self.contributions_at(state, wrenches).sum(axis=0))
        external, driven = self._body_wrenches(wrenches), self.mechanism.drive.T @ tau
        outside = np.zeros((self.tree.n, 6)) if external is None else external
        return _pin_forces(self.mechanism.equations, state, driven, outside)

    def derivatives(
        self, q: Array, v: Array, a: Array, wrenches: Wrenches | None = None
    ) -> InverseDynamicsDerivatives:
        r"""Return the derivatives of the drive efforts; see the base class.

        That with respect to accelerations is :math:`B^{-T}M`, symmetric in general only if B is
        the identity.
        """
        found = super().derivatives(q, v, a, wrenches)
        return found._replace(M=self._efforts(self._rest_state(q), found.M))

    def generalized_forces(self, q: Array, efforts: Array) -> Array:
        r"""Return :math:`B^T\tau`, shape of ``efforts``."""
        return self.mechanism.actuator_matrix(self._rest_state(q).A).T @ efforts

    def _rest_state(self, u: Array) -> TreeState:
        self._check(q=u)
        zero = zeros(len(u), common_dtype(u))
        return self.tree_state(u, zero, zero)

    def _mass_matrix_at(self, state: TreeState) -> Array:
        out = zeros((self.mechanism.n, self.mechanism.n), self._dtype(state.q, state.A))
        return mass_from_partials(self.tree, state.q, self._rates(state.A), out)

    def _rates(self, A: Array) -> Rates:
        """Return the sources of the partial velocities; an independent joint has only its own."""
        column = {i: j for j, i in enumerate(self.mechanism.equations.coordinates)}
        columns = range(self.mechanism.n)
        return tuple(
            {column[i]: 1} if i in column else {j: A[i, j] for j in columns}
            for i in range(self.tree.n)
        )

    def _efforts(self, state: TreeState, forces: Array) -> Array:
        """Return the drive efforts equivalent to generalized forces, shape of ``forces``."""
        if self.mechanism.drives_coordinates:
            return forces
        rates = real_values(state.A)
        if rates is not None:
            measure = self.mechanism.drive_regularity(rates)
            if not measure >= _DRIVE_SINGULAR_BELOW:
                raise SingularityError(
                    f'actuator matrix B of {self.mechanism.name!r}',
                    measure,
                    _DRIVE_SINGULAR_BELOW,
                    'the drives do not control every motion here',
                )
        B = self.mechanism.actuator_matrix(state.A)
        return solve(B.T.astype(common_dtype(B, forces)), forces)


def _pin_forces(
    equations: LoopEquations, state: TreeState, driven: Array, outside: Array
) -> tuple[dict[str, PinForce], Array]:
    r"""Return the loop forces by loop name, and the wrench of each tree joint on its link.

    Args:
        equations: The loops and their tree, n joints; numbers only.
        state: Motion of the tree.
        driven: Efforts of the drives at the joints of the tree, :math:`D^T\tau`, shape (n,).
        outside: ``[F; M]`` on each body about its origin, body axes, shape (n, 6).

    Returns:
        The loop forces, and a new array of shape (n, 6): ``[F; M]`` exerted by the parent on link
        i about its origin, link axes; N, N m; NaN if not determined.
    """
    tree, poses = equations.tree, link_poses(equations.tree, state.q)
    motion, dynamics = (state.q, state.v, state.a), Screw(tree)
    required = dynamics.inverse_dynamics(*motion, outside) - driven
    value, null_space = _multipliers(equations, state.q, required)
    wrenches = _loop_wrenches(equations, poses, value)
    held = outside + _on_links(equations, poses, wrenches)
    transmitted = dynamics.joint_wrenches(*motion, held)
    resting, still = Screw(tree.with_gravity(np.zeros(3))), np.zeros(tree.n)
    undetermined = np.zeros((tree.n, 6), dtype=bool)
    determinate = np.ones((len(wrenches), 6), dtype=bool)
    for column in null_space.T:
        free = _loop_wrenches(equations, poses, column)
        determinate &= np.abs(free) < _DEPENDENT_BELOW
        effect = resting.joint_wrenches(state.q, still, still, _on_links(equations, poses, free))
        undetermined |= np.abs(effect) > _DEPENDENT_BELOW
    forces = {
        loop.name: PinForce(np.where(known, wrench, np.nan), known)
        for loop, wrench, known in zip(equations.loops, wrenches, determinate, strict=True)
    }
    return forces, np.where(undetermined, np.nan, transmitted)


def _multipliers(equations: LoopEquations, q: Array, required: Array) -> tuple[Array, Array]:
    """Return the multipliers that supply the efforts, zero for redundant equations.

    Also the combinations of multipliers that do not affect motion, in columns.
    """
    J, rows = equations.motion(q, 0.0 * q).J, list(equations.rows or ())
    dependent = list(equations.dependent)
    value = np.zeros(len(J))
    if rows:
        value[rows] = np.linalg.solve(J[rows][:, dependent].T, required[dependent])
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
