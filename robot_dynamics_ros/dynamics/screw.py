# SPDX-License-Identifier: Apache-2.0
r"""Zaremba's screw recursion: equations of motion from axes, transforms and cross products.

Source: A. T. Zaremba 1990, sections 1, 2 and 4. The equations are composed of two families of
vectors, the axes :math:`l_k^i` of the inboard joints and :math:`g_k^i` of the outboard joints
expressed in each body, and of composite inertias :math:`\Theta_i^{s*}`; three theorems give their
derivatives of any order. Errata Z1 to Z22 of the paper are corrected, and cited where they apply.
Extended from a chain with six types of axes to a tree with arbitrary axes (``screw_terms``).

A section is any frame fixed in a link. Its motion is that of the link at this frame; its load is
the wrench that the proximal side of a cut at this frame transmits to the distal side.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar, NamedTuple

import numpy as np

from robot_dynamics_ros.dynamics import screw_terms
from robot_dynamics_ros.dynamics.formulation import (
    Formulation,
    InverseDynamicsDerivatives,
    MultiplicationCount,
    Wrenches,
)
from robot_dynamics_ros.dynamics.screw_terms import (
    ScrewGeometry,
    ScrewModel,
    inverse_dynamics_derivatives,
)
from robot_dynamics_ros.errors import UnknownNameError, known_name
from robot_dynamics_ros.model import BodyFrame, RobotTree, frame_pose
from robot_dynamics_ros.spatial.inertia import RigidBodyInertia
from robot_dynamics_ros.spatial.scalar import Array, cross, zeros
from robot_dynamics_ros.spatial.screw import (
    bracket,
    inverse_transform,
    mises_matrix,
    wrench_transform,
)


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


class Twists(NamedTuple):
    r"""Twist of every body and its derivative, in body axes, pole at the body origin.

    Attributes:
        V: :math:`V_k^{0k}` = ``[v; w]``, shape (n, 6).
        dV: :math:`V_k^{0k*}`, its componentwise derivative, shape (n, 6), without gravity.
    """

    V: Array
    dV: Array


def twists(x: ScrewGeometry, v: Array, a: Array, dtype: object) -> Twists:
    r"""Return the twists of all bodies and their componentwise derivatives.

    .. math::
        V_k = L_k^{k-1\,T}V_{k-1} + f^k v_k, \qquad
        V_k^* = L_k^{k-1\,T}V_{k-1}^* + f^k a_k + \langle f^k v_k\rangle^T V_k

    Source: Zaremba 1990, (1.8) and (1.9) as recursions; errata Z1, Z4: the derivative contains
    :math:`l_k^k a_k`, and each :math:`l_k^i a_i` once.
    """
    V, dV = zeros((x.n, 6), dtype), zeros((x.n, 6), dtype)
    for k, p in enumerate(x.tree.parent):
        f = x.f[k]
        V[k], dV[k] = f * v[k], f * a[k]
        if p >= 0:
            V[k] = x.L[k].T @ V[p] + V[k]
            dV[k] = x.L[k].T @ dV[p] + dV[k] + bracket(f * v[k]).T @ V[k]
    return Twists(V, dV)


def joint_wrenches(x: ScrewGeometry, motion: Twists, external: Array | None) -> Array:
    r"""Return the wrenches :math:`W_i` that joint i transmits to body i, body axes, (n, 6).

    .. math::
        W_i = \Theta_i^iV_i^* + \langle V_i\rangle\Theta_i^iV_i - F_{gi}^i - F_{ei}^i
        + \sum_c L_c^iW_c, \qquad F_{gi}^i = \Theta_i^i l_i^0

    The sum is over the children c of i. :math:`f^{iT}W_i` is the drive effort; the other
    components load the bearing.
    """
    W = [body_wrench(x.inertia[i], motion.V[i], motion.dV[i], x.l0[i]) for i in range(x.n)]
    for i, p in reversed(list(enumerate(x.tree.parent))):
        if external is not None:
            W[i] = W[i] - external[i]
        if p >= 0:
            W[p] = W[p] + x.L[i] @ W[i]
    return np.array(W)


def body_wrench(Theta: Array, V: Array, dV: Array, l0: Array) -> Array:
    r"""Return the wrench required to move a body under gravity, shape (6,).

    :math:`\Theta(V^* - l^0) + \langle V\rangle\Theta V`

    Args:
        Theta: Spatial inertia (Mises matrix), shape (6, 6).
        V: Twist of the body, shape (6,).
        dV: Componentwise derivative of the twist, shape (6,).
        l0: Free-fall acceleration in body axes, shape (6,).
    """
    return Theta @ (dV - l0) + bracket(V) @ (Theta @ V)


class Screw(Formulation):
    """Mass matrix from composite inertias, velocity terms from Christoffel symbols, wrenches.

    The efforts of a motion are computed in two independent ways, which must agree. The paper's
    (2.15), ``A a + b``, is ``mass_matrix`` and ``bias_forces``, with b from the coefficients
    :math:`d_{sj}^i`, O(n^3). ``inverse_dynamics`` uses the inward recursion of wrenches, O(n),
    which does not need the coefficients and also yields the loads of joints and sections.

    Cost: 339 n - 150 multiplications for a chain, see :class:`MultiplicationCount`, with dense 6x6
    transforms.
    """

    name: ClassVar[str] = 'screw'
    multiplications: ClassVar[MultiplicationCount] = MultiplicationCount((-150, 339))

    def __init__(self, tree: RobotTree) -> None:
        super().__init__(tree)
        self.model = ScrewModel(tree)

    def geometry(self, q: Array) -> ScrewGeometry:
        """Return the paper's vectors, transforms and inertias at joint positions q, shape (n,).

        It is the argument of theorems 1 to 3 (``screw_derivatives``).
        """
        self._check(q=q)
        return ScrewGeometry(self.model, q)

    # ---- the equation of motion A a + b = Q ----------------------------------------------------

    def mass_matrix(self, q: Array) -> Array:
        """Return A(q) from composite inertias, (2.9) and (2.10), shape (n, n)."""
        return screw_terms.mass_matrix(self.geometry(q))

    def coriolis_matrix(self, q: Array, v: Array) -> Array:
        r"""Return :math:`C_{ij} = \sum_s d_{sj}^i v_s`, shape (n, n), from the symbols (2.14)."""
        self._check(v=v)
        return screw_terms.christoffel_symbols(self.geometry(q)) @ v

    def gravity_forces(self, q: Array) -> Array:
        r"""Return g(q), shape (n,): :math:`-f_{gi} = -f^{iT}\Theta_i^{i*}l_i^0`."""
        return screw_terms.gravity_forces(self.geometry(q))

    def bias_forces(self, q: Array, v: Array, wrenches: Wrenches | None = None) -> Array:
        r"""Return b(q, v), shape (n,), with :math:`b_i = \sum d_{sj}^iv_sv_j - f_{gi} - f_{ei}`.

        Source: Zaremba 1990, (2.15); the force is f_e also in (2.5) (Z13).
        """
        self._check(v=v)
        x, external = self.geometry(q), self._body_wrenches(wrenches)
        h = screw_terms.christoffel_symbols(x) @ v @ v
        b = h + screw_terms.gravity_forces(x)
        return b if external is None else b - screw_terms.external_forces(x, external)

    def inverse_dynamics(
        self, q: Array, v: Array, a: Array, wrenches: Wrenches | None = None
    ) -> Array:
        r"""Return the joint efforts of a motion, :math:`Q_i = f^{iT}W_i`; see base class."""
        W = self.joint_wrenches(q, v, a, wrenches)
        return np.array([self.model.f[i] @ W[i] for i in range(self.tree.n)])

    # ---- derivatives ---------------------------------------------------------------------------

    def mass_matrix_derivatives(self, q: Array) -> Array:
        r"""Return :math:`\partial a_{ij}/\partial q_s` at [i, j, s], shape (n, n, n)."""
        return screw_terms.mass_matrix_derivatives(self.geometry(q))

    def christoffel_symbols(self, q: Array) -> Array:
        r"""Return :math:`d_{sj}^i` at [i, s, j], shape (n, n, n), symmetric in s and j."""
        return screw_terms.christoffel_symbols(self.geometry(q))

    def derivatives(
        self, q: Array, v: Array, a: Array, wrenches: Wrenches | None = None
    ) -> InverseDynamicsDerivatives:
        """Return the derivatives of the efforts from the corrected (4.2); see the base class.

        Cost: O(n^4). In closed form, for numbers or symbols.
        """
        self._check(q=q, v=v, a=a)
        external = self._body_wrenches(wrenches)
        return inverse_dynamics_derivatives(self.geometry(q), v, a, external)

    # ---- sections and joints -------------------------------------------------------------------

    def joint_wrenches(
        self, q: Array, v: Array, a: Array, wrenches: Wrenches | None = None
    ) -> Array:
        """Return the wrench that each joint transmits to its body, shape (n, 6), N and N m.

        Row i is ``[F; M]`` in axes of body i about its origin. The component along the joint axis
        is the drive effort; the others load the bearing.

        Args:
            q: Joint positions, shape (n,), rad or m.
            v: Joint velocities, shape (n,), rad/s or m/s.
            a: Joint accelerations, shape (n,), rad/s^2 or m/s^2.
            wrenches: External wrenches, see the base class; none if None.

        Returns:
            New array.

        Raises:
            ShapeError: An argument does not have the shape (n,).
            UnknownNameError: A wrench refers to an unknown frame.
        """
        self._check(q=q, v=v, a=a)
        x, external = self.geometry(q), self._body_wrenches(wrenches)
        return joint_wrenches(x, self._twists(x, v, a), external)

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
        """
        self._check(q=q, v=v, a=a)
        x, section = self.geometry(q), self._section(frame)
        V, dV, _ = _body_motion(x, self._twists(x, v, a), section.body)
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

        Source: the recursion of :meth:`joint_wrenches`, stopped at the cut.
        """
        self._check(q=q, v=v, a=a)
        x, section = self.geometry(q), self._section(frame)
        external, zero = self._body_wrenches(wrenches), zeros(self.tree.n, x.dtype)
        dynamic, static = (
            _section_wrench(x, motion, section, distal, carried, external)
            for motion in (self._twists(x, v, a), self._twists(x, zero, zero))
        )
        return SectionLoad(dynamic, static)

    def _twists(self, x: ScrewGeometry, v: Array, a: Array) -> Twists:
        return twists(x, v, a, self._dtype(x.q, v, a))

    def _section(self, frame: str | BodyFrame) -> BodyFrame:
        section = self.tree.frame(frame) if isinstance(frame, str) else frame
        if not -1 <= section.body < self.tree.n:
            known = map(str, range(-1, self.tree.n))
            raise UnknownNameError('body of a section', section.body, known)
        return section


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
        Theta = mises_matrix(distal.mass, distal.com, distal.inertia)
    else:
        Theta = x.inertia[k] if k >= 0 else zeros((6, 6), x.dtype)
    W = body_wrench(Theta, V, dV, l0)
    if external is not None and k >= 0:
        W = W - external[k]
    W_joint = joint_wrenches(x, motion, external)
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
    for name in carried:
        known_name('joint on the cut link', name, names)
    return [c for c in on_body if tree.joint_names[c] in carried]
