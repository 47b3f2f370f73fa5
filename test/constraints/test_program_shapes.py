# SPDX-License-Identifier: Apache-2.0
"""What viewer and reports draw of a program is where the program's own f says."""

from __future__ import annotations

import math

import numpy as np
import pinocchio
import pytest
from numpy.testing import assert_allclose

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


@pytest.mark.parametrize('t', [0.0, 2.5])
def test_drawn_distances_are_those_that_f_says(t):
    """Of a growing sphere; of a rod of the length asked for; of a target, at the tool's height."""
    tree = load_robot(shipped_robot('four_dof'))
    program = load_program(DRAWN, tree, check=False)
    q = np.array([0.3, -1.0, -0.4, 0.5])
    kernel = ProgramKernel(program)
    kernel.run(t, q, np.zeros(4))
    ball, end, other, rod, wall, path, target, seen, *axes, plane = program_shapes(program)
    (A, p), tool = ball.at(t, q), tool_of(tree, q)
    radius = np.linalg.norm(ball.surface.vertices @ A.T, axis=1).max()
    assert np.linalg.norm(tool - p) - radius == pytest.approx(kernel.f[0], abs=1e-9)
    assert_allclose(end.at(t, q)[1], tool, atol=1e-12)
    gap = np.linalg.norm(tool - other.at(t, q)[1])
    length = np.ptp(rod.line @ rod.at(t, q)[0].T, axis=0)
    assert gap - np.linalg.norm(length) == pytest.approx(kernel.f[1], abs=1e-12)
    place = target.at(t, q)[1]
    assert_allclose(tool - place, [*kernel.f[2:4], 0.0], atol=1e-12)
    A, p = path.at(t, q)
    assert_allclose((path.line @ A.T + p)[:, 2], tool[2], atol=1e-12)
    (A, p), (B, s) = wall.at(t, q), wall.at(t, q + 0.1)
    assert_allclose(np.append(A, p[:2]), np.append(B, s[:2]), atol=0.0)  # it moves along itself
    corners = wall.surface.vertices[wall.surface.faces] @ A.T + p
    heights = corners[:, :, 2] - tool[2]
    assert (heights.min(axis=1) < -0.1).all()
    assert (heights.max(axis=1) > 0.1).all()
    off = np.abs(corners[:, :, None, :2] - path.line[:, :2]).max(axis=3).min(axis=2)
    assert off.max() < 1e-12, 'it is above and below the path'
    A, p = seen.at(t, q)
    assert (tool - p) @ A[:, 2] == pytest.approx(kernel.f[4], abs=1e-12)
    A, p = plane.at(t, q)
    assert [x.at(t, q)[1].tolist() for x in axes] == [p.tolist()] * 3
    assert (tool - p) @ A[:, 2] == pytest.approx(kernel.f[5], abs=1e-12)
    (A, p), start = path.at(math.nan, q), target.at(0.0, q)[1]
    assert_allclose((path.line @ A.T + p)[0], start, atol=1e-12)
