# SPDX-License-Identifier: Apache-2.0
"""Operations are counted as they are executed, and as they are generated."""

import inspect
import re
from collections import Counter

import pytest
from checkout import ROOT
from samples import Sample, sample
from urdf_text import joint, link, robot, symmetric

from robot_dynamics_ros.dynamics import FORMULATIONS
from robot_dynamics_ros.spatial.scalar import cos, sin, sqrt
from robot_dynamics_ros.symbolic.operation_counts import (
    Counted,
    Operations,
    counted_robot,
    operation_counts,
)

DOCS = ROOT / 'docs'
TRACED = [name for name, kind in FORMULATIONS.items() if not kind.numbers_only]
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


@pytest.mark.slow
@pytest.mark.parametrize('formulation', TRACED)
def test_the_multiplications_of_a_chain_are_those_that_are_stated(formulation):
    """One formula in the class; docstring and errata (K7) state it too, and `compare` prints it.

    The notes' 135 n - 18 and the rebuilt 105 n + 18 n (n + 1) are for axes along z, whose products
    with 0 and 1 they skip, and with a base that passes nothing on.
    """
    kind = FORMULATIONS[formulation]
    for n in range(1, len(kind.multiplications.coefficients) + 2):  # one more than needed
        tree, counted = chain(n).tree, Counted(Counter())
        robot = counted_robot(tree, counted)
        for i in range(n):
            robot.placement(i, counted)
        placed = Operations.of(counted.tally).multiplications
        executed = operation_counts(tree, formulation).before.multiplications - placed
        assert kind.multiplications.at(n) == executed
    assert f'{kind.multiplications} multiplications for a chain' in inspect.getdoc(kind)


def stated(formulation):
    """Return the formula of a formulation."""
    return FORMULATIONS[formulation].multiplications


def test_the_documents_state_what_is_counted():
    """Errata K7, and the operations left after the constants of a robot are folded in."""
    kane, newton_euler = stated('kane'), stated('newton_euler')
    assert all(kane.at(n) > newton_euler.at(n) for n in range(1, 21))
    [row] = [line for line in page('errata').splitlines() if line.startswith('| K7 |')]
    assert f'`{kane}` against `{newton_euler}` multiplications' in row
    assert f'n = 6: {kane.at(6)} against {newton_euler.at(6)}' in row
    left = operation_counts(sample('scara').tree, 'newton_euler').after
    assert left.trigonometric == 4
    assert re.search(rf'operations after folding \| \d+ \| {left.total} \|', page('kernels'))
    assert f'that of Newton-Euler {left.total}.' in page('extending')


def page(name):
    """Return the text of a page of the documentation."""
    return (DOCS / f'{name}.md').read_text(encoding='utf-8')
