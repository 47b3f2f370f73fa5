# SPDX-License-Identifier: Apache-2.0
"""Directions; ``constraints/test_refusals`` has what is refused."""

import numpy as np
import pytest

from robot_dynamics_ros.spatial.validation import array, perpendicular, scalars, unit


@pytest.mark.parametrize('direction', [*np.eye(3), [-1.0, 1e-3, 0.0], [0.3, -2.0, 0.7]])
def test_a_perpendicular_direction_is_of_length_one_and_across(direction):
    along = unit('direction', direction)
    across = perpendicular(along)
    assert np.linalg.norm(across) == pytest.approx(1.0, rel=1e-15)
    assert abs(across @ along) < 1e-15


def test_numbers_are_copied_so_that_an_object_may_keep_them():
    given = np.zeros(3)
    array('given', given, (3,))[0] = scalars('given', given, (3,))[1] = 1.0
    assert not given.any()
