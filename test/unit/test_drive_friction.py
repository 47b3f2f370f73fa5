# SPDX-License-Identifier: Apache-2.0
"""Friction of drives against its formula, written out number by number."""

from __future__ import annotations

import math

import numpy as np
import pytest

from robot_dynamics_ros.dynamics.drive_friction import DriveFriction
from robot_dynamics_ros.errors import ConfigurationError

TEXT = """
joints:
  b: {offset: 0.5, load_friction: 0.1, stribeck_friction: 2.0, stribeck_velocity: 0.2}
  a: {root_friction: 3.0, square_friction: -0.7, cubic_friction: 0.3, stribeck_velocity: 0.1}
"""


@pytest.fixture
def path(tmp_path):
    (tmp_path / 'parameters.yaml').write_text(TEXT)
    return tmp_path / 'parameters.yaml'


def test_each_term_is_what_the_formula_says(path):
    friction = DriveFriction.read(path, ['a', 'b'])
    v, load = np.array([[0.4, -0.3], [-1.5, 0.1]]), np.array([[7.0, -20.0], [2.0, 5.0]])
    expected = [
        [
            3.0 * math.sqrt(0.4) - 0.7 * 0.4**2 + 0.3 * 0.4**3,
            0.5 - 0.1 * 20.0 - 2.0 * math.exp(-((0.3 / 0.2) ** 2)),
        ],
        [
            -3.0 * math.sqrt(1.5) + 0.7 * 1.5**2 - 0.3 * 1.5**3,
            0.5 + 0.1 * 5.0 + 2.0 * math.exp(-((0.1 / 0.2) ** 2)),
        ],
    ]
    # A few operations on numbers of about 5.
    np.testing.assert_allclose(friction.effort(v, load), expected, rtol=0, atol=1e-13)


def test_at_rest_only_the_offset_is_left(path):
    friction = DriveFriction.read(path, ['a', 'b'])
    np.testing.assert_array_equal(friction.effort(np.zeros(2), np.ones(2)), [0.0, 0.5])


@pytest.mark.parametrize(
    ('text', 'joints'),
    [(TEXT, ['a', 'c']), ('[]', ['a']), (TEXT.replace('0.1}', '-1}'), ['a']),
     (TEXT.replace('3.0', '.nan'), ['a'])],
)  # fmt: skip
def test_a_file_of_another_robot_is_refused_by_name(tmp_path, text, joints):
    (tmp_path / 'other.yaml').write_text(text)
    with pytest.raises(ConfigurationError, match=r'other\.yaml'):
        DriveFriction.read(tmp_path / 'other.yaml', joints)
