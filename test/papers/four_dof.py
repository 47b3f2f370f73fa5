# SPDX-License-Identifier: Apache-2.0
"""Wu et al. 2009, corrections F2 to F16: the printed form fails, the corrected form holds.

F1 names axes. The oracle is the pose (2), recomputed here from the link transforms (1), and its
derivatives.
"""

import math

import numpy as np
import pytest
from oracles import complex_step

from robot_dynamics_ros.kinematics import four_dof

A2, A3 = 0.30, 0.25
EXAMPLE = np.array([0.3, -1.1, -0.4, 0.6])
LOWER, UPPER = np.array(four_dof.FOUR_DOF.lower), np.array(four_dof.FOUR_DOF.upper)


def link(a, alpha, theta):
    """Equation (1) without the offset d, which is 0 for all joints."""
    ca, sa, c, s = np.cos(alpha), np.sin(alpha), np.cos(theta), np.sin(theta)
    return np.array(
        [[c, -ca * s, sa * s, a * c], [s, ca * c, -sa * c, a * s], [0, sa, ca, 0], [0, 0, 0, 1]]
    )


def links(q, alpha1=-math.pi / 2):
    rows = [(0.0, alpha1), (A2, 0.0), (A3, 0.0), (0.0, 0.0)]
    return [link(a, alpha, theta) for (a, alpha), theta in zip(rows, q, strict=True)]


def pose(q, alpha1=-math.pi / 2):
    T = np.eye(4)
    for A in links(q, alpha1):
        T = T @ A
    return T


def columns(q):
    """Return n, o, a, p of the wrist pose."""
    T = pose(q)
    return T[:3, 0], T[:3, 1], T[:3, 2], T[:3, 3]


def k_of(q):
    """Return k1 = r, k2 = p_z and k3 = a2 + a3 c3, as the paper names them."""
    _, _, a, p = columns(q)
    return a[1] * p[0] - a[0] * p[1], p[2], A2 + A3 * math.cos(q[2])


def jacobian_in_frame_4(q):
    """Differentiate the pose: velocity and angular velocity, in the axes of frame 4."""
    R = pose(q)[:3, :3]
    J = np.zeros((6, 4))
    J[:3] = R.T @ complex_step(lambda x: pose(x)[:3, 3], q)
    turning = complex_step(lambda x: pose(x)[:3, :3].ravel(), q).reshape(3, 3, 4)
    for j in range(4):
        W = R.T @ turning[:, :, j]
        J[3:, j] = W[2, 1], W[0, 2], W[1, 0]
    return J


def test_f2_double_subscripts_are_sums_of_angles():
    """Printed: c_ij = cos(theta_j). With it (2) is not the product of the link transforms."""
    q = EXAMPLE
    assert columns(q)[3][2] == pytest.approx(-A2 * math.sin(q[1]) - A3 * math.sin(q[1] + q[2]))
    assert abs(columns(q)[3][2] - (-A2 * math.sin(q[1]) - A3 * math.sin(q[2]))) > 0.1


def test_f3_the_first_twist_is_minus_a_right_angle():
    """+90 degrees gives a = (s1, -c1, 0) and a wrist below: against (2)."""
    q = EXAMPLE
    c1, s1 = math.cos(q[0]), math.sin(q[0])
    z = -A2 * math.sin(q[1]) - A3 * math.sin(q[1] + q[2])
    right, wrong = pose(q), pose(q, +math.pi / 2)
    np.testing.assert_allclose(right[:3, 2], [-s1, c1, 0], atol=1e-15)
    assert right[2, 3] == pytest.approx(z)
    np.testing.assert_allclose(wrong[:3, 2], [s1, -c1, 0], atol=1e-15)
    assert wrong[2, 3] == pytest.approx(-z)


def test_f4_the_waist_angle_needs_the_signs_of_both_components():
    """Printed (3): -arctan(a_x / a_y), which is the same for a_y > 0 only."""
    for t1, printed_holds in ((0.3, True), (2.5, False), (-2.0, False)):
        a = columns([t1, -1.1, -0.4, 0.6])[2]
        assert math.atan2(-a[0], a[1]) == pytest.approx(t1)
        assert (abs(-math.atan(a[0] / a[1]) - t1) < 1e-12) == printed_holds


