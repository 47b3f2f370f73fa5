# SPDX-License-Identifier: Apache-2.0
"""Generate the tables of the reference pages: commands, parameters, topics, modes, notation."""

from __future__ import annotations

import ast
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
from robot_dynamics_ros.control.goals import joint_tolerances
from robot_dynamics_ros.parameters import table
from robot_dynamics_ros.ros.executables import NODES, declared_parameters

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

#: Content of each topic and service; a missing entry stops the build of the page.
MEANINGS = {
    '/clock': 'simulated time',
    '/controller/changes': 'recorded, so that a replay commands the same',
    '/controller/constraint': 'displayed',
    '/controller/constraint_condition': 'displayed',
    '/controller/effort_components': 'displayed',
    '/controller/enable_guiding': 'recorded',
    '/controller/external_wrench': 'displayed',
    '/controller/joint_trajectory': "the motion, on the controller's `~/joint_trajectory`",
    '/controller/measured_wrench': 'recorded',
    '/controller/parameters': 'recorded, so that a replay can build the same controller',
    '/controller/reference': 'recorded',
    '/controller/trajectory_status': 'whether the motion was accepted and completed, or why not',
    '/controller/speed_scaling_input': 'recorded',
    '/controller/target_joint': 'recorded',
    '/controller/target_pose': 'recorded',
    '/controller/target_wrench': 'recorded',
    '/diagnostics': 'once per second: level, reason, counts and times',
    '/effort_controller/commands': 'efforts in the order of parameter `joints`, N m or N; or '
    '`<joint>/cmd_force`, or the topic of the driver profile',
    '/joint_states': 'positions, velocities and efforts by joint name; or the topic of the '
    'driver profile',
    '/robot_description': 'URDF text, latched',
    '/simulator/push': 'external wrench on a simulated robot',
    '~/add_waypoint': 'append the current position to the trajectory file `waypoint_file`',
    '~/armature': 'effort of the rotor inertia according to the model',
    '~/carry_payload': 'attach or release the payload of the parameters',
    '~/changes': 'every change of the controller besides its states, as JSON: activation, '
    'parameters, trajectories, streams, stops, dated by the first tick that it acts on',
    '~/constraint': 'value f of every row of the program, its rate, and the reaction as effort',
    '~/constraint_condition': 'smallest singular value and condition number of the constraint '
    'Jacobian, whether its inverse is damped, and the fraction that the effort limits permit',
    '~/controller_state': 'state of the motion, as published by joint_trajectory_controller, if '
    '`control_msgs` is installed',
    '~/coriolis': 'centrifugal and Coriolis effort according to the model',
    '~/difference': 'effort by the first minus effort by the second formulation',
    '~/effort': 'effort according to the model',
    '~/effort_components': 'components of the command: feedforward, feedback, friction',
    '~/enable_guiding': 'whether the enabling switch of `hand_guiding` is pressed, streamed',
    '~/error': 'reference minus measured position and velocity',
    '~/external_effort': 'external effort on every joint, estimated without a sensor',
    '~/external_wrench': 'the wrench at `wrench_frame` that explains the external effort',
    '~/friction': 'viscous and Coulomb friction according to the model',
    '~/gravity': 'gravity effort according to the model',
    '~/inertia': 'mass matrix times acceleration according to the model',
    '~/joint_trajectory': 'a motion, with the rules of joint_trajectory_controller',
    '~/measured_wrench': 'external wrench on the arm, measured by a force sensor, in the axes of '
    "the sensor's link",
    '~/other': 'effort according to the second formulation, if one is configured',
    '~/parameters': 'all parameters as YAML, latched, published at every change',
    '~/pause': 'pause or resume',
    '~/push': 'external wrench on the robot, in the axes and about the origin of the link '
    '`header.frame_id`, for `push_timeout_s`',
    '~/ready': 'succeeds once states and commands have been received, and parameters and '
    'description if they are published',
    '~/recover': 'end a reflex of the emulated robot',
    '~/reference': 'position, velocity, and command as effort, of the tick',
    '~/reset': 'return to the initial state',
    '~/residual': 'recorded effort minus effort according to the model',
    '~/resume': 'resume after a reaction to a contact',
    '~/speed_scaling_input': 'speed factor of trajectories, 0 to 1, if control_msgs '
    'is installed; latched',
    '~/step': 'one step while paused',
    '~/tare_wrench': 'set `sensor_bias` so that an arm at rest measures no external wrench',
    '~/target_joint': 'target positions of joints, streamed; at any rate, may jump',
    '~/target_pose': 'target pose of `target_frame` in the frame of any link, streamed',
    '~/target_wrench': 'wrench to be applied at `target_frame`, streamed',
    '~/unexplained_effort': 'part of the external effort that no wrench at `wrench_frame` '
    'explains',
    '~/trajectory_status': 'response to every trajectory, with the reason for a rejection; then '
    '`reached` or `aborted: REASON`, each with the start of the trajectory; latched',
}


