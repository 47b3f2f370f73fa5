# SPDX-License-Identifier: Apache-2.0
"""Inertias, limits and lengths that no arm has: the probable slip is named; rounding still loads.

Each slip is made of the tensor of a real box, the way people make it.
"""

import re
from functools import partial
from itertools import permutations

import numpy as np
import pytest
import solids
import tables
from scipy.spatial.transform import Rotation
from urdf_text import symmetric, two_link_arm

from robot_dynamics_ros.errors import ModelError
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.model.load import check_model
from robot_dynamics_ros.spatial.inertia import inconsistency

LENGTH, MASS, COM = 0.4, 2.0, np.array([0.0, 0.05, 0.2])
BOX = solids.cuboid(MASS, 0.06, 0.1, LENGTH).inertia
STEINER = MASS * (COM @ COM * np.eye(3) - np.outer(COM, COM))
#: A box that stands askew to its axes by 45 degrees about x.
ASKEW = Rotation.from_euler('x', 45, degrees=True).as_matrix()
TURNED = ASKEW @ BOX @ ASKEW.T
arm = partial(two_link_arm, BOX, com=COM)


def elements(ixx, ixy, ixz, iyy, iyz, izz) -> np.ndarray:
    """Return a tensor from its elements in the order of URDF."""
    return symmetric(ixx, iyy, izz, ixy, ixz, iyz)


_A, _B, _C = np.diag(BOX)
IMPOSSIBLE = {
    'parallel axes subtracted twice': (BOX - STEINER, 'm r^2 seems to be subtracted twice'),
    'of a turned box': (TURNED - STEINER, 'm r^2 seems to be subtracted twice'),
    'ixy in place of iyy': (elements(_A, _B, 0, 0, 0, _C), 'ixy seems to be in the place of iyy'),
    'iyz in place of izz': (elements(_A, 0, 0, _B, _C, 0), 'iyz seems to be in the place of izz'),
    'a negative moment': (elements(-_A, 0, 0, _B, 0, 4 * _C), 'ixx cannot be negative'),
    'too large a product': (elements(_A, 3 * _B, 0, _B, 0, _C), 'ixy exceeds what ixx and iyy'),
    'the other product': (elements(_A, 0, 0, _B, -2 * _B, _C), 'iyz exceeds what iyy and izz'),
}


def test_a_tensor_is_judged_where_its_place_is_no_number():
    text = arm(BOX - STEINER).replace('<inertial><origin xyz="', '<inertial><origin xyz="up ')
    said = [f'{finding}' for finding in check_model(text).errors]
    assert ['has 4 numbers; give three' in said[0], 'principal moments' in said[-1]] == [True] * 2


@pytest.mark.parametrize('scale', [1e-4, 1e3])
@pytest.mark.parametrize('slip', IMPOSSIBLE)
def test_an_impossible_tensor_is_refused_at_load_with_the_probable_slip(slip, scale):
    """Of small and large arms alike; even where m r^2 keeps the mass matrix positive definite."""
    tensor, said = IMPOSSIBLE[slip]
    lengths = scale ** (1 / 5)
    com = lengths * (COM if 'twice' in said else 3.0 * COM)
    text = arm(scale * tensor, scale / lengths**2 * MASS, com=com)
    with pytest.raises(ModelError, match=re.escape(said)) as refusal:
        load_robot(text)
    assert refusal.value.culprit == "link 'upper'"
    assert str(refusal.value) in [str(finding) for finding in check_model(text).errors]


#: Of floating point, of nine decimals, of a flat and turned plate, of three decimals, to zero; a
#: thin rod; a triangle that is broken in the sixth digit.
@tables.rows('moments', """
[-2.0e-35, 0, 0, 1.0e-3, 0, 1.0e-3]
[-1.0e-9, 0, 0, 0.03, 0, 0.03]
[0.01, 0.01, 0, 0.009999, 0, 0.02]
[0.002, 0.002, 0, 0.001, 0, 0.03]
[0.0, 1.0e-3, 0, 0.02, 0, 0.02]
[0.0, 0, 0, 0.03, 0, 0.03]
[1, 0, 0, 2, 0, 3.000003]
""")  # fmt: skip
def test_rounding_is_remarked(moments):
    text, said = arm(elements(*moments)), "link 'upper': inertia"
    assert said in '\n'.join(load_robot(text).remarks)
    with pytest.raises(ModelError, match=said):
        load_robot(text, strict=True)
    assert check_model(text).errors


@pytest.mark.parametrize('order', [*permutations(range(3))])
def test_a_real_body_is_never_called_a_slip(order):
    """Turned, permuted and flat boxes are bodies, and a rod whose centre is far away."""
    P = np.eye(3)[list(order)]
    for tensor in (P @ BOX @ P.T, P @ TURNED @ P.T, P @ np.diag([1e-3, 2e-3, 3e-3]) @ P.T):
        assert not inconsistency(tensor)
        assert not any('inertia' in str(finding) for finding in check_model(arm(tensor)).errors)


