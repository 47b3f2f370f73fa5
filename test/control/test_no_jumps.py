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
from samples import sample

from robot_dynamics_ros.control.requests import (
    prepare_parameters,
    prepare_payload,
    prepare_trajectory,
)
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.errors import RobotDynamicsError
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant

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


class Arm:
    """A session on the plant and a source of random events."""

    def __init__(self, name: str, seed: int) -> None:
        self.tree, self.rng = robot(name), np.random.default_rng([seed, len(name)])
        lower, upper = self.tree.position_lower, self.tree.position_upper
        self.middle, self.half = 0.5 * (lower + upper), 0.5 * (upper - lower)
        given = {'natural_frequency': [15.0], 'state_timeout_s': 0.05, 'damping': [1.0]}
        self.session = ControllerSession(self.tree, given)
        self.plant = MujocoPlant(self.tree)
        self.plant.reset(self.middle + 0.2 * self.half * self.rng.uniform(-1, 1, self.tree.n))
        self.q, self.v = np.zeros(self.tree.n), np.zeros(self.tree.n)
        self.stamp = self.now = 50_000 * MS
        self.read()
        self.session.activate(self.now)
        self.stopping, self.answered = 0, self.stamp
        self.done: dict[str, int] = {}
        assert self.read()  # the first command of all
        self.plant.step(self.session.loop.effort)

    def pick(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def read(self, gap_ms: int = 1) -> bool:
        self.plant.read(self.q, self.v)
        self.stamp += gap_ms * MS
        self.now += abs(gap_ms) * MS
        return self.session.update(self.session.driver.state(self.stamp, self.now, self.q, self.v))

    def tick(self, gap_ms: int = 1, event: str = '') -> None:
        loop, session = self.session.loop, self.session
        last, reference = loop.effort.copy(), loop.reference.position.copy()
        if self.read(gap_ms):
            session.settle()
        assert session.fault is None
        step = np.abs(loop.effort - last) / self.tree.effort_limit
        moved = np.abs(loop.reference.position - reference) / self.tree.velocity_limit
        elapsed = min(abs(self.stamp - self.answered) / MS, 50.0)  # that is a gap
        self.answered = self.stamp
        most = STOP if self.stopping > 0 else CHANGE
        # The plant's end stops make the velocity jump, and with it the effort of that joint.
        step[(self.q < self.tree.position_lower) | (self.q > self.tree.position_upper)] = 0.0
        assert step.max() <= most * elapsed * (1 + 1e-9), (event, self.done, step, loop.law.name)
        assert moved.max() <= REFERENCE * 1e-3 * elapsed * (1 + 1e-6), (event, moved)
        self.stopping -= 1
        self.plant.step(loop.effort)

    # Events -------------------------------------------------------------------------------------

    def parameters(self) -> None:
        changes = {
            'natural_frequency': [self.pick(10.0, 15.0, 40.0)],
            'damping_ratio': [self.pick(0.5, 1.0, 2.0)],
            'friction_compensation': self.pick(True, False),
            'activation_ramp_s': self.pick(0.0, 0.05, 0.5, 2.0),
            'discretization': self.pick('semi_implicit', 'zero_order'),
            'state_timeout_s': self.pick(0.05, 0.2),
            'effort_scale': self.pick(0.7, 1.0),
            'stop_effort_share': self.pick(0.3, 0.7, 1.0),
            'stop_action': self.pick('hold', 'gravity'),
            'payload_mass': self.pick(0.0, 1.0),
        }
        name = self.pick(*changes)
        prepare_parameters(self.session, {name: changes[name]})()
        if name.startswith('stop_') and self.session.loop.braking:
            self.stopping = STOP_TICKS  # it brakes anew

    def law(self) -> None:
        laws = (
            'computed_torque',
            'pd_gravity',
            'gravity_compensation',
            'constraint_stabilization',
        )
        prepare_parameters(self.session, {'law': self.pick(*laws)})()
        self.stopping = STOP_TICKS

    def payload(self) -> None:
        prepare_payload(self.session, self.pick(True, False))()

    def trajectory(self) -> None:
        """Send one that starts now, later, some time ago, or with a point at once."""
        reference = self.session.loop.reference.position
        goal = self.middle + 0.25 * self.half * self.rng.uniform(-1, 1, self.tree.n)
        goal = reference + np.clip(goal - reference, -0.4, 0.4)
        times = np.linspace(self.pick(0.0, 0.3), 1.2, 25)
        x = times / 1.2
        s, ds = x**3 * (10 - 15 * x + 6 * x**2), 30 * x**2 * (1 - x) ** 2 / 1.2
        dds = 60 * x * (1 - x) * (1 - 2 * x) / 1.44
        begin = self.pick(reference, self.q, reference + 0.04)
        way = goal - begin
        points = begin + np.outer(s, way), np.outer(ds, way), np.outer(dds, way)
        start = self.pick(0, 0, self.stamp + 30 * MS, self.stamp - 400 * MS)
        read = (times, *points), start
        prepare_trajectory(self.session, *read)()

    def hold(self) -> None:
        self.session.hold()
        self.stopping = STOP_TICKS

    def hold_here(self) -> None:
        self.session.loop.switch(brake=True)
        self.stopping = STOP_TICKS

    def gap(self) -> None:
        """The time of the states jumps: by a gap, by an hour, back."""
        self.stopping = STOP_TICKS
        ahead = self.pick(150, 3_600_000, -10_000)
        if ahead < 0:
            self.read(ahead)  # refused once
            self.tick(1, 'back')
        else:
            self.tick(ahead, 'gap')

    def silence(self) -> None:
        """No states for a while; the stop is then commanded, which may step."""
        self.now += 300 * MS
        self.session.watch(self.now)
        self.stopping = STOP_TICKS
        self.stamp += 2 * MS


@pytest.mark.parametrize('name', ['scara', 'four_dof'])
@pytest.mark.parametrize('seed', range(6))
def test_no_change_makes_the_command_or_the_reference_jump(name, seed):
    arm = Arm(name, seed)
    events = (arm.parameters, arm.parameters, arm.law, arm.payload, arm.trajectory, arm.trajectory,
              arm.hold, arm.hold_here, arm.gap, arm.silence)  # fmt: skip
    for _ in range(120):
        event = arm.pick(*events)
        try:
            event()
        except RobotDynamicsError:
            continue
        arm.done[event.__name__] = arm.done.get(event.__name__, 0) + 1
        for _ in range(arm.rng.integers(1, 60)):
            arm.tick(1, event.__name__)
    assert arm.done.keys() == {event.__name__ for event in events}
