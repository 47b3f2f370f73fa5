# SPDX-License-Identifier: Apache-2.0
"""The cause of a residual is one where one explains it, and none where there is none.

The efforts are Pinocchio's, with friction that the description lacks, and noise.
"""

import re
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tables
import yaml
from numpy.testing import assert_allclose
from recorded_arm import (
    Drives,
    ExactMotion,
    frictionless,
    measured_arm,
    measured_run,
    sinusoidal_run,
    sinusoids,
    two_link_run,
)
from samples import Sample, sample
from urdf_text import described

from robot_dynamics_ros.estimation import effort_model, residual_causes
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.recordings.metrics.analysis import AnalysisSettings, evaluate
from robot_dynamics_ros.recordings.metrics.metric import flat_figures
from robot_dynamics_ros.recordings.plausibility import problem_of

NOISE = (0.0, 1e-3, 0.3)


def evaluated(run, described: Any):
    return evaluate(run, described.tree, AnalysisSettings(frame='tool'))


def findings_of(run, described: Any) -> list[str]:
    return [str(finding) for finding in evaluated(run, described).findings]


def faults_of(run, described: Any) -> list[Any]:
    findings = evaluated(run, described).findings
    return [finding for finding in findings if finding.severity == 'error']


def run_of(rng, arm: Sample, **given):
    return sinusoidal_run(arm, rng, noise=NOISE, **given)


ARM = measured_arm()


@pytest.mark.slow
def test_several_wrong_masses_are_told_as_what_they_look_like_with_its_share(rng):
    """No single link is heavier or lighter by what explains most."""
    factor = np.array([1.0, 1.1, 1.4])
    inertia = ARM.tree.inertia / factor[:, None, None]
    tree = ARM.tree.with_changes(mass=ARM.tree.mass / factor, inertia=inertia)
    errors = [fault.problem for fault in faults_of(run_of(rng, ARM), SimpleNamespace(tree=tree))]
    assert errors
    likeness = re.compile(r'the arm moves as if .*: \d+ % of the residual of .*')
    assert all(likeness.fullmatch(text) for text in errors), errors


@pytest.mark.slow
def test_a_mass_is_told_as_one_of_several_that_may_explain_as_much(rng):
    """A load on the axis of the hand, at the centre of the wrist, is also a heavier wrist."""
    arm = wrist_arm(0.4, (0.0, 0.0, -0.05))
    run = sinusoidal_run(arm, rng, pace=0.5, friction=frictionless)
    (text,) = [text for text in findings_of(run, wrist_arm()) if 'moves as if' in text]
    assert text.startswith('the arm moves as if wrist weighed 0.4 kg more')
    assert text.endswith('or a wrong zero of a joint may explain nearly as much')


def test_first_moments_without_a_mass_are_no_load_but_a_wrong_zero_or_centre_of_mass(rng):
    run = run_of(rng, ARM)
    run.position[:, 2] += 0.2  # of the elbow
    (fault,) = faults_of(run, ARM)
    assert 'as if fore had its centre of mass elsewhere, or a joint its zero' in fault.problem
    assert 'position_zero' in fault.remedy


def lift(upper: float) -> Sample:
    """An arm on a lift, whose joints above are vertical, with an upper arm of a mass, kg."""
    text = described('lift', f"""
base: []
carriage: [4.1, [0, 0, 0.05], [0.02, 0.02, 0.02]]
upper: [{upper}, [0.16, 0, 0], [0.006, 0.031, 0.034]]
tool: [2.2, [0.12, 0, -0.02], [0.003, 0.013, 0.014]]
lift: {{of: [base, carriage, prismatic], effort: 300.0}}
shoulder: {{of: [carriage, upper], xyz: [0.06, 0, 0]}}
elbow: {{of: [upper, tool], xyz: [0.33, 0, 0]}}
""")  # fmt: skip
    return Sample('lift', text)


def test_on_a_lift_a_heavier_link_is_told_as_such_and_not_as_a_gravity_that_nobody_has(rng):
    """Both need the same force of the lift, of which gravity is by far the most."""
    run = sinusoidal_run(lift(3.2), rng, noise=(0.0, 1e-4, 0.005), friction=frictionless)
    (text,) = [fault.problem for fault in faults_of(run, lift(2.0))]
    assert re.match('the arm moves as if (carriage|upper) weighed 1.2 kg more than the ', text)


