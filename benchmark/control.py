# SPDX-License-Identifier: Apache-2.0
"""Measure the cost of one tick of every law, and of the observer of external efforts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pinocchio

from benchmark.faults import interpret
from benchmark.measuring import Contender, apart, files, machine, race, save, show
from robot_dynamics_ros.control.laws.registry import LAWS, make_law
from robot_dynamics_ros.control.loop import ControlLoop
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.settings import LoopSettings
from robot_dynamics_ros.description.shipped import ROBOTS, shipped_robot
from robot_dynamics_ros.model import RobotTree, load_robot
from robot_dynamics_ros.symbolic.kernel import compile_kernel

_LIMIT_S = 3600.0  # without compiled code
_KERNELS = ('inverse_dynamics', 'gravity_forces', 'mass_matrix', 'bias_forces')
#: The arms: a shipped one, and one of seven joints with two coupled fingers.
ARMS = ('scara', 'panda_description/urdf/panda.urdf')
#: Programs for timing the constraint law; other arms follow joint references.
PROGRAMS = {'scara': 'scara_circle'}
#: Parameters of the observations after a command.
OBSERVING = {
    'external efforts': {'contact_reaction': 'off'},
    'and contacts': {'contact_reaction': 'report'},
}
#: A configuration near the start of the arm's program, rad or m.
PLACES = {'scara': (-0.315, 1.398, 0.12, 1.083)}


def main() -> int:
    """Measure, print and write ``out/benchmark/control.json``."""
    known = [name for name in ARMS if name in ROBOTS or name in files()]
    costs = {Path(name).stem: loop_costs(name) for name in known}
    rows = [
        (arm, law, *times.values(), times['whole loop'] / times['pin.rnea'])
        for arm, laws in costs.items()
        for law, times in laws.items()
    ]
    headings = ('arm', 'law', 'law, us', 'whole loop, us', 'pin.rnea, us', 'loop / rnea')
    show('one tick', headings, rows)
    observing = {'compiled': [observer_costs(name) for name in known]}
    interpreted = apart(interpreted_costs, known, limit_s=_LIMIT_S)
    observing['interpreted'] = [interpreted[name] for name in known]
    cells = [
        (arm, kind, *times.values())
        for kind, each in observing.items()
        for arm, times in zip(costs, each, strict=True)
    ]
    columns = ('arm', 'code', *(f'{what}, us' for what in OBSERVING))
    show('after the command', columns, cells)
    save('control.json', {'machine': machine(), 'tick_us': costs, 'observing_us': observing})
    return 0


def loop_costs(name: str) -> dict[str, dict[str, float]]:
    """Return the times of one call of every law, of the whole loop, and of rnea, us.

    The arm is at rest at its reference and the ramp is over, as in nearly every tick.
    """
    tree = _tree(name)
    kernels = compile_kernel(tree, outputs=_KERNELS)
    q = np.array(PLACES.get(name, np.clip(0.0, tree.position_lower, tree.position_upper)))
    costs = {}
    for law_name in sorted(LAWS):
        program = {'program': PROGRAMS[name]} if name in PROGRAMS else {}
        law = make_law(
            law_name, tree, kernels, **(program if 'program' in _names(law_name) else {})
        )
        loop = ControlLoop(tree, kernels, law, LoopSettings(activation_ramp_s=0.0))
        loop.observe(1, q, np.zeros(tree.n))
        loop.start()
        loop.tick()
        arguments = 0.0, loop.q, loop.v, loop.reference, np.zeros(tree.n)
        calls = {
            'law': partial(law.effort, *arguments),
            'whole loop': loop.tick,
            'pin.rnea': _rnea(tree.xml),
        }
        costs[law_name] = {
            key: 1e-3 * ns
            for key, ns in race(
                {key: Contender('call()', {'call': call}) for key, call in calls.items()}
            ).items()
        }
    return costs


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
        calls[what] = Contender('call()', {'call': session.contact.update})
    return {what: 1e-3 * ns for what, ns in race(calls).items()}


def interpreted_costs(names: Sequence[str]) -> Iterator[dict[str, dict[str, float]]]:
    """Yield the observer costs of arms, by name, without compiled code."""
    interpret()
    for name in names:
        yield {name: observer_costs(name)}


def _tree(name: str) -> RobotTree:
    path = shipped_robot(name) if name in ROBOTS else str(files()[name])
    return load_robot(path, (0.0, 0.0, -9.81), effort_limit=100.0)


def _names(law: str) -> set[str]:
    return {one.name for one in LAWS[law].declared}


def _rnea(urdf: str) -> Callable[[], object]:
    """Return one call of Pinocchio's inverse dynamics of an arm, including its fingers."""
    model = pinocchio.buildModelFromXML(urdf)
    still = np.zeros(model.nv)
    return partial(
        pinocchio.rnea, model, model.createData(), pinocchio.neutral(model), still, still
    )
