# SPDX-License-Identifier: Apache-2.0
"""Driver profiles: valid files, every rejection, and conversions in both directions."""

import math

import numpy as np
import pytest
import tables
import yaml
from numpy.testing import assert_allclose, assert_array_equal
from samples import sample
from still_arm import commanded, driver_of

from robot_dynamics_ros.control.drivers.driver_interface import (
    DriverInterface,
    driven_robot,
    effort_limits,
)
from robot_dynamics_ros.control.drivers.profile import load_driver_profile, shipped_profiles
from robot_dynamics_ros.errors import ConfigurationError, UnknownNameError
from robot_dynamics_ros.model import load_robot

SCARA = sample('scara').tree
JOINTS = SCARA.joint_names


def profile(**keys):
    return load_driver_profile({'name': 'own', **keys})


test_what_is_no_profile_is_refused_and_the_shipped_ones_are_listed = tables.called("""
load_driver_profile({})       | ConfigurationError: 'name' is missing
load_driver_profile('nobody') | ConfigurationError: is not a file; ... a shipped one: ... franka
""", globals())  # fmt: skip


def joints(**changes):
    """Return the four joints of the SCARA with changes to some, such as joint2={...}."""
    return [{'joint': name, **changes.get(name, {})} for name in JOINTS]


# Files -----------------------------------------------------------------------------------------

#: What the drivers compensate, Hz of their states, and their rate limit, N m/s.
SHIPPED = yaml.safe_load("""
dynamixel: [[], 200.0, .inf]
franka: [[gravity, friction], 1000.0, 1000.0]
franka_like: [[gravity], 1000.0, 1000.0]
generic_ros2_control: [[], 1000.0, .inf]
kuka_lbr: [[gravity], 500.0, .inf]
openarm: [[], 100.0, .inf]
template: [[], 1000.0, 1000.0]
ur: [[gravity], 500.0, .inf]
""")


@pytest.mark.parametrize('name', sorted(shipped_profiles()))
def test_every_shipped_profile_can_be_loaded_and_bound_and_says_what_its_driver_does(name):
    found = load_driver_profile(name)
    assert found == load_driver_profile(shipped_profiles()[name])  # by path
    assert (found.name, found.summary[-1]) == (name, '.')
    driver = DriverInterface(found, SCARA)
    does = [[*found.compensated_by_driver], found.state.rate_hz, driver.rate_limit[0]]
    assert does == SHIPPED[name]
    if name == 'dynamixel':  # 2.409 N m at the horn are 1 A, in mA
        assert_allclose(commanded(driver, np.full(4, 2.409)), 1000.0, rtol=1e-15)


