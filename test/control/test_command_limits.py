# SPDX-License-Identifier: Apache-2.0
"""What limits a session's commands: effort limits, rates, elapsed time, a driver's own effort.

States go in, commands come out; limits and allowed steps are computed here from the description.
"""

import math
from typing import Any

import numpy as np
import pytest
import tables
from numpy.testing import assert_allclose
from oracles import PinocchioOracle
from samples import sample
from still_arm import MS, StillArm, driver_of

from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.control.requests import prepare_payload
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
    """A session that holds a fixed arm with a stiff law; the driver compensates terms."""

    def __init__(self, *terms: str, profile: Any = (), **given: Any) -> None:
        driver = driver_of(TREE, compensated_by_driver=[*terms], **dict(profile))
        super().__init__(ControllerSession(TREE, HOLDING | given, driver), PLACE, 5_000 * MS)
        self.active()

    def lead(self, q: Array, count: int = 500) -> None:
        """Move the arm there with consistent states, and stay there as long."""
        v = (q - PLACE) / (1e-3 * count)
        for k in range(1, count + 1):
            self.state(PLACE + (q - PLACE) * k / count, v)
        self.states(count, q)

    def steps(self, since: int) -> Array:
        """Return the changes of the commands from an index on."""
        return np.abs(np.diff(self.commands[since - 1 :], axis=0))


# A lowered effort scale --------------------------------------------------------------------------


@tables.rows(
    'terms rate driver scale far',
    """
[], 0.0, {}, 0.01, true
[], 200.0, {}, 0.3, false
[gravity, friction], 1000.0, {defaults: {effort_rate_limit: 1000.0}}, 0.01, true
""",
)
def test_a_lowered_effort_scale_is_obeyed_soon_and_without_a_jump(terms, rate, driver, scale, far):
    """It takes at most 20 ms, or the rate limit's time; no step exceeds either slope."""
    q = FAR if far else PLACE
    arm = Watched(*terms, profile=driver, effort_rate_limit=[0.0 if driver else rate])
    arm.lead(q)
    last, begin = np.abs(arm.commands[-1]), len(arm.commands)
    arm.change(effort_scale=scale)
    found = np.abs(arm.states(500, q))
    slope = np.minimum(CHANGE * LIMIT, rate * 1e-3 if rate else math.inf)
    assert (arm.steps(begin) <= slope + ROUNDING).all()
    allowed = np.ceil(np.maximum(last - scale * LIMIT, 0.0) / slope - ROUNDING)
    assert allowed.max() <= 20 or rate
    late = np.arange(1, 501)[:, np.newaxis] >= allowed
    assert (found <= scale * LIMIT * (1.0 + ROUNDING))[late].all()


@pytest.mark.parametrize(
    ('frequency', 'ask'),
    [
        (15.0, lambda arm: arm.change(natural_frequency=[40.0])),
        (15.0, lambda arm: arm.change(law='gravity_compensation')),
        (40.0, lambda arm: prepare_payload(arm.session, False)()),
    ],
    ids=['gains', 'law', 'payload'],
)
def test_no_request_in_motion_makes_the_command_jump(frequency, ask):
    """Even if nothing is blended; the arm stays behind, so that gains and laws differ by far."""
    given = {'natural_frequency': [frequency], 'payload_mass': 2.0, 'payload_frame': 'tool'}
    arm = Watched(law='computed_torque', path_effort_share=0.0, **given)
    arm.states(100)
    arm.move(0.5, PLACE + [0.3, -0.3, 0.3, 0.3])
    arm.states(100)
    begin = len(arm.commands)
    ask(arm)
    arm.states(100)
    assert (arm.steps(begin) <= CHANGE * LIMIT + ROUNDING).all()


@pytest.mark.parametrize('law', ['gravity_compensation', 'computed_torque'])
def test_a_reference_that_comes_to_rest_or_to_another_motion_is_no_step(law):
    """It brakes, and the effort of a law that follows it, or is fading out, with it."""
    tree, place = sample('scara').tree, np.array([-1.0, 0.9, 0.08, 0.0])
    tree = tree.with_changes(effort_limit=0.5 * tree.effort_limit)
    arm = StillArm(ControllerSession(tree, {'activation_ramp_s': 1.0}), place)
    arm.active().states(1000)
    arm.move(0.8, place + [2.0, 0.8, 0.05, 3.0])
    arm.states(100)
    arm.change(law=law)
    arm.states(30)
    if law == 'gravity_compensation':
        arm.session.hold()
    else:
        arm.move([0.0, 1.0], arm.session.loop.reference.position, place)
    arm.states(20)
    steps = np.abs(np.diff(arm.commands[-21:], axis=0))
    assert (steps <= CHANGE * tree.effort_limit * (1.0 + ROUNDING)).all()


# Terms compensated by the driver -----------------------------------------------------------------

SPEED = np.array([0.3, -0.2, 0.4, 0.1])
FRICTION = TREE.damping * SPEED + TREE.coulomb_friction * np.tanh(SPEED / 1e-3)
GRAVITY = PinocchioOracle.of(sample('four_dof')).gravity_forces(PLACE)


@tables.rows(
    'law terms',
    """
computed_torque, [gravity]
pd_gravity, [friction]
gravity_compensation, [gravity, friction]
""",
)
def test_exactly_what_the_driver_compensates_is_subtracted_at_the_state_of_the_tick(law, terms):
    """At rest first, then moving: the subtracted terms are those of the same tick."""
    alone, shared = (Watched(*kinds, law=law) for kinds in ([], terms))
    found = shared.states(1, v=SPEED) - alone.states(1, v=SPEED)
    share = GRAVITY * ('gravity' in terms) + FRICTION * ('friction' in terms)
    assert_allclose(found[0], -share, atol=1e-10)


