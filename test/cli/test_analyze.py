# SPDX-License-Identifier: Apache-2.0
"""The command ``analyze``: exit codes, many bags, no overwritten outputs, clear errors."""

from __future__ import annotations

import csv
import errno
import json
import shutil
import signal
import sys
from pathlib import Path

import pytest
from bags import text
from mortal_worker import errors_when_ended
from recorded_arm import RecordedArm, driven_arm

from robot_dynamics_ros.errors import (
    ConfigurationError,
    MissingDependencyError,
    RecordingError,
)
from robot_dynamics_ros.recordings import bag_jobs
from robot_dynamics_ros.recordings.bag_jobs import find_bags, run_jobs
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


@pytest.mark.parametrize(
    ('threshold', 'code'),
    [
        ('tracking.rms_error.shoulder=0.0011', 0),
        ('tracking.rms_error.shoulder=0.0009', 1),
        ('nonsense', 2),
    ],
)
def test_thresholds_make_the_exit_code(bag, command, threshold, code):
    ended = command('analyze --no-report', bag, '--threshold', threshold, code=code)
    assert (': it is ' in ended.out) == (code == 1)
    assert ended.err.count('error:') == (code == 2)


def test_the_figures_that_can_have_a_threshold_are_listed(bag, command):
    ended = command('analyze --no-report', bag, '--threshold', 'list')
    assert 'tracking.rms_error.elbow' in ended.out.splitlines()
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


def test_a_folder_that_cannot_be_written_is_told_in_one_line(bag, tmp_path, command):
    file = tmp_path / 'file'
    file.write_text('mine', encoding='utf-8')
    error = command('analyze', bag, '--output', file / 'out', code=2).err
    assert error.startswith(f'error: output {str(file / "out")!r}: cannot be written (')
    assert error.count('\n') == 1
    assert file.read_text('utf-8') == 'mine'
    with pytest.raises(ConfigurationError, match='No space left'), atomic_folder(tmp_path / 'out'):
        raise OSError(errno.ENOSPC, 'No space left on device')
    assert {path.name for path in tmp_path.iterdir()} == {'file', 'run'}


@pytest.mark.parametrize('there', [True, False])
def test_files_are_written_on_the_disk_of_the_folder(there, tmp_path):
    """A folder may be a mount, or a link to another disk: files cannot be moved there."""
    link, target = tmp_path / 'link', tmp_path / 'disk' / 'target'
    target.parent.mkdir()
    link.symlink_to(target)
    before = {'a': b'mine'} if there else {}
    if there:
        target.mkdir()
        (target / 'a').write_bytes(b'mine')

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


@pytest.mark.parametrize('place', ['os.replace', 'shutil.rmtree'])
def test_a_second_interrupt_leaves_no_half_written_folder(place, tmp_path, monkeypatch):
    """One that comes while files are moved, or removed after the first, acts afterwards."""
    module, name = place.split('.')
    act = getattr(sys.modules[module], name)

    def interrupted(*args, **kwargs):
        signal.raise_signal(signal.SIGINT)
        act(*args, **kwargs)

    monkeypatch.setattr(place, interrupted)
    with pytest.raises(KeyboardInterrupt), atomic_folder(tmp_path / 'out') as work:  # noqa: PT012
        for file in 'ab':
            (work / file).touch()
        if name == 'rmtree':
            signal.raise_signal(signal.SIGINT)
    whole = {} if name == 'rmtree' else {'a': b'', 'b': b''}
    assert {x.name: x.read_bytes() for x in tmp_path.glob('out/*')} == whole
    assert sorted(tmp_path.rglob('.*')) == []


# Hostile bags -----------------------------------------------------------------------------------


def test_a_hostile_bag_gives_one_clear_line_and_no_output(command):
    ended = command('analyze', [text(0, '<robot'), *RecordedArm(60).messages()[1:]], code=2)
    assert ended.err.startswith('error: ')
    assert 'malformed XML' in ended.err
    assert ended.err.count('\n') == 1
    assert not ended.folder.exists()


def test_a_single_state_is_a_recording_if_a_short_one(command):
    assert ' 1 state.' in command('analyze', RecordedArm(1).messages()).out


# Many bags --------------------------------------------------------------------------------------


@pytest.fixture
def many(tmp_path):
    """Return a folder of four bags, one of them broken."""
    folder = tmp_path / 'runs'
    for k, form in enumerate(('mcap', 'sqlite3', 'mcap_chunks')):
        RecordedArm(200 + 50 * k).bag(folder / f'run{k}' / 'bag', form)
    (folder / 'broken').mkdir()
    (folder / 'broken' / 'x.mcap').write_bytes(b'')
    return folder


@pytest.mark.slow
def test_a_failed_bag_is_told_and_does_not_stop_the_others(many, command):
    ended = command('analyze --jobs 1', many, code=2)
    [error] = [line for line in ended.err.splitlines() if 'error: ' in line]
    assert '1 of 4 bags' in error
    assert '3 of 4 analyzed' in ended.out
    broken, *bags = ended.figures['bags']
    for told in (error, ended.out, broken['error']):
        assert 'the file is empty' in told
    assert [Path(bag['bag']).parent.name for bag in bags] == ['run0', 'run1', 'run2']
    assert [bag['rates']['states'] for bag in bags] == [200, 250, 300]
    rows = csv.DictReader(ended.text('summary.csv').splitlines())
    assert [row['states'] for row in rows] == ['', '200', '250', '300']
    folders = [path.name for path in ended.folder.iterdir() if path.is_dir()]
    assert sorted(folders) == ['run0', 'run1', 'run2']