@pytest.mark.slow
def test_a_joint_that_rests_at_its_limit_hides_no_cause_of_the_others(rng):
    run = run_of(rng, measured_arm(2.8), rests=[0])
    lower = np.append(0.0, ARM.tree.position_lower[1:])
    texts = findings_of(run, SimpleNamespace(tree=ARM.tree.with_changes(position_lower=lower)))
    assert sum('the arm moves as if it carried 2.' in text for text in texts) == 1, texts


@pytest.mark.slow
def test_friction_that_the_description_has_too_much_of_is_told_as_such(rng):
    dry, run = np.array([6.0, 8.0, 5.0]), run_of(rng, ARM)
    for given, how in (
        ({'coulomb_friction': dry, 'damping': dry}, 'that the arm lacks: about '),
        ({'coulomb_friction': dry}, r'other than that of the model: about \+\S+ .* and -\S+ '),
    ):
        texts = findings_of(run, SimpleNamespace(tree=ARM.tree.with_changes(**given)))
        texts = [x for x in texts if 'is friction' in x]
        assert len(texts) == 3
        assert all(re.search(f'is friction {how}', x) for x in texts), texts


def wrist_arm(load: float = 0.0, place: Sequence[float] = (0.0, 0.0, 0.0)) -> Sample:
    """An arm whose last joint turns a small hand about its own axis, with next to no effort."""
    text = described('wrist_arm', f"""
base: []
shoulder: [2.5, [0, 0.02, 0.05], [0.008, 0.0088, 0.0032]]
upper: [2.2, [0, 0, 0.15], [0.02, 0.022, 0.008]]
fore: [1.4, [0.01, 0, 0.12], [0.009, 0.0099, 0.0036]]
wrist: [0.6, [0, 0, 0.04], [0.001, 0.0011, 0.0004]]
hand: [0.5, [0, 0, 0.04], [0.0005, 0.00055, 0.0002]]
tool: {[load, [*place], [1.0e-4] * 3] if load else []}
j1: {{of: [base, shoulder], xyz: [0, 0, 0.12], effort: 60.0}}
j2: {{of: [shoulder, upper], xyz: [0, 0, 0.1], axis: [0, 1, 0], effort: 60.0}}
j3: {{of: [upper, fore], xyz: [0, 0, 0.3], axis: [0, 1, 0], effort: 35.0}}
j4: {{of: [fore, wrist], xyz: [0, 0, 0.25], axis: [0, 1, 0], effort: 15.0}}
j5: {{of: [wrist, hand], xyz: [0, 0, 0.09], effort: 8.0}}
grasp: {{of: [hand, tool, fixed]}}
""", limits=(-6.0, 6.0), velocity=20.0)  # fmt: skip
    return Sample('wrist_arm', text)


#: Loads, noise of the largest effort of each joint, and pace: gravity or inertia prevails.
LOADS = yaml.safe_load("""
- [0.1, [0, 0, 0.08], 0.01, 1.0]
- [0.4, [0.05, -0.02, 0.08], 0.01, 4.0]
- [1.2, [0, 0, 0], 0.0, 4.0]
""")


@pytest.mark.slow
@pytest.mark.parametrize(('load', 'place', 'noise', 'pace'), LOADS)
def test_a_load_beyond_the_tool_is_the_only_fault_whatever_the_motion(
    load, place, noise, pace, rng
):
    """A load beside the frame has moments of inertia there, which no other cause explains."""
    motion = sinusoids(rng, 5, np.arange(0.0, 24.0 / pace, 0.004 / pace), pace)
    run = measured_run(wrist_arm(load, place), motion, frictionless)
    effort = run.measured_effort
    effort += noise * np.abs(effort).max(axis=0) * rng.normal(size=effort.shape)
    (fault,) = faults_of(run, wrist_arm())
    mass = re.fullmatch(r'the arm moves as if it carried (\S+) kg more .*', fault.problem)
    # Noise of 1 % in 600 independent samples leaves 2 % of a load that is a tenth of the effort.
    assert float(mass[1]) == pytest.approx(load, rel=0.05)
    assert fault.remedy == 'identify --payload tool measures it'


