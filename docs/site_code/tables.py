# SPDX-License-Identifier: Apache-2.0
"""Pages of the reference, derived from the code: commands, parameters, topics, notation."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import redirect_stdout, suppress
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

from robot_dynamics_ros import conventions
from robot_dynamics_ros.__main__ import COMMANDS, main
from robot_dynamics_ros.control import modes
from robot_dynamics_ros.parameters import table
from robot_dynamics_ros.ros.executables import NODES, declared_parameters

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

_PARAMETERS_LEAD = """# Parameters

Of every node, as the code declares them. Set them in a YAML file (`params_file:=` of the launch
files, `--params` of the commands) or one by one (`-p name:=value`). The command
`ros2 param describe NODE NAME` shows the same of a running node. A value that is refused changes
nothing, and the reason is said.
"""
#: What a topic or service carries; a page cannot be made while one of a node is missing here.
MEANINGS = {
    '/clock': 'simulated time',
    '/controller/constraint': 'shown',
    '/controller/constraint_condition': 'shown',
    '/controller/effort_components': 'shown',
    '/controller/enable_guiding': 'recorded',
    '/controller/external_wrench': 'shown',
    '/controller/joint_trajectory': "the motion, on the controller's `~/joint_trajectory`",
    '/controller/measured_wrench': 'recorded',
    '/controller/parameters': 'recorded, so that a replay can build the same controller',
    '/controller/reference': 'recorded',
    '/controller/trajectory_status': 'whether the motion was accepted, and why not',
    '/controller/speed_scaling_input': 'recorded',
    '/controller/target_joint': 'recorded',
    '/controller/target_pose': 'recorded',
    '/controller/target_wrench': 'recorded',
    '/diagnostics': 'once a second: level, reason, counts and times',
    '/effort_controller/commands': 'efforts in the order of parameter `joints`, N m or N; or '
    '`<joint>/cmd_force`, or what the driver profile says',
    '/joint_states': 'positions, velocities and efforts by joint name; or the topic of the '
    'driver profile',
    '/robot_description': 'URDF text, latched',
    '/simulator/push': 'a hand on a simulated robot',
    '~/add_waypoint': 'add where the arm is to the trajectory file `waypoint_file`',
    '~/armature': "the model's share: inertia of the rotors",
    '~/carry_payload': 'take or release the payload of the parameters',
    '~/constraint': 'value f of every row of the program, its rate, and as effort the reaction',
    '~/constraint_condition': 'smallest singular value of the program, and how much it is damped',
    '~/controller_state': 'where the motion is, as of joint_trajectory_controller, where '
    '`control_msgs` is installed',
    '~/coriolis': "the model's share: centrifugal and Coriolis forces",
    '~/difference': 'acting less explained effort',
    '~/effort': 'the effort that acted',
    '~/effort_components': 'what the command is made of: feed-forward, feedback, friction',
    '~/enable_guiding': 'whether the enabling switch of `hand_guiding` is pressed, streamed',
    '~/error': 'reference less measured position and velocity',
    '~/external_effort': 'what the world does to every joint, observed without a sensor',
    '~/external_wrench': 'the wrench at `wrench_frame` that explains it',
    '~/friction': "the model's share: viscous and Coulomb friction",
    '~/gravity': "the model's share: weight",
    '~/inertia': "the model's share: mass matrix times acceleration",
    '~/joint_trajectory': "a motion, by joint_trajectory_controller's rules",
    '~/measured_wrench': "what the world does to the arm at a force sensor's link, in its axes",
    '~/other': 'the other effort, measured or commanded, where both are known',
    '~/parameters': 'all parameters as YAML, latched, anew at every change',
    '~/pause': 'stop or go on',
    '~/push': 'a hand on the robot: a wrench in the axes and about the origin of the link '
    '`header.frame_id`, for `push_timeout_s`',
    '~/ready': 'succeeds once every topic that is recorded has a publisher',
    '~/recover': 'end a reflex of the emulated robot',
    '~/reference': 'position, velocity, and as effort the command, of the tick',
    '~/reset': 'back to the first state',
    '~/residual': 'the filtered difference that the monitor judges by',
    '~/resume': 'go back to work after a reaction to a contact',
    '~/speed_scaling_input': 'how fast trajectories are passed, 0 to 1, where control_msgs '
    'is installed; latched',
    '~/step': 'one step while paused',
    '~/target_joint': 'where joints shall go, streamed; at any rate, with jumps',
    '~/target_pose': 'where `target_frame` shall go, streamed, in the base',
    '~/target_wrench': 'what the arm shall press with at `target_frame`, streamed',
    '~/unexplained_effort': 'what no wrench at `wrench_frame` explains of it',
    '~/trajectory_status': 'the answer to every trajectory, with the reason of a refusal; latched',
}


@cache
def nodes() -> dict[str, Any]:
    """Return what every node opens, see ``nodes.py``.

    Raises:
        RuntimeError: A node could not be made.
    """
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get('PYTHONPATH'))))
    done = subprocess.run(
        [sys.executable, HERE / 'nodes.py'],
        cwd=ROOT,
        env={**os.environ, 'PYTHONPATH': paths},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f'docs/site_code/nodes.py: {done.stderr}')
    return json.loads(done.stdout)


def commands_page() -> str:
    """Return the page of all commands with their options."""
    parts = [
        '# Commands',
        'Run one as `python -m robot_dynamics_ros COMMAND`, in the environment that `make` sets '
        'up as `.venv/bin/python -m robot_dynamics_ros COMMAND`. `--help` shows the same.',
        '| command | does |\n| --- | --- |\n'
        + '\n'.join(f'| [`{name}`](#{name}) | {does} |' for name, does in COMMANDS.items()),
    ]
    for name, does in COMMANDS.items():
        parts += [f'## {name}', f'{does[0].upper()}{does[1:]}.', f'```text\n{_usage(name)}\n```']
    return '\n\n'.join(parts)


def _usage(name: str) -> str:
    """Return what a command's --help prints."""
    printed = StringIO()
    with suppress(SystemExit), redirect_stdout(printed), patch.dict(os.environ, COLUMNS='94'):
        main([name, '--help'])
    return printed.getvalue().strip()


