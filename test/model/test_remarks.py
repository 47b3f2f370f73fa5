# SPDX-License-Identifier: Apache-2.0
"""Faults that are only reported, selection of controlled joints, and positions of locked ones."""

from __future__ import annotations

import time

import numpy as np
import pinocchio as pin
import pytest
from oracles import PinocchioOracle, relative_error
from samples import sample, world_files
from urdf_text import joint, link, robot

from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.errors import (
    ConfigurationError,
    DescriptionError,
    ModelError,
    NonFiniteError,
    RobotDynamicsError,
    UnknownNameError,
)
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.model.load import check_model

I = np.diag([0.02, 0.03, 0.04])
BASE, ARM, HAND = link('base'), link('arm', 2.0, (0.1, 0, 0), I), link('hand', 1.0, (0, 0, 0.1), I)
J1, J2 = joint('j1', 'base', 'arm'), joint('j2', 'arm', 'hand', xyz=(0.3, 0, 0))
GOOD = robot('good', BASE, ARM, HAND, J1, J2)
NOTHING = np.zeros((3, 3))
WORLD = {file.name: file for file in world_files()}


def remark(tree, *parts) -> bool:
    return any(all(part in text for part in parts) for text in tree.remarks)


# id: text, remark, an attribute and its assumed value
JUDGED = {
    'triangle inequality in the sixth digit': (
        robot('r', BASE, link('arm', 2.0, (0, 0, 0), np.diag([1, 2, 3.000003])), J1),
        "link 'arm': inertia breaks the triangle inequality", 'n', 1),
    'a principal moment of -2e-35': (
        robot('r', BASE, link('arm', 2.0, (0.1, 0, 0), np.diag([-2e-35, 1e-3, 1e-3])),
              joint('j1', 'base', 'arm')),
        "link 'arm': inertia is not positive definite", 'n', 1),
    'a wheel without range': (
        GOOD.replace('lower="-3.0" upper="3.0"', ''),
        "joints 'j1', 'j2': limits [0, 0] are empty",
        'position_upper', [np.inf, np.inf]),
    'reversed limits': (
        GOOD.replace('lower="-3.0" upper="3.0"', 'lower="2" upper="-1"'),
        "joints 'j1', 'j2': limits [2, -1] are empty", 'position_lower', [-1.0, -1.0]),
    'negative damping': (
        robot('r', BASE, ARM, joint('j1', 'base', 'arm', dynamics='<dynamics damping="-1"/>')),
        "joint 'j1': damping -1 is negative", 'damping', [0.0]),
    'a negative velocity limit': (
        GOOD.replace('velocity="10.0"', 'velocity="-1"', 1), 'velocity limit -1 is negative',
        'velocity_limit', [np.inf, 10.0]),
    'a massless link between two joints': (
        robot('r', BASE, link('arm'), HAND, joint('j1', 'base', 'arm', axis=(1, 0, 0)), J2),
        "link 'arm': has no <inertial>", 'mass', [0.0, 1.0]),
    'a tool frame with mass and no inertia': (
        robot('r', BASE, ARM, link('tool', 0.1, (0, 0, 0), NOTHING), J1,
              joint('weld', 'arm', 'tool', 'fixed', (0.3, 0, 0))),
        "link 'tool': has no moments of inertia", 'mass', [2.1]),
    'a robot without a name': (GOOD.replace(' name="good"', ''), '<robot>: has no name', 'n', 2),
    'a floating base': (
        robot('r', link('world'), BASE, ARM, joint('free', 'world', 'base', 'floating'), J1),
        "joint 'free': is of type 'floating'", 'joint_names', ('j1',)),
    'a negative mass that does not move': (
        GOOD.replace('<link name="base"/>', link('base', -3.0, inertia=I)),
        "link 'base': mass -3 kg", 'n', 2),
    'a number of a link that does not move': (
        GOOD.replace('<link name="base"/>', link('base', 3.0, inertia=I).replace('0.04', 'x')),
        "link 'base' <inertia izz>: 'x' is not a finite number", 'n', 2),
}  # fmt: skip


