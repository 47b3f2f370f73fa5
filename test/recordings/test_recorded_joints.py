# SPDX-License-Identifier: Apache-2.0
"""Recordings of a part of a robot, and the options that choose joints and topics."""

import re
import warnings

import numpy as np
import pytest
import tables
from bags import Message, Motion, defined
from bags import command as command_of
from recorded_arm import frictionless, measured_arm, sinusoidal_run
from urdf_text import joint, link

from robot_dynamics_ros.recordings.recording import Recording

# A finger, whose mass hardly matters.
JAW = link('jaw', 1e-3, (0, 0, 0), 1e-7 * np.eye(3)) + joint(
    'finger', 'tool', 'jaw', 'prismatic', axis=(1, 0, 0), limits=(0.0, 0.04), velocity=0.1,
    effort=10.0,
)  # fmt: skip
WITH_GRIPPER = measured_arm().xml.replace('</robot>', f'{JAW}</robot>')


def run_of(rng, seconds=12.0, names=('pan', 'lift', 'elbow')):
    """Return a run of the arm, which has a gripper; a fourth joint, if named, rests."""
    run = sinusoidal_run(measured_arm(), rng, seconds, friction=frictionless)
    q, v, tau = (
        np.pad(x, [(0, 0), (0, len(names) - 3)])
        for x in (run.position, run.velocity, run.measured_effort)
    )
    run = tuple(names), run.time, q, v, tau, q, v
    return Recording(*run, WITH_GRIPPER, measured_effort=tau)


@pytest.mark.slow
@pytest.mark.parametrize('selection', ['', '--tip tool'])
def test_a_recording_of_the_arm_alone_is_used_though_its_robot_has_more(selection, command, rng):
    words = (*selection.split(), '--effort', 'measured', '--no-report', '--effort-limit', 7)
    figures = command('analyze', run_of(rng, 4.0), *words).figures
    assert '--effort-limit has no effect, every joint has a limit' in figures['notes']
    assert figures['joints'] == ['pan', 'lift', 'elbow']
    assert max(figures['effort']['residual_share']) < 1e-2  # central differences, and the jaw


@pytest.mark.slow
def test_what_is_identified_of_the_arm_alone_locks_the_same_joints(command, rng):
    bag = command.word(run_of(rng, 6.0))
    learned = command('identify --jobs 1', bag)
    said = learned.said.rpartition('Learned from')[2]
    assert 'joints without states are locked (finger)' in said
    identified = ('--identified', learned.folder / 'parameters.yaml')
    words = ('--effort', 'measured', *identified, '--no-report')
    assert 'locked as in' in command('analyze', bag, *words).said
    short = run_of(rng).rows(slice(50))
    assert 'locked as in' in command('replay', short, *identified, code=None).said


#: Names of the recorded joints, the command and its exit code; what it says. Any law may have
#: given the commands that are replayed.
@pytest.mark.slow
@tables.written("""
    [q0 q1 q2, analyze, 2] | recorded are q0, q1, q2; give ... order of pan, lift, elbow, finger ... --recorded-joints
    [pan lift pan, analyze, 2] | name pan more than once ... a prefix
    [q0 q1 q2, 'analyze --recorded-joints q0,q1,q2', 0] | 'finger': taken for a gripper and locked
    [pan lift elbow, 'analyze --joints pan,finger', 2] | joints finger: have no states; recorded are pan, lift, elbow ... --locked
    [pan lift elbow finger, analyze --robot ARM, 0] | joints finger are not of the robot: left out
    [pan lift elbow, replay, 0] | joints without states are locked
    [pan lift elbow, 'replay --set joints=[pan,lift,elbow,finger]', 0] | joints without states are locked
    [a b c, 'replay --recorded-joints a,b,c', 0] | joints without states are locked
""")  # noqa: E501
def test_joints_that_are_not_those_of_the_robot_are_told(given, said, command, rng):
    names, words, code = given
    arm = command.word(measured_arm().xml)
    words = [x.replace('ARM', arm) for x in words.split()]
    words += ['--effort', 'measured'] * (words[0] == 'analyze')
    run = run_of(rng, names=names.split()).rows(slice(100))
    assert re.search(said, command(words[0], run, *words[1:], code=code).said)


@pytest.mark.parametrize('named', [False, True])
def test_commands_of_another_name_are_named_and_read(named, read):
    motion = Motion(50)
    rows = [*motion.states(), *motion.commands('/fwd/cmd'), command_of(0, np.zeros(9), topic='/x')]
    run = read(rows, **({'commands': '/fwd/cmd'} if named else {}))
    assert np.isfinite(run.effort).all() == named
    note = 'no commands were found; if /fwd/cmd or /x has them, give --commands'
    assert (note in run.notes) != named


@pytest.mark.slow
def test_a_finger_at_rest_without_effort_gives_no_warning(command, rng):
    run = run_of(rng, 5.0, ('pan', 'lift', 'elbow', 'finger'))
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        command('identify --jobs 1', run, '--effort', 'measured')


@pytest.mark.slow
def test_a_locked_joint_that_was_elsewhere_or_moved_is_told(command, rng):
    """Pan turns all others about the vertical, which does not matter."""
    run = run_of(rng, 4.0)
    words = ('--joints', 'elbow', '--no-report')
    said = command('analyze', run, *words).out
    low, high = run.position[:, 1].min(), run.position[:, 1].max()
    assert f"warning locked joint 'lift' moved from {low:.4g} to {high:.4g}, the model has" in said
    assert "locked joint 'pan'" not in said
    assert "locked joint 'lift' moved" in command('compare', run, run, *words[:2]).out
    run.position[:, 1], run.velocity[:, 1] = 0.3, 0.0
    assert 'give --locked lift:=0.3' in command('analyze', run, *words).out


@pytest.mark.slow
def test_a_locked_continuous_joint_that_its_driver_wraps_has_not_moved(command, rng):
    run = run_of(rng, 4.0)
    text = re.sub('(?<=<joint name="lift" type=")revolute', 'continuous', run.description)
    run.position[:, 1] = np.where(np.arange(len(run.time)) % 2, 3.141, -3.141)
    words = ('--joints', 'elbow', '--no-report', '--robot', text)
    assert 'lift:=3.14' in command('analyze', run, *words).out.replace('-', '')
    assert 'locked joint' not in command('analyze', run, *words, '--locked', 'lift:=9.425').out


def test_a_controller_state_is_noted_as_not_read(read):
    kind, topic = 'control_msgs/msg/JointTrajectoryControllerState', '/arm_controller/state'
    store = defined(kind, 'string[] joint_names', 'float64[] positions')
    content = store.types[kind](joint_names=['a'], positions=np.zeros(1))
    run = read([*Motion(20).messages(), Message(topic, 0, kind, content, store)])
    assert f'topic {topic} ({kind}) is not read' in run.notes
