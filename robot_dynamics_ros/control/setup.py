# SPDX-License-Identifier: Apache-2.0
"""The loop that a controller's parameters describe: the node's, and a replay's of a recording."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_dynamics_ros.control.drivers.compensation import DriverCompensation
from robot_dynamics_ros.control.drivers.conversion import DriverConversion
from robot_dynamics_ros.control.laws.control_law import ControlLaw
from robot_dynamics_ros.control.laws.registry import make_law
from robot_dynamics_ros.control.loop import ControlLoop
from robot_dynamics_ros.control.payload import PayloadModel
from robot_dynamics_ros.control.settings import LoopSettings
from robot_dynamics_ros.control.trajectories.reference_generator import ReferenceGenerator
from robot_dynamics_ros.errors import ParameterError, UnknownNameError
from robot_dynamics_ros.model.payload import Payload
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import Kernel, KernelSet, compile_kernel

#: Parameters that belong to a law, and what the law calls them.
LAW_PARAMETERS: dict[str, dict[str, str]] = {
    'computed_torque': {
        'natural_frequency': 'natural_frequency',
        'damping_ratio': 'damping_ratio',
        'friction_compensation': 'friction',
        'period': 'period',
    },
    'pd_gravity': {
        'natural_frequency': 'natural_frequency',
        'damping_ratio': 'damping_ratio',
        'period': 'period',
    },
    'gravity_compensation': {},
    'constraint_stabilization': {
        'program': 'program',
        'friction_compensation': 'friction',
        'period': 'period',
        'hold': 'hold',
    },
}

#: What a controller is told if nobody says otherwise; the node declares the same.
DEFAULTS: dict[str, Any] = {
    'robot': '',
    'robot_description': '',
    'limits_profile': '',
    'prefix': '',
    'joints': [''],
    'gravity': [0.0, 0.0, -9.81],
    'effort_limit': [0.0],
    'formulation': 'newton_euler',
    'driver_profile': '',
    'period': 0.001,
    'law': 'computed_torque',
    'program': '',
    'natural_frequency': [10.0],
    'damping_ratio': [1.0],
    'friction_compensation': True,
    'hold': 'semi_implicit',
    'activation_ramp_s': 0.2,
    'activation_effort': 'gravity',
    'effort_rate_limit': [0.0],
    'effort_scale': 1.0,
    'state_timeout_s': 0.1,
    'stop_action': 'gravity',
    'start_tolerance': 0.05,
    'payload_mass': 0.0,
    'payload_com': [0.0, 0.0, 0.0],
    'payload_inertia': [0.0] * 6,
    'payload_frame': 'tool',
    'payload_transition_s': 0.5,
}

#: Changes of these need a law to be made anew.
LAW_CHANGES = frozenset({'law', 'hold'}).union(*LAW_PARAMETERS.values())

_OUTPUTS = ('inverse_dynamics', 'gravity_forces', 'bias_forces', 'mass_matrix')


def law_parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the chosen law is made with; lists of one number count for all joints.

    Raises:
        UnknownNameError: There is no such law.
    """
    if given['law'] not in LAW_PARAMETERS:
        raise UnknownNameError('law', given['law'], LAW_PARAMETERS)
    chosen = {}
    for name, own_name in LAW_PARAMETERS[given['law']].items():
        value = given[name]
        if name == 'program' and not value:
            continue  # the law's own: all joints follow the reference
        single = isinstance(value, list) and len(value) == 1
        chosen[own_name] = value[0] if single else value
    return chosen


def loop_settings(given: Mapping[str, Any]) -> LoopSettings:
    """Return what surrounds the law."""
    known = {name: given[name] for name in LoopSettings.__dataclass_fields__ if name in given}
    return LoopSettings(**known)