@pytest.mark.parametrize('case', JUDGED)
def test_what_leaves_the_mathematics_right_is_a_remark(case):
    text, said, attribute, taken = JUDGED[case]
    tree = load_robot(text)
    assert sum(said in found for found in tree.remarks) == 1
    assert np.array_equal(getattr(tree, attribute), taken)
    q, v, a = np.full((3, tree.n), 0.3)
    assert np.isfinite(make_formulation('newton_euler', tree).inverse_dynamics(q, v, a)).all()
    # Of a link that does not move, and of one fixed to a link with inertia, strict says no more.
    if 'does not move' not in case and 'tool frame' not in case:
        with pytest.raises(DescriptionError):
            load_robot(text, strict=True)
        assert check_model(text).errors


@pytest.mark.parametrize(
    ('text', 'culprit', 'problem'),
    [
        (robot('r', BASE, ARM, link('tip', 0.1, (0, 0, 0), NOTHING), J1,
               joint('j2', 'arm', 'tip', xyz=(0.3, 0, 0))),
         "joint 'j2'", 'an inertia of 0 kg m^2; it moves tip'),
        (robot('r', BASE, link('arm'), HAND, J1, joint('j2', 'arm', 'hand')),
         "joint 'j1'", 'not positive definite'),  # turns about the very axis of the next joint
        (robot('r', BASE, link('arm', 1.0, (0, 0, 0), -I), J1), "link 'arm'", 'moments -0.04'),
        (robot('r', BASE, link('arm', 0.0, (0, 0, 0), NOTHING),
               joint('j1', 'base', 'arm', 'prismatic')), "joint 'j1'", 'an inertia of 0 kg;'),
    ],
)  # fmt: skip
def test_what_makes_it_wrong_or_unsafe_is_refused_with_culprit_and_number(text, culprit, problem):
    with pytest.raises(DescriptionError) as caught:
        load_robot(text)
    assert caught.value.culprit == culprit
    assert problem in caught.value.problem
    if culprit == "joint 'j2'":  # it loads with that joint locked
        assert load_robot(text, joints=['j1']).mass.tolist() == [2.1]


# ---- the joints to control ----------------------------------------------------------------------


def reduced(name: str, tree, **locked: float) -> PinocchioOracle:
    """Return Pinocchio's own reduction of a sample by the positions of its other joints."""
    oracle = PinocchioOracle(sample(name).xml, tree.gravity, sample(name).tree.joint_names)
    at = np.array([locked.get(joint, 0.0) for joint in sample(name).tree.joint_names])
    ids = [oracle.model.getJointId(joint) for joint in locked]
    oracle.model = pin.buildReducedModel(oracle.model, ids, oracle.configuration(at))
    oracle.model.gravity.linear = np.array(tree.gravity, dtype=float)
    oracle.data = oracle.model.createData()
    oracle.joints = [oracle.model.joints[oracle.model.getJointId(x)] for x in tree.joint_names]
    oracle.dofs = np.array([joint.idx_v for joint in oracle.joints])
    return oracle


@pytest.mark.parametrize(
    ('name', 'locked'),
    [
        ('rrpr', {'j3': 0.2, 'j1': -0.4}),
        ('branched', {'left_slide': 0.3, 'neck': 1.0, 'waist': -0.5}),
    ],
)
def test_locked_joints_are_lumped_as_pinocchio_reduces_them(name, locked, rng):
    tree = load_robot(sample(name).xml, sample(name).gravity, effort_limit=1.0, locked=locked)
    assert set(tree.joint_names) == set(sample(name).tree.joint_names) - set(locked)
    assert tree.locked == locked
    oracle = reduced(name, tree, **locked)
    q, v, a = rng.uniform(-1, 1, size=(3, tree.n))
    for one in (tree, load_robot(tree.xml, tree.gravity, effort_limit=1.0)):  # as its text says
        found = make_formulation('newton_euler', one).inverse_dynamics(q, v, a)
        assert relative_error(found, oracle.inverse_dynamics(q, v, a)) < 1e-12  # two other sums


def test_joints_and_chains_choose_what_is_controlled():
    def names(**chosen):
        return load_robot(sample('branched').xml, effort_limit=1.0, **chosen).joint_names

    assert names(joints=['neck', 'waist']) == ('waist', 'neck')
    assert names(tip='right_hand') == ('waist', 'right_shoulder', 'right_elbow')
    assert names(base='torso', tip='right_hand') == ('right_shoulder', 'right_elbow')
    assert names(base='torso', tip='right_hand', joints=['neck'])[-1] == 'neck'
    assert names(tip='right_hand', locked={'waist': 0.1}) == ('right_shoulder', 'right_elbow')
    tree = load_robot(sample('branched').xml, effort_limit=1.0, tip='right_hand')
    assert 'left_camera' in tree.frames


