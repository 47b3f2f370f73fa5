# SPDX-License-Identifier: Apache-2.0
"""What the controller tells of itself on /diagnostics, once a second (REP-107)."""

from __future__ import annotations

from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

from robot_dynamics_ros.control.health import HealthReport

_LEVELS = {
    'ok': DiagnosticStatus.OK,
    'warning': DiagnosticStatus.WARN,
    'error': DiagnosticStatus.ERROR,
}


def diagnostic_array(node: Any, robot: str, report: HealthReport) -> DiagnosticArray:
    """Return a report as a message.

    Args:
        node: Gives name and time.
        robot: Name of the robot.
        report: How the controller is doing.
    """
    status = DiagnosticStatus(
        level=_LEVELS[report.level],
        name=f'{node.get_fully_qualified_name().lstrip("/")}: control loop',
        message=report.message,
        hardware_id=robot,
        values=[KeyValue(key=k, value=str(x)) for k, x in report.values.items()],
    )
    array = DiagnosticArray(status=[status])
    array.header.stamp = node.get_clock().now().to_msg()
    return array
