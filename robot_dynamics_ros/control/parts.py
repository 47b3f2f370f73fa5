# SPDX-License-Identifier: Apache-2.0
"""What a controller is made of, and how parameters, a new model and streamed targets reach it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from robot_dynamics_ros.control.contact_watch import ContactWatch
from robot_dynamics_ros.control.drivers.conversion import DriverConversion
from robot_dynamics_ros.control.drivers.port import DriverPort
from robot_dynamics_ros.control.frame_wrench import TargetWrench
from robot_dynamics_ros.control.goals import GOALS, GoalTracker
from robot_dynamics_ros.control.laws.control_law import ControlLaw
from robot_dynamics_ros.control.laws.registry import law_class
from robot_dynamics_ros.control.loop import ControlLoop
from robot_dynamics_ros.control.reactions import FOLLOWING
from robot_dynamics_ros.control.settings import EnablingSwitch, LockedJointWatch
from robot_dynamics_ros.control.setup import PARAMETERS, BuiltLoop, as_driven, build_loop
from robot_dynamics_ros.control.trajectories.reference_generator import ReferenceGenerator
from robot_dynamics_ros.control.trajectories.target_stream import TargetFilter, TargetSettings
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.kinematics.numeric import nearest_configuration
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.parameters import checked, defaults
from robot_dynamics_ros.spatial.linear_algebra import array, numbers
from robot_dynamics_ros.spatial.rotation import rotation_from_quaternion
from robot_dynamics_ros.spatial.scalar import Array


class StreamedTargets:
    """Turns what a stream asks for into a reference, or a wrench, of a loop.

    ``joints``, ``pose`` and ``wrench`` only read and may run in the background; what they return
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


#: What a controller may be told.
DECLARED = (*PARAMETERS, *GOALS)
#: Time between two commands of a stop action without states, ns.
STOP_PERIOD_NS = 20_000_000


class Followers(NamedTuple):
    """What follows the reference, and so holds the arm, while the law does not act.

    Attributes:
        guiding: While a law that needs enabling is not enabled; None: it needs none.
        reacting: After a contact; None: the reaction needs none.
    """

    guiding: ControlLaw | None
    reacting: ControlLaw | None


def _renewed(law: ControlLaw | None, new: ControlLaw | None) -> ControlLaw | None:
    """Return a law with the parameters of a new one: the one that may be acting, if any."""
    if law is None or new is None:
        return new
    law.set_parameters(new.parameters)
    return law


