# SPDX-License-Identifier: Apache-2.0
"""Every fault of a description is rejected if strict, with culprit and remedy.

One valid robot is modified in one place at a time. ``check_model`` must report the same
culprit in the same words, and continue. Faults that are only reported: ``test_remarks``.
"""

from __future__ import annotations

import numpy as np
import pytest
from urdf_text import joint, link, robot

from robot_dynamics_ros.errors import (
    DescriptionError,
    MissingDependencyError,
    ModelError,
    NonFiniteError,
    ParameterError,
    ShapeError,
    UnknownNameError,
)
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.model.load import check_model

I = np.diag([0.02, 0.03, 0.04])
BASE, ARM, HAND = link('base'), link('arm', 2.0, (0.1, 0, 0), I), link('hand', 1.0, (0, 0, 0.1), I)
J1 = joint('j1', 'base', 'arm')
J2 = joint('j2', 'arm', 'hand', 'prismatic', xyz=(0.3, 0, 0), limits=(0.0, 0.2))
GOOD = robot('good', BASE, ARM, HAND, J1, J2)


def spoilt(old: str, new: str) -> str:
    """Return the good robot with one passage replaced."""
    assert old in GOOD, 'the passage must exist, or nothing is spoilt'
    return GOOD.replace(old, new, 1)


def with_tensor(tensor) -> str:
    return robot('r', BASE, link('arm', 2.0, (0.1, 0, 0), tensor), J1)


ARM_LIMIT = 'lower="-3.0" upper="3.0" velocity="10.0" effort="100.0"'

# id: text, error, culprit, problem, remedy
TABLE = {
    'malformed XML': ('<robot name="x"><link', DescriptionError, 'robot description',
                      'malformed XML', 'one <robot> element'),
    'other root element': ('<sdf/>', DescriptionError, 'robot description',
                           'root element is <sdf>', 'must be <robot>'),
    'no link': ('<robot name="void"/>', DescriptionError, "robot 'void'", 'has no link', '<link>'),
    'no moving joint': (robot('stone', link('rock')), DescriptionError, "robot 'stone'",
                        'no moving joint', 'revolute'),
    'unknown parent': (spoilt('parent link="arm"', 'parent link="leg"'), DescriptionError,
                       "joint 'j2'", "parent link 'leg' does not exist", 'base, arm, hand'),
    'unknown child': (spoilt('child link="hand"', 'child link="foot"'), DescriptionError,
                      "joint 'j2'", "child link 'foot' does not exist", 'base, arm, hand'),
    'two roots': (robot('r', BASE, link('island'), ARM, J1), DescriptionError, "robot 'r'",
                  'has 2 roots: base, island', 'exactly one link'),
    'a loop': (robot('r', BASE, ARM, HAND, J1, J2, joint('j3', 'base', 'hand')), DescriptionError,
               "link 'hand'", "child of two joints, 'j2' and 'j3': a loop", 'mechanism file'),
    'a cycle': (robot('r', BASE, ARM, HAND, joint('j1', 'hand', 'arm'), J2), DescriptionError,
                "link 'arm'", 'closed loop of joints', 'lead to the root'),
    'a cycle of fixed joints': (
        robot('r', BASE, ARM, HAND, joint('j1', 'hand', 'arm', 'fixed'),
              joint('j2', 'arm', 'hand', 'fixed')), DescriptionError, "link 'arm'",
        'closed loop of joints', 'lead to the root'),
    'a link that carries itself': (robot('r', BASE, ARM, joint('j1', 'arm', 'arm')),
                                   DescriptionError, "link 'arm'", 'closed loop', 'root'),
    'missing inertial': (robot('r', BASE, link('arm'), J1), ModelError, "link 'arm'",
                         'has no <inertial>', "joint 'j1' moves it"),
    'missing mass': (spoilt('<mass value="2.0"/>', ''), DescriptionError, "link 'arm'",
                     '<inertial> has no <mass>', '<mass value>'),
    'missing inertia': (robot('r', BASE, '<link name="arm"><inertial><mass value="1"/>'
                              '</inertial></link>', J1), DescriptionError, "link 'arm'",
                        '<inertial> has no <inertia>', 'ixx'),
    'mass without value': (spoilt('<mass value="2.0"/>', '<mass/>'), DescriptionError,
                           "link 'arm'", "<mass> has no 'value'", 'give value='),
    'mass negative': (spoilt('<mass value="2.0"/>', '<mass value="-2"/>'), ModelError,
                      "link 'arm'", 'mass -2 kg', 'must be positive'),
    'inertia negative': (with_tensor(np.diag([-0.02, 0.03, 0.04])), ModelError, "link 'arm'",
                         'not positive definite', 'positive principal moments'),
    'triangle inequality': (with_tensor(np.diag([0.01, 0.02, 0.04])), ModelError, "link 'arm'",
                            'breaks the triangle inequality', 'at most the sum of the others'),
    'effort zero': (spoilt('effort="100.0"', 'effort="0"'), ModelError, "joint 'j1'",
                    'effort limit is 0', 'effort_limit (--effort-limit)'),
    'effort missing': (spoilt('effort="100.0"', ''), ModelError, "joint 'j1'",
                       'effort limit is missing', 'effort_limit (--effort-limit)'),
    'limit missing': (spoilt(f'<limit {ARM_LIMIT}/>', ''), ModelError, "joint 'j1'",
                      'has no <limit>', 'lower and upper'),
    'limits empty': (spoilt('lower="-3.0" upper="3.0"', 'lower="0" upper="0"'), ModelError,
                     "joint 'j1'", 'limits [0, 0] are empty', 'lower must be below upper'),
    'velocity limit negative': (spoilt('velocity="10.0"', 'velocity="-1"'), ModelError,
                                "joint 'j1'", 'velocity limit -1 is negative', 'must not be'),
    'damping negative': (robot('r', BASE, ARM, joint('j1', 'base', 'arm',
                               dynamics='<dynamics damping="-0.1"/>')), ModelError, "joint 'j1'",
                         'damping -0.1 is negative', 'must not be'),
    'friction not a number': (robot('r', BASE, ARM, joint('j1', 'base', 'arm',
                                    dynamics='<dynamics friction="dry"/>')), DescriptionError,
                              "joint 'j1' <dynamics friction>", "'dry' is not a finite number",
                              'give one number'),
    'unsupported joint': (spoilt('type="prismatic"', 'type="planar"'), DescriptionError,
                          "joint 'j2'", "unsupported type 'planar'", 'revolute'),
    'NaN mass': (spoilt('<mass value="2.0"/>', '<mass value="nan"/>'), DescriptionError,
                 "link 'arm' <mass value>", "'nan' is not a finite number", 'give one number'),
    'two coordinates': (spoilt('<axis xyz="0.0 0.0 1.0"/>', '<axis xyz="0 1"/>'), DescriptionError,
                        "joint 'j1' <axis xyz>", "'0 1' has 2 numbers", 'give three'),
    'axis zero': (spoilt('<axis xyz="0.0 0.0 1.0"/>', '<axis xyz="0 0 0"/>'), ModelError,
                  "joint 'j1'", 'axis is zero', '<axis xyz>'),
    'two links of one name': (robot('r', BASE, ARM, ARM, J1), DescriptionError, "link 'arm'",
                              'declared more than once', 'its own name'),
    'two joints of one name': (robot('r', BASE, ARM, HAND, J1, J2.replace('"j2"', '"j1"')),
                               DescriptionError, "joint 'j1'", 'declared more than once',
                               'its own name'),
    'link without name': (spoilt('<link name="base"/>', '<link/>'), DescriptionError, '<link>',
                          'has no name', 'name attribute'),
    'robot without name': (spoilt(' name="good"', ''), ModelError, '<robot>', 'has no name',
                           'name attribute'),
    'joint without parent': (spoilt('<parent link="arm"/>', ''), DescriptionError, "joint 'j2'",
                             'has no <parent>', '<parent link>'),
    'joint without child': (spoilt('<child link="hand"/>', ''), DescriptionError, "joint 'j2'",
                            'has no <child>', '<child link>'),
}  # fmt: skip