@pytest.mark.slow
def test_the_base_carries_no_load(rng):
    """It was that of the last link."""
    run, tree = run_of(rng, measured_arm(2.0)), ARM.tree
    found = evaluate(run, tree, AnalysisSettings(frame=tree.base_link)).findings
    assert not any('at its tool' in finding.problem for finding in found)


@pytest.mark.slow
def test_another_unit_beside_a_load_reverses_no_joint():
    """The load changes the factors of some joints by less than the unit does."""
    run = sinusoidal_run(wrist_arm(2.0, (0, 0, 0.1)), np.random.default_rng(1), pace=0.6)
    run.measured_effort[:] *= 1e3
    problem = problem_of(run, wrist_arm().tree, measured=True)
    assert 'write effort_unit: mN m in the driver profile' in problem
    assert 'sign' not in problem


@pytest.mark.slow
@tables.rows(
    'given own said',
    """
[1.0, 0.0, -9.76], 9.81, gravity points elsewhere
[0.0, 9.8, 0.4], 9.81, gravity points elsewhere
[0.0, 0.0, 0.0], 9.81, the efforts contain no gravity
[0.0, 0.0, 9.81], 9.81, 'wrong sign of effort, or of gravity'
""",
)
def test_another_gravity_is_found_beside_friction_that_the_model_lacks(given, own, said, rng):
    run = run_of(rng, ARM, gravity=given)
    evaluation = evaluated(run, SimpleNamespace(tree=ARM.tree.with_gravity((0.0, 0.0, -own))))
    assert re.search(said, str(evaluation.findings[0]))
    found = evaluation.figures['effort']['gravity']
    assert found['verdict'] in ('tilt', 'compensated')
    # Noise of 0.3 N m in 240 independent samples of levers of 6 kg m: 3 mm/s^2.
    assert_allclose(found['fitted'], given, rtol=0.0, atol=0.01)


def test_a_given_gravity_that_loads_no_joint_of_a_planar_arm_is_told():
    arm = sample('planar_2r').tree
    given = arm.with_gravity(9.81 * arm.axis[0])
    found = evaluate(two_link_run(1, 8.0), given, AnalysisSettings(frame='link2'))
    assert_allclose(found.figures['effort']['gravity']['fitted'], arm.gravity, atol=0.02)


@pytest.mark.slow
def test_separate_factors_stay_separate_causes(rng):
    run = run_of(rng, ARM)
    run.measured_effort[:] *= [1.0, 1.4, 0.6]
    said = ' '.join(findings_of(run, ARM))
    for name, percent in (('lift', 140), ('elbow', 60)):
        assert f'joint {name!r}: its efforts are {percent} % of what the model needs' in said


@pytest.mark.slow
def test_a_small_residual_of_one_short_move_is_no_other_joint_or_unit():
    """In one direction friction is a constant, which would make up for all that differs."""
    arm, s = wrist_arm(), np.linspace(0.0, 1.0, 401)[:, np.newaxis]
    start, way = np.array([1.5, 0.1, 1.3, 1.0, -1.0]), np.array([0.2, 0.1, 0.05, 0.15, 0.1])
    q, v = start + way * (3.0 * s**2 - 2.0 * s**3), 0.5 * way * 6.0 * s * (1.0 - s)
    motion = ExactMotion(2.0 * s[:, 0], q, v, 0.25 * way * (6.0 - 12.0 * s))
    run = measured_run(arm, motion, frictionless)
    effort = run.measured_effort
    effort[:, 1] = effort[:, 1].mean()  # 5 % of it are unexplained
    texts = findings_of(run, arm)
    assert not any('effort is what' in text or 'unit' in text for text in texts), texts


