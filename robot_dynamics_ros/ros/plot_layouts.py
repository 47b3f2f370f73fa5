# SPDX-License-Identifier: Apache-2.0
"""Layouts of PlotJuggler and Foxglove for any robot: the same tabs of plots in both.

They show errors, efforts against limits, components of the efforts, f, and the external wrench.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import cycle
from typing import Any, NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from robot_dynamics_ros.model import Robot

#: Terms of ``computed_torque`` in the order of its messages.
_ORIGINS = ('gravity', 'coriolis', 'inertia', 'feedback', 'friction')
#: Terms of other laws, which only PlotJuggler can show: it finds them by name.
_OTHER_ORIGINS = ('task', 'null_space', 'stiffness', 'damping')
_COLOURS = ('#1f77b4', '#d62728', '#1ac938', '#ff7f0e', '#9467bd', '#8c564b', '#e377c2', '#17becf')
_LIMIT_COLOUR = '#7f7f7f'
_HEAD = """\
<?xml version="1.0" encoding="UTF-8"?>
<!-- SPDX-License-Identifier: Apache-2.0 -->
<!-- Layout of PlotJuggler, written by new_robot. First subscribe to the topics of its curves, or
     load them from a bag; those that are absent stay empty. -->
"""


class _LayoutCurve(NamedTuple):
    """One curve: a field, or of the field of a JointState the entry with a name."""

    topic: str
    field: str
    name: str
    entry: int | None = None


class _LayoutPlot(NamedTuple):
    title: str
    curves: list[_LayoutCurve]
    limit: float = 0.0


def _tabs(tree: Robot, rows: Sequence[str]) -> dict[str, list[_LayoutPlot]]:
    """Return the plots of each tab."""
    joints = tree.joint_names
    units = ['N' if prismatic else 'N m' for prismatic in tree.joint_is_prismatic]

    def entries(topic: str, field: str, names: Sequence[str]) -> list[_LayoutCurve]:
        return [_LayoutCurve(topic, field, name, k) for k, name in enumerate(names)]

    def plot(title: str, topic: str, field: str, names: Sequence[str]) -> _LayoutPlot:
        return _LayoutPlot(title, entries(topic, field, names))

    parts = entries(
        '/controller/effort_components', 'effort', [f'{j}/{o}' for o in _ORIGINS for j in joints]
    )
    wrench, condition = '/controller/external_wrench', '/controller/constraint_condition'
    limits = tree.effort_limit.tolist()
    return {
        'Tracking': [
            plot('reference, rad or m', '/controller/reference', 'position', joints),
            plot('position error, rad or m', '/controller/error', 'position', joints),
            plot('velocity error, rad/s or m/s', '/controller/error', 'velocity', joints),
        ],
        'Efforts': [
            _LayoutPlot(f'effort of {curve.name} and its limits, {unit}', [curve], limit)
            for curve, unit, limit in zip(
                entries('/controller/reference', 'effort', joints), units, limits, strict=True
            )
        ],
        'Components': [
            _LayoutPlot(f'components of {joint}, {unit}', parts[k :: len(joints)])
            for k, (joint, unit) in enumerate(zip(joints, units, strict=True))
        ],
        'f': [
            plot('f', '/controller/constraint', 'position', rows),
            plot('rate of f', '/controller/constraint', 'velocity', rows),
            _LayoutPlot(
                'smallest singular value', [_LayoutCurve(condition, 'data[0]', 'sigma_min')]
            ),
            _LayoutPlot(
                'fraction within the effort limits', [_LayoutCurve(condition, 'data[3]', 'scale')]
            ),
        ],
        'External wrench': [
            _LayoutPlot(
                f'{part}, {unit}', [_LayoutCurve(wrench, f'wrench/{part}/{x}', x) for x in 'xyz']
            )
            for part, unit in (('force', 'N'), ('torque', 'N m'))
        ],
    }


# PlotJuggler -------------------------------------------------------------------------------------


def plotjuggler_text(tree: Robot, rows: Sequence[str] = ()) -> str:
    """Return a layout of PlotJuggler.

    Args:
        tree: The robot.
        rows: Names of the rows of f.
    """
    root = Element('root')
    tabs = SubElement(root, 'tabbed_widget', {'parent': 'main_window', 'name': 'Main Window'})
    formulas = Element('customMathEquations')
    for title, plots in _tabs(tree, rows).items():
        tab = SubElement(tabs, 'Tab', tab_name=title, containers='1')
        sizes = ';'.join([f'{1.0 / len(plots):.6f}'] * len(plots))
        stack = SubElement(
            SubElement(tab, 'Container'),
            'DockSplitter', orientation='-', count=str(len(plots)), sizes=sizes,
        )  # fmt: skip
        for one in plots:
            _add_plot(stack, formulas, one)
    SubElement(tabs, 'currentTabIndex', index='0')
    SubElement(root, 'use_relative_time_offset', enabled='1')
    root.append(formulas)
    ElementTree.indent(root, ' ')
    return f'{_HEAD}{ElementTree.tostring(root, "unicode")}\n'


def _add_plot(stack: Element, formulas: Element, plot: _LayoutPlot) -> None:
    """Append a plot, and to the formulas the limits that it shows as constants."""
    area = SubElement(stack, 'DockArea', name=plot.title)
    shown = SubElement(area, 'plot', mode='TimeSeries', style='Lines')
    names = [_series(curve) for curve in plot.curves]
    if names and '/effort_components/' in names[0]:
        joint = plot.curves[0].name.rpartition('/')[0]
        names += [_series(plot.curves[0]._replace(name=f'{joint}/{x}')) for x in _OTHER_ORIGINS]
    for name, colour in zip(names, cycle(_COLOURS)):
        SubElement(shown, 'curve', name=name, color=colour)
    for sign, end in (('', 'upper'), ('-', 'lower')) if plot.limit else ():
        name = f'limit/{plot.curves[0].name}/{end}'
        SubElement(shown, 'curve', name=name, color=_LIMIT_COLOUR)
        snippet = SubElement(formulas, 'snippet', name=name)
        SubElement(snippet, 'global')
        SubElement(snippet, 'function').text = f'return {sign}{plot.limit}'
        SubElement(snippet, 'linked_source').text = names[0]


def _series(curve: _LayoutCurve) -> str:
    parts = (curve.field,) if curve.entry is None else (curve.name, curve.field)
    return '/'.join((curve.topic, *parts))


# Foxglove ----------------------------------------------------------------------------------------


def foxglove_text(tree: Robot, rows: Sequence[str] = ()) -> str:
    """Return a layout of Foxglove, which finds entries by index.

    Args:
        tree: The robot.
        rows: Names of the rows of f.
    """
    panels: dict[str, Any] = {}
    tabs = []
    for title, plots in _tabs(tree, rows).items():
        names = [f'Plot!{title}{k}' for k in range(len(plots))]
        panels |= {name: _panel(plot) for name, plot in zip(names, plots, strict=True)}
        tabs.append({'title': title, 'layout': _stacked(names)})
    panels['Tab!robot'] = {'activeTabIdx': 0, 'tabs': tabs}
    layout = {'configById': panels, 'globalVariables': {}, 'userNodes': {}, 'layout': 'Tab!robot'}
    return json.dumps(layout, indent=1) + '\n'


def _stacked(names: Sequence[str]) -> Any:
    """Return panels in a column, of equal height."""
    if len(names) == 1:
        return names[0]
    share = 100.0 / len(names)
    below = _stacked(names[1:])
    return {'direction': 'column', 'first': names[0], 'second': below, 'splitPercentage': share}


def _panel(plot: _LayoutPlot) -> dict[str, Any]:
    paths = [
        {
            'value': _message_path(curve),
            'label': curve.name,
            'enabled': True,
            'timestampMethod': 'receiveTime',
        }
        for curve in plot.curves
    ]
    for sign in ('', '-') if plot.limit else ():
        line = {'value': f'{sign}{plot.limit}', 'label': 'limit', 'color': _LIMIT_COLOUR}
        paths.append({**line, 'enabled': True, 'timestampMethod': 'receiveTime'})
    return {'title': plot.title, 'paths': paths, 'showLegend': True, 'isSynced': True}


def _message_path(curve: _LayoutCurve) -> str:
    index = '' if curve.entry is None else f'[{curve.entry}]'
    return f'{curve.topic}.{curve.field.replace("/", ".")}{index}'
