# SPDX-License-Identifier: Apache-2.0
"""Command identify on many bags: the same result for any worker; a bad bag stops nothing."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from mortal_worker import killed_on
from numpy.testing import assert_allclose, assert_array_equal
from recorded_arm import DRIVES, Drives, periodic_motion, two_link_run
from samples import sample

from robot_dynamics_ros.description.shipped import shipped_mechanism
from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.identification.bags import (
    Source,
    blocks_per_half,
    evaluate_bag,
    gather_bag,
)
from robot_dynamics_ros.identification.choice import Request
from robot_dynamics_ros.identification.identify import conclude, gather, make_plan
from robot_dynamics_ros.identification.least_squares import reduced
from robot_dynamics_ros.identification.validation import Trial, halved
from robot_dynamics_ros.model import load_mechanism
from robot_dynamics_ros.recordings import timing
from robot_dynamics_ros.recordings.bag_jobs import run_jobs
from robot_dynamics_ros.recordings.lockstep import write_recording
from robot_dynamics_ros.recordings.reading import RobotChoice
from robot_dynamics_ros.recordings.recording import Recording

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('without_curves')]

STEP = 2e-3
IDENTIFY = 'identify --gravity 0 -9.81 0'
TREE = sample('planar_2r').tree.with_changes(effort_limit=np.full(2, 1e9))
EXACT = Request(timing='semi_implicit', delay=0, cutoff=None)


@pytest.fixture(scope='module')
def runs(tmp_path_factory):
    """Six bags: three sound ones, one cut in half, one at rest, one of another robot; no bag."""
    folder = tmp_path_factory.mktemp('runs')
    for seed in range(4):
        write_recording(folder / f'run{seed}' / 'bag', two_link_run(seed, 3.0))
    (file,) = (folder / 'run3' / 'bag').glob('*.mcap')
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    some = two_link_run(8, 3.0)
    rest = np.zeros_like(some.position)
    write_recording(folder / 'still' / 'bag', replace(some, position=rest, velocity=rest))
    write_recording(folder / 'stranger' / 'bag', replace(some, joints=('wheel1', 'wheel2')))
    return folder, folder / 'gone' / 'bag'


@pytest.fixture(scope='module')
def alone(runs, shared):
    """The result of one process, bag by bag."""
    return shared(f'{IDENTIFY} --jobs 1', *runs, code=1)


def test_bad_bags_are_told_and_the_good_ones_are_used(alone):
    numbers = alone.figures
    news = {Path(bag['bag']).parent.name: bag for bag in numbers['bags']}
    assert list(news) == ['run0', 'run1', 'run2', 'run3', 'still', 'stranger', 'gone']
    assert numbers['remarks'][0].startswith('each half of a recording validated')
    for name, bag in news.items():
        assert bag['learned'] == bag['validated'] == name.startswith('run')
        assert bool(bag['error']) != name.startswith('run')
        assert bool(bag['notes']) == (name == 'run3')
        last = alone.said.partition(' results: ')[2]
        assert not bag['error'] or f'error failed: {bag["error"]}' in last
    assert 'no such file or folder' in news['gone']['error']
    assert 'no joint moves freely under a known effort' in news['still']['error']
    assert "'stranger" in news['stranger']['error'].replace('/bag', '').replace('/', "'")
    assert 'known: wheel1, wheel2' in news['stranger']['error']
    # Exact data, however many bags.
    assert max(numbers['residuals']['corrected']['percent']) < 0.1
    assert max(news['run2']['percent']['corrected']) < 0.1
    assert min(news['run2']['percent']['nominal']) > 1.0


def test_a_dask_cluster_gives_the_same_result_and_survives_a_worker_that_dies(
    runs, alone, command
):
    import dask
    import distributed

    with (
        dask.config.set({'distributed.scheduler.allowed-failures': 0}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
    ):
        address = cluster.scheduler_address
        ended = command(f'{IDENTIFY} --scheduler {address}', *runs, code=1)
        for name in ('corrected.urdf', 'parameters.yaml', 'identification.json'):
            assert alone.text(name) == ended.text(name)
        assert 'gathering: 7 of 7 bags, 3 failed' in ended.err
        assert '7 bags, 3 failed' in ended.text('report.html')
        # One item per worker: of what waits behind a deadly one, a busy cluster gives up too.
        first, then = (
            dict(
                run_jobs(
                    partial(killed_on, 'poison'), items, lambda _, why: why, scheduler=address
                )
            )
            for items in (['a', 'poison'], ['b'])
        )
    assert (first[0], then[0]) == ('A', 'B')
    assert 'its worker failed' in first[1]


@pytest.fixture
def validated(runs, command):
    """Return a function that learns from one bag, and validates on others."""

    def learn(*proofs, words='', code=1):
        given = (runs[0] / 'run0' / 'bag', '--validate', *proofs)
        return command(f'{IDENTIFY} --jobs 1 {words}', *given, code=code)

    return learn


def test_failing_bags_for_validation_are_told_and_fail_if_there_is_no_other(runs, validated):
    proofs = [runs[0] / name / 'bag' for name in ('run1', 'stranger')]
    refused = validated(proofs[1], code=2)
    assert 'have no usable data' in refused.err
    assert not refused.folder.exists()
    bags = validated(*proofs).figures['bags']
    assert [bag['learned'] for bag in bags] == [True, False, False]
    assert [bag['validated'] for bag in bags] == [False, True, False]


def test_what_was_never_moved_is_not_called_proved_and_a_worse_result_is_exit_code_1(
    runs, validated
):
    """Learned from an arm with friction, validated on one that equals its description."""
    still = runs[0] / 'still' / 'bag'
    ended = validated(still, code=0)
    assert 'joint1 never slides in the recordings for validation' in ended.out
    assert ended.figures['residuals']['corrected']['percent'] == [None, None]
    validated(still, words='--most 50')
    said = validated(two_link_run(11, 3.0, Drives(0.0, 0.0, 0.0))).said
    assert 'the corrected robot explains the recordings worse than the nominal one' in said


def rest_and_motion():
    """Return five seconds of rest under the efforts that hold the arm, and eight of motion."""
    t = np.arange(0.0, 13.0, STEP)[:, np.newaxis]
    begun = np.clip((t - 5.0) / 2.0, 0.0, 1.0)
    ramp = begun**3 * (10.0 - 15.0 * begun + 6.0 * begun**2)
    return two_link_run(ramp * periodic_motion(3, 2, 13.0, STEP, swing=0.3))


def test_an_arm_that_rests_at_first_is_learned_from_and_cut_by_its_motion():
    """Seen by an encoder of 1e-5 rad."""
    run = rest_and_motion()
    read = np.round(run.position / 1e-5) * 1e-5
    velocity = np.vstack([np.zeros((1, 2)), np.diff(read, axis=0) / STEP])
    run = replace(run, position=read, velocity=velocity)
    early, late = halved(run)
    assert early.time[-1] < late.time[0]
    assert early.time[-1] - 5.0 > 1.0
    assert late.time[-1] - late.time[0] > 1.0
    plan = make_plan(run, TREE)
    assert plan.preparation.cutoff is not None
    found = conclude(gather(run, plan), plan).tree
    # The requirement on friction.
    assert_allclose(found.damping, DRIVES.damping, rtol=0.05)
    assert_allclose(found.coulomb_friction, DRIVES.coulomb_friction, rtol=0.05)


# In parts ---------------------------------------------------------------------------------------


@pytest.fixture(scope='module')
def plan():
    return make_plan(two_link_run(1), TREE, request=EXACT)


def noisy(seconds, seed=0):
    run = two_link_run(5, seconds)
    rng = np.random.default_rng(seed)
    return replace(run, effort=run.effort + 0.05 * rng.normal(size=run.effort.shape))


def test_merged_blocks_say_the_same_and_are_no_more_than_allowed(plan):
    every = [block for k in range(30) for block in gather(noisy(2.0, k), plan)]
    kept = reduced(every, 20)
    assert len(every) > 400
    assert 20 <= len(kept) <= 40
    full, few = (conclude(blocks, plan).estimate for blocks in (every, kept))
    assert_allclose(few.values, full.values, rtol=1e-9)
    assert_array_equal(few.counts, full.counts)
    # Noise is white, so neither way of cutting is better; 20 blocks determine a deviation to
    # a sixth (chi square), three times that.
    assert_allclose(few.deviations, full.deviations, rtol=0.5)
    # Blocks do not grow with the bags.
    assert (blocks_per_half(1), blocks_per_half(1000)) == (200, 1)


def test_states_that_come_late_are_no_failure(plan, tmp_path):
    """Eight seconds, and half a minute later three states."""
    run = two_link_run(5, 8.01)
    run.time[-3:] += 30.0
    run.stamp_ns[-3:] += 30 * 10**9
    write_recording(tmp_path / 'bag', run)
    source = Source(str(tmp_path / 'bag'), RobotChoice(), TREE)
    said = gather_bag(source, plan, 5)
    assert said.error == ''
    assert all(5 <= len(blocks) <= 10 for blocks in said.halves)
    found = conclude([*said.halves[0], *said.halves[1]], plan)
    assert_allclose(found.tree.damping, DRIVES.damping, rtol=1e-4)
    judged = evaluate_bag(source, Trial.of(found))
    assert judged.error == ''
    assert judged.sums[1].residual.count.max() > 0.98 * len(run.time)


def test_a_bag_where_loops_are_singular_fails_by_itself(plan):
    tree = load_mechanism(*shipped_mechanism('welding_arm'))
    lower, upper = tree.planning_range
    q = periodic_motion(3, tree.n, 8.0, STEP, swing=0.5 * (upper - lower))
    v, nan = np.gradient(q, STEP, axis=0), np.full_like(q, np.nan)
    run = Recording(tree.joint_names, STEP * np.arange(len(q)), q, v, 0.0 * q, nan, nan)
    shown = []
    bag = SimpleNamespace(path='far', read=lambda: (run, ()))
    said = evaluate_bag(bag, Trial(tree, plan.preparation, (tree,)), shown)
    assert 'is singular' in said.error
    assert not shown


def test_a_part_of_few_states_is_called_short(plan, tmp_path):
    run = two_link_run(5, 2.0).rows(slice(10))
    for count in (0, 5):
        with pytest.raises(RecordingError, match=f'has {count} states'):
            gather(run.rows(slice(count)), plan)
    write_recording(tmp_path / 'bag', run)
    said = gather_bag(Source(str(tmp_path / 'bag'), RobotChoice(), TREE), plan, 5)
    assert 'states with position and velocity' in said.error


def test_the_plan_is_made_from_the_first_part_that_moves(monkeypatch, command):
    monkeypatch.setattr(timing, 'PART_S', 2.0)
    run = rest_and_motion()
    learned = command(f'{IDENTIFY} --jobs 1', run)
    assert 'timing semi_implicit' in learned.text('report.html')
    rest = command(IDENTIFY, run.rows(run.time < 5.0), code=2)
    assert 'moves no joint; record a motion' in rest.err
    run.position[:] += np.where(run.time < 2.0, 50.0, 0.0)[:, np.newaxis]
    assert 'its limits are' in command(IDENTIFY, run, code=2).err
