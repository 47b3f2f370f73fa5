# SPDX-License-Identifier: Apache-2.0
"""A program that cannot begin at the arm's position: the arm is moved to the start first."""

from __future__ import annotations

import re

import numpy as np
import pytest
import refusals
from pushed_arm import PlantArm
from samples import shipped
from scipy.interpolate import BPoly

from robot_dynamics_ros.control.laws.program_effort import LeadIn

LAW = {'law': 'constraint_stabilization', 'program': 'scara_circle', 'period': 1e-3}
ON_CIRCLE = [-0.30, 1.28, 0.10, 0.90]


def active(start, **parameters) -> PlantArm:
    """Return an active session on a plant."""
    arm = PlantArm(shipped('scara').tree, start, LAW | parameters)
    arm.activate()
    return arm


def run(start, ticks: int, **parameters):
    """Return per tick: error of the program, shares of the effort and of the velocity limits."""
    arm, rows = active(start, **parameters), []
    tree = arm.session.tree
    for _ in arm.run(ticks):
        shares = arm.effort / tree.effort_limit, arm.v / tree.velocity_limit
        rows.append([np.abs(x).max() for x in (arm.session.loop.law.f, *shares)])
    return np.array(rows)


@refusals.written("""
{lead_in: 0.25}                                | lead-in: the program begins at t =
{}                                             | no lead-in: lead_in is 0
{lead_in: 0.25, limit_effort: false}           | no lead-in: limit_effort is false
{lead_in: 0.25, start: [-0.3, 1.28, 0.1, 0.9]} | no lead-in: the program can begin where the arm is
{lead_in: 0.25, start: [-0.3, 1.28, 0.1, 0.9], program: ''} | no lead-in: the program follows the
""")
def test_the_activation_tells_whether_a_lead_in_runs_and_why_not(given, said):
    remarks = active(**{'start': [0.0] * 4, **given}).session.remarks
    text = next(x.text for x in remarks if x.text.startswith('active: '))
    assert re.search(f'active: constraint_stabilization; {said[4:]}', text)


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
