# SPDX-License-Identifier: Apache-2.0
"""Record runs in one process: a controller and a simulated plant in lockstep, written to a bag.

Bags are written without ROS, with the topics and times of our recorder, so that they read back bit
for bit.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np

from robot_dynamics_ros.control.laws.control_law import ControlLaw
from robot_dynamics_ros.control.loop import ControlLoop
from robot_dynamics_ros.control.settings import LoopSettings
from robot_dynamics_ros.control.trajectories.trajectory import Reference, Trajectory
from robot_dynamics_ros.errors import DivergenceError
from robot_dynamics_ros.recordings.bag.reader import BagWriter
from robot_dynamics_ros.recordings.bag_layout import ARRAY, STATE, TEXT
from robot_dynamics_ros.recordings.recording import NANO, Recording
from robot_dynamics_ros.simulation.plant import Plant
from robot_dynamics_ros.spatial.scalar import Array
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


# Writing -----------------------------------------------------------------------------------------

STATES, REFERENCE = '/joint_states', '/controller/reference'
COMMANDS, DESCRIPTION = '/effort_controller/commands', '/robot_description'


def write_recording(path: str | os.PathLike[str], recording: Recording) -> None:
    """Write a recording to a new bag.

    Args:
        path: The bag's folder, which must not exist.
        recording: The recording; non-finite commands and references are not written.

    Raises:
        RecordingError: A file or folder of that name exists.
        MissingDependencyError: rosbags is not installed.
    """
    flat = np.ascontiguousarray  # rows may be strided
    n, stamps = len(recording.joints), recording.stamp_ns.tolist()
    measured = np.where(np.isfinite(recording.measured_effort).all(axis=1), n, 0).tolist()
    with BagWriter(path) as bag:

        def write_state(topic: str, stamp: int, *numbers: Array) -> None:
            time = bag.message('builtin_interfaces/msg/Time', *divmod(stamp, NANO))
            header = bag.message('std_msgs/msg/Header', time, '')
            message = bag.message(STATE, header, list(recording.joints), *map(flat, numbers))
            bag.write_message(topic, stamp, message)

        bag.add_topic(STATES, STATE)
        bag.add_topic(COMMANDS, ARRAY)
        bag.add_topic(REFERENCE, STATE)
        if recording.description:
            bag.add_topic(DESCRIPTION, TEXT, latched=True)
            bag.write_message(DESCRIPTION, stamps[0], bag.message(TEXT, recording.description))
        layout = bag.message('std_msgs/msg/MultiArrayLayout', [], 0)
        for k, stamp in enumerate(stamps):
            effort = recording.measured_effort[k, : measured[k]]
            write_state(STATES, stamp, recording.position[k], recording.velocity[k], effort)
            if np.isfinite(recording.reference_position[k]).all():
                place = recording.reference_position[k], recording.reference_velocity[k]
                write_state(REFERENCE, stamp, *place, effort[:0])
            if np.isfinite(recording.effort[k]).all():
                command = bag.message(ARRAY, layout, flat(recording.effort[k]))
                bag.write_message(COMMANDS, stamp, command)
