# SPDX-License-Identifier: Apache-2.0
"""``ros2 launch`` for tests: the package of this tree, in a temporary prefix and domain."""

import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from processes import MAIN, ROOT, NodeProcess, Processes, popen, write_script

from robot_dynamics_ros.ros.executables import NODES

PACKAGE = 'robot_dynamics_ros'
BRIDGE = ROOT.parent / 'shared' / 'tools' / 'gz_bridge.py'
#: Time after which launch sends the next signal to a process, s.
_PATIENT = {'sigterm_timeout': 60, 'sigkill_timeout': 60}
#: A process without interfaces.
IDLE = 'import time\ntime.sleep(1000)'
# Reads config_file as ros_gz_bridge does, from the parameter file that launch writes.
GZ_BRIDGE = """
import os, runpy, sys, yaml
files = [sys.argv[i + 1] for i, word in enumerate(sys.argv) if word == '--params-file']
sections = [section for file in files for section in yaml.safe_load(open(file)).values()]
config = next(s['ros__parameters']['config_file'] for s in sections)
sys.argv = [{bridge!r}, config, *sys.argv[1:]]
runpy.run_path({bridge!r}, run_name='__main__')
sys.stdout.flush()
os._exit(0)  # Gazebo's Python bindings abort where subscriptions live on at the end
""".format(bridge=str(BRIDGE))
# Plays a bag byte for byte, ten times faster than recorded.
_PLAYER = """
import sys, time
from importlib import import_module
from pathlib import Path
import rclpy
from rclpy.qos import DurabilityPolicy, QoSProfile
from rosbags.highlevel import AnyReader
assert sys.argv[1:3] == ['bag', 'play'], sys.argv
rclpy.init()
node = rclpy.create_node('player')
with AnyReader([Path(sys.argv[3])]) as bag:
    publishers = {}
    for connection in bag.connections:
        package, _, name = connection.msgtype.partition('/msg/')
        durability = (DurabilityPolicy.TRANSIENT_LOCAL if name == 'String'
                      else DurabilityPolicy.VOLATILE)
        publishers[connection.topic] = node.create_publisher(
            getattr(import_module(package + '.msg'), name), connection.topic,
            QoSProfile(depth=100, durability=durability))
    time.sleep(3.0)
    begin = time.monotonic()
    for connection, stamp, data in bag.messages():
        wait = begin + 1e-10 * (stamp - bag.start_time) - time.monotonic()
        time.sleep(max(wait, 0.0))
        publishers[connection.topic].publish(bytes(data))
time.sleep(1.0)
"""


def make_prefix(folder: Path) -> Path:
    """Create a prefix in which ROS finds this package."""
    make_package(folder, PACKAGE, {name: MAIN.format(node=name) for name in NODES})
    (folder / 'share' / PACKAGE).symlink_to(ROOT)
    return folder


def make_package(folder: Path, name: str, executables: Mapping[str, str]) -> None:
    """Install a package into a prefix; executables by name."""
    index = folder / 'share' / 'ament_index' / 'resource_index' / 'packages'
    index.mkdir(parents=True, exist_ok=True)
    (index / name).touch()
    (folder / 'lib' / name).mkdir(parents=True)
    for executable, text in executables.items():
        write_script(folder / 'lib' / name / executable, text)


class LaunchProcess(NodeProcess):
    """One launch and its processes, in a separate session."""

    def interrupt(self, seconds: float = 30.0) -> str:
        """Press Ctrl-C, wait for the end, and return the output; no process may remain."""
        code = self.stop(signal.SIGINT, seconds)
        assert code == 0, self.output
        assert not self._alive(), f'processes are left of {self.node}\n{self.output}'
        return self.output

    def kill(self) -> None:
        """End every process of the session at once."""
        if self._alive():
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait(60.0)

    def _alive(self) -> bool:
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return False
        return True


class Launches(Processes):
    """The launches of one test, in one domain; a context manager that ends all processes.

    Attributes:
        prefix: Prefix in which ROS finds packages, with this one and stand-ins.
    """

    def __init__(self, folder: Path, domain: int) -> None:
        super().__init__(folder, domain)
        self.prefix = make_prefix(folder / 'prefix')
        paths = [str(self.prefix), *filter(None, [os.environ.get('AMENT_PREFIX_PATH')])]
        self.env |= {
            'AMENT_PREFIX_PATH': os.pathsep.join(paths),
            'GZ_PARTITION': f'robot_dynamics_ros_{domain}',
            'OVERRIDE_LAUNCH_PROCESS_OUTPUT_FORMAT': '[{this.process_description.final_name}] '
            '{line}',
        }

    def add_bridge(self, text: str = IDLE) -> None:
        """Install a stand-in for ros_gz_bridge."""
        make_package(self.prefix, 'ros_gz_bridge', {'parameter_bridge': text})

    def add_player(self, text: str = _PLAYER) -> None:
        """Install a stand-in for ``ros2 bag play``, and find it first."""
        make_package(self.prefix, 'ros2bag', {})
        write_script(self._folder / 'ros2', text)
        self.env['PATH'] = f'{self._folder}{os.pathsep}{self.env["PATH"]}'

    def patient_profile(self, name: str, **changes: Any) -> Path:
        """Return a shipped driver profile with a longer timeout, for slow machines."""
        data = yaml.safe_load((ROOT / 'config' / 'drivers' / f'{name}.yaml').read_text('utf-8'))
        data['state']['timeout_s'] = 5.0
        path = self._folder / f'{name}.yaml'
        path.write_text(yaml.safe_dump(data | changes), encoding='utf-8')
        return path

    def launch(self, name: str, *options: str, **arguments: object) -> LaunchProcess:
        """Start ``ros2 launch robot_dynamics_ros NAME.launch.py`` with arguments."""
        given = [f'{key}:={_word(value)}' for key, value in (_PATIENT | arguments).items()]
        ros2 = shutil.which('ros2') or 'ros2'
        command = [ros2, 'launch', *options, PACKAGE, f'{name}.launch.py', *given]
        return self._add(name, command)

    def command(self, *words: str) -> LaunchProcess:
        """Start any command in the same environment."""
        return self._add(words[0], list(words))

    def _add(self, name: str, command: list[str]) -> LaunchProcess:
        log = self._folder / f'{len(self.nodes)}_{name}.log'
        process = popen(command, self.env, log, log.parent, start_new_session=True)
        started = LaunchProcess(name, process, log)
        self.nodes.append(started)
        return started


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
