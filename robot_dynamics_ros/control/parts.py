# SPDX-License-Identifier: Apache-2.0
"""Parts of a controller session, and how parameters, models and streamed targets update them."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any

import numpy as np

from robot_dynamics_ros.control.contact_watch import ContactWatch
from robot_dynamics_ros.control.drivers.driver_interface import DriverInterface
from robot_dynamics_ros.control.force_sensor import SensorTool
from robot_dynamics_ros.control.goals import GOALS, GoalTracker, joint_tolerances
from robot_dynamics_ros.control.laws.control_law import ControlLaw
from robot_dynamics_ros.control.laws.stop_laws import Float
from robot_dynamics_ros.control.loop import ControlLoop
from robot_dynamics_ros.control.safety.limits import clipped
from robot_dynamics_ros.control.safety.shell import within_motors
from robot_dynamics_ros.control.settings import EnablingSwitch, LockedJointWatch, LoopSettings
from robot_dynamics_ros.control.setup import (
    PARAMETERS,
    build_loop,
    selected_law,
    with_driver,
)
from robot_dynamics_ros.control.streamed_targets import StreamedTargets
from robot_dynamics_ros.control.trajectories.reference_generator import ReferenceGenerator
from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.robot_parameters import with_locked
from robot_dynamics_ros.model.robot_tree import require_robot
from robot_dynamics_ros.parameters import (
    FixedParameter,
    Parameter,
    Values,
    checked,
    defaults,
    require_known,
)
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.spatial.validation import require_type
from robot_dynamics_ros.yaml_reader.parsing import FILES, texts_of

F = FixedParameter

#: Deviation of a measured effort from gravity that is reported, relative to its limit, beyond the
#: friction.
_UNEXPECTED = 0.2
#: Distance beyond a position limit, relative to the range, at which a joint cannot be.
_ELSEWHERE = 0.25


#: Reactions in which the arm rests at a reference.
_RESTING = ('stop', 'hold', 'retract')

#: Parameters of the node of a controller, which its session keeps.
NODE = (
    F('autostart', True, 'Configure at startup and activate as soon as a fresh state arrives.'),
    F('await_listeners', [''], 'With autostart: nodes that must subscribe to the command topics '
      'before activation; at least one subscriber is always required.'),
    F('share_command_topic', False, 'Allow other publishers on the command topics; otherwise '
      'activation is refused while there are any (a killed publisher counts until its lease '
      'expires).'),
    F('diagnostics_period_s', 1.0, 'Publishing period of /diagnostics.', 0.05, 60.0, unit='s'),
    F('thread_priority', 0, 'SCHED_FIFO priority of the control thread; 0: default scheduling.',
      0, 99),
    F('cpu_affinity', [-1], 'Processors on which the control thread may run; -1: any.', -1,
      4095),
    F('lock_memory', False, 'Lock all memory of the process to prevent swapping.'),
)  # fmt: skip

#: All parameters of a controller except ``joint_tolerances``.
CONTROLLER = (*PARAMETERS, *GOALS, *NODE)
#: Time between two commands of the stop action while no states arrive, ns.
STOP_PERIOD_NS = 20_000_000


def declared_for(tree: Robot) -> tuple[Parameter, ...]:
    """Return all parameters of the controller of a robot."""
    return (*CONTROLLER, *joint_tolerances(tree.joint_names))


class ControllerParts:
    """Control loop of one robot with all parts around it except the modes of the session.

    Args:
        tree: The robot without its payload.
        parameters: By name, see ``declared``.
        driver: Interface to the driver, of which the profile is used; None: no profile.
        generator: Reference generator; a trajectory follower if None.

    Attributes:
        declared: Declarations of its parameters.
        parameters: By name; replaced by changes.
        loop: The control loop; read only, replaced by ``install``.
        command: The last command, shape (n,), in the driver's units and order.
        driver: Interface to the driver.
        goals: Monitor of the active goal.
        targets: Conversion of streamed targets.
        contact: Contact detection and reaction.
        locked: Comparison of the locked joints with the model.
        enabling: Enabling switch of laws that need one.
        follower: Law that acts in mode REACTING; None: the selected one, or none.
        carrying: Whether the arm carries the payload of the parameters.
        texts: Texts of the files that parameters named, by name.

    Raises:
        RobotDynamicsError: A parameter is rejected.
    """

    def __init__(
        self,
        tree: Robot,
        parameters: Values | None = None,
        driver: DriverInterface | None = None,
        generator: ReferenceGenerator | None = None,
    ) -> None:
        require_robot(tree)
        require_type('parameters', parameters, (Mapping, NoneType), 'a mapping of names to values')
        require_type('driver', driver, (DriverInterface, NoneType), 'a DriverInterface')
        self.declared = declared_for(tree)
        own = set(parameters or ()) - {'use_sim_time'}  # which every node has
        require_known(self.declared, sorted(own), 'parameter')
        values = {**defaults(self.declared), **(parameters or {})}
        self.parameters: dict[str, Any] = checked(self.declared, values, tree.n)
        self.texts = texts_of(self.parameters)
        self._generator, self.carrying = generator, True
        profile = driver.profile if driver is not None and driver.has_profile else None
        command = self.parameters['joints'], self.parameters['command_form']
        self.driver = DriverInterface(profile, tree, *command)
        self.enabling = EnablingSwitch()
        self.install(self.built_for(tree))
        initial = self.parameters['speed_scaling.initial_scaling_factor']
        self.loop.generator.speed.scale(initial)

    def built_for(self, tree: Robot) -> ControlLoop:
        """Return a new loop for a model, with the present parameters; in any thread.

        Raises:
            RobotDynamicsError: A parameter is rejected.
        """
        loop = build_loop(tree, self.driven(self.parameters), self.driver, self._generator)
        if not self.carrying:
            loop.set_payload(None)
        return loop

    @property
    def tree(self) -> Robot:
        """The robot without its payload."""
        return self.loop.tree

    def install(self, loop: ControlLoop) -> None:
        """Take a loop, see :meth:`built_for`, and make the parts that depend on its model."""
        self.loop = loop
        self.command = self.driver.command if self.driver.converts else loop.effort
        kernels: Any = loop.kernels
        self.driver.compensate(kernels.gravity_forces, kernels.bare.gravity_forces)
        self.goals = GoalTracker(loop)
        self.locked = LockedJointWatch(loop.tree, self.parameters)
        self.targets = StreamedTargets(loop, self.parameters, self.locked)
        self.follower = self.make_follower(loop.law, self.driven(self.parameters))
        self.contact = ContactWatch(loop, self.parameters)
        self.configure_parts()

    def configure_parts(self) -> None:
        """Give the present parameters to all parts that take them between two ticks."""
        self.loop.force.carry(SensorTool.of(self.parameters))
        for part in (self.targets, self.contact, self.locked, self.enabling):
            part.configure(self.parameters)

    def driven(self, parameters: Values) -> dict[str, Any]:
        """Return parameters with those overridden by the driver profile."""
        return with_driver(parameters, self.driver)

    def published_parameters(self) -> dict[str, Any]:
        """Return the parameters, with joints locked as ``measured`` where they are in the model.

        Without the description, which has its own topic; with the texts of the files that they
        name, as they were when they were read.
        """
        values = with_locked(self.parameters, self.locked.taken)
        named = {x for x in values.values() if isinstance(x, str)}
        texts = {name: self.texts[name] for name in sorted(named & self.texts.keys())}
        return {**values, 'robot_description': '', **({FILES: texts} if texts else {})}

    def make_follower(self, law: ControlLaw, driven: Values) -> ControlLaw | None:
        """Return the law that acts after a contact, or until a law is enabled, if another one.

        Args:
            law: The selected law.
            driven: Parameters with those overridden by the driver profile.

        Raises:
            ParameterError: Law computed_torque rejects one of its parameters.
        """
        reaction = driven['contact_reaction']
        if law.needs_enabling or (reaction in _RESTING and not law.follows_reference):
            return self.make_law({**driven, 'law': 'computed_torque'})
        if reaction != 'float':
            return None
        sampling = LoopSettings.of(driven).sampling._asdict()
        return Float(self.tree, self.loop.kernels, **sampling)

    def make_law(self, parameters: Values) -> ControlLaw:
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

    def misplaced(self) -> str:
        """Return which joint is farthest beyond its limits, if it cannot be there; '' if none."""
        tree, q = self.loop.tree, self.loop.q
        beyond = np.maximum(q - tree.position_upper, tree.position_lower - q)
        share = beyond / tree.position_range
        i = int(share.argmax())
        if share[i] < _ELSEWHERE:
            return ''
        limits = f'{tree.position_lower[i]:.4g} to {tree.position_upper[i]:.4g}'
        return f'joint {tree.joint_names[i]!r} is at {q[i]:.4g}, its limits are {limits}'

    def unbearable(self, tree: Robot) -> str:
        """Return which driven joint gravity takes beyond its motors' limit; '' if none.

        That is what the effort limit leaves for the command, or the effort where the motors that
        the joint shares are at theirs.
        """
        needed = self._to_hold(tree)
        needed[list(self.loop.law.passive)] = 0.0
        borne = needed
        for one in self.driver.transmissions:
            borne = within_motors(one, borne, 0.0 * needed)
        limits = np.where(borne == needed, self.driver.command_limit, np.abs(borne))
        return self._beyond(needed, limits, 'are its limit')

    def unpermitted(self, tree: Robot) -> str:
        """Return which joint gravity takes beyond what ``effort_scale`` permits; '' if none.

        Without what the driver compensates. A joint that needs more than its effort limit has no
        drive: a closed loop bears it.
        """
        needed = self._to_hold(tree, self.driver.compensation(self.loop.q, *np.zeros((2, tree.n))))
        needed[np.abs(needed) > self.tree.effort_limit] = 0.0
        return self._beyond(needed, self.loop.limiter.limits, 'are permitted')

    def _to_hold(self, tree: Robot, share: Array | float = 0.0) -> Array:
        """Return the efforts that hold a robot where it is, less a share and friction, (n,)."""
        gravity = make_formulation('newton_euler', tree).gravity_forces(self.loop.q) - share
        return np.asarray(gravity - clipped(gravity, tree.coulomb_friction))

    def _beyond(self, needed: Array, limits: Array, what: str) -> str:
        """Return which effort exceeds its limit most, in a sentence; '' if none."""
        needed = np.abs(needed)
        i = int((needed / limits).argmax())
        if needed[i] <= limits[i]:
            return ''
        unit = 'N' if self.tree.joint_is_prismatic[i] else 'N m'
        return (
            f'gravity needs {needed[i]:.3g} {unit} at joint {self.tree.joint_names[i]!r}, '
            f'{limits[i]:.3g} {unit} {what}'
        )