def payload_from_parameters(given: Mapping[str, Any]) -> Payload | None:
    """Return the payload that the parameters describe, or None.

    Raises:
        ParameterError: The tensor has not six entries.
    """
    if not given['payload_mass']:
        return None
    if len(given['payload_inertia']) != 6:
        raise ParameterError('payload_inertia', given['payload_inertia'], 'give six numbers')
    xx, xy, xz, yy, yz, zz = given['payload_inertia']
    return Payload(
        given['payload_mass'],
        np.array(given['payload_com'], dtype=float),
        np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]),
        given['payload_frame'],
    )


def as_driven(given: Mapping[str, Any], driver: DriverConversion | None) -> dict[str, Any]:
    """Return parameters with what a profile decides: period, and bounds of timeout and rates.

    Raises:
        ParameterError: An order of joints is given besides the profile's, or wrong rate limits.
    """
    if driver is None:
        return dict(given)
    if any(given['joints']):
        raise ParameterError('joints', given['joints'], 'the driver profile gives the order')
    state = driver.profile.state
    return {
        **given,
        'period': 1.0 / state.rate_hz,
        'state_timeout_s': min(given['state_timeout_s'], state.timeout_s),
        'effort_rate_limit': _rates(given['effort_rate_limit'], driver.rate_limit),
    }


def _rates(given: list[float], most: Array) -> list[float]:
    """Return the stricter of both rate limits; 0 means none."""
    wanted = np.asarray(given, dtype=float)
    if wanted.size not in (1, most.size) or not np.isfinite(most).any():
        return given
    wanted = np.where(wanted == 0.0, np.inf, wanted)
    strict = np.minimum(wanted, most)
    return np.where(np.isinf(strict), 0.0, strict).tolist()


def driver_share(
    tree: RobotTree, driver: DriverConversion | None, loaded: Kernel, bare: Kernel
) -> DriverCompensation | None:
    """Return what a driver compensates by itself; None if that is nothing.

    Args:
        tree: The robot.
        driver: The profile in numbers, or None.
        loaded: Kernel of gravity with what the arm carries.
        bare: The same without.
    """
    if driver is None or not driver.profile.compensated_by_driver:
        return None
    gravity = loaded if driver.profile.payload_known_to_driver else bare
    return DriverCompensation(tree, gravity, driver.profile.compensated_by_driver)


@dataclass(frozen=True, eq=False)
class BuiltLoop:
    """A loop and what it was made of.

    Attributes:
        loop: The loop; it carries the payload of the parameters.
        tree: The robot without what it carries.
        kernels: Its dynamics, with what it carries.
        load: What it carries.
        share: What the driver compensates by itself, or None.
    """

    loop: ControlLoop
    tree: RobotTree
    kernels: KernelSet
    load: PayloadModel
    share: DriverCompensation | None

    def make_law(self, given: Mapping[str, Any]) -> ControlLaw:
        """Return the law of other parameters, for the same robot.

        Raises:
            UnknownNameError: There is no such law.
            ParameterError: A parameter is refused.
        """
        return make_law(given['law'], self.tree, self.kernels, **law_parameters(given))


def build_loop(
    tree: RobotTree,
    given: Mapping[str, Any],
    driver: DriverConversion | None = None,
    follower: ReferenceGenerator | None = None,
) -> BuiltLoop:
    """Make the loop of a controller.

    Args:
        tree: The robot without what it carries.
        given: Parameters by name: law and what belongs to it, ``formulation``, payload, and what
            ``LoopSettings`` has; with what the driver's profile decides.
        driver: The profile in numbers, or None.
        follower: What gives the reference; one that follows trajectories if None.

    Raises:
        RobotDynamicsError: A parameter is refused.
    """
    bare = compile_kernel(tree, given['formulation'], _OUTPUTS)
    load = PayloadModel(tree)
    kernels = load.kernels(bare)
    share = driver_share(tree, driver, kernels.gravity_forces, bare.gravity_forces)
    law = make_law(given['law'], tree, kernels, **law_parameters(given))
    loop = ControlLoop(
        tree, kernels, law, loop_settings(given), driver=share, load=load, follower=follower
    )
    loop.carry(payload_from_parameters(given))
    return BuiltLoop(loop, tree, kernels, load, share)
