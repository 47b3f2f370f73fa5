# SPDX-License-Identifier: Apache-2.0
"""Recordings are judged with the payload that the controller had; efforts are Pinocchio's."""

import math
from dataclasses import replace

import numpy as np
import pytest
import yaml
from bags import MS, text, write
from numpy.testing import assert_allclose
from recorded_arm import RecordedArm, arm_xml
from recorded_arm import messages as messages_of
from recorded_loop import CHANGES, PARAMETERS
from urdf_text import link

from robot_dynamics_ros.control.change_log import Change
from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.recordings.metrics.analysis import AnalysisSettings, analyze_bag
from robot_dynamics_ros.recordings.reading import RobotChoice
from robot_dynamics_ros.symbolic.kernel import compile_kernel

pytestmark = pytest.mark.slow

LOAD = {'payload_mass': 0.8, 'payload_com': [0.03, -0.02, -0.05], 'payload_frame': 'tool'}
#: The same load as a link of the description.
HEAVY = arm_xml().replace(link('tool'), link('tool', 0.8, (0.03, -0.02, -0.05), np.zeros((3, 3))))
COUNT, SWITCH, PERIOD = 1600, 1100, 10 * MS


def change(kind, at, number=1, **content):
    return text(0, Change(number, kind, at * PERIOD, at, content).text(), CHANGES)


def activation(parameters, at=0, **kept):
    state = {'stamp_ns': at * PERIOD, 'q': [0.0] * 3, 'v': [0.0] * 3}
    return change('activation', at, parameters=parameters, state=state, kept=kept)


def messages(loads, *log, parameters=LOAD):
    """Return a run whose arm carries the load at the states of a mask; the description does not.

    Args:
        loads: Mask of the states, or whether it does at all of them.
        log: Changes of the controller.
        parameters: Of the controller.
    """
    arm, heavy = (RecordedArm(COUNT, period=PERIOD, xml=xml) for xml in (arm_xml(), HEAVY))
    arm.tau = np.where(np.reshape(loads, (-1, 1)), heavy.tau, arm.tau)
    own = [] if parameters is None else [text(0, yaml.safe_dump(parameters), PARAMETERS)]
    return [*own, *log, *arm.messages()]


def analyzed(folder, *given, robot=None, **settings):
    """Return the analysis of a run that the model explains unless a test says otherwise."""
    bag = write(folder / 'bag', messages(*given, **settings))
    return analyze_bag(bag, AnalysisSettings(robot=robot or RobotChoice()))


def explained(result):
    """Return at how many states the model is judged; as of the arm without a load, it is exact."""
    assert max(result.figures['effort']['residual_share']) < 1e-8
    return result.figures['effort']['evaluated']


def said(result):
    return '\n'.join((*map(str, result.findings), *result.notes))


EARLY = np.arange(COUNT) < SWITCH
BARE = {**LOAD, 'payload_mass': 0.0}
CARRIES = 'the model carries 0.8 kg on tool, as the recorded controller had it'


@pytest.mark.parametrize(
    ('loads', 'log', 'parameters'),
    [
        (True, (activation(LOAD),), BARE),
        (True, (activation(LOAD, 300),), None),
        (False, (activation(LOAD, payload={'carried': False}),), LOAD),
        (True, (activation(LOAD), change('parameters', 400, 2, values=LOAD)), LOAD),
    ],
    ids=['activation', 'log alone', 'put down', 'the same'],
)  # fmt: skip
def test_the_model_carries_what_the_controller_had(tmp_path, loads, log, parameters):
    result = analyzed(tmp_path, loads, *log, parameters=parameters)
    assert explained(result) == [COUNT - 1] * 3
    assert 'the model explains the efforts' in said(result)
    assert (CARRIES in result.notes) == loads
    assert 'changed' not in said(result)


def test_a_load_that_the_controller_did_not_know_is_found_beside_its_payload(tmp_path):
    result = analyzed(tmp_path, False)
    assert str(result.findings[0]).startswith('the arm moves as if it carried 0.8 kg less')


@pytest.mark.parametrize(
    'log',
    [
        (change('parameters', SWITCH, 2, values={'payload_mass': 0.0}),),
        (change('hold', 100, 2), change('payload', SWITCH, 3, carried=False),
         change('payload', 1300, 4, carried=True)),
    ],
    ids=['parameter', 'and back'],
)  # fmt: skip
def test_the_model_is_judged_up_to_a_change(tmp_path, log):
    result = analyzed(tmp_path, EARLY, activation(LOAD), *log)
    assert explained(result) == [SWITCH] * 3
    assert result.figures['energy']['steps'] == SWITCH - 1
    assert result.figures['rates']['states'] == COUNT
    told = 'the payload of the controller changed at 11 s, from 0.8 kg on tool to none: '
    told += 'the model is judged up to there, and what follows with --from 11'
    assert told in said(result)


def test_what_follows_a_change_is_judged_with_the_payload_since(tmp_path):
    log = activation(LOAD), change('payload', SWITCH, 2, carried=False)
    result = analyzed(tmp_path, EARLY, *log, robot=RobotChoice(span=(11.0, math.inf)))
    assert explained(result) == [COUNT - 1 - SWITCH] * 3
    assert 'payload' not in said(result)


