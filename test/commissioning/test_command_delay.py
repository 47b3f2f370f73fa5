# SPDX-License-Identifier: Apache-2.0
"""The delay of a driver, estimated from short motions of MuJoCo with delayed commands."""

from collections import deque

import numpy as np
import pytest
from bags import command as message
from bags import state
from samples import sample

from robot_dynamics_ros.commissioning.command_delay import estimate_delay
from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant

MS = 1_000_000
START = np.array([0.2, -1.0, -0.4, 0.6])


def spring(q, v):
    """Return the effort that a driver adds by itself, N m."""
    return -300.0 * (q - START)


def recorded(delay: float, *, moves: int = 3, encoder: float = 0.0, wrong: float = 1.0, own=None):
    """Return times, states and commands of an arm with friction; a quarter of a period is a step.

    Args:
        delay: In periods, a multiple of 0.25.
        moves: Number of motions by 0.02 rad.
        encoder: Size of its steps, rad.
        wrong: Factor of the masses that the model does not know.
        own: What the driver adds to the commands, which lack it; None: nothing.
    """
    tree, rng = sample('four_dof').tree, np.random.default_rng(3)
    real = tree.with_changes(mass=wrong * tree.mass, inertia=wrong * tree.inertia)
    plant, model = MujocoPlant(real, 0.25e-3, joint_limits=False), make_formulation('kane', tree)
    plant.reset(START)
    goal, rows, (q, v) = START, [], np.zeros((2, 4))
    sent = deque([np.zeros(4)] * round(4 * delay))
    for k in range(400 * moves + 300):
        plant.read(q, v)
        if encoder:
            q = np.round(q / encoder) * encoder
        if k % 400 == 200 and k < 400 * moves:
            goal = START + 0.02 * rng.choice([-1.0, 1.0], 4)
        added = own(q, v) if own else np.zeros(4)
        command = model.inverse_dynamics(q, v, 900.0 * (goal - q) - 60.0 * v) - added
        rows.append((1e-3 * k, q.copy(), v.copy(), command))
        for _ in range(4):
            sent.append(command)
            plant.step(sent.popleft() + added)
    return tree, *map(np.array, zip(*rows, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize('delay', [0.0, 1.5, 3.25])
def test_the_delay_of_short_motions_is_found(delay):
    """By the joints whose commands explain their efforts, unlike those of the last one here."""
    *given, command = recorded(delay)
    command[:, -1] = command[::-1, -1]
    found = estimate_delay(*given, command)
    assert found.periods == pytest.approx(delay, abs=0.1)
    assert found.deviation < 0.1
    assert found.period == pytest.approx(1e-3)
    assert found.joints == ('joint1', 'joint2', 'joint3')


@pytest.mark.slow
def test_it_is_found_with_encoder_steps_and_a_wrong_model_and_without_velocities():
    tree, time, q, v, command = recorded(2.0, encoder=2e-5, wrong=1.15)
    assert estimate_delay(tree, time, q, v, command).periods == pytest.approx(2.0, abs=0.15)
    found = estimate_delay(tree, time, q, np.nan * v, command)
    assert found.periods == pytest.approx(2.0, abs=3.0 * found.deviation + 0.6)


@pytest.mark.slow
def test_it_is_found_beside_what_the_driver_adds_and_between_lost_states(rng):
    found = estimate_delay(*recorded(2.0, own=spring), spring)
    assert found.periods == pytest.approx(2.0, abs=0.1)
    tree, *columns = recorded(2.0)
    kept = rng.random(len(columns[0])) > 0.1
    found = estimate_delay(tree, *(column[kept] for column in columns))
    assert found.periods == pytest.approx(2.0, abs=0.1)
    with pytest.raises(RecordingError, match='act 20 periods after their states, or later'):
        estimate_delay(*recorded(24.0))
    with pytest.raises(RecordingError, match='answer 2 states'):
        estimate_delay(tree, *(column[:2] for column in columns))


def test_an_arm_that_only_rests_shows_no_delay():
    with pytest.raises(RecordingError, match='do not change quickly enough'):
        estimate_delay(*recorded(1.0, moves=0))


@pytest.mark.slow
def test_commission_prints_it_and_warns_of_another_one_in_the_profile(command):
    tree, time, q, v, commands = recorded(2.0)
    messages = []
    for k, stamp in enumerate(np.rint(1e9 * time).astype(int).tolist()):
        messages.append(state(stamp, tree.joint_names, q[k], v[k]))
        if k > 20:  # the driver was there before
            messages += [message(stamp + 100_000, x * commands[k], topic=topic)
                         for x, topic in ((1.0, '/torques'), (0.0, '/others'))]  # fmt: skip
    words = ('commission', 'four_dof', '--commands', '--bag', command.word(messages))
    for declared, warned in ((2.0, False), (1.0, True)):
        profile = {'name': 'believed', 'delay': declared, 'command': {'topic': 'torques'}}
        ended = command(*words, '--driver-profile', profile, code=None)
        assert ended.figures['delay']['periods'] == pytest.approx(2.0)
        assert 'delay of the commands: 2.00 +- 0.' in ended.said
        warning = 'delay: of the commands is 2.00 periods, 1 in the profile'
        assert (warning in ended.said) == warned
