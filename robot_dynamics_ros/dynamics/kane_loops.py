# SPDX-License-Identifier: Apache-2.0
r"""Kane's recursion for closed loops, without cutting them.

The rates of all joints follow from those of the independent coordinates,
:math:`\dot\theta_i=\sum_jA_{ij}\dot u_j`, :math:`\ddot\theta_i=\sum_jA_{ij}\ddot u_j+\gamma_i`.
The recursion of ``kane`` is evaluated with these rates and with the sources :math:`A_{ij}k` of the
partial velocities; loop constraint wrenches do no work on such motions and do not appear. The sum
(k) yields the generalized forces of the coordinates; drives with the rates :math:`\sigma=B\dot u`
generate them by the efforts :math:`\tau = B^{-T}\sum_iM_i^{(\cdot)}`.

Source: Ma, Xu, Li 1988, sections 1 and 3; kane-recursion, section 4.1. Errata corrected: K5 (the
numeric partial velocities of the paper have the source :math:`\delta_{ij}k`, wrong for a loop), K8
(the placement of the drives, B) and K9 (a link reached by two paths counts once).
"""

from __future__ import annotations

from robot_dynamics_ros.dynamics.formulation import Wrenches
from robot_dynamics_ros.dynamics.kane import Kane, Rates, link_contributions, mass_from_partials
from robot_dynamics_ros.dynamics.reduced import Reduced
from robot_dynamics_ros.model import Mechanism, TreeState
from robot_dynamics_ros.spatial.scalar import Array, zeros


class KaneMechanism(Reduced):
    """Kane's recursion for a mechanism in its N independent coordinates.

    Cost: one recursion over n links and N coordinates, after the loops are solved.
    """

    def __init__(self, robot: Mechanism) -> None:
        super().__init__(Kane, robot)

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
        tree, external = self.mechanism.tree, self.open.body_wrenches(wrenches)
        arrays = (state.q, state.v, state.a, state.A)
        dtype = self._dtype(*arrays) if external is None else self._dtype(*arrays, external)
        out = zeros((tree.n, self.n), dtype)
        rates = self._rates(state.A)
        return link_contributions(tree, state.q, state.v, state.a, external, rates, out)

    def gravity_forces(self, q: Array) -> Array:
        """Return g(u), generalized forces, shape (N,)."""
        return self._forces_at(self._state(q))

    def _forces_at(self, state: TreeState, wrenches: Wrenches | None = None) -> Array:
        """Return the generalized forces of a tree state, shape (N,); [Ma, Xu, Li], (k)."""
        return self.contributions_at(state, wrenches).sum(axis=0)

    def _mass_matrix_at(self, state: TreeState) -> Array:
        """Return M(u) computed from the partial velocities, shape (N, N)."""
        out = zeros((self.n, self.n), self._dtype(state.q, state.A))
        return mass_from_partials(self.mechanism.tree, state.q, self._rates(state.A), out)

    def _rates(self, A: Array) -> Rates:
        """Return the sources of the partial velocities; an independent joint has only its own."""
        column = {i: j for j, i in enumerate(self.mechanism.equations.coordinates)}
        columns = range(self.n)
        return tuple(
            {column[i]: 1} if i in column else {j: A[i, j] for j in columns} for i in range(len(A))
        )
