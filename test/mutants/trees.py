# SPDX-License-Identifier: Apache-2.0
"""Copies of the source tree in which tests run, with limits on their time."""

import contextlib
import ctypes
import itertools
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

_WORKER = Path(__file__).with_name('worker.py')
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER: orphans become children of this process


class Run(NamedTuple):
    """Tests that ended: identifier -> (outcome, processor seconds, wall seconds).

    ``failure`` is the test that failed, did not end or ended the process; empty if there is none.
    """

    tests: dict[str, tuple[str, float, float]]
    failure: str
    cpu_s: float


def source_files(root: Path) -> list[str]:
    """Return the files of a checkout that git does not ignore."""
    command = ['git', 'ls-files', '-z', '--cached', '--others', '--exclude-standard']
    found = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    return sorted(name for name in found.stdout.split('\0') if name and (root / name).is_file())


class Tree:
    """A copy of a source tree.

    Tests, the processes that they start and their caches see only the copy: a changed module is
    the only one that exists.
    """

    def __init__(self, root: Path, folder: Path) -> None:
        self.path, self._folder = folder / 'tree', folder
        self._times = itertools.count(1_000_000_000, 2)
        ctypes.CDLL(None).prctl(_SUBREAPER, 1)
        shutil.rmtree(folder, ignore_errors=True)
        for name in source_files(root):
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, self.path / name)

    @contextlib.contextmanager
    def changed(self, contents: Mapping[str, bytes]) -> Iterator[None]:
        """Replace files for a while; nothing generated from their other content is used."""
        originals = {file: self._read(file) for file in contents}
        shutil.rmtree(self.path / '.cache', ignore_errors=True)
        try:
            self._write(contents)
            yield
        finally:
            self._write(originals)

    def _read(self, file: str) -> bytes | None:
        path = self.path / file
        return path.read_bytes() if path.exists() else None

    def _write(self, contents: Mapping[str, bytes | None]) -> None:
        # Bytecode is valid for one size and second of its source, so every content gets its own.
        moment = next(self._times)
        for file, content in contents.items():
            if content is None:
                (self.path / file).unlink()
            else:
                (self.path / file).write_bytes(content)
                os.utime(self.path / file, (moment, moment))

    def run(
        self,
        tests: Sequence[str],
        *,
        cpu_s: float,
        test_s: float,
        options: Sequence[str] = ('-x',),
    ) -> Run:
        """Run tests in a process of its own, which ends with all its children.

        Args:
            tests: Identifiers in the order to run, or test files, relative to the tree.
            cpu_s: Maximum processor time of all processes.
            test_s: Maximum time of a test.
            options: Of pytest.
        """
        report, temporary = self._folder / 'report.jsonl', self._folder / 'tmp'
        report.write_text('', encoding='utf-8')
        shutil.rmtree(temporary, ignore_errors=True)
        options = [f'--basetemp={temporary}', f'--timeout={test_s:g}', *options]
        plan = self._folder / 'plan.json'
        plan.write_text(json.dumps([tests, str(report), options]), encoding='utf-8')
        variables = {**os.environ, 'XDG_CACHE_HOME': str(self.path / '.cache/xdg')}
        variables.pop('PYTHONPATH', None)
        before, stopped = _ended_children(), ''
        with (self._folder / 'output.txt').open('wb') as output:
            process = subprocess.Popen(
                [sys.executable, '-P', str(_WORKER), str(plan)],
                cwd=self.path,
                env=variables,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            while not stopped and process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.5)
                if _ended_children() - before + sum(map(_used, _descendants())) > cpu_s:
                    stopped = 'processor time'
                elif time.time() - report.stat().st_mtime > test_s + 60.0:
                    stopped = 'hang'
        finally:
            _end_descendants()
        lines = [json.loads(line) for line in report.read_text('utf-8').splitlines()]
        ended = {name: tuple(rest) for name, *rest in lines if rest}
        failed = [name for name, (outcome, *_) in ended.items() if outcome == 'failed']
        if stopped == 'hang' or not stopped and process.returncode not in (0, 1, 5):
            failed += [name for name, *_ in lines[::-1] if name not in ended][:1] or ['collection']
        return Run(ended, *failed[:1] or [''], _ended_children() - before)


def _ended_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _descendants() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def _used(process: psutil.Process) -> float:
    with contextlib.suppress(psutil.Error):
        return sum(process.cpu_times()[:4])
    return 0.0


def _end_descendants() -> None:
    """Kill all processes that this one started, directly or not, and collect them."""
    while left := _descendants():
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, 10.0)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
