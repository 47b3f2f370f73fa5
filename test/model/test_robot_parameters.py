# SPDX-License-Identifier: Apache-2.0
"""Parameters of a node that specify its robot."""

import pytest
import tables
from samples import sample

from robot_dynamics_ros.errors import ConfigurationError, ParameterError
from robot_dynamics_ros.model.robot_parameters import ROBOT, robot_from_parameters
from robot_dynamics_ros.parameters import checked, defaults

FILE = sample('scara').tree.effort_limit.tolist()


@pytest.mark.parametrize('none', [0, -1])
def test_the_parameter_effort_limit_raises_no_limit_of_description_or_driver(none):
    """One number for all joints, or one per joint, of which 0 leaves the others' limit."""
    text = sample('scara').xml.replace(f'effort="{FILE[1]:g}"', f'effort="{none}"')

    def limits(effort_limit, driver=None):
        given = defaults(ROBOT) | {'robot_description': text, 'effort_limit': effort_limit}
        return robot_from_parameters(given, driver_limits=driver).effort_limit.tolist()

    assert limits([1.0]) == [1.0] * 4
    assert limits([1e4]) == [FILE[0], 1e4, *FILE[2:]]
    assert limits([2.0, 3.0, 0.0, 1e4]) == [2.0, 3.0, *FILE[2:]]
    assert limits([7.0], {'joint1': 6.0, 'joint2': 9.0}) == [
        6.0,
        7.0,
        *(min(7.0, x) for x in FILE[2:]),
    ]
    assert limits([0.0, 0.0, 2.0, 0.0], 11.0) == [FILE[0], 11.0, 2.0, FILE[3]]
    with pytest.raises(ParameterError, match='give 1 or 4 finite numbers of at least 0, for all'):
        limits([1.0, 2.0])


@tables.written("""
{locked: ['j1:=0.1', 'j1:=0.2']}            | locked 'j1:=0.2': has a name that is given twice
{locked: [j1]}                              | locked 'j1': has no :=; write NAME:=VALUE
{arguments: ['a:=1', 'b:=2', 'a:=1']}       | argument 'a:=1': has a name that is given twice
""")
def test_words_that_give_no_name_a_value_or_one_two_values_are_refused(given, said):
    with pytest.raises(ConfigurationError, match=said):
        robot_from_parameters({'robot': 'scara', 'gravity': [0.0] * 3, **given})


def test_gravity_in_mm_is_refused():
    with pytest.raises(ParameterError, match='gravity .* from -1000 to 1000'):
        checked(ROBOT, {'gravity': [0.0, 0.0, -9810.0]})