# ---- units and limits ---------------------------------------------------------------------------


def described(moments=1.0, mass=1.0, com=1.0, replaced=(), **of_joint) -> str:
    """Return the arm with a multiple of the box or other moments, and other parts of its joint."""
    tensor = np.diag(moments) if isinstance(moments, list) else moments * BOX
    text = arm(tensor, mass * MASS, com=com * COM, **of_joint)
    return text.replace(*replaced, 1) if replaced else text


@tables.written("""
{moments: 1.0e+6}                           | link 'upper': ... in kg mm^2
{moments: 1.0e+4}                           | link 'upper': ... in kg cm^2
{moments: 3417.17}                          | link 'upper': ... lb in^2
{moments: 1.0e+9}                           | link 'upper': ... in g mm^2
{mass: 1.0e+3}                              | link 'upper': ... in g?
{moments: 1.0e+3, mass: 1.0e+3}             | link 'upper': ... in g?
{moments: 1.0e+9, mass: 1.0e+3}             | link 'upper': ... g mm^2, the mass in g,
{com: 1.0e+3}                               | link 'upper': ... in mm?
{com: 39.37}                                | link 'upper': ... or inches?
{limits: [-170.0, 170.0]}                   | joint 'shoulder': ... in degrees?
{velocity: 180.0}                           | joint 'shoulder': ... in degrees per second?
{kind: prismatic, limits: [0.0, 400.0], velocity: 1.0} | joint 'shoulder': ... in mm?
{kind: prismatic, limits: [0.0, 0.4], velocity: 250.0} | joint 'shoulder': ... in mm/s?
{xyz: [0, 0, 330.0]}                        | joint 'shoulder': ... in mm?
{effort: 150000.0}                          | joint 'shoulder': ... in N mm?
{effort: 1.0e-9, dynamics: <dynamics damping="1"/>} | joint 'shoulder': ... effort limit is 1e-09 N m; is it in
{velocity: 1.0e-9}                          | joint 'shoulder': ... velocity limit is 1e-09 rad/s; is it in
{velocity: 0.0}                             | joint 'shoulder': ... velocity limit is 0
{moments: [1, 1, 1], mass: 0.5}             | link 'upper': ... a box of 2.45 x 2.45
{moments: 1.0e-4}                           | link 'upper': ... lead has
{replaced: ['rpy="0.0 0.0 0.0"/><mass', 'rpy="0 0 90"/><mass']} | link 'upper': ... 90.0) exceeds a turn
{rpy: [0, 0, 90.0]}                         | joint 'shoulder': ... 90.0) exceeds a turn
{dynamics: ''}                              | joint 'shoulder': ... has neither damping nor friction
{effort: 10.0, dynamics: <dynamics friction="6"/>} | joint 'shoulder': ... friction at 1 /s, 6 N m, is 60% of the effort limit
{dynamics: <dynamics damping="70"/>}        | joint 'shoulder': ... friction at 1 /s, 70 N m, is 70% of
""")  # noqa: E501
def test_what_is_in_another_unit_is_remarked_with_the_unit(given, said):
    found = check_model(described(**given))
    assert found.errors == ()
    assert [bool(re.match(said, str(w))) for w in found.warnings] == [True]


#: Ten times a moment is 1/32 of the density: neighbours of a unit are mostly no body.
UNITS = {'kg mm^2': 1e-6, 'kg cm^2': 1e-4, 'g mm^2': 1e-9, 'g cm^2': 1e-7, 'lb in^2': 2.9264e-4}


@pytest.mark.parametrize('unit', UNITS)
@pytest.mark.parametrize('size', [(0.2, 0.2, 0.3), (0.06, 0.1, 0.4), (0.08, 0.09, 0.1)])
def test_the_unit_of_a_tensor_is_among_those_asked_and_each_of_them_gives_a_body(unit, size):
    """Of bodies of 600 kg/m^3, also of those that are longer or much shorter than their link."""
    mass = 600.0 * np.prod(size)
    text = arm(solids.cuboid(mass, *size).inertia / UNITS[unit], mass)
    (said,) = (x.remedy for x in check_model(text).warnings if 'box of' in x.problem)
    asked = said.partition('is it in ')[2].removesuffix('?').split(' or ')
    assert unit in asked
    for name in asked:  # moments of a body of the same shape and mass
        scale = np.sqrt(UNITS[name] / UNITS[unit])
        assert 30.0 < 600.0 / scale**3 < 2e4
        assert max(size) * scale <= 2.0 * LENGTH


def test_a_drive_that_its_friction_uses_up_is_an_error_that_every_command_shows():
    text = arm(effort=10.0, dynamics='<dynamics friction="10.0"/>')
    assert [finding.culprit for finding in check_model(text).errors] == ["joint 'shoulder'"]
    assert 'the drive cannot move it' in ' '.join(load_robot(text).remarks)


def test_a_power_of_ten_stands_for_no_limit():
    assert check_model(arm(limits=(-1e3, 1e3), velocity=1e6, effort=1e6)).findings == ()
