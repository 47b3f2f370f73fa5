# SPDX-License-Identifier: Apache-2.0
"""The command ``analyze``: exit codes, many bags, no overwritten outputs, clear errors."""

from __future__ import annotations

import csv
import errno
import json
import re
import shutil
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from bags import state, text, write
from mortal_worker import errors_when_ended
from recorded_arm import NAMES, RecordedArm

from robot_dynamics_ros.__main__ import main
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


def analyze(*words) -> int:
    return main(['analyze', *map(str, words)])


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob('*') if p.is_file()}


# One bag ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_one_bag_gives_figures_rows_and_a_report(bag, tmp_path, capsys):
    assert analyze(bag, '--output', tmp_path / 'out', '--tables') == 0
    files = ['metrics.json', 'report.html', 'rows.csv', 'rows.parquet']
    assert sorted(contents(tmp_path / 'out')) == files
    assert analyze(bag, '--output', tmp_path / 'brief') == 0
    assert sorted(contents(tmp_path / 'brief')) == files[:2]
    printed = capsys.readouterr().out
    assert 'ok the model explains the efforts to within their resolution' in printed
    assert 'shoulder' in printed


@pytest.mark.parametrize(
    ('threshold', 'code'),
    [
        ('tracking.rms_error.shoulder=0.0011', 0),
        ('tracking.rms_error.shoulder=0.0009', 1),
        ('nonsense', 2),
    ],
)
def test_thresholds_make_the_exit_code(bag, tmp_path, capsys, threshold, code):
    words = ('--output', tmp_path / 'out', '--no-report', '--threshold', threshold)
    assert analyze(bag, *words) == code
    streams = capsys.readouterr()
    assert (': it is ' in streams.out) == (code == 1)
    assert streams.err.count('error:') == (code == 2)


def test_the_figures_that_can_have_a_threshold_are_listed(bag, tmp_path, capsys):
    assert analyze(bag, '--output', tmp_path / 'out', '--no-report', '--threshold', 'list') == 0
    assert 'tracking.rms_error.elbow' in capsys.readouterr().out.splitlines()
    assert not (tmp_path / 'out').exists()


def test_results_that_are_there_are_left_alone_unless_told(bag, tmp_path, capsys):
    out = tmp_path / 'out'
    out.mkdir()
    (out / 'metrics.json').write_text('mine', encoding='utf-8')
    (out / 'other.txt').write_text('mine too', encoding='utf-8')
    before = contents(out)
    assert analyze(bag, '--output', out) == 2
    assert 'holds metrics.json, other.txt; name another folder' in capsys.readouterr().err
    assert contents(out) == before
    assert analyze(bag, '--output', out, '--force', '--no-report') == 0
    after = contents(out)
    assert after['other.txt'] == b'mine too'
    assert json.loads(after['metrics.json'])['bag'] == str(bag)


def test_a_failure_leaves_nothing_behind(bag, tmp_path, capsys):
    out = tmp_path / 'results' / 'out'
    assert analyze(bag, '--output', out, '--frame', 'nose') == 2
    assert capsys.readouterr().err.startswith("error: unknown frame 'nose'; known: base")
    assert contents(tmp_path / 'results') == {}
    out.mkdir()
    (out / 'metrics.json').write_text('mine', encoding='utf-8')
    assert analyze(bag, '--output', out, '--frame', 'nose', '--force') == 2
    assert contents(out) == {'metrics.json': b'mine'}


def test_without_a_name_the_next_free_one_is_taken(tmp_path):
    usual = tmp_path / 'analysis' / 'run'
    assert choose_folder(None, usual, force=False) == usual
    usual.mkdir(parents=True)
    assert choose_folder(None, usual, force=False).name == 'run-2'
    (tmp_path / 'analysis' / 'run-2').mkdir()
    assert choose_folder(None, usual, force=False).name == 'run-3'
    assert choose_folder(None, usual, force=True) == usual
    file = tmp_path / 'file'
    file.write_text('x', encoding='utf-8')
    with pytest.raises(ConfigurationError, match='is a file'):
        choose_folder(file, usual, force=True)


