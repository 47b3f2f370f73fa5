# SPDX-License-Identifier: Apache-2.0
"""The controller without ROS: every cell of its table, its clocks, changes and rejections.

The table is repeated here, by mode, so that an error in either is detected; the effect of a
cell is checked by its output. Reference of the stop action: Pinocchio's gravity.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pinocchio
import pytest
from samples import sample

from robot_dynamics_ros.control.drivers.driver_interface import ArmState, DriverInterface
from robot_dynamics_ros.control.drivers.profile import load_driver_profile
from robot_dynamics_ros.control.health import SessionHealth
from robot_dynamics_ros.control.modes import TABLE, SessionEvent, SessionMode
from robot_dynamics_ros.control.parts import STOP_PERIOD_NS
from robot_dynamics_ros.control.requests import (
    builds_law,
    prepare_goal,
    prepare_parameters,
    prepare_payload,
    prepare_target,
    prepare_trajectory,
)
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.description.shipped import share_directory
from robot_dynamics_ros.errors import ConfigurationError, ParameterError, RobotDynamicsError

MS = 1_000_000
TREE = sample('four_dof').tree
PLACE = np.array([0.2, -1.0, -0.4, 0.6])
GRAVITY = pinocchio.computeGeneralizedGravity(
    (MODEL := pinocchio.buildModelFromXML(sample('four_dof').xml)), MODEL.createData(), PLACE
)
STILL = np.zeros(4)
GIVEN = {'activation_ramp_s': 0.0, 'state_timeout_s': 0.1, 'law': 'gravity_compensation'}


class Driven:
    """A session with prescribed states; arrival clock and timestamps differ widely."""

    def __init__(self, given: dict[str, Any] | None = None, **options: Any) -> None:
        self.session = ControllerSession(TREE, GIVEN | (given or {}), **options)
        self.stamp, self.now = 7_000 * MS, 123_456 * MS

    def state(self, q=PLACE, step=MS, **more) -> bool:
        self.stamp += step
        self.now += abs(step)
        sent = self.session.update(
            self.session.driver.state(self.stamp, self.now, q, STILL, **more)
        )
        if sent:
            self.session.settle()
        return sent

    def active(self) -> Driven:
        self.state()
        self.session.activate(self.now)
        assert self.state()
        return self

    def silence(self) -> bool:
        self.now += 200 * MS
        return self.session.watch(self.now)

    def following(self) -> Driven:
        self.active()
        prepare_trajectory(self.session, points())()
        return self

    def reacting(self) -> Driven:
        self.active()
        self.session._handle(SessionEvent.CONTACT)  # as the contact watch does
        return self

    def faulted(self) -> Driven:
        self.active()
        law = self.session.loop.law
        effort, law.effort = law.effort, broken
        assert self.state()
        law.effort = effort
        return self

    def deactivating(self) -> Driven:
        self.active().moves()
        assert not self.session.deactivate()
        return self

    def moves(self) -> None:
        """Answer a state in motion; the next ones are at rest, but the brake has not ended."""
        self.stamp, self.now = self.stamp + MS, self.now + MS
        assert self.session.update(
            self.session.driver.state(self.stamp, self.now, PLACE, STILL + 0.1)
        )

    def in_mode(self, mode: SessionMode) -> Driven:
        if mode is SessionMode.STOPPED:
            assert self.active().silence()
        elif mode is SessionMode.ENDED:
            self.session.end()
        elif mode is SessionMode.INACTIVE:
            self.state()
        else:
            {
                SessionMode.HOLDING: self.active,
                SessionMode.FOLLOWING: self.following,
                SessionMode.REACTING: self.reacting,
                SessionMode.FAULTED: self.faulted,
                SessionMode.DEACTIVATING: self.deactivating,
            }[mode]()
        assert self.session.mode is mode
        return self


def broken(*_: Any) -> None:
    raise ZeroDivisionError('nobody foresaw this')


def points(seconds: float = 1.0, goal=PLACE + 0.1) -> tuple:
    return np.array([seconds]), np.atleast_2d(goal), np.zeros((1, 4)), None


# The table -------------------------------------------------------------------------------------

#: By mode: next mode of each event and whether it gives a command; -: rejected.
EXPECTED = """
              state          silence    activate  deactivate    halt          follow     hold     rest          change        contact       lapse         release  fault      end
