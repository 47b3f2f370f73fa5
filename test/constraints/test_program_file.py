# SPDX-License-Identifier: Apache-2.0
"""Programs from YAML: valid files, named rejections, remarks."""

import copy
import re
from functools import reduce
from operator import getitem
from types import SimpleNamespace

import numpy as np
import pytest
import tables
import yaml
from numpy.testing import assert_allclose, assert_array_equal
from samples import sample, shipped

from robot_dynamics_ros.constraints import program_file
from robot_dynamics_ros.constraints.contact import Contact
from robot_dynamics_ros.constraints.feasibility import check_feasibility
from robot_dynamics_ros.constraints.program_file import load_program, shipped_programs
from robot_dynamics_ros.constraints.registry import CONSTRAINTS, arguments, signal
from robot_dynamics_ros.description.shipped import share_directory, shipped_robot
from robot_dynamics_ros.errors import ProgramError, ShapeError
from robot_dynamics_ros.model import load_robot

#: A valid program, modified by the tests below.
GOOD = yaml.safe_load("""
name: good
constraints:
- {name: wrist, kind: point, frame: link4, axes: xz,
   target: {line: {from: [0.2, 0.66], to: [0.2, 0.68]}, duration: 2.0}}
- {name: pitch, kind: pitch, frame: tool, angle: -0.8, weight: 2.0}
null_space: {damping: 4.0, stiffness: 4.0, posture: [0.0, -1.0, -0.5, 0.7]}
singularity: {threshold: 0.02}
""")


@pytest.fixture(scope='module')
def tree():
    return shipped('four_dof', limits_profile='wide').tree


def spoilt(given):
    """Return GOOD with the entry at a path replaced or appended, or removed if it is None."""
    program = copy.deepcopy(GOOD)
    for path, value in given.items():
        *way, last = (int(key) if key.isdigit() else key for key in path.split('.'))
        place = reduce(getitem, way, program)
        if value is None:
            del place[last]
        elif isinstance(place, list):
            place[last : last + 1] = [value]
        else:
            place[last] = value
    return program


def test_a_phase_may_be_of_the_next_turn():
    x = signal('x', {'lissajous': {'center': 0, 'amplitude': 2, 'frequency': 1, 'phase': 7.0}})
    assert x.at(0.0)[0] == pytest.approx([2.0 * np.sin(7.0)])


@pytest.mark.slow
def test_a_good_program_is_read(tree):
    program = load_program(GOOD, tree)
    assert (program.name, program.m, program.n) == ('good', 3, 4)
    for found, expected in (
        (program.G0, 100.0 * np.eye(3)),
        (program.G1, 20.0 * np.eye(3)),
        (program.weights, [1.0, 1.0, 2.0]),
        (program.singularity.threshold, 0.02),
        (program.singularity.largest_damping, 0.02),
    ):
        assert_allclose(found, expected)
    assert program.remarks == ()
    assert program.stack.rows[2] == 'pitch: tool pitch (rad)'


def test_text_file_and_mapping_are_the_same(tree, tmp_path):
    text, file = yaml.safe_dump(GOOD), tmp_path / 'mine.yaml'
    file.write_text(text)
    posture = {**GOOD['null_space'], 'posture': np.array(GOOD['null_space']['posture'])}
    arrays = {**GOOD, 'constraints': tuple(GOOD['constraints']), 'null_space': posture}
    q, v = np.array([0.1, -1.0, -0.4, 0.5]), np.full(4, 0.1)
    expected, *others = (
        load_program(source, tree, check=False).stack.evaluate(q, v, 0.7)
        for source in (GOOD, text, file, str(file), arrays)
    )
    for found in others:
        assert [x.tolist() for x in found] == [x.tolist() for x in expected]


