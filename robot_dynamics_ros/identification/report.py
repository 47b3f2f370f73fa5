# SPDX-License-Identifier: Apache-2.0
"""Report of an identification: residuals before and after, parameters and deviations, plots.

The plots show measured and predicted efforts, and residuals over time, velocity and load.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from robot_dynamics_ros.estimation.accumulate import correlation
from robot_dynamics_ros.estimation.regressor import PER_BODY
from robot_dynamics_ros.estimation.residual_causes import resolved
from robot_dynamics_ros.identification.bags import BagOutcome, Evidence
from robot_dynamics_ros.identification.correction import Row, base_rows, joint_rows
from robot_dynamics_ros.identification.identify import USED, Identification
from robot_dynamics_ros.identification.unknowns import recorded_speed
from robot_dynamics_ros.identification.validation import (
    SMALL,
    Residuals,
    ResidualSeries,
    implausible,
)
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.findings import Finding
from robot_dynamics_ros.recordings.report.figures import (
    COLOURS,
    GREY,
    BarGroup,
    PlotLine,
    bars,
    panels,
)
from robot_dynamics_ros.recordings.report.toolkit import (
    ROUNDING,
    Report,
    ReportList,
    ReportTable,
    joint_titles,
    joint_units,
)
from robot_dynamics_ros.spatial.scalar import Array

_FAIR = 10.0  # percent of a joint's effort that may remain unexplained without a warning
_LEAST = 1e-9  # percent: rounding
_SAME = 1.2  # times the residual of the description: noise of a model that fits
_PERFECT = 0.01  # percent: nothing is left that a model would explain
_SURE = 3.0  # standard deviations of a change beyond doubt,
_MATTERS = 0.01  # if it changes a joint's effort by this share
_ALTERNATES = 0.3  # correlation of successive residuals that counts
_SLOW = 0.2  # of the velocity limit
_MOST_BAGS = 10  # rows of the table of bags
_BINS = 60  # velocity bins of a friction curve
_MEASURED, _MODEL, _BEFORE = GREY, COLOURS[0], COLOURS[1]
_TOGETHER = 'Those of a joint include those of the mimic joints that move with it.'
_LEGEND = (
    'Of a sum, only the total is identified. Per link, in the frame of its joint: m mass, '
    'mx my mz mass times centre of mass, Ixx … Izz moments about the origin of that frame.'
)


def identification_report(
    lead: str,
    result: Identification,
    evidence: Evidence,
    remarks: Sequence[str] = (),
    bags: Sequence[BagOutcome] = (),
) -> Report:
    """Return the report, without plots.

    Args:
        lead: One sentence below the heading.
        result: The identification.
        evidence: Its residuals on the validation recordings.
        remarks: Further remarks, one sentence each.
        bags: Results and remarks of each bag.
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
    undetermined = result.undetermined() or ['nothing: every parameter is determined']
    return Report(
        f'Identification of {result.tree.name}',
        lead,
        [
            _verdict(result, before, after),
            *_changed(result),
            *_left(result.tree, evidence),
            *_slow(result, evidence),
        ],
        tiles,
        tables,
        [result.plan.choice.sentence(), _used(after), *result.chosen, *remarks],
        below=[
            _value_table(
                'Friction and armature of the corrected robot',
                joint_rows(result),
                _TOGETHER if result.tree.bodies > result.tree.n else '',
            ),
            _link_table(result),
            _value_table('Identified from the data: base parameters', base_rows(result), _LEGEND),
            ReportList('Not determined by the data', undetermined),
        ],
    )


def _used(after: Residuals) -> str:
    """Return the number of validation samples of each joint as one sentence."""
    counts = ', '.join(
        f'{joint} {moves} moving and {rests} at rest'
        for joint, moves, rests in zip(after.joints, after.sliding, after.at_rest, strict=True)
    )
    return f'filtered samples for validation: {counts}'


def _verdict(result: Identification, before: Residuals, after: Residuals) -> Finding:
    """Return the verdict on each joint as one sentence with its severity."""
    tilt = result.plan.gravity
    if math.isnan(after.worst):
        text = 'no joint moves in the recordings for validation: nothing is validated'
        return Finding('error', text)
    if wrong := implausible(result, after):
        return Finding('error', wrong[0])
    if before.worst <= _PERFECT and after.worst <= _PERFECT:
        text = (
            'nothing to correct: the description explains the recordings to '
            f"{before.worst:.2g} % of a joint's effort"
        )
        return Finding('ok', text)
    if before.worst < after.worst <= _SAME * before.worst and before.worst <= _FAIR:
        text = (
            f'nothing to correct: the description explains all but {before.worst:.3g} % of a '
            f"joint's effort, the corrected model all but {after.worst:.3g} %"
        )
        return Finding('ok', text)
    if not after.worst <= max(before.worst, _LEAST):
        text = (
            'the corrected model explains the recordings no better than the description: '
            f"{after.worst:.3g} % against {before.worst:.3g} % of a joint's effort"
        )
        return Finding('error', text)
    if tilt is not None and tilt.tilted:
        return Finding('warning', tilt.sentence())
    joints = zip(after.joints, before.percent, after.percent, strict=True)
    moved = (row for row in joints if not math.isnan(row[2]))
    each = ', '.join(f'{joint} {old:.3g} → {new:.2g} %' for joint, old, new in moved)
    text = f'effort that the description → the corrected model leaves unexplained: {each}'
    return Finding('warning' if after.worst > _FAIR else 'ok', text)


