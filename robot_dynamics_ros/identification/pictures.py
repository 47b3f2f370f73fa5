# SPDX-License-Identifier: Apache-2.0
"""Pictures of an identification: effort measured and predicted, and what the rest depends on."""

from __future__ import annotations

from typing import Any

import numpy as np

from robot_dynamics_ros.identification.validation import ResidualSeries
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.recordings.report.toolkit import COLOURS, GREY, styled, subplots
from robot_dynamics_ros.spatial.scalar import Array

_MOST_POINTS = 3000
_CURVE = 60  # bins of speed along a friction curve


def force(tree: RobotTree, i: int) -> str:
    """Return the unit of a joint's effort."""
    return 'N' if tree.prismatic[i] else 'N m'


def pictures(
    tree: RobotTree, nominal: RobotTree, series: tuple[ResidualSeries, ResidualSeries]
) -> list[tuple[str, Any]]:
    """Return the titles and figures of a report.

    Args:
        tree: The corrected robot.
        nominal: As it was described.
        series: What either leaves unexplained of one recording.
    """
    before, after = series
    residual = (after.residual, 'unexplained', COLOURS[0])
    explained = after.effort - after.residual
    friction = (after.friction + after.residual, 'measured less rigid bodies', GREY)
    return [
        (
            'Effort measured and predicted',
            _over_time(
                tree, after.time, (after.effort, 'measured', COLOURS[1]),
                (explained, 'predicted', COLOURS[0]),
            ),
        ),
        (
            'Unexplained effort over time, before and after the correction',
            _over_time(
                tree, after.time, (before.residual, 'by the description', COLOURS[1]),
                (after.residual, 'by the corrected model', COLOURS[0]),
            ),
        ),
        (
            'Unexplained effort against velocity',
            _against(tree, after.velocity, 'velocity [rad/s or m/s]', residual),
        ),
        (
            'Unexplained effort against load',
            _against(tree, after.load, 'effort of the rigid bodies [N m or N]', residual),
        ),
        (
            'Friction: data and curve (its mean at each velocity)',
            _friction_curves(
                _against(tree, after.velocity, 'velocity [rad/s or m/s]', friction), after
            ),
        ),
        ('Mass of the links', _masses(tree, nominal)),
    ]  # fmt: skip


def _panels(tree: RobotTree, title: str) -> tuple[Any, list[tuple[int, int]]]:
    """Return an empty figure with a panel per joint, two a row, and the panels' places."""
    rows = (tree.n + 1) // 2
    titles = [f'{name} [{force(tree, i)}]' for i, name in enumerate(tree.joint_names)]
    figure = subplots(rows=rows, cols=2, subplot_titles=titles, vertical_spacing=0.3 / (rows + 1))
    for column in (1, 2):
        figure.update_xaxes(title_text=title, row=rows, col=column)
    return styled(figure, 260 * rows + 60), [(i // 2 + 1, i % 2 + 1) for i in range(tree.n)]


def _over_time(tree: RobotTree, time: Array, *curves: tuple[Array, str, str]) -> Any:
    figure, places = _panels(tree, 'time [s]')
    step = max(1, len(time) // _MOST_POINTS)
    for values, name, colour in curves:
        for i, (row, column) in enumerate(places):
            figure.add_scatter(
                x=time[::step], y=values[::step, i], name=name, legendgroup=name,
                showlegend=i == 0, line={'color': colour, 'width': 1.3}, row=row, col=column,
            )  # fmt: skip
    return figure


def _against(tree: RobotTree, x: Array, title: str, points: tuple[Array, str, str]) -> Any:
    figure, places = _panels(tree, title)
    values, name, colour = points
    step = max(1, len(x) // _MOST_POINTS)
    for i, (row, column) in enumerate(places):
        figure.add_scatter(
            x=x[::step, i], y=values[::step, i], name=name, showlegend=False, mode='markers',
            marker={'color': colour, 'size': 3}, row=row, col=column,
        )  # fmt: skip
    return figure


def _friction_curves(figure: Any, series: ResidualSeries) -> Any:
    for i in range(series.velocity.shape[1]):
        v, friction = series.velocity[:, i], series.friction[:, i]
        edges = np.linspace(v.min(), v.max() + 1e-12, _CURVE + 1)
        place = np.digitize(v, edges) - 1
        there = np.unique(place)
        figure.add_scatter(
            x=[float(v[place == k].mean()) for k in there],
            y=[float(friction[place == k].mean()) for k in there],
            name='friction', showlegend=False, line={'color': COLOURS[0], 'width': 2},
            row=i // 2 + 1, col=i % 2 + 1,
        )  # fmt: skip
    return figure


def _masses(tree: RobotTree, nominal: RobotTree) -> Any:
    figure = subplots(rows=1, cols=1)
    for robot, name, colour in ((nominal, 'described', GREY), (tree, 'identified', COLOURS[0])):
        figure.add_bar(
            x=list(robot.link_names), y=robot.mass.tolist(), name=name, marker={'color': colour}
        )
    figure.update_yaxes(title_text='mass [kg]')
    return styled(figure, 320)
