# SPDX-License-Identifier: Apache-2.0
"""Every fault of a description is rejected if strict, with culprit and remedy.

One valid robot is modified in one place at a time. ``check_model`` must report the same
culprit in the same words, and continue. What leaves the mathematics right is only a remark if not
strict.
"""

import re
import time

import numpy as np
import pytest
import tables
import yaml
from urdf_text import good_parts, joint, link, robot

from robot_dynamics_ros import errors
from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.errors import (
    DescriptionError,
    MissingDependencyError,
    ParameterError,
    RobotDynamicsError,
    UnknownNameError,
)
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.model.load import check_model

I = np.diag([0.02, 0.03, 0.04])
BASE, ARM, HAND, J1, _ = good_parts().values()
GOOD = robot('good', *good_parts().values())


def spoilt(edits: str | dict[str, str]) -> str:
    """Return the good robot with the first match of each pattern replaced; a text as it is."""
    if isinstance(edits, str):
        return edits
    text = GOOD
    for old, new in edits.items():
        text, count = re.subn(old, new, text, count=1)
        assert count, 'the passage must exist, or nothing is spoilt'
    return text


#: Another text, or what is replaced in the good one; error if strict, culprit, problem, remedy; if
#: it loads otherwise, an attribute of the robot and the value that is assumed.
TABLE = """
'<robot name="x"><link' | Description | robot description | malformed XML | one <robot> element
<sdf/> | Description | robot description | root element is <sdf> | must be <robot>
<robot name="void"/> | Description | robot 'void' | has no link | <link>
<robot name="stone"><link name="rock"/></robot> | Description | robot 'stone' | no moving joint | revolute
{parent link="arm": parent link="leg"} | Description | joint 'j2' | parent link 'leg' does not exist | base, arm, hand
{child link="hand": child link="foot"} | Description | joint 'j2' | child link 'foot' does not exist | base, arm, hand
{</robot>: <link name="island"/></robot>} | Description | robot 'good' | has 2 roots: base, island | exactly one link
{</robot>: <joint name="j3" type="fixed"><parent link="base"/><child link="hand"/></joint></robot>} | Description | link 'hand' | child of two joints, 'j2' and 'j3': a loop | mechanism file
{parent link="base": parent link="hand"} | Description | link 'arm' | closed loop of joints | lead to the root
{parent link="base": parent link="hand", revolute: fixed, prismatic: fixed} | Description | link 'arm' | closed loop of joints | lead to the root
{parent link="base": parent link="arm"} | Description | link 'arm' | closed loop | root
{'<inertial>.*?</inertial>': '', axis xyz="0.0 0.0 1.0": axis xyz="1 0 0"} | Model | link 'arm' | has no <inertial> | joint 'j1' moves it | mass | [0, 1]
{<mass value="2.0"/>: ''} | Description | link 'arm' | <inertial> has no <mass> | <mass value>
{'<inertia .*?/>': ''} | Description | link 'arm' | <inertial> has no <inertia> | ixx
{<mass value="2.0"/>: <mass/>} | Description | link 'arm' | <mass> has no 'value' | give value=
{<mass value="2.0"/>: <mass value="-2"/>} | Model | link 'arm' | mass -2 kg | must be positive
{ixx="0.02": ixx="-0.02"} | Model | link 'arm' | not positive definite | positive principal moments
{ixx="0.02": ixx="0.01", iyy="0.03": iyy="0.02"} | Model | link 'arm' | breaks the triangle inequality | at most the sum of the others | n | 2
{effort="100.0": effort="0"} | Model | joint 'j1' | effort limit is 0 | effort_limit (--effort-limit); if no drive moves it
{effort="100.0": ''} | Model | joint 'j1' | effort limit is missing | effort_limit (--effort-limit)
{'<limit .*?/>': ''} | Model | joint 'j1' | has no <limit> | lower and upper
{lower="-3.0" upper="3.0": lower="0" upper="0"} | Model | joint 'j1' | limits [0, 0] are empty | lower must be below upper | position_upper | [.inf, 0.2]
{lower="-3.0" upper="3.0": lower="2" upper="-1"} | Model | joint 'j1' | limits [2, -1] are empty | is treated as [-1, 2] | position_lower | [-1, 0]
{velocity="10.0": velocity="-1"} | Model | joint 'j1' | velocity limit -1 is negative | must not be | velocity_limit | [.inf, 10]
{</joint>: <dynamics damping="-0.1"/></joint>} | Model | joint 'j1' | damping -0.1 is negative | must not be | damping | [0, 0]
{</joint>: <dynamics friction="dry"/></joint>} | Description | joint 'j1' <dynamics friction> | 'dry' is not a finite number | give one number
{type="prismatic": type="planar"} | Description | joint 'j2' | type 'planar' | revolute | joint_names | [j1]
{<link name="base"/>: <link name="world"/><link name="base"/><joint name="free" type="floating"><parent link="world"/><child link="base"/></joint>} | Description | joint 'free' | type 'floating' | revolute | joint_names | [j1, j2]
{<mass value="2.0"/>: <mass value="nan"/>} | Description | link 'arm' <mass value> | 'nan' is not a finite number | give one number
{axis xyz="0.0 0.0 1.0": axis xyz="0 1"} | Description | joint 'j1' <axis xyz> | '0 1' has 2 numbers | give three
{axis xyz="0.0 0.0 1.0": axis xyz="0 0 0"} | Model | joint 'j1' | axis is zero | <axis xyz>
{</robot>: <link name="arm"/></robot>} | Description | link 'arm' | declared more than once | its own name
{name="j2": name="j1"} | Description | joint 'j1' | declared more than once | its own name
{<link name="base"/>: <link/>} | Description | <link> | has no name | name attribute
{' name="good"': ''} | Model | <robot> | has no name | name attribute | n | 2
{<parent link="arm"/>: ''} | Description | joint 'j2' | has no <parent> | <parent link>
{<child link="hand"/>: ''} | Description | joint 'j2' | has no <child> | <child link>
"""  # noqa: E501
ROWS = [line.split(' | ') for line in TABLE.strip().splitlines()]


