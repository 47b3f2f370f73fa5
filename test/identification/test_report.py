# SPDX-License-Identifier: Apache-2.0
"""What identify prints: each joint, what changed beyond doubt, what is left, and what is next."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles import PinocchioOracle
from recorded_arm import (
    Drives,
    frictionless,
    measured_arm,
    measured_run,
    sinusoidal_run,
    sinusoids,
    two_link_run,
)
from recorded_bags import NOMINAL, STAUBLI, UNKNOWN
from samples import DOWN_Z, Sample
from urdf_text import described

from robot_dynamics_ros.estimation.regressor import (
    PER_BODY,
    inertial_parameters,
    with_inertial_parameters,
)
from robot_dynamics_ros.identification import report
from robot_dynamics_ros.identification.bags import Evidence
from robot_dynamics_ros.identification.choice import Request
from robot_dynamics_ros.identification.correction import (
    as_dict,
    base_rows,
    corrected_links,
    parameter_text,
)
from robot_dynamics_ros.identification.identify import conclude, gather, identify, make_plan
from robot_dynamics_ros.identification.least_squares import merged
from robot_dynamics_ros.identification.unknowns import DEFAULT_TERMS, TERMS
from robot_dynamics_ros.identification.validation import Residuals
from robot_dynamics_ros.recordings.output_folder import json_ready

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('without_curves')]

ARM = measured_arm()
#: How to filter is not searched for, which took a third of the time.
IDENTIFY = 'identify --timing sampled --delay 0 --cutoff 6 --jobs 1'


def moved(rng, arm=ARM, seconds=12.0, rests=(), text=ARM.xml):
    """Return a noisy run of an arm, some joints of which rest, and another description."""
    run = sinusoidal_run(arm, rng, seconds, rests=rests, noise=(0.0, 1e-3, 0.3))
    return replace(run, description=text)


def identified(run, tree=ARM.tree, terms=DEFAULT_TERMS):
    """Return the results of a run, filtered likewise."""
    return identify([run], tree, terms, Request('sampled', 0, 6.0))


def table_rows(page: str) -> list[list[str]]:
    """Return the cells of all rows of the tables of a page."""
    rows = re.findall('<tr>(<td>.*?)</tr>', page)
    return [re.findall('<td>(.*?)</td>', row) for row in rows]


@pytest.mark.parametrize(('bag', 'most'), [(UNKNOWN, 45), (STAUBLI, 60)])
def test_the_last_screen_holds_the_verdict_and_the_page_what_is_not_printed(bag, most, command):
    ended = command('identify --jobs 1 --to 6', bag)
    lines = ended.out.splitlines()
    assert len(lines) <= most
    (verdict,) = (k for k, line in enumerate(lines) if 'leaves unexplained: j' in line)
    steps = [k for k, line in enumerate(lines) if line.startswith(' next')]
    assert len(lines) - 24 <= verdict < steps[0] <= steps[-1] == len(lines) - 1
    # Of the links, only what the motion tells apart from the description, beyond doubt.
    table = ended.out.partition('Links: other than described')[2].partition('Of a sum')[0]
    cells = [line.split('│')[1:5] for line in table.splitlines() if line.startswith('│')]
    nominal, found, deviation = np.array([row[1:] for row in cells if row[1].strip()], float).T
    assert (np.abs(found - nominal) > 3.0 * deviation).all()
    # Described, the robot leaves what analyze says, who reads the bag in parts of its own.
    nominal = ended.figures['residuals']['nominal']
    effort = command('analyze --no-report --to 6', bag).figures['effort']
    assert_allclose(nominal['rms'], effort['residual_rms'], rtol=2e-5)
    assert_allclose(nominal['percent'], 100.0 * np.array(effort['residual_share']), rtol=2e-5)
    page = ended.text('report.html')
    names = {row['name'] for row in ended.figures['base_parameters']}
    assert names <= {row[0] for row in table_rows(page)}
    for name in ('Links of the corrected robot', 'without effect on any effort', 'timing s'):
        assert name in page
        assert name not in ended.out


def test_another_gravity_is_told_before_a_link_that_would_explain_it(command):
    said = command('identify --jobs 1', NOMINAL).said
    assert 'warning gravity differs' in said.split('probably other than described: l3')[0]
    assert 'beyond doubt' not in said


def test_joints_and_changed_links_are_named_and_the_next_command(command, rng):
    bag = command.word(moved(rng, measured_arm(heavier=2.0), 24.0))
    found = command(IDENTIFY, bag)
    each = found.said.split('leaves unexplained: ')[1].split(' %, ')
    assert [text.split()[0] for text in each[:3]] == ['pan', 'lift', 'elbow']
    assert 'upper' in found.said.split('beyond doubt other than described: ')[1].split(';')[0]
    assert f'analyze {bag} --identified {found.folder / "parameters.yaml"}' in found.said


def test_one_usable_stretch_tells_values_without_a_spread(rng):
    run, tree = moved(rng), ARM.tree
    plan = make_plan(run, tree, DEFAULT_TERMS)
    found = conclude([merged(gather(run, plan))], plan)
    (row, *_) = report._drive_table(found).rows
    assert re.fullmatch(r'[0-9.e+-]+ \(spread not known\)', row[1])
    assert {row[3] for row in report._value_table('', base_rows(found)).rows} == {'not known'}
    assert 'the spread of no value is known' in ' '.join(found.undetermined())
    deviations = json_ready(as_dict(found))['base_parameters'][0]['deviation']
    assert deviations is None
    assert not re.search('nan|inf', parameter_text(found))


def wrist(load: float) -> Sample:
    """Return an arm whose palm rolls about the axis of the hand, and may carry a load on it."""
    text = described('arm', f"""
