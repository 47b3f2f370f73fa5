# SPDX-License-Identifier: Apache-2.0
"""Commands as a user runs them: what is given in memory becomes files, what is printed is kept."""

import contextlib
import io
import json
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import yaml
from bags import write
from recorded_arm import write_run

from robot_dynamics_ros.__main__ import main
from robot_dynamics_ros.recordings.recording import Recording

#: Option of a command that names its results, and the file in a folder, if it is no folder.
RESULTS = dict.fromkeys(('analyze', 'compare', 'replay', 'identify'), ('--output', '')) | {
    'calibrate': ('--output', 'thresholds.yaml'),
    'weigh_tool': ('--output', 'tool.yaml'),
    **dict.fromkeys(('commission', 'compare_formulations'), ('--json', 'found.json')),
    'excite': ('--output', ''),
    **dict.fromkeys(('new_robot', 'identify_demo'), ('--output', '')),
}


@dataclass(frozen=True)
class Ended:
    """A command that has ended.

    Attributes:
        code: Its exit code.
        out, err: What it printed.
        folder: Of its results.
    """

    code: int
    out: str
    err: str
    folder: Path

    @property
    def said(self) -> str:
        """All that it printed, in one line."""
        return ' '.join(f'{self.out} {self.err}'.split())

    @property
    def figures(self) -> Any:
        """The contents of its JSON file."""
        (file,) = self.folder.glob('*.json')
        return json.loads(file.read_text('utf-8'))

    def text(self, name: str) -> str:
        """Return the text of a result."""
        return (self.folder / name).read_text('utf-8')


@dataclass(frozen=True)
class Commands:
    """Runs commands, each with results in a folder of its own within one."""

    folder: Path
    _numbers: Any = field(default_factory=count)

    def __call__(self, command: str, *given: Any, code: int | None = 0) -> Ended:
        """Run a command; check its exit code, unless that is None.

        Args:
            command: Its name, and options that follow all other words.
            given: Words. Recordings and lists of messages are written into bags, mappings into
                YAML files, texts of a robot into URDF files. Messages of the same time keep
                their order.
            code: The expected exit code.
        """
        out = self.folder / f'results{next(self._numbers)}'
        name, *options = command.split()
        line = [name, *map(self.word, given), *options]
        option, file = RESULTS.get(name, ('', ''))
        if option and option not in line:
            line += [option, str(out / file)]
        if option == '--json':
            out.mkdir()
        with (
            contextlib.redirect_stdout(io.StringIO()) as printed,
            contextlib.redirect_stderr(io.StringIO()) as errors,
        ):
            found = main(line)
        ended = Ended(found, printed.getvalue(), errors.getvalue(), out)
        assert code in (None, found), f'{name} ended with {found}: {ended.said}'
        assert 'Traceback' not in ended.err
        return ended

    def word(self, given: Any) -> str:
        """Return a word of the command line, the path of a new file if it is none."""
        path = self.folder / f'given{next(self._numbers)}'
        if isinstance(given, Recording):
            return str(write_run(path, given))
        if isinstance(given, list):
            return str(write(path, sorted(given, key=lambda message: message.time)))
        if isinstance(given, dict) or str(given).startswith('<'):
            path = path.with_suffix('.yaml' if isinstance(given, dict) else '.urdf')
            path.write_text(given if isinstance(given, str) else yaml.safe_dump(given), 'utf-8')
            return str(path)
        return str(given)
