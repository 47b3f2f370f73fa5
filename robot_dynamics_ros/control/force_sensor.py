# SPDX-License-Identifier: Apache-2.0
r"""The wrench of a force-torque sensor, without the weight of the tool that the sensor carries.

At rest, in the axes of the sensor's link, with its rotation R and the gravity g of the base,

.. math:: f = f_{ext} + mR^Tg + b_f,\qquad t = t_{ext} + c \times mR^Tg + b_t .

Weight and bias b are subtracted once, where a measurement is stored; all else reads the rest, the
wrench of the environment. The weight is that at the last state before the measurement.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_dynamics_ros.control.laws.control_law import ExternalEffort
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.parameters import Settings, parameter, parameters_of
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import compile_kernel

_TIMEOUT_NS = 100_000_000  # of the sensor
_MAX_SAMPLES, _SPAN_NS = 500, 1_000_000_000  # most and oldest measurements that a tare averages
MAX_WRENCH = 1e6  # N and N m: larger values are invalid


@dataclass(frozen=True)
class SensorTool(Settings):
    """What a force-torque sensor measures without contact.

    Each field declares the parameter of its name, see ``SENSOR``.
    """

    sensor_frame: str = parameter(
        '',
        'Link of the force-torque sensor on ~/measured_wrench, to which sensor_tool_com and '
        'sensor_bias belong; measurements at other links are refused, and the first one acts at '
        'once; empty: any link, compiled for while the arm moves on.',
    )
    sensor_tool_mass: float = parameter(
        0.0, 'Mass that the sensor carries, see command weigh_tool; 0: none.', 0.0, 1e6, unit='kg'
    )
    sensor_tool_com: Any = parameter(
        [0.0] * 3, "Its centre of mass in the sensor's link.", -1e3, 1e3, unit='m', size=3
    )
    sensor_bias: Any = parameter(
        [0.0] * 6,
        'Wrench that the sensor reports without weight and contact; set by ~/tare_wrench, too.',
        -MAX_WRENCH,
        MAX_WRENCH,
        unit='N and N m',
        size=6,
        entries='force x, y, z, torque x, y, z',
    )

    def weight(self, gravity: Array) -> Array:
        """Return the wrench of the tool's weight.

        Args:
            gravity: In the axes of the sensor's link, shape (3,), m/s^2.

        Returns:
            New array, shape (6,), N and N m.
        """
        force = self.sensor_tool_mass * gravity
        return np.concatenate([force, np.cross(self.sensor_tool_com, force)])

    def check(self, tree: Robot) -> None:
        """Check that the robot moves the sensor's link.

        Raises:
            UnknownNameError: There is no such link; lists those that exist.
            ModelError: It is fixed to the base.
        """
        if self.sensor_frame:
            tree.moving_frame(self.sensor_frame, 'sensor_frame')


SENSOR = parameters_of(SensorTool)


class FrameEfforts:
    r"""Converts wrenches at a frame into efforts :math:`J^Tw`; allocates nothing.

    Args:
        tree: The robot.
        frame: Name of a link.

    Raises:
        UnknownNameError: There is no such frame.
        ModelError: It is fixed to the base.
    """

    def __init__(self, tree: Robot, frame: str) -> None:
        tree.moving_frame(frame)
        kernels = compile_kernel(tree, outputs=('frame_pose', 'frame_jacobian'), frame=frame)
        self._pose, self._jacobian = kernels.frame_pose, kernels.frame_jacobian
        self._R, self._p, self._J = np.zeros((3, 3)), np.zeros(3), np.zeros((6, tree.n))
        self._base = np.zeros(6)

    def rotation(self, q: Array) -> Array:
        """Return the rotation of the frame in the base, (3, 3); overwritten by the next call."""
        self._pose(q, self._R, self._p)
        return self._R

    def write(self, q: Array, wrench: Array, in_frame: bool, out: Array) -> None:
        """Compute the efforts of a wrench, (6,), in the axes of the frame or of the base."""
        self._jacobian(q, self._J)
        base = self._base
        base[:] = wrench
        if in_frame:
            R = self.rotation(q)
            np.dot(R, wrench[:3], out=base[:3])
            np.dot(R, wrench[3:], out=base[3:])
        np.dot(base, self._J, out=out)


class ForceSensor:
    """External effort on the arm, from a force-torque sensor or else from the observer.

    Attributes:
        external: The effort for laws.
        frame: Link of the last or the expected measured wrench; empty if none is expected.
        tool: Weight and bias that are subtracted from measurements.

    Args:
        tree: The robot.
    """

    def __init__(self, tree: Robot) -> None:
        self.tree, self._compiled = tree, dict[str, FrameEfforts]()
        self.frame, self.tool = '', SensorTool()
        self._wrench = np.zeros(6)
        self.begin()
        # Timestamps and wrenches, with the bias, since the arm has been at rest.
        self._samples: deque[tuple[int, Array]] = deque(maxlen=_MAX_SAMPLES)

    def begin(self) -> None:
        """Begin without an external effort: what was measured before is old."""
        self.external, self._received_ns = ExternalEffort(self.tree.n), -_TIMEOUT_NS

    def expect(self, frame: str) -> None:
        """Compile the converter of a link, so that its first measurement acts at once.

        Raises:
            UnknownNameError: There is no such link.
        """
        self.frame = frame
        self.efforts(frame)

    def carry(self, tool: SensorTool) -> None:
        """Subtract other parameters from the next measurement on.

        Raises:
            UnknownNameError: The robot has no such ``sensor_frame``.
        """
        tool.check(self.tree)
        weighed = (self.tool.sensor_tool_mass, self.tool.sensor_tool_com)
        if (tool.sensor_tool_mass, tool.sensor_tool_com) != weighed:
            self._samples.clear()
        self.tool = tool

    def store(self, frame: str, wrench: Array, now_ns: int, q: Array, *, resting: bool) -> None:
        """Store a measured wrench.

        Args:
            frame: Link of the sensor.
            wrench: Shape (6,), in the axes of the link, N and N m; kept.
            now_ns: Timestamp of the last state, ns.
            q: Its positions, shape (n,), rad or m.
            resting: Whether the arm is at rest.

        Raises:
            ConfigurationError: Bias and tool belong to another frame.
            UnknownNameError: There is no such frame.
        """
        if self.tool.sensor_frame not in ('', frame):
            raise ConfigurationError(
                'measured wrench',
                f'is at {frame!r}, but bias and tool are given at sensor_frame '
                f'{self.tool.sensor_frame!r}',
                'weigh the tool there, or correct the frame_id',
            )
        efforts = self.efforts(frame)
        if frame != self.frame or not resting:
            self._samples.clear()
        self.frame = frame
        if self.tool.sensor_tool_mass:
            wrench = wrench - self.tool.weight(efforts.rotation(q).T @ self.tree.gravity)
        if resting:
            self._samples.append((now_ns, wrench))
        np.subtract(wrench, self.tool.sensor_bias, out=self._wrench)
        self._received_ns = now_ns
        self.external.step()

    def bias(self, now_ns: int) -> tuple[Array, int]:
        """Return the bias with which the arm, at rest, feels no external wrench.

        Args:
            now_ns: Timestamp of the last state, ns.

        Returns:
            Shape (6,), N and N m, and of how many measurements it is the mean.

        Raises:
            ConfigurationError: Nothing was measured lately at rest.
        """
        if not 0 <= now_ns - self._received_ns < _TIMEOUT_NS or not self._samples:
            problem = f'no wrench was measured within {1e-9 * _TIMEOUT_NS:g} s at rest'
            raise ConfigurationError('tare', problem, 'publish it on ~/measured_wrench')
        used = [wrench for time, wrench in self._samples if 0 <= now_ns - time <= _SPAN_NS]
        return np.mean(used, axis=0), len(used)

    def efforts(self, frame: str) -> FrameEfforts:
        """Return the converter of wrenches at a frame; compiled at first, in any thread.

        Raises:
            UnknownNameError: There is no such frame.
        """
        if not self.has_compiled(frame):
            self._compiled.setdefault(frame, FrameEfforts(self.tree, frame))
        return self._compiled[frame]

    def has_compiled(self, frame: str) -> bool:
        """Return whether ``efforts`` is fast."""
        return frame in self._compiled

    def update(self, now_ns: int, q: Array) -> None:
        """Update ``external`` by the last measured wrench at a state's timestamp, ns."""
        external = self.external
        external.sense(0 <= now_ns - self._received_ns < _TIMEOUT_NS)
        if external.measured:
            self.efforts(self.frame).write(q, self._wrench, True, external.effort)
