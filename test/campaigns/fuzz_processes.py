# SPDX-License-Identifier: Apache-2.0
"""Pass mutated inputs to the real command line, each in a separate process.

A process must end with 0 or 1, or with 2 and one line of error; within a processor time and a
gigabyte; leave no process and no temporary file; and write only the files that it reports, below
its working folder. A node that does not end by itself receives SIGINT at a random time.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from campaigns.fuzz import (
    KINDS,
    LONGEST_MESSAGE,
    LONGEST_S,
    Chunk,
    FuzzResult,
    robot_of,
    search,
    write_input,
)
from campaigns.fuzz_inputs import MOST_BYTES, tree_of
from campaigns.soak import Spinner
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

import robot_dynamics_ros
from robot_dynamics_ros.__main__ import NODE_COMMANDS
from robot_dynamics_ros.cli.processes import own_domain
from robot_dynamics_ros.description.shipped import robot_file
from robot_dynamics_ros.disk_cache import LOCATION, cache_directory

_NODE_S = 6.0  # s after which a node with output is interrupted
_ORDERLY_S = 5.0  # s in which helper processes must detect the end and exit
_WALL = 12.0  # wall time limit, in multiples of the processor time limit


@dataclass(frozen=True)
class Ended:
    """Result of a process.

    Attributes:
        code: Exit code; negative: the signal.
        out, error: Its output on stdout and stderr.
        seconds: Processor time, s.
        memory: Peak memory, bytes.
        left: Remaining processes, and unreported files.
    """

    code: int
    out: str
    error: str
    seconds: float
    memory: int
    left: tuple[str, ...] = ()


def verdict(ended: Ended, longest: float = LONGEST_S) -> tuple[str, str]:
    """Return 'accepted', 'refused' or 'breach' of a process, and its message."""
    errors = [line for line in ended.error.splitlines() if 'error: ' in line]
    said = errors[-1].partition('error: ')[2] if errors else ended.error.strip()
    code = ended.code
    problems = {
        'traceback': 'Traceback' in ended.error,
        f'exit code {code}': code not in (0, 1, 2),
        f'{len(errors)} lines of error': len(errors) > 1 or (code == 2 and not errors),
        'lines after the error': code == 2 and not ended.error.rstrip().endswith(said),
        f'{len(ended.error)} characters': len(ended.error) > LONGEST_MESSAGE,
        f'{ended.seconds:.1f} s of the processor': ended.seconds > longest,
        f'{ended.memory} bytes of memory': ended.memory > MOST_BYTES,
        f'left {ended.left}': bool(ended.left),
    }
    if wrong := [problem for problem, occurred in problems.items() if occurred]:
        return 'breach', f'{wrong[0]}: {ended.error[-250:]}'
    return ('refused' if code == 2 else 'accepted'), said


class CommandLine:
    """Runs commands one after the other, deep inside a separate folder and in a ROS domain.

    An arm at rest publishes its states there, and subscribes to trajectories.

    Args:
        root: Folder; paths upwards from the working folder stay in it.
        domain: ROS domain.
    """

    def __init__(self, root: Path, domain: int) -> None:
        self._root, self._work = root, root / 'files' / 'a' / 'b' / 'here'
        self._baseline = dict[tuple[str, int], float]()
        home, temporary = (root / 'files' / name for name in ('home', 'temporary'))
        for folder in (self._work, home, temporary):
            folder.mkdir(parents=True)
        write_input('bag', KINDS['bag'].seeds()[0], 0, root)
        for folder in (self._work, self._work.parents[1]):
            (folder / 'kept').write_text('kept', encoding='utf-8')
        self._environment = {
            **os.environ,
            LOCATION: str(cache_directory().resolve()),
            'HOME': str(home),
            'TMPDIR': str(temporary),
            'ROS_LOG_DIR': str(root / 'log'),
            'ROS_DOMAIN_ID': str(domain),
            'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST',
            'PYTHONPATH': str(Path(robot_dynamics_ros.__file__).parents[1]),
            'PYTHONDONTWRITEBYTECODE': '1',
        }
        self._spinner, tree = Spinner(domain), tree_of('scara')
        node = self._spinner.node
        states = node.create_publisher(JointState, 'joint_states', 5)
        node.create_subscription(JointTrajectory, 'soak/joint_trajectory', lambda _: None, 1)
        middle = tree.middle.tolist()

        def publish() -> None:
            message = JointState(name=list(tree.joint_names), position=middle)
            message.velocity = message.effort = [0.0] * tree.n
            message.header.stamp = node.get_clock().now().to_msg()
            states.publish(message)

        node.create_timer(0.02, publish)

    def close(self) -> None:
        """Stop the arm's node."""
        self._spinner.close()

    def evaluate(self, kind: str, text: str, origin: int) -> str:
        """Run the command of an input; time for its seed, such as compiling, is allowed extra."""
        if (kind, origin) not in self._baseline:
            words = self.words(kind, KINDS[kind].seeds()[origin], origin)
            self._baseline[kind, origin] = self.run(words, 20.0 * LONGEST_S).seconds
        longest = LONGEST_S + self._baseline[kind, origin]
        try:
            ended = self.run(self.words(kind, text, origin), longest)
        except (ValueError, OSError):  # invalid as an argument or a file name
            return 'refused'
        found, said = verdict(ended, longest)
        assert found != 'breach', said
        return found

    def words(self, kind: str, text: str, origin: int) -> list[str]:
        """Write an input, and return the command that reads it."""
        command = KINDS[kind].command
        if not command:
            return [word for word in text.split(' ') if word]
        file = write_input(kind, text, origin, self._work).name
        robot = str(robot_file(robot_of(kind, origin)))
        stand_ins = {'FILE': file, 'ROBOT': robot, 'BAG': str(self._root / 'bag')}
        parts = [word.partition(':=') for word in command.split()]
        return [
            stand_ins.get(name, name) + sign + stand_ins.get(value, value)
            for name, sign, value in parts
        ]

    def run(self, words: Sequence[str], longest: float) -> Ended:
        """Run a command; ``longest`` is its processor time limit, s."""
        before, begin = self._content(), time.monotonic()
        output = [self._root / name for name in ('out', 'error')]
        with output[0].open('wb') as out, output[1].open('wb') as error:
            process = subprocess.Popen(
                [sys.executable, '-m', 'robot_dynamics_ros', *words], cwd=self._work,
                env=self._environment, stdin=subprocess.DEVNULL, stdout=out, stderr=error,
                start_new_session=True,
            )  # fmt: skip
        with suppress(ProcessLookupError):
            resource.prlimit(process.pid, resource.RLIMIT_CPU, (int(longest) + 1,) * 2)
        node, interrupted = any(word in NODE_COMMANDS for word in words), False
        while not (done := os.wait4(process.pid, os.WNOHANG))[0]:
            self._spinner.spin(0.02)
            passed = time.monotonic() - begin
            up = passed > (_NODE_S if output[1].stat().st_size else 3.0 * _NODE_S)
            if node and up and not interrupted:
                interrupted = True
                process.send_signal(signal.SIGINT)
            if passed > _WALL * longest:
                process.kill()
        process.returncode = code = os.waitstatus_to_exitcode(done[1])
        used = done[2]
        printed = [file.read_text('utf-8', 'replace') for file in output]
        left = (*_end_session(process.pid), *self._leftovers(before, ' '.join([*words, *printed])))
        seconds = used.ru_utime + used.ru_stime
        return Ended(code, *printed, seconds, used.ru_maxrss * 1024, left)

    def _content(self) -> dict[Path, bytes]:
        files = filter(Path.is_file, (self._root / 'files').rglob('*'))
        return {path: path.read_bytes() for path in files}

    def _leftovers(self, before: dict[Path, bytes], said: str) -> list[str]:
        """Return changed files and unreported new files; remove the new ones."""
        after, root, work = self._content(), self._root / 'files', self._work
        changed = [path for path in before if after.get(path) != before[path]]
        wrong = [f'changed {path.relative_to(root)}' for path in changed]
        for path in after.keys() - before.keys():
            if not path.is_relative_to(work) or path.relative_to(work).parts[0] not in said:
                wrong.append(f'new {path}')
            path.unlink()
        for folder in self._work.iterdir():
            if folder.is_dir():
                shutil.rmtree(folder)
        return wrong


def _end_session(session: int) -> list[str]:
    """Wait until all processes of a session end, kill the others, and return their names."""
    end = time.monotonic() + _ORDERLY_S
    while (left := _session(session)) and time.monotonic() < end:
        time.sleep(0.02)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return sorted(left.values())


def _session(session: int) -> dict[int, str]:
    """Return the names of the processes of a session, by number."""
    names = {}
    for one in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            if os.getsid(one.pid) == session and one.status() != psutil.STATUS_ZOMBIE:
                names[one.pid] = one.name()
    return names


def run_chunk(chunk: Chunk) -> FuzzResult:
    """Pass the inputs of a chunk to the command line, in a folder and a domain of its own."""
    with (
        tempfile.TemporaryDirectory() as folder,
        own_domain() as domain,
        closing(CommandLine(Path(folder), domain)) as line,
    ):
        return search(chunk, line.evaluate, reduces=False)
