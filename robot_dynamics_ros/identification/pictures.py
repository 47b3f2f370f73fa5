# SPDX-License-Identifier: Apache-2.0
"""Pictures of an identification: effort measured and predicted, and what the rest depends on."""

from __future__ import annotations

from typing import Any

import numpy as np

from robot_dynamics_ros.identification.identify import Identification
from robot_dynamics_ros.identification.regressor import PER_BODY
from robot_dynamics_ros.identification.validation import ResidualSeries
from robot_dynamics_ros.recordings.report.figures import (
    COLOURS,
    GREY,
    BarGroup,
    PlotLine,
    bars,
    panels,
)
from robot_dynamics_ros.recordings.report.toolkit import joint_titles
from robot_dynamics_ros.spatial.scalar import Array

_BINS = 60  # of speed along a friction curve
_MEASURED, _MODEL, _BEFORE = GREY, COLOURS[0], COLOURS[1]


def pictures(
    result: Identification, series: tuple[ResidualSeries, ResidualSeries]
) -> list[tuple[str, Any]]:
    """Return the headings and figures of a report.

    Args:
        result: The identification.
        series: What the nominal and the corrected robot leave unexplained of one recording.

    Raises:
        MissingDependencyError: The plot library is not installed.
    """
    before, after = series
    titles = joint_titles(result.tree, 'N m', 'N')
    efforts = [
        PlotLine(after.effort, 'measured', _MEASURED, 3.5),
        PlotLine(after.effort - after.residual, 'predicted', _MODEL, 1.4),
    ]
    residuals = [
        PlotLine(before.residual, 'by the description', _BEFORE),
        PlotLine(after.residual, 'by the corrected model', _MODEL),
    ]
    dots = [PlotLine(after.residual, '', _MODEL, dots=True)]
    speed, friction = _friction_curve(after)
    data = after.friction + after.residual
    curves = [
        PlotLine(data, 'measured less rigid bodies', _MEASURED, dots=True),
        PlotLine(friction, 'model, mean at each velocity', _MODEL, 2.5, x=speed),
    ]
    v, load = 'velocity [rad/s or m/s]', 'effort of the rigid bodies [N m or N]'
    limits = result.tree.effort_limit.tolist()
    return [
        (
            'Effort measured and predicted',
            panels(after.time, titles, efforts, limits=limits),
        ),
        (
            'Unexplained effort over time, before and after the correction',
            panels(after.time, titles, residuals),
        ),
        ('Unexplained effort against velocity', panels(after.velocity, titles, dots, x_title=v)),
        ('Unexplained effort against load', panels(after.load, titles, dots, x_title=load)),
        ('Friction: data and curve', panels(after.velocity, titles, curves, x_title=v)),
        ('Mass of the links', _masses(result)),
    ]


def _friction_curve(series: ResidualSeries) -> tuple[Array, Array]:
    """Return mean speeds and frictions of bins of speed, shape (bins, n); NaN of empty ones."""
    v, friction = series.velocity, series.friction
    curve = np.full((2, _BINS, v.shape[1]), np.nan)
    for i in range(v.shape[1]):
        edges = np.linspace(v[:, i].min(), v[:, i].max() + 1e-12, _BINS + 1)
        place = np.digitize(v[:, i], edges) - 1
        for k in np.unique(place[place < _BINS]):
            inside = place == k
            curve[:, k, i] = v[inside, i].mean(), friction[inside, i].mean()
    return curve[0], curve[1]


def _masses(result: Identification) -> Any:
    nominal, tree = result.plan.unknowns.tree, result.tree
    deviation = result.physical.deviations[: PER_BODY * tree.n : PER_BODY].tolist()
    groups = [
        BarGroup(nominal.mass.tolist(), [], 'described', GREY),
        BarGroup(tree.mass.tolist(), deviation, 'identified, ± standard deviation', COLOURS[0]),
    ]
    return bars(tree.link_names, groups, 'mass [kg]')
