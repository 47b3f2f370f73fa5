# SPDX-License-Identifier: Apache-2.0
"""Declare parameters with description and range from one table per node, and read them back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rcl_interfaces.msg import (
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
    SetParametersResult,
)

from robot_dynamics_ros.errors import RobotDynamicsError


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
    """Declare all parameters of a node; values from YAML or the command line take precedence."""
    for spec in specs:
        node.declare_parameter(spec.name, spec.default, spec.descriptor())


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
