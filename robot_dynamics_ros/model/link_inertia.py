# SPDX-License-Identifier: Apache-2.0
"""The <inertial> of a link as mass, centre of mass and tensor, and what no real link has."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from robot_dynamics_ros.description.robot_description import Inertial
from robot_dynamics_ros.errors import ModelError
from robot_dynamics_ros.spatial.inertia import RigidBodyInertia, inconsistency
from robot_dynamics_ros.spatial.rotation import rotation_from_rpy
from robot_dynamics_ros.spatial.scalar import Array


def written_tensor(inertial: Inertial) -> Array:
    """Return the tensor in the axes of its origin, shape (3, 3), kg m^2."""
    i = inertial
    return np.array([[i.ixx, i.ixy, i.ixz], [i.ixy, i.iyy, i.iyz], [i.ixz, i.iyz, i.izz]])


def link_inertia(inertial: Inertial) -> RigidBodyInertia:
    """Return the inertia of a link in its own frame, as written."""
    R = rotation_from_rpy(*inertial.origin.rpy)
    tensor = R @ written_tensor(inertial) @ R.T
    return RigidBodyInertia(inertial.mass, np.array(inertial.origin.xyz), tensor)


def inertia_faults(name: str, inertial: Inertial) -> Iterator[ModelError]:
    """Yield what keeps an <inertial> from being that of a real body.

    Args:
        name: The link.
        inertial: As written; NaN is no fault here, the reader has told it.
    """
    if inertial.mass <= 0.0:
        yield ModelError(
            f'link {name!r}', f'mass {inertial.mass:g} kg', 'the mass must be positive'
        )
    tensor = written_tensor(inertial)
    problem = inconsistency(tensor) if np.isfinite(tensor).all() else ''
    if problem:
        yield ModelError(
            f'link {name!r}',
            f'inertia {problem}',
            'a real body has positive principal moments, each at most the sum of the others',
        )