@pytest.mark.parametrize(('seed', 'reversed_ones'), [(0, []), (2, ['j3'])])
def test_an_arm_that_hangs_at_rest_has_no_other_cause(seed, reversed_ones):
    """The derivative of noise is no motion: it was 2 kg less at the tool, and further signs."""
    arm, rng = wrist_arm(), np.random.default_rng(seed)
    q, still = [0.3, np.pi, 0.0, 0.0, 0.2] + 0.05 * rng.normal(size=5), np.zeros((800, 5))
    motion = ExactMotion(0.01 * np.arange(800), q + still, still, still)
    run = measured_run(arm, motion, frictionless, noise=(1e-4, 5e-3, 0.02), rng=rng)
    run.measured_effort[:] *= np.where(np.isin(arm.tree.joint_names, reversed_ones), -1.0, 1.0)
    faults = faults_of(run, arm)
    assert [fault.culprit for fault in faults] == [f'joint {x!r}' for x in reversed_ones]
    assert all('wrong sign' in fault.problem for fault in faults)


@pytest.mark.slow
def test_negative_friction_is_no_cause(rng):
    run = run_of(rng, ARM, friction=lambda v, rigid: -0.8 * v - 1.5 * np.sign(v))
    assert not any('friction that the model lacks' in text for text in findings_of(run, ARM))


@pytest.mark.slow
def test_an_exact_run_has_no_cause():
    """Parts of a million are left by solvers, and mean nothing; below 1 % nothing matters."""
    arm = sample('planar_2r')
    run = two_link_run(1, 8.0, Drives(0.0, 0.0, 0.0), 1e-3)
    run.velocity[:] *= 1.0 + 4e-6
    run.effort[:] += 1e-5 * np.sign(run.velocity)
    tree = load_robot(arm.xml, arm.gravity, effort_limit=1e3)
    tree = tree.with_changes(mass=1.004 * tree.mass)
    found = evaluate(run, tree, AnalysisSettings(frame='link2'))
    assert found.evaluated.timing.name == 'semi_implicit'
    assert {finding.severity for finding in found.findings} == {'ok'}


@pytest.mark.slow
def test_what_noise_leaves_is_told_as_noise_and_needs_no_identification(rng):
    """The first joint carries no weight: noise of 1 N m is 17 % of its effort."""
    run = sinusoidal_run(ARM, rng, noise=(0.0, 0.0, 1.0), friction=frictionless)
    texts = findings_of(run, ARM)
    assert re.fullmatch(r'the model .*: 1\d % of that of pan, 1 N m, is left, as noise .*', *texts)
    run.measured_effort[:, 0] += 2.0 * np.sin(9.0 * run.time)
    assert any('% of the effort of pan; identify' in text for text in findings_of(run, ARM))


@pytest.mark.slow
def test_friction_that_reverses_gradually_needs_no_identification(rng):
    """Friction of a simulator, and of a real gear, is no step; its filtered direction is none."""
    arm, dry = wrist_arm(), np.array([0.0, 0.0, 0.0, 0.0, 0.06])
    given = {'noise': (2e-5, 5e-3, 0.005), 'friction': lambda v, _: dry * np.tanh(v / 0.15)}
    run = sinusoidal_run(arm, rng, **given)
    known = SimpleNamespace(tree=arm.tree.with_changes(coulomb_friction=dry))
    texts = findings_of(run, known)
    assert '% of that of j5, 0.01 N m, is left, as noise or friction at reversals' in texts[-1]
    assert not any('identify' in text for text in texts), texts
    # In step with a joint that needs next to no effort, it is no exchange with that one.
    run.measured_effort[:, 0] = 2.0 * np.sign(run.velocity[:, 4]) + rng.normal(size=len(run.time))
    assert not any('needs' in text for text in findings_of(run, arm))


@pytest.mark.slow
def test_blocks_of_instants_have_the_residual_of_all_together(rng, monkeypatch):
    """What is added in parts may differ by rounding only, also at the edges of the parts."""
    run = run_of(rng, ARM)
    given = evaluated(run, ARM)
    for module in (effort_model, residual_causes):
        monkeypatch.setattr(module, '_BLOCK', 257)
    split = evaluated(run, ARM)
    assert [str(f) for f in split.findings] == [str(f) for f in given.findings]
    together, parts = (flat_figures(x.figures, ARM.tree.joint_names) for x in (given, split))
    assert together.keys() == parts.keys()
    for name, value in together.items():
        assert parts[name] == pytest.approx(value, rel=1e-6, abs=1e-9, nan_ok=True), name
