# SPDX-License-Identifier: Apache-2.0
r"""Joint terms added to the rigid-body dynamics by the drives: friction and armature.

.. math:: \tau_{motor} = \tau_l + J_a\,a + \tau_f

.. math:: \tau_f = b\,v + \tau_c\,d + \tau_0 + \mu\,|\tau_l|\,d + k_{1/2}\sqrt{|v|}\,d
    + k_2\,v|v| + k_3\,v^3 + \tau_s\,e^{-(v/v_s)^2}\,d

with the rigid-body effort :math:`\tau_l`, which loads the gear, and the direction of motion d,
``sign v`` or :math:`\tanh(v/w)`. This is the friction model of control laws, plant, observer,
monitor, metrics and identification. A URDF gives b and :math:`\tau_c`; the other coefficients come
from the file written by the command ``identify``, see ``model.identified``. Laws compensate
it beyond the recorded speed as at that speed: more than there is drives a joint.

Source: Bittencourt and Gunnarsson 2012 (load, speed, Stribeck effect).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from robot_dynamics_ros.dynamics.formulation import Formulation, StateSpace, state_space
from robot_dynamics_ros.dynamics.registry import make_formulation
from robot_dynamics_ros.errors import ShapeError
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.identified import RECORDED_SPEED, STRIBECK_VELOCITY
from robot_dynamics_ros.model.robot_tree import require_robot
from robot_dynamics_ros.spatial.scalar import Array, Scalar, common_dtype, jacobian, tanh
from robot_dynamics_ros.spatial.validation import array, require_positive

_GRAVITY_SAMPLES, _LOOP_SAMPLES = 500, 100


def _magnitude(v: Array) -> Array:
    return np.sqrt(v * v)


def _decay(x: Array) -> Array:
    """Return exp(-x) in terms of tanh, which symbols support."""
    half = np.tanh(0.5 * x)
    return (1.0 - half) / (1.0 + half)


#: Effort per unit of each term, as a function of velocity, direction, load, Stribeck velocity.
FRICTION_TERMS: dict[str, Callable[[Array, Array, Array, Array], Array]] = {
    'damping': lambda v, d, load, vs: v,
    'coulomb_friction': lambda v, d, load, vs: d,
    'offset': lambda v, d, load, vs: np.ones_like(v),
    'load_friction': lambda v, d, load, vs: _magnitude(load) * d,
    'root_friction': lambda v, d, load, vs: np.sqrt(_magnitude(v)) * d,
    'square_friction': lambda v, d, load, vs: v * _magnitude(v),
    'cubic_friction': lambda v, d, load, vs: v * v * v,
    'stribeck_friction': lambda v, d, load, vs: _decay(v / vs * (v / vs)) * d,
}


@dataclass(frozen=True, eq=False)
class JointTerms:
    """Friction and armature of every joint; disabled terms are arrays of zeros.

    Attributes:
        damping: Viscous coefficient, shape (n,), N m s/rad or N s/m.
        coulomb_friction: Coulomb level, shape (n,), N m or N.
        armature: Reflected drive inertia, shape (n,), kg m^2 or kg.
        stiction_velocity: Width w of the smooth sign, rad/s or m/s, at which it reaches 76 %.
        further: Other friction terms by name, as in ``Robot.drive_friction``.
    """

    damping: Array
    coulomb_friction: Array
    armature: Array
    stiction_velocity: float = 1e-3
    further: Mapping[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_positive(stiction_velocity=self.stiction_velocity)

    @classmethod
    def of(
        cls,
        tree: Robot,
        *,
        friction: bool = True,
        armature: bool = True,
        stiction_velocity: float = 1e-3,
    ) -> JointTerms:
        """Return the joint terms of a robot; zeros for disabled terms."""
        none = np.zeros(tree.n)
        return cls(
            tree.damping if friction else none,
            tree.coulomb_friction if friction else none,
            tree.armature if armature else none,
            stiction_velocity,
            tree.drive_friction if friction else {},
        )

    def friction(self, v: Array, load: Any = 0.0, direction: Array | None = None) -> Array:
        r"""Return the friction, new array of the shape of v, N m or N; numbers or symbols.

        Args:
            v: Joint velocities, shape (..., n), rad/s or m/s; or one number for all joints.
            load: Rigid-body efforts, same shape, N m or N; used by load-dependent friction only.
            direction: d, same shape; the smooth sign of v if None.

        Raises:
            ShapeError: There is not one velocity for each joint.
        """
        v, d = self._motion(v, direction)
        speed = self.further.get(STRIBECK_VELOCITY, v)
        effort = self.damping * v + self.coulomb_friction * d
        for term, value in self.further.items():
            if term in FRICTION_TERMS:
                effort = effort + value * FRICTION_TERMS[term](v, d, load, speed)
        return effort

    def compensation(self, v: Array, load: Any = 0.0, direction: Array | None = None) -> Array:
        """Return the friction to compensate: at no more than the recorded speeds, see the module.

        Arguments and result are those of :meth:`friction`.
        """
        v, d = self._motion(v, direction)
        most = self.further.get(RECORDED_SPEED, np.full(len(self.damping), np.inf))
        held, at = np.array(v), np.isfinite(most)
        above, below = held[..., at] + most[at], held[..., at] - most[at]
        held[..., at] = 0.5 * (_magnitude(above) - _magnitude(below))
        return self.friction(held, load, d)

    def _motion(self, v: Array, direction: Array | None) -> tuple[Array, Array]:
        v, shape = np.asarray(v, common_dtype(v)), np.shape(self.damping)
        if v.shape[-1:] != shape:  # one number for all joints
            try:
                v = np.broadcast_to(v, np.broadcast_shapes(v.shape, shape))
            except ValueError:
                raise ShapeError('v', v.shape, f'(..., {len(self.damping)})') from None
        return v, np.tanh(v / self.stiction_velocity) if direction is None else direction

    @property
    def offset(self) -> Any:
        """Constant effort offset, shape (n,), N m or N; 0 if there is none."""
        return self.further.get('offset', 0.0)

    def breakaway(self, load: Array) -> Array:
        """Return the breakaway friction of the joints, shape of ``load``, N m or N."""
        none = np.zeros(np.shape(load))
        return self.friction(none, load, none + 1.0) - self.offset

    def effort(self, v: Array, a: Array, load: Any = 0.0) -> Array:
        """Return armature times acceleration plus friction, new array, shape (n,), N m or N."""
        return self.armature * a + self.friction(v, load)


def smooth_direction(v: Array, width: Scalar) -> Array:
    """Return tanh(v / width) of velocities, shape (n,); numbers or symbols."""
    return np.array([tanh(x / width) for x in v])


def linearize_driven(model: Formulation, q: Array, v: Array, a: Array) -> StateSpace:
    r"""Return the exact linearization of rigid bodies with friction and armature about a motion.

    .. math:: (S M + J_a)\,\delta a = \delta\tau - S\,\partial_q\tau_l\,\delta q -
        (S\,\partial_v\tau_l + \partial_v\tau_f)\,\delta v, \quad
        S = E + \partial\tau_f/\partial\tau_l

    Args:
        model: The rigid-body dynamics; friction and armature are those of its robot.
        q: Joint positions, shape (n,), rad or m.
        v: Joint velocities, shape (n,), rad/s or m/s.
        a: Joint accelerations, shape (n,), rad/s^2 or m/s^2.

    Returns:
        State space with the motor efforts as input, see :class:`StateSpace`.

    Validity: at rest, Coulomb friction has the slope of the smooth sign; a joint in stiction has
    no linearization.
    """
    model.robot.require_direct_drives('friction')
    q, v, a = model.vectors(q=q, v=v, a=a)
    terms, load = JointTerms.of(model.robot), model.inverse_dynamics(q, v, a)
    one, by_v = np.eye(len(q)), jacobian(lambda x: terms.friction(x, load), v)
    S = one + jacobian(lambda x: terms.friction(v.astype(x.dtype), x), load)
    dq, dv, M = model.derivatives(q, v, a)
    right = np.hstack([-S @ dq, -S @ dv - by_v, one])
    return state_space(np.linalg.solve(S @ M + np.diag(terms.armature), right))


def largest_gravity_forces(tree: Robot) -> Array:
    """Return the largest gravity effort of each drive over 500 positions within the limits.

    Of loops whose rates change: over those of 100 to which they close all the way.

    Returns:
        New array, shape (n,), N m or N: a lower bound of the true maximum, close to it for arms.
    """
    random, model = np.random.default_rng(0), make_formulation('newton_euler', tree)
    largest = rest = np.zeros(tree.n)
    samples = _GRAVITY_SAMPLES if tree.has_constant_rates else _LOOP_SAMPLES
    for q in tree.random_positions(random, samples):
        largest = np.maximum(largest, np.abs(model.inverse_dynamics(q, rest, rest)))
    return largest


def joint_inertia(tree: Robot, home: Array) -> Array:
    """Return the diagonal of the mass matrix plus armature at a position, (n,), kg m^2 or kg."""
    return np.diag(inertia_matrix(tree, home)).copy()


def inertia_matrix(tree: Robot, q: Array) -> Array:
    """Return the mass matrix plus armature at a position, new array of shape (n, n)."""
    require_robot(tree)
    return _inertia_matrix(tree, array('q', q, (tree.n,)).tobytes()).copy()


@lru_cache(maxsize=8)  # several parts of a controller need the same result
def _inertia_matrix(tree: Robot, q: bytes) -> Array:
    model = make_formulation('newton_euler', tree)
    return model.mass_matrix(np.frombuffer(q)) + np.diag(tree.armature)
