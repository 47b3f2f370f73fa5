# SPDX-License-Identifier: Apache-2.0
"""The controller without ROS: every cell of its table, its clocks, changes and rejections.

The table is repeated here, by mode, so that an error in either is detected; the effect of a
cell is checked by its output. Reference of the stop action: Pinocchio's gravity.
"""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import numpy as np
import pinocchio
import pytest
import tables
from numpy.testing import assert_allclose, assert_array_equal
from samples import sample
from still_arm import MS, StillArm, driver_of

from robot_dynamics_ros.control import requests
from robot_dynamics_ros.control.drivers.driver_interface import ArmState
from robot_dynamics_ros.control.health import SessionHealth
from robot_dynamics_ros.control.modes import SessionEvent, SessionMode
from robot_dynamics_ros.control.parts import STOP_PERIOD_NS
from robot_dynamics_ros.control.requests import (
    builds_law,
    prepare_parameters,
    prepare_payload,
    prepare_target,
    prepare_trajectory,
    tared,
)
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.trajectories.spline import Points
from robot_dynamics_ros.errors import ConfigurationError, RobotDynamicsError

TREE = sample('four_dof').tree
PLACE = np.array([0.2, -1.0, -0.4, 0.6])
GRAVITY = pinocchio.computeGeneralizedGravity(
    (MODEL := pinocchio.buildModelFromXML(sample('four_dof').xml)), MODEL.createData(), PLACE
)
STILL = np.zeros(4)
GIVEN = {'activation_ramp_s': 0.0, 'state_timeout_s': 0.1, 'law': 'pd_gravity'}
HOUR = 3600 * 1000 * MS


class Driven(StillArm):
    """A session whose arrival clock and timestamps differ widely."""

    def __init__(self, given: dict[str, Any] | None = None, **options: Any) -> None:
        session = ControllerSession(TREE, GIVEN | (given or {}), **options)
        super().__init__(session, PLACE, 7_000 * MS)
        self.now = 123_456 * MS

    def following(self) -> Driven:
        self.active().move(1.0, PLACE + 0.1)
        return self

    def faulted(self) -> Driven:
        self.active()
        law = self.session.loop.law
        effort, law.effort = law.effort, broken
        assert self.state()
        law.effort = effort
        return self

    def in_mode(self, mode: SessionMode) -> Driven:
        session = self.session
        begins = {
            SessionMode.INACTIVE: self.state,
            SessionMode.ENDED: session.end,
            SessionMode.FOLLOWING: self.following,
            SessionMode.FAULTED: self.faulted,
        }
        begins.get(mode, self.active)()
        if mode is SessionMode.STOPPED:
            assert self.wait()
        elif mode is SessionMode.REACTING:
            session._handle(SessionEvent.CONTACT)  # as the contact watch does
        elif mode is SessionMode.DEACTIVATING:  # the brake has not ended when it is at rest again
            assert self.state(v=STILL + 0.1)
            assert not session.deactivate()
        assert session.mode is mode
        return self


def broken(*_: Any, **__: Any) -> None:
    raise ZeroDivisionError('nobody foresaw this')


# The table -------------------------------------------------------------------------------------

