# SPDX-License-Identifier: Apache-2.0
"""Deactivation in motion: the arm brakes first, for a bounded time; MuJoCo is the arm.

As a driver does, the plant then keeps the last command for ever.
"""

import numpy as np
import pytest
from oracles import PinocchioOracle
from pushed_arm import START, PushedArm, arm
from samples import sample

from robot_dynamics_ros.control.health import SessionHealth
from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.errors import ConfigurationError

MS = 1_000_000
WAY = np.array([1.0, -0.8, 0.8, 0.6])
LAWS = ('computed_torque', 'impedance', 'gravity_compensation', 'constraint_stabilization')


class Moving(PushedArm):
    """An arm in the middle of a fast motion."""

    def __init__(self, law: str = 'computed_torque', **given) -> None:
        program = {'program': 'four_dof_moving_plane'} if law == LAWS[3] else {}
        given |= {'law': law, **program}
        super().__init__(arm('four_dof', friction=True), START['four_dof'], given)
        self.settle(0.3)
        if self.session.loop.law.follows_reference:
            self.move(0.9, self.q + WAY)
            self.settle(0.45)
        else:
            self.plant.reset(self.q, 1.2 * WAY)
            self.settle(0.01)
        assert np.abs(self.v).max() > 0.5
        self.session.remarks.clear()

    def until_inactive(self, push: float = 0.0) -> int:
        """Run until the mode is inactive; return the number of states."""
        limit, last = self.session.tree.effort_limit, self.session.command.copy()
        loop = self.session.loop
        for k in self.run(4000):
            self.push[:] = push * np.sin(0.01 * k)
            if self.session.mode is SessionMode.INACTIVE:
                return k
            # The limit of any stop with fresh states: a fifth of the limits in a millisecond.
            assert push or (np.abs(self.effort - last) <= 0.2 * limit * (1.0 + 1e-9)).all()
            last = self.effort.copy()
            # A law that does not hold the arm where it is would move it again.
            assert loop.law.follows_reference or loop.acting is not loop.law
        raise AssertionError('it is still active')


@pytest.mark.slow
@pytest.mark.parametrize('law', LAWS)
def test_an_arm_that_moves_is_at_rest_before_it_is_inactive_and_stays_there(law):
    moving = Moving(law)
    session, before = moving.session, moving.q.copy()
    assert [session.deactivate(), session.deactivate()] == [False, False]
    for ask in (lambda: session.activate(moving.now_ns), session.hold):
        with pytest.raises(ConfigurationError, match='is being deactivated'):
            ask()
    being = 'the controller is being deactivated'
    assert SessionHealth().report(session)[:2] == ('warning', being)
    assert moving.until_inactive() < 1000
    assert (np.abs(moving.v) < 0.01 * session.tree.velocity_limit).all()
    assert np.abs(moving.q - before).max() < 0.25
    told = [
        *[f'aborted: {being}'] * session.loop.law.follows_reference,
        'ending: deactivation in motion: braking first',
        'ended: the controller was deactivated',
    ]
    assert moving.statuses == [f'{text}{session.goals.subject}' for text in told]
    rest = moving.q.copy()
    for _ in range(3000):
        moving.plant.step(session.command)
    moving.plant.read(moving.q, moving.v)
    assert np.abs(moving.q - rest).max() < 0.02


@pytest.mark.parametrize('law', LAWS[::2])
def test_an_arm_whose_states_are_missing_for_a_while_is_braked_once_they_return(law):
    moving = Moving(law)
    moving.session.deactivate()
    moving.now_ns += 300 * MS
    moving.watch()
    assert 30 < moving.until_inactive() < 1000
    assert (np.abs(moving.v) < 0.01 * moving.session.tree.velocity_limit).all()


def test_noise_that_looks_like_a_motion_starts_no_second_brake(rng, monkeypatch):
    """It acted and the stop action, here zero, in turns until half a second had passed."""
    moving = Moving('gravity_compensation', stop_action='zero')
    session, read = moving.session, moving.plant.read

    def noisy(q, v):
        read(q, v)
        v += 0.004 * session.tree.velocity_limit * rng.standard_normal(4)

    monkeypatch.setattr(moving.plant, 'read', noisy)
    session.deactivate()
    modes = [(session.mode, session.loop.braking) for _ in moving.run(1000)]
    brakes = [braking for mode, braking in modes if mode is SessionMode.DEACTIVATING]
    assert session.mode is SessionMode.INACTIVE
    assert len(brakes) > 10
    assert all(brakes[:-1])


@pytest.mark.parametrize('paused', [False, True])
def test_without_fresh_states_the_last_command_comes_within_half_a_second(paused):
    """Not after a state timeout of a minute, as in lockstep; nor if the last state is repeated."""
    moving = Moving(state_timeout_s=60.0)
    session, now = moving.session, moving.now_ns
    session.simulated_time = paused
    session.deactivate()
    while not session.watch(moving.now_ns):
        assert session.mode is SessionMode.DEACTIVATING
        moving.now_ns += 10 * MS
        if paused:
            assert not session.update(session.driver.state(now, moving.now_ns, moving.q, moving.v))
    assert moving.now_ns - now == 500 * MS
    assert session.mode is SessionMode.INACTIVE
    gravity = PinocchioOracle.of(sample('four_dof')).gravity_forces(moving.q)
    np.testing.assert_allclose(session.command, gravity, atol=1e-9)


def test_a_paused_simulator_is_not_waited_for():
    moving = Moving()
    session, now = moving.session, moving.now_ns
    session.simulated_time = True
    session.update(session.driver.state(now, now + MS, moving.q, moving.v))
    assert session.deactivate()


def test_an_arm_that_is_kept_in_motion_is_inactive_after_three_seconds():
    moving = Moving()
    moving.session.deactivate()
    assert 300 < moving.until_inactive(push=12.0) <= 3000
    moving.activate()
    moving.settle(0.1)
    assert moving.session.mode is SessionMode.HOLDING
