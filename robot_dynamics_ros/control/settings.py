# SPDX-License-Identifier: Apache-2.0
"""Settings of the control loop, the enabling switch, and monitoring of locked joints."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_dynamics_ros.control.laws.stop_laws import STOP_ACTIONS
from robot_dynamics_ros.dynamics.sampled_loop import DISCRETIZATIONS, Sampling
from robot_dynamics_ros.errors import ConfigurationError, ParameterError, ShapeError
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.robot_parameters import measured_joints
from robot_dynamics_ros.parameters import Parameter, Settings, Values, parameter, parameters_of
from robot_dynamics_ros.spatial.scalar import Array


@dataclass(frozen=True)
class LoopSettings(Settings):
    """Settings of the control loop; they may change between two ticks.

    Each field declares the parameter of its name, see ``LOOP``.
    """

    period: float = parameter(0.001, 'Nominal control period.', 1e-5, 1.0, unit='s', fixed=True)
    delay: float = parameter(
        0.0,
        'Time from the measurement of a state until its effort acts, with which the loop must be '
        'stable; 0 in a simulator in lockstep.',
        0.0,
        100.0,
        unit='periods',
        fixed=True,
    )
    velocity_cutoff_hz: float = parameter(
        0.0,
        'Cut-off frequency of the filter that derives velocities from positions; 0: velocities '
        'are measured.',
        0.0,
        1e4,
        unit='Hz',
        fixed=True,
    )
    discretization: str = parameter(
        'semi_implicit',
        'Time discretization of the plant, compensated by reference and law: semi_implicit '
        '(MuJoCo, Gazebo), zero_order (a real arm) or continuous (no compensation).',
        choices=DISCRETIZATIONS,
    )
    activation_ramp_s: float = parameter(
        0.2,
        'Time over which a law is blended in after activation or a switch.',
        0.0,
        60.0,
        unit='s',
    )
    effort_rate_limit: Any = parameter(
        [0.0],
        'Largest rate of change of the effort; 0: no limit.',
        0.0,
        unit='N m/s or N/s',
        per_joint=True,
    )
    effort_scale: float = parameter(
        1.0, 'Fraction of the effort limits that may be commanded; 0.3 for a first try.', 0.01, 1.0
    )
    state_timeout_s: float = parameter(
        0.1,
        'Age of the last state at which the stop action begins; at least two periods.',
        1e-3,
        1e9,
        unit='s',
    )
    stop_action: str = parameter(
        'gravity',
        'Command on state timeout, deactivation and shutdown: gravity compensation (gravity), '
        'the same with damping (damping) or holding the position (hold), or no effort (zero).',
        choices=tuple(STOP_ACTIONS),
    )
    stop_effort_share: float = parameter(
        0.7, 'Fraction of the effort not needed for gravity that is used for braking.', 0.05, 1.0
    )
    path_effort_share: float = parameter(
        0.9,
        'Fraction of the effort limits that the model may need along a trajectory; where it needs '
        'more, the trajectory is slowed down. 0: never.',
        0.0,
        1.0,
    )
    start_tolerance: float = parameter(
        0.05,
        'Largest permitted step of the reference at the start of a trajectory.',
        0.0,
        10.0,
        unit='rad or m',
    )

    allow_nonzero_velocity_at_trajectory_end: bool = parameter(
        False,
        'Whether the last point of a trajectory may have a velocity; unless another trajectory '
        'follows, the reference then comes to rest at its position.',
    )
    allow_integration_in_goal_trajectories: bool = parameter(
        False,
        'Whether the points of a trajectory may have velocities only, or accelerations only, '
        'which are integrated from the reference at its start.',
    )

    def __post_init__(self) -> None:
        if self.state_timeout_s < 1.999 * self.period:
            reason = f'must be at least two periods of {self.period:g} s'
            raise ParameterError('state_timeout_s', self.state_timeout_s, reason)

    @property
    def stopping(self) -> tuple[Any, ...]:
        """Settings of the stop action and the brake."""
        return self.stop_action, self.stop_effort_share, self.sampling

    @property
    def sampling(self) -> Sampling:
        """Sampling of the loop."""
        return Sampling.of(vars(self))

    def rates(self, n: int) -> Array:
        """Return the effort rate limits, shape (n,), N m/s or N/s; infinite if unlimited."""
        rates = np.array(self.effort_rate_limit, dtype=float).reshape(-1)
        return np.where(rates > 0.0, rates, math.inf) * np.ones(n)


LOOP = parameters_of(LoopSettings)


#: Parameters of hand guiding other than those of its law.
GUIDING = (
    Parameter(
        'guiding_timeout_s',
        0.2,
        'Longest time between two enabling messages; after it, the arm brakes and holds.',
        0.01,
        5.0,
        unit='s',
    ),
    Parameter(
        'waypoint_file',
        '',
        'Trajectory file to which ~/add_waypoint appends; empty: none.',
    ),
)


class EnablingSwitch:
    """Enabling switch of a law, with a timeout by the timestamps of the states.

    Only a press switches it on: the first enabling message, or the first one after a message that
    disables. Once it is off, a button that is still held does not switch it on again.

    Attributes:
        on: Whether a law that needs enabling is enabled.
    """

    def __init__(self) -> None:
        self.on = self._pressed = False
        self._received_ns = self._timeout_ns = 0

    def configure(self, parameters: Values) -> None:
        """Apply parameters."""
        self._timeout_ns = round(1e9 * parameters['guiding_timeout_s'])

    def switch_off(self) -> None:
        """Disable the law until the next press."""
        self.on = False

    def update(self, pressed: bool, stamp_ns: int) -> bool:
        """Process a message at the time of the last state, ns; return whether it is a press."""
        began = pressed and not self._pressed
        self.on = pressed and (self.on or began)
        self._pressed, self._received_ns = pressed, stamp_ns
        return began

    def inhibits(self, stamp_ns: int) -> bool:
        """Return whether such a law must not act at a state's timestamp, ns."""
        if not 0 <= stamp_ns - self._received_ns <= self._timeout_ns:
            self.switch_off()
        return not self.on


