# SPDX-License-Identifier: Apache-2.0
"""Recordings of an arm with a prescribed motion and efforts by Pinocchio, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from bags import MS, REFERENCE, Message, command, state, text, write
from oracles import PinocchioOracle
from urdf_text import joint, link, robot, symmetric

from robot_dynamics_ros.recordings.recording import Recording

GRAVITY = (0.0, 0.0, -9.81)
NAMES = ('shoulder', 'elbow', 'lift')


def arm_xml(dynamics: str = '', effort: float = 200.0) -> str:
    """Return a three-joint arm loaded by gravity in every direction; its tool is frame 'tool'."""
    return robot(
        'test_arm',
        link('base'),
        link('upper', 4.0, (0.2, 0.0, 0.05), symmetric(0.02, 0.06, 0.07, 0.001)),
        link('fore', 2.5, (0.15, 0.03, 0.0), symmetric(0.01, 0.03, 0.03, 0.0, 0.002)),
        link('quill', 1.2, (0.0, 0.01, -0.1), symmetric(0.006, 0.006, 0.002)),
        link('tool'),
        joint('shoulder', 'base', 'upper', xyz=(0, 0, 0.4), axis=(0, 1, 0), effort=effort,
              dynamics=dynamics),
        joint('elbow', 'upper', 'fore', xyz=(0.4, 0, 0), rpy=(0.4, 0, 0), axis=(0, 0, 1),
              effort=effort, dynamics=dynamics),
        joint('lift', 'fore', 'quill', 'prismatic', xyz=(0.3, 0, 0), limits=(-0.2, 0.2),
              velocity=2.0, effort=effort, dynamics=dynamics),
        joint('tip', 'quill', 'tool', 'fixed', xyz=(0, 0, -0.15)),
    )  # fmt: skip


@dataclass
class RecordedArm:
    """States along sines with semi-implicit steps; efforts by inverse dynamics plus disturbances.

    Attributes:
        count: States.
        gravity: Gravity that acts on the arm.
        viscous, dry: Friction at the velocity at the end of the step.
        armature: Drive inertia.
        factor: Recorded effort / acting effort, per joint.
        measured_late: Whether states contain efforts, namely those of the previous step.
        period: Period of the states, ns.
    """

    count: int = 1500
    gravity: Sequence[float] = GRAVITY
    viscous: Any = 0.0
    dry: Any = 0.0
    armature: Any = 0.0
    factor: Any = 1.0
    measured_late: bool = False
    period: int = MS
    xml: str = field(default_factory=arm_xml)

    def __post_init__(self) -> None:
        h = self.period * 1e-9
        t = h * np.arange(-1, self.count + 1)[:, np.newaxis]
        w, size = np.array([2.0, 3.1, 4.3]), np.array([0.7, 0.9, 0.12])
        q = size * np.sin(w * t + np.array([0.1, 0.7, 1.3]))
        v = np.diff(q, axis=0) / h
        self.q, self.v, self.v_next = q[1:-1], v[:-1], v[1:]
        a = np.diff(v, axis=0) / h
        oracle = self.oracle_of(self.xml, self.gravity)
        rigid = [oracle.inverse_dynamics(*row) for row in zip(self.q, self.v, a, strict=True)]
        friction = self.viscous * self.v_next + self.dry * np.sign(self.v_next)
        self.acting = np.array(rigid) + friction + self.armature * a
        self.tau = self.factor * self.acting
        self.reference = self.q + np.array([1e-3, -2e-3, 5e-4])
        self.stamps = self.period * np.arange(self.count, dtype=np.int64)

    @staticmethod
    def oracle_of(xml: str, gravity: Sequence[float] = GRAVITY) -> PinocchioOracle:
        """Return Pinocchio's model of the arm."""
        return PinocchioOracle(xml, gravity, NAMES)

    @classmethod
    def at(cls, time: Any) -> Recording:
        """Return measured states and efforts of a continuous motion at times, shape (N,), s."""
        w, size = np.array([2.0, 3.1, 4.3]), np.array([0.7, 0.9, 0.12])
        x = w * np.asarray(time)[:, np.newaxis] + np.array([0.1, 0.7, 1.3])
        q, v, a = size * np.sin(x), size * w * np.cos(x), -size * w**2 * np.sin(x)
        oracle = cls.oracle_of(arm_xml())
        tau = np.array([oracle.inverse_dynamics(*row) for row in zip(q, v, a, strict=True)])
        none = np.full(q.shape, np.nan)
        return Recording(NAMES, time, q, v, none, none, none, arm_xml(), measured_effort=tau)

    def recording(self) -> Recording:
        """Return the run as it is read from its bag."""
        late = np.vstack([self.tau[:1], self.tau[:-1]])
        run = 1e-9 * self.stamps, self.q, self.v, self.tau, self.reference, self.v
        return Recording(NAMES, *run, self.xml, measured_effort=late if self.measured_late else ())

    def messages(self, *, description: bool = True, commands: bool = True) -> list[Message]:
        """Return the messages, in order."""
        found = [text(0, self.xml)] if description else []
        for k, stamp in enumerate(self.stamps.tolist()):
            effort = self.tau[max(0, k - 1)] if self.measured_late else ()
            found.append(state(stamp, NAMES, self.q[k], self.v[k], effort))
            if commands:
                found.append(command(stamp, self.tau[k]))
            found.append(state(stamp, NAMES, self.reference[k], self.v[k], topic=REFERENCE))
        return found

    def bag(self, path: Path, form: str = 'mcap', **kwargs: bool) -> Path:
        """Write them into a bag."""
        return write(path, self.messages(**kwargs), form)
