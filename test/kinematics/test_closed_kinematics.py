# SPDX-License-Identifier: Apache-2.0
"""What the closed kinematics of both arms fulfil: Pinocchio's poses and derivatives, and back."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import sympy
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose
from oracles import PinocchioOracle
from samples import sample, shipped

from robot_dynamics_ros.kinematics import four_dof, scara
from robot_dynamics_ros.kinematics.four_dof import FOUR_DOF, FOUR_DOF_WIDE, FourDofGeometry
from robot_dynamics_ros.kinematics.scara import SCARA, ScaraGeometry


def closed(module, geometry, name, link='tool', **point):
    """Return the functions of an arm at one of its points, its geometry and its oracle."""
    robot = sample(name)
    return SimpleNamespace(
        module=module,
        given=geometry,
        on_tree=replace(geometry, height=robot.tree.p_PJ[0, 2]),
        oracle=PinocchioOracle.of(robot),
        link=link,
        point=point,
    )


parts = arrays(float, 4, elements=st.floats(0.0, 1.0))
A2_A3 = FOUR_DOF.a2, FOUR_DOF.a3
ARMS = {
    'scara': closed(scara, SCARA, 'scara'),
    'four_dof, wrist': closed(four_dof, FOUR_DOF, 'four_dof', 'link4', point='wrist'),
    'four_dof, tool': closed(four_dof, FOUR_DOF, 'four_dof', point='tool'),
}


@pytest.fixture(params=ARMS)
def arm(request):
    return ARMS[request.param]


def test_the_default_geometries_are_those_of_the_shipped_robots():
    assert ScaraGeometry.from_tree(sample('scara').tree) == ARMS['scara'].on_tree
    assert FourDofGeometry.from_tree(sample('four_dof').tree) == ARMS['four_dof, tool'].on_tree
    wide = FourDofGeometry.from_tree(shipped('four_dof', limits_profile='wide').tree)
    assert replace(wide, height=0.0) == FOUR_DOF_WIDE


@pytest.mark.parametrize('frame', ['base', 'tool'])
def test_pose_jacobian_and_drift_are_those_of_pinocchio(arm, frame, rng):
    """The Denavit-Hartenberg product of the four-joint arm's paper: ``papers/four_dof``."""
    for _ in range(3):
        q, v = rng.uniform(arm.given.lower, arm.given.upper), rng.normal(size=4)
        R, p = arm.oracle.frame_pose(arm.link, q)
        found = arm.module.forward(q, arm.on_tree, **arm.point)
        assert_allclose(found.R_WF, R, atol=1e-15)
        assert_allclose(found.p_WF, p, atol=1e-15)
        turn = np.kron(np.eye(2), R.T if frame == 'tool' else np.eye(3))
        options = {'frame': frame, **arm.point}
        J, bias = arm.oracle.frame_jacobian(arm.link, q), arm.oracle.frame_bias(arm.link, q, v)
        found = arm.module.jacobian(q, arm.on_tree, **options)
        assert_allclose(found, turn @ J, atol=1e-15)
        # Accelerations up to 10 m/s^2.
        found = arm.module.bias_acceleration(q, v, arm.on_tree, **options)
        assert_allclose(found, turn @ bias, atol=1e-14)


def test_the_task_jacobian_of_the_four_joint_arm_has_the_published_determinant(rng):
    """a2 a3 s3 r, of position and pitch."""
    a2, a3 = A2_A3
    for q in rng.uniform(-1.5, 1.5, (10, 4)):
        r = a2 * math.cos(q[1]) + a3 * math.cos(q[1] + q[2])
        found = np.linalg.det(four_dof.task_jacobian(q).astype(float))
        assert found == pytest.approx(a2 * a3 * math.sin(q[2]) * r, rel=1e-11, abs=1e-17)


def test_the_drift_runs_over_symbols(arm):
    names, values = sympy.symbols('t1:5 w1:5'), [0.3, 0.8, 0.1, -0.4, 1.0, -2.0, 0.3, 0.7]
    formula, expected = (
        np.ravel(arm.module.bias_acceleration(x[:4], x[4:], **arm.point)) for x in (names, values)
    )
    found = sympy.Matrix(formula).subs(zip(names, values, strict=True))
    assert_allclose(np.ravel(found).astype(float), expected.astype(float), atol=1e-14)


def branch_of(module, q):
    """Return the name of a solution by the places of elbow and wrist in the plane of the links."""
    lengths, angles = (A2_A3, -q[1:3]) if module is four_dof else ((SCARA.L1, SCARA.L2), q[:2])
    elbow, forearm = lengths * np.exp(1j * np.cumsum(angles))
    wrist = elbow + forearm
    left = (wrist.conjugate() * elbow).imag  # of the line to the wrist, seen along it
    if abs(left * wrist.real) < 1e-6:
        return ''
    if module is scara:
        return 'left' if left > 0.0 else 'right'
    side, above = ('front', left) if wrist.real > 0.0 else ('back', -left)
    return f'{side}_{"up" if above > 0.0 else "down"}'


@pytest.mark.slow
@pytest.mark.parametrize(
    ('module', 'geometry', 'point'),
    [
        (scara, replace(SCARA, height=0.2), {}),
        (four_dof, FOUR_DOF, {}),
        (four_dof, replace(FOUR_DOF_WIDE, height=0.2), {}),
        # A tool beside the plane of the arm.
        (four_dof, replace(FOUR_DOF_WIDE, tool=(0.05, 0.12, 0.03), height=0.2), {'point': 'tool'}),
    ],
)
@given(parts)
def test_every_branch_has_its_name_and_is_at_the_place_and_one_is_the_configuration(
    module, geometry, point, parts
):
    """From a pose, if it is that of the wrist, and from a point with yaw or pitch."""
    # Angles beyond half a turn have equal ones within.
    lower, upper = np.maximum(geometry.lower, -3.1), np.minimum(geometry.upper, 3.1)
    q = lower + parts * (upper - lower)
    place = module.forward(q, geometry, **point)
    assume(branch_of(module, q) and (point or np.hypot(*place.p_WF[:2]) > 1e-3))
    turn = q[0] + q[1] - q[3] if module is scara else q[1:].sum()
    ways = [(module.inverse(place.p_WF, turn, geometry, **point), module is scara)]
    if not point:
        ways.append((module.inverse_pose(*place, geometry), True))
    for solutions, whole in ways:  # the whole pose or place and pitch
        assert 2 <= len(solutions) <= (2 if whole else 4)
        for s in solutions:
            found = module.forward(s.q, geometry, **point)
            assert_allclose(found.p_WF, place.p_WF, atol=1e-12)
            if whole:
                assert_allclose(found.R_WF, place.R_WF, atol=1e-12)
            assert branch_of(module, s.q) in ('', s.branch)
        [own] = [s for s in solutions if np.abs(s.q - q).max() < 1e-6]
        assert own.within_limits
