# SPDX-License-Identifier: Apache-2.0
"""Two recordings of one program: aligned in time, compared, checked."""

import re
from dataclasses import replace

import numpy as np
import pytest
import tables
from bags import MS, SECOND
from recorded_arm import NAMES, arm_xml, write_run

from robot_dynamics_ros.errors import ConfigurationError, RecordingError
from robot_dynamics_ros.recordings.comparison import align, resample
from robot_dynamics_ros.recordings.recording import Recording


def program(t):
    """Return position and velocity of a motion that never repeats; it begins at 1 s."""
    t = np.maximum(np.asarray(t, dtype=float) - 1.0, 0.0)[:, np.newaxis]
    w, size = np.array([2.0, 3.1, 4.3]), np.array([0.7, 0.9, 0.12])
    ramp = t**3 / (1.0 + t**3)
    slope = 3 * t**2 / (1.0 + t**3) ** 2
    q = size * ramp * np.sin(w * t)
    return q, size * (slope * np.sin(w * t) + ramp * w * np.cos(w * t))


def run_of(
    *, late: float = 0.0, stamp: int = 0, period: int = MS, count: int = 3000, error: float = 0.0
) -> Recording:
    """Return the program, begun late, with stamps of any origin, and a constant tracking error."""
    stamps = stamp + period * np.arange(count)
    q, v = program(1e-9 * period * np.arange(count) - late)
    effort = np.tile([0.0, 1.0, -1.0], (count, 1))
    effort[:, 0] = np.arange(count)
    run = 1e-9 * stamps, q - error, v, effort, q, v
    return Recording(NAMES, *run, description=arm_xml(), stamp_ns=stamps, arrival_ns=stamps)


def of_states(**given) -> Recording:
    """Return the program without commands and reference."""
    return without(run_of(**given), 'effort', 'reference_position', 'reference_velocity')


def test_the_shift_of_a_late_run_is_found_on_any_clock_at_any_rate():
    first = run_of(stamp=1_700_000_000 * SECOND)
    found = align(first, run_of(late=0.3, stamp=5 * SECOND, period=2 * MS, count=1700))
    # Seconds since 1970 as floats are good to 2e-7 s.
    assert found.shift == pytest.approx(5.0 + 0.3 - 1_700_000_000, abs=5e-6)
    assert found.correlation > 0.999


def test_the_way_to_align_can_be_chosen():
    first, second = run_of(), run_of(late=0.4)
    for method, shift in {'stamps': 0.0, 'start': 0.4, '0.4': 0.4, 'motion': 0.4}.items():
        # Samples every millisecond, interpolated along lines: h^2 a / 8 = 1e-6 of a radian.
        assert align(first, second, method).shift == pytest.approx(shift, abs=2e-6), method
    for no_way in ('somehow', 'nan', 'inf'):
        with pytest.raises(ConfigurationError, match='motion, start, stamps, or seconds'):
            align(first, second, no_way)
    with pytest.raises(RecordingError, match='do not overlap under a shift of 100 s'):
        align(first, second, '100')
    paused, within = np.r_[:1000, 2000:3000], slice(1200, 1800)
    for runs in ((first.rows(paused), second.rows(within)),
                 (second.rows(within), first.rows(paused))):  # fmt: skip
        with pytest.raises(RecordingError, match='do not overlap under a shift of 0 s'):
            align(*runs, 'stamps')


def test_a_joint_that_hangs_lower_throughout_shifts_no_time():
    """Gravity pulls the second run off by 3 mrad: at first order that is no change in time."""
    first, second = (without(run_of(error=x), 'reference_position') for x in (0.0, 3e-3))
    assert align(first, second).shift == pytest.approx(0.0, abs=2e-6)


@pytest.mark.parametrize(
    ('which', 'lost'), [('velocity', slice(None)), ('reference_velocity', slice(100, 101))]
)
def test_velocities_may_be_missing(which, lost):
    """Runs without a reference are aligned by their states."""
    run, late = run_of if which == 'reference_velocity' else of_states, 0.1234567
    first, second = run(), run(late=late)
    for runs in (
        (first, without(second, which, rows=lost)),
        (without(first, which, rows=lost), second),
    ):
        found = align(*runs)
        assert found.shift == pytest.approx(late, abs=2e-6)
        assert found.correlation > 0.999
        moved = resample(runs[1], first.time[1000:2000] + late)
        # On lines, h^2/8 times the second derivative (4.3^2).
        assert moved.position == pytest.approx(first.position[1000:2000], abs=3e-6)


