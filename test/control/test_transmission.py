# SPDX-License-Identifier: Apache-2.0
"""Joints that share motors: closed forms, conserved power, limits of motors, refusals.

The oracles are the gears written out by hand, finite differences, and the power of both sides.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import refusals
from safe_command import SafeCommand
from samples import sample

from robot_dynamics_ros.control.drivers.driver_interface import DriverInterface
from robot_dynamics_ros.control.drivers.profile import load_driver_profile
from robot_dynamics_ros.control.drivers.transmission import TransmissionProfile
from robot_dynamics_ros.control.safety.limits import EffortLimiter
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.recordings.recording import Recording, in_model_units

SCARA = sample('scara').tree
LEAD = 0.02 / (2.0 * math.pi)  # m/rad, of a screw with 20 mm a turn
#: Ball-screw spline: nut (motor of joint 3) less spline (motor of joint 4) moves the quill.
SPLINE = {
    'joints': ['joint3', 'joint4'],
    'matrix': [[LEAD, -LEAD], [0.0, 1.0]],
    'offset': [0.05, 0.1],
    'motor_effort_limit': [0.5, 0.8],
}
WRIST = {'joints': ['joint1', 'joint2'], 'matrix': [[0.5, 0.5], [0.5, -0.5]]}


def profile(*transmissions, **keys):
    return load_driver_profile({'name': 'own', 'transmissions': list(transmissions), **keys})


def commanded(driver, effort):
    """Return the command of efforts; the order of the driver is that of the model."""
    driver.write(effort)
    return driver.command.copy()


def bound(*transmissions, **keys):
    return DriverInterface(profile(*transmissions, **keys), SCARA)


def test_signs_units_gears_and_order_are_those_of_the_motors():
    rows = ['joint1', 'joint2']
    rows += [
        {'joint': 'joint4', 'driver_name': 'm4', 'sign': -1, 'position_unit': 'deg'},
        {
            'joint': 'joint3', 'driver_name': 'm3', 'velocity_unit': 'rpm', 'position_zero': 3.0,
            'effort_unit': 'mA', 'torque_constant': 0.05, 'gear_ratio': 4.0,
        },
    ]  # fmt: skip
    driver = bound(SPLINE, joints=rows)
    assert driver.command_names == ('joint1', 'joint2', 'm4', 'm3')
    q = driver.position(np.array([0.0, 0.0, 13.0, -90.0]))
    assert q[2] == pytest.approx(0.05 + LEAD * (10.0 - math.pi / 2), rel=1e-14)
    assert q[3] == pytest.approx(0.1 + math.pi / 2, rel=1e-14)
    force = 50.0
    driver.write(np.array([0.0, 0.0, force, 0.3]))
    # the order of the rows: m4 counts against its axis; 0.2 N m of m3 are 1 A
    expected = [0.0, 0.0, -(0.3 - LEAD * force), 1e3 * LEAD * force / 0.2]
    np.testing.assert_allclose(driver.command, expected, rtol=1e-14)
    driver.read(np.array([0.0, 0.0, 13.0, -90.0]), np.array([0.0, 0.0, 60.0, 180.0]))
    np.testing.assert_allclose(driver.q, q, rtol=1e-15)
    # one turn a second of the nut, half of one against the axis of the spline
    np.testing.assert_allclose(driver.v, [0.0, 0.0, 0.03, -math.pi], rtol=1e-14)


def random_matrix(rng):
    while True:
        a = rng.normal(size=(3, 3)) * rng.uniform(0.01, 10.0, size=(3, 1))
        scaled = a / np.abs(a).max(axis=1, keepdims=True)
        if np.linalg.cond(scaled) < 100.0:
            return a


def test_power_is_conserved_and_everything_goes_there_and_back():
    rng = np.random.default_rng(7)
    for _ in range(200):
        a = random_matrix(rng)
        driver = bound({'joints': ['joint4', 'joint1', 'joint3'], 'matrix': a.tolist(),
                        'offset': rng.normal(size=3).tolist()})  # fmt: skip
        motors, tau = rng.normal(size=4), rng.normal(size=4)
        at_motors = commanded(driver, tau) * motors
        at_joints = tau * driver.velocity(motors)
        # Rounding of sums: relative to the largest power that flows.
        assert at_motors.sum() == pytest.approx(
            at_joints.sum(), abs=1e-13 * max(np.abs(at_motors).max(), np.abs(at_joints).max())
        )
        step = 1e-3
        change = driver.position(motors * step) - driver.position(0.0 * motors)
        np.testing.assert_allclose(change / step, driver.velocity(motors), rtol=1e-9, atol=1e-9)
        for there, back in (
            (driver.position_reading, driver.position),
            (driver.velocity_reading, driver.velocity),
            (driver.effort_reading, driver.measured_effort),
            (partial(commanded, driver), driver.commanded_effort),
        ):
            # The condition of 100 costs two digits and the offset some more.
            np.testing.assert_allclose(back(there(tau)), tau, rtol=1e-10, atol=1e-10)


def test_no_motor_passes_its_limit_and_the_direction_is_kept():
    rng = np.random.default_rng(3)
    limits = np.array([0.5, 0.8])
    driver = bound(SPLINE)
    safe = SafeCommand(EffortLimiter([1e4] * 4), transmissions=driver.transmissions)
    scaled = 0
    for _ in range(500):
        wanted = rng.normal(size=4) * [20.0, 20.0, 400.0, 2.0]
        share = rng.normal(size=4) * [1.0, 1.0, 40.0, 0.1]
        motors = np.array([[LEAD, 0.0], [-LEAD, 1.0]])
        own = motors @ share[2:]
        assert safe.run(wanted + share, share=share)
        tau = safe.command
        driver.write(tau)
        assert (np.abs(driver.command[2:]) <= limits).all()
        assert (np.abs(driver.command[2:] + own) <= limits * (1.0 + 1e-12)).all()
        np.testing.assert_allclose(tau[:2], wanted[:2], atol=1e-14)  # of the sum with the share
        assert wanted[2] * tau[3] == pytest.approx(wanted[3] * tau[2], abs=1e-12 * 800.0)
        np.testing.assert_allclose(motors @ tau[2:], driver.command[2:], atol=1e-15)
        free = motors @ wanted[2:]
        if (np.abs(free) <= limits).all() and (np.abs(free + own) <= limits).all():
            np.testing.assert_allclose(tau, wanted, rtol=1e-12, atol=1e-13)
        else:
            scaled += 1
            used = np.abs(np.concatenate([driver.command[2:], driver.command[2:] + own]))
            assert np.isclose(used, np.tile(limits, 2), rtol=1e-9).any()  # no more than needed
    assert 100 < scaled < 480


def test_rates_of_the_joints_keep_every_motor_within_its_rate():
    borne = zip(SCARA.joint_names, (90.0, 80.0, 30.0, 50.0), strict=True)
    rows = [{'joint': name, 'effort_rate_limit': rate} for name, rate in borne]
    rng = np.random.default_rng(5)
    for limits in ([0.5, 0.8], None):
        gear = {**SPLINE, 'motor_effort_limit': limits} if limits else WRIST
        driver = bound(gear, joints=rows)
        rates = driver.joint_rate_limit
        assert (rates > 0.0).all()
        period, tau = 1e-3, np.zeros(4)
        most = np.array([90.0, 80.0, 30.0, 50.0]) * period
        before = None
        for _ in range(2000):
            tau += rng.choice([-1.0, 1.0], size=4) * rates * period
            driver.write(tau.copy())
            if before is not None:
                assert (np.abs(driver.command - before) <= most * (1.0 + 1e-9)).all()
            before = driver.command.copy()


def test_a_session_commands_no_motor_beyond_its_limit_and_says_what_it_commands():
    limits = np.array([0.02, 0.05])  # less than the nut needs for gravity at the quill
    driver = bound({**SPLINE, 'motor_effort_limit': limits.tolist()})
    settings = {'law': 'gravity_compensation', 'activation_ramp_s': 0.0}
    session = ControllerSession(SCARA, settings, driver)
    q = np.array([0.1, 0.2, 0.05, 0.3])
    session.update(session.driver.state(1, 1, q, np.zeros(4)))
    session.activate(1)
    assert session.update(session.driver.state(1_000_001, 1_000_001, q, np.zeros(4)))
    assert (np.abs(session.command[2:]) <= limits).all()
    assert np.isclose(np.abs(session.command[2:]), limits, rtol=1e-9).any()
    motors = np.array([[LEAD, 0.0], [-LEAD, 1.0]])
    np.testing.assert_allclose(motors @ session.loop.effort[2:], session.command[2:], rtol=1e-9)


def test_recordings_are_read_as_those_of_the_joints():
    driver = bound(SPLINE)
    motors, speeds, efforts = np.random.default_rng(1).normal(size=(3, 5, 4))
    quill, force = 0.05 + LEAD * (motors[:, 2] - motors[:, 3]), efforts[:, 2] / LEAD
    run = Recording(SCARA.joint_names, np.arange(5.0), motors, speeds, efforts, motors, speeds)
    efforts[0, 2:] = np.nan  # nothing was commanded there: nothing else is lost
    for ours in (False, True):  # the references of our controller are in SI
        read = in_model_units(replace(run, parameters='law: computed_torque' * ours), driver)
        np.testing.assert_allclose(read.position[:, 2:], np.c_[quill, 0.1 + motors[:, 3]])
        np.testing.assert_allclose(read.velocity[:, 3], speeds[:, 3])
        np.testing.assert_allclose(read.effort[1:, 2], force[1:])
        np.testing.assert_allclose(read.effort[1:, 3], (efforts[:, 3] + efforts[:, 2])[1:])
        np.testing.assert_array_equal(np.isnan(read.effort[0]), [False, False, True, True])
        np.testing.assert_allclose(read.reference_position[:, 2], motors[:, 2] if ours else quill)


@refusals.written("""
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
{joints: [joint3], matrix: [[2]]}                          | 'joint3' appears twice
{joints: [elbow], matrix: [[2]]}                           | names elbow ... joint1, joint2
""")
def test_what_cannot_be_is_refused_by_the_name_of_the_culprit(given, said):
    with pytest.raises(ConfigurationError, match=f'driver profile.*{said[4:]}'):
        bound(SPLINE, given)


@pytest.mark.parametrize('bad', [math.nan, math.inf])
def test_what_no_file_can_say_is_refused_too(bad):
    with pytest.raises(ConfigurationError, match='joint1, matrix: is singular'):
        TransmissionProfile(('joint1',), ((math.nan,),))
    for key in ('offset', 'motor_effort_limit'):
        with pytest.raises(ConfigurationError, match=f'joint1, {key}: is .* 1 finite numbers'):
            TransmissionProfile(('joint1',), ((1.0,),), **{key: (bad,)})
    with pytest.raises(ConfigurationError, match='per_joint.*one message.*group or joint_state'):
        bound(SPLINE, command={'form': 'per_joint', 'topic': '{joint}/command'})


def test_units_alone_make_no_matrix_ill_conditioned():
    """A quill in metres next to a wrist in radians, and motors with large readings."""
    bound({**SPLINE, 'matrix': [[1e-6, -1e-6], [0.0, 1.0]]})
    bound({**SPLINE, 'matrix': [[1e-6, -1e-3], [0.0, 1.0]]})
