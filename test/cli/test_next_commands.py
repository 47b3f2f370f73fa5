# SPDX-License-Identifier: Apache-2.0
"""The commands that a report names next run as printed: with the options of the recording."""

import shlex
from dataclasses import replace

import numpy as np
import pytest
import yaml
from bags import COMMANDS, REFERENCE, STATES, write
from oracles import PinocchioOracle
from recorded_arm import NAMES, RecordedArm, arm_xml, driven_arm, messages, write_run
from samples import DOWN_Z
from urdf_text import joint, link, symmetric

from robot_dynamics_ros.__main__ import main
from robot_dynamics_ros.cli.arguments import robot_of
from robot_dynamics_ros.cli.nodes import COMMANDS as NODES

pytestmark = pytest.mark.slow

RECORDED = ('motor_1', 'motor_2', 'motor_3')
DISC = symmetric(0.002, 0.002, 0.002)
TOPICS = {STATES: '/cell/js', COMMANDS: '/cell/torques', REFERENCE: '/cell/wanted'}


@pytest.fixture
def foreign(tmp_path):
    """Return a bag of another controller, and options without which it cannot be read.

    Its topics and joints have other names, a second arm publishes states, the description is a
    file, one link of which is too light, and gravity is not the usual one.
    """
    arm = RecordedArm(600, gravity=(0.0, 0.0, -9.7))
    sent = []
    for x in messages(replace(arm.recording(), description='')):
        if x.topic != COMMANDS:
            x.content.name = list(RECORDED)
        sent.append(replace(x, topic=TOPICS[x.topic]))
        if x.topic == STATES:
            sent.append(replace(x, topic='/other/js'))
    bag = write(tmp_path / 'run with spaces', sent)
    (tmp_path / 'arm.urdf').write_text(arm.xml.replace('mass value="4.0"', 'mass value="3.2"'))
    options = (
        '--robot arm.urdf --gravity 0 0 -9.7 --states /cell/js --commands /cell/torques '
        f'--reference /cell/wanted --recorded-joints {",".join(RECORDED)} --from 0.01'
    ).split()
    return bag, options


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Return a function that runs a command; it returns the words of those named next."""
    monkeypatch.chdir(tmp_path)

    def named_next(*words) -> list[list[str]]:
        assert main(list(map(str, words))) in (0, 1)
        streams = capsys.readouterr()
        assert 'error:' not in streams.err
        lines = [x.partition(' next ')[2] for x in streams.out.splitlines() if ' next ' in x[:6]]
        return [shlex.split(line.partition(' -m robot_dynamics_ros ')[2]) for line in lines]

    return named_next


def test_the_commands_after_an_analysis_and_those_after_them_run_as_printed(foreign, run):
    bag, options = foreign
    identify, replay = run('analyze', bag, *options, '--no-report')
    assert [identify[0], replay[0]] == ['identify', 'replay']
    analyze, control = run(*identify)
    run(*analyze, '--no-report')
    (again,) = run(*replay)
    run(*again, '--no-report', '--output', 'again')
    run(*identify[:2], *options, '--output', 'other')
    args = NODES['control'].parse(control[1:])
    tree = robot_of(args)
    assert tree.joint_names == NAMES
    np.testing.assert_array_equal(tree.gravity, [0.0, 0.0, -9.7])
    assert args.set == ['identified:=out/identified/run with spaces/parameters.yaml']


@pytest.mark.parametrize('loaded', [False, True])
def test_a_load_is_measured_next_and_not_the_arm_identified_anew(loaded, tmp_path, run):
    """Friction that is missing is identified, and the load with it."""
    (tmp_path / 'arm.urdf').write_text(arm_xml())
    load = joint('hold', 'tool', 'load', 'fixed') + link('load', 1.5, (0, 0, 0), DISC)
    xml = arm_xml().replace('</robot>', f'{load}</robot>' if loaded else '</robot>')
    arm = RecordedArm(1500, viscous=4.0, xml=xml)
    bag = write_run(tmp_path / 'run', replace(arm.recording(), description=''))
    identify, *more = run('analyze', bag, '--robot', 'arm.urdf', '--no-report')
    assert identify[0] == 'identify'
    assert any(x[0] == 'identify' for x in more) == loaded
    assert ('--payload' in identify) == loaded
    if loaded:
        assert identify[identify.index('--payload') + 1] == 'tool'
        run(*identify)
        found = tmp_path / 'out/identified/run'
        values = yaml.safe_load((found / 'payload.yaml').read_text())['/**']['ros__parameters']
        assert values['payload_mass'] == pytest.approx(1.5, rel=0.01)
        q = np.full(3, 0.3)
        one, two = (
            PinocchioOracle(text, DOWN_Z, NAMES).gravity_forces(q)
            for text in ((found / 'loaded.urdf').read_text('utf-8'), xml)
        )
        np.testing.assert_allclose(one, two, rtol=0.01, atol=0.01 * np.abs(two).max())


def test_the_commands_after_a_comparison_run_as_printed(foreign, run):
    bag, options = foreign
    lines = run('compare', bag, bag, *options)
    assert len(lines) == 2
    for line in lines:
        run(*line, '--no-report')


def test_a_driver_profile_is_named_again(tmp_path, run):
    """Names and units of the driver; the description is in the bag."""
    recorded, profile = driven_arm(count=600, viscous=4.0)
    bag = write(tmp_path / 'run', recorded)
    (tmp_path / 'cell.yaml').write_text(yaml.safe_dump(profile))
    (identify,) = run('analyze', bag, '--driver-profile', 'cell.yaml', '--no-report')
    analyze, control = run(*identify)
    assert 'driver_profile:=cell.yaml' in control
    run(*analyze, '--no-report')
