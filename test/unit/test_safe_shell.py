# SPDX-License-Identifier: Apache-2.0
"""The compiled shell and its parts on floats give the same commands, to the last bit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from samples import sample

from robot_dynamics_ros.control.laws.computed_torque import ComputedTorque
from robot_dynamics_ros.control.laws.gravity_laws import joint_inertia
from robot_dynamics_ros.control.safety.limits import EffortLimiter, JointLimitGuard
from robot_dynamics_ros.control.safety.shell import SafeShell
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.symbolic.kernel import compile_kernel

#: Arms with joints that have limits, that have none, that turn and that slide.
ARMS = ('scara', 'four_dof', 'branched')
EDGES = (0.0, -0.0, 1e-300, 1e300, math.nan, math.inf, -math.inf)


@pytest.fixture(scope='module', params=ARMS)
def tree(request):
    return sample(request.param).tree


class Pair:
    """The same limiter and guard twice: in the compiled shell and as separate parts."""

    def __init__(self, tree, rate: float = math.inf) -> None:
        inertia = np.maximum(joint_inertia(tree, np.zeros(tree.n)), 1e-3)
        motor = np.minimum(tree.effort_limit, 1e3)
        self.limiters = [EffortLimiter(motor, rate) for _ in range(2)]
        self.guards = [JointLimitGuard(tree, inertia) for _ in range(2)]
        self.commands = [np.zeros(tree.n), np.zeros(tree.n)]
        self.states, self.efforts = np.zeros((3, tree.n)), np.zeros((2, tree.n))
        self.shell, self.pieces = (
            SafeShell(tuple(self.states), tuple(self.efforts), limiter, guard)
            for limiter, guard in zip(self.limiters, self.guards, strict=True)
        )

    def step(self, states, wanted, before, ramp, share, dt, fallback=None) -> bool:
        self.states[:], self.efforts[:] = states, (wanted, before)
        finite = self.shell.run(ramp, share, dt, self.commands[0])
        if not finite:
            self.shell.interpret(ramp, share, dt, self.commands[0], fallback)
        self.efforts[:] = wanted, before
        self.pieces.interpret(ramp, share, dt, self.commands[1], fallback)
        return finite

    def contents(self):
        rows = zip(self.limiters, self.guards, self.commands, strict=True)
        return [
            (c.tobytes(), x.state.tobytes(), x.non_finite.tobytes(), g.active.tobytes(), x.ticks)
            for x, g, c in rows
        ]


def drawn_states(tree, rng):
    """Return positions within and beyond the limits, fast or at rest, and gravity there."""
    lower = np.maximum(tree.position_lower, -4.0)
    upper = np.minimum(tree.position_upper, 4.0)
    q = rng.uniform(lower - 0.1, upper + 0.1)
    near = rng.random(tree.n) < 0.3
    q[near] = np.where(rng.random(tree.n) < 0.5, lower, upper)[near]
    v = rng.normal(size=tree.n) * rng.choice([0.0, 0.01, 1.0, 10.0], tree.n)
    return q, v, rng.normal(size=tree.n) * 5.0


@pytest.mark.parametrize('rate', [math.inf, 200.0])
def test_compiled_and_interpreted_shell_agree_to_the_last_bit(tree, rate):
    rng, pair = np.random.default_rng(5), Pair(tree, rate)
    acted = np.zeros(3)
    for k in range(400):
        if k % 40 == 0:
            for limiter in pair.limiters:
                limiter.soften([50.0, 200.0, math.inf][k // 40 % 3])
                limiter.set_limit(limiter.motor * [1.0, 0.1, 0.5][k // 40 % 3])
        scale = rng.choice([0.1, 1.0, 3.0])
        wanted = rng.normal(size=tree.n) * scale * pair.limiters[0].limits
        before, share = rng.normal(size=(2, tree.n)) * 3.0
        ramp = float(rng.choice([0.0, 0.3, 1.0]))
        dt = float(rng.choice([1e-3, 0.5, 0.0, -1.0]))
        assert pair.step(drawn_states(tree, rng), wanted, before, ramp, share, dt)
        one, other = pair.contents()
        assert one == other
        counts = pair.limiters[0].saturated, pair.limiters[0].rate_limited, pair.guards[0].active
        acted += [x.any() for x in counts]
    # Otherwise nothing would have been compared.
    assert acted[0] > 0
    assert acted[2] > 0
    assert (acted[1] > 0) == (rate < math.inf)


@pytest.mark.parametrize('value', EDGES)
@pytest.mark.parametrize('ramp', [0.0, 0.5, 1.0])
def test_whatever_a_law_wants_both_command_the_same(tree, value, ramp):
    rng, pair = np.random.default_rng(6), Pair(tree, 500.0)
    fallback = np.linspace(-1.0, 1.0, tree.n)
    for joint in range(tree.n):
        wanted = rng.normal(size=tree.n)
        wanted[joint] = value
        zeros = np.zeros(tree.n)
        finite = pair.step(drawn_states(tree, rng), wanted, zeros, ramp, zeros, 1e-3, fallback)
        assert not (finite and math.isnan(value))
        one, other = pair.contents()
        assert one == other
        assert np.isfinite(pair.commands[0]).all()
        assert (np.abs(pair.commands[0]) <= pair.limiters[0].limits).all()


def test_what_was_not_finite_leaves_no_trace_in_limiter_and_guard(tree):
    pair, zeros = Pair(tree), np.zeros(tree.n)
    limiter, guard = pair.limiters[0], pair.guards[0]
    before = limiter.state.copy(), guard.active.copy()
    pair.states[:] = drawn_states(tree, np.random.default_rng(7))
    pair.efforts[0] = math.nan
    assert not pair.shell.run(1.0, zeros, 1e-3, pair.commands[0])
    np.testing.assert_array_equal(limiter.state, before[0])
    np.testing.assert_array_equal(guard.active, before[1])
    assert limiter.ticks == 0


def test_changed_parameters_act_at_once_and_compile_nothing(monkeypatch):
    """Twice the natural frequency gives four times the feedback."""
    tree = sample('scara').tree
    kernels = compile_kernel(tree)
    law = ComputedTorque(tree, kernels, natural_frequency=[5.0], friction_compensation=False)

    def refuse(*_, **__):
        raise AssertionError('something is traced')

    monkeypatch.setattr('robot_dynamics_ros.symbolic.kernel.trace_function', refuse)
    q, still, reference = np.array([0.2, 0.5, 0.1, 0.3]), np.zeros(4), Reference(4)
    reference.position[:] = q + 0.01
    found = []
    for frequency in (5.0, 10.0):
        law.set_parameters({'natural_frequency': [frequency], 'period': 0.0})
        out, gravity = np.zeros(4), np.zeros(4)
        law.effort(0.0, q, still, reference, out)
        kernels.gravity_forces(q, gravity)
        found.append(out - gravity)
    np.testing.assert_allclose(found[1], 4.0 * found[0], rtol=1e-12)  # rounding of a sum
