# SPDX-License-Identifier: Apache-2.0
r"""Stability of delayed, sampled feedback on a mechanical system, linearized at rest.

A law reads the state every period h and computes an effort that acts one delay later, for a
period:

.. math:: M\ddot x + K_e x = u(t),\qquad u(t) = -K\hat x_k - D\hat{\dot x}_k
          - h\,K_I\sum_{j\le k} x_j \quad\text{for}\quad (k+d)h \le t < (k+d+1)h .

d is the delay in periods, not necessarily an integer: 0 if the effort of a state acts at once, as
in a simulator in lockstep. :math:`K_e` is the stiffness of the environment, as a pressed surface.
:math:`\hat x, \hat{\dot x}` is the measured state, or a state predicted by half a period with the
acceleration a of the last period (see ``LookAhead``): the measured one, the difference of the last
two velocities, or the commanded one, :math:`M^{-1}u_{k-1}`. Velocities may be filtered differences
of positions (see ``FilteredDerivative``).

The augmented state contains the delayed efforts, the filter and the acceleration, so stability is
exactly that all eigenvalues of one step are inside the unit circle. Between two states the plant
is integrated exactly with a held effort, or by its own semi-implicit step.

Source: K. J. Åström, B. Wittenmark, Computer-Controlled Systems, 3rd ed. 1997, section 2.3
(sampling of systems with a delay).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.spatial.scalar import Array

#: Factor by which the gain of a loop may be larger than that of the model.
GAIN_MARGIN = 1.1
_NEUTRAL = 1e-9  # radius - 1 of a loop without damping, by rounding
_TERMS = 12  # of the exponential's series, for a norm below 0.5
_LEAST, _ACCURACY = 1e-9, 1e-3  # smallest ratio that is searched, and relative accuracy
#: Rates per period below which growth is smaller than the rounding of a double eigenvalue at 1.
_SLOWEST = 4e-4
_CHECKED = (0.9, 0.7, 0.4, 0.1)  # smaller ratios that are checked, relative to the result


#: Time discretizations of a plant.
DISCRETIZATIONS = ('continuous', 'semi_implicit', 'zero_order')


class Sampling(NamedTuple):
    """How a loop is sampled.

    Attributes:
        period: Time between two states, s; 0: continuous, and always stable here.
        discretization: How the plant holds an effort: ``semi_implicit``, ``zero_order``, or
            ``continuous``, which is integrated like ``zero_order`` but never predicted.
        delay: Time from a state until its effort acts, in periods; not negative.
        velocity_cutoff_hz: Cut-off of the differentiated positions, Hz; 0: measured velocities.
    """

    period: float = 0.0
    discretization: str = 'continuous'
    delay: float = 0.0
    velocity_cutoff_hz: float = 0.0

    @classmethod
    def of(cls, parameters: Any) -> Sampling:
        """Return the sampling that parameters of a law give, by name; others are ignored."""
        return cls(**{name: parameters[name] for name in cls._fields if name in parameters})

    def __str__(self) -> str:
        late = f' with a delay of {self.delay:g} periods' if self.delay else ''
        return f'a period of {self.period:g} s{late}'


#: A loop without a period.
CONTINUOUS = Sampling()


class FeedbackLoop(NamedTuple):
    r"""Linearized feedback of a law on some coordinates x.

    Attributes:
        parameter: Name of the law's parameter that sets its strength.
        mass, stiffness, damping: M, K and D, shape (k, k).
        friction: Part of D that does not depend on the parameter, shape (k, k); None: none.
        prediction: Acceleration used for the prediction: 'none', 'measured' or 'commanded'.
        exponent: The parameter is proportional to this power of the natural frequency.
        subject: What is unstable, in messages; empty: the parameter.
        environment: Stiffness of the environment :math:`K_e`, shape (k, k); None: none.
        integral: Gain of the integral of x, :math:`K_I`, shape (k, k); None: none.
    """

    parameter: str
    mass: Array
    stiffness: Array
    damping: Array
    prediction: str = 'none'
    exponent: float = 1.0
    subject: str = ''
    environment: Array | None = None
    integral: Array | None = None
    friction: Array | None = None

    def scaled(self, frequency: float) -> FeedbackLoop:
        """Return the loop with its natural frequencies multiplied, at equal damping ratios."""
        stiffness, damping = frequency * frequency * self.stiffness, frequency * self.damping
        return self._replace(stiffness=stiffness, damping=damping)

    def is_stable(self, sampling: Sampling) -> bool:
        """Return whether the loop is stable, also with a gain larger by ``GAIN_MARGIN``.

        A loop without prediction does not depend on the declared discretization of the plant, so
        it must be stable for both.
        """
        if sampling.period <= 0.0:
            return True
        friction = 0.0 if self.friction is None else self.friction
        firm = self._replace(
            stiffness=GAIN_MARGIN * self.stiffness,
            damping=GAIN_MARGIN * (self.damping + friction) - friction,
        )
        plants = [sampling]
        if self.prediction == 'none':
            plants = [sampling._replace(discretization=x) for x in ('semi_implicit', 'zero_order')]
        pairs = ((loop, plant) for plant in plants for loop in (self, firm))
        return all(spectral_radius(*pair) <= 1.0 + _NEUTRAL for pair in pairs)

    def largest(self, sampling: Sampling) -> float:
        """Return the largest factor, at most 1, of the parameter at which the loop is stable."""
        inverse = np.linalg.inv(self.mass)
        with np.errstate(all='ignore'):
            K, D = (float(np.abs(inverse @ x).max()) for x in (self.stiffness, self.damping))
        fastest = sampling.period * max(math.sqrt(K), D)
        least = min(_SLOWEST / fastest, 0.1) if 0.0 < fastest < math.inf else _LEAST
        ratio = largest_ratio(lambda ratio: self.scaled(ratio).is_stable(sampling), least)
        return float(ratio**self.exponent)

    def bearable_environment(self, sampling: Sampling) -> float:
        """Return the largest factor, at most 1, of the environment's stiffness that is stable."""
        stiffness = self.environment
        assert stiffness is not None
        return largest_ratio(
            lambda part: self._replace(environment=part * stiffness).is_stable(sampling)
        )


