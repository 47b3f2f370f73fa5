# SPDX-License-Identifier: Apache-2.0
"""A constraint program for an arm that nobody has configured: its tool on a moving plane.

The plane goes through the tool point at the home posture. Its normal is the direction in which
the tool moves most easily there, so the condition is regular for every arm that can be led around
a circle, also for one that moves in a plane only. The plane swings along its normal; the
null-space task holds the posture with the n - 1 degrees of freedom that are left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from robot_dynamics_ros.constraints.feasibility import check_feasibility
from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.control.design.default_motion import DefaultMotion
from robot_dynamics_ros.errors import ModelError, ProgramError
from robot_dynamics_ros.model.robot_tree import RobotTree

_SWINGS = (0.5, 0.25, 0.1, 0.0)  # amplitudes, of the circle's radius
_FASTEST = 0.2  # Hz
_SHARE = 0.5  # of the circle's speed: the plane's, at most
_NULL_SPACE = {'damping': 6.0, 'stiffness': 9.0, 'limit_gain': 40.0}  # 1/s, 1/s^2, rad/s^2


def default_program(
    tree: RobotTree, motion: DefaultMotion, frequencies: Sequence[float]
) -> dict[str, Any]:
    """Return a program file's content that the arm can hold all along.

    Args:
        tree: The robot.
        motion: Its planned motion: posture, tool, the size of what it can do.
        frequencies: Natural frequencies of the joints, rad/s; the least is the program's.

    Raises:
        ModelError: None of the swings can be held; says why not the last one.
    """
    why = ''
    for part in _SWINGS:
        content = _plane(tree, motion, part * motion.radius, float(min(frequencies)))
        try:
            remarks = check_feasibility(load_program(content, tree, check=False)).remarks
        except ProgramError as refusal:
            remarks = (str(refusal),)
        if not remarks:
            return content
        why = remarks[0]
    raise ModelError(f'robot {tree.name!r}', 'holds no plane at its posture', why)


def _plane(
    tree: RobotTree, motion: DefaultMotion, swing: float, frequency: float
) -> dict[str, Any]:
    """Return the program of a plane that swings by an amplitude, m."""
    home = dict(zip(tree.joint_names, np.round(motion.home, 9).tolist(), strict=True))
    tool = motion.center + motion.radius * motion.toward
    rate = _SHARE * motion.speed / (2.0 * math.pi * max(swing, 1e-9))
    wave = {'center': 0.0, 'amplitude': swing, 'frequency': min(_FASTEST, rate)}
    return {
        'name': 'moving_plane',
        'robot': tree.name,
        'description': 'Tool on a plane that swings along its normal; the rest holds the posture.',
        'constraints': [
            {
                'name': 'plane',
                'kind': 'plane',
                'frame': motion.frame,
                'plane': {'origin': tool.tolist(), 'z': motion.toward.tolist()},
                'distance': {'lissajous': wave, 'start': 1.0},
                'natural_frequency': frequency,
            }
        ],
        'null_space': {**_NULL_SPACE, 'posture': home},
        'start': {'position': home, 'tolerance': 1e-3},
    }
