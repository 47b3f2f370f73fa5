# SPDX-License-Identifier: Apache-2.0
r"""Zaremba's screw recursion as a formulation; motions and loads of sections of links.

Source: A. T. Zaremba 1990; the quantities are those of :class:`ScrewGeometry`, in the order of the
paper.

A section is any frame fixed in a link. Its motion is that of the link at this frame; its load is
the wrench that the proximal side of a cut at this frame transmits to the distal side.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.dynamics.formulation import (
    Formulation,
    InverseDynamicsDerivatives,
    MultiplicationCount,
    Wrenches,
)
from robot_dynamics_ros.dynamics.screw_geometry import ScrewGeometry, Twists, body_wrench
from robot_dynamics_ros.errors import known_name
from robot_dynamics_ros.model import BodyFrame, RobotTree, frame_pose
from robot_dynamics_ros.spatial.inertia import RigidBodyInertia
from robot_dynamics_ros.spatial.scalar import Array, cross, zeros
from robot_dynamics_ros.spatial.screw import inverse_transform, spatial_inertia, wrench_transform
from robot_dynamics_ros.spatial.validation import name_list


class SectionMotion(NamedTuple):
    """Motion of a section, all in base axes, linear rows first.

    Attributes:
        R_WF: Rotation, shape (3, 3): maps section to base components.
        p_WF: Origin of the section in the base frame, shape (3,), m.
        velocity: ``[velocity of the origin; angular velocity]``, shape (6,), m/s and rad/s.
        acceleration: ``[classical acceleration of the origin; angular acceleration]``, shape
            (6,), m/s^2 and rad/s^2; gravity is not included.
    """

    R_WF: Array
    p_WF: Array
    velocity: Array
    acceleration: Array


class SectionLoad(NamedTuple):
    """Wrench that the proximal side of a section transmits to the distal side.

    Both are ``[F; M]`` of shape (6,), N and N m, in section axes about the section's origin. The
    components along the section normal are axial force and torque, those normal to it are shear
    forces and bending moments.

    Attributes:
        dynamic: The total load during the motion.
        static: The load at rest in the same position.
    """

    dynamic: Array
    static: Array

    @property
    def inertial(self) -> Array:
        """Inertial part of the load: dynamic minus static, shape (6,)."""
        return self.dynamic - self.static


class Screw(Formulation):
    """Mass matrix from composite inertias, velocity terms from Christoffel symbols, wrenches.

    The efforts of a motion are computed in two independent ways, which must agree. The paper's
    (2.15), ``A a + b``, is ``mass_matrix`` and ``bias_forces``, with b from the coefficients
    :math:`d_{sj}^i`, O(n^3). ``inverse_dynamics`` uses the inward recursion of wrenches, O(n),
    which does not need the coefficients and also yields the loads of joints and sections.

    Cost: 339 n - 150 multiplications for a chain, see :class:`MultiplicationCount`, with dense 6x6
    transforms.
    """

    name = 'screw'
    multiplications = MultiplicationCount((-150, 339))

    def __init__(self, tree: RobotTree) -> None:
        super().__init__(tree)
        self._model = ScrewGeometry(tree)

    def geometry(self, q: Array) -> ScrewGeometry:
        """Return the paper's quantities at joint positions q, shape (n,)."""
        (q,) = self.vectors(q=q)
        return self._model.at(q)

    def mass_matrix(self, q: Array) -> Array:
        """Return A(q), shape (n, n)."""
        return self.geometry(q).A

    def coriolis_matrix(self, q: Array, v: Array) -> Array:
        r"""Return :math:`C_{ij} = \sum_s d_{sj}^i v_s`, shape (n, n)."""
        (v,) = self.vectors(v=v)
        return self.geometry(q).d @ v

    def gravity_forces(self, q: Array) -> Array:
        """Return g(q), shape (n,)."""
        return self.geometry(q).gravity_forces

    def bias_forces(self, q: Array, v: Array, wrenches: Wrenches | None = None) -> Array:
        r"""Return b(q, v), shape (n,), with :math:`b_i = \sum d_{sj}^iv_sv_j - f_{gi} - f_{ei}`.

        Source: (2.15); the force is f_e also in (2.5) (Z13).
        """
        (v,) = self.vectors(v=v)
        x, external = self.geometry(q), self.body_wrenches(wrenches)
        b = x.d @ v @ v + x.gravity_forces
        return b if external is None else b - x.external_forces(external)

    def inverse_dynamics(
        self, q: Array, v: Array, a: Array, wrenches: Wrenches | None = None
    ) -> Array:
        r"""Return the joint efforts of a motion, :math:`Q_i = f^{iT}W_i`; see base class."""
        x, W = self._wrenches(q, v, a, wrenches)
        return np.array([x.f[i] @ W[i] for i in range(x.n)])

    def mass_matrix_derivatives(self, q: Array) -> Array:
        r"""Return :math:`\partial a_{ij}/\partial q_s` at [i, j, s], shape (n, n, n)."""
        return self.geometry(q).dA

    def christoffel_symbols(self, q: Array) -> Array:
        r"""Return :math:`d_{sj}^i` at [i, s, j], shape (n, n, n), symmetric in s and j."""
        return self.geometry(q).d

    def derivatives(
        self, q: Array, v: Array, a: Array, wrenches: Wrenches | None = None
    ) -> InverseDynamicsDerivatives:
        r"""Return the derivatives of the efforts in closed form; see the base class.

        .. math::
            \Big(\frac{\partial b}{\partial v}\Big)_{ij} &= 2\sum_s d_{sj}^i v_s\\
            \Big(\frac{\partial b}{\partial q}\Big)_{ij} &=
            \sum_{s,t}\big(a_{it}^{(s,j)} - \tfrac12 a_{st}^{(i,j)}\big)v_s v_t
            - f_{gi}^{(j)} - f_{ei}^{(j)}\\
            \Big(\frac{\partial A}{\partial q}a\Big)_{ij} &= \sum_s a_{is}^{(j)}a_s

        Source: (4.2), errata Z19 to Z21.

        Cost: O(n^4) multiplications, for the second derivatives of A.
        """
        q, v, a = self.vectors(q=q, v=v, a=a)
        x, external = self.geometry(q), self.body_wrenches(wrenches)
        first = np.tensordot(v, x.ddA @ v, axes=(0, 1))
        second = np.tensordot(v, np.tensordot(v, x.ddA, axes=(0, 0)), axes=(0, 0))
        db_dq = first - second / 2 + x.gravity_derivatives
        if external is not None:
            db_dq = db_dq - x.external_derivatives(external)
        dtau_dq = db_dq + np.tensordot(a, x.dA, axes=(0, 1))
        return InverseDynamicsDerivatives(dtau_dq, 2 * (x.d @ v), x.A)

    def joint_wrenches(
        self, q: Array, v: Array, a: Array, wrenches: Wrenches | None = None
    ) -> Array:
        """Return the wrench that each joint transmits to its body, shape (n, 6), N and N m.

        Row i is ``[F; M]`` in axes of body i about its origin. The component along the joint axis
        is the drive effort; the others load the bearing. Arguments and errors: as for
        ``inverse_dynamics``.

        Source: zaremba-screw-recursion, section 11.
        """
        return self._wrenches(q, v, a, wrenches)[1]

    def section_motion(
        self, q: Array, v: Array, a: Array, frame: str | BodyFrame = 'tool'
    ) -> SectionMotion:
        r"""Return position, velocity and acceleration of an arbitrary section of any link.

        With :math:`V_\sigma = L_\sigma^{kT}V_k` and :math:`V_\sigma^* = L_\sigma^{kT}V_k^*`, both
        in section axes, the classical acceleration in base axes is
        :math:`C(v^* + \omega\times v)`.

        Args:
            q: Joint positions, shape (n,), rad or m.
            v: Joint velocities, shape (n,), rad/s or m/s.
            a: Joint accelerations, shape (n,), rad/s^2 or m/s^2.
            frame: The section: name of a link, or any frame fixed in a body.

        Returns:
            New arrays in base axes, see :class:`SectionMotion`.

        Raises:
            ShapeError: An argument does not have the shape (n,).
            UnknownNameError: The robot has no such frame or body.

        Source: zaremba-screw-recursion, section 10.
        """
        q, v, a = self.vectors(q=q, v=v, a=a)
        x, section = self.geometry(q), self.tree.frame(frame)
        V, dV, _ = _body_motion(x, x.twists(v, a, self._dtype(q, v, a)), section.body)
        L = wrench_transform(section.R_BF, section.p_BF)
        V, dV = L.T @ V, L.T @ dV
        classical = dV[:3] + cross(V[3:], V[:3])
        pose = frame_pose(self.tree, q, section)
        C = pose.R_WF
        return SectionMotion(
            *pose,
            np.concatenate([C @ V[:3], C @ V[3:]]),
            np.concatenate([C @ classical, C @ dV[3:]]),
        )

    def section_load(
        self,
        q: Array,
        v: Array,
        a: Array,
        frame: str | BodyFrame = 'tool',
        distal: RigidBodyInertia | None = None,
        wrenches: Wrenches | None = None,
        carried: Collection[str] | None = None,
    ) -> SectionLoad:
        """Return the dynamic and static load of an arbitrary section of any link.

        The link is cut at the section. The load is the wrench that the proximal side transmits to
        the distal side, which consists of the distal part of the link and all bodies it carries.

        Args:
            q: Joint positions, shape (n,), rad or m.
            v: Joint velocities, shape (n,), rad/s or m/s.
            a: Joint accelerations, shape (n,), rad/s^2 or m/s^2.
            frame: The section: name of a link, or any frame fixed in a body. For a frame of the
                base, the load is that on the foundation.
            distal: Mass, centre of mass and tensor of the distal part of the cut link, in the body
                frame; None if the whole link is distal, then the load is the joint wrench
                expressed at the section. (The base has no inertia: None is massless.)
            wrenches: External wrenches, see the base class; none if None. A wrench on the cut link
                is assumed to act on the distal part; omit wrenches on the proximal part, which
                load only more proximal sections.
            carried: Names of the joints on the cut link that are distal; all if None.

        Returns:
            New arrays in section axes about the section's origin, see :class:`SectionLoad`.

        Raises:
            ShapeError: An argument does not have the shape (n,).
            UnknownNameError: The robot has no such frame or body, or the cut link no such joint.

        Source: zaremba-screw-recursion, section 11: the recursion of :meth:`joint_wrenches`,
        stopped at the cut.
        """
        q, v, a = self.vectors(q=q, v=v, a=a)
        x, section = self.geometry(q), self.tree.frame(frame)
        external, zero = self.body_wrenches(wrenches), zeros(self.tree.n, x.dtype)
        dynamic, static = (
            _section_wrench(x, motion, section, distal, carried, external)
            for motion in (x.twists(v, a, self._dtype(q, v, a)), x.twists(zero, zero, x.dtype))
        )
        return SectionLoad(dynamic, static)

    def _wrenches(
        self, q: Array, v: Array, a: Array, wrenches: Wrenches | None
    ) -> tuple[ScrewGeometry, Array]:
        q, v, a = self.vectors(q=q, v=v, a=a)
        x, external = self.geometry(q), self.body_wrenches(wrenches)
        return x, x.wrenches(x.twists(v, a, self._dtype(q, v, a)), external)


