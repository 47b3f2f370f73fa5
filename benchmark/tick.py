# SPDX-License-Identifier: Apache-2.0
"""What one tick calls, and how smoothly one law takes over from another."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import rclpy
from rclpy.publisher import Publisher
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState

import robot_dynamics_ros
from benchmark.comply import ARMS, PushedArm, installed_arms
from benchmark.measuring import arm, save, show
from robot_dynamics_ros.control.changes import ParameterChange, PayloadChange, TrajectoryChange
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.ros.controller.node import Controller
from robot_dynamics_ros.ros.conversions import ns_to_stamp
from robot_dynamics_ros.spatial.scalar import Array

# Functions ---------------------------------------------------------------------------------------

_MS = 1_000_000
_POSITION = (0.3, 0.8, 0.1, 0.0)  # of the SCARA, rad and m
_PACKAGE = str(robot_dynamics_ros.__path__[0])


class CallTrace:
    """Records the functions of the package that are called, each once, until a publication."""

    def __init__(self) -> None:
        self.names: list[tuple[str, str]] = []
        self.published = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Handle an event of ``sys.setprofile``."""
        code = frame.f_code
        if event != 'call':
            return
        if code is Publisher.publish.__code__ and not self.published:
            self.published = len(self.names)
        if code.co_filename.startswith(_PACKAGE):
            function = getattr(code, 'co_qualname', code.co_name)  # Python 3.10 has none
            name = code.co_filename[len(_PACKAGE) + 1 : -3], function
            if name not in self.names:
                self.names.append(name)


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


def trace_benchmark() -> int:
    """Print the functions of the package that one state's callback of the controller calls."""
    trace = traced_callback()
    rows = [
        {'function': function, 'module': module, 'until': 'command' if k < trace.published else ''}
        for k, (module, function) in enumerate(trace.names)
    ]
    show('one state of the SCARA, computed torque, holding', rows)
    for what, names in (
        ('until the command is published', trace.names[: trace.published]),
        ('in all', trace.names),
    ):
        modules = len({module for module, _ in names})
        print(f'{what}: {len(names)} functions in {modules} modules')
    return 0


# Changes -----------------------------------------------------------------------------------------

_RECORDED = 550  # ms, from the change on
_WAY, _SLIDES, _DURATION_S = 0.8, 0.1, 1.2  # rad, m, s


class MovingArm(PushedArm):
    """An arm in MuJoCo in the middle of a smooth motion of all joints.

    Args:
        name: One of ``comply.ARMS``.
        given: Parameters.
    """

    def __init__(self, name: str, **given: Any) -> None:
        frame, start, _ = ARMS[name]
        super().__init__(
            arm(name, friction=True), np.array(start), {'payload_frame': frame, **given}
        )
        self.settle(0.3)
        tree, still = self.plant.tree, np.zeros((1, len(start)))
        way = np.where(tree.joint_is_prismatic, _SLIDES, _WAY)
        goal = np.array(start) + np.copysign(way, tree.middle - start)
        points = np.array([_DURATION_S]), goal[np.newaxis], still, still
        self.session.perform(TrajectoryChange(self.session, lambda: (points, 0)))
        self.settle(0.45 * _DURATION_S)

    def largest_change(self, change: Callable[[ControllerSession], object]) -> float:
        """Return the largest change of a joint's acceleration within 1 ms, after a change."""
        velocities: list[Array] = [self.v.copy() for _ in self.run(3)]
        change(self.session)
        velocities += [self.v.copy() for _ in self.run(_RECORDED)]
        return float(np.abs(np.diff(velocities, n=2, axis=0)).max() * 1e3)


def _set(**values: Any) -> Callable[[ControllerSession], object]:
    return lambda session: session.perform(ParameterChange(session, values))


#: Name, initial parameters and change.
CHANGES: tuple[tuple[str, dict[str, Any], Callable[[ControllerSession], object]], ...] = (
    ('nothing', {}, lambda session: None),
    ('pd_gravity to computed_torque', {'law': 'pd_gravity'}, _set(law='computed_torque')),
    ('computed_torque to pd_gravity', {}, _set(law='pd_gravity')),
    ('computed_torque to impedance', {}, _set(law='impedance')),
    (
        'natural_frequency 10 to 20 rad/s',
        {'friction_compensation': False},
        _set(natural_frequency=[20.0]),
    ),
    ('payload of 1.5 kg', {}, _set(payload_mass=1.5)),
    (
        'payload of 1.5 kg released',
        {'payload_mass': 1.5},
        lambda session: session.perform(PayloadChange(session, False)),
    ),
)


def transfers_benchmark() -> int:
    """Print the largest change of a joint's acceleration within 1 ms, rad/s^2, at changes."""
    rows = [
        {
            'change': name,
            **{one: MovingArm(one, **given).largest_change(change) for one in installed_arms()},
        }
        for name, given, change in CHANGES
    ]
    show('largest change of acceleration within 1 ms, rad/s^2 or m/s^2', rows)
    save('transfers.json', {'changes': rows})
    return 0