def _changed(result: Identification) -> list[Finding]:
    """Return which links are other than described, and which combination says so most surely.

    A combination tells that one of its links is, not which: certain are those that are alone in
    one, and of every other combination at least one.
    """
    rows, influence = base_rows(result), result.estimate.influence
    change = np.array([abs(row.value - row.nominal) for row in rows])
    sure = change / np.maximum([row.deviation for row in rows], np.finfo(float).tiny)
    sure = np.where(change * influence > _MATTERS, sure, 0.0)
    names = [tuple(x for x in result.tree.link_names if f'{x}.' in row.name) for row in rows]
    sure = np.where([bool(found) for found in names], sure, 0.0)
    if not (result.single or (sure > _SURE).any()):
        return []
    row, surest = rows[int(np.argmax(sure))], ''
    if (sure > _SURE).any():
        surest = (
            f'; the surest is {row.name}: {row.value:.4g} ± {row.deviation:.2g} {row.unit}, '
            f'not {row.nominal:.4g}'
        )
    if single := result.single:
        bodies = [result.tree.link_names[i] for i in single.bodies]
        weigh = f'{single.mass:.4g} ± {single.deviation:.1g} kg, not {single.nominal:.4g}'
        text = f'{bodies[0]}, which alone explains the recordings and weighs {weigh}'
        if len(bodies) > 1:
            text = (
                f'one of {", ".join(bodies)}, of which each alone explains the recordings: '
                f'together they weigh {weigh}, and the files share the change in proportion to '
                'their described masses'
            )
        return [Finding('ok', f'beyond doubt other than described: {text}{surest}')]
    rotors = [
        tuple(f'the rotor of {x}' for x in result.tree.joint_names if f'{x}.armature' in row.name)
        for row in rows
    ]
    groups = zip(names, rotors, (sure > _SURE).tolist(), strict=True)
    changed = [(*links, *more) for links, more, certain in groups if certain]
    alone = dict.fromkeys(group[0] for group in changed if len(group) == 1)
    rest = dict.fromkeys(
        group
        for group in changed
        if not set(group) & set(alone) and not any(set(own) < set(group) for own in changed)
    )
    parts = [*alone, *(f'one or more of {", ".join(group)}' for group in rest)]
    return [Finding('ok', f'beyond doubt other than described: {"; ".join(parts)}{surest}')]


def _left(tree: Robot, evidence: Evidence) -> list[Finding]:
    """Return what is left at joints that the corrected model explains badly, and why."""
    after, series = evidence.residuals[1], evidence.series[1]
    least, remarks = resolved(tree, np.array(after.rms_effort), SMALL), []
    for i, (joint, percent) in enumerate(zip(after.joints, after.percent, strict=True)):
        if math.isnan(percent) or percent <= _FAIR:
            continue
        rest = series.residual[np.isfinite(series.residual[:, i]), i]
        alike = correlation(rest[1:], rest[:-1]) if len(rest) > 2 else 0.0
        why = 'it varies slowly: compare the plots against velocity and load'
        if alike < -_ALTERNATES:
            why = 'it alternates from sample to sample: chatter of the controller or the drive'
        elif alike < _ALTERNATES:
            why = 'it differs from sample to sample: noise, which no model explains'
        if after.rms[i] <= least[i]:
            why = 'it is below half a percent of its limit, as noise is: record faster motions'
        remarks.append(Finding('warning', f'{percent:.3g} % of {joint} are left: {why}'))
    return remarks


def _slow(result: Identification, evidence: Evidence) -> list[Finding]:
    """Return which joints were recorded so slowly that their friction is hardly known.

    Beyond that speed it is not compensated further: more compensation than there is friction
    drives a joint, and one recorded at 12 % of its velocity limit ran away.
    """
    tree = result.tree
    fastest = np.abs(evidence.series[1].velocity).max(axis=0)
    known = recorded_speed(tree)
    return [
        Finding(
            'warning',
            f'{tree.joint_names[i]} moves at up to {fastest[i]:.2g} per second, its limit '
            f'is {tree.velocity_limit[i]:.3g}: '
            + (
                f'faster than {known[i]:.2g}, the friction of that speed is compensated'
                if np.isfinite(known[i])
                else 'its friction was not identified, that of the model is compensated'
            )
            + '; record it at the speeds of later motions',
        )
        for i in np.flatnonzero(fastest < _SLOW * tree.velocity_limits(0.0)).tolist()
    ]


