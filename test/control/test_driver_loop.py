# SPDX-License-Identifier: Apache-2.0
"""The loop with a driver that compensates some terms, with reduced limits, and holding.

Oracle of gravity: Pinocchio, built from the URDF text.
"""

from __future__ import annotations

import numpy as np
import pinocchio
import pytest
from samples import sample

from robot_dynamics_ros.control.drivers.driver_interface import DriverInterface
from robot_dynamics_ros.control.drivers.profile import load_driver_profile
from robot_dynamics_ros.control.laws.registry import make_law
from robot_dynamics_ros.control.loop import ControlLoop
from robot_dynamics_ros.control.settings import LoopSettings
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.symbolic.kernel import compile_kernel

PERIOD_NS = 1_000_000
TREE = sample('four_dof').tree
PLACE = np.array([0.2, -1.0, -0.4, 0.6])
SPEED = np.array([0.3, -0.2, 0.4, 0.1])
STILL = np.zeros(4)
KERNELS = compile_kernel(TREE)


def gravity(q=PLACE) -> np.ndarray:
    model = pinocchio.buildModelFromXML(sample('four_dof').xml)
    return pinocchio.computeGeneralizedGravity(model, model.createData(), q)


def friction(v) -> np.ndarray:
    return TREE.damping * v + TREE.coulomb_friction * np.tanh(v / 1e-3)


class Run:
    """A loop with prescribed states."""

    def __init__(self, law='computed_torque', terms=(), parameters=None, **settings) -> None:
        profile = load_driver_profile({'name': 'own', 'compensated_by_driver': [*terms]})
        driver = DriverInterface(profile, TREE)
        driver.compensate(KERNELS.gravity_forces, KERNELS.gravity_forces)
        chosen = LoopSettings(**{'activation_ramp_s': 0.0, **settings})
        made = make_law(law, TREE, KERNELS, **(parameters or {}))
        self.loop = ControlLoop(TREE, KERNELS, made, chosen, driver=driver)
        self.stamp, self.started = 0, False

    def echo(self) -> np.ndarray:
        """Tick at the position and velocity of the reference."""
        reference = self.loop.reference
        return self.tick(reference.position.copy(), reference.velocity.copy())

    def tick(self, q=PLACE, v=STILL) -> np.ndarray:
        self.stamp += PERIOD_NS
        self.loop.observe(self.stamp, q, v)
        if not self.started:
            self.loop.start()
            self.started = True
        self.loop.tick()
        return self.loop.effort.copy()

    def drift(self, q) -> None:
        """Move the arm there in half a second; a state that jumps is rejected."""
        for share in np.linspace(0.0, 1.0, 501):
            self.tick(PLACE + share * (q - PLACE), (q - PLACE) / 0.5)


# Terms compensated by the driver ---------------------------------------------------------------


@pytest.mark.parametrize(
    ('terms', 'share'),
    [
        (('gravity',), gravity()),
        (('friction',), friction(SPEED)),
        (('gravity', 'friction'), gravity() + friction(SPEED)),
    ],
)
@pytest.mark.parametrize('law', ['computed_torque', 'pd_gravity', 'gravity_compensation'])
def test_exactly_what_the_driver_compensates_is_subtracted_at_the_state_of_the_tick(
    law, terms, share
):
    alone, shared = Run(law), Run(law, terms)
    for run in (alone, shared):
        run.tick()
    # At rest first, then moving: the subtracted terms are those of the same tick.
    found = shared.tick(PLACE, SPEED) - alone.tick(PLACE, SPEED)
    np.testing.assert_allclose(found, -share, atol=1e-10)


def test_activation_begins_with_gravity_less_the_share_of_the_driver():
    run = Run('pd_gravity', terms=('gravity',), activation_ramp_s=1.0)
    np.testing.assert_allclose(run.tick(), STILL, atol=1e-12)
    alone = Run('pd_gravity', activation_ramp_s=1.0)
    np.testing.assert_allclose(alone.tick(), gravity(), atol=1e-12)


@pytest.mark.parametrize(
    ('action', 'expected'), [('zero', STILL), ('gravity', STILL), ('damping', STILL)]
)
def test_a_stop_leaves_gravity_to_a_driver_that_compensates_it(action, expected):
    """The command is zero, not the effort of the motors: the driver keeps holding the arm."""
    run = Run(terms=('gravity',), stop_action=action)
    run.tick()
    for final in (False, True):
        run.loop.tick_without_state(final=final)
        np.testing.assert_allclose(run.loop.effort, expected, atol=1e-12)


def test_a_stop_does_not_take_an_old_velocity_for_friction():
    run = Run(terms=('friction',), stop_action='gravity')
    run.tick(PLACE, SPEED)
    run.loop.tick_without_state()
    np.testing.assert_allclose(run.loop.effort, gravity(), atol=1e-10)


def test_a_change_of_law_is_blended_in_what_the_motors_give():
    run = Run(terms=('gravity',), activation_ramp_s=1.0)
    away = PLACE + 0.05
    run.tick()
    run.drift(away)
    for _ in range(600):
        pulling = run.tick(away)
    assert np.abs(pulling).max() > 0.5
    run.loop.replace(run.loop.law, make_law('gravity_compensation', TREE, KERNELS))
    np.testing.assert_allclose(run.tick(away), pulling, atol=1e-4 * np.abs(pulling).max())
    for half in (0.5, 0.0):  # of the ramp; of the law that held the arm nothing is left then
        for _ in range(500):
            found = run.tick(away)
        # Of a smooth step in the middle a millisecond is 0.15 %.
        np.testing.assert_allclose(found, half * pulling, atol=2e-3 * np.abs(pulling).max())


def test_what_is_not_finite_falls_back_to_the_stop_action_less_the_share():
    run = Run(terms=('gravity',), stop_action='gravity')
    run.tick()
    run.loop.law.effort = lambda t, q, v, reference, out: out.fill(np.nan)
    np.testing.assert_allclose(run.tick(), STILL, atol=1e-12)
    assert run.loop.limiter.non_finite.all()


# Part of the limits ----------------------------------------------------------------------------


@pytest.mark.parametrize('scale', [0.0, -0.1, 1.1, float('nan')])
def test_an_effort_scale_outside_of_0_to_1_is_refused(scale):
    with pytest.raises(ParameterError, match='effort_scale = .* a finite number from 0.01 to 1'):
        Run(effort_scale=scale)


# Holding ---------------------------------------------------------------------------------------


def test_a_hold_near_a_joint_limit_does_not_leave_it():
    run = Run()
    place = np.array([0.0, -1.0, -0.4, TREE.position_upper[3] - 0.02])
    run.tick(place)
    goal = place.copy()
    goal[3] = TREE.position_upper[3]
    run.loop.generator.follow(np.array([0.05]), goal[None], np.zeros((1, 4)), None)
    for _ in range(40):
        run.tick(place)
    run.loop.hold()
    for _ in range(300):
        run.tick(place)
        assert run.loop.reference.position[3] <= TREE.position_upper[3] + 1e-12


def test_progress_counts_from_the_start_of_a_trajectory_and_is_negative_before():
    run = Run()
    run.tick()
    start = run.stamp + 500 * PERIOD_NS
    run.loop.generator.follow(np.array([1.0]), PLACE[None] + 0.1, np.zeros((1, 4)), None, start)
    run.tick()
    assert run.loop.generator.progress == pytest.approx((-0.499, 1.0))
    assert run.loop.generator.moving
    for _ in range(700):
        run.tick()
    assert run.loop.generator.progress == pytest.approx((0.201, 1.0))