base: []
fore: [1.6, [0, 0, 0.14], [0.011, 0.011, 0.011]]
hand: [0.8, [0, 0, 0.045], [7.0e-4, 7.0e-4, 7.0e-4]]
palm: [0.5, [0, 0, 0.03], [6.0e-4, 6.0e-4, 6.0e-4]]
tool: {[load, [0, 0, 0.01], [2.0e-4] * 3] if load else []}
elbow: {{of: [base, fore], axis: [0, 1, 0]}}
pitch: {{of: [fore, hand], xyz: [0, 0, 0.3], axis: [0, 1, 0]}}
roll: {{of: [hand, palm], xyz: [0, 0, 0.1]}}
grasp: {{of: [palm, tool, fixed], xyz: [0, 0, 0.09]}}
""", limits=(-6.0, 6.0), velocity=6.0, effort=100.0)  # fmt: skip
    return Sample('arm', text)


def test_links_that_only_their_sum_tells_apart_are_told_as_such(command, rng):
    given = {'friction': frictionless, 'noise': (0.0, 1e-3, 0.02)}
    run = sinusoidal_run(wrist(0.4), rng, 16.0, **given)
    nominal = wrist(0.0).xml.replace('0.0 0.0 0.03', '4e-19 0.0 0.03')
    assert nominal != wrist(0.0).xml
    found = command(IDENTIFY, replace(run, description=nominal))
    # What the description has by rounding only is new.
    (row,) = (row for row in table_rows(found.text('report.html')) if row[0] == 'palm.mx')
    assert (row[1], row[4]) == ('0', 'new')
    assert 'other than described: one of hand, palm, of which each alone' in found.said
    told = re.search(r'together they weigh ([\d.]+) ± ([\d.e-]+) kg, not 1.3,', found.said)
    weight, deviation = map(float, told.groups())
    assert abs(weight - 1.7) < min(4.0 * deviation, 0.02)
    why = 'the files change hand, palm, and other links hardly: the recordings determine'
    for text in (found.said, *map(found.text, ('corrected.urdf', 'parameters.yaml'))):
        assert text.count(why) == 1
        assert 'no measurements' not in text
    after = PinocchioOracle((found.folder / 'corrected.urdf').read_text(), DOWN_Z, run.joints)
    hand, palm = (after.model.inertias[after.model.getJointId(x)] for x in ('pitch', 'roll'))
    # In proportion, but for what is within noise.
    assert_allclose([hand.mass / 0.8, palm.mass / 0.5], 1.7 / 1.3, rtol=0.1)


def six_joints(heavier: float = 0.0, out: float = 0.0) -> Sample:
    """Return an arm of six joints; its third link is heavier by so many kg, and its centre out."""
    third = 3.0 + heavier
    text = described('arm', f"""
