# SPDX-License-Identifier: Apache-2.0
"""Sessions whose driver is delayed: what is accepted is calm, what would oscillate is refused.

The plant is MuJoCo with a queue of delayed commands.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from delayed_arm import LAWS, DelayedArm, accepted, bare, named_limit
from pushed_arm import ARMS
from samples import sample

from robot_dynamics_ros.contact.detector import ContactThresholds
from robot_dynamics_ros.control.drivers.driver_interface import DriverInterface
from robot_dynamics_ros.control.drivers.profile import load_driver_profile
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.errors import ConfigurationError, ParameterError

START = np.array(ARMS['four_dof'][1])
TREE = bare(sample('four_dof').tree)
FRAME = {'frame_stiffness': {'impedance_frame': 'tool'}}


def late(delay: int, declared: float | None = None, **given: Any) -> DelayedArm:
    return DelayedArm(TREE, START, delay, declared, **given)


@pytest.mark.slow
@pytest.mark.parametrize('name', LAWS)
@pytest.mark.parametrize('delay', [0, 1, 2, 3])
def test_the_largest_value_that_is_named_is_calm_and_a_quarter_more_is_refused(name, delay):
    given = LAWS[name] | FRAME.get(name, {})
    most = accepted(TREE, START, delay, name, **given)
    assert late(delay, **given, **{name: most.tolist()}).is_calm()
    with pytest.raises(ParameterError, match=f'{name} = .* unstable at a period'):
        late(delay, **given, **{name: (1.25 * most).tolist()})


@pytest.mark.slow
@pytest.mark.parametrize('name', ['natural_frequency', 'joint_stiffness', 'frame_stiffness'])
def test_what_is_refused_for_the_delay_really_oscillates_where_the_delay_is_hidden(name):
    """With one and a half times the frequency that three periods bear, declared as none."""
    given = LAWS[name] | FRAME.get(name, {})
    factor = 1.5 if name == 'natural_frequency' else 2.25
    value = (factor * accepted(TREE, START, 3, name, **given)).tolist()
    assert not late(3, declared=0, **given, **{name: value}).is_calm()


def test_a_delay_of_one_period_is_the_default_of_a_profile_and_none_without_one():
    given = {'law': 'computed_torque', 'natural_frequency': [390.0]}
    for profile, taken in ((None, True), ({'delay': 0}, True), ({'delay': 1}, False), ({}, False)):
        driver = None
        if profile is not None:
            driver = DriverInterface(load_driver_profile({'name': 'test', **profile}), TREE)
        if taken:
            ControllerSession(TREE, given, driver)
            continue
        with pytest.raises(ParameterError, match='with a delay of 1 periods; give at most'):
            ControllerSession(TREE, given, driver)
    with pytest.raises(ConfigurationError, match='delay'):
        load_driver_profile({'name': 'test', 'delay': -1.0})


def test_filtered_velocities_bear_less_damping_than_measured_ones():
    """Their lag of 1 / (2 pi 20 Hz), 8 ms, is that of the driver's filter."""
    state = {'velocity': 'differentiate', 'cutoff_hz': 20.0}
    driver = DriverInterface(
        load_driver_profile({'name': 'test', 'delay': 0, 'state': state}), TREE
    )
    given = {'law': 'computed_torque', 'natural_frequency': [300.0]}
    ControllerSession(TREE, given)
    with pytest.raises(ParameterError, match='natural_frequency.*give at most') as caught:
        ControllerSession(TREE, given, driver)
    assert 200.0 < named_limit(caught.value).item() < 250.0


@pytest.mark.slow
def test_where_the_arm_moves_to_a_faster_mode_the_stiffness_is_limited_and_this_is_said():
    """Without limits the middle is 0, stretched out; upright joint 1 has little inertia."""
    endless = np.full(4, np.inf)
    tree = TREE.with_changes(position_lower=-endless, position_upper=endless)
    out, upright = np.zeros(4), np.array([0.0, -1.5, 0.1, 0.2])
    given = {'law': 'impedance', 'joint_stiffness': [1e9, 10.0, 5.0, 1.0]}
    with pytest.raises(ParameterError) as caught:
        DelayedArm(tree, out, 3, **given)
    given['joint_stiffness'][0] = 0.9 * named_limit(caught.value)[0]
    for declared in (3, 0):  # hidden, the delay makes it oscillate
        arm = DelayedArm(tree, out, 3, declared, **given)
        assert arm.is_calm()
        assert not [x.text for x in arm.session.remarks if 'limited' in x.text]
        arm.plant.reset(upright)
        arm.run(300)  # the state has jumped: it brakes and holds there
        assert arm.is_calm() == (declared == 3)
        said = [x.text for x in arm.session.remarks if 'is limited to' in x.text]
        assert len(said) == 1  # hidden, the period alone bears more
        assert ('delay of 3 periods' in said[0]) == (declared == 3)


def test_thresholds_of_contacts_have_the_delay_of_the_loop(tmp_path):
    """One number: a file that was calibrated with another one is refused."""
    path = tmp_path / 'contact.yaml'
    bands = ContactThresholds.coarse(TREE)._replace(delay=0.002)
    bands.write(path, TREE.joint_names, {})
    given = {'contact_thresholds': str(path)}
    for delay, taken in ((2, True), (1, False)):
        driver = DriverInterface(load_driver_profile({'name': 'test', 'delay': delay}), TREE)
        if taken:
            ControllerSession(TREE, given, driver)
            continue
        with pytest.raises(ConfigurationError, match='delay of 0.002 s, but .* is 0.001 s'):
            ControllerSession(TREE, given, driver)