@pytest.mark.parametrize('row', ROWS, ids=[row[0] for row in ROWS])
def test_it_is_refused_with_culprit_problem_and_remedy_and_check_model_says_the_same(row):
    given, name, culprit, problem, remedy, *loaded = row
    text, kind = spoilt(yaml.safe_load(given)), getattr(errors, f'{name}Error')
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
        attribute, taken = loaded
        assert_loads_with_a_remark(text, problem, attribute, yaml.safe_load(taken))
    else:
        with pytest.raises(kind):
            load_robot(text)


def assert_loads_with_a_remark(text, said, attribute, taken):
    tree = load_robot(text)
    assert sum(said in found for found in tree.remarks) == 1
    assert np.array_equal(getattr(tree, attribute), taken)
    q, v, a = np.full((3, tree.n), 0.3)
    assert np.isfinite(make_formulation('newton_euler', tree).inverse_dynamics(q, v, a)).all()


def welded(*inertial):
    """Return the robot of one joint with a tool that is fixed to its arm."""
    weld = joint('weld', 'arm', 'tool', 'fixed', (0.3, 0, 0))
    return robot('r', BASE, ARM, link('tool', *inertial), J1, weld)


# Of a link that does not move, and of one fixed to a link with inertia, strict says no more.
@pytest.mark.parametrize(
    'loads',
    [
        (welded(0.1, (0, 0, 0), 0 * I), "link 'tool': has no moments of inertia", 'mass', [2.1]),
        (welded(0.0, (0, 0, 0), 0 * I), "link 'tool': has an <inertial> of mass 0", 'mass', [2.0]),
        (GOOD.replace('<link name="base"/>', link('base', -3.0, inertia=I).replace('0.04', 'x')),
         "link 'base' <inertia izz>: 'x' is not a finite number", 'n', 2),
    ],
)  # fmt: skip
def test_a_fault_of_what_does_not_matter_is_a_remark(loads):
    assert_loads_with_a_remark(*loads)


TIP = link('tip', 0.1, (0, 0, 0), 0 * I)
LIGHT = robot('r', BASE, ARM, TIP, J1, joint('j2', 'arm', 'tip', xyz=(0.3, 0, 0)))
#: Turns about the very axis of the next joint.
SAME_AXIS = robot('r', BASE, link('arm'), HAND, J1, joint('j2', 'arm', 'hand'))

test_a_joint_that_moves_no_inertia_is_refused_with_what_it_moves = tables.called("""
load_robot(LIGHT) | ModelError: joint 'j2': ... an inertia of 0 kg m^2; it moves tip; their mass lies on its axis
load_robot(SAME_AXIS) | ModelError: joint 'j1': ... it moves arm, hand; give these links mass
""", globals())  # fmt: skip  # noqa: E501