def test_the_good_robot_is_accepted_and_checked_without_errors():
    assert load_robot(GOOD).joint_names == ('j1', 'j2')
    assert check_model(GOOD).errors == ()


@pytest.mark.parametrize('case', TABLE)
def test_it_is_refused_with_culprit_problem_and_remedy_and_check_model_says_the_same(case):
    text, kind, culprit, problem, remedy = TABLE[case]
    with pytest.raises(kind) as caught:
        load_robot(text, strict=True)
    error = caught.value
    assert type(error) is kind
    assert error.culprit == culprit
    assert str(error) == f'{error.culprit}: {error.problem}; {error.remedy}'
    assert problem in error.problem
    found = [f for f in check_model(text).errors if f.culprit == culprit and problem in f.problem]
    assert len(found) == 1
    for one in (error, *found):
        assert remedy in one.remedy


def test_check_model_finds_all_faults_at_once():
    text = robot(
        'ruin',
        BASE,
        link('arm', -2.0, (0.1, 0, 0), np.diag([0.01, 0.02, 0.4])),
        link('hand', 1.0, (0, 0, 0.1), I).replace('ixx="0.02"', 'ixx="oops"'),
        joint('j1', 'base', 'arm', limits=(1.0, -1.0), effort=0.0, axis=(0, 0, 0)),
        joint('j2', 'arm', 'hand', 'screw'),
        joint('j3', 'arm', 'moon'),
    )
    found = {(f.culprit, f.problem) for f in check_model(text).errors}
    for culprit, problem in (
        ("link 'arm'", 'mass -2 kg'),
        ("link 'arm'", 'triangle inequality'),
        ("link 'hand' <inertia ixx>", "'oops' is not a finite number"),
        ("joint 'j1'", 'limits [1, -1] are empty'),
        ("joint 'j1'", 'effort limit is 0'),
        ("joint 'j1'", 'axis is zero'),
        ("joint 'j2'", "unsupported type 'screw'"),
        ("joint 'j3'", "child link 'moon' does not exist"),
    ):
        assert any(culprit == c and problem in p for c, p in found), (culprit, problem)


