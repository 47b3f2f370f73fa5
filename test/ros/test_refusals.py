# SPDX-License-Identifier: Apache-2.0
"""What no node can start with ends it with one line that names culprit and remedy.

All are started one after the other in one process.
"""

import json
import re
import subprocess
import sys

import pytest
import yaml
from processes import Processes, free_domain

#: Without it the row would be refused for another reason.
USUAL = yaml.safe_load("""
controller: {robot: four_dof}
simulator: {robot: scara}
driver_emulator: {robot: scara, initial_position: [0.2, 0.6, 0.1, -0.3]}
trajectory: {robot: scara, kind: point, goal: [0.1, 0.9, 0.15, 0.0]}
monitor: {robot: scara}
gazebo_robot: {robot_description: <robot name="scara"/>}
recorder: {bag: never_begun}
""")
#: Node, parameters or words after --ros-args, what is said.
TABLE = """
controller {robot: '', robot_description: <robot} | malformed XML
controller {qos_overrides./effort_controller/commands.publisher.depth: -5} | error: topic 'effort_controller/commands':
controller {qos_overrides./joint_states.subscription.reliability: magic} | error: topic 'joint_states': Unexpected QoS override for policy `reliability`
controller {use_sim_time: -0.5}                | node: Trying to set parameter 'use_sim_time'
controller {robot: scara, law: constraint_stabilization, program: 'constraints: [{kind: point, frame: tool, target: [2.0, 0.0, 0.3]}]'} | cannot be reached
simulator {robot: puma}                        | unknown robot 'puma'; known:
simulator {initial_position: [0.0, 9.0, 0.1, 0.0]} | initial_position = 9.0 refused: the limits of joint 'joint2'
simulator {joints: [joint1, joint2, joint2]}   | joint 'joint2': is named twice
simulator {mass_factor: [0.0]}                 | a mass factor must be positive
simulator {period: fast}                       | parameter 'period': is 'fast'; must be a finite
driver_emulator {driver_profile: nobody}       | is not a file; give a path, or the name of a shipped one
driver_emulator {breakaway: [0.5]}             | of at least 1
driver_emulator {cogging: [-1.0]}              | finite and not negative
driver_emulator {robot: four_dof, driver_profile: template, initial_position: [0.0]} | position_unit: is mm, but the joint turns
trajectory {start_time_s: 2147483648.0}        | parameter 'start_time_s': is 2147483648.0; must be
trajectory {kind: spiral}                      | unknown kind 'spiral'; known: circle,
trajectory {kind: file, file: gone.yaml}       | trajectory file 'gone.yaml'
trajectory {state_topic: a b}                  | Invalid topic name
monitor {effort_source: guess}                 | source 'guess'; known: command, measured
monitor {acceleration: guess}                  | acceleration 'guess'; known: filtered, semi_im
monitor {residual_warn: [1.0, 2.0]}            | give 1 or 4 numbers
gazebo_robot {robot_description: ''}           | give the URDF text of the robot
gazebo_robot {pose: [0.0, 1.0]}                | x, y, z, roll, pitch, yaw
gazebo_robot {unpause: perhaps}                | 'perhaps'; known: at_once, never, ready
gazebo_robot {}                                | the node gazebo_robot needs the command gz, which is not installed
view [-p, 'states:=a b']                       | Invalid topic name
recorder {bag: .}                              | exists already; choose another name
recorder {extra_topics: [x std_msgs/msg/Nothing]} | error: message type 'std_msgs/msg/Nothing': is not inst
recorder {extra_topics: [x std_msgs/msg/String y]} | error: message type 'std_msgs/msg/String y': is not inst
recorder {extra_topics: [x Nothing]}           | error: message type 'Nothing': is not inst
recorder {extra_topics: [x /msg/String]}       | error: message type '/msg/String': is not inst
recorder {controller: a b}                     | error: controller: 'a b': failed to resolve name
recorder {extra_topics: [foo-bar]}             | error: extra_topics: 'foo-bar': failed to resolve name
recorder {extra_topics: [/a//b std_msgs/msg/String]} | error: extra_topics: '/a//b': failed to resolve name
recorder [--params-file, latin.yaml]           | is not UTF-8 text
recorder [--params-file, mixed.yaml]           | Couldn't parse params file
recorder [--params-file, whole.yaml]           | write all numbers of a list with a point
recorder [--params-file, /proc/self/mem]       | cannot be read
recorder [--params-file, LONG]                 | is not a file
recorder [-p, bag]                             | Couldn't parse parameter override rule
recorder [--nonsense]                          | nonsense
controller [--, --help]                         | --help has no effect; write --ros-args first
""".replace('LONG', 'x' * 5000)  # noqa: E501
ROWS = re.findall(r'^(\w+) (.*?) *\| (.*)$', TABLE, re.MULTILINE)
FILES = {
    'latin.yaml': 'name: k\xf6rper'.encode('latin-1'),
    'mixed.yaml': b'/**:\n  ros__parameters:\n    x: [1, a]\n',
    'whole.yaml': b'/**:\n  ros__parameters:\n    x: [1, 0.5]\n',
}
#: A node that starts instead is ended after a minute; the following rows lack their line.
CODE = """
import contextlib, io, json, os, signal
from pathlib import Path
from robot_dynamics_ros.ros.executables import run_executable
os.environ['PATH'] = ''  # no gz
os.chdir({folder!r})
for node, words in json.loads(Path('rows').read_text()):
    signal.alarm(60)
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        code = run_executable(node, [node, '--ros-args', *words])
    print('refused', json.dumps([code, said.getvalue()]), flush=True)
"""


def words_of(node: str, text: str) -> list[str]:
    given = yaml.safe_load(text)
    if isinstance(given, list):
        return given
    pairs = (USUAL[node] | given).items()
    return [word for k, x in pairs for word in ('-p', f'{k}:={json.dumps(x)}')]


@pytest.fixture(scope='module')
def refused(tmp_path_factory) -> list[tuple[int, str]]:
    """Return exit code and standard error of each row."""
    folder = tmp_path_factory.mktemp('refused')
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    rows = json.dumps([(node, words_of(node, text)) for node, text, _ in ROWS])
    (folder / 'rows').write_text(rows)
    with free_domain() as domain, Processes(folder, domain) as processes:
        node = processes.start('refused', code=CODE.format(folder=str(folder)))
        node.wait(120.0)
        assert not (folder / 'never_begun').exists()
        lines = [x for x in node.output.splitlines() if x.startswith('refused ')]
        return [tuple(json.loads(line.removeprefix('refused '))) for line in lines]


@pytest.mark.parametrize('row', range(len(ROWS)))
def test_a_start_that_cannot_be_ends_with_one_clear_line(refused, row):
    code, said = refused[row]
    assert code == 2
    assert said.startswith('error: ')
    assert said.count('\n') == 1
    assert ROWS[row][2] in said


def test_a_security_policy_needs_a_file():
    command = [sys.executable, '-m', 'robot_dynamics_ros.ros.security']
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 2
    assert ended.stderr.endswith('error: the following arguments are required: file\n')