def test_a_reference_at_one_state_is_none_to_align_by():
    run = run_of(count=300)
    lone = without(run, 'reference_velocity')
    lone = without(lone, 'reference_position', rows=slice(299))
    assert align(run, lone).shift == pytest.approx(0.0, abs=1e-9)


def without(run: Recording, *columns: str, rows: slice = slice(None)) -> Recording:
    """Return a run of which some columns are not known at some rows."""
    found = {name: getattr(run, name).copy() for name in columns}
    for values in found.values():
        values[rows] = np.nan
    return replace(run, **found)


def test_a_clock_that_jumps_is_named_with_its_run_and_place():
    run, begin, later = of_states(count=2000), 1_700_000_000, 1_800_000_000
    late = np.where(np.arange(2000) < 1200, begin, later)
    stamp_ns = run.stamp_ns + late * SECOND
    jumped = replace(run, time=run.time + late, stamp_ns=stamp_ns, origin=float(begin))
    for which, runs in (('first', (jumped, run)), ('second', (run, jumped))):
        said = f'the {which} run: has a clock that jumps by {later - begin}.001 s at 1.199 s; cut'
        with pytest.raises(RecordingError, match=re.escape(said)):
            align(*runs)
    assert align(run, jumped.rows(slice(1200, None))).correlation > 0.999


@pytest.mark.slow
def test_a_clock_that_jumps_by_less_than_the_motions_show_is_told(command):
    run = run_of(error=2e-3)
    late = 40 * MS * (np.arange(3000) >= 2200)
    jumped = replace(run, time=run.time + 1e-9 * late, stamp_ns=run.stamp_ns + late)
    said = 'the references differ by more than both tracking errors: do both'
    assert said in command('compare', run, jumped).said
    assert said not in command('compare', run, run_of(period=40 * MS, count=75)).said


def test_runs_at_rest_are_laid_side_by_side():
    found = align(run_of(count=500), run_of(count=500, stamp=SECOND))
    assert found.shift == pytest.approx(1.0)
    assert found.method == 'first states, nothing moves'
    assert np.isnan(found.correlation)


@pytest.mark.slow
def test_what_is_unknown_is_no_figure_of_the_report(command):
    rest = of_states(count=500)
    found = command('compare', rest, rest)
    shown = re.sub(r'<(script|style).*?</\1>', '', found.text('report.html'), flags=re.DOTALL)
    assert 'nan' not in re.sub('<[^>]*>', ' ', shown).lower().split()
    assert 'barely correlate' not in found.said


def test_states_between_two_lie_on_lines():
    run = run_of(period=10 * MS, count=400)
    time = np.linspace(1.2, 3.7, 777)
    found = resample(run, time)
    q, v = program(time)
    # h^2 / 8 times the second derivative (4.3^2, 4.3^3).
    assert found.position == pytest.approx(q, abs=3e-4)
    assert found.velocity == pytest.approx(v, abs=1e-3)
    assert found.effort[:, 0] == pytest.approx(time / 0.01)
    same = resample(without(run, 'effort', rows=slice(0, None, 2)), run.time[5:9])
    assert same.position == pytest.approx(run.position[5:9], abs=1e-15)
    efforts = [5.0, np.nan, 7.0, np.nan]
    assert same.effort[:, 0] == pytest.approx(efforts, nan_ok=True), 'it spoils no other'


@pytest.mark.slow
def test_errors_and_differences_of_two_runs_are_those_that_were_put_in(command, tmp_path):
    first = write_run(tmp_path / 'fine', run_of(error=1e-4, count=2000))
    second = write_run(tmp_path / 'coarse', run_of(late=0.25, error=3e-4, count=2000))
    threshold = ('--threshold', 'difference.rms_position=1e-4')
    command('compare', first, first, *threshold)
    ended = command('compare', first, second, *threshold, code=1)
    found = ended.figures
    assert (found['states'], found['alignment']['shift_s']) == (1750, pytest.approx(0.25))
    for part, figure, expected in (
        ('first', 'rms_error', 1e-4),
        ('second', 'rms_error', 3e-4),
        ('difference', 'rms_position', 2e-4),
    ):
        assert found[part][figure] == pytest.approx([expected] * 3, rel=1e-6)
        assert f', RMS: {found[part]["tool_rms_mm"]:.4g} mm' in ended.said
    assert found['error_ratio'] == pytest.approx([3.0] * 3, rel=1e-6)
    # Row k of the first meets row k + 250 of the second, whose effort is 250 larger.
    assert found['difference']['peak_effort'] == pytest.approx([250.0, 0.0, 0.0])
    assert 'second shifted by 0.25 s (whole motion)' in ended.out
    report = ended.text('report.html')
    assert 'fine against coarse' in report
    assert report.count('<h2>') == 6, 'events and five plots'


