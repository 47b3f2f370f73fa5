# SPDX-License-Identifier: Apache-2.0
"""The declarations of all nodes: consistent, documented, defaults accepted."""

import runpy

import pytest
from checkout import ROOT
from rclpy.serialization import serialize_message

from robot_dynamics_ros.control.laws.registry import known_laws
from robot_dynamics_ros.control.setup import DEFAULTS
from robot_dynamics_ros.parameters import checked, defaults
from robot_dynamics_ros.ros.executables import NODES, declared_parameters
from robot_dynamics_ros.ros.node import descriptor


@pytest.mark.parametrize('node', NODES)
def test_each_name_is_declared_once_and_its_default_is_allowed(node):
    declared = declared_parameters(node)
    names = [one.name for one in declared]
    assert len(names) == len(set(names))
    assert checked(declared, defaults(declared)) == defaults(declared)
    for one in declared:
        serialize_message(descriptor(one))  # as a parameter that is described
    assert all(one.description.endswith('.') and one.sentence.endswith('.') for one in declared)


def test_what_a_law_declares_can_be_set_at_the_controller_and_a_replay_has_its_defaults():
    declared = defaults(declared_parameters('controller'))
    assert {one.name for law in known_laws().values() for one in law.declared} <= declared.keys()
    assert {name: declared[name] for name in DEFAULTS} == DEFAULTS


def test_the_page_in_the_documentation_lists_every_parameter():
    pages = runpy.run_path(str(ROOT / 'docs' / 'site_code' / 'tables.py'))
    page = pages['parameters']()
    for executable in NODES:
        section = page.partition(f'## {executable}\n')[2].partition('\n## ')[0]
        names = {one.name for one in declared_parameters(executable)}
        if executable == 'controller':
            names |= {f'constraints.&lt;joint>.{kind}' for kind in ('trajectory', 'goal')}
        assert {line.split('`')[1] for line in section.splitlines() if '`' in line} == names
