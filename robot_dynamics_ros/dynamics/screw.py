# SPDX-License-Identifier: Apache-2.0
r"""Zaremba's screw recursion: equations of motion from axes, transforms and cross products.

Source: A. T. Zaremba 1990, sections 1, 2 and 4. The equations are composed of two families of
vectors, the axes :math:`l_k^i` of the inboard joints and :math:`g_k^i` of the outboard joints
expressed in each body, and of composite inertias :math:`\Theta_i^{s*}`; three theorems give their
derivatives of any order. Errata Z1 to Z22 of the paper are corrected, and cited where they apply.
Extended from a chain with six types of axes to a tree with arbitrary axes (``screw_terms``).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

import numpy as np

from robot_dynamics_ros.dynamics import screw_sections, screw_terms
from robot_dynamics_ros.dynamics.formulation import (
    Formulation,
    InverseDynamicsDerivatives,
    Wrenches,
)
from robot_dynamics_ros.dynamics.screw_sections import SectionLoad, SectionMotion, Twists
from robot_dynamics_ros.dynamics.screw_terms import (
    ScrewGeometry,
    ScrewModel,
    inverse_dynamics_derivatives,
)
from robot_dynamics_ros.errors import UnknownNameError
from robot_dynamics_ros.model import BodyFrame, RobotTree
from robot_dynamics_ros.spatial.inertia import RigidBodyInertia
from robot_dynamics_ros.spatial.scalar import Array, zeros


class Screw(Formulation):
    """Mass matrix from composite inertias, velocity terms from Christoffel symbols, wrenches.

    The efforts of a motion are computed in two independent ways, which must agree. The paper's
    (2.15), ``A a + b``, is ``mass_matrix`` and ``bias_forces``, with b from the coefficients
    :math:`d_{sj}^i`, O(n^3). ``inverse_dynamics`` uses the inward recursion of wrenches, O(n),
    which does not need the coefficients and also yields the loads of joints and sections.
    """

    name: ClassVar[str] = 'screw'

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
        return -screw_terms.gravity_forces(self.geometry(q))

    def bias_forces(self, q: Array, v: Array, wrenches: Wrenches | None = None) -> Array:
        r"""Return b(q, v), shape (n,), with :math:`b_i = \sum d_{sj}^iv_sv_j - f_{gi} - f_{ei}`.

        Source: Zaremba 1990, (2.15); the force is f_e also in (2.5) (Z13).
        """
        self._check(v=v)
        x, external = self.geometry(q), self._body_wrenches(wrenches)
        h = screw_terms.christoffel_symbols(x) @ v @ v
        b = h - screw_terms.gravity_forces(x)
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
        return screw_sections.joint_wrenches(x, self._twists(x, v, a), external)

    def section_motion(
        self, q: Array, v: Array, a: Array, frame: str | BodyFrame = 'tool'
    ) -> SectionMotion:
        """Return position, velocity and acceleration of an arbitrary section of any link.

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
        x = self.geometry(q)
        return screw_sections.section_motion(x, self._twists(x, v, a), self._section(frame))

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
            screw_sections.section_wrench(x, motion, section, distal, carried, external)
            for motion in (self._twists(x, v, a), self._twists(x, zero, zero))
        )
        return SectionLoad(dynamic, static)

    def _twists(self, x: ScrewGeometry, v: Array, a: Array) -> Twists:
        return screw_sections.twists(x, v, a, self._dtype(x.q, v, a))

    def _section(self, frame: str | BodyFrame) -> BodyFrame:
        section = self.tree.frame(frame) if isinstance(frame, str) else frame
        if not -1 <= section.body < self.tree.n:
            known = map(str, range(-1, self.tree.n))
            raise UnknownNameError('body of a section', section.body, known)
        return section
