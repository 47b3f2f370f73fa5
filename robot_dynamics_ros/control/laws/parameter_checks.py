# SPDX-License-Identifier: Apache-2.0
"""Shared parameters of laws: declarations, checks and gains; compiled joint friction."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from robot_dynamics_ros.control.laws.control_law import DISCRETIZATIONS
from robot_dynamics_ros.dynamics.joint_terms import JointTerms, smooth_direction
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.parameters import Parameter, spread
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import compile_function

P = Parameter
Vector = Sequence[float] | Array

#: Parameters of the feedback of joint errors.
FEEDBACK = (
    P('natural_frequency', [10.0], 'Natural frequency of the error dynamics.', 0.0, unit='rad/s',
      per_joint=True),
    P('damping_ratio', [1.0], 'Damping ratio of the error dynamics.', 0.0, per_joint=True),
)  # fmt: skip
#: Parameters of the compensation of joint friction, identified terms included.
FRICTION = (
    P('friction_compensation', True, 'Whether joint friction is compensated.'),
    P('friction_velocity', 'desired', 'Velocity that gives the direction of the compensated '
      'Coulomb friction: desired (of the reference or the program; does not chatter at rest) or '
      'measured.', choices=('desired', 'measured')),
    P('stiction_velocity', 1e-3, 'Velocity scale of the smooth sign of Coulomb friction.', 1e-9,
      unit='rad/s or m/s'),
)  # fmt: skip
#: Parameters that the loop sets; the defaults are those of a continuous loop.
PERIOD = P('period', 0.0, 'Time between two commands; 0: continuous.', 0.0,
           unit='s')  # fmt: skip
DISCRETIZATION = P('discretization', 'continuous', 'Time discretization of the plant.',
                   choices=DISCRETIZATIONS)  # fmt: skip


def per_joint(name: str, value: Any, n: int, *, zero_allowed: bool = True) -> Array:
    """Return one finite, non-negative number per joint, shape (n,); read only.

    Args:
        name: The parameter's name.
        value: One number for all joints or n of them.
        n: Number of joints.
        zero_allowed: Whether 0 is valid.

    Raises:
        ParameterError: A value is invalid; names the joint.
    """
    try:
        numbers = np.broadcast_to(np.asarray(value, dtype=float), (n,))
    except (TypeError, ValueError):
        raise ParameterError(name, value, f'give one number, or {n}, one per joint') from None
    for i, number in enumerate(numbers.tolist()):
        if not 0.0 <= number < math.inf or (number == 0.0 and not zero_allowed):
            requirement = 'not negative' if zero_allowed else 'positive'
            reason = f'value {number:g} of joint {i} must be finite and {requirement}'
            raise ParameterError(name, value, reason)
    return numbers


def number(name: str, value: float, *, positive: bool = False) -> float:
    """Return a finite number that is non-negative, or positive if ``positive``.

    Raises:
        ParameterError: The value is something else.
    """
    if not 0.0 <= value < math.inf or (positive and value == 0.0):
        requirement = 'positive' if positive else 'zero or positive'
        raise ParameterError(name, value, f'must be finite and {requirement}')
    return float(value)


def gains_of(parameters: Mapping[str, Any], n: int) -> tuple[list[float], list[float]]:
    """Return Kp and Kd from the parameters of ``FEEDBACK`` and the period, see ``feedback_gains``.

    Raises:
        ParameterError: The sampled loop would be unstable.
    """
    w, zeta = (spread(parameters[one.name], n) for one in FEEDBACK)
    return feedback_gains(w, zeta, parameters['period'])


def drive_settings(end: float, parameters: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the parameters of ``FRICTION`` as inputs of compiled functions such as ``drives``.

    Args:
        end: Time from the velocity of the dynamics to that of the friction, s.
        parameters: Parameters of the law by name.
    """
    return (
        end,
        parameters['stiction_velocity'],
        float(parameters['friction_compensation']),
        float(parameters['friction_velocity'] == 'desired'),
    )


def feedback_gains(
    natural_frequency: Vector, damping_ratio: Vector, period: float
) -> tuple[list[float], list[float]]:
    r"""Return :math:`K_p = \omega_0^2` (1/s^2) and :math:`K_d = 2\zeta\omega_0` (1/s) per joint.

    Args:
        natural_frequency: rad/s.
        damping_ratio: Dimensionless.
        period: Time between two commands h, s; 0 for a continuous loop.

    Raises:
        ParameterError: The sampled loop would be unstable. With :math:`x = \omega_0 h` it is
            stable for :math:`x^2 + 4\zeta x < 4` (semi-implicit plant) and, in addition,
            :math:`x < 4\zeta` (effort held on a continuous plant).
    """
    for i, (w, zeta) in enumerate(zip(natural_frequency, damping_ratio, strict=True)):
        x = w * period
        if x > 0.0 and not (x * x + 4.0 * zeta * x < 4.0 and x < 4.0 * zeta):
            raise ParameterError(
                'natural_frequency',
                w,
                f'with damping_ratio {zeta:g} joint {i} is unstable at a period of {period:g} s',
            )
    Kp = [w * w for w in natural_frequency]
    Kd = [2.0 * zeta * w for w, zeta in zip(natural_frequency, damping_ratio, strict=True)]
    return Kp, Kd


class DriveFriction:
    """Compiled friction of ``JointTerms``.

    Args:
        tree: The robot.

    Attributes:
        effort: The last result, shape (n,), N m or N.
    """

    def __init__(self, tree: RobotTree) -> None:
        n, terms = tree.n, JointTerms.of(tree)
        self.effort, self._settings = np.zeros(n), np.zeros(2)
        self._write = compile_function(
            'friction',
            {'v': n, 'load': n, 'settings': 2},
            {'tau': (n,)},
            lambda v, load, s: [s[1] * terms.friction(v, load, smooth_direction(v, s[0]))],
            fused=False,
        )
        self.configure(terms.stiction_velocity)

    def configure(self, stiction_velocity: float, share: float = 1.0) -> None:
        """Set the velocity scale of the smooth sign, rad/s or m/s, and a factor of the result."""
        self._settings[:] = stiction_velocity, share

    def at(self, v: Array, load: Array) -> Array:
        """Return the friction at velocities and rigid-body efforts, shape (n,) each."""
        self._write(v, load, self._settings, self.effort)
        return self.effort
