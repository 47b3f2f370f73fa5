# SPDX-License-Identifier: Apache-2.0
"""Tracking of a program in MuJoCo with imperfections of the plant."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from benchmark.measuring import Results
from robot_dynamics_ros.control.laws.registry import make_law
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.model import Robot, load_robot
from robot_dynamics_ros.simulation.imperfections import (
    Imperfections,
    ImperfectPlant,
    with_mismatch,
)
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant
from robot_dynamics_ros.spatial.scalar import Array

PERIOD_S = 1e-3
DURATION_S, SETTLED_S = 6.0, 3.0
PERIODS_MS = (0.5, 1.0, 2.0, 4.0)
#: Initial positions on the circle's start, and centimetres away, rad and m.
ON, OFF = (-0.315, 1.398, 0.12, 1.083), (-0.30, 1.28, 0.10, 0.90)
#: Natural frequency of the PD law, rad/s: that of the program's circle.
FREQUENCY = 20.0
#: A plant without friction.
SMOOTH = {'coulomb_friction': 0.0, 'damping': 0.0}


class ProgramCase(NamedTuple):
    """A plant and a law.

    Attributes:
        plant: Difference of the plant from the description.
        friction: Whether the law compensates the friction of the description.
        delay: Delay of the measured states, periods.
    """

    plant: Mapping[str, Any]
    friction: bool = False
    delay: int = 0


CASES = {
    'exact model, no friction': ProgramCase(SMOOTH),
    'mass and inertia of the plant + 20 %': ProgramCase({**SMOOTH, 'mass': 1.2}),
    'friction, not compensated': ProgramCase({}),
    'friction, compensated': ProgramCase({}, friction=True),
    '1 ms delay': ProgramCase(SMOOTH, delay=1),
}


def main(_: argparse.Namespace, results: Results) -> int:
    """Imperfections of the plant, and the circle under the constraint-stabilization law."""
    tree, exact = load_robot(shipped_robot('scara')), ProgramCase(SMOOTH)
    path = run(tree, exact)[1]
    rows = []
    for title, case in CASES.items():
        row = {'plant': title, 'constraint stabilization': run(tree, case)[0]}
        rows.append(row | {'PD + gravity': run(tree, case, path=path)[0]})
    results.table('tool from its path at 0.5 m/s, 1 kHz, RMS in mm', rows)
    floors = {t: 1e-3 * run(tree, exact, 1e-3 * t, OFF)[0] for t in PERIODS_MS}
    periods = [{'period, ms': t, 'RMS of f, m': f, 'per ms': f / t} for t, f in floors.items()]
    results.table('floor of f by period', periods)
    return 0


def run(
    tree: Robot,
    case: ProgramCase,
    period: float = PERIOD_S,
    start: tuple[float, ...] = ON,
    path: Array | None = None,
) -> tuple[float, Array]:
    """Run the program on a plant, or PD + gravity along a path.

    Args:
        tree: The robot of the law.
        case: Its plant.
        period: Sampling period, s.
        start: Initial joint positions, rad or m.
        path: Reference of PD + gravity, shape (N, 2, n); None: the program, which needs none.

    Returns:
        RMS distance of the tool from its path after the transient, mm; and the true states, shape
        (N, 2, n), which can be used as a path.
    """
    exact = MujocoPlant(with_mismatch(tree, **case.plant), period)
    exact.reset(np.array(start))
    plant = ImperfectPlant(exact, Imperfections(measurement_delay=case.delay))
    law, probe = (  # the probe evaluates f of the plant
        make_law(
            'constraint_stabilization',
            tree,
            program='scara_circle',
            friction_compensation=case.friction,
            period=period,
            discretization='semi_implicit',
        )
        for _ in range(2)
    )
    if path is not None:
        gains = {'natural_frequency': FREQUENCY, 'home': list(ON)}
        law = make_law('pd_gravity', tree, period=period, **gains)
    reference, (q, v, tau) = Reference(tree.n), np.zeros((3, tree.n))
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
    return 1e3 * np.sqrt(np.mean(np.sum(np.square(settled), axis=1))), states
