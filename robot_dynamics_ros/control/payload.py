# SPDX-License-Identifier: Apache-2.0
r"""Payload as an input of the dynamics instead of a constant.

Mass, centre of mass and inertia of all bodies, load included, are inputs of the kernels. So a
change needs no compilation, and it affects all laws, the stop actions and the joint-limit guard in
the same tick.

A change is spread over time: mass, first moment and inertia about the body's origin are
interpolated linearly, see ``TransferWeight``. Physically consistent parameters form a convex set,
so every intermediate body is physically consistent.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from robot_dynamics_ros.control.transfer import TransferWeight
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.payload import Payload, with_payload
from robot_dynamics_ros.spatial.inertia import RigidBodyInertia, body_inertia, body_parameters
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import Kernel, KernelSet
from robot_dynamics_ros.symbolic.outputs import KernelSpec, known_output

#: Time over which the model changes to another payload, s.
PAYLOAD_TRANSITION_S = 0.5
_SIZE = 13  # inputs of the kernel per body: mass, com, inertia


class PayloadModel:
    """Payload that may change while the robot moves.

    Attributes:
        payload: The payload, or the new one during a change; None: none.
        bare: The robot without payload.
        tree: The robot with the payload.
        changing: Whether a change is in progress: call ``advance`` every tick.
        numbers: Mass, kg, centre of mass, m, and inertia about it, kg m^2, row by row, of one body
            after the other, with their present load, shape (13 bodies,).

    Args:
        tree: The robot without payload.

    Cost: nothing in a tick, about 30 us during a change.
    """

    def __init__(self, tree: Robot) -> None:
        self.bare = self.tree = tree
        self.payload: Payload | None = None
        self.changing, self._weight = False, TransferWeight()
        self._bodies = _numbers(tree)
        self.numbers = self._bodies.reshape(-1)
        self._old = self._new = self._now = _parameters(tree)

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
        self._old, self._new, self.payload = self._now, _parameters(self.tree), payload
        self._weight = TransferWeight(duration, t)
        self.advance(t)

    def check(self, payload: Payload | None) -> Robot:
        """Return the robot with a payload; raises the errors of ``change``."""
        return self.bare if payload is None else with_payload(self.bare, payload)

    def restart(self, t: float) -> None:
        """Restart a change in progress from its present load after the clock jumped to t, s."""
        if self.changing:
            self._old = self._now
            self._weight = self._weight._replace(begin=t)

    def advance(self, t: float) -> None:
        """Update the load to a time, s."""
        weight = self._weight.at(t)
        self.changing = weight < 1.0
        if not self.changing:
            self._now, self._bodies[:] = self._new, _numbers(self.tree)
            return
        self._now = self._old + weight * (self._new - self._old)
        differ = (self._old != self._new).any(axis=1)
        for i in np.flatnonzero(differ & (self._now[:, 0] > 0.0)):
            mass, com, inertia = body_inertia(self._now[i])
            self._bodies[i] = mass, *com, *inertia.ravel()


def _numbers(tree: Robot) -> Array:
    """Return mass, centre of mass and inertia of each body, new array of shape (bodies, 13)."""
    return np.hstack([tree.mass[:, None], tree.com, tree.inertia.reshape(-1, 9)])


def _parameters(tree: Robot) -> Array:
    """Return mass, first moment and inertia about the origin of each body, (bodies, 10)."""
    bodies = zip(tree.mass, tree.com, tree.inertia, strict=True)
    return np.array([body_parameters(RigidBodyInertia(*body)) for body in bodies])


class LoadedKernels(KernelSet):
    """Kernels of a robot with payload: inverse dynamics, gravity, mass matrix.

    Attributes:
        bare: As given.

    Args:
        payload: The payload.
        bare: The kernels of the robot without payload.
    """

    def __init__(self, payload: PayloadModel, bare: KernelSet) -> None:
        super().__init__(bare._backend, {}, bare._spec, bare._loops)
        self.load, self.bare, self._last = payload.numbers, bare, (b'', bare._spec)
        self.inverse_dynamics = self._output('inverse_dynamics')
        self.gravity_forces = self._output('gravity_forces')

    @cached_property
    def mass_matrix(self) -> Kernel:
        """For laws of other packages, see docs/extending.md; compiled on first access."""
        return self._output('mass_matrix')

    def _output(self, name: str) -> Kernel:
        return self.compile(known_output(name).compute, **self._spec.arguments(name).inputs)

    def spec(self, load: Array) -> KernelSpec:
        """Return the robot with bodies of given inertia, see ``PayloadModel.numbers``."""
        if load.dtype == object:
            return self._with(load)
        numbers = load.tobytes()  # for a formulation without symbols
        if numbers != self._last[0]:
            self._last = numbers, self._with(load)
        return self._last[1]

    def _with(self, load: Array) -> KernelSpec:
        spec, bodies = self._spec, load.reshape(-1, _SIZE)
        robot = spec.robot.with_changes(
            mass=bodies[:, 0].copy(),
            com=bodies[:, 1:4].copy(),
            inertia=bodies[:, 4:].reshape(-1, 3, 3).copy(),
        )
        return KernelSpec(robot, spec.formulation_name, spec.frame_name)