@pytest.mark.slow
def test_processes_give_the_same_result_as_one_after_the_other(many, command):
    one, two = (
        contents(command('analyze --no-report', many, '--jobs', jobs, code=2).folder)
        for jobs in (1, 2)
    )
    assert one == two


def test_a_scheduler_without_dask_says_what_to_install(bag, command, monkeypatch):
    monkeypatch.setitem(sys.modules, 'distributed', None)
    error = command('analyze', bag, '--scheduler', 'tcp://127.0.0.1:1', code=2).err
    assert '--scheduler needs distributed, which is not installed' in error


@pytest.fixture(scope='module')
def long_bags(tmp_path_factory):
    """Return two bags whose analysis takes some seconds each."""
    bag = RecordedArm(30_000).bag(tmp_path_factory.mktemp('long') / 'run')
    return [str(bag), shutil.copytree(bag, f'{bag}_again')]


@pytest.mark.slow
@pytest.mark.parametrize(
    ('way', 'busy_s', 'jobs'),
    [
        *((way, 1.0, 2) for way in (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)),
        *((way, 2.0, 1) for way in (signal.SIGTERM, signal.SIGHUP)),
        (signal.SIGINT, 0.0, 2),
    ],
)
def test_no_worker_or_hidden_folder_outlives_its_parent_and_an_interrupt_leaves_no_traceback(
    way, busy_s, jobs, long_bags, tmp_path
):
    given = ['--jobs', jobs, '--output', tmp_path / 'out']
    words = ['robot_dynamics_ros', 'analyze', *long_bags, *given]

    def begun(times):
        writes = any(tmp_path.rglob('.*')) or not busy_s
        return writes and sum(t >= busy_s for t in times) >= jobs

    errors = errors_when_ended([*map(str, words)], way, begun)
    if way != signal.SIGKILL:
        assert 'Traceback' not in errors
    assert sorted(tmp_path.rglob('.*')) == []


@pytest.mark.slow
def test_bags_are_found_in_folders_once_and_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(bag_jobs, '_CONNECT_S', 0.5)
    files = 'run0/bag/x.mcap', 'run1/bag/x.db3', 'run2/bag/x.mcap', 'whole/x.mcap'
    for file in (*files, 'nothing/x'):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).touch()
    found = find_bags([tmp_path, tmp_path / 'run1' / 'bag'])
    assert found == [tmp_path / Path(file).parent for file in files]
    with pytest.raises(RecordingError, match=r'holds no \.mcap or \.db3 file'):
        find_bags([tmp_path / 'nothing'])
    for how, error, said in (
        ({'jobs': -1}, ConfigurationError, 'give 0'),
        ({'scheduler': 'tcp://127.0.0.1:9'}, (MissingDependencyError, TimeoutError), None),
    ):
        with pytest.raises(error, match=said):
            list(run_jobs(str, [1], lambda item, why: why, **how))


# Units of the driver ----------------------------------------------------------------------------


@pytest.mark.parametrize('effort', ['commanded', 'measured'])
def test_a_driver_with_names_and_topics_of_its_own_has_commands_and_references(effort, command):
    bag, profile = driven_arm(ours=True)
    bag = command.word(bag)
    said = command('analyze', bag, code=2).err
    assert 'the controller ran with --driver-profile can.yaml' in said
    words = ('--no-report', '--driver-profile', profile, '--effort', effort)
    figures = command('analyze', bag, *words, '--from', 0.05, '--to', 0.25).figures
    assert figures['rates']['duration_s'] == pytest.approx(0.2, abs=2e-3)
    assert figures['tracking']['rms_error'] == pytest.approx([0.01] * 3, rel=1e-6)
    # Efforts are Pinocchio's at the stamps of the states; 1.7e9 s leave 1e-7 s in a double.
    assert max(figures['effort']['residual_share']) < 1e-3
    assert not [note for note in figures['notes'] if 'cannot' in note or 'not used' in note]


def test_names_by_joints_and_by_a_profile_are_one_too_many(command):
    bag, profile = driven_arm()
    words = ('--driver-profile', profile, '--recorded-joints', 'a,b,c')
    assert 'give one of them; driver_name' in command('analyze', bag, *words, code=2).err


@pytest.mark.slow
def test_currents_without_constants_refuse_only_what_needs_torques(command):
    bag, profile = driven_arm()
    for row in profile['joints']:
        del row['torque_constant']
    given = (command.word(bag), '--driver-profile', profile)
    figures = command('analyze', *given).figures
    assert any('efforts are in A' in note for note in figures['notes'])
    assert 'residual_rms' not in figures['effort']
    assert figures['effort']['source'] == 'none'
    (why,) = [x['text'] for x in figures['findings'] if 'evaluated' in x['text']]
    told = 'no effort is evaluated: efforts are in A, and the driver profile gives no torque_'
    assert why.startswith(told)
    assert figures['rates']['states'] == 300
    for name in ('identify', 'calibrate'):
        refused = command(name, *given, code=2)
        assert refused.err.count('\n') == 1
        assert 'torque_constant' in refused.err
        assert not refused.folder.exists()