inactive      inactive       inactive   holding   inactive      inactive      -          -        inactive      inactive      inactive      inactive      -        inactive   ended
holding       holding!       stopped!   -         inactive!     deactivating  following  holding  holding       holding       reacting      reacting      -        faulted!   ended!
following     following!     stopped!   -         inactive!     deactivating  following  holding  holding       following     reacting      reacting      -        faulted!   ended!
reacting      reacting!      reacting!  -         inactive!     deactivating  -          -        reacting      reacting      reacting      reacting      holding  faulted!   ended!
stopped       holding!       stopped!   -         inactive!     stopped       -          -        stopped       stopped       stopped       stopped       -        faulted!   ended!
faulted       faulted!       faulted!   -         inactive!     faulted       -          -        faulted       faulted       faulted       faulted       -        faulted!   ended!
deactivating  deactivating!  inactive!  -         deactivating  deactivating  -          -        inactive!     deactivating  deactivating  deactivating  -        inactive!  ended!
ended         ended          ended      -         ended         ended         -          -        ended         -             ended         ended         -        ended      ended
"""  # noqa: E501
HEADER, *ROWS = [line.split() for line in EXPECTED.strip().splitlines()]
CELLS = [
    (SessionMode(row[0]), SessionEvent(event), cell)
    for row in ROWS
    for event, cell in zip(HEADER, row[1:], strict=True)
]


def cause(run: Driven, event: SessionEvent) -> bool:
    """Trigger an external event; return whether it gave a command."""
    session = run.session
    requests = {
        SessionEvent.FOLLOW: lambda: prepare_trajectory(session, points())(),
        SessionEvent.HOLD: session.hold,
        SessionEvent.CHANGE: lambda: prepare_parameters(session, {'start_tolerance': 0.01})(),
        SessionEvent.RELEASE: session.resume,
    }
    if event in requests:
        requests[event]()
        return False
    if event is SessionEvent.FAULT:
        return session._fail(ZeroDivisionError('x'))
    if event in (SessionEvent.REST, SessionEvent.CONTACT, SessionEvent.LAPSE):  # of a tick
        return session._handle(event)
    if event is SessionEvent.HALT:
        return session._handle(event)
    return bool(
        {
            SessionEvent.STATE: run.state,
            SessionEvent.SILENCE: run.silence,
            SessionEvent.ACTIVATE: lambda: session.activate(run.now),
            SessionEvent.DEACTIVATE: session.deactivate,
            SessionEvent.END: session.end,
        }[event]()
    )


@pytest.mark.parametrize(('mode', 'event', 'cell'), CELLS)
def test_every_event_in_every_mode_leads_where_the_table_says(mode, event, cell):
    run = Driven().in_mode(mode)
    if cell == '-':
        with pytest.raises(RobotDynamicsError):
            cause(run, event)
        assert run.session.mode is mode
        return
    assert cause(run, event) is cell.endswith('!')
    assert run.session.mode is SessionMode(cell.rstrip('!'))


def test_the_table_has_a_cell_for_every_event_in_every_mode():
    assert {(m, e) for m, row in TABLE.items() for e in row} == {(m, e) for m, e, _ in CELLS}
    assert len(CELLS) == len(SessionMode) * len(SessionEvent)


# Two clocks ------------------------------------------------------------------------------------


def test_silence_is_counted_on_the_clock_of_the_arrivals_and_stops_with_gravity():
    run = Driven().active()
    session, heard = run.session, run.now
    assert session.patience_ns(heard + 30 * MS) == 70 * MS
    assert not session.watch(heard + 99 * MS)
    assert session.watch(heard + 100 * MS)
    np.testing.assert_allclose(session.command, GRAVITY, atol=1e-10)
    assert session.patience_ns(heard + 100 * MS) == STOP_PERIOD_NS
    assert session.watch(heard + 120 * MS)
    assert session.timeouts == 1
    assert [remark.text for remark in session.remarks if remark.level == 'error'] == [
        'no fresh state on joint_states within 0.1 s: stop action gravity'
    ]


@pytest.mark.parametrize(
    ('states', 'problem', 'reason'),
    [
        ('good', '', None),
        ('bad good', '', None),
        ('bad good', 'no longer seen: joint3', 'no longer seen: joint3'),
        ('good bad', 'no longer seen: joint3', 'no longer seen: joint3'),
        ('good bad', '', 'last one refused: not finite'),
        ('good bad late', 'no longer seen: joint3', 'last one refused: not finite'),
    ],
)
def test_the_reason_of_a_silence_is_what_has_happened_since_the_last_state(
    states, problem, reason
):
    run = Driven().active()
    for kind in states.split():
        if kind == 'late':
            run.now += 150 * MS
        run.state(PLACE if kind == 'good' else np.full(4, np.nan))
    assert run.session.watch(run.now + (0 if 'late' in states else 120) * MS, problem=problem)
    given = f' ({reason})' if reason else ''
    errors = [remark.text for remark in run.session.remarks if remark.level == 'error']
    assert errors == [f'no fresh state on joint_states within 0.1 s{given}: stop action gravity']


def test_states_that_stay_the_same_in_motion_are_no_states():
    """A driver that repeats its last reading with new timestamps; the arm ran away."""
    run, moving = Driven().following(), STILL + 0.3
    silent = []
    for _ in range(150):
        run.stamp, run.now = run.stamp + MS, run.now + MS
        run.session.update(run.session.driver.state(run.stamp, run.now, PLACE, moving))
        silent.append(run.session.watch(run.now))
    # ms: the timeout, after at most 2 mrad at 0.3 rad/s, which show that the arm moves.
    assert 100 < silent.index(True) <= 107
    assert run.session.mode is SessionMode.STOPPED
    (said,) = [remark.text for remark in run.session.remarks if remark.level == 'error']
    assert 'frozen: the same position although a joint moves' in said
    assert run.state(PLACE + 0.01)
    assert run.session.mode is SessionMode.HOLDING


def test_the_silence_of_a_driver_that_has_ended_is_no_error():
    run = Driven().active()
    assert run.session.watch(run.now + 200 * MS, 'joint_states', has_ended=True)
    assert 'error' not in {remark.level for remark in run.session.remarks}


def test_a_repeated_state_is_a_sign_of_life_only_in_simulated_time():
    for simulated in (False, True):
        run = Driven(simulated_time=simulated).active()
        run.now += 90 * MS
        assert not run.state(step=0)
        assert run.session.watch(run.now + 50 * MS) is not simulated


@pytest.mark.parametrize('simulated', [False, True])
def test_a_paused_simulator_that_was_held_up_ends_the_silence_with_the_state_it_had(simulated):
    """Its time is stopped, so that no newer state would ever arrive."""
    run = Driven(simulated_time=simulated).following()
    run.silence()
    assert run.state(step=0) is simulated
    assert not run.state(step=0), 'one answer'
    held = SessionMode.HOLDING if simulated else SessionMode.STOPPED
    assert run.session.mode is held
    assert run.session.watch(run.now) is not simulated
    if simulated:
        np.testing.assert_allclose(run.session.command, GRAVITY, atol=1e-10)
        assert run.session.remarks[-1].status == 'held: states returned after a timeout'
        assert run.state()


def test_states_that_return_begin_anew_where_the_arm_is_and_say_so():
    run = Driven({'law': 'computed_torque'}).following()
    run.silence()
    away = PLACE + 0.005
    for _ in range(10):  # at least at the velocity limits of 2 rad/s; half of that suffices
        assert run.state(away)
    assert run.session.mode is SessionMode.HOLDING
    np.testing.assert_array_equal(run.session.loop.reference.position, away)
    assert run.session.remarks[-1].status == 'held: states returned after a timeout'


def test_a_jump_of_the_stamps_ends_a_motion_and_says_so():
    run = Driven().following()
    assert run.state(step=3600 * 1000 * MS)
    assert run.session.mode is SessionMode.HOLDING
    assert run.session.remarks[-1].status == 'held: the time of the states jumped'


def replaced(run: Driven) -> None:
    prepare_trajectory(run.session, points(0.01, PLACE))()
    for _ in range(12):
        run.state()


@pytest.mark.parametrize(
    ('end', 'statuses'),
    [
        (replaced, ['reached']),  # of the second one
        (lambda run: [run.state() for _ in range(1100)], ['reached']),
        (lambda run: run.session.hold(), ['aborted: Current goal preempted by new empty']),
        (Driven.silence, ['aborted: no fresh state']),
        (lambda run: run.state(step=3600 * 1000 * MS), ['aborted: the loop restarted', 'held']),
        (lambda run: run.session._handle(SessionEvent.CONTACT), ['aborted: touched']),
        (lambda run: run.session.deactivate(), ['aborted: the controller was', 'ended']),
    ],
)
def test_the_end_of_a_trajectory_is_reported_once_and_first(end, statuses):
    run = Driven().following()
    end(run)
    found = [remark.status for remark in run.session.remarks if remark.status]
    assert len(found) == len(statuses)
    assert all(map(str.startswith, found, statuses)), found


@pytest.mark.parametrize(('step', 'answered'), [(MS, False), (500 * MS, True)])
def test_the_reference_begins_where_the_first_answered_state_is(step, answered):
    """A second publisher is not accepted at once; after a gap the arm may be elsewhere."""
    run = Driven({'law': 'pd_gravity'})
    run.state()
    run.session.activate(run.now)
    assert run.state(PLACE + 0.1, step) == answered
    expected = PLACE + 0.1 if answered else PLACE
    assert run.session.loop.reference.position == pytest.approx(expected)


def test_another_share_of_the_effort_while_the_arm_brakes_acts_without_a_jump():
    run, v, limit = Driven().active(), np.array([3.0, 0.0, 0.0, 0.0]), TREE.effort_limit
    run.session.loop.switch(brake=True)
    efforts = []
    for k in range(40):
        if k == 20:
            prepare_parameters(run.session, {'stop_effort_share': 0.1})()
        run.stamp, run.now = run.stamp + MS, run.now + MS
        assert run.session.update(
            run.session.driver.state(run.stamp, run.now, PLACE + 1e-3 * (k + 1) * v, v)
        )
        efforts.append(run.session.loop.effort / limit)
    assert abs(efforts[19][0]) - abs(efforts[39][0]) > 0.4
    # As declared for stops, 200 1/s of a limit; and what 3 mrad change of gravity and inertia.
    assert np.abs(np.diff(efforts, axis=0)).max() < 0.2 + 0.01


@pytest.mark.parametrize(
    'change', [{'state_timeout_s': 0.2}, {'stop_action': 'zero'}, {'stop_effort_share': 0.35}]
)
def test_no_change_ends_braking_early(change):
    ends = []
    for given in ({}, change):
        run, v, k = Driven({'law': 'computed_torque'}).active(), np.array([1.0, 0.0, 0.0, 0.0]), 0
        assert run.session.update(run.session.driver.state(run.stamp + MS, run.now + MS, PLACE, v))
        run.session.loop.switch(brake=True)
        prepare_parameters(run.session, given)()
        while run.session.loop.braking and k < 1000:  # pushed: the arm does not come to rest
            k += 1
            at, q = (k + 1) * MS, PLACE + 1e-9 * k  # or the states would be frozen
            assert run.session.update(run.session.driver.state(run.stamp + at, run.now + at, q, v))
        ends.append(k)
    assert 10 < ends[0] < 1000
    if 'stop_effort_share' in change:  # half of the effort: up to twice the time
        assert ends[0] < ends[1] <= 2 * ends[0]
    else:
        assert ends[1] == ends[0]


@pytest.mark.parametrize(
    'given', [{'state_timeout_s': 0.2}, {'stop_effort_share': 0.5}, {'stop_action': 'hold'}]
)
def test_an_arm_that_is_held_after_an_error_is_held_where_it_is_whatever_changes(given):
    """At rest the action gives only gravity, regardless of the previous command."""
    run = Driven({'stop_action': 'zero' if 'stop_action' in given else 'hold'}).faulted()
    assert run.state()
    prepare_parameters(run.session, given)()
    for _ in range(100):
        assert run.state()
    assert run.session.mode is SessionMode.FAULTED
    np.testing.assert_allclose(run.session.command, GRAVITY, atol=1e-10)


@pytest.mark.parametrize('jump', [-(10**18), -3600 * 1000 * MS, 3600 * 1000 * MS])
def test_the_ramp_begins_where_the_time_of_the_states_begins_anew(jump):
    """As with a simulator whose first state, at its time 0, counts as one without a stamp."""
    given = {'law': 'computed_torque', 'activation_ramp_s': 0.2}
    efforts = []
    for step in (MS, jump):
        run = Driven(given)
        run.state()
        run.session.activate(run.now)
        run.state(step=step)
        for _ in range(300):
            assert run.state(PLACE + 0.005)
        efforts.append(run.session.loop.effort.copy())
        assert run.session.mode is SessionMode.HOLDING
    assert np.array_equal(*efforts)
    assert np.abs(efforts[0] - GRAVITY).max() > 0.01  # the law's, not the previous one


def test_without_a_fresh_state_it_is_not_activated_and_says_what_is_missing():
    run = Driven()
    with pytest.raises(ConfigurationError, match='not activated: no fresh state on joint_states'):
        run.session.activate(run.now)
    run.state(np.full(4, np.nan))
    with pytest.raises(ConfigurationError, match=r'last one refused: not finite'):
        run.session.activate(run.now)


def test_an_arm_that_cannot_be_there_is_not_activated():
    """Degrees taken for radians; a posture slightly beyond a limit is led back."""
    reach = TREE.position_upper + 0.1 * TREE.position_range
    for q, refused in ((np.degrees(PLACE), True), (reach, False)):
        run = Driven()
        run.state(q)
        refusal = pytest.raises(ConfigurationError, match='its limits are')
        with refusal if refused else nullcontext():
            run.session.activate(run.now)
        assert run.session.controls is not refused


def test_an_arm_that_its_permitted_efforts_do_not_hold_is_not_activated_and_said_to_sink():
    share = 0.9 * float((np.abs(GRAVITY) / TREE.effort_limit).max())
    run = Driven({'effort_scale': share})
    run.state()
    with pytest.raises(ConfigurationError, match=r'gravity needs .* raise effort_scale'):
        run.session.activate(run.now)
    run = Driven().active()
    prepare_parameters(run.session, {'effort_scale': share})()
    assert run.session.remarks[-1].text.endswith('the arm will sink')


# Unexpected errors -----------------------------------------------------------------------------


def test_an_error_that_nobody_foresaw_ends_in_the_stop_action_and_a_named_report():
    run = Driven().faulted()
    session = run.session
    np.testing.assert_allclose(session.command, GRAVITY, atol=1e-10)
    assert 'ZeroDivisionError: nobody foresaw this' in session.remarks[-1].text
    report = SessionHealth().report(session)
    assert report.level == 'error'
    assert 'nobody foresaw this' in report.message
    assert run.state()  # the law works again, but has not been inspected
    assert session.mode is SessionMode.FAULTED
    session.deactivate()
    session.activate(run.now)
    assert run.state()
    assert session.mode is SessionMode.HOLDING
    assert session.fault is None


def test_where_even_the_stop_action_fails_no_effort_is_commanded():
    run = Driven().active()
    run.session.loop.law.effort = run.session.loop.switch = broken
    assert run.state()
    np.testing.assert_array_equal(run.session.command, STILL)


def test_efforts_that_are_not_finite_are_reported_once_until_the_law_changes():
    run = Driven({'law': 'computed_torque'}).active()
    law = run.session.loop.law
    effort = law.effort

    def errors(count: int, *broken_joints: int) -> list[str]:
        def of(*values: Any) -> None:
            effort(*values)
            values[-1][list(broken_joints)] = np.nan

        law.effort = of
        for _ in range(count):
            assert run.state()
            assert np.isfinite(run.session.command).all()
        law.effort = effort
        found = [remark.text for remark in run.session.remarks if remark.level == 'error']
        run.session.remarks.clear()
        return found

    expected = (
        "law 'computed_torque': the effort of joint2, joint4 is not finite: the last command"
    )
    assert [text[: len(expected)] for text in errors(300, 1, 3)] == [expected]
    assert errors(10) == errors(10, 0) == []
    prepare_parameters(run.session, {'damping_ratio': [0.9]})()
    law = run.session.loop.law
    effort = law.effort
    assert 'effort of joint1 is' in errors(10, 0)[0]


@pytest.mark.parametrize('mode', [SessionMode.INACTIVE, SessionMode.HOLDING])
def test_an_error_that_every_state_repeats_is_reported_once(mode):
    run = Driven().in_mode(mode)
    for _ in range(50):
        run.now += MS
        run.session.update(ArmState(run.now, run.now, PLACE[:3], STILL[:3]))
    assert len([remark for remark in run.session.remarks if remark.level == 'error']) == 1


# Changes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ('given', 'text'),
    [
        ({'law': 'magic'}, "unknown law 'magic'; known: .*computed_torque, .*pd_gravity"),
        ({'formulation': 'x'}, "unknown formulation 'x'; known: .*newton_euler"),
        ({'stop_action': 'x'}, "unknown stop action 'x'; known: damping, gravity, hold, zero"),
        ({'natural_frequency': [9.0, 9.0]}, 'natural_frequency.*one per joint'),
        ({'natural_frequency': [-1.0]}, 'natural_frequency.*of at least 0'),
        ({'damping_ratio': [np.nan]}, 'damping_ratio.*finite'),
        ({'effort_rate_limit': [1.0, 2.0]}, 'effort_rate_limit.*give 1 or 4 finite numbers of'),
    ],
)
def test_a_wrong_parameter_is_refused_by_name(given, text):
    with pytest.raises(RobotDynamicsError, match=text):
        Driven({'law': 'computed_torque'} | given)


def test_a_refused_change_of_parameters_changes_nothing():
    run = Driven().active()
    before, law = dict(run.session.parameters), run.session.loop.law
    wrong_ones: tuple[dict[str, Any], ...] = (
        {'law': 'magic'},
        {'stop_action': 'x'},
        {'law': 'pd_gravity', 'natural_frequency': [-1.0]},
        {'payload_mass': 1.0, 'payload_frame': 'x'},
    )
    for wrong in wrong_ones:
        with pytest.raises(RobotDynamicsError):
            prepare_parameters(run.session, wrong)()
        assert run.session.parameters == before
        assert run.session.loop.law is law


@pytest.mark.parametrize(
    ('name', 'text'),
    [('natural_frequncy', "^unknown parameter 'natural_frequncy'; did you mean 'natural_freq"),
     ('path_tolerance', "^parameter 'path_tolerance': was removed; set constraints")],
)  # fmt: skip
def test_an_unknown_parameter_is_refused_at_the_start_and_later(name, text):
    with pytest.raises(RobotDynamicsError, match=text):
        ControllerSession(TREE, {name: [50.0]})
    with pytest.raises(RobotDynamicsError, match=text):
        prepare_parameters(Driven().session, {name: [50.0]})


@pytest.mark.parametrize(
    ('name', 'more'),
    [('payload_frame', {'payload_mass': 1.0}), ('wrench_frame', {}), ('sensor_frame', {}),
     ('impedance_frame', {'law': 'impedance'})],
)  # fmt: skip
def test_a_frame_that_the_arm_lacks_is_refused_with_the_parameter_that_names_it(name, more):
    with pytest.raises(RobotDynamicsError, match=f"^unknown {name} 'hand'; known: base"):
        ControllerSession(TREE, {**more, name: 'hand'})


@pytest.mark.parametrize(
    ('change', 'text'),
    [
        ({'contact_reaction': 'stop'}, 'contact_reaction: law computed_torque, which then holds'),
        ({'law': 'hand_guiding'}, 'law: law computed_torque, which then holds'),
        ({'payload_com': [1e160, 0.0, 0.0]}, r"payload on 'tool': mass 1 kg and com \[1.e\+160 "),
    ],
)
def test_a_change_that_could_act_by_half_only_is_refused_by_name_before(change, text):
    run = Driven({'damping_ratio': [0.0], 'payload_mass': 1.0}).active()
    session = run.session
    before, law = session.parameters, session.loop.law
    with pytest.raises(RobotDynamicsError, match=text):
        prepare_parameters(session, change)
    assert session.parameters is before
    assert session.loop.law is law
    assert run.state()
    assert session.mode is SessionMode.HOLDING


def test_a_change_that_fails_while_it_begins_to_act_leads_to_the_stop_action(monkeypatch):
    run = Driven().active()

    def refuse(*_: Any) -> None:
        raise ParameterError('x', 1, 'nobody foresaw this')

    monkeypatch.setattr(run.session.locked, 'configure', refuse)
    with pytest.raises(ConfigurationError, match='parameters: parameter x = 1 refused'):
        prepare_parameters(run.session, {'effort_scale': 0.9})()
    assert run.session.mode is SessionMode.FAULTED
    assert run.state()
    np.testing.assert_allclose(run.session.command, GRAVITY, atol=1e-10)


def test_other_gains_reach_what_holds_an_arm_that_is_not_enabled_at_once():
    """The stiffness of its joints is by the square of the natural frequency."""
    run = Driven({'law': 'hand_guiding', 'contact_reaction': 'stop'}).active()
    run.state()
    while run.session.loop.braking:
        run.state()
    pulls = []
    for frequency in (10.0, 5.0):
        prepare_parameters(run.session, {'natural_frequency': [frequency]})()
        for _ in range(200):
            assert run.state(PLACE + 1e-4)
        pulls.append(run.session.loop.decompose()['feedback'])
        assert run.session.waits_for_enabling
    np.testing.assert_allclose(pulls[1], 0.25 * pulls[0], rtol=1e-6)
    reacting = run.session.follower
    assert reacting is not None
    assert reacting.parameters['natural_frequency'] == [5.0]
    run.session.enable(True)
    assert run.session.mode is SessionMode.HOLDING


def test_a_change_is_prepared_while_the_ticks_go_on_and_acts_with_its_commit():
    run = Driven().active()
    change = {'law': 'computed_torque'}
    assert builds_law(run.session, change)
    commit = prepare_parameters(run.session, change)
    for _ in range(5):
        assert run.state()
        assert run.session.loop.law.name == 'gravity_compensation'
    commit()
    assert run.session.loop.law.name == 'computed_torque'


def test_a_trajectory_that_was_prepared_before_the_arm_was_held_is_refused():
    run = Driven().active()
    commit = prepare_trajectory(run.session, points())
    run.silence()
    run.state()
    with pytest.raises(RobotDynamicsError, match='before the arm was brought to a hold'):
        commit()
    assert run.session.mode is SessionMode.HOLDING


@pytest.mark.parametrize(
    ('interrupt', 'reason'),
    [
        (ControllerSession.deactivate, 'the controller was deactivated'),
        (ControllerSession.hold, 'the arm was told to hold'),
        (ControllerSession.cancel_goal, 'the arm was told to hold'),
        (lambda session: session.rebuild(session.tree), 'the model was replaced'),
    ],
)
def test_what_was_being_prepared_when_the_arm_was_stopped_is_refused_with_that_reason(
    interrupt, reason
):
    run = Followed()
    if reason == 'the model was replaced':
        run.session.deactivate()
    else:
        run.send(seconds=4.0)
        run.state()
    gains = {'natural_frequency': [40.0]}
    requests = [
        (lambda: prepare_parameters(run.session, gains), 'parameters'),
        (lambda: prepare_payload(run.session, False), 'payload'),
    ]
    commits = [(prepare(), subject) for prepare, subject in requests]
    interrupt(run.session)
    for commit, subject in commits:
        with pytest.raises(
            ConfigurationError, match=f'{subject}: was being prepared when {reason}'
        ):
            commit()
    assert run.session.parameters['natural_frequency'] != gains['natural_frequency']
    assert run.session.carrying
    for prepare, _ in requests:
        assert prepare()()  # once more


def test_a_payload_is_carried_and_put_down_by_the_model():
    loaded = {'payload_mass': 2.0, 'payload_frame': 'tool'}
    run = Driven(loaded).active()
    with_load = run.session.command.copy()
    assert prepare_payload(run.session, False)() == 'carrying nothing'
    for _ in range(600):  # so that nothing jumps
        run.state()
    np.testing.assert_allclose(run.session.command, GRAVITY, atol=1e-10)
    assert np.abs(with_load - GRAVITY).max() > 1.0
    answer = prepare_payload(run.session, True)()
    assert answer == 'carrying 2 kg on tool'
    for _ in range(600):
        run.state()
    np.testing.assert_allclose(run.session.command, with_load, atol=1e-10)


def test_an_effort_that_is_not_that_of_gravity_is_said_once_at_the_activation():
    """The arm carries 2 kg that the model does not know; friction and zeros are no reason."""
    loaded = Driven({'payload_mass': 2.0, 'payload_frame': 'tool'}).active().session.command
    friction = TREE.coulomb_friction
    for effort, said in ((loaded, True), (GRAVITY - friction, False), (np.zeros(4), False)):
        run = Driven()
        for _ in range(3):
            run.state(effort=effort.copy())
        run.session.activate(run.now)
        run.state(effort=effort.copy())
        texts = [remark.text for remark in run.session.remarks if remark.level == 'warning']
        assert [text.startswith("joint 'joint4' is held with") for text in texts] == [True] * said


# The driver ------------------------------------------------------------------------------------


def test_readings_and_commands_are_in_the_units_and_the_order_of_the_driver():
    arm = sample('four_dof').tree
    driver = DriverInterface(load_driver_profile('generic_ros2_control'), arm)
    session = ControllerSession(arm, GIVEN, driver)
    x = driver.position_reading(PLACE)
    session.update(ArmState(MS, MS, x, STILL))
    session.activate(MS)
    assert session.update(ArmState(2 * MS, 2 * MS, x, STILL))
    np.testing.assert_allclose(session.loop.q, PLACE, atol=1e-12)
    np.testing.assert_allclose(session.command, GRAVITY, atol=1e-9)  # N m, in this order


def test_an_order_of_joints_that_is_incomplete_is_refused():
    with pytest.raises(ParameterError, match='each of joint1, joint2, joint3, joint4 once'):
        ControllerSession(TREE, {'joints': ['joint1']})


# Goals -----------------------------------------------------------------------------------------


class Message:
    """A message of any type, from keywords."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


