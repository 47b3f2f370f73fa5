# SPDX-License-Identifier: Apache-2.0
"""No change makes the command or the reference jump; see docs/reliability.md.

Sessions run on the MuJoCo plant with random events at random times, also in motion. The
robots have no Coulomb friction, whose compensation by a law is a step, and the
trajectories are smooth: the remaining steps are due to the changes.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from pushed_arm import PlantArm
from samples import sample

from robot_dynamics_ros.control.requests import (
    prepare_parameters,
    prepare_payload,
    prepare_trajectory,
)
from robot_dynamics_ros.errors import RobotDynamicsError
from robot_dynamics_ros.planning.motions import Quintic

pytestmark = pytest.mark.slow

MS = 1_000_000
#: As declared: a twentieth of the limit per ms at a change, a fifth at a stop; of the reference,
#: one and a half times the velocity limit.
CHANGE, STOP, REFERENCE = 0.05, 0.2, 1.5
#: The command goes over to braking within so many ticks.
STOP_TICKS = 40


@cache
def robot(name: str) -> Any:
    tree = sample(name).tree
    return tree.with_changes(coulomb_friction=np.zeros(tree.n))


class Arm(PlantArm):
    """A session on the plant and a source of random events."""

    def __init__(self, name: str, seed: int) -> None:
        tree, self.rng = robot(name), np.random.default_rng([seed, len(name)])
        self.middle, half = tree.middle, 0.5 * tree.position_range
        self.near = lambda share: self.middle + share * half * self.rng.uniform(-1, 1, tree.n)
        given = {'natural_frequency': [15.0], 'state_timeout_s': 0.05, 'damping': [1.0]}
        super().__init__(tree, self.near(0.2), given)
        self.now_ns, self.stopping, self.done = 50_000 * MS, 0, set[str]()
        self.activate()
        self.now_ns += MS
        assert self.answer()  # the first command of all
        self.answered_at = self.stamp
        self.act()

    @property
    def stamp(self) -> int:
        """The time of the states, which jumps, ns."""
        return self.now_ns - self.late_ns

    def pick(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def tick(self, event: str, gap_ms: int = 1) -> None:
        """Require steps of command and reference as declared, and act."""
        loop, tree = self.session.loop, self.session.tree
        last, reference = loop.effort.copy(), loop.reference.position.copy()
        self.now_ns += abs(gap_ms) * MS
        self.late_ns += (abs(gap_ms) - gap_ms) * MS
        elapsed = min(abs(self.stamp - self.answered_at) / MS, 50.0)  # that is a gap
        if self.answer():
            self.answered_at = self.stamp
        assert self.session.fault is None
        step = np.abs(loop.effort - last) / tree.effort_limit
        moved = np.abs(loop.reference.position - reference) / tree.velocity_limit
        # The plant's end stops make the velocity jump, and with it the effort of that joint.
        step[(self.q < tree.position_lower) | (self.q > tree.position_upper)] = 0.0
        most = STOP if self.stopping > 0 or loop.braking else CHANGE
        assert step.max() <= most * elapsed * (1 + 1e-9), (event, self.done, step, loop.law.name)
        assert moved.max() <= REFERENCE * 1e-3 * elapsed * (1 + 1e-6), (event, moved)
        self.stopping -= 1
        self.act()

    # Events: those that stop return for how many ticks -------------------------------------------

    def parameters(self) -> None:
        changes = {
            'natural_frequency': ([10.0], [15.0], [40.0]),
            'damping_ratio': ([0.5], [1.0], [2.0]),
            'friction_compensation': (True, False),
            'activation_ramp_s': (0.0, 0.05, 0.5, 2.0),
            'discretization': ('semi_implicit', 'zero_order'),
            'state_timeout_s': (0.05, 0.2),
            'effort_scale': (0.7, 1.0),
            'stop_effort_share': (0.3, 0.7, 1.0),
            'stop_action': ('hold', 'gravity'),
            'payload_mass': (0.0, 1.0),
        }
        name = self.pick(*changes)
        prepare_parameters(self.session, {name: self.pick(*changes[name])})()

    def law(self) -> int:
        laws = 'computed_torque', 'pd_gravity', 'gravity_compensation', 'constraint_stabilization'
        prepare_parameters(self.session, {'law': self.pick(*laws)})()
        return STOP_TICKS

    def payload(self) -> None:
        prepare_payload(self.session, self.pick(True, False))()

    def trajectory(self) -> None:
        """Send one that starts now, later, some time ago, or with a point at once."""
        reference = self.session.loop.reference.position
        goal = reference + np.clip(self.near(0.25) - reference, -0.4, 0.4)
        begin = self.pick(reference, self.q, reference + 0.04)
        times = np.linspace(self.pick(0.0, 0.3), 1.2, 25)
        points = Quintic(begin, goal, 1.2).table(times)
        start = self.pick(0, 0, self.stamp + 30 * MS, self.stamp - 400 * MS)
        prepare_trajectory(self.session, (times, *points), start)()

    def hold(self) -> int:
        self.session.hold()
        return STOP_TICKS

    def hold_here(self) -> int:
        self.session.loop.switch(brake=True)
        return STOP_TICKS

    def gap(self) -> int:
        """The time of the states jumps: by a gap, by an hour, back, which is refused once."""
        self.stopping = STOP_TICKS
        gap_ms = self.pick(150, 3_600_000, -10_000)
        for _ in range(149 * (gap_ms == 150)):  # the arm moves on under the last command
            self.act()
        self.tick('gap', gap_ms)
        return STOP_TICKS

    def silence(self) -> int:
        """No states for a while; the stop is then commanded, which may step."""
        self.now_ns += 300 * MS
        self.late_ns += 298 * MS
        self.session.watch(self.now_ns)
        return STOP_TICKS


@pytest.mark.parametrize('name', ['scara', 'four_dof'])
@pytest.mark.parametrize('seed', [*range(4), 27])
def test_no_change_makes_the_command_or_the_reference_jump(name, seed):
    arm = Arm(name, seed)
    events = (arm.parameters, arm.parameters, arm.law, arm.payload, arm.trajectory, arm.trajectory,
              arm.hold, arm.hold_here, arm.gap, arm.silence)  # fmt: skip
    for _ in range(120):
        event = arm.pick(*events)
        try:
            arm.stopping = event() or arm.stopping
        except RobotDynamicsError:
            continue
        arm.done.add(event.__name__)
        for _ in range(arm.rng.integers(1, 60)):
            arm.tick(event.__name__)
    assert arm.done == {event.__name__ for event in events}
