# SPDX-License-Identifier: Apache-2.0
"""Run a benchmark, or all of them: ``python -m benchmark [NAME]``."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

from benchmark.measuring import Results
from robot_dynamics_ros.cli.arguments import Command
from robot_dynamics_ros.errors import RobotDynamicsError

BENCHMARKS = {
    'dynamics': 'inverse dynamics: one call, batches, number of joints, start of a process',
    'c_source': 'generated C compared with our kernels and pinocchio::rnea, from C and C++',
    'control': 'one tick of every law compared with one call of Pinocchio; trajectory messages',
    'latency': 'latency from state to command over DDS, compared with echoes (ROS 2)',
    'passive': 'viewer, monitor and recorder: processor time, effect on a controller (ROS 2)',
    'recordings': 'analyzing a ten-minute recording compared with only reading it; memory',
    'reports': 'a report compared with the same page without packing: size, time to open',
    'tracking': 'constraint stabilization: effect of each imperfection of the plant',
    'transfers': 'largest change of acceleration at a change of law or payload; ripple of streams',
    'trace': 'functions that one state calls until its command, or that one bag passes (ROS 2)',
}


def main(words: list[str]) -> int:
    """Run a benchmark, or all; return the exit code, 2 for wrong input."""
    if not words:
        return max(main([name]) for name in BENCHMARKS)
    parser = argparse.ArgumentParser(prog='python -m benchmark', description=__doc__)
    named = parser.add_subparsers(dest='name', required=True)
    for name, about in BENCHMARKS.items():
        named.add_parser(name, help=about, add_help=False)
    name = parser.parse_known_args(words[:1])[0].name
    module = import_module(f'benchmark.{name}')
    parser = argparse.ArgumentParser(
        prog=f'python -m benchmark {name}', description=module.main.__doc__
    )
    parser.add_argument('--docs', action='store_true', help=f'also write docs/results/{name}.md')
    Command(module.main, getattr(module, 'OPTIONS', {})).declare(parser)
    args = parser.parse_args(words[1:])
    results = Results(name, module.main.__doc__, f'python -m benchmark {name}')
    try:
        code = int(module.main(args, results))
        results.write(args.docs)
        return code
    except RobotDynamicsError as error:
        print(f'error: {error}', file=sys.stderr)
        return 2


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
