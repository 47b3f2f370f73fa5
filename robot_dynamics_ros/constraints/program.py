# SPDX-License-Identifier: Apache-2.0
r"""A program: constraints with gains, a null-space task and the treatment of singularities.

The null-space task damps the motion that the constraints leave free, pulls the joints towards a
posture and pushes them away from their limits:

.. math:: v = -K_d\dot q - K_p(q - q_{ref}) + k\,\big(\langle\tfrac{\delta-(q-q_-)}{\delta}
    \rangle_+^2 - \langle\tfrac{\delta-(q_+-q)}{\delta}\rangle_+^2\big),
    \qquad \langle x\rangle_+ = \max(x, 0)

Without such a term the null-space velocity persists and the joints drift into their limits while
f decays as designed (erratum C10).

Source: constraint-stabilization, section 3.1 (m < n, the vector v).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.constraints.constraint import Stack
from robot_dynamics_ros.constraints.contact import Contact
from robot_dynamics_ros.constraints.damped_inverse import Singularity, TaskInverse
from robot_dynamics_ros.constraints.error_dynamics import proved_stable
from robot_dynamics_ros.constraints.stabilization import INVERSES
from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.spatial.scalar import Array, positive_part
from robot_dynamics_ros.spatial.validation import array, require_positive, spread_numbers


class Start(NamedTuple):
    """Expected configuration of the arm at the start of the program.

    Attributes:
        position: Joint positions, shape (n,), rad or m.
        tolerance: Largest accepted entry of f there, m or rad.
    """

    position: Array
    tolerance: float = 1e-3


@dataclass(frozen=True, eq=False)
class Program:
    r"""Constraints :math:`f(q, t) = 0` with all parameters of the control law.

    Attributes:
        name: The program's name.
        stack: The constraints, m rows.
        G0: Gain :math:`\Gamma_0`, shape (m, m), 1/s^2.
        G1: Gain :math:`\Gamma_1`, shape (m, m), 1/s.
        weights: Row weights for m > n, shape (m,).
        inverse: Joint metric of the inverse: 'euclidean' or 'inertia'.
        metric: Diagonal joint metric, shape (n,), that replaces the one of ``inverse``.
        null_space: Task for the motion that f leaves free; None for no task.
        singularity: Treatment of near rank loss.
        blend: Time over which the target is blended from the initial error to zero, s; if 0, the
            error decays by the gains.
        passive: Indices of joints without a drive. A closed loop of the mechanism moves them; its
            rows of f are ``mechanical``.
        mechanical: Indices of the rows enforced by the mechanism itself, as many as there are
            passive joints.
        contacts: Indices of the force-controlled rows of f, each with its parameters.
        start: Expected start of the arm, or None.
        min_singular_value: Smallest accepted singular value along the path.
        robot: Name of the robot that it is written for; empty if it names none.
        description: Human-readable description.
        remarks: Warnings about valid but possibly unintended settings, one sentence each.
    """

    name: str
    stack: Stack
    G0: Array
    G1: Array
    weights: Array
    inverse: str = 'euclidean'
    metric: Array | None = None
    null_space: NullSpaceTask | None = None
    singularity: Singularity = Singularity(0.01)
    blend: float = 0.0
    passive: tuple[int, ...] = ()
    mechanical: tuple[int, ...] = ()
    contacts: tuple[tuple[int, Contact], ...] = ()
    start: Start | None = None
    min_singular_value: float = 1e-3
    robot: str = ''
    description: str = ''
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        m = self.m
        for name, shape in (('G0', (m, m)), ('G1', (m, m)), ('weights', (m,))):
            object.__setattr__(self, name, array(name, getattr(self, name), shape))
        if self.metric is not None:
            metric = array('metric', self.metric, (self.n,))
            require_positive(metric=metric.min())
            object.__setattr__(self, 'metric', metric)
        if self.inverse not in INVERSES:
            raise ParameterError('inverse', self.inverse, f'must be one of {", ".join(INVERSES)}')
        if len(self.passive) != len(self.mechanical):
            raise ParameterError(
                'passive',
                [self.tree.joint_names[i] for i in self.passive],
                f'needs as many rows of mechanical constraints; there are {len(self.mechanical)}',
            )
        if not 0.0 <= self.blend < np.inf:
            raise ParameterError('blend', self.blend, 'must be finite and not negative')

    @property
    def tree(self) -> Robot:
        """The robot."""
        return self.stack.tree

    @property
    def m(self) -> int:
        """Number of rows of f."""
        return self.stack.m

    @property
    def n(self) -> int:
        """Number of joints."""
        return self.stack.tree.n

    @property
    def horizon(self) -> float:
        """Time that covers every signal once, s."""
        return self.stack.horizon

    @property
    def end(self) -> float:
        """End of all motion on the program's clock, s; infinite if it never ends or begins."""
        return max((t for x in self.stack.signals for t in x.changes), default=np.inf)

    @property
    def proved(self) -> bool:
        r"""Whether the designed decay is proved in general, not only checked on the path.

        It is for :math:`m\le n` and full rank, and for m > n if the weighted gains are symmetric
        positive definite.
        """
        return self.m <= self.n or proved_stable(self.G0, self.G1, self.weights)

    @property
    def euclidean(self) -> bool:
        """Whether the joint metric is the identity."""
        return self.metric is None and self.inverse == 'euclidean'

    def joint_metric(self, q: Array) -> Array | None:
        """Return the joint metric at q, shape (n, n), numbers or symbols; None: the identity.

        It decides which of the many accelerations that satisfy m < n conditions is taken.
        """
        if self.euclidean:
            return None
        if self.metric is not None:
            return np.diag(self.metric)
        weightless = self.tree.with_gravity((0.0, 0.0, 0.0))
        M = make_formulation('newton_euler', weightless).mass_matrix(q)
        return M + np.diag(self.tree.armature)

    @property
    def row_weights(self) -> Array | None:
        """The row weights; None for m <= n, where all rows are kept and none has an effect."""
        return self.weights if self.m > self.n else None

    def inverse_of(self, Gamma: Array, q: Array) -> TaskInverse:
        """Return the inverse of the law for a Jacobian, shape (m, n), at q; numbers or symbols."""
        return TaskInverse(Gamma, self.joint_metric(q), self.row_weights, self.singularity)

    def settling_velocity(self, q: Array, v: Array) -> Array:
        """Return the velocity at which the free joints settle, new array of shape (n,)."""
        return v if self.null_space is None else self.null_space.settling_velocity(q, v)

    def free_acceleration(self, q: Array, v: Array) -> Array:
        """Return v of (3.1), new array of shape (n,); zero without a null-space task."""
        if self.null_space is None:
            return np.zeros(self.n)
        return self.null_space.acceleration(q, v)


