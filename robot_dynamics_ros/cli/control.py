# SPDX-License-Identifier: Apache-2.0
"""Run the controller node of an arm."""

from __future__ import annotations

import argparse

from robot_dynamics_ros.cli import run_node


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    run_node.add_arguments(parser, 'controller')
    parser.add_argument('--law', help='control law, see below')
    parser.add_argument('--program', help='constraint program of law constraint_stabilization')


def run(args: argparse.Namespace) -> int:
    """Run the node until it ends."""
    chosen = {'law': args.law, 'program': args.program}
    args.set = [f'{key}:={value}' for key, value in chosen.items() if value] + args.set
    return run_node.run_node('controller', args)
