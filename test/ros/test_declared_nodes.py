# SPDX-License-Identifier: Apache-2.0
"""The declarations of all nodes: consistent, documented, defaults accepted."""

import runpy

import pytest
from checkout import ROOT

from robot_dynamics_ros.control.laws.registry import known_laws
from robot_dynamics_ros.control.laws.stop_laws import STOP_ACTIONS
from robot_dynamics_ros.control.setup import DEFAULTS, PARAMETERS
from robot_dynamics_ros.dynamics.registry import FORMULATIONS
from robot_dynamics_ros.parameters import checked, defaults
from robot_dynamics_ros.ros.executables import NODES, declared_parameters


@pytest.mark.parametrize('node', NODES)
def test_each_name_is_declared_once_and_its_default_is_allowed(node):
    declared = declared_parameters(node)
    names = [one.name for one in declared]
    assert len(names) == len(set(names))
    assert checked(declared, defaults(declared)) == defaults(declared)
    assert all(one.description.endswith('.') and one.sentence.endswith('.') for one in declared)


def test_what_a_law_declares_can_be_set_at_the_controller():
    names = {one.name for one in declared_parameters('controller')}
    for law in known_laws().values():
        assert {one.name for one in law.declared} <= names
    assert {'damping', 'home', 'friction_velocity', 'stiction_velocity', 'limit_effort'} <= names


def test_names_that_may_be_chosen_are_those_of_the_registries():
    choices = {one.name: one.choices for one in PARAMETERS if one.choices}
    assert choices['law'] == tuple(known_laws())
    assert choices['formulation'] == tuple(FORMULATIONS)
    assert choices['stop_action'] == tuple(STOP_ACTIONS)
    assert set(choices) >= {'discretization', 'friction_velocity'}


def test_a_replay_has_the_defaults_of_the_node():
    declared = defaults(declared_parameters('controller'))
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
