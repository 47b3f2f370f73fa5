# SPDX-License-Identifier: Apache-2.0
"""Default motion of an arm: a circle of its tool, or sines of its joints if there is none.

One joint, a wrist whose tool moves on a sphere, or a tool on the last axis has no circle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Any

import numpy as np

from robot_dynamics_ros.errors import TrajectoryError
from robot_dynamics_ros.geometry.collisions import CollisionChecker, Obstacles, make_checker
from robot_dynamics_ros.kinematics.tool_task import ranges
from robot_dynamics_ros.model import Robot, frame_pose
from robot_dynamics_ros.planning.default_motion import (
    LONGEST,
    DefaultMotion,
    NoCircleError,
    OverloadError,
    default_motion,
    slowed,
)
from robot_dynamics_ros.planning.motions import Sine
from robot_dynamics_ros.planning.postures import STILL, comfortable_postures, easy_directions
from robot_dynamics_ros.spatial.scalar import Array

_AMPLITUDE = 0.1  # of the range of a joint, at most one turn or 1 m
_PARTS = (1.0, 0.5, 0.25, 0.1, 0.04)  # of this amplitude
_POSTURES = 8
_FREQUENCY, _RAMP, _DURATION = 0.5, 1.0, 8.0  # Hz, s, s: at most, at least, about
_SLOWEST = 0.02  # Hz
_SAMPLES = 100


@dataclass(frozen=True, eq=False)
class SineMotion:
    """Sines of all joints in phase, that start at a posture.

    Attributes:
        home: The posture, shape (n,), rad or m.
        frame: Name of the tool frame.
        amplitude: Of each joint, shape (n,), rad or m.
        point: Tool point at the posture, in the base frame, shape (3,), m.
        toward: Direction in which the tool moves most easily there, shape (3,).
        size: Distance that the tool point moves, m; 0 if it stands still.
        speed: Its largest speed, m/s.
        frequency: Hz.
        ramp: Duration of each ramp of the frequency, s.
        duration: s.
        velocity_share, effort_share: Largest fraction of the limits that the motion needs.
        remarks: Why there is no circle, and remarks on checks that were not possible.
    """

    home: Array
    frame: str
    amplitude: Array
    point: Array
    toward: Array
    size: float = 0.0
    speed: float = 0.0
    frequency: float = _FREQUENCY
    ramp: float = _RAMP
    duration: float = _DURATION
    velocity_share: float = math.inf
    effort_share: float = math.inf
    remarks: tuple[str, ...] = ()

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the trajectory node."""
        return {
            'kind': 'sine',
            'amplitude': self.amplitude.tolist(),
            'frequency': [self.frequency],
            'phase': [0.0],
            'ramp_s': self.ramp,
            'duration_s': self.duration,
        }

    def __str__(self) -> str:
        largest = ', '.join(f'{x:.3g}' for x in self.amplitude)
        return f'the joints by sines of {self.frequency:.3g} Hz and {largest} rad or m'

    def path(self, tree: Robot, laps: float | None = None) -> Sine:
        """Return the joint motion; every part of it is like a period."""
        del tree, laps
        return Sine(
            self.home, self.amplitude, self.frequency, ramp=self.ramp, duration=self.duration
        )


def plan_motion(
    tree: Robot, frame: str, obstacles: Obstacles | None = None
) -> DefaultMotion | SineMotion:
    """Plan a posture and a circle of a frame, else sines of the joints.

    Args:
        tree: The robot.
        frame: Name of the tool frame.
        obstacles: Obstacles around the arm; collisions are checked if a library is available.

    Raises:
        UnknownNameError: There is no such frame.
        ModelError: Nothing is feasible within the limits; gives the reason.
    """
    try:
        return default_motion(tree, frame, obstacles)
    except NoCircleError as error:
        planned = sine_motion(tree, frame, obstacles)
        return replace(planned, remarks=(f'{error}; the joints move instead', *planned.remarks))


def sine_motion(tree: Robot, frame: str, obstacles: Obstacles | None = None) -> SineMotion:
    """Plan a posture and sines of the joints, with the largest amplitude that is feasible.

    Raises:
        UnknownNameError: There is no such frame.
        ModelError: No amplitude is feasible within the limits; gives the reason.
    """
    tree.frame(frame)
    checker, remarks = make_checker(tree, obstacles)
    postures = list(islice(comfortable_postures(tree, frame, checker), _POSTURES))
    overloads, long = list[OverloadError](), list[SineMotion]()
    reason = TrajectoryError('motion', 'is not feasible', 'give another posture')
    for part, home in product(_PARTS, postures):
        point, directions, sizes = easy_directions(tree, home, frame)
        toward = directions[:, 0] * (sizes[0] > STILL)
        motion = SineMotion(home, frame, part * _AMPLITUDE * ranges(tree), point, toward)
        try:
            planned = replace(_plan(tree, motion, checker), remarks=remarks)
        except OverloadError as refusal:
            overloads.append(refusal)
        except TrajectoryError as refusal:
            reason = refusal
        else:
            if planned.duration <= LONGEST:
                return planned
            long.append(planned)
    if long:
        return min(long, key=lambda one: one.duration)
    if overloads:
        raise min(overloads, key=lambda overload: overload.share).of_model()
    raise reason


def _plan(tree: Robot, motion: SineMotion, checker: CollisionChecker | None) -> SineMotion:
    """Return the motion at a frequency within the permitted fractions of the limits.

    Raises:
        OverloadError: It needs too much effort at any frequency.
        TrajectoryError: It collides.
    """
    slow, velocity, effort = slowed(tree, motion.path(tree), _SLOWEST / motion.frequency)
    frequency, ramp = slow * motion.frequency, motion.ramp / slow
    periods = max(1, round(_DURATION * frequency))
    path = replace(
        motion, frequency=frequency, ramp=ramp, duration=periods / frequency + ramp
    ).path(tree)
    positions = path.table(np.linspace(0.0, path.duration, _SAMPLES))[0]
    if checker is not None:
        checker.require_free('motion', positions)
    points = np.array([frame_pose(tree, q, motion.frame).p_WF for q in positions])
    steps = np.linalg.norm(np.diff(points, axis=0), axis=1)
    moves = bool(motion.toward.any())
    return replace(
        motion,
        size=moves * float(np.linalg.norm(points - motion.point, axis=1).max()),
        speed=float(steps.max()) * _SAMPLES / path.duration,
        frequency=frequency,
        ramp=ramp,
        duration=path.duration,
        velocity_share=velocity,
        effort_share=effort,
    )
