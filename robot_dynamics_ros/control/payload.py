# SPDX-License-Identifier: Apache-2.0
r"""Payload as an input of the dynamics instead of a constant.

Inverse dynamics is linear in the ten inertial parameters of a body, so a load adds a term,

.. math:: \tau = ID(q, v, a) + ID_{load}(q, v, a;\ m, c, I),

computed by the same recursion for bodies that consist of the load alone. Its parameters are inputs
of the kernel: a change needs no compilation, and it affects all laws, the stop actions and the
joint-limit guard in the same tick.

A change is spread over time: mass, first moment and inertia about the body's origin are
interpolated linearly, see ``TransferWeight``. Physically consistent parameters form a convex set,
so every intermediate body is physically consistent.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from robot_dynamics_ros.control.transfer import TransferWeight
from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.dynamics.joint_terms import joint_inertia
from robot_dynamics_ros.errors import ModelError
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.payload import Payload, on_body, with_payload
from robot_dynamics_ros.spatial.inertia import body_inertia, body_parameters
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import Kernel, KernelSet, compile_function

#: Time over which the model changes to another payload, s.
PAYLOAD_TRANSITION_S = 0.5
_SIZE = 13  # inputs of the kernel per body: mass, com, inertia


class PayloadModel:
    """Payload that may change while the robot moves.

    Attributes:
        payload: The payload, or the new one during a change; None: none.
        bare: The robot without payload.
        tree: The robot with the payload.
        carrying: Whether the present load is not zero.
        changing: Whether a change is in progress: call ``advance`` every tick.

    Args:
        tree: The robot without payload.

    Cost: 50 ms once; 0.5 us per tick, and about 30 us during a change.
    """

    def __init__(self, tree: Robot) -> None:
        self.bare = self.tree = tree
        self.payload: Payload | None = None
        self.carrying = self.changing = False
        n, bodies = tree.n, tree.bodies
        self._effort = compile_function(partial(_with_load, tree), n, load=_SIZE * bodies)
        self._load = np.zeros((bodies, _SIZE))
        self._inputs = self._load.reshape(-1)
        self._old, self._new, self._now = (np.zeros((bodies, 10)) for _ in range(3))
        self._weight = TransferWeight()

    def change(self, payload: Payload | None, t: float, duration: float) -> None:
        """Start a change to another payload, or to none.

        Args:
            payload: The new payload; None: none.
            t: Time, on the clock of ``advance``, s.
            duration: Duration of the change, s; 0: at once.

        Raises:
            UnknownNameError: The payload's frame does not exist.
            ModelError: The payload is not physical.
        """
        self.tree = self.check(payload)
        self._new, self.payload = self._parameters(payload), payload
        self._old = self._now.copy()
        self._weight = TransferWeight(duration, t)
        self.advance(t)

    def check(self, payload: Payload | None) -> Robot:
        """Return the robot with a payload; raises the errors of ``change``."""
        if payload is None:
            return self.bare
        with np.errstate(all='ignore'):
            tree = with_payload(self.bare, payload)
            inertia = joint_inertia(tree, np.zeros(tree.n))
        if not ((inertia > 0.0) & (inertia < np.inf)).all():
            raise ModelError(
                f'payload on {payload.frame!r}',
                f'mass {payload.mass:g} kg and com {np.asarray(payload.com)} m lead to an '
                'invalid joint inertia',
                'reduce mass or com',
            )
        return tree

    def restart(self, t: float) -> None:
        """Restart a change in progress from its present load after the clock jumped to t, s."""
        if self.changing:
            self._old = self._now.copy()
            self._weight = self._weight._replace(begin=t)

    def advance(self, t: float) -> None:
        """Update the load to a time, s."""
        weight = self._weight.at(t)
        self.changing = weight < 1.0
        changed = self._old + weight * (self._new - self._old)
        self._now = changed if self.changing else self._new
        self.carrying = bool(self._now[:, 0].any())
        self._load.fill(0.0)
        for i in np.flatnonzero(self._now[:, 0]):
            mass, com, inertia = body_inertia(self._now[i])
            self._load[i] = mass, *com, *inertia.ravel()

    def kernels(self, bare: KernelSet) -> LoadedKernels:
        """Return the kernels of the robot with the load, from those without load."""
        return LoadedKernels(self, bare)

    def add(self, q: Array, v: Array, a: Array, tau: Array, out: Array) -> None:
        """Write ``tau`` plus the load's efforts to ``out``, which must be another array."""
        self._effort(q, v, a, tau, self._inputs, out)

    def _parameters(self, payload: Payload | None) -> Array:
        """Return mass, first moment and inertia about the origin per body, shape (bodies, 10)."""
        parameters = np.zeros((self.bare.bodies, 10))
        if payload is not None:
            body, load = on_body(self.bare, payload)
            parameters[body] = body_parameters(load)
        return parameters


class LoadedKernels(KernelSet):
    """Kernels of a robot with payload: inverse dynamics, gravity, mass matrix, frame motion.

    Attributes:
        bare: As given.

    Args:
        load: The payload.
        bare: The kernels of the robot without payload.
    """

    def __init__(self, load: PayloadModel, bare: KernelSet) -> None:
        self.kind = bare.kind
        self._arguments, self._load, self.bare = {}, load, bare
        n = load.bare.n
        total, still = np.zeros(n), np.zeros(n)
        inverse_dynamics, gravity_forces = bare.inverse_dynamics, bare.gravity_forces

        def loaded_dynamics(q: Array, v: Array, a: Array, tau: Array) -> None:
            inverse_dynamics(q, v, a, tau)
            if load.carrying:
                load.add(q, v, a, tau, total)
                tau[:] = total

        def loaded_gravity(q: Array, g: Array) -> None:
            gravity_forces(q, g)
            if load.carrying:
                load.add(q, still, still, g, total)
                g[:] = total

        self.inverse_dynamics: Kernel = loaded_dynamics
        self.gravity_forces: Kernel = loaded_gravity
        self.mass_matrix: Kernel = self._mass_matrix(load, bare)
        if 'frame_motion' in vars(bare):
            self.frame_motion = bare.frame_motion  # kinematics, independent of the load

    def apart(self) -> LoadedKernels:
        """Return the same kernels with separate work arrays."""
        return LoadedKernels(self._load, self.bare.apart())

    def _mass_matrix(self, load: PayloadModel, bare: KernelSet) -> Kernel:
        """Return the kernel of the mass matrix with the load, computed column by column."""
        n = load.bare.n
        units, still, gravity = np.eye(n), np.zeros(n), np.zeros(n)
        mass_matrix = vars(bare).get('mass_matrix')

        def loaded_mass_matrix(q: Array, M: Array) -> None:
            if mass_matrix is not None and not load.carrying:
                mass_matrix(q, M)
                return
            self.gravity_forces(q, gravity)
            for j in range(n):
                self.inverse_dynamics(q, still, units[j], M[j])
            M -= gravity

        return loaded_mass_matrix


def _with_load(tree: Robot, q: Array, v: Array, a: Array, tau: Array, load: Array) -> Array:
    """Return efforts plus the inverse dynamics of bodies that consist of the load; traceable."""
    bodies = load.reshape(tree.bodies, _SIZE)
    loads = tree.with_changes(
        mass=bodies[:, 0].copy(),
        com=bodies[:, 1:4].copy(),
        inertia=bodies[:, 4:].reshape(tree.bodies, 3, 3).copy(),
    )
    return tau + make_formulation('newton_euler', loads).inverse_dynamics(q, v, a)
