# SPDX-License-Identifier: Apache-2.0
"""What viewer and reports draw of a program is where the program's own f says."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles import PinocchioOracle

from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.constraints.program_kernel import ProgramKernel
from robot_dynamics_ros.constraints.program_shapes import program_shapes
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.model import load_robot

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
  - {name: plane, kind: plane, frame: tool,
     plane: {origin: {linear: {from: [0.1, 0.2, 0.3], rate: [0.1, 0.0, 0.2]}}, z: [0.3, 0.2, 1.0],
             turn: {axis: [0.2, 1.0, 0.1], angle: {linear: {from: 0.3, rate: 0.2}}}}}
"""


def test_a_target_is_drawn_by_the_order_of_its_axes():
    tree = load_robot(shipped_robot('four_dof'))
    turned = {'kind': 'point', 'frame': 'tool', 'axes': 'zyx', 'target': [0.3, 0.2, 0.1]}
    [target] = program_shapes(load_program({'constraints': [turned]}, tree, check=False))
    assert target.at(0.0, np.zeros(4))[1].tolist() == [0.1, 0.2, 0.3]


@pytest.mark.parametrize('t', [0.0, 2.5])
def test_drawn_distances_are_those_that_f_says(t):
    """Of a growing sphere; of a rod of the length asked for; of a target, at the tool's height."""
    tree, q = load_robot(shipped_robot('four_dof')), np.array([0.3, -1.0, -0.4, 0.5])
    program = load_program(DRAWN, tree, check=False)
    kernel, tool = ProgramKernel(program), PinocchioOracle.of(tree).frame_pose('tool', q)[1]
    kernel.run(t, q, np.zeros(4))
    drawn = program_shapes(program)
    ball, _, _, rod, wall, path, target, *_ = drawn
    (A, centre), (_, end), (_, other), (B, _), (W, w), (P, p), (_, aim), (S, s), *axes, (N, n) = (
        shape.at(t, q) for shape in drawn
    )
    radius = np.linalg.norm(ball.surface.vertices @ A.T, axis=1).max()
    assert np.linalg.norm(tool - centre) - radius == pytest.approx(kernel.f[0], abs=1e-9)
    length = np.linalg.norm(np.ptp(rod.line @ B.T, axis=0))
    gap = np.linalg.norm(tool - other) - length
    found = [gap, *(tool - aim)[:2], (tool - s) @ S[:, 2], (tool - n) @ N[:, 2]]
    assert_allclose(found, kernel.f[1:], atol=1e-12)
    assert_allclose(end, tool, atol=1e-12)
    assert [place.tolist() for _, place in axes] == [n.tolist()] * 3
    line, corners = path.line @ P.T + p, wall.surface.vertices[wall.surface.faces] @ W.T + w
    assert_allclose([aim[2], *line[:, 2]], tool[2], atol=1e-12)
    heights = corners[:, :, 2] - tool[2]
    assert heights.min(axis=1).max() < -0.1
    assert heights.max(axis=1).min() > 0.1
    off = np.abs(corners[:, :, None, :2] - path.line[:, :2]).max(axis=3).min(axis=2)
    assert off.max() < 1e-12, 'it is above and below the path'
    _, moved = wall.at(t, q + 0.1)
    assert_allclose(w[:2], moved[:2], atol=0.0)  # along itself
    (P, p), start = path.at(math.nan, q), target.at(0.0, q)[1]
    assert_allclose((path.line @ P.T + p)[0], start, atol=1e-12)
