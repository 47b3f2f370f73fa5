# SPDX-License-Identifier: Apache-2.0
"""Construction of the control loop from parameters, for the node and for replays."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from robot_dynamics_ros.contact.observer import OBSERVER
from robot_dynamics_ros.control.contact_watch import REACTION
from robot_dynamics_ros.control.drivers.driver_interface import DriverInterface
from robot_dynamics_ros.control.drivers.profile import COMMAND, DRIVER_PROFILE
from robot_dynamics_ros.control.force_sensor import SENSOR
from robot_dynamics_ros.control.laws.control_law import ControlLaw
from robot_dynamics_ros.control.laws.registry import (
    known_laws,
    law_class,
    law_declared,
    make_law,
)
from robot_dynamics_ros.control.loop import ControlLoop
from robot_dynamics_ros.control.payload import LoadedKernels, PayloadModel
from robot_dynamics_ros.control.settings import GUIDING, LOCKED_JOINTS, LOOP, LoopSettings
from robot_dynamics_ros.control.targets import TARGETS
from robot_dynamics_ros.control.trajectories.reference_generator import ReferenceGenerator
from robot_dynamics_ros.dynamics.registry import FORMULATION
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.payload import PAYLOAD
from robot_dynamics_ros.model.payload import payload_from_parameters as payload_from_parameters
from robot_dynamics_ros.model.robot_parameters import ROBOT
from robot_dynamics_ros.parameters import Values, checked, defaults
from robot_dynamics_ros.symbolic.kernel import KernelSet, compile_kernel

_LAW_SPECIFIC = tuple(one for one in law_declared() if one.name not in {own.name for own in LOOP})
#: All parameters of a control loop, without those of goals and of the node.
PARAMETERS = (
    *ROBOT,
    *COMMAND,
    FORMULATION,
    DRIVER_PROFILE,
    *_LAW_SPECIFIC,
    *LOOP,
    *PAYLOAD,
    *OBSERVER,
    *REACTION,
    *TARGETS,
    *SENSOR,
    *LOCKED_JOINTS,
    *GUIDING,
)

#: Default values of these parameters.
DEFAULTS: dict[str, Any] = defaults(PARAMETERS)

#: Parameters of any law; checking a change of one may be slow, see ``check_laws``.
LAW_PARAMETER_NAMES = frozenset(one.name for one in law_declared())


def law_parameters(parameters: Values) -> dict[str, Any]:
    """Return the parameters of the selected law.

    Raises:
        UnknownNameError: There is no such law.
    """
    return {one.name: parameters[one.name] for one in law_class(parameters['law']).declared}


def check_laws(tree: Robot, parameters: Values, changed: Collection[str]) -> None:
    """Check changed parameters of the laws that are not selected; a selected law is built.

    Args:
        tree: The robot.
        parameters: All parameters after the change.
        changed: Names of those that differ.

    Raises:
        RobotDynamicsError: A parameter is rejected, with the reason.
    """
    for name, law in known_laws().items():
        if name != parameters['law']:
            own = {one.name for one in law.declared}.intersection(changed)
            law.check(tree, {name: parameters[name] for name in own})


def with_driver(parameters: Values, driver: DriverInterface) -> dict[str, Any]:
    """Return checked parameters with a profile's timing, and its bounds of timeout and rates.

    Raises:
        ParameterError: Parameter ``joints`` is given although the profile gives the order.
    """
    if not driver.has_profile:
        return dict(parameters)
    if any(parameters['joints']):
        raise ParameterError('joints', parameters['joints'], 'the driver profile gives the order')
    state, rates = driver.profile.state, np.array(parameters['effort_rate_limit'])
    strict = np.minimum(np.where(rates == 0.0, np.inf, rates), driver.joint_rate_limit)
    return {
        **parameters,
        'period': 1.0 / state.rate_hz,
        'delay': driver.profile.delay,
        'velocity_cutoff_hz': state.cutoff_hz or 0.0,
        'state_timeout_s': min(parameters['state_timeout_s'], state.timeout_s),
        'effort_rate_limit': np.where(np.isinf(strict), 0.0, strict).tolist(),
    }


def selected_law(tree: Robot, kernels: KernelSet, parameters: Values) -> ControlLaw:
    """Return a new law of the type and with the parameters that parameters describe.

    Raises:
        UnknownNameError: There is no such law.
        ParameterError: A parameter is rejected.
    """
    given = law_parameters(parameters)
    law = make_law(parameters['law'], tree, kernels, **given)
    law.keep_structural(given)
    return law


def build_loop(
    tree: Robot,
    parameters: Values,
    driver: DriverInterface | None = None,
    generator: ReferenceGenerator | None = None,
) -> ControlLoop:
    """Build the control loop that parameters describe.

    Args:
        tree: The robot without payload.
        parameters: By name: ``law`` and its parameters, ``formulation``, payload, and those of
            ``LoopSettings``; with the driver profile applied, see ``with_driver``.
        driver: Interface to the driver; None: no profile.
        generator: Reference generator; a trajectory follower if None.

    Raises:
        RobotDynamicsError: A parameter is rejected.
    """
    parameters = checked(PARAMETERS, parameters, tree.n)
    bare = compile_kernel(tree, parameters['formulation'], ('gravity_forces',))
    load = PayloadModel(tree)
    kernels = LoadedKernels(load, bare)
    loop = ControlLoop(
        tree,
        kernels,
        selected_law(tree, kernels, parameters),
        load,
        LoopSettings.of(parameters),
        driver=driver,
        generator=generator,
    )
    loop.set_payload(payload_from_parameters(parameters))
    if frame := parameters['sensor_frame']:
        tree.moving_frame(frame, 'sensor_frame')
        loop.force.expect(frame)
    return loop
