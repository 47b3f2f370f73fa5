# SPDX-License-Identifier: Apache-2.0
"""Outputs of kernels: arguments, formulas on numbers or symbols, and their traces."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.disk_cache import new_digest
from robot_dynamics_ros.dynamics import make_formulation, potential_energy
from robot_dynamics_ros.dynamics.newton_euler import NewtonEuler
from robot_dynamics_ros.errors import known_name
from robot_dynamics_ros.model import (
    BodyFrame,
    Robot,
    frame_jacobian,
    frame_motion,
    frame_pose,
)
from robot_dynamics_ros.model.dependence import Affine
from robot_dynamics_ros.spatial.linear_algebra import solve_positive_definite
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.straight_line import (
    Arguments,
    StraightLineCode,
    jacobian,
    trace_function,
)

#: Quantities of printed equations in output order, with their descriptions.
QUANTITIES = {
    'M': 'mass matrix',
    'C': 'Christoffel matrix',
    'Cv': 'centrifugal and Coriolis forces',
    'G': 'gravity forces',
}

#: Constants of a robot in the formulas.
CONSTANTS = ('axis', 'R_PJ', 'p_PJ', 'mass', 'com', 'inertia', 'gravity')


class KernelSpec:
    """The robot, formulation and frame of a set of kernels.

    Args:
        robot: The robot.
        formulation: Name of the formulation.
        frame: Name of the frame for the outputs that depend on one.

    Raises:
        UnknownNameError: There is no such formulation; the message lists the known ones.
    """

    def __init__(self, robot: Robot, formulation: str, frame: str) -> None:
        self.formulation = make_formulation(formulation, robot)
        self.n, self.formulation_name, self.frame_name = robot.n, formulation, frame
        self.robot, self.tree = robot, robot.tree
        # Without gravity, the mass matrix has no terms that cancel only numerically.
        self.weightless = make_formulation(formulation, robot.with_gravity((0.0, 0.0, 0.0)))

    @property
    def frame(self) -> BodyFrame:
        """The frame; looked up on access, since most outputs do not depend on it."""
        return self.tree.frame(self.frame_name)

    def digest(self, of_frame: bool = False) -> bytes:
        """Return a digest of all numbers that the formulas use, optionally those of the frame."""
        arrays = [getattr(self.tree, name) for name in ('parent', 'prismatic', *CONSTANTS)]
        arrays.append(self.robot.drive)
        if of_frame:
            arrays += self.frame
        digest, dependence = new_digest(), self.robot.dependence
        if isinstance(dependence, Affine):
            arrays += dependence
        else:
            shapes = {'u': self.n}, {'q': (self.tree.bodies,)}
            positions = trace_function('positions', *shapes, lambda u: (dependence.positions(u),))
            digest.update(positions.listing().encode())
        for array in arrays:
            numbers = np.asarray(array, dtype=float)
            digest.update(repr(numbers.shape).encode() + numbers.tobytes())
        return digest.digest()

    def arguments(self, output: str) -> Arguments:
        """Return the arguments of an output.

        Raises:
            UnknownNameError: There is no such output; the message lists the known ones.
        """
        return known_output(output).arguments(output, self.n, self.tree.bodies)


class Output(NamedTuple):
    """An output of kernels.

    Attributes:
        meaning: The equation that it computes.
        inputs: Names of the inputs, each of shape (n,).
        results: Names and shapes of the results; ``'n'`` denotes the number of coordinates,
            ``'pi'`` ten times the number of bodies.
        formulas: ``(spec, *inputs) -> results``; a single result need not be in a tuple.
        of_frame: Whether it depends on the frame.
    """

    meaning: str
    inputs: tuple[str, ...]
    results: dict[str, tuple[int | str, ...]]
    formulas: Callable[..., Array | tuple[Array, ...]]
    of_frame: bool = False

    def compute(self, spec: KernelSpec, *inputs: Array) -> tuple[Array, ...]:
        """Return the results of the formulas as a tuple, on numbers or symbols."""
        results = self.formulas(spec, *inputs)
        return results if isinstance(results, tuple) else (results,)

    def arguments(self, name: str, n: int, bodies: int) -> Arguments:
        """Return the arguments of the output ``name`` for n coordinates and a number of bodies."""
        sizes = {'n': n, 'pi': 10 * bodies}
        shapes = {
            result: tuple(size if isinstance(size, int) else sizes[size] for size in shape)
            for result, shape in self.results.items()
        }
        return Arguments(name, dict.fromkeys(self.inputs, n), shapes)


def _mass_matrix(spec: KernelSpec, q: Array) -> Array:
    """Return M from its lower triangle, so that it is exactly symmetric."""
    M = spec.weightless.mass_matrix(q)
    for i in range(len(M)):
        M[i, i + 1 :] = M[i + 1 :, i]
    return M


def _forward_dynamics(spec: KernelSpec, q: Array, v: Array, tau: Array) -> Array:
    force = spec.formulation.generalized_forces(q, tau)
    bias = spec.formulation.bias_forces(q, v)
    return solve_positive_definite(_mass_matrix(spec, q), force - bias)


def _energies(spec: KernelSpec, q: Array, v: Array) -> Array:
    r"""Return :math:`\tfrac12 v^T(Mv)` and U; ``M v`` is the effort for an acceleration v."""
    efforts = spec.weightless.inverse_dynamics(q, 0 * v, v)
    momentum = spec.weightless.generalized_forces(q, efforts)
    potential = potential_energy(spec.robot, q)
    return np.array([(v @ momentum) / 2, potential])


def _frame_motion(spec: KernelSpec, q: Array, v: Array) -> tuple[Array, ...]:
    return tuple(frame_motion(spec.robot, q, v, spec.frame))


def _derivatives(spec: KernelSpec, q: Array, v: Array, a: Array) -> tuple[Array, ...]:
    if q.dtype != object:
        return tuple(spec.formulation.derivatives(q, v, a))
    tau = spec.formulation.inverse_dynamics(q, v, a)
    by_a = _mass_matrix(spec, q) if spec.robot.drives_coordinates else jacobian(tau, a)
    return jacobian(tau, q), jacobian(tau, v), by_a


def _frame_pose(spec: KernelSpec, q: Array) -> tuple[Array, ...]:
    return tuple(frame_pose(spec.robot, q, spec.frame))


def _frame_jacobian(spec: KernelSpec, q: Array) -> Array:
    return frame_jacobian(spec.robot, q, spec.frame)


def _regressor(spec: KernelSpec, q: Array, v: Array, a: Array) -> Array:
    state = spec.robot.tree_state(q, v, a)
    Y = NewtonEuler(spec.tree).regressor(state.q, state.v, state.a)
    return spec.formulation.project(q, Y)


OUTPUTS: dict[str, Output] = {
    'inverse_dynamics': Output(
        'tau = M(q) a + c(q, v) + g(q)',
        ('q', 'v', 'a'),
        {'tau': ('n',)},
        lambda s, q, v, a: s.formulation.inverse_dynamics(q, v, a),
    ),
    'gravity_forces': Output(
        'g(q), gravity forces along the coordinates',
        ('q',),
        {'g': ('n',)},
        lambda s, q: s.formulation.gravity_forces(q),
    ),
    'bias_forces': Output(
        'b = c(q, v) + g(q), centrifugal, Coriolis and gravity forces along the coordinates',
        ('q', 'v'),
        {'b': ('n',)},
        lambda s, q, v: s.formulation.bias_forces(q, v),
    ),
    'mass_matrix': Output('M(q), symmetric', ('q',), {'M': ('n', 'n')}, _mass_matrix),
    'forward_dynamics': Output(
        'a = M(q)^-1 (tau - c(q, v) - g(q))',
        ('q', 'v', 'tau'),
        {'a': ('n',)},
        _forward_dynamics,
    ),
    'energies': Output(
        'E = (v^T M(q) v / 2, potential energy)', ('q', 'v'), {'E': (2,)}, _energies
    ),
    'frame_pose': Output(
        'x_base = R x_frame + p', ('q',), {'R': (3, 3), 'p': (3,)}, _frame_pose, of_frame=True
    ),
    'frame_jacobian': Output(
        '(velocity of the origin; angular velocity) = J v, base axes',
        ('q',),
        {'J': (6, 'n')},
        _frame_jacobian,
        of_frame=True,
    ),
    'frame_motion': Output(
        'pose, Jacobian, and bias acceleration dJ/dt v, base axes',
        ('q', 'v'),
        {'R': (3, 3), 'p': (3,), 'J': (6, 'n'), 'bias': (6,)},
        _frame_motion,
        of_frame=True,
    ),
    'derivatives': Output(
        'of the inverse dynamics: dq = d tau / d q, dv = d tau / d v, M = d tau / d a',
        ('q', 'v', 'a'),
        {'dq': ('n', 'n'), 'dv': ('n', 'n'), 'M': ('n', 'n')},
        _derivatives,
    ),
    'regressor': Output(
        'tau = Y pi, pi = (m, m c, I about the origin) of each body',
        ('q', 'v', 'a'),
        {'Y': ('n', 'pi')},
        _regressor,
    ),
}


def known_output(name: str) -> Output:
    """Return the description of an output.

    Raises:
        UnknownNameError: There is no such output; the message lists the known ones.
    """
    return OUTPUTS[known_name('kernel output', name, OUTPUTS)]


def trace_output(name: str, spec: KernelSpec) -> StraightLineCode:
    """Trace an output of a robot with its constants folded, as the shorter of two forms.

    Args:
        name: The output, a key of ``OUTPUTS``.
        spec: Robot, formulation and frame.

    Raises:
        UnknownNameError: There is no such output; the message lists the known ones.
    """
    compute = partial(known_output(name).compute, spec)
    forms = [
        trace_function(*spec.arguments(name), compute, gather_factors=gather)
        for gather in (False, True)
    ]
    return min(forms, key=lambda code: code.operations().total())
