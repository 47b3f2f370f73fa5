# SPDX-License-Identifier: Apache-2.0
"""Declare parameters with description and range from one table per node, and read them back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from rcl_interfaces.msg import (
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
    SetParametersResult,
)
from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException

from robot_dynamics_ros.errors import ConfigurationError, RobotDynamicsError

#: Beginnings of the parameters that rclpy declares by itself.
_OF_RCLPY = ('use_sim_time', 'start_type_description_service', 'qos_overrides.')


@dataclass(frozen=True)
class ParameterSpec:
    """One parameter of a node.

    Attributes:
        name: Name; dots group.
        default: Default value, which fixes the type.
        description: One sentence with the unit.
        low, high: Range of a number; None if unbounded.
        fixed: Whether it can be set at start only.
    """

    name: str
    default: Any
    description: str
    low: float | None = None
    high: float | None = None
    fixed: bool = False

    def descriptor(self) -> ParameterDescriptor:
        """Return what ``ros2 param describe`` shows."""
        descriptor = ParameterDescriptor(description=self.description, read_only=self.fixed)
        if self.low is None and self.high is None:
            return descriptor
        low = -1e308 if self.low is None else self.low
        high = 1e308 if self.high is None else self.high
        if isinstance(self.default, int):
            descriptor.integer_range = [IntegerRange(from_value=int(low), to_value=int(high))]
        else:
            descriptor.floating_point_range = [FloatingPointRange(from_value=low, to_value=high)]
        return descriptor


def declare(node: Any, specs: Iterable[ParameterSpec]) -> None:
    """Declare all parameters of a node; values from YAML or the command line take precedence.

    What is given under a name that the node does not have, such as a misspelt one, is told.

    Raises:
        ConfigurationError: A given value is of another type or out of its range.
    """
    names = []
    for spec in specs:
        names.append(spec.name)
        try:
            node.declare_parameter(spec.name, spec.default, spec.descriptor())
        except (InvalidParameterTypeException, InvalidParameterValueException) as error:
            problem = f'is refused ({str(error).rstrip(".")})'
            remedy = f'give a value such as {spec.default!r}'
            if spec.low is not None or spec.high is not None:
                low, high = (x if x is not None else 'any' for x in (spec.low, spec.high))
                remedy += f', from {low} to {high}'
            raise ConfigurationError(f'parameter {spec.name!r}', problem, remedy) from error
    for name in getattr(node, '_parameter_overrides', ()):
        if name not in names and not name.startswith(_OF_RCLPY):
            close = get_close_matches(name, names, 1)
            hint = f'; did you mean {close[0]!r}?' if close else ''
            node.get_logger().warning(f'parameter {name!r} is unknown and has no effect{hint}')


def values(node: Any, specs: Iterable[ParameterSpec]) -> dict[str, Any]:
    """Return the present values by name; arrays as lists."""
    return {spec.name: _plain(node.get_parameter(spec.name).value) for spec in specs}


def _plain(value: Any) -> Any:
    """Return a parameter's value with arrays as lists."""
    return list(value) if hasattr(value, 'typecode') else value


def accepted() -> SetParametersResult:
    """Return the answer to a parameter change that is taken."""
    return SetParametersResult(successful=True)


def refused(error: RobotDynamicsError) -> SetParametersResult:
    """Return the answer to a parameter change that is not taken, with the reason."""
    return SetParametersResult(successful=False, reason=str(error))


def on_set_parameters(node: Any, check: Any, apply: Any) -> None:
    """Install a check (before) and an application (after) of parameter changes.

    Args:
        node: The node.
        check: Called with ``{name: value}`` of the changes; raises RobotDynamicsError to refuse.
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
