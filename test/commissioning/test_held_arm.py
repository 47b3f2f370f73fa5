# SPDX-License-Identifier: Apache-2.0
"""Every fault of a driver profile is identified from poses of a held arm.

Oracle: gravity by Pinocchio, built from the URDF text; friction holds up to 70 % of its level.
"""

import re
from dataclasses import replace

import numpy as np
import pytest
import tables
from numpy.testing import assert_allclose, assert_array_equal
from recorded_arm import held_poses, rigid, swing
from samples import sample, shipped

from robot_dynamics_ros.commissioning.held_arm import HeldPoses, check_held
from robot_dynamics_ros.control.drivers.driver_interface import DriverInterface
from robot_dynamics_ros.control.drivers.profile import DriverProfile, JointProfile
from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.recordings.plausibility import limit_findings, velocity_findings

TREE = sample('four_dof').tree
DEGREE = np.pi / 180.0


DRIVER = DriverInterface(None, TREE)


def samples(position, effort, scale=1.0, **given) -> HeldPoses:
    return HeldPoses(DRIVER, scale * position, effort, **given)


def reported_errors(position, effort, *, gravity_expected=True, **given):
    """Return the errors that a check names, as text."""
    found = check_held(TREE, samples(position, effort, **given), gravity_expected=gravity_expected)
    return [str(finding) for finding in found.errors]


def but(value, *joints):
    """Return ones with another value at some joints."""
    found = np.ones(4)
    found[list(joints)] = value
    return found


def test_a_driver_that_is_understood_gives_no_error_and_slopes_of_one():
    found = check_held(TREE, samples(*held_poses()), gravity_expected=True)
    assert (found.errors, found.poses) == ((), 8)
    assert_array_equal(found.loaded, [False, True, True, True])
    # Friction masks the load of joint 4, 0.15 N m with 0.06 N m of friction.
    assert_allclose(found.slope[1:3], 1.0, atol=0.05)
    assert (found.residual <= 0.7 * TREE.coulomb_friction).all()


def changed(values, change):
    """Return values multiplied, in another order of joints, or noise."""
    if change == 'noise':
        return 5.0 * np.random.default_rng(2).normal(size=values.shape)
    return values[:, list(map(int, change))] if isinstance(change, str) else values * change


#: What becomes of positions and of efforts, factors or an order, and how they are checked; the
#: only error. Joints 1 and 2 that are swapped are found by a missing weight.
@tables.written("""
    [[1.0, -1.0, 1.0, 1.0], [1.0, -1.0, 1.0, 1.0]] | joint 'joint2': wrong sign: the driver counts against the axis
    [[1.0, -1.0, 1.0, 1.0], 1.0] | joint 'joint2': wrong sign of its position
    [1.0, [1.0, -1.0, 1.0, 1.0]] | joint 'joint2': wrong sign of effort
    [[1.0, 1.0, 1.0, -1.0], [1.0, 1.0, 1.0, -1.0]] | joint 'joint4': wrong sign: the driver counts against the axis
    [[1.0, 1.0, 1.0, -1.0], 1.0] | joint 'joint4': wrong sign of its position
    [1.0, [1.0, 1.0, 1.0, -1.0]] | joint 'joint4': wrong sign of effort
    [1.0, [1.0, 0.0, 1.0, 1.0]] | joint 'joint2': its effort does not follow gravity: a brake, a spring
    ['0213', '0213'] | joints joint2, joint3: swapped: each is taken for the other
    [1.0, '0213'] | joints joint2, joint3: efforts are swapped, positions are not
    [1.0, '0213', {commanded: true}] | joints joint2, joint3: commands are swapped
    ['0321', '0321'] | joints joint2, joint4: swapped: each is taken for the other
    [1.0, '0321'] | joints joint2, joint4: efforts are swapped, positions are not
    [1.0, '0321', {commanded: true}] | joints joint2, joint4: commands are swapped
    ['1023', '1023'] | joints joint1, joint2: swapped
    [57.29577951308232, 1.0] | joints joint1, joint2, joint3, joint4 ... degrees are taken for radians; write position_unit: deg
    [1.0, 1.0, {scale: 0.017453292519943295}] | radians are taken for degrees; write position_unit: rad
    [[1.0, 57.29577951308232, 1.0, 1.0], 1.0] | joint 'joint2': wrong unit of position
    [1.0, [1.0, 0.125, 1.0, 1.0]] | joint 'joint2': wrong unit of effort
    [1.0, 0.125] | wrong unit of effort: it must be multiplied by about 8; currents (A) taken for N m
    [1.0, 1000.0] | effort_unit: mN m
    [1.0, 1.3] | 130 % of what the model needs; a load or tool
    [1.0, 0.0, {commanded: true}] | gravity: would be counted twice ... compensated_by_driver: [gravity]
    [1.0, 1.0, {gravity_expected: false, commanded: true}] | gravity: would not be counted at all
    [1.0, 0.0] | gravity: is missing from the reported efforts
    [1.0, 1.0, {gravity_expected: false}] | gravity: is contained in the reported efforts
    [1.0, noise] | no single wrong sign, zero, exchange or unit explains them
""")  # noqa: E501
def test_a_fault_is_the_only_one_that_is_named(given, said):
    position, effort, *how = given
    q, tau = held_poses()
    (error,) = reported_errors(changed(q, position), changed(tau, effort), **dict(*how))
    assert re.search(said, error)