def test_a_joint_is_locked_at_zero_or_at_the_nearest_limit():
    text = GOOD.replace('lower="-3.0" upper="3.0"', 'lower="0.4" upper="1"', 1)
    assert load_robot(text, joints=['j2']).locked == {'j1': 0.4}
    assert load_robot(GOOD, joints=['j2']).locked == {'j1': 0.0}
    tree = load_robot(GOOD, joints=['j2'], locked={'j1': 4.0})
    assert remark(tree, "joint 'j1'", 'locked at 4, outside of its limits [-3, 3]')


def test_faults_of_locked_joints_are_remarks():
    text = GOOD.replace('effort="100.0"', 'effort="0"', 1)
    tree = load_robot(text.replace('upper="3.0"', 'upper="up"', 1), joints=['j2'])
    assert remark(tree, "joint 'j1' <limit upper>", "'up' is not a finite number")
    with pytest.raises(ModelError, match="joint 'j1': effort limit is 0"):
        load_robot(text)


@pytest.mark.parametrize(
    ('chosen', 'kind', 'message'),
    [
        ({'joints': ['j9']}, UnknownNameError, "unknown joint 'j9'; known: j1, j2"),
        ({'locked': {'j9': 0.0}}, UnknownNameError, "unknown joint in locked 'j9'"),
        ({'tip': 'thumb'}, UnknownNameError, "unknown link 'thumb'; known: arm, base, hand"),
        ({'base': 'arm'}, ConfigurationError, 'chain: has no tip'),
        ({'base': 'hand', 'tip': 'arm'}, ConfigurationError, "'arm' is not below link 'hand'"),
        ({'joints': []}, ConfigurationError, 'none is left to control; choose from: j1, j2'),
        ({'locked': {'j1': 0.0, 'j2': 0.0}}, ConfigurationError, 'none is left'),
        ({'joints': ['j1'], 'locked': {'j1': 0.0}}, ConfigurationError, 'controlled and locked'),
        ({'locked': {'j1': float('nan')}}, NonFiniteError, "position of joint 'j1' is not finite"),
        ({'mimic': 'ignore'}, UnknownNameError, "'ignore'; known: couple, lock"),
    ],
)
def test_a_choice_that_makes_no_sense_is_refused(chosen, kind, message):
    with pytest.raises(kind, match=message.replace('(', r'\(')):
        load_robot(GOOD, **chosen)


# ---- text that is not a robot -------------------------------------------------------------------


@pytest.mark.parametrize(
    'text',
    [
        '<robot>' + '<a>' * 1_000_000,
        '<robot name="\ud800"/>',
        '<?xml version="1.0" encoding="klingon"?><robot/>',
        '<robot name="\x00"/>',
        '<!DOCTYPE r [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><robot name="&c;"/>',
        'x' * 5000,
        '/proc/self/mem',
        '~nosuchuser',
        '/',
        'a\x00b.urdf',
    ],
    ids=range(10),
)
def test_whatever_is_given_ends_soon_with_one_short_error(text):
    began = time.monotonic()
    with pytest.raises(RobotDynamicsError) as caught:
        load_robot(text)
    assert time.monotonic() - began < 5.0  # s; a million elements took unacceptably long
    assert len(str(caught.value)) < 500
    assert check_model(text).errors


def test_a_declared_encoding_does_not_matter_once_the_text_is_read():
    text = '<?xml version="1.0" encoding="utf-16"?>' + GOOD.replace('"good"', '"Brücke"')
    assert load_robot(text).name == 'Brücke'


def test_a_tensor_near_the_largest_numbers_is_told():
    text = GOOD.replace('ixx="0.02"', 'ixx="1e308"').replace('ixy="0.0"', 'ixy="1e308"')
    with pytest.raises(DescriptionError, match='1e\\+308 is too large; give SI units'):
        load_robot(text)
    assert check_model(text).errors


def test_thousands_of_links_in_a_row_load():
    """More than Python's recursion takes."""
    parts = [link('l0')]
    for i in range(2000):
        parts.append(link(f'l{i + 1}', 0.1, (0, 0, 0.01), 1e-4 * np.eye(3)))
        parts.append(joint(f'j{i}', f'l{i}', f'l{i + 1}', 'fixed' if i % 100 else 'revolute'))
    tree = load_robot(robot('long', *parts))
    assert (tree.n, len(tree.frames)) == (20, 2001)
