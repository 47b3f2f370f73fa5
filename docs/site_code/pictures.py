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
from schematics import observer, session, stages, topics

from robot_dynamics_ros import load_program, load_robot, make_law
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.model import frame_pose
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant

ROOT = Path(__file__).resolve().parents[2]
PERIOD = 1e-3  # s
GAINS = {'natural_frequency': 12.0, 'damping_ratio': 1.0}
MIDDLE = [0.2, 0.9, 0.08, 0.0]  # of the sine, rad or m


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
    curves = {
        'PD + gravity': _tool_errors('pd_gravity', home=MIDDLE),
        'computed torque': _tool_errors('computed_torque'),
    }
    return plot('SCARA on a joint sine, same gains', ('time, s', 'tool error, mm'), curves)


def _tool_errors(name: str, **own: Any) -> list[tuple[float, float]]:
    arm = load_robot(shipped_robot('scara'))
    law, plant = make_law(name, arm, **GAINS, **own), MujocoPlant(arm, PERIOD)
    middle, swing = np.array(MIDDLE), np.array([0.4, 0.5, 0.03, 0.8])
    reference, errors = Reference(arm.n), []
    q, v, effort = np.empty(arm.n), np.empty(arm.n), np.zeros(arm.n)
    plant.reset(middle)
    for k in range(3000):
        _sine(k * PERIOD, middle, swing, reference)
        plant.read(q, v)
        if k % 20 == 0:
            away = frame_pose(arm, q).p_WF - frame_pose(arm, reference.position).p_WF
            errors.append((k * PERIOD, 1e3 * float(np.linalg.norm(away))))
        law.effort(k * PERIOD, q, v, reference, effort)
        plant.step(effort)
    return errors


def _sine(t: float, middle: Any, swing: Any, out: Reference) -> None:
    """Write a sine that starts at rest; its amplitude grows during the first second."""
    w = 2.0 * math.pi / 1.5
    s = min(t, 1.0)
    grown, rate, bend = (  # a quintic from 0 to 1, twice continuously differentiable
        s**3 * (10 - 15 * s + 6 * s**2),
        30 * s**2 * (1 - s) ** 2 if t < 1.0 else 0.0,
        60 * s * (1 - s) * (1 - 2 * s) if t < 1.0 else 0.0,
    )
    wave, slope, turn = math.sin(w * t), w * math.cos(w * t), -w * w * math.sin(w * t)
    out.position[:] = middle + swing * grown * wave
    out.velocity[:] = swing * (rate * wave + grown * slope)
    out.acceleration[:] = swing * (bend * wave + 2 * rate * slope + grown * turn)


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
    four_bar_cut, four_dof_frames, law_errors, observer, rooms, scara_frames, session, stages,
    task_decay, tick, topics, uses,
)  # fmt: skip


def main() -> None:
    """Write all pictures to a folder."""
    folder = Path(sys.argv[1]) if sys.argv[1:] else ROOT / 'docs' / 'pictures'
    folder.mkdir(parents=True, exist_ok=True)
    for make in PICTURES:
        (folder / f'{make.__name__}.svg').write_text(make(), encoding='utf-8')


if __name__ == '__main__':
    main()
