# SPDX-License-Identifier: Apache-2.0
"""Curves, timings and signals: where their formulas say, with exact rates, also without cases."""

import itertools

import mpmath
import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.interpolate import CubicSpline
from scipy.spatial.transform import Rotation

from robot_dynamics_ros.constraints.curves import Lissajous, Spline, Waypoints
from robot_dynamics_ros.constraints.registry import signal
from robot_dynamics_ros.constraints.signals import quintic_offset

eighths = st.integers(1, 8).map(lambda k: k / 8)
laps = eighths.map(lambda x: 3 * x)
vectors = st.lists(st.integers(-9, 9).map(lambda k: k / 8), min_size=3, max_size=3)
points = st.lists(vectors, min_size=4, max_size=4, unique_by=tuple)
ahead = st.lists(eighths, min_size=3, max_size=3)


def unit(x):
    return x / np.linalg.norm(x)


def circle(s, center, radius, normal, toward, laps):
    start = radius * unit(np.cross(np.cross(normal, toward), normal))
    return center + Rotation.from_rotvec(s / radius * unit(normal)).apply(start)


def lissajous(s, center, amplitude, frequency, phase):
    return center + amplitude * np.sin(2.0 * np.pi * s * np.array(frequency) + phase)


#: Place, where no other test knows it; arguments of a curve, numbers of its timing.
CURVES = {
    'circle': (circle, {'center': vectors, 'radius': eighths, 'normal': ahead,
                        'toward': st.just([0.9, -0.5, 0.2]), 'laps': laps}, ('ramp', 'speed')),
    'line': (lambda s, **x: s * unit(x['to']), {'from': st.just([0.0] * 3), 'to': ahead},
             ('duration',)),
    'linear': (lambda s, rate, **x: x['from'] + s * np.array(rate),
               {'from': vectors, 'rate': vectors}, ('ramp',)),
    'lissajous': (lissajous, {'center': vectors, 'amplitude': vectors, 'frequency': vectors,
                              'phase': vectors}, ('ramp',)),
    'spline': (None, {'points': points}, ('ramp', 'speed')),
    'closed spline': (None, {'points': points, 'closed': st.just(True), 'laps': laps},
                      ('ramp', 'speed')),
    'waypoints': (None, {'times': st.just([0.0, 0.75, 1.0, 1.5]), 'points': points}, ()),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize('kind', CURVES)
@settings(max_examples=50)
@given(st.data(), st.floats(0.0, 1.0))
def test_a_signal_is_on_its_curve_and_its_rates_are_derivatives(kind, data, part):
    """At a time before, in and after its motion; differences forward, in 60 digits."""
    place, arguments, names = CURVES[kind]
    given = data.draw(st.fixed_dictionaries(arguments))
    timed = data.draw(st.fixed_dictionaries(dict.fromkeys(('start', *names), eighths)))
    moving = signal('x', {kind.removeprefix('closed '): given, **timed})
    timing = moving.timing
    t = part * ((timing.end if timing.end < np.inf else 4.0) + 0.5)
    assume(2.0 * (t - timing.start) != timing.duration)  # where two halves meet, to rounding
    p, v, a = moving.at(t)
    if place:
        assert_allclose(p, place(timing.at(t)[0], **given), atol=1e-12)
    assert_allclose(moving.sample(moving.formula(t)), (p, v, a), rtol=1e-9, atol=1e-9)
    with mpmath.workdps(60):
        h, T = mpmath.mpf(10) ** -20, mpmath.mpf(t)
        x, y, z = (np.array(moving.at(T + k * h)[0]) for k in range(3))
        rate, bend = (4 * (y - x) - (z - x)) / (2 * h), ((z - y) - (y - x)) / h**2
    assert_allclose(v, rate.astype(float), rtol=1e-9, atol=1e-9)
    assert_allclose(a, bend.astype(float), rtol=1e-8, atol=1e-8)
    if 'speed' in timed:
        assert timing.rate == pytest.approx(min(timed['speed'], timing.length / timed['ramp']))
    if 'duration' in timed:
        assert timing.end == pytest.approx(timed['start'] + timed['duration'])
    assert 0.0 < moving.horizon <= timing.end


POINTS = [[0.0, 0.0, 0.0], [0.3, 0.1, 0.0], [0.4, 0.4, 0.2], [0.1, 0.5, 0.1]]
TIMES = [0.0, 0.7, 1.5, 2.0]
WAYPOINTS = Waypoints(TIMES, POINTS)


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
    for s, t, point in zip(lengths(POINTS, 'natural'), TIMES, POINTS, strict=True):
        assert_allclose(spline.at(s)[0], point, atol=1e-7)  # by another quadrature
        assert_allclose(WAYPOINTS.at(t)[0], point, atol=1e-14)
    for s, point in zip(lengths([*POINTS, POINTS[0]], 'periodic'), POINTS, strict=False):
        assert_allclose(closed.at(s + closed.lap)[0], point, atol=1e-7)
    for end in (0.0, 2.0):
        assert_allclose(WAYPOINTS.at(end)[1:], 0.0, atol=1e-12)


class Interrupted(float):
    """An abscissa; while it is subtracted from, another thread evaluates the curve."""

    def __sub__(self, other):
        WAYPOINTS.at(0.1)
        return float(self) - other


def test_another_thread_may_evaluate_a_curve_meanwhile():
    assert_array_equal(WAYPOINTS.at(Interrupted(1.7)), WAYPOINTS.at(1.7))


@settings(max_examples=30)
@example(points=[[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]], closed=True)
@given(points=points, closed=st.booleans())
def test_no_spline_is_faster_than_asked(points, closed):
    """There and back between two points, the error in the middle of each piece is 0."""
    curve = Spline(points, closed=closed)
    speeds = [np.linalg.norm(curve.at(s)[1]) for s in np.linspace(0.0, curve.lap, 1001)[:-1]]
    assert max(speeds) < 1.001


def test_a_spline_that_turns_back_comes_to_rest_there_within_bounds():
    """The even speed alone would need an infinite acceleration."""
    curve = Spline([[0.0, 0.0], [0.2, 0.0], [0.1, 0.0]])
    rates = np.array([curve.at(s)[1:] for s in np.linspace(0.0, curve.lap, 2001)])
    speed, acceleration = np.linalg.norm(rates, axis=2).T
    assert speed.min() < 0.01
    assert speed.max() < 1.001
    assert acceleration.max() < 20.0 / 0.1  # within a twentieth of the chord, not at once
    assert speed[[100, 1900]] == pytest.approx(1.0, rel=1e-3)


def test_a_spline_of_one_component_is_smooth_in_its_parameter():
    """Its values are a function, not a path."""
    values = [[0.1], [0.3], [0.2]]
    curve, smooth = Spline(values), CubicSpline([0.0, 0.2, 0.3], values, bc_type='natural')
    for s in np.linspace(0.0, 0.3, 31):
        assert_allclose(curve.at(s), [smooth(s, k) for k in range(3)], atol=1e-12)


def test_a_blend_leaves_the_error_as_it_is_and_ends_at_zero():
    f, rate, T, h = np.array([0.3, -0.2]), np.array([1.0, 0.5]), 0.8, 1e-5
    assert_array_equal(quintic_offset(f, rate, T, 0.0), (f, rate, 0 * f))
    assert_array_equal(quintic_offset(f, rate, T, 2.0), 0.0)
    for t in (0.1, 0.4, 0.7999):
        before, now, after = (np.array(quintic_offset(f, rate, T, t + s)) for s in (-h, 0, h))
        assert_allclose((after - before)[:2] / (2 * h), now[1:], atol=1e-7)
    assert_allclose(quintic_offset(f, rate, T, T - 1e-9), 0.0, atol=1e-6)