class NullSpaceTask(NamedTuple):
    r"""Free acceleration of the joints, which the control law projects into the null space.

    Attributes:
        damping: :math:`K_d`, shape (n,), 1/s.
        stiffness: :math:`K_p`, shape (n,), 1/s^2.
        posture: :math:`q_{ref}`, shape (n,), rad or m.
        limit_gain: k, the repulsive acceleration at a limit, shape (n,), rad/s^2 or m/s^2.
        limit_margin: Width :math:`\delta` of the repulsion zone, shape (n,), rad or m, positive.
        lower: Lower joint limits :math:`q_-`, shape (n,), rad or m; -1e6 for an unlimited joint.
        upper: Upper joint limits :math:`q_+`, shape (n,), rad or m; 1e6 for an unlimited joint.
    """

    damping: Array
    stiffness: Array
    posture: Array
    limit_gain: Array
    limit_margin: Array
    lower: Array
    upper: Array

    @classmethod
    def of(
        cls,
        tree: Robot,
        damping: Array | float = 0.0,
        stiffness: Array | float = 0.0,
        posture: Array | None = None,
        limit_gain: Array | float = 0.0,
        limit_margin: Array | float = 0.1,
    ) -> NullSpaceTask:
        """Return the null-space task of a robot; zero acceleration by default.

        Args:
            tree: The robot.
            damping: Per joint or one for all, 1/s.
            stiffness: Per joint or one for all, 1/s^2.
            posture: Shape (n,), rad or m; the middle of the limits if None.
            limit_gain: Per joint or one for all, rad/s^2 or m/s^2; 0 for unlimited joints.
            limit_margin: Width of the repulsion zone, per joint or one for all, a fraction of the
                joint range, at most 0.5.

        Raises:
            ShapeError, NonFiniteError, ParameterError: As of :func:`spread_numbers`; a gain is
                negative, or the margin not positive.
        """

        def gains(name: str, value: Any) -> Array:
            numbers = spread_numbers(name, value, tree.n)
            if numbers.min() < 0.0:
                raise ParameterError(name, value, 'must not be negative')
            return numbers

        margins = spread_numbers('limit_margin', limit_margin, tree.n)
        require_positive(limit_margin=margins.min())
        limited = np.isfinite(tree.reference_lower) & np.isfinite(tree.reference_upper)
        lower = np.where(limited, tree.reference_lower, -1e6)
        upper = np.where(limited, tree.reference_upper, 1e6)
        return cls(
            gains('damping', damping),
            gains('stiffness', stiffness),
            tree.middle if posture is None else array('posture', posture, (tree.n,)),
            np.where(limited, gains('limit_gain', limit_gain), 0.0),
            np.where(limited, margins * (upper - lower), 1.0),
            lower,
            upper,
        )

    @property
    def empty(self) -> bool:
        """Whether the free acceleration is zero everywhere."""
        return not (np.any(self.damping) or np.any(self.stiffness) or np.any(self.limit_gain))

    def acceleration(self, q: Array, v: Array) -> Array:
        """Return the free acceleration, new array of shape (n,); numbers or symbols."""
        return -self.damping * v + self.pull(q)

    def settling_velocity(self, q: Array, v: Array) -> Array:
        """Return the velocity at which pull and damping balance, new array of shape (n,).

        A joint without damping keeps its velocity v.
        """
        damped = self.damping > 0.0
        equilibrium = self.pull(q) / np.where(damped, self.damping, 1.0)
        return np.where(damped, equilibrium, v)

    def settling_time(self, q: Array) -> float:
        """Return the time constant of the fastest damped joint at q, s; infinite if none."""
        below, above = self._depths(q)
        rate = self.stiffness + 2.0 * self.limit_gain * (below + above) / self.limit_margin
        active = (self.damping > 0.0) & (rate > 0.0)
        return float((self.damping[active] / rate[active]).min()) if active.any() else np.inf

    def pull(self, q: Array) -> Array:
        """Return the position-dependent part, new array of shape (n,)."""
        below, above = self._depths(q)
        push = below * below - above * above
        return self.limit_gain * push - self.stiffness * (q - self.posture)

    def _depths(self, q: Array) -> tuple[Array, Array]:
        """Return how deep q is in the lower and in the upper zone, shape (n,), 1 at the limit."""
        ends = (self.lower - q) / self.limit_margin, (q - self.upper) / self.limit_margin
        below, above = (np.array([positive_part(1 + x) for x in end]) for end in ends)
        return below, above
