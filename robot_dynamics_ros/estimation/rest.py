# SPDX-License-Identifier: Apache-2.0
"""Whether an arm rests or moves: one rule for each question, for every command.

=============================== =========================== =====================================
question                        rule                        used
=============================== =========================== =====================================
Does a joint move at all?       :func:`moving_joints`       recordings of an arm at rest
When does the arm stand still?  :func:`rests`               held poses, tool of a sensor
May friction hold a joint?      :func:`standstill`          samples to identify, of a whole motion
the same, at a single instant   ``STICKS``                  residual of a model, monitor
=============================== =========================== =====================================
"""

from __future__ import annotations

import numpy as np

from robot_dynamics_ros.estimation.filtering import white_noise
from robot_dynamics_ros.spatial.scalar import Array

#: rad/s or m/s; below it a joint with Coulomb friction may stick. A single instant knows neither
#: the peak nor the noise of the motion.
STICKS = 5e-3
#: Share of the largest speed of a joint below which it rests.
AT_REST = 0.02
HELD_S = 0.3  #: least time of a pose, s
_MOVED = 10.0  # ratio of velocity to noise standard deviation above which a joint moves
_LEAST_SPEED = 1e-6  # rad/s or m/s; slower joints are at rest
_SLOW = 5e-3  # share of the peak velocity below which a joint may stick
_CREEP = 1e-4  # the same, of the velocity limit: simulated sticking joints creep slightly
_SURE = 5.0  # standard deviations of velocity noise above which the direction is certain
_SMOOTHED_S = 0.05  # s over which positions are averaged, to smooth encoder steps
_CORRUPTED = 5  # states around two wrong ones, which move no arm


def moving_joints(q: Array, v: Array) -> Array:
    """Return a mask of the joints that move by more than their noise, shape (n,).

    Args:
        q: Positions, shape (N, n), rad or m; with fewer than four, no joint is seen to move.
        v: Velocities, shape (N, n), rad/s or m/s.
    """
    if len(v) < 4:
        return np.zeros(v.shape[1], dtype=bool)
    spread, noise = v.std(axis=0), white_noise(v)
    moves = (spread > _MOVED * noise) & (spread > _LEAST_SPEED)
    return moves | (np.ptp(q, axis=0) > 100.0 * np.maximum(white_noise(q), _LEAST_SPEED))


def rests(time: Array, q: Array) -> list[slice]:
    """Return the rows of the periods of rest, without the first third, in which an arm settles.

    Rest is relative to the speed of each joint that moves, so in any unit of its position.

    Args:
        time: Shape (N,), s, increasing.
        q: Positions, shape (N, n).
    """
    from scipy import ndimage  # deferred: slow to import

    step = float(np.median(np.diff(time))) if len(time) > 1 else 0.0
    width = max(1, round(_SMOOTHED_S / step)) if step > 0.0 else 1
    if len(q) < max(2 * width, 3):
        return []
    q = ndimage.median_filter(q, (_CORRUPTED, 1), mode='nearest')
    smooth = ndimage.uniform_filter1d(q, width, axis=0, mode='nearest')
    v = np.gradient(smooth, time, axis=0)
    slow = (np.abs(v) <= AT_REST * np.abs(v).max(axis=0))[:, moving_joints(q, v)].all(axis=1)
    slow &= np.diff(time, prepend=time[0]) < HELD_S  # in a gap it may have moved
    return [
        slice(rows.start + (rows.stop - rows.start) // 3, rows.stop)
        for (rows,) in ndimage.find_objects(ndimage.label(slow)[0])
        if np.ptp(time[rows]) >= HELD_S
    ]


def standstill(v: Array, noise: Array, limit: Array) -> Array:
    """Return the speeds up to which dry friction may hold the joints of a motion, shape (n,).

    Args:
        v: Velocities, shape (N, n), rad/s or m/s.
        noise: Standard deviations of their noise, shape (n,).
        limit: Velocity limits, shape (n,).
    """
    return np.maximum(_CREEP * limit, np.maximum(_SLOW * np.abs(v).max(axis=0), _SURE * noise))
