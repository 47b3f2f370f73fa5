# SPDX-License-Identifier: Apache-2.0
"""Identification of a real UR10E, evaluated from the written files by Pinocchio only.

The recording is not part of the project: see the reason of the skip.
"""

from __future__ import annotations

import re

import numpy as np
import pinocchio
import pytest
import yaml
from real_arm import DATA, GAINS, JOINTS, needs_ur10e, profile_of
from scipy.signal import butter, filtfilt

from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.recordings.reading import read_recording

pytestmark = [needs_ur10e, pytest.mark.slow]
RATE, SLOW = 100.0, 0.02
TERMS = {
    'armature': lambda v, a, load: a,
    'damping': lambda v, a, load: v,
    'coulomb_friction': lambda v, a, load: np.sign(v),
    'offset': lambda v, a, load: np.ones_like(v),
    'load_friction': lambda v, a, load: np.abs(load) * np.sign(v),
    'root_friction': lambda v, a, load: np.sqrt(np.abs(v)) * np.sign(v),
    'square_friction': lambda v, a, load: v * np.abs(v),
    'cubic_friction': lambda v, a, load: v**3,
}


@pytest.fixture(scope='module')
def learned(shared):
    """The training on the first 20 s."""
    bag = DATA / 'bag'
    given = ('--validate', f'{bag}@20:31', '--driver-profile', profile_of(GAINS['study']))
    return shared('identify --to 20 --jobs 1', bag, *given)


def held_out():
    """Positions, velocities, accelerations and efforts as the figure is defined."""
    run = read_recording(DATA / 'bag').of_joints(JOINTS)
    run = run.rows(run.time >= run.time[0] + 20.0)
    grid = np.arange(run.time[0], run.time[-1], 1.0 / RATE)

    def even(x, cutoff=None):
        x = np.column_stack([np.interp(grid, run.time, column) for column in x.T])
        return filtfilt(*butter(5, cutoff, fs=RATE), x, axis=0) if cutoff else x

    v, effort = even(run.velocity, 7.5), even(run.measured_effort * GAINS['study'], 10.0)
    return even(run.position), v, np.gradient(v, 1.0 / RATE, axis=0), effort


def rigid(urdf, q, v, a):
    """Return the efforts of an arm without the inertia of its rotors."""
    model = pinocchio.buildModelFromXML(urdf)
    model.armature[:] = 0.0
    data = model.createData()
    return np.array([pinocchio.rnea(model, data, *row) for row in zip(q, v, a, strict=True)])


def drive(joints, v, a, load):
    term = {key: np.array([joints[name][key] for name in JOINTS]) for key in joints[JOINTS[0]]
            if key != 'deviations'}  # fmt: skip
    stribeck = np.exp(-np.square(v / term['stribeck_velocity'])) * np.sign(v)
    return term['stribeck_friction'] * stribeck + sum(
        term[key] * column(v, a, load) for key, column in TERMS.items()
    )


def moving_rms(x, v):
    """Return the RMS of each joint while it moves."""
    return np.sqrt(np.mean(np.square(x), axis=0, where=np.abs(v) > SLOW))


def test_held_out_motion_is_explained_by_an_arm_that_could_be_built(learned):
    urdf = learned.text('corrected.urdf')
    joints = yaml.safe_load(learned.text('parameters.yaml'))['joints']
    q, v, a, effort = held_out()
    load = rigid(urdf, q, v, a)
    residual = effort - load - drive(joints, v, a, load)
    # Viscous and Coulomb friction alone leave 5.4 %: the further terms are worth something.
    assert (moving_rms(residual, v) / moving_rms(effort, v)).mean() < 0.046
    ratio = load_robot(urdf).mass / load_robot(DATA / 'ur10e.urdf').mass
    assert ratio.min() > 0.5
    assert ratio.max() < 2.0
    # The pan joint also turns a rotor of a few kg m^2, as published for this arm.
    assert 1.0 < joints[JOINTS[0]]['armature'] < 20.0
    for values in joints.values():
        assert all(key in values['deviations'] for key in TERMS if values[key])
    tilt = learned.figures['gravity_estimate']
    assert tilt['tilt_degrees'] < 3.0 * tilt['tilt_deviation_degrees']
    assert 'tilted' not in tilt['sentence']


def smaller(text):
    """Return a description of links of three tenths of the mass."""
    return re.sub(r'mass value="([^"]+)"', lambda m: f'mass value="{0.3 * float(m[1])}"', text)


def shorter(text):
    """Return a description with both arms half as long."""
    text = text.replace('0.0 -0.137 0.613"', '0.0 -0.137 0.3"')
    return text.replace('0.0 0.0 0.571"', '0.0 0.0 0.28"')


OTHERS = {
    smaller: 'is it another robot?',
    shorter: 'error: the data do not match this robot: ',
}


@pytest.mark.parametrize('change', OTHERS)
def test_the_bag_of_another_robot_is_refused_without_a_result(change, command):
    """Of shorter arms the masses are right: only the effort, or an absurd result, reveals it."""
    other = change((DATA / 'ur10e.urdf').read_text())
    given = ('--robot', other, '--driver-profile', profile_of(GAINS['study']))
    ended = command('identify --to 15 --jobs 1', DATA / 'bag', *given, code=None)
    assert ended.code != 0
    assert OTHERS[change] in ended.err
    assert not ended.folder.exists()