@tables.written("""
nome: 1                               | unknown key 'nome' ... known: command, compensated_by
command: {form: can}                  | command, form ... is 'can' ... group, per_joint
command: {form: per_joint}            | command, topic ... must have {joint} in it
command: {form: overlay}              | topic_of_positions ... form: overlay, and only then
command: {topic_of_positions: x}      | topic_of_positions ... form: overlay, and only then
command: {topic: '{joint}/c'}         | command, topic ... without {joint}
command: {form: per_joint, topic: '{joint}/{x}'} | command, topic ... must have {joint} in it
command: {topic: joint_states}        | topics ... 'joint_states' is named twice; name it once
command: {form: overlay, topic: a, topic_of_positions: a} | topics ... 'a' is named twice
command: {topic: ''}                  | command, topic ... give a text
command: {queue: 1}                   | command ... unknown key 'queue' ... known: form, topic
command: 3                            | command ... is 3 ... give a mapping
state: {rate_hz: 0.0}                 | state, rate_hz ... must be positive
state: {rate_hz: .nan}                | state, rate_hz ... finite
state: {timeout_s: -1.0}              | state, timeout_s ... must be positive
state: {timeout_s: 0.001}             | state, timeout_s ... less than two periods ... 0.002
state: {velocity: guess}              | state, velocity ... known: message, differentiate
state: {velocity: differentiate}      | state, cutoff_hz ... is None
state: {cutoff_hz: 50.0}              | state, cutoff_hz ... only then
state: {velocity: differentiate, cutoff_hz: 600.0} | cutoff_hz ... above half the rate of 1000 Hz
state: {effort: some}                 | state, effort ... none, total, without_compensation
delay: -1.0                           | delay
compensated_by_driver: [weight]       | compensated_by_driver ... known: gravity, friction
compensated_by_driver: [gravity, gravity] | compensated_by_driver ... twice
compensated_by_driver: gravity        | compensated_by_driver ... give a list
payload_known_to_driver: 'yes'        | payload_known_to_driver ... true or false
payload_known_to_driver: false        | has no effect ... does not compensate gravity
defaults: {joint: joint1}             | defaults ... unknown key 'joint'
joints: {joint1: {}}                  | joints ... give a list
joints: [{}]                          | joint 0 ... 'joint' is missing
joints: [{joint: a}, {joint: a}]      | joints ... 'a' is named twice
joints: [{joint: a, driver_name: x}, {joint: b, driver_name: x}] | driver_name ... twice
joints: [{joint: a, sing: 1}]         | joint 'a' ... unknown key 'sing'
joints: [{joint: a, sign: 0}]         | joint 'a', sign ... is 0 ... known: 1.0, -1.0
defaults: {effort_sign: 0.5}          | defaults, effort_sign
defaults: {position_unit: inch}       | defaults, position_unit ... rad, mrad, deg
defaults: {position_unit: -0.1}       | defaults, position_unit ... SI value of one unit
defaults: {position_unit: true}       | defaults, position_unit
defaults: {velocity_unit: deg}        | defaults, velocity_unit ... deg/s ... rpm
defaults: {effort_unit: V}            | defaults, effort_unit ... N m ... permille
defaults: {effort_unit: 3.0}          | defaults, effort_unit ... give a text
defaults: {measured_effort_unit: V}   | defaults, measured_effort_unit
defaults: {torque_constant: 0.0}      | defaults, torque_constant ... must be positive
defaults: {gear_ratio: -100.0}        | defaults, gear_ratio ... must be positive
defaults: {effort_limit: .inf}        | defaults, effort_limit ... finite
defaults: {effort_rate_limit: 0.0}    | defaults, effort_rate_limit ... positive
defaults: {position_zero: .nan}       | defaults, position_zero ... finite
defaults: {effort_offset: .inf}       | defaults, effort_offset ... finite
""")
def test_a_wrong_profile_is_refused_by_the_name_of_the_culprit(given, said):
    with pytest.raises(ConfigurationError, match=f'driver profile own.*{said[4:]}'):
        profile(**given)


# A profile and a robot -------------------------------------------------------------------------


@tables.written("""
joint4: {joint: elbow}                | elbow ... joint1, joint2, joint3, joint4
joint3: {position_unit: deg}          | joint 'joint3' ... slides ... known: m, mm
joint1: {position_unit: mm}           | joint 'joint1' ... turns ... deg, turn
joint1: {velocity_unit: mm/s}         | joint 'joint1', velocity_unit ... rpm
joint3: {effort_unit: N m}            | joint 'joint3', effort_unit ... known: N, kN
joint1: {effort_unit: A}              | joint 'joint1' ... without a torque_constant
joint1: {measured_effort_unit: permille} | 'joint1', measured_effort_unit ... its rated torque
joint1: {gear_ratio: 100.0}           | joint 'joint1', gear_ratio ... has no effect
joint1: {torque_constant: 0.1}        | torque_constant ... has no effect
joint1: {torque_constant: 0.1, effort_unit: motor N m} | torque_constant ... has no effect
joint1: {effort_offset: -1000.0}      | joint 'joint1', effort_offset ... is -1000, beyond the
""")
def test_a_profile_that_does_not_fit_the_robot_is_refused(given, said):
    with pytest.raises(ConfigurationError, match=said):
        driver_of(SCARA, joints=joints(**given))