@tables.written("""
constrants: []      | program 'good': unknown key 'constrants'; known: ... constraints
constraints: null                   | 'constraints' is missing; given: name
constraints.0.kind: torus           | unknown constraint kind 'torus'; known: ... sphere
constraints.0.frame: hand           | constraint 'wrist': unknown frame 'hand'; known:
constraints.0.axis: z               | constraint 'wrist': unknown key 'axis'; known: ... axes
constraints.0.axes: xyz             | target has shape (2,); expected 3 components
constraints.0.axes: [x, z]          | axes: is ['x', 'z']; give a text
constraints.1.angle: [0.1, 0.2]     | constraint 'pitch': angle has shape (2,)
constraints.1.name: wrist           | 'wrist' is named twice
constraints.1.weight: 0.0           | constraint 'pitch', weight: is 0.0; must be pos
constraints.0.natural_frequency: [1.0] | has 1 numbers; give one, or 2
constraints.1.mechanical: 'yes'     | is 'yes'; give true or false
inverse: moore                      | inverse is 'moore'; must be one of euclidean, inertia
inverse: {metric: [1, 1, 1]}        | has 3 numbers; give one, or 4, one per joint
null_space.posture: {joint9: 0}     | posture: unknown joint 'joint9'; known:
null_space.posture: {joint1: 0}     | has no value for joint2, joint3, joint4
null_space: {limit_gain: 9, limit_margin: 0.9} | limit_margin: is 0.9; give at most 0.5
null_space.limit_margin: 0.2        | null_space: 'limit_gain' is missing
singularity.lambda: 0.1             | unknown key 'lambda'; known: damping, min_singular_value
blend: -1.0                         | blend: is -1.0; must not be negative
blend: 300                          | blend: is 300; give at most 60
null_space: {natural_frequency: 2, damping: 3} | natural_frequency: has damping beside it; give damping and stiffness, or natural
null_space.postur: 1                | unknown key 'postur'; known: ... natural_freq ... stiffness
null_space.posture: [0, -45, 0, 0] | posture: is -45 for joint 'joint2'; its limits are ... ; angles are in rad: -45 degrees are -0.7854
start: {position: [0, -30, 0, 0]}   | start, position: is -30 ... are -0.52
constraints.1.angle: -52            | angle: is -52 rad, more than a turn; ... are -0.9076
constraints.0.reference: {rpy: [0, 90, 0]} | rpy: is 90 rad ... are 1.571
constraints.0.target: {lissajous: {center: [0.2, 0.66], amplitude: [0.1, 0.1], frequency: [1, 1], phase: [90, 0]}} | phase: is 90 rad, more than 2 turns; ... are 1.571
constraints.0.target: {lissajous: {center: [0.2, 0.66], amplitude: [0.1, 0.1], frequency: [1, 1]}, duration: 9} | target: has a duration beside lissajous; give it inside
constraints.0.reference: {turn: {axis: z, angle: 1}} | axis: is 'z'; give three numbers
constraints.0.reference: {z: -Y}    | is '-Y'; give three numbers
constraints: [{kind: joint_program, position: [0, -9, 0, 0]}] | joint 'joint2': is at -9 ... ; angles are in rad: -9 degrees are -0.1571
constraints.1: {kind: joint_program, joints: [joint2], position: 720} | cannot be reached ... ; angles are in rad, not degrees
constraints.1.G0: 4.0               | 'G1' is missing; given: ... G0
constraints.1: {kind: pitch, frame: tool, angle: 0, damping_ratio: 1, G0: 9, G1: 6} | G0: has damping_ratio beside it; give natural_frequency and
gains: {G0: [[1.0]], G1: 1.0}       | G0 has shape (1, 1); expected
passive: [joint4, joint4]           | passive: 'joint4' is named twice
passive: [joint4]                   | needs as many rows of mechanical constraints; there are 0
constraints.1: {kind: joint_coupling, coefficients: [], value: []} | coefficients: is []; give mappings from joint name to number
{constraints.0.G0: -25, constraints.0.G1: 10} | gains of constraint 'wrist': do not stabilize: ... is at 2.071 1/s
{constraints.0.G0: 25, constraints.0.G1: -1} | gains of constraint 'wrist': do not stabilize: ... is at 0.5+4.975j 1/s
constraints.0.target: {line: {from: [0.2, 0.66], to: [0.6, 0.66]}, duration: 60} | link4 ... (m): cannot be reached at t = 20.
constraints.2: {kind: pitch, frame: tool, angle: 0.3, name: b} | cannot be reached at t = 0.000 s ... or correct contradicting conditions
constraints: [&a {name: a, kind: joint_coupling, value: 0.1, coefficients: {joint1: 1}}, {<<: *a, name: b}] | is singular at t = 0.000 s
constraints: [{kind: joint_program, joints: [joint4], position: {line: {from: [0], to: [1.5]}, duration: 0.3}}] | joint 'joint4': moves at ... limit is 3.5; run the
constraints: [{kind: joint_program, joints: [joint4], position: {line: {from: [0], to: [1.7]}, duration: 2}}] | joint 'joint4': is at 1. ... s; its limits ... posture or start; or the program
""")  # noqa: E501
def test_what_is_wrong_in_a_file_or_in_its_motion_is_named(given, said, tree):
    with pytest.raises(ProgramError, match=said):
        load_program(spoilt(given), tree)


