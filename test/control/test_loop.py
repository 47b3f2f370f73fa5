# SPDX-License-Identifier: Apache-2.0
"""For any input in any order, every command is finite and within its limit."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from samples import sample

from robot_dynamics_ros.control.laws.registry import LAWS
from robot_dynamics_ros.control.laws.stop_laws import STOP_ACTIONS
from robot_dynamics_ros.control.settings import LoopSettings
from robot_dynamics_ros.control.setup import DEFAULTS, build_loop, selected_law
from robot_dynamics_ros.errors import RobotDynamicsError, TrajectoryError
from robot_dynamics_ros.model.payload import Payload

ODD = (0.0, -0.0, math.nan, math.inf, -math.inf, 1e300, -1e308, 5e-324, 1e-9, -1e6, 1e154)
# Forward, also by zero, backward, by a gap, and by 18 minutes; ns.
STEPS = (10**6, 10**6, 10**6, 10**6, 0, -(10**6), 10**9, -(10**10), 1, 2**40)
EVENTS = 2000


class Storm:
    """A loop and a source of random events."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.tree = sample(self.pick('scara', 'four_dof')).tree
        self.loop = build_loop(self.tree, DEFAULTS | {'law': self.pick(*LAWS)})
        self.stamp = self.pick(0, 10**9, -5, 2**62)
        self.q, self.running = self.within_limits(), False
        self.commands = self.followed = 0

    def pick(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def spoiled(self, values: Any, share: float) -> np.ndarray:
        values = np.array(values, dtype=float)
        for index in np.argwhere(self.rng.random(values.shape) < share):
            values[tuple(index)] = self.pick(*ODD)
        return values

    def within_limits(self, *rows: int) -> np.ndarray:
        lower, upper = self.tree.position_lower, self.tree.position_upper
        return self.rng.uniform(lower, upper, (*rows, self.tree.n))

    def parameters(self) -> dict[str, Any]:
        return DEFAULTS | {
            'law': self.pick(*LAWS),
            'stop_action': self.pick(*STOP_ACTIONS),
            'activation_ramp_s': self.pick(0.0, 0.05, 1e-300, 60.0),
            'effort_rate_limit': [self.pick(0.0, 1.0, 1e308, 5e-324)],
            'effort_scale': self.pick(1.0, 0.5, 0.01),
            'state_timeout_s': self.pick(0.1, 1e-3, 1e9),
            'start_tolerance': self.pick(0.05, 0.0, 10.0),
            'natural_frequency': [self.pick(10.0, 0.0, 1e3, 1e154)],
            'damping_ratio': [self.pick(1.0, 0.0, 1e300)],
            'friction_compensation': self.pick(True, False),
        }

    def state(self) -> None:
        self.stamp += self.pick(*STEPS)
        self.q = self.q + self.rng.normal(scale=0.002, size=self.tree.n)
        q = self.q if self.rng.random() < 0.9 else self.within_limits()
        v = self.rng.normal(size=self.tree.n) * self.pick(0.0, 0.1, 1.0, 50.0)
        share = self.pick(0.0, 0.0, 0.0, 0.1)
        seen = self.loop.observe(self.stamp, self.spoiled(q, share), self.spoiled(v, share))
        if seen.usable:
            if not self.running:
                self.loop.start()
                self.running = True
            self.loop.tick()
            self.check()

    def stop(self) -> None:
        self.loop.tick_without_state(final=self.pick(True, False))
        self.check()

    def follow(self) -> None:
        k = self.rng.integers(1, 5)
        share = self.pick(0.0, 0.0, 0.1)
        shape = (k, self.tree.n)
        lower, upper = self.tree.position_lower, self.tree.position_upper
        near = self.loop.reference.position + self.rng.normal(scale=0.01, size=shape)
        self.loop.generator.follow(
            self.spoiled(np.sort(self.rng.uniform(0.1, 2.0, k)), share),
            self.spoiled(self.pick(near.clip(lower, upper), self.within_limits(k)), share),
            self.pick(None, np.zeros(shape), self.spoiled(np.zeros(shape), 0.05)),
            self.pick(None, np.zeros(shape), self.spoiled(np.zeros(shape), 0.05)),
            self.pick(0, 0, self.stamp, self.stamp + 10**8, -1, 1, 2**63 - 1),
        )
        self.followed += 1

    def change_settings(self) -> None:
        self.loop.change_settings(LoopSettings.of(self.parameters()))

    def change_law(self) -> None:
        law = selected_law(self.tree, self.loop.kernels, self.parameters())
        self.loop.replace(self.loop.law, law)

    def carry(self) -> None:
        mass, size = self.spoiled([self.rng.uniform(0.0, 5.0), 0.01], 0.1)
        com = self.spoiled(0.1 * self.rng.normal(size=3), 0.05)
        payload = Payload(float(mass), com, np.diag([size, size, size]), 'tool')
        self.loop.set_payload(self.pick(None, payload), self.pick(0.0, 0.1, 1e300))

    def measure(self) -> None:
        self.loop.measured_effort[:] = self.spoiled(100.0 * self.rng.normal(size=4), 0.3)

    def brake(self) -> None:
        self.loop.switch(brake=True)

    def check(self) -> None:
        effort = self.loop.effort
        assert np.isfinite(effort).all()
        assert (np.abs(effort) <= self.tree.effort_limit).all()
        self.commands += 1


@pytest.mark.slow
@pytest.mark.filterwarnings('ignore:overflow', 'ignore:invalid value')
@pytest.mark.parametrize('seed', range(4))
def test_whatever_arrives_every_command_is_finite_and_within_its_limit(seed):
    storm = Storm(seed)
    others = (
        *(storm.stop, storm.follow, storm.change_settings, storm.change_law, storm.carry),
        *(storm.measure, storm.loop.hold, storm.brake),
    )
    for _ in range(EVENTS):
        event = storm.pick(*others) if storm.rng.random() < 0.2 else storm.state
        if event in others[-2:] and not storm.running:
            continue
        with suppress(RobotDynamicsError):  # refused with a reason; anything else is a fault
            event()
    assert storm.commands > EVENTS / 10
    assert storm.followed > 0


@pytest.mark.parametrize('time', [math.nan, math.inf, -math.inf, 1e308])
def test_a_trajectory_whose_time_is_none_is_refused_by_name(time):
    storm = Storm(0)
    storm.state()
    with pytest.raises(TrajectoryError, match='point 0: is at .* times are 0 to'):
        storm.loop.generator.follow(np.array([time]), storm.within_limits(1), None, None)
