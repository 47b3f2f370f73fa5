# SPDX-License-Identifier: Apache-2.0
"""Commands that weigh a load, or drive gains by a load, as a user runs them.

The efforts are Pinocchio's, recorded in amperes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import yaml
from recorded_arm import measured_arm, measured_run, sinusoids, write_run
from samples import DOWN_Z

from robot_dynamics_ros.__main__ import main

GAINS, LOAD = np.array([14.0, 13.0, 11.0]), 2.8  # N m per A, kg
TILT = np.radians(45.0)
TILTED = (9.81 * np.sin(TILT), 0.0, -9.81 * np.cos(TILT))


def current_bag(path, load=0.0, gravity=DOWN_Z, heavier=0.0, seed=1, gains=GAINS):
    rng = np.random.default_rng(seed)
    motion = sinusoids(rng, 3, np.arange(0.0, 24.0, 0.01))
    arm = measured_arm(load, heavier)
    run = measured_run(arm, motion, gravity=gravity, noise=(0.0, 1e-3, 0.3), rng=rng)
    run = replace(run, measured_effort=run.measured_effort / gains)
    return write_run(path, replace(run, description=measured_arm().xml))


def profile(folder, gains):
    rows = [{'joint': name, 'effort_unit': 'A', 'torque_constant': float(gain)}
            for name, gain in zip(('pan', 'lift', 'elbow'), gains, strict=True)]  # fmt: skip
    path = folder / 'driver.yaml'
    state = {'topic': 'joint_states', 'effort': 'total'}
    path.write_text(yaml.safe_dump({'name': 'arm', 'state': state, 'joints': rows}))
    return path


@pytest.fixture(scope='module')
def bags(tmp_path_factory):
    folder = tmp_path_factory.mktemp('bags')
    return {
        'free': current_bag(folder / 'free'),
        'loaded': current_bag(folder / 'loaded', LOAD, seed=2),
        'free, tilted': current_bag(folder / 'free_tilted', gravity=TILTED),
        'loaded, tilted': current_bag(folder / 'loaded_tilted', LOAD, TILTED, seed=2),
    }


def identify(*words):
    return main(['identify', *map(str, words), '--jobs', '1'])


@pytest.mark.slow
def test_a_tilted_base_is_said_where_loads_are_weighed(bags, tmp_path, capsys):
    driver = profile(tmp_path, GAINS)
    given = ('--driver-profile', driver)
    free, loaded = bags['free, tilted'], bags['loaded, tilted']
    payload = (loaded, '--payload', 'tool', '--unloaded', free, *given, '--output', tmp_path / 'p')
    assert identify(*payload) == 0
    assert 'the base was tilted: gravity points 4' in capsys.readouterr().out
    gains = ('--gains', free, loaded, '--load', LOAD, *given, '--output', tmp_path / 'g')
    assert identify(*gains) == 0
    assert 'the base was tilted: gravity points 4' in capsys.readouterr().out


@pytest.mark.slow
def test_a_gravity_that_the_efforts_contradict_is_the_first_reason(bags, tmp_path, capsys):
    given = ('--driver-profile', profile(tmp_path, GAINS), '--gravity', *DOWN_Z)
    code = identify(bags['free, tilted'], *given, '--output', tmp_path / 'out')
    printed = capsys.readouterr()
    lines = (printed.err or printed.out).splitlines()
    assert any('the given gravity contradicts the efforts: gravity points 4' in x for x in lines)
    if code:
        assert 'the given gravity' in lines[0]


@pytest.mark.slow
def test_a_load_or_an_order_that_the_arm_contradicts_is_refused(bags, tmp_path, capsys):
    given = ('--driver-profile', profile(tmp_path, GAINS), '--output', tmp_path / 'out')
    runs = bags['free'], bags['loaded']
    assert identify('--gains', *runs[::-1], '--load', LOAD, *given) == 2
    assert 'give the run without the load first' in capsys.readouterr().err
    assert identify('--gains', *runs, '--load', 10.0 * LOAD, *given) == 2
    error = capsys.readouterr().err
    assert 'a load of 28 kg needs gains' in error.replace(':', '')
    assert 'was it 2.' in error
    assert identify('--gains', *runs, '--load', LOAD, *given) == 0


@pytest.mark.slow
@pytest.mark.parametrize('words', ['unloaded profile', ''])
def test_the_stated_deviation_of_a_load_covers_gains_and_arm(words, tmp_path, capsys):
    """Gains are known to a tenth, and an upper arm weighs 15 % more than described."""
    wrong = np.array([1.1, 1.1, 0.92])
    free = current_bag(tmp_path / 'free', heavier=1.4, gains=GAINS)
    loaded = current_bag(tmp_path / 'loaded', LOAD, heavier=1.4, seed=2)
    if 'profile' in words:
        given = ['--driver-profile', profile(tmp_path, GAINS * wrong)]
    else:  # the driver multiplies by these gains itself
        free = current_bag(tmp_path / 'free_nm', heavier=1.4, gains=1.0 / wrong)
        loaded = current_bag(tmp_path / 'loaded_nm', LOAD, heavier=1.4, seed=2, gains=1.0 / wrong)
        given = []
    given += ['--unloaded', free] if 'unloaded' in words else []
    assert identify(loaded, '--payload', 'tool', *given, '--output', tmp_path / 'o') == 0
    said = capsys.readouterr().out
    mass, deviation = said.split('carries ')[1].split(' kg')[0].split(' ± ')
    assert abs(float(mass) - LOAD) < 3.0 * float(deviation)
    assert float(deviation) < 0.5 * LOAD
