# SPDX-License-Identifier: Apache-2.0
"""Stability of sampled, delayed feedback.

Oracle: the loop itself, simulated in time, with the plant integrated in small steps and a queue of
delayed efforts. Where a small deviation grows, the loop is unstable.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from samples import sample

from robot_dynamics_ros.control.laws.control_law import ControlLaw
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.dynamics.sampled_loop import (
    GAIN_MARGIN,
    FeedbackLoop,
    Sampling,
    fastest_frequency,
    largest_damping,
    largest_ratio,
    scalar_loop,
    spectral_radius,
)
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.parameters import Parameter

H = 1e-3
SUBSTEPS = 8


def growth(loop: FeedbackLoop, sampling: Sampling, periods: int = 600) -> float:
    """Return the growth of the loop's deviation per period, from its last two thirds."""
    rng, k = np.random.default_rng(0), len(loop.mass)
    inverse, K_e = np.linalg.inv(loop.mass), np.zeros((k, k))
    if loop.environment is not None:
        K_e = loop.environment
    x, v = rng.normal(size=(2, k))
    v *= 1.0 / H
    before_x, filtered, before_v = x.copy(), v.copy(), v.copy()
    commanded, total, sizes = np.zeros(k), np.zeros(k), []
    kind, delay = sampling.discretization, sampling.delay
    queue = [np.zeros(k)] * (math.ceil(delay) + 1)
    scale = math.sqrt(float(np.abs(inverse @ (loop.stiffness + K_e)).max())) or 1.0 / H
    damping = loop.damping + (0.0 if loop.friction is None else loop.friction)
    log = 0.0
    for _ in range(periods):
        y = v
        if sampling.velocity_cutoff_hz:
            decay = math.exp(-2.0 * math.pi * sampling.velocity_cutoff_hz * H)
            filtered = decay * filtered + (1.0 - decay) * (x - before_x) / H
            y = filtered
        before_x = x.copy()
        a = {'none': 0.0 * x, 'measured': (y - before_v) / H, 'commanded': commanded}
        a, before_v = a[loop.prediction], y.copy()
        ahead = 0.5 * H if kind == 'zero_order' and loop.prediction != 'none' else 0.0
        lead = 0.5 * H if kind != 'continuous' and loop.prediction != 'none' else 0.0
        seen = x + ahead * y + 0.5 * ahead**2 * a
        u = -loop.stiffness @ seen - damping @ (y + lead * a)
        if loop.integral is not None:
            total = total + H * x
            u = u - loop.integral @ total
        commanded = inverse @ u
        queue = [*queue[1:], u]  # the last acts ``delay`` periods after its state
        late = math.ceil(delay) - delay
        parts = [(1.0 - late, queue[0]), (late, queue[min(1, len(queue) - 1)])]
        if kind == 'semi_implicit':
            v = v + H * inverse @ (sum(part * effort for part, effort in parts) - K_e @ x)
            x = x + H * v
        else:
            for part, effort in parts:
                h = part * H / SUBSTEPS
                for _ in range(SUBSTEPS if h else 0):  # velocity Verlet
                    a_0 = inverse @ (effort - K_e @ x)
                    x = x + h * v + 0.5 * h * h * a_0
                    v = v + 0.5 * h * (a_0 + inverse @ (effort - K_e @ x))
        size = math.sqrt(float(scale**2 * x @ x + v @ v))
        log += math.log(size)
        sizes.append(log)
        size = max(size, 1e-300)
        x, v, total, commanded = x / size, v / size, total / size, commanded / size
        before_x, before_v = before_x / size, before_v / size
        filtered = filtered / size if sampling.velocity_cutoff_hz else x
        queue = [one / size for one in queue]
    third = periods // 3
    return (sizes[-1] - sizes[third]) / (periods - 1 - third)


def random_loop(rng, size: int) -> tuple[FeedbackLoop, Sampling]:
    root = rng.normal(size=(size, size))
    M = root @ root.T + 0.3 * np.eye(size)
    w = rng.uniform(0.02, 0.6) / H
    K, D = np.diag(rng.uniform(0.2, 1.0, size)) * w * w, rng.uniform(0.2, 1.2) * w * np.eye(size)
    extra = {}
    if rng.random() < 0.3:
        extra['environment'] = np.diag(rng.uniform(0.0, 0.5, size)) / H**2
    if rng.random() < 0.3:
        extra['integral'] = 0.1 * w * K
    if rng.random() < 0.3:
        extra['friction'] = 0.3 * D
    prediction = str(rng.choice(['none', 'measured', 'commanded']))
    sampling = Sampling(
        H,
        str(rng.choice(['semi_implicit', 'zero_order', 'continuous'])),
        float(rng.choice([0.0, 0.5, 1.0, 1.7, 2.0, 3.0])),
        float(rng.choice([0.0, 0.0, 60.0])),
    )
    return FeedbackLoop('x', M, K, D, prediction, **extra), sampling


