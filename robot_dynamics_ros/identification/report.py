# SPDX-License-Identifier: Apache-2.0
"""Report of an identification: residuals before and after, parameters and deviations, plots.

A terminal shows the verdict, what changed beyond doubt, friction, and what stays as described.

The plots show measured and predicted efforts, and residuals over time, velocity and load.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from robot_dynamics_ros.dynamics.joint_terms import joint_inertia
from robot_dynamics_ros.estimation.accumulate import compared
from robot_dynamics_ros.estimation.regressor import PER_BODY
from robot_dynamics_ros.estimation.residual_causes import resolved
from robot_dynamics_ros.estimation.rest import AT_REST
from robot_dynamics_ros.identification.bags import BagOutcome, Evidence
from robot_dynamics_ros.identification.correction import Row, base_rows, delivered
from robot_dynamics_ros.identification.identify import USED, Identification
from robot_dynamics_ros.identification.least_squares import SURE, estimated
from robot_dynamics_ros.identification.unknowns import DEFAULT_TERMS, TERMS, recorded_speed
from robot_dynamics_ros.identification.validation import SMALL, Residuals
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.findings import Finding
from robot_dynamics_ros.recordings.report.figures import COLOURS, GREY, Plots
from robot_dynamics_ros.recordings.report.toolkit import (
    EFFORT,
    NO_UNIT,
    PERCENT,
    ROUNDING,
    Report,
    ReportTable,
    joint_table,
    joint_titles,
)
from robot_dynamics_ros.spatial.scalar import Array

_FAIR = 10.0  # percent of a joint's effort that may remain unexplained without a warning
_LEAST = 1e-9  # percent: rounding
_SAME = 1.2  # times the residual of the description: noise of a model that fits
_NOISE = 1.05  # times that residual: less is not worth a word
_PERFECT = 0.01  # percent: nothing is left that a model would explain
_GAIN = 1.01  # least ratio of the residuals before and after by which a joint is predicted better
_MATTERS = 0.01  # least change of a joint's effort, as a share, that makes one beyond doubt
_SURELY = 'beyond doubt'  # of deviations that know of noise, but not of what no model explains
_ALTERNATES = 0.3  # correlation of successive residuals that counts
_SLOW = 0.2  # of the velocity limit
_MOST_ROWS = 10  # of the table of bags, and of what changed
_MEASURED, _MODEL, _BEFORE = GREY, COLOURS[0], COLOURS[1]
_CANCEL = (
    'Of a joint with further terms only the sum is friction: its damping alone is no measurement.'
)
_TOGETHER = 'Those of a joint include those of the mimic joints that move with it.'
_CHANGED = (
    f'Links: other than described by more than {SURE:g} standard deviations, '
    f'the surest {_MOST_ROWS} at most'
)
_LEGEND = (
    'Of a sum, only the total is identified. Per link, in the frame of its joint: m mass, '
    'mx my mz mass times centre of mass, Ixx … Izz moments about the origin of that frame.'
)


def identification_report(
    lead: str,
    result: Identification,
    evidence: Evidence,
    findings: Sequence[Finding],
    remarks: Sequence[str],
    bags: Sequence[BagOutcome],
    steps: Sequence[str],
) -> Report:
    """Return the report, without plots; what a terminal need not show is below them.

    Args:
        lead: From what it was learned and how it is validated, without a full stop.
        result: The identification.
        evidence: Its residuals on the validation recordings.
        findings: Further findings.
        remarks: Further remarks, one sentence each.
        bags: Results and remarks of each bag.
        steps: Commands to go on with.
    """
    before, after = evidence.residuals
    was, left = _percent(before.worst), _percent(after.worst)
    tiles = [
        (was, 'unexplained before, worst joint'),
        (left, 'unexplained after, worst joint'),
        (f'{len(result.estimate.base)}', 'combinations of parameters determined'),
        (f'{result.estimate.condition:.3g}', 'condition of the motion (1 is best)'),
    ]
    rows = base_rows(result)
    sure = _certainty(result)
    how = _SURELY if after.worst <= _FAIR and not findings else 'probably'
    changed = [rows[k] for k in np.argsort(-sure)[:_MOST_ROWS] if sure[k] > SURE]
    tables = [_value_table(_CHANGED, changed, _LEGEND)] if changed else []
    details = [_residual_table(result.tree, before, after)]
    if any(bag.efforts for bag in bags):
        details.append(_used_table(result.tree, bags))
    if len(bags) > 1:
        details.append(_bag_table(result.tree, bags))
    chosen = result.plan.choice.sentence(), *result.chosen
    undetermined = result.undetermined() or ['nothing: every parameter is determined']
    return Report(
        f'Identification of {result.tree.name}',
        f'{lead}: unexplained effort of the worst joint {was} before, {left} after.',
        [
            _verdict(before, after),
            *findings,
            *(_changed(result, sure, how) if _is_better(before, after) else []),
            *_left(result.tree, evidence),
            *_slow(result, evidence),
        ],
        tiles,
        [*tables, _drive_table(result)],
        [*_kept(result), *remarks],
        steps=steps,
        below=[
            *details,
            _link_table(result),
            _value_table('Identified from the data: base parameters', rows, _LEGEND),
            ReportTable(['Not determined by the data'], [[x] for x in undetermined]),
            ReportTable(['Preparation and terms'], [[x] for x in chosen]),
        ],
    )


def _verdict(before: Residuals, after: Residuals) -> Finding:
    """Return the verdict on each joint as one sentence with its severity."""
    if math.isnan(after.worst):
        text = 'no joint moves in the recordings for validation: nothing is validated'
        return Finding('error', text)
    perfect = max(before.worst, after.worst) <= _PERFECT
    if perfect or before.worst < after.worst <= _SAME * before.worst <= _SAME * _FAIR:
        text = (
            'nothing to correct: the description explains the recordings but for '
            f"{_percent(before.worst)} of a joint's effort, the corrected model but for "
            f'{_percent(after.worst)}'
        )
        return Finding('ok', text)
    if not after.worst <= max(before.worst, _LEAST):
        text = (
            'the corrected model explains the recordings no better than the description: '
            f"{after.worst:.3g} % against {before.worst:.3g} % of a joint's effort"
        )
        return Finding('error', text)
    joints = zip(after.joints, before.percent, after.percent, strict=True)
    moved = [row for row in joints if not math.isnan(row[2])]
    worse = [row for row in moved if row[2] > max(_NOISE * row[1], _PERFECT)]
    text = (
        'effort that the description → the corrected model (parameters.yaml) leaves unexplained: '
    )
    text += _each(row for row in moved if row not in worse)
    if worse:
        text += f'; these joints are predicted worse: {_each(worse)}'
    bad = after.worst > _FAIR or any(new > _SAME * old for _, old, new in worse)
    return Finding('warning' if bad else 'ok', text)


def _each(rows: Iterable[tuple[str, float, float]]) -> str:
    return ', '.join(f'{joint} {_percent(old)} → {_percent(new)}' for joint, old, new in rows)


def _certainty(result: Identification) -> Array:
    """Return by how many standard deviations links are other than described, of each combination.

    0 without a link, and where the change hardly matters to any effort.
    """
    estimate, unknowns = result.estimate, result.plan.unknowns
    change = np.abs(estimate.values - estimate.base.B @ unknowns.nominal)
    sure = change / np.maximum(estimate.deviations, np.finfo(float).tiny)
    links = estimate.base.shown[:, : unknowns.links].any(axis=1)
    return np.where(links & (change * estimate.influence > _MATTERS), sure, 0.0)


def _is_better(before: Residuals, after: Residuals) -> bool:
    """Return whether a joint is predicted better; standard deviations know of noise only."""
    joints = zip(before.percent, after.percent, strict=True)
    return any(old > _GAIN * new for old, new in joints)


def _changed(result: Identification, sure: Array, how: str = _SURELY) -> list[Finding]:
    """Return which links are other than described.

    A combination tells that one of its links is, not which: certain are those that are alone in
    one, and of every other combination at least one.
    """
    if single := result.single:
        bodies = [result.tree.link_names[i] for i in single.bodies]
        weigh = f'{single.mass:.4g} ± {single.deviation:.1g} kg, not {single.nominal:.4g}'
        others = 'if the other links, and zeros of joints, are as described'
        if single.centred:
            others = 'if its centre of mass, the other links, and zeros of joints are as described'
        explains = 'alone of all links explains the recordings'
        text = f'{bodies[0]}, which {explains} and weighs {weigh}, {others}'
        if len(bodies) > 1:
            text = (
                f'one of {", ".join(bodies)}, of which each {explains}: '
                f'together they weigh {weigh}, {others}, and the files share the change in '
                'proportion to their described masses'
            )
        elif (other := f'{result.tree.mass[single.bodies[0]]:.4g}') != f'{single.mass:.4g}':
            text += f'; the files have {other} kg, fitted with all other parameters'
        if drives := _new_rotors(result):
            text += f'; the description then lacks rotor inertia of {drives}'
        return [Finding('ok', f'{how} other than described: {text}')]
    owners = [
        {'armature': f'the rotor of {name}'}.get(term, '' if term in TERMS else name)
        for name, _, term in (x.rpartition('.') for x in result.plan.unknowns.names)
    ]
    changed = [
        tuple(dict.fromkeys(owners[k] for k in np.flatnonzero(row) if owners[k]))
        for row in result.estimate.base.shown[sure > SURE]
    ]
    alone = dict.fromkeys(group[0] for group in changed if len(group) == 1)
    rest = dict.fromkeys(
        group
        for group in changed
        if not set(group) & set(alone) and not any(set(own) < set(group) for own in changed)
    )
    parts = [*alone, *(f'one or more of {", ".join(group)}' for group in rest)]
    text = f'{how} other than described: {"; ".join(parts)}; unless a joint has a wrong zero'
    return [Finding('ok', text)] if parts else []


def _new_rotors(result: Identification) -> str:
    """Return the joints that move noticeably more rotor inertia than the description says."""
    tree, before = result.tree, result.plan.unknowns.tree.armature
    gained = tree.armature - before > _MATTERS * joint_inertia(tree, np.zeros(tree.n))
    return ', '.join(name for name, new in zip(tree.joint_names, gained, strict=True) if new)


def _left(tree: Robot, evidence: Evidence) -> list[Finding]:
    """Return what is left at joints that the corrected model explains badly, and why."""
    after, left = evidence.residuals[1], evidence.series.after
    least, remarks = resolved(tree, np.array(after.rms_effort), SMALL), []
    for i, (joint, percent) in enumerate(zip(after.joints, after.percent, strict=True)):
        if not percent > _FAIR:
            continue
        rest = left[np.isfinite(left[:, i]), i, np.newaxis]
        alike = compared(rest[1:], rest[:-1])[1].item() if len(rest) > 2 else 0.0
        why = 'it varies slowly: compare the plots against velocity and load'
        speed, squares = np.abs(evidence.series.velocity[:, i]), np.nan_to_num(left[:, i]) ** 2
        if squares @ (speed < AT_REST * speed.max()) > 0.5 * squares.sum():
            why = f'most below {100 * AT_REST:g} % of its peak speed; it is less when faster'
        if alike < -_ALTERNATES:
            why = 'it alternates from sample to sample: chatter of the controller or the drive'
        elif alike < _ALTERNATES:
            why = 'it differs from sample to sample: noise, which no model explains'
        if after.rms[i] <= least[i]:
            why = 'it is less than a drive resolves, as noise is: record faster motions'
        remarks.append(Finding('warning', f'{percent:.3g} % of {joint} are left: {why}'))
    return remarks


def _slow(result: Identification, evidence: Evidence) -> list[Finding]:
    """Return which joints were recorded so slowly that their friction is hardly known.

    Beyond that speed it is not compensated further: more compensation than there is friction
    drives a joint, and one recorded at 12 % of its velocity limit ran away.
    """
    tree, series = result.tree, evidence.series
    known = recorded_speed(tree)
    fastest = np.where(np.isfinite(known), known, np.abs(series.velocity).max(axis=0))
    slow = [
        f'{tree.joint_names[i]} '
        + (
            f'moves at up to {fastest[i]:.2g} {"m/s" if tree.joint_is_prismatic[i] else "rad/s"}, '
            f'its limit is {tree.velocity_limit[i]:.3g}: '
            if fastest[i]
            else 'rests: '
        )
        + (
            'faster, only the friction of that speed is compensated'
            if np.isfinite(known[i])
            else 'its friction was not identified, that of the model is compensated'
        )
        for i in np.flatnonzero(fastest < _SLOW * tree.velocity_limits(0.0)).tolist()
        if fastest[i] or np.nan_to_num(series.effort[:, i]).any()  # else no drive tells of it
    ]
    if not slow:
        return []
    return [Finding('warning', f'{"; ".join(slow)}; record at the speeds of later motions')]


def _kept(result: Identification) -> list[str]:
    """Return which links and which drives the data do not determine, at most a sentence each."""
    unknowns, estimate = result.plan.unknowns, result.estimate
    drives = np.intersect1d(result.physical.held, unknowns.places(*DEFAULT_TERMS))
    kept = np.append(drives, estimate.base.leading[estimate.described]).astype(int)
    names = ', '.join(unknowns.names[k] for k in kept)
    return [*delivered(result), *([f'not determined, as described: {names}'] if names else [])]


def _residual_table(tree: Robot, before: Residuals, after: Residuals) -> ReportTable:
    columns = [
        ('RMS effort', before.rms_effort, EFFORT),
        ('unexplained before', before.rms, EFFORT),
        ('unexplained after', after.rms, EFFORT),
        ('before', before.percent, PERCENT),
        ('after', after.percent, PERCENT),
        ('peak after', after.peak, EFFORT),
        ('samples moving', after.sliding, NO_UNIT),
        ('at rest, excluded', after.at_rest, NO_UNIT),
    ]
    title = 'Effort that the model does not explain, in recordings for validation'
    return joint_table(tree, columns, title=title)


def _used_table(tree: Robot, bags: Sequence[BagOutcome]) -> ReportTable:
    """Return a table of the efforts of each joint that were used, and excluded by reason."""
    columns = [
        (
            why,
            [
                sum(bag.efforts.get(why, {}).get(name, 0) for bag in bags)
                for name in tree.joint_names
            ],
            NO_UNIT,
        )
        for why in dict.fromkeys([USED, *(why for bag in bags for why in bag.efforts)])
    ]
    title = 'Filtered efforts used for identification, and excluded ones by reason'
    return joint_table(tree, columns, title=title)


def _bag_table(tree: Robot, bags: Sequence[BagOutcome]) -> ReportTable:
    """Return a table of the bags with the largest residuals of the corrected robot."""
    worst = {
        bag.bag: np.fmax.reduce(bag.percent(tree), 1, initial=0.0) for bag in bags if bag.sums
    }
    names = sorted(worst, key=lambda name: float(worst[name][1]), reverse=True)
    rows = [(name, *map(_percent, worst[name])) for name in names[:_MOST_ROWS]]
    failed = sum(bool(bag.error) for bag in bags)
    title = f'{len(bags)} bags, {failed} failed; largest residual of a joint, of its RMS effort'
    return ReportTable(('bag, worst first', 'before', 'after'), rows, title)


def _percent(value: float) -> str:
    if math.isnan(value):
        return 'not moved'
    return f'{value:.3g} %' if value >= _PERFECT else f'< {_PERFECT:g} %'


def _value_table(title: str, values: Sequence[Row], text: str = '') -> ReportTable:
    head = ('parameter', 'description', 'identified', 'standard deviation', 'change', 'unit')
    rows = [
        (
            row.name,
            *(f'{0.0 if abs(x) < ROUNDING else x:.5g}' for x in (row.nominal, row.value)),
            f'{row.deviation:.2g}' if math.isfinite(row.deviation) else 'not known',
            _change(row.nominal, row.value),
            row.unit,
        )
        for row in values
    ]
    return ReportTable(head, rows, title, text)


def _drive_table(result: Identification) -> ReportTable:
    """Return a table of friction and armature with a row for each joint."""
    unknowns, physical, tree = result.plan.unknowns, result.physical, result.tree
    values = zip(unknowns.nominal, physical.values, physical.deviations, strict=True)
    told = np.array([_drive(*row) for row in values])
    columns = {
        term.removesuffix('_friction'): cells
        for term, cells in zip(unknowns.terms, told[unknowns.drives].tolist(), strict=True)
        if any(cells)
    }
    rows = list(zip(tree.joint_names, *columns.values(), strict=True))
    rows = [row for row in rows if any(' ' in cell for cell in row[1:])]  # of others as described
    title = 'Friction and armature ± standard deviation (as described), SI units'
    plain = {term.removesuffix('_friction') for term in (*DEFAULT_TERMS, 'offset')}
    further = not columns.keys() <= plain
    text = [_TOGETHER] * (tree.bodies > tree.n) + [_CANCEL] * further
    return ReportTable(('joint', *columns), rows, title, ' '.join(text))


def _drive(nominal: float, value: float, deviation: float) -> str:
    """Return an identified term, with the described one if there is any."""
    described = f'({nominal:.4g})' if nominal else ''
    return f'{estimated(value, deviation)} {described}'.strip() if deviation else described


def _change(old: float, new: float) -> str:
    if abs(new - old) < ROUNDING:
        return 'none'
    return f'{100.0 * (new - old) / abs(old):+.3g} %' if abs(old) > ROUNDING else 'new'


def _link_table(result: Identification) -> ReportTable:
    """Return a table of masses and centres of mass, and how the data tell the masses."""
    head = (
        'link', 'mass before', 'mass after', 'deviation', 'told by the data', 'centre before',
        'centre after',
    )  # fmt: skip
    nominal, tree = result.plan.unknowns.tree, result.tree
    alone, single = result.estimate.base.alone.tolist(), result.single
    sums = 'only in sums' if single is None else 'if the others are right'
    deviation = result.physical.deviations[: PER_BODY * tree.bodies : PER_BODY]
    rows = [
        (
            name,
            f'{nominal.mass[i]:.4g} kg',
            f'{tree.mass[i]:.4g} kg',
            f'{deviation[i]:.2g} kg' if 0.0 < deviation[i] < math.inf else '–',
            'alone' if PER_BODY * i in alone else sums,
            _millimetres(nominal.com[i]),
            _millimetres(tree.com[i]),
        )
        for i, name in enumerate(tree.link_names)
    ]
    return ReportTable(head, rows, 'Links of the corrected robot')


def _millimetres(point: Array) -> str:
    return ' '.join(f'{round(1e3 * x, 1) + 0.0:.1f}' for x in point.tolist()) + ' mm'


def pictures(result: Identification, evidence: Evidence) -> list[tuple[str, Any]]:
    """Return headings and plots of residuals, of the nominal and the corrected robot, for a run.

    Raises:
        MissingDependencyError: The plot library is not installed.
    """
    curves, titles = evidence.series, joint_titles(result.tree, 'N m', 'N')
    dots = 'after', '', _MODEL
    series = {
        **curves._asdict(),
        'predicted': curves.effort - curves.after,
        'not rigid': curves.friction + curves.after,
    }
    plots = Plots(series, evidence.origin)
    plots.add(
        'Measured and predicted effort',
        titles,
        ('effort', 'measured', _MEASURED, 3.5),
        ('predicted', 'predicted', _MODEL, 1.4),
        limits=result.tree.effort_limit.tolist(),
    )
    plots.add(
        'Unexplained effort over time, before and after the correction',
        titles,
        ('before', 'original description', _BEFORE),
        ('after', 'corrected model', _MODEL),
    )
    speed: dict[str, Any] = {'over': 'velocity', 'x_title': 'velocity [rad/s or m/s]'}
    plots.add('Unexplained effort against velocity', titles, dots, **speed)
    load = 'effort of the rigid bodies [N m or N]'
    plots.add('Unexplained effort against load', titles, dots, over='load', x_title=load)
    plots.add(
        'Friction: data and model',
        titles,
        ('not rigid', 'measured minus rigid bodies', _MEASURED),
        ('friction', 'model', _MODEL),
        **speed,
    )
    return plots.drawn