def goal(seconds=1.0, position=PLACE + 0.1, names=TREE.joint_names, path=(), end=(), late=0.0,
         stamp=0, count=1):  # fmt: skip
    time = Message(sec=int(seconds), nanosec=round(seconds % 1.0 * 1e9))
    point = Message(
        time_from_start=time,
        positions=list(position),
        velocities=[0.0] * len(position),
        accelerations=[],
    )
    header = Message(stamp=Message(sec=stamp // 1000, nanosec=stamp % 1000 * MS))
    return Message(
        trajectory=Message(header=header, joint_names=list(names), points=[point] * count),
        multi_dof_trajectory=Message(points=[]),
        path_tolerance=[Message(name=n, position=x, velocity=0.0) for n, x in path],
        goal_tolerance=[Message(name=n, position=x, velocity=0.0) for n, x in end],
        goal_time_tolerance=Message(sec=int(late), nanosec=round(late % 1.0 * 1e9)),
    )


class Followed(Driven):
    """A session with an arm that is where its reference is, and the ends of its goals."""

    def __init__(self, given: dict[str, Any] | None = None) -> None:
        super().__init__(given)
        self.active()
        self.ends: list[Any] = []

    def send(self, **request: Any) -> str:
        return prepare_goal(self.session, goal(**request), self.ends.append)()

    def run(self, seconds: float, stuck: int | None = None) -> None:
        for _ in range(round(seconds * 1e3)):
            q = self.session.loop.reference.position.copy()
            if stuck is not None:
                q[stuck] = PLACE[stuck]
            self.state(q)
            if self.ends:
                break


def test_a_goal_is_followed_to_its_end_and_then_held():
    run = Followed()
    assert run.send(path=[('joint1', 0.05)]) == 'accepted: goal of 1 point, 1.000 s'
    assert run.session.mode is SessionMode.FOLLOWING
    run.run(0.9)
    assert run.ends == []
    run.run(0.3)
    assert [int(outcome.code) for outcome in run.ends] == [0]
    assert run.session.mode is SessionMode.HOLDING
    assert not run.session.goals.active


def statuses(run: Driven) -> list[str]:
    return [remark.status for remark in run.session.remarks if remark.status]


def test_the_status_follows_goals_and_deactivation():
    reached, failed, canceled = Followed(), Followed(), Followed()
    reached.send()
    reached.run(1.3)
    reached.session.deactivate()
    ended = 'ended: the controller was deactivated'
    assert statuses(reached) == ['accepted: goal of 1 point, 1.000 s', 'goal reached', ended]
    failed.send(path=[('joint2', 0.03)])
    failed.run(1.0, stuck=1)
    expected = "goal aborted, PATH_TOLERANCE_VIOLATED: joint 'joint2'"
    assert statuses(failed)[-1].startswith(expected)
    canceled.send()
    canceled.session.cancel_goal()
    assert statuses(canceled)[-1] == 'goal canceled: the arm comes to rest and holds'


def test_a_violated_path_tolerance_names_the_joint_and_holds_where_the_arm_is():
    run = Followed()
    run.send(path=[('joint2', 0.03)])
    run.run(1.0, stuck=1)
    (outcome,) = run.ends
    assert int(outcome.code) == -4
    # 0.1 rad by a cubic in 1 s pass 0.03 rad at 0.363 s, the root of 3 t^2 - 2 t^3 = 0.3.
    assert "joint 'joint2': position error 0.030" in outcome.reason
    assert 'at 0.364 s' in outcome.reason
    assert run.session.mode is SessionMode.HOLDING
    for _ in range(50):  # the reference goes there at the velocity limit
        run.state(run.session.loop.q.copy())
    assert run.session.loop.reference.position[1] == PLACE[1]


def test_a_goal_that_is_missed_is_named_after_the_goal_time():
    run = Followed()
    run.send(end=[('joint4', 0.01)], late=0.2)
    run.run(1.5, stuck=3)
    (outcome,) = run.ends
    assert int(outcome.code) == -5
    assert '0.201 s after the end' in outcome.reason


@pytest.mark.parametrize(
    ('request_', 'code', 'text'),
    [
        ({'names': ('a', 'joint2', 'joint3', 'joint4')}, -2, "joint 'a'"),
        ({'count': 0}, -1, 'no points'),
        ({'count': 2}, -1, 'increase strictly'),
        ({'seconds': 0.01}, -1, 'velocity limit'),
        ({'path': [('x', 0.1)]}, -1, 'no such joint'),
        ({'path': [('joint1', np.nan)]}, -1, 'NaN'),
        ({'stamp': 1}, -3, 'over'),
    ],
)
def test_a_goal_that_breaks_a_rule_is_refused_with_its_code_and_the_running_one_goes_on(
    request_, code, text
):
    run = Followed()
    run.send(seconds=2.0)
    with pytest.raises(RobotDynamicsError, match=text) as refusal:
        run.send(**request_)
    assert getattr(refusal.value, 'code', None) == code
    run.run(2.1)
    assert [int(outcome.code) for outcome in run.ends] == [0]


def test_goals_replace_each_other_and_trajectories_replace_goals():
    run = Followed()
    run.send(seconds=5.0)
    run.send(seconds=4.0)
    text = 'Current goal preempted by new incoming action.'  # of joint_trajectory_controller
    assert [(outcome.code, outcome.reason) for outcome in run.ends] == [(-1, text)]
    prepare_trajectory(run.session, points())()
    assert run.ends[-1].reason == 'Current goal preempted by new trajectory.'
    told = [remark for remark in run.session.remarks if 'preempted' in remark.text]
    assert [remark.level for remark in told] == ['info', 'info']
    assert told[0].status == 'goal preempted by new incoming action'
    assert run.session.mode is SessionMode.FOLLOWING


def test_cancelling_brings_the_reference_to_rest():
    run = Followed()
    run.send(seconds=4.0)
    run.run(2.0)
    run.session.cancel_goal()
    assert run.ends[-1].canceled
    assert run.session.mode is SessionMode.HOLDING
    run.ends.clear()
    run.run(0.3)
    assert not run.session.loop.reference.velocity.any()


def test_a_reference_that_the_law_ignores_stops_where_it_is():
    """As that of an arm that brakes, which then follows the arm."""
    run = Followed({'law': 'gravity_compensation'})
    run.send(seconds=4.0)
    run.run(2.0)
    reference = run.session.loop.reference
    before = reference.position.copy()
    assert reference.velocity.any()
    run.session.cancel_goal()
    run.ends.clear()
    run.run(0.3)
    np.testing.assert_array_equal(reference.rows, [before, np.zeros(4), np.zeros(4)])


@pytest.mark.parametrize(
    ('end', 'reason'),
    [
        (lambda run: run.silence(), 'no fresh state'),
        (lambda run: run.session.deactivate(), 'deactivated'),
        (lambda run: run.session._fail(ValueError('x')), 'by an error'),
        (lambda run: run.state(step=3600 * 1000 * MS), 'the loop restarted'),
    ],
)
def test_what_ends_the_motion_ends_the_goal_with_its_reason(end, reason):
    run = Followed()
    run.send(seconds=4.0)
    end(run)
    assert reason in run.ends[-1].reason


def test_feedback_comes_at_its_period():
    run = Followed({'action_feedback_period': 0.1})
    run.send()
    due = 0
    for _ in range(500):
        run.state(run.session.loop.reference.position.copy())
        due += run.session.goals.feedback_due()
    assert due == 5


# Arbitrary requests ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    'program', ['a: !!bool x', 'a: 0b_', 'x' * 5000, '/proc/self/mem', '{a: ' * 400, '\ud800']
)
@pytest.mark.parametrize('law', ['gravity_compensation', 'constraint_stabilization'])
def test_a_program_that_is_none_is_refused_under_every_law(program, law):
    run = Driven().active()
    with pytest.raises(RobotDynamicsError):
        prepare_parameters(run.session, {'law': law, 'program': program})()
    assert run.session.parameters['program'] == ''
    assert run.state()
    assert run.session.fault is None


def test_an_error_that_nobody_foresaw_while_a_change_is_prepared_refuses_it_by_name():
    run = Driven().active()
    with pytest.raises(ConfigurationError, match='target: ZeroDivisionError: nobody foresaw'):
        prepare_target(run.session, broken)()
    assert run.state()
    assert run.session.mode is SessionMode.HOLDING


# Motions inwards, and goals that begin at the arm ---------------------------------------------


def test_an_arm_beyond_a_limit_can_be_led_back_and_not_farther_out():
    beyond = PLACE.copy()
    beyond[0] = TREE.position_upper[0] + 1e-9
    for depth in (1e-9, 1e-3):
        beyond[0] = TREE.position_upper[0] + depth
        run = Driven({'law': 'computed_torque'})
        run.state(beyond)
        run.session.activate(run.now)
        run.state(beyond)
        for out in (1e-4, 0.1):
            worse = beyond + np.array([out, 0.0, 0.0, 0.0])
            with pytest.raises(RobotDynamicsError, match='its limits are'):
                prepare_trajectory(run.session, points(1.0, worse))()
        answer = prepare_trajectory(run.session, points())()
        assert answer.startswith('accepted')
        way = (np.array([0.0, 1.0]), np.array([beyond, PLACE]), np.zeros((2, 4)), None)
        answer = prepare_trajectory(run.session, way)()
        assert answer.startswith('accepted')


def test_a_goal_that_begins_at_the_arm_is_taken_though_the_reference_is_elsewhere():
    """0.27 rad off its reference due to friction; the reference blends over smoothly."""
    run = Driven({'law': 'pd_gravity'}).active()
    hanging = PLACE - 0.27
    for k in range(1, 301):  # as slowly as no state is a jump
        run.state(PLACE + (hanging - PLACE) * k / 300)
    way = np.array([0.0, 2.0]), np.array([hanging, PLACE]), np.zeros((2, 4)), None
    elsewhere = (way[0], way[1] + [[0.1], [0.0]], *way[2:])
    with pytest.raises(RobotDynamicsError, match='is at time 0'):
        prepare_trajectory(run.session, elsewhere)()
    prepare_trajectory(run.session, way)()
    last = run.session.loop.reference.position.copy()
    for _ in range(2100):
        run.state(hanging)
        now = run.session.loop.reference.position
        assert (np.abs(now - last) <= 1.5e-3 * TREE.velocity_limit).all()
        last = now.copy()
    np.testing.assert_allclose(last, PLACE, atol=1e-12)


# Terms of the driver ---------------------------------------------------------------------------


def test_velocities_are_made_of_believed_positions_only():
    from dataclasses import replace

    profile = load_driver_profile('generic_ros2_control')
    state = replace(profile.state, velocity='differentiate', cutoff_hz=100.0)
    driver = DriverInterface(replace(profile, state=state), TREE)
    run = Driven(driver=driver).active()
    for _ in range(5):
        run.state()
    run.state(PLACE + 0.5)  # refused
    run.state()
    np.testing.assert_allclose(run.session.loop.v, 0.0, atol=1e-12)
    assert run.session.mode is SessionMode.HOLDING


@pytest.mark.parametrize('mode', ['inactive', 'holding'])
def test_to_cancel_where_no_goal_is_followed_does_nothing(mode):
    driven = Driven()
    if mode == 'holding':
        driven.active()
    driven.session.cancel_goal()
    assert driven.session.mode.value == mode
    assert driven.session.fault is None


def test_a_reference_that_has_come_to_the_arm_stands_still_once_the_law_takes_over():
    """The arm rests; with zero error the law must command only gravity from the start."""
    driven = Driven({'law': 'computed_torque', 'natural_frequency': [15.0]})
    elsewhere = PLACE + np.array([0.30003, 0.0, 0.0, 0.0])
    driven.state(elsewhere)
    driven.session.activate(driven.now)
    assert driven.state(elsewhere)
    driven.state()  # a jump is refused once
    for _ in range(300):
        assert driven.state()
        np.testing.assert_allclose(driven.session.loop.effort, GRAVITY, atol=1e-9)
    assert not driven.session.loop.reference.velocity.any()


@pytest.mark.slow
def test_another_program_acts_at_once_and_another_lead_in_keeps_it():
    text = (share_directory() / 'config' / 'programs' / 'scara_circle.yaml').read_text('utf-8')
    first = {'law': 'constraint_stabilization', 'program': text}
    session = ControllerSession(sample('scara').tree, first)
    former = session.loop.law
    damped = text + 'null_space: {damping: 1.0}\n'
    prepare_parameters(session, {'program': damped})()
    law = session.loop.law
    assert former.program.null_space is None
    assert law.program.null_space is not None
    prepare_parameters(session, {'lead_in': 0.1})()
    assert session.loop.law is law
    assert law.parameters['lead_in'] == 0.1
