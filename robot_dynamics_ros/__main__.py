# SPDX-License-Identifier: Apache-2.0
"""Command line: ``robot-dynamics COMMAND``, or ``python -m robot_dynamics_ros COMMAND``.

numpy is imported on first use, so help and usage errors do not load it.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from robot_dynamics_ros.errors import (
    ConfigurationError,
    MissingDependencyError,
    RobotDynamicsError,
    brief,
    nearest,
)
from robot_dynamics_ros.ros.executables import use_one_thread

#: Commands and their summaries.
COMMANDS = {
    'demo': 'simulate arms under each control law over ROS 2, record and report',
    'scene': 'run constraint-stabilization scenes and compare f(q, t) with its designed decay',
    'simulate': 'run the simulator node of an arm',
    'control': 'run the controller node of an arm',
    'send': 'send a trajectory to the controller of an arm',
    'record': 'record a run to an MCAP bag',
    'monitor': 'monitor how well the model explains the efforts of a running arm',
    'emulate': 'simulate an arm behind the topics, units and behaviour of a driver',
    'commission': 'check a driver profile against an arm, without sending commands',
    'view': 'show running arms, their programs and efforts in a browser',
    'derive': 'print the equations of motion of a robot as formulas',
    'compare_formulations': 'compare all formulations of the dynamics on a robot',
    'analyze': 'analyze recordings: tracking, torque residual, energy, rates, report',
    'compare': 'compare two recordings of a program',
    'replay': 'run the control loop on a recording and compare its efforts',
    'identify': 'identify inertia and friction from bags and correct the URDF',
    'weigh_tool': 'weigh the tool on a force-torque sensor, and find the bias of the sensor',
    'calibrate': 'calibrate contact thresholds from contact-free recordings',
    'excite': 'design an excitation trajectory for identification',
    'identify_demo': 'demonstrate identification: wrong model, excite, record, identify, re-track',
    'design_gains': 'design the gains of a constraint program, with poles and margins',
    'new_robot': 'write parameters, driver profile and program for your own arm',
    'check_model': 'print mass and inertia of every link, and report model errors',
}

#: Commands that run one node, and the executable of that node.
NODE_COMMANDS = {
    'simulate': 'simulator',
    'control': 'controller',
    'send': 'trajectory',
    'record': 'recorder',
    'monitor': 'monitor',
    'emulate': 'driver_emulator',
}

#: Modules in ``cli`` of the commands whose module has another name.
_MODULES = {
    'identify_demo': 'demo',
    **dict.fromkeys(NODE_COMMANDS, 'nodes'),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code, 2 for wrong input."""
    use_one_thread()
    other = sys.getfilesystemencoding() != 'utf-8'  # then neither files nor arguments are text
    if other and argv is None and os.environ.get('PYTHONUTF8') != '1':
        os.environ['PYTHONUTF8'] = '1'
        os.execv(sys.executable, sys.orig_argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors='backslashreplace')  # where it cannot write m² or a frame
    try:
        # As on an interrupt, temporary folders and processes are removed; nohup stays in force.
        ending = [x for x in _ENDING if signal.getsignal(x) is signal.SIG_DFL]
        with postponed('numpy'), _handled(ending, lambda number, _: sys.exit(128 + number)):
            return _main(argv)
    except KeyboardInterrupt:
        return 130


def _main(argv: Sequence[str] | None) -> int:
    arguments = list(map(_hyphenated, sys.argv[1:] if argv is None else argv))
    parser = _Parser(
        prog=_name(),
        description='Computed torque and constraint stabilization with cross-checked dynamics.',
    )
    commands = parser.add_subparsers(dest='command', metavar='COMMAND', required=True)
    chosen = next((word for word in arguments if not word.startswith('-')), None)
    try:
        _require_text(arguments)
        for name, summary in COMMANDS.items():
            added = commands.add_parser(name, help=summary, description=summary)
            if name == chosen:
                # In silence: libraries would report an interrupt of their import.
                with _handled([signal.SIGINT], signal.SIG_DFL), _libraries(name):
                    command = _command(name)
                command.declare(added)
        parsed = parser.parse_args(arguments)  # ends here if no command was chosen
        with _libraries(parsed.command):
            return int(command.execute(parsed))
    except RobotDynamicsError as error:
        print(f'error: {error}', file=sys.stderr)
        return 2
    except OSError as error:
        if error.filename is None and error.errno != errno.ENOSPC:
            raise
        print(f'error: {error.filename or "output"}: {error.strerror}', file=sys.stderr)
        return 2


