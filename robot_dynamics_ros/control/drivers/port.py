# SPDX-License-Identifier: Apache-2.0
r"""Conversion of states and commands in the tick, velocity filter, and driver compensation.

Velocities from positions are finite differences with a first-order low pass:

.. math:: w_k = \alpha w_{k-1} + (1-\alpha)\frac{x_k - x_{k-1}}{h_k}, \qquad
          \alpha = e^{-2\pi f_c h_k}

For a constant acceleration a, the result is delayed by

.. math:: T = \frac{h}{2} + \frac{h\,\alpha}{1-\alpha}
            = \frac{1}{2\pi f_c} + O(2\pi f_c h^2),

half a step from the difference and the rest from the low pass; its error is :math:`aT`. Without
the low pass (infinite cut-off), encoder steps of size s cause velocity noise of size s/h.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np

from robot_dynamics_ros.control.drivers.conversion import DriverConversion, command_order
from robot_dynamics_ros.control.drivers.friction import DriveFriction
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import Kernel


class FilteredDerivative:
    """Filtered derivative of samples with any spacing.

    Attributes:
        value: The derivative, shape (n,), unit of the samples per s; 0 after a start.

    Args:
        n: Number of components.
        cutoff_hz: Cut-off frequency, Hz; infinite: no low pass.
        longest_gap: Longest time between two samples, s; after a longer one, the filter restarts.

    Raises:
        ParameterError: The cut-off or the gap is not positive.
    """

    def __init__(self, n: int, cutoff_hz: float, longest_gap: float = 0.1) -> None:
        for name, value in (('cutoff_hz', cutoff_hz), ('longest_gap', longest_gap)):
            if not value > 0.0:
                raise ParameterError(name, value, 'must be positive')
        self._rate, self._longest_gap = 2.0 * math.pi * cutoff_hz, longest_gap
        self.value = np.zeros(n)
        self._last = np.zeros(n)
        self._step = np.zeros(n)
        self._time = math.nan

    def update(self, t: float, x: Array) -> Array:
        """Process a sample and return the derivative: ``value`` itself, not a copy.

        Args:
            t: Its time, s. A duplicate time has no effect; an earlier time or a gap restarts the
                filter.
            x: The sample, shape (n,); ignored if non-finite.

        Cost: about 3 us; allocates nothing.
        """
        step = t - self._time
        if step == 0.0 or not math.isfinite(x.sum()):
            return self.value
        if 0.0 < step <= self._longest_gap:
            decay = math.exp(-self._rate * step)
            np.subtract(x, self._last, out=self._step)
            self._step *= (1.0 - decay) / step
            self.value *= decay
            self.value += self._step
        else:
            self.value.fill(0.0)
        self._last[:] = x
        self._time = t
        return self.value

    def delay(self, period: float) -> float:
        """Return the delay of the result at constant acceleration, s.

        Args:
            period: Time between two samples, s.
        """
        decay = math.exp(-self._rate * period)
        return 0.5 * period + period * decay / (1.0 - decay)


class DriverPort:
    """Converts states and commands between the driver's and the model's units and order.

    Attributes:
        names: The driver's name of each joint of the model.
        order: Index in the model of each effort of a command, shape (n,).
        q, v: The last state, shape (n,), rad or m and rad/s or m/s, in the model's order.
        command: The last command, shape (n,), in the driver's units and order.
        overlaid: Positions sent with the command, shape (n,), in the driver's units and order; 0
            unless the form of the command is overlay.
        differentiates: Whether velocities are derived from positions; ``v`` is not used then.

    Args:
        tree: The robot.
        driver: Conversion of a driver profile; None: the model's names and SI units.
        joints: Order of the command without a driver profile; empty: the model's.

    Raises:
        UnknownNameError: A joint does not exist.
        ParameterError: The order does not name every joint exactly once.
    """

    def __init__(
        self, tree: Robot, driver: DriverConversion | None = None, joints: Sequence[str] = ()
    ) -> None:
        self.driver = driver
        self.names = tree.joint_names if driver is None else driver.names
        self.order = command_order(joints, tree) if driver is None else driver.order
        self.differentiates = driver is not None and driver.profile.state.cutoff_hz is not None
        self.q = np.zeros(tree.n)
        self.v = np.zeros(tree.n)
        self.command = np.zeros(tree.n)
        self.overlaid = np.zeros(tree.n)
        if driver is not None:
            self._offset = driver.effort_offset[self.order]
            self._scale = driver.effort_scale[self.order]
            self._motors = np.zeros(tree.n)
            self._overlays = driver.profile.command.form == 'overlay'

    def read(self, x: Array, y: Array) -> None:
        """Convert a state into ``q`` and, unless ``differentiates``, ``v``.

        Args:
            x: Positions, shape (n,), in the driver's units and the model's order.
            y: Velocities, shape (n,), in the same units and order; ignored if ``differentiates``.
        """
        driver = self.driver
        if driver is None:
            self.q[:], self.v[:] = x, y
            return
        driver.position(x, self.q)
        if not self.differentiates:
            driver.velocity(y, self.v)

    def motor_effort(
        self, measured: Array, q: Array, v: Array, compensation: DriverCompensation | None = None
    ) -> Array:
        """Return the total motor effort, new array, shape (n,), N m or N; NaN if unknown.

        Args:
            measured: Measured effort of the driver, shape (n,), N m or N.
            q: Positions of the same state, shape (n,), rad or m.
            v: Velocities of the same state, shape (n,), rad/s or m/s.
            compensation: Terms that the driver compensates.
        """
        report = 'total' if self.driver is None else self.driver.profile.state.effort
        if report == 'without_compensation' and compensation is not None:
            return measured + compensation.update(q, v)
        return measured.copy() if report != 'none' else np.full(len(measured), np.nan)

    def measured_effort(self, z: Array) -> Array:
        """Convert measured efforts from the driver's units to N m or N."""
        return z if self.driver is None else self.driver.measured_effort(z)

    def write(self, effort: Array, q: Array | None = None) -> None:
        """Convert efforts into ``command`` and, for overlays, positions into ``overlaid``.

        Args:
            effort: Shape (n,), N m or N in the model's order. Efforts of motors that joints share
                are clipped to their limits.
            q: Measured positions, shape (n,), rad or m; None: those of the last call.
        """
        driver, motors = self.driver, effort
        if driver is not None and driver.transmissions:
            motors = self._motors
            motors[:] = effort
            for one in driver.transmissions:
                one.efforts_of_motors(motors)
                one.clip(motors)
        motors.take(self.order, out=self.command, mode='clip')
        if driver is not None:
            self.command += self._offset
            self.command /= self._scale
            if self._overlays and q is not None:
                np.take(driver.position_reading(q), self.order, out=self.overlaid, mode='clip')

    def effort_of_command(self, command: Array) -> Array:
        """Return the efforts of a command, new array, (n,), N m or N in the model's order."""
        ordered = np.empty(len(command))
        ordered[self.order] = command
        return ordered if self.driver is None else self.driver.commanded_effort(ordered)


