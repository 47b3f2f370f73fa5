# SPDX-License-Identifier: Apache-2.0
"""The commands of one arm, each of which makes a step of Gazebo; the bridge carries no forces."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from functools import partial
from typing import Any
from xml.etree import ElementTree

from rclpy.node import Node
from std_msgs.msg import Float64

from robot_dynamics_ros.ros.gazebo_forces import force_topics
from robot_dynamics_ros.ros.gazebo_lockstep import SteppedWorld


class CommandedWorld:
    """Takes ``<joint>/cmd_force`` of all joints; once each has one, they act for a step.

    What is not a number is no command; what is beyond the description's limit counts as the limit.

    Attributes:
        world: What is stepped; nothing happens before it is met.

    Args:
        node: Subscribes, and logs.
        model: Name of the arm in the world.
        settings: The parameters ``robot_description``, ``world`` and ``step_ns``.

    Raises:
        MissingDependencyError: Gazebo's Python bindings are not installed.
    """

    def __init__(self, node: Node, model: str, settings: Mapping[str, Any]) -> None:
        description = settings['robot_description']
        topics = force_topics(description, model)
        self.world, self._log = SteppedWorld(settings['world'], topics), node.get_logger()
        self._efforts, self._missing = [0.0] * len(topics), set(range(len(topics)))
        self._seconds = 1e-9 * settings['step_ns']
        self._begun = self._reported = (0.0, 0)
        limits = _effort_limits(description)
        for place, topic in enumerate(topics):
            *_, joint, force = topic.split('/')
            on_effort = partial(self._on_effort, place, limits.get(joint, math.inf))
            node.create_subscription(Float64, f'{joint}/{force}', on_effort, 1)

    def begin(self) -> None:
        """Make the first step, if its command has come already."""
        self._begun = self._reported = (time.monotonic(), 0)
        self._log.info('lockstep: every command makes one step')
        self._step_if_due()

    def report(self) -> str:
        """Return how fast simulated time went since the last report, and in all."""
        now, steps = time.monotonic(), self.world.steps
        (before, made), self._reported = self._reported, (now, steps)
        if steps == made:
            return f'lockstep: nobody has commanded for {now - before:.0f} s'
        lately = self._seconds * (steps - made) / (now - before)
        whole = self._seconds * steps / (now - self._begun[0])
        time_s = self._seconds * steps
        return f'lockstep: {time_s:.3f} s; real-time factor {lately:.3f}, {whole:.3f} in all'

    def close(self) -> None:
        """Say how fast it went, and make no step any more."""
        if self.world.steps:
            self._log.info(self.report())
        self.world.close()

    def _on_effort(self, place: int, limit: float, msg: Float64) -> None:
        if not math.isfinite(msg.data):
            self._log.warning('a command is not a number: no step', throttle_duration_sec=5.0)
            return
        self._efforts[place] = min(max(msg.data, -limit), limit)
        self._missing.discard(place)
        self._step_if_due()

    def _step_if_due(self) -> None:
        if not self._missing and self.world.met:
            self._missing = set(range(len(self._efforts)))
            self.world.step(self._efforts)


def _effort_limits(description: str) -> dict[str, float]:
    """Return the effort limits of a URDF text by joint, N m or N."""
    joints = ElementTree.fromstring(description).iterfind('joint[limit]')
    return {
        joint.get('name', ''): float(limit.get('effort', 'inf'))
        for joint in joints
        for limit in joint.iterfind('limit')
    }
