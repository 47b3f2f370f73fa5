# SPDX-License-Identifier: Apache-2.0
r"""Laws that add terms to gravity compensation: damping, PD control.

Gravity compensation, :math:`\tau = g(q) - D v`: the arm floats and can be moved by hand.

PD control with gravity compensation, with gains comparable to computed torque,

.. math:: \tau = g(q) + \bar M\,\{K_p\,(q_r - q) + K_d\,(\dot q_r - v)\}

:math:`\bar M` is the diagonal of the mass matrix plus armature at a constant home position. There,
the same natural frequency and damping ratio give the same stiffness as computed torque.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from robot_dynamics_ros.control.laws.computed_torque import (
    FEEDBACK,
    SAMPLING,
    feedback,
    gains_of,
)
from robot_dynamics_ros.control.laws.control_law import ModelLaw, Parts
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.dynamics.joint_terms import inertia_matrix, joint_inertia
from robot_dynamics_ros.dynamics.sampled_loop import FeedbackLoop
from robot_dynamics_ros.parameters import Parameter, Values, spread
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import compile_function


class GravityLaw(ModelLaw):
    """Base class of laws that add terms to gravity compensation; see :class:`ModelLaw`."""

    outputs: ClassVar[tuple[str, ...]] = ('gravity_forces',)
    has_memory = False

    def effort(self, t: float, q: Array, v: Array, reference: Reference, out: Array) -> None:
        """Compute the efforts for the coming period; see :class:`ControlLaw`."""
        self.kernels.gravity_forces(q, out)
        self.add_terms(q, v, reference, out)

    def add_terms(self, q: Array, v: Array, reference: Reference, out: Array) -> None:
        """Add the terms of the law to gravity in ``out``, see ``effort``; by default none."""

    def parts(self, q: Array, v: Array, reference: Reference) -> Parts:
        """Return gravity and, of a compliant law, the wrench; see :class:`ControlLaw`."""
        gravity = np.zeros(self.tree.n)
        self.kernels.gravity_forces(q, gravity)
        wrench = {'wrench': self.external.commanded.copy()} if self.yields else {}
        return {'gravity': gravity, **wrench}


class GravityCompensation(GravityLaw):
    """Gravity compensation with optional damping; ignores the reference.

    Args:
        tree: The model of the robot, payload included.
        kernels: With ``gravity_forces``; compiled from the tree if None.
        parameters: By name, see ``declared``.

    Raises:
        ParameterError: A parameter is rejected.

    Cost: one gravity kernel and about 1 us; allocates no array.
    """

    name = 'gravity_compensation'
    yields = True
    follows_reference = False  # the arm is moved by hand
    remainder = 'damping'
    declared = (
        Parameter('damping', [0.0], 'Damping D of law gravity_compensation.', 0.0,
                  unit='N m s/rad or N s/m', per_joint=True),
        *SAMPLING,
    )  # fmt: skip

    def build(self) -> None:
        """Allocate the work array; see :class:`ModelLaw`."""
        self._work = np.zeros(self.tree.n)

    def configure(self, parameters: Values) -> None:
        """Apply the damping; see :class:`ControlLaw`."""
        self._damping = np.array(spread(parameters['damping'], self.tree.n))

    def feedback_loops(self, q: Array) -> Iterator[FeedbackLoop]:
        """Return the damping of all joints together; see :class:`ControlLaw`."""
        if self._damping.any():
            D = np.diag(self._damping)
            yield FeedbackLoop('damping', inertia_matrix(self.tree, q), 0.0 * D, D)

    def add_terms(self, q: Array, v: Array, reference: Reference, out: Array) -> None:
        """Add damping and wrench; see :class:`GravityLaw`."""
        np.multiply(self._damping, v, out=self._work)
        out -= self._work
        out += self.external.commanded


class PdGravity(GravityLaw):
    """Proportional-derivative feedback plus gravity compensation.

    Globally stable at a constant reference for any positive gains. It follows a moving reference
    with a lag, since inertia, Coriolis forces and friction are not fed forward.

    The gains are ``Kp = w0^2`` and ``Kd = 2 zeta w0``.

    Args:
        tree: The model of the robot, payload included.
        kernels: With ``gravity_forces``; compiled from the tree if None.
        parameters: By name, see ``declared``.

    Raises:
        ParameterError: A parameter is rejected.

    Cost: one gravity kernel and about 0.2 us; allocates no array.
    """

    name = 'pd_gravity'
    declared = (
        *FEEDBACK,
        Parameter('home', [0.0], 'Position, one entry per joint, at which law pd_gravity computes '
                  'the inertia; a single number: the middle of the joint limits.',
                  unit='rad or m', per_joint=True),
        *SAMPLING,
    )  # fmt: skip

    def build(self) -> None:
        """Compile the feedback; see :class:`ModelLaw`."""
        n = self.tree.n
        self._gains = np.zeros(2 * n)
        self._feedback = compile_function(feedback, n, gains=2 * n, fused=False)

    def configure(self, parameters: Values) -> None:
        """Apply gains and home position; see :class:`ControlLaw`."""
        Kp, Kd = gains_of(parameters, self.tree.n)
        home = np.array(parameters['home'])
        if home.size < self.tree.n:
            home = self.tree.middle
        inertia = joint_inertia(self.tree, home)
        self._gains[:] = np.concatenate([inertia * Kp, inertia * Kd])

    def feedback_loops(self, q: Array) -> Iterator[FeedbackLoop]:
        """Return the feedback of all joints, which their inertia couples; see `ControlLaw`."""
        K, D = (np.diag(gains) for gains in self._gains.reshape(2, -1))
        yield FeedbackLoop('natural_frequency', inertia_matrix(self.tree, q), K, D)

    def add_terms(self, q: Array, v: Array, reference: Reference, out: Array) -> None:
        """Add the feedback; see :class:`GravityLaw`."""
        desired, rate = reference.position, reference.velocity
        self._feedback(q, v, desired, rate, out, self._gains, out)
