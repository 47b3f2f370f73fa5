# SPDX-License-Identifier: Apache-2.0
"""Random moving chains for comparing the printed with the corrected formulas."""

from __future__ import annotations

import numpy as np
from joint_transforms import JointTransforms
from samples import random_state, random_tree

from robot_dynamics_ros.dynamics.registry import make_formulation

# Products of up to a dozen 6x6 matrices with entries of order one to ten.
ROUNDING = 1e-11
GRAVITY = (2.3, -4.1, -8.6)


class Chain:
    """A random chain in a random motion: the recursion, its geometry and the product rule."""

    def __init__(self, rng, n) -> None:
        self.sample = random_tree(rng, n)
        self.tree, self.n = self.sample.tree.with_gravity(GRAVITY), n
        self.q, self.v, self.a = random_state(self.tree, rng)
        self.screw = make_formulation('screw', self.tree)
        self.x = self.screw.geometry(self.q)
        self.truth = JointTransforms(self.tree, self.q)

    def velocity_derivative(self, k, vector, indices):
        """Return the rate of the sum of vector_k^i v_i, by the product rule."""
        n = self.n
        return sum(
            (
                vector(k, i, []) * self.a[i]
                + sum(vector(k, i, [s]) * self.v[s] * self.v[i] for s in range(n))
                for i in indices
            ),
            np.zeros(6),
        )


def random_chains():
    """Return 25 chains of 2 to 6 revolute and prismatic joints; the same ones at every call."""
    rng = np.random.default_rng(1990)
    return [Chain(rng, n) for n in (2, 3, 4, 5, 6) for _ in range(5)]


def largest(differences):
    return max(float(np.max(np.abs(d))) for d in differences)


def fails_as_stated(printed, evidence):
    """Assert that the error of the printed form is about as stated."""
    assert largest(printed) > evidence / 5


def holds(corrected):
    """Assert that the error of the corrected form is only rounding."""
    assert largest(corrected) < ROUNDING
