# SPDX-License-Identifier: Apache-2.0
"""A constraint program in the scene: what it draws on."""

from __future__ import annotations

from typing import Any

import numpy as np

from robot_dynamics_ros.constraints.program import Program
from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.constraints.program_shapes import ProgramShape, program_shapes
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.parameters import Values
from robot_dynamics_ros.viewing.arm import Numbers
from robot_dynamics_ros.viewing.arm_scene import add_mesh, set_pose
from robot_dynamics_ros.yaml_reader.parsing import with_texts


def read_program(parameters: Values, xml: str) -> Program | None:
    """Load the program given by the controller's parameters; None if its law has none.

    Raises:
        RobotDynamicsError: The program cannot be read, or does not fit the description.
    """
    source = with_texts(parameters).get('program')
    if parameters.get('law') != 'constraint_stabilization' or not source:
        return None
    return load_program(source, load_robot(xml, effort_limit=1.0), check=False)


class ProgramScene:
    """The geometry of a program's constraints.

    Args:
        scene: The viser scene.
        root: Name of the arm's node, the parent of the geometry.
        program: The program.
    """

    def __init__(self, scene: Any, root: str, program: Program) -> None:
        self._program = program
        self._root = scene.add_frame(f'{root}/program', show_axes=False)
        self._nodes = [
            (shape, _add(scene, f'{root}/program/{k}', shape))
            for k, shape in enumerate(program_shapes(program))
        ]

    def show(self, t: float, positions: Numbers) -> None:
        """Update the geometry for a program time, s; NaN for its start."""
        names = self._program.tree.joint_names
        q = np.nan_to_num([positions.get(name, 0.0) for name in names])
        for shape, node in self._nodes:
            A, p = shape.at(t, q)
            if shape.surface is None:
                line = shape.line @ A.T + p
                node.points = np.stack([line[:-1], line[1:]], axis=1)
            else:
                scale = np.linalg.norm(A, axis=0)
                set_pose(node, p, A / scale)
                node.scale = tuple(scale.tolist())  # the page fails with an array

    def remove(self) -> None:
        """Remove the geometry from the scene."""
        self._root.remove()


def _add(scene: Any, path: str, shape: ProgramShape) -> Any:
    """Add a shape where it stands before the first update."""
    if shape.surface is None:
        colour = tuple(round(255 * x) for x in shape.colour[:3])
        ends = np.zeros((len(shape.line) - 1, 2, 3))
        return scene.add_line_segments(path, ends, colour, thickness=2.0, thickness_units='screen')
    return add_mesh(scene, path, shape.surface, shape.colour, False, scale=(1.0, 1.0, 1.0))