@pytest.mark.parametrize(
    ('changed', 'why'),
    [
        ({'payload_frame': 'gripper'}, "payload_frame 'gripper'"),
        ({'payload_com': [0.0, 1.0]}, 'payload_com'),
        ({'payload_frame': 'base'}, 'is on the base'),
    ],
)
def test_a_payload_that_does_not_fit_is_told(tmp_path, changed, why):
    result = analyzed(tmp_path, False, parameters={**LOAD, **changed})
    (note,) = [x for x in result.notes if 'payload' in x]
    assert note.startswith('the payload of the controller is not considered: ')
    assert why in note
    assert explained(result)


def test_dead_bands_do_not_contain_a_known_payload(command):
    log = activation(LOAD), change('payload', SWITCH, 2, carried=False)
    found = [
        command('calibrate', messages(EARLY, *log)),
        command('calibrate', messages(True, parameters=BARE)),
    ]
    assert CARRIES in found[0].said
    assert 'up to there' in found[0].said
    # 8 N at the tool are ten times what else is unknown.
    bands, wide = (
        [
            joint[kind]['base']
            for joint in yaml.safe_load(x.text('thresholds.yaml'))['joints'].values()
            for kind in ('hit', 'push')
        ]
        for x in found
    )
    assert (np.array(bands) < 0.2 * np.array(wide)).all()


def test_identified_links_do_not_include_the_payload_of_the_controller(command):
    log = activation(LOAD), change('payload', SWITCH, 2, carried=False)
    found = command('identify --jobs 1', messages(EARLY, *log))
    assert CARRIES in found.said
    assert 'up to there' in found.said
    assert 'nothing to correct: the description explains the recordings' in found.said
    links = yaml.safe_load(found.text('parameters.yaml'))['links']
    for name, mass in (('upper', 4.0), ('fore', 2.5), ('quill', 1.2)):
        assert name not in links or links[name]['mass'] == pytest.approx(mass, rel=1e-3)


def test_a_load_that_the_controller_knew_is_weighed(command):
    found = command('identify --jobs 1', messages(True, activation(LOAD)), '--payload', 'tool')
    assert float(found.said.split('tool carries ')[1].split()[0]) == pytest.approx(0.8, rel=1e-2)


def test_a_payload_of_before_a_restart_of_the_clock_is_not_that_of_after(tmp_path):
    """A simulation was reset: the changes of the second session have the times of the first."""
    second = messages(False, activation(BARE), parameters=None)
    later = [replace(one, time=one.time + (COUNT + 1) * PERIOD) for one in second]
    bag = write(tmp_path / 'bag', messages(True, activation(LOAD)) + later)
    result = analyze_bag(bag, AnalysisSettings())
    assert CARRIES in result.notes
    assert explained(result) == [COUNT - 1] * 3
    assert 'changed at 16.99 s, from 0.8 kg on tool to none' in said(result)


@pytest.mark.parametrize('report', ['none', 'total', 'without_compensation'])
@pytest.mark.parametrize('known', [True, False])
def test_efforts_without_the_gravity_that_a_driver_compensates_are_judged_in_total(
    known, report, tmp_path
):
    """As by the monitor; gravity was told to be missing, of a profile that says so."""
    heavy = RecordedArm(COUNT, period=PERIOD, xml=HEAVY, measured_late=report != 'none')
    oracle = RecordedArm.oracle_of(HEAVY if known else arm_xml())
    share = np.array([oracle.gravity_forces(q) for q in heavy.q])
    run, profile = heavy.recording(), tmp_path / 'driver.yaml'
    measured = run.measured_effort - share * (report == 'without_compensation')
    run = replace(run, effort=run.effort - share, measured_effort=measured)
    content = {
        'name': 'own',
        'state': {'effort': report},
        'compensated_by_driver': ['gravity'],
        'payload_known_to_driver': known,
    }
    profile.write_text(yaml.safe_dump(content), encoding='utf-8')
    own = [text(0, yaml.safe_dump({**LOAD, 'driver_profile': str(profile)}), PARAMETERS)]
    bag = write(tmp_path / 'bag', [*own, *messages_of(replace(run, description=arm_xml()))])
    if report != 'total':
        with pytest.raises(RecordingError, match=f'give --driver-profile {profile}'):
            analyze_bag(bag, AnalysisSettings())
    explained(analyze_bag(bag, AnalysisSettings(RobotChoice(driver_profile=str(profile)))))


def test_a_driver_adds_to_every_state_what_its_tick_adds():
    arm = RecordedArm(200, xml=arm_xml('<dynamics damping="2" friction="3"/>'))
    run, tree = arm.recording(), load_robot(arm.xml)
    choice = RobotChoice(driver_profile='franka')
    driver, kernels = choice.driver(tree), compile_kernel(tree, outputs=('gravity_forces',))
    driver.compensate(kernels.gravity_forces, kernels.gravity_forces)
    states = zip(run.position, run.velocity, strict=True)
    share = [driver.compensation(*state).copy() for state in states]
    # Compiled and numpy's tanh differ by rounding.
    assert_allclose(choice.total(run, tree, tree).effort - run.effort, share, rtol=0, atol=1e-12)