def scalar_loop(
    parameter: str, frequency: float, ratio: float, prediction: str = 'none', **more: Any
) -> FeedbackLoop:
    """Return the loop of one coordinate with a natural frequency, rad/s, and a damping ratio."""
    numbers = 1.0, frequency * frequency, 2.0 * ratio * frequency
    mass, stiffness, damping = (np.array([[x]]) for x in numbers)
    return FeedbackLoop(parameter, mass, stiffness, damping, prediction, **more)


@lru_cache(maxsize=64)
def fastest_frequency(sampling: Sampling, ratio: float, prediction: str) -> float:
    """Return the largest natural frequency that is stable at a damping ratio, rad/s.

    All smaller ones are stable too; infinite for a continuous loop.
    """
    if sampling.period <= 0.0:
        return math.inf
    most = 4.0 / sampling.period
    unit = scalar_loop('', most, ratio, prediction)
    return most * unit.largest(sampling)


@lru_cache(maxsize=64)
def largest_damping(sampling: Sampling) -> float:
    """Return the largest stable damping per inertia, 1/s; infinite for a continuous loop."""
    if sampling.period <= 0.0:
        return math.inf
    one = np.array([[1.0]])
    unit = FeedbackLoop('', one, 0.0 * one, 4.0 / sampling.period * one)
    return unit.damping.item() * unit.largest(sampling)


def largest_ratio(stable: Callable[[float], bool], least: float = _LEAST) -> float:
    """Return the largest ratio, at most 1, that is stable with all smaller ones; 0 if none is.

    Found by bisection; smaller ratios are checked at some places. A ratio below ``least``, itself
    less than 1, counts as 0.
    """
    high, least = 1.0, max(least, _LEAST)
    while high > least:
        low, edge = 0.0 if high < 1.0 or not stable(high) else high, high
        while edge > (1.0 + _ACCURACY) * max(low, least):
            middle = math.sqrt(max(low, least) * edge)
            low, edge = (middle, edge) if stable(middle) else (low, middle)
        worse = [low * part for part in _CHECKED if low and not stable(low * part)]
        if not worse:
            return low
        high = min(worse)
    return 0.0


def spectral_radius(loop: FeedbackLoop, sampling: Sampling) -> float:
    """Return the largest modulus of the eigenvalues of one step; the loop is stable below 1.

    Args:
        loop: The loop.
        sampling: Its sampling, with a positive period.
    """
    with np.errstate(all='ignore'):
        step = step_matrix(loop, sampling)
    return float(np.abs(np.linalg.eigvals(step)).max()) if np.isfinite(step).all() else math.inf


