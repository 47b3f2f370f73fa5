# SPDX-License-Identifier: Apache-2.0
"""What the controller tells of itself on /diagnostics, once a second (REP-107)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

from robot_dynamics_ros.control.health import HealthReport

_LEVELS = {
    'ok': DiagnosticStatus.OK,
    'warning': DiagnosticStatus.WARN,
    'error': DiagnosticStatus.ERROR,
}


def diagnostic_array(
    node: Any, robot: str, report: HealthReport, of_law: Mapping[str, Any]
) -> DiagnosticArray:
    """Return a report as a message.

    Args:
        node: Gives name and time.
        robot: Name of the robot.
        report: How the controller is doing.
        of_law: What its law tells besides, by name.
    """
    status = DiagnosticStatus(
        level=_LEVELS[report.level],
        name=f'{node.get_fully_qualified_name().lstrip("/")}: control loop',
        message=report.message,
        hardware_id=robot,
        values=[KeyValue(key=k, value=str(x)) for k, x in {**report.values, **of_law}.items()],
    )
    array = DiagnosticArray(status=[status])
    array.header.stamp = node.get_clock().now().to_msg()
    return array
