# SPDX-License-Identifier: Apache-2.0
"""Commands excite, identify and identify_demo as a user runs them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import yaml
from recorded_arm import Drives, periodic_motion, semi_implicit_run
from samples import sample, shipped

from robot_dynamics_ros.__main__ import main
from robot_dynamics_ros.cli import demo
from robot_dynamics_ros.control.trajectories.points import trajectory_of_file
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.model.payload import with_payload
from robot_dynamics_ros.recordings.lockstep import write_recording
from robot_dynamics_ros.recordings.reading import RecordingReader, read_recording
from robot_dynamics_ros.simulation.imperfections import with_mismatch

pytestmark = pytest.mark.slow

STEP = 2e-3
DRIVES = Drives([0.6, 0.3], [0.8, 0.4], [0.05, 0.02], [0.0, 0.0])


@pytest.fixture(scope='module')
def bags(tmp_path_factory):
    """Two recordings of an arm with friction that its description does not have."""
    folder, arm = tmp_path_factory.mktemp('bags'), sample('planar_2r')
    for name, seed in (('one', 1), ('two', 2)):
        q = periodic_motion(seed, 2, 4.0, STEP, swing=0.3)
        write_recording(folder / name, semi_implicit_run(arm, DRIVES, q, STEP))
    return folder


def identify(*arguments):
    given = ('--gravity', '0', '-9.81', '0', '--effort-limit', '1000', '--jobs', '1')
    return main(['identify', *map(str, arguments), *given])


def test_identify_learns_from_one_bag_and_proves_it_on_another(bags, tmp_path, capsys):
    out = tmp_path / 'out'
    code = identify(bags / 'one', '--validate', bags / 'two', '--output', out, '--most', 0.1)
    assert code == 0
    robot = load_robot(out / 'corrected.urdf', effort_limit=1000.0)
    # Exact data, and a nominal model that biases by a millionth.
    np.testing.assert_allclose(robot.damping, DRIVES.damping, rtol=1e-4)
    np.testing.assert_allclose(robot.coulomb_friction, DRIVES.coulomb_friction, rtol=1e-4)
    patch = yaml.safe_load((out / 'parameters.yaml').read_text())
    assert patch['joints']['joint1']['damping'] == robot.damping[0]
    assert patch['gravity'] == [0.0, -9.81, 0.0]
    numbers = json.loads((out / 'identification.json').read_text())
    assert max(numbers['residuals']['corrected']['percent']) < 0.1
    assert min(numbers['residuals']['nominal']['percent']) > 1.0
    assert numbers['preparation']['timing'] == 'semi_implicit'
    assert {'link2.Izz', 'joint2.armature'} <= {row['name'] for row in numbers['base_parameters']}
    efforts = numbers['bags'][0]['efforts']
    assert efforts['used']['joint1'] > 1000
    assert 0 < efforts['at rest with Coulomb friction']['joint1'] < 100
    report = (out / 'report.html').read_text()
    assert 'excluded ones by reason' in report
    assert 'Not determined by the data' in report
    assert 'validated on' in report
    assert 'the corrected model leaves unexplained: joint1' in report
    places = [report.index(x) for x in ('Unexplained effort over time', 'Not determined by')]
    assert places[0] < places[1]
    said = capsys.readouterr().out
    assert 'kept at the nominal value, since not separable: joint1.armature' in said


def test_a_bag_alone_is_read_once(bags, tmp_path, monkeypatch):
    reads, own = list[RecordingReader](), RecordingReader.read
    monkeypatch.setattr(
        RecordingReader, 'read', lambda reader, *span: reads.append(reader) or own(reader, *span)
    )
    assert identify(bags / 'one', '--output', tmp_path / 'out') == 0
    assert len(reads) == 1


def test_analyze_computes_with_the_file_that_identify_wrote(tmp_path):
    """The drives have an offset, which no URDF holds; both commands name the same residual."""
    drives = Drives([0.6, 0.3], [0.8, 0.4], [0.05, 0.02], [0.7, -0.4])
    for name, seed in (('one', 1), ('two', 2)):
        q = periodic_motion(seed, 2, 4.0, STEP, swing=0.3)
        write_recording(tmp_path / name, semi_implicit_run(sample('planar_2r'), drives, q, STEP))
    out, shares = tmp_path / 'out', []
    terms = ('--terms', 'damping', 'coulomb_friction', 'armature', 'offset')
    words = (tmp_path / 'one', *terms, '--validate', tmp_path / 'two', '--output', out)
    assert identify(*words) == 0
    for given in ([], ['--identified', str(out / 'parameters.yaml')]):
        words = ['analyze', str(tmp_path / 'two'), *given, '--gravity', '0', '-9.81', '0',
                 '--effort-limit', '1000', '--output', str(tmp_path / 'analysis'),
                 '--force', '--jobs', '1']  # fmt: skip
        assert main(words) == 0
        figures = json.loads((tmp_path / 'analysis' / 'metrics.json').read_text())
        shares.append(max(figures['effort']['residual_share']))
    assert shares[0] > 0.05
    # Exact data: the residual equals that of identify, to all common digits.
    left = json.loads((out / 'identification.json').read_text())['residuals']['corrected']
    assert 100.0 * shares[1] == pytest.approx(max(left['percent']), rel=1e-3)
    assert shares[1] < 1e-4


def test_halves_prove_each_other_and_a_bag_that_fails_does_not_stop_them(bags, tmp_path, capsys):
    """Drives may add nothing to the rigid bodies."""
    out = tmp_path / 'out'
    given = (tmp_path / 'gone', bags / 'one', bags / 'two', '--output', out, '--terms')
    assert identify(*given) == 1
    numbers = json.loads((out / 'identification.json').read_text())
    assert numbers['remarks'][0].startswith('each half of a recording validated')
    assert [bag['learned'] for bag in numbers['bags']] == [False, True, True]
    assert numbers['terms'] == []
    said = capsys.readouterr().out.replace('\n', ' ')
    assert 'failed: ' in said
    assert 'gone' in said


@pytest.mark.parametrize(
    ('bag', 'arguments', 'message'),
    [
        ('one', ['--delay', 'late'], '--delay'),
        ('one', ['--cutoff', '-3'], 'cutoff'),
        ('one', ['--robot', 'missing.urdf'], 'missing.urdf'),
        ('gone', [], 'have nothing to identify from'),
    ],
)
def test_wrong_arguments_are_one_clear_message(bags, tmp_path, capsys, bag, arguments, message):
    assert identify(bags / bag, '--output', tmp_path / 'out', *arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert 'Traceback' not in error
    assert not (tmp_path / 'out').exists()


def test_a_residual_above_the_threshold_is_exit_code_1(bags, tmp_path, capsys):
    q = periodic_motion(3, 2, 4.0, STEP, swing=0.3)
    run = semi_implicit_run(sample('planar_2r'), DRIVES, q, STEP)
    noise = np.random.default_rng(0).normal(size=run.effort.shape)
    write_recording(tmp_path / 'noisy', replace(run, effort=run.effort + noise))
    out = tmp_path / 'out'
    assert identify(tmp_path / 'noisy', '--output', out, '--most', 0.1) == 1
    assert 'of its RMS effort, more than 0.1 %' in capsys.readouterr().out.replace('\n', ' ')


def test_a_written_recording_is_read_bit_for_bit(tmp_path, rng):
    q = periodic_motion(5, 2, 0.2, STEP)
    run = semi_implicit_run(sample('planar_2r'), DRIVES, q, STEP)
    run = replace(run, measured_effort=run.effort + rng.normal(size=run.effort.shape))
    write_recording(tmp_path / 'bag', run)
    again = read_recording(tmp_path / 'bag')
    assert (again.joints, again.description, again.notes) == (run.joints, run.description, ())
    for name in (
        'position', 'velocity', 'effort', 'measured_effort', 'reference_position',
        'reference_velocity', 'stamp_ns',
    ):  # fmt: skip
        np.testing.assert_array_equal(getattr(again, name), getattr(run, name))


def test_excite_writes_a_motion_that_can_be_sent(tmp_path, capsys):
    arm, out, file = sample('planar_2r'), tmp_path / 'out', tmp_path / 'arm.urdf'
    file.write_text(arm.xml, encoding='utf-8')
    arguments = ['--period', '6', '--periods', '2', '--harmonics', '3']
    assert main(['excite', str(file), '--output', str(out), *arguments]) == 0
    trajectory = trajectory_of_file(out / 'trajectory.yaml', arm.tree.joint_names)
    assert trajectory.duration == pytest.approx(12.0)
    numbers = json.loads((out / 'excitation.json').read_text())
    assert numbers['condition'] < numbers['random_condition']
    assert np.shape(numbers['sine']) == (2, 3)
    assert 'condition of the base regressor' in capsys.readouterr().out
    assert main(['excite', str(file), '--output', str(out)]) == 2
    assert 'holds trajectory.yaml, excitation.json; name' in capsys.readouterr().err


def test_the_demo_makes_the_same_controller_track_far_better(tmp_path, capsys):
    assert main(['identify_demo', '--out', str(tmp_path / 'demo')]) == 0
    out = tmp_path / 'demo' / 'scara'
    figures = json.loads((out / 'comparison' / 'comparison.json').read_text())
    before, after = figures['first'], figures['second']
    gains = np.array(before['rms_error']) / np.array(after['rms_error'])
    assert gains.min() > 100.0
    # The result is the simulated arm, despite sensor noise.
    nominal = shipped('scara').tree
    real = with_payload(with_mismatch(nominal, **demo.WEAR), demo.tool())
    found = load_robot(out / 'corrected.urdf')
    np.testing.assert_allclose(found.damping, real.damping, rtol=5e-3)
    np.testing.assert_allclose(found.coulomb_friction, real.coulomb_friction, rtol=5e-3)
    np.testing.assert_allclose(found.mass[2:].sum(), real.mass[2:].sum(), rtol=1e-3)
    folders = ('', 'before', 'after', 'comparison')
    for name in ('bag', 'trajectory.yaml', *(f'{folder}/report.html' for folder in folders)):
        assert (out / name.lstrip('/')).exists()
    printed = capsys.readouterr().out
    assert f'{before["rms_error"][2]:.4g} m ' in printed
    assert f'{after["rms_error"][3]:.4g} rad' in printed
