# SPDX-License-Identifier: Apache-2.0
r"""Laws that add terms to gravity compensation: damping, PD control, hand guiding.

Gravity compensation, :math:`\tau = g(q) - D v`: the arm floats and can be moved by hand.

PD control with gravity compensation, with gains comparable to computed torque,

.. math:: \tau = g(q) + \bar M\,\{K_p\,(q_r - q) + K_d\,(\dot q_r - v)\}

:math:`\bar M` is the diagonal of the mass matrix plus armature at a constant home position. There,
the same natural frequency and damping ratio give the same stiffness as computed torque.

Hand guiding compensates gravity and friction, with damping, reduced speed, and virtual walls,

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
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.constraints.program_kernel import ProgramKernel
from robot_dynamics_ros.control.laws.computed_torque import (
    FEEDBACK,
    FRICTION,
    PERIOD,
    DriveFriction,
    compile_feedback,
    gains_of,
)
from robot_dynamics_ros.control.laws.control_law import ModelLaw, Reference
from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.parameters import Parameter, spread
from robot_dynamics_ros.spatial.scalar import Array, Scalar, maximum, minimum
from robot_dynamics_ros.symbolic.kernel import compile_function


class GravityLaw(ModelLaw):
    """Base class of laws that add terms to gravity compensation; see :class:`ModelLaw`."""

    outputs: ClassVar[tuple[str, ...]] = ('gravity_forces',)

    def gravity(self, q: Array) -> Array:
        """Return the efforts that balance gravity, shape (n,), N m or N; allocates."""
        gravity = np.zeros(self.tree.n)
        self._kernels.gravity_forces(q, gravity)
        return gravity


class GravityCompensation(GravityLaw):
    """Gravity compensation with optional damping; ignores the reference.

    Args:
        tree: The model of the robot, payload included.
        kernels: With ``gravity_forces``; compiled from the tree if None.
        parameters: By name, see ``declared``.

    Raises:
        ParameterError: A parameter is rejected.

    Cost: one gravity kernel and about 1 us; allocates no array.
    """

    name: ClassVar[str] = 'gravity_compensation'
    yields: ClassVar[bool] = True
    follows_reference: bool = False  # the arm is moved by hand
    declared: ClassVar[tuple[Parameter, ...]] = (
        Parameter('damping', [0.0], 'Damping D of law gravity_compensation.', 0.0,
                  unit='N m s/rad or N s/m', per_joint=True),
    )  # fmt: skip

    def build(self) -> None:
        """Allocate the work array; see :class:`ModelLaw`."""
        self._work = np.zeros(self.tree.n)

    def configure(self, parameters: Mapping[str, Any]) -> None:
        """Apply the damping; see :class:`ControlLaw`."""
        self._damping = np.array(spread(parameters['damping'], self.tree.n))

    def effort(self, t: float, q: Array, v: Array, reference: Reference, out: Array) -> None:
        """Compute the efforts for the coming period; see :class:`ControlLaw`."""
        self._kernels.gravity_forces(q, out)
        np.multiply(self._damping, v, out=self._work)
        out -= self._work

    def decompose(self, t: float, q: Array, v: Array, reference: Reference) -> dict[str, Array]:
        """Return gravity and damping, shape (n,), N m or N; see :class:`ControlLaw`."""
        return {'gravity': self.gravity(q), 'damping': -self._damping * v}


def joint_inertia(tree: RobotTree, home: Array) -> Array:
    """Return the diagonal of the mass matrix plus armature at a position, (n,), kg m^2 or kg."""
    return _joint_inertia(tree, np.asarray(home, dtype=float).tobytes()).copy()


@lru_cache(maxsize=8)  # several parts of a controller need the same result
def _joint_inertia(tree: RobotTree, home: bytes) -> Array:
    q = np.frombuffer(home)
    return np.diag(make_formulation('newton_euler', tree).mass_matrix(q)) + tree.armature


class PdGravity(GravityLaw):
    """Proportional-derivative feedback plus gravity compensation.

    Globally stable at a constant reference for any positive gains. It follows a moving reference
    with a lag, since inertia, Coriolis forces and friction are not fed forward.

    The gains are ``Kp = w0^2`` and ``Kd = 2 zeta w0``; unstable gains at the period are rejected.

    Args:
        tree: The model of the robot, payload included.
        kernels: With ``gravity_forces``; compiled from the tree if None.
        parameters: By name, see ``declared``.

    Raises:
        ParameterError: A parameter is rejected.

    Cost: one gravity kernel and about 0.2 us; allocates no array.
    """

    name: ClassVar[str] = 'pd_gravity'
    declared: ClassVar[tuple[Parameter, ...]] = (
        *FEEDBACK,
        Parameter('home', [0.0], 'Position, one entry per joint, at which law pd_gravity computes '
                  'the inertia; a single number: the middle of the joint limits.',
                  unit='rad or m', per_joint=True),
        PERIOD,
    )  # fmt: skip

    def build(self) -> None:
        """Compile the feedback; see :class:`ModelLaw`."""
        self._gains, self._feedback = np.zeros(2 * self.tree.n), compile_feedback(self.tree.n)

    def configure(self, parameters: Mapping[str, Any]) -> None:
        """Apply gains and home position; see :class:`ControlLaw`."""
        Kp, Kd = gains_of(parameters, self.tree.n)
        home = np.array(parameters['home'])
        if home.size < self.tree.n:
            home = self.tree.middle
        inertia = joint_inertia(self.tree, home)
        self._gains[:] = np.concatenate([inertia * Kp, inertia * Kd])

    def effort(self, t: float, q: Array, v: Array, reference: Reference, out: Array) -> None:
        """Compute the efforts for the coming period; see :class:`ControlLaw`."""
        self._kernels.gravity_forces(q, out)
        desired, rate = reference.position, reference.velocity
        self._feedback(q, v, desired, rate, out, self._gains, out)

    def decompose(self, t: float, q: Array, v: Array, reference: Reference) -> dict[str, Array]:
        """Return gravity and feedback, shape (n,), N m or N; see :class:`ControlLaw`."""
        gravity, whole = self.gravity(q), np.zeros(self.tree.n)
        self.effort(t, q, v, reference, whole)
        return {'gravity': gravity, 'feedback': whole - gravity}


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
    follows_reference: bool = False  # the arm is moved by hand
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
        FRICTION[2],
        PERIOD,
    )  # fmt: skip

    def build(self) -> None:
        """Compile surfaces, friction and the other terms; see :class:`ModelLaw`."""
        tree, program = self.tree, self.parameters['guiding_program']
        self._surfaces = surfaces_of(tree, program) if program else None
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

    def configure(self, parameters: Mapping[str, Any]) -> None:
        """Apply all parameters except the program; see :class:`ControlLaw`."""
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

    @classmethod
    def check(cls, tree: RobotTree, values: Mapping[str, Any]) -> None:
        """Check ranges, and that the program has a row with ``contact``."""
        super().check(tree, values)
        if values.get('guiding_program'):
            surfaces_of(tree, values['guiding_program'])

    def effort(self, t: float, q: Array, v: Array, reference: Reference, out: Array) -> None:
        """Compute the efforts for the coming period; see :class:`ControlLaw`."""
        self._kernels.gravity_forces(q, out)
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