l0: []
l1: [7.5, [0.01, 0, 0.055], [0.024075, 0.024075, 0.015]]
l2: [8.2, [0.01, 0.01, 0.21], [0.161048, 0.161048, 0.0164]]
l3: [{third}, [0.01, 0, {0.105 + out}], [{0.00641 * third}, {0.00641 * third}, {0.002 * third}]]
l4: [2.6, [0.01, 0.01, 0.095], [0.014586, 0.014586, 0.0052]]
l5: [1.5, [0.01, 0, 0.05], [0.0045, 0.0045, 0.003]]
l6: [1.2, [0.01, 0.01, 0.05], [0.0036, 0.0036, 0.0024]]
j1: {{of: [l0, l1], xyz: [0, 0, 0.16]}}
j2: {{of: [l1, l2], xyz: [0, 0, 0.11], axis: [0, 1, 0]}}
j3: {{of: [l2, l3], xyz: [0, 0, 0.42], axis: [0, 1, 0]}}
j4: {{of: [l3, l4], xyz: [0, 0, 0.21]}}
j5: {{of: [l4, l5], xyz: [0, 0, 0.19], axis: [0, 1, 0]}}
j6: {{of: [l5, l6], xyz: [0, 0, 0.1]}}
""", limits=(-6.0, 6.0), velocity=6.0, effort=200.0)  # fmt: skip
    return Sample('arm', text)


@pytest.mark.parametrize(('seed', 'out'), [(7, 0.0), (8, 0.05)])
def test_links_that_the_data_do_not_demand_to_change_stay_as_described(seed, out):
    """Noise gave another link 0.7 kg, and the two that were told shared the rest unequally.

    They share it only where the mass of one alone does not explain the data, as its centre is
    another one, too.
    """
    arm = six_joints()
    run = moved(np.random.default_rng(seed), six_joints(1.6, out), 16.0, text=arm.xml)
    found = identified(run, arm.tree)
    changed, factor = ((2, 3), 7.2 / 5.6) if out else ((2,), 4.6 / 3.0)
    assert found.single.bodies == changed
    masses = found.physical.values[: found.plan.unknowns.links : PER_BODY]
    expected = arm.tree.mass * np.where(np.isin(range(6), changed), factor, 1.0)
    assert_allclose(masses, expected, rtol=0.02)
    (told,) = map(str, report._changed(found, np.zeros(len(found.estimate.base))))  # none is sure
    alone = 'one of l3, l4, of which each' if out else 'l3, which'
    assert f'{alone} alone of all links explains the recordings' in told


def portal(factor: float) -> Sample:
    """Return two slides and a spindle, all of whose masses are larger by a factor."""
    text = described('portal', f"""