def velocity_filter(n: int, driver: DriverConversion | None) -> FilteredDerivative | None:
    """Return the velocity filter of n joints; None if the driver measures velocities."""
    if driver is None or driver.profile.state.cutoff_hz is None:
        return None
    state = driver.profile.state
    return FilteredDerivative(n, float(state.cutoff_hz or 0.0), state.timeout_s)


class DriverCompensation:
    r"""Effort that a driver adds to the command: gravity, friction, both or none.

    .. math:: \tau_{driver} = g(q) + b\,v + \tau_c \tanh(v / v_s)

    A law computes the total motor effort; the command is that effort without the driver's share at
    the state of the tick.

    Validity: the driver's model equals that of the robot; its friction is that of the description.

    Attributes:
        effort: The last share, shape (n,), N m or N.

    Args:
        tree: The robot with friction.
        gravity_forces: Kernel of the gravity that the driver compensates, with or without payload.
        terms: Any of 'gravity' and 'friction'.
    """

    def __init__(self, tree: Robot, gravity_forces: Kernel, terms: Collection[str]) -> None:
        self._gravity = gravity_forces if 'gravity' in terms else None
        described = tree.with_changes(drive_friction={})
        self._friction = DriveFriction(described) if 'friction' in terms else None
        self.effort = np.zeros(tree.n)

    def update(self, q: Array, v: Array) -> Array:
        """Return the share at a state: ``effort`` itself, shape (n,), N m or N."""
        share = self.effort
        if self._gravity is not None:
            self._gravity(q, share)
        else:
            share.fill(0.0)
        if self._friction is not None:
            share += self._friction.at(v, share)
        return share
