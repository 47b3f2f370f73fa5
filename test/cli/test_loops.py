# SPDX-License-Identifier: Apache-2.0
"""Closed loops on the command line: every command that loads a robot reads ``--loops``."""

import pytest
import yaml
from bags import MS, Motion

from robot_dynamics_ros import __main__ as program
from robot_dynamics_ros.__main__ import COMMANDS
from robot_dynamics_ros.description.shipped import shipped_mechanism
from robot_dynamics_ros.description.urdf import read_description
from robot_dynamics_ros.model import load_robot

DRIVEN = ('lower_arm_joint', 'crank_joint')
#: Words that let each command load a robot: R its description, B a bag, F a new folder or file.
WORDS = yaml.safe_load("""
demo: R
scene: R
simulate: --robot R
control: --robot R
send: --robot R
record: --robot R
monitor: --robot R
emulate: --robot R
commission: R --driver-profile generic_ros2_control --bag B
derive: R
compare_formulations: R
analyze: B --robot R
compare: B B --robot R
replay: B --description R
identify: B --robot R
weigh_tool: B --robot R --wrench /wrench --sensor tool
calibrate: B --robot R
excite: R
design_gains: R --program F
new_robot: R
check_model: R
""")
#: A page that shows what others publish, and shipped arms only.
WITHOUT_ROBOT = {'view', 'identify_demo'}


def test_every_command_that_loads_a_robot_declares_them_once():
    assert COMMANDS.keys() - WORDS.keys() == WITHOUT_ROBOT
    first, *others = (program._command(name).options['--loops FILE'] for name in WORDS)
    assert all(other is first for other in others)


@pytest.fixture(scope='module')
def tree(shared):
    xml = read_description(shipped_mechanism('parallelogram')[0]).xml
    return shared.word(xml)


@pytest.fixture(scope='module')
def bag(shared):
    return shared.word(Motion(40, names=DRIVEN, period=5 * MS).messages())


@pytest.mark.parametrize('name', WORDS)
def test_every_command_reads_the_file(name, tree, bag, command):
    """A file with a wrong coordinate is named by each, in its own place for errors."""
    words = {'R': tree, 'B': bag, 'F': command.folder / 'results'}
    given = [words.get(word, word) for word in WORDS[name].split()]
    loops = {'coordinates': ['lower_arm_joint', 'wing_joint']}
    ended = command(name, *given, '--loops', loops, code=None)
    assert ended.code in (1, 2)
    assert "'wing_joint'" in ended.said


@pytest.mark.slow
def test_the_name_of_a_shipped_mechanism_means_its_loops_too(tree, command):
    for words in (['parallelogram'], [tree, '--loops', 'parallelogram']):
        said = command('check_model', *words, code=None).said
        assert 'loads with 2 joints: lower_arm_joint, crank_joint' in said


@pytest.mark.slow
def test_a_new_robot_keeps_its_loops(tree, command):
    loops = shipped_mechanism('parallelogram')[1]
    folder = command('new_robot', tree, '--loops', loops).folder
    nodes = yaml.safe_load((folder / 'parameters.yaml').read_text())
    named = [
        values['ros__parameters'].get('loops')
        for values in nodes.values()
        if 'robot' in values['ros__parameters']
    ]
    assert named == 5 * [str(folder / 'loops.yaml')]
    robot = load_robot(folder / 'robot.urdf', loops=folder / 'loops.yaml')
    assert robot.joint_names == DRIVEN
    readme = (folder / 'README.md').read_text()
    commands = [line for line in readme.splitlines() if str(folder / 'robot.urdf') in line]
    assert all('--loops' in line for line in commands)
    assert 'gazebo.launch' not in readme, 'it would refuse the arm'
