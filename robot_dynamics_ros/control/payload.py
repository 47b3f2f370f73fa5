# SPDX-License-Identifier: Apache-2.0
r"""Payload as an input of the dynamics instead of a constant.

Inverse dynamics is linear in the ten inertial parameters of a body, so a load adds a term,

.. math:: \tau = ID(q, v, a) + ID_{load}(q, v, a;\ m, c, I),

computed by the same recursion for bodies that consist of the load alone. Its parameters are inputs
of the kernel: a change needs no compilation, and it affects all laws, the stop actions and the
joint-limit guard in the same tick.

A change is spread over time: mass, first moment and inertia about the body's origin are
interpolated linearly between old and new values, by a cubic in time. Physically consistent
parameters form a convex set, so every intermediate body is physically consistent.
"""

from __future__ import annotations

import numpy as np

from robot_dynamics_ros.control.laws.pd_gravity import joint_inertia
from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.errors import ModelError
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.model.payload import Payload, with_payload
from robot_dynamics_ros.parameters import Parameter
from robot_dynamics_ros.spatial.inertia import RigidBodyInertia, shift_inertia
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import Kernel, KernelSet, compile_function

PAYLOAD_TRANSITION = Parameter(
    'payload_transition_s', 0.5, 'Time over which the model changes to another payload.', 0.0,
    60.0, unit='s',
)  # fmt: skip
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

    def __init__(self, tree: RobotTree) -> None:
        self.bare = self.tree = tree
        self.payload: Payload | None = None
        self.carrying = self.changing = False
        n, bodies = tree.n, tree.bodies
        self._effort = compile_function(
            'load_effort',
            {'q': n, 'v': n, 'a': n, 'tau': n, 'load': _SIZE * bodies},
            {'out': (n,)},
            lambda q, v, a, tau, load: (tau + _load_effort(load, tree, q, v, a),),
        )
        self._load = np.zeros(_SIZE * bodies)
        self._old, self._new, self._now = (np.zeros((bodies, 10)) for _ in range(3))
        self._begin = self._duration = 0.0

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
        self._begin, self._duration = t, duration
        self.changing = True
        self.advance(t)

    def check(self, payload: Payload | None) -> RobotTree:
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
            self._old, self._begin = self._now.copy(), t

    def advance(self, t: float) -> None:
        """Update the load to a time, s."""
        x = (t - self._begin) / self._duration if self._duration > 0.0 else 1.0
        x = min(max(x, 0.0), 1.0)
        self.changing = x < 1.0
        if self.changing:
            self._now = self._old + x * x * (3.0 - 2.0 * x) * (self._new - self._old)
        else:
            self._now = self._new
        self.carrying = bool(self._now[:, 0].any())
        for i, row in enumerate(self._now):
            self._load[_SIZE * i : _SIZE * (i + 1)] = _body_parameters(row)

    def kernels(self, bare: KernelSet) -> LoadedKernels:
        """Return the kernels of the robot with the load, from those without load."""
        return LoadedKernels(self, bare)

    def add(self, q: Array, v: Array, a: Array, tau: Array, out: Array) -> None:
        """Write ``tau`` plus the load's efforts to ``out``, which must be another array."""
        self._effort(q, v, a, tau, self._load, out)

    def _parameters(self, payload: Payload | None) -> Array:
        """Return mass, first moment and inertia about the origin per body, shape (bodies, 10)."""
        parameters = np.zeros((self.bare.bodies, 10))
        if payload is None:
            return parameters
        frame = self.bare.frame(payload.frame)
        load = RigidBodyInertia(
            payload.mass, np.asarray(payload.com, float), np.asarray(payload.inertia, float)
        ).seen_from(frame.R_BF, frame.p_BF)
        about_origin = shift_inertia(load.inertia, load.mass, load.com)
        parameters[frame.body, 0] = load.mass
        parameters[frame.body, 1:4] = load.mass * load.com
        parameters[frame.body, 4:] = about_origin[np.triu_indices(3)]
        return parameters


class LoadedKernels(KernelSet):
    """Kernels of a robot with payload: inverse dynamics, gravity, mass matrix, frame motion.

    Args:
        load: The payload.
        bare: The kernels of the robot without payload.
    """

    def __init__(self, load: PayloadModel, bare: KernelSet) -> None:
        self.kind = bare.kind
        self._arguments, self._parts = {}, (load, bare)
        n = load.bare.n
        bare_effort, total, still = np.zeros(n), np.zeros(n), np.zeros(n)
        inverse_dynamics, gravity_forces = bare.inverse_dynamics, bare.gravity_forces

        def loaded_dynamics(q: Array, v: Array, a: Array, tau: Array) -> None:
            if not load.carrying:
                inverse_dynamics(q, v, a, tau)
                return
            inverse_dynamics(q, v, a, bare_effort)
            load.add(q, v, a, bare_effort, total)
            tau[:] = total

        def loaded_gravity(q: Array, g: Array) -> None:
            if not load.carrying:
                gravity_forces(q, g)
                return
            gravity_forces(q, bare_effort)
            load.add(q, still, still, bare_effort, total)
            g[:] = total

        self.inverse_dynamics: Kernel = loaded_dynamics
        self.gravity_forces: Kernel = loaded_gravity
        self.mass_matrix: Kernel = self._mass_matrix(load, bare)
        if 'frame_motion' in vars(bare):
            self.frame_motion = bare.frame_motion  # kinematics, independent of the load

    def apart(self) -> LoadedKernels:
        """Return the same kernels with separate work arrays."""
        return LoadedKernels(*self._parts)

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


def _load_effort(load: Array, tree: RobotTree, q: Array, v: Array, a: Array) -> Array:
    """Return the inverse dynamics of bodies that consist of the loads alone; traceable."""
    bodies = load.reshape(tree.bodies, _SIZE)
    loads = tree.with_changes(
        mass=bodies[:, 0].copy(),
        com=bodies[:, 1:4].copy(),
        inertia=bodies[:, 4:].reshape(tree.bodies, 3, 3).copy(),
    )
    return make_formulation('newton_euler', loads).inverse_dynamics(q, v, a)


def _body_parameters(row: Array) -> Array:
    """Return mass, centre of mass and inertia about it of a body, shape (13,)."""
    body = np.zeros(_SIZE)
    mass = row[0]
    if mass > 0.0:
        com = row[1:4] / mass
        xx, xy, xz, yy, yz, zz = row[4:]
        about_origin = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        body[0], body[1:4] = mass, com
        body[4:] = shift_inertia(about_origin, -mass, com).ravel()
    return body
