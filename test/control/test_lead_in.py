# SPDX-License-Identifier: Apache-2.0
"""A program that cannot begin at the arm's position: the arm is moved to the start first."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tables
from pushed_arm import PlantArm
from samples import shipped
from scipy.interpolate import BPoly

from robot_dynamics_ros.control.laws.constraint_stabilization import ConstraintStabilization
from robot_dynamics_ros.control.laws.program_effort import LeadIn, ProgramEffort
from robot_dynamics_ros.control.laws.registry import make_law
from robot_dynamics_ros.control.requests import prepare_parameters, prepare_payload

LAW = {'law': 'constraint_stabilization', 'program': 'scara_circle', 'period': 1e-3}
ON_CIRCLE = [-0.30, 1.28, 0.10, 0.90]


SCARA = shipped('scara').tree


def active(start, *, tree=SCARA, **parameters) -> PlantArm:
    """Return an active session on a plant."""
    arm = PlantArm(tree, start, LAW | parameters)
    arm.activate()
    return arm


def told(arm: PlantArm) -> str:
    """Return what an activation tells of a lead-in."""
    text = next(x.text for x in arm.session.remarks if x.text.startswith('active: '))
    return text.partition('; ')[2]


def run(start, ticks: int, **parameters):
    """Return per tick: error of the program, shares of the effort and of the velocity limits."""
    arm, rows = active(start, **parameters), []
    tree = arm.session.tree
    for _ in arm.run(ticks):
        shares = arm.effort / tree.effort_limit, arm.v / tree.velocity_limit
        rows.append([np.abs(x).max() for x in (arm.session.loop.law.f, *shares)])
    return np.array(rows)


@tables.written("""
{lead_in: 0.25}                                | lead-in: the program begins at t =
{lead_in: 0.25, program: scara_press}          | lead-in: the program begins at t =
{}                                             | no lead-in: lead_in is 0
{lead_in: 0.25, limit_effort: false}           | no lead-in: limit_effort is false
{lead_in: 0.25, start: [-0.3, 1.28, 0.1, 0.9]} | no lead-in: the program can begin where the arm is
{lead_in: 0.25, start: [-0.3, 1.28, 0.1, 0.9], program: ''} | no lead-in: the program follows the
""")
def test_the_activation_tells_whether_a_lead_in_runs_and_why_not(given, said):
    assert re.match(said[4:].strip(), told(active(**{'start': [0.0] * 4, **given})))


@pytest.mark.slow
def test_a_lead_in_runs_where_the_decay_would_exceed_a_limit(rng):
    """The arm itself tells, without a lead-in; steps are coarse, MuJoCo's friction its own."""
    slow = SCARA.with_changes(velocity_limit=0.35 * SCARA.velocity_limit)
    found = {'effort': 0, 'velocity': 0, 'can begin': 0}
    law = make_law(LAW['law'], slow, program=LAW['program'], period=1e-3, lead_in=0.25)
    for _ in range(8):
        start = ON_CIRCLE + rng.uniform(-1.0, 1.0, 4) * [0.3, 0.3, 0.05, 1.5]
        law.reset(0.0, start, np.zeros(4))
        text = law.start()
        _, effort, speed = run(start, 600, tree=slow, activation_ramp_s=0.0).max(axis=0)
        kind = next(kind for kind in found if kind in text)
        found[kind] += 1
        assert (effort > 0.99) == (kind == 'effort'), text
        if kind != 'effort':
            assert (speed > 1.0) == (kind == 'velocity') or speed == pytest.approx(1.0, abs=0.05)
        if kind == 'effort':  # the joint that is named reaches it
            j = slow.joint_index(text.partition('now, ')[2].split()[0])
            arm = active(start, tree=slow, activation_ramp_s=0.0)
            assert max(abs(arm.effort[j]) for _ in arm.run(600)) > 0.99 * slow.effort_limit[j]
        if kind == 'velocity':
            share = float(re.search(r'need (\d+)%', text)[1])
            assert speed == pytest.approx(share / 100.0, rel=0.1), text
    assert min(found.values()) > 0, found


