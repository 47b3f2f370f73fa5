# SPDX-License-Identifier: Apache-2.0
"""An arm with mimic joints between its independent ones passes through every consumer.

It has six bodies and four joints whose types differ place by place (``samples.mimic_arm``), so an
array of bodies that is used as one of joints, or the other way round, fails or gives another unit.
Efforts are Pinocchio's, with the mimic joints eliminated by hand.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
import yaml
from oracles import EliminationOracle, relative_error
from recorded_arm import sinusoids
from recorded_bags import monitored
from recorded_loop import GIVEN, RecordedLoop
from samples import mimic_arm, shipped
from urdf_text import follow, joint, link, robot, symmetric

from robot_dynamics_ros.cli import compare_formulations, excite
from robot_dynamics_ros.commissioning.held_arm import HeldPoses, check_held
from robot_dynamics_ros.constraints.angles import JointProgram
from robot_dynamics_ros.control.drivers.driver_interface import DriverInterface
from robot_dynamics_ros.control.laws.registry import LAWS
from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.errors import ModelError, RecordingError
from robot_dynamics_ros.estimation.model_monitor import ModelMonitor, Thresholds, evaluate
from robot_dynamics_ros.geometry.collisions import CollisionChecker, Obstacles
from robot_dynamics_ros.kinematics.tool_task import ScaraTask
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.model.findings import mass_matrix_fault
from robot_dynamics_ros.parameters import defaults
from robot_dynamics_ros.recordings.metrics.tracking import limits
from robot_dynamics_ros.recordings.plausibility import check_recording, limit_findings
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.ros.node_parameters import EMULATOR
from robot_dynamics_ros.simulation.imperfections import emulated_plant

SAMPLE = mimic_arm()
TREE = SAMPLE.tree
ORACLE = EliminationOracle(SAMPLE.xml, SAMPLE.gravity, TREE.joint_names)
KINDS = (False, False, True, False)
FOLLOWED = [0, 1, 1, 2, 0, 3]  # the joint that each body's joint is or follows
HOME = np.array([0.1, 0.4, 0.15, 0.2])
PERIOD = 4_000_000  # ns


@cache
def motion(seconds: float) -> Recording:
    """Return a run with the efforts of Pinocchio and the friction of the independent joints."""
    t = 1e-9 * PERIOD * np.arange(round(seconds * 1e9 / PERIOD))
    size = np.array([0.6, 0.6, 0.08, 0.6])
    moved = sinusoids(np.random.default_rng(4), 4, t, pace=1.6)
    q, v, a = HOME + size * moved.q, size * moved.v, size * moved.a
    rigid = np.array([ORACLE.inverse_dynamics(*row) for row in zip(q, v, a, strict=True)])
    G = np.abs(ORACLE.G)
    every = np.ones(6)  # of the six drives: damping 0.5, friction 0.3, armature 0.02
    effort = rigid + (0.5 * every @ G**2) * v + (0.3 * every @ G) * np.sign(v)
    effort += (0.02 * every @ G**2) * a
    run = TREE.joint_names, t, q, v, effort, q, v
    return Recording(*run, description=SAMPLE.xml, measured_effort=effort)


@pytest.fixture(scope='module')
def bag(shared):
    return shared.word(motion(12.0))


def test_joints_and_bodies_are_told_apart():
    assert TREE.prismatic == (False, True, False, True, False, False)
    assert TREE.joint_is_prismatic == KINDS
    assert TREE.joint_of_body.tolist() == FOLLOWED
    assert TREE.body_of_joint.tolist() == [0, 2, 3, 5]
    assert TREE.mimic_joints == ('reach', 'belt')


# Units in messages -------------------------------------------------------------------------------

NAMES = TREE.joint_names


def outside(j: int):
    """Return motions of a joint far beyond its limits."""
    q = np.tile(HOME, (50, 1))
    q[:, j] = 100.0 + 10.0 * np.sin(np.arange(50))
    return q


def of_limits(j: int) -> str:
    return str(limits(replace(motion(0.2), position=outside(j)), TREE).findings[0])


def of_program(j: int) -> str:
    return JointProgram(TREE, 'hold', 'initial', [NAMES[j]]).rows[0]


def of_profile(j: int) -> str:
    return str(next(limit_findings(TREE, outside(j))))


def of_identify(j: int) -> str:
    run = motion(2.0)
    far = run.position.copy()
    far[:, j] *= 180.0 / np.pi if KINDS[j] is False else 1e3
    with pytest.raises(RecordingError) as refusal:
        check_recording(replace(run, position=far), TREE, measured=False)
    return str(refusal.value)


def of_monitor(j: int) -> str:
    run = motion(2.0).rows(slice(100))
    pushed = replace(run, effort=run.effort + 60.0 * (np.arange(4) == j))
    monitor = monitored(ModelMonitor(TREE, compare_with=''), pushed)
    return evaluate(monitor.summary(), Thresholds.of(TREE), TREE)[1]


def of_mass_matrix(j: int) -> str:
    tree = load_robot(SAMPLE.xml, joints=NAMES[: j + 1])
    light = (np.arange(tree.bodies) == 0) * float(j > 0)  # nothing beyond the column has mass
    inertia = light[:, np.newaxis, np.newaxis] * tree.inertia
    bare = tree.with_changes(mass=light * tree.mass, inertia=inertia)
    return str(mass_matrix_fault(bare, HOME[np.newaxis, : j + 1]))


def of_held_arm(j: int) -> str:
    """Return the remark on a constant effort of a held arm whose base is tilted."""
    gravity = np.array([5.0, 3.0, -7.9])
    tree, oracle = TREE.with_gravity(gravity), EliminationOracle(SAMPLE.xml, gravity, NAMES)
    q = HOME + np.random.default_rng(1).uniform(-1.0, 1.0, (12, 4)) * [1.0, 1.0, 0.1, 1.0]
    g = np.array([oracle.inverse_dynamics(x, 0 * x, 0 * x) for x in q])
    shifted = HeldPoses(DriverInterface(None, tree), q, g + 40.0 * (np.arange(4) == j))
    found = check_held(tree, shifted, gravity_expected=True)
    return '; '.join(
        str(finding) for finding in found.findings if 'off in every pose' in str(finding)
    )


@pytest.mark.parametrize('joint', [1, 2])  # turns, slides
@pytest.mark.parametrize(
    ('consumer', 'units'),
    [
        (of_limits, (' rad', ' m')),
        (of_program, ('(rad)', '(m)')),
        (of_profile, (' rad,', ' m,')),
        (of_identify, ('degrees', 'millimetres')),
        (of_monitor, (' N m RMS', ' N RMS')),
        (of_mass_matrix, (' kg m^2;', ' kg;')),
        (of_held_arm, ('40 N m', '40 N')),
    ],
)
def test_messages_have_the_unit_of_the_joint(consumer, units, joint):
    said = consumer(joint)
    assert NAMES[joint] in said
    assert units[KINDS[joint]] in said, said
    assert KINDS[joint] is False or units[0] not in said, said


# Commands ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_recording_is_explained_and_missing_friction_has_the_unit_of_its_joint(bag, command):
    share = command('analyze --no-report', bag).figures['effort']['residual_share']
    assert max(share) < 1e-4  # the efforts are exact; accelerations by differences of h = 4 ms
    thresholds = yaml.safe_load(command('calibrate', bag, bag).text('thresholds.yaml'))
    assert list(thresholds['joints']) == [*NAMES]
    found = [joint['observer_bandwidth'] for joint in thresholds['joints'].values()]
    assert found == pytest.approx([50.0] * 4)  # 0.2 times 250 Hz
    bare = re.sub('<dynamics[^>]*>', '', SAMPLE.xml)
    said = command('analyze --no-report', bag, '--robot', bare).said
    for name, slides in zip(NAMES, KINDS, strict=True):
        unit = 'N per m/s and' if slides else 'N m per rad/s and'
        assert re.search(f'of {name} is friction that the model lacks: about \\S+ {unit}', said)


@pytest.mark.slow
def test_what_is_identified_replaces_the_friction_of_the_mimic_joints_too(bag, command):
    out = command('identify', bag).folder
    assert 'include those of the mimic joints' in (out / 'report.html').read_text()
    for found in (
        load_robot(out / 'corrected.urdf'),
        load_robot(SAMPLE.xml, identified=out / 'parameters.yaml'),
    ):
        for term in ('damping', 'coulomb_friction', 'armature'):
            assert relative_error(getattr(found, term), getattr(TREE, term)) < 0.02
        q, v, a = HOME, np.ones(4), np.ones(4)
        tau = ORACLE.inverse_dynamics(q, v, a)
        rigid = make_formulation('kane', found).inverse_dynamics(q, v, a)
        assert relative_error(rigid, tau) < 0.01


@pytest.mark.slow
def test_commands_without_a_recording_accept_the_arm(command, monkeypatch):
    # Neither the times of the formulations nor the best motion is under test.
    monkeypatch.setattr(compare_formulations, '_BLOCKS', 1)
    monkeypatch.setattr(compare_formulations, '_BATCH', 16)
    quick = partial(excite.design_excitation, iterations=1)
    monkeypatch.setattr(excite, 'design_excitation', quick)
    file, out = command.word(SAMPLE.xml), ('--output', command.folder / 'c')
    new = command('new_robot', file)
    assert 'joints: turn, elbow, lift, roll' in new.said
    assert 'along a circle of' in new.said
    for words, *more, said in (
        ('check_model', 'loads with 4 joints: turn, elbow, lift, roll'),
        ('compare_formulations --samples 2', 'pinocchio'),
        ('excite --harmonics 3 --period 4 --periods 1', 'condition of the base regressor'),
        ('derive --format c', *out, ''),
        ('design_gains', '--program', new.folder / 'program.yaml', 'In the program file gains'),
    ):
        assert said in command(words, file, *more).said


class MimicLoop(RecordedLoop):
    """The session on this arm, behind the simulator's own chain of plants."""

    def _robot(self, positions=None):
        return load_robot(SAMPLE.xml, self.given['gravity'])


