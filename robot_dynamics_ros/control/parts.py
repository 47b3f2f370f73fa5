# SPDX-License-Identifier: Apache-2.0
"""Parts of a controller session, and how parameters, models and streamed targets update them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from robot_dynamics_ros.control.contact_watch import FOLLOWING, ContactWatch
from robot_dynamics_ros.control.drivers.driver_interface import DriverInterface
from robot_dynamics_ros.control.force_sensor import SensorTool
from robot_dynamics_ros.control.goals import GOALS, GoalTracker, joint_tolerances
from robot_dynamics_ros.control.laws.control_law import ControlLaw
from robot_dynamics_ros.control.laws.registry import law_class
from robot_dynamics_ros.control.loop import ControlLoop
from robot_dynamics_ros.control.settings import EnablingSwitch, LockedJointWatch
from robot_dynamics_ros.control.setup import (
    PARAMETERS,
    build_loop,
    selected_law,
    with_driver,
)
from robot_dynamics_ros.control.targets import TargetFilter, TargetSettings, TargetWrench
from robot_dynamics_ros.control.trajectories.reference_generator import ReferenceGenerator
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.kinematics.numeric import nearest_configuration
from robot_dynamics_ros.model import Robot, frame_pose
from robot_dynamics_ros.model.kinematics import FramePose
from robot_dynamics_ros.model.robot_parameters import with_locked
from robot_dynamics_ros.parameters import checked, defaults
from robot_dynamics_ros.spatial.rotation import rotation_from_xyzw, rotation_vector
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.spatial.validation import array, as_finite_array

#: Distance, m, and angle, rad, up to which a target counts as reached; distance, m, beyond which
#: it is refused instead of approached.
_NEAR, _ALIGNED, _FAR = 1e-3, 0.02, 0.1
#: Deviation of a measured effort from gravity that is reported, relative to its limit, beyond the
#: friction.
_UNEXPECTED = 0.2


class StreamedTargets:
    """Converts streamed targets into references or wrenches of a control loop.

    ``joints``, ``pose`` and ``wrench`` do not change anything and may run in the background; apply
    their results with ``follow`` and ``apply_wrench``.

    Attributes:
        shortfall: Sentence on the last target if it is out of reach, so that the nearest one is
            followed; empty if it is not.

    Args:
        loop: The loop.
        parameters: Parameters by name, see ``TARGETS``.
        locked: Positions of the locked joints.
    """

    def __init__(
        self, loop: ControlLoop, parameters: Mapping[str, Any], locked: LockedJointWatch
    ) -> None:
        self._loop, self._tree, self._locked = loop, loop.tree, locked
        self.shortfall = ''
        self._wrench: TargetWrench | None = None
        self.configure(parameters)

    def configure(self, parameters: Mapping[str, Any]) -> None:
        """Apply parameters; an active wrench continues to act."""
        settings = TargetSettings.of(parameters)
        if settings == getattr(self, '_settings', None):
            return
        self._settings, self._filter = settings, TargetFilter(self._tree, settings)
        if self._wrench is not None:
            self._wrench.configure(settings)

    def joints(self, names: Sequence[str], position: Sequence[float]) -> Array:
        """Return target positions of all joints; joints not named keep their present target.

        Args:
            names: Names of the joints; empty: all joints of the robot.
            position: Their targets, rad or m.

        Returns:
            Shape (n,), rad or m.

        Raises:
            UnknownNameError: There is no such joint.
            ConfigurationError: The law follows no reference, or the number of positions is wrong.
        """
        self._require_reference('target_joint')
        tree, values = self._tree, as_finite_array('target_joint', position)
        named = tuple(names) or tree.joint_names
        if values.shape != (len(named),):
            raise ConfigurationError(
                'target_joint', f'has {values.size} positions', f'{len(named)} joints are named'
            )
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
            ConfigurationError: The law follows no reference, the pose is invalid or far out of
                reach, or the frame's place is not that of the model.
            UnknownNameError: There is no such frame; lists those that exist.
        """
        self._require_reference('target_pose')
        base, tree, frame = (
            self._frame('target_pose', axes, q),
            self._tree,
            self._settings.target_frame,
        )
        p, quat = (
            as_finite_array('target_pose', position),
            as_finite_array('target_pose', quaternion),
        )
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
        return self._loop.generator.aim(target, self._filter)

    def wrench(
        self, axes: str, wrench: Sequence[float], q: Array | None = None
    ) -> tuple[TargetWrench, Array, bool]:
        """Return the adder of a wrench, the wrench, and whether it is given in ``target_frame``.

        Args:
            axes: Link in the axes of whose frame the components are; those of ``target_frame``
                turn with it, those of other links do not.
            wrench: Force and torque to be exerted by the arm, shape (6,), N and N m.
            q: Joint positions, see :meth:`pose`.

        Raises:
            ConfigurationError: The law is not compliant, so that it cannot apply a wrench.
            UnknownNameError: There is no such frame; lists those that exist.
        """
        law = self._loop.law
        if not law.yields:
            raise ConfigurationError(
                'target_wrench', f'law {law.name!r} does not yield to a wrench', 'use impedance'
            )
        values, in_frame = (
            array('target_wrench', wrench, (6,)),
            axes == self._settings.target_frame,
        )
        if not in_frame:
            R = self._frame('target_wrench', axes, q).R_WF
            values = np.concatenate([R @ values[:3], R @ values[3:]])
        known = None if self.is_at_new_frame else self._wrench
        adder = known or TargetWrench(self._tree, self._settings)
        return adder, values, in_frame

    @property
    def is_at_new_frame(self) -> bool:
        """Whether the next wrench acts at a frame that must be compiled."""
        return self._wrench is None or self._wrench.frame != self._settings.target_frame

    def apply_wrench(self, adder: TargetWrench, wrench: Array, in_frame: bool) -> None:
        """Apply a wrench from now on.

        Raises:
            ConfigurationError: A wrench acts at another frame or in other axes.
        """
        acting = self._loop.wrench
        if acting is not None and acting.active and acting.frame != adder.frame:
            raise ConfigurationError(
                'target_wrench', 'changes its frame while it acts', 'wait until it has faded'
            )
        if acting is not adder:
            adder.reset()
        adder.aim(wrench, in_frame)
        self._wrench = adder
        self._loop.exert(adder)

    def _require_reference(self, subject: str) -> None:
        law = self._loop.law
        if not law.follows_reference:
            raise ConfigurationError(
                subject, f'law {law.name!r} follows no reference', 'switch to one that does'
            )

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