@pytest.mark.slow
def test_the_radius_is_the_growth_of_the_simulated_loop(rng):
    """Logarithms agree within the averaging over some thousand periods."""
    grows = 0
    for _ in range(30):
        loop, sampling = random_loop(rng, int(rng.integers(1, 4)))
        expected = growth(loop, sampling)
        grows += expected > 0.0
        assert math.log(spectral_radius(loop, sampling)) == pytest.approx(expected, abs=4e-3)
    assert 5 < grows < 25


@pytest.mark.parametrize('delay', [0, 1, 2, 3, 7])
def test_the_largest_damping_is_that_of_the_closed_form(delay):
    r"""v_{k+1} = v_k - x v_{k-d} is stable for x < 2 sin(pi / (2 (2 d + 1)))."""
    expected = 2.0 * math.sin(math.pi / (2 * (2 * delay + 1))) / H
    found = largest_damping(Sampling(H, 'zero_order', delay))
    assert GAIN_MARGIN * found == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize('prediction', ['none', 'measured', 'commanded'])
@pytest.mark.parametrize('delay', [0, 1, 3])
@pytest.mark.parametrize('kind', ['semi_implicit', 'zero_order'])
def test_below_the_fastest_frequency_the_loop_decays_and_beyond_it_grows(kind, delay, prediction):
    """With the margin of the gains, on either plant where the law does not predict."""
    sampling = Sampling(H, kind, delay)
    w = fastest_frequency(sampling, 0.7, prediction)
    plants = [kind] if prediction != 'none' else ['semi_implicit', 'zero_order']
    for share, decays in ((0.97, True), (1.03, False)):
        loop = scalar_loop('x', share * w, 0.7, prediction)
        firm = loop._replace(
            stiffness=GAIN_MARGIN * loop.stiffness, damping=GAIN_MARGIN * loop.damping
        )
        radii = [spectral_radius(firm, sampling._replace(discretization=x)) for x in plants]
        assert (max(radii) < 1.0) == decays


def test_a_continuous_loop_is_always_stable_and_without_damping_a_delayed_one_never():
    assert scalar_loop('x', 1e6, 0.0).is_stable(Sampling(0.0))
    assert fastest_frequency(Sampling(0.0), 0.7, 'none') == math.inf
    assert fastest_frequency(Sampling(H, 'semi_implicit', 1.0), 0.0, 'measured') == 0.0


def test_all_smaller_ratios_are_stable_too():
    assert largest_ratio(lambda x: x < 0.2 or x > 0.5) == pytest.approx(0.2, rel=2e-3)
    assert largest_ratio(lambda x: True) == 1.0
    for least in np.geomspace(1e-12, 0.1, 200):  # the search ends whatever the rounding
        assert largest_ratio(lambda x: False, least) == 0.0


class Damper(ControlLaw):
    """A law of another package: damping only, without parameters of the sampling."""

    name = 'damper'
    declared = (Parameter('damper', 1.0, 'Damping of every joint.', 0.0),)

    def __init__(self, tree, kernels=None, **parameters):
        super().__init__(tree)
        self.set_parameters(parameters)

    def effort(self, t, q, v, reference, out):
        np.multiply(v, -self.parameters['damper'], out=out)

    def feedback_loops(self, q):
        mass = np.eye(self.tree.n)
        yield FeedbackLoop('damper', mass, 0.0 * mass, self.parameters['damper'] * mass)


def test_a_law_without_a_period_is_sampled_by_the_loop():
    """Only the loop knows its period; explicit Euler bears h D <= 2, less a tenth."""
    tree = sample('scara').tree
    law = Damper(tree, damper=1e4)
    session = ControllerSession(tree, {'period': H, 'delay': 0.0})
    session.loop.replace(session.loop.law, law)
    session.update(session.driver.state(0, 0, tree.middle, np.zeros(tree.n)))
    with pytest.raises(ParameterError, match=r'unstable at a period of 0\.001 s; .* 1\.82e\+03'):
        session.activate(0)
    law.set_parameters({'damper': 1.8e3})
    session.activate(0)
