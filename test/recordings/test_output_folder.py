# SPDX-License-Identifier: Apache-2.0
"""What a user may have edited is replaced only on request."""

import pytest

from robot_dynamics_ros import __main__ as program
from robot_dynamics_ros.__main__ import main
from robot_dynamics_ros.cli.processes import LockstepRun
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.recordings.output_folder import require_free, write_json

#: Command lines that write ``FILE`` in the folder ``OUT``; no bag is needed to refuse them.
WRITING = {
    'driver.yaml': 'new_robot scara --output OUT',
    'program.yaml': 'new_robot four_dof --output OUT',
    'equations.txt': 'derive scara --show G --output OUT/equations.txt',
    'contact.yaml': 'calibrate no_bag --output OUT/contact.yaml',
    'sensor.yaml': 'weigh_tool no_bag --output OUT/sensor.yaml',
    'excitation.json': 'excite scara --output OUT',
    'check.json': 'check_model scara --json OUT/check.json',
    'corrected.urdf': 'identify no_bag --output OUT',
    'payload.yaml': 'identify no_bag --payload tool --output OUT',
}


SLOW = 'Makefile', 'derive scara --format c --functions gravity_forces --output OUT'


def words(line, out) -> list[str]:
    """Return the words of a command with its output."""
    return [word.replace('OUT', str(out)) for word in line.split()]


@pytest.mark.parametrize(
    ('file', 'line'), [*WRITING.items(), pytest.param(*SLOW, marks=pytest.mark.slow)]
)
def test_no_command_replaces_a_file_that_exists(file, line, tmp_path, capsys):
    edited = tmp_path / file
    edited.write_text('sign: -1')
    assert main(words(line, tmp_path)) == 2
    assert f'{str(tmp_path)!r}: holds {file}; name another' in capsys.readouterr().err
    assert edited.read_text() == 'sign: -1'
    assert list(tmp_path.iterdir()) == [edited]


@pytest.mark.parametrize('file', ['driver.yaml', 'check.json'])
def test_what_cannot_be_written_is_told_before_anything_is_computed(file, tmp_path, capsys):
    file, line = tmp_path / 'file', WRITING[file]
    file.touch()
    assert main(words(line, file / 'out')) == 2
    assert f'cannot be written ({file} is a file); name another' in capsys.readouterr().err


def test_a_folder_is_not_replaced_by_a_file(tmp_path, capsys):
    folder = tmp_path / 'contact.yaml'
    folder.mkdir()
    assert main([*words(WRITING[folder.name], tmp_path), '--force']) == 2
    assert f'cannot be written ({folder.name} is a folder)' in capsys.readouterr().err


def test_the_folder_of_a_single_result_is_created(tmp_path):
    """It was missed after everything was computed."""
    assert main(['derive', 'scara', '--output', str(tmp_path / 'new' / 'scara.txt')]) == 0
    write_json(tmp_path / 'other' / 'found.json', {})
    assert sorted(x.parent.name for x in tmp_path.glob('*/*')) == ['new', 'other']


def test_a_folder_without_permission_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr('os.access', lambda path, mode: path != tmp_path)
    with pytest.raises(ConfigurationError, match=rf'no permission in {tmp_path}\)'):
        require_free(tmp_path / 'new' / 'out', force=True)


def test_every_command_with_an_output_has_force_or_takes_its_own_results_only():
    for name in program.COMMANDS:
        options = {key.split()[0] for key in program._command(name).options}
        if '--output' in options:
            assert '--force' in options or name in ('demo', 'identify_demo', 'scene')


def test_a_run_removes_only_results_of_an_earlier_run(tmp_path):
    (tmp_path / 'mine.py').write_text('x')
    with pytest.raises(ConfigurationError, match='holds other files; name an empty or new folder'):
        LockstepRun('scara', {}, {}, {}).record(tmp_path, 'run')
    assert (tmp_path / 'mine.py').exists()