@tables.rows(
    'term action',
    """
gravity, zero
gravity, gravity
gravity, damping
friction, gravity
""",
)
def test_activation_and_stops_leave_to_the_driver_what_it_compensates(term, action):
    """The command is zero, not the effort of the motors: the driver keeps holding the arm.

    An old velocity is taken for no friction.
    """
    effort = GRAVITY * (term == 'friction')
    arm = Watched(term, stop_action=action, state_timeout_s=0.1, activation_ramp_s=1.0)
    assert_allclose(arm.commands[0], effort, atol=1e-12)
    arm.state(v=SPEED if term == 'friction' else STILL)
    assert arm.wait()
    assert_allclose(arm.commands[-1], effort, atol=1e-10)
    assert arm.session.end()
    assert_allclose(arm.session.command, effort, atol=1e-10)


def test_what_is_not_finite_falls_back_to_the_stop_action_less_the_share():
    arm = Watched('gravity', stop_action='gravity')
    arm.session.loop.law.effort = lambda t, q, v, reference, out: out.fill(np.nan)
    assert_allclose(arm.states(1), [STILL], atol=1e-12)
    assert arm.session.loop.limiter.non_finite.all()


# Elapsed time ------------------------------------------------------------------------------------

RATE = 200.0  # N m/s


@pytest.mark.parametrize('timeout', [2, 100])
def test_a_stop_is_granted_the_time_that_passed_since_the_last_command(timeout):
    """Also for a repetition that comes early, because a parameter has changed."""
    given = {'effort_rate_limit': [RATE], 'stop_action': 'zero'}
    arm = Watched(state_timeout_s=1e-3 * timeout, **given)
    arm.states(300)
    begin = len(arm.commands)
    for wait in (timeout, 3, 1, 20, 0, 7):
        arm.wait(wait)
        arm.change(start_tolerance=0.01 + 1e-4 * wait)
    assert len(arm.commands) == begin + 6
    elapsed = np.diff(arm.times[begin - 1 :]) * 1e-9
    assert (arm.steps(begin) <= RATE * elapsed[:, np.newaxis] + ROUNDING).all()
    assert arm.steps(begin)[0].max() == pytest.approx(RATE * 1e-3 * min(timeout, 20))
    assert arm.state(step=50 * MS)  # states are back: they are granted no more than a period
    assert arm.steps(len(arm.commands) - 1).max() == pytest.approx(RATE * 1e-3)


def test_an_arm_that_moves_to_a_limit_is_braked_from_its_activation_on_without_a_jump():
    """By the guard, with a quarter of the limit: at once only without a ramp."""
    place, found = [TREE.position_upper[0] - 0.02, *PLACE[1:]], []
    for ramp in (0.5, 0.0):
        arm = StillArm(ControllerSession(TREE, {'activation_ramp_s': ramp}), place)
        arm.v[0] = 1.0
        arm.active().states(1)
        found.append(np.array(arm.commands)[:, 0] / LIMIT[0])
    assert_allclose(found, [[-STOP, found[1][1]], [found[1][1]] * 2])
    assert -0.26 < found[1][1] < -0.25


def test_without_states_and_at_the_end_the_stop_action_acts_at_once():
    """The last command whatever the rate limit."""
    arm = Watched(stop_action='zero', state_timeout_s=2e-3)
    last = Watched(stop_action='zero', effort_rate_limit=[RATE])
    arm.lead(FAR)
    assert (np.abs(arm.commands[-1]) > 2 * 2 * STOP * LIMIT).any()
    assert arm.wait(2)
    assert_allclose(arm.commands[-1], 0.0, atol=1e-12)
    assert last.session.end()
    assert_allclose(last.session.command, 0.0, atol=1e-12)


def test_measured_efforts_that_no_sensor_gives_or_gives_no_more_are_unknown():
    arm = Watched(profile={'state': {'effort': 'total'}}, observer_effort='measured')
    arm.session.contact.subscribe(True)
    arm.states(1)
    for factors, unknown in (([1.0, -11.0, 9.0, 11.0], [False, True] * 2), (None, [True] * 4)):
        arm.state(effort=None if factors is None else LIMIT * factors)
        assert np.isnan(arm.session.loop.measured_effort).tolist() == unknown


def broken(*_: Any) -> None:
    raise ZeroDivisionError('unexpected')


@pytest.mark.parametrize(('where', 'rate'), [('tick', RATE), ('settle', 0.0), ('commit', 0.0)])
def test_a_fault_while_states_are_fresh_brakes_as_any_stop_with_fresh_states(where, rate):
    """Only one period has passed since the last command, and feedback is possible."""
    arm = Watched(effort_rate_limit=[rate], stop_action='zero')
    arm.lead(FAR)
    session, begin = arm.session, len(arm.commands)
    owners = {'tick': (session.loop.law, 'effort'), 'settle': (session.contact, 'update')}
    setattr(*owners.get(where, (session.locked, 'configure')), broken)
    if where == 'commit':
        with pytest.raises(ConfigurationError, match='unexpected'):
            arm.change(effort_scale=0.9)
    arm.states(600, FAR)
    assert session.mode is SessionMode.FAULTED
    slope = 1e-3 * rate if rate else STOP * LIMIT
    assert (arm.steps(begin) <= slope + ROUNDING).all()
    assert_allclose(arm.commands[-1], 0.0, atol=1e-12)
