# SPDX-License-Identifier: Apache-2.0
"""The recordings of the folder ``data``; its README.md says where they come from."""

from pathlib import Path

import numpy as np

from robot_dynamics_ros.estimation.effort_model import Instants
from robot_dynamics_ros.estimation.model_monitor import ModelMonitor, Pairing
from robot_dynamics_ros.recordings.reading import read_recording
from robot_dynamics_ros.recordings.recording import Recording

DATA = Path(__file__).resolve().parent / 'data'
NOMINAL = DATA / 'gazebo_scara_nominal'
UNKNOWN = DATA / 'gazebo_scara_unknown_plant'
STAUBLI = DATA / 'staubli_tx40'


def monitored(monitor: ModelMonitor, run: Recording) -> ModelMonitor:
    """Return a monitor that compared every state with the command before it, without gaps."""
    pairing, acted = Pairing('semi_implicit', 0.01, 1.0), np.roll(run.effort, 1, axis=0)
    acted[0] = np.nan
    rows = zip(run.time, run.position, run.velocity, acted, strict=True)
    monitor.compare(Instants.joined([pairing.take(*row) for row in rows][1:]))
    assert pairing.gaps == 0
    return monitor


def excerpt() -> tuple[np.ndarray, ...]:
    """Return q, v, v one step later and the effort of 100 steps of Gazebo, each (100, 4)."""
    run, steps = read_recording(NOMINAL), np.arange(10, 2000, 20)
    return run.position[steps], run.velocity[steps], run.velocity[steps + 1], run.effort[steps]
