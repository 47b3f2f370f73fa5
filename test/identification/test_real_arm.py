# SPDX-License-Identifier: Apache-2.0
"""Identification of a real UR10E, evaluated from the written files by Pinocchio only.

The recording is not part of the project: see the reason of the skip.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pinocchio
import pytest
import yaml
from real_arm import DATA, GAINS, JOINTS, needs_ur10e, profile_of
from scipy.signal import butter, filtfilt

from robot_dynamics_ros.identification.identify import identify
from robot_dynamics_ros.identification.loads import gains_by_load
from robot_dynamics_ros.identification.unknowns import TERMS as ALL_TERMS
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.recordings.reading import read_recording

pytestmark = [needs_ur10e, pytest.mark.slow]
RATE, SLOW = 100.0, 0.02
SPEEDS = 'stribeck_velocity', 'recorded_speed'
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
    """The training on the first 20 s, and the gains."""
    gains, bag = GAINS['study'], DATA / 'bag'
    given = ('--validate', f'{bag}@20:31', '--driver-profile', profile_of(gains))
    return shared('identify --to 20 --jobs 1', bag, *given), np.array(gains)


def samples(run, gains, start, end):
    """Positions, velocities, accelerations and efforts as the figure is defined."""
    run = run.of_joints(JOINTS)
    t = run.time - run.time[0]
    inside = (t >= start) & (t <= end)
    grid = np.arange(t[inside][0], t[inside][-1], 1.0 / RATE)

    def even(x, cutoff):
        x = np.column_stack([np.interp(grid, t[inside], c) for c in x[inside].T])
        return filtfilt(*butter(5, cutoff, fs=RATE), x, axis=0) if cutoff else x

    v, effort = even(run.velocity, 7.5), even(run.measured_effort * gains, 10.0)
    return even(run.position, None), v, np.gradient(v, 1.0 / RATE, axis=0), effort


def rigid(model, q, v, a):
    data = model.createData()
    return np.array([pinocchio.rnea(model, data, *row) for row in zip(q, v, a, strict=True)])


def bare(urdf):
    """The arm of a URDF without the inertia of its rotors."""
    model = pinocchio.buildModelFromXML(urdf)
    model.armature[:] = 0.0
    return model


def drive(joints, v, a, load):
    term = {key: np.array([joints[name][key] for name in JOINTS]) for key in joints[JOINTS[0]]
            if key != 'deviations'}  # fmt: skip
    stribeck = np.exp(-np.square(v / term['stribeck_velocity'])) * np.sign(v)
    return term['stribeck_friction'] * stribeck + sum(
        term[key] * column(v, a, load) for key, column in TERMS.items()
    )


def share(residual, effort, v):
    moving = np.abs(v) > SLOW
    return np.array(
        [
            np.sqrt(np.mean(residual[m, j] ** 2) / np.mean(effort[m, j] ** 2))
            for j, m in enumerate(moving.T)
        ]
    )


def test_held_out_motion_is_explained_by_an_arm_that_could_be_built(learned):
    ended, gains = learned
    urdf = ended.text('corrected.urdf')
    joints = yaml.safe_load(ended.text('parameters.yaml'))['joints']
    run = read_recording(DATA / 'bag')
    q, v, a, effort = samples(run, gains, 20.0, 31.0)
    load = rigid(bare(urdf), q, v, a)
    error = share(effort - load - drive(joints, v, a, load), effort, v)
    # Viscous and Coulomb friction alone leave 5.4 %: the further terms are worth something.
    assert error.mean() < 0.046
    nominal, found = load_robot(DATA / 'ur10e.urdf'), load_robot(urdf)
    ratio = found.mass / nominal.mass
    assert ratio.min() > 0.5
    assert ratio.max() < 2.0
    # The pan joint also turns a rotor of a few kg m^2, as published for this arm.
    assert 1.0 < joints[JOINTS[0]]['armature'] < 20.0
    for values in joints.values():
        used = {k for k, v in values.items() if k not in (*SPEEDS, 'deviations') and v}
        assert used <= set(values['deviations'])
    tilt = ended.figures['gravity_estimate']
    assert tilt['tilt_degrees'] < 3.0 * tilt['tilt_deviation_degrees']
    assert 'tilted' not in tilt['sentence']


def smaller(text):
    """Return a description of links of three tenths of the mass."""
    return re.sub(r'mass value="([^"]+)"', lambda m: f'mass value="{0.3 * float(m[1])}"', text)


def shorter(text):
    """Return a description with both arms half as long."""
    text = text.replace('0.0 -0.137 0.613"', '0.0 -0.137 0.3"')
    return text.replace('0.0 0.0 0.571"', '0.0 0.0 0.28"')


def turned_elbow(text):
    """Return a description whose elbow turns about another axis."""
    before, elbow, after = text.partition('<joint name="elbow_joint"')
    return before + elbow + after.replace('0 1 0', '1 0 0', 1)


OTHERS = {
    smaller: 'is it another robot?',
    shorter: 'error: the data do not match this robot: ',
    turned_elbow: 'error: the data do not match this robot: ',
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


TRUE_GAINS = np.array([10.4, 11.7, 8.25, 8.5, 9.0, 9.5])
LOAD, CENTRE = 2.8, np.array([0.01, 0.02, 0.06])


def loaded_run(true_gains, centre):
    """The second half of the run with a load at the last wrist, by Pinocchio, in amperes."""
    run = read_recording(DATA / 'bag').of_joints(JOINTS)
    run = run.rows(run.time > run.time[0] + 14.0)
    v = filtfilt(*butter(5, 7.5, fs=RATE), run.velocity, axis=0)
    motion = run.position, v, np.gradient(v, run.time, axis=0)
    bare_arm = bare((DATA / 'ur10e.urdf').read_text())
    own = rigid(bare_arm, *motion)
    inertia = pinocchio.Inertia(LOAD, centre, np.diag([0.008, 0.008, 0.004]))
    bare_arm.appendBodyToJoint(6, inertia, pinocchio.SE3.Identity())
    extra = rigid(bare_arm, *motion) - own
    return replace(run, measured_effort=run.measured_effort + extra / true_gains)


def test_a_load_is_weighed_with_the_gains_that_the_arms_weight_asks_for(command):
    given = ('--unloaded', DATA / 'bag', '--robot', DATA / 'ur10e.urdf')
    given += ('--driver-profile', profile_of(GAINS['load']))
    run = loaded_run(TRUE_GAINS, CENTRE)
    ended = command('identify --payload wrist_3_link --jobs 1', run, *given)
    assert "gains scaled by the arm's own weight" in ended.out
    text = ended.text('payload.yaml')
    found = yaml.safe_load(text)['/**']['ros__parameters']
    stated = yaml.safe_load(text.splitlines()[1][2:])
    assert stated['mass'] < 0.15 * LOAD
    assert abs(found['payload_mass'] - LOAD) < 2.0 * stated['mass']
    assert (np.abs(np.array(found['payload_com']) - CENTRE) < 3.0 * np.array(stated['com'])).all()


def test_the_deviations_of_gains_cover_the_truth_for_any_gains_and_centre():
    tree, given = load_robot(DATA / 'ur10e.urdf'), np.array(GAINS['study'])
    run = read_recording(DATA / 'bag').of_joints(JOINTS)
    unloaded = replace(run, measured_effort=run.measured_effort * given)
    found = identify([unloaded], tree, tuple(ALL_TERMS))
    errors = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        true = TRUE_GAINS * rng.uniform(0.8, 1.2, 6)
        loaded = loaded_run(true, rng.uniform([-0.05, -0.05, 0.02], [0.05, 0.05, 0.1]))
        loaded = replace(loaded, measured_effort=loaded.measured_effort * given)
        gains, corrected = gains_by_load(found, loaded, 'wrist_3_link', LOAD)
        assert set(JOINTS[1:4]) <= set(corrected)
        assert (gains.deviation[1:4] < 0.03).all()  # they carry the load: not a guess
        errors.append((given * gains.factor - true) / (given * gains.deviation))
    errors = np.nan_to_num(np.array(errors))
    # Two standard deviations hold 95 % of the truth; the seeds share one run and its disturbances.
    assert (np.abs(errors) < 2.0).mean() > 0.95
    assert np.sqrt(np.mean(np.square(errors))) < 1.0
