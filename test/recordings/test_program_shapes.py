# SPDX-License-Identifier: Apache-2.0
"""What a report draws of a program is where the program's own f says."""

from __future__ import annotations

import numpy as np
import pinocchio
import pytest

from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.constraints.program_kernel import ProgramKernel
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.recordings.report.program_shapes import program_shapes


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
    (plane,) = (x for x in program_shapes(program, np.array([t]), q[np.newaxis]) if x.surface)
    kernel = ProgramKernel(program)
    kernel.run(t, q, np.zeros(4))
    distance = (tool_of(tree, q) - plane.p[0]) @ plane.R[0][:, 2]
    assert distance == pytest.approx(kernel.f[row_of(program, 'plane')], abs=1e-12)


def test_a_drawn_path_is_that_of_the_target_at_the_height_of_the_tool():
    tree = load_robot(shipped_robot('scara'))
    program = load_program('scara_circle', tree, check=False)
    q, kernel = np.array([-0.3, 1.28, 0.1, 0.9]), ProgramKernel(program)
    shapes = program_shapes(program, np.array([0.0]), q[np.newaxis])
    path, _ = (x for x in shapes if len(x.line))  # and the height's
    tool, drawn = tool_of(tree, q), path.line @ path.R[0].T + path.p[0]
    np.testing.assert_allclose(drawn[:, 2], tool[2], atol=1e-12)
    kernel.run(0.0, q, np.zeros(4))
    # f of the point is the tool minus its target, where the path begins.
    point = next(c for c in program.stack.constraints if len(c.rows) == 2)
    row = row_of(program, point.name)
    np.testing.assert_allclose(tool[:2] - drawn[0, :2], kernel.f[row : row + 2], atol=1e-12)