@cache
def nodes() -> dict[str, Any]:
    """Return the topics and services of every node, see ``nodes.py``.

    Raises:
        RuntimeError: A node could not be created.
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


def root_page(name: str) -> str:
    """Return a page of the project's root, with the links that it has within the site."""
    text = (ROOT / name).read_text(encoding='utf-8')
    return text.replace('](docs/', '](').replace('](CONTRIBUTING.md', '](contributing.md')


def results() -> str:
    """Return the measured tables, and what the evaluator of the fault campaign excludes."""
    tables = [
        x.read_text(encoding='utf-8').replace('\n', f' {{: #{x.stem} }}\n', 1)
        for x in sorted((ROOT / 'docs/results').glob('*.md'))
    ]
    file = ROOT / 'test' / 'campaigns' / 'fault_evaluator.py'
    text = ast.get_docstring(ast.parse(file.read_text(encoding='utf-8'))) or ''
    return '\n\n'.join([*tables, '## Fault campaign', text.replace('``', '`')])


def commands() -> str:
    """Return the table of all commands with their options."""
    parts = [
        '| command | purpose |\n| --- | --- |\n'
        + '\n'.join(f'| [`{name}`](#{name}) | {does} |' for name, does in COMMANDS.items()),
    ]
    for name, does in COMMANDS.items():
        parts += [f'## {name}', f'{does[0].upper()}{does[1:]}.', f'```text\n{_usage(name)}\n```']
    return '\n\n'.join(parts)


def _usage(name: str) -> str:
    """Return the output of a command's --help."""
    printed = StringIO()
    with suppress(SystemExit), redirect_stdout(printed), patch.dict(os.environ, COLUMNS='94'):
        main([name, '--help'])
    return printed.getvalue().strip()


def parameters() -> str:
    """Return the tables of all nodes' parameters."""
    parts: list[str] = []
    for executable in NODES:
        own = joint_tolerances(['<joint>']) if executable == 'controller' else ()
        parts += [f'## {executable}\n', table((*declared_parameters(executable), *own))]
    return '\n'.join(parts).replace('<', '&lt;')  # of words such as <joint>, which are no tags


def topics() -> str:
    """Return the tables of all nodes' topics and services.

    Raises:
        KeyError: A topic has no entry in ``MEANINGS``.
    """
    parts: list[str] = []
    kinds = ('subscriptions', 'publishers', 'services')
    for node, about in nodes().items():
        rows = [
            (f'`{name}`', f'`{kind}`', end.rstrip('s'), MEANINGS[name])
            for end in kinds
            for name, kind in about[end]
        ]
        parts += [f'## {node}', _table(rows, ('name', 'type', '', 'content'))]
    return '\n\n'.join(parts)


def transitions() -> str:
    """Return the transition table of a session, and its terms."""
    notes = _attribute_notes(modes)
    events = tuple(event.value for event in modes.SessionEvent)
    rows = [
        (f'**{mode.value}**', *(_consequence(mode, *row[event]) for event in modes.SessionEvent))
        for mode, row in modes.TABLE.items()
    ]
    parts = [_table(rows, ('mode', *events))]
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


def notation() -> str:
    """Return the notation, the docstring of ``conventions.py``."""
    lines, parts = (conventions.__doc__ or '').splitlines(), ['']
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
