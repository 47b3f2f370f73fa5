# SPDX-License-Identifier: Apache-2.0
"""The report of an identification: what was explained before and after, and how surely.

Its figures: effort measured and predicted, and what the rest depends on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from robot_dynamics_ros.identification.bags import BagNews, Evidence
from robot_dynamics_ros.identification.correction import Row, base_rows, joint_rows
from robot_dynamics_ros.identification.identify import USED, Identification
from robot_dynamics_ros.identification.plausibility import implausible
from robot_dynamics_ros.identification.regressor import PER_BODY
from robot_dynamics_ros.identification.validation import Residuals, ResidualSeries
from robot_dynamics_ros.recordings.metrics.metric import MetricRemark
from robot_dynamics_ros.recordings.report.figures import (
    COLOURS,
    GREY,
    BarGroup,
    PlotLine,
    bars,
    panels,
)
from robot_dynamics_ros.recordings.report.toolkit import (
    Report,
    ReportList,
    ReportTable,
    joint_titles,
    joint_units,
)
from robot_dynamics_ros.spatial.scalar import Array

_FAIR = 10.0  # percent of a joint's effort that may stay unexplained without a word
_LEAST = 1e-9  # percent: rounding
_MOST_BAGS = 10  # in the table
_BINS = 60  # of speed along a friction curve
_MEASURED, _MODEL, _BEFORE = GREY, COLOURS[0], COLOURS[1]
_LEGEND = (
    'A sum is known as a whole, not its parts. Per link, in the frame of its joint: m mass, '
    'mx my mz mass times centre of mass, Ixx … Izz moments about the origin of that frame.'
)


def identification_report(
    lead: str,
    result: Identification,
    evidence: Evidence,
    remarks: Sequence[str] = (),
    bags: Sequence[BagNews] = (),
) -> Report:
    """Return the report, without figures.

    Args:
        lead: One sentence below the heading.
        result: The identification.
        evidence: What it explains of recordings for validation.
        remarks: What else is to be said, one sentence each.
        bags: What there is to say about each.
    """
    before, after = evidence.residuals
    count = f'{len(result.estimate.base)}'
    tiles = [
        (_percent(before.worst), 'unexplained before, worst joint'),
        (_percent(after.worst), 'unexplained after, worst joint'),
        (count, 'combinations of parameters determined'),
        (f'{result.estimate.condition:.3g}', 'condition of the motion (1 is best)'),
    ]
    tables = [_residual_table(result, before, after)]
    if any(bag.efforts for bag in bags):
        tables.append(_used_table(after.joints, bags))
    if len(bags) > 1:
        tables.append(_bag_table(bags))
    silence = result.silence() or ['nothing: every parameter is determined']
    return Report(
        f'Identification of {result.tree.name}',
        lead,
        [_light(result, before, after)],
        tiles,
        tables,
        [result.plan.choice.sentence(), _used(after), *result.chosen, *remarks],
        below=[
            _value_table('Friction and armature of the corrected robot', joint_rows(result)),
            _link_table(result),
            _value_table('What the data tell: base parameters', base_rows(result), _LEGEND),
            ReportList('What the data could not tell', silence),
        ],
    )


def _used(after: Residuals) -> str:
    """Say how much was left for validation, joint by joint."""
    counts = ', '.join(
        f'{joint} {moves} moving and {rests} at rest'
        for joint, moves, rests in zip(after.joints, after.sliding, after.at_rest, strict=True)
    )
    return f'filtered samples for validation: {counts}'


def _light(result: Identification, before: Residuals, after: Residuals) -> MetricRemark:
    """Return one sentence in the colour of what it means."""
    tilt, name = result.plan.gravity, result.tree.name
    if math.isnan(after.worst):
        text = 'the recordings for validation have no joint that moves: nothing is proved'
        return MetricRemark('wrong', text)
    if wrong := implausible(result, after):
        return MetricRemark('wrong', wrong[0])
    if not after.worst <= max(before.worst, _LEAST):
        text = (
            'the corrected model explains the recordings no better than the description: '
            f"{after.worst:.3g} % against {before.worst:.3g} % of a joint's effort"
        )
        return MetricRemark('wrong', text)
    if tilt is not None and tilt.tilted:
        return MetricRemark('look', tilt.sentence())
    ratio = float(f'{before.worst / max(after.worst, _LEAST):.2g}')
    text = (
        f"the description of {name} leaves up to {before.worst:.3g} % of a joint's effort "
        f'unexplained, the corrected model {after.worst:.2g} %: {ratio:,.15g} times less; its '
        'masses are plausible'
    )
    return MetricRemark('look' if after.worst > _FAIR else 'good', text)


def _residual_table(result: Identification, before: Residuals, after: Residuals) -> ReportTable:
    head = (
        'joint', 'RMS effort', 'unexplained before', 'unexplained after', 'before', 'after',
        'peak after', 'samples moving', 'at rest, left out',
    )  # fmt: skip
    units = joint_units(result.tree, 'N m', 'N')
    rows = [
        (
            joint,
            f'{before.rms_effort[i]:.4g} {units[i]}',
            f'{before.rms[i]:.3g} {units[i]}',
            f'{after.rms[i]:.3g} {units[i]}',
            _percent(before.percent[i]),
            _percent(after.percent[i]),
            f'{after.peak[i]:.3g} {units[i]}',
            f'{after.sliding[i]}',
            f'{after.at_rest[i]}',
        )
        for i, joint in enumerate(before.joints)
    ]
    title = 'Effort that the model does not explain, in recordings for validation'
    return ReportTable(head, rows, title)


def _used_table(joints: Sequence[str], bags: Sequence[BagNews]) -> ReportTable:
    """Return how many efforts of each joint were learned from, or left out and why."""
    reasons = list(dict.fromkeys(why for bag in bags for why in bag.efforts))
    reasons.sort(key=lambda why: why != USED)
    rows = [
        (
            joint,
            *(f'{sum(bag.efforts.get(why, {}).get(joint, 0) for bag in bags)}' for why in reasons),
        )
        for joint in joints
    ]
    title = 'Filtered efforts that were learned from, and those left out by reason'
    return ReportTable(('joint', *reasons), rows, title)


def _bag_table(bags: Sequence[BagNews]) -> ReportTable:
    """Return the bags that the corrected robot explains worst."""
    validated = sorted(
        (bag for bag in bags if bag.validated),
        key=lambda bag: _largest(bag.percent[1]),
        reverse=True,
    )
    rows = [
        (bag.bag, *(_percent(_largest(part)) for part in bag.percent))
        for bag in validated[:_MOST_BAGS]
    ]
    failed = sum(bool(bag.error) for bag in bags)
    title = f'{len(bags)} bags, {failed} failed; largest residual of a joint, of its RMS effort'
    return ReportTable(('bag, the worst first', 'before', 'after'), rows, title)


def _largest(percent: Sequence[float]) -> float:
    return max((p for p in percent if not math.isnan(p)), default=0.0)


def _percent(value: float) -> str:
    return 'not moved' if math.isnan(value) else f'{value:.3g} %'


def _value_table(title: str, values: Sequence[Row], text: str = '') -> ReportTable:
    head = ('parameter', 'description', 'identified', 'standard deviation', 'change', 'unit')
    rows = [
        (
            row.name,
            f'{row.nominal:.5g}',
            f'{row.value:.5g}',
            f'{row.deviation:.2g}' if row.deviation else 'not determined',
            _change(row.nominal, row.value),
            row.unit,
        )
        for row in values
    ]
    return ReportTable(head, rows, title, text)


def _change(old: float, new: float) -> str:
    if new == old:
        return 'none'
    return f'{100.0 * (new - old) / abs(old):+.3g} %' if old else 'new'


def _link_table(result: Identification) -> ReportTable:
    """Return masses and centres of mass, and how much of them the data determined."""
    head = (
        'link', 'mass before', 'mass after', 'deviation', 'determined by data', 'centre before',
        'centre after',
    )  # fmt: skip
    nominal, tree = result.plan.unknowns.tree, result.tree
    deviation, share = (
        values[: PER_BODY * tree.n : PER_BODY]
        for values in (result.physical.deviations, result.physical.data_share)
    )
    rows = [
        (
            name,
            f'{nominal.mass[i]:.4g} kg',
            f'{tree.mass[i]:.4g} kg',
            f'{deviation[i]:.2g} kg' if deviation[i] else '–',
            f'{100.0 * share[i]:.0f} %',
            _millimetres(nominal.com[i]),
            _millimetres(tree.com[i]),
        )
        for i, name in enumerate(tree.link_names)
    ]
    return ReportTable(head, rows, 'Links of the corrected robot')


def _millimetres(point: Array) -> str:
    return ' '.join(f'{1e3 * x + 0.0:.1f}' for x in point.tolist()) + ' mm'


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
