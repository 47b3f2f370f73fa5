# SPDX-License-Identifier: Apache-2.0
"""The scene of one's own arm and program: where it starts, and what has no scene."""

import re
import tempfile
from contextlib import ExitStack

import numpy as np
import pytest
import tables
from oracles import PinocchioOracle
from samples import sample

from robot_dynamics_ros.cli.processes import own_domain
from robot_dynamics_ros.cli.scene import own_scene
from robot_dynamics_ros.description.shipped import share_directory, shipped_robot
from robot_dynamics_ros.errors import ConfigurationError, SceneError

CENTRE = np.array([0.0, 0.0, 0.2])
ARM = str(share_directory() / 'urdf' / 'scara.urdf.xacro')
HOME = np.array([0.1, -1.15, -0.25, 0.65])


def task(*constraints):
    rows = [{'name': f'c{k}', **row} for k, row in enumerate(constraints)]
    return {'name': 'ball', 'constraints': rows, 'null_space': {'damping': 4.0}}


@pytest.fixture(scope='module')
def settings(shared):
    """Return the parameter file of an arm as a user has it."""
    new = shared('new_robot', shipped_robot('four_dof'), 'limits_profile:=wide')
    return new.folder / 'parameters.yaml'


@pytest.fixture
def scene_of(settings, command):
    """Return a function of a program."""
    return lambda program: own_scene(settings, command.word(program))


@pytest.mark.slow
def test_a_program_without_a_start_begins_with_5_mm_to_decay(scene_of):
    radius = distance(HOME)
    ball = {'kind': 'sphere', 'frame': 'tool', 'sphere': {'origin': CENTRE.tolist()}}
    program = task({**ball, 'radius': radius})
    scene = scene_of(program)
    assert distance(scene.start) - radius == pytest.approx(0.005, abs=5e-6)
    assert scene.title == 'program ball on four_dof'
    described = program | {'description': 'Circles the pipe.'}
    assert scene_of(described).title == 'Circles the pipe'


def tool_at(q):
    """Return where Pinocchio puts the tool."""
    return PinocchioOracle.of(sample('four_dof')).frame_pose('tool', np.array(q))[1]


def distance(q):
    return float(np.linalg.norm(tool_at(q) - CENTRE))


@pytest.mark.slow
def test_a_program_without_a_start_begins_where_its_path_was_checked(scene_of):
    """Beside the posture, as the lead-in of the controller and the margins of its gains."""
    posture = [0.4, -0.9, 0.3, 0.2]
    joint = {'kind': 'joint_coupling', 'coefficients': {'joint4': 1.0}, 'value': 0.2}
    program = task(joint)
    program['null_space']['posture'] = posture
    start = scene_of(program).start
    assert start == pytest.approx([*posture[:3], 0.205], abs=1e-6)


def test_a_scene_shows_the_rest_after_all_laps_of_a_program(scene_of):
    circle = {'center': (tool_at(HOME) - [0.05, 0.0, 0.0]).tolist(), 'radius': 0.05, 'laps': 2}
    target = {'circle': {**circle, 'toward': [1.0, 0.0, 0.0]}, 'speed': 0.1, 'start': 1.0}
    program = task({'kind': 'point', 'frame': 'tool', 'target': target})
    program['null_space']['posture'] = HOME.tolist()
    # At rest for 1 s, along both laps, with ramps of 1 s at half the speed, and at rest again.
    assert scene_of(program).duration == pytest.approx(1.0 + (2 * 0.1 * np.pi / 0.1 + 1.0) + 1.0)


@pytest.mark.slow
def test_a_program_that_presses_has_no_scene_without_its_board(settings):
    file = share_directory() / 'config' / 'programs' / 'four_dof_board.yaml'
    with pytest.raises(ConfigurationError, match='presses on a surface') as refused:
        own_scene(settings, str(file))
    page, section = re.search(r"(docs/\S+), '(.*)'", str(refused.value)).groups()
    assert f'\n## {section}\n' in (share_directory() / page).read_text('utf-8')


# ARM is the file of a description.
@tables.written("""
scene no.urdf | robot description 'no.urdf': no such file
scene scara --program no.yaml | program 'no.yaml': is not a file
scene cirle | unknown scene 'cirle'
view ARM | shows running arms only; start one, and show it with --robot ARM
view my_bag | analyze my_bag
""")
def test_a_file_is_told_from_a_name(given, said, command):
    error = command(*(x.replace('ARM', ARM) for x in given.split()), code=2).err
    assert re.search(said, error.replace(ARM, 'ARM'))


def test_an_error_to_decay_does_not_begin_outside_of_the_joint_limits(scene_of):
    upper = float(sample('four_dof').tree.position_upper[3])
    joint = {'kind': 'joint_coupling', 'coefficients': {'joint4': 1.0}, 'value': upper - 1e-3}
    with pytest.raises(ConfigurationError, match='no posture within the joint limits'):
        scene_of(task(joint))


def test_scenes_share_no_domain_whatever_their_temporary_folders(tmp_path, monkeypatch):
    """As of other users, or of containers on the network of the host."""
    with ExitStack() as reserved:
        domains = []
        for name in 'ab':
            (tmp_path / name).mkdir()
            monkeypatch.setattr(tempfile, 'tempdir', str(tmp_path / name))
            domains.append(reserved.enter_context(own_domain((198, 199))))
        assert domains == [198, 199]
        with pytest.raises(SceneError, match='are all in use'), own_domain((198, 199)):
            pass
    with own_domain((198, 199)) as domain:
        assert domain == 198
