# SPDX-License-Identifier: Apache-2.0
"""What it takes to hold a robot still against gravity."""

from __future__ import annotations

import math

import numpy as np

from robot_dynamics_ros.dynamics.registry import make_formulation
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array


def largest_gravity_forces(tree: RobotTree, samples: int = 500) -> Array:
    """Return the largest effort that gravity was found to need at each joint.

    Args:
        tree: The robot.
        samples: Number of random positions within the joint limits (one turn where endless); the
            same ones in every call.

    Returns:
        New array, shape (n,), N m or N: a lower bound of the true maximum, close to it for arms.

    Cost: ``samples`` inverse dynamics.
    """
    lower = np.maximum(tree.position_lower, -math.pi)
    upper = np.maximum(np.minimum(tree.position_upper, math.pi), lower)
    random = np.random.default_rng(0)
    model = make_formulation('newton_euler', tree)
    largest = np.zeros(tree.n)
    for _ in range(samples):
        q = random.uniform(lower, upper)
        largest = np.maximum(largest, np.abs(model.gravity_forces(q)))
    return largest
