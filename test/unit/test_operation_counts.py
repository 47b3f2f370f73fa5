# SPDX-License-Identifier: Apache-2.0
"""Operations are counted as they are executed, and as they are generated."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from samples import Sample, sample
from urdf_text import joint, link, robot, symmetric

from robot_dynamics_ros.errors import ParameterError, UnknownNameError
from robot_dynamics_ros.spatial.scalar import cos, cross, sin, sqrt
from robot_dynamics_ros.symbolic.operation_counts import (
    Counted,
    Operations,
    operation_counts,
    placement_operations,
)

INERTIA = symmetric(0.05, 0.04, 0.03, 0.006, -0.009, 0.007)


def chain(n) -> Sample:
    """Return n revolute joints along z with no zero in any constant."""
    elements = [link('l0')]
    for i in range(1, n + 1):
        elements.append(link(f'l{i}', 1.0, (0.1, 0.2, 0.3), INERTIA))
        place = {'xyz': (0.1, 0.2, 0.3), 'rpy': (0.3, 0.4, 0.5)}
        elements.append(joint(f'j{i}', f'l{i - 1}', f'l{i}', **place))
    return Sample('chain', robot('chain', *elements))


def test_every_operation_is_noted_once():
    tally: Counter[str] = Counter()
    x = y = Counted(tally)
    _ = (x * y + 1 - y) / 2 - cos(x) * sin(y) + sqrt(y) - 2 * x
    assert tally == Counter(mul=3, add=2, sub=3, div=1, cos=1, sin=1, sqrt=1)
    assert Operations.of(tally) == Operations(3, 5, 2, 2)
    assert Operations.of(tally).total == 12


def test_operations_inside_numpy_arrays_are_noted():
    tally: Counter[str] = Counter()
    a = np.array([Counted(tally) for _ in range(3)], dtype=object)
    cross(a, a)
    assert tally == Counter(mul=6, sub=3)
    tally.clear()
    a @ np.ones((3, 3))
    assert tally == Counter(mul=9, add=6)
    tally.clear()
    -a[0]
    _ = a[0] ** 3
    assert tally == Counter(mul=2)


@pytest.mark.parametrize('n', [1, 2, 5])
def test_newton_euler_takes_as_many_multiplications_as_its_lines_say(n):
    """111 a joint outward, 3 inward, 24 to pass force and moment on: 138 n - 24.

    The notes' 135 n - 18 is for axes along z, whose three multiplications by 0 and 1 they skip,
    with a base that passes nothing on.
    """
    tree = chain(n).tree
    executed = operation_counts(tree, 'newton_euler').before.multiplications
    assert executed - placement_operations(tree).multiplications == 138 * n - 24


@pytest.mark.parametrize('n', [1, 2, 3, 6])
def test_kane_takes_more_multiplications_than_newton_euler_erratum_k7(n):
    """The paper's conclusion says fewer.

    105 a joint for its motion, force and moment, 3 for the source of its own speed; 24 to carry a
    speed of an earlier joint along, 12 for the share of each speed: 18 n^2 + 102 n. The spec's
    105 n + 18 n (n + 1) counts the pairs more densely.
    """
    tree = chain(n).tree
    kane, newton_euler = (
        operation_counts(tree, name).before.multiplications for name in ('kane', 'newton_euler')
    )
    assert kane > newton_euler
    recursion = kane - placement_operations(tree).multiplications
    assert recursion == 18 * n**2 + 102 * n


def test_folding_leaves_some_eighty_operations_of_a_scara():
    counts = operation_counts(sample('scara').tree, 'newton_euler')
    assert counts.after.total <= 80
    assert counts.after.trigonometric == 4
    assert counts.before.total > 1000


@pytest.mark.parametrize('formulation', ['newton_euler', 'kane', 'screw', 'lagrange'])
@pytest.mark.parametrize('output', ['inverse_dynamics', 'mass_matrix'])
def test_folding_never_adds_operations(formulation, output):
    before, after = operation_counts(chain(3).tree, formulation, output)
    assert all(x <= y for x, y in zip(after, before, strict=True))


def test_what_cannot_be_counted_is_refused():
    tree = sample('rp').tree
    with pytest.raises(ParameterError, match='cannot be counted'):
        operation_counts(tree, 'pinocchio')
    with pytest.raises(ParameterError, match='only traced code'):
        operation_counts(tree, 'kane', 'derivatives')
    with pytest.raises(UnknownNameError):
        operation_counts(tree, 'kane', 'torque')
