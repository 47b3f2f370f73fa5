# SPDX-License-Identifier: Apache-2.0
"""Stability of sampled, delayed feedback.

Oracle: the loop itself, simulated for a period, with the plant integrated in small steps and a
queue of delayed efforts. Where a small deviation grows, the loop is unstable.
"""

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
SUBSTEPS = 64


def after_a_period(loop: FeedbackLoop, sampling: Sampling, state: np.ndarray) -> np.ndarray:
    """Return x, v, filtered velocity, last x and v, acceleration, integral and late efforts."""
    k, kind = len(loop.mass), sampling.discretization
    x, v, filtered, last_x, last_v, commanded, total, *queue = state.reshape(-1, k)
    inverse, predicts = np.linalg.inv(loop.mass), loop.prediction != 'none'
    K_e = np.zeros((k, k)) if loop.environment is None else loop.environment
    y = v
    if sampling.velocity_cutoff_hz:
        decay = math.exp(-2.0 * math.pi * sampling.velocity_cutoff_hz * H)
        y = filtered = decay * filtered + (1.0 - decay) * (x - last_x) / H
    a = {'none': 0.0 * x, 'measured': (y - last_v) / H, 'commanded': commanded}[loop.prediction]
    ahead = 0.5 * H * (kind == 'zero_order' and predicts)
    lead = 0.5 * H * (kind != 'continuous' and predicts)
    damping = loop.damping + (0.0 if loop.friction is None else loop.friction)
    u = -loop.stiffness @ (x + ahead * y + 0.5 * ahead**2 * a) - damping @ (y + lead * a)
    if loop.integral is not None:
        total = total + H * x
        u = u - loop.integral @ total
    memory, commanded = (filtered, x, y), inverse @ u
    queue = [*queue[1:], u]  # the last acts ``delay`` periods after its state
    late = math.ceil(sampling.delay) - sampling.delay
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
    return np.concatenate([x, v, *memory, commanded, total, *queue])


def growth(loop: FeedbackLoop, sampling: Sampling) -> float:
    """Return the growth of the loop's slowest deviation in a period."""
    k = len(loop.mass)
    size = k * (7 + math.ceil(sampling.delay) + 1)
    used = np.ones(size, bool)  # what is not in use keeps its value
    used[2 * k : 3 * k] = sampling.velocity_cutoff_hz
    used[6 * k : 7 * k] = loop.integral is not None
    columns = np.transpose([after_a_period(loop, sampling, z) for z in np.eye(size)[used]])[used]
    return float(np.abs(np.linalg.eigvals(columns)).max())


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


def test_the_radius_is_the_growth_of_the_simulated_loop(rng):
    grows = 0
    for _ in range(30):
        loop, sampling = random_loop(rng, int(rng.integers(1, 4)))
        expected = growth(loop, sampling)
        grows += expected > 1.0
        # Velocity Verlet in an environment; else rounding.
        tolerance = 1e-10 if loop.environment is None else 1e-4
        assert spectral_radius(loop, sampling) == pytest.approx(expected, abs=tolerance)
    assert 5 < grows < 25


@pytest.mark.parametrize('delay', [0, 1, 7])
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
