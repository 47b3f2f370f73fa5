# SPDX-License-Identifier: Apache-2.0
"""Bounds within which a wrong mass is a likelier cause than a wrong unit, sign or robot."""

from types import SimpleNamespace

import numpy as np
import pytest
from samples import sample

from robot_dynamics_ros.estimation.accumulate import ResidualSums
from robot_dynamics_ros.estimation.hypotheses import Cause, GravityFit, is_possible
from robot_dynamics_ros.identification.validation import Residuals, implausible

TREE = sample('four_dof').tree.with_changes(mass=np.array([1.0, 10.0, 5.0, 4.0]))  # 20 kg
EDGE = 1e-3  # relative distance from a bound

#: Body, or None for the arm, the bound of its mass relative to the described one, and on which
#: side of it a mass is impossible.
BOUNDS = [(None, 0.5, -1), (None, 2.0, 1), (1, 0.2, -1), (1, 3.0, 1), (0, 1.0 + 0.25 * 20.0, 1)]


def reasons(mass, after=None, com=TREE.com) -> str:
    plan = SimpleNamespace(unknowns=SimpleNamespace(tree=TREE))
    found = SimpleNamespace(plan=plan, tree=TREE.with_changes(mass=mass, com=com))
    return ' '.join(implausible(found, after))


@pytest.mark.parametrize(
    ('size', 'left', 'worst'),
    [(0.1, 0.8, 1.25), (1.0, 0.8, 80.0), (10.0, 0.8, 80.0), (0.1, 4e3, 4e5)],
)
def test_what_drives_do_not_resolve_is_no_other_robot(size, left, worst):
    """An arm recorded slowly: 1 mN m of noise is most of what its wrist needs.

    Of a large effort that a drive does not tell, it is said.
    """
    effort = np.array([8.0, 8.0, 8.0, 0.005 * size])
    rest = np.append([0.1, 0.1, 0.1], left * effort[3])
    columns = (np.tile(x, (2, 1)) for x in (effort, rest, np.ones(4, dtype=bool)))
    sums = ResidualSums.of(np.array([0.0, 1.0]), *columns)
    after = Residuals.of(TREE, sums)
    said = reasons(TREE.mass, after)
    told = '80 % of the effort of joint4 remain unexplained (joint1 1.25 %, ' in said
    assert told is (size > 1.0)
    assert after.worst == pytest.approx(worst)


@pytest.mark.parametrize(('body', 'ratio', 'beyond'), BOUNDS)
def test_an_arm_weighs_half_to_twice_its_description_and_a_link_a_fifth_to_thrice(
    body, ratio, beyond
):
    """Or a quarter of the arm more."""
    who = 'the whole arm' if body is None else TREE.link_names[body]
    for side in (-1, 1):
        changed, mass = ratio * (1.0 + side * EDGE), TREE.mass.copy()
        mass[body] *= changed
        if body is not None:
            x = np.array([(changed - 1.0) * TREE.mass[body]])
            assert is_possible(TREE, Cause('link', (), body=body), x) is (side != beyond)
        assert (f'{who} would weigh' in reasons(mass)) is (side == beyond)


@pytest.mark.parametrize('factor', [0.01, 0.299, 0.301, 0.49, 1.99, 2.1, 3.32, 3.34])
def test_a_common_factor_of_efforts_is_one_of_masses_or_another_unit(factor):
    """Else it would be told as a load."""
    found = [is_possible(TREE, Cause(x, ()), np.array([factor - 1.0])) for x in ('mass', 'unit')]
    assert sorted(found) == [False, True]


@pytest.mark.parametrize(('model', 'verdict'), [(-981.0, 'mismatch'), (-9.81, 'agrees')])
def test_a_gravity_in_another_unit_is_not_taken_for_a_compensated_one(model, verdict):
    down, one = np.array([0.0, 0.0, 1.0]), np.ones(1)
    fit = GravityFit(model * down, -9.81 * down, 1.0, 0.0, one, 0.0 * one)
    assert fit.verdict == verdict


@pytest.mark.parametrize('side', [-1, 1])
def test_a_centre_is_within_one_and_a_half_lengths_of_a_link(side):
    """As of an arm whose links are longer than described; link 2 reaches 0.3 m, the last any."""
    far = np.tile([0.0, 0.45 * (1.0 + side * EDGE), 0.0], (4, 1)) * [[0.0], [1.0], [0.0], [9.0]]
    said = reasons(TREE.mass, com=far)
    assert ('the centre of mass of link2 would be 0.45 m' in said) is (side > 0)
    assert 'of link4' not in said
