# SPDX-License-Identifier: Apache-2.0
"""Trajectories that are prepared in the background, replaced, and told to reverse."""

import numpy as np
import pytest
from followed_arm import follow
from numpy.testing import assert_allclose, assert_array_equal
from samples import shipped

from robot_dynamics_ros.control.trajectories.following import SpeedLimit
from robot_dynamics_ros.control.trajectories.reference_generator import ReferenceGenerator
from robot_dynamics_ros.control.trajectories.spline import Points
from robot_dynamics_ros.control.trajectories.trajectory import ReferenceSampler
from robot_dynamics_ros.errors import TrajectoryError
from robot_dynamics_ros.planning.motions import Quintic

NANO = 1_000_000_000
PERIOD = NANO // 1000
TREE = shipped('four_dof').tree.with_changes(velocity_limit=np.full(4, 2.0))
PLACE = np.array([0.0, -1.4, -0.5, 0.7])


def generator_at_rest():
    """Return a generator that has rested at ``PLACE`` since 1 s."""
    generator = ReferenceGenerator(TREE)
    generator.configure(ReferenceSampler(TREE.n, 'zero_order', 1e-3), start_tolerance=0.05)
    generator.rest_at(PLACE, NANO)
    return generator


def moving_generator(ticks=300):
    """Return a generator in motion from ``PLACE``."""
    generator = generator_at_rest()
    times = np.linspace(0.1, 2.0, 20)
    follow(generator, times, *Quintic(PLACE, PLACE + 0.3, 2.0).table(times))
    run(generator, ticks)
    return generator


def run(generator, ticks):
    """Sample a number of ticks; return the reference, shape (ticks, 3, n)."""
    seen, begin = [], generator.snapshot().now_ns
    for k in range(1, ticks + 1):
        generator.sample(begin + k * PERIOD)
        seen.append(generator.reference.rows.copy())
    return np.array(seen)


#: Points of a motion back to ``PLACE``.
BACK = Points.at_rest(np.linspace(0.4, 2.5, 30), np.tile(PLACE, (30, 1)))


@pytest.mark.parametrize('start_ns', [0, NANO + 200 * PERIOD, NANO + 700 * PERIOD])
def test_committed_later_it_is_what_it_would_be_had_it_come_then(start_ns):
    """Immediately, from a past start, and from a future one: exactly equal."""
    in_background, immediate = moving_generator(), moving_generator()
    snapshot, progress = in_background.snapshot(), in_background.progress
    prepared, second = (in_background.prepare(snapshot, BACK, start_ns) for _ in range(2))
    assert in_background.progress == progress  # nothing has happened yet
    assert_array_equal(run(in_background, 150), run(immediate, 150))
    starts = in_background.commit(prepared), follow(immediate, *BACK, start_ns=start_ns)
    assert starts == (start_ns or NANO + 450 * PERIOD,) * 2
    assert in_background.progress == immediate.progress
    assert_array_equal(run(in_background, 2500), run(immediate, 2500))
    in_background.begin_glide()
    with pytest.raises(TrajectoryError, match='before the arm was brought to a hold'):
        in_background.commit(second)


def test_what_was_prepared_at_rest_begins_at_the_speed_that_the_reference_has_by_then():
    """The path of the second motion, prepared with the first, is slow at its begin."""
    generator, limits = generator_at_rest(), [None, SpeedLimit(0.1, [1e-3] * 4 + [1.0] * 30)]
    sampler = ReferenceSampler(TREE.n, 'zero_order', 1e-3)
    generator.configure(sampler, start_tolerance=0.05, speed_limit=lambda *_: limits.pop(0))
    times = np.linspace(0.1, 2.0, 20)
    onward = Points(times, *Quintic(PLACE, PLACE + 0.3, 2.0).table(times))
    prepared = [
        generator.prepare(generator.snapshot(), points, start)
        for points, start in ((onward, 0), (BACK, NANO + 700 * PERIOD))
    ]
    for motion in prepared:
        generator.commit(motion)
    position, velocity, _ = run(generator, 1500).transpose(1, 0, 2)
    assert np.abs(velocity[690]).max() > 0.2
    assert np.abs(np.diff(velocity, axis=0)).max() < 0.02  # 20 rad/s^2
    assert_allclose(np.diff(position, axis=0), 1e-3 * velocity[1:], atol=2e-5)


