# SPDX-License-Identifier: Apache-2.0
"""What surrounds a law in the control loop, and may change while it runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_dynamics_ros.control.laws.parameter_checks import number
from robot_dynamics_ros.control.safety import ActivationRamp
from robot_dynamics_ros.control.trajectories.sampling import ReferenceSampler
from robot_dynamics_ros.errors import ParameterError, UnknownNameError
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array

ACTIVATION_EFFORTS = ('gravity', 'measured', 'zero')


@dataclass(frozen=True)
class LoopSettings:
    """What surrounds the law; all of it may change between two ticks.

    Attributes:
        period: Nominal control period, s.
        hold: How the plant holds an effort, see ``ReferenceSampler``.
        activation_ramp_s: Time over which the law takes over, s.
        activation_effort: Effort at the start of the ramp: 'gravity', 'measured' or 'zero'.
        effort_rate_limit: Per joint or one for all, N m/s or N/s; 0 for none.
        effort_scale: Part of the effort limits that may be commanded, above 0, at most 1.
        state_timeout_s: Longest time between two states of one motion, s.
        stop_action: Name of the stop action.
        start_tolerance: Largest step of the reference at the start of a trajectory, rad or m.
    """

    period: float = 1e-3
    hold: str = 'semi_implicit'
    activation_ramp_s: float = 0.2
    activation_effort: str = 'gravity'
    effort_rate_limit: Any = 0.0
    effort_scale: float = 1.0
    state_timeout_s: float = 0.1
    stop_action: str = 'gravity'
    start_tolerance: float = 0.05

    def check(self, tree: RobotTree) -> None:
        """Refuse settings that cannot be applied.

        Raises:
            ParameterError: A number is out of its range.
            UnknownNameError: A name does not exist.
        """
        if self.activation_effort not in ACTIVATION_EFFORTS:
            raise UnknownNameError('activation effort', self.activation_effort, ACTIVATION_EFFORTS)
        ReferenceSampler(tree.n, self.hold, self.period)
        ActivationRamp(tree.n, self.activation_ramp_s)
        number('state_timeout_s', self.state_timeout_s, positive=True)
        number('start_tolerance', self.start_tolerance)
        if not 0.0 < self.effort_scale <= 1.0:
            raise ParameterError('effort_scale', self.effort_scale, 'must be above 0, at most 1')
        self.rates(tree.n)

    def rates(self, n: int) -> Array:
        """Return the effort-rate limits, shape (n,), N m/s or N/s; infinite for none.

        Raises:
            ParameterError: The count is neither 1 nor n, or an entry is negative or NaN.
        """
        given = np.array(self.effort_rate_limit, dtype=float).reshape(-1)
        if len(given) not in (1, n) or not (given >= 0.0).all():
            raise ParameterError(
                'effort_rate_limit', given.tolist(), f'give 1 or {n} numbers, 0 for no limit'
            )
        return np.where(given > 0.0, given, math.inf) * np.ones(n)