@pytest.mark.parametrize(('joint', 'zero'), [(1, 0.2), (2, -0.3), (2, 0.5)])
def test_a_wrong_zero_is_named_with_its_size(joint, zero):
    q, tau = held_poses()
    (error,) = reported_errors(q + zero * np.eye(4)[joint], tau)
    said = re.match(
        f"joint 'joint{joint + 1}': its zero is (\\S+) rad off; correct position_", error
    )
    # Friction holds up to 0.7 of its level: 0.12 N m of 6 N m/rad at joint 3.
    assert float(said[1]) == pytest.approx(zero, abs=0.02)


@pytest.mark.slow
def test_an_effort_that_does_not_follow_gravity_is_no_friction():
    """Gravity is hardly above it: efforts of 0 deviate by less than it may be."""
    position, effort = held_poses()
    arm = TREE.with_changes(coulomb_friction=0.32 * np.ptp(rigid(position), axis=0))
    (found,) = check_held(arm, samples(position, 0.0 * effort), gravity_expected=True).errors
    assert 'is missing from the reported efforts' in str(found)


@pytest.mark.parametrize('mass', [1.2, 1.5])
def test_a_load_is_no_brake_of_one_joint_beside_another_unit_of_all(mass):
    """Efforts of an arm with it, by Pinocchio, differ from those of the model at every joint."""
    q, tau = held_poses()
    loaded = TREE.with_changes(mass=TREE.mass + np.array([0.0, 0.0, 0.0, mass]))
    oracle, own = (make_formulation('pinocchio', arm) for arm in (loaded, TREE))
    more = np.array([oracle.gravity_forces(x) - own.gravity_forces(x) for x in q])
    errors = ' '.join(reported_errors(q, tau + more))
    assert errors
    assert 'does not follow gravity' not in errors
    assert 'wrong unit' not in errors


def test_two_mistakes_are_both_named():
    q, tau = held_poses()
    errors = reported_errors(q * but(-1.0, 1, 3), tau * but(-1.0, 1, 3))
    assert [error.split(':')[0] for error in errors] == ["joint 'joint2'", "joint 'joint4'"]
    errors = reported_errors(q, tau * but(0.0, 1, 2))  # no missing gravity beside a swap
    assert re.match("joint 'joint2': its effort does not .* joint 'joint3': its", ' '.join(errors))
    errors = ' '.join(reported_errors(changed(q, '0213'), changed(tau, '0213') / 8.0))
    assert 'swapped' in errors
    assert 'wrong unit of effort' in errors


def test_a_constant_offset_is_a_warning_with_its_size():
    q, effort = held_poses()
    found = check_held(TREE, samples(q, effort + [0.0, 3.0, 0.0, 0.0]), gravity_expected=True)
    assert found.errors == ()
    (offset,) = [str(finding) for finding in found.findings if 'off in every pose' in str(finding)]
    size = re.match("joint 'joint2': its efforts are (\\S+) ", offset)[1]
    assert float(size) == pytest.approx(3.0, abs=0.25)  # of the friction


@pytest.mark.parametrize(('count', 'said'), [(1, 'only 1: no joint was checked'), (3, 'only 3;')])
def test_few_poses_are_an_error_and_repeated_ones_count_once(count, said):
    again = samples(*(np.tile(values, (3, 1)) for values in held_poses(count)))
    found = check_held(TREE, again, gravity_expected=True)
    assert found.poses == count
    assert any(f'there {"is" if count == 1 else "are"} {said}' in str(x) for x in found.errors)


def test_poses_without_efforts_are_refused():
    q, tau = held_poses()
    with pytest.raises(RecordingError, match='compare commands instead'):
        reported_errors(q, np.nan * tau)


# Motion ----------------------------------------------------------------------------------------


