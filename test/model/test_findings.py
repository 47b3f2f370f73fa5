# SPDX-License-Identifier: Apache-2.0
"""Every fault of a description is rejected if strict, with culprit and remedy.

One valid robot is modified in one place at a time. ``check_model`` must report the same
culprit in the same words, and continue. What leaves the mathematics right is only a remark if not
strict.
"""

from __future__ import annotations

import time

import numpy as np
import pytest
from urdf_text import joint, link, robot

from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.errors import (
    DescriptionError,
    MissingDependencyError,
    ModelError,
    NonFiniteError,
    ParameterError,
    RobotDynamicsError,
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

# id: text, error if strict, culprit, problem, remedy; if it loads otherwise, an attribute of the
# robot and the value that is assumed
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
    'missing inertial': (
        robot('r', BASE, link('arm'), HAND, joint('j1', 'base', 'arm', axis=(1, 0, 0)), J2),
        ModelError, "link 'arm'", 'has no <inertial>', "joint 'j1' moves it", 'mass', [0.0, 1.0]),
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
                            'breaks the triangle inequality', 'at most the sum of the others',
                            'n', 1),
    'effort zero': (spoilt('effort="100.0"', 'effort="0"'), ModelError, "joint 'j1'",
                    'effort limit is 0', 'effort_limit (--effort-limit)'),
    'effort missing': (spoilt('effort="100.0"', ''), ModelError, "joint 'j1'",
                       'effort limit is missing', 'effort_limit (--effort-limit)'),
    'limit missing': (spoilt(f'<limit {ARM_LIMIT}/>', ''), ModelError, "joint 'j1'",
                      'has no <limit>', 'lower and upper'),
    'limits empty': (spoilt('lower="-3.0" upper="3.0"', 'lower="0" upper="0"'), ModelError,
                     "joint 'j1'", 'limits [0, 0] are empty', 'lower must be below upper',
                     'position_upper', [np.inf, 0.2]),
    'limits reversed': (spoilt('lower="-3.0" upper="3.0"', 'lower="2" upper="-1"'), ModelError,
                        "joint 'j1'", 'limits [2, -1] are empty', 'is treated as [-1, 2]',
                        'position_lower', [-1.0, 0.0]),
    'velocity limit negative': (spoilt('velocity="10.0"', 'velocity="-1"'), ModelError,
                                "joint 'j1'", 'velocity limit -1 is negative', 'must not be',
                                'velocity_limit', [np.inf, 10.0]),
    'damping negative': (robot('r', BASE, ARM, joint('j1', 'base', 'arm',
                               dynamics='<dynamics damping="-0.1"/>')), ModelError, "joint 'j1'",
                         'damping -0.1 is negative', 'must not be', 'damping', [0.0]),
    'friction not a number': (robot('r', BASE, ARM, joint('j1', 'base', 'arm',
                                    dynamics='<dynamics friction="dry"/>')), DescriptionError,
                              "joint 'j1' <dynamics friction>", "'dry' is not a finite number",
                              'give one number'),
    'unsupported joint': (spoilt('type="prismatic"', 'type="planar"'), DescriptionError,
                          "joint 'j2'", "type 'planar'", 'revolute',
                          'joint_names', ('j1',)),
    'a floating base': (
        robot('r', link('world'), BASE, ARM, joint('free', 'world', 'base', 'floating'), J1),
        DescriptionError, "joint 'free'", "type 'floating'", 'revolute', 'joint_names', ('j1',)),
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
                           'name attribute', 'n', 2),
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
    text, kind, culprit, problem, remedy, *loaded = TABLE[case]
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
    if loaded:
        assert_loads_with_a_remark(text, problem, *loaded)
    else:
        with pytest.raises(kind):
            load_robot(text)


def assert_loads_with_a_remark(text, said, attribute, taken):
    tree = load_robot(text)
    assert sum(said in found for found in tree.remarks) == 1
    assert np.array_equal(getattr(tree, attribute), taken)
    q, v, a = np.full((3, tree.n), 0.3)
    assert np.isfinite(make_formulation('newton_euler', tree).inverse_dynamics(q, v, a)).all()