def test_a_default_limit_below_that_of_the_description_is_refused_not_ignored():
    with pytest.raises(ConfigurationError, match='is 1, but the description has up to'):
        driver_of(SCARA, defaults={'effort_limit': 1.0})


FULL = joints(**yaml.safe_load("""
joint1: {driver_name: base, sign: -1, position_unit: deg, position_zero: 30.0, effort_unit: A,
         torque_constant: 0.05, gear_ratio: 120.0, effort_offset: 0.4}
joint2: {effort_sign: -1, position_unit: turn, velocity_unit: rpm, effort_unit: mN m}
joint3: {position_unit: mm, effort_unit: permille, torque_constant: 1.2, gear_ratio: 3000.0,
         measured_effort_unit: N}
joint4: {position_unit: 2.0e-5, effort_unit: motor N m, gear_ratio: 50.0}
"""))  # fmt: skip


def test_every_conversion_has_the_value_that_its_words_say():
    driver = driver_of(SCARA, joints=FULL)
    x = np.array([75.0, 0.3, 120.0, 5000.0])
    expected = [-math.pi / 4, 0.6 * math.pi, 0.12, 0.1]
    assert_allclose(driver.position(x), expected, rtol=1e-15)
    y = np.array([10.0, 60.0, 100.0, 5000.0])
    expected = [-math.pi / 18.0, 2.0 * math.pi, 0.1, 0.1]
    assert_allclose(driver.velocity(y), expected, rtol=1e-15)
    # Joint 1: -(5.6 + 0.4) / (0.05 * 120); joint 2: against its axis, in mN m; joint 3: of the
    # rated 1.2 N m times 3000 rad/m, 36 N are 10 permille; joint 4: behind the gear.
    command = commanded(driver, np.array([5.6, 3.0, 36.0, 2.0]))
    assert_allclose(command, [-1.0, -3000.0, 10.0, 0.04], rtol=1e-14)
    most = commanded(driver, driver.command_limit)[0]  # of what is published, with the offset
    assert -6.0 * most == SCARA.effort_limit[0]
    measured = driver.measured_effort(np.array([-1.0, -3000.0, 36.0, 0.04]))
    assert_allclose(measured, [6.0, 3.0, 36.0, 2.0], rtol=1e-14)
    assert driver.names == ('base', 'joint2', 'joint3', 'joint4')


def test_order_and_defaults_of_a_command_are_those_of_the_profile():
    rows = ['joint3', {'joint': 'joint1', 'driver_name': 'base', 'sign': 1}, 'joint4', 'joint2']
    command = {'form': 'per_joint', 'topic': '{joint}/c'}
    driver = driver_of(SCARA, joints=rows, command=command, defaults={'sign': -1})
    assert_array_equal(driver.order, [2, 0, 3, 1])
    assert driver.command_topics == ['joint3/c', 'base/c', 'joint4/c', 'joint2/c']
    assert_array_equal(driver.position_scale, [1.0, -1.0, -1.0, -1.0])


# Limits ----------------------------------------------------------------------------------------


def test_limits_of_listed_joints_replace_those_of_the_description_and_one_for_all_fills_gaps():
    xml, own = sample('scara').xml, SCARA.effort_limit
    for rows, text, expected in (
        ({'joints': joints(joint1={'effort_limit': 12.0})}, xml, [12.0, *own[1:]]),
        (
            {'defaults': {'effort_limit': 20.0}},
            xml.replace('effort="45"', 'effort="0"'),
            [own[0], 20.0, *own[2:]],
        ),
        ({}, xml, own),
    ):
        tree = load_robot(text, effort_limit=effort_limits(profile(**rows)))
        assert_array_equal(tree.effort_limit, expected)
    rows = joints(joint1={'joint': 'joint8', 'effort_limit': 12.0})
    with pytest.raises(UnknownNameError, match="joint in joints of driver profile 'own' 'joint8'"):
        driven_robot(profile(joints=rows), lambda limits: load_robot(xml, effort_limit=limits))
