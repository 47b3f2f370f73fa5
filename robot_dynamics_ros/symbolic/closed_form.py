# SPDX-License-Identifier: Apache-2.0
"""The equations of motion of a robot as formulas, by running a formulation on symbols."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import sympy

from robot_dynamics_ros.dynamics.formulation import Formulation
from robot_dynamics_ros.dynamics.kane_loops import KaneMechanism
from robot_dynamics_ros.dynamics.registry import FORMULATIONS, make_formulation
from robot_dynamics_ros.errors import MechanismError, ParameterError, UnknownNameError
from robot_dynamics_ros.model.mechanism import Mechanism
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.symbolic.compact import expression
from robot_dynamics_ros.symbolic.named_robot import NamedRobot, RobotSymbol, name_constants

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class ClosedForm:
    r"""Equations of motion :math:`M(q)\,a + C(q, v)\,v + G(q) = \tau` in SymPy expressions.

    Symbols are those of :func:`name_constants`: coordinates ``q1``, ..., speeds ``v1``, ... and
    the parameters. An angle stands in a sine or cosine only.

    Attributes:
        robot: The robot's name.
        formulation: What was run.
        coordinates: Names of the coordinates and of their joints: ('q1', 'joint1').
        parameters: The constants that occur, with their values.
        M: Mass matrix.
        C: Christoffel matrix, so that dM/dt - 2 C is skew-symmetric.
        Cv: Centrifugal and Coriolis forces C v, a column.
        G: Gravity forces, a column.
    """

    robot: str
    formulation: str
    coordinates: tuple[tuple[str, str], ...]
    parameters: tuple[RobotSymbol, ...]
    M: sympy.Matrix
    C: sympy.Matrix
    Cv: sympy.Matrix
    G: sympy.Matrix


def derive(
    robot: RobotTree | Mechanism,
    formulation: str = 'newton_euler',
    progress: Progress | None = None,
) -> ClosedForm:
    """Derive the equations of motion of a robot.

    Args:
        robot: A tree of numbers, or a mechanism whose joints follow its coordinates linearly.
        formulation: Name of the formulation to run; a mechanism needs 'kane'.
        progress: Told what is being done, and the share of the work that is done.

    Raises:
        UnknownNameError: There is no such formulation; lists those that exist.
        ParameterError: The formulation computes on numbers only.
        MechanismError: The mechanism has no closed form.

    Cost: seconds for a planar arm, a minute for a spatial one of four joints with full tensors.
    """
    tell = progress or (lambda step, done: None)
    tree = robot.tree if isinstance(robot, Mechanism) else robot
    named = name_constants(tree.open)
    model, chosen = _model(robot, formulation, named)
    q, v = named.q[chosen], named.v[chosen]
    tell('mass matrix', 0.0)
    M = model.mass_matrix(q)
    tell('gravity forces', 0.2)
    G = model.gravity_forces(q)
    tell('Christoffel matrix', 0.25)
    C = model.coriolis_matrix(q, v)
    arrays = (M, C, (C @ v).reshape(-1, 1), G.reshape(-1, 1))
    matrices, done, size = [], 0, sum(array.size for array in arrays)
    for array in arrays:
        short = []
        for entry in array.ravel():
            tell('expressions', 0.6 + 0.4 * done / size)
            short.append(expression(entry))
            done += 1
        matrices.append(sympy.ImmutableMatrix(*array.shape, short))
    if tree.coupling is not None:
        matrices, chosen = _coupled(tree, *matrices)
    tell('done', 1.0)
    used = {symbol.name for matrix in matrices for symbol in matrix.free_symbols}
    return ClosedForm(
        tree.name,
        formulation,
        tuple((f'q{i + 1}', tree.open.joint_names[i]) for i in chosen),
        tuple(parameter for parameter in named.parameters if parameter.name in used),
        *matrices,
    )


def _coupled(
    tree: RobotTree, M: sympy.Matrix, C: sympy.Matrix, Cv: sympy.Matrix, G: sympy.Matrix
) -> tuple[list[sympy.Matrix], list[int]]:
    """Return the equations in the independent joints, and the bodies whose joints these are."""
    coupling = tree.coupling
    assert coupling is not None  # otherwise all joints are independent
    chosen = [coupling.joint_names.index(name) for name in tree.joint_names]
    rate = sympy.Matrix(*coupling.rate.shape, [sympy.nsimplify(x) for x in coupling.rate.ravel()])
    offset = sympy.Matrix([sympy.nsimplify(x) for x in coupling.offset])
    for letter, constant in (('q', offset), ('v', 0 * offset)):
        every = [sympy.Symbol(f'{letter}{i + 1}') for i in range(tree.bodies)]
        values = rate * sympy.Matrix([every[i] for i in chosen]) + constant
        moved = dict(zip(every, values, strict=True))
        M, C, Cv, G = (matrix.subs(moved, simultaneous=True) for matrix in (M, C, Cv, G))
    found = (rate.T * M * rate, rate.T * C * rate, rate.T * Cv, rate.T * G)
    return [sympy.ImmutableMatrix(matrix) for matrix in found], chosen


def _model(
    robot: RobotTree | Mechanism, formulation: str, named: NamedRobot
) -> tuple[Formulation, list[int]]:
    """Return the formulation in symbols, and the joints whose coordinates it takes."""
    if formulation not in FORMULATIONS:
        raise UnknownNameError('formulation', formulation, FORMULATIONS)
    if FORMULATIONS[formulation].numbers_only:
        raise ParameterError('formulation', formulation, 'it computes on numbers only')
    if not isinstance(robot, Mechanism):
        return make_formulation(formulation, named.tree), list(range(robot.bodies))
    if formulation != KaneMechanism.name:
        raise ParameterError('formulation', formulation, "closed loops need 'kane'")
    if robot.closed_form is None:
        raise MechanismError(
            f'mechanism {robot.name!r}',
            'its joints are no linear functions of its coordinates',
            'equations in closed form exist for parallelograms and the like only',
        )
    return KaneMechanism(robot.with_tree(named.tree)), list(robot.equations.coordinates)
