# SPDX-License-Identifier: Apache-2.0
"""A parameter declaration: accepted values, texts, derived objects."""

from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import pytest
import tables

from robot_dynamics_ros.errors import ConfigurationError, ParameterError, UnknownNameError
from robot_dynamics_ros.parameters import (
    Parameter,
    checked,
    defaults,
    help_text,
    parameter,
    parameters_of,
    require_known,
    require_used,
    spread,
    table,
)
from robot_dynamics_ros.ros.executables import assigned, declared_parameters

GAIN = Parameter('gain', [10.0], 'Gain.', 0.0, 100.0, unit='1/s', per_joint=True)
COUNT = Parameter('count', 1, 'How many.', 1, 10)
SWITCH = Parameter('switch', True, 'Whether it is on.')
KIND = Parameter('some_kind', 'round', 'Which form.', choices=('round', 'flat'), fixed=True)
POINT = Parameter('point', [0.0] * 3, 'Where.', unit='m', size=3)
NAMES = Parameter('names', [''], 'Who.')
ALL = (GAIN, COUNT, SWITCH, KIND, POINT, NAMES)


def test_a_value_that_is_allowed_comes_in_its_declared_type():
    """As lists and numbers of Python; the bounds belong to the range."""
    given = [
        (GAIN, 3, [3.0]),
        (GAIN, np.array([1, 100]), [1.0, 100.0]),
        (GAIN, np.float64(0.0), [0.0]),
        (COUNT, np.int64(10), 10),
        (SWITCH, np.False_, False),
        (KIND, 'flat', 'flat'),
        (POINT, (1, 2, 3), [1.0, 2.0, 3.0]),
        (NAMES, ['a', 'b', 'c'], ['a', 'b', 'c']),
    ]
    found = [one.check(value, 2) for one, value, _ in given]
    assert repr(found) == repr([expected for *_, expected in given])
    assert found[-1] is not given[-1][1]


@tables.written("""
    [gain, [1.0, 2.0, 3.0], 2] | give 1 or 2 finite numbers from 0 to 100
    [gain, [1.0, 2.0], 3] | give 1 or 3 finite numbers
    [gain, [1.0, 2.0], 1] | give one finite number from 0 to 100 for all joints, or one per
    [gain, [], null] | give one finite number from 0 to 100 for all joints, or one per joint
    [gain, -1.0, 2] | from 0 to 100
    [gain, true, 2] | finite number
    [gain, '1', 2] | finite number
    [gain, [[1.0]], 2] | finite number
    [count, 0, null] | must be a whole number from 1 to 10
    [count, 2.0, null] | whole number
    [count, true, null] | whole number
    [switch, 1, null] | must be true or false
    [point, [1.0, 2.0], null] | give 3 finite numbers
    [point, [1.0, .inf, 0.0], null] | give 3 finite numbers
    [point, 1.0, null] | give 3 finite numbers
    [names, a, null] | give a list of text
    [names, [1], null] | give a list of text
    [some_kind, square, null] | unknown some kind 'square'; known: flat, round
    [some_kind, null, null] | unknown some kind None; known: flat, round
""")
def test_a_value_that_is_not_allowed_is_refused_with_what_would_be(given, said):
    name, value, n = given
    (one,) = (one for one in ALL if one.name == name)
    with pytest.raises((ParameterError, UnknownNameError), match=said) as caught:
        one.check(value, n)
    assert '\n' not in str(caught.value)


def test_what_is_just_beyond_the_bounds_is_refused():
    for beyond in (np.nextafter(0.0, -1.0), np.nextafter(100.0, 200.0), 10**400):
        with pytest.raises(ParameterError, match='finite number'):
            GAIN.check(beyond)


def test_checking_many_leaves_what_is_not_declared_and_defaults_are_new():
    given = {'gain': 2, 'other': object()}
    assert checked(ALL, given) == {'gain': [2.0], 'other': given['other']}
    assert given['gain'] == 2
    with pytest.raises(UnknownNameError, match="unknown parameter 'other'; known: count"):
        require_known(ALL, given, 'parameter')
    defaults(ALL)['gain'].append(1.0)
    assert defaults(ALL)['gain'] == [10.0]
    assert checked(ALL, defaults(ALL)) == defaults(ALL)


def test_a_dataclass_declares_by_its_fields():
    @dataclass(frozen=True)
    class Settings:
        gain: list[float] = parameter([10.0], 'Gain.', 0.0, 100.0, unit='1/s', per_joint=True)
        switch: bool = parameter(True, 'Whether it is on.')
        other: int = 3

    assert parameters_of(Settings) == (GAIN, SWITCH)
    assert vars(Settings()) == {'gain': [10.0], 'switch': True, 'other': 3}
    assert Settings().gain is not Settings().gain


def test_one_number_is_spread_over_the_joints():
    each = [1.0, 2.0, 3.0]
    assert [spread([2.0], 3), spread(each, 3)] == [[2.0] * 3, each]


def test_table_and_help_say_everything_of_a_parameter():
    row = table([GAIN]).splitlines()[-1]
    assert row == (
        '| `gain` | `[10.0]` | one finite number from 0 to 100 for all joints, or one per joint '
        '| Gain [1/s]. |'
    )
    assert '| one of round, flat; at the start only |' in table([KIND])
    help_page = help_text(ALL)
    assert all(f'  {one.name} = ' in help_page for one in ALL)
    assert 'switch = true   (true or false)\n      Whether it is on.' in help_page


@tables.written("""
    [trajectory, '-p goal:=[0.1]', {kind: circle}] | -p kind:=point too
    [trajectory, '-p laps:=2.0 -p use_sim_time:=true', {kind: point}] | kind:=circle
    [simulator, '--param lockstep_timeout_s:=1.0', {mode: real_time}] | mode:=lockstep
    [driver_emulator, '-p own_controller:=none', {mode: lockstep}] | mode:=real_time
    [driver_emulator, '-p own_position:=0.1', {own_controller: none}] | controller:=hold
    [trajectory, '-p speed_scale:=0.5', {kind: none}] | kind:=point or waypoints or
    [trajectory, '-p boxes:=[0.1]', {kind: none}] | no effect with kind 'none'
    [trajectory, '-p tool_angle:=0.3', {kind: line}] | -p keep_tool_angle:=false too
    [trajectory, '-p tool_angle:=0.3', {kind: point, keep_tool_angle: false}] | no effect with kind 'point'; give -p kind:=circle or line too
    [controller, '-p program:=x.yaml', {law: pd_gravity}] | law:=constraint_stab
    [trajectory, '-p node:goal:=[0.1]', {kind: sine}] | kind:=point
    [trajectory, '-p goal:=[0.1]', {kind: point}] | accepted
    [trajectory, '--params-file radius.yaml', {kind: point}] | accepted
    [controller, '-p period:=0.002', {law: gravity_compensation}] | accepted
""")  # noqa: E501
def test_a_parameter_of_the_command_line_has_an_effect_or_is_refused(given, said):
    """Files keep the parameters of several kinds, for a later change of the law."""
    executable, arguments, values = given
    declared = declared_parameters(executable)
    refused = pytest.raises(ConfigurationError, match=said)
    with nullcontext() if 'accepted' in said else refused:
        require_used(declared, defaults(declared) | values, assigned(arguments.split()))
