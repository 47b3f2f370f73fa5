# SPDX-License-Identifier: Apache-2.0
r"""Hand guiding: compensated gravity and friction, damping, reduced speed, and virtual walls.

.. math:: \tau = g + \sigma\,\tau_{friction}(\dot q) - m\,(d\,\dot q + \kappa\,e(\dot q))
          + \tau_{wall}

with the smallest inertia m of each joint, all other joints free; :math:`e` is the part of a speed
above the reduced speed. A wall with penetration x > 0 and its rate :math:`\dot x` pushes with

.. math:: k\,x\,\max(0, 1 + \dot x / v_0),

which is continuous at x = 0 and never pulls. If the modelled friction does not exceed that of the
arm, the sum of :math:`\tfrac12\dot q^TM\dot q` and the energy :math:`\tfrac12kx^2` of the walls
grows by no more than the work of the hand.

Source: K. H. Hunt, F. R. E. Crossley, Coefficient of restitution interpreted as damping in
vibroimpact, J. Appl. Mech. 42, 1975, (2) with exponent 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.constraints.program_kernel import ProgramKernel
from robot_dynamics_ros.control.laws import parameter_checks as check
from robot_dynamics_ros.control.laws.control_law import Reference
from robot_dynamics_ros.control.laws.gravity_compensation import GravityLaw
from robot_dynamics_ros.control.laws.parameter_checks import DriveFriction
from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.parameters import Parameter
from robot_dynamics_ros.spatial.scalar import Array, Scalar, maximum, minimum
from robot_dynamics_ros.symbolic.kernel import KernelSet, compile_function

P = Parameter
_BRAKE = 100.0  # 1/s, kappa, unless the period requires less
_SAMPLED = 0.25  # largest fraction of a speed that is removed in one period
_WIDEST = 0.25  # largest width of a wall, as a fraction of the joint's range
_SURFACE_SPEED = 0.25  # m/s, v_0 of surfaces: the reduced speed of ISO 10218-1
_UNLIMITED = 1.0  # rad/s or m/s: assumed velocity limit of a joint without one


class HandGuiding(GravityLaw):
    """Compensated gravity and friction with damping, reduced speed and virtual walls.

    A joint's wall begins where its spring can stop the joint from the reduced speed before the
    position limit. The rows with ``contact`` of ``guiding_program`` are walls too: their surfaces
    at time 0 of the program keep the arm on the side of their outward normals.

    Args:
        tree: The model of the robot, payload included.
        kernels: With ``gravity_forces``; compiled from the tree if None.
        parameters: By name, see ``declared``.

    Raises:
        ProgramError: The program cannot be used.
        ParameterError: A parameter is rejected.

    Cost: one gravity kernel, that of the program if there is one, and about 5 us for four joints.
    """

    name: ClassVar[str] = 'hand_guiding'
    yields: ClassVar[bool] = True
    needs_enabling: ClassVar[bool] = True
    structural: ClassVar[frozenset[str]] = frozenset({'guiding_program'})
    declared: ClassVar[tuple[Parameter, ...]] = (
        P('guiding_damping', 5.0, 'Damping of law hand_guiding, per inertia of each joint.',
          0.0, 100.0, unit='1/s'),
        P('guiding_friction_share', 0.8, 'Fraction of the joint friction that law hand_guiding '
          'compensates.', 0.0, 1.0),
        P('guiding_speed_share', 0.25, 'Fraction of the velocity limits above which law '
          'hand_guiding brakes.', 0.001, 1.0),
        P('guiding_wall_frequency', 30.0, 'Natural frequency of a joint at the walls of law '
          'hand_guiding.', 0.0, 1000.0, unit='rad/s'),
        P('guiding_wall_stiffness', 2000.0, "Stiffness of the program's surfaces in law "
          'hand_guiding.', 0.0, 1e6, unit='N/m'),
        P('guiding_program', '', 'Constraint program whose rows with contact are walls of law '
          'hand_guiding; empty: joint limits only.'),
        check.FRICTION[2],
        check.PERIOD,
    )  # fmt: skip

    def __init__(
        self, tree: RobotTree, kernels: KernelSet | None = None, **parameters: Any
    ) -> None:
        self._path = str(parameters.get('guiding_program', ''))
        self._surfaces = surfaces_of(tree, self._path) if self._path else None
        M = make_formulation('newton_euler', tree).mass_matrix(tree.middle)
        self._inertia = 1.0 / np.diag(np.linalg.inv(M + np.diag(tree.armature)))
        self._friction, n = DriveFriction(tree), tree.n
        self._joints, (self._damping, self._walls) = np.zeros(6 * n), np.zeros((2, n))
        self._guide = compile_function(
            'guiding',
            {'q': n, 'v': n, 'joints': 6 * n},
            {'damping': (n,), 'walls': (n,)},
            guiding_efforts,
            fused=False,
        )
        super().__init__(tree, kernels, **parameters)

    def configure(self, parameters: Mapping[str, Any]) -> None:
        """Apply all parameters except the program; see :class:`ControlLaw`."""
        if parameters['guiding_program'] != self._path:
            raise ParameterError(
                'guiding_program', parameters['guiding_program'], 'requires a new law'
            )
        tree, period = self.tree, parameters['period']
        frequency = parameters['guiding_wall_frequency']
        if frequency * period > 1.0:
            raise ParameterError(
                'guiding_wall_frequency',
                frequency,
                f'is unstable at a period of {period:g} s; give at most {1.0 / period:g}',
            )
        speed = parameters['guiding_speed_share'] * tree.speeds(_UNLIMITED)
        room = _WIDEST * (tree.position_upper - tree.position_lower)
        width = np.minimum(speed / frequency, room) if frequency else 0.0 * speed
        share = parameters['guiding_friction_share']
        brake = min(_BRAKE, _SAMPLED / period) if period else _BRAKE
        self._friction.configure(parameters['stiction_velocity'], share)
        columns = (
            parameters['guiding_damping'] * self._inertia,
            speed,
            brake * self._inertia,
            frequency**2 * self._inertia,
            tree.position_lower + width,
            tree.position_upper - width,
        )
        self._joints[:] = np.concatenate(columns)
        self._stiffness = parameters['guiding_wall_stiffness']

    @property
    def follows_reference(self) -> bool:
        """False: the arm is moved by hand."""
        return False

    @classmethod
    def check(cls, tree: RobotTree, values: Mapping[str, Any]) -> None:
        """Check ranges, and that the program has a row with ``contact``."""
        super().check(tree, values)
        if values.get('guiding_program'):
            surfaces_of(tree, values['guiding_program'])

    def effort(self, t: float, q: Array, v: Array, reference: Reference, out: Array) -> None:
        """Compute the efforts for the coming period; see :class:`ControlLaw`."""
        self._gravity_forces(q, out)
        out += self._friction.at(v, out)
        if self._surfaces is not None:
            self._add_surfaces(q, v, out)
        self._guide(q, v, self._joints, self._damping, self._walls)
        out += self._damping
        out += self._walls

    def _add_surfaces(self, q: Array, v: Array, out: Array) -> None:
        """Add the efforts of the surfaces, N m or N."""
        kernel = self._surfaces
        assert kernel is not None
        kernel.run(0.0, q, v)
        f, rates = kernel.f.tolist(), kernel.Gamma.dot(v).tolist()
        for row, _ in kernel.program.contacts:
            force = _force(self._stiffness, -f[row], -rates[row], _SURFACE_SPEED)
            if force > 0.0:
                out += force * kernel.Gamma[row]

    def decompose(self, t: float, q: Array, v: Array, reference: Reference) -> dict[str, Array]:
        """Return gravity, friction with damping and brake, walls; shape (n,), N m or N."""
        surfaces = np.zeros(self.tree.n)
        if self._surfaces is not None:
            self._add_surfaces(q, v, surfaces)
        gravity = self.gravity(q)
        self._guide(q, v, self._joints, self._damping, self._walls)
        moving = self._damping + self._friction.at(v, gravity)
        return {'gravity': gravity, 'friction': moving, 'walls': self._walls + surfaces}


def surfaces_of(tree: RobotTree, program: str) -> ProgramKernel:
    """Return the kernel of a program with surfaces.

    Raises:
        ProgramError: It cannot be used.
        ParameterError: It has no row with ``contact``.
    """
    loaded = load_program(program, tree)
    if not loaded.contacts:
        raise ParameterError('guiding_program', loaded.name, 'has no row with contact')
    return ProgramKernel(loaded)


def guiding_efforts(q: Array, v: Array, joints: Array) -> tuple[Array, Array]:
    """Return the efforts of damping with brake, and of the walls; numbers or symbols.

    Args:
        q: Positions, shape (n,), rad or m.
        v: Velocities, shape (n,), rad/s or m/s.
        joints: Damping, reduced speed, brake, stiffness of the walls, and their positions; for all
            joints each, shape (6 n,).

    Returns:
        Two arrays of shape (n,), N m or N.
    """
    damping, walls = [], []
    rows = zip(q, v, *joints.reshape(6, -1), strict=True)
    for x, w, viscous, speed, brake, stiffness, lower, upper in rows:
        beyond = w - maximum(-speed, minimum(speed, w))
        damping.append(-viscous * w - brake * beyond)
        below, above = (lower - x, -w), (x - upper, w)
        walls.append(_force(stiffness, *below, speed) - _force(stiffness, *above, speed))
    return np.array(damping), np.array(walls)


def _force(stiffness: Scalar, depth: Scalar, rate: Scalar, speed: Scalar) -> Scalar:
    """Return the force of a wall at a penetration depth and its rate; never negative."""
    return stiffness * maximum(depth, 0.0) * maximum(1.0 + rate / speed, 0.0)
