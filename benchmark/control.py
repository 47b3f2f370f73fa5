# SPDX-License-Identifier: Apache-2.0
"""Measure the cost of one tick of every law, and of the observer of external efforts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pinocchio

from benchmark.faults import interpret
from benchmark.measuring import Contender, files, in_own_process, race, save, show_rows
from robot_dynamics_ros.control.laws.registry import LAWS
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.description.shipped import ROBOTS, shipped_robot
from robot_dynamics_ros.model import RobotTree, load_robot

_LIMIT_S = 3600.0  # without compiled code
#: The arms: a shipped one, and one of seven joints with two coupled fingers.
ARMS = ('scara', 'panda_description/urdf/panda.urdf')
#: Programs for timing the constraint law; other arms follow joint references.
PROGRAMS = {'scara': 'scara_circle'}
#: Parameters of the observations after a command.
OBSERVING = {
    'external efforts, us': {'contact_reaction': 'off'},
    'and contacts, us': {'contact_reaction': 'report'},
}
#: A configuration near the start of the arm's program, rad or m.
PLACES = {'scara': (-0.315, 1.398, 0.12, 1.083)}


def main() -> int:
    """Measure, print and write ``out/benchmark/control.json``."""
    known = [name for name in ARMS if name in ROBOTS or name in files()]
    ticks = [
        {'arm': Path(name).stem, 'law': law, **times}
        for name in known
        for law, times in loop_costs(name).items()
    ]
    show_rows('one tick', ticks)
    compiled = {name: observer_costs(name) for name in known}
    interpreted = in_own_process(interpreted_costs, known, limit_s=_LIMIT_S)
    after = [
        {'arm': Path(name).stem, 'code': code, **costs[name]}
        for code, costs in (('compiled', compiled), ('interpreted', interpreted))
        for name in known
    ]
    show_rows('after the command', after)
    save('control.json', {'tick': ticks, 'after_command': after})
    return 0


def loop_costs(name: str) -> dict[str, dict[str, float]]:
    """Return the times of one call of every law, of the whole loop, and of rnea, us; and a ratio.

    The arm is at rest at its reference and the ramp is over, as in nearly every tick.
    """
    tree = _tree(name)
    q = np.array(PLACES.get(name, np.clip(0.0, tree.position_lower, tree.position_upper)))
    costs = {}
    for law_name in sorted(LAWS):
        program = PROGRAMS.get(name, '')
        parameters = {'law': law_name, 'program': program, 'activation_ramp_s': 0.0}
        loop = ControllerSession(tree, parameters).loop
        loop.observe(1, q, np.zeros(tree.n))
        loop.start()
        loop.tick()
        arguments = 0.0, loop.q, loop.v, loop.reference, np.zeros(tree.n)
        calls = {
            'law, us': partial(loop.law.effort, *arguments),
            'whole loop, us': loop.tick,
            'pin.rnea, us': _rnea(tree.xml),
        }
        costs[law_name] = times = microseconds(calls)
        times['loop / rnea'] = times['whole loop, us'] / times['pin.rnea, us']
    return costs


def microseconds(calls: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Return the shortest time of each call, us."""
    times = race({name: Contender('call()', {'call': call}) for name, call in calls.items()})
    return {name: 1e-3 * ns for name, ns in times.items()}


def observer_costs(name: str) -> dict[str, float]:
    """Return the times of a session's observation of a state, without and with contacts, us."""
    tree, calls = _tree(name), {}
    q = np.clip(0.0, tree.position_lower, tree.position_upper)
    for what, parameters in OBSERVING.items():
        session = ControllerSession(tree, {'law': 'computed_torque', **parameters})
        session.contact.subscribed = True
        session.on_state(1, 1, q, np.zeros(tree.n))
        session.activate(1)
        for stamp in (1_000_001, 2_000_001):
            session.on_state(stamp, stamp, q, np.zeros(tree.n))
            session.settle()
        calls[what] = session.contact.update
    return microseconds(calls)


def interpreted_costs(names: Sequence[str]) -> Iterator[dict[str, dict[str, float]]]:
    """Yield the observer costs of arms, by name, without compiled code."""
    interpret()
    for name in names:
        yield {name: observer_costs(name)}


def _tree(name: str) -> RobotTree:
    path = shipped_robot(name) if name in ROBOTS else str(files()[name])
    return load_robot(path, (0.0, 0.0, -9.81), effort_limit=100.0)


def _rnea(urdf: str) -> Callable[[], object]:
    """Return one call of Pinocchio's inverse dynamics of an arm, including its fingers."""
    model = pinocchio.buildModelFromXML(urdf)
    still = np.zeros(model.nv)
    return partial(
        pinocchio.rnea, model, model.createData(), pinocchio.neutral(model), still, still
    )
