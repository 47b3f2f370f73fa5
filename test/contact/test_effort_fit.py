# SPDX-License-Identifier: Apache-2.0
"""The fit of measured efforts to the model, with synthetic efforts."""

from __future__ import annotations

import numpy as np
import pytest

from robot_dynamics_ros.contact.calibration import FitSamples
from robot_dynamics_ros.contact.observer import update_direction
from robot_dynamics_ros.errors import RecordingError

N, STEP, DELTA = 2, 0.01, 8e-4
COUPLING = np.array([[0.09, 0.004], [-0.002, 0.11]])  # A by N m
VISCOUS, DRY, LOADED, OFFSET = 0.8, 1.5, 0.004, 0.1  # A


def test_the_direction_of_friction_follows_the_way_as_fine_steps_of_the_equation_do(rng):
    z, expected = np.zeros(N), np.zeros(N)
    for way in rng.normal(size=(20, N)) * DELTA:
        update_direction(z, way, DELTA)
        for _ in range(2000):
            expected += (np.sign(way) - expected) * np.abs(way / 2000) / DELTA
        np.testing.assert_allclose(z, expected, atol=3e-3)  # Euler: (way / delta)^2 / 4000


def motion(seconds, rng):
    """Yield step, way, model, a, v, effort and share of two joints that reverse often."""
    t = np.arange(0.0, seconds, STEP)[:, np.newaxis]
    size, w = np.array([0.4, 0.5]), np.array([2.0, 3.1])
    q, v = size * np.sin(w * t), size * w * np.cos(w * t)
    z = np.zeros(N)
    model = np.array([60.0, 25.0]) * np.cos(q[:, ::-1]) + rng.normal(size=q.shape)
    smooth = model @ COUPLING.T + VISCOUS * v + OFFSET
    for k in range(1, len(t)):
        update_direction(z, q[k] - q[k - 1], DELTA)
        effort, share = smooth[k] + (DRY + LOADED * np.abs(model[k])) * z, np.full(N, 0.2)
        yield (STEP, q[k] - q[k - 1], model[k], -w * w * q[k], v[k], effort, share), z.copy()


def test_the_fit_finds_what_efforts_were_made_of(rng):
    samples = FitSamples()
    rows = list(motion(20.0, rng))
    for row, _ in rows:
        samples.take(*row)
    fit = samples.fit()
    np.testing.assert_array_equal(fit.delta, DELTA)
    np.testing.assert_allclose(fit.coupling, COUPLING, atol=1e-4)  # bias of the ridge
    np.testing.assert_allclose(fit.terms[1], VISCOUS, rtol=0.02)
    for part in samples.held_out():
        for (_, _, model, a, v, effort, _), z in rows[::100]:
            external = part.external(model, a, v, z, effort)
            np.testing.assert_allclose(external, 0.0, atol=0.2)  # N m, of friction of 17


def of_recordings(seconds, rng, damping=(0.0, 0.5)):
    """Return the samples of two recordings whose second arm is damped more by as much."""
    samples = FitSamples()
    for more in damping:
        samples.next_recording()
        for (*row, v, effort, share), _ in motion(seconds, rng):
            samples.take(*row, v, effort + more * v, share)
    return samples


def test_a_recording_is_judged_by_what_the_others_say(rng):
    samples = of_recordings(21.0, rng)
    both = np.array([fit.terms[1] for fit in samples.held_out()])
    expected = np.tile([[VISCOUS + 0.5], [VISCOUS]], N)  # of the other one
    np.testing.assert_allclose(both, expected, rtol=0.05)  # a block in the middle is of both
    half = samples.count // 2
    np.testing.assert_array_equal(samples.part(np.array([0, half - 1, half])), [0, 0, 1])


def test_brief_recordings_are_held_out_in_parts(rng):
    assert len(of_recordings(10.0, rng).held_out()) == 4  # as one of 20 s


def test_too_few_samples_are_refused(rng):
    samples = FitSamples()
    for row, _ in motion(1.0, rng):
        samples.take(*row)
    with pytest.raises(RecordingError, match='give at least 300'):
        samples.fit()
