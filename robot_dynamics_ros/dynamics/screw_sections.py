# SPDX-License-Identifier: Apache-2.0
r"""Motion and load of an arbitrary section of any link, and the wrenches in the joints.

A section is any frame fixed in a link. Its motion is that of the link at this frame; its load is
the wrench that the proximal side of a cut at this frame transmits to the distal side.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.dynamics.screw_terms import ScrewGeometry
from robot_dynamics_ros.errors import known_name
from robot_dynamics_ros.model import BodyFrame, frame_pose
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
    model = x.model
    V, dV = zeros((model.tree.n, 6), dtype), zeros((model.tree.n, 6), dtype)
    for k, p in enumerate(model.tree.parent):
        f = model.f[k]
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
    model = x.model
    W = [
        body_wrench(model.inertia[i], motion.V[i], motion.dV[i], x.l0[i])
        for i in range(model.tree.n)
    ]
    for i in reversed(range(model.tree.n)):
        if external is not None:
            W[i] = W[i] - external[i]
        p = model.tree.parent[i]
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


def section_motion(x: ScrewGeometry, motion: Twists, section: BodyFrame) -> SectionMotion:
    r"""Return the motion of a section.

    With :math:`V_\sigma = L_\sigma^{kT}V_k` and :math:`V_\sigma^* = L_\sigma^{kT}V_k^*`, both in
    section axes, the classical acceleration in base axes is :math:`C(v^* + \omega\times v)`.
    """
    pose = frame_pose(x.model.tree, x.q, section)
    V, dV, _ = _body_motion(x, motion, section.body)
    L = wrench_transform(section.R_BF, section.p_BF)
    V, dV = L.T @ V, L.T @ dV
    classical = dV[:3] + cross(V[3:], V[:3])
    C = pose.R_WF
    return SectionMotion(
        *pose,
        np.concatenate([C @ V[:3], C @ V[3:]]),
        np.concatenate([C @ classical, C @ dV[3:]]),
    )


def section_wrench(
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
    model, k = x.model, section.body
    V, dV, l0 = _body_motion(x, motion, k)
    if distal is not None:
        Theta = mises_matrix(distal.mass, distal.com, distal.inertia)
    else:
        Theta = model.inertia[k] if k >= 0 else zeros((6, 6), x.dtype)
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
    tree = x.model.tree
    on_body = [c for c in range(tree.n) if tree.parent[c] == k]
    if carried is None:
        return on_body
    names = [tree.joint_names[c] for c in on_body]
    for name in carried:
        known_name('joint on the cut link', name, names)
    return [c for c in on_body if tree.joint_names[c] in carried]