@pytest.mark.slow
@pytest.mark.parametrize('law', sorted(LAWS))
def test_every_law_runs_and_its_replay_repeats_it(law, command, without_curves):
    given = {**GIVEN, 'robot': '', 'robot_description': SAMPLE.xml, 'law': law}
    loop = MimicLoop(given).run(150)
    assert np.isfinite(loop.efforts).all()
    assert 'every effort is within 1e-09' in command('replay', loop.messages).said


def test_plant_and_driver_of_the_emulator_hold_the_arm():
    factors = {'mass_factor': [1.1, 1.2, 1.3, 1.4], 'damping_factor': [2.0]}
    values = defaults(EMULATOR) | factors | {'period': 1e-3}
    plant, _ = emulated_plant(TREE, values, ['gravity', 'friction'], payload_known=True)
    of_bodies = np.take(factors['mass_factor'], FOLLOWED)
    np.testing.assert_allclose(plant.tree.mass / TREE.mass, of_bodies, rtol=1e-15)
    np.testing.assert_allclose(plant.tree.inertia[4] / TREE.inertia[4], 1.1, rtol=1e-14)
    np.testing.assert_allclose(plant.tree.damping, 2.0 * TREE.damping, rtol=1e-15)
    plant.reset(HOME)
    for _ in range(100):
        plant.step(np.zeros(4))
    q, v = np.zeros((2, 4))
    plant.read(q, v)
    # The driver compensates the nominal weight: 0.5 kg are missing at the lift, 2.3 at all.
    assert np.abs(q - HOME).max() < 0.05


