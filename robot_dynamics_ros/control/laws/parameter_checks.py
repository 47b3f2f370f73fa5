# SPDX-License-Identifier: Apache-2.0
"""Checks of the parameters that laws share: gains, switches, choices."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array


def known_names(values: Mapping[str, Any], known: Iterable[str], law: str) -> None:
    """Refuse a parameter that a law does not have.

    Raises:
        ParameterError: Names the parameter and those that exist.
    """
    known = tuple(known)
    for name, value in values.items():
        if name not in known:
            listed = ', '.join(known) or 'none'
            raise ParameterError(
                name, value, f'law {law!r} has no such parameter; it has {listed}'
            )


def per_joint(name: str, value: Any, n: int, *, zero_allowed: bool = True) -> list[float]:
    """Return one finite number per joint, none negative.

    Args:
        name: The parameter's name.
        value: One number for all joints or n of them.
        n: Number of joints.
        zero_allowed: Whether 0 is a good value.

    Raises:
        ParameterError: Says what is wrong with which joint's value.
    """
    numbers = finite_vector(name, value, n)
    for i, number in enumerate(numbers):
        if number < 0.0 or (number == 0.0 and not zero_allowed):
            wanted = 'must not be negative' if zero_allowed else 'must be positive'
            raise ParameterError(name, value, f'value {number:g} of joint {i} {wanted}')
    return numbers


def finite_vector(name: str, value: Any, n: int) -> list[float]:
    """Return n finite numbers from one number or n of them.

    Raises:
        ParameterError: It is something else.
    """
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise ParameterError(name, value, f'give one number, or {n}, one per joint') from None
    if array.ndim == 0:
        array = np.full(n, float(array))
    if array.shape != (n,):
        raise ParameterError(name, value, f'give one number, or {n}, one per joint')
    if not np.isfinite(array).all():
        raise ParameterError(name, value, 'must be finite')
    return array.tolist()


def number(name: str, value: Any, *, positive: bool = False) -> float:
    """Return a finite number that is not negative, or positive.

    Raises:
        ParameterError: It is something else.
    """
    wanted = 'positive' if positive else 'zero or positive'
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise ParameterError(name, value, f'must be a number, {wanted}')
    if not math.isfinite(value) or value < 0.0 or (positive and value == 0.0):
        raise ParameterError(name, value, f'must be finite and {wanted}')
    return float(value)


def switch(name: str, value: Any) -> bool:
    """Return a bool.

    Raises:
        ParameterError: It is not one.
    """
    if not isinstance(value, (bool, np.bool_)):
        raise ParameterError(name, value, 'must be true or false')
    return bool(value)


def choice(name: str, value: Any, options: tuple[str, ...]) -> str:
    """Return one of the options.

    Raises:
        ParameterError: It is none of them; lists them.
    """
    if value not in options:
        raise ParameterError(name, value, f'must be one of {", ".join(options)}')
    return str(value)


def feedback_gains(
    natural_frequency: list[float], damping_ratio: list[float], period: float
) -> tuple[list[float], list[float]]:
    r"""Return :math:`K_p = \omega_0^2` (1/s^2) and :math:`K_d = 2\zeta\omega_0` (1/s) per joint.

    Args:
        natural_frequency: rad/s.
        damping_ratio: Dimensionless.
        period: Time between two commands, s; 0 if the loop counts as continuous.

    Raises:
        ParameterError: The loop closed once per period would be unstable. With
            :math:`x = \omega_0 h` it is stable for :math:`x^2 + 4\zeta x < 4` (semi-implicit
            plant) and :math:`x < 4\zeta` (effort held on a continuous plant, in addition).
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


def middle_of_limits(tree: RobotTree) -> Array:
    """Return the middle of every joint's range, 0 for a joint without limits, shape (n,)."""
    lower, upper = tree.position_lower, tree.position_upper
    bounded = np.isfinite(lower) & np.isfinite(upper)
    middle = np.zeros(tree.n)
    middle[bounded] = 0.5 * (lower[bounded] + upper[bounded])
    return middle
