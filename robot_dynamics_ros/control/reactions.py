# SPDX-License-Identifier: Apache-2.0
"""Reactions to a contact: stop, hold, retract or float, until the arm is told to resume."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.control.laws.control_law import ControlLaw
from robot_dynamics_ros.control.laws.gravity_compensation import GravityCompensation
from robot_dynamics_ros.control.laws.pd_gravity import joint_inertia
from robot_dynamics_ros.control.loop import ControlLoop
from robot_dynamics_ros.control.trajectories.waypoints import Points
from robot_dynamics_ros.errors import TrajectoryError
from robot_dynamics_ros.parameters import Settings, parameter, parameters_of
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import KernelSet

#: Reactions by name.
REACTIONS = {
    'off': 'no contact detection',
    'report': 'a warning',
    'stop': 'the arm brakes and holds where it comes to rest',
    'hold': 'the arm brakes and returns to the position of the contact',
    'retract': 'the arm brakes and moves back along its path',
    'float': 'the arm is compliant, with gravity compensation and damping',
}
#: Reactions that follow the reference.
FOLLOWING = ('stop', 'hold', 'retract')
_MAX_POSITIONS, _STEPS = 400, 50  # past positions; their number per ``contact_retract_way``
_SPEED = 0.25  # fraction of the velocity limits for the return path
_PEAK = 1.875  # ratio of peak to mean speed of a quintic from rest to rest
_MIN_DURATION_S = 0.5  # shortest duration of the return path, s
_POINTS = 21


@dataclass(frozen=True)
class ReactionSettings(Settings):
    """Settings of the reaction to a contact.

    Each field declares the parameter of its name, see ``REACTION``.
    """

    contact_reaction: str = parameter(
        'off',
        f'Reaction to a contact: {"; ".join(f"{x}: {does}" for x, does in REACTIONS.items())}.',
        choices=tuple(REACTIONS),
    )
    contact_thresholds: str = parameter(
        '',
        'File with thresholds of contact detection, written by command calibrate; empty: coarse '
        'thresholds.',
        fixed=True,
    )
    contact_retract_way: float = parameter(
        0.05,
        'Distance of reaction retract, for the joint that moves farthest.',
        0.0,
        10.0,
        unit='rad or m',
    )
    contact_float_damping: float = parameter(
        5.0, 'Damping of reaction float, per inertia of each joint.', 0.0, 1e3, unit='1/s'
    )


REACTION = parameters_of(ReactionSettings)


class ContactReactions:
    """Starts and continues the reaction of a loop to a contact.

    Args:
        loop: The loop.
        kernels: Its dynamics, with payload.
    """

    def __init__(self, loop: ControlLoop, kernels: KernelSet) -> None:
        self._loop, self._kernels = loop, kernels
        self._positions: deque[Array] = deque(maxlen=_MAX_POSITIONS)
        self._path: list[Array] = []
        self.configure(ReactionSettings(), None)

    def configure(self, settings: ReactionSettings, follower: ControlLaw | None) -> None:
        """Apply settings; the slow part of a reaction is prepared here, not at a contact.

        Args:
            settings: The settings.
            follower: Law that follows the reference, used if the present law does not.
        """
        self.settings, self._follower, loop = settings, follower, self._loop
        inertia = joint_inertia(loop.tree, np.zeros(loop.tree.n))
        damping = (settings.contact_float_damping * inertia).tolist()
        self._float = GravityCompensation(loop.tree, self._kernels, damping=damping)

    def record_position(self) -> None:
        """Record the position for a return path; call it after every tick."""
        q, least = self._loop.q, self.settings.contact_retract_way / _STEPS
        if not self._positions or float(np.abs(q - self._positions[-1]).max()) > least:
            self._positions.append(q.copy())

    def begin(self) -> None:
        """Start the reaction to a contact at the present state."""
        loop, reaction = self._loop, self.settings.contact_reaction
        self._path = []
        if reaction == 'float':
            loop.react(self._float)
            return
        own = loop.law.follows_reference
        loop.react(loop.law if own or self._follower is None else self._follower)
        if reaction in ('hold', 'retract'):
            length = self.settings.contact_retract_way if reaction == 'retract' else 0.0
            self._path = return_path([loop.q.copy(), *reversed(self._positions)], length)
        self._positions.clear()

    def start_return(self) -> str:
        """Start the return once the arm is at rest; return the error text if it is rejected."""
        if not self._path or self._loop.braking:
            return ''
        path, self._path = [self._loop.reference.position.copy(), *self._path], []
        try:
            points = return_motion(path, self._loop.tree.velocity_limit)
            if points is not None:
                self._loop.generator.follow(*points)
        except TrajectoryError as error:
            return f'no path back from the contact: {error}'
        return ''


def return_path(positions: list[Array], length: float) -> list[Array]:
    """Return past positions, latest first, up to a path length, rad or m."""
    path, covered = positions[:1], 0.0
    for q in positions[1:]:
        if covered >= length:
            break
        covered += float(np.abs(q - path[-1]).max())
        path.append(q)
    return path


def return_motion(path: list[Array], speed: Array) -> Points | None:
    """Return a motion from rest to rest along positions; None if they all coincide.

    Args:
        path: Positions, shape (n,) each, rad or m.
        speed: Velocity limits, shape (n,), rad/s or m/s; infinite ones count as 1.

    Returns:
        Times, positions, velocities, accelerations, see ``ReferenceGenerator.follow``.
    """
    table = np.array(path)
    lengths = np.abs(np.diff(table, axis=0)).max(axis=1)
    moved = np.concatenate([[True], lengths > 1e-9])
    table, lengths = table[moved], lengths[moved[1:]]
    if len(table) < 2:
        return None
    along = np.concatenate([[0.0], np.cumsum(lengths)])
    slopes = np.abs(np.diff(table, axis=0)) / lengths[:, np.newaxis]
    limit = np.where(np.isfinite(speed), speed, 1.0)
    fastest = _SPEED * float((limit / np.maximum(slopes.max(axis=0), 1e-9)).min())
    duration = max(_MIN_DURATION_S, _PEAK * float(along[-1]) / fastest)
    x = np.linspace(0.0, 1.0, _POINTS)
    share = x**3 * (10.0 - 15.0 * x + 6.0 * x**2)
    columns = [np.interp(share * along[-1], along, column) for column in table.T]
    position = np.array(columns).T
    velocity = np.gradient(position, duration * x, axis=0)
    velocity[[0, -1]] = 0.0
    acceleration = np.gradient(velocity, duration * x, axis=0)
    acceleration[[0, -1]] = 0.0
    return duration * x[1:], position[1:], velocity[1:], acceleration[1:]
