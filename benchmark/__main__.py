# SPDX-License-Identifier: Apache-2.0
"""Run benchmarks by name: ``python -m benchmark [list | NAME ...]``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from robot_dynamics_ros.errors import RobotDynamicsError

BENCHMARKS = {
    'dynamics': 'inverse dynamics: one call, batches, number of joints, warm start',
    'kernels': 'kernels: a call, a batch, the start; another version (--other), printed C',
    'c_source': 'generated C compared with our kernels and pinocchio::rnea, from C and C++',
    'program': 'constraint stabilization: effect of each imperfection of the plant',
    'arms': 'every arm of example-robot-data: accuracy, time, tracking; writes docs/arms.md',
    'analysis': 'analyzing a ten-minute recording compared with only reading it; memory',
    'control': 'one tick of every law compared with one call of Pinocchio',
    'trace': 'functions that one state calls until its command is published (ROS 2)',
    'transfers': 'largest change of acceleration at a change of law, gains or payload',
    'latency': 'latency from state to command over DDS, by parts (ROS 2)',
    'start': 'from the start of the controller to its first command, and its imports (ROS 2)',
    'view': 'cost of the viewer: its processor time and its effect on the round trip (ROS 2)',
    'trajectories': 'accepting a trajectory message: time per point, ticks meanwhile (ROS 2)',
    'drivers': 'tracking with a driver: delay, jitter, losses, encoders, every profile',
    'delay': 'largest stable gains of every law with delays of 0 to 3 periods, in MuJoCo',
    'comply': 'stiffness and damping under pushes, pressing on boards',
    'faults': 'seeded faults applied to the session with the plant: no guarantee is violated',
    'touch': 'contacts with wrong models: false alarms, detected hits, reported links',
    'pushes': 'pushes added to a recording of a real arm (--bag): detected and false ones',
    'identification': 'noisy recordings: is the truth within the stated deviations',
    'soak': 'a long run: constant memory, threads, descriptors and latency (ROS 2)',
    'fuzz': 'mutated robots, files and command lines: accepted, or rejected in one line',
    'gazebo': 'both arms in Gazebo: tracking, achieved rate, start (ROS 2 and Gazebo)',
    'gazebo_steps': 'the same, one command per step: accuracy of the model (Gazebo, no ROS)',
}
_ELSEWHERE = {
    'program': 'control',
    'trajectories': 'control',
    'analysis': 'recordings',
    'pushes': 'recordings',
    'start': 'latency',
    'view': 'soak',
    'trace': 'tick',
    'transfers': 'tick',
}
#: The module of each benchmark.
MODULES = {name: _ELSEWHERE.get(name, name) for name in BENCHMARKS}


def main() -> int:
    """Run the named benchmarks; return the largest exit code, 2 for wrong input."""
    listed = '\n'.join(f'  {name:12} {meaning}' for name, meaning in BENCHMARKS.items())
    parser = argparse.ArgumentParser(
        prog='python -m benchmark',
        description=f'Run benchmarks on an idle machine.\n\n{listed}',
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )
    parser.add_argument(
        'names', nargs='*', metavar='NAME', help="benchmarks, or 'list' (default: all)"
    )
    parser.add_argument('-h', '--help', action='store_true', help='this, or the options of NAME')
    parsed, options = parser.parse_known_args()
    names = parsed.names
    if names == ['list']:
        print(listed)
        return 0
    for name in names:
        if name not in BENCHMARKS:
            parser.error(f'unknown benchmark {name!r}; there are: {", ".join(BENCHMARKS)}')
    if parsed.help and len(names) != 1:
        parser.print_help()
        return 0
    if options and len(names) != 1:
        parser.error(f'unknown option {options[0]!r}')
    every = [name for name in BENCHMARKS if name != 'pushes']  # which needs a recording
    try:
        return max(run(name, [*options, *['--help'] * parsed.help]) for name in names or every)
    except RobotDynamicsError as error:
        print(f'error: {error}', file=sys.stderr)
        return 2


def run(name: str, words: Sequence[str] = ()) -> int:
    """Run a benchmark with its options, if it has any; return its exit code."""
    from robot_dynamics_ros.cli.arguments import Command

    module = vars(import_module(f'benchmark.{MODULES[name]}'))
    work, options = module[f'{name}_benchmark'], module.get('OPTIONS', {}).get(name, {})
    parser = argparse.ArgumentParser(prog=f'python -m benchmark {name}', description=work.__doc__)
    Command(work, options).declare(parser)
    args = parser.parse_args(words)
    return int(work(args) if options else work())


if __name__ == '__main__':
    sys.exit(main())