def parameters_page() -> str:
    """Return the page of all nodes' parameters."""
    parts = [_PARAMETERS_LEAD]
    for executable in NODES:
        parts += [f'## {executable}\n', table(declared_parameters(executable))]
    return '\n'.join(parts).replace('<', '&lt;')  # of words such as <joint>, which are no tags


def topics_page() -> str:
    """Return the page of all nodes' topics and services.

    Raises:
        KeyError: A topic has no entry in ``MEANINGS``.
    """
    parts = [
        '# Topics',
        'As every node opens them for the SCARA without a namespace; `~/` stands for the name of '
        'the node. All names are relative to `namespace`. Where `control_msgs` is installed the '
        'controller also serves the action `~/follow_joint_trajectory`; parameters are set over '
        "rclpy's own services.",
    ]
    kinds = ('subscriptions', 'publishers', 'services')
    for node, about in nodes().items():
        rows = [
            (f'`{name}`', f'`{kind}`', end.rstrip('s'), MEANINGS[name])
            for end in kinds
            for name, kind in about[end]
        ]
        parts += [f'## {node}', _table(rows, ('name', 'type', '', 'carries'))]
    return '\n\n'.join(parts)


def modes_page() -> str:
    """Return the page of the session's modes: what follows from which event."""
    notes = _attribute_notes(modes)
    events = tuple(event.value for event in modes.SessionEvent)
    rows = [
        (f'**{mode.value}**', *(_consequence(mode, *row[event]) for event in modes.SessionEvent))
        for mode, row in modes.TABLE.items()
    ]
    parts = [
        '# Modes of a session',
        'What a controller session does about an event, in each of its modes: the action, and the '
        'mode that follows if it is another. The node, a replay and the examples hold the same '
        'object; this is its whole table.',
        _table(rows, ('mode', *events)),
    ]
    for title, names in (
        ('Modes', modes.SessionMode),
        ('Events', modes.SessionEvent),
        ('Actions', modes.SessionAction),
    ):
        listed = [f'* **{one.value}** {notes.get(one.name, "")}'.rstrip() for one in names]
        parts += [f'## {title}', '\n'.join(listed)]
    return '\n\n'.join(parts)


def _consequence(mode: Any, following: Any, action: Any) -> str:
    does = '' if action is modes.SessionAction.NOTHING else action.value
    return does if following is mode else f'{does} → {following.value}'.strip()


def _attribute_notes(module: Any) -> dict[str, str]:
    """Return the comments ``#: …`` above constants, by the name of the constant."""
    commented = re.findall(r'#: ([^\n]*)\n\s*(\w+) = ', Path(module.__file__).read_text('utf-8'))
    return {name: note for note, name in commented}


def notation_page() -> str:
    """Return the notation page, which is the docstring of ``conventions.py``."""
    lines, parts = (conventions.__doc__ or '').splitlines(), ['# Notation']
    for line in lines[1:]:
        if line and not line.startswith(' '):
            parts.append(f'\n## {line}\n')
        else:
            parts.append(line.strip())
    return '\n'.join(parts)


def _table(rows: Any, columns: tuple[str, ...]) -> str:
    lines = [columns, ('---',) * len(columns), *rows]
    return '\n'.join('| ' + ' | '.join(_cell(cell) for cell in line) + ' |' for line in lines)


def _cell(text: str) -> str:
    return text.replace('|', r'\|').replace('\n', ' ')
