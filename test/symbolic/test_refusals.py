# SPDX-License-Identifier: Apache-2.0
"""What the symbolic room refuses, with culprit and what exists; inputs are unchanged."""

import numpy as np
import pytest
import tables
from samples import sample

from robot_dynamics_ros.description.shipped import shipped_mechanism
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model import load_mechanism
from robot_dynamics_ros.symbolic import c_source, closed_form, kernel, operation_counts
from robot_dynamics_ros.symbolic.kernel import compile_kernel

TREE, SMALL = sample('scara').tree, sample('rp').tree
LOOP = load_mechanism(*shipped_mechanism('four_bar'))
KERNELS = compile_kernel(TREE, outputs=('gravity_forces', 'bias_forces', 'inverse_dynamics'))
TAU, GOOD, FROZEN = KERNELS.inverse_dynamics, np.zeros(4), np.zeros(4)
FROZEN.setflags(write=False)
ROWS, UNEVEN = np.zeros((2, 4)), [[0.0] * 4, [0.0] * 3]
SYMBOLS = TREE.with_changes(mass=TREE.mass.astype(object))

test_it_is_refused_by_name = tables.called("""
c_source(TREE, frames=('tol',))                    | UnknownNameError: unknown frame 'tol'; known: ... tool
c_source(TREE, ('torque',))                        | UnknownNameError: unknown kernel output 'torque'
derive(SMALL, 'lagrang')                           | UnknownNameError: formulation
compile_kernel(TREE, outputs=('torque',))          | UnknownNameError: kernel output 'torque'; known: bias_forces
compile_kernel(TREE, 'newton')                     | UnknownNameError: formulation 'newton'
compile_kernel(TREE, outputs=('frame_motion',), frame='gripper') | UnknownNameError: frame 'gripper'
operation_counts(SMALL, 'kane', 'torque')          | UnknownNameError: 'torque'
KERNELS.batch('mass_matrix', ROWS)                 | UnknownNameError: known: bias_forces, gravity_forces
c_source(TREE, frames=('tool', 'tool'))            | ParameterError: 'tool_pose' refused: is duplicated
c_source(TREE, ('mass_matrix', 'mass_matrix'))     | ParameterError: 'mass_matrix' refused: is duplicated
c_source(TREE, ('frame_pose',))                    | ParameterError: needs a frame; name one or more
c_source(TREE, 'mass_matrix')                      | ParameterError: outputs = ... such as ['mass_matrix']
c_source(TREE, frames='tool')                      | ParameterError: frames = ... such as ['tool']
c_source(TREE, formulation='pinocchio')            | ParameterError: computes on numbers only
derive(SMALL, 'pinocchio')                         | ParameterError: numbers only
derive(SMALL, quantities='Cv')                     | ParameterError: quantities = 'Cv' ... such as ['Cv']
derive(SMALL, quantities=['g'])                    | UnknownNameError: unknown quantity 'g'; known: C, Cv, G, M
compile_kernel(SYMBOLS)                            | ParameterError: not symbols
operation_counts(SMALL, 'pinocchio')               | ParameterError: cannot be counted
KERNELS.batch('bias_forces', UNEVEN, ROWS)         | ParameterError: q ... rows of one length
operation_counts(SMALL, 'kane', 'derivatives')     | ParameterError: only traced code
KERNELS.batch('bias_forces', ROWS, ROWS[1:])       | ShapeError: v has shape
KERNELS.batch('bias_forces', ROWS)                 | TypeError: takes q, v
KERNELS.mass_matrix                                | AttributeError: 'mass_matrix' was not requested; available: gravity_forces, bias
c_source(LOOP)                                     | MechanismError: four_bar
derive(LOOP, 'kane')                               | MechanismError: not linear functions
TAU(GOOD, np.zeros(()), GOOD, GOOD)            | ShapeError: v has shape ... expected (4,)
TAU(GOOD, np.zeros(3), GOOD, GOOD)             | ShapeError: v has shape ... expected (4,)
TAU(GOOD, np.zeros((1, 4)), GOOD, GOOD)        | ShapeError: v has shape ... expected (4,)
TAU(GOOD, GOOD, None, GOOD)                    | ShapeError: a has shape
TAU(GOOD, GOOD, 'q', GOOD)                     | ShapeError: a has shape
TAU(GOOD, GOOD, [1j, 0, 0, 0], GOOD)           | ParameterError: a =
TAU(GOOD, GOOD, [0, [1], 2, 3], GOOD)          | ParameterError: a =
TAU(GOOD, GOOD, GOOD, np.zeros(3))             | ShapeError: tau
TAU(GOOD, GOOD, GOOD, [0.0] * 4)               | ParameterError: tau
TAU(GOOD, GOOD, GOOD, np.zeros(4, dtype=int))  | ParameterError: tau
TAU(GOOD, GOOD, GOOD, FROZEN)                  | ParameterError: can be written
TAU(GOOD)                                      | TypeError: inverse_dynamics(q, v, a, tau) takes 4 arrays
c_source(TREE, name='7arm')                    | ParameterError: parameter name = ... is not a C identifier
c_source(TREE, name='double')                  | ParameterError: parameter name = ... is not a C identifier
c_source(TREE, name='class')                   | ParameterError: parameter name = ... is not a C identifier
c_source(TREE, name='')                        | ParameterError: parameter name = ... is not a C identifier
c_source(TREE, name='a__b')                    | ParameterError: parameter name = ... is not a C identifier
c_source(TREE, name='é')                       | ParameterError: parameter name = ... is not a C identifier
""", globals(), c_source, closed_form, kernel, operation_counts)  # fmt: skip  # noqa: E501


@pytest.mark.parametrize('kind', ['U3', 'c16', 'i8', '?', 'M8[s]'])
def test_a_result_that_cannot_hold_floats_is_refused(kind):
    result = np.zeros(4, dtype=kind)
    with pytest.raises(ParameterError, match='must hold floating-point numbers'):
        KERNELS.gravity_forces(np.zeros(4), result)
