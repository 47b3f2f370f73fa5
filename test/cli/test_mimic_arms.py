# SPDX-License-Identifier: Apache-2.0
"""An arm with mimic joints between its independent ones passes through every consumer.

It has six bodies and four joints whose types differ place by place (``samples.mimic_arm``), so an
array of bodies that is used as one of joints, or the other way round, fails or gives another unit.
Efforts are Pinocchio's, with the mimic joints eliminated by hand.
"""

import re
from functools import partial

import numpy as np
import pytest
import yaml
from checkout import ROOT
from numpy.testing import assert_allclose
from oracles import EliminationOracle, relative_error
from recorded_arm import sinusoids
from recorded_loop import GIVEN, RecordedLoop
from samples import mimic_arm, shipped
from urdf_text import described, follow

from robot_dynamics_ros.cli import compare_formulations, excite
from robot_dynamics_ros.control.laws.registry import LAWS
from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.errors import ModelError
from robot_dynamics_ros.geometry.collisions import CollisionChecker, Obstacles
from robot_dynamics_ros.kinematics.tool_task import ScaraTask
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.model.findings import mass_matrix_fault
from robot_dynamics_ros.parameters import defaults
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.ros.node_parameters import EMULATOR
from robot_dynamics_ros.simulation.imperfections import emulated_plant

PACKAGE = ROOT / 'robot_dynamics_ros'
SAMPLE = mimic_arm()
TREE = SAMPLE.tree
ORACLE = EliminationOracle(SAMPLE.xml, SAMPLE.gravity, TREE.joint_names)
KINDS = (False, False, True, False)
FOLLOWED = [0, 1, 1, 2, 0, 3]  # the joint that each body's joint is or follows
HOME = np.array([0.1, 0.4, 0.15, 0.2])
NAMES = TREE.joint_names


@pytest.fixture(scope='module')
def bag(shared):
    """Return a run with the efforts of Pinocchio and the friction of the independent joints."""
    t = 0.004 * np.arange(3000)
    size = np.array([0.6, 0.6, 0.08, 0.6])
    moved = sinusoids(np.random.default_rng(4), 4, t, pace=1.6)
    q, v, a = HOME + size * moved.q, size * moved.v, size * moved.a
    rigid = np.array([ORACLE.inverse_dynamics(*row) for row in zip(q, v, a, strict=True)])
    damping, friction, armature = np.array([[0.5], [0.3], [0.02]]) * np.ones(6)  # of the drives
    G = np.abs(ORACLE.G)
    effort = rigid + (damping @ G**2) * v + (friction @ G) * np.sign(v) + (armature @ G**2) * a
    run = Recording(NAMES, t, q, v, effort, q, v, SAMPLE.xml, measured_effort=effort)
    return shared.word(run)


# Units in messages -------------------------------------------------------------------------------


@pytest.mark.parametrize(('joint', 'unit'), [(1, 'kg m^2;'), (2, 'kg;')])
def test_a_fault_of_the_mass_matrix_has_the_unit_of_the_joint(joint, unit):
    tree = load_robot(SAMPLE.xml, joints=NAMES[: joint + 1])
    light = (np.arange(tree.bodies) == 0).astype(float)  # nothing beyond the column has mass
    inertia = light[:, np.newaxis, np.newaxis] * tree.inertia
    bare = tree.with_changes(mass=light * tree.mass, inertia=inertia)
    said = str(mass_matrix_fault(bare, HOME[np.newaxis, : joint + 1]))
    assert NAMES[joint] in said
    assert f' {unit}' in said


def test_only_what_computes_with_bodies_reads_which_of_them_slide():
    """All others ask ``joint_is_prismatic``, as for the unit of a message."""
    reading = re.compile(r'\b(tree|robot)\.prismatic\b')
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob('*.py')
        if reading.search(path.read_text('utf-8'))
    }
    of_bodies = {'estimation/regressor.py', 'geometry/collisions.py',
                 'recordings/report/toolkit.py', 'simulation/mujoco_description.py'}  # fmt: skip
    rooms = ('description/', 'dynamics/', 'model/', 'symbolic/')
    assert {name for name in found if not name.startswith(rooms)} == of_bodies


# Commands ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_recording_is_explained_and_missing_friction_has_the_unit_of_its_joint(bag, command):
    share = command('analyze --no-report', bag).figures['effort']['residual_share']
    assert max(share) < 1e-4  # the efforts are exact; accelerations by differences of h = 4 ms
    thresholds = yaml.safe_load(command('calibrate', bag, bag).text('thresholds.yaml'))
    assert list(thresholds['joints']) == [*NAMES]
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
def test_every_law_runs(law):
    given = {**GIVEN, 'robot': '', 'robot_description': SAMPLE.xml, 'law': law}
    assert np.isfinite(MimicLoop(given).run(20).efforts).all()


@pytest.mark.slow
def test_a_replay_repeats_a_run(command, without_curves):
    given = {**GIVEN, 'robot': '', 'robot_description': SAMPLE.xml}
    said = command('replay', MimicLoop(given).run(50).messages).said
    assert 'every effort is within 1e-09' in said


def test_plant_and_driver_of_the_emulator_hold_the_arm():
    factors = {'mass_factor': [1.1, 1.2, 1.3, 1.4], 'damping_factor': [2.0]}
    values = defaults(EMULATOR) | factors | {'period': 1e-3}
    plant, _ = emulated_plant(TREE, values, ['gravity', 'friction'], payload_known=True)
    of_bodies = np.take(factors['mass_factor'], FOLLOWED)
    assert_allclose(plant.tree.mass / TREE.mass, of_bodies, rtol=1e-15)
    assert_allclose(plant.tree.inertia[4] / TREE.inertia[4], 1.1, rtol=1e-14)
    assert_allclose(plant.tree.damping, 2.0 * TREE.damping, rtol=1e-15)
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
    text = described('spiral', """
base: []
disc: [1.0, [0, 0, 0], [0.01, 0.01, 0.01]]
rod: [1.0, [0, 0, 0], [0.01, 0.01, 0.01]]
turn: {of: [base, disc]}
slide: {of: [disc, rod, prismatic], axis: [1, 0, 0], follows: [turn]}
""")  # fmt: skip
    rod = '<link name="rod">'
    ball = '<collision><geometry><sphere radius="0.05"/></geometry></collision>'
    text = text.replace(rod, rod + ball)
    x, y = 2.2 * np.cos(2.2), 2.2 * np.sin(2.2)
    checker = CollisionChecker(load_robot(text), Obstacles.of([x, y, 0.0, 0.1, 0.1, 0.1], 5.0))
    before, after = np.array([[2.0], [2.2]])
    assert [checker.is_free(x) for x in ([before], [after], [before, after])] == [
        True,
        False,
        False,
    ]
