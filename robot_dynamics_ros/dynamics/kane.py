# SPDX-License-Identifier: Apache-2.0
r"""Kane's equations as one forward recursion over the links, without a backward pass.

The generalized speeds are the joint rates. For every link i, in link axes, the recursion computes
the motion :math:`\omega_i,\dot\omega_i,\dot v_i` and, for every speed j that moves the link, the
partial velocities :math:`\omega_{i,j}=\partial\omega_i/\partial\dot\theta_j` and
:math:`v_{i,j}=\partial v_i/\partial\dot\theta_j`. The contribution of link i to the effort of
joint j is a sum of dot products in the axes of link i (j); the effort is the sum over the links
(k). Joint reactions do not appear.

Source: Ma, Xu, Li, "A recursive algorithm of robot dynamics based on Kane's dynamical equation",
Journal of Beijing University of Iron and Steel Technology 10(2), 1988; equations (a) to (k) and
(6). Notation of the paper: ``l`` from joint to joint, ``d`` from joint to centre of mass, ``k``
the joint axis. Errata corrected: K5 (the source of the partial velocities is :math:`A_{ij}k`,
which is :math:`\delta_{ij}k` for an open chain only), K6 (the base has the acceleration
:math:`-g`), K10 (in (f) the rotation precedes the cross product) and K11 (``l`` and ``d`` are
vectors). Extended from revolute chains along z to trees, prismatic joints and any unit axis.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from robot_dynamics_ros.dynamics.formulation import Formulation, MultiplicationCount, Wrenches
from robot_dynamics_ros.dynamics.reduced import Reduced
from robot_dynamics_ros.model import Mechanism, RobotTree, TreeState
from robot_dynamics_ros.spatial.scalar import Array, cross, zeros


class Partials(NamedTuple):
    """Partial velocities of a link by index of the speed, shape (3,) each, link axes.

    Attributes:
        w: Partial angular velocities; rad/s (or 1/m) per unit of speed.
        v: Partial velocities of the origin of the link frame.
    """

    w: dict[int, Array]
    v: dict[int, Array]


class Kane(Formulation):
    """Kane's recursion for open trees; see :class:`KaneMechanism` for closed loops.

    Cost: 18 n^2 + 102 n multiplications for a chain, see :class:`MultiplicationCount`: 105 a joint
    for its motion, force and moment and 3 for the source of its own speed; for every pair of a
    link and a speed that moves it, 12 for its share, and 24 to carry the speed of an earlier joint
    along. They are more than Newton-Euler's for every n: it avoids the backward pass, the inverse
    rotations and the cutting of loops, but does not save arithmetic (erratum K7).
    """

    name = 'kane'
    multiplications = MultiplicationCount((0, 102, 18))

    def inverse_dynamics(
        self, q: Array, v: Array, a: Array, wrenches: Wrenches | None = None
    ) -> Array:
        r"""Return the joint efforts of a motion, :math:`\tau_j = \sum_i M_i^{(j)}`.

        Source: [Ma, Xu, Li], (k), and (6) with external loads. Arguments: see the base class.
        """
        return self.contributions(q, v, a, wrenches).sum(axis=0)

    def contributions(
        self,
        q: Array,
        v: Array,
        a: Array,
        wrenches: Wrenches | None = None,
        A: Array | None = None,
    ) -> Array:
        r"""Return the contribution of each link to the effort along each generalized speed.

        :math:`M_i^{(j)} = (m_i\dot v_{ci}-F_i)\cdot v_{ci,j} + (N_i-M_i)\cdot\omega_{i,j}`

        Args:
            q: Joint positions, shape (n,), rad or m.
            v: Joint velocities, shape (n,), rad/s or m/s; with A, consistent with the loops.
            a: Joint accelerations, shape (n,), rad/s^2 or m/s^2; likewise.
            wrenches: External wrenches, see the base class; none if None.
            A: Rates of the joints by those of the N speeds, shape (n, N); the identity if None.

        Returns:
            New array, shape (n, N), rows for links, columns for speeds, N m or N. Zero if the
            speed does not move the link.

        Raises:
            ShapeError: An argument does not have the shape (n,).
            UnknownNameError: A wrench refers to an unknown frame.

        Source: [Ma, Xu, Li], (a) to (j).
        """
        tree, A = self.tree, self.tree.rate if A is None else A
        q, v, a = self.vectors(q=q, v=v, a=a)
        external = self.body_wrenches(wrenches)
        out = zeros(A.shape, self._dtype(q, v, a, A, external))
        base = zeros(3, out.dtype), zeros(3, out.dtype), -tree.gravity  # erratum K6
        motions: list[tuple[Array, Array, Array]] = []
        for i, R, l, (w_i, v_i) in _moved_links(tree, q, A):
            k, p = tree.axis[i], tree.parent[i]
            w_p, dw_p, dv_p = motions[p] if p >= 0 else base
            w, dw = R @ w_p, R @ dw_p
            dv = R @ (dv_p + cross(dw_p, l) + cross(w_p, cross(w_p, l)))  # (g)
            if tree.prismatic[i]:  # extension: along the axis, not about it
                dv = dv + 2 * cross(w, v[i] * k) + a[i] * k
            else:
                dw = dw + cross(w, v[i] * k) + a[i] * k  # (f), erratum K10
                w = w + v[i] * k  # (a)
            motions.append((w, dw, dv))
            d, I = tree.com[i], tree.inertia[i]
            dv_c = dv + cross(dw, d) + cross(w, cross(w, d))  # (h)
            N = I @ dw + cross(w, I @ w)  # (i)
            force, moment = tree.mass[i] * dv_c, N
            if external is not None:
                F = external[i, :3]
                force = force - F
                moment = moment - (external[i, 3:] - cross(d, F))  # about the centre of mass
            for j, w_ij in w_i.items():
                v_cij = v_i[j] + cross(w_ij, d)  # (d), of the partial velocities
                out[i, j] = force @ v_cij + moment @ w_ij  # (j)
        return out

    def mass_matrix(self, q: Array, A: Array | None = None) -> Array:
        r"""Return the mass matrix from the partial velocities, shape (N, N), kg m^2, kg m or kg.

        :math:`M_{jk}=\sum_i[m_i\,v_{ci,j}\cdot v_{ci,k}+\omega_{i,j}\cdot I_i\omega_{i,k}]`

        Args:
            q: Joint positions, shape (n,), rad or m.
            A: Rates of the joints by those of the N speeds, shape (n, N); the identity if None.

        Source: the inertia part of [Ma, Xu, Li] (j) (extension).
        """
        tree, A = self.tree, self.tree.rate if A is None else A
        (q,) = self.vectors(q=q)
        out = zeros((A.shape[1],) * 2, self._dtype(q, A))
        for i, _, _, (w_i, v_i) in _moved_links(tree, q, A):
            d, I = tree.com[i], tree.inertia[i]
            v_ci = {j: v_i[j] + cross(w_ij, d) for j, w_ij in w_i.items()}
            for k in w_i:
                momentum, spin = tree.mass[i] * v_ci[k], I @ w_i[k]
                for j in w_i:
                    if j <= k:
                        out[j, k] = out[j, k] + v_ci[j] @ momentum + w_i[j] @ spin
        for k in range(len(out)):
            out[k, :k] = out[:k, k]
        return out


def _moved_links(
    tree: RobotTree, q: Array, A: Array
) -> Iterator[tuple[int, Array, Array, Partials]]:
    r"""Yield every link, its rotation from parent to link components, origin, partial velocities.

    :math:`\omega_{i,j}=R_i\omega_{i-1,j}+A_{ij}k`,
    :math:`v_{i,j}=R_i(\omega_{i-1,j}\times l_{i-1}+v_{i-1,j})` for a revolute joint; for a
    prismatic joint the source :math:`A_{ij}k` is added to :math:`v_{i,j}` instead.

    Source: [Ma, Xu, Li], section 1, with erratum K5.
    """
    partials: list[Partials] = []  # instead of (b) to (e)
    for i, p in enumerate(tree.parent):
        R_PB, l = tree.placement(i, q[i])
        R, parent = R_PB.T, partials[p] if p >= 0 else Partials({}, {})
        w = {j: R @ w_j for j, w_j in parent.w.items()}
        v = {j: R @ (cross(w_j, l) + parent.v[j]) for j, w_j in parent.w.items()}
        driven, other = (v, w) if tree.prismatic[i] else (w, v)
        for j, A_ij in enumerate(A[i]):
            if A_ij == 0:  # the speed does not move the joint
                continue
            source = A_ij * tree.axis[i]
            driven[j] = driven[j] + source if j in driven else source
            other.setdefault(j, zeros(3, tree.axis.dtype))
        partials.append(Partials(w, v))
        yield i, R, l, partials[i]


class KaneMechanism(Reduced):
    r"""Kane's recursion for closed loops, without cutting them, in N independent coordinates.

    The recursion is evaluated with the rates :math:`\dot\theta=A\dot u` and accelerations
    :math:`\ddot\theta=A\ddot u+\gamma` of all joints, and with the sources :math:`A_{ij}k` of the
    partial velocities; loop constraint wrenches do no work on such motions and do not appear. The
    sum (k) yields the generalized forces of the coordinates; drives with the rates
    :math:`\sigma=B\dot u` generate them by the efforts :math:`\tau = B^{-T}\sum_iM_i^{(\cdot)}`.

    Source: Ma, Xu, Li 1988, sections 1 and 3; kane-recursion, section 4.1. Errata corrected: K5
    (the numeric partial velocities of the paper have the source :math:`\delta_{ij}k`, wrong for a
    loop), K8 (the placement of the drives, B) and K9 (a link reached by two paths counts once).

    Cost: one recursion over n links and N coordinates, after the loops are solved.
    """

    open: Kane

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
        return self.open.contributions(state.q, state.v, state.a, wrenches, state.A)

    def _forces_at(self, state: TreeState, wrenches: Wrenches | None = None) -> Array:
        """Return the generalized forces of a tree state, shape (N,); [Ma, Xu, Li], (k)."""
        return self.contributions_at(state, wrenches).sum(axis=0)

    def _mass_matrix_at(self, state: TreeState) -> Array:
        """Return M(u) computed from the partial velocities, shape (N, N)."""
        return self.open.mass_matrix(state.q, state.A)