class ControllerParts:
    """The loop of one robot with what surrounds it, and how old its states are; knows no modes.

    Args:
        tree: The robot without what it carries.
        parameters: By name, of ``DECLARED``; unknown ones are kept without effect.
        driver: What stands between model and driver; None: nothing.
        generator: What gives the reference; one that follows trajectories if None.

    Attributes:
        tree: As given, until a locked joint has moved and the model follows.
        parameters: By name; replaced by changes.
        built: The loop and what it was made of.
        loop: The tick; for reading.
        port: Units and order of the driver.
        goals: The goal that is followed.
        targets: What streams.
        contact: External efforts, and what follows from them.
        locked: Whether locked joints stand where the model has them.
        enabling: Whether a law that needs it is enabled.
        followers: What acts while the law does not.
        carrying: Whether the payload of the parameters is carried.
        source: What the states are called in remarks.

    Raises:
        RobotDynamicsError: A parameter is refused.
    """

    def __init__(
        self,
        tree: RobotTree,
        parameters: Mapping[str, Any] | None = None,
        driver: DriverConversion | None = None,
        generator: ReferenceGenerator | None = None,
    ) -> None:
        values = {**defaults(DECLARED), **(parameters or {})}
        self.parameters: dict[str, Any] = checked(DECLARED, values, tree.n)
        self.tree, self._driver, self.carrying = tree, driver, True
        self.port = DriverPort(tree, driver, self.parameters['joints'])
        self.built = build_loop(tree, self.driven(self.parameters), driver, generator)
        self.loop = self.built.loop
        self.goals = GoalTracker(self.loop)
        self.targets = StreamedTargets(self.loop, self.parameters)
        self.followers = self.make_followers(self.driven(self.parameters))
        self.contact = ContactWatch(self.built, self.parameters, self.followers.reacting)
        self.locked = LockedJointWatch(tree, self.parameters)
        self.enabling = EnablingSwitch()
        self.enabling.configure(self.parameters, self.followers.guiding)
        self.loop.generator.speed.wanted = self.parameters['speed_scaling.initial_scaling_factor']
        self.source = 'joint_states'
        self._heard_ns: int | None = None

    def configure(self, parameters: dict[str, Any], followers: Followers) -> None:
        """Let changed parameters reach all parts but the loop.

        Args:
            parameters: All of them.
            followers: Made of them; those that may be acting take over their parameters.
        """
        self.parameters = parameters
        self.followers = Followers(*map(_renewed, self.followers, followers))
        self.targets.configure(parameters)
        self.contact.configure(parameters, self.followers.reacting)
        self.locked.configure(parameters)
        self.enabling.configure(parameters, self.followers.guiding)

    def driven(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return parameters with what the driver's profile decides."""
        return as_driven(parameters, self._driver)

    def built_of(self, tree: RobotTree) -> BuiltLoop:
        """Return a loop for the same joints of another model, as the session's own was made.

        Raises:
            ConfigurationError: It has other joints.
            RobotDynamicsError: A parameter is refused.
        """
        if tree.joint_names != self.tree.joint_names:
            raise ConfigurationError('model', 'has other joints', 'lock the same joints')
        built = build_loop(tree, self.driven(self.parameters), self._driver)
        if not self.carrying:
            built.loop.set_payload(None)
        return built

    def take_model(self, built: BuiltLoop) -> None:
        """Go on with the model of a loop, see ``built_of``."""
        self.loop.change_model(built.loop)
        self.built, self.tree = built._replace(loop=self.loop), built.tree
        self.followers = self.make_followers(self.driven(self.parameters))
        wanted = self.contact.wanted
        self.contact = ContactWatch(self.built, self.parameters, self.followers.reacting)
        self.contact.wanted = wanted
        self.targets = StreamedTargets(self.loop, self.parameters)
        self.enabling.configure(self.parameters, self.followers.guiding)
        self.locked = LockedJointWatch(built.tree, self.parameters)

    def make_followers(self, driven: Mapping[str, Any]) -> Followers:
        """Return what holds the arm while its law does not act, as far as that may be needed.

        Args:
            driven: Parameters with what the driver's profile decides.

        Raises:
            ParameterError: Law computed_torque refuses one of its own.
        """
        guided = law_class(driven['law']).needs_enabling
        needed = guided, driven['contact_reaction'] in FOLLOWING
        of_follower = {**driven, 'law': 'computed_torque'}
        return Followers(*(self.built.make_law(of_follower) if x else None for x in needed))

    @property
    def heard(self) -> bool:
        """Whether a state has ever come that was believed."""
        return self._heard_ns is not None

    def patience_ns(self, now_ns: int) -> int:
        """Return after what time ``watch`` should be called, ns."""
        if self._heard_ns is None or self.is_silent(now_ns):
            return STOP_PERIOD_NS
        return self._timeout_ns - (now_ns - self._heard_ns)

    def is_silent(self, now_ns: int) -> bool:
        """Return whether there is no fresh state, by the clock of the arrivals, ns."""
        return self._heard_ns is None or now_ns - self._heard_ns >= self._timeout_ns

    def silence(self) -> str:
        """Say that there is no fresh state and, as far as that is known, why."""
        refused = self.loop.state.last_refusal
        why = f' (last one refused: {refused})' if refused else ''
        return f'no fresh state on {self.source} within {1e-9 * self._timeout_ns:g} s{why}'

    @property
    def _timeout_ns(self) -> int:
        return round(1e9 * self.loop.settings.state_timeout_s)
