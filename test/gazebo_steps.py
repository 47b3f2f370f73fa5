# SPDX-License-Identifier: Apache-2.0
"""Run an arm in Gazebo in lockstep with its controller: one step per command, at any load.

Independent of wall time, the remaining tracking error is that of the model. Gazebo's own Python
bindings transfer states and forces, without ROS; the loop is that of the controller node, the step
that of ``gazebo.launch.py lockstep:=true``.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from followed_arm import follow
from samples import shipped_parameters

from robot_dynamics_ros.control.loop import ControlLoop
from robot_dynamics_ros.control.setup import DEFAULTS, build_loop
from robot_dynamics_ros.control.trajectories.trajectory import Trajectory
from robot_dynamics_ros.description.shipped import share_directory, shipped_robot, wide_limits
from robot_dynamics_ros.description.urdf import read_description
from robot_dynamics_ros.dynamics.joint_terms import JointTerms
from robot_dynamics_ros.errors import MissingDependencyError, PeerTimeoutError, SceneError
from robot_dynamics_ros.model import Robot, load_robot
from robot_dynamics_ros.ros.gazebo_files import bridge_entries
from robot_dynamics_ros.ros.gazebo_robot import in_sdf_terms
from robot_dynamics_ros.ros.gazebo_world import (
    SteppedWorld,
    bindings,
    gazebo_messages,
    lockstep_world,
)
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import compile_kernel

STEP_NS = 1_000_000
PARTITION = 'robot_dynamics_ros_steps'
#: Rest before the motion, s.
SETTLE_S = 0.05
#: Timeout of any answer of Gazebo, s; time between two attempts to connect, s.
_TIMEOUT_S, _RETRY_S = 60.0, 1.0
#: Off the ground, on which some arms lie at 0.
_POSE = {'position': {'z': 10.0}, 'orientation': {'w': 1.0}}


@dataclass(frozen=True)
class StepCase:
    """Differences between the controller's model and Gazebo.

    Attributes:
        robot: Name of the arm.
        coulomb_friction: Whether the joints have it; the controller then compensates it.
        late: Delay of a command, steps.
        as_dart: Whether friction is compensated as DART applies it together with damping.
    """

    robot: str
    coulomb_friction: bool = False
    late: int = 0
    as_dart: bool = False


def is_available() -> bool:
    """Return whether Gazebo and its Python bindings are installed."""
    try:
        bindings()
    except MissingDependencyError:
        return False
    return shutil.which('gz') is not None


def run(case: StepCase, motion: Trajectory) -> Array:
    """Run a motion in a separate Gazebo.

    Args:
        case: The case.
        motion: Motion that starts at Gazebo's initial joint positions: 0.

    Returns:
        Reference minus position in each step, shape (steps, n), rad or m.

    Raises:
        MissingDependencyError: Gazebo or its Python bindings are missing.
        PeerTimeoutError: Gazebo did not answer.
        SceneError: Gazebo rejected the robot.
    """
    mappings = {
        'gazebo': 'native',
        'coulomb_friction': str(case.coulomb_friction).lower(),
    } | wide_limits(case.robot)
    description = read_description(shipped_robot(case.robot), mappings).xml
    tree = load_robot(description)
    loop, share = _build(case.robot, tree), _dart_share(tree) if case.as_dart else None
    steps = round((SETTLE_S + motion.duration) * 1e9) // STEP_NS
    error = np.zeros((steps, tree.n))
    with SteppedGazebo(case.robot, description, tree.joint_names) as gazebo:
        under_way: deque[Array] = deque()
        for k in range(steps):
            _observe(loop, gazebo)
            if k == 0:
                loop.start()
                _follow(loop, motion)
            loop.tick()
            error[k] = loop.reference.position - gazebo.position
            under_way.append(loop.effort + share(loop) if share else loop.effort.copy())
            # The first command also holds the resting arm until it arrives.
            gazebo.step(under_way.popleft() if k >= case.late else under_way[0])
    return error


def _build(robot: str, tree: Robot) -> ControlLoop:
    """Return the loop of the arm's parameter file, at full effort from its first tick on."""
    own = {'activation_ramp_s': 0.0, 'state_timeout_s': 1e9}
    return build_loop(tree, {**DEFAULTS, **shipped_parameters(robot)['controller'], **own})


def _follow(loop: ControlLoop, motion: Trajectory) -> None:
    times = motion.instants(0.01)
    start_ns = STEP_NS + round(SETTLE_S * 1e9)
    follow(loop.generator, times, *motion.table(times), start_ns=start_ns)


def _observe(loop: ControlLoop, gazebo: SteppedGazebo) -> None:
    """Pass a state to the loop; its time begins at 1 ms, because a start at 0 means now."""
    seen = loop.observe(gazebo.stamp_ns + STEP_NS, gazebo.position, gazebo.velocity)
    if not seen.usable:
        raise SceneError('the state', 'was rejected', loop.state.last_refusal or seen.value)


