# SPDX-License-Identifier: Apache-2.0
"""Measure accepting a trajectory message: processor time per point, and the ticks meanwhile."""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from builtin_interfaces.msg import Duration
from rclpy.serialization import deserialize_message, serialize_message
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from benchmark.measuring import save, show_rows
from robot_dynamics_ros.control.trajectories.following import Prepared
from robot_dynamics_ros.control.trajectories.motions import Quintic
from robot_dynamics_ros.control.trajectories.points import trajectory_arrays
from robot_dynamics_ros.control.trajectories.reference_generator import ReferenceGenerator
from robot_dynamics_ros.control.trajectories.trajectory import ReferenceSampler
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.ros.spinning import run_in_background

COUNTS = (100, 1000, 3555)
BEGIN, END = (0.0, -1.4, -0.5, 0.7), (0.3, -1.1, -0.2, 1.0)
RATE_HZ, PERIOD_S, TOLERANCE, ROUNDS = 100.0, 1e-3, 0.05, 7


def main() -> int:
    """Measure, print and write ``out/benchmark/trajectories.json``."""
    measured = [measure(count) for count in COUNTS]
    show_rows('Accepting a JointTrajectory of four joints; one state per ms', measured)
    save('trajectories.json', measured)
    return 0


def measure(count: int) -> dict[str, float]:
    """Return the times for a message of ``count`` points, by column heading."""
    tree = load_robot(shipped_robot('four_dof'))
    generator = ReferenceGenerator(tree)
    generator.start_tolerance = TOLERANCE
    generator.set_sampler(ReferenceSampler(tree.n, 'zero_order', PERIOD_S))
    generator.rest_at(np.array(BEGIN), 1)
    read = partial(deserialize_message, message(tree.joint_names, count), JointTrajectory)
    arrays = partial(trajectory_arrays, joints=tree.joint_names)
    msg = read()
    points = arrays(msg)

    def prepare(points: Any) -> Prepared:
        return generator.prepare(generator.snapshot(), points)

    def accept() -> Prepared:
        return prepare(arrays(read()))

    part = 1e6 / count
    ticks, gap = min((ticks_meanwhile(accept) for _ in range(ROUNDS)), key=lambda row: row[1])
    return {
        'points': count,
        'read, us/point': shortest(read) * part,
        'arrays, us/point': shortest(partial(arrays, msg)) * part,
        'check, us/point': shortest(partial(prepare, points)) * part,
        'commit, us': min(commit_after(generator, prepare(points)) for _ in range(ROUNDS)) * 1e6,
        'ticks': ticks,
        'gap, ms': gap * 1e3,
    }


def message(joints: tuple[str, ...], count: int) -> bytes:
    """Return a serialized motion of ``count`` points."""
    times = np.arange(1, count + 1) / RATE_HZ
    rows = Quintic(BEGIN, END, float(times[-1])).table(times)
    points = [
        JointTrajectoryPoint(
            positions=rows[0][k].tolist(),
            velocities=rows[1][k].tolist(),
            accelerations=rows[2][k].tolist(),
            time_from_start=Duration(sec=int(t), nanosec=round(t % 1.0 * 1e9) % 10**9),
        )
        for k, t in enumerate(times.tolist())
    ]
    return serialize_message(JointTrajectory(joint_names=list(joints), points=points))


def commit_after(generator: ReferenceGenerator, prepared: Prepared) -> float:
    """Return the processor time of the commit, one tick after the trajectory arrived, s."""
    generator.sample(prepared.snapshot.now_ns + round(PERIOD_S * 1e9))
    begin = time.process_time()
    generator.commit(prepared)
    return time.process_time() - begin


def shortest(work: Callable[[], object]) -> float:
    """Return the minimum processor time of several calls, s."""
    return min(timeit.repeat(work, number=1, repeat=ROUNDS, timer=time.process_time))


def ticks_meanwhile(work: Callable[[], object]) -> tuple[int, float]:
    """Return the number of periodic states answered during ``work``, and the longest gap, s."""
    begin = time.perf_counter()
    answers = [begin]

    def tick() -> bool:
        now = time.perf_counter()
        if now - begin < len(answers) * PERIOD_S:
            return False
        answers.append(now)
        return True

    run_in_background(work, tick, lambda: None, 1.0)
    return len(answers) - 1, float(np.diff([*answers, time.perf_counter()]).max())
