# SPDX-License-Identifier: Apache-2.0
"""What limits a session's commands: effort limits, rates, elapsed time, a driver's own effort.

States go in, commands come out; limits and allowed steps are computed here from the description.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from samples import sample
from still_arm import MS, StillArm

from robot_dynamics_ros.control.drivers.driver_interface import DriverInterface
from robot_dynamics_ros.control.drivers.profile import load_driver_profile
from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.errors import ConfigurationError

TREE = sample('four_dof').tree
LIMIT = TREE.effort_limit
Array = np.ndarray
PLACE = np.array([0.2, -1.0, -0.4, 0.6])
#: Where a law that holds PLACE with 60 rad/s needs more than any limit.
FAR = PLACE + np.array([0.3, 0.15, 0.3, 0.1])
STILL = np.zeros(4)
HOLDING = {'law': 'pd_gravity', 'natural_frequency': [60.0], 'activation_ramp_s': 0.0}
CHANGE, STOP = 0.05, 0.2  # largest steps of docs/reliability.md, per limit and ms
ROUNDING = 1e-9


class Watched(StillArm):
    """A session that holds a fixed arm with a stiff law."""

    def __init__(self, profile: Any = None, **given: Any) -> None:
        driver = DriverInterface(load_driver_profile(profile), TREE) if profile else None
        super().__init__(ControllerSession(TREE, HOLDING | given, driver), PLACE, 5_000 * MS)
        self.active()

    def move(self, q: Array, count: int = 500) -> None:
        """Move the arm there with consistent states, and stay there as long."""
        v = (q - PLACE) / (1e-3 * count)
        for k in range(1, count + 1):
            self.state(PLACE + (q - PLACE) * k / count, v)
        self.states(count, q)

    def steps(self, since: int) -> Array:
        """Return the changes of the commands from an index on."""
        return np.abs(np.diff(self.commands[since - 1 :], axis=0))


def profile_of(*terms: str) -> dict[str, Any]:
    return {'name': 'test', 'compensated_by_driver': list(terms)}


# A lowered effort scale --------------------------------------------------------------------------


@pytest.mark.parametrize('terms', [None, ('gravity',), ('gravity', 'friction')])
@pytest.mark.parametrize(('rate', 'scale'), [(0.0, 0.01), (200.0, 0.3)])
@pytest.mark.parametrize('q', [PLACE, FAR], ids=['holding', 'saturated'])
def test_a_lowered_effort_scale_is_obeyed_soon_and_without_a_jump(terms, rate, scale, q):
    """It takes at most 20 ms, or the rate limit's time; no step exceeds either slope."""
    arm = Watched(terms and profile_of(*terms), effort_rate_limit=[rate])
    arm.move(q)
    last, begin = np.abs(arm.commands[-1]), len(arm.commands)
    arm.change(effort_scale=scale)
    arm.states(500, q)
    slope = np.minimum(CHANGE * LIMIT, rate * 1e-3 if rate else math.inf)
    assert (arm.steps(begin) <= slope + ROUNDING).all()
    allowed = np.ceil(np.maximum(last - scale * LIMIT, 0.0) / slope - ROUNDING)
    assert allowed.max() <= 20 or rate
    for k, command in enumerate(arm.commands[begin:]):
        obeyed = np.abs(command) <= scale * LIMIT * (1.0 + ROUNDING)
        assert (obeyed | (k + 1 < allowed)).all()


def test_a_profile_with_rate_limits_keeps_them_under_a_lowered_effort_scale():
    arm = Watched('franka_like')
    arm.move(FAR)
    begin = len(arm.commands)
    arm.change(effort_scale=0.01)
    arm.states(100, FAR)
    assert arm.steps(begin).max() == pytest.approx(1.0, rel=1e-9)  # 1000 N m/s for 1 ms
    assert (np.abs(arm.commands[-1]) <= 0.01 * LIMIT + ROUNDING).all()


