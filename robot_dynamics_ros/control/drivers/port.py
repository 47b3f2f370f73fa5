# SPDX-License-Identifier: Apache-2.0
r"""What a driver's topics carry, in the units of the model; and what the driver gives by itself.

Velocity from positions: a difference through a first-order low pass.

.. math:: w_k = \alpha w_{k-1} + (1-\alpha)\frac{x_k - x_{k-1}}{h_k}, \qquad
          \alpha = e^{-2\pi f_c h_k}

Where the velocity changes evenly, by a per second, the result is late by

.. math:: T = \frac{h}{2} + \frac{h\,\alpha}{1-\alpha}
            = \frac{1}{2\pi f_c} + O(2\pi f_c h^2),

half a step from the difference and the rest from the low pass: it is wrong by :math:`aT`. Without
the low pass (infinite cut-off) encoder steps of size s give velocity noise of the size s/h.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np

from robot_dynamics_ros.control.drivers.conversion import DriverConversion
from robot_dynamics_ros.control.laws.parameter_checks import DriveFriction
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import Kernel


class FilteredDerivative:
    """Differentiates samples that need not be evenly spaced.

    Attributes:
        value: The derivative, shape (n,), unit of the samples per s; 0 at a start.

    Args:
        n: Number of components.
        cutoff_hz: Cut-off frequency, Hz; infinite for the bare difference.
        longest_gap: Time between two samples beyond which the filter starts anew, s.

    Raises:
        ParameterError: The cut-off or the gap is not positive.
    """

    def __init__(self, n: int, cutoff_hz: float, longest_gap: float = 0.1) -> None:
        for name, value in (('cutoff_hz', cutoff_hz), ('longest_gap', longest_gap)):
            if not value > 0.0:
                raise ParameterError(name, value, 'must be positive')
        self._rate, self._longest = 2.0 * math.pi * cutoff_hz, longest_gap
        self.value = np.zeros(n)
        self._last = np.zeros(n)
        self._step = np.zeros(n)
        self._time = math.nan

    def reset(self) -> None:
        """Forget what was: the next sample gives 0."""
        self._time = math.nan

    def update(self, t: float, x: Array) -> Array:
        """Take a sample and return the derivative: ``value`` itself, not a copy.

        Args:
            t: Its time, s. At the last one's time nothing changes; a time before that or after a
                gap starts the filter anew.
            x: The sample, shape (n,). One that is not finite is left out.

        Cost: about 3 us; allocates nothing.
        """
        step = t - self._time
        if step == 0.0 or not math.isfinite(x.sum()):
            return self.value
        if 0.0 < step <= self._longest:
            keep = math.exp(-self._rate * step)
            np.subtract(x, self._last, out=self._step)
            self._step *= (1.0 - keep) / step
            self.value *= keep
            self.value += self._step
        else:
            self.value.fill(0.0)
        self._last[:] = x
        self._time = t
        return self.value

    def delay(self, period: float) -> float:
        """Return by how much the result is late where the velocity changes evenly, s.

        Args:
            period: Time between two samples, s.
        """
        keep = math.exp(-self._rate * period)
        return 0.5 * period + period * keep / (1.0 - keep)


class DriverPort:
    """Converts between a driver's units and order, and the model's.

    Attributes:
        names: What the driver calls each joint of the model.
        order: Index in the model of each effort of a command, shape (n,).
        q, v: The last reading, shape (n,), rad or m and rad/s or m/s, in the model's order.
        command: The last command, shape (n,), in the driver's unit and order.
        overlaid: Positions over which the driver lays it, likewise; 0 unless it wants any.
        differentiates: Whether velocities are made of positions; readings have none then.

    Args:
        tree: The robot.
        driver: The driver's profile in numbers; None: the model's own names and SI units.
        joints: Order of the command for a driver without a profile; empty: the model's.

    Raises:
        UnknownNameError: A joint does not exist.
        ParameterError: The order does not name every joint once.
    """

    def __init__(
        self, tree: RobotTree, driver: DriverConversion | None = None, joints: Sequence[str] = ()
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
        """Take over a reading into ``q`` and, unless differentiated, ``v``.

        Args:
            x: Positions, shape (n,), in the driver's unit and the model's order.
            y: Velocities, likewise; not looked at if they are differentiated.
        """
        driver = self.driver
        if driver is None:
            self.q[:], self.v[:] = x, y
            return
        np.subtract(x, driver.position_zero, out=self.q)
        self.q *= driver.position_scale
        for one in driver.transmissions:
            one.positions_of_joints(self.q)
        if not self.differentiates:
            np.multiply(y, driver.velocity_scale, out=self.v)
            for one in driver.transmissions:
                one.velocities_of_joints(self.v)

    def motor_effort(
        self, measured: Array, q: Array, v: Array, compensation: DriverCompensation | None = None
    ) -> Array:
        """Return what the motors give, new array, shape (n,), N m or N; NaN if unknown.

        Args:
            measured: What the driver says of them, shape (n,), N m or N.
            q: Positions then, shape (n,), rad or m.
            v: Velocities then, shape (n,), rad/s or m/s.
            compensation: What the driver compensates by itself.
        """
        report = 'total' if self.driver is None else self.driver.profile.state.effort
        if report == 'without_compensation' and compensation is not None:
            return measured + compensation.update(q, v)
        return measured.copy() if report != 'none' else np.full(len(measured), np.nan)

    def measured_effort(self, z: Array) -> Array:
        """Return a reading of efforts, in the driver's unit, as N m or N."""
        return z if self.driver is None else self.driver.measured_effort(z)

    def write(self, effort: Array, share: Array | None = None, q: Array | None = None) -> None:
        """Turn efforts into ``command``, and positions into ``overlaid`` if the driver wants any.

        Args:
            effort: Shape (n,), N m or N in the model's order. Joints that share motors are scaled
                there so that no motor passes its limit: what is left is what is commanded.
            share: What the driver adds by itself, shape (n,), N m or N; None: nothing.
            q: Where the arm is, shape (n,), rad or m; None: where it was at the last call.
        """
        driver, motors = self.driver, effort
        if driver is not None and driver.transmissions:
            motors = self._motors
            for one in driver.transmissions:
                one.within_limits(effort, share)
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
        """Return the efforts, N m or N in the model's order, of a command, new array, (n,)."""
        ordered = np.empty(len(command))
        ordered[self.order] = command
        return ordered if self.driver is None else self.driver.commanded_effort(ordered)


