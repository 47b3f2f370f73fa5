# SPDX-License-Identifier: Apache-2.0
"""Run benchmarks by name: ``python -m benchmark [list | NAME ...]``."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

BENCHMARKS = {
    'dynamics': 'inverse dynamics: one call, many states, number of joints, warm start',
    'c_source': 'generated C against our kernels and pinocchio::rnea, from C and C++',
    'program': 'constraint stabilization: what each imperfection of the plant costs',
    'arms': 'every robot of example-robot-data: check, exactness, compilation, time of a call',
    'analysis': 'analyzing a ten-minute recording against only reading it; memory',
    'control': 'one tick of every law, and the round trip of the controller over DDS',
    'trajectories': 'accepting a trajectory message: time per point, ticks meanwhile (ROS 2)',
    'drivers': 'tracking behind a driver: delay, jitter, losses, encoders, every profile',
    'faults': 'seeded faults against the session on the plant: no command breaks a promise',
    'fuzz': 'mutated robots, files and command lines: taken, or refused in one line',
    'gazebo': 'both arms in Gazebo: tracking, achieved rate, start (ROS 2 and Gazebo)',
    'gazebo_steps': "the same, one command a step: what is the model's (Gazebo, no ROS)",
}


def main() -> int:
    """Run what was asked for; return the largest exit code."""
    listed = '\n'.join(f'  {name:12} {meaning}' for name, meaning in BENCHMARKS.items())
    parser = argparse.ArgumentParser(
        prog='python -m benchmark',
        description=f'Run benchmarks on an idle machine.\n\n{listed}',
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        'names', nargs='*', metavar='NAME', help="benchmarks, or 'list' (default: all)"
    )
    given, options = parser.parse_known_args()
    names = given.names
    if names == ['list']:
        print(listed)
        return 0
    for name in names:
        if name not in BENCHMARKS:
            parser.error(f'unknown benchmark {name!r}; there are: {", ".join(BENCHMARKS)}')
    if options and names not in (['faults'], ['fuzz']):
        parser.error(f'unknown option {options[0]!r}')
    arguments = [options] if options else []
    return max(import_module(f'benchmark.{name}').main(*arguments) for name in names or BENCHMARKS)


if __name__ == '__main__':
    sys.exit(main())
