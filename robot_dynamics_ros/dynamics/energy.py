# SPDX-License-Identifier: Apache-2.0
"""Energy, momentum and power of a tree, computed from body motions; numbers or symbols."""

from __future__ import annotations

from typing import NamedTuple

from robot_dynamics_ros.dynamics.formulation import Wrenches, body_wrenches
from robot_dynamics_ros.model import BodyFrame, Robot
from robot_dynamics_ros.model.kinematics import body_poses, frame_motion
from robot_dynamics_ros.model.robot_tree import require_robot
from robot_dynamics_ros.spatial.inertia import rotate_inertia
from robot_dynamics_ros.spatial.scalar import (
    Array,
    Scalar,
    common_dtype,
    cross,
    identity,
    zeros,
)
from robot_dynamics_ros.spatial.validation import scalars


class BodyMotion(NamedTuple):
    """Mass, inertia and motion of one body, in base axes.

    Attributes:
        mass: kg.
        inertia: Tensor about the centre of mass, shape (3, 3), kg m^2.
        p_C: Position of the centre of mass, shape (3,), m.
        v_C: Velocity of the centre of mass, shape (3,), m/s.
        w: Angular velocity, shape (3,), rad/s.
    """

    mass: Scalar
    inertia: Array
    p_C: Array
    v_C: Array
    w: Array


def body_motions(tree: Robot, q: Array, v: Array) -> list[BodyMotion]:
    """Return the motion of every body, in tree order.

    Args:
        tree: The robot.
        q: Joint positions, shape (n,), rad or m.
        v: Joint velocities, shape (n,), rad/s or m/s.
    """
    require_robot(tree)
    v, motions = scalars('v', v, (tree.n,)), []
    for i in range(tree.bodies):
        R, p_C, J, _ = frame_motion(tree, q, v, BodyFrame(i, identity(3, int), tree.com[i]))
        rates, inertia = J @ v, rotate_inertia(R, tree.inertia[i])
        motions.append(BodyMotion(tree.mass[i], inertia, p_C, rates[:3], rates[3:]))
    return motions


def kinetic_energy(tree: Robot, q: Array, v: Array) -> Scalar:
    r"""Return :math:`K = \sum_i \tfrac12 m_i v_C^Tv_C + \tfrac12\omega^T R I R^T\omega`, J.

    The velocity of a centre of mass is a vector sum; summing magnitudes, as printed in one of the
    sources, is correct for stretched arms only (erratum S1).

    Source: newton-euler-lagrange, section 4.1.
    """
    doubled = sum(
        body.mass * (body.v_C @ body.v_C) + body.w @ body.inertia @ body.w
        for body in body_motions(tree, q, v)
    )
    return doubled / 2


def potential_energy(tree: Robot, q: Array) -> Scalar:
    r"""Return :math:`U = -\sum_i m_i g^T p_{C_i}`, J; zero if all mass is at the base origin.

    Source: newton-euler-lagrange, section 4.1.
    """
    poses = body_poses(tree, q)
    return -sum(
        tree.mass[i] * (tree.gravity @ (p + R @ tree.com[i])) for i, (R, p) in enumerate(poses)
    )


def total_energy(tree: Robot, q: Array, v: Array) -> Scalar:
    """Return the sum of kinetic and potential energy, J; constant in free motion."""
    return kinetic_energy(tree, q, v) + potential_energy(tree, q)


def centre_of_mass(tree: Robot, q: Array) -> Array:
    """Return the centre of mass of all moving bodies in the base frame, shape (3,), m."""
    poses = body_poses(tree, q)
    moments = [tree.mass[i] * (p + R @ tree.com[i]) for i, (R, p) in enumerate(poses)]
    return sum(moments[1:], moments[0]) / tree.mass.sum()


def momentum(tree: Robot, q: Array, v: Array) -> Array:
    """Return linear momentum (kg m/s) and angular momentum about the base origin (kg m^2/s).

    Returns:
        New array, shape (6,), base axes, linear part first.
    """
    bodies = body_motions(tree, q, v)
    total = zeros(6, common_dtype(q, v, tree.R_PJ, tree.p_PJ, tree.mass, tree.com, tree.inertia))
    for body in bodies:
        linear = body.mass * body.v_C
        total[:3] = total[:3] + linear
        total[3:] = total[3:] + body.inertia @ body.w + cross(body.p_C, linear)
    return total


def power(tree: Robot, q: Array, v: Array, tau: Array, wrenches: Wrenches | None = None) -> Scalar:
    r"""Return the power supplied by the drives and the environment, W.

    .. math:: \frac{d}{dt}(K + U) = \sigma^T\tau + \sum_i V_i^T F_i

    The rates :math:`\sigma` of the drives are v, unless drives move several joints.

    Args:
        tree: The robot.
        q: Joint positions, shape (n,), rad or m.
        v: Joint velocities, shape (n,), rad/s or m/s.
        tau: Efforts of the drives without friction and armature, shape (n,), N m or N.
        wrenches: As in :class:`~robot_dynamics_ros.dynamics.formulation.Formulation`.

    Source: newton-euler-lagrange, section 4.3; kane-recursion, section 4.1 (rates of drives).
    """
    require_robot(tree)
    q, v, tau = (scalars(x, value, (tree.n,)) for x, value in (('q', q), ('v', v), ('tau', tau)))
    total = (v if tree.drives_coordinates else tree.drive @ tree.tree_state(q, v, 0 * v).v) @ tau
    if wrenches is None:
        return total
    rows = body_wrenches(tree, wrenches)
    E, origin = identity(3, rows.dtype), zeros(3, rows.dtype)
    for i, wrench in enumerate(rows):
        motion = frame_motion(tree, q, v, BodyFrame(i, E, origin))
        velocity = (motion.J @ v).reshape(2, 3) @ motion.R_WF
        total = total + wrench @ velocity.ravel()
    return total