#: What is replaced by what in one robot, and what is said of it.
SEVERAL = [
    ('<mass value="2.0"/>', '<mass value="-2"/>', "link 'arm': mass -2 kg"),
    ('izz="0.04"', 'izz="0.4"', "link 'arm': inertia breaks the triangle inequality"),
    ('ixx="0.02"(?=[^/]*/></inertial></link>\n<joint)', 'ixx="oops"',
     "link 'hand' <inertia ixx>: 'oops' is not a finite number"),
    ('lower="-3.0" upper="3.0"', 'lower="1" upper="-1"', "joint 'j1': limits [1, -1] are empty"),
    ('effort="100.0"', 'effort="0"', "joint 'j1': effort limit is 0"),
    ('axis xyz="0.0 0.0 1.0"', 'axis xyz="0 0 0"', "joint 'j1': axis is zero"),
    ('type="prismatic"', 'type="screw"', "joint 'j2': unsupported type 'screw'"),
    ('</robot>', f'{joint("j3", "arm", "moon")}</robot>',
     "joint 'j3': child link 'moon' does not exist"),
]  # fmt: skip


def test_check_model_finds_all_faults_at_once():
    text = spoilt({old: new for old, new, _ in SEVERAL})
    found = '\n'.join(map(str, check_model(text).errors))
    assert [said for _, _, said in SEVERAL if said not in found] == []


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


def test_an_effort_limit_supplies_what_the_file_leaves_out_and_by_name_replaces_it():
    one_lacks = GOOD.replace('effort="100.0"', 'effort="0"', 1)
    for text, given, limits in ((one_lacks, 7.0, [7.0, 100.0]), (GOOD, {'j2': 9.0}, [100.0, 9.0])):
        assert load_robot(text, effort_limit=given).effort_limit.tolist() == limits
    with pytest.raises(UnknownNameError, match="joint in effort_limit 'j9'; known: j1, j2"):
        load_robot(GOOD, effort_limit={'j9': 1.0})
    assert "'j9'" in check_model(GOOD, effort_limit={'j9': 1.0}).errors[0].problem


@pytest.mark.parametrize('value', [0.0, float('inf'), float('nan')])
def test_an_effort_limit_that_limits_nothing_is_refused_where_no_joint_needs_it(value):
    with pytest.raises(
        ParameterError, match='^parameter effort_limit = .* refused: give a positive'
    ):
        load_robot(GOOD, effort_limit=value)
    with pytest.raises(ParameterError, match="^parameter effort_limit of 'j2' = "):
        load_robot(GOOD, joints=['j1'], effort_limit={'j2': value})
    assert 'effort_limit = ' in str(check_model(GOOD, effort_limit=value).errors)


@tables.written("""
[0, -9.81]       | ShapeError: gravity has shape ... ; expected (3,)
[0, .nan, -9.81] | NonFiniteError: gravity is not finite:
""")
def test_a_gravity_that_is_no_finite_vector_is_refused(given, said):
    for load in (lambda g: load_robot(GOOD, g), load_robot(GOOD).with_gravity):
        with pytest.raises(RobotDynamicsError) as refusal:
            load(given)
        assert re.match(said, f'{refusal.typename}: {refusal.value}')


def test_a_gravity_that_is_not_of_earth_is_remarked():
    for z in (981, 8.91):
        said = f'gravity is {z} m/s^2; on Earth it is 9.76 to 9.84'
        assert load_robot(GOOD, (0, 0, -z)).remarks[-1] == said
    for gravity in ((0, 0, 0), (0, 0, -9.8), (0, 9.81 * 0.6, -9.81 * 0.8)):
        assert 'gravity' not in ''.join(load_robot(GOOD, gravity).remarks)


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
    text = GOOD.replace('ixx="0.02"', 'ixx="-1e308"').replace('ixy="0.0"', 'ixy="1e308"')
    with pytest.raises(DescriptionError, match='-1e\\+308 is too large; give SI units'):
        load_robot(text)
    assert check_model(text).errors


def test_elements_are_nested_a_hundred_deep_and_no_deeper():
    for depth, said in (
        (100, 'malformed XML'),
        (101, 'more than 100 nested elements; close each'),
    ):
        with pytest.raises(DescriptionError, match=said):
            load_robot('<robot>' + '<a/>' * 200 + '<a>' * (depth - 1))


@pytest.mark.slow
def test_thousands_of_links_in_a_row_load():
    """More than Python's recursion takes."""
    parts = [link('l0')]
    for i in range(1100):
        parts.append(link(f'l{i + 1}', 0.1, (0, 0, 0.01), 1e-4 * np.eye(3)))
        parts.append(joint(f'j{i}', f'l{i}', f'l{i + 1}', 'fixed' if i % 100 else 'revolute'))
    tree = load_robot(robot('long', *parts))
    assert (tree.n, len(tree.frames)) == (11, 1101)
