# SPDX-License-Identifier: Apache-2.0
"""Layouts of PlotJuggler and Foxglove show only topics, fields and entries that exist."""

import json
import re
import runpy
from itertools import product
from xml.etree import ElementTree

import numpy as np
import pytest
from checkout import ROOT

from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.control.laws.registry import make_law
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.ros.conversions import message_class

_NUMBERS = {'double', 'sequence<double>'}
_SHOWN = {
    f'/controller/{name}'
    for name in (
        'reference', 'error', 'effort_components', 'constraint', 'constraint_condition',
        'external_wrench',
    )
}  # fmt: skip
#: Laws whose components a layout names; it reads by index those of the first.
_LAWS = ('computed_torque', 'constraint_stabilization', 'impedance')


@pytest.fixture(scope='module')
def topics() -> dict[str, str]:
    """Return the types of the topics that the controller publishes."""
    nodes = runpy.run_path(str(ROOT / 'docs' / 'site_code' / 'tables.py'))['nodes']()
    return {
        name.replace('~', '/controller'): kind.replace('/', '/msg/')
        for name, kind in nodes['controller']['publishers']
    }


class Arm:
    """The robot, the program whose f is shown, and their two layouts."""

    def __init__(self) -> None:
        self.tree = load_robot(shipped_robot('scara'))
        self.program = load_program('scara_circle', self.tree)
        folder = ROOT / 'config'
        self.curves = list(ElementTree.parse(folder / 'plotjuggler.xml').getroot().iter())
        self.panels = json.loads((folder / 'foxglove.json').read_text('utf-8'))['configById']

    def entries(self, *laws: str) -> dict[str, list[str]]:
        """Return the names in each JointState of the controller, in the order of its messages."""
        joints, names = list(self.tree.joint_names), []
        q, v, out = np.full(self.tree.n, 0.4), *np.zeros((2, self.tree.n))
        for law in laws:
            given = {'program': self.program} if law == 'constraint_stabilization' else {}
            made, reference = make_law(law, self.tree, **given), Reference(self.tree.n)
            made.effort(0.0, q, v, reference, out)
            parts = made.decompose(q, v, reference, out)
            names += [f'{joint}/{origin}' for origin, joint in product(parts, joints)]
        return {
            '/controller/reference': joints,
            '/controller/error': joints,
            '/controller/constraint': list(self.program.stack.rows),
            '/controller/effort_components': names,
        }


@pytest.fixture(scope='module')
def arm() -> Arm:
    return Arm()


def number_at(kind: str, path: list[str]) -> bool:
    """Return whether a message type has a number at a path of fields, such as ``data[3]``."""
    for part in path[:-1]:
        kind = message_class(kind).get_fields_and_field_types()[part]
        kind = kind.replace('/', '/msg/')
    last = re.sub(r'\[\d+\]$', '', path[-1])
    return message_class(kind).get_fields_and_field_types().get(last) in _NUMBERS


def test_curves_of_plotjuggler_exist_and_limits_are_those_of_the_robot(arm, topics):
    """PlotJuggler calls series TOPIC/NAME/FIELD in a JointState, otherwise TOPIC/FIELD/FIELD."""
    formulas = {
        x.get('name'): (float(x.findtext('function').removeprefix('return ')),
                        x.findtext('linked_source'))
        for x in arm.curves if x.tag == 'snippet'
    }  # fmt: skip
    limits = zip(arm.tree.joint_names, arm.tree.effort_limit, strict=True)
    assert set(formulas.values()) == {
        (limit, f'/controller/reference/{joint}/effort')
        for joint, limit in limits for limit in (limit, -limit)
    }  # fmt: skip
    entries, shown = arm.entries(*_LAWS), set()
    for curve in {x.get('name') for x in arm.curves if x.tag == 'curve'} - formulas.keys():
        _, node, name, *path = curve.split('/')
        topic = f'/{node}/{name}'
        shown.add(topic)
        if topics[topic] == 'sensor_msgs/msg/JointState':
            *entry, last = path
            assert '/'.join(entry) in entries[topic], curve
            path = [last]
        assert number_at(topics[topic], path), curve
    assert shown == _SHOWN


def test_paths_of_foxglove_exist_have_the_names_of_their_entries_and_are_in_a_tab(arm, topics):
    entries, shown = arm.entries(_LAWS[0]), set()
    for panel in (x for name, x in arm.panels.items() if name.startswith('Plot!')):
        limits = [float(x['value']) for x in panel['paths'] if x['label'] == 'limit']
        for path in (x for x in panel['paths'] if x['label'] != 'limit'):
            topic, *fields = path['value'].split('.')
            shown.add(topic)
            assert number_at(topics[topic], fields), path
            if topic in entries:
                entry = int(re.search(r'\[(\d+)\]$', path['value']).group(1))
                assert path['label'] == entries[topic][entry]
        if limits:
            limit = arm.tree.effort_limit[entry]
            assert limits == [limit, -limit]
    assert shown == _SHOWN
    placed = re.findall(r"'(\w+![^']*)'", str(arm.panels['Tab!robot']['tabs']))
    assert sorted([*placed, 'Tab!robot']) == sorted(arm.panels)
