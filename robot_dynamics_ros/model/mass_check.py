# SPDX-License-Identifier: Apache-2.0
r"""Whether the mass matrix of a tree is positive definite, and which joint's fault it is if not.

Eliminating the joints from the tips to the base, :math:`M = L^TDL`, leaves for every joint the
pivot :math:`D_i = s_i^TI^A_is_i`: the inertia that it feels while all joints beyond it are free.
M is positive definite exactly if all pivots are positive.

Source: the articulated-body inertias of Featherstone 2008, *Rigid Body Dynamics Algorithms*,
section 7.3, for several configurations at once.
"""

from __future__ import annotations

import math

import numpy as np

from robot_dynamics_ros.errors import ModelError
from robot_dynamics_ros.model.kinematics import body_poses, frame_jacobian
from robot_dynamics_ros.model.robot_tree import BodyFrame, RobotTree
from robot_dynamics_ros.spatial.scalar import Array, cross_matrix

_SAMPLES = 8  # configurations
#: Pivots are compared with the inertia that the joint feels with the joints beyond it locked:
#: rounding leaves 1e-16 of it, real arms have more than 1e-6.
_SMALLEST = 1e-10
_LEAST_INERTIA = 1e-19  # kg m^2 or kg; below it there is nothing
_MOST_LINKS = 6  # named in a message


def sampled_positions(tree: RobotTree) -> Array:
    """Return joint positions within the limits (one turn if endless), (k, n); the same ones."""
    lower = np.maximum(tree.position_lower, -math.pi)
    upper = np.maximum(np.minimum(tree.position_upper, math.pi), lower)
    return np.random.default_rng(0).uniform(lower, upper, size=(_SAMPLES, tree.n))


def mass_matrix_fault(tree: RobotTree, q: Array) -> ModelError | None:
    """Return why the mass matrix is not positive definite at some of k positions, or None.

    Args:
        tree: The robot.
        q: Joint positions, shape (k, n), rad or m.

    Cost: some 0.1 ms for each body.
    """
    pivots, felt = _pivots(tree, np.array([tree.joint_positions(sample) for sample in q]))
    found = np.flatnonzero((pivots <= _SMALLEST * felt + _LEAST_INERTIA).any(axis=0))
    if not len(found):
        return None
    if tree.coupling is not None:  # what a follower lacks its leader may have
        return _coupled_fault(tree, q)
    i = int(found[-1])  # the outermost one: the others may lack only what it lacks
    return _fault(tree, tree.joint_names[i], {i}, float(np.min(pivots[:, i])))


def _fault(tree: RobotTree, joint: str, bodies: set[int], inertia: float) -> ModelError:
    moved = set(bodies)
    for k in range(tree.bodies):
        moved |= {k} if tree.parent[k] in moved else set()
    links = [name for name, frame in tree.frames.items() if frame.body in moved]
    listed = ', '.join(links[:_MOST_LINKS]) + (', …' if len(links) > _MOST_LINKS else '')
    return ModelError(
        f'joint {joint!r}',
        f'mass matrix is not positive definite: the joint feels an inertia of {inertia:.3g} '
        f'{"kg" if tree.prismatic[min(bodies)] else "kg m^2"}; it moves {listed}',
        'give these links mass and inertia, or lock the joint',
    )


def _pivots(tree: RobotTree, q: Array) -> tuple[Array, Array]:
    """Return the pivots and the inertias felt with all other joints locked, each (k, bodies)."""
    articulated = np.array([[_spatial_inertia(tree, i)] * len(q) for i in range(tree.bodies)])
    composite = articulated.copy()
    pivots, felt = np.empty((2, len(q), tree.bodies))
    for i in reversed(range(tree.bodies)):
        s, parent = np.zeros(6), tree.parent[i]
        s[slice(0, 3) if tree.prismatic[i] else slice(3, 6)] = tree.axis[i]
        U = articulated[i] @ s
        pivots[:, i], felt[:, i] = U @ s, composite[i] @ s @ s
        if parent >= 0:
            D = np.where(pivots[:, i] == 0.0, np.inf, pivots[:, i])
            rest = articulated[i] - U[:, :, None] * U[:, None, :] / D[:, None, None]
            X = np.array([_to_child(*tree.placement(i, position)) for position in q[:, i]])
            X_T = X.transpose(0, 2, 1)
            articulated[parent] += X_T @ rest @ X
            composite[parent] += X_T @ composite[i] @ X
    return pivots, felt


def _to_child(R_PB: Array, p_PB: Array) -> Array:
    """Return the map from a twist of the parent to that of the child at rest in it, (6, 6)."""
    X = np.zeros((6, 6))
    X[:3, :3] = X[3:, 3:] = R_PB.T
    X[:3, 3:] = -R_PB.T @ cross_matrix(p_PB)
    return X


def _spatial_inertia(tree: RobotTree, i: int) -> Array:
    """Return the inertia of a body about its origin, body axes, linear part first, (6, 6)."""
    m, C = tree.mass[i], cross_matrix(tree.com[i])
    return np.block([[m * np.eye(3), -m * C], [m * C, tree.inertia[i] - m * C @ C]])


def _coupled_fault(tree: RobotTree, q: Array) -> ModelError | None:
    """Return the same for the mass matrix in the independent joints."""
    assert tree.coupling is not None
    for sample in q:
        M = _mass_matrix(tree, sample)
        size = np.sqrt(np.maximum(np.diag(M), _LEAST_INERTIA))
        values, vectors = np.linalg.eigh(M / np.outer(size, size))
        if not values[0] > _SMALLEST:
            j = int(np.argmax(np.abs(vectors[:, 0])))
            moved = set(np.flatnonzero(tree.coupling.rate[:, j]).tolist())
            return _fault(tree, tree.joint_names[j], moved, values[0] * size[j] ** 2)
    return None


def _mass_matrix(tree: RobotTree, q: Array) -> Array:
    """Return the mass matrix in the independent joints, shape (n, n), from the Jacobians."""
    M = np.zeros((tree.n, tree.n))
    for i, (R, _) in enumerate(body_poses(tree, q)):
        J = frame_jacobian(tree, q, BodyFrame(i, np.eye(3), tree.com[i]))
        M += tree.mass[i] * J[:3].T @ J[:3]
        M += J[3:].T @ R @ tree.inertia[i] @ R.T @ J[3:]
    return M
