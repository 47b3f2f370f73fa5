# SPDX-License-Identifier: Apache-2.0
"""Registry of the control laws of this package and of others.

Another package registers a law by an entry point of the group ``robot_dynamics_ros.laws`` with the
law's name as its name and the class as its object.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from robot_dynamics_ros.control.laws.computed_torque import ComputedTorque
from robot_dynamics_ros.control.laws.constraint_stabilization import ConstraintStabilization
from robot_dynamics_ros.control.laws.control_law import ControlLaw
from robot_dynamics_ros.control.laws.gravity_laws import GravityCompensation, PdGravity
from robot_dynamics_ros.control.laws.hand_guiding import HandGuiding
from robot_dynamics_ros.control.laws.impedance import Impedance
from robot_dynamics_ros.errors import ConfigurationError, known_name
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.robot_tree import require_robot
from robot_dynamics_ros.parameters import Parameter
from robot_dynamics_ros.symbolic.kernel import KernelSet

LAWS: dict[str, type[ControlLaw]] = {
    law.name: law
    for law in (
        ComputedTorque,
        ConstraintStabilization,
        GravityCompensation,
        HandGuiding,
        Impedance,
        PdGravity,
    )
}


_GROUP = 'robot_dynamics_ros.laws'


@cache
def known_laws() -> dict[str, type[ControlLaw]]:
    """Return all laws by name; a law that cannot be loaded is omitted with a warning."""
    laws = dict(LAWS)
    for entry in entry_points(group=_GROUP):
        try:
            laws[entry.name] = _load(entry, laws)
        except Exception as error:  # third-party code may raise anything
            warnings.warn(f'law {entry.name!r} ({entry.value}) is left out: {error}', stacklevel=2)
    return laws


def _load(entry: EntryPoint, known: Mapping[str, type[ControlLaw]]) -> type[ControlLaw]:
    """Return the law of an entry point.

    Raises:
        ConfigurationError: It is not a law, or its name or a parameter conflicts with another law.
    """
    place, law = f'law {entry.name!r}', entry.load()
    if not (isinstance(law, type) and issubclass(law, ControlLaw)):
        raise ConfigurationError(place, 'is not a ControlLaw', 'name a class derived from it')
    if entry.name in known or law.name != entry.name:
        raise ConfigurationError(place, f'is named {law.name!r}', 'give it a unique name')
    declared = {one.name: one for other in known.values() for one in other.declared}
    for one in law.declared:
        if declared.get(one.name, one) != one:
            raise ConfigurationError(
                place, f'declares {one.name!r} differently from another law', 'choose another name'
            )
    return law


def law_class(name: str) -> type[ControlLaw]:
    """Return the class of a law.

    Raises:
        UnknownNameError: There is no such law; lists those that exist.
    """
    return known_laws()[known_name('law', name, known_laws())]


def law_declared() -> tuple[Parameter, ...]:
    """Return parameter ``law`` and the parameters of all laws, each name once."""
    chooser = Parameter(
        'law',
        'computed_torque',
        'Control law; a new one is blended in without a jump.',
        choices=tuple(known_laws()),
    )
    own = {one.name: one for law in known_laws().values() for one in law.declared}
    users = {
        name: [key for key, law in known_laws().items() if own[name] in law.declared]
        for name in own
    }
    return (chooser, *(replace(one, only=('law', *users[one.name])) for one in own.values()))


def make_law(
    name: str, tree: Robot, kernels: KernelSet | None = None, **parameters: Any
) -> ControlLaw:
    """Return a control law for a robot.

    Args:
        name: One of ``known_laws``.
        tree: The model of the robot, payload included.
        kernels: Its compiled dynamics; compiled by the law if None.
        parameters: The law's parameters, see its class.

    Raises:
        UnknownNameError: There is no such law; lists those that exist.
        ParameterError: It is no robot.
        RobotDynamicsError: A parameter is unknown or its value is rejected.
    """
    require_robot(tree)
    law: Any = law_class(name)
    return law(tree, kernels, **parameters)
