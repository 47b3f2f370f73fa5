# SPDX-License-Identifier: Apache-2.0
"""Virtual constraints f(q, t) = 0: constraint kinds, programs, reactions and stabilization.

The names below are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from robot_dynamics_ros.constraints.constraint import Constraint, Evaluation, Stack
    from robot_dynamics_ros.constraints.program import Program
    from robot_dynamics_ros.constraints.program_file import load_program
    from robot_dynamics_ros.constraints.registry import CONSTRAINTS, make_constraint
    from robot_dynamics_ros.constraints.stabilization import stabilizing_effort

_HOMES = {
    'CONSTRAINTS': 'registry',
    'Constraint': 'constraint',
    'Evaluation': 'constraint',
    'Program': 'program',
    'Stack': 'constraint',
    'load_program': 'program_file',
    'make_constraint': 'registry',
    'stabilizing_effort': 'stabilization',
}

__all__ = [
    'CONSTRAINTS',
    'Constraint',
    'Evaluation',
    'Program',
    'Stack',
    'load_program',
    'make_constraint',
    'stabilizing_effort',
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    return getattr(import_module(f'{__name__}.{_HOMES[name]}'), name)
