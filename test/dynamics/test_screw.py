# SPDX-License-Identifier: Apache-2.0
"""Wrenches of joints, motion and load of sections, against Pinocchio's frames and held joints.

Efforts: see ``test_identities``.
"""

import numpy as np
import pinocchio as pin
import pytest
import tables
from oracles import PinocchioOracle, relative_error
from samples import random_state, sample
from urdf_text import joint, link, symmetric

from robot_dynamics_ros.dynamics import energy, joint_terms  # noqa: F401  of the table
from robot_dynamics_ros.dynamics.registry import make_formulation
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.model.body_tree import BodyFrame
from robot_dynamics_ros.spatial.inertia import RigidBodyInertia

# Both sides round a few hundred operations.
ROUNDING = 1e-13
SLANTED = (2.3, -4.1, -8.6)


@pytest.mark.parametrize('name', ['branched', 'random_chain_7'])
def test_joint_wrenches_and_the_motion_of_every_frame_are_those_of_pinocchio(name):
    """Of links by name, and of any placement in a body."""
    tree, rng = sample(name).tree.with_gravity(SLANTED), np.random.default_rng(1990)
    oracle = PinocchioOracle(sample(name).xml, SLANTED, tree.joint_names)
    q, v, a = state = random_state(tree, rng)
    screw, wrenches = make_formulation('screw', tree), rng.normal(scale=10, size=(tree.n, 6))
    expected = oracle.joint_wrenches(*state, dict(zip(tree.link_names, wrenches, strict=True)))
    assert relative_error(screw.joint_wrenches(*state, wrenches), expected) < ROUNDING
    sections = {frame: frame for frame in tree.frames}
    for k, (u, p) in enumerate(rng.normal(size=(tree.n, 2, 3))):
        place, at = pin.SE3(pin.exp3(u), p), oracle.model.getJointId(tree.joint_names[k])
        oracle.model.addFrame(pin.Frame(f'section{k}', at, 0, place, pin.FrameType.BODY))
        sections[f'section{k}'] = BodyFrame(k, place.rotation, place.translation)
    oracle.data = oracle.model.createData()
    for frame, section in sections.items():
        (R, p), J = oracle.frame_pose(frame, q), oracle.frame_jacobian(frame, q)
        accelerated = J @ a + oracle.frame_bias(frame, q, v)
        for found, right in zip(
            screw.section_motion(*state, section), (R, p, J @ v, accelerated), strict=True
        ):
            assert relative_error(found, right) < ROUNDING


CUT_XYZ, CUT_RPY = (0.21, -0.06, 0.09), (0.5, -0.8, 1.1)
CUT = pin.SE3(pin.rpy.rpyToMatrix(*CUT_RPY), np.array(CUT_XYZ))
TIP = {'mass': 0.8, 'com': (0.07, 0.02, -0.03)}
TIP_INERTIA = symmetric(0.004, 0.005, 0.003, 0.0006, -0.0004, 0.0005)
#: A distal piece of the RRPR arm's second link, which carries what follows, and a body on each
#: piece. Joined by a 'fixed' joint it is the arm itself, by a 'revolute' one the arm cut there.
PIECES = [
    link('tip', *TIP.values(), TIP_INERTIA),
    link('side', 0.9, (-0.04, 0.06, 0.02), 9 * TIP_INERTIA),
    link('hook', 0.5, (0.03, -0.05, 0.01), 4 * TIP_INERTIA),
    joint('j5', 'l2', 'side', xyz=(0.05, -0.1, 0.03), rpy=(0.1, 0.5, 0.9)),
    joint('j6', 'tip', 'hook', xyz=(0.06, 0.08, -0.05), rpy=(-0.6, 0.2, 0.3)),
    '</robot>',
]


def arm_with_a_cut(kind: str) -> str:
    """Return the arm whose pieces are joined by a joint of a kind."""
    text = sample('rrpr').xml.replace('<parent link="l2"/>', '<parent link="tip"/>')
    cut = joint('cut', 'l2', 'tip', kind, CUT_XYZ, CUT_RPY)
    return text.replace('</robot>', '\n'.join([cut, *PIECES]))


