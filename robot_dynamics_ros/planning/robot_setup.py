# SPDX-License-Identifier: Apache-2.0
"""Parameters of all nodes and a constraint program for an arm without a configuration.

The program holds the tool on a plane through the tool point at the home posture. The normal of the
plane is the direction in which the tool moves most easily there, so the constraint is regular for
every arm that can follow a circle, including planar arms. The plane oscillates along its normal;
the null-space task holds the posture with the remaining n - 1 degrees of freedom.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from robot_dynamics_ros.constraints.feasibility import check_feasibility
from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.dynamics.joint_terms import inertia_matrix, joint_inertia
from robot_dynamics_ros.dynamics.sampled_loop import FeedbackLoop, Sampling
from robot_dynamics_ros.errors import ModelError, ProgramError
from robot_dynamics_ros.geometry.collisions import Obstacles
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.planning.default_motion import DefaultMotion, plan_motion
from robot_dynamics_ros.spatial.scalar import Array

_SLOWEST, _FASTEST = 2.0, 12.0  # rad/s: range of the natural frequencies
_STEPS_PER_RADIAN = 40.0  # least number of control periods per rad of the error's oscillation
_ERROR = 0.02  # rad or m: error whose correction may use _SHARE of the effort left by gravity
_SHARE = 0.5
#: Velocity scale of the friction feed-forward, rad/s or m/s, which reverses within a period. Ten
#: times the creep of a stuck joint in MuJoCo; at 1e-3 the reversals cause most of the error.
STICTION_VELOCITY = 1e-5


def natural_frequencies(tree: Robot, home: Array, period: float) -> Array:
    """Return natural frequencies of the error for the drives and the period, shape (n,), rad/s.

    An error of 0.02 rad (or m) may use half of the effort left by gravity at the posture,
    ``M_ii w^2 e = (limit - |g_i|) / 2``, and ``w period <= 1 / 40``. All are lowered together
    until PD with the inertia of the posture is stable there and, as the law requires, in the
    middle of the limits: a wrist has there a small part of its inertia at the posture.
    """
    gravity = make_formulation('newton_euler', tree).gravity_forces(home)
    remaining = np.maximum(tree.effort_limit - np.abs(gravity), 0.0)
    inertia = joint_inertia(tree, home)
    frequencies = np.sqrt(_SHARE * remaining / (_ERROR * inertia))
    fastest = min(_FASTEST, 1.0 / (_STEPS_PER_RADIAN * period))
    frequencies = np.clip(frequencies, min(_SLOWEST, fastest), fastest)
    K, D = np.diag(inertia * frequencies**2), np.diag(2.0 * inertia * frequencies)
    loops = (FeedbackLoop('', inertia_matrix(tree, q), K, D) for q in (home, tree.middle))
    return frequencies * min(loop.largest(Sampling(period)) for loop in loops)


def robot_parameters(
    tree: Robot,
    robot: str,
    frame: str,
    period: float = 1e-3,
    obstacles: Obstacles | None = None,
) -> tuple[dict[str, dict[str, Any]], DefaultMotion]:
    """Return the parameters of every node by its name, and the motion that they contain.

    Args:
        tree: The robot, as loaded from ``robot``.
        robot: File of the robot, or name of a shipped one.
        frame: Name of the frame to move.
        period: Control period, s.
        obstacles: Obstacles around the arm.

    Raises:
        ModelError: No posture or motion is within the limits; names the joint and the reason.
        UnknownNameError: There is no such frame.
    """
    obstacles = obstacles or Obstacles()
    motion = plan_motion(tree, frame, obstacles)
    home = np.round(motion.home, 9).tolist()
    carrying = {'robot': robot, 'gravity': tree.gravity.tolist(), 'payload_frame': frame}
    simulated = {**carrying, 'initial_position': home}
    gains = (np.floor(1e3 * natural_frequencies(tree, motion.home, period)) / 1e3).tolist()
    return {
        'controller': {
            **carrying,
            'target_frame': frame,
            'law': 'computed_torque',
            'natural_frequency': gains,
            'damping_ratio': [1.0],
            'home': home,
            'stiction_velocity': STICTION_VELOCITY,
            'period': period,
            'discretization': 'semi_implicit',
            'lead_in': 0.25,
            'state_timeout_s': 0.5,
            'use_sim_time': True,
        },
        'simulator': {**simulated, 'mode': 'real_time', 'period': period},
        'trajectory': {
            **carrying,
            **motion.settings,
            'tool_frame': frame,
            'boxes': obstacles.numbers,
            'ground_below': obstacles.ground_below,
            'use_sim_time': True,
        },
        'recorder': {'use_sim_time': True},
        'monitor': {
            **carrying,
            'effort_source': 'measured',
            'acceleration': 'semi_implicit',
            'use_sim_time': True,
        },
        'driver_emulator': {**simulated, 'driver_profile': 'generic_ros2_control'},
    }, motion


_SWINGS = (0.5, 0.25, 0.1, 0.0)  # amplitudes of the plane, relative to the circle's radius
_FASTEST_SWING = 0.2  # Hz
_SPEED_SHARE = 0.5  # largest speed of the plane, relative to the circle's speed
_NULL_SPACE = {'damping': 6.0, 'stiffness': 9.0, 'limit_gain': 40.0}  # 1/s, 1/s^2, rad/s^2


def default_program(
    tree: Robot, motion: DefaultMotion, frequencies: Sequence[float]
) -> dict[str, Any]:
    """Return the content of a program file that is feasible for the arm; empty if none exists.

    A tool that stands still has no program.

    Args:
        tree: The robot.
        motion: Its planned motion, which gives posture, frame, size and speed.
        frequencies: Natural frequencies of the joints, rad/s; the program uses the smallest.

    Raises:
        ModelError: No amplitude is feasible; gives the reason for the last one.
    """
    reason = ''
    if not motion.size:
        return {}
    for part in _SWINGS:
        content = _plane(tree, motion, part * motion.size, float(min(frequencies)))
        try:
            remarks = check_feasibility(load_program(content, tree, check=False)).remarks
        except ProgramError as refusal:
            remarks = (str(refusal),)
        if not remarks:
            return content
        reason = remarks[0]
    raise ModelError(f'robot {tree.name!r}', 'cannot hold a plane at its posture', reason)


def _plane(tree: Robot, motion: DefaultMotion, swing: float, frequency: float) -> dict[str, Any]:
    """Return the program of a plane that oscillates with an amplitude, m."""
    home = dict(zip(tree.joint_names, np.round(motion.home, 9).tolist(), strict=True))
    rate = _SPEED_SHARE * motion.speed / (2.0 * math.pi * max(swing, 1e-9))
    wave = {'center': 0.0, 'amplitude': swing, 'frequency': min(_FASTEST_SWING, rate)}
    return {
        'name': 'moving_plane',
        'robot': tree.name,
        'description': 'Tool on a plane that swings along its normal; the rest holds the posture.',
        'constraints': [
            {
                'name': 'plane',
                'kind': 'plane',
                'frame': motion.frame,
                'plane': {'origin': motion.point.tolist(), 'z': motion.toward.tolist()},
                'distance': {'lissajous': wave, 'start': 1.0},
                'natural_frequency': frequency,
            }
        ],
        'null_space': {**_NULL_SPACE, 'posture': home},
        'start': {'position': home, 'tolerance': 1e-3},
    }
