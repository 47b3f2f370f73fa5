# SPDX-License-Identifier: Apache-2.0
r"""Hand guiding: compensated gravity and friction, damping, reduced speed, virtual walls.

The efforts are gravity and friction, with damping, reduced speed, and virtual walls,

.. math:: \tau = g + \sigma\,\tau_{friction}(\dot q) - m\,(d\,\dot q + \kappa\,e(\dot q))
          + \tau_{wall}

with the inertia m of each joint: the smallest one, all other joints free, but not less than that
of an assumed rotor, which the drive accelerates to its velocity limit in ``ROTOR_TIME_S``, because
descriptions often lack rotors, and damping must not vanish with the links. :math:`e` is the part
of a speed above the reduced speed. What the links' inertia does not bear at the period and the
delay is reduced to the largest stable value. A wall with penetration x > 0 and its rate
:math:`\dot x` pushes with

.. math:: k\,x\,\max(0, 1 + \dot x / v_0),

which is continuous at x = 0 and never pulls. If the modelled friction does not exceed that of the
arm, the sum of :math:`\tfrac12\dot q^TM\dot q` and the energy :math:`\tfrac12kx^2` of the walls
grows by no more than the work of the hand.

Source: K. H. Hunt, F. R. E. Crossley, Coefficient of restitution interpreted as damping in
vibroimpact, J. Appl. Mech. 42, 1975, (2) with exponent 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.constraints.program_kernel import ProgramKernel
from robot_dynamics_ros.control.drivers.friction import DriveFriction
from robot_dynamics_ros.control.laws.computed_torque import FRICTION, SAMPLING
from robot_dynamics_ros.control.laws.control_law import Parts
from robot_dynamics_ros.control.laws.gravity_laws import GravityLaw
from robot_dynamics_ros.control.safety.limits import clipped
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.dynamics.joint_terms import inertia_matrix
from robot_dynamics_ros.dynamics.sampled_loop import (
    FeedbackLoop,
    Sampling,
    largest_damping,
    largest_ratio,
)
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.parameters import Parameter, Values
from robot_dynamics_ros.spatial.scalar import Array, Scalar, maximum
from robot_dynamics_ros.symbolic.kernel import compile_function

P = Parameter
_BRAKE = 100.0  # 1/s, kappa
#: Time in which an assumed rotor reaches the velocity limit at the effort limit, s.
ROTOR_TIME_S = 0.01
_SHARES = (0.3, 0.55, 0.15)  # of the largest stable damping: for damping, brake, walls
_CONFIGURATIONS = 50  # whose smallest inertia counts
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

    name = 'hand_guiding'
    yields = True
    follows_reference = False  # the arm is moved by hand
    needs_enabling = True
    remainder = 'friction'
    structural = frozenset({'guiding_program'})
    declared = (
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
        *SAMPLING,
    )  # fmt: skip

    def build(self) -> None:
        """Compile surfaces, friction and the other terms; see :class:`ModelLaw`."""
        tree, program = self.tree, self.parameters['guiding_program']
        self._surfaces = surfaces_of(tree, program) if program else None
        self._links = 1.0 / np.diag(np.linalg.inv(inertia_matrix(tree, tree.middle)))
        speed = tree.velocity_limits(_UNLIMITED)
        self._inertia = np.maximum(self._links, ROTOR_TIME_S * tree.effort_limit / speed)
        self._friction, n = DriveFriction(tree), tree.n
        self._joints, (self._damping, self._walls) = np.zeros(6 * n), np.zeros((2, n))
        self._guide = compile_function(guiding_efforts, n, joints=6 * n, fused=False)

    @cached_property
    def _bearing(self) -> Array:
        r"""Inertia m' of each joint, shape (n,), so that damping c m' in all removes at most c v.

        That is :math:`\lambda_{max}(M^{-1}m') \le 1` at all sampled positions, by the row sums of
        this matrix.
        """
        tree, rng, roots = self.tree, np.random.default_rng(0), np.sqrt(self._links)
        drawn = tree.random_positions(rng, _CONFIGURATIONS)
        parts = (roots * np.linalg.inv(inertia_matrix(tree, q)) * roots[:, None] for q in drawn)
        return self._links / np.max([np.abs(part).sum(axis=1) for part in parts], axis=0)

    def configure(self, parameters: Values) -> None:
        """Apply all parameters except the program; see :class:`ControlLaw`."""
        tree, inertia, sampling = self.tree, self._inertia, Sampling.of(parameters)
        frequency = parameters['guiding_wall_frequency']
        bearable = np.full(tree.n, np.inf)
        if sampling.period > 0.0:
            bearable = largest_damping(sampling) * self._bearing
        # The last is the damping of a wall at the depth that stops the reduced speed.
        wanted = np.outer([parameters['guiding_damping'], _BRAKE, frequency], inertia)
        damping, brake, at_walls = np.minimum(wanted, np.outer(_SHARES, bearable))
        stiffness = frequency * at_walls
        for i in np.flatnonzero(damping * stiffness):
            stiffness[i] *= self._bearable_part(stiffness[i], damping[i], int(i), sampling)
        self._reduced = (damping < wanted[0]) | (stiffness < (1 - 1e-9) * frequency * wanted[2])
        speed = parameters['guiding_speed_share'] * tree.velocity_limits(_UNLIMITED)
        room = _WIDEST * (tree.position_upper - tree.position_lower)
        stops = np.sqrt(self._links / np.where(stiffness > 0.0, stiffness, np.inf))
        stops = np.maximum(stops, 1.0 / frequency if frequency else 0.0)
        width = np.minimum(speed * stops, room)
        self._friction.configure(
            parameters['stiction_velocity'], parameters['guiding_friction_share']
        )
        walls = tree.position_lower + width, tree.position_upper - width
        self._joints[:] = np.concatenate([damping, speed, brake, stiffness, *walls])
        self._stiffness = parameters['guiding_wall_stiffness']

    def _bearable_part(
        self, stiffness: float, damping: float, joint: int, sampling: Sampling
    ) -> float:
        """Return the largest stable part of a wall's stiffness, with the damping of its joint."""
        one = np.array([[1.0]])
        mass, none = self._bearing[joint] * one, 0.0 * one
        fixed = FeedbackLoop('', mass, none, none, friction=damping * one)
        return largest_ratio(
            lambda part: fixed._replace(stiffness=part * stiffness * one).is_stable(sampling)
        )

    def feedback_loops(self, q: Array) -> Iterator[FeedbackLoop]:
        """Return the springs of the surfaces; the other terms are reduced until they are stable.

        See :class:`ControlLaw`.
        """
        if self._surfaces is None or not self._stiffness:
            return
        self._surfaces.run(0.0, q, np.zeros(self.tree.n))
        M, friction = inertia_matrix(self.tree, q), np.diag(self._joints[: self.tree.n])
        for row, _ in self._surfaces.program.contacts:
            normal = self._surfaces.Gamma[row]
            K = self._stiffness * np.outer(normal, normal)
            name = 'guiding_wall_stiffness'
            yield FeedbackLoop(name, M, K, 0.0 * M, exponent=2.0, friction=friction)

    def remarks(self) -> tuple[str, ...]:
        """Return a remark on joints whose terms are reduced; see :class:`ControlLaw`."""
        if not self._reduced.any():
            return ()
        names = ', '.join(np.array(self.tree.joint_names)[self._reduced])
        sampling = Sampling.of(self.parameters)
        return (
            f'hand_guiding: damping or walls of {names} are weaker than set: the inertia of the '
            f'links bears no more at {sampling}',
        )

    @classmethod
    def check(cls, tree: Robot, values: Values) -> None:
        """Check ranges, and that the program has a row with ``contact``."""
        super().check(tree, values)
        if values.get('guiding_program'):
            surfaces_of(tree, values['guiding_program'])

    def add_terms(self, q: Array, v: Array, reference: Reference, out: Array) -> None:
        """Add friction, surfaces, damping, walls and wrench; see :class:`GravityLaw`."""
        out += self._friction.at(v, out)
        self._add_surfaces(q, v, out)
        self._guide(q, v, self._joints, self._damping, self._walls)
        out += self._damping
        out += self._walls
        out += self.external.commanded

    def _add_surfaces(self, q: Array, v: Array, out: Array) -> None:
        """Add the efforts of the surfaces, if there are any, N m or N."""
        kernel = self._surfaces
        if kernel is None:
            return
        kernel.run(0.0, q, v)
        f, rates = kernel.f.tolist(), kernel.Gamma.dot(v).tolist()
        for row, _ in kernel.program.contacts:
            force = _force(self._stiffness, -f[row], -rates[row], _SURFACE_SPEED)
            if force > 0.0:
                out += force * kernel.Gamma[row]

    def parts(self, q: Array, v: Array, reference: Reference) -> Parts:
        """Return gravity, wrench and walls; friction with damping and brake remains."""
        surfaces = np.zeros(self.tree.n)
        self._add_surfaces(q, v, surfaces)
        return {**super().parts(q, v, reference), 'walls': self._walls + surfaces}


def surfaces_of(tree: Robot, program: str) -> ProgramKernel:
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
    damping, speed, brake, stiffness, lower, upper = joints.reshape(6, -1)
    below = _force(stiffness, lower - q, -v, speed)
    above = _force(stiffness, q - upper, v, speed)
    return -damping * v - brake * (v - clipped(v, speed)), below - above


def _force(stiffness: Scalar, depth: Scalar, rate: Scalar, speed: Scalar) -> Scalar:
    """Return the force of a wall at a penetration depth and its rate; never negative."""
    return stiffness * maximum(depth, 0.0) * maximum(1.0 + rate / speed, 0.0)
