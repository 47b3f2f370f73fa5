# SPDX-License-Identifier: Apache-2.0
"""The folder that ``new_robot`` writes for an arm, run as nodes over DDS under both laws."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmark.arm_groups import ArmGroup
from robot_dynamics_ros.__main__ import main as command
from robot_dynamics_ros.cli.demo import LAWS, Arm, run_scene
from robot_dynamics_ros.cli.new_robot import PARAMETERS
from robot_dynamics_ros.errors import SceneError


def measure_nodes(path: Path, group: ArmGroup, effort_limit: float) -> Iterator[dict[str, Any]]:
    """Yield how simulator, controller and trajectory node follow the folder's motion.

    Raises:
        SceneError: The folder was not written, or a node failed.
    """
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / 'arm'
        base = ['--base', group.base] if group.base else []
        limit = ['--effort-limit', f'{effort_limit:g}', '--out', str(folder)]
        if command(['new_robot', str(path), *base, '--tip', group.frame, *limit]):
            raise SceneError('new_robot', 'wrote no folder', 'its last line says why')
        arm = Arm('arm', folder / PARAMETERS, group.frame)
        pd, torque = (
            run_scene(arm, law, Path(place) / law, lambda now, end: None).metrics for law in LAWS
        )
        ratios = [a / b for a, b in zip(pd.rms_error, torque.rms_error, strict=True)]
        yield {
            'joints': str(len(torque.joints)),
            'commands': torque.commands,
            'saturated': sum(torque.saturated_ticks),
            'peak': max(torque.peak_error),
            'tool_mm': torque.tool_rms_mm,
            'pd_tool_mm': pd.tool_rms_mm,
            'better': min(ratios),
        }
