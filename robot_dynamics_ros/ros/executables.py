# SPDX-License-Identifier: Apache-2.0
"""The executables of this package, one node each, for ``ros2 run`` and the command line."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from robot_dynamics_ros.errors import MissingDependencyError

if TYPE_CHECKING:
    from robot_dynamics_ros.parameters import Parameter

#: Node class and parameters of each executable, relative to this package.
#: The parameters can be imported without ROS.
NODES = {
    'controller': ('controller.node:Controller', '.control.parts:CONTROLLER'),
    'simulator': ('simulator:Simulator', 'node_parameters:SIMULATOR'),
    'trajectory': ('trajectory_sender:TrajectorySender', '.planning.trajectory_plan:TRAJECTORY'),
    'recorder': ('recorder:Recorder', 'node_parameters:RECORDER'),
    'monitor': ('monitor:MonitorNode', 'node_parameters:MONITOR'),
    'driver_emulator': ('driver_emulator:DriverEmulator', 'node_parameters:EMULATOR'),
    'gazebo_robot': ('gazebo_robot:GazeboRobot', 'node_parameters:GAZEBO_ROBOT'),
    'view': ('view:View', 'node_parameters:VIEW'),
}

_REMEDY = (
    "source a ROS 2 installation, or pip install 'ros-jazzy-rclpy[fastrtps]' "
    'ros-jazzy-common-interfaces in a virtual environment'
)


def node_class(executable: str) -> Any:
    """Return the node class of an executable."""
    return _load(NODES[executable][0])


def declared_parameters(executable: str) -> tuple[Parameter, ...]:
    """Return the declared parameters of an executable."""
    return _load(NODES[executable][1])


def _load(path: str) -> Any:
    module, _, name = path.partition(':')
    return getattr(import_module(f'.{module}', __package__), name)


def run_executable(executable: str, args: Sequence[str] | None = None) -> int:
    """Run a node until it is finished or interrupted.

    Args:
        executable: One of ``NODES``.
        args: Command line arguments; those of the process if None.

    Returns:
        The exit code, see :func:`robot_dynamics_ros.ros.spinning.run`.

    Raises:
        MissingDependencyError: rclpy or another library of the node is not installed.
    """
    use_one_thread()
    gc.disable()  # until spinning freezes the objects that stay: nearly all that are created here
    with _exit_on_interrupt():
        try:
            spinning, node = import_module(f'{__package__}.spinning'), node_class(executable)
        except ModuleNotFoundError as error:
            if not error.name or error.name.startswith('robot_dynamics_ros'):
                raise
            raise MissingDependencyError(error.name, f'node {executable}', _REMEDY) from error
        given = assigned(sys.argv if args is None else args)
        return int(spinning.run(partial(_make_node, executable, node, given), args))


def assigned(args: Sequence[str]) -> frozenset[str]:
    """Return the names of the parameters that command line arguments set one by one."""
    pairs = [pair for pair in pairwise(args) if pair[0] in ('-p', '--param')]
    return frozenset(text.partition(':=')[0].rpartition(':')[2] for _, text in pairs)


def _make_node(executable: str, make: Callable[[], Any], given: frozenset[str]) -> Any:
    """Return the node; parameters given on the command line have an effect.

    Raises:
        ConfigurationError: One has none.
    """
    from robot_dynamics_ros.parameters import require_used

    node, declared = make(), declared_parameters(executable)
    choosers = {one.only[0] for one in declared if one.only}
    values = {name: node.get_parameter(name).value for name in choosers}
    require_used(declared, values, given)
    return node


def use_one_thread() -> None:
    """Limit linear algebra libraries to one thread: for small matrices threads only add latency.

    To be called before NumPy is imported. Existing environment variables are kept.
    """
    for library in ('OPENBLAS', 'OMP', 'MKL'):
        os.environ.setdefault(f'{library}_NUM_THREADS', '1')


@contextlib.contextmanager
def _exit_on_interrupt() -> Iterator[None]:
    """Exit immediately with code 0 on an interrupt before the node handles signals itself.

    Nothing has started by then, and libraries being imported would print a traceback. After the
    node has ended, interrupts are ignored, because they would kill Python during its shutdown.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: os._exit(0))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def __getattr__(name: str) -> Callable[[], None]:
    """Return the entry point of an executable, such as ``executables:controller``."""
    if name not in NODES:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    return partial(_exit_with, name)


def _exit_with(executable: str) -> None:
    try:
        sys.exit(run_executable(executable))
    except MissingDependencyError as error:
        print(f'error: {error}', file=sys.stderr)
        sys.exit(2)


def parameter_sections(content: Any, name: str = '') -> dict[str, Mapping[str, Any]]:
    """Return the parameters in a parameter file by the full names of nodes, with wildcards."""
    sections: dict[str, Mapping[str, Any]] = {}
    if isinstance(content, Mapping):
        if 'ros__parameters' in content:
            given = content['ros__parameters']
            sections[name] = given if isinstance(given, Mapping) else {}
        for key, value in content.items():
            sections |= parameter_sections(value, f'{name}/{str(key).strip("/")}')
    return sections


def sections_of(
    sections: Mapping[str, Mapping[str, Any]], node: str, namespace: str
) -> list[Mapping[str, Any]]:
    """Return the sections that hold for a node; of several values the last one holds.

    Args:
        sections: See :func:`parameter_sections`.
        node: Name of the node.
        namespace: Its namespace.
    """
    full, held = re.sub('/+', '/', f'/{namespace}/{node}'), []
    for name, values in sections.items():  # ** stands for any names, * for one
        pattern = re.escape(name).replace(r'/\*\*', r'(/\w+)*').replace(r'/\*', r'/\w+')
        if re.fullmatch(pattern, full):
            held.append(values)
    return held