def test_a_line_is_named_once(tree):
    text = yaml.safe_dump(GOOD, sort_keys=False) + 'gains:\n  G0: [1, 2]\n  G1: 1\n'
    with pytest.raises(ProgramError, match=r'gains \(line \d+\), G0 \(line \d+\): G0 has shape'):
        load_program(text, tree)
    text = text.replace('posture', 'postur').partition('gains')[0]
    with pytest.raises(ProgramError, match=r"null_space \(line \d+\): unknown key 'postur'"):
        load_program(text, tree)


def test_what_is_no_text_and_a_home_that_is_none_are_named(tree):
    for nothing in (None, 5, b'name: x'):
        with pytest.raises(ProgramError, match='give YAML text or a path'):
            load_program(nothing, tree)
    with pytest.raises(ShapeError, match=r'home has shape \(2,\); expected \(4,\)'):
        load_program(GOOD, tree, home=[0.0, 0.0])


def test_a_path_is_checked_once_for_each_robot_and_content(tree, monkeypatch):
    """A law is built anew for each change of its gains."""
    checked, path = [], SimpleNamespace(remarks=('runs along a limit',))
    monkeypatch.setattr(program_file, 'check_feasibility', lambda x, _: checked.append(x) or path)
    one, other, slower = tree.with_changes(), tree.with_changes(), {**GOOD, 'blend': 0.5}
    for count, given in enumerate([(GOOD, one), (slower, one), (GOOD, other)], start=1):
        for _ in range(2):
            assert load_program(*given).remarks[-1:] == path.remarks
            assert len(checked) == count


# ---- rejected for its motion --------------------------------------------------------------------


def test_full_gains_that_stabilize_only_together_are_accepted(tree):
    """Coupled rows: no single block, but det(s^2 E + s G1 + G0) is stable."""
    G0 = [[25.0, 30.0, 0.0], [-30.0, 25.0, 0.0], [0.0, 0.0, 25.0]]
    G1 = [[20.0, 0.0, 0.0], [0.0, 20.0, 0.0], [0.0, 0.0, 10.0]]
    program = load_program({**GOOD, 'gains': {'G0': G0, 'G1': G1}}, tree, check=False)
    assert_array_equal(program.G0, G0)


def test_an_inconsistent_start_is_refused_with_the_row(tree):
    held = spoilt({'constraints.0': None})
    q = check_feasibility(load_program(held, tree, check=False), samples=3).q[0]
    load_program({**held, 'start': {'position': q.tolist()}}, tree)
    start = {'position': (q + [0.0, 0.05, 0.0, 0.0]).tolist()}
    row = r'start: is inconsistent: pitch: tool pitch \(rad\) is 0.05'
    with pytest.raises(ProgramError, match=row):
        load_program({**held, 'start': start}, tree)
    load_program({**held, 'start': {**start, 'tolerance': 0.1}}, tree)


@pytest.mark.slow
def test_a_path_through_a_singularity_is_refused_with_the_place(tree):
    """The wrist circle of near_singular.yaml, 1 mm wider: through the stretched elbow."""
    near = yaml.safe_load(shipped_programs()['near_singular'].read_text())
    near['constraints'][0]['target']['circle']['radius'] = 0.10099
    message = r'is singular at t = [23]\.\d+ s: the smallest singular value .* at q = \('
    with pytest.raises(ProgramError, match=message):
        load_program(near, tree)
    near['singularity']['min_singular_value'] = 0.0
    load_program(near, tree)


# ---- remarks ------------------------------------------------------------------------------------


def test_a_free_null_space_is_remarked(tree):
    (remark,) = load_program(spoilt({'null_space': None}), tree, check=False).remarks
    assert '3 conditions leave 1 of 4 joints free and there is no null_space task' in remark
    undamped = spoilt({'null_space.damping': 0.0})
    (remark,) = load_program(undamped, tree, check=False).remarks
    assert 'does not damp every joint' in remark


def test_unproved_stability_with_more_conditions_than_joints_is_remarked(tree):
    """Constant consistent conditions on the joints: proved with equal gains, else not."""
    rows = [{f'joint{i}': 1.0} for i in (1, 2, 3, 4)] + [{'joint2': 1.0, 'joint3': 1.0}]
    values = {'coefficients': rows, 'value': [0.0, -1.0, -0.5, 0.7, -1.5]}
    uneven = {'G0': 25.0, 'G1': (10.0 * np.eye(5) + np.diag([3.0] * 4, 1)).tolist()}
    for gains, proved, said in (
        ({}, True, 'holds for the projection only'),
        (uneven, False, 'not proved for these gains'),
    ):
        coupled = {'kind': 'joint_coupling', **values, **gains}
        program = load_program({'constraints': [coupled]}, tree)
        assert program.proved == proved
        assert said in program.remarks[0]
    free = {
        **coupled,
        'coefficients': [{'joint1': float(k)} for k in range(1, 6)],
        'value': [0.0] * 5,
    }
    lost = {'constraints': [free], 'singularity': {'min_singular_value': 0}}
    assert not load_program(lost, tree).proved