HERE = np.tile(moving_generator().snapshot().reference.position, (2, 1))


@pytest.mark.parametrize(
    ('points', 'start_ns', 'said'),
    [
        (BACK, 300 * PERIOD - 1_300_000_000, 'header.stamp: the trajectory was over 0.2'),
        (BACK, NANO + 200 * PERIOD, 'header.stamp: is 0.500 s ago, .* by now 0.07.* from joint'),
        # The quintic of 0.3 rad in 2 s passes 0.0080 rad at 0.3 s and 0.0706 rad at 0.7 s.
        (
            Points.at_rest([0.0, 0.5], HERE),
            0,
            "point 0: is at time 0 and 0.06.* from joint 'joint2' of the reference",
        ),
        (
            Points.at_rest([0.02, 0.5], HERE)._replace(acceleration=None),
            0,
            'its velocity limit is',
        ),
    ],
)
def test_what_can_be_followed_no_more_by_the_time_it_is_ready_is_refused(points, start_ns, said):
    """It is over, has led away, its step has grown, the way to its first point is too fast."""
    generator = moving_generator()
    prepared = generator.prepare(generator.snapshot(), points, start_ns)
    run(generator, 400)
    progress = generator.progress
    with pytest.raises(TrajectoryError, match=said):
        generator.commit(prepared)
    assert generator.progress == progress


def test_a_reference_that_is_told_to_reverse_is_within_one_and_a_half_times_the_velocity_limit():
    generator, v, along = generator_at_rest(), 1.9, np.eye(4)[0]

    def through(times, way, speed):
        place = PLACE + np.outer(way, along)
        follow(generator, np.array(times), place, np.outer(speed, along), None)

    through([0.3, 0.5, 0.8], [0.15 * v, 0.35 * v, 0.5 * v], [v, v, 0.0])
    *_, (place, speed, _) = run(generator, 399)
    assert speed[0] == pytest.approx(v)
    x = place[0]
    through([0.0, 0.9, 1.1], [x, x - 0.9 * v, x - v], [-v, -v, 0.0])
    position, velocity, _ = run(generator, 2100)[:, :, 0].T
    assert np.abs(velocity).max() <= 1.5 * 2.0
    # The motion is that of the positions: differences of 1 ms, and jerks of some 100 rad/s^3.
    assert_allclose(np.diff(position)[1:] / 1e-3, velocity[1:-1], atol=0.05)
    assert position[-1] == pytest.approx(x - v)


def test_a_motion_that_begins_where_a_stream_has_moved_the_reference_is_so_as_well():
    generator = generator_at_rest()
    generator.aim(PLACE + 0.5, generator._transition)
    follow(generator, np.array([0.05]), PLACE[None], None, None, start_ns=NANO + 300 * PERIOD)
    q, v, _ = run(generator, 1500).swapaxes(0, 1)
    assert np.abs(v).max() <= 1.5 * 2.0
    assert_allclose(q[-1], PLACE, atol=1e-3)


def test_trajectories_that_replace_each_other_obey_the_speed_override():
    generator, along = generator_at_rest(), np.eye(4)[:1]
    generator.speed.scale(0.2)
    speeds = []
    for _ in range(10):  # at 1 rad/s, without the override
        places = generator.reference.position + np.array([[0.3], [0.45]]) * along
        follow(generator, np.array([0.3, 0.6]), places, np.array([[1.0], [0.0]]) * along, None)
        speeds.extend(run(generator, 100)[:, 1, 0])
    assert np.abs(np.diff(speeds)).max() < 0.003
    assert 0.17 < max(speeds) < 0.201


@pytest.mark.parametrize('first', [0.0, 0.3])
def test_straight_lines_that_begin_with_a_tick_do_not_begin_backwards(first):
    generator = generator_at_rest()
    generator.speed.scale(0.5)
    places = PLACE + np.outer([first, 0.5], np.ones(4))
    follow(generator, np.array([0.0, 0.5]) + first, places, None, None, start_ns=NANO + PERIOD)
    v = run(generator, 200)[:, 1]
    assert v.min() >= -1e-12
    assert np.abs(np.diff(v, axis=0)).max() < 0.01


