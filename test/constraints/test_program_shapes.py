# SPDX-License-Identifier: Apache-2.0
"""What viewer and reports draw of a program is where the program's own f says."""

from __future__ import annotations

import math

import numpy as np
import pinocchio
import pytest

from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.constraints.program_kernel import ProgramKernel
from robot_dynamics_ros.constraints.program_shapes import program_shapes
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.model import load_robot


def tool_of(tree, q):
    """Return the tool's position by Pinocchio."""
    model = pinocchio.buildModelFromXML(tree.xml)
    data = model.createData()
    pinocchio.framesForwardKinematics(model, data, q)
    return data.oMf[model.getFrameId('tool')].translation.copy()


def row_of(program, name: str) -> int:
    """Return the first row of f of a constraint."""
    parts = program.stack.constraints
    place = next(k for k, part in enumerate(parts) if part.name == name)
    return sum(len(part.rows) for part in parts[:place])


@pytest.mark.parametrize('t', [0.0, 1.7, 4.3])
def test_the_tool_is_as_far_from_the_drawn_plane_as_f_says(t):
    tree = load_robot(shipped_robot('four_dof'))
    program = load_program('four_dof_moving_plane', tree, check=False)
    q = np.array([0.3, -1.0, -0.4, 0.5])
    (plane,) = (x for x in program_shapes(program) if x.surface)
    A, p = plane.at(t, q)
    kernel = ProgramKernel(program)
    kernel.run(t, q, np.zeros(4))
    distance = (tool_of(tree, q) - p) @ A[:, 2]
    assert distance == pytest.approx(kernel.f[row_of(program, 'plane')], abs=1e-12)


def test_a_drawn_path_is_that_of_the_target_at_the_height_of_the_tool():
    tree = load_robot(shipped_robot('scara'))
    program = load_program('scara_circle', tree, check=False)
    q, kernel = np.array([-0.3, 1.28, 0.1, 0.9]), ProgramKernel(program)
    path = next(x for x in program_shapes(program) if len(x.line) > 2)
    A, p = path.at(math.nan, q)  # at its start
    tool, drawn = tool_of(tree, q), path.line @ A.T + p
    np.testing.assert_allclose(drawn[:, 2], tool[2], atol=1e-12)
    kernel.run(0.0, q, np.zeros(4))
    # f of the point is the tool minus its target, where the path begins.
    point = next(c for c in program.stack.constraints if len(c.rows) == 2)
    row = row_of(program, point.name)
    np.testing.assert_allclose(tool[:2] - drawn[0, :2], kernel.f[row : row + 2], atol=1e-12)


DRAWN = """
name: drawn
constraints:
  - {name: ball, kind: sphere, frame: tool, sphere: {origin: [0.2, 0.1, 0.3]},
     radius: {linear: {from: 0.2, rate: 0.05}}}
  - {name: rod, kind: distance, frame: tool, other_frame: link1, other_point: [0.1, 0.2, 0.0],
     length: {linear: {from: 0.2, rate: 0.05}}}
  - {name: flat, kind: point, frame: tool, axes: xy,
     target: {circle: {center: [0.3, 0.1, 0.9], radius: 0.05, normal: [0, 0.6, 0.8]}, speed: 0.1}}
  - {name: seen, kind: point, frame: tool, axes: z, target: 0.1,
     reference: {origin: [0.1, 0.2, 0.3], rpy: [0.3, -0.5, 0.8]}}
null_space: {damping: 1.0}
"""


@pytest.mark.parametrize('t', [0.0, 2.5])
def test_drawn_distances_are_those_that_f_says(t):
    """Of a growing sphere; of a rod of the length asked for; of a target, at the tool's height."""
    tree = load_robot(shipped_robot('four_dof'))
    program = load_program(DRAWN, tree, check=False)
    q = np.array([0.3, -1.0, -0.4, 0.5])
    kernel = ProgramKernel(program)
    kernel.run(t, q, np.zeros(4))
    ball, end, other, rod, path, target, *frame, seen = program_shapes(program)
    (A, p), tool = ball.at(t, q), tool_of(tree, q)
    radius = np.linalg.norm(ball.surface.vertices @ A.T, axis=1).max()
    assert np.linalg.norm(tool - p) - radius == pytest.approx(kernel.f[0], abs=1e-9)
    np.testing.assert_allclose(end.at(t, q)[1], tool, atol=1e-12)
    gap = np.linalg.norm(tool - other.at(t, q)[1])
    length = np.ptp(rod.line @ rod.at(t, q)[0].T, axis=0)
    assert gap - np.linalg.norm(length) == pytest.approx(kernel.f[1], abs=1e-12)
    place = target.at(t, q)[1]
    np.testing.assert_allclose(tool - place, [*kernel.f[2:4], 0.0], atol=1e-12)
    A, p = path.at(t, q)
    np.testing.assert_allclose((path.line @ A.T + p)[:, 2], tool[2], atol=1e-12)
    assert all(x.at(t, q)[1].tolist() == [0.1, 0.2, 0.3] for x in frame)
    A, p = seen.at(t, q)
    assert (tool - p) @ A[:, 2] == pytest.approx(kernel.f[4], abs=1e-12)
