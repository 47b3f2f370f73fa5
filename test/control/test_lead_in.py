# SPDX-License-Identifier: Apache-2.0
"""A program that cannot begin at the arm's position: the arm is moved to the start first."""

import re

import numpy as np
import pytest
import tables
from pushed_arm import PlantArm
from samples import effort_of, shipped
from scipy.interpolate import BPoly

from robot_dynamics_ros.control.laws.constraint_stabilization import ConstraintStabilization
from robot_dynamics_ros.control.laws.program_effort import LeadIn, ProgramEffort
from robot_dynamics_ros.control.laws.registry import make_law
from robot_dynamics_ros.control.requests import prepare_parameters
from robot_dynamics_ros.dynamics.sampled_loop import Sampling, scalar_loop

LAW = {'law': 'constraint_stabilization', 'program': 'scara_circle', 'period': 1e-3}
ON_CIRCLE = [-0.30, 1.28, 0.10, 0.90]


SCARA = shipped('scara').tree


def active(start=(0.0,) * 4, *, tree=SCARA, **parameters) -> PlantArm:
    """Return an active session on a plant."""
    arm = PlantArm(tree, start, LAW | parameters)
    arm.activate()
    return arm


def told(arm: PlantArm) -> str:
    """Return what an activation tells of a lead-in."""
    text = next(x.text for x in arm.session.remarks if x.text.startswith('active: '))
    return text.partition('; ')[2]


def run(arm: PlantArm, ticks: int) -> np.ndarray:
    """Return per tick: error of the program, shares of the effort and of the velocity limits."""
    tree, law, rows = arm.session.tree, arm.session.loop.law, []
    for _ in arm.run(ticks):
        shares = law.f, arm.effort / tree.effort_limit, arm.v / tree.velocity_limit
        rows.append([np.abs(x).max() for x in shares])
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
    assert re.match(said[4:].strip(), told(active(**given)))


@pytest.mark.slow
def test_a_lead_in_runs_where_the_decay_would_exceed_a_limit(rng):
    """The arm itself tells, without a lead-in; steps are coarse, MuJoCo's friction its own."""
    slow = SCARA.with_changes(velocity_limit=0.35 * SCARA.velocity_limit)
    found = dict.fromkeys(('effort', 'velocity', 'can begin'), 0)
    law = make_law(LAW['law'], slow, program=LAW['program'], period=1e-3, lead_in=0.25)
    for _ in range(8):
        start = ON_CIRCLE + rng.uniform(-1.0, 1.0, 4) * [0.3, 0.3, 0.05, 1.5]
        law.reset(0.0, start, np.zeros(4))
        text, arm = law.start(), active(start, tree=slow, activation_ramp_s=0.0)
        _, effort, speed = run(arm, 600).max(axis=0)
        kind = next(kind for kind in found if kind in text)
        found[kind] += 1
        assert (effort > 0.99) == (kind == 'effort'), text
        if kind == 'velocity':
            share = float(re.search(r'need (\d+)%', text)[1])
            assert speed == pytest.approx(share / 100.0, rel=0.1), text
        elif kind == 'can begin':
            assert speed < 1.05
    assert min(found.values()) > 0, found


def test_no_joint_of_a_lead_in_is_faster_than_its_limit_or_than_at_the_start(rng):
    """The quintic is SciPy's with its six end conditions; from rest it just reaches the limit."""
    speed, goal, x = np.array([1.0, 2.0, 0.5]), np.array([0.3, -0.2, 0.0]), np.linspace(0, 1, 2001)
    late = Sampling(0.04, delay=2.0)  # bears no 10 rad/s, by which the arm swung
    lead_in = LeadIn(goal, speed, late)
    for k in range(30):
        q, v = rng.uniform(-3.0, 3.0, 3), rng.uniform(-1.5, 1.5, 3) * speed * (k % 3)
        lead_in.begin(q, v)
        T = lead_in.duration
        way = BPoly.from_derivatives([0.0, 1.0], [[q - goal, v * T, 0.0 * v], np.zeros((3, 3))])
        shares = np.abs(way(x, 1)).max(axis=0) / T / np.maximum(speed, np.abs(v))
        assert shares.max() <= 1.0 + 1e-9, (q, v)
        assert k % 3 or shares.max() == pytest.approx(1.0)
        stiffness = lead_in.acceleration(T, goal - 1.0, 0.0 * v)
        assert scalar_loop('', 1.9 * np.sqrt(stiffness[0]), 1.0).is_stable(late)


