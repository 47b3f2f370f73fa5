# SPDX-License-Identifier: Apache-2.0
"""Every trajectory: consistent derivatives, rest outside its span, no allocation."""

import math
import tracemalloc
from functools import cache

import numpy as np
import pytest
from samples import shipped

from robot_dynamics_ros.constraints.curves import Circle, Line
from robot_dynamics_ros.control.trajectories.spline import JointWaypoints, Points
from robot_dynamics_ros.control.trajectories.trajectory import Hold, Reference
from robot_dynamics_ros.kinematics.tool_task import FourDofTask, ScaraTask
from robot_dynamics_ros.planning.motions import (
    Fourier,
    Quintic,
    Sine,
    ToolPath,
    WavyCurve,
)
from robot_dynamics_ros.planning.trajectory_plan import ApproachedMotion


def start_state():
    state = Reference(3)
    state.position[:] = 0.1, -0.4, 0.7
    state.velocity[:] = 0.3, 0.0, -0.2
    state.acceleration[:] = 0.0, 0.5, 0.0
    return state


def waypoints(seed, times, count):
    """Random positions and, by their count, rates and accelerations; at rest in the end."""
    rows = np.random.default_rng(seed).uniform(-1.0, 1.0, (count, len(times), 3))
    rows[0, -1], rows[1:, -1] = [0.2, 0.1, 0.0], 0.0
    return JointWaypoints(Points(np.array(times), *rows), start_state())


def linear_waypoints():
    positions = np.array([[0.0, 1.0], [1.0, 1.0], [0.3, -0.5]])
    return JointWaypoints(Points(np.array([0.0, 0.5, 2.0]), positions))


@cache
def scara_path():
    task = ScaraTask(shipped('scara').tree, yaw=0.3)
    circle = WavyCurve(Circle([0.4, 0.0, 0.25], 0.1, laps=1), [0, 0, 1], 0.05, 3)
    return ToolPath(task, circle, speed=0.4, ramp=0.4, near=[0.3, 1.0, 0.1, 0.0])


@cache
def four_dof_path():
    task = FourDofTask(shipped('four_dof', limits_profile='wide').tree, pitch=-0.3)
    line = Line([0.35, -0.15, 0.35], [0.25, 0.15, 0.5])
    return ToolPath(task, line, speed=0.3, ramp=0.5, near=[0.0, -1.5, 0.8, 0.3])


def approached():
    there = Quintic([0.0, 0.5], [1.0, -0.5], 0.8)
    return ApproachedMotion(there, Sine([1.0, -0.5], 0.2, 1.0, ramp=0.3, duration=1.0), 0.5)


def fourier():
    # sum of l s_l = 0 and sum of l^2 k_l = 0 in every row.
    sine = [[0.3, -0.3, 0.1], [0.1, 0.1, -0.1]]
    cosine = [[0.4, 0.125, -0.1], [-0.5, 0.35, -0.1]]
    return Fourier([0.2, -0.4], sine, cosine, period=2.0, periods=2)


TRAJECTORIES = {
    'hold': lambda: Hold([0.3, -1.0]),
    'quintic': lambda: Quintic([0.0, 1.0], [0.5, -2.0], 1.7),
    'sine': lambda: Sine([0.1, 0.2], [0.5, 0.3], [0.8, 1.3], [0.4, -1.0], 0.5, 3.0),
    'endless_sine': lambda: Sine([0.1, 0.2], [0.5, 0.3], [0.8, 1.3]),
    'fourier': fourier,
    'approached': approached,
    'scara_circle': scara_path,
    'four_dof_line': four_dof_path,
    'quintic_waypoints': lambda: waypoints(5, [0.7, 1.1, 1.9, 2.5], 3),
    'cubic_waypoints': lambda: waypoints(6, [0.5, 1.3, 2.0], 2),
    'linear_waypoints': linear_waypoints,
}
#: Those whose position has two continuous derivatives for all times.
SMOOTH = [
    'hold', 'quintic', 'sine', 'endless_sine', 'fourier', 'approached', 'scara_circle',
    'four_dof_line',
]  # fmt: skip


