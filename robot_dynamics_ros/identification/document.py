# SPDX-License-Identifier: Apache-2.0
"""An identification as plain numbers and words, for JSON, tables and reports."""

from __future__ import annotations

from typing import Any, NamedTuple

from robot_dynamics_ros.identification.identify import Identification
from robot_dynamics_ros.identification.unknowns import EVIDENCE_TERMS, Unknowns


class Row(NamedTuple):
    """One value: its name, what the nominal model says, what the data say, and how surely."""

    name: str
    nominal: float
    value: float
    deviation: float
    unit: str


def base_rows(found: Identification) -> list[Row]:
    """Return the base parameters."""
    unknowns, estimate = found.plan.unknowns, found.estimate
    nominal = estimate.base.B @ unknowns.nominal
    units = [unknowns.units[k] for k in estimate.base.leading.tolist()]
    return [
        Row(*values)
        for values in zip(
            estimate.base.names,
            nominal.tolist(),
            estimate.values.tolist(),
            estimate.deviations.tolist(),
            units,
            strict=True,
        )
    ]


def joint_rows(found: Identification) -> list[Row]:
    """Return the terms of the drives, as the corrected robot has them."""
    unknowns = found.plan.unknowns
    rows = [_row(unknowns, found, k) for k in range(unknowns.links, len(unknowns))]
    return [row for row in rows if row.deviation or row.nominal or not _further(row.name)]


def _further(name: str) -> bool:
    return name.rsplit('.', 1)[1] in EVIDENCE_TERMS


def link_rows(found: Identification) -> list[Row]:
    """Return the ten parameters of every body, as the corrected robot has them."""
    unknowns = found.plan.unknowns
    return [_row(unknowns, found, k) for k in range(unknowns.links)]


def _row(unknowns: Unknowns, found: Identification, k: int) -> Row:
    return Row(
        unknowns.names[k],
        float(unknowns.nominal[k]),
        float(found.physical.values[k]),
        float(found.physical.deviations[k]),
        unknowns.units[k],
    )


def as_dict(found: Identification) -> dict[str, Any]:
    """Return all numbers of an identification for JSON."""
    plan, estimate = found.plan, found.estimate
    return {
        'robot': found.tree.name,
        'gravity': found.tree.gravity.tolist(),
        'gravity_estimate': plan.gravity.as_dict() if plan.gravity else None,
        'preparation': vars(plan.preparation) | {'chosen': plan.choice.sentence()},
        'terms': list(plan.unknowns.terms),
        'condition': estimate.condition,
        'joints': [
            {'name': name, 'usable_samples': int(count), 'noise': float(noise)}
            for name, count, noise in zip(
                found.tree.joint_names, estimate.counts, estimate.noise, strict=True
            )
        ],
        'base_parameters': [row._asdict() for row in base_rows(found)],
        'parameters': [
            row._asdict() | {'told_by_data': float(told)}
            for row, told in zip(
                [_row(plan.unknowns, found, k) for k in range(len(plan.unknowns))],
                found.physical.told,
                strict=True,
            )
        ],
        'chosen': list(found.chosen),
        'not_told': found.silence(),
    }
