# SPDX-License-Identifier: Apache-2.0
"""Recordings of a part of a robot, and the options that choose joints and topics."""

from __future__ import annotations

import json
import shutil
import warnings
from dataclasses import replace

import numpy as np
import pytest
from bags import STORE, Message, Motion, write
from recorded_arm import measured_arm, measured_run, sinusoids, write_run
from rosbags.typesys import get_types_from_msg
from samples import Sample
from urdf_text import joint, link

from robot_dynamics_ros.__main__ import main
from robot_dynamics_ros.recordings.reading import RecordingReader

JAW = 1e-3  # kg


def with_gripper() -> Sample:
    """The arm with a finger, whose mass hardly matters."""
    parts = (
        link('jaw', JAW, (0, 0, 0), 1e-7 * np.eye(3)),
        joint('finger', 'tool', 'jaw', 'prismatic', axis=(1, 0, 0), limits=(0.0, 0.04),
              velocity=0.1, effort=10.0),
    )  # fmt: skip
    return Sample('arm', measured_arm().xml.replace('</robot>', f'{"".join(parts)}</robot>'))


def run_of(rng, *, finger=False, seconds=12.0):
    motion = sinusoids(rng, 3, np.arange(0.0, seconds, 0.01))
    run = measured_run(measured_arm(), motion, lambda v, rigid: 0.0 * v)
    run = replace(run, effort=run.measured_effort, description=with_gripper().xml)
    if not finger:
        return run
    still = np.zeros((len(run.time), 1))
    columns = ('position', 'velocity', 'effort', 'measured_effort', 'reference_position',
               'reference_velocity')  # fmt: skip
    added = {name: np.hstack([getattr(run, name), still]) for name in columns}
    return replace(run, joints=(*run.joints, 'finger'), **added)


def command_line(tmp_path, *words):
    words = (*words, '--output', tmp_path / 'out', '--force')
    return main([str(word) for word in words])


@pytest.mark.slow
@pytest.mark.parametrize('selection', [[], ['--joints', 'pan,lift,elbow'], ['--tip', 'tool']])
def test_a_recording_of_the_arm_alone_is_used_though_its_robot_has_more(selection, tmp_path, rng):
    bag = write_run(tmp_path / 'bag', run_of(rng, seconds=4.0))
    words = (*selection, '--effort', 'measured', '--no-report')
    assert command_line(tmp_path, 'analyze', bag, *words) == 0
    figures = json.loads((tmp_path / 'out' / 'metrics.json').read_text())
    assert figures['joints'] == ['pan', 'lift', 'elbow']
    assert max(figures['effort']['residual_share']) < 1e-2  # central differences, and the jaw


@pytest.mark.slow
def test_what_is_identified_of_the_arm_alone_locks_the_same_joints(tmp_path, rng, capsys):
    bag = write_run(tmp_path / 'bag', run_of(rng))
    assert command_line(tmp_path, 'identify', bag, '--jobs', 1) == 0
    shutil.move(tmp_path / 'out', tmp_path / 'model')
    identified = ('--identified', tmp_path / 'model' / 'parameters.yaml')
    said = capsys.readouterr().out.rpartition('Learned from')[2]
    assert 'joints without states are locked (finger)' in said
    words = ('--effort', 'measured', *identified, '--no-report')
    assert command_line(tmp_path, 'analyze', bag, *words) == 0
    assert 'locked as in' in capsys.readouterr().out
    run = run_of(rng).rows(slice(50))
    run = replace(run, reference_position=run.position, reference_velocity=run.velocity)
    short = write_run(tmp_path / 'short', run)
    assert command_line(tmp_path, 'replay', short, *identified) in (0, 1)
    assert 'locked as in' in capsys.readouterr().out


def test_other_names_are_refused_with_the_option_for_them(tmp_path, rng, capsys):
    run = run_of(rng).rows(slice(100))
    bag = write_run(tmp_path / 'bag', replace(run, joints=('q0', 'q1', 'q2')))
    assert command_line(tmp_path, 'analyze', bag) == 2
    remedy = 'if they are pan, lift, elbow, in this order: --recorded-joints q0,q1,q2'
    assert remedy in capsys.readouterr().err
    (tmp_path / 'pan.csv').write_text('t,pos,vel\n0,1,0\n0.1,1,0\n')
    (tmp_path / 'arm.urdf').write_text(run.description)
    words = (tmp_path / 'pan.csv', '--robot', tmp_path / 'arm.urdf')
    assert command_line(tmp_path, 'analyze', *words) == 2
    assert 'files of single joints are to be joined by their times' in capsys.readouterr().err


def test_recorded_joints_that_the_robot_lacks_are_named(tmp_path, rng, capsys):
    bag = write_run(tmp_path / 'bag', run_of(rng, finger=True).rows(slice(100)))
    (tmp_path / 'arm.urdf').write_text(measured_arm().xml)
    words = (bag, '--robot', tmp_path / 'arm.urdf', '--no-report')
    assert command_line(tmp_path, 'analyze', *words) == 0
    assert 'joints finger are not of the robot: left out' in capsys.readouterr().out


def test_names_for_the_arm_alone_lock_its_gripper(tmp_path, rng, capsys):
    bag = write_run(tmp_path / 'bag', replace(run_of(rng), joints=('q0', 'q1', 'q2')))
    words = ('analyze', bag, '--recorded-joints', 'q0,q1,q2', '--effort', 'measured')
    assert command_line(tmp_path, *words) == 0
    assert "'finger': taken for a gripper and locked" in capsys.readouterr().out


def test_a_replay_of_the_arm_alone_locks_the_other_joints(tmp_path, rng, capsys):
    run = run_of(rng)
    q, v = run.position, run.velocity
    run = replace(run, reference_position=q, reference_velocity=v).rows(slice(100))
    run = replace(run, effort=np.zeros(run.position.shape))
    for names, words in ((run.joints, ()), (('a', 'b', 'c'), ('--recorded-joints', 'a,b,c'))):
        bag = write_run(tmp_path / names[0], replace(run, joints=names))
        assert command_line(tmp_path, 'replay', bag, *words) == 0, 'any law may have commanded'
        assert 'joints without states are locked' in capsys.readouterr().out


@pytest.mark.slow
def test_a_finger_at_rest_without_effort_gives_no_warning(tmp_path, rng):
    bag = write_run(tmp_path / 'bag', run_of(rng, finger=True, seconds=5.0))
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        assert command_line(tmp_path, 'identify', bag, '--effort', 'measured', '--jobs', 1) == 0


def test_a_chosen_joint_without_states_is_named_with_its_remedy(tmp_path, rng, capsys):
    bag = write_run(tmp_path / 'bag', run_of(rng).rows(slice(100)))
    assert command_line(tmp_path, 'analyze', bag, '--joints', 'pan,finger') == 2
    error = capsys.readouterr().err
    assert 'joints finger: have no states; recorded are pan, lift, elbow' in error
    assert '--locked' in error


def test_a_controller_state_is_noted_as_not_read(tmp_path):
    kind, point = 'control_msgs/msg/JointTrajectoryControllerState', 'float64[] positions'
    STORE.register(get_types_from_msg(f'string[] joint_names\n{point}', kind))
    content = STORE.types[kind](joint_names=['a'], positions=np.zeros(1))
    topic = '/arm_controller/controller_state'
    rows = Motion(20).messages()
    bag = write(tmp_path / 'bag', [*rows, Message(topic, rows[-1].time, kind, content)])
    with RecordingReader(bag) as reader:
        assert f'topic {topic} ({kind}) is not read' in reader.notes