def test_no_joint_of_a_lead_in_is_faster_than_its_limit_or_than_at_the_start(rng):
    """The quintic is SciPy's with its six end conditions; from rest it just reaches the limit."""
    speed, goal, x = np.array([1.0, 2.0, 0.5]), np.array([0.3, -0.2, 0.0]), np.linspace(0, 1, 2001)
    lead_in = LeadIn(goal, speed)
    for k in range(30):
        q, v = rng.uniform(-3.0, 3.0, 3), rng.uniform(-1.5, 1.5, 3) * speed * (k % 3)
        lead_in.begin(q, v)
        T = lead_in.duration
        way = BPoly.from_derivatives([0.0, 1.0], [[q - goal, v * T, 0.0 * v], np.zeros((3, 3))])
        fastest = np.abs(way(x, 1)).max(axis=0) / T
        assert (fastest <= np.maximum(speed, np.abs(v)) * (1.0 + 1e-9)).all(), (q, v)
        if k % 3 == 0:
            assert np.max(fastest / speed) == pytest.approx(1.0)


@pytest.mark.slow
def test_from_the_stretched_elbow_the_arm_goes_quietly_to_the_circle_and_draws_it():
    """As Gazebo inserts it: all joints at zero, where the Jacobian has lost its rank."""
    error, effort, speed = run([0.0] * 4, 4000, lead_in=0.25).T
    assert error[0] > 0.1
    # The quill's weight takes 0.12 of its limit; 0.25 of the velocity limit is declared, the
    # circle itself needs 0.31.
    assert effort[:1500].max() < 0.2
    assert speed[:1400].max() < 0.3
    assert np.abs(np.diff(effort)).max() < 0.05, 'no jump, see docs/reliability.md'
    assert error[2500:].max() < 1e-3
    error, effort, speed = run([0.0] * 4, 1000, lead_in=0.0).T
    assert effort.max() > 0.9, 'what it is good for'
    assert speed.max() > 1.0


@pytest.mark.parametrize(('ticks', 'count'), [(0, 1), (50, 1), (200, 2)])
def test_a_change_of_law_rehearses_as_it_is_prepared_and_again_once_that_is_old(
    monkeypatch, ticks, count
):
    """The commit is between two ticks; a rehearsal of slow gains takes many of them."""
    arm, states = PlantArm(SCARA, ON_CIRCLE, {'period': 1e-3}), []
    arm.activate()
    rehearse = ConstraintStabilization._rehearse

    def counted(law, q, v):
        states.append(q.copy())
        return rehearse(law, q, v)

    monkeypatch.setattr(ConstraintStabilization, '_rehearse', counted)
    commit = prepare_parameters(arm.session, LAW | {'lead_in': 0.25})
    assert len(states) == 1
    for _ in arm.run(ticks):
        pass
    commit()
    assert len(states) == count
    assert arm.session.loop.law.start().startswith('no lead-in: the program can begin where')


def test_a_law_that_is_prepared_in_a_thread_disturbs_no_effort_of_the_one_that_acts(monkeypatch):
    """The thread may come between any two steps of a tick, here before the efforts."""
    arm = active(ON_CIRCLE, payload_frame='tool', payload_mass=1.0)
    prepare_payload(arm.session, True)()
    for _ in arm.run(10):
        pass
    loop = arm.session.loop
    law, write = arm.session.make_law(arm.session.parameters), ProgramEffort.write
    q, v, expected, effort, other = loop.q.copy(), loop.v.copy(), *np.zeros((3, 4))
    loop.law.acceleration[:] = 0.0  # with which the law predicts, also below
    loop.law.effort(1.0, q, v, loop.reference, expected)

    def interrupted(efforts, *arguments):
        with monkeypatch.context() as once:
            once.setattr(ProgramEffort, 'write', write)
            law.effort(1.0, q + 0.5, v + 1.0, loop.reference, other)
        return write(efforts, *arguments)

    monkeypatch.setattr(ProgramEffort, 'write', interrupted)
    loop.law.acceleration[:] = 0.0
    loop.law.effort(1.0, q, v, loop.reference, effort)
    assert other.any()
    assert effort.tolist() == expected.tolist()