def _dart_share(tree: Robot) -> Callable[[ControlLoop], Array]:
    """Return DART's additional effect of Coulomb friction f with damping: h D M^-1 f, N m or N."""
    h, M = STEP_NS * 1e-9, np.zeros((tree.n, tree.n))
    mass_matrix = compile_kernel(tree, outputs=('mass_matrix',)).mass_matrix
    dry = JointTerms.of(tree.with_changes(damping=np.zeros(tree.n)))

    def share(loop: ControlLoop) -> Array:
        at_end = loop.reference.velocity + h * loop.reference.acceleration
        mass_matrix(loop.q, M)
        return h * tree.damping * np.linalg.solve(M, dry.friction(at_end))

    return share


class SteppedGazebo:
    """Context manager of a paused Gazebo server with one arm.

    Args:
        robot: Name of the arm in Gazebo.
        description: Its URDF for Gazebo.
        joints: Order of its joints.

    Attributes:
        stamp_ns: Simulated time of the state, ns.
        position, velocity: State after the last step, shape (n,), rad or m and rad/s or m/s.
    """

    def __init__(self, robot: str, description: str, joints: Sequence[str]) -> None:
        self._robot, self._description, self._joints = robot, description, tuple(joints)
        topics = {
            Path(entry['ros_topic_name']).parts[0]: entry['gz_topic_name']
            for entry in bridge_entries(self._joints, robot, clock=False)
        }
        self._states, self._forces = topics['joint_states'], [topics[name] for name in joints]
        self._partition = f'{PARTITION}_{uuid.uuid4().hex}'
        self._news = threading.Condition()
        self._state: Any = None
        self.stamp_ns, (self.position, self.velocity) = 0, np.zeros((2, len(joints)))

    def __enter__(self) -> SteppedGazebo:
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            stack.callback(self._end, self._start())
            self._world = SteppedWorld('arm', self._forces, self._partition)
            stack.callback(self._world.close)
            (model,) = gazebo_messages('Model')
            self._world.node.subscribe(model, self._states, self._on_state)
            stack.callback(self._world.node.unsubscribe, self._states)
            self._insert(folder)
            self._read(0)
            self._until(self._world.check_connection, 'answer to a mark', self._world.send_mark)
            self._exits = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._exits.close()

    def step(self, effort: Array) -> None:
        """Apply efforts for one step, shape (n,), N m or N, and read the next state."""
        self._world.step(effort.tolist())
        self._read(self.stamp_ns + STEP_NS)

    def _start(self) -> subprocess.Popen[bytes]:
        world = lockstep_world(str(share_directory() / 'worlds' / 'arm.sdf'))
        return subprocess.Popen(
            ['gz', 'sim', '-s', str(world)],
            env=os.environ | {'GZ_PARTITION': self._partition},
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _insert(self, folder: Path) -> None:
        file, create = folder / 'arm.urdf', '/world/arm/create'
        file.write_text(in_sdf_terms(self._description), encoding='utf-8')
        self._until(lambda: create in self._world.node.service_list(), 'world')
        given = {'sdf_filename': str(file), 'name': self._robot, 'pose': _POSE}
        self._world.request(create, 'EntityFactory', **given)

    def _read(self, stamp_ns: int) -> None:
        """Wait for the state with a timestamp, and store it."""
        self._until(lambda: self._state and _stamp(self._state) >= stamp_ns, 'state')
        state = self._state
        self.stamp_ns = _stamp(state)
        if self.stamp_ns != stamp_ns:
            raise SceneError('Gazebo', f'advanced to {self.stamp_ns} ns', 'another process steps')
        axes = {joint.name: joint.axis1 for joint in state.joint}
        self.position[:] = [axes[name].position for name in self._joints]
        self.velocity[:] = [axes[name].velocity for name in self._joints]

    def _until(
        self,
        predicate: Callable[[], Any],
        what: str,
        repeat: Callable[[], Any] = lambda: None,
    ) -> None:
        """Wait until a condition holds; repeat a request meanwhile, at once and every second."""
        end, again = time.monotonic() + _TIMEOUT_S, 0.0
        with self._news:
            while not predicate():
                self._world.check()
                now = time.monotonic()
                if now > end:
                    raise PeerTimeoutError('Gazebo', what, _TIMEOUT_S)
                if now > again:
                    repeat()
                    again = now + _RETRY_S
                self._news.wait(0.1)

    def _on_state(self, message: Any) -> None:
        with self._news:
            self._state = message
            self._news.notify_all()


def _stamp(state: Any) -> int:
    return int(state.header.stamp.sec) * 1_000_000_000 + int(state.header.stamp.nsec)
