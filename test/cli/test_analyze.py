# SPDX-License-Identifier: Apache-2.0
"""The command ``analyze``: exit codes, many bags, no overwritten outputs, clear errors."""

import csv
import errno
import json
import re
import shutil
import signal
import sys
from pathlib import Path

import pytest
import tables
from bags import text
from mortal_worker import errors_when_ended
from recorded_arm import RecordedArm, driven_arm

from robot_dynamics_ros.errors import (
    ConfigurationError,
    RecordingError,
)
from robot_dynamics_ros.recordings.bag_jobs import find_bags
from robot_dynamics_ros.recordings.output_folder import atomic_folder, choose_folder


@pytest.fixture
def bag(tmp_path):
    return RecordedArm(300).bag(tmp_path / 'run')


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob('*') if p.is_file()}


# One bag ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_one_bag_gives_figures_rows_and_a_report(bag, command):
    whole, brief = (command('analyze', bag, *more) for more in (['--tables'], []))
    files = ['metrics.json', 'report.html', 'rows.csv', 'rows.parquet']
    assert sorted(contents(whole.folder)) == files
    assert sorted(contents(brief.folder)) == files[:2]
    assert 'ok the model explains the efforts to within their resolution' in brief.out
    assert 'shoulder' in brief.out


def test_a_threshold_makes_the_exit_code_and_can_be_one_of_a_list(bag, command):
    key = 'tracking.rms_error.shoulder'
    for most, code in ((0.0011, 0), (0.0009, 1)):
        ended = command('analyze --no-report', bag, '--threshold', f'{key}={most}', code=code)
        assert (': it is ' in ended.out) == (code == 1)
    ended = command('analyze --no-report', bag, '--threshold', 'list')
    assert key in ended.out.splitlines()
    assert not ended.folder.exists()


def test_results_that_are_there_are_left_alone_unless_told(bag, tmp_path, command):
    """Also by what fails, which leaves nothing behind."""
    out, mine = tmp_path / 'out', {'metrics.json': b'mine', 'other.txt': b'mine too'}
    words = ('analyze', bag, '--output', out, '--no-report')
    wrong = (*words, '--frame', 'nose')
    assert command(*wrong, code=2).err.startswith("error: unknown frame 'nose'; known: base")
    assert not out.exists()
    out.mkdir()
    for name, content in mine.items():
        (out / name).write_bytes(content)
    assert 'holds metrics.json, other.txt; name another folder' in command(*words, code=2).err
    command(*wrong, '--force', code=2)
    assert contents(out) == mine
    command(*words, '--force')
    after = contents(out)
    assert after['other.txt'] == mine['other.txt']
    assert json.loads(after['metrics.json'])['bag'] == str(bag)


def test_without_a_name_the_next_free_one_is_taken(tmp_path):
    usual = tmp_path / 'analysis' / 'run'
    for name in ('run', 'run-2', 'run-3'):
        folder = choose_folder(None, usual, force=False)
        assert folder.name == name
        folder.mkdir(parents=True)
    assert choose_folder(None, usual, force=True) == usual
    file = tmp_path / 'file'
    file.touch()
    with pytest.raises(ConfigurationError, match='is a file'):
        choose_folder(file, usual, force=True)


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path):
    with pytest.raises(ConfigurationError, match='No space left'), atomic_folder(tmp_path / 'out'):
        raise OSError(errno.ENOSPC, 'No space left on device')
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize('there', [True, False])
def test_files_are_written_on_the_disk_of_the_folder(there, tmp_path):
    """A folder may be a mount, or a link to another disk: files cannot be moved there."""
    link, target = tmp_path / 'link', tmp_path / 'disk' / 'target'
    (target if there else target.parent).mkdir(parents=True)
    link.symlink_to(target)
    before = {'a': b'mine'} if there else {}
    for name, content in before.items():
        (target / name).write_bytes(content)

    def interrupted():
        with atomic_folder(link) as work:
            (work / 'a').write_bytes(b'half')
            assert work.parent == (target if there else target.parent)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert contents(target) == before
    assert sorted(tmp_path.rglob('.*')) == []
    with atomic_folder(link) as work:
        (work / 'a').write_bytes(b'whole')
        assert target.exists() == there
    assert contents(target) == {'a': b'whole'}


