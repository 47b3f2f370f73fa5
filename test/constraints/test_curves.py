# SPDX-License-Identifier: Apache-2.0
"""Curves, timings and signals: C2 in time, through their points, at their speed."""

import itertools
import math

import mpmath
import numpy as np
import pytest
import yaml
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.interpolate import CubicSpline

from robot_dynamics_ros.constraints.curves import (
    Lissajous,
    PiecewisePolynomial,
    Spline,
)
from robot_dynamics_ros.constraints.registry import signal
from robot_dynamics_ros.constraints.signals import (
    Clock,
    Followed,
    Timing,
    quintic_offset,
)

SIGNALS = yaml.safe_load("""
points: &points [[0.0, 0.0, 0.0], &begin [0.3, 0.1, 0.0], [0.4, 0.4, 0.2], [0.1, 0.5, 0.1]]
line: {line: {from: [0.0, 0.0, 0.0], to: [0.4, 0.4, 0.2]}, duration: 2.0, start: 0.3}
circle: {circle: {center: *begin, radius: 0.2, normal: [1, 2, 3], laps: 2}, speed: 0.9}
endless circle: {circle: {center: *begin, radius: 0.2}, speed: 0.5, ramp: 0.4, start: 0.2}
lissajous: {lissajous: {center: [0.1, 0.2], amplitude: [0.3, 0.1], frequency: [0.5, 1.0],
                        phase: [0.2, 0.0]}}
linear: {linear: {from: [0.1], rate: [0.5]}, ramp: 0.5}
spline: {spline: {points: *points}, speed: 0.5, ramp: 0.3}
closed spline: {spline: {points: *points, closed: true}, speed: 0.9, ramp: 0.3}
waypoints: {waypoints: {times: [0.0, 0.7, 1.5, 2.0], points: *points}, start: 0.25}
""")
POINTS = SIGNALS.pop('points')


@pytest.fixture(params=SIGNALS)
def moving(request):
    return signal('x', SIGNALS[request.param])


def test_rates_are_derivatives_of_the_value(moving):
    """Differences in 30 digits, away from the knots of cubic splines."""
    for t in (0.1, 0.37, 0.81, 1.33, 1.9, 2.6):
        with mpmath.workdps(40):
            h, T = mpmath.mpf(10) ** -12, mpmath.mpf(t)
            before, now, after = (np.array(moving.at(T + s)[0]) for s in (-h, 0, h))
            rate, bend = (after - before) / (2 * h), (after - 2 * now + before) / h**2
        _, v, a = moving.at(t)
        assert_allclose(v, rate.astype(float), atol=1e-10)
        assert_allclose(a, bend.astype(float), atol=1e-8)


def test_value_and_both_rates_are_continuous_everywhere(moving):
    """C2: over a step of 1 us nothing changes by more than 1e-4 of the jerks met here."""
    for t in np.arange(0.0, 4.0, 2.6e-3):
        left, right = np.array(moving.at(t)), np.array(moving.at(t + 1e-6))
        assert (np.abs(right - left).max(axis=1) < [1e-5, 1e-4, 1e-3]).all(), t


def test_it_rests_before_its_start_and_after_its_end(moving):
    for t in [-1.0, 0.0, *([moving.timing.end + 1e-9] if moving.timing.end < math.inf else [])]:
        _, v, a = moving.at(t)
        assert not np.any(v)
        assert not np.any(a)
    assert 0.0 < moving.horizon < 60.0


def test_a_circle_has_its_radius_plane_speed_and_laps():
    circle = signal('x', SIGNALS['circle'])
    normal = np.array([1.0, 2.0, 3.0]) / math.sqrt(14.0)
    for t in np.linspace(0.0, circle.horizon, 50):
        p = np.array(circle.at(t)[0]) - POINTS[1]
        assert np.linalg.norm(p) == pytest.approx(0.2)
        assert abs(p @ normal) < 1e-15
    speed = np.linalg.norm(circle.at(1.4)[1])
    assert speed == pytest.approx(0.9)
    assert_allclose(circle.at(circle.timing.end)[0], circle.at(0.0)[0], atol=1e-15)
    turned = np.cross(circle.at(0.0)[0] - np.array(POINTS[1]), circle.at(0.5)[1])
    assert turned @ normal > 0.0, 'anticlockwise about the normal'


def test_a_lap_of_a_figure_is_the_period_of_its_slowest_component_that_moves():
    assert Lissajous([0.0] * 3, [0.1, 0.2, 0.0], [0.0, 0.5, 0.01]).lap == 2.0
    assert Lissajous([0.0], [0.1], [0.0]).lap == 1.0


def lengths(points, ends: str) -> np.ndarray:
    """Return the arc length at every point of a cubic spline on its chords, by quadrature."""
    knots = np.cumsum([0.0, *np.linalg.norm(np.diff(points, axis=0), axis=1)])
    slope = CubicSpline(knots, points, bc_type=ends).derivative()
    speed = lambda u: np.linalg.norm(slope(u))  # noqa: E731
    parts = [quad(speed, *piece, epsabs=1e-12)[0] for piece in itertools.pairwise(knots)]
    return np.cumsum([0.0, *parts])