def test_f5_the_elbow_angle_divides_by_the_links_and_uses_the_signed_distance():
    """Printed (4): denominator 2 a2 a_x and p_x / a_y."""
    _, _, a, p = columns(EXAMPLE)
    square = p @ p - A2**2 - A3**2
    assert square / (2 * A2 * A3) == pytest.approx(math.cos(EXAMPLE[2]))
    printed = ((p[0] / a[1]) ** 2 + p[2] ** 2 - A2**2 - A3**2) / (2 * A2 * a[0])
    assert math.cos(EXAMPLE[2]) == pytest.approx(0.921, abs=5e-4)
    assert printed == pytest.approx(-0.779, abs=5e-4)
    # a_y p_x - a_x p_y is the signed distance at every waist angle; p_x / a_y divides by zero at
    # a right angle, and the printed denominator at zero.
    for t1 in (0.0, 0.3, math.pi / 2, 2.0):
        _, _, a, p = columns([t1, *EXAMPLE[1:]])
        r = A2 * math.cos(-1.1) + A3 * math.cos(-1.5)
        assert a[1] * p[0] - a[0] * p[1] == pytest.approx(r)


def test_f6_equations_8_and_9_of_the_wrist():
    """Printed (6), (8): -k2 where -a2 belongs."""
    k1, k2, _ = k_of(EXAMPLE)
    c2, s2 = math.cos(EXAMPLE[1]), math.sin(EXAMPLE[1])
    assert k1 * c2 - k2 * s2 - A2 == pytest.approx(A3 * math.cos(EXAMPLE[2]))
    assert -k1 * s2 - k2 * c2 == pytest.approx(A3 * math.sin(EXAMPLE[2]))
    assert abs(k1 * c2 - k2 * s2 - k2 - A3 * math.cos(EXAMPLE[2])) > 0.1


def printed_12(k1, k2, k3, sign):
    root = math.sqrt(k2 * k2 + 4 * k1 * k1 - 4 * k1 * k3)
    return -(k2 / (2 * k1) * (k2 + sign * root) - k3) / k1


def corrected_12(k1, k2, k3, sign):
    square = k1 * k1 + k2 * k2
    return (k1 * k3 + sign * k2 * math.sqrt(max(0.0, square - k3 * k3))) / square


def test_f7_the_shoulder_angle_solves_equation_11():
    """Printed (12) solves k1 c2 + k2 sqrt(1 - c2) = k3: a square inside the root was lost."""
    k1, k2, k3 = k_of(EXAMPLE)
    assert corrected_12(k1, k2, k3, 1.0) == pytest.approx(math.cos(-1.1))
    printed = [printed_12(k1, k2, k3, sign) for sign in (1.0, -1.0)]
    np.testing.assert_allclose(printed, [-4.256, -0.141], atol=5e-4)
    for c2 in printed:
        residuals = [abs(k1 * c2 + side * k2 * math.sqrt(1 - c2) - k3) for side in (1, -1)]
        assert min(residuals) < 1e-12


def test_f7_the_upper_sign_belongs_to_a_negative_elbow_angle(rng):
    """k1^2 + k2^2 - k3^2 = a3^2 s3^2; printed (12) is wrong for 99.9 % of configurations."""
    wrong = 0
    for q in rng.uniform(LOWER, UPPER, size=(2000, 4)):
        k1, k2, k3 = k_of(q)
        s3 = math.sin(q[2])
        assert k1 * k1 + k2 * k2 - k3 * k3 == pytest.approx((A3 * s3) ** 2, abs=1e-15)
        c2 = corrected_12(k1, k2, k3, 1.0 if s3 < 0.0 else -1.0)
        # The root of a difference near 0 loses half the digits.
        assert c2 == pytest.approx(math.cos(q[1]), abs=1e-7)
        inside = k2 * k2 + 4 * k1 * k1 - 4 * k1 * k3
        found = [printed_12(k1, k2, k3, sign) for sign in (1.0, -1.0)] if inside >= 0 else []
        wrong += all(abs(x - math.cos(q[1])) > 1e-3 for x in found)
    assert wrong / 2000 > 0.99


def test_f8_the_shoulder_angle_is_minus_the_arccosine():
    """Printed (13): arccos(...) - pi."""
    c2 = math.cos(EXAMPLE[1])
    assert -math.acos(c2) == pytest.approx(-1.1)
    assert math.acos(-c2) - math.pi == pytest.approx(-1.1)
    assert math.acos(c2) - math.pi == pytest.approx(-2.042, abs=5e-4)


def test_f9_the_elbow_angle_needs_the_height_of_the_wrist():
    """Printed (14), (15): the p_z terms lost, arctan."""
    k1, k2, _ = k_of(EXAMPLE)
    c2, s2 = math.cos(EXAMPLE[1]), math.sin(EXAMPLE[1])
    t3 = math.atan2(-k1 * s2 - k2 * c2, k1 * c2 - k2 * s2 - A2)
    assert t3 == pytest.approx(-0.4)
    assert math.atan((-k1 * s2) / (k1 * c2 - A2)) == pytest.approx(-0.537, abs=5e-4)


