# SPDX-License-Identifier: Apache-2.0
"""The functions that one state calls until its command is published, and that one bag passes."""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

import rclpy
from rclpy.publisher import Publisher
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState

import robot_dynamics_ros
from benchmark.measuring import Results
from robot_dynamics_ros.__main__ import main as package_main
from robot_dynamics_ros.cli.arguments import option
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.ros.controller.node import Controller
from robot_dynamics_ros.ros.conversions import ns_to_stamp

_MS = 1_000_000
_POSITION = (0.3, 0.8, 0.1, 0.0)  # of the SCARA, rad and m
_PACKAGE = str(robot_dynamics_ros.__path__[0])
#: Classes of a recording, its samples, and what they are read from.
_DATA = (
    *('BagReader', 'McapStorage', 'SqliteStorage', 'RecordingReader', 'Source', 'ReplaySource'),
    *('Group', 'Rows', 'Values', 'Recording', 'EvaluatedRun', 'RunEvaluation'),
    *('Instants', 'JointMotion', 'ModelEfforts', 'Samples', 'ResidualSeries'),
)


class CallTrace:
    """Records the functions of the package that are called, each once.

    Attributes:
        names: Their modules and names.
        published: How many were called until the first publication.

    Args:
        data: Names of classes of which an argument must be; empty: every function is recorded.
    """

    def __init__(self, data: tuple[str, ...] = ()) -> None:
        self.names: dict[tuple[str, str], None] = {}
        self.published, self._data = 0, data

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Handle an event of ``sys.setprofile``."""
        code = frame.f_code
        if event != 'call':
            return
        if code is Publisher.publish.__code__:
            self.published = self.published or len(self.names)
        if code.co_filename.startswith(_PACKAGE) and (not self._data or self._is_given(frame)):
            function = getattr(code, 'co_qualname', code.co_name)  # Python 3.10 has none
            self.names[code.co_filename[len(_PACKAGE) + 1 : -3], function] = None

    def _is_given(self, frame: FrameType) -> bool:
        """Return whether a function of some size has data as an argument."""
        code = frame.f_code
        given = (frame.f_locals.get(x) for x in code.co_varnames[: code.co_argcount])
        own = code.co_name.startswith('<') or code.co_name == '__init__'
        return not own and any(type(x).__name__ in self._data for x in given)


def traced_callback() -> CallTrace:
    """Return the functions that a state's callback of the controller calls, holding the SCARA."""
    given = {'robot': shipped_robot('scara'), 'autostart': False, 'activation_ramp_s': 0.0}
    words = [word for name, x in given.items() for word in ('-p', f'{name}:={x}')]
    rclpy.init(args=['--ros-args', '--log-level', 'error', *words])
    try:
        node = Controller()
        node.trigger_configure()
        run, message = node._run, JointState(position=_POSITION, velocity=[0.0] * 4)
        assert run is not None
        message.name = list(run.session.tree.joint_names)
        stamp, trace = 1_000 * _MS, CallTrace()

        def answer() -> None:
            message.header.stamp = ns_to_stamp(stamp)
            run._on_state(serialize_message(message))

        answer()
        node.trigger_activate()
        for _ in range(200):
            stamp += _MS
            answer()
        stamp += _MS
        message.header.stamp = ns_to_stamp(stamp)
        content = serialize_message(message)
        sys.setprofile(trace)
        run._on_state(content)
        sys.setprofile(None)
        node.destroy_node()
        return trace
    finally:
        rclpy.shutdown()


def traced_command(command: str, bag: Path) -> list[tuple[str, str]]:
    """Return the functions that a bag passes through a command."""
    trace = CallTrace(_DATA)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        words = [command, str(bag), '--output', f'{folder}/out']
        sys.setprofile(trace)
        try:
            package_main(words)
        finally:
            sys.setprofile(None)
    return list(trace.names)


def main(args: argparse.Namespace, results: Results) -> int:
    """Functions that one state's callback of the controller, or one bag, passes."""
    if args.bag:
        for command in args.commands:
            names = traced_command(command, args.bag)
            rows = [{'function': function, 'module': module} for module, function in names]
            results.table(f'{command} {args.bag}', rows)
            modules = len({module for module, _ in names})
            print(f'{command}: {len(names)} functions in {modules} modules')
        return 0
    trace = traced_callback()
    every = list(trace.names)
    rows = [
        {'function': function, 'module': module, 'until': 'command' if k < trace.published else ''}
        for k, (module, function) in enumerate(every)
    ]
    results.table('one state of the SCARA, computed torque, holding', rows)
    for what, names in (
        ('until the command is published', every[: trace.published]),
        ('in all', every),
    ):
        modules = len({module for module, _ in names})
        print(f'{what}: {len(names)} functions in {modules} modules')
    return 0


OPTIONS = {
    '--bag': option(Path, 'trace a recording instead'),
    '--commands': option(['analyze', 'identify'], 'commands that read it', nargs='+'),
}