#: By mode: next mode of each event and whether it gives a command; -: rejected.
EXPECTED = """
              state          silence    activate  deactivate    halt          follow     hold     rest       change        contact       lapse         release  enable        fault      end     violation
inactive      inactive       inactive   holding   inactive      inactive      -          -        inactive   inactive      inactive      inactive      -        inactive      inactive   ended   inactive
holding       holding!       stopped!   -         inactive!     deactivating  following  holding  holding    holding       reacting      disabled      -        holding       faulted!   ended!  holding
following     following!     stopped!   -         inactive!     deactivating  following  holding  holding    following     reacting      disabled      -        following     faulted!   ended!  holding
reacting      reacting!      reacting!  -         inactive!     deactivating  -          -        reacting   reacting      reacting      reacting      holding  reacting      faulted!   ended!  reacting
disabled      disabled!      disabled!  -         inactive!     deactivating  -          -        disabled   disabled      disabled      disabled      -        holding       faulted!   ended!  disabled
stopped       holding!       stopped!   -         inactive!     stopped       -          -        stopped    stopped       stopped       stopped       -        stopped       faulted!   ended!  stopped
faulted       faulted!       faulted!   -         inactive!     faulted       -          -        faulted    faulted       faulted       faulted       -        faulted       faulted!   ended!  faulted
deactivating  deactivating!  deactivating!  -         deactivating  deactivating  -          -        inactive!  deactivating  deactivating  deactivating  -        deactivating  inactive!  ended!  deactivating
ended         ended          ended      -         ended         ended         -          -        ended      -             ended         ended         -        ended         ended      ended   ended
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
    causes = {
        SessionEvent.FOLLOW: lambda: run.move(1.0, PLACE + 0.1),
        SessionEvent.HOLD: session.hold,
        SessionEvent.VIOLATION: session.brake,
        SessionEvent.CHANGE: lambda: run.change(start_tolerance=0.01),
        SessionEvent.RELEASE: session.resume,
        SessionEvent.FAULT: lambda: session.fail(ZeroDivisionError('x')),
        SessionEvent.STATE: run.state,
        SessionEvent.SILENCE: run.wait,
        SessionEvent.ACTIVATE: lambda: session.activate(run.now),
        SessionEvent.DEACTIVATE: session.deactivate,
        SessionEvent.END: session.end,
    }
    # REST, CONTACT, LAPSE of a tick, and HALT have no function; some give None or an answer.
    return causes.get(event, lambda: session._handle(event))() is True


@pytest.mark.parametrize(('mode', 'event', 'cell'), CELLS)
def test_every_event_in_every_mode_leads_where_the_table_says(mode, event, cell):
    law = 'hand_guiding' if mode is SessionMode.DISABLED else 'pd_gravity'
    run = Driven({'law': law}).in_mode(mode)
    if cell == '-':
        with pytest.raises(RobotDynamicsError):
            cause(run, event)
        assert run.session.mode is mode
        return
    assert cause(run, event) is cell.endswith('!')
    assert run.session.mode is SessionMode(cell.rstrip('!'))


def test_the_table_has_a_cell_for_every_event_in_every_mode():
    assert {cell[:2] for cell in CELLS} == {*product(SessionMode, SessionEvent)}


# Two clocks ------------------------------------------------------------------------------------

SILENT = 'no fresh state on joint_states within 0.1 s{}: stop action gravity'


def test_silence_is_counted_on_the_clock_of_the_arrivals_and_control_begins_anew_after_it():
    """With gravity, until states return; then where the arm is."""
    run = Driven({'law': 'computed_torque'}).following()
    session, heard, loop = run.session, run.now, run.session.loop
    assert session.patience_ns(heard + 30 * MS) == 70 * MS
    watched = [session.watch(heard + ms * MS, problem='no longer seen') for ms in (99, 100, 120)]
    assert watched == [False, True, True]
    assert_allclose(session.command, GRAVITY, atol=1e-10)
    assert session.patience_ns(heard + 100 * MS) == STOP_PERIOD_NS
    assert session.timeouts == 1
    assert run.said() == [SILENT.format(' (no longer seen)')]
    away = PLACE + 0.005
    run.states(90, away)  # a glide: 24 ms of 40 rad/s^2, and the bandwidth of 100 rad/s
    assert session.mode is SessionMode.HOLDING
    assert_array_equal(loop.reference.position, away)
    assert session.watch(run.now + 200 * MS, 'joint_states', has_ended=True)
    assert len(run.said()) == 1  # a driver that has ended is no error


def test_states_that_stay_the_same_in_motion_are_no_states():
    """A driver that repeats its last reading with new timestamps; the arm ran away."""
    run, silent = Driven().active(), []
    run.move(0.4, PLACE + 0.2)
    for _ in range(150):
        run.state(v=STILL + 0.3)
        silent.append(run.session.watch(run.now))
    # ms: the timeout, after at most 2 mrad at 0.3 rad/s, which show that the arm moves.
    assert 100 < silent.index(True) <= 107
    (said,) = run.said()
    assert 'frozen: the same position although a joint moves' in said
    reference = run.session.loop.reference.position
    before = reference.copy()
    assert run.state(PLACE + 0.01)
    moved = np.abs(reference - before)
    assert (moved <= 1.5 * MS * 1e-9 * TREE.velocity_limit).all(), 'in one period'


def test_a_state_after_frozen_ones_ends_the_motion_as_one_after_a_gap():
    """Without a timer in between, which would have found that states are missing."""
    run = Driven().following()
    for _ in range(300):
        run.state(v=STILL + 0.3)
    assert run.session.mode is SessionMode.FOLLOWING
    assert run.state(PLACE + 0.01)
    assert run.session.mode is SessionMode.HOLDING
    assert run.said('warning') == ['the time of the states jumped: holding where the arm is']


@pytest.mark.parametrize('simulated', [False, True])
def test_a_paused_simulator_repeats_its_state_and_ends_a_silence_with_it(simulated):
    """Its time is stopped, so that no newer state would ever arrive."""
    run = Driven(simulated_time=simulated).following()
    run.now += 90 * MS
    assert not run.state(step=0)
    assert run.session.watch(run.now + 50 * MS) is not simulated
    run.wait()
    assert run.state(step=0) is simulated
    assert not run.state(step=0), 'one answer'
    assert run.session.mode is (SessionMode.HOLDING if simulated else SessionMode.STOPPED)
    assert run.session.watch(run.now) is not simulated
    if simulated:
        assert_allclose(run.session.command, GRAVITY, atol=1e-10)
        held = f'held: states returned after a timeout{run.session.goals.subject}'
        assert run.session.remarks[-1].status == held


@pytest.mark.parametrize(('apart', 'place'), [(HOUR, 0.0), (-3000 * MS, 0.5), (50 * MS, 0.5)])
def test_in_lockstep_a_second_publisher_that_has_ended_leaves_no_state_unanswered(apart, place):
    """The simulator repeats the state that was refused, without end; not so long as both send."""
    run = Driven(simulated_time=True).active()
    run.states(20)
    session, waiting, answers = run.session, run.stamp, []

    def give(stamp: int, q: np.ndarray, after: int) -> bool:
        run.now += after
        session.watch(run.now)
        return session.update(session.driver.state(stamp, run.now, q, STILL))

    for k in range(220):
        if k % 15 == 0 and k < 150:
            give(waiting + apart + k // 15 * MS, PLACE + place, MS)
        answers.append(give(waiting, PLACE, 5 * MS))
        waiting += MS * answers[-1]
    assert not any(answers[30:150])
    assert 0 <= answers.index(True, 150) - 150 <= 7, 'after the timeout of 100 ms'
    assert all(answers[160:])
    assert session.mode is SessionMode.HOLDING


def test_a_clock_that_stops_while_the_arm_moves_is_no_paused_simulator():
    run, silent = Driven(simulated_time=True).active(), []
    for k in range(1, 120):
        run.now += MS
        assert not run.state(PLACE + 1e-3 * k, STILL + 1.0, step=0)
        silent.append(run.session.watch(run.now))
    assert silent.index(True) == 99
    assert run.said() == [SILENT.format(' (last one refused: not newer)')]


@pytest.mark.parametrize(
    ('end', 'statuses'),
    [
        (lambda run: (run.move(0.01, PLACE), run.states(12)), ['reached']),  # of the second one
        (
            lambda run: (run.states(1100), run.session.deactivate()),
            ['reached', 'ended: the controller was deactivated'],
        ),
        (lambda run: run.session.hold(), ['aborted: Current goal preempted by new empty']),
        (Driven.wait, ['aborted: no fresh state']),
        (lambda run: run.state(step=HOUR), ['aborted: the loop restarted', 'held: the time of']),
        (lambda run: run.session._handle(SessionEvent.CONTACT), ['aborted: touched']),
        (
            lambda run: run.session.fail(ValueError('x')),
            ['aborted: the controller was stopped b'],
        ),
        (lambda run: run.session.deactivate(), ['aborted: the controller was', 'ended']),
    ],
)
def test_the_end_of_a_trajectory_is_reported_once_and_first(end, statuses):
    run = Driven({'law': 'computed_torque'}).following()
    assert SessionHealth().report(run.session).values['following'] == 'trajectory'
    end(run)
    assert SessionHealth().report(run.session).values['following'] in ('hold', 'nothing')
    found = run.statuses
    assert len(found) == len(statuses)
    assert all(map(str.startswith, found, statuses)), found
    # The last status alone tells what became of which trajectory.
    reached = ', reached' * (statuses[0] == 'reached')
    assert all(re.search(r' \[trajectory from [\d.]+ s', text) for text in found)
    assert found[-1].endswith(f' s{reached if found[1:] else ""}]')


@pytest.mark.parametrize(('step', 'answered'), [(MS, False), (500 * MS, True)])
def test_the_reference_begins_where_the_first_answered_state_is(step, answered):
    """A second publisher is not accepted at once; after a gap the arm may be elsewhere."""
    run = Driven({'law': 'pd_gravity'})
    run.state()
    run.session.activate(run.now)
    assert run.state(PLACE + 0.1, step=step) == answered
    assert run.session.loop.reference.position == pytest.approx(PLACE + 0.1 * answered)


@pytest.mark.parametrize(('step', 'told'), [(1e-3, '0.001 ns'), (1, '1 ns'), (1000, '1e+03 ns')])
def test_times_in_s_ms_or_us_are_told_once(step, told):
    """No motion would begin, and no timeout act."""
    run = Driven().active()
    for _ in range(1100):
        assert run.state(step=step)
    (said,) = run.said('warning')
    assert said.startswith(
        f'states are {told} apart, the period is 0.001 s: are their times in ns?'
    )


# Activation ------------------------------------------------------------------------------------

WEAK = {'effort_scale': 0.9 * float((np.abs(GRAVITY) / TREE.effort_limit).max())}


@tables.written("""
.inf      | last one refused: not finite
57.29578  | its limits are
none      | not activated: no fresh state on joint_states
weak      | gravity needs ... raise effort_scale
unstable  | joint_stiffness = ... is unstable at a period of 0.001
""")
def test_an_arm_that_cannot_be_controlled_is_not_activated_and_the_reason_is_said(given, said):
    """Without a state, in degrees, too weak, or where the period does not bear the gains."""
    stiff = {'law': 'impedance', 'joint_stiffness': [1300.0]}  # borne in the middle of the limits
    run = Driven({'weak': WEAK, 'unstable': stiff}.get(given))
    places = {'weak': PLACE, 'unstable': TREE.position_upper}
    if given != 'none':
        run.state(places[given] if given in places else given * PLACE)
    with pytest.raises(RobotDynamicsError, match=said):
        run.session.activate(run.now)
    assert run.session.mode is SessionMode.INACTIVE


def test_an_arm_that_permitted_efforts_or_motors_do_not_hold_is_said_once():
    run = Driven().active()
    run.change(**WEAK)
    tree = TREE.with_changes(effort_limit=np.where(np.arange(4) == 1, 1.0, TREE.effort_limit))
    weak = StillArm(ControllerSession(tree, GIVEN), PLACE).active()
    needed = abs(GRAVITY[1]) - TREE.coulomb_friction[1]
    loaded = Driven({'effort_scale': 0.5}).active()
    loaded.change(payload_mass=2.0, payload_frame='tool')
    for arm, expected in (
        (run, 'are permitted: the arm will sink'),
        (loaded, "at joint 'joint4', 1.5 N m are permitted: the arm will sink"),
        (weak, f"gravity needs {needed:.3g} N m at joint 'joint2', 1 N m are its limit: the arm"),
    ):
        (said,) = arm.said('warning')
        assert expected in said


@pytest.mark.parametrize('terms', [(), ('gravity', 'friction')])
def test_a_payload_beyond_the_motors_is_refused_while_they_hold_the_arm(terms):
    """A mass in g, say: efforts at their limits would throw the arm up. Nor is it activated.

    Whoever computes the efforts of the motors.
    """
    driver = driver_of(TREE, compensated_by_driver=[*terms], defaults={'effort_offset': 0.5})
    run, heavy = Driven(driver=driver), {'payload_mass': 100.0, 'payload_frame': 'tool'}
    run.active().state(v=STILL + 0.1)
    acting = run.session.loop.motor_effort()
    with pytest.raises(
        ConfigurationError, match=r"payload: .* 'joint4', 2.5 N m are its limit; .*kg"
    ):
        run.change(**heavy)
    assert (run.session.loop.motor_effort() == acting).all(), 'between two ticks, from a thread'
    prepare_payload(run.session, False)()
    run.change(**heavy)
    with pytest.raises(ConfigurationError, match="'joint4', 2.5 N m are its limit"):
        prepare_payload(run.session, True)
    assert run.session.loop.load.tree is run.session.loop.load.bare
    with pytest.raises(ConfigurationError, match="not activated: .* 'joint4', 2.5 N m are its"):
        Driven(heavy, driver=driver).active()


def test_a_driver_that_bears_friction_alone_leaves_gravity_to_the_permitted_effort():
    given, limits = {'effort_scale': 0.5}, []
    for term in ('friction', 'gravity'):
        run = Driven(given, driver=driver_of(TREE, compensated_by_driver=[term])).active()
        limits.append(run.session.loop.guard.bounds[-2])
    assert_array_equal(limits, np.outer([0.5, 1.0], TREE.effort_limit))


def test_an_arm_that_was_stopped_while_its_reference_moved_rests_for_a_tare():
    run = Driven().following()
    run.states(500)
    assert run.wait()
    run.session.deactivate()
    wrench = np.zeros(6)  # filled again with every measurement
    for _ in range(2):
        run.state()
        wrench += 1.0
        run.session.measure_wrench('tool', wrench)
    assert tared(run.session, run.now)[0] == {'sensor_bias': [1.5] * 6}


def test_an_effort_that_is_not_that_of_gravity_is_said_once_at_the_activation():
    """The arm carries 2 kg that the model does not know; friction and zeros are no reason."""
    loaded = Driven({'payload_mass': 2.0, 'payload_frame': 'tool'}).active().session.command
    for effort, said in ((loaded, True), (GRAVITY - TREE.coulomb_friction, False), (STILL, False)):
        run = Driven()
        run.state(effort=effort.copy())
        run.session.activate(run.now)
        run.state(effort=effort.copy())
        found = [text.startswith("joint 'joint4' is held with") for text in run.said('warning')]
        assert found == [True] * said


# Unexpected errors -----------------------------------------------------------------------------


@pytest.mark.parametrize('change', [{'state_timeout_s': 0.2}, {'stop_action': 'hold'}])
def test_an_error_that_nobody_foresaw_ends_in_the_stop_action_and_a_named_report(change):
    run = Driven({'stop_action': 'zero' if 'stop_action' in change else 'hold'}).faulted()
    session = run.session
    line = broken.__code__.co_firstlineno + 1
    assert session.remarks[-1].text == (
        f'stopped by an error, ZeroDivisionError: nobody foresaw this (line {line} of {__file__})'
    )
    report = SessionHealth().report(session)
    assert (report.level, 'nobody foresaw this' in report.message) == ('error', True)
    run.change(**change)
    held = run.states(100)[-1]  # the law works again, but has not been inspected
    assert session.mode is SessionMode.FAULTED
    assert_allclose(held, GRAVITY, atol=1e-10)  # held where it is
    session.deactivate()
    session.activate(run.now)
    assert (session.mode, session.fault) == (SessionMode.HOLDING, None)


@pytest.mark.parametrize(
    ('reaction', 'acts'), [('stop', 'pd_gravity'), ('float', 'gravity_compensation')]
)
def test_neither_another_law_nor_silence_ends_a_reaction_but_a_release_does(reaction, acts):
    """Also where it is the former law that holds the arm once it has been braked."""
    given = {'contact_reaction': reaction, 'law': 'pd_gravity'}
    run = Driven(given).in_mode(SessionMode.REACTING)
    loop = run.session.loop
    run.states(300)
    for ask in (lambda: run.change(law='computed_torque'), run.wait):
        ask()
        run.states(300)
        assert loop.acting.name == acts
    run.session.resume()
    run.states(300)
    assert loop.acting.name == loop.law.name == 'computed_torque'


def test_where_even_the_stop_action_fails_no_effort_is_commanded():
    run = Driven().active()
    loop = run.session.loop
    loop.law.effort = loop._brake.effort = broken
    assert_allclose(run.states(1), [GRAVITY], atol=1e-10)
    loop.stop_law.effort = broken
    assert_array_equal(run.states(1), [STILL])


@pytest.mark.parametrize('leave', [ControllerSession.deactivate, ControllerSession.end])
def test_where_the_last_command_fails_none_is_left_acting(leave):
    run = Driven().active()
    session = run.session
    session.loop.tick_without_state = broken
    assert leave(session)
    assert_array_equal(session.command, STILL)
    assert not session.controls
    deactivates = leave is ControllerSession.deactivate
    assert (session.log.dated[-1].kind == 'deactivate') == deactivates, 'a replay ends, too'


def test_efforts_that_are_not_finite_are_reported_once_until_the_law_changes():
    run = Driven({'law': 'computed_torque'}).active()

    def break_joints(*joints: int) -> None:
        law, effort = run.session.loop.law, type(run.session.loop.law).effort
        law.effort = lambda *given: (effort(law, *given), given[-1].put(joints, np.nan))
        assert np.isfinite(run.states(30)).all()

    break_joints(1, 3)
    break_joints(0)
    (said,) = run.said()
    expected = "law 'computed_torque': the effort of joint2, joint4 is not finite: stop action gra"
    assert said.startswith(expected)
    run.change(damping_ratio=[0.9])
    break_joints(0)
    assert 'effort of joint1 is' in run.said()[1]


def test_a_law_that_replaces_one_without_a_finite_effort_acts_at_once():
    run = Driven({'activation_ramp_s': 0.2}).active()
    run.session.loop.law.effort = lambda *given: given[-1].fill(np.nan)
    run.states(30)
    run.change(natural_frequency=[12.0])
    run.states(30)
    assert len(run.said()) == 1
    assert run.session.loop.limiter.refusals == 30
    assert_allclose(run.commands[-1], GRAVITY, atol=1e-9)


@pytest.mark.parametrize('place', [1, 2])
def test_a_law_that_changes_the_state_is_stopped_instead_of_misleading_the_guard(place):
    run = Driven().active()
    run.session.loop.law.effort = lambda *given: given[place].fill(0.0)
    held = run.states(100)[-1]
    assert 'read-only' in run.said()[0]
    assert_allclose(held, GRAVITY, atol=1e-10)


def test_an_error_that_every_state_repeats_is_reported_once():
    run = Driven().active()
    for _ in range(9):
        run.session.update(ArmState(run.stamp + MS, run.now, PLACE[:3], STILL[:3]))
    assert len(run.said()) == 1


# Changes ---------------------------------------------------------------------------------------


@tables.written("""
{law: magic}                                     | unknown law 'magic'; known: ... pd_gravity
{formulation: x}                                 | unknown formulation 'x'; known: ... newton_euler
{stop_action: x}                                 | unknown stop action 'x'; known: damping, gravity
{law: pd_gravity, natural_frequency: [9.0, 9.0]} | natural_frequency ... one per joint
{law: pd_gravity, natural_frequency: [-1.0]}     | natural_frequency ... of at least 0
{law: pd_gravity, damping_ratio: [.nan]}         | damping_ratio ... finite
{effort_rate_limit: [1.0, 2.0]}                  | effort_rate_limit ... give 1 or 4 finite numbers
{effort_scale: 0.0}                              | effort_scale = ... finite number from 0.01 to 1
{effort_scale: .nan}                             | effort_scale = ... finite number from 0.01 to 1
{state_timeout_s: 0.0015}                        | must be at least two periods of 0.001 s
{natural_frequncy: [50.0]}                       | 'natural_frequncy'; did you mean 'natural_freq
{payload_mass: 1.0, payload_frame: hand}         | unknown payload_frame 'hand'; known: base
{sensor_frame: hand}                             | unknown sensor_frame 'hand'; known: base
{law: impedance, impedance_frame: hand}          | unknown impedance_frame 'hand'; known: base
{payload_mass: 1.0, payload_frame: base_link}    | payload_frame 'base_link': is on the base
{sensor_frame: base_link}                        | sensor_frame 'base_link': is on the base
{law: impedance, impedance_frame: base_link}     | impedance_frame 'base_link': is on the base
{law: constraint_stabilization, program: '{a: '} | program
{law: constraint_stabilization, program: /proc/self/mem} | program
""")
def test_wrong_parameters_are_refused_by_name_at_the_start_and_later_and_change_nothing(
    given, said
):
    with pytest.raises(RobotDynamicsError, match=said):
        ControllerSession(TREE, given)
    require_refusal({}, given, said)


@tables.written("""
{contact_reaction: stop}                         | contact_reaction: law computed_torque, which
{law: hand_guiding}                              | law: law computed_torque, which then holds
{payload_com: [0, 0, 50]}                         | payload_com = ... from -10 to 10
{payload_inertia: [0, 0, 0, 1.0e+9, 0, 0]}       | payload_inertia = ... from -1e+06 to 1e+06: xx
{program: 'a: !!bool x'}                         | program
""")
def test_a_change_that_could_act_by_half_only_is_refused_by_name_before(given, said):
    used = {'law': 'gravity_compensation', 'damping_ratio': [0.0], 'payload_mass': 1.0}
    require_refusal(used, given, said)


def require_refusal(parameters: dict[str, Any], given: dict[str, Any], said: str) -> None:
    """Require that an active session refuses a change, and goes on as before."""
    run = Driven(parameters).active()
    before, law = run.session.parameters, run.session.loop.law
    with pytest.raises(RobotDynamicsError, match=said):
        prepare_parameters(run.session, given)
    assert run.session.parameters is before
    assert run.session.loop.law is law
    run.states(1)
    assert run.session.mode is SessionMode.HOLDING


@tables.written("""
{wrench_frame: hand} | unknown wrench_frame 'hand'; known: base
{joints: [joint1]}   | each of joint1, joint2, joint3, joint4 once
""")
def test_what_is_fixed_is_refused_at_the_start(given, said):
    with pytest.raises(RobotDynamicsError, match=said):
        ControllerSession(TREE, given)


def test_other_gains_reach_what_holds_an_arm_that_is_not_enabled_at_once():
    """The stiffness of its joints is by the square of the natural frequency."""
    run, pulls = Driven({'law': 'hand_guiding'}).active(), []
    run.states(200)
    for frequency in (10.0, 5.0):
        run.change(natural_frequency=[frequency])
        run.states(200, PLACE + 1e-4)
        pulls.append(run.session.loop.decompose()['feedback'])
    assert_allclose(pulls[1], 0.25 * pulls[0], rtol=1e-6)


def test_a_change_is_prepared_while_the_ticks_go_on_and_acts_with_its_commit():
    run = Driven().active()
    change, loop = {'law': 'computed_torque'}, run.session.loop
    assert builds_law(run.session, change)
    commit = prepare_parameters(run.session, change)
    run.states(5)
    assert loop.law.name == 'pd_gravity'
    commit()
    assert loop.law.name == 'computed_torque'
    with pytest.raises(ConfigurationError, match='target: ZeroDivisionError: nobody foresaw'):
        prepare_target(run.session, broken)
    assert run.session.mode is SessionMode.HOLDING


def test_the_next_law_acts_after_a_brake_that_a_law_without_reference_does_not_survive():
    run = Driven({'law': 'gravity_compensation'}).active()
    run.session.brake()
    run.states(300)
    loop = run.session.loop
    assert loop.acting is loop.stop_law
    run.change(damping=[2.0])  # lets no arm go
    run.states(300)
    assert loop.acting is loop.stop_law
    run.change(law='computed_torque')
    run.states(300)
    assert loop.acting is loop.law


def test_a_change_to_what_is_changes_no_command():
    """Where the reaction acts, its law had been made anew, and the command was slowed."""
    run = Driven({'contact_reaction': 'float'}).in_mode(SessionMode.REACTING)
    run.states(300)
    limiter = run.session.loop.limiter
    before = limiter.state.copy(), run.session.follower
    run.change(contact_reaction='float', law=run.session.parameters['law'])
    assert_array_equal(limiter.state, before[0])
    assert run.session.follower is before[1]


def test_a_commit_is_applied_once():
    run = Driven().active()
    commit = prepare_payload(run.session, False)
    commit()
    logged = len(run.session.log.dated)
    with pytest.raises(ConfigurationError, match='was committed already; prepare it again'):
        commit()
    assert len(run.session.log.dated) == logged


def test_a_change_does_not_undo_one_that_was_committed_after_its_preparation():
    run = Driven({'payload_mass': 0.1, 'payload_frame': 'tool'}).active()
    stale = [
        prepare_parameters(run.session, {'effort_scale': 0.5}),
        prepare_payload(run.session, True),
    ]
    run.change(payload_mass=0.2)
    for commit in stale:
        with pytest.raises(
            ConfigurationError, match='before parameters changed; prepare it again'
        ):
            commit()
    assert run.session.loop.load.payload.mass == run.session.parameters['payload_mass'] == 0.2


INACTIVE = Driven()
INACTIVE.state()
test_an_argument_of_another_kind_is_refused_by_name = tables.called(
    """
