# SPDX-License-Identifier: Apache-2.0
"""A driver at rest: publishes states, one at a time, and receives the commands."""

import time

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from oracles import PinocchioOracle
from peer import LATCHED, RELIABLE
from samples import sample
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String
from trajectory_msgs.msg import JointTrajectory

from robot_dynamics_ros.messages import NANO, stamp_ns
from robot_dynamics_ros.ros.conversions import ns_to_stamp, trajectory_point

COMMANDS = 'effort_controller/commands'
JOINTS = tuple(f'joint{i}' for i in range(1, 5))
#: The four-joint arm, where it rests, and its controller; on a busy machine states arrive late.
PLACE = np.array([0.0, -1.0, -0.5, 0.7])
ORACLE = PinocchioOracle.of(sample('four_dof'))
ARM = {'robot': 'four_dof', 'state_timeout_s': 30.0, 'activation_ramp_s': 0.0}
PERIOD_NS = 1_000_000
_PATIENCE_S = 0.05


def trajectory(points, names=JOINTS) -> JointTrajectory:
    """Return a trajectory through pairs of time and positions, at rest in each, from now on."""
    return JointTrajectory(
        joint_names=list(names),
        points=[
            trajectory_point(
                round(seconds * NANO), np.array(position, dtype=float), np.zeros(len(names))
            )
            for seconds, position in points
        ],
    )


def joint_state(at_ns: int, position, velocity=None, effort=(), names=JOINTS) -> JointState:
    """Return a joint state, at rest without velocities."""
    message = JointState(
        name=list(names),
        position=list(position),
        velocity=[0.0] * len(names) if velocity is None else list(velocity),
        effort=list(effort),
    )
    message.header.stamp = ns_to_stamp(at_ns)
    return message


class RestingArm:
    """States out, commands in, trajectories out.

    A command has no timestamp; the reference that follows it has that of the state which both
    answer, and the command as its effort, which identifies the state that a command answers.

    Attributes:
        commands: Every command so far.
        references: Every reference so far.
        status: Every status of trajectories so far.
        diagnostics: Every message of diagnostics so far.
        stamp: Stamp of the last state, ns.
        pause: Least time from one state to the next while something is awaited, s.
    """

    pause = 0.005

    def __init__(self, peer, place=PLACE, joints=JOINTS) -> None:
        self.peer, self._place, self.stamp, self.joints = peer, list(place), NANO, joints
        self.commands = peer.collect(Float64MultiArray, COMMANDS)
        self.references = peer.collect(JointState, 'controller/reference')
        self.status = peer.collect(String, 'controller/trajectory_status', LATCHED)
        self.diagnostics = peer.collect(DiagnosticArray, '/diagnostics')
        self._states = peer.publisher(JointState, 'joint_states', RELIABLE)
        self._trajectories = peer.publisher(JointTrajectory, 'controller/joint_trajectory', 1)

    def publish(self, q=None, v=None, names=None, effort=(), step=PERIOD_NS) -> None:
        """Publish one state, a step after the previous one."""
        self.stamp += step
        position = self._place if q is None else q
        names = self.joints if names is None else names
        self._states.publish(joint_state(self.stamp, position, v, effort, names))

    def until(self, done, what: str, *state, **further):
        """Publish states, ``pause`` apart, until something is true, and return its value."""
        next_time = 0.0

        def publish_and_ask():
            nonlocal next_time
            if (now := time.monotonic()) >= next_time:
                next_time = now + self.pause
                self.publish(*state, **further)
            return done()

        return self.peer.spin_until(publish_and_ask, 60.0, what)

    def command(self, *args, **kwargs) -> np.ndarray:
        """Publish states until the newest one is answered, and return its command.

        Until the first answer of all, states come fast. Then the next is sent only after a while,
        which doubles, because the last may have been lost or refused: in the end none is left on
        its way.
        """
        count, answered, known = len(self.commands), len(self.references), bool(self.references)
        patience, next_time = _PATIENCE_S, 0.0

        def answer():
            nonlocal patience, next_time
            new = self.references[answered:]
            if new and stamp_ns(new[-1]) == self.stamp and next_time:
                effort = sorted(new[-1].effort)
                return next((c for c in self.commands[count:] if sorted(c.data) == effort), None)
            if time.monotonic() >= next_time:
                self.publish(*args, **kwargs)
                next_time = time.monotonic() + patience
                patience *= 2.0 if known or new else 1.0
            return None

        return np.array(self.peer.spin_until(answer, 60.0, 'a command').data)

    def ends_without_effort(self) -> None:
        """Wait until the last command is zero."""
        self.peer.spin_until(lambda: not any(self.commands[-1].data), 20.0, 'a command of zero')

    def send(self, message: JointTrajectory | bytes) -> str:
        """Send a trajectory and return the controller's answer."""
        self.until(self._trajectories.get_subscription_count, 'subscription of trajectories')
        before = len(self.status)
        self._trajectories.publish(message)
        self.until(lambda: len(self.status) > before, 'answer to a trajectory')
        return self.status[-1].data

    def set(self, **values):
        """Set parameters of the controller one by one and return the last result."""
        return self.peer.set('controller', **values)

    def change(self, *transitions: int) -> bool:
        """Request transitions of the controller; return whether all succeeded."""
        return all(self.peer.change_state('controller', x) for x in transitions)

    def figure(self, name: str) -> str | None:
        """Return a value of the last diagnostics."""
        found = (pair for array in self.diagnostics[-1:] for pair in array.status[0].values)
        return next((pair.value for pair in found if pair.key == name), None)

    def said(self, text: str, level: bytes = DiagnosticStatus.WARN) -> bool:
        """Return whether a text is in a message of the diagnostics of a level."""
        found = (status for array in self.diagnostics for status in array.status)
        return any(text in status.message and status.level == level for status in found)
