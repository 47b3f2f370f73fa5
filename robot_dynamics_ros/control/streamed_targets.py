# SPDX-License-Identifier: Apache-2.0
"""Messages of streamed targets and wrenches as references and efforts of a control loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from robot_dynamics_ros.control.force_sensor import MAX_WRENCH
from robot_dynamics_ros.control.loop import ControlLoop
from robot_dynamics_ros.control.safety.state_validator import MAX_POSITION
from robot_dynamics_ros.control.settings import LockedJointWatch
from robot_dynamics_ros.control.targets import TargetSettings, target_limits
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.kinematics.numeric import nearest_configuration
from robot_dynamics_ros.model import frame_pose
from robot_dynamics_ros.model.kinematics import FramePose
from robot_dynamics_ros.parameters import Values
from robot_dynamics_ros.spatial.rotation import rotation_from_xyzw, rotation_vector
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.spatial.validation import array
from robot_dynamics_ros.yaml_reader import each_once

#: Distance, m, and angle, rad, up to which a target counts as reached; distance, m, beyond which
#: it is refused instead of approached.
_NEAR, _ALIGNED, _FAR = 1e-3, 0.02, 0.1


class StreamedTargets:
    """Converts streamed targets into references or wrenches of a control loop.

    ``joints`` and ``pose`` do not change anything and may run in the background; apply their
    results with ``follow``. ``exert`` acts at once.

    Attributes:
        shortfall: Sentence on the last target if it is out of reach, so that the nearest one is
            followed; empty if it is not.

    Args:
        loop: The loop.
        parameters: Parameters by name, see ``TARGETS``.
        locked: Positions of the locked joints.
    """

    def __init__(self, loop: ControlLoop, parameters: Values, locked: LockedJointWatch) -> None:
        self._loop, self._tree, self._locked = loop, loop.tree, locked
        self.shortfall = ''
        self.configure(parameters)

    def configure(self, parameters: Values) -> None:
        """Apply parameters; a wrench that acts continues to."""
        settings = TargetSettings.of(parameters)
        if settings == getattr(self, '_settings', None):
            return
        self._settings, self._limits = settings, target_limits(self._tree, settings)
        self._loop.wrench.configure(settings)

    def joints(self, names: Sequence[str], position: Sequence[float]) -> Array:
        """Return target positions of all joints; joints not named keep their present target.

        Args:
            names: Names of the joints; empty: all joints of the robot.
            position: Their targets, rad or m.

        Returns:
            Shape (n,), rad or m.

        Raises:
            UnknownNameError: There is no such joint.
            ShapeError, ParameterError, NonFiniteError: The positions are no list of numbers.
            ConfigurationError: A position is enormous, their number is wrong, or a joint is named
                twice.
        """
        tree, values = self._tree, _plausible('target_joint', position, 'joints')
        named = tuple(names) or tree.joint_names
        if values.shape != (len(named),):
            raise ConfigurationError(
                'target_joint', f'has {values.size} positions', f'{len(named)} joints are named'
            )
        each_once('target_joint', named)
        before = self._loop.generator.target
        target = before.copy()
        for name, value in zip(named, values, strict=True):
            target[tree.joint_index(name)] = value
        excess = np.maximum(target - tree.reference_upper, tree.reference_lower - target)
        worst = int(excess.argmax())
        self._report(f'joint {tree.joint_names[worst]!r}', excess[worst], _NEAR, 'rad or m')
        return tree.nearest_turn(target, before)

    def pose(
        self,
        axes: str,
        position: Sequence[float],
        quaternion: Sequence[float],
        q: Array | None = None,
    ) -> Array:
        """Return joint targets for a pose of ``target_frame``, or for the nearest reachable one.

        Args:
            axes: Link in whose frame the pose is given.
            position: m, shape (3,).
            quaternion: x, y, z, w; all zero: any orientation.
            q: Joint positions at which that link is, shape (n,), rad or m; the measured ones if
                None.

        Returns:
            Shape (n,), rad or m.

        Raises:
            ShapeError, ParameterError, NonFiniteError: They are no such numbers.
            ConfigurationError: The pose is invalid or far out of reach, or the frame's place is
                not that of the model.
            UnknownNameError: There is no such frame; lists those that exist.
        """
        base, tree, frame = (
            self._frame('target_pose', axes, q),
            self._tree,
            self._settings.target_frame,
        )
        tree.moving_frame(frame, 'target_frame')
        p, quat = _plausible('target_pose', position, 3), _plausible('target_pose', quaternion, 4)
        goal = base.of(rotation_from_xyzw(quat) if quat.any() else np.eye(3), p)
        R = goal.R_WF if quat.any() else None
        q = nearest_configuration(tree, goal.p_WF, R, frame, self._loop.generator.target)
        found = frame_pose(tree, q, frame)
        distance = float(np.linalg.norm(goal.p_WF - found.p_WF))
        if distance > _FAR:
            problem = f'is {distance:.3g} m out of reach from the present target'
            raise ConfigurationError('target_pose', problem, 'give one that the arm can reach')
        turn = np.zeros(3) if R is None or tree.n < 6 else rotation_vector(R @ found.R_WF.T)
        self._report('target_pose', distance, _NEAR, 'm')
        if not self.shortfall:
            self._report('target_pose', float(np.linalg.norm(turn)), _ALIGNED, 'rad')
        return q

    def _report(self, subject: str, excess: float, most: float, unit: str) -> None:
        self.shortfall = (
            f'{subject} is {excess:.3g} {unit} out of reach: following the nearest target'
            if excess > most
            else ''
        )

    def follow(self, target: Array) -> bool:
        """Set the target of all joints, shape (n,); return whether it starts a new stream."""
        return self._loop.generator.aim(target, self._limits)

    def exert(self, axes: str, wrench: Sequence[float] | Array) -> dict[str, Any]:
        """Exert a wrench at ``target_frame`` from now on; the first one there is compiled for.

        Args:
            axes: Link in the axes of whose frame the components are; those of ``target_frame``
                turn with it, those of other links do not.
            wrench: Force and torque to be exerted by the arm, shape (6,), N and N m.

        Returns:
            The same arguments in the axes of ``target_frame`` or the base.

        Raises:
            ConfigurationError: The law is not compliant, so that it cannot apply a wrench, or
                one acts at another frame or in other axes.
            UnknownNameError: There is no such frame; lists those that exist.
        """
        loop, tree, frame = self._loop, self._tree, self._settings.target_frame
        if not loop.law.yields:
            raise ConfigurationError(
                'target_wrench',
                f'law {loop.law.name!r} does not yield to a wrench',
                'use impedance',
            )
        # Limited below; more would overflow in other axes.
        values = array('target_wrench', wrench, (6,)).clip(-MAX_WRENCH, MAX_WRENCH)
        tree.moving_frame(frame, 'target_frame')
        if axes != frame:
            R = self._frame('target_wrench', axes, None).R_WF
            values, axes = np.concatenate([R @ values[:3], R @ values[3:]]), tree.base_link
        loop.wrench.aim(loop.force.efforts(frame), values, axes == frame)
        return {'axes': axes, 'wrench': values.tolist()}

    def _frame(self, subject: str, axes: str, q: Array | None) -> FramePose:
        """Return the pose of a link by the model, if that is where the link is."""
        tree, paths = self._tree, self._tree.lock_paths
        if not axes:
            remedy = f'give {tree.base_link!r}, or another link of the robot'
            raise ConfigurationError(subject, 'has an empty frame_id', remedy)
        pose = frame_pose(tree, self._loop.q.copy() if q is None else q, axes)
        between = {*paths.get(axes, ())} ^ {*paths.get(self._settings.target_frame, ())}
        if moved := self._locked.describe(between):
            raise ConfigurationError(subject, moved, 'give it in a frame that moves with the arm')
        return pose


def _plausible(subject: str, numbers: Sequence[float], size: int | str) -> Array:
    values = array(subject, numbers, (size,))
    if (np.abs(values) > MAX_POSITION).any():
        raise ConfigurationError(subject, f'is {values.tolist()}', 'give it in rad or m')
    return values
