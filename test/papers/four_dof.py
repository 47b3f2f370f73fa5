# SPDX-License-Identifier: Apache-2.0
"""Wu et al. 2009, corrections F2 to F16: the printed form fails, the corrected form holds.

F1 names axes, the solutions of F11 are in ``kinematics/test_four_dof``. The truth is the pose (2),
recomputed here from the link transforms (1), and our Jacobian, which is Pinocchio's.
"""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles import complex_step

from robot_dynamics_ros.kinematics import four_dof

A2, A3 = 0.30, 0.25
EXAMPLE = np.array([0.3, -1.1, -0.4, 0.6])
J_4 = four_dof.jacobian(EXAMPLE, frame='tool').astype(float)
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


def printed_12(k1, k2, k3, sign):
    root = math.sqrt(k2 * k2 + 4 * k1 * k1 - 4 * k1 * k3)
    return -(k2 / (2 * k1) * (k2 + sign * root) - k3) / k1


def corrected_12(k1, k2, k3, sign):
    square = k1 * k1 + k2 * k2
    return (k1 * k3 + sign * k2 * math.sqrt(max(0.0, square - k3 * k3))) / square


def proofs():
    """Return for an id: ours, the truth, the printed result, and its value or least error."""
    t1, t2, t3, t4 = q = EXAMPLE
    (n, _, a, p), (k1, k2, k3) = columns(q), k_of(q)
    c2, s2, r = math.cos(t2), math.sin(t2), A2 * math.cos(t2) + A3 * math.cos(t2 + t3)
    height = -A2 * math.sin(t2) - A3 * math.sin(t2 + t3)
    yield 'f2, sums of angles', height, p[2], -A2 * s2 - A3 * math.sin(t3), None
    yield 'f3, the first twist', height, p[2], pose(q, +math.pi / 2)[2, 3], -height
    behind = columns([2.5, t2, t3, t4])[2]
    yield 'f4, a right angle', math.atan2(-a[0], a[1]), t1, -math.atan(a[0] / a[1]), t1
    printed = -math.atan(behind[0] / behind[1])
    yield 'f4, an obtuse one', math.atan2(-behind[0], behind[1]), 2.5, printed, 2.5 - math.pi
    yield 'f5, signed distance', k1, r, p[0] / a[1] / a[0], None
    ours = (p @ p - A2**2 - A3**2) / (2 * A2 * A3)
    printed = ((p[0] / a[1]) ** 2 + p[2] ** 2 - A2**2 - A3**2) / (2 * A2 * a[0])
    yield 'f5, elbow angle', ours, math.cos(t3), printed, -0.779
    across = k1 * c2 - k2 * s2
    yield 'f6, equation 8', across - A2, A3 * math.cos(t3), across - k2, None
    yield 'f6, equation 9', -k1 * s2 - k2 * c2, A3 * math.sin(t3), -k2 * c2, None
    yield 'f7, plus', corrected_12(k1, k2, k3, 1.0), c2, printed_12(k1, k2, k3, 1.0), -4.256
    yield 'f7, minus', corrected_12(k1, k2, k3, 1.0), c2, printed_12(k1, k2, k3, -1.0), -0.141
    yield 'f8, shoulder', -math.acos(c2), t2, math.acos(c2) - math.pi, -2.042
    ours = math.atan2(-k1 * s2 - k2 * c2, across - A2)
    yield 'f9, height of the wrist', ours, t3, math.atan((-k1 * s2) / (k1 * c2 - A2)), -0.537
    (n, o, _, _), about = columns([0.3, -2.0, -0.5, 0.3]), 2.5
    yield (
        'f10, pitch',
        math.atan2(-n[2], -o[2]) + about,
        0.3,
        math.atan(n[2] / o[2]) + about,
        3.442,
    )


@pytest.mark.parametrize(('name', 'ours', 'truth', 'printed', 'value'), list(proofs()), ids=str)
def test_the_printed_form_fails_and_ours_holds(name, ours, truth, printed, value):
    assert ours == pytest.approx(truth, rel=1e-12)
    if value is None:
        assert abs(printed - truth) > 0.1
    else:
        assert printed == pytest.approx(value, abs=5e-4)


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


def differential_transform(T):
    """Equation (19): a column of the Jacobian from the transform to the end."""
    n, o, a, p = T[:3, 0], T[:3, 1], T[:3, 2], T[:3, 3]
    return [*(np.cross(p, x)[2] for x in (n, o, a)), n[2], o[2], a[2]]


def test_f12_the_transform_of_a_column_starts_before_its_joint():
    """Printed (19): from link i; the axis of joint i is that of frame i - 1."""
    A = links(EXAMPLE)
    expected = J_4
    for j in range(4):
        before, after = np.eye(4), np.eye(4)
        for T in A[j:]:
            before = before @ T
        for T in A[j + 1 :]:
            after = after @ T
        assert_allclose(differential_transform(before), expected[:, j], atol=1e-15)
        if j < 3:
            assert np.abs(differential_transform(after) - expected[:, j]).max() > 0.1


def test_f13_f14_f15_elbow_and_shoulder_move_the_wrist_and_the_waist_along_its_own_axis():
    """Printed: (0, 0, 0, 0, 0, 1) for both, as if the wrist did not move; (25) without a third."""
    _, t2, t3, t4 = EXAMPLE
    phi, t34, r = t2 + t3 + t4, t3 + t4, k_of(EXAMPLE)[0]
    elbow = [A3 * math.sin(t4), A3 * math.cos(t4)]
    shoulder = [A2 * math.sin(t34) + elbow[0], A2 * math.cos(t34) + elbow[1]]
    waist = [0, 0, r, -math.sin(phi), -math.cos(phi), 0]
    corrected = [waist, [*shoulder, 0, 0, 0, 1], [*elbow, 0, 0, 0, 1]]
    assert_allclose(np.transpose(corrected), J_4[:, :3], atol=1e-15)
    metres = np.abs(J_4[:3, :3]).max(axis=0)
    assert metres == pytest.approx([0.154, 0.500, 0.206], abs=5e-4)


def test_f16_the_velocity_by_this_jacobian_is_in_the_axes_of_frame_4():
    """Printed (18): the frame is not stated; integrating it as base axes goes astray."""
    v = np.array([0.4, -0.3, 0.2, 0.1])
    in_base = complex_step(lambda x: pose(x)[:3, 3], EXAMPLE) @ v
    in_frame_4 = four_dof.jacobian(EXAMPLE, frame='tool')[:3] @ v
    assert_allclose(pose(EXAMPLE)[:3, :3] @ in_frame_4, in_base, atol=1e-15)
    assert np.abs(in_frame_4.astype(float) - in_base).max() > 0.05
    assert_allclose(four_dof.jacobian(EXAMPLE)[:3] @ v, in_base, atol=1e-15)
