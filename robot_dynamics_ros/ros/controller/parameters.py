# SPDX-License-Identifier: Apache-2.0
"""Parameters of the controller node; importable without ROS."""

from __future__ import annotations

from robot_dynamics_ros.control.parts import CONTROLLER as CONTROLLER


def lockstep_parameters(*topics: str) -> dict[str, float]:
    """Return controller parameters for lockstep, where the run is the same on a busy machine.

    The command history is as deep as the state history, so that a slow recorder loses nothing,
    and the state timeout is long, because simulated time stops while the simulator is delayed.

    Args:
        topics: Full names of the command topics; none: the default topic.
    """
    names = topics or ('/effort_controller/commands',)
    depths = {f'qos_overrides.{topic}.publisher.depth': 2000 for topic in names}
    return {'state_timeout_s': 60.0, **depths}