def step_matrix(loop: FeedbackLoop, sampling: Sampling) -> Array:
    r"""Return the matrix of one step of the augmented state.

    The state consists of :math:`x, h\dot x`; with a filter of :math:`x_{k-1}` and its last value;
    with a prediction of the last velocity or of the last acceleration; of the integral; and of the
    efforts that have not acted yet, as accelerations, latest first. All times are in periods.

    Args:
        loop: The loop on k coordinates.
        sampling: Its sampling, with a positive period.
    """
    k, h = len(loop.mass), sampling.period
    inverse = np.linalg.inv(loop.mass)
    friction = 0.0 if loop.friction is None else loop.friction
    K, D = h * h * inverse @ loop.stiffness, h * inverse @ (loop.damping + friction)
    environment = np.zeros((k, k)) if loop.environment is None else loop.environment
    waiting = math.ceil(sampling.delay)
    filtered, predicted = sampling.velocity_cutoff_hz > 0.0, loop.prediction != 'none'
    integral = loop.integral is not None
    blocks = 2 + 2 * filtered + predicted + integral + waiting
    unit = np.eye(blocks * k).reshape(blocks, k, blocks * k)
    position, velocity, memory = unit[0], unit[1], unit[2 * filtered + 2 : 2 * filtered + 3]
    measured, new = velocity, []
    if filtered:
        decay = math.exp(-2.0 * math.pi * sampling.velocity_cutoff_hz * h)
        measured = decay * unit[3] + (1.0 - decay) * (position - unit[2])
        new += [position, measured]
    q, v = position, measured
    if predicted:
        a = measured - memory[0] if loop.prediction == 'measured' else memory[0]
        ahead = 0.5 if sampling.discretization == 'zero_order' else 0.0
        lead = 0.0 if sampling.discretization == 'continuous' else 0.5
        q, v = q + ahead * (v + 0.5 * ahead * a), v + lead * a
    effort = -K @ q - D @ v
    if loop.integral is not None:
        total = unit[2 + 2 * filtered + predicted] + position
        effort = effort - h**3 * inverse @ loop.integral @ total
    if predicted:
        new.append(measured if loop.prediction == 'measured' else effort)
    if integral:
        new.append(total)
    efforts = [effort, *unit[blocks - waiting :]]
    late = waiting - sampling.delay  # the earlier effort acts for the rest of the period
    parts = [(1.0 - late, efforts[waiting]), (late, efforts[max(waiting - 1, 0)])]
    moved = _moved(position, velocity, parts, h * h * inverse @ environment, sampling)
    return np.concatenate([*moved, *new, *efforts[:waiting]])


def _moved(
    position: Array,
    velocity: Array,
    parts: list[tuple[float, Array]],
    environment: Array,
    sampling: Sampling,
) -> tuple[Array, Array]:
    """Return position and velocity after a period, as rows of the augmented state.

    Args:
        position: Rows of the position.
        velocity: Rows of the velocity, per period.
        parts: Parts of the period, and the acceleration by the effort in each.
        environment: Stiffness of the environment by inertia and period.
        sampling: The sampling.
    """
    if sampling.discretization == 'semi_implicit':
        acceleration = sum(part * effort for part, effort in parts)
        velocity = velocity + acceleration - environment @ position
        return position + velocity, velocity
    k = len(environment)
    for part, effort in parts:
        A = np.zeros((3 * k, 3 * k))
        A[:k, k : 2 * k] = A[k : 2 * k, 2 * k :] = np.eye(k)
        A[k : 2 * k, :k] = -environment
        held = _exponential(part * A)[: 2 * k] @ np.concatenate([position, velocity, effort])
        position, velocity = held[:k], held[k:]
    return position, velocity


def _exponential(A: Array) -> Array:
    """Return the exponential of a matrix, by its series after halving its norm below 0.5."""
    halvings = max(0, math.ceil(math.log2(max(float(np.abs(A).sum(axis=1).max()), 0.5))) + 1)
    A = A / 2.0**halvings
    result = term = np.eye(len(A))
    for i in range(1, _TERMS):
        term = term @ A / i
        result = result + term
    for _ in range(halvings):
        result = result @ result
    return result
