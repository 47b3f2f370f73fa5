# SPDX-License-Identifier: Apache-2.0
"""Draw two recordings of one motion beside each other as an animated SVG picture.

``python docs/site_code/film.py`` draws the runs of ``make demo`` into
``docs/images/film.svg``; other recordings and another file are given as arguments:
``film.py FIRST SECOND FILE``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from drawing import COLOURS, EDGE, Drawing, fitted

from robot_dynamics_ros import load_robot, read_recording
from robot_dynamics_ros.model.arm import tool_frame
from robot_dynamics_ros.model.kinematics import body_poses, frame_pose
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.recordings.reading import UNLIMITED
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.yaml_reader.parsing import yaml_mapping

ROOT = Path(__file__).resolve().parents[2]
SHOWN = ('out/scara/pd_gravity/bag', 'out/scara/computed_torque/bag', 'docs/images/film.svg')
_RATE = 25.0  # frames per second
_PANEL, _HEIGHT = 400.0, 480.0  # px
_ARM, _PLOT = (40.0, 350.0), (380.0, 450.0)  # top and bottom of the arm and of the plot, px
_MARGIN = 24.0  # px


class Run(NamedTuple):
    """One recording while its reference moves.

    Attributes:
        law: Name of the law.
        frames: The states that are shown.
        arm, reference: Base, joints and tool as measured and of the reference, shape
            (states, points, 3), m.
    """

    law: str
    frames: Array
    arm: Array
    reference: Array

    @property
    def errors(self) -> Array:
        """Return the distance of the tool from that of the reference, shape (states,), mm."""
        return 1e3 * np.linalg.norm(self.arm[:, -1] - self.reference[:, -1], axis=1)


def read_run(bag: str | Path) -> Run:
    """Return the forward kinematics of a recording while its reference moves."""
    recording = read_recording(bag)
    tree = load_robot(recording.description, joints=recording.joints, effort_limit=UNLIMITED)
    moves = np.nan_to_num(np.diff(recording.reference_position, axis=0)).any(axis=1)
    if not moves.any():
        sys.exit(f'film.py: {bag} has no reference that moves: choose another recording')
    first, last = np.flatnonzero(moves)[[0, -1]]
    rows, time = slice(first, last + 1), recording.time[first : last + 1]
    law = str(yaml_mapping(recording.parameters).get('law', Path(bag).name))
    return Run(
        law.replace('pd_gravity', 'PD + gravity').replace('_', ' '),
        np.searchsorted(time, np.arange(time[0], time[-1], 1.0 / _RATE) - 1e-6),
        _points(tree, recording.position[rows]),
        _points(tree, recording.reference_position[rows]),
    )


def _points(tree: RobotTree, positions: Array) -> Array:
    base, frame = np.zeros(3), tool_frame(tree)
    return np.array(
        [[base, *(pose.p_WF for pose in body_poses(tree, q)), frame_pose(tree, q, frame).p_WF]
         for q in positions]
    )  # fmt: skip


def film(runs: Sequence[Run]) -> str:
    """Return the runs beside each other, above the errors of their tools."""
    path = np.concatenate([run.reference[:, -1] for run in runs])
    across, up = sorted(np.argsort(np.ptp(path, axis=0))[1:])  # of the plane of the motion
    every = [poses.reshape(-1, 3) for run in runs for poses in (run.arm, run.reference)]
    points = np.concatenate(every)[:, [across, up]]
    most = max(run.errors.max() for run in runs)
    drawing = Drawing(_PANEL * len(runs), _HEIGHT, 'The same motion under two laws')
    for k, run in enumerate(runs):
        seconds, rows = len(run.frames) / _RATE, run.frames
        left, right = _PANEL * k + _MARGIN, _PANEL * (k + 1) - _MARGIN
        onto = fitted(points, left, right, _ARM[0] + _MARGIN, _ARM[1])
        reference, arm = run.reference[rows][..., [across, up]], run.arm[rows][..., [across, up]]
        drawing.text(_PANEL * (k + 0.5), 26, f'*{run.law}', size=17)
        drawing.curve(onto(reference[:, -1]), EDGE, dashed=True)
        drawing.trail(onto(arm[:, -1]), seconds, COLOURS[1])
        for poses, colour in ((reference, EDGE), (arm, COLOURS[0])):
            drawing.moving([*map(onto, poses)], seconds, colour)
        xs = np.linspace(left, right, len(rows))
        ys = _PLOT[1] - (_PLOT[1] - _PLOT[0]) * run.errors[rows] / most
        drawing.curve([(left, _PLOT[1]), (right, _PLOT[1])], EDGE, dashed=False)
        drawing.trail(list(zip(xs, ys, strict=True)), seconds, COLOURS[1])
        drawing.text(_PANEL * (k + 0.5), _HEIGHT - 10, f'tool: at most {run.errors.max():.2g} mm')
    drawing.text(
        _MARGIN, _PLOT[0] - 8, 'distance of the tool from its reference (gray)', 'start', 12
    )
    return drawing.svg()


def main() -> None:
    """Write the film of two recordings."""
    first, second, file = sys.argv[1:] or (ROOT / name for name in SHOWN)
    Path(file).write_text(film([read_run(first), read_run(second)]), encoding='utf-8')


if __name__ == '__main__':
    main()