@pytest.fixture(params=TRAJECTORIES)
def trajectory(request):
    return TRAJECTORIES[request.param]()


def state(trajectory, t):
    r = Reference(trajectory.n)
    trajectory.sample(t, r)
    return r.position, r.velocity, r.acceleration


def end_of(trajectory):
    return min(trajectory.duration, 4.0)


def test_velocity_and_acceleration_are_the_derivatives_of_position(trajectory):
    h = 1e-5
    rng = np.random.default_rng(0)
    for t in rng.uniform(0.01, max(0.02, end_of(trajectory) - 0.01), 40):
        before, now, after = (state(trajectory, t + s) for s in (-h, 0.0, h))
        # Central differences: truncation h^2 f'''/6 < 1e-8 for the jerks here (< 400),
        # rounding 1e-16 / h = 1e-11.
        np.testing.assert_allclose((after[0] - before[0]) / (2 * h), now[1], atol=1e-7)
        np.testing.assert_allclose((after[1] - before[1]) / (2 * h), now[2], atol=1e-6)


def test_it_rests_before_the_start_and_after_the_end(trajectory):
    first = state(trajectory, 0.0)[0]
    times = [(-5.0, first), (-1e-9, first)]
    if math.isfinite(trajectory.duration):
        last = state(trajectory, trajectory.duration)[0]
        times += [(trajectory.duration, last), (trajectory.duration + 100.0, last)]
    for t, held in times:
        position, velocity, acceleration = state(trajectory, t)
        np.testing.assert_array_equal(position, held)
        np.testing.assert_array_equal(velocity, 0.0)
        np.testing.assert_array_equal(acceleration, 0.0)


@pytest.mark.parametrize('name', SMOOTH)
def test_smooth_trajectories_begin_and_end_with_continuous_acceleration(name):
    trajectory = TRAJECTORIES[name]()
    for t in (0.0, trajectory.duration):
        if math.isfinite(t):
            for side in (-1e-9, 1e-9):
                _, velocity, acceleration = state(trajectory, t + side)
                # One nanosecond from rest; jerk below 1e4.
                np.testing.assert_allclose(velocity, 0.0, atol=1e-9)
                np.testing.assert_allclose(acceleration, 0.0, atol=1e-4)


def test_time_may_run_backwards(trajectory):
    times = np.random.default_rng(3).uniform(-0.5, end_of(trajectory) + 0.5, 50)
    once = {t: np.array(state(trajectory, t)) for t in np.sort(times)}
    for t in times:
        np.testing.assert_array_equal(np.array(state(trajectory, t)), once[t])


def test_the_table_holds_what_the_samples_are(trajectory):
    times = np.linspace(-0.1, end_of(trajectory) + 0.1, 57)
    table = trajectory.table(times)
    for k, t in enumerate(times):
        for column, expected in zip(table, state(trajectory, t), strict=True):
            # The same polynomials, summed in another way.
            np.testing.assert_allclose(column[k], expected, atol=1e-12)


def test_the_instants_run_from_the_start_to_the_end(trajectory):
    if math.isfinite(trajectory.duration):
        times = trajectory.instants(0.01)
        assert times[0] == 0.0
        assert times[-1] == pytest.approx(trajectory.duration)
        assert (np.diff(times) >= 0.0).all()


@pytest.mark.slow
def test_sampling_leaves_no_memory_behind(trajectory):
    reference = Reference(trajectory.n)

    def run():
        for k in range(2000):
            trajectory.sample(0.001 * k, reference)

    run()
    tracemalloc.start()
    run()
    grown, peaks = [], []
    for _ in range(3):  # other threads of this process may need memory in one of them
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        run()
        after, peak = tracemalloc.get_traced_memory()
        grown.append(after - before)
        peaks.append(peak)
    tracemalloc.stop()
    # One float kept alive in a loop variable may differ; an array per sample would be 2000 * 100.
    assert min(grown) < 500
    assert min(peaks) < 10_000
