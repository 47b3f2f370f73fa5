# SPDX-License-Identifier: Apache-2.0
"""Computed torque and constraint stabilization with cross-checked recursive dynamics.

The names below are the public API. Each is imported on first use, so importing the package itself
is cheap. The architecture page of the documentation lists the subpackages::

    from robot_dynamics_ros import load_arm, make_formulation

    arm = load_arm('my_arm.urdf')
    tau = make_formulation('newton_euler', arm).inverse_dynamics(q, v, a)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from robot_dynamics_ros.constraints import load_program
    from robot_dynamics_ros.control.laws.registry import LAWS, make_law
    from robot_dynamics_ros.control.session import ControllerSession
    from robot_dynamics_ros.dynamics import FORMULATIONS, make_formulation
    from robot_dynamics_ros.errors import RobotDynamicsError
    from robot_dynamics_ros.identification.identify import identify
    from robot_dynamics_ros.model import load_arm, load_mechanism, load_robot
    from robot_dynamics_ros.recordings.reading import read_recording
    from robot_dynamics_ros.symbolic.kernel import compile_kernel

__version__ = '0.2.0'

__all__ = [
    'FORMULATIONS',
    'LAWS',
    'ControllerSession',
    'RobotDynamicsError',
    '__version__',
    'compile_kernel',
    'identify',
    'load_arm',
    'load_mechanism',
    'load_program',
    'load_robot',
    'make_formulation',
    'make_law',
    'read_recording',
]

_HOMES = {
    'ControllerSession': 'control.session',
    'FORMULATIONS': 'dynamics',
    'LAWS': 'control.laws.registry',
    'RobotDynamicsError': 'errors',
    'compile_kernel': 'symbolic.kernel',
    'identify': 'identification',
    'load_arm': 'model',
    'load_mechanism': 'model',
    'load_program': 'constraints',
    'load_robot': 'model',
    'make_formulation': 'dynamics',
    'make_law': 'control.laws.registry',
    'read_recording': 'recordings.reading',
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    value = getattr(import_module(f'{__name__}.{_HOMES[name]}'), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
