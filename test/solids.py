# SPDX-License-Identifier: Apache-2.0
"""Inertia of homogeneous solids in their axes of symmetry, the origin at the centre of mass."""

import numpy as np

from robot_dynamics_ros.spatial.inertia import RigidBodyInertia


def cuboid(mass: float, a: float, b: float, c: float) -> RigidBodyInertia:
    """Return a cuboid with edges a, b, c along x, y, z."""
    moments = mass / 12.0 * np.array([b * b + c * c, a * a + c * c, a * a + b * b])
    return RigidBodyInertia(mass, np.zeros(3), np.diag(moments))