@pytest.mark.parametrize('place', ['tempfile.mkdtemp', 'os.replace', 'shutil.rmtree'])
def test_an_interrupt_leaves_no_half_written_folder(place, tmp_path, monkeypatch):
    """One acts afterwards that comes while it is made, moved, or removed after a first one."""
    module, name = place.split('.')
    act = getattr(sys.modules[module], name)

    def interrupted(*args, **kwargs):
        made = act(*args, **kwargs) if name == 'mkdtemp' else None
        signal.raise_signal(signal.SIGINT)
        return made or act(*args, **kwargs)

    monkeypatch.setattr(place, interrupted)
    with pytest.raises(KeyboardInterrupt), atomic_folder(tmp_path / 'out') as work:  # noqa: PT012
        for file in 'ab':
            (work / file).touch()
        if name == 'rmtree':
            signal.raise_signal(signal.SIGINT)
    whole = {'a': b'', 'b': b''} if name == 'replace' else {}
    assert {x.name: x.read_bytes() for x in tmp_path.glob('out/*')} == whole
    assert sorted(tmp_path.rglob('.*')) == []


# Hostile bags -----------------------------------------------------------------------------------


def test_a_hostile_bag_gives_one_clear_line_and_no_output(command):
    ended = command('analyze', [text(0, '<robot'), *RecordedArm(60).messages()[1:]], code=2)
    assert re.fullmatch('error: .*malformed XML.*\n', ended.err)
    assert not ended.folder.exists()


def test_a_single_state_is_a_recording_if_a_short_one(command):
    assert ' 1 state.' in command('analyze', RecordedArm(1).messages()).out


# Many bags --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_failed_bag_is_told_and_does_not_stop_the_others_in_any_number_of_processes(
    tmp_path, command
):
    many = tmp_path / 'runs'
    for k, form in enumerate(('mcap', 'sqlite3', 'mcap_chunks')):
        RecordedArm(200 + 50 * k).bag(many / f'run{k}' / 'bag', form)
    (many / 'broken').mkdir()
    (many / 'broken' / 'x.mcap').write_bytes(b'')
    words = ('analyze --no-report --threshold rates.states=220', many, '--jobs')
    ended, other = (command(*words, jobs, code=2) for jobs in (1, 2))
    assert contents(ended.folder) == contents(other.folder)
    [error] = [line for line in ended.err.splitlines() if 'error: ' in line]
    assert '1 of 4 bags' in error
    assert '3 of 4 analyzed' in ended.out
    broken, *bags = ended.figures['bags']
    for told in (error, ended.out, broken['error']):
        assert 'the file is empty' in told
    assert [Path(bag['bag']).parent.name for bag in bags] == ['run0', 'run1', 'run2']
    rows = [*csv.DictReader(ended.text('summary.csv').splitlines())]
    assert [row['states'] for row in rows] == ['', '200', '250', '300']
    assert [row['thresholds'][:12] for row in rows] == ['', 'kept', *2 * ['rates.states']]
    folders = [path.name for path in ended.folder.iterdir() if path.is_dir()]
    assert sorted(folders) == ['run0', 'run1', 'run2']


def test_a_scheduler_without_dask_says_what_to_install(bag, command, monkeypatch):
    monkeypatch.setitem(sys.modules, 'distributed', None)
    error = command('analyze', bag, '--scheduler', 'tcp://127.0.0.1:1', code=2).err
    assert '--scheduler needs distributed, which is not installed' in error
    assert 'give 0 (all processors)' in command('analyze', bag, '--jobs', -1, code=2).err


