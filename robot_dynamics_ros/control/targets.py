# SPDX-License-Identifier: Apache-2.0
"""Targets that stream to a session: joints, poses of a frame, wrenches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from robot_dynamics_ros.control.frame_wrench import TargetWrench
from robot_dynamics_ros.control.loop import ControlLoop
from robot_dynamics_ros.control.trajectories.target_stream import TargetFilter, TargetSettings
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.kinematics.numeric import nearest_configuration
from robot_dynamics_ros.spatial.linear_algebra import array, numbers
from robot_dynamics_ros.spatial.rotation import rotation_from_quaternion
from robot_dynamics_ros.spatial.scalar import Array


class StreamedTargets:
    """Turns what a stream asks for into a reference, or a wrench, of a loop.

    ``joints``, ``pose`` and ``wrench`` only read and may run beside the ticks; what they return
    is taken over by ``follow`` and ``press``.

    Args:
        loop: The loop.
        parameters: Parameters by name, see ``TARGETS``.
    """

    def __init__(self, loop: ControlLoop, parameters: Mapping[str, Any]) -> None:
        self._loop, self._tree = loop, loop.tree
        self.configure(parameters)

    def configure(self, parameters: Mapping[str, Any]) -> None:
        """Take over parameters; a wrench that acts is kept."""
        settings = TargetSettings.of(parameters)
        if settings == getattr(self, '_settings', None):
            return
        self._settings, self._filter = settings, TargetFilter(self._tree, settings)
        self._wrench: TargetWrench | None = None

    def joints(self, names: Sequence[str], position: Sequence[float]) -> Array:
        """Return where all joints shall go; those that are not named stay where they are led.

        Raises:
            UnknownNameError: There is no such joint.
            ConfigurationError: The law follows no reference, or the numbers do not fit.
        """
        self._require_follower('target_joint')
        tree, values = self._tree, numbers('target_joint', position)
        named = tuple(names) or tree.joint_names
        if values.shape != (len(named),):
            raise ConfigurationError(
                'target_joint', f'has {values.size} positions', f'{len(named)} joints are named'
            )
        target = self._loop.generator.target.copy()
        for name, value in zip(named, values, strict=True):
            target[tree.joint_index(name)] = value
        return target

    def pose(self, axes: str, position: Sequence[float], quaternion: Sequence[float]) -> Array:
        """Return where the joints shall go for a pose of ``target_frame``, or the nearest to it.

        Args:
            axes: The frame in which it is given: the base, which may be left out.
            position: m, shape (3,).
            quaternion: x, y, z, w; all zero: any rotation will do.

        Raises:
            ConfigurationError: The law follows no reference, or the pose is none.
            UnknownNameError: There is no such frame.
        """
        self._require_follower('target_pose')
        self._require_base('target_pose', axes)
        p, quat = numbers('target_pose', position), numbers('target_pose', quaternion)
        R = rotation_from_quaternion(quat) if quat.any() else None
        frame = self._settings.target_frame
        return nearest_configuration(self._tree, p, R, frame, self._loop.generator.target)

    def follow(self, target: Array) -> bool:
        """Go for joint positions from now on; return whether nothing streamed before."""
        return self._loop.generator.aim(target, self._filter)

    def wrench(self, axes: str, wrench: Sequence[float]) -> tuple[TargetWrench, Array, bool]:
        """Return what adds a wrench to the law's efforts, the wrench, and whether in its frame.

        Args:
            axes: ``target_frame``, or the base, which may be left out.
            wrench: Force and torque that the arm shall exert, shape (6,), N and N m.

        Raises:
            ConfigurationError: The law does not yield, so that a wrench means nothing to it.
            UnknownNameError: There is no such frame.
        """
        law = self._loop.law
        if not law.yields:
            raise ConfigurationError(
                'target_wrench', f'law {law.name!r} does not yield to a wrench', 'use impedance'
            )
        in_frame = axes == self._settings.target_frame
        if not in_frame:
            self._require_base('target_wrench', axes)
        adder = self._wrench or TargetWrench(self._tree, self._settings)
        return adder, array('target_wrench', wrench, (6,)), in_frame

    def press(self, adder: TargetWrench, wrench: Array, in_frame: bool) -> None:
        """Press with a wrench from now on; errors as in :class:`TargetWrench`."""
        self._wrench = adder
        self._loop.added = adder
        adder.aim(wrench, in_frame)

    def _require_follower(self, subject: str) -> None:
        law = self._loop.law
        if not law.follows_reference:
            raise ConfigurationError(
                subject, f'law {law.name!r} follows no reference', 'switch to one that does'
            )

    def _require_base(self, subject: str, axes: str) -> None:
        base = self._tree.base_link
        if axes not in ('', base):
            raise ConfigurationError(subject, f'is given in {axes!r}', f'give it in {base!r}')
