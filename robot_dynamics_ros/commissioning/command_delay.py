# SPDX-License-Identifier: Apache-2.0
r"""Delay from a state to the effect of its command, estimated from a recorded motion.

Between two states k and k + 1 the effort

.. math:: w_k = ID(\bar q, \bar v, \Delta v/h) + J_a\,\Delta v/h

moved the arm, whatever commanded it. With the command :math:`u_k` that answers state k and a
delay of d periods, :math:`p = d - \lfloor d\rfloor`, it is

.. math:: w_k = s\,\{p\,u_{k-\lceil d\rceil} + (1-p)\,u_{k-\lfloor d\rfloor}\}
          + b\,\bar v + c\,\mathrm{sgn}\,\bar v + o

for each joint, where s, b, c and o (scale of the drive, friction and an offset) are fitted. The
delay that leaves the smallest residuals in all joints together is the estimate. Commands that
change quickly determine it: a small motion within a tenth of a second or two.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.estimation.residual_causes import CORRELATED
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.recordings.samples import differentiated
from robot_dynamics_ros.recordings.timing import periods
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import compile_kernel

_MOST, _STEP = 20.0, 0.05  # largest delay that is tried, and distance of the tried ones, periods
_FAST = 0.05  # s before and after a quick change of the command that are evaluated
_CHANGES = 20  # number of quickest changes that are evaluated
_EXPLAINED = 0.5  # share of the variation of a joint's effort that its command must explain
_LEAST = 0.005  # smallest range of a command, as a share of the effort limit
_SLIDES = 0.1  # share of its largest speed above which its friction is that of sliding


class CommandDelay(NamedTuple):
    """Estimated delay.

    Attributes:
        periods: The delay, in periods of the states.
        deviation: Its standard deviation, periods.
        period: Time between two states, s.
        joints: Names of the joints whose commands determine it.
    """

    periods: float
    deviation: float
    period: float
    joints: tuple[str, ...]


def estimate_delay(
    tree: Robot,
    time: Array,
    q: Array,
    v: Array,
    command: Array,
    share: Callable[[Array, Array], Array] | None = None,
) -> CommandDelay:
    """Estimate the delay of commands from a recorded motion.

    Args:
        tree: The robot.
        time: Timestamps of the states, shape (N,), s.
        q: Positions, shape (N, n), rad or m.
        v: Velocities, shape (N, n), rad/s or m/s; NaN: positions are differentiated.
        command: Commands that answer the states, shape (N, n), N m or N at the joints.
        share: Returns the effort that the driver adds at q and v, shape (n,); None: none.

    Raises:
        RecordingError: The commands do not change quickly enough, or act too late.
    """
    if len(time) < 3:
        raise RecordingError('commands', f'answer {len(time)} states', 'record for longer')
    v = np.where(np.isfinite(v), v, np.gradient(q, time, axis=0))
    period = float(np.median(np.diff(time)))
    rows = _rows(time, command, period)
    acted, speed = _acting_effort(tree, time, q, v, rows, share)
    delays = np.arange(0.0, _MOST + 0.5 * _STEP, _STEP)
    squares = np.array([_residuals(acted, speed, _late(command, rows, d)) for d in delays])
    variation = _residuals(acted, speed, 0.0 * acted)
    known = squares.min(axis=0) < (1.0 - _EXPLAINED) * variation
    if len(rows):
        known &= np.ptp(command[rows], axis=0) > _LEAST * tree.effort_limit
    if not known.any():
        raise RecordingError(
            'commands', 'do not change quickly enough to show their delay', 'see commissioning'
        )
    squares = np.maximum(squares[:, known], 1e-12 * variation[known])
    best = int(np.argmin(np.log(squares).sum(axis=1)))
    if best == len(delays) - 1:
        raise RecordingError(
            'commands',
            f'act {_MOST:g} periods after their states, or later',
            'lower the rate of the states to measure it',
        )
    relative = (squares / squares[best]).sum(axis=1)
    first = max(best - 2, 0)
    around = slice(first, first + 5)
    curvature = 2.0 * np.polyfit(delays[around], relative[around], 2)[0]
    count = len(rows) / CORRELATED
    deviation = math.sqrt(2.0 / (count * curvature)) if curvature > 0.0 else math.inf
    names = tuple(np.array(tree.joint_names)[known].tolist())
    return CommandDelay(float(delays[best]), deviation, period, names)


def _rows(time: Array, command: Array, period: float) -> Array:
    """Return the indices of regular steps near the quickest changes of the commands."""
    regular = periods(np.diff(time), period) == 1.0
    size = np.ptp(command, axis=0) + 1e-300
    changes = np.abs(np.diff(command, axis=0) / size).max(axis=1) * regular
    reach, near = max(round(_FAST / period), 1), np.zeros(len(regular), dtype=bool)
    for k in np.argsort(changes)[-_CHANGES:]:
        near[max(k - reach, 0) : k + reach] |= changes[k] > 0.0
    first = math.ceil(_MOST)
    gap = np.convolve(~regular, np.ones(first + 1))[: len(regular)] > 0.0  # since the oldest one
    near[:first] = False
    return np.flatnonzero(near & ~gap)


def _acting_effort(
    tree: Robot,
    time: Array,
    q: Array,
    v: Array,
    rows: Array,
    share: Callable[[Array, Array], Array] | None,
) -> tuple[Array, Array]:
    """Return the effort that acted after each row, less the driver's own, and the mean speed."""
    dynamics = compile_kernel(tree, outputs=('inverse_dynamics',))
    columns = differentiated('continuous', np.diff(time), q, v)
    middle, speed, a = (np.ascontiguousarray(column[rows]) for column in columns[1:4])
    acted = dynamics.batch('inverse_dynamics', middle, speed, a) + tree.armature * a
    if share is not None:
        for effort, *state in zip(acted, middle, speed, strict=True):
            effort -= share(*state)
    return acted, speed


def _late(command: Array, rows: Array, delay: float) -> Array:
    """Return the commands that act after each row with a delay, in periods."""
    part, whole = math.modf(delay)
    earlier, last = command[rows - math.ceil(delay)], command[rows - int(whole)]
    return part * earlier + (1.0 - part) * last


def _residuals(acted: Array, speed: Array, command: Array) -> Array:
    """Return the mean squares that the fitted commands leave while a joint moves, shape (n,)."""
    left = np.zeros(acted.shape[1])
    for j, (w, s, u) in enumerate(zip(acted.T, speed.T, command.T, strict=True)):
        moves = np.abs(s) > _SLIDES * np.abs(s).max(initial=0.0)  # else friction takes any effort
        if not moves.any():
            continue
        w, s = w[moves], s[moves]
        A = np.column_stack([u[moves], s, np.sign(s), np.ones(len(s))])
        solution = np.linalg.lstsq(A, w, rcond=None)[0]
        left[j] = np.mean((w - A @ solution) ** 2)
    return left
