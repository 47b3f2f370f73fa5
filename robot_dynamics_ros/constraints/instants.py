# SPDX-License-Identifier: Apache-2.0
"""The instants at which a program is looked at: none of its motions falls between two of them."""

from __future__ import annotations

import bisect
from collections.abc import Sequence

import numpy as np

from robot_dynamics_ros.constraints.signals import Signal
from robot_dynamics_ros.spatial.scalar import Array

#: More instants than this are not looked at.
MOST = 1000


def instants(signals: Sequence[Signal], horizon: float, samples: int) -> Array:
    """Return instants from 0 on, close enough for every signal that moves.

    Args:
        signals: What is given in time.
        horizon: The last instant, s, positive.
        samples: Instants at least, evenly over the horizon where nothing else decides.

    Returns:
        New array, increasing, s. It ends at the horizon, or earlier with the MOST-th instant.
    """
    widest = horizon / (samples - 1)
    changes = {t for signal in signals for t in signal.changes if 0.0 < t < horizon}
    stops = [*sorted(changes), horizon]
    times = [0.0]
    while times[-1] < horizon and len(times) < max(MOST, samples):
        t = times[-1]
        step = min([widest, *(signal.step(t) for signal in signals)])
        stop = stops[bisect.bisect_right(stops, t)]
        times.append(stop if stop - t < 1.001 * step else t + step)
    return np.array(times)
