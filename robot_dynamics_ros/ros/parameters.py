# SPDX-License-Identifier: Apache-2.0
"""Declare and read the ROS parameters that :class:`Parameter` objects describe."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rcl_interfaces.msg import (
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
    SetParametersResult,
)
from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException

from robot_dynamics_ros.errors import ConfigurationError, RobotDynamicsError
from robot_dynamics_ros.parameters import Parameter, checked
from robot_dynamics_ros.ros.rclpy_compat import overridden_parameters

#: Prefixes of the parameters that rclpy declares itself or a node declares once it has its robot.
_LATER = ('use_sim_time', 'start_type_description_service', 'qos_overrides.', 'constraints.')


def descriptor(one: Parameter) -> ParameterDescriptor:
    """Return the descriptor that ``ros2 param describe`` shows."""
    described = ParameterDescriptor(
        description=one.sentence, additional_constraints=one.wanted(), read_only=one.fixed
    )
    if one.is_list or (one.low is None and one.high is None):
        return described
    low = -1e308 if one.low is None else one.low
    high = 1e308 if one.high is None else one.high
    if one.kind is int:
        described.integer_range = [IntegerRange(from_value=int(low), to_value=int(high))]
    else:
        described.floating_point_range = [
            FloatingPointRange(from_value=float(low), to_value=float(high))
        ]
    return described


def declare(node: Any, parameters: Iterable[Parameter]) -> None:
    """Declare the parameters of a node; values from YAML or the command line take precedence.

    Overrides of unknown (for example misspelt) parameters are logged as warnings. Later changes
    are checked against the declarations and rejected if invalid.

    Raises:
        ConfigurationError: An override has the wrong type or is out of range.
    """
    parameters = tuple(parameters)
    for one in parameters:
        try:
            node.declare_parameter(one.name, one.default, descriptor(one))
        except (InvalidParameterTypeException, InvalidParameterValueException) as error:
            problem = f'is refused ({str(error).rstrip(".")})'
            remedy = f'give a value such as {one.default!r}: it {one.wanted()}'
            raise ConfigurationError(f'parameter {one.name!r}', problem, remedy) from error
    _warn_unknown(node, [one.name for one in parameters])
    on_set_parameters(node, lambda changes: checked(parameters, changes), lambda _: None)


def _warn_unknown(node: Any, names: list[str]) -> None:
    for name in overridden_parameters(node):
        if not node.has_parameter(name) and not name.startswith(_LATER):
            from difflib import get_close_matches

            close = get_close_matches(name, names, 1)
            hint = f'; did you mean {close[0]!r}?' if close else ''
            node.get_logger().warning(f'parameter {name!r} is unknown and has no effect{hint}')


def values(node: Any, parameters: Iterable[Parameter]) -> dict[str, Any]:
    """Return the current values by name, arrays as lists.

    Raises:
        ParameterError, UnknownNameError: An initial value is invalid.
    """
    parameters = tuple(parameters)
    present = {one.name: _plain(node.get_parameter(one.name).value) for one in parameters}
    return checked(parameters, present)


def _plain(value: Any) -> Any:
    """Return a parameter's value with arrays as lists."""
    return list(value) if hasattr(value, 'typecode') else value


def accepted() -> SetParametersResult:
    """Return the result of an accepted parameter change."""
    return SetParametersResult(successful=True)


def refused(error: RobotDynamicsError) -> SetParametersResult:
    """Return the result of a rejected parameter change, with the reason."""
    return SetParametersResult(successful=False, reason=str(error))


def on_set_parameters(node: Any, check: Any, apply: Any) -> None:
    """Install callbacks that check parameter changes before, and apply them after, they are set.

    Args:
        node: The node.
        check: Called with the changes ``{name: value}``; raises RobotDynamicsError to reject them.
        apply: Called with the changes once they are set.
    """

    def changes(parameters: Iterable[Any]) -> dict[str, Any]:
        return {parameter.name: _plain(parameter.value) for parameter in parameters}

    has_post_set = hasattr(node, 'add_post_set_parameters_callback')

    def before(parameters: Iterable[Any]) -> SetParametersResult:
        try:
            check(changes(parameters))
        except RobotDynamicsError as error:
            return refused(error)
        if not has_post_set:
            apply(changes(parameters))
        return accepted()

    node.add_on_set_parameters_callback(before)
    if has_post_set:
        node.add_post_set_parameters_callback(lambda parameters: apply(changes(parameters)))