def _section_wrench(
    x: ScrewGeometry,
    motion: Twists,
    section: BodyFrame,
    distal: RigidBodyInertia | None,
    carried: Collection[str] | None,
    external: Array | None,
) -> Array:
    r"""Return the wrench in a section, in section axes about its origin, shape (6,).

    .. math::
        W_\sigma = L_k^\sigma\Big(\Theta V_k^* + \langle V_k\rangle\Theta V_k - \Theta l_k^0
        - F_{ek}^k + \sum_c L_c^k W_c\Big)

    with the inertia :math:`\Theta` of the distal part of link k, and the sum over the distal
    joints c.
    """
    k = section.body
    V, dV, l0 = _body_motion(x, motion, k)
    if distal is not None:
        Theta = spatial_inertia(distal.mass, distal.com, distal.inertia)
    else:
        Theta = x.inertia[k] if k >= 0 else zeros((6, 6), x.dtype)
    W = body_wrench(Theta, V, dV, l0)
    if external is not None and k >= 0:
        W = W - external[k]
    W_joint = x.wrenches(motion, external)
    for c in _distal_joints(x, k, carried):
        W = W + x.L[c] @ W_joint[c]
    return inverse_transform(wrench_transform(section.R_BF, section.p_BF)) @ W


def _body_motion(x: ScrewGeometry, motion: Twists, k: int) -> tuple[Array, Array, Array]:
    """Return twist, its derivative and free-fall acceleration of a body; -1 is the base."""
    if k >= 0:
        return motion.V[k], motion.dV[k], x.l0[k]
    zero = zeros(6, x.dtype)
    return zero, zero, x.l0_base


def _distal_joints(x: ScrewGeometry, k: int, carried: Collection[str] | None) -> list[int]:
    """Return the joints on body k that are distal to the cut."""
    tree = x.tree
    on_body = [c for c in range(x.n) if tree.parent[c] == k]
    if carried is None:
        return on_body
    names = [tree.joint_names[c] for c in on_body]
    for name in name_list('carried', carried):
        known_name('joint on the cut link', name, names)
    return [c for c in on_body if tree.joint_names[c] in carried]
