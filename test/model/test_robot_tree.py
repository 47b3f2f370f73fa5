# SPDX-License-Identifier: Apache-2.0
"""Joint ranges of a robot tree, and the consumers of their middles and samples."""

import math

import numpy as np
import pytest
import tables
from urdf_text import joint, link, robot, symmetric

from robot_dynamics_ros.constraints.angles import JointProgram
from robot_dynamics_ros.constraints.feasibility import starting_configuration
from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.model import load_robot

I, INF = symmetric(0.01, 0.012, 0.011), math.inf


def arm(*joints, **options):
    """Return a chain of joints, each (type, (lower, upper)), with a tool at its end."""
    elements = [link('l0')]
    for k, (kind, limits) in enumerate(joints):
        place = {'xyz': (0.3 * bool(k), 0, 0), 'axis': np.eye(3)[k % 3 - 2]}
        elements.append(link(f'l{k + 1}', 1.0, (0.2, 0, 0), I))
        elements.append(joint(f'j{k}', f'l{k}', f'l{k + 1}', kind, limits=limits, **place))
    tip = joint('tip', f'l{len(joints)}', 'tool', 'fixed', (0.3, 0.1, 0.05))
    return load_robot(robot('arm', *elements, link('tool'), tip), **options)


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
    ends = {'position_lower': [2.0, -INF, -INF], 'position_upper': [INF, -3.0, 1.0]}
    tree = tree.with_changes(**{name: np.array(end) for name, end in ends.items()})
    assert tree.middle.tolist() == [2.0, -3.0, 0.0]
    expected = [[2.0, -4.0, -math.pi], [2.0 + math.pi, -3.0, 1.0]]
    assert [bound.tolist() for bound in tree.sampled_range] == expected


def test_a_tree_copies_the_arrays_that_it_freezes():
    gravity, mass, offset = np.array([0.0, 0.0, -1.6]), np.array([2.0]), np.array([0.1])
    tree = arm(('revolute', (-1.0, 1.0)), gravity=gravity)
    changed = tree.with_changes(mass=mass, drive_friction={'offset': offset})
    for of_the_caller in (gravity, mass, offset):
        of_the_caller[:] = -9.8
    friction = changed.drive_friction['offset']
    assert (tree.gravity[2], *changed.mass, *friction) == (-1.6, 2.0, 0.1)
    for array in (changed.gravity, changed.mass, friction, *changed.dependence):
        with pytest.raises(ValueError, match='read-only'):
            array[...] = 0.0
    changed.reference_lower[:] = 9.0  # each call returns a new array
    assert changed.reference_lower == -1.0


FAR = (('revolute', (3.6, 6.2)), ('prismatic', (4.0, 6.0)), ('revolute', (0.0, 5.5)))


def test_programs_start_in_the_middle_of_the_limits():
    tree, middle = arm(*FAR), [4.9, 5.0, 2.75]
    program = JointProgram(tree, 'hold', 'reference', ['j0', 'j1', 'j2'])
    assert program.signals[0].at(0.0)[0] == pytest.approx(middle)
    row = {'kind': 'joint_program', 'joints': ['j2'], 'position': 'reference'}
    start = starting_configuration(load_program({'constraints': [row]}, tree, check=False))
    np.testing.assert_allclose(start, middle, atol=1e-12)