def test_a_folder_that_cannot_be_written_is_told_in_one_line(bag, tmp_path, capsys):
    file = tmp_path / 'file'
    file.write_text('mine', encoding='utf-8')
    assert analyze(bag, '--output', file / 'out') == 2
    error = capsys.readouterr().err
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
    if there:
        target.mkdir()
        (target / 'a').write_text('mine', encoding='utf-8')
    before = contents(target)

    def interrupted():
        with atomic_folder(link) as work:
            (work / 'a').write_text('half', encoding='utf-8')
            assert work.parent == (target if there else target.parent)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert contents(target) == before
    assert sorted(tmp_path.rglob('.*')) == []
    with atomic_folder(link) as work:
        (work / 'a').write_text('whole', encoding='utf-8')
        assert contents(target).get('a', b'mine') == b'mine'
    assert contents(target) == {'a': b'whole'}


# Hostile bags -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ('messages', 'problem'),
    [
        ([], 'has no joint states'),
        ([text(0, '<robot'), *RecordedArm(60).messages()[1:]], 'malformed XML'),
    ],
)
def test_a_hostile_bag_gives_one_clear_line_and_no_output(messages, problem, tmp_path, capsys):
    write(tmp_path / 'bag', messages)
    assert analyze(tmp_path / 'bag', '--output', tmp_path / 'out') == 2
    streams = capsys.readouterr()
    assert streams.err.startswith('error: ')
    assert problem in streams.err
    assert streams.err.count('\n') == 1
    assert not (tmp_path / 'out').exists()


def test_a_single_state_is_a_recording_if_a_short_one(tmp_path):
    write(tmp_path / 'bag', RecordedArm(1).messages())
    assert analyze(tmp_path / 'bag', '--output', tmp_path / 'out') == 0


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
def test_a_failed_bag_is_told_and_does_not_stop_the_others(many, tmp_path, capsys):
    assert analyze(many, '--output', tmp_path / 'out', '--jobs', 1) == 2
    printed, errors = capsys.readouterr()
    [error] = [line for line in errors.splitlines() if 'error: ' in line]
    assert '1 of 4 bags' in error
    assert 'the file is empty' in error
    assert '3 of 4 analyzed' in printed
    assert 'the file is empty' in printed
    summary = json.loads((tmp_path / 'out' / 'summary.json').read_text('utf-8'))
    assert [Path(b['bag']).parent.name for b in summary['bags'][1:]] == ['run0', 'run1', 'run2']
    assert 'the file is empty' in summary['bags'][0]['error']
    assert [b['rates']['states'] for b in summary['bags'][1:]] == [200, 250, 300]
    with (tmp_path / 'out' / 'summary.csv').open(encoding='utf-8') as file:
        rows = list(csv.DictReader(file))
    assert [row['states'] for row in rows] == ['', '200', '250', '300']
    assert sorted(p.name for p in (tmp_path / 'out').iterdir() if p.is_dir()) == [
        'run0', 'run1', 'run2'
    ]  # fmt: skip


@pytest.mark.slow
def test_processes_give_the_same_result_as_one_after_the_other(many, tmp_path):
    for jobs in (1, 2):
        words = ('--output', tmp_path / f'out{jobs}', '--jobs', jobs, '--no-report')
        assert analyze(many, *words) == 2
    assert contents(tmp_path / 'out1') == contents(tmp_path / 'out2')


def test_a_scheduler_without_dask_says_what_to_install(bag, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, 'distributed', None)
    words = ('--scheduler', 'tcp://127.0.0.1:1', '--output', tmp_path / 'out')
    assert analyze(bag, *words) == 2
    assert '--scheduler needs distributed, which is not installed' in capsys.readouterr().err


@pytest.fixture(scope='module')
def long_bags(tmp_path_factory):
    """Return two bags whose analysis takes some seconds each."""
    bag = RecordedArm(30_000).bag(tmp_path_factory.mktemp('long') / 'run')
    return [str(bag), shutil.copytree(bag, f'{bag}_again')]


@pytest.mark.slow
@pytest.mark.parametrize(
    ('way', 'busy_s'), [(signal.SIGKILL, 1.0), (signal.SIGINT, 1.0), (signal.SIGINT, 0.0)]
)
def test_no_worker_outlives_its_parent_and_an_interrupt_leaves_no_traceback(
    way, busy_s, long_bags, tmp_path
):
    given = ['--jobs', '2', '--output', tmp_path / 'out']
    words = ['robot_dynamics_ros', 'analyze', *long_bags, *given]
    errors = errors_when_ended(words, way, lambda times: sum(t >= busy_s for t in times) > 1)
    if way == signal.SIGINT:
        assert 'Traceback' not in errors