@pytest.fixture(scope='module')
def long_bags(tmp_path_factory):
    """Return two bags whose analysis takes some seconds each."""
    bag = RecordedArm(30_000).bag(tmp_path_factory.mktemp('long') / 'run')
    return [str(bag), shutil.copytree(bag, f'{bag}_again')]


@pytest.mark.slow
@tables.rows(
    'way busy_s jobs',
    """
    SIGKILL, 0.2, 2
    SIGTERM, 0.2, 2
    SIGHUP, 0.2, 1
    SIGINT, 0.0, 2
    """,
)
def test_no_worker_or_hidden_folder_outlives_its_parent_and_an_interrupt_leaves_no_traceback(
    way, busy_s, jobs, long_bags, tmp_path
):
    given = ['--jobs', jobs, '--output', tmp_path / 'out']
    words = ['robot_dynamics_ros', 'analyze', *long_bags, *given]

    def begun(times):
        writes = any(tmp_path.rglob('.*')) or not busy_s
        return writes and sum(t >= busy_s for t in times) >= jobs

    errors = errors_when_ended([*map(str, words)], signal.Signals[way], begun)
    assert 'Traceback' not in errors or way == 'SIGKILL'
    assert sorted(tmp_path.rglob('.*')) == []


def test_bags_are_found_in_folders_once_and_in_order(tmp_path):
    files = 'run0/bag/x.mcap', 'run1/bag/x.db3', 'run2/bag/x.mcap', 'whole/x.mcap'
    for file in (*files, 'nothing/x'):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).touch()
    found = find_bags([tmp_path, tmp_path / 'run1' / 'bag'])
    assert found == [tmp_path / Path(file).parent for file in files]
    with pytest.raises(RecordingError, match=r'holds no \.mcap or \.db3 file'):
        find_bags([tmp_path / 'nothing'])


# Units of the driver ----------------------------------------------------------------------------


def test_a_driver_with_names_and_topics_of_its_own_has_commands_and_references(command):
    bag, profile = driven_arm(ours=True)
    bag = command.word(bag)
    said = command('analyze', bag, code=2).err
    assert 'the controller ran with --driver-profile can.yaml' in said
    words = ('--driver-profile', profile)
    refused = command('analyze', bag, *words, '--recorded-joints', 'a,b,c', code=2).err
    assert 'give one of them; driver_name' in refused
    words = ('--no-report', *words, '--from', 0.05, '--to', 0.25)
    for effort in ('commanded', 'measured'):
        figures = command('analyze', bag, *words, '--effort', effort).figures
        assert figures['rates']['duration_s'] == pytest.approx(0.2, abs=2e-3)
        assert figures['tracking']['rms_error'] == pytest.approx([0.01] * 3, rel=1e-6)
        # Efforts are Pinocchio's at the stamps of the states; 1.7e9 s leave 1e-7 s in a double.
        assert max(figures['effort']['residual_share']) < 1e-3
        assert not [note for note in figures['notes'] if 'cannot' in note or 'not used' in note]


@pytest.mark.slow
def test_currents_without_constants_refuse_only_what_needs_torques(command):
    bag, profile = driven_arm()
    for row in profile['joints']:
        del row['torque_constant']
    given = (command.word(bag), '--driver-profile', profile)
    figures = command('analyze', *given).figures
    assert any('efforts are in A' in note for note in figures['notes'])
    assert 'residual_rms' not in figures['effort']
    assert (figures['effort']['source'], figures['rates']['states']) == ('none', 300)
    (why,) = [x['text'] for x in figures['findings'] if 'evaluated' in x['text']]
    told = 'no effort is evaluated: efforts are in A, and the driver profile gives no torque_'
    assert why.startswith(told)
    for name in ('identify', 'calibrate'):
        refused = command(name, *given, code=2)
        assert re.fullmatch('.*torque_constant.*\n', refused.err)
        assert not refused.folder.exists()
