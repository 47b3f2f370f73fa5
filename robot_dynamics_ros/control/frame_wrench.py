# SPDX-License-Identifier: Apache-2.0
"""Joint efforts of wrenches at a frame: streamed wrenches and those of a force-torque sensor."""

from __future__ import annotations

import math

import numpy as np

from robot_dynamics_ros.control.laws.control_law import ExternalEffort
from robot_dynamics_ros.control.trajectories.target_stream import TargetSettings
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import compile_kernel

#: Timeout of a force-torque sensor.
_TIMEOUT_NS = 100_000_000
_SMALL = 1e-9  # N, N m: a smaller wrench is not applied any more


class FrameEfforts:
    r"""Converts wrenches at a frame into efforts :math:`J^Tw`; allocates nothing.

    Args:
        tree: The robot.
        frame: Name of a link.

    Raises:
        UnknownNameError: There is no such frame.
    """

    def __init__(self, tree: RobotTree, frame: str) -> None:
        kernels = compile_kernel(tree, outputs=('frame_pose', 'frame_jacobian'), frame=frame)
        self._pose, self._jacobian = kernels.frame_pose, kernels.frame_jacobian
        self._R, self._p, self._J = np.zeros((3, 3)), np.zeros(3), np.zeros((6, tree.n))
        self._base = np.zeros(6)

    def write(self, q: Array, wrench: Array, in_frame: bool, out: Array) -> None:
        """Compute the efforts of a wrench, (6,), in the axes of the frame or of the base."""
        self._jacobian(q, self._J)
        base = self._base
        base[:] = wrench
        if in_frame:
            self._pose(q, self._R, self._p)
            np.dot(self._R, wrench[:3], out=base[:3])
            np.dot(self._R, wrench[3:], out=base[3:])
        np.dot(base, self._J, out=out)


class ForceSensor:
    """External effort on the arm, from a force-torque sensor or else from the observer.

    Attributes:
        external: The effort for laws.
        frame: Link of the last measured wrench; empty before the first.

    Args:
        tree: The robot.
    """

    def __init__(self, tree: RobotTree) -> None:
        self.tree, self.external = tree, ExternalEffort(tree.n)
        self._efforts: FrameEfforts | None = None
        self.frame = ''
        self._wrench, self._now_ns, self._received_ns = np.zeros(6), 0, -_TIMEOUT_NS

    def store(self, frame: str, efforts: FrameEfforts, wrench: Array) -> None:
        """Store a wrench measured at a frame, in its axes, shape (6,), N and N m."""
        self.frame, self._efforts = frame, efforts
        self._wrench[:] = wrench
        self._received_ns = self._now_ns

    def efforts(self, frame: str) -> FrameEfforts:
        """Return the converter of wrenches at a frame; a new frame is compiled."""
        efforts = self._efforts if frame == self.frame else None
        return efforts or FrameEfforts(self.tree, frame)

    def update(self, now_ns: int, q: Array) -> None:
        """Update ``external`` by the last measured wrench at a state's timestamp, ns."""
        self._now_ns, external, efforts = now_ns, self.external, self._efforts
        external.measured = efforts is not None and 0 <= now_ns - self._received_ns < _TIMEOUT_NS
        if external.measured and efforts is not None:
            efforts.write(q, self._wrench, True, external.effort)
            external.known = True

    def observe(self, effort: Array, known: bool) -> None:
        """Store observed efforts, shape (n,), N m or N, unless a sensor measures the wrench."""
        external = self.external
        if not external.measured:
            external.known = known
            external.effort[:] = effort if known else 0.0


class TargetWrench:
    """Efforts of a filtered wrench at a frame.

    Attributes:
        active: Whether a wrench acts.

    Args:
        tree: The robot.
        settings: Frame, bandwidth, timeout.

    Raises:
        UnknownNameError: The robot has no such frame.
    """

    def __init__(self, tree: RobotTree, settings: TargetSettings) -> None:
        self._efforts = FrameEfforts(tree, settings.target_frame)
        self._target, self._first_stage, self._wrench = np.zeros(6), np.zeros(6), np.zeros(6)
        self._effort = np.zeros(tree.n)
        self._limits = tuple(settings.target_wrench_limit)
        self._bandwidth = settings.target_bandwidth
        self._timeout_ns = round(1e9 * settings.target_timeout_s)
        self._in_frame, self.active = False, False
        self._now_ns = self._received_ns = 0

    def aim(self, wrench: Array, in_frame: bool) -> None:
        """Set the target wrench.

        Args:
            wrench: Force and torque to be exerted by the arm, shape (6,), N and N m.
            in_frame: Whether its components are in the axes of the frame; else of the base.

        Raises:
            ConfigurationError: The axes differ from those of the wrench that still acts.
        """
        if in_frame != self._in_frame and self.active:
            raise ConfigurationError(
                'target_wrench', 'changes its axes while it acts', 'keep the frame_id'
            )
        self._in_frame = in_frame
        for part, limit in zip((slice(3), slice(3, 6)), self._limits, strict=True):
            size = float(np.linalg.norm(wrench[part]))
            self._target[part] = wrench[part] * (limit / size if size > limit else 1.0)
        self._received_ns, self.active = self._now_ns, True

    def add(self, now_ns: int, q: Array, effort: Array, gain: float = 1.0) -> None:
        """Add the wrench's efforts at a timestamp, ns, times a gain, to ``effort``, shape (n,)."""
        h, self._now_ns = 1e-9 * (now_ns - self._now_ns), now_ns
        if not self.active:
            return
        if now_ns - self._received_ns > self._timeout_ns:
            self._target.fill(0.0)
        part = -math.expm1(-self._bandwidth * min(max(h, 0.0), 0.02))
        self._first_stage += part * (self._target - self._first_stage)
        self._wrench += part * (self._first_stage - self._wrench)
        if not self._target.any() and np.abs(self._wrench).max() < _SMALL:
            self.active = False
        self._efforts.write(q, self._wrench, self._in_frame, self._effort)
        self._effort *= gain
        effort += self._effort