def moving():
    """Return times, positions, velocities and efforts of an arm that rests in 4 poses."""
    position, velocity, effort = swing(4)
    noise = 1e-5 * np.random.default_rng(4).normal(size=position.shape)
    return 0.005 * np.arange(len(position)), position + noise, velocity, effort


@pytest.mark.parametrize('unit', [1.0, DEGREE, 1.0 / DEGREE])
def test_rests_are_found_whatever_the_unit(unit):
    time, position, _, effort = moving()
    poses = HeldPoses.of(DRIVER, time, position / unit, effort, commanded=False)
    assert len(poses.q) == 4  # of the five, the first is left at once
    q, _ = held_poses(5)
    assert_allclose(poses.q * unit, q[1:], atol=1e-4)


def test_a_pose_that_is_held_again_is_no_other_one_because_of_a_joint_that_never_moved():
    way = np.clip(np.abs(np.arange(1600) % 800 - 400.0) / 200.0 - 0.5, 0.0, 1.0)
    position = np.outer(way, [0.0, 0.8, -0.5, 0.4])  # two poses, in turn
    position += 1e-5 * np.random.default_rng(6).normal(size=position.shape)
    time = 0.005 * np.arange(len(position))
    poses = HeldPoses.of(DRIVER, time, position, 0.0 * position, commanded=False)
    assert (len(poses.q), len(poses.distinct().q)) == (5, 2)


def test_an_arm_that_never_rests_has_no_poses():
    for count, said in ((115, 'the arm never rests for 0.3 s'), (4, 'hold 2 states')):
        time, position, _, effort = (x[2:count] for x in moving())
        with pytest.raises(RecordingError, match=said):
            HeldPoses.of(DRIVER, time, position, effort, commanded=False)


def test_exchanged_joints_have_the_conversion_of_their_row_of_the_profile():
    """Readings are exchanged, not joint values: sign, zero and unit belong to the row."""
    rows = [JointProfile(name) for name in TREE.joint_names]
    own = {'sign': -1, 'position_zero': 30.0, 'position_unit': 'deg', 'effort_offset': 2.0}
    rows[1] = replace(rows[1], **own)
    driver = DriverInterface(DriverProfile('mixed', joints=tuple(rows)), TREE)
    reading = np.array([[0.1, 40.0, 0.3, 0.4]])
    for commanded, efforts, second in (
        (False, driver.measured_effort(reading), -0.3),
        (True, driver.commanded_effort(reading), -0.3 - 2.0),  # the offset is of commands
    ):
        held = HeldPoses(driver, driver.position(reading), efforts, commanded)
        found = held.swapped(1, 2)
        assert_allclose(found.q, [[0.1, (30.0 - 0.3) * DEGREE, 40.0, 0.4]], rtol=1e-12)
        assert_allclose(found.effort, [[0.1, second, 40.0, 0.4]], rtol=1e-12)


def test_velocities_are_compared_with_the_derivatives_of_positions():
    time, q, v, _ = moving()
    for velocity, said in (
        (v, []),
        (v * but(-1.0, 2), ["joint 'joint3': its velocities have another sign than"]),
        (v * but(1.0 / DEGREE, 0), ["joint 'joint1': its velocities are 57.3 times"]),
        (
            v[:, [0, 2, 1, 3]],
            [
                "joint 'joint2': its velocities are those of joint3",
                "joint 'joint3': its velocities are those of joint2",
            ],
        ),
    ):
        found = [str(x) for x in velocity_findings(TREE, time, q, velocity)]
        assert [text[: len(words)] for text, words in zip(found, said, strict=True)] == said
    assert 'are joints in another order' in found[0]


def test_positions_beyond_the_limits_come_with_the_unit_that_would_fit():
    _, q, *_ = moving()
    wide = shipped('four_dof', limits_profile='wide').tree
    assert list(limit_findings(TREE, q)) == []
    # Degrees of all joints are one fault, with its remedy, also for a table. Joint 2 has negative
    # positions only; with limits from -pi to 0, as degrees nearly anything would lie within.
    for position, tree, said in (
        (
            q * but(1.0 / DEGREE, 2),
            TREE,
            "joint 'joint3': it is read at .*degrees are taken for rad",
        ),
        (
            q / DEGREE,
            TREE,
            'position_unit: deg in the driver.*_deg behind the names of its column',
        ),
        (q * but(-1.0, 1), TREE, 'wrong sign'),
        (q * but(-1.0, 1), wide, 'wrong sign'),
    ):
        (error,) = map(str, limit_findings(tree, position))
        assert re.search(said, error)
        assert ('wrong sign' in error) is (said == 'wrong sign')
