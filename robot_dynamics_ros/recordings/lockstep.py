# SPDX-License-Identifier: Apache-2.0
"""Run a controller and a simulated plant in lockstep in one process, and record the run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from robot_dynamics_ros.control.laws.control_law import ControlLaw, Reference
from robot_dynamics_ros.control.loop import ControlLoop
from robot_dynamics_ros.control.settings import LoopSettings
from robot_dynamics_ros.control.trajectories.trajectory import Trajectory
from robot_dynamics_ros.errors import DivergenceError
from robot_dynamics_ros.recordings.recording import NANO, Recording
from robot_dynamics_ros.simulation.plant import Plant
from robot_dynamics_ros.symbolic.kernel import compile_kernel

_POINTS = 100.0  # trajectory points per second
SETTLE = 0.5  # s at rest before the trajectory starts


def run_lockstep(
    plant: Plant,
    law: ControlLaw,
    trajectory: Trajectory,
    on_progress: Callable[[float], None] | None = None,
) -> Recording:
    """Simulate a trajectory and return its recording, with one command per state.

    The plant starts at rest at the start of the trajectory. The control loop is that of the
    controller node, including ramp, joint-limit guard and effort limiter.

    Args:
        plant: The simulated robot; reset here.
        law: The control law; its robot model may differ from the plant's.
        trajectory: A trajectory of finite duration.
        on_progress: Progress callback, called about once per simulated second with the completed
            fraction.

    Returns:
        One row per state, from standstill to the end of the trajectory.

    Raises:
        DivergenceError: The loop rejected a state, or the simulation diverged.
        TrajectoryError: The trajectory leaves the limits of the law's robot.
    """
    tree = law.tree
    kernels = compile_kernel(tree, outputs=('inverse_dynamics', 'gravity_forces'))
    loop = ControlLoop(tree, kernels, law, LoopSettings(period=plant.period))
    start = Reference(tree.n)
    trajectory.sample(0.0, start)
    plant.reset(start.position.copy())
    times = trajectory.instants(1.0 / _POINTS)
    steps = round((SETTLE + trajectory.duration) / plant.period)
    rows = np.full((5, steps, tree.n), np.nan)
    stamps = np.arange(1, steps + 1) * round(plant.period * NANO)
    q, v = np.zeros(tree.n), np.zeros(tree.n)
    for k, stamp in enumerate(stamps.tolist()):
        plant.read(q, v)
        if not loop.observe(stamp, q, v).usable:
            raise DivergenceError(f'the state ({loop.state.last_refusal})', stamp / NANO)
        if k == 0:
            loop.start()
            begin = stamp + round(SETTLE * NANO)
            loop.generator.follow(times, *trajectory.table(times), start_ns=begin)
        loop.tick()
        reference = loop.reference
        rows[:, k] = q, v, loop.effort, reference.position, reference.velocity
        plant.step(loop.effort)
        if on_progress is not None and k % round(1.0 / plant.period) == 0:
            on_progress(k / steps)
    position, velocity, effort, reference_position, reference_velocity = rows
    return Recording(
        tree.joint_names,
        stamps / NANO,
        position,
        velocity,
        effort,
        reference_position,
        reference_velocity,
        description=tree.xml,
        stamp_ns=stamps,
    )
