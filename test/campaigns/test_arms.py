# SPDX-License-Identifier: Apache-2.0
"""The shipped arms meet the figures of the arms campaign, whose robots exist."""

import pytest
from campaigns.arms import ARMS, FILES, PERIOD, program_decay, tracking, verdict

from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.description.urdf import read_description
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.planning.default_motion import default_motion
from robot_dynamics_ros.planning.robot_setup import natural_frequencies

pytestmark = pytest.mark.slow


def test_every_arm_is_in_its_file():
    assert len(ARMS) >= 30
    descriptions = {
        group.file: read_description(FILES[group.file], on_fault=lambda fault: None)
        for group in ARMS.values()
    }
    links = {file: {link.name for link in found.links} for file, found in descriptions.items()}
    assert all({x.frame, x.base} - {''} <= links[x.file] for x in ARMS.values())


def test_a_shipped_arm_follows_what_is_planned_for_it():
    tree = load_robot(shipped_robot('four_dof'))
    motion = default_motion(tree, 'tool')
    gains = natural_frequencies(tree, motion.home, PERIOD)
    found = tracking(tree, motion, gains) | program_decay(tree, motion, gains)
    assert (verdict(found), found['saturated']) == ('', 0)
