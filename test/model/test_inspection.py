# SPDX-License-Identifier: Apache-2.0
"""The model check: figures against closed forms, warnings, agreement with the loader."""

import json
import math
import re
from functools import partial

import numpy as np
import pytest
import solids
import tables
import yaml
from numpy.testing import assert_allclose
from samples import mimic_arm, sample, world_files
from scipy.spatial.transform import Rotation
from urdf_text import FRICTION, link, two_link_arm

from robot_dynamics_ros.__main__ import main
from robot_dynamics_ros.cli.check_model import COMMANDS, doubtful_limits
from robot_dynamics_ros.description.shipped import (
    MECHANISMS,
    ROBOTS,
    shipped_mechanism,
    shipped_robot,
)
from robot_dynamics_ros.description.urdf import read_description
from robot_dynamics_ros.dynamics.joint_terms import largest_gravity_forces
from robot_dynamics_ros.dynamics.registry import make_formulation
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.model import load_mechanism, load_robot
from robot_dynamics_ros.model.load import check_model

BOX = solids.cuboid(2.0, 0.1, 0.2, 0.4)


arm = partial(two_link_arm, BOX.inertia)


@pytest.mark.parametrize('source', [arm(), *map(shipped_robot, ROBOTS)], ids=['sound', *ROBOTS])
def test_a_sound_arm_and_the_shipped_robots_have_no_findings(source):
    check = check_model(source)
    assert check.findings == ()
    assert check.moving_mass == pytest.approx(load_robot(source).mass.sum(), rel=1e-14)


def test_the_figures_of_a_box_are_those_of_a_box():
    """Moments, margin, pseudo-inertia, equivalent box, density of the ellipsoid: closed forms."""
    edges = a, b, c = 0.1, 0.2, 0.4
    turn = Rotation.from_euler('xyz', (0.3, -0.5, 1.1))
    text = arm().replace('rpy="0.0 0.0 0.0"/><mass', 'rpy="0.3 -0.5 1.1"/><mass', 1)
    report = check_model(text).links[0]
    assert (report.name, report.moved_by) == ('upper', 'shoulder')
    assert_allclose(report.principal_moments, np.diag(BOX.inertia)[::-1], rtol=1e-12)
    assert_allclose(np.abs(report.principal_axes), np.abs(turn.as_matrix()[:, ::-1]), atol=1e-12)
    assert report.triangle_margin == pytest.approx(2 * a * a / (b * b + c * c), rel=1e-12)
    assert_allclose(np.sort(report.equivalent_box), edges, rtol=1e-12)
    volume = 4 / 3 * math.pi * (5 / 12) ** 1.5 * a * b * c
    assert report.least_density == pytest.approx(2.0 / volume, rel=1e-12)
    # Second moments about the link's origin; z and the mass are coupled by the centre at 0.2 m.
    coupled = np.array([[2.0 * (c * c / 12 + 0.2**2), 2.0 * 0.2], [2.0 * 0.2, 2.0]])
    expected = [2.0 * a * a / 12, 2.0 * b * b / 12, *np.linalg.eigvalsh(coupled)]
    found = check_model(arm()).links[0].pseudo_inertia_eigenvalues
    assert_allclose(found, np.sort(expected), rtol=1e-12)


def test_links_that_do_not_move_are_not_judged():
    heavy = arm().replace('<link name="base"/>', link('base', -3.0, inertia=np.eye(3)))
    assert check_model(heavy).findings == ()


FILES = {str(file).split('robots/')[-1]: file for file in sorted(set(world_files()), key=str)}


def test_known_flaws_of_published_models_are_seen():
    """The first UR files gave the wrists the inertia of discs of 1 m."""
    path = FILES['ur_description/urdf/ur5_robot.urdf'].locate()
    culprits = [f.culprit for f in check_model(path).warnings if 'box of 1.04' in f.problem]
    assert culprits == ["link 'wrist_1_link'", "link 'wrist_2_link'", "link 'wrist_3_link'"]


# ---- gravity load -------------------------------------------------------------------------------


def test_the_largest_gravity_efforts_of_the_four_joint_arm_are_the_tabulated_ones():
    largest = largest_gravity_forces(sample('four_dof').tree)
    assert np.allclose(largest, [0, 7.5, 2.4, 0.27], atol=[1e-12, 0.6, 0.3, 0.02])


DRIVES = """
actuators:
  belt: {rate: {lower_arm_joint: 1}, effort_limit: 1}
  crank: {rate: {lower_arm_joint: 1, crank_joint: 1}, effort_limit: 900}
"""