base: []
bridge: [{42.0 * factor}, [0, 0, 0], [{4.0 * factor}, {0.3 * factor}, {4.0 * factor}]]
quill: [{6.0 * factor}, [0, 0, 0], [{0.1 * factor}, {0.1 * factor}, {0.01 * factor}]]
spindle: [{1.5 * factor}, [0.02, 0, 0], [{0.003 * factor}, {0.003 * factor}, {0.002 * factor}]]
x: {{of: [base, bridge, prismatic], axis: [1, 0, 0]}}
y: {{of: [bridge, quill, prismatic], axis: [0, 1, 0]}}
turn: {{of: [quill, spindle]}}
""", limits=(-6.0, 6.0), velocity=6.0, effort=900.0)  # fmt: skip
    return Sample('portal', text)


def test_the_rotors_that_one_changed_link_needs_are_told(rng):
    """The spindle alone explains nothing: all masses are larger, those before it like rotors."""
    nominal, given = portal(1.0), {'friction': frictionless, 'noise': (0.0, 1e-5, 1e-3)}
    run = sinusoidal_run(portal(1.2), rng, 16.0, **given)
    found = identified(replace(run, description=nominal.xml), nominal.tree)
    (told,) = map(str, report._changed(found, np.zeros(len(found.estimate.base))))
    assert 'spindle, which alone of all links explains' in told
    assert told.endswith('; the description then lacks rotor inertia of x, y, turn')


def test_the_rotors_that_the_data_tell_beside_one_changed_link_are_told(rng):
    """They are told apart from the links: the link alone explained everything."""
    arm, motion = six_joints(), sinusoids(rng, 6, np.arange(0.0, 16.0, 0.01), 1.0)
    run = measured_run(six_joints(1.6), motion, noise=(0.0, 1e-3, 0.3), rng=rng)
    run.measured_effort[:] += [0.0, 0.0, 0.0, 0.0, 0.3, 0.2] * motion.a
    found = identified(run, arm.tree)
    (told,) = map(str, report._changed(found, np.zeros(len(found.estimate.base))))
    assert 'l3, which alone of all links explains' in told
    assert told.endswith('; the description then lacks rotor inertia of j5, j6')


def test_a_link_whose_name_ends_another_is_not_taken_for_it(rng):
    text = six_joints().xml.replace('"l3"', '"fore_l4"')
    arm = replace(six_joints(), xml=text)
    found = replace(identified(moved(rng, arm, 6.0), arm.tree), single=None)
    names = found.estimate.base.names
    assert any('fore_l4.' in name and ' l4.' not in f' {name}' for name in names)
    for k, name in enumerate(names):
        owners = {x.rpartition('.')[0] for x in name.split() if x[0].isalpha()}
        if owners.isdisjoint(arm.tree.link_names):
            continue
        (told,) = map(str, report._changed(found, 10.0 * (np.arange(len(names)) == k)))
        told, zero = told.rsplit('; ', 1)
        assert zero == 'unless a joint has a wrong zero'
        words = re.split(', |one or more of ', told.partition('described: ')[2])
        assert {x.removeprefix('the rotor of ') for x in words} - {''} == owners


def test_friction_that_only_slow_motion_shows_is_told_and_that_of_a_joint_at_rest(command, rng):
    """The limit of pan is 20 rad/s, that of lift 6; elbow rests: no friction is compensated."""
    run = moved(rng, rests=[2], text=ARM.xml.replace('velocity="6.0"', 'velocity="20.0"', 1))
    said = command(IDENTIFY, run, code=None).said
    fastest = f'pan moves at up to {np.abs(run.velocity[:, 0]).max():.2g} rad/s, its limit is 20: '
    assert f'{fastest}faster, only the friction of that speed is compensated' in said
    assert 'lift moves at up to' not in said
    told = said.split('elbow rests')[1].split('record it')[0]
    assert 'its friction was not identified, that of the model is' in told


def two_links(command, friction, push, code=0):
    """Return what ended on an exact run, plus efforts of a function of its shape."""
    run = two_link_run(1, 8.0, Drives(*friction, 0.0))
    run.effort[:] += push(run.effort.shape)
    return command('identify --gravity 0 -9.81 0 --effort-limit 1000 --jobs 1', run, code=code)


def test_a_chattering_joint_hides_no_other(command):
    def chatter(shape):
        return 8.0 * (-1.0) ** np.arange(shape[0])[:, np.newaxis] * [1.0, 0.0]

    said = two_links(command, ([0.6, 0.3], [0.8, 0.4]), chatter, code=None).said
    joint1, joint2 = said.split('leaves unexplained: joint1 ')[1].split(' joint2 ')[:2]
    assert float(joint1.split('→ ')[1].split(' %')[0]) > 10.0
    assert float(joint2.split('→ ')[1].split(' %')[0].removeprefix('< ')) < 1.0
    assert '% of joint1 are left: it alternates from sample to sample: chatter' in said


@pytest.mark.parametrize('noise', [0.0, 0.1])
def test_a_perfect_recording_leaves_nothing_to_correct(noise, command, rng):
    """Fitted to noise, a model is slightly worse on other samples: that is no failure."""
    ended = two_links(command, (0.0, 0.0), lambda shape: noise * rng.normal(size=shape))
    assert 'nothing to correct' in ended.out
    assert 'error' not in ended.out
    if noise:
        return
    page = ended.text('report.html')
    assert '-0.0 ' not in page
    # Base parameters that are as described have no change, and those that are not there are 0.
    rows = [row for row in table_rows(page) if 'Izz' in row[0] and row[1:]]
    assert rows
    assert {row[4] for row in rows} == {'none'}


def residuals(*percent: float) -> Residuals:
    """Return the residuals of the joints of that arm."""
    ones = [1.0] * 3
    return Residuals(list(ARM.tree.joint_names), ones, ones, list(percent), *[ones] * 4)


def test_a_joint_that_is_predicted_worse_is_told_and_much_worse_is_a_warning():
    told = [
        report._verdict(residuals(9.0, 4.0, 2.0), residuals(1.0, 4.0, worse))
        for worse in (2.0, 2.04, 2.2, 2.5)
    ]
    assert [verdict.severity for verdict in told[2:]] == ['ok', 'warning']
    first, last = str(told[3]).split('; these joints are predicted worse: ')
    assert first.endswith('unexplained: pan 9 % → 1 %, lift 4 % → 4 %')
    assert last == 'elbow 2 % → 2.5 %'
    assert ['worse' in str(verdict) for verdict in told] == [False, False, True, True]


def test_what_is_left_at_slow_speed_only_is_told_so():
    velocity = np.linspace(0.0, 1.0, 100)[:, np.newaxis] * np.ones(3)
    series = SimpleNamespace(velocity=velocity, after=1.0 * (velocity < [0.015, 0.5, 0.5]))
    evidence = SimpleNamespace(residuals=(None, residuals(11.0, 11.0, 9.0)), series=series)
    told = [str(x) for x in report._left(ARM.tree, evidence)]
    assert ['below 2 % of its peak speed' in x for x in told] == [True, False]


def test_no_link_is_beyond_doubt_other_than_described_if_no_joint_is_predicted_better():
    """Efforts that are late by a sample gave a link 0.09 ± 0.002 kg that it does not have."""
    run = moved(np.random.default_rng(3), measured_arm(heavier=2.0), 8.0)
    found, before = identified(run), residuals(9.0, 12.0, 26.0)
    series = SimpleNamespace(after=np.zeros((3, 3)), velocity=np.ones((3, 3)))
    for lift, worst, told in (
        (12.0, 26.0, []),
        (11.0, 26.0, ['probably']),
        (9.0, 9.0, ['beyond doubt']),
    ):
        evidence = Evidence((before, residuals(9.1, lift, worst)), series, 0.0, ())
        made = report.identification_report('', found, evidence, *[()] * 4)
        said = [str(x).partition(' other than described: ')[0] for x in made.findings]
        assert [x for x in said if x in ('probably', 'beyond doubt')] == told
        assert [text for text, _ in made.tiles[:2]] == ['26 %', f'{max(9.1, worst):g} %']


def test_times_are_since_the_first_state_as_those_of_options(command, rng):
    run = moved(rng)
    run.measured_effort[500, 1] += 80.0
    none = np.zeros(0)
    run = replace(run, time=1.76e9 + run.time, stamp_ns=none, arrival_ns=none, answer_ns=none)
    said = command(IDENTIFY, run).said
    assert 'of lift that deviate from both sides, at 1 instant, the first at 5 s' in said
    ended = command(f'{IDENTIFY} --from 50', run, code=2)
    for text in (said, ended.err):
        assert '17600000' not in text
    assert 'the part from 50 s: holds no state' in ended.err
    assert 'spans 0 s to 11.99 s' in ended.err


def test_terms_that_may_cancel_are_said_to_be_friction_in_their_sum_only():
    run = moved(np.random.default_rng(3), seconds=8.0)
    usual, found = (identified(run, terms=x) for x in (DEFAULT_TERMS, tuple(TERMS)))
    held = replace(found.physical, deviations=np.ones(len(found.plan.unknowns)))
    for each, told in ((usual, False), (replace(found, physical=held), True)):
        assert ('only the sum is friction' in report._drive_table(each).text) is told


def test_a_link_that_comes_out_as_nothing_stays_as_described_in_the_files(rng):
    """A jaw of 1 g that the arm does not have came out at 1e-8 kg."""
    found = identified(moved(rng, seconds=6.0))
    assert 'fore' in corrected_links(found)
    values = inertial_parameters(found.tree)
    values[-PER_BODY:] *= 1e-5
    nothing = replace(found, tree=with_inertial_parameters(found.tree, values))
    assert [*corrected_links(nothing)] == [x for x in corrected_links(found) if x != 'fore']
