# SPDX-License-Identifier: Apache-2.0
"""Draw the pictures of the pages; the curves are MuJoCo runs.

``python docs/site_code/pictures.py [FOLDER]`` writes all pictures, by default into
``docs/pictures``; a test compares those with what the code draws.
"""

from __future__ import annotations

import ast
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
from arm_pictures import four_bar_cut, four_dof_frames, scara_frames
from drawing import Drawing, plot
from schematics import observer, path, session, stages, topics

from robot_dynamics_ros import load_program, load_robot, make_law
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.model import Robot, frame_pose
from robot_dynamics_ros.planning.motions import Sine
from robot_dynamics_ros.recordings.lockstep import SETTLE, simulate
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant

ROOT = Path(__file__).resolve().parents[2]
PERIOD = 1e-3  # s


def rooms() -> str:
    """Return the subpackages in import order."""
    order = _constant(ROOT / 'test/test_architecture.py', 'SUBPACKAGES')
    present = [
        (name, _first_sentence(name))
        for name in order
        if _source(name).is_file()
    ]  # fmt: skip
    drawing = Drawing(820, 30 * len(present) + 70, 'Subpackages in import order')
    drawing.text(410, 26, '*A module may import only from its own row or from rows above', size=15)
    for k, (name, sentence) in enumerate(present):
        drawing.box(20, 44 + 30 * k, 150, 25, name)
        drawing.text(185, 61 + 30 * k, sentence, 'start', 12)
    drawing.arrow(8, 30 * len(present) + 40, 8, 48)
    return drawing.svg()


def _source(room: str) -> Path:
    package = ROOT / 'robot_dynamics_ros'
    folder = package / room / '__init__.py'
    return folder if folder.is_file() else package / f'{room}.py'


def _first_sentence(room: str) -> str:
    text = ast.get_docstring(ast.parse(_source(room).read_text(encoding='utf-8'))) or ''
    return text.split('\n\n')[0].replace('\n', ' ').replace('``', '').split('. ')[0].rstrip('.')


def _constant(file: Path, name: str) -> Any:
    for node in ast.parse(file.read_text(encoding='utf-8')).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ast.literal_eval(node.value)
    raise LookupError(f'{file} has no constant {name}')


def uses() -> str:
    """Return the three ways in which a recursion is evaluated."""
    drawing = Drawing(820, 300, 'One recursion, three evaluations')
    drawing.box(20, 115, 150, 70, '*URDF\nRobot: frozen\narrays, parents first')
    drawing.arrow(172, 150, 220, 150)
    drawing.box(222, 105, 180, 90, '*Formulation\none paper, one file,\nover numbers or symbols')
    uses_of_it = (
        ('floats', '*reference\ntests against Pinocchio'),
        ('symbols', '*closed form\nLaTeX, Python, text: derive'),
        ('traced scalars', '*kernel\nstraight-line machine code'),
    )
    for k, (scalars, words) in enumerate(uses_of_it):
        y = 30 + 90 * k
        drawing.arrow(404, 150, 560, y + 30)
        drawing.text(482, y / 2 + 94, scalars, size=12)
        drawing.box(562, y, 238, 62, words)
    return drawing.svg()


def tick() -> str:
    """Return the stages of one control tick."""
    parts = (
        ('*state', 'validator:\ntimestamp,\nfinite, plausible'),
        ('*reference', "trajectory or\nprogram at the\nstate's time"),
        ('*law', 'effort from\nstate and\nreference'),
        ('*transfer', 'from the effort\nof the former\nlaw'),
        ('*guard', 'brakes before\njoint limits'),
        ('*limiter', 'finite, within\nlimit and rate'),
        ('*command', 'minus what the\ndriver itself\ncompensates'),
    )
    drawing = Drawing(1000, 210, 'One tick')
    for k, (name, words) in enumerate(parts):
        drawing.box(10 + 141 * k, 50, 122, 92, f'{name}\n{words}')
        if k:
            drawing.arrow(141 * k - 8, 96, 141 * k + 9, 96)
    drawing.text(
        500, 180, 'no fresh state, deactivation, shutdown: the stop action replaces the law'
    )
    return drawing.svg()


def law_errors() -> str:
    """Return the tool's distance from its reference under two laws with the same gains."""
    arm = load_robot(shipped_robot('scara'))
    motion = Sine([0.2, 0.9, 0.08, 0.0], [0.4, 0.5, 0.03, 0.8], 1.0 / 1.5, duration=4.0)
    curves = {
        name: _tool_errors(arm, law, motion)
        for name, law in (('PD + gravity', 'pd_gravity'), ('computed torque', 'computed_torque'))
    }
    return plot('SCARA on a joint sine, same gains', ('time, s', 'tool error, mm'), curves)


def _tool_errors(arm: Robot, law: str, motion: Sine) -> list[tuple[float, float]]:
    session = ControllerSession(arm, {'law': law, 'natural_frequency': [12.0], 'period': PERIOD})
    run = simulate(session, MujocoPlant(arm, PERIOD), motion)
    errors = []
    for k in range(round(SETTLE / PERIOD) - 1, len(run.time), 20):
        places = run.position[k], run.reference_position[k]
        tool, wanted = (frame_pose(arm, q).p_WF for q in places)
        errors.append((run.time[k] - SETTLE, 1e3 * float(np.linalg.norm(tool - wanted))))
    return errors


def task_decay() -> str:
    """Return the decay of a task error, simulated and predicted from the gains."""
    arm = load_robot(shipped_robot('scara'))
    program = load_program('scara_circle', arm)
    law, plant = (
        make_law('constraint_stabilization', arm, program=program),
        MujocoPlant(arm, PERIOD),
    )
    beside = np.array([-0.5, 1.5, 0.1, 1.0])  # 3 cm from the circle's first point
    q, v, effort = np.empty(arm.n), np.empty(arm.n), np.zeros(arm.n)
    reference, measured = Reference(arm.n), []
    plant.reset(beside)
    for k in range(600):
        plant.read(q, v)
        f = program.stack.evaluate(q, v, k * PERIOD).f
        measured.append((k * PERIOD, 1e3 * float(np.linalg.norm(f[:2]))))
        law.effort(k * PERIOD, q, v, reference, effort)
        plant.step(effort)
    w, first = math.sqrt(float(program.G0[0, 0])), measured[0][1]
    promised = [(t, first * (1 + w * t) * math.exp(-w * t)) for t, _ in measured]
    return plot(
        'scara_circle, started off its path',
        ('time, s', 'distance of the tool from its point on the circle, mm'),
        {'simulated': measured, 'predicted from the gains': promised},
        dashed=['predicted from the gains'],
    )


PICTURES = (
    four_bar_cut, four_dof_frames, law_errors, observer, path, rooms, scara_frames, session,
    stages, task_decay, tick, topics, uses,
)  # fmt: skip


def main() -> None:
    """Write all pictures to a folder."""
    folder = Path(sys.argv[1]) if sys.argv[1:] else ROOT / 'docs' / 'pictures'
    folder.mkdir(parents=True, exist_ok=True)
    for make in PICTURES:
        (folder / f'{make.__name__}.svg').write_text(make(), encoding='utf-8')


if __name__ == '__main__':
    main()
