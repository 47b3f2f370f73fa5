# SPDX-License-Identifier: Apache-2.0
"""The driver emulator's parameters, and the robot behind a driver that they describe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from robot_dynamics_ros.control.drivers.profile import DriverProfile
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.parameters import Parameter
from robot_dynamics_ros.ros.simulator.parameters import SIMULATOR, exact_plant, imperfect
from robot_dynamics_ros.simulation.drives import DrivenPlant, Drives
from robot_dynamics_ros.simulation.imperfections import LinkBehavior, LinkedPlant
from robot_dynamics_ros.spatial.scalar import Array

P = Parameter

OWN_CONTROLLERS = ('hold', 'none')

#: What the profile decides instead, and what a driver is like unless told otherwise.
_DECIDED = frozenset({'joints', 'command_form', 'period'})
_DEFAULTS = {
    'mode': 'real_time',
    'publish_clock': False,
    'substeps': 4,
    'velocity_from_encoder': True,
    'position_resolution': [1e-5],
    'command_timeout_s': 0.1,
}

DRIVER = (
    P('driver_profile', 'generic_ros2_control', 'Driver profile that is emulated: YAML file, '
      'or name of a shipped one. It decides topics, names, units and the period.', fixed=True),
    P('own_controller', 'hold', "The driver's own controller, until the first command and "
      'after the last: hold (a stiff position controller) or none. Mode real_time.',
      choices=OWN_CONTROLLERS, fixed=True),
    P('own_position', [0.0], 'Where it holds, rad or m, one per joint; a single number: where '
      'the arm is.', per_joint=True),
    P('own_speed', 0.5, 'Speed at which it goes there.', 0.001, 10.0, unit='rad/s or m/s'),
    P('rate_check', True, 'Whether a command that changes faster than the profile allows makes '
      'the driver stop with a reflex, until ~/recover is called.', fixed=True),
    P('torque_ripple', [0.0], 'Part of the effort that alternates with the position.',
      per_joint=True, fixed=True),
    P('cogging', [0.0], 'Effort that alternates with the position.', unit='N m or N',
      per_joint=True, fixed=True),
    P('ripple_periods', [20.0], 'Periods of both per rad or m, times 2 pi.', per_joint=True,
      fixed=True),
    P('breakaway', [1.0], 'Coulomb friction at rest by that in motion, at least 1.', 1.0,
      per_joint=True, fixed=True),
    P('command_jitter', 0, 'Most periods by which a command is late at random.', 0, 1000,
      fixed=True),
    P('state_jitter', 0, 'The same of a state.', 0, 1000, fixed=True),
    P('command_loss', 0.0, 'Probability that a command is lost.', 0.0, 0.99, fixed=True),
    P('state_loss', 0.0, 'Probability that a state is lost.', 0.0, 0.99, fixed=True),
)  # fmt: skip

EMULATOR = (
    *(
        replace(one, default=_DEFAULTS.get(one.name, one.default))
        for one in SIMULATOR
        if one.name not in _DECIDED
    ),
    *DRIVER,
)


def as_emulated(settings: Mapping[str, Any], profile: DriverProfile) -> dict[str, Any]:
    """Return parameters with what the profile decides."""
    return {**settings, 'joints': [''], 'period': 1.0 / profile.state.rate_hz}


def emulated_plant(
    tree: RobotTree, settings: Mapping[str, Any], profile: DriverProfile
) -> tuple[LinkedPlant, DrivenPlant]:
    """Return the robot at the other end of its network, and the same at its drives.

    Raises:
        ParameterError: A value is refused.
    """
    drives = Drives(
        ripple=settings['torque_ripple'],
        cogging=settings['cogging'],
        periods=settings['ripple_periods'],
        breakaway=settings['breakaway'],
        compensates=profile.compensated_by_driver,
        payload_known=profile.payload_known_to_driver,
    )
    driven = DrivenPlant(exact_plant(tree, settings), drives, tree)
    link = LinkBehavior(
        settings['command_jitter'],
        settings['state_jitter'],
        settings['command_loss'],
        settings['state_loss'],
        settings['noise_seed'],
    )
    return LinkedPlant(imperfect(driven, settings), link), driven


def own_position(tree: RobotTree, settings: Mapping[str, Any]) -> Array | None:
    """Return where the driver's own controller shall hold; None: where the arm is.

    Raises:
        ParameterError: The count is neither 1 nor n, or a position is outside its limits.
    """
    value = np.array(settings['own_position'], dtype=float)
    if value.size == 1 < tree.n:
        return None
    if value.size != tree.n or not np.isfinite(value).all():
        raise ParameterError('own_position', value.tolist(), f'give {tree.n} finite numbers')
    outside = (value < tree.position_lower) | (value > tree.position_upper)
    if outside.any():
        name = tree.joint_names[int(np.argmax(outside))]
        raise ParameterError('own_position', value.tolist(), f'joint {name!r} is out of limits')
    return value