@pytest.mark.slow
def test_the_jump_of_a_clock_is_told_with_its_remedy(command):
    run = of_states()
    later = 100 * (np.arange(len(run.time)) >= 0.6 * len(run.time))
    jumped = replace(run, time=run.time + later, stamp_ns=run.stamp_ns + later * SECOND)
    said = command('compare', run, jumped).said
    assert 'no state for 100.00' in said
    assert 'cut them with --from and --to where one pauses or its clock jumps' in said


@pytest.mark.slow
@pytest.mark.parametrize('description', ['', '<!-- another -->\n' + arm_xml()])
def test_the_first_bags_description_is_used_for_both(description, command, tmp_path):
    """Also for a bag without a sound one; what is unusual in either bag is told."""
    second = replace(of_states(count=300), description=description)
    second.position[7] = np.nan
    bags = write_run(tmp_path / 'a', run_of(count=300)), write_run(tmp_path / 'b', second)
    ended = command('compare', *bags)
    found = ended.figures
    assert found['difference']['rms_position'] == pytest.approx([0.0] * 3, abs=1e-6)
    unusual, *notes = found['notes']
    assert unusual == 'b: 1 state with a non-finite position: left out'
    for place in (*notes, ended.out, ended.text('report.html')):
        assert ('that of a is used for both' in place) == bool(description)


@pytest.mark.slow
@tables.written("""
    [] | are not two recordings; give two
    [missing] | no such file or folder
    [RUN, --threshold, x=1] | unknown figure 'x'
    [RUN, --frame, nose] | unknown frame 'nose'
    {'type="prismatic"': 'type="revolute"'} | other, not test_arm): lift sits or moves otherwise
    {'xyz="0.4 0.0 0.0"': 'xyz="0.4 0.6 0"'} | other, not test_arm): elbow sits or moves otherwise
    {'name="lift"': 'name="slide"'} | another robot (other, not test_arm): has no states of lift
""")
def test_what_cannot_be_compared_is_refused_in_one_line(given, said, command):
    """Words behind a run, or a change of the robot of the run behind it."""
    run = run_of(count=60)
    words = [run if word == 'RUN' else word for word in given]
    if isinstance(given, dict):
        (change,) = given.items()
        assert change[0] in arm_xml()
        xml = arm_xml().replace(*change).replace('name="test_arm"', 'name="other"')
        joints = (f'name="{name}"'.replace(*change).split('"')[1] for name in NAMES)
        words = [replace(run, joints=tuple(joints), description=xml)]
    found = command('compare', run, *words, code=2)
    assert re.search(said, found.err)
    assert found.err.count('\n') == 1
    assert not found.folder.exists()


def test_two_robots_are_led_to_the_command_that_compares_formulations(command):
    error = command('compare', 'scara', 'four_dof', code=2).err
    assert 'scara four_dof: are not two recordings; ' in error
    assert error.endswith('by compare_formulations ROBOT\n')
    error = command('compare', 'mistyped', 'too', code=2).err
    assert "bag 'mistyped': no such file or folder in" in error


def test_a_second_run_of_other_joints_is_refused_by_these(command):
    run = run_of(count=60)
    error = command('compare', run, replace(run, joints=('a', 'b', 'c')), code=2).err
    assert "unknown recorded joint 'shoulder'; known: a, b, c; compare two runs" in error
    assert '(test_arm' not in error  # it is the same robot


def test_efforts_in_amperes_without_a_constant_are_not_compared(command):
    profile = {'name': 'arm', 'state': {'effort': 'total'}, 'defaults': {'effort_unit': 'mA'}}
    run = of_states(count=400)
    run.measured_effort[:] = 1e3
    ended = command('compare', run, run, '--driver-profile', profile)
    found = ended.figures
    assert found['difference']['rms_position'] == [0.0] * 3
    assert found['first']['rms_effort'] == [None] * 3
    assert any('gives no torque_constant' in note for note in found['notes'])
    assert '<h2>Effort</h2>' not in ended.text('report.html')