def test_quintics_much_shorter_than_a_period_are_not_continued_before_their_beginning():
    generator, period = generator_at_rest(), NANO // 50
    generator.configure(ReferenceSampler(TREE.n, 'semi_implicit', 0.02), start_tolerance=0.05)
    times = np.arange(501) / 1000
    rows = Quintic(PLACE + 1e-3, PLACE + 0.1, 0.5).table(times)
    follow(generator, times, *np.round(rows, 6), start_ns=NANO + period)
    generator.sample(NANO + period)
    assert np.abs(generator.reference.velocity).max() < 0.05


@pytest.mark.parametrize('ticks', [700, 800, 900, 1000])
def test_the_next_path_does_not_lead_backwards_after_a_stop_by_the_speed_override(ticks):
    generator = moving_generator()
    generator.speed.scale(0.0)
    (*_, before) = run(generator, ticks)
    follow(generator, *Points.at_rest(np.array([1.0]), PLACE[None] + 0.5))
    generator.speed.scale(1.0)
    q, v, _ = run(generator, 2500).swapaxes(0, 1)
    assert (q >= before[0] - 1e-9).all()
    assert np.abs(np.diff([before[1], *v], axis=0)).max() < 0.01
    assert_allclose(q[-1], PLACE + 0.5)


@pytest.mark.parametrize('ticks', [20, 50, 100])
def test_an_offset_that_vanishes_is_not_scaled_by_the_speed_override(ticks):
    generator = generator_at_rest()
    generator.speed.scale(0.1)
    follow(generator, np.array([0.0, 2.0]), PLACE + np.array([[0.04], [0.04]]), None, None)
    (*_, before) = run(generator, ticks)
    follow(generator, *Points.at_rest(np.array([1.0]), PLACE[None] + 0.5))
    q, v, _ = run(generator, 12000).swapaxes(0, 1)
    assert (q >= before[0]).all()
    assert (q <= PLACE + 0.5 + 1e-9).all()
    assert np.abs(np.diff([before[1], *v], axis=0)).max() < 0.006
    assert_allclose(q[-1], PLACE + 0.5)


@pytest.mark.parametrize('way', [0.5, -0.02, 0.0])
def test_a_glide_is_a_motion_within_the_limits_and_ends_where_the_arm_rests(way):
    """Noise is measured, too; the reference moves when the glide begins."""
    generator, noise = moving_generator(), np.random.default_rng(7).normal(0.0, 3e-4, (1050, 4))
    place = generator.reference.position + way
    generator.begin_glide()
    seen = [generator.reference.rows.copy()]
    for k, x in enumerate(noise):
        if generator.glide(place + x, is_over=k > 1000):
            break
        seen.extend(run(generator, 1))
    q, v, a = np.array(seen).transpose(1, 0, 2)
    assert np.abs(v).max() <= 2.0
    assert np.abs(np.diff(v, axis=0)).max() <= 2.0 / 0.05 * 1e-3 * (1.0 + 1e-9)
    assert_allclose(np.diff(v, axis=0), 1e-3 * a[:-1], atol=1e-12)
    assert_allclose(np.diff(q, axis=0), 0.5e-3 * (v[1:] + v[:-1]), atol=1e-12)
    assert np.abs(q[500:] - place).max() < 1e-3
    assert 1000 < k < 1049
    for rows in (generator.reference.rows, *run(generator, 3)):
        assert_array_equal(rows, [place + noise[1000], *np.zeros((2, 4))])


def test_a_glide_has_arrived_once_the_reference_is_near_and_slow():
    """What the limit of 2 rad/s permits in 1 ms is left, and that speed would take in 50 ms."""
    generator = moving_generator()
    place = generator.reference.position + 0.5
    generator.begin_glide()
    assert not generator.glide(place, is_over=False)
    for _ in range(1000):
        ((q, v, _),) = run(generator, 1)
        if generator.glide(place, is_over=True):
            break
    assert np.abs(q - place).max() < 0.002
    assert 0.0 < np.abs(v).max() < 0.04
    assert not run(generator, 1)[0, 1].any()