# Command and driver's own effort -----------------------------------------------------------------


@pytest.mark.parametrize('action', ['gravity', 'damping', 'hold'])
@pytest.mark.parametrize('scale', [1.0, 0.7])
def test_a_stop_command_and_the_drivers_effort_together_are_within_the_motors_limit(action, scale):
    """Once the velocity is unknown, the friction that the driver adds no longer makes room."""
    tree = TREE.with_changes(
        effort_limit=np.array([15.0, 10.0, 15.0, 3.0]), damping=np.full(4, 2.0)
    )
    driver = DriverInterface(load_driver_profile(profile_of('gravity', 'friction')), tree)
    given = {'stop_action': action, 'effort_rate_limit': [50.0], 'effort_scale': scale}
    session, now = ControllerSession(tree, HOLDING | given, driver), 5_000 * MS
    v = np.array([0.0, 1.0, 0.0, 0.0])
    q = PLACE - 0.3 * v
    session.update(session.driver.state(now, now, q, v))
    session.activate(now)
    for _ in range(300):
        now += MS
        q = q + 1e-3 * v
        assert session.update(session.driver.state(now, now, q, v))
    gravity = np.zeros(4)
    session.loop.kernels.gravity_forces(q, gravity)
    assert session.command[1] < -4.0  # a total of more than -10 at rest
    for _ in range(5):
        now += 100 * MS
        assert session.watch(now)
        total = session.driver.effort_of_command(session.command) + gravity
        assert (np.abs(total) <= tree.effort_limit * (1.0 + ROUNDING)).all()


# Elapsed time ------------------------------------------------------------------------------------

RATE = 200.0  # N m/s


def assert_rate_is_kept(arm: Watched, since: int) -> None:
    """Require that each command differs from the last one by at most rate times time."""
    elapsed = np.diff(arm.times[since - 1 :]) * 1e-9
    assert (arm.steps(since) <= RATE * elapsed[:, np.newaxis] + ROUNDING).all()


@pytest.mark.parametrize('timeout', [2, 5, 100])
def test_a_stop_is_granted_the_time_that_passed_since_the_last_command(timeout):
    """Also for a repetition that comes early, because a parameter has changed."""
    given = {'effort_rate_limit': [RATE], 'stop_action': 'zero', 'state_timeout_s': 1e-3 * timeout}
    arm = Watched(**given)
    arm.states(300)
    begin = len(arm.commands)
    for wait in (timeout, 3, 1, 20, 0, 7):
        arm.wait(wait)
        arm.change(start_tolerance=0.01 + 1e-4 * wait)
    assert len(arm.commands) == begin + 6
    assert_rate_is_kept(arm, begin)
    assert arm.steps(begin)[0].max() == pytest.approx(RATE * 1e-3 * min(timeout, 20))


def broken(*_: Any) -> None:
    raise ZeroDivisionError('unexpected')


@pytest.mark.parametrize('rate', [0.0, RATE])
@pytest.mark.parametrize('where', ['tick', 'settle', 'commit'])
def test_a_fault_while_states_are_fresh_brakes_as_any_stop_with_fresh_states(where, rate):
    """Only one period has passed since the last command, and feedback is possible."""
    arm = Watched(effort_rate_limit=[rate], stop_action='zero')
    arm.move(FAR)
    session, begin = arm.session, len(arm.commands)
    if where == 'tick':
        session.loop.law.effort = broken
    elif where == 'settle':
        session.contact.update = broken
    else:
        session.locked.configure = broken
        with pytest.raises(ConfigurationError, match='unexpected'):
            arm.change(effort_scale=0.9)
    arm.states(200, FAR)
    assert session.mode is SessionMode.FAULTED
    slope = 1e-3 * rate if rate else STOP * LIMIT
    assert (arm.steps(begin) <= slope + ROUNDING).all()
    np.testing.assert_allclose(arm.commands[-1], 0.0, atol=1e-12)