class CutArm:
    """The arm as one piece for the recursion, and cut for the oracle."""

    def __init__(self) -> None:
        rng = np.random.default_rng(7)
        self.tree = load_robot(arm_with_a_cut('fixed'), SLANTED)
        self.screw = make_formulation('screw', self.tree)
        self.state = random_state(self.tree, rng)
        self.names = [*self.tree.joint_names, 'cut']
        self.oracle = PinocchioOracle(arm_with_a_cut('revolute'), SLANTED, self.names)
        # The piece beyond the cut, from the frame of the cut to that of the link.
        tensor = CUT.rotation @ TIP_INERTIA @ CUT.rotation.T
        self.piece = RigidBodyInertia(TIP['mass'], CUT.act(np.array(TIP['com'])), tensor)
        self.wrenches = {name: rng.normal(scale=10, size=6) for name in ('tip', 'tool', 'hook')}

    def joint_load(self, name, state, wrenches=None):
        """Return what the oracle's joint transmits, with the cut held still."""
        held = [np.append(array, 0.0) for array in state]
        return self.oracle.joint_wrenches(*held, wrenches)[self.names.index(name)]


ARM = CutArm()


@pytest.mark.parametrize('loaded', [False, True])
def test_the_load_of_a_cut_through_a_link_is_that_of_a_joint_held_there(loaded):
    wrenches, q = ARM.wrenches if loaded else None, ARM.state[0]
    dynamic = ARM.joint_load('cut', ARM.state, wrenches)
    static = ARM.joint_load('cut', (q, 0 * q, 0 * q), wrenches)
    assert relative_error(dynamic, static) > 0.01, 'the motion must matter'
    for section in ('tip', BodyFrame(1, CUT.rotation, CUT.translation)):
        given = section, ARM.piece, wrenches
        found = ARM.screw.section_load(*ARM.state, *given, carried=('j3', 'j6'))
        assert relative_error(found.dynamic, dynamic) < ROUNDING
        assert relative_error(found.static, static) < ROUNDING
        assert relative_error(found.inertial, dynamic - static) < ROUNDING


def test_without_a_distal_piece_the_load_is_the_joint_wrench_seen_from_the_section():
    expected = ARM.joint_load('j2', ARM.state)
    found = ARM.screw.section_load(*ARM.state, BodyFrame(1, np.eye(3), np.zeros(3)))
    assert relative_error(found.dynamic, expected) < ROUNDING
    seen = CUT.actInv(pin.Force(expected)).vector
    assert relative_error(ARM.screw.section_load(*ARM.state, 'tip').dynamic, seen) < ROUNDING


def test_the_foundation_carries_the_weight_and_the_rate_of_momentum():
    """The pedestal is part of the base: it neither moves nor belongs to the tree."""
    tree = sample('branched').tree.with_gravity(SLANTED)
    oracle, state = PinocchioOracle.of(tree), random_state(tree, np.random.default_rng(8))
    q, *rates = oracle._state(*state)
    pin.computeCentroidalMomentumTimeVariation(oracle.model, oracle.data, q, *rates)
    com, rate = oracle.data.com[0], oracle.data.dhg
    weight = -tree.mass.sum() * np.array(SLANTED)
    screw, (force, moment) = make_formulation('screw', tree), np.array([[5, -3, 8], [1, 2, -4.0]])
    found = screw.section_load(*state, 'floor')
    pushed = screw.section_load(*state, 'floor', wrenches={'head': [*force, *moment]})
    R, p = oracle.frame_pose('head', state[0])
    push = np.concatenate([R @ force, R @ moment + np.cross(p, R @ force)])
    assert relative_error(found.static - pushed.static, push) < ROUNDING
    turned = np.concatenate([rate.linear, rate.angular + np.cross(com, rate.linear)])
    assert relative_error(found.static, np.concatenate([weight, np.cross(com, weight)])) < ROUNDING
    assert relative_error(found.inertial, turned) < ROUNDING


NOWHERE = BodyFrame(6, np.eye(3), np.zeros(3))
test_unknown_sections_joints_and_positions_are_refused_by_name = tables.called("""
joint_terms.inertia_matrix(ARM.tree, [NOWHERE.p_BF]) | ShapeError: q has shape (1, 3)
energy.power(ARM.tree, SLANTED, *ARM.state[1:])      | ShapeError: q has shape (3,)
ARM.screw.section_motion(*ARM.state, 'elbow') | UnknownNameError: unknown frame 'elbow'; known: base, hook
ARM.screw.section_load(*ARM.state, NOWHERE)   | UnknownNameError: unknown body of a frame 6; known: -1, 0
ARM.screw.section_load(*ARM.state, 'tip', ARM.piece, carried=('j4',)) | UnknownNameError: joint on the cut link 'j4'; known: j3, j5, j6
""", globals())  # fmt: skip  # noqa: E501