def test_splines_pass_through_their_points_after_the_arc_length_to_them():
    spline, closed = Spline(POINTS), Spline(POINTS, closed=True)
    times, waypoints = [0.0, 0.7, 1.5, 2.0], signal('x', SIGNALS['waypoints']).curve
    for s, t, point in zip(lengths(POINTS, 'natural'), times, POINTS, strict=True):
        assert_allclose(spline.at(s)[0], point, atol=1e-7)  # by another quadrature
        assert_allclose(waypoints.at(t)[0], point, atol=1e-14)
    for s, point in zip(lengths([*POINTS, POINTS[0]], 'periodic'), POINTS, strict=False):
        assert_allclose(closed.at(s + closed.lap)[0], point, atol=1e-7)
    for end in (0.0, 2.0):
        assert_allclose(waypoints.at(end)[1:], 0.0, atol=1e-12)


SQUARE = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]


@pytest.mark.parametrize('points', [POINTS, SQUARE, SQUARE[:3]], ids=['space', 'square', 'corner'])
@pytest.mark.parametrize('closed', [False, True])
def test_a_spline_runs_at_the_speed_that_is_asked(points, closed):
    """Along the chords it was -24 to +28 %."""
    moving = signal('x', {'spline': {'points': points, 'closed': closed}, 'speed': 0.5})
    begin, end = 1.0, moving.horizon - 1.0  # between the ramps
    speeds = [np.linalg.norm(moving.at(t)[1]) for t in np.linspace(begin, end, 1001)]
    assert_allclose(speeds, 0.5, rtol=1e-3)


def test_a_spline_that_turns_back_comes_to_rest_there_within_bounds():
    """The even speed alone would need an infinite acceleration."""
    curve = Spline([[0.0, 0.0], [0.2, 0.0], [0.1, 0.0]])
    rows = map(curve.at, np.linspace(0.0, curve.lap, 2001))
    _, v, a = (np.array(row) for row in zip(*rows, strict=True))
    speed = np.linalg.norm(v, axis=1)
    assert speed.min() < 0.01
    assert speed.max() < 1.001
    assert np.abs(a).max() < 20.0 / 0.1  # speeds up within a twentieth of the chord, not at once
    assert speed[[100, 1900]] == pytest.approx(1.0, rel=1e-3)


def test_a_spline_of_one_component_is_smooth_in_its_parameter():
    """Its values are a function, not a path."""
    values = [[0.1], [0.3], [0.2]]
    curve, smooth = Spline(values), CubicSpline([0.0, 0.2, 0.3], values, bc_type='natural')
    for s in np.linspace(0.0, 0.3, 31):
        assert_allclose(curve.at(s), [smooth(s, k) for k in range(3)], atol=1e-12)


def test_a_path_too_short_for_its_ramps_is_run_slower():
    timing = Timing(0.1, rate=1.0, ramp=0.5)
    assert timing.rate == pytest.approx(0.2)
    assert timing.at(10.0)[0] == pytest.approx(0.1)
    fastest = max(timing.at(t)[1] for t in np.linspace(0.0, 1.0, 101))
    assert fastest == pytest.approx(0.2)
    assert Timing.of_duration(3.0, 2.0).at(2.0)[0] == pytest.approx(3.0)


def test_a_followed_signal_passes_on_what_it_is_given():
    followed = Followed([1.0, 2.0])
    assert followed.at(5.0) == ([1.0, 2.0], [0.0, 0.0], [0.0, 0.0])
    followed.give([3.0, 4.0], [0.1, 0.2], [0.5, 0.6])
    assert followed.at(0.0) == ([3.0, 4.0], [0.1, 0.2], [0.5, 0.6])


def test_a_blend_leaves_the_error_as_it_is_and_ends_at_zero():
    f, rate, T = np.array([0.3, -0.2]), np.array([1.0, 0.5]), 0.8
    o, do, ddo = quintic_offset(f, rate, T, 0.0)
    assert_array_equal((o, do, ddo), (f, rate, 0 * f))
    assert_array_equal(quintic_offset(f, rate, T, 2.0), 0.0)
    h = 1e-5
    for t in (0.1, 0.4, 0.7999):
        before, now, after = (np.array(quintic_offset(f, rate, T, t + s)) for s in (-h, 0, h))
        assert_allclose((after - before)[:2] / (2 * h), now[1:], atol=1e-7)
    assert_allclose(quintic_offset(f, rate, T, T - 1e-9), 0.0, atol=1e-6)


# ---- time without cases ------------------------------------------------------------------------

TIMINGS = [
    Timing(2.0, 0.5, 0.7, 1.0),
    Timing(0.3, 0.9, 0.5),
    Timing(math.inf, 2.0, 0.4, 0.3),
    Clock(2.5, 0.5),
]


@pytest.mark.parametrize('timing', TIMINGS)
def test_the_formula_of_a_timing_is_the_timing(timing):
    ends = [timing.start, timing.start + timing.ramp, timing.end - timing.ramp, timing.end]
    for t in [*np.linspace(-1.0, 8.0, 901), *filter(math.isfinite, ends)]:
        # Sums of lengths below 16 in another order.
        assert_allclose(timing.formula(t), timing.at(t), rtol=0, atol=1e-14)


def test_the_formula_of_pieces_is_the_pieces(rng):
    pieces = PiecewisePolynomial(np.array([0.0, 1.0, 1.5, 4.0]), rng.normal(size=(3, 2, 6)))
    for s in (-1.0, 0.0, 0.3, 1.0, 1.2, 1.5, 3.9, 4.0, 5.0):
        assert_array_equal(pieces.formula(s), pieces.at(s))


def test_a_closed_spline_has_a_formula_if_it_ends():
    points = [[0.0, 0.0], [1.0, 0.2], [0.4, 1.0]]
    spline = Spline(points, closed=True, laps=2.5)
    for s in np.linspace(0.0, spline.length * 0.999, 50):
        assert_allclose(spline.symbolic(s), spline.at(s), rtol=0, atol=1e-12)