def _hyphenated(word: str) -> str:
    """Return an option with hyphens: names of parameters, which have underscores, are accepted."""
    return re.sub('^--[^=]*', lambda name: name[0].replace('_', '-'), word)


_NEGATIVE = re.compile(r'-(\.?\d|inf)', re.IGNORECASE)


class _Parser(argparse.ArgumentParser):
    """Argument parser that reports usage errors in one line of bounded length.

    Numbers such as -1e-3 and -inf are parsed as values; argparse takes them for options.
    An unknown option is answered with the one that is most like it.
    """

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self._negative_number_matcher = _NEGATIVE
        parsed, extra = super().parse_known_args(args, namespace)
        if extra:
            hint = nearest(extra[0].partition('=')[0], self._option_string_actions)
            self.error(f'unrecognized arguments: {" ".join(extra)}{hint and "; "}{hint}')
        return parsed, extra

    def error(self, message: str) -> NoReturn:
        super().error(brief(message))


def _require_text(arguments: Sequence[str]) -> None:
    """Reject arguments that cannot be used as a file name or passed to a process.

    Raises:
        ConfigurationError: An argument contains a null byte, or is not UTF-8.
    """
    for word in arguments:
        if re.search(r'[\0\ud800-\udfff]', word):
            raise ConfigurationError(
                f'argument {ascii(word)}', 'is not text', 'names of files are UTF-8'
            )


_ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def _handled(signals: Sequence[int], handler: Any) -> Iterator[None]:
    """Handle signals otherwise for a while, if this is the main thread."""
    ours = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, handler) for number in signals if ours}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


def _name() -> str:
    """Return the program name as the user invoked it."""
    program = Path(sys.argv[0]).stem
    return program if program == 'robot-dynamics' else 'python -m robot_dynamics_ros'


@contextlib.contextmanager
def _libraries(name: str) -> Iterator[None]:
    """Name the library that a command lacks.

    Raises:
        MissingDependencyError: A library is not installed, or a file is taken for it.
    """
    try:
        yield
    except ImportError as error:
        missing = error.name or getattr(error.__context__, 'name', None) or ''
        library = missing.split('.')[0]
        if library in ('', 'robot_dynamics_ros') or isinstance(error, RobotDynamicsError):
            raise
        spec, package = find_spec(library), {'yaml': 'pyyaml'}.get(library, library)
        remedy = (
            f'{spec.origin} is taken for it: rename that file, or update the package'
            if spec
            else f"install it (pip '{package}')"
        )
        raise MissingDependencyError(
            missing if spec else library, f'the command {name}', remedy
        ) from error


def _command(name: str) -> Any:
    """Return a command, a ``cli.arguments.Command``."""
    module = import_module(f'robot_dynamics_ros.cli.{_MODULES.get(name, name)}')
    return module.COMMANDS[name]


# Lazy import -------------------------------------------------------------------------------------


class PostponedModule(ModuleType):
    """Placeholder for a library that imports it on the first attribute access."""

    def __getattr__(self, name: str) -> Any:
        """Import the library and return its attribute."""
        own = self.__dict__['__name__']
        if sys.modules.get(own) is self:
            del sys.modules[own]
        library = None
        with contextlib.suppress(ImportError):  # of one that is broken
            library = import_module(own)
        if not hasattr(library, 'ndarray'):
            raise ModuleNotFoundError(name=own)
        self.__class__ = ModuleType  # type: ignore[assignment] # plain attribute lookup again
        self.__dict__.update(library.__dict__)
        return getattr(library, name)


@contextlib.contextmanager
def postponed(name: str) -> Iterator[None]:
    """Postpone the import of a library; a library that is never used stays unloaded.

    Args:
        name: Name of the library. No effect if it is already imported or not installed.
    """
    spec = None if name in sys.modules else find_spec(name)
    if spec is None:
        yield
        return
    module = PostponedModule(name)
    module.__spec__ = spec
    sys.modules[name] = module
    try:
        yield
    finally:
        if sys.modules.get(name) is module:
            del sys.modules[name]


if __name__ == '__main__':
    if not sys.flags.safe_path and sys.path[0] != str(Path(__file__).parents[1]):
        del sys.path[0]  # of python -m: files beside one's work hide no library
    sys.exit(main())
