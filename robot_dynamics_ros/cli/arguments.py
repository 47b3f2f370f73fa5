# SPDX-License-Identifier: Apache-2.0
"""Command-line arguments: how they are declared, and those that several commands have.

A command is a :class:`Command` in ``COMMANDS`` of its module. Its options are a table; the tables
below are shared: the robot, its joints and obstacles, how recordings are read, where results go.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from robot_dynamics_ros import yaml_reader as read
from robot_dynamics_ros.cli.sign_of_life import sign_of_life
from robot_dynamics_ros.description.packages import give_packages
from robot_dynamics_ros.description.shipped import MECHANISMS, ROBOTS, robot_file
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.model.arm import load_arm
from robot_dynamics_ros.model.build import EffortLimit
from robot_dynamics_ros.model.robot_parameters import assignments, choice_of_joints
from robot_dynamics_ros.model.robot_tree import STANDARD_GRAVITY, Robot
from robot_dynamics_ros.recordings.output_folder import require_free_file, write_json
from robot_dynamics_ros.recordings.reading import RobotChoice
from robot_dynamics_ros.recordings.timing import AUTO, TIMINGS
from robot_dynamics_ros.yaml_reader.parsing import parse_yaml

#: Settings of arguments for argparse, by their names and the names of their values, such as
#: ``--gravity X Y Z``.
Options = dict[str, dict[str, Any]]


#: Exit code of a command, or that and a document.
Outcome = int | tuple[int, Mapping[str, Any]]


class Command(NamedTuple):
    """A command.

    Attributes:
        run: Executes it with the parsed arguments; returns the exit code, and what ``--json``
            writes, if it has that option.
        options: Its arguments, in the order of the help.
        epilog: Returns the text after the help on the arguments.
        lasts: Whether it runs until it is ended; others print a sign of life while they compute.
    """

    run: Callable[[argparse.Namespace], Outcome]
    options: Options
    epilog: Callable[[], str] = str
    lasts: bool = False

    def declare(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments to a parser."""
        parser.epilog = self.epilog()
        if parser.epilog:
            parser.formatter_class = argparse.RawDescriptionHelpFormatter
        for key, settings in self.options.items():
            first, *others = key.split()
            names = [first, *(word for word in others if word.startswith('-'))]
            values = tuple(others[len(names) - 1 :])
            given = {k: x for k, x in settings.items() if k != 'check'}
            for rule, word in (('needs', 'with'), ('without', 'without')):
                if other := given.pop(rule, ''):
                    given['help'] = f'{word} {other}: {given["help"]}'
            if values[1:]:
                given |= {'metavar': values, 'nargs': len(values)}
            elif values:
                given['metavar'] = values[0]
            if given.get('type') is Path or not first.startswith('-'):
                given['type'] = partial(_named_something, given.get('type', str))
            parser.add_argument(*names, **given)

    def execute(self, args: argparse.Namespace) -> int:
        """Check the arguments and run the command; return the exit code.

        Raises:
            ConfigurationError: A number is not finite or out of the range that its option
                declares, an option has no effect without or with another one, or a file would be
                lost.
        """
        words = given(args, self.options)
        for key, settings in self.options.items():
            name = key.split()[0]
            if name not in words:
                continue
            number = settings.get('type') is float
            if check := settings.get('check', read.number if number else None):
                for value in _flat(getattr(args, _destination(key, settings))):
                    check(name, value)
            needs, without = settings.get('needs', ''), settings.get('without', '')
            if needs and not _named(words, needs):
                remedy = f'add {needs}, or leave it out'
                raise ConfigurationError(name, 'has no effect alone', remedy)
            if other := _named(words, without):
                culprit = name if name.startswith('-') else key.split()[-1]
                raise ConfigurationError(culprit, f'has no effect with {other}', 'leave one out')
        file = getattr(args, 'json', None)
        if file:
            require_free_file(file, force=args.force)
        give_packages(getattr(args, 'package', ()))
        with nullcontext() if self.lasts else sign_of_life(args.command):
            outcome = self.run(args)
        code, document = outcome if isinstance(outcome, tuple) else (outcome, {})
        if file:
            write_json(file, {'command': args.command, **document})
        return code

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Return the arguments of a command line."""
        parser = argparse.ArgumentParser()
        self.declare(parser)
        return parser.parse_args(words)


def _named_something(kind: Callable[[str], Any], word: str) -> Any:
    """Return a word as it is needed, unless it is empty, as a variable that is not set."""
    if not word:
        raise argparse.ArgumentTypeError('is empty')
    return kind(word)


def _named(words: Mapping[str, list[str]], options: str) -> str:
    """Return which of options in words, see :func:`option`, is given; empty if none is."""
    ways = [one.split() for one in options.split(' or ')] if options else []
    return next((' '.join(x) for x in ways if words.get(x[0], [])[: len(x)] == x), '')


def _destination(key: str, settings: Mapping[str, Any]) -> str:
    """Return the attribute of the parsed arguments that has the value of an option."""
    name = settings.get('dest') or key.split()[0].strip('-').replace('-', '_')
    return str(name)


def option(default: Any, text: str, **settings: Any) -> dict[str, Any]:
    """Return the settings of an argument for argparse.

    Args:
        default: Default value, to whose type values are converted; if there is none, the type
            itself, or None for a text; False for a flag.
        text: Help; the default is appended, unless it says one.
        settings: Further keyword arguments of ``add_argument``; ``check``, a function of a
            name and a number that raises an error; ``needs``, options without which, or without
            whose value, this one has no effect, such as ``--lower or --method lqr``; and
            ``without``, options with which it has none.
    """
    if default is False:
        return {'action': 'store_true', 'help': text, **settings}
    if isinstance(default, type):
        return {'type': default, 'help': text, **settings}
    if default is None or isinstance(default, (list, tuple)):
        return {'default': default, 'help': text, **settings}
    written = f'{default:g}' if isinstance(default, float) else str(default)
    if written and '(default' not in text:
        text += f' (default: {written})'
    return {'default': default, 'type': type(default), 'help': text, **settings}


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(',') if word.strip()]


def _seconds(which: str, default: float) -> dict[str, Any]:
    text = f'{which} time to use, s, as printed; on a wall clock also since the first state'
    return {'dest': f'{which}_second', 'type': float, 'default': default, 'help': text}


#: Placeholder for missing effort limits, which the equations of motion do not need.
_ANY_LIMIT = 1.0

#: Help text of every robot argument.
ROBOT_HELP = 'URDF or xacro file, package://PACKAGE/PATH, or one of: ' + ', '.join(
    (*ROBOTS, *MECHANISMS)
)

PACKAGES: Options = {
    '--package NAME:=PATH': option(
        [],
        'folder of a ROS package that the description names, if it is neither cloned above or '
        'next to the description nor installed; may be repeated',
        action='append',
    ),
}
MAPPING: Options = {
    'mapping NAME:=VALUE': option([], 'argument of a xacro file', nargs='*'),
    **PACKAGES,
}
#: The controlled joints, the positions of the locked ones, and the closed loops.
JOINTS: Options = {
    '--joints A,B,...': option(
        [],
        'joints to control; the others are locked (default: all; of an arm to move, without those '
        'of grippers)',
        type=_words,
    ),
    '--base LINK': option('', 'with --tip: base link of the chain'),
    '--tip LINK': option('', 'control the joints between base and this link'),
    '--locked A:=X,...': option(
        [],
        'positions of locked joints, rad or m (default: 0, or the limit nearest to it)',
        type=_words,
    ),
    '--mimic': option(
        'couple',
        'mimic joints: coupled to their joints (default), or locked',
        choices=('couple', 'lock'),
    ),
    '--loops FILE': option(
        '', 'mechanism file with the loops of the robot (default: that of a shipped mechanism)'
    ),
}
GRAVITY: Options = {
    '--gravity X Y Z': option(
        STANDARD_GRAVITY,
        'gravitational acceleration in the base frame, m/s^2 (default: 0 0 -9.81)',
        type=float,
    ),
}
ROBOT: Options = {'robot': option(None, ROBOT_HELP), **MAPPING, **JOINTS, **GRAVITY}
EFFORT_LIMIT: Options = {
    '--effort-limit NM': option(
        float, 'effort limit of joints without one in the description, N m or N'
    ),
}
OBSTACLES: Options = {
    '--box X Y Z DX DY DZ': option(
        [],
        'box to avoid: centre and size in the base frame, m; may be repeated',
        type=float,
        action='append',
    ),
    '--ground-below M': option(
        0.0,
        'distance of the ground below the base frame and the fixed bodies, m',
        check=read.number,
    ),
}
#: A set-up beyond the robot and its joints.
SETUP: Options = {
    **GRAVITY,
    **EFFORT_LIMIT,
    '--frame LINK': option(
        '', 'tool frame (default: --tip, else the end of the longest chain of controlled joints)'
    ),
    **OBSTACLES,
}
#: The description, the conversion of recorded numbers, and the time range.
PART: Options = {
    **PACKAGES,
    '--robot --description ROBOT': option(
        '', f'{ROBOT_HELP} (default: the description in the first bag)', dest='described_by'
    ),
    '--identified FILE': option(
        '',
        'parameters.yaml of command identify, which replaces inertia, friction and armature of '
        'the description (default: that of the recorded controller, if any)',
    ),
    '--driver-profile FILE': option(
        '',
        'driver profile to convert recorded numbers with (currents, percent, signs, names): a '
        'YAML file, or the name of a shipped profile (default: SI units at the joints)',
    ),
    '--namespace': option('', 'namespace of the robot, if a bag has several'),
    '--states TOPIC': option(
        '',
        'topic of the joint states; A,B,... puts parts of one arm together (default: found by '
        'type and name)',
    ),
    '--commands TOPIC': option('', 'topic of the commanded efforts (default: likewise)'),
    '--reference TOPIC': option('', 'topic of the joint references (default: likewise)'),
    '--recorded-joints A,B,...': option(
        [],
        'recorded names of the joints, in the order of the model, if they differ',
        type=_words,
    ),
    '--from S': _seconds('first', -math.inf),
    '--to S': _seconds('last', math.inf),
}
#: The robot model for recordings, and how they are read.
RECORDING: Options = {
    **PART,
    '--gravity X Y Z': option(
        float,
        'gravitational acceleration in the base frame, m/s^2 (default: that of the recorded '
        'controller, else 0 0 -9.81; Gazebo uses 0 0 -9.8)',
    ),
    **EFFORT_LIMIT,
    **JOINTS,
}
#: The processes that read the bags.
JOBS: Options = {
    '--jobs': option(
        0, 'number of processes; 0: one per processor (default)', without='--scheduler'
    ),
    '--scheduler tcp://HOST:PORT': option(
        '', 'Dask scheduler whose workers read the bags; they need access to the same files'
    ),
}
TIMING: Options = {
    '--timing': option(
        AUTO,
        'how accelerations are assigned to states and efforts (default: determined from the data)',
        choices=(AUTO, *TIMINGS),
    ),
    '--cutoff HZ': option(
        AUTO,
        'cut-off frequency of the zero-phase filter, Hz; none: no filter (default: from the data)',
    ),
}
TOOL_FRAME: Options = {'--frame': option('', 'tool frame (default: the end of the longest chain)')}
FORCE: Options = {'--force': option(False, 'overwrite files that exist')}
JSON: Options = {'--json FILE': option(Path, 'also write the result to a JSON file'), **FORCE}


def threshold(file: str) -> Options:
    """Return the option that bounds the metrics in a file."""
    text = (
        f'upper bound on a metric in {file} (lower bound: KEY>=VALUE); exit code 1 if violated; '
        "for a list of joints the worst one counts; 'list' prints the metrics"
    )
    return {'--threshold KEY=VALUE': option([], text, action='append')}


def output(usual: Path | None = None) -> Options:
    """Return the options of the output folder, which is required unless there is a default."""
    default = f' (default: {usual}/...)' if usual else ''
    return {
        '--output DIR': option(Path, f'folder of the results{default}', required=usual is None),
        **FORCE,
    }


def given(args: argparse.Namespace, options: Options) -> dict[str, list[str]]:
    """Return the options of a table that have another value than their default.

    Returns:
        The words that give each of them to a command, by its name.
    """
    words: dict[str, list[str]] = {}
    for key, settings in options.items():
        default: Any = settings.get('default')
        name, value = key.split()[0], getattr(args, _destination(key, settings), default)
        if value is False or value in (default, []):
            continue
        if settings.get('type') is _words:
            value = ','.join(value)
        times = value if settings.get('action') == 'append' else [value]
        words[name] = [str(word) for x in times for word in (name, *_flat(x))]
    return words


def _flat(value: Any) -> list[Any]:
    """Return the values of an option that may be a list, or a list of lists."""
    return [y for x in value for y in _flat(x)] if isinstance(value, list) else [value]


def refuse_given(args: argparse.Namespace, options: Options, what: str) -> None:
    """Refuse options of one arm where no arm is named.

    Args:
        args: Parsed arguments.
        options: The table of these options.
        what: What runs instead.

    Raises:
        ConfigurationError: One of them is given.
    """
    if names := given(args, options):
        raise ConfigurationError(', '.join(names), f'has no effect on {what}', 'name an arm')


def arm_of(args: argparse.Namespace) -> Robot:
    """Load the arm that the arguments select, see ``load_arm``; effort limits are required.

    Raises:
        DescriptionError: It cannot be read, or a mapping has no value.
        UnknownNameError: It is neither a file nor a shipped robot.
    """
    return robot_of(args, args.effort_limit, load_arm)


def robot_of(
    args: argparse.Namespace,
    effort_limit: EffortLimit = _ANY_LIMIT,
    load: Callable[..., Robot] = load_robot,
) -> Robot:
    """Load the robot that the arguments select.

    Args:
        args: Parsed arguments.
        effort_limit: As for ``load_robot``, N m or N; None if limits are required.
        load: ``load_robot`` or ``load_arm``.

    Raises:
        DescriptionError: It cannot be read, or a mapping has no value.
        UnknownNameError: It is neither a file nor a shipped robot.
    """
    path, mappings = robot_source(args)
    joints = joints_of(args, args.robot)
    robot = load(path, args.gravity, effort_limit=effort_limit, mappings=mappings, **joints)
    asked = getattr(args, 'effort_limit', None)
    if asked not in (None, *robot.effort_limit):
        print('remark: --effort-limit has no effect, every joint has a limit', file=sys.stderr)
    return robot


def robot_with_remarks(args: argparse.Namespace, load: Callable[..., Robot] = load_robot) -> Robot:
    """Load the robot as ``robot_of`` does, and print the remarks on it to stderr."""
    tree = robot_of(args, load=load)
    for remark in tree.remarks:
        print(f'remark: {remark}', file=sys.stderr)
    return tree


def robot_source(args: argparse.Namespace) -> tuple[str | Path, dict[str, str]]:
    """Return the file of the robot that the arguments select, and its xacro arguments.

    Raises:
        ConfigurationError: A mapping has no value.
        UnknownNameError: It is neither a file nor a shipped robot.
    """
    return robot_file(args.robot), assignments('argument', args.mapping)


def joints_of(args: argparse.Namespace, robot: str) -> dict[str, Any]:
    """Return the joints and loops that the arguments select, as keywords of ``load_robot``.

    Args:
        args: Parsed arguments ``JOINTS``.
        robot: The robot; a shipped mechanism has loops without ``--loops``.

    Raises:
        ConfigurationError: The arguments select a part of a mechanism.
    """
    loops = args.loops or (robot if robot in MECHANISMS else '')
    asked = [name for name in given(args, JOINTS) if name not in ('--mimic', '--loops')]
    if loops and asked:
        problem = 'does not apply to a mechanism with loops'
        raise ConfigurationError(', '.join(asked), problem, 'leave it out')
    return choice_of_joints({**vars(args), 'loops': loops})


def set_values(words: Sequence[str]) -> dict[str, Any]:
    """Return the values of ``--set KEY=VALUE`` by key, parsed as YAML.

    Raises:
        ConfigurationError: An argument has no ``=``, or its value is not valid YAML.
    """
    values: dict[str, Any] = {}
    for word in words:
        key, separator, value = word.partition('=')
        if not separator:
            raise ConfigurationError(f'--set {word}', 'has no =', 'write KEY=VALUE')
        values[key.strip()] = parse_yaml(value, f'--set {key.strip()}')
    return values


def ros_parameters(values: Mapping[str, Any]) -> list[str]:
    """Return the ROS arguments that set parameters; their YAML values are written as JSON."""
    words = (('-p', f'{name}:={json.dumps(value)}') for name, value in values.items())
    return list(chain.from_iterable(words))


def cutoff_of(args: argparse.Namespace) -> float | str | None:
    """Return the cut-off frequency, Hz; None for no filter, or 'auto'.

    Raises:
        ConfigurationError: It is no positive number.
    """
    if args.cutoff in (AUTO, 'none'):
        return AUTO if args.cutoff == AUTO else None
    try:
        cutoff = float(args.cutoff)
    except ValueError:
        cutoff = math.nan
    if not 0.0 < cutoff < math.inf:
        raise ConfigurationError('--cutoff', f'is {args.cutoff!r}', f'give Hz, none or {AUTO}')
    return cutoff


def recording_choice(args: argparse.Namespace) -> RobotChoice:
    """Return the robot that the arguments select, and how its recordings are read."""
    return RobotChoice(
        robot=args.described_by,
        gravity=tuple(args.gravity) if args.gravity else None,
        effort_limit=args.effort_limit,
        selection=joints_of(args, args.described_by),
        recorded_joints=tuple(args.recorded_joints),
        topics={
            key: getattr(args, key) for key in ('namespace', 'states', 'commands', 'reference')
        },
        driver_profile=args.driver_profile,
        identified=args.identified,
        span=(args.first_second, args.last_second),
    )