@pytest.mark.slow
def test_bags_are_found_in_folders_once_and_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(bag_jobs, '_CONNECT_S', 0.5)
    names = [f'run{k}/bag' for k in range(3)] + ['whole']
    for name, suffix in zip(names, ('mcap', 'db3', 'mcap', 'mcap'), strict=True):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / f'x.{suffix}').touch()
    found = find_bags([tmp_path, tmp_path / 'run1' / 'bag'])
    assert [str(path.relative_to(tmp_path)) for path in found] == names
    (tmp_path / 'nothing').mkdir()
    with pytest.raises(RecordingError, match=r'holds no \.mcap or \.db3 file'):
        find_bags([tmp_path / 'nothing'])
    with pytest.raises(ConfigurationError, match='give 0'):
        list(run_jobs(str, [1], lambda item, why: why, jobs=-1))
    with pytest.raises((MissingDependencyError, TimeoutError)):
        list(run_jobs(str, [1], lambda item, why: why, scheduler='tcp://127.0.0.1:9'))


# Units of the driver ----------------------------------------------------------------------------

CONSTANTS = (0.05, 0.04, 0.3)  # N m/A; N/A where the joint slides


def driver_bag(folder: Path) -> tuple[Path, Path]:
    """Record the arm in degrees, milliamperes and other names; return bag and driver profile."""
    arm = RecordedArm(300, measured_late=True)
    names = tuple(f'axis_{name}' for name in NAMES)
    degree = np.array([180.0 / np.pi, 180.0 / np.pi, 1e3])
    current = 1e3 * arm.tau / (100.0 * np.array(CONSTANTS))
    messages = [text(0, arm.xml)]
    for k, stamp in enumerate(arm.stamps.tolist()):
        # Stamps of a wall clock: seconds count from the first state on.
        now, late = 1_700_000_000 * 10**9 + stamp, current[max(0, k - 1)]
        messages.append(state(now, names, arm.q[k] * degree, arm.v[k] * degree, late))
    rows = ''.join(
        f'- {{joint: {name}, driver_name: axis_{name}, position_unit: {unit}, gear_ratio: 100, '
        f'effort_unit: mA, torque_constant: {constant}}}\n'
        for name, unit, constant in zip(NAMES, ('deg', 'deg', 'mm'), CONSTANTS, strict=True)
    )
    profile = folder / 'driver.yaml'
    profile.write_text(f'name: counted\nstate: {{effort: total}}\njoints:\n{rows}')
    return write(folder / 'counted', messages), profile


def test_a_driver_profile_says_what_the_numbers_of_a_bag_mean(tmp_path):
    bag, profile = driver_bag(tmp_path)
    words = ('--output', tmp_path / 'out', '--no-report', '--driver-profile', profile)
    assert analyze(bag, *words, '--from', 0.05, '--to', 0.25) == 0
    figures = json.loads((tmp_path / 'out' / 'metrics.json').read_text())
    assert figures['rates']['duration_s'] == pytest.approx(0.2, abs=2e-3)
    # Efforts are Pinocchio's at the stamps of the states; 1.7e9 s leave 1e-7 s in a double.
    assert max(figures['effort']['residual_share']) < 1e-3


def test_names_by_joints_and_by_a_profile_are_one_too_many(tmp_path, capsys):
    bag, profile = driver_bag(tmp_path)
    words = (
        '--driver-profile',
        profile,
        '--recorded-joints',
        'a,b,c',
        '--output',
        tmp_path / 'out',
    )
    assert analyze(bag, *words) == 2
    assert 'give one of them' in capsys.readouterr().err


@pytest.mark.slow
def test_currents_without_constants_refuse_only_what_needs_torques(tmp_path, capsys):
    bag, profile = driver_bag(tmp_path)
    profile.write_text(re.sub(r', torque_constant: [0-9.]+', '', profile.read_text()))
    assert analyze(bag, '--output', tmp_path / 'out', '--driver-profile', profile) == 0
    figures = json.loads((tmp_path / 'out' / 'metrics.json').read_text())
    assert any('efforts are in A' in note for note in figures['notes'])
    assert 'residual_rms' not in figures['effort']
    assert figures['rates']['states'] == 300
    capsys.readouterr()
    for command in (['identify', bag], ['calibrate', bag]):
        words = [*command, '--driver-profile', profile, '--output', tmp_path / command[0]]
        assert main([*map(str, words)]) == 2
        said = capsys.readouterr().err
        assert said.count('\n') == 1
        assert 'torque_constant' in said
        assert not (tmp_path / command[0]).exists()