def velocity_filter(n: int, driver: DriverConversion | None) -> FilteredDerivative | None:
    """Return what makes n velocities of positions, if a driver's profile asks for it."""
    if driver is None or driver.profile.state.cutoff_hz is None:
        return None
    state = driver.profile.state
    return FilteredDerivative(n, float(state.cutoff_hz or 0.0), state.timeout_s)


def command_order(joints: Sequence[str], tree: RobotTree) -> Array:
    """Return the model index of each commanded joint, shape (n,); refuse an incomplete list."""
    names = [name for name in joints if name] or list(tree.joint_names)
    order = [tree.joint_index(name) for name in names]
    if sorted(order) != list(range(tree.n)):
        known = ', '.join(tree.joint_names)
        raise ParameterError('joints', names, f'must name each of {known} once')
    return np.array(order, dtype=np.intp)


class DriverCompensation:
    r"""What a driver compensates: gravity, friction, both or nothing.

    .. math:: \tau_{driver} = g(q) + b\,v + \tau_c \tanh(v / v_s)

    A law computes all that the motors shall give; the driver receives that less its share, at the
    state of the tick.

    Validity: as far as the driver's model is ours. The friction is the description's.

    Attributes:
        terms: What is compensated.

    Args:
        tree: Gives friction.
        gravity_forces: Kernel of the gravity that the driver compensates: with or without what is
            carried.
        terms: Any of 'gravity' and 'friction'.
    """

    def __init__(self, tree: RobotTree, gravity_forces: Kernel, terms: Collection[str]) -> None:
        self.terms = tuple(terms)
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
