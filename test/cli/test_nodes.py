# SPDX-License-Identifier: Apache-2.0
"""Commands of nodes, without the nodes."""

import math
import re
from argparse import Namespace

import pytest
import tables

from robot_dynamics_ros import __main__ as program
from robot_dynamics_ros.__main__ import COMMANDS, main
from robot_dynamics_ros.cli import nodes
from robot_dynamics_ros.cli.arguments import _destination
from robot_dynamics_ros.description.shipped import share_directory
from robot_dynamics_ros.errors import ConfigurationError

PARAMETERS = '{ros__parameters: {robot: scara}}'


@pytest.fixture
def started(monkeypatch):
    """Return the words with which the executables would be started."""
    found = []
    monkeypatch.setattr(nodes, 'run_executable', lambda name, words: found.append(words) or 0)
    return found


@tables.written("""
    ['/**/controller: P', ''] | has one
    ['controller: P', ''] | has one
    ['/**: P', --namespace left] | has one
    ['left: {controller: P}', --namespace /left] | has one
    ['/*/controller: P', --namespace left] | has one
    ['/*/controller: P', ''] | it has /*/controller; write /**/control
    ['left: {controller: P}', ''] | it has /left/controller; write /**/control
    ['/**/controler: P', ''] | it has /**/controler; write /**/control
    ['/**/controller: {robot: scara}', ''] | it has none; write /**/control
    ['<robot name="x"/>', ''] | it has none; write /**/control
""")
def test_a_parameter_file_has_a_section_for_the_node(given, said, command, started):
    """As rcl matches names: ** stands for any number of them, * for one."""
    (content, words), file = given, command.folder / 'p.yaml'
    file.write_text(content.replace('P', PARAMETERS))
    fits = said.endswith('has\\ one')
    error = command(f'control {words}', '--params', file, code=0 if fits else 2).err
    assert fits or re.search(said, error.partition(f'{str(file)!r}: has no section for ')[2])


def test_files_add_to_a_robot_and_to_each_other(tmp_path, started):
    """A payload that ``identify`` wrote is given besides the arm's own file."""
    arm, load = tmp_path / 'arm.yaml', tmp_path / 'payload.yaml'
    arm.write_text(f'/**: {PARAMETERS}')
    load.write_text('/**: {ros__parameters: {payload_mass: 1.5}}')
    scara, four_dof = (share_directory() / f'config/{x}.yaml' for x in ('scara', 'four_dof'))
    for words, files in (
        (['--params', arm, '--params', load], (arm, load)),
        (['--robot', 'four_dof', '--params', load], (four_dof, load)),
        (['four_dof'], (four_dof,)),
        ([], (scara,)),
    ):
        assert main(['control', *map(str, words)]) == 0
        expected = [word for file in files for word in ('--params-file', str(file))]
        assert started.pop() == ['--ros-args', *expected]


def test_whole_numbers_among_decimals_are_passed_as_decimals(started):
    given = 'goal:=[0.1, 0, -1]', 'goal:=[1, 0]', 'joints:=[a, b]'
    assert main(['send', *(word for x in given for word in ('-p', x))]) == 0
    assert started[0][-5::2] == ['goal:=[0.1, 0.0, -1.0]', *given[1:]]


@pytest.mark.parametrize(
    'words', ['--program near/task.yaml', '-p program:=near/../near/task.yaml']
)
def test_files_are_passed_absolute_as_a_recording_of_them_is_read_elsewhere(
    words, tmp_path, monkeypatch, started
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'near').mkdir()
    (tmp_path / 'near/task.yaml').touch()
    (tmp_path / 'circle').touch()  # the name of a value, too
    assert main(['control', *words.split(), '-p', 'kind:=circle']) == 0
    assert started[0][-3:] == [f'program:={tmp_path / "near/task.yaml"}', '-p', 'kind:=circle']


def test_no_number_of_any_command_may_be_other_than_finite():
    numbers = 0
    for name in COMMANDS:
        command = program._command(name)._replace(run=lambda _: pytest.fail('it was accepted'))
        for key, settings in command.options.items():
            if settings.get('type') is float:
                numbers += 1
                given = Namespace(command=name, **{_destination(key, settings): [math.nan]})
                with pytest.raises(ConfigurationError, match=f'{key.split()[0]}.* nan'):
                    command.execute(given)
    assert numbers > 20
