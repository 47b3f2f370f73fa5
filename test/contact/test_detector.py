# SPDX-License-Identifier: Apache-2.0
"""Signals of the contact detector by the formulas of its module, and what it tells of them."""

import numpy as np
import pytest
import yaml
from numpy.testing import assert_allclose
from samples import sample

from robot_dynamics_ros.contact.detector import ContactDetector, ContactThresholds
from robot_dynamics_ros.contact.observer import MomentumObserver
from robot_dynamics_ros.symbolic.kernel import compile_kernel


@pytest.mark.parametrize(('omega', 'slow'), [(2.0, 0.02), (8.0, 0.01)])  # described, identified
def test_efforts_and_dead_bands_are_those_of_the_formulas(omega, slow, rng):
    """Also of a joint without a velocity limit, and after a new beginning."""
    tree = sample('four_dof').tree
    tree = tree.with_changes(velocity_limit=np.array([2.5, np.inf, 2.5, 3.5]))
    if omega == 8.0:
        drives = {'offset': np.zeros(4), 'stribeck_velocity': np.ones(4)}
        tree = tree.with_changes(drive_friction=drives)
    kernels, n = compile_kernel(tree), tree.n
    observer = MomentumObserver(tree, kernels.inverse_dynamics)
    coefficients = rng.uniform(0.1, 1.0, (2, n, 4))
    thresholds = ContactThresholds(coefficients, np.zeros(n))
    detector = ContactDetector(tree, kernels.gravity_forces, observer, thresholds)
    gravity, slow_speed = np.zeros(n), slow * np.array([2.5, 2.0, 2.5, 3.5])
    for _ in range(2):
        state = np.zeros((2, n))
        detector.begin(*state)
        smooth, pushed, load, speed = np.zeros((4, n))
        uncertain, time = tree.coulomb_friction, 0.0
        history = [(-np.inf, np.column_stack([np.ones(n), 0 * load, 0 * load, uncertain]))]
        for step in rng.uniform(2e-3, 8e-3, 200):
            state = state + [[0.01], [1.0]] * rng.normal(size=(2, n))
            observer.update(step, *state, rng.normal(size=n))
            detector.update(step)
            smooth += (1 - np.exp(-1.5 * step * 200.0)) * (observer.effort - smooth)
            pushed += (1 - np.exp(-omega * step)) * (smooth - pushed)
            kernels.gravity_forces(observer.q, gravity)
            load += observer.gain * (observer.model - gravity - load)
            speed += observer.gain * (observer.v - speed)
            certain = 1.0 / (1.0 + (speed / slow_speed) ** 2)
            fresh = observer.breakaway * np.maximum(certain, 0.2)
            uncertain = np.maximum(fresh, np.exp(-omega * step) * uncertain)
            time += step
            growth = np.column_stack([np.ones(n), np.abs(speed), np.abs(load), uncertain])
            history.append((time, growth))
            growth = [seen for then, seen in history if then <= time - 0.025][-1]
            bands = np.array([smooth - pushed, pushed])
            assert_allclose(detector.bands, bands, atol=1e-12)
            assert_allclose(detector.growth, growth, atol=1e-12)
            allowed = np.einsum('kjc,jc->kj', coefficients, growth)
            assert_allclose(detector.ratio, np.abs(bands) / allowed, rtol=1e-9)


def felt(name, *parts):
    """Return the contacts of an arm at rest, and whether one is active at the end.

    Args:
        name: Sample of the robot, without friction.
        parts: Durations, s, with external efforts, in dead bands, constant or up to the second; 0
            for a new beginning.
    """
    tree = sample(name).tree
    tree = tree.with_changes(coulomb_friction=np.zeros(tree.n))
    kernels, rest = compile_kernel(tree), np.zeros((2, tree.n))
    observer = MomentumObserver(tree, kernels.inverse_dynamics)
    coarse = ContactThresholds.coarse(tree)
    detector = ContactDetector(tree, kernels.gravity_forces, observer, coarse)
    detector.begin(*rest)
    kernels.gravity_forces(rest[0], observer.model)
    found = []
    for seconds, first, *last in parts:
        if not seconds:
            detector.begin(*rest)
        for effort in np.linspace(
            *map(np.array, (first, *(last or [first]))), round(1e3 * seconds)
        ):
            observer.effort[:] = 0.1 * tree.effort_limit * effort
            found += filter(None, [detector.update(1e-3)])
    told = [f'{one.kind} on {one.link} {one.direction:+d} at {one.joint}' for one in found]
    assert detector.count == len(told)
    return told, detector.in_contact


#: Robot, parts, contacts as they are told last, and whether one lasts. In dead bands: a step of 10
#: has a slow part of 1 after 53 ms, a fast part below 3 after 0.6 s; a step of 100 has both at
#: once, so it stays a hit. A pulse of 30 ms and 15 leaves 0.9 of a fast part for some 0.3 s.
FELT = yaml.safe_load("""
a ramp is a push: [[[3.0, [0, 0, 0, 0], [0, 3, 0, 0]]], [&push push on link2 +1 at joint2], true]
a hit that lasts becomes one: [[[1.5, [0, 10, 0, 0]]], [*push], true]
its end is a hit: [[[1.5, [0, -10, 0, 0]], [0.3, [0, 0, 0, 0]]],
                   [push on link2 -1 at joint2, &hit hit on link2 +1 at joint2], true]
a hard one: [[[0.05, [0, 100, 0, 0]]], [*hit], true]
a pulse: [[&pulse [0.03, [0, 15, 0, 0]], [0.2, [0, 0, 0, 0]]], [*hit], false]
a small one after it: [[*pulse, [3.0, [0, 0, 0, 0]], [0.15, [0, 0, 1.2, 0]]],
                       [*hit, hit on link3 +1 at joint3], true]
a joint inside: [[[0.05, [6, 5, 0, 0]]], [hit on link2 +1 at joint1], true]
a share of a band: [[[0.05, [0, 3.5, 0.5, 0]]], [hit on link3 +1 at joint2], true]
a small share of ratios: [[[0.05, [0, 10, 0.8, 0]]], [*hit], true]
a small share of efforts: [[[0.05, [0, 10, 0, 1.5]]], [*hit], true]
a joint 4 ms later: [[[0.004, [0, 10, 0, 0]], [0.04, [0, 10, 10, 0]]],
                     [hit on link3 +1 at joint2], true]
a joint 20 ms later: [[[0.02, [0, 10, 0, 0]], [0.02, [0, 10, 10, 0]]], [*hit], true]
a gap after it: [[[0.004, [0, 10, 10, 0]], [0, []], [0.02, [0, 0, 0, 0]]],
                 [hit on link3 +1 at joint2], false]
a gap in it: [[[0.05, [0, 100, 0, 0]], [0, []], [0.002, [0, 4, 0, 0]]], [*hit], false]
a branch: [[[0.05, [0, 0, 5, 0, 0, 5]]], [hit on left_lower +1 at left_slide], true]
""")


@pytest.mark.parametrize('kind', FELT)
def test_a_contact_is_told_once_with_its_kind_direction_and_link(kind):
    parts, told, lasts = FELT[kind]
    assert felt('branched' if kind == 'a branch' else 'four_dof', *parts) == (told, lasts)
