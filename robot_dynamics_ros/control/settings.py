# SPDX-License-Identifier: Apache-2.0
"""What surrounds a law in the control loop, and may change while it runs; what watches over it.

Settings of the loop; the switch that a law may need; locked joints, whether they stand where the
model has them, and what follows if they do not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_dynamics_ros.control.laws.control_law import DISCRETIZATIONS, ControlLaw
from robot_dynamics_ros.control.safety import STOP_ACTIONS
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.model.load import choice_of_joints
from robot_dynamics_ros.parameters import Parameter, Settings, checked, parameter, parameters_of
from robot_dynamics_ros.spatial.scalar import Array


@dataclass(frozen=True)
class LoopSettings(Settings):
    """What surrounds the law; all of it may change between two ticks.

    Each field declares the parameter of its name, see ``LOOP``.
    """

    period: float = parameter(0.001, 'Nominal control period.', 1e-5, 1.0, unit='s', fixed=True)
    discretization: str = parameter(
        'semi_implicit',
        'How the plant holds an effort over a period: semi_implicit (MuJoCo, Gazebo), zero_order '
        '(a real arm) or continuous (no correction).',
        choices=DISCRETIZATIONS,
    )
    activation_ramp_s: float = parameter(
        0.2, 'Time over which the law takes over after activation.', 0.0, 60.0, unit='s'
    )
    activation_effort: str = parameter(
        'gravity', 'Effort at the start of the ramp.', choices=('gravity', 'measured', 'zero')
    )
    effort_rate_limit: Any = parameter(
        [0.0], 'Largest change of effort; 0: none.', 0.0, unit='N m/s or N/s', per_joint=True
    )
    effort_scale: float = parameter(
        1.0, 'Part of the effort limits that may be commanded; 0.3 for a first try.', 0.01, 1.0
    )
    state_timeout_s: float = parameter(
        0.1, 'Age of the last state at which the stop action begins.', 1e-3, 1e9, unit='s'
    )
    stop_action: str = parameter(
        'gravity',
        'What is commanded on timeout, deactivation and shutdown.',
        choices=tuple(STOP_ACTIONS),
    )
    stop_effort_share: float = parameter(
        0.7, 'Part of the effort that gravity leaves with which a motion is braked.', 0.05, 1.0
    )
    path_effort_share: float = parameter(
        0.9,
        'Part of the effort limits that the model may need along a trajectory; where it needs '
        'more, the trajectory is passed through more slowly. 0: never.',
        0.0,
        1.0,
    )
    start_tolerance: float = parameter(
        0.05,
        'Largest step of the reference that a trajectory may begin with.',
        0.0,
        10.0,
        unit='rad or m',
    )

    def check(self, tree: RobotTree) -> None:
        """Refuse settings that cannot be applied.

        Raises:
            ParameterError: A number is out of its range.
            UnknownNameError: A name does not exist.
        """
        checked(LOOP, vars(self), tree.n)

    @property
    def stopping(self) -> tuple[Any, ...]:
        """What stop action and brake are made with."""
        return self.stop_action, self.stop_effort_share, self.period

    def rates(self, n: int) -> Array:
        """Return the effort-rate limits, shape (n,), N m/s or N/s; infinite for none."""
        rates = np.array(self.effort_rate_limit, dtype=float).reshape(-1)
        return np.where(rates > 0.0, rates, math.inf) * np.ones(n)


LOOP = parameters_of(LoopSettings)


#: What belongs to guiding besides the law.
GUIDING = (
    Parameter(
        'guiding_timeout_s',
        0.2,
        'Longest time between two messages that enable guiding; then the arm brakes and holds.',
        0.01,
        5.0,
        unit='s',
    ),
    Parameter(
        'waypoint_file',
        '',
        'Trajectory file to which ~/add_waypoint adds; empty: none.',
    ),
)


class EnablingSwitch:
    """Whether a law that needs enabling may act, by the time of the states.

    It is switched on by a press alone: the first message that enables, or the first after one
    that does not. Whatever switches it off, a held button does not switch it on again.

    Attributes:
        on: Whether it is.
        holding: What holds the arm meanwhile; None while the law needs no enabling.
    """

    def __init__(self) -> None:
        self.holding: ControlLaw | None = None
        self.on = self._pressed = False
        self._heard_ns = self._timeout_ns = 0

    def configure(self, parameters: Mapping[str, Any], holding: ControlLaw | None) -> None:
        """Take over parameters, and what holds the arm where the law needs enabling."""
        self._timeout_ns = round(1e9 * parameters['guiding_timeout_s'])
        self.holding = holding

    def tell(self, pressed: bool, stamp_ns: int) -> bool:
        """Take a message at the time of the last state, ns; return whether it was a press."""
        began = pressed and not self._pressed
        self.on = pressed and (self.on or began)
        self._pressed, self._heard_ns = pressed, stamp_ns
        return began

    def release(self) -> None:
        """Switch off, until the next press."""
        self.on = False

    def lapses(self, stamp_ns: int) -> bool:
        """Return whether the law must not act at a state of a time, ns."""
        if not 0 <= stamp_ns - self._heard_ns <= self._timeout_ns:
            self.on = False
        return self.holding is not None and not self.on


#: By name, what it does.
MOVED = {
    'report': 'it is told, and nothing else',
    'stop': 'the stop action is taken until the controller is deactivated',
    'update': 'the model is made anew with the joint where it stands',
}
_EXACT = 1e-6  # rad or m: a model of measured joints is not made anew for less


@dataclass(frozen=True)
class LockedJointSettings(Settings):
    """What a locked joint that moves leads to.

    Each field declares the parameter of its name, see ``LOCKED_JOINTS``.
    """

    locked_joint_moved: str = parameter(
        'report',
        'What a locked joint that moves leads to: '
        f'{"; ".join(f"{name}: {does}" for name, does in MOVED.items())}.',
        choices=tuple(MOVED),
    )
    locked_joint_tolerance: float = parameter(
        0.02,
        'Largest distance of a locked joint from where the model has it.',
        1e-6,
        10.0,
        unit='rad or m',
    )


LOCKED_JOINTS = parameters_of(LockedJointSettings)


class LockedJointWatch:
    """Compares measured positions of locked joints with those of the model.

    Attributes:
        names: Of the locked joints.
        modelled: Where the model has them, shape (k,), rad or m.
        measured: Their last measured positions, shape (k,), rad or m; NaN where none is known.
        deviation: Says which joint is too far off, and where it stands; empty: none is.

    Args:
        tree: The robot.
        parameters: Parameters by name, see ``LOCKED_JOINTS``.
    """

    def __init__(self, tree: RobotTree, parameters: Mapping[str, Any]) -> None:
        self.names = tuple(tree.locked)
        self.modelled = np.array(list(tree.locked.values()), dtype=float)
        self.measured = np.full(len(self.names), np.nan)
        self.deviation = ''
        self.configure(parameters)

    def configure(self, parameters: Mapping[str, Any]) -> None:
        """Take over parameters."""
        self.settings = LockedJointSettings.of(parameters)

    @property
    def wants_model(self) -> bool:
        """Whether the model shall be made anew, since a joint has moved to a finite place."""
        off = np.isfinite(self.measured) & self._is_off()
        return self.settings.locked_joint_moved == 'update' and bool(off.any())

    def place(self, parameters: Mapping[str, Any]) -> bool:
        """Take over where parameter ``locked`` has the joints; return whether one has moved.

        Raises:
            ConfigurationError: A position is none.
        """
        locked = choice_of_joints(parameters)['locked']
        locked = {name: x for name, x in locked.items() if x != 'measured'}
        rows = zip(self.names, self.modelled.tolist(), strict=True)
        places = np.array([locked.get(name, x) for name, x in rows], dtype=float)
        moved = bool((places != self.modelled).any())
        self.modelled = places
        return moved

    def update(self, positions: Array) -> bool:
        """Take over measured positions, shape (k,); return whether a deviation begins."""
        self.measured[:] = positions
        if not self._is_off().any():
            self.deviation = ''
            return False
        began, k = not self.deviation, int(np.nanargmax(np.abs(self.measured - self.modelled)))
        self.deviation = (
            f'locked joint {self.names[k]!r} stands at {self.measured[k]:.4g}, '
            f'the model has it at {self.modelled[k]:.4g}'
        )
        return began

    def _is_off(self) -> Array:
        # NaN is no deviation: of that joint nothing is known. An infinite reading is one.
        return np.abs(self.measured - self.modelled) > self.settings.locked_joint_tolerance

    def known(self) -> dict[str, float]:
        """Return where the locked joints stand: as measured, or else as the model has them."""
        positions = np.where(np.isfinite(self.measured), self.measured, self.modelled)
        return dict(zip(self.names, positions.tolist(), strict=True))

    def unknown(self, names: tuple[str, ...]) -> list[str]:
        """Return those of some locked joints of which no position has come."""
        rows = zip(self.names, self.measured.tolist(), strict=True)
        return [name for name, position in rows if name in names and not np.isfinite(position)]

    def differs(self, names: tuple[str, ...]) -> bool:
        """Return whether one of some locked joints is not exactly where the model has it."""
        off = np.abs(self.measured - self.modelled) > _EXACT
        return any(far and name in names for name, far in zip(self.names, off, strict=True))
