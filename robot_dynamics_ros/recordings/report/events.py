# SPDX-License-Identifier: Apache-2.0
"""Instants of a recording that are worth a look, each with a sentence."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.recordings.bag.reader import BagReader
from robot_dynamics_ros.recordings.bag_layout import Topics
from robot_dynamics_ros.recordings.metrics.program import DIAGNOSTICS
from robot_dynamics_ros.recordings.metrics.tracking import GAP, at_limits
from robot_dynamics_ros.recordings.reading import recorded_parameters
from robot_dynamics_ros.recordings.recording import NANO, format_duration
from robot_dynamics_ros.recordings.report.toolkit import LENGTH, joint_units, quantity
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.yaml_reader.parsing import FILES

#: Time, s on the clock of the recording, and what happened.
Event = tuple[float, str]

_MOST = 40  # of one kind
_LOOP = ': control loop'
_AT_LIMITS = ('effort at its limit', 'beyond its range')


def run_events(
    tree: Robot, series: Mapping[str, Array], figures: Mapping[str, Any]
) -> list[Event]:
    """Return the largest errors, limits reached, gaps and contacts of a run.

    Args:
        tree: The robot.
        series: Its curves by name, see ``report.analysis.plot_series``.
        figures: Figures of all metrics, by metric name.
    """
    time, found = series['time'], list(_peaks(tree, figures['tracking']))
    found += limit_events(tree, time, series['position'], series['effort'])
    period = series['period'].ravel()
    usual = float(np.nanmedian(period)) if np.isfinite(period).any() else np.inf
    gaps = np.flatnonzero(period > GAP * usual)[:_MOST].tolist()
    found += [(float(time[k]), f'no state for {format_duration(period[k])}') for k in gaps]
    contacts = figures.get('contacts', {}).get('events', [])[:_MOST]
    found += [(event['time_s'], _contact(event)) for event in contacts]
    if 'sigma_min_at' in figures.get('program', {}):
        program = figures['program']
        text = f'smallest singular value of the program, {program["sigma_min"]:.3g}'
        found.append((program['sigma_min_at'], text))
    return [event for event in found if np.isfinite(event[0])]


def limit_events(
    tree: Robot, time: Array, position: Array, effort: Array, prefix: str = ''
) -> list[Event]:
    """Return when joints reach their limits; times (N,), positions and efforts (N, n)."""
    kinds = zip(at_limits(tree, position, effort), _AT_LIMITS, strict=True)
    return [
        event
        for is_so, text in kinds
        for j, name in enumerate(tree.joint_names)
        for event in _begins(time, is_so[:, j], f'{prefix}{name}: {text}')
    ]


def _peaks(tree: Robot, tracking: Mapping[str, Any]) -> Iterator[Event]:
    """Yield the largest errors of tool and joints."""
    if not tracking:
        return
    if not math.isnan(tracking['tool_peak_mm']):
        size = quantity(tracking['tool_peak_mm'], 'mm')
        yield tracking['tool_peak_at'], f'largest distance of the tool from its reference, {size}'
    for name, unit, peak, at in zip(
        tree.joint_names, joint_units(tree, *LENGTH),
        tracking['peak_error'], tracking['peak_error_at'], strict=True,
    ):  # fmt: skip
        if not math.isnan(peak):
            yield at, f'largest error of {name}, {quantity(peak, unit)}'


def _begins(time: Array, is_so: Array, text: str) -> list[Event]:
    """Return when a condition begins to hold."""
    first = np.flatnonzero(is_so & ~np.append(False, is_so[:-1]))[:_MOST]
    return [(at, text) for at in time[first].tolist()]


def _contact(event: Mapping[str, Any]) -> str:
    return f'contact: {event["kind"]} of {event["joint"]}' if 'joint' in event else 'contact'


def bag_events(bag: BagReader, topics: Topics, delay: float) -> list[Event]:
    """Return changes of parameters, and what the controller reported.

    Args:
        bag: The bag.
        topics: Topics of the robot.
        delay: Receive time of a state minus its time, s.
    """
    found: list[Event] = []
    known: dict[str, Any] = {}
    reported = {'message': '', 'last_contact': 'none'}
    named = [x for x in (topics.parameters, topics.status) if x]
    space = topics.states.rpartition('/')[0]
    for topic, time_ns, message in bag.messages(DIAGNOSTICS, *named, strict=False):
        at = time_ns / NANO - delay
        if message is None:
            continue
        if topic == topics.status:
            found.append((at, f'trajectory {message.data}'))
        elif topic == topics.parameters:
            values = recorded_parameters(message.data)
            values.pop(FILES, None)
            changes = {key: x for key, x in values.items() if known and known.get(key) != x}
            known = values
            found += [(at, f'{key} = {value}'[:80]) for key, value in changes.items()]
        else:
            for status in message.status:
                if not (f'/{status.name}'.startswith(space) and status.name.endswith(_LOOP)):
                    continue
                values = {pair.key: pair.value for pair in status.values}
                values['message'] = status.message
                for key, before in reported.items():
                    now = values.get(key, before)
                    if now not in (before, 'none'):
                        found.append((at, now))
                    reported[key] = now
    return found[:_MOST]
