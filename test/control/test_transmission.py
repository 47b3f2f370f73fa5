# SPDX-License-Identifier: Apache-2.0
"""Joints that share motors: closed forms, conserved power, limits of motors, refusals.

The oracles are the gears written out by hand, finite differences, and the power of both sides.
"""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import tables
import yaml
from numpy.testing import assert_allclose
from safe_command import SafeCommand
from samples import sample
from still_arm import StillArm, commanded, driver_of

from robot_dynamics_ros.control.drivers import transmission
from robot_dynamics_ros.control.drivers.driver_interface import DriverInterface
from robot_dynamics_ros.control.safety.limits import EffortLimiter
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.errors import ConfigurationError

SCARA = sample('scara').tree
LEAD = 0.02 / (2.0 * math.pi)  # m/rad, of a screw with 20 mm a turn
#: Ball-screw spline: nut (motor of joint 3) less spline (motor of joint 4) moves the quill.
SPLINE = {
    'joints': ['joint3', 'joint4'],
    'matrix': [[LEAD, -LEAD], [0.0, 1.0]],
    'offset': [0.05, 0.1],
    'motor_effort_limit': [0.5, 0.8],
}
MOTORS = np.array([[LEAD, 0.0], [-LEAD, 1.0]])  # efforts of its motors from those of the joints
WRIST = {'joints': ['joint1', 'joint2'], 'matrix': [[0.5, 0.5], [0.5, -0.5]]}


def bound(*transmissions, **keys):
    return driver_of(SCARA, transmissions=list(transmissions), **keys)


def test_signs_units_gears_and_order_are_those_of_the_motors():
    rows = yaml.safe_load("""
    - joint1
    - joint2
    - {joint: joint4, driver_name: m4, sign: -1, position_unit: deg}
    - {joint: joint3, driver_name: m3, velocity_unit: rpm, position_zero: 3.0,
       effort_unit: mA, torque_constant: 0.05, gear_ratio: 4.0}
    """)
    driver, force = bound(SPLINE, joints=rows), 50.0
    assert driver.command_names == ('joint1', 'joint2', 'm4', 'm3')
    driver.read(np.array([0.0, 0.0, 13.0, -90.0]), np.array([0.0, 0.0, 60.0, 180.0]))
    turn = math.pi / 2
    assert_allclose(driver.q, [0.0, 0.0, 0.05 + LEAD * (10.0 - turn), 0.1 + turn], rtol=1e-14)
    # one turn a second of the nut, half of one against the axis of the spline
    assert_allclose(driver.v, [0.0, 0.0, 0.03, -math.pi], rtol=1e-14)
    # the order of the rows: m4 counts against its axis; 0.2 N m of m3 are 1 A
    driver.write(np.array([0.0, 0.0, force, 0.3]))
    expected = [0.0, 0.0, -(0.3 - LEAD * force), 1e3 * LEAD * force / 0.2]
    assert_allclose(driver.command, expected, rtol=1e-14)


def random_matrix(rng):
    while True:
        a = rng.normal(size=(3, 3)) * rng.uniform(0.01, 10.0, size=(3, 1))
        scaled = a / np.abs(a).max(axis=1, keepdims=True)
        if np.linalg.cond(scaled) < 100.0:
            return a


#: Rows with conversions of every kind.
UNITS = yaml.safe_load("""
- {joint: joint1, sign: -1, position_unit: deg, position_zero: 30.0, effort_unit: A,
   torque_constant: 0.05, gear_ratio: 120.0, effort_offset: 0.4}
- {joint: joint2, effort_sign: -1, velocity_unit: rpm, effort_unit: mN m}
- joint3
- {joint: joint4, position_unit: 2.0e-5, effort_unit: permille, gear_ratio: 50.0,
   torque_constant: 1.2, measured_effort_unit: N m}
""")


def test_power_is_conserved_and_everything_goes_there_and_back(rng):
    for _ in range(100):
        offset, a = rng.normal(size=3).tolist(), random_matrix(rng).tolist()
        gear = {'joints': ['joint4', 'joint1', 'joint3'], 'matrix': a, 'offset': offset}
        driver = bound(gear)
        motors, tau = rng.normal(size=(2, 4))
        powers = commanded(driver, tau) * motors, tau * driver.velocity(motors)
        # Rounding of sums: relative to the largest power that flows.
        most = 1e-13 * np.abs(powers).max()
        assert powers[0].sum() == pytest.approx(powers[1].sum(), abs=most)
        driver = bound(gear, joints=UNITS)
        for there, back in (
            (driver.position_reading, driver.position),
            (driver.velocity_reading, driver.velocity),
            (driver.effort_reading, driver.measured_effort),
            (partial(commanded, driver), driver.commanded_effort),
        ):
            # The condition of 100 costs two digits, offsets and units some more.
            assert_allclose(back(there(tau)), tau, rtol=1e-9, atol=1e-9)