# ---- shipped ------------------------------------------------------------------------------------


def robot_of(name):
    if name.endswith('_loop'):
        file = share_directory() / 'urdf' / f'{name.removesuffix("_loop")}.urdf.xacro'
        return load_robot(file, effort_limit=1.0)
    robot = 'scara' if name.startswith('scara') else 'four_dof'
    profile = {'limits_profile': 'wide'} if name == 'near_singular' else {}
    return shipped(robot, **profile).tree


@pytest.mark.slow
@pytest.mark.parametrize('name', shipped_programs())
def test_shipped_programs_are_accepted_by_name_without_remarks(name):
    program = load_program(name, robot_of(name), check=False)
    assert program.name == name
    assert program.description
    path = check_feasibility(program)
    assert program.remarks == path.remarks == ()
    # The path is a path: f = 0 and f_dot = 0 along it.
    for t, q, v in zip(path.times[::20], path.q[::20], path.v[::20], strict=True):
        found = program.stack.evaluate(q, v, t)
        assert_allclose(found.f, 0.0, atol=1e-7)
        # The continuation damps directions below 1e-4 only; none is.
        assert_allclose(found.f_dot, 0.0, atol=1e-9)


def test_a_program_may_follow_the_joint_reference():
    tree = sample('rrpr').tree
    follow = {'kind': 'joint_program', 'position': 'reference', 'joints': ['j1', 'j3']}
    program = load_program({'constraints': [follow]}, tree, check=False)
    [signal] = program.stack.signals
    signal.give([0.0, 0.1], [0.5, 0.5], [2.0, 3.0])
    found = program.stack.evaluate(np.array([0.1, 0.2, 0.3, 0.4]), np.ones(4), 7.0)
    assert_allclose((found.f, found.f_dot, found.beta), [[0.1, 0.2], [0.5, 0.5], [-2, -3]])


@tables.written("""
{force: 30, limits: {force: 20}} | limits, force: is 20; the force is ... 30
{force: 10, threshold: 30, limits: {force: 20}} | limits, force: is 20; the force is ... 30
{force: 0.2}                     | the force is 0.2, the threshold 0.5; allow both
{force: 10, speed: 20}           | contact, speed: is 20; give at most 1, SI units
{force: 10, clearance: 5}        | contact, clearance: is 5; give at most 1
{force: 10, depth: 30}           | contact, depth: is 30; give at most 1
{force: 10, ramp: 300}           | contact, ramp: is 300; give at most 60
""")
def test_a_contact_demands_forces_of_the_drives_and_lengths_in_metres(given, said):
    plane = {'kind': 'plane', 'frame': 'tool', 'plane': {'origin': [0, 0, 0.28]}, 'contact': given}
    with pytest.raises(ProgramError, match=said):
        load_program({'constraints': [plane]}, shipped('scara').tree, check=False)


def test_the_page_lists_the_keys_of_every_constraint_and_contact():
    text = (share_directory() / 'docs' / 'programs.md').read_text(encoding='utf-8')
    constraints, _, contact = text.partition('\n### Contact\n')

    def keys(cell):
        return set(re.findall(r'`(\w+)', re.sub(r'\(.*?\)', '', cell)))

    listed = {}
    for kinds, _, given in re.findall(r'^\| (`.*?) \| (.*?) \| (.*) \|$', constraints, re.M):
        for kind in keys(kinds) & CONSTRAINTS.keys():
            listed[kind] = keys(given) - (keys(kinds) - {kind})
    assert listed == {name: set().union(*arguments(kind)) for name, kind in CONSTRAINTS.items()}
    table = contact.split('\n\n')[1]
    given = {key for row in table.splitlines()[2:] for key in keys(row.split('|')[1])}
    assert given == {*Contact._fields, 'limits'} - {'max_force'}


def test_every_shipped_program_names_its_robot_and_another_one_may_be_for_another():
    for path in shipped_programs().values():
        assert yaml.safe_load(path.read_text('utf-8')).get('robot'), path.name
    content = yaml.safe_load(shipped_programs()['four_dof_board'].read_text('utf-8'))
    with pytest.raises(ProgramError, match="written for robot 'four_dof', this is 'scara'"):
        load_program(content, load_robot(shipped_robot('scara')))
    del content['robot']
    with pytest.raises(
        ProgramError, match=r'is singular .* another robot, which it does not name'
    ):
        load_program(content, load_robot(shipped_robot('scara')))