def test_f10_the_pitch_needs_the_signs_of_both_components(rng):
    """Printed (16), (17): arctan(n_z / o_z), wrong for phi < -pi/2: 43/216 of them."""
    q = np.array([0.3, -2.0, -0.5, 0.3])
    n, o, _, _ = columns(q)
    assert math.atan2(-n[2], -o[2]) - q[1] - q[2] == pytest.approx(0.3)
    assert math.atan(n[2] / o[2]) - q[1] - q[2] == pytest.approx(3.442, abs=5e-4)
    pitches = rng.uniform(LOWER, UPPER, size=(20000, 4))[:, 1:].sum(axis=1)
    # The volume of a cut box: phi < -pi/2 where u + 5/6 w + y < 1 for u, w, y in [0, 1]. The
    # standard deviation of a share of 20000 is 0.3 %.
    assert np.mean(pitches < -math.pi / 2) == pytest.approx(43 / 216, abs=0.01)


def test_f11_there_are_two_solutions_for_a_pose_and_four_for_position_and_pitch():
    R, p = pose(EXAMPLE)[:3, :3], pose(EXAMPLE)[:3, 3]
    for solutions, count in (
        (four_dof.inverse_pose(R, p), 2),
        (four_dof.inverse(p, EXAMPLE[1:].sum()), 4),
    ):
        assert len(solutions) == count
        assert len({s.branch for s in solutions}) == count
        for s in solutions:
            np.testing.assert_allclose(pose(s.q)[:3, 3], p, atol=1e-14)


def differential_transform(T):
    """Equation (19): a column of the Jacobian from the transform to the end."""
    n, o, a, p = T[:3, 0], T[:3, 1], T[:3, 2], T[:3, 3]
    return [*(np.cross(p, x)[2] for x in (n, o, a)), n[2], o[2], a[2]]


def test_f12_the_transform_of_a_column_starts_before_its_joint():
    """Printed (19): from link i; the axis of joint i is that of frame i - 1."""
    A = links(EXAMPLE)
    expected = jacobian_in_frame_4(EXAMPLE)
    for j in range(4):
        before, after = np.eye(4), np.eye(4)
        for T in A[j:]:
            before = before @ T
        for T in A[j + 1 :]:
            after = after @ T
        np.testing.assert_allclose(differential_transform(before), expected[:, j], atol=1e-15)
        if j < 3:
            assert np.abs(differential_transform(after) - expected[:, j]).max() > 0.1


PRINTED_LAST = np.array([0, 0, 0, 0, 0, 1.0])


@pytest.mark.parametrize(
    ('column', 'metres'),
    [pytest.param(2, 0.206, id='f13, equation 23'), pytest.param(1, 0.500, id='f14, equation 24')],
)
def test_f13_f14_elbow_and_shoulder_move_the_wrist(column, metres):
    """Printed: (0, 0, 0, 0, 0, 1) for both, as if the wrist did not move."""
    q = EXAMPLE
    t34 = q[2] + q[3]
    corrected = {
        1: [A2 * math.sin(t34) + A3 * math.sin(q[3]), A2 * math.cos(t34) + A3 * math.cos(q[3])],
        2: [A3 * math.sin(q[3]), A3 * math.cos(q[3])],
    }[column]
    expected = jacobian_in_frame_4(q)[:, column]
    np.testing.assert_allclose([*corrected, 0, 0, 0, 1], expected, atol=1e-15)
    assert np.abs(PRINTED_LAST - expected).max() == pytest.approx(metres, abs=5e-4)


def test_f15_the_waist_moves_the_wrist_along_its_own_axis_only():
    """Printed (25): first two entries not zero, third zero; it is (0, 0, r, -s_phi, -c_phi, 0)."""
    phi, r = EXAMPLE[1:].sum(), k_of(EXAMPLE)[0]
    expected = jacobian_in_frame_4(EXAMPLE)[:, 0]
    corrected = [0, 0, r, -math.sin(phi), -math.cos(phi), 0]
    np.testing.assert_allclose(corrected, expected, atol=1e-15)
    assert expected[2] == pytest.approx(0.154, abs=5e-4)


def test_f16_the_velocity_by_this_jacobian_is_in_the_axes_of_frame_4():
    """Printed (18): the frame is not stated; integrating it as base axes goes astray."""
    v = np.array([0.4, -0.3, 0.2, 0.1])
    in_base = complex_step(lambda x: pose(x)[:3, 3], EXAMPLE) @ v
    in_frame_4 = four_dof.jacobian(EXAMPLE, frame='tool')[:3] @ v
    np.testing.assert_allclose(pose(EXAMPLE)[:3, :3] @ in_frame_4, in_base, atol=1e-15)
    assert np.abs(in_frame_4.astype(float) - in_base).max() > 0.05
    np.testing.assert_allclose(four_dof.jacobian(EXAMPLE)[:3] @ v, in_base, atol=1e-15)
