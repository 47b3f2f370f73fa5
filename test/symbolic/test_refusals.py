# SPDX-License-Identifier: Apache-2.0
"""What the symbolic room refuses, with culprit and what exists; inputs are unchanged."""

from __future__ import annotations

import numpy as np
import pytest
import refusals
from samples import sample

from robot_dynamics_ros.description.shipped import shipped_mechanism
from robot_dynamics_ros.errors import MechanismError, ParameterError, UnknownNameError
from robot_dynamics_ros.model import load_mechanism
from robot_dynamics_ros.symbolic.c_source import c_source
from robot_dynamics_ros.symbolic.closed_form import derive
from robot_dynamics_ros.symbolic.kernel import compile_kernel
from robot_dynamics_ros.symbolic.operation_counts import operation_counts

TREE, SMALL = sample('scara').tree, sample('rp').tree
LOOP = load_mechanism(*shipped_mechanism('four_bar'))
SYMBOLS = TREE.with_changes(mass=TREE.mass.astype(object))

REFUSED = {
    UnknownNameError: {
        "unknown frame 'tol'; known: .*tool": lambda: c_source(TREE, frames=('tol',)),
        "unknown kernel output 'torque'": lambda: c_source(TREE, ('torque',)),
        'formulation': lambda: derive(SMALL, 'lagrang'),
        "kernel output 'torque'; known: bias_forces": lambda: compile_kernel(
            TREE, outputs=('torque',)
        ),
        "formulation 'newton'": lambda: compile_kernel(TREE, 'newton'),
        "frame 'gripper'": lambda: compile_kernel(
            TREE, outputs=('frame_motion',), frame='gripper'
        ),
        "'torque'": lambda: operation_counts(SMALL, 'kane', 'torque'),
    },
    ParameterError: {
        "'tool_pose' refused: is duplicated": lambda: c_source(TREE, frames=('tool', 'tool')),
        "'mass_matrix' refused: is duplicated": lambda: c_source(
            TREE, ('mass_matrix', 'mass_matrix')
        ),
        'needs a frame; name one or more': lambda: c_source(TREE, ('frame_pose',)),
        'computes on numbers only': lambda: c_source(TREE, formulation='pinocchio'),
        'numbers only': lambda: derive(SMALL, 'pinocchio'),
        'not symbols': lambda: compile_kernel(SYMBOLS),
        'cannot be counted': lambda: operation_counts(SMALL, 'pinocchio'),
        'only traced code': lambda: operation_counts(SMALL, 'kane', 'derivatives'),
    },
    MechanismError: {
        'four_bar': lambda: c_source(LOOP),
        'not linear functions': lambda: derive(LOOP, 'kane'),
    },
}


test_it_is_refused_by_name = refusals.every(REFUSED)


@pytest.mark.parametrize('name', ['7arm', 'my-arm', 'double', 'class', '', '_arm', 'a__b', 'é'])
def test_a_name_that_is_no_c_identifier_is_refused(name):
    call = lambda: c_source(TREE, ('gravity_forces',), name=name)  # noqa: E731
    refusals.check(call, ParameterError, r'parameter name = .* is not a C identifier')


@pytest.mark.parametrize('kind', ['U3', 'c16', 'i8', '?', 'M8[s]'])
def test_a_result_that_cannot_hold_floats_is_refused(kind):
    kernels, result = compile_kernel(TREE), np.zeros(4, dtype=kind)
    with pytest.raises(ParameterError, match='must hold floating-point numbers'):
        kernels.gravity_forces(np.zeros(4), result)
