# SPDX-License-Identifier: Apache-2.0
"""Parameters of the controller node, and aliases of its tolerances; importable without ROS."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from robot_dynamics_ros.control.goals import GOALS, TOLERANCES
from robot_dynamics_ros.control.setup import PARAMETERS
from robot_dynamics_ros.parameters import Parameter, checked, spread

P = Parameter

#: Real-time settings of the thread of the controller, see ``spinning.apply_real_time``.
REAL_TIME = (
    P('thread_priority', 0, 'SCHED_FIFO priority of the control thread; 0: default scheduling.',
      0, 99, fixed=True),
    P('cpu_affinity', [-1], 'Processors on which the control thread may run; -1: any.', -1,
      4095, fixed=True),
    P('lock_memory', False, 'Lock all memory of the process to prevent swapping.', fixed=True),
)  # fmt: skip

#: The node of the controller.
NODE = (
    P('monitor_decimation', 1, 'Publish the monitoring topics (~/reference, ~/error and those '
      'of the law) once every this many commands.', 1, 1000),
    P('autostart', True, 'Configure at startup and activate as soon as a fresh state arrives.',
      fixed=True),
    P('await_listeners', [''], 'With autostart: nodes that must subscribe to the command topics '
      'before activation; at least one subscriber is always required.', fixed=True),
    P('share_command_topic', False, 'Allow other publishers on the command topics; otherwise '
      'activation is refused while there are any (a killed publisher counts until its lease '
      'expires).', fixed=True),
    P('diagnostics_period_s', 1.0, 'Publishing period of /diagnostics.', 0.05, 60.0, unit='s',
      fixed=True),
)  # fmt: skip

CONTROLLER = (*PARAMETERS, *GOALS, *NODE, *REAL_TIME)


def lockstep_parameters(*topics: str) -> dict[str, float]:
    """Return controller parameters for lockstep, where the run is the same on a busy machine.

    The command history is as deep as the state history, so that a slow recorder loses nothing,
    and the state timeout is long, because simulated time stops while the simulator is delayed.

    Args:
        topics: Full names of the command topics; none: the default topic.
    """
    names = topics or ('/effort_controller/commands',)
    depths = {f'qos_overrides.{topic}.publisher.depth': 2000 for topic in names}
    return {'state_timeout_s': 60.0, **depths}


_OWN = {one.name: one for one in TOLERANCES}


class ConstraintParameters:
    """The parameters ``constraints.*`` of joint_trajectory_controller as aliases.

    ``constraints.<joint>.trajectory`` and ``.goal`` are entries of ``path_tolerance`` and
    ``goal_tolerance``; the others are ``stopped_velocity_tolerance`` for all joints and
    ``goal_time_tolerance``.

    The value that was set last, under either name, takes effect, also across reconfigurations.

    Attributes:
        aliased: Current values of the aliased parameters, by name.
    """

    def __init__(self) -> None:
        self.aliased, self._set = dict[str, Any](), dict[str, Any]()  # as set, the last at the end
        self._joints: tuple[str, ...] = ()
        self._aliases: dict[str, tuple[str, int | None]] = {}

    def configure(
        self,
        initial: Mapping[str, Any],
        joints: tuple[str, ...],
        declare: Callable[[Sequence[Parameter]], Mapping[str, Any]],
    ) -> None:
        """Declare the aliases for joints and apply the values that were set.

        Args:
            initial: The node's parameters, which give the defaults.
            joints: Joint names of the robot.
            declare: Declares those parameters that are not declared yet; returns their values.

        Raises:
            ParameterError: A value is invalid.
        """
        own = {name: initial[name] for name in _OWN}
        self._joints, self.aliased = joints, checked(TOLERANCES, own, len(joints))
        self._aliases = {
            'constraints.stopped_velocity_tolerance': ('stopped_velocity_tolerance', None),
            'constraints.goal_time': ('goal_time_tolerance', None),
        }
        for kind, name in (('trajectory', 'path_tolerance'), ('goal', 'goal_tolerance')):
            for i, joint in enumerate(joints):
                self._aliases[f'constraints.{joint}.{kind}'] = (name, i)
        parameters = [self._parameter(name, *place) for name, place in self._aliases.items()]
        default = {one.name: one.default for one in parameters}
        given = {name: x for name, x in declare(parameters).items() if x != default[name]}
        self._set = given | self._set
        for name, value in self._set.items():
            self.apply({name: value})

    def _parameter(self, name: str, own: str, index: int | None) -> Parameter:
        value = self.aliased[own]
        if index is not None:
            value = spread(value, len(self._joints))[index]
        default = max(value) if isinstance(value, list) else value
        return replace(_OWN[own], name=name, default=default, per_joint=False)

    def translate(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return parameter changes with ``constraints.*`` translated to the aliased parameters.

        Raises:
            ParameterError: A tolerance is invalid.
        """
        own = {name: x for name, x in changes.items() if not name.startswith('constraints.')}
        result = checked(TOLERANCES, own, len(self._joints) or None)
        for name, value in changes.items():
            if name not in self._aliases:
                continue
            alias, index = self._aliases[name]
            if index is not None:
                entries = result.get(alias, self.aliased[alias])
                result[alias] = [*spread(entries, len(self._joints))]
                result[alias][index] = value
            else:
                result[alias] = [value] if _OWN[alias].is_list else value
        return result

    def store(self, changes: Mapping[str, Any]) -> None:
        """Store changes that were made, which are applied when the next robot is known."""
        for name, value in changes.items():
            if name in _OWN or name.startswith('constraints.'):
                self._set.pop(name, None)
                self._set[name] = value

    def apply(self, changes: Mapping[str, Any]) -> None:
        """Apply changes that are valid for the robot."""
        changed = self.translate(changes)
        self.aliased.update({name: changed[name] for name in changed.keys() & _OWN.keys()})
