# SPDX-License-Identifier: Apache-2.0
"""Measure the effect of imperfections on the circle under the constraint-stabilization law."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from benchmark.measuring import save, show
from robot_dynamics_ros.control.laws.constraint_stabilization import ConstraintStabilization
from robot_dynamics_ros.control.laws.control_law import ControlLaw, Reference
from robot_dynamics_ros.control.laws.registry import make_law
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.model import RobotTree, load_robot
from robot_dynamics_ros.simulation.imperfections import (
    Imperfections,
    ImperfectPlant,
    with_mismatch,
)
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant
from robot_dynamics_ros.spatial.scalar import Array

PROGRAM = 'scara_circle'
PERIOD_S, DURATION_S, SETTLED_S = 1e-3, 6.0, 3.0
PERIODS_MS = (0.5, 1.0, 2.0, 4.0)
#: Initial positions on the circle's start, and centimetres away, rad and m.
ON, OFF = (-0.315, 1.398, 0.12, 1.083), (-0.30, 1.28, 0.10, 0.90)
#: Natural frequency of the PD law, rad/s: that of the program's circle.
FREQUENCY = 20.0


#: A plant without friction.
SMOOTH = {'coulomb_friction': 0.0, 'damping': 0.0}


@dataclass(frozen=True)
class ProgramCase:
    """A plant and a law.

    Attributes:
        title: Title for the table.
        plant: Difference of the plant from the description.
        friction: Whether the law compensates the friction of the description.
        delay: Delay of the measured states, periods.
    """

    title: str
    plant: Mapping[str, Any]
    friction: bool = False
    delay: int = 0


CASES = (
    ProgramCase('exact model, no friction', SMOOTH),
    ProgramCase('mass and inertia of the plant + 20 %', replace(SMOOTH, mass=1.2)),
    ProgramCase('friction, not compensated', {}),
    ProgramCase('friction, compensated', {}, friction=True),
    ProgramCase('1 ms delay', SMOOTH, delay=1),
)


def main() -> int:
    """Measure, print and write ``out/benchmark/program.json``; deterministic."""
    tree = load_robot(shipped_robot('scara'))
    program = {case.title: run(tree, case, law_of(tree, case))[0] for case in CASES}
    _, path = run(tree, CASES[0], law_of(tree, CASES[0]))
    pd_law = partial(make_law, 'pd_gravity', tree, natural_frequency=FREQUENCY, period=PERIOD_S)
    pd = {case.title: run(tree, case, pd_law(), path=path)[0] for case in CASES}
    floors = {period: floor(tree, period * 1e-3) for period in PERIODS_MS}
    show(
        'tool from its path at 0.5 m/s, 1 kHz, RMS in mm',
        ('plant', 'constraint stabilization', 'PD + gravity'),
        ((title, program[title], pd[title]) for title in program),
    )
    rows = ((f'{t:g}', f'{f:.3e}', f'{f / t:.3e}') for t, f in floors.items())
    show('floor of f by period', ('period, ms', 'RMS of f, m', 'per ms'), rows)
    results = {'constraint_stabilization_mm': program, 'pd_gravity_mm': pd, 'floor_m': floors}
    save('program.json', results)
    return 0


def law_of(
    tree: RobotTree, case: ProgramCase, period: float = PERIOD_S
) -> ConstraintStabilization:
    """Return the law of a case; without friction compensation it still includes the drives."""
    return make_law(
        'constraint_stabilization',
        tree,
        program=PROGRAM,
        friction_compensation=case.friction,
        period=period,
        discretization='semi_implicit',
    )


def run(
    tree: RobotTree,
    case: ProgramCase,
    law: ControlLaw,
    period: float = PERIOD_S,
    start: tuple[float, ...] = ON,
    path: Array | None = None,
) -> tuple[float, Array]:
    """Run a law on a plant.

    Args:
        tree: The robot of the law.
        case: Its plant.
        law: The law, created for this period.
        period: Sampling period, s.
        start: Initial joint positions, rad or m.
        path: Reference of a joint law, shape (N, 2, n); None: the law needs no reference.

    Returns:
        RMS distance of the tool from its path after the transient, mm; and the true states, shape
        (N, 2, n), which can be used as a path.
    """
    exact = MujocoPlant(with_mismatch(tree, **case.plant), period)
    exact.reset(np.array(start))
    plant = ImperfectPlant(exact, Imperfections(measurement_delay=case.delay))
    probe, reference = law_of(tree, case, period), Reference(tree.n)  # evaluates f of the plant
    q, v, tau = (np.zeros(tree.n) for _ in range(3))
    steps = round(DURATION_S / period)
    errors, states = np.zeros((steps, 3)), np.zeros((steps, 2, tree.n))
    for k in range(steps):
        if path is not None:
            reference.position, reference.velocity = path[k]
        exact.read(*states[k])
        probe.effort(k * period, *states[k], reference, tau)
        errors[k] = probe.f[:3]
        plant.read(q, v)
        law.effort(k * period, q, v, reference, tau)
        plant.step(np.clip(tau, -tree.effort_limit, tree.effort_limit))
    settled = errors[round(SETTLED_S / period) :]
    return 1e3 * float(np.sqrt(np.mean(np.sum(np.square(settled), axis=1)))), states


def floor(tree: RobotTree, period: float) -> float:
    """Return the RMS of f over the settled part of a run that started off the path, m."""
    return 1e-3 * run(tree, CASES[0], law_of(tree, CASES[0], period), period, OFF)[0]