@pytest.mark.slow
def test_drives_of_several_joints_hold_the_weight_of_all_wherever_the_loops_close(
    tmp_path, capsys
):
    """A quarter of the positions of a four-bar with a short rod are out of its reach.

    The efforts at the coordinates are B times those of the drives: Q1 = a + b, Q2 = b.
    """
    urdf, loops = shipped_mechanism('four_bar')
    file = tmp_path / 'loops.yaml'
    file.write_text(f'{loops.read_text()}\n{DRIVES}')
    plain = load_mechanism(urdf, loops, mappings={'l2p': '0.42'})
    model, needed = make_formulation('kane', plain), []
    for q in np.random.default_rng(0).uniform(*plain.sampled_range, (100, 2)):
        angle = q[0] - q[1]
        if math.hypot(0.55 + 0.21 * math.sin(angle), 0.21 * math.cos(angle)) < 0.69:
            Q = model.gravity_forces(q)
            needed.append([abs(Q[0] - Q[1]), abs(Q[1])])
    assert len(needed) == 75
    found = largest_gravity_forces(load_mechanism(urdf, file, mappings={'l2p': '0.42'}))
    assert found == pytest.approx(np.max(needed, axis=0))
    main(['check_model', str(urdf), '--loops', str(file)])
    said = capsys.readouterr().out
    assert "warning actuator 'belt': gravity alone needs" in said
    assert "crank': gravity" not in said


def test_a_joint_that_no_drive_moves_needs_no_friction_whatever_its_limit():
    """As a program for construction writes the limits of all joints."""
    urdf, loops = shipped_mechanism('four_bar')
    xml = read_description(urdf).xml.replace('effort="0"', 'effort="100"')
    found = (x.culprit for x in check_model(xml, loops=loops).findings if 'friction' in x.problem)
    assert [*found] == ["joint 'lower_arm_joint'", "joint 'crank_joint'"]


# ---- the command --------------------------------------------------------------------------------


def run(*words) -> int:
    command = COMMANDS['check_model']
    code, _ = command.run(command.parse([str(word) for word in words]))
    return code


@pytest.fixture
def file_of(tmp_path):
    def write(text):
        path = tmp_path / 'arm.urdf'
        path.write_text(text)
        return path

    return write


def test_the_command_prints_figures_and_every_fault_which_ends_it_with_1(capsys, file_of):
    assert run('scara') == 0
    sound = capsys.readouterr().out
    for said in ('scara: 4 moving joints, 11.97 kg in motion', 'no problems found', '6.25'):
        assert said in sound
    assert 'remark' not in sound
    assert run('scara', '--locked', 'joint4:=99') == 0
    assert "remark: joint 'joint4': is locked at 99, outside" in capsys.readouterr().out
    assert run(file_of(arm(mass=-1.0, effort=0.0))) == 1
    out = capsys.readouterr().out
    assert "error link 'upper': mass -1 kg; the mass must be positive" in out
    assert "error joint 'shoulder': effort limit is 0" in out


@pytest.mark.parametrize('of', ['elbo', 'base', 'shoulder'])
def test_a_mimic_joint_without_a_joint_to_follow_is_said_to_be_locked(of):
    text = arm(dynamics=f'{FRICTION}<mimic joint="{of}"/>')
    tree, findings = load_robot(text), str(check_model(text).warnings)
    assert tree.locked == {'shoulder': 0.0}
    said = f'follows {of!r}, which is not a moving joint, or closes a cycle'
    (remark,) = (x for x in tree.remarks if 'mimic' in x)
    assert remark.startswith(f"joint 'shoulder': {said}")
    assert said in findings
    assert 'coupled' not in findings


def test_a_link_that_only_follows_needs_no_mass():
    text = mimic_arm().xml
    for name, drive in (('sledge', False), ('arm', True)):
        part = text[text.index(f'<link name="{name}">') :].partition('</link>')[0]
        check = check_model(text.replace(part, f'<link name="{name}">'))
        (said,) = (x for x in (*check.errors, *check.warnings) if x.cause == 'massless')
        assert (said.culprit, said in check.errors) == (f'link {name!r}', drive)


#: Name of a file, its content, and what is said of it.
NO_ROBOTS = yaml.safe_load("""
- [none.urdf, null, no such file; give a path]
- ['', null, is a folder; name the URDF or xacro file]
- [empty.urdf, '', malformed XML (no element]
- [way.yaml, 'a: 1',
   "malformed XML (syntax error: line 1, column 0); one <robot> element is expected, not 'a: 1'"]
- ['x a:=1', null, 'no such file; NAME:=VALUE is no part of a path']
""")


