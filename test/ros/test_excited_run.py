# SPDX-License-Identifier: Apache-2.0
"""The file written by command excite, sent to the driver emulator.

It is an arm with other friction than its description; the friction identified from the bag of the
run must equal it.
"""

from __future__ import annotations

import json
import signal
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import yaml
from samples import sample

from robot_dynamics_ros.__main__ import main
from robot_dynamics_ros.control.drivers.profile import shipped_profiles

FACTORS = {'damping_factor': [1.5], 'coulomb_friction_factor': [0.7]}


def patient_profile(folder) -> str:
    """Return the path of a driver profile with a timeout for a busy machine."""
    data = yaml.safe_load(shipped_profiles()['generic_ros2_control'].read_text(encoding='utf-8'))
    data['state']['timeout_s'] = 60.0
    path = folder / 'profile.yaml'
    path.write_text(yaml.safe_dump(data), encoding='utf-8')
    return str(path)


@pytest.fixture(scope='module')
def excitation(tmp_path_factory):
    """The file of one short exciting motion."""
    out = tmp_path_factory.mktemp('excitation')
    words = ['--above', '0.1', '--period', '3', '--periods', '1', '--harmonics', '3']
    assert main(['excite', 'scara', '--output', str(out), *words]) == 0
    return out / 'trajectory.yaml'


def described(name: str, urdf: str) -> np.ndarray:
    """Return an attribute of <dynamics> of the four joints, as the text has it."""
    joints = ElementTree.fromstring(urdf).iter('joint')
    found = {joint.get('name'): joint.find('dynamics') for joint in joints}
    return np.array([float(found[f'joint{i}'].get(name)) for i in (1, 2, 3, 4)])


def test_the_file_of_excite_is_run_and_identified_from(processes, peer, excitation, tmp_path):
    driver = {'driver_profile': patient_profile(tmp_path)}
    first = yaml.safe_load(excitation.read_text())['points'][0]['positions']
    bag, out = tmp_path / 'bag', tmp_path / 'out'
    recorder = processes.start('recorder', {'bag': str(bag)})
    recorder.says('recording to')
    patient = {'state_timeout_s': 60.0, 'await_listeners': ['recorder'], 'use_sim_time': True}
    processes.start('controller', {'robot': 'scara', **patient, **driver})
    plant = processes.start(
        'driver_emulator',
        {'robot': 'scara', 'mode': 'lockstep', 'publish_clock': True, 'start_paused': True,
         'on_end': 'exit', 'initial_position': first, 'position_resolution': [1e-6], **FACTORS,
         **driver},
    )  # fmt: skip
    sender = processes.start(
        'trajectory',
        {'robot': 'scara', 'kind': 'file', 'file': str(excitation), 'start_time_s': 0.3,
         'ready_services': ['recorder/ready'], 'simulator': 'driver_emulator',
         'unpause_simulator': True, 'end_simulator': True, 'settle_s': 0.1, 'use_sim_time': True},
    )  # fmt: skip
    assert sender.wait(60) == 0
    assert plant.wait(120) == 0
    recorder.stop(signal.SIGINT)
    assert main(['identify', str(bag), '--output', str(out), '--most', '1', '--jobs', '1']) == 0
    corrected, nominal = (out / 'corrected.urdf').read_text(), sample('scara').xml
    # Three seconds measured by an encoder, whose differences are the velocity, leave nine percent
    # of the Coulomb friction that is 4 % of an effort.
    for name, factor, tolerance in (('damping', 1.5, 0.05), ('friction', 0.7, 0.12)):
        np.testing.assert_allclose(
            described(name, corrected), factor * described(name, nominal), rtol=tolerance
        )
    # As designed, except for the effects of the approach and the columns of the data.
    promised = json.loads((excitation.parent / 'excitation.json').read_text())['condition']
    assert json.loads((out / 'identification.json').read_text())['condition'] < 3.0 * promised
