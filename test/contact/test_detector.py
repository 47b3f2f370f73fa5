# SPDX-License-Identifier: Apache-2.0
"""Signals of the contact detector, against the formulas of its module in plain numpy."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose
from samples import sample

from robot_dynamics_ros.contact.detector import ContactDetector, ContactThresholds
from robot_dynamics_ros.contact.observer import MomentumObserver
from robot_dynamics_ros.symbolic.kernel import compile_kernel


def test_efforts_and_dead_bands_are_those_of_the_formulas(rng):
    tree = sample('four_dof').tree
    kernels, n = compile_kernel(tree), tree.n
    observer = MomentumObserver(tree, kernels.inverse_dynamics)
    coefficients = rng.uniform(0.1, 1.0, (2, n, 4))
    thresholds = ContactThresholds(coefficients, np.zeros(n))
    detector = ContactDetector(tree, kernels.gravity_forces, observer, thresholds)
    state, gravity = np.zeros((2, n)), np.zeros(n)
    detector.begin(*state)
    smooth, slow, load, speed = np.zeros((4, n))
    uncertain, time = observer.breakaway.copy(), 0.0
    history = [(-np.inf, np.column_stack([np.ones(n), 0 * load, 0 * load, uncertain]))]
    for step in rng.uniform(2e-3, 8e-3, 400):
        state = state + [[0.01], [1.0]] * rng.normal(size=(2, n))
        observer.update(step, *state, rng.normal(size=n))
        detector.update(step)
        smooth += (1 - np.exp(-1.5 * step * 200.0)) * (observer.effort - smooth)
        slow += (1 - np.exp(-2.0 * step)) * (smooth - slow)
        kernels.gravity_forces(observer.q, gravity)
        load += observer.gain * (observer.model - gravity - load)
        speed += observer.gain * (observer.v - speed)
        certain = 1.0 / (1.0 + (speed / (0.02 * tree.velocity_limit)) ** 2)
        fresh = observer.breakaway * np.maximum(certain, 0.2)
        uncertain = np.maximum(fresh, np.exp(-2.0 * step) * uncertain)
        time += step
        growth = np.column_stack([np.ones(n), np.abs(speed), np.abs(load), uncertain])
        history.append((time, growth))
        growth = [seen for then, seen in history if then <= time - 0.025][-1]
        bands = np.array([smooth - slow, slow])
        assert_allclose(detector.bands, bands, atol=1e-12)
        assert_allclose(detector.growth, growth, atol=1e-12)
        allowed = np.einsum('kjc,jc->kj', coefficients, growth)
        assert_allclose(detector.ratio, np.abs(bands) / allowed, rtol=1e-9)