# Of a link that does not move, and of one fixed to a link with inertia, strict says no more.
@pytest.mark.parametrize(
    'loads',
    [
        (robot('r', BASE, ARM, link('tool', 0.1, (0, 0, 0), 0 * I), J1,
               joint('weld', 'arm', 'tool', 'fixed', (0.3, 0, 0))),
         "link 'tool': has no moments of inertia", 'mass', [2.1]),
        (spoilt('<link name="base"/>', link('base', -3.0, inertia=I).replace('0.04', 'x')),
         "link 'base' <inertia izz>: 'x' is not a finite number", 'n', 2),
    ],
)  # fmt: skip
def test_a_fault_of_what_does_not_matter_is_a_remark(loads):
    assert_loads_with_a_remark(*loads)


@pytest.mark.parametrize(
    ('text', 'culprit', 'problem'),
    [
        (robot('r', BASE, ARM, link('tip', 0.1, (0, 0, 0), 0 * I), J1,
               joint('j2', 'arm', 'tip', xyz=(0.3, 0, 0))),
         "joint 'j2'", 'an inertia of 0 kg m^2; it moves tip; their mass lies on its axis'),
        (robot('r', BASE, link('arm'), HAND, J1, joint('j2', 'arm', 'hand')),
         # turns about the very axis of the next joint
         "joint 'j1'", 'it moves arm, hand; give these links mass'),
        (robot('r', BASE, link('arm', 1.0, (0, 0, 0), -I), J1), "link 'arm'", 'moments -0.04'),
        (robot('r', BASE, link('arm', 0.0, (0, 0, 0), 0 * I),
               joint('j1', 'base', 'arm', 'prismatic')), "joint 'j1'", 'an inertia of 0 kg;'),
    ],
)  # fmt: skip
def test_what_makes_it_wrong_or_unsafe_is_refused_with_culprit_and_number(text, culprit, problem):
    with pytest.raises(DescriptionError) as caught:
        load_robot(text)
    assert caught.value.culprit == culprit
    assert problem in str(caught.value)
    if culprit == "joint 'j2'":  # it loads with that joint locked
        assert load_robot(text, joints=['j1']).mass.tolist() == [2.1]


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


def test_a_file_that_is_not_utf_8_is_refused(tmp_path):
    path = tmp_path / 'arm.urdf'
    path.write_bytes('<robot name="Brücke"/>'.encode('latin-1'))
    with pytest.raises(DescriptionError, match='is not UTF-8 text.*save it as UTF-8'):
        load_robot(path)


@pytest.mark.parametrize(
    'text',
    ['\ufeff' + GOOD, '\n<?xml version="1.0"?>\n' + GOOD,
     GOOD.replace('<robot ', '<robot xmlns="http://drake.mit.edu" ')],
    ids=['byte order mark', 'blank line before the declaration', 'default namespace'],
)  # fmt: skip
def test_what_other_readers_of_urdf_ignore_does_no_harm(text, tmp_path):
    path = tmp_path / 'arm.urdf'
    path.write_text(text, encoding='utf-8')
    for tree in (load_robot(path), load_robot(text)):
        assert (tree.n, tree.remarks) == (2, load_robot(GOOD).remarks)


def test_a_missing_xacro_is_told_with_the_way_to_install_it(tmp_path, monkeypatch):
    path = tmp_path / 'arm.urdf.xacro'
    path.write_text(GOOD)
    monkeypatch.setitem(__import__('sys').modules, 'xacro', None)
    with pytest.raises(MissingDependencyError, match='arm.urdf.xacro needs xacro.*install it'):
        load_robot(path)


NO_EFFORT = GOOD.replace('effort="100.0"', '')


def test_an_effort_limit_supplies_what_the_file_leaves_out_and_by_name_replaces_it():
    one_lacks = GOOD.replace('effort="100.0"', 'effort="0"', 1)
    for text, given, limits in (
        (NO_EFFORT, 7.0, [7.0, 7.0]),
        (one_lacks, 7.0, [7.0, 100.0]),
        (GOOD, {'j2': 9.0}, [100.0, 9.0]),
    ):
        assert load_robot(text, effort_limit=given).effort_limit.tolist() == limits
    with pytest.raises(UnknownNameError, match="joint in effort_limit 'j9'; known: j1, j2"):
        load_robot(GOOD, effort_limit={'j9': 1.0})
    assert "'j9'" in check_model(GOOD, effort_limit={'j9': 1.0}).errors[0].problem


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
