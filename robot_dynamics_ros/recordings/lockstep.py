# SPDX-License-Identifier: Apache-2.0
"""Run a controller and a simulated plant in lockstep in one process, and write bags.

Bags are written without ROS, with the topics and times of our recorder, so that they read back bit
for bit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import numpy as np

from robot_dynamics_ros.control.requests import prepare_trajectory
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.trajectories.spline import Points
from robot_dynamics_ros.control.trajectories.trajectory import Reference, Trajectory
from robot_dynamics_ros.errors import DivergenceError
from robot_dynamics_ros.recordings.bag.reader import BagWriter
from robot_dynamics_ros.recordings.bag_layout import TEXT
from robot_dynamics_ros.recordings.columns import ARRAY, STATE
from robot_dynamics_ros.recordings.recording import NANO, Recording
from robot_dynamics_ros.simulation.plant import Plant
from robot_dynamics_ros.spatial.scalar import Array

_POINTS = 100.0  # trajectory points per second
SETTLE = 0.5  # s at rest before the motion starts


class SessionOnPlant:
    """A session that reads a plant through its driver, and commands it: one command per state.

    Subclasses add what happens before a state in ``answer``, and after a command in ``act``.

    Attributes:
        session: The controller.
        plant: The commanded plant, in its initial state.
        q, v: The last state, shape (n,), rad or m and rad/s or m/s.
        effort: The last command to the driver, shape (n,), N m or N.
        now_ns: Time of the last state, ns.
        period_ns: Time between two states, ns.
        answered: Whether the session answered the last state.

    Args:
        session: An inactive controller.
        plant: See the attribute.
    """

    answered = False
    now_ns = 0

    def __init__(self, session: ControllerSession, plant: Plant) -> None:
        self.session, self.plant = session, plant
        self.period_ns = round(plant.period * NANO)
        self.q, self.v, self.effort = np.zeros((3, session.tree.n))

    def activate(self) -> None:
        """Activate the session at the present state, which is not answered yet."""
        self.answer()
        self.session.activate(self.now_ns)

    def answer(self) -> bool:
        """Let the session answer the current state; return whether it did."""
        self.plant.read(self.q, self.v)
        times = self.now_ns, self.now_ns
        state = self.session.driver.state(*times, self.q, self.v, self.plant.effort)
        self.answered = self.session.update(state)
        if self.answered:
            self._send()
            self.session.settle()
        return self.answered

    def watch(self) -> None:
        """Start and repeat the stop action when states are missing for too long."""
        if self.session.watch(self.now_ns):
            self._send()

    def _send(self) -> None:
        self.effort = self.session.driver.effort_of_command(self.session.command)

    def act(self) -> None:
        """Apply the last command for a period."""
        self.plant.step(self.effort)

    def run(self, steps: int) -> Iterator[int]:
        """Run steps, answering every state; yield the step number after each."""
        for k in range(steps):
            self.now_ns += self.period_ns
            self.answer()
            self.act()
            yield k

    def settle(self, seconds: float) -> None:
        """Run for a time, s."""
        for _ in self.run(round(seconds * NANO / self.period_ns)):
            pass


def simulate(
    session: ControllerSession,
    plant: Plant,
    motion: Trajectory,
    on_progress: Callable[[float], None] | None = None,
) -> Recording:
    """Simulate a motion and return its recording, with one command per state.

    The plant starts at rest at the start of the motion; the session is that of the controller
    node.

    Args:
        session: An inactive controller without a driver profile; its robot may differ from the
            plant's, its ``period`` is that of the plant.
        plant: The simulated robot; reset here.
        motion: A trajectory of finite duration.
        on_progress: Progress callback, called about once per simulated second with the completed
            fraction.

    Returns:
        One row per state, from standstill to the end of the motion.

    Raises:
        DivergenceError: The session rejected a state or stopped, or the simulation diverged.
        TrajectoryError: The motion leaves the limits of the session's robot.
    """
    tree, arm = session.tree, SessionOnPlant(session, plant)
    start = Reference(tree.n)
    motion.sample(0.0, start)
    plant.reset(start.position.copy())
    arm.activate()
    times = motion.instants(1.0 / _POINTS)
    points = Points(times, *motion.table(times))
    prepare_trajectory(session, points, arm.period_ns + round(SETTLE * NANO))()
    steps = round((SETTLE + motion.duration) / plant.period)
    rows = np.full((5, steps, tree.n), np.nan)
    stamps = np.arange(1, steps + 1) * arm.period_ns
    for k in arm.run(steps):
        if not arm.answered:
            raise DivergenceError(f'the state ({session.loop.state.last_refusal})', plant.time)
        if session.fault is not None:
            raise session.fault
        reference = session.loop.reference
        rows[:, k] = arm.q, arm.v, arm.effort, reference.position, reference.velocity
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
