# SPDX-License-Identifier: Apache-2.0
"""Send a trajectory to the controller."""

from __future__ import annotations

import argparse

from robot_dynamics_ros.apps.run_node import add_node_arguments, run_node


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_node_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Run the node until it ends."""
    return run_node('trajectory', args)