#: Responses to a locked joint that moves, by name.
LOCKED_JOINT_RESPONSES = {'report': 'a warning', 'stop': 'the stop action until deactivation'}
_MODEL_TOLERANCE = 1e-6  # rad or m: smaller deviations do not require a new model


#: Parameters of the response to a locked joint that moves.
LOCKED_JOINTS = (
    Parameter(
        'locked_joint_moved',
        'report',
        'Response to a locked joint that moves, if the dynamics depend on it: '
        f'{"; ".join(f"{name}: {does}" for name, does in LOCKED_JOINT_RESPONSES.items())}.',
        choices=tuple(LOCKED_JOINT_RESPONSES),
    ),
    Parameter(
        'locked_joint_tolerance',
        0.02,
        'Largest permitted deviation of a locked joint from its position in the model.',
        1e-6,
        10.0,
        unit='rad or m',
    ),
)


class LockedJointWatch:
    """Compares measured positions of locked joints with those of the model.

    Attributes:
        names: Of the locked joints.
        modelled: Their positions in the model by name, rad or m.
        measured: Their last measured positions by name, rad or m; NaN where unknown.
        deviation: Sentence that names the joint with the largest deviation and its position; empty
            if all on which the dynamics depend are within tolerance.
        response: Response to a joint that moves, one of ``LOCKED_JOINT_RESPONSES``.

    Args:
        tree: The robot.
        parameters: Parameters by name: ``locked``, and see ``LOCKED_JOINTS``.
    """

    def __init__(self, tree: Robot, parameters: Values) -> None:
        self.names, self.modelled = tuple(tree.locked), dict(tree.locked)
        self._error = tree.lock_error
        self.measured = dict.fromkeys(tree.locked, math.nan)
        self._taken = [name for name in measured_joints(parameters) if name in tree.locked]
        self._watched = {*tree.locked} & {*tree.influential}
        self.deviation = ''
        self.configure(parameters)

    def configure(self, parameters: Values) -> None:
        """Apply parameters."""
        self.response = parameters['locked_joint_moved']
        self._tolerance = parameters['locked_joint_tolerance']

    def update(
        self, positions: Array, names: Sequence[str] | None = None, *, active: bool = True
    ) -> bool:
        """Store measured positions; return whether a deviation begins.

        Args:
            positions: Shape (k,), rad or m.
            names: Of their joints, in any order, with others; None: the locked joints.
            active: Whether the controller is; before, ``measured`` joints may stand anywhere.

        Raises:
            ShapeError: There is not one position for each name.
        """
        names = self.names if names is None else names
        if len(names) != len(positions):
            raise ShapeError('positions', positions.shape, (len(names),))
        known = zip(names, positions.tolist(), strict=True)
        self.measured |= {name: x for name, x in known if name in self.measured}
        counted = self._watched if active else self._watched.difference(self._taken)
        began, self.deviation = not self.deviation, self.describe(counted)
        return began and bool(self.deviation)

    def describe(self, names: Collection[str]) -> str:
        """Return a sentence on the joint of some that is farthest off; empty if none is."""
        # NaN (unknown) is no deviation, an infinite position is one.
        away = {name: self._error(name, x) for name, x in self.measured.items()}
        off = [name for name in self.names if name in names and away[name] > self._tolerance]
        if not off:
            return ''
        name = max(off, key=away.__getitem__)
        return (
            f'locked joint {name!r} stands at {self.measured[name]:.4g}, '
            f'the model has it at {self.modelled[name]:.4g}'
        )

    @property
    def taken(self) -> dict[str, float]:
        """Positions in the model of the joints that are locked as ``measured``, rad or m."""
        return {name: self.modelled[name] for name in self._taken}

    @property
    def positions(self) -> dict[str, float]:
        """Measured positions of these joints by name, rad or m; NaN where unknown."""
        return {name: self.measured[name] for name in self._taken}

    @property
    def outdated(self) -> bool:
        """Whether one of them stands elsewhere.

        Raises:
            ConfigurationError: The position of one is unknown.
        """
        if missing := self.missing():
            raise ConfigurationError('not activated', missing, 'publish it in the joint states')
        return any(self._error(*one) > _MODEL_TOLERANCE for one in self.positions.items())

    def missing(self) -> str:
        """Return an error text if one of them has no position; empty otherwise."""
        unknown = [name for name, x in self.positions.items() if not math.isfinite(x)]
        return f'no position of locked joint {unknown[0]!r} was received' if unknown else ''