@pytest.mark.parametrize(('name', 'content', 'problem'), NO_ROBOTS)
def test_what_is_no_description_is_wrong_input_and_named(name, content, problem, capsys, tmp_path):
    file = tmp_path / name
    if content is not None:
        file.write_text(content)
    assert main(['check_model', str(file)]) == 2
    said = capsys.readouterr().err  # which may shorten a long path
    assert said.startswith("error: robot description '")
    assert f"{file.name}': {problem}" in said


@tables.written("""
[--tip, nosuch]                          | unknown link 'nosuch'
[--joints, elbow, --locked, 'elbow:=0']  | is controlled and locked
[--joints, 'elbow,elbow']                | joint 'elbow': is named twice; name it once
[--gravity, nan, '0', '0']               | gravity is not finite
""")
def test_a_sound_robot_of_which_a_refused_part_is_asked_for_ends_with_1(
    given, said, capsys, file_of
):
    assert run(file_of(arm()), *given) == 1
    out = capsys.readouterr().out
    assert re.search(said, out.splitlines()[-1])
    assert 'no problems found' not in out


def test_the_command_sees_an_arm_too_weak_for_its_own_weight_and_writes_json(
    tmp_path, file_of, capsys
):
    target, path = tmp_path / 'check.json', file_of(arm(effort=3.0))
    run(path, '--gravity', 0, 0, 0)
    assert 'gravity alone' not in capsys.readouterr().out
    main(['check_model', str(path), '--json', str(target)])
    printed, found = capsys.readouterr().out, json.loads(target.read_text())
    assert "warning joint 'shoulder': gravity alone needs" in printed
    largest = found['largest_gravity_effort']['shoulder']
    assert largest > 3.0
    assert re.search(rf'\n│ shoulder.* {largest:.4g} ', printed)
    assert (found['command'], found['robot']) == ('check_model', 'arm')
    assert [entry['name'] for entry in found['links']] == ['upper', 'lower']
    finding = found['findings'][0]
    assert (finding['severity'], 'gravity alone' in finding['problem']) == ('warning', True)


@pytest.mark.parametrize('share', [19.0, 21.0])
def test_an_effort_limit_that_no_drive_of_the_arm_has_is_said_once(share):
    """As of published arms with 1000 N m; drives of arms have up to 9 times their weight."""
    forces = largest_gravity_forces(tree := load_robot(arm()))
    strong = tree.with_changes(effort_limit=np.full(tree.n, share * forces.max()))
    told = [str(x) for x in doubtful_limits(strong, forces, '')]
    assert len(told) == (share > 20.0)
    assert all("joint 'shoulder': gravity alone needs" in x for x in told)


def test_the_effort_limit_of_the_command_fills_what_is_left_out_and_warnings_count_if_asked(
    file_of,
):
    path = file_of(arm(effort=0.0, dynamics=''))
    assert run(path) == 1
    assert run(path, '--effort-limit', 50) == 0
    assert run(path, '--effort-limit', 50, '--strict') == 1  # then warnings count


# ---- mechanisms: a spanning tree and its loops -----------------------------------------------


@pytest.mark.parametrize('name', MECHANISMS)
def test_the_shipped_mechanisms_have_no_errors_and_their_free_joints_no_limit(name):
    tree, loops = shipped_mechanism(name)
    check = check_model(tree, loops=loops)
    assert check.errors == ()
    free = {joint.name for joint in check.joints if joint.effort is None}
    assert free == {'upper_arm_joint', 'rod_joint'}
    assert not any(joint in finding.culprit for finding in check.findings for joint in free)


@pytest.mark.slow
def test_a_spanning_tree_is_refused_without_its_loops_with_wrong_ones_and_with_weak_drives(capsys):
    tree, loops = shipped_mechanism('four_bar')
    for words in (['four_bar'], [tree, '--loops', loops]):
        assert run(*words) == 0
    assert 'error' not in capsys.readouterr().out
    problems = [str(finding) for finding in check_model(tree).errors]
    assert len(problems) == 2
    assert all('effort limit is 0; ' in text and '--loops FILE' in text for text in problems)
    wrong = loops.read_text().replace('arm_pin', 'palm_pin')
    assert "'palm_pin' is not a frame" in str(check_model(tree, loops=wrong).errors)
    weak = read_description(tree).xml.replace('effort="250"', 'effort="0"')
    assert len(check_model(weak, loops=loops).errors) == 2
    assert check_model(weak, loops=loops, effort_limit=100.0).errors == ()


@pytest.mark.parametrize('option', ['--joints', '--tip'])
def test_options_of_trees_are_refused_of_mechanisms(option):
    with pytest.raises(ConfigurationError, match=f'^{option}: .* a mechanism with loops'):
        run('parallelogram', option, 'crank_joint:=3')