def test_a_scara_whose_last_joint_follows_is_no_scara():
    head, last = shipped('scara').xml.split('<joint name="joint4"')
    last, tail = last.split('</joint>', 1)
    tree = load_robot(head + follow(f'<joint name="joint4"{last}</joint>', 'joint1') + tail)
    assert (tree.n, tree.bodies) == (3, 4)
    with pytest.raises(ModelError, match='does not have the frames'):
        ScaraTask(tree)


def test_a_collision_of_a_sliding_mimic_joint_between_two_postures_is_found():
    """The slide carries the ball outwards by 1 m per radian: at 2.2 rad it is in the box."""
    ball = '<collision><geometry><sphere radius="0.05"/></geometry></collision></link>'
    I = symmetric(0.01, 0.01, 0.01)
    text = robot(
        'spiral',
        link('base'),
        link('disc', 1.0, (0, 0, 0), I),
        link('rod', 1.0, (0, 0, 0), I).replace('</link>', ball),
        joint('turn', 'base', 'disc'),
        follow(joint('slide', 'disc', 'rod', 'prismatic', axis=(1, 0, 0)), 'turn'),
    )
    x, y = 2.2 * np.cos(2.2), 2.2 * np.sin(2.2)
    checker = CollisionChecker(load_robot(text), Obstacles.of([x, y, 0.0, 0.1, 0.1, 0.1], 5.0))
    before, after = np.array([2.0]), np.array([2.2])
    assert checker.is_free([before])
    assert not checker.is_free([after])
    assert not checker.is_free([before, after])
