# SPDX-License-Identifier: Apache-2.0
"""Run a campaign: ``make campaign CAMPAIGN=NAME N=… SEED=…``, ``python test/campaigns NAME``."""

import argparse
import sys
from importlib import import_module
from pathlib import Path

if __name__ == '__main__':
    test = Path(__file__).resolve().parents[1]
    sys.path[:1] = map(str, (test.parent, test, test / 'ros'))

from robot_dynamics_ros.cli.arguments import Command
from robot_dynamics_ros.errors import RobotDynamicsError

CAMPAIGNS = {
    'faults': 'seeded faults applied to the session with the plant: no guarantee is violated',
    'fuzz': 'mutated robots, files and command lines: accepted, or rejected in one line',
    'touch': 'contacts with wrong models: false alarms, detected hits, reported links',
    'arms': 'every arm of example-robot-data: accuracy, tracking; writes docs/results/arms.md',
    'soak': 'a long run: constant memory, threads, descriptors and latency (ROS 2)',
}


def main(words: list[str]) -> int:
    """Run a campaign; return 1 if it found something, 2 for wrong input."""
    parser = argparse.ArgumentParser(prog='python test/campaigns', description=__doc__)
    named = parser.add_subparsers(dest='name', required=True)
    for name, about in CAMPAIGNS.items():
        named.add_parser(name, help=about, add_help=False)
    name = parser.parse_known_args(words[:1])[0].name
    module = import_module(f'campaigns.{name}')
    parser = argparse.ArgumentParser(prog=f'python test/campaigns {name}')
    command = Command(module.main, module.OPTIONS, lasts=True)
    command.declare(parser)
    parser.description = module.main.__doc__
    try:
        return command.execute(parser.parse_args(words[1:]))
    except RobotDynamicsError as error:
        print(f'error: {error}', file=sys.stderr)
        return 2


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
