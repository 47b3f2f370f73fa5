# SPDX-License-Identifier: Apache-2.0
"""Joint ranges of a robot tree, and the consumers of their middles and samples."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tables
from urdf_text import joint, link, robot, symmetric

from robot_dynamics_ros.constraints.angles import JointProgram
from robot_dynamics_ros.constraints.feasibility import starting_configuration
from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.identification.excitation import Bounds, ExcitationProblem
from robot_dynamics_ros.kinematics.tool_task import ranges
from robot_dynamics_ros.model import load_robot

I = symmetric(0.01, 0.012, 0.011)


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


#: Also of limits in degrees: real postures, none of many turns. P is half a turn.
@tables.rows('kind limits sampled', """
prismatic, [4.0, 6.0], 4.0 6.0
prismatic, [0.0, 0.0], -1.0 1.0
revolute, [3.5, 6.0], 3.5 6.0
revolute, [-6.28, 6.28], -P P
revolute, [-1.0, 9.0], 4.0-P 4.0+P
revolute, [0.0, 180.0], 0.0 2*P
revolute, [-170.0, -10.0], -10.0-2*P -10.0
revolute, [-90.0, 270.0], -P P
continuous, [0.0, 0.0], -P P
""")  # fmt: skip
def test_samples_cover_the_limits_or_one_turn_about_their_middle(kind, limits, sampled):
    tree, sampled = arm((kind, limits)), [eval(end, {'P': math.pi}) for end in sampled.split()]
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
    assert lower.tolist() == [2.0, -4.0, -math.pi]
    assert upper.tolist() == [2.0 + math.pi, -3.0, 1.0]


def test_a_tree_copies_the_arrays_that_it_freezes():
    gravity, mass, offset = np.array([0.0, 0.0, -1.6]), np.array([2.0]), np.array([0.1])
    tree = arm(('revolute', (-1.0, 1.0)), gravity=gravity)
    changed = tree.with_changes(mass=mass, drive_friction={'offset': offset})
    for of_the_caller in (gravity, mass, offset):
        of_the_caller[:] = -9.8
    friction = changed.drive_friction['offset']
    assert (tree.gravity[2], *changed.mass, *friction) == (-1.6, 2.0, 0.1)
    changed.reference_lower[:] = 9.0  # each call returns a new array
    assert changed.reference_lower == -1.0
    frozen = (changed.gravity, changed.mass, friction, changed.frames['tool'].p_BF)
    for array in (*frozen, *changed.dependence):
        with pytest.raises(ValueError, match='read-only'):
            array[...] = 0.0
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


def test_excitation_and_the_tool_stay_within_the_same_ranges():
    tree = arm(*FAR, ('prismatic', (0.0, 0.0)))
    problem = ExcitationProblem(tree, 10.0, 3, Bounds(), ('damping',))
    half = 0.5 * np.subtract(*tree.sampled_range[::-1])
    np.testing.assert_allclose([problem.middle, problem.half], [tree.middle, half], atol=1e-15)
    np.testing.assert_allclose(ranges(tree), [2.6, 2.0, 5.5, 2.0], rtol=1e-14)
