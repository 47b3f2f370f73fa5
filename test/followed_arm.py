# SPDX-License-Identifier: Apache-2.0
"""An arm without dynamics that is where its reference is, and the messages that move it."""

from __future__ import annotations

from types import SimpleNamespace as Message
from typing import Any

import numpy as np
from samples import sample
from still_arm import StillArm

from robot_dynamics_ros.control.goals import Outcome
from robot_dynamics_ros.control.requests import prepare_goal, prepare_message
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.trajectories.reference_generator import ReferenceGenerator
from robot_dynamics_ros.model import load_robot

NAMES = ('joint1', 'joint2')


def duration(seconds: float) -> Message:
    return Message(sec=int(seconds), nanosec=round(seconds % 1.0 * 1e9))


def trajectory(points: Any, stamp_ms: float = 0, names=NAMES) -> Message:
    """Return a message; points are times and the fields of a point by name."""
    empty = {'positions': [], 'velocities': [], 'accelerations': [], 'effort': []}
    rows = [Message(time_from_start=duration(t), **{**empty, **row}) for t, row in points]
    header = Message(stamp=duration(1e-3 * stamp_ms), frame_id='')
    return Message(header=header, joint_names=list(names), points=rows)


def goal(points: Any, stamp_ms: float = 0, names=NAMES, **more: Any) -> Message:
    """Return a goal of the action; other fields of the goal by name."""
    none = {'path_tolerance': [], 'goal_tolerance': [], 'goal_time_tolerance': duration(0.0)}
    none |= {'component_path_tolerance': [], 'component_goal_tolerance': []}
    other = {'multi_dof_trajectory': Message(points=[]), **none, **more}
    return Message(trajectory=trajectory(points, stamp_ms, names), **other)


def tolerances(**kinds: float) -> dict[str, float]:
    return {f'constraints.{joint}.{kind}': x for joint in NAMES for kind, x in kinds.items()}


def follow(generator: ReferenceGenerator, *points: Any, start_ns: int = 0) -> int:
    """Let a generator follow points at once; return their start, ns."""
    return generator.commit(generator.prepare(generator.snapshot(), points, start_ns))


class Arm(StillArm):
    """A session that controls an arm without dynamics.

    Attributes:
        path: The reference after every tick, each (3, 2): position, velocity, acceleration.
        ends: What became of the goals.
    """

    def __init__(self, q=(0.0, 0.0), xml='', **given: Any) -> None:
        self.tree = load_robot(xml) if xml else sample('planar_2r').tree
        usual = {'activation_ramp_s': 0.0, 'state_timeout_s': 1.0, 'discretization': 'continuous'}
        given = {'law': 'pd_gravity', **usual, **given}
        super().__init__(ControllerSession(self.tree, given), q)
        self.path, self.ends = list[np.ndarray](), list[Outcome]()
        self.state()
        self.session.activate(self.now)

    def run(self, milliseconds: int, stuck: int | None = None) -> Arm:
        """Go on, with the arm where its reference is, unless it is braked, or a joint stuck."""
        reference = self.session.loop.reference
        for _ in range(milliseconds):
            assert self.state()
            self.path.append(reference.rows.copy())
            moves = (np.arange(2) != stuck) & (not self.session.loop.braking)
            self.q[moves], self.v = reference.position[moves], moves * reference.velocity
        return self

    def send(self, points: Any, stamp_ms: int = 0, names=NAMES, **more: Any) -> str:
        """Send a goal of points, by the action; fields of the goal by name."""
        request = goal(points, stamp_ms, names, **more)
        return prepare_goal(self.session, request, self.ends.append)()

    def publish(self, points: Any, stamp_ms: int = 0, **names: Any) -> str:
        """Send a trajectory by the topic."""
        message = trajectory(points, stamp_ms, **names)
        return prepare_message(self.session, message)()


def rest(t: float, *q: float) -> tuple[float, dict]:
    """A point at rest."""
    return t, {'positions': list(q), 'velocities': [0.0] * len(q)}
