# SPDX-License-Identifier: Apache-2.0
"""Joint ranges of a robot tree, and the consumers of their middles and samples."""

from __future__ import annotations

import math
from itertools import islice

import numpy as np
import pytest
from urdf_text import joint, link, robot, symmetric

from robot_dynamics_ros.constraints.angles import JointProgram
from robot_dynamics_ros.constraints.feasibility import starting_configuration
from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.identification.excitation import Bounds, ExcitationProblem
from robot_dynamics_ros.kinematics.tool_task import ranges
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.planning.postures import comfortable_postures

I = symmetric(0.01, 0.012, 0.011)
TURN, TRAVEL = math.pi, 1.0  # the sampled half range of joints without limits, rad and m


def arm(*joints, **options):
    """Return a chain of joints, each (type, (lower, upper)), with a tool at its end."""
    links, chain = [link('base')], []
    for k, (kind, limits) in enumerate(joints):
        axis = ((0, -1, 0), (1, 0, 0), (0, 0, 1))[k % 3]
        links.append(link(f'l{k}', 1.0, (0.2, 0, 0), I))
        parent = f'l{k - 1}' if k else 'base'
        xyz = (0.3 * bool(k), 0, 0)
        chain.append(joint(f'j{k}', parent, f'l{k}', kind, xyz, axis=axis, limits=limits))
    tip = joint('tip', links[-1].split('"')[1], 'tool', 'fixed', (0.3, 0.1, 0.05))
    return load_robot(robot('arm', *links, link('tool'), *chain, tip), **options)


@pytest.mark.parametrize(
    ('kind', 'limits', 'sampled'),
    [
        ('prismatic', (4.0, 6.0), (4.0, 6.0)),
        ('prismatic', (-20.0, 10.0), (-20.0, 10.0)),
        ('prismatic', (0.0, 0.0), (-TRAVEL, TRAVEL)),
        ('revolute', (3.5, 6.0), (3.5, 6.0)),
        ('revolute', (0.82, 5.46), (0.82, 5.46)),
        ('revolute', (-6.28, 6.28), (-TURN, TURN)),
        ('revolute', (-1.0, 9.0), (4.0 - TURN, 4.0 + TURN)),
        # Limits in degrees: real postures, none of many turns.
        ('revolute', (0.0, 180.0), (0.0, 2.0 * TURN)),
        ('revolute', (-170.0, -10.0), (-10.0 - 2.0 * TURN, -10.0)),
        ('revolute', (-90.0, 270.0), (-TURN, TURN)),
        ('continuous', (0.0, 0.0), (-TURN, TURN)),
    ],
)
def test_samples_cover_the_limits_or_one_turn_about_their_middle(kind, limits, sampled):
    tree = arm((kind, limits))
    assert [bound.item() for bound in tree.sampled_range] == pytest.approx(sampled, rel=1e-15)
    assert tree.middle.item() == pytest.approx(0.5 * (sampled[0] + sampled[1]), abs=1e-15)


def test_a_range_with_one_end_begins_there():
    tree = arm(('continuous', (0, 0)), ('prismatic', (0, 0)), ('revolute', (0, 0)))
    tree = tree.with_changes(
        position_lower=np.array([2.0, -np.inf, -np.inf]),
        position_upper=np.array([np.inf, -3.0, 1.0]),
    )
    assert tree.middle.tolist() == [2.0, -3.0, 0.0]
    lower, upper = tree.sampled_range
    assert lower.tolist() == [2.0, -3.0 - TRAVEL, -TURN]
    assert upper.tolist() == [2.0 + TURN, -3.0, 1.0]


def test_a_tree_copies_the_arrays_that_it_freezes():
    gravity, mass, offset = np.array([0.0, 0.0, -1.6]), np.array([2.0]), np.array([0.1])
    tree = arm(('revolute', (-1.0, 1.0)), gravity=gravity)
    changed = tree.with_changes(mass=mass, drive_friction={'offset': offset}, com=mass[:, None])
    for of_the_caller in (gravity, mass, offset):
        of_the_caller[:] = -9.8
    assert tree.gravity[2] == -1.6
    assert (changed.mass.tolist(), changed.com.tolist()) == ([2.0], [[2.0]])
    friction = changed.drive_friction['offset']
    assert friction.tolist() == [0.1]
    names = ('inertia', 'axis', 'R_PJ', 'p_PJ', 'gravity', 'effort_limit', 'mass', 'com')
    frozen = [getattr(changed, name) for name in names]
    changed.reference_lower[:] = changed.reference_upper[:] = 9.0  # each call returns a new array
    assert (changed.reference_lower, changed.reference_upper) == (-1.0, 1.0)
    for array in (*frozen, friction, *changed.dependence, changed.frames['tool'].p_BF):
        with pytest.raises(ValueError, match='read-only'):
            array[...] = 0.0
    with pytest.raises(AttributeError):
        changed.name = 'other'
    assert changed.with_changes(name='same').mass is changed.mass


FAR = (('revolute', (3.6, 6.2)), ('prismatic', (4.0, 6.0)), ('revolute', (0.0, 5.5)))


def test_programs_start_in_the_middle_of_the_limits():
    tree = arm(*FAR)
    program = JointProgram(tree, 'hold', 'reference', ['j0', 'j1', 'j2'])
    row = {'name': 'hold', 'kind': 'joint_program', 'joints': ['j2'], 'position': 'reference'}
    text = {'name': 'rest', 'constraints': [{**row, 'natural_frequency': 5.0}]}
    middle = [4.9, 5.0, 2.75]
    assert program.signals[0].at(0.0)[0] == pytest.approx(middle)
    start = starting_configuration(load_program(text, tree, check=False))
    np.testing.assert_allclose(start, middle, atol=1e-12)


@pytest.mark.slow
def test_excitation_and_planning_stay_within_the_same_ranges():
    tree = arm(*FAR, ('prismatic', (0.0, 0.0)))
    problem = ExcitationProblem(tree, 10.0, 3, Bounds(), ('damping',))
    lower, upper = tree.sampled_range
    np.testing.assert_allclose(problem.middle, tree.middle, atol=1e-15)
    np.testing.assert_allclose(problem.half, 0.5 * (upper - lower), atol=1e-15)
    np.testing.assert_allclose(ranges(tree), [2.6, 2.0, 5.5, 2.0], rtol=1e-14)
    postures = np.array([*islice(comfortable_postures(arm(*FAR), 'tool'), 50)])
    assert (postures >= lower[:3]).all()
    assert (postures <= upper[:3]).all()