def _residual_table(result: Identification, before: Residuals, after: Residuals) -> ReportTable:
    head = (
        'joint', 'RMS effort', 'unexplained before', 'unexplained after', 'before', 'after',
        'peak after', 'samples moving', 'at rest, excluded',
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


def _used_table(joints: Sequence[str], bags: Sequence[BagOutcome]) -> ReportTable:
    """Return a table of the efforts of each joint that were used, and excluded by reason."""
    reasons = list(dict.fromkeys(why for bag in bags for why in bag.efforts))
    reasons.sort(key=lambda why: why != USED)
    rows = [
        (
            joint,
            *(f'{sum(bag.efforts.get(why, {}).get(joint, 0) for bag in bags)}' for why in reasons),
        )
        for joint in joints
    ]
    title = 'Filtered efforts used for identification, and excluded ones by reason'
    return ReportTable(('joint', *reasons), rows, title)


def _bag_table(bags: Sequence[BagOutcome]) -> ReportTable:
    """Return a table of the bags with the largest residuals of the corrected robot."""
    validated = sorted(
        (bag for bag in bags if bag.sums),
        key=lambda bag: np.fmax.reduce(bag.percent[1], initial=0.0),
        reverse=True,
    )
    rows = [
        (bag.bag, *(_percent(np.fmax.reduce(part, initial=0.0)) for part in bag.percent))
        for bag in validated[:_MOST_BAGS]
    ]
    failed = sum(bool(bag.error) for bag in bags)
    title = f'{len(bags)} bags, {failed} failed; largest residual of a joint, of its RMS effort'
    return ReportTable(('bag, worst first', 'before', 'after'), rows, title)


def _percent(value: float) -> str:
    return 'not moved' if math.isnan(value) else f'{value:.3g} %'


def _value_table(title: str, values: Sequence[Row], text: str = '') -> ReportTable:
    head = ('parameter', 'description', 'identified', 'standard deviation', 'change', 'unit')
    rows = [
        (
            row.name,
            *(f'{0.0 if abs(x) < ROUNDING else x:.5g}' for x in (row.nominal, row.value)),
            f'{row.deviation:.2g}' if row.deviation else 'not determined',
            _change(row.nominal, row.value),
            row.unit,
        )
        for row in values
    ]
    return ReportTable(head, rows, title, text)


def _change(old: float, new: float) -> str:
    if abs(new - old) < ROUNDING:
        return 'none'
    return f'{100.0 * (new - old) / abs(old):+.3g} %' if abs(old) > ROUNDING else 'new'


def _link_table(result: Identification) -> ReportTable:
    """Return a table of masses and centres of mass, with the share determined by the data."""
    head = (
        'link', 'mass before', 'mass after', 'deviation', 'determined by data', 'centre before',
        'centre after',
    )  # fmt: skip
    nominal, tree = result.plan.unknowns.tree, result.tree
    alone = result.estimate.base.alone.tolist()
    deviation, share = (
        values[: PER_BODY * tree.bodies : PER_BODY]
        for values in (result.physical.deviations, result.physical.data_share)
    )
    rows = [
        (
            name,
            f'{nominal.mass[i]:.4g} kg',
            f'{tree.mass[i]:.4g} kg',
            f'{deviation[i]:.2g} kg' if deviation[i] else '–',
            f'{100.0 * share[i]:.0f} %' if PER_BODY * i in alone else 'only in sums',
            _millimetres(nominal.com[i]),
            _millimetres(tree.com[i]),
        )
        for i, name in enumerate(tree.link_names)
    ]
    return ReportTable(head, rows, 'Links of the corrected robot')


def _millimetres(point: Array) -> str:
    return ' '.join(f'{round(1e3 * x, 1) + 0.0:.1f}' for x in point.tolist()) + ' mm'


def pictures(
    result: Identification, series: tuple[ResidualSeries, ResidualSeries]
) -> list[tuple[str, Any]]:
    """Return the headings and plots of a report.

    Args:
        result: The identification.
        series: Residual series of the nominal and the corrected robot for one recording.

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
        PlotLine(before.residual, 'original description', _BEFORE),
        PlotLine(after.residual, 'corrected model', _MODEL),
    ]
    dots = [PlotLine(after.residual, '', _MODEL, dots=True)]
    speed, friction = _friction_curve(after)
    data = after.friction + after.residual
    curves = [
        PlotLine(data, 'measured minus rigid bodies', _MEASURED, dots=True),
        PlotLine(friction, 'model, mean at each velocity', _MODEL, 2.5, x=speed),
    ]
    v, load = 'velocity [rad/s or m/s]', 'effort of the rigid bodies [N m or N]'
    limits = result.tree.effort_limit.tolist()
    return [
        (
            'Measured and predicted effort',
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
    """Return mean velocity and friction of velocity bins, shape (bins, n); NaN if empty."""
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
    deviation = result.physical.deviations[: PER_BODY * tree.bodies : PER_BODY].tolist()
    groups = [
        BarGroup(nominal.mass.tolist(), [], 'described', GREY),
        BarGroup(tree.mass.tolist(), deviation, 'identified, ± standard deviation', COLOURS[0]),
    ]
    return bars(tree.link_names, groups, 'mass [kg]')
