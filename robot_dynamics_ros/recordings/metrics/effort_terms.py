# SPDX-License-Identifier: Apache-2.0
r"""Efforts of a motion by the model, by origin, for many states at once.

.. math:: \tau = \underbrace{M a}_{inertia} + \underbrace{c(q, v)}_{Coriolis} + g(q)
          + J_a a + b\,v_f + \tau_c \tanh(v_f / v_s)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.dynamics.joint_terms import JointTerms
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.recordings.steps import Steps
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import compile_kernel

#: The origins of an effort, in the order of the reports.
ORIGINS = ('inertia', 'coriolis', 'gravity', 'armature', 'friction')


@dataclass(frozen=True, eq=False)
class Explained:
    """What the model says of instants.

    Attributes:
        parts: Efforts by origin, each of shape (M, n), N m or N.
        model: Their sum.
        residual: Recorded effort less the model's; NaN where none was recorded.
        energy: Kinetic (with armature) and potential energy, shape (M, 2), J.
    """

    parts: dict[str, Array]
    model: Array
    residual: Array
    energy: Array


class EffortModel:
    """Explains recorded efforts by a formulation of the dynamics.

    Args:
        tree: The robot.
        formulation: Name of the formulation.

    Raises:
        UnknownNameError: There is no such formulation.
    """

    def __init__(self, tree: RobotTree, formulation: str = 'newton_euler') -> None:
        self.tree, self.formulation = tree, formulation
        self._terms = JointTerms.of(tree)
        outputs = ('inverse_dynamics', 'bias_forces', 'gravity_forces', 'energies')
        self._kernels = compile_kernel(tree, formulation, outputs)
        self._pull = [
            compile_kernel(tree.with_gravity(unit), formulation, ('gravity_forces',))
            for unit in np.eye(3)
        ]

    def explain(self, steps: Steps) -> Explained:
        """Return the efforts of instants by origin, and what they leave unexplained."""
        rigid = self._kernels.batch('inverse_dynamics', steps.q, steps.v, steps.a)
        bias = self._kernels.batch('bias_forces', steps.q, steps.v)
        gravity = self._kernels.batch('gravity_forces', steps.q)
        parts = {
            'inertia': rigid - bias,
            'coriolis': bias - gravity,
            'gravity': gravity,
            'armature': self._terms.armature * steps.a,
            'friction': self._terms.friction(steps.v_friction),
        }
        model = rigid + parts['armature'] + parts['friction']
        energy = self.energy(steps.q, steps.v)
        return Explained(parts, model, steps.effort - model, energy)

    def energy(self, q: Array, v: Array) -> Array:
        """Return kinetic energy (with armature) and potential energy, shape (N, 2), J."""
        found = np.array(self._kernels.batch('energies', q, v))
        found[:, 0] += 0.5 * np.square(v) @ self._terms.armature
        return found

    def friction(self, v: Array) -> Array:
        """Return the friction that the description gives, shape (N, n), N m or N."""
        return self._terms.friction(v)

    def pull(self, q: Array) -> Array:
        """Return the gravity forces by 1 m/s^2 along x, y and z, shape (N, n, 3)."""
        columns = [kernels.batch('gravity_forces', q) for kernels in self._pull]
        return np.stack(columns, axis=-1)

    def judgeable(self, steps: Steps, slow: float = 5e-3) -> tuple[Array, dict[str, Array]]:
        """Return which efforts the motion alone explains, and how many others there are, why.

        A joint limit, the stick of Coulomb friction and an effort beyond its limit are forces that
        the motion does not tell.

        Args:
            steps: The instants.
            slow: Speed below which a joint with Coulomb friction may stick, rad/s or m/s.

        Returns:
            Shape (M, n), and by reason the number of efforts of each joint.
        """
        tree = self.tree
        at_limit = (steps.q <= tree.position_lower) | (steps.q >= tree.position_upper)
        sticking = (np.abs(steps.v_friction) < slow) & (tree.coulomb_friction > 0.0)
        beyond = np.abs(steps.effort) > tree.effort_limit * (1.0 + 1e-9)
        missing = ~np.isfinite(steps.effort)
        reasons = {
            'no effort': missing,
            'at a joint limit': at_limit,
            'at rest with Coulomb friction': sticking,
            'beyond the effort limit': beyond,
        }
        good = ~(missing | at_limit | sticking | beyond)
        return good, {why: which.sum(axis=0) for why, which in reasons.items()}