@pytest.mark.slow
def test_from_the_stretched_elbow_the_arm_goes_quietly_to_the_circle_and_draws_it():
    """As Gazebo inserts it: all joints at zero, where the Jacobian has lost its rank."""
    error, effort, speed = run(active(lead_in=0.25), 4000).T
    assert error[0] > 0.1
    # The quill's weight takes 0.12 of its limit; 0.25 of the velocity limit is declared, the
    # circle itself needs 0.31.
    assert effort[:1500].max() < 0.2
    assert speed[:1400].max() < 0.3
    assert np.abs(np.diff(effort)).max() < 0.05, 'no jump, see docs/reliability.md'
    assert error[2500:].max() < 1e-3
    assert (run(active(), 1000).max(axis=0)[1:] > [0.9, 1.0]).all(), 'without'


@pytest.mark.parametrize(('ticks', 'count'), [(50, 1), (200, 2)])
def test_a_change_of_law_rehearses_as_it_is_prepared_and_again_once_that_is_old(
    monkeypatch, ticks, count
):
    """The commit is between two ticks; a rehearsal of slow gains takes many of them."""
    arm, seen = PlantArm(SCARA, ON_CIRCLE, {'period': 1e-3}), []
    arm.activate()
    rehearse = ConstraintStabilization._rehearse
    monkeypatch.setattr(
        ConstraintStabilization, '_rehearse', lambda *x: seen.append(x) or rehearse(*x)
    )
    commit = prepare_parameters(arm.session, LAW | {'lead_in': 0.25})
    arm.settle(1e-3 * ticks)
    commit()
    assert len(seen) == count


def test_a_law_of_a_controller_that_has_no_state_yet_rehearses_with_the_first():
    arm = PlantArm(SCARA, ON_CIRCLE, {'period': 1e-3})
    arm.change(**LAW, lead_in=0.25)
    arm.activate()
    assert 'can begin where the arm is' in told(arm)


@pytest.mark.parametrize(
    'change',
    [{'lead_in': 0.0}, {'lead_in': 0.2}, {'limit_effort': False}, {'stiction_velocity': 0.01}],
)
def test_a_lead_in_goes_on_as_it_began_where_a_parameter_changes(change):
    arm = active(lead_in=0.25)
    run(arm, 300)
    arm.change(**change)
    assert run(arm, 300)[:, 1].max() < 0.2, 'as without the change'
    assert arm.session.loop.law.leading
    assert not arm.said()


def test_a_law_that_is_prepared_in_a_thread_disturbs_no_effort_of_the_one_that_acts(monkeypatch):
    """The thread may come between any two steps of a tick, here before the efforts."""
    arm = active(ON_CIRCLE, payload_frame='tool', payload_mass=1.0)
    arm.settle(0.01)
    loop, write = arm.session.loop, ProgramEffort.write
    other, efforts = arm.session.make_law(arm.session.parameters), []

    def interrupted(*arguments):
        monkeypatch.setattr(ProgramEffort, 'write', write)
        assert effort_of(other, loop.q + 0.5, loop.v + 1.0, t=1.0).all()
        return write(*arguments)

    for method in (write, interrupted):
        monkeypatch.setattr(ProgramEffort, 'write', method)
        loop.law.acceleration[:] = 0.0  # with which the law predicts
        efforts.append(effort_of(loop.law, loop.q, loop.v, t=1.0).tolist())
    assert efforts[0] == efforts[1]
