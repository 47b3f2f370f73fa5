# SPDX-License-Identifier: Apache-2.0
"""Exciting motions: within all limits, at rest at both ends, better than random ones."""

from functools import cache

import linkages
import numpy as np
import pytest
import tables
from numpy.testing import assert_array_equal
from oracles import PinocchioOracle
from samples import sample

from robot_dynamics_ros.cli.excite import excitation_trajectory
from robot_dynamics_ros.identification import excitation
from robot_dynamics_ros.identification.excitation import Bounds, design_excitation
from robot_dynamics_ros.identification.unknowns import Unknowns, structural_base
from robot_dynamics_ros.model import load_robot

pytestmark = pytest.mark.slow

FLOOR = 0.30  # m above the base, below which the tool must not go
WALL = 0.45  # m to the front


@cache
def scara_motion():
    bounds = Bounds(lower=(-np.inf, -np.inf, FLOOR), upper=(WALL, np.inf, np.inf))
    return design_excitation(sample('scara').tree, bounds=bounds, period=8.0, iterations=25)


def table(found, step=2e-3):
    trajectory = excitation_trajectory(found)
    return trajectory.table(np.arange(step, found.period, step))


def test_the_motion_keeps_position_and_velocity_limits():
    """That it is at rest at both ends, Fourier requires of its coefficients."""
    tree = sample('scara').tree
    q, v, _ = table(scara_motion())
    half = 0.5 * (tree.position_upper - tree.position_lower)
    # Evaluated on a finer grid than in the design: 1e-3 relative between the instants.
    assert (np.abs(q - tree.middle) <= 0.9 * half * 1.001).all()
    assert (np.abs(v) <= 0.7 * tree.velocity_limit * 1.001).all()


def efforts_by_pinocchio(robot, tree, found):
    """Largest effort of each joint, its Coulomb friction against it."""
    oracle = PinocchioOracle.of(robot)
    q, v, a = (part[::10] for part in table(found))
    rigid = np.array([oracle.inverse_dynamics(*state) for state in zip(q, v, a, strict=True)])
    effort = rigid + tree.armature * a + tree.damping * v
    return (np.abs(effort) + tree.coulomb_friction).max(axis=0)


@pytest.mark.parametrize('weakness', [1.0, 0.15])
def test_the_motion_keeps_effort_limits_by_pinocchio(weakness):
    """Also those of an arm so weak that they are active."""
    robot = sample('scara')
    weak = np.array([weakness, weakness, 1.0, 1.0])  # the quill must bear its weight
    tree = robot.tree.with_changes(effort_limit=weak * robot.tree.effort_limit)
    found = scara_motion() if weakness == 1.0 else design_excitation(tree, iterations=5)
    share = efforts_by_pinocchio(robot, tree, found) / (0.7 * tree.effort_limit)
    assert share.max() <= 1.0
    if weakness < 1.0:
        assert share.max() > 0.8


def test_the_tool_stays_in_its_box_by_pinocchio():
    robot = sample('scara')
    oracle = PinocchioOracle.of(robot)

    def clearance(found):
        """Return the least distances of the tool from floor and wall."""
        x, _, z = np.transpose([oracle.frame_pose('tool', q)[1] for q in table(found)[0][::10]])
        return np.array([z.min() - FLOOR, WALL - x.max()])

    assert (clearance(scara_motion()) >= -1e-6).all()
    # Without the box it would not stay in it, so the box does bind.
    free = design_excitation(robot.tree, period=8.0, iterations=0)
    assert (clearance(free) < -0.02).all()


def condition_by_pinocchio(robot, q, v, a):
    """Condition of the base regressor, columns of unit length, rows by effort limits."""
    base, oracle, rows = structural_base(Unknowns(robot.tree)), PinocchioOracle.of(robot), []
    for state in zip(q, v, a, strict=True):
        _, v, a = state
        columns = oracle.regressor(*state), np.diag(v), np.diag(np.sign(v)), np.diag(a)
        rows.append(np.hstack(columns) / robot.tree.effort_limit[:, None])
    columns = np.concatenate(rows)[:, base.independent]
    return np.linalg.cond(columns / np.linalg.norm(columns, axis=0))


def test_it_is_far_better_than_random_motions():
    found = scara_motion()
    assert found.condition < 0.4 * found.random_condition
    # The figure is what Pinocchio's regressor gives, up to the sharp sign of friction.
    q, v, a = (part[::20] for part in table(found))
    assert condition_by_pinocchio(sample('scara'), q, v, a) == pytest.approx(
        found.condition, rel=0.1
    )


def test_the_search_improves_on_the_best_random_motion_and_repeats_for_a_seed():
    tree = sample('planar_2r').tree.with_changes(effort_limit=np.full(2, 150.0))
    random, one, same, other = (
        design_excitation(tree, period=5.0, harmonics=3, iterations=count, seed=seed)
        for count, seed in ((0, 1), (3, 1), (3, 1), (0, 2))
    )
    assert one.condition < random.condition
    assert_array_equal(one.sine, same.sine)
    assert not np.array_equal(random.sine, other.sine)
    assert one.as_dict()['joints'] == ['joint1', 'joint2']


def test_the_command_bounds_the_tool_frame_of_any_arm(command):
    """An arm without a link named 'tool': 50 m is out of reach of its own tool frame."""
    arm = sample('scara').tree.xml.replace('"tool"', '"tcp"')
    error = command('excite --above 50 --harmonics 3', arm, code=2).err
    assert 'no random motion stays within the bounds' in error


def test_a_motion_stays_where_the_loops_close_also_within_a_box_that_has_other_places(monkeypatch):
    monkeypatch.setattr(excitation, '_RANDOM', 3)
    text, loops = linkages.short_rod()
    robot = load_robot(text, loops=loops)
    lower, upper = robot.planning_range
    monkeypatch.setitem(vars(robot), 'planning_range', (lower, upper + 0.3 * (upper - lower)))
    assert not robot.reaches(robot.planning_range[1])
    found = design_excitation(robot, period=5.0, harmonics=3, iterations=3)
    assert found.used['position'] > 0.5
    assert all(map(robot.reaches, table(found)[0][::25]))


TREE = sample('scara').tree


test_wrong_requests_are_refused_by_name = tables.called("""
design_excitation(TREE, harmonics=2)    | ParameterError: harmonics
design_excitation(TREE, period=0.0)     | ParameterError: period
design_excitation(TREE, seed=-1) | ParameterError: seed = -1 refused: must not be negative
Bounds(velocity=1.5)  | ParameterError: velocity
Bounds(effort='all')  | ParameterError: effort = 'all' refused: must be a number
Bounds(lower=(0.0, 0.0))  | ShapeError: lower has shape (2,)
Bounds(lower=(0.0, 0.0, 1.0), upper=(1.0, 1.0, 0.0)) | ParameterError: lower
design_excitation(TREE, bounds=Bounds(frame='claw', lower=(0.0, 0.0, 0.0))) | UnknownNameError: frame
""", globals())  # fmt: skip  # noqa: E501