def test_no_motor_passes_its_limit_and_the_direction_is_kept(rng):
    limits, scaled = np.array([0.5, 0.8]), 0
    driver = bound(SPLINE)
    safe = SafeCommand(EffortLimiter([1e4] * 4), transmissions=driver.transmissions)
    for _ in range(500):
        wanted, share = rng.normal(size=(2, 4)) * [[20.0, 20.0, 400.0, 2.0], [1.0, 1.0, 40.0, 0.1]]
        own, free = MOTORS @ share[2:], MOTORS @ wanted[2:]
        assert safe.run(wanted + share, share=share)
        tau, motors = safe.command, commanded(driver, safe.command)[2:]
        used = np.abs([motors, motors + own]) / limits
        assert used.max() <= 1.0 + 1e-12
        assert used[0].max() <= 1.0
        assert_allclose(MOTORS @ tau[2:], motors, atol=1e-15)
        if (np.abs([free, free + own]) <= limits).all():
            assert_allclose(tau, wanted, rtol=1e-12, atol=1e-13)
        else:
            scaled += 1
            assert_allclose(tau[:2], wanted[:2], atol=1e-14)  # of the sum with the share
            assert wanted[2] * tau[3] == pytest.approx(wanted[3] * tau[2], abs=1e-12 * 800.0)
            assert np.isclose(used, 1.0, rtol=1e-9).any()  # no more than needed
    assert 100 < scaled < 480


@pytest.mark.parametrize('gear', [SPLINE, WRIST])
def test_rates_of_the_joints_keep_every_motor_within_its_rate(gear, rng):
    borne = dict(zip(SCARA.joint_names, (90.0, 80.0, 30.0, 50.0), strict=True))
    rows = [{'joint': name, 'effort_rate_limit': rate} for name, rate in borne.items()]
    driver = bound(gear, joints=rows)
    assert (driver.joint_rate_limit > 0.0).all()
    steps = rng.choice([-1.0, 1.0], (1000, 4)) * driver.joint_rate_limit
    commands = [commanded(driver, tau) for tau in np.cumsum(steps, axis=0)]
    assert (np.abs(np.diff(commands, axis=0)) <= np.multiply(1 + 1e-9, [*borne.values()])).all()


def test_a_session_commands_no_motor_beyond_its_limit_and_says_what_it_commands():
    limits = np.array([0.02, 0.05])  # less than the nut needs for gravity at the quill: it sinks
    own = {'joint': 'joint3', 'effort_offset': -0.01}  # N m of the nut
    gear = {**SPLINE, 'motor_effort_limit': limits.tolist()}
    driver = bound(gear, joints=['joint1', 'joint2', own, 'joint4'])
    settings = {'law': 'gravity_compensation', 'activation_ramp_s': 0.0}
    arm = StillArm(ControllerSession(SCARA, settings, driver), [0.1, 0.2, 0.05, 0.3]).active()
    found = arm.session.command[2:]
    assert (np.abs(found) / limits).max() == pytest.approx(1.0, rel=1e-9)
    assert_allclose(MOTORS @ arm.session.loop.effort[2:] - [0.01, 0.0], found, rtol=1e-9)
    (sinks,) = arm.said('warning')
    assert f"'joint3', {abs(arm.session.loop.effort[2]):.3g} N are its limit: the arm" in sinks


@tables.written("""
{joints: [joint1, joint2], matrix: [[1, 2], [2, 4]]}       | joint1, joint2 ... singular
{joints: [joint1, joint2], matrix: [[1, 1], [1, 1.00001]]} | singular or nearly so
{joints: [joint1, joint2], matrix: [[0, 0], [1, 1]]}       | singular
{joints: [joint1, joint2], matrix: [[1, 0]]}               | matrix ... give 2 rows of 2 numbers
{joints: [joint1, joint2], matrix: [[1, 0], [1]]}          | matrix ... give 2 rows of 2 numbers
{joints: [joint1, joint2], matrix: [[1, .nan], [1, 0]]}    | give a finite number
{joints: [joint1, joint2], matrix: 3}                      | matrix ... give a list
{joints: [], matrix: [[1, 1], [1, 0]]}                     | of no joints
{joints: [joint1], matrix: [[2]], offset: [1.0, 0.0]}      | offset ... give 1 finite numbers
{joints: [joint1], matrix: [[2]], motor_effort_limit: [0]} | motor_effort_limit ... positive
{joints: [joint1]}                                         | 'matrix' is missing
{joints: [joint1], matrix: [[2]], gear: 3}                 | unknown key 'gear'
{joints: [joint3], matrix: [[2]]}                          | 'joint3' is named twice
{joints: [elbow], matrix: [[2]]}                           | names elbow ... joint1, joint2
""")
def test_what_cannot_be_is_refused_by_the_name_of_the_culprit(given, said):
    with pytest.raises(ConfigurationError, match=f'driver profile.*{said[4:]}'):
        bound(SPLINE, given)


test_what_no_file_can_say_is_refused_too = tables.called(
    """
TransmissionProfile(('joint1',), ((math.nan,),)) | ConfigurationError: joint1, matrix: is singular
TransmissionProfile(('joint1',), ((1.0,),), offset=(math.inf,)) | ConfigurationError: joint1, offset: is ... 1 finite numbers
TransmissionProfile(('joint1',), ((1.0,),), motor_effort_limit=(math.inf,)) | ConfigurationError: joint1, motor_effort_limit: is ... 1 finite numbers
bound(SPLINE, command={'form': 'per_joint', 'topic': '{joint}/command'}) | ConfigurationError: per_joint ... one message ... group or joint_state
""",  # noqa: E501
    globals(),
    transmission,
)


def test_units_alone_make_no_matrix_ill_conditioned():
    """A quill in metres next to a wrist in radians, and motors with large readings."""
    bound({**SPLINE, 'matrix': [[1e-6, -1e-3], [0.0, 1.0]]})


def test_a_profile_made_in_python_may_have_whole_numbers():
    gear = transmission.TransmissionProfile(('joint1',), ((2,),), motor_effort_limit=(3,))
    profile = replace(bound().profile, transmissions=(gear,))
    assert DriverInterface(profile, SCARA).drive_limit[0] == 3.0
