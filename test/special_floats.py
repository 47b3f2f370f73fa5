# SPDX-License-Identifier: Apache-2.0
"""Floats of every class, and what selects between them: to be the same to the last bit."""

import math

import numpy as np

from robot_dynamics_ros.spatial.scalar import maximum, minimum, select

#: Every class of float, both zeros, neighbours, and non-finite numbers.
SPECIAL = (math.nan, -math.inf, -1.5, -5e-324, -0.0, 0.0, 5e-324, 1.0, 1.0 + 2**-52, math.inf)
PAIRS = np.array([(x, y) for x in SPECIAL for y in SPECIAL])


def chosen(x):
    """Return every kind of selection between two numbers, as a traced function returns it."""
    return (np.array([minimum(*x), maximum(*x), select(x[0], x[1], -x[1], x[0])]),)


def same_bits(found, expected):
    """Compare floats to the last bit, all NaN the same."""
    bits = [np.where(np.isnan(x), np.nan, x).view(np.int64) for x in (found, expected)]
    np.testing.assert_array_equal(*bits)