#: All parameters of a controller session except ``joint_tolerances``.
DECLARED = (*PARAMETERS, *GOALS)
#: Time between two commands of the stop action while no states arrive, ns.
STOP_PERIOD_NS = 20_000_000


class ControllerParts:
    """Control loop of one robot with all parts around it except the modes of the session.

    Args:
        tree: The robot without its payload.
        parameters: By name, see ``declared``; unknown ones are stored but have no effect.
        driver: Interface to the driver, of which the profile is used; None: no profile.
        generator: Reference generator; a trajectory follower if None.

    Attributes:
        tree: The robot without its payload; replaced by ``install``.
        declared: Declarations of its parameters.
        parameters: By name; replaced by changes.
        loop: The control loop; read only.
        driver: Interface to the driver.
        goals: Monitor of the active goal.
        targets: Conversion of streamed targets.
        contact: Contact detection and reaction.
        locked: Comparison of the locked joints with the model.
        enabling: Enabling switch of laws that need one.
        follower: Law that follows the reference, and so holds the arm, while the selected law does
            not act; None: not needed.
        carrying: Whether the arm carries the payload of the parameters.
        source: Name of the states' source in remarks.

    Raises:
        RobotDynamicsError: A parameter is rejected.
    """

    def __init__(
        self,
        tree: Robot,
        parameters: Mapping[str, Any] | None = None,
        driver: DriverInterface | None = None,
        generator: ReferenceGenerator | None = None,
    ) -> None:
        self.declared = (*DECLARED, *joint_tolerances(tree.joint_names))
        values = {**defaults(self.declared), **(parameters or {})}
        self.parameters: dict[str, Any] = checked(self.declared, values, tree.n)
        self._generator, self.carrying = generator, True
        profile = driver.profile if driver is not None and driver.has_profile else None
        self.driver = DriverInterface(profile, tree, self.parameters['joints'])
        self.enabling = EnablingSwitch()
        self.source = 'joint_states'
        self._received_ns: int | None = None
        self.install(tree, self.built_for(tree))
        self.loop.generator.speed.target = self.parameters['speed_scaling.initial_scaling_factor']

    def built_for(self, tree: Robot) -> ControlLoop:
        """Return a new loop for a model, with the present parameters; in any thread.

        Raises:
            RobotDynamicsError: A parameter is rejected.
        """
        loop = build_loop(tree, self.driven(self.parameters), self.driver, self._generator)
        if not self.carrying:
            loop.set_payload(None)
        return loop

    def install(self, tree: Robot, loop: ControlLoop) -> None:
        """Take a model and its loop, and make the parts that depend on them.

        Args:
            tree: The robot without its payload, with the joints of the driver.
            loop: See :meth:`built_for`.
        """
        loop.change_sensor_tool(SensorTool.of(self.parameters))
        self.tree, self.loop = tree, loop
        kernels: Any = loop.kernels
        self.driver.compensate(kernels.gravity_forces, kernels.bare.gravity_forces)
        self.goals = GoalTracker(loop)
        self.locked = LockedJointWatch(tree, self.parameters)
        self.targets = StreamedTargets(loop, self.parameters, self.locked)
        self.follower = self.make_follower(self.driven(self.parameters))
        self.contact = ContactWatch(loop, self.parameters, self.follower)
        self.enabling.configure(self.parameters, loop.law.needs_enabling)

    def configure(self, parameters: dict[str, Any], follower: ControlLaw | None) -> None:
        """Apply changed parameters to all parts except the loop.

        Args:
            parameters: All parameters.
            follower: Built from them; an existing follower is kept with the new parameters.
        """
        self.parameters = parameters
        former, self.follower = self.follower, follower
        if former is not None and follower is not None:
            self.loop.replace(former, follower)
        self.targets.configure(parameters)
        self.loop.change_sensor_tool(SensorTool.of(parameters))
        self.contact.configure(parameters, self.follower)
        self.locked.configure(parameters)
        self.enabling.configure(parameters, self.loop.law.needs_enabling)

    def driven(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return parameters with those overridden by the driver profile."""
        return with_driver(parameters, self.driver)

    def published_parameters(self) -> dict[str, Any]:
        """Return the parameters, with joints locked as ``measured`` where they are in the model.

        Without the description, which has its own topic.
        """
        return {**with_locked(self.parameters, self.locked.taken), 'robot_description': ''}

    def make_follower(self, driven: Mapping[str, Any]) -> ControlLaw | None:
        """Return the law that holds the arm while the selected law does not act, if needed.

        Args:
            driven: Parameters with those overridden by the driver profile.

        Raises:
            ParameterError: Law computed_torque rejects one of its parameters.
        """
        guided = law_class(driven['law']).needs_enabling
        if not guided and driven['contact_reaction'] not in FOLLOWING:
            return None
        return self.make_law({**driven, 'law': 'computed_torque'})

    def make_law(self, parameters: Mapping[str, Any]) -> ControlLaw:
        """Return a new law for the present model, see ``selected_law``."""
        return selected_law(self.tree, self.loop.kernels, parameters)

    def unexpected_effort(self) -> str:
        """Return which measured effort differs most from the gravity of the model; '' if none.

        Efforts that are all zero are unknown, or those of brakes.
        """
        measured, tree = self.loop.measured_effort, self.tree
        if not measured.any():
            return ''
        gravity = np.zeros(tree.n)
        self.loop.kernels.gravity_forces(self.loop.q, gravity)
        expected = tree.coulomb_friction + _UNEXPECTED * tree.effort_limit
        excess = np.abs(measured - gravity) - expected
        if not (excess > 0.0).any():  # those that are NaN are unknown
            return ''
        i = int(np.nanargmax(excess))
        unit = 'N' if tree.joint_is_prismatic[i] else 'N m'
        return (
            f'joint {tree.joint_names[i]!r} is held with {measured[i]:.3g} {unit}, but by the '
            f'model gravity takes {gravity[i]:.3g} {unit}: check model, payload and brakes'
        )

    @property
    def heard(self) -> bool:
        """Whether a valid state has ever been received."""
        return self._received_ns is not None

    def patience_ns(self, now_ns: int) -> int:
        """Return the time until the next call of ``watch``, ns."""
        if self._received_ns is None or self.is_silent(now_ns):
            return STOP_PERIOD_NS
        return self._timeout_ns - (now_ns - self._received_ns)

    def is_silent(self, now_ns: int) -> bool:
        """Return whether the last state has timed out at a time on the arrivals' clock, ns."""
        return self._received_ns is None or now_ns - self._received_ns >= self._timeout_ns

    def silence(self) -> str:
        """Return the error text of a state timeout, with the reason if it is known."""
        refused = self.loop.state.last_refusal
        why = f' (last one refused: {refused})' if refused else ''
        return f'no fresh state on {self.source} within {1e-9 * self._timeout_ns:g} s{why}'

    @property
    def _timeout_ns(self) -> int:
        return round(1e9 * self.loop.settings.state_timeout_s)