def test_a_missing_file_is_refused_by_name(tmp_path):
    with pytest.raises(DescriptionError, match='arm.urdf.*: no such file; give a path'):
        load_robot(tmp_path / 'arm.urdf')
    assert 'no such file' in check_model(tmp_path / 'arm.urdf').errors[0].problem


def test_a_file_that_is_not_utf_8_is_refused(tmp_path):
    path = tmp_path / 'arm.urdf'
    path.write_bytes('<robot name="Brücke"/>'.encode('latin-1'))
    with pytest.raises(DescriptionError, match='is not UTF-8 text.*save it as UTF-8'):
        load_robot(path)


def test_a_byte_order_mark_does_no_harm(tmp_path):
    path = tmp_path / 'arm.urdf'
    path.write_text(GOOD, encoding='utf-8-sig')
    assert load_robot(path).n == load_robot('\ufeff' + GOOD).n == 2


@pytest.mark.parametrize(
    'body',
    [
        '<link name="${missing}"/>',
        '<xacro:include filename="nowhere.xacro"/>',
        '<xacro:unknown_macro/>',
        '<link name="$(arg side)"/>',
        '<link',
    ],
)
def test_a_bad_xacro_file_is_refused_with_its_name(tmp_path, body):
    path = tmp_path / 'arm.urdf.xacro'
    path.write_text(f'<robot name="r" xmlns:xacro="http://www.ros.org/wiki/xacro">{body}</robot>')
    with pytest.raises(DescriptionError, match='xacro file arm.urdf.xacro: .*; correct the file'):
        load_robot(path)
    assert check_model(path).errors[0].culprit == 'xacro file arm.urdf.xacro'


def test_a_missing_xacro_is_told_with_the_way_to_install_it(tmp_path, monkeypatch):
    path = tmp_path / 'arm.urdf.xacro'
    path.write_text(GOOD)
    monkeypatch.setitem(__import__('sys').modules, 'xacro', None)
    with pytest.raises(MissingDependencyError, match='arm.urdf.xacro needs xacro.*install it'):
        load_robot(path)


NO_EFFORT = GOOD.replace('effort="100.0"', '')


def test_an_effort_limit_supplies_what_the_file_leaves_out():
    assert load_robot(NO_EFFORT, effort_limit=7.0).effort_limit.tolist() == [7.0, 7.0]
    one_given = GOOD.replace('effort="100.0"', 'effort="0"', 1)
    assert load_robot(one_given, effort_limit=7.0).effort_limit.tolist() == [7.0, 100.0]


def test_effort_limits_by_name_replace_those_of_the_file():
    tree = load_robot(GOOD, effort_limit={'j2': 9.0})
    assert tree.effort_limit.tolist() == [100.0, 9.0]


@pytest.mark.parametrize('value', [0.0, -3.0, float('inf'), float('nan')])
def test_an_effort_limit_that_limits_nothing_is_refused(value):
    """Also where no joint needs it."""
    for text in (NO_EFFORT, GOOD):
        with pytest.raises(
            ParameterError, match='^parameter effort_limit = .* refused: give a positive'
        ):
            load_robot(text, effort_limit=value)
    with pytest.raises(ParameterError, match="^parameter effort_limit of 'j2' = "):
        load_robot(GOOD, joints=['j1'], effort_limit={'j2': value})
    assert 'effort_limit = ' in str(check_model(GOOD, effort_limit=value).errors)


def test_effort_limits_for_unknown_joints_are_refused_with_the_known_ones():
    with pytest.raises(
        UnknownNameError, match="unknown joint in effort_limit 'j9'; known: j1, j2"
    ):
        load_robot(GOOD, effort_limit={'j9': 1.0})
    assert "'j9'" in check_model(GOOD, effort_limit={'j9': 1.0}).errors[0].problem


@pytest.mark.parametrize(
    ('gravity', 'error', 'said'),
    [
        (9.81, ShapeError, r'gravity has shape .*; expected \(3,\)'),
        ((0, -9.81), ShapeError, r'gravity has shape .*; expected \(3,\)'),
        ((0.0, float('nan'), -9.81), NonFiniteError, 'gravity is not finite: '),
    ],
)
def test_a_gravity_that_is_no_finite_vector_is_refused(gravity, error, said):
    for load in (lambda g: load_robot(GOOD, g), load_robot(GOOD).with_gravity):
        with pytest.raises(error, match=said):
            load(gravity)