session.watch(None) | ParameterError: now_ns = None ... must be a number
session.activate(None) | ParameterError: now_ns = None ... must be a number
session.rebuild(None) | ParameterError: tree = None ... must be a robot
session.rebuild(other) | ConfigurationError: model: is of robot 'scara' ... give one of 'four_dof'
session.on_locked(None) | ParameterError: positions = None ... must be an array
session.on_locked(three) | ShapeError: positions has shape (3,); expected (0,)
prepare_payload(session, 'yes') | ParameterError: carried = 'yes' ... must be True or False
prepare_trajectory(active, there, 1.5) | ParameterError: start_ns = 1.5 ... must be a whole number
prepare_trajectory(active, there, nan) | ParameterError: start_ns = nan ... must be a whole number
session.set_speed(nan) | ConfigurationError: speed_scaling_input ... give a factor of 0 to 1
session.set_speed(-0.1) | ConfigurationError: speed_scaling_input ... give a factor of 0 to 1
session.set_speed(1.1) | ConfigurationError: speed_scaling_input ... give a factor of 0 to 1
session.driver.state(0, 0, place, place, two) | ShapeError: effort has shape (2,); expected (4,)
session.measure_wrench('tool', enormous) | ConfigurationError: measured wrench: is
repeat(session, 'hops', {}) | UnknownNameError: unknown kind of change 'hops'; known: activation
""",
    {
        'session': INACTIVE.session,
        'active': Driven().active().session,
        'other': sample('scara').tree,
        'two': np.zeros(2),
        'enormous': np.full(6, 1e9),
        'place': PLACE,
        'three': np.zeros(3),
        'there': ([1.0], [PLACE], None, None),
        'nan': np.nan,
    },
    requests,
)


def test_a_program_goes_on_when_its_friction_compensation_changes():
    """No transfer: a new law would begin the program again."""
    given = {'law': 'constraint_stabilization', 'program': 'four_dof_moving_plane'}
    run = Driven(given).active()
    loop, law = run.session.loop, run.session.loop.law
    run.change(friction_compensation=False)
    assert loop.acting is loop.law is law
    assert law.parameters['friction_compensation'] is False


@pytest.mark.parametrize(
    ('interrupt', 'reason'),
    [
        (ControllerSession.deactivate, 'the controller was deactivated'),
        (ControllerSession.hold, 'the arm was told to hold'),
        (lambda session: session.rebuild(session.tree), 'the model was replaced'),
    ],
)
def test_what_was_being_prepared_when_the_arm_was_stopped_is_refused_with_that_reason(
    interrupt, reason
):
    run = Driven()
    run.state() if 'model' in reason else run.active()
    commit = prepare_payload(run.session, False)
    interrupt(run.session)
    with pytest.raises(ConfigurationError, match=f'payload: was being prepared when {reason}'):
        commit()
    assert run.session.carrying
    assert prepare_payload(run.session, False)()  # once more


def test_a_trajectory_that_was_checked_is_the_one_that_is_followed():
    """The arrays that were given may be filled with the next one at once."""
    references = []
    for later in (0.1, 0.4):
        run = Driven().active()
        points = Points.at_rest([1.0], PLACE[np.newaxis] + 0.1)
        commit = prepare_trajectory(run.session, points)
        points.position[:] = PLACE + later
        points.time[:] *= later
        commit()
        run.states(5)
        references.append(run.session.loop.reference.position.copy())
    assert np.array_equal(*references)
    assert (references[0] != PLACE).all()


def test_a_payload_is_carried_and_put_down_by_the_model():
    run = Driven({'payload_mass': 2.0, 'payload_frame': 'tool'}).active()
    with_load = run.commands[-1]
    assert np.abs(with_load - GRAVITY).max() > 1.0
    assert prepare_payload(run.session, False)() == 'carrying nothing'
    assert_allclose(run.states(600)[-1], GRAVITY, atol=1e-10)  # so that nothing jumps
    assert run.wait()
    assert prepare_payload(run.session, True)() == 'carrying 2 kg on tool'
    assert run.wait(30)  # no state tells how much time has passed: at once
    assert_allclose(run.commands[-1], with_load, atol=1e-10)


def test_a_floating_arm_is_damped_by_what_it_carries_by_now():
    load = {'payload_mass': 2.0, 'payload_frame': 'tool'}
    loaded, bare = (Driven({'contact_reaction': 'float', **more}) for more in (load, {}))
    dampings = []
    for run in (loaded, bare):
        run.in_mode(SessionMode.REACTING)
        prepare_payload(run.session, False)()
        run.states(600, v=STILL + 0.01)
        dampings.append(run.session.loop.decompose()['damping'])
    assert_allclose(*dampings, rtol=1e-3)


# Motions inwards, and motions that begin at the arm -------------------------------------------


@pytest.mark.parametrize('depth', [1e-9, 0.1 * TREE.position_range[0]])
def test_an_arm_beyond_a_limit_can_be_led_back_and_not_farther_out(depth):
    beyond = np.array([TREE.position_upper[0] + depth, *PLACE[1:]])
    run = Driven({'law': 'computed_torque'}).active(beyond)
    with pytest.raises(RobotDynamicsError, match='its limits are'):
        run.move(1.0, beyond + [1e-4, 0.0, 0.0, 0.0])
    assert run.move(3.0, PLACE + 0.1).startswith('accepted')
    assert run.move([0.0, 3.0], beyond, PLACE).startswith('accepted')


def test_a_goal_that_begins_at_the_arm_is_taken_though_the_reference_is_elsewhere():
    """0.27 rad off its reference due to friction; the reference blends over smoothly."""
    run = Driven({'law': 'pd_gravity'}).active()
    hanging, reference = PLACE - 0.27, run.session.loop.reference.position
    for q in np.linspace(PLACE, hanging, 301):  # as slowly as no state is a jump
        run.state(q)
    with pytest.raises(RobotDynamicsError, match='is at time 0'):
        run.move([0.0, 2.0], hanging + 0.1, PLACE)
    run.move([0.0, 2.0], hanging, PLACE)
    way = [reference.copy()]
    for _ in range(2100):
        run.state(hanging)
        way.append(reference.copy())
    assert (np.abs(np.diff(way, axis=0)) <= 1.5e-3 * TREE.velocity_limit).all()
    assert_allclose(way[-1], PLACE, atol=1e-12)
