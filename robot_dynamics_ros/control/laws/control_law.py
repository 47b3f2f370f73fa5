# SPDX-License-Identifier: Apache-2.0
r"""The contract of a control law, and the reference it follows.

The state for which an effort is computed that a plant holds for a whole period.

An effort computed for the state at the *start* of a period h, and held, is on average half a
period late; the error is proportional to h. With the acceleration a commanded last:

``zero_order``
    The effort acts in the middle of the period on average, so it is computed for the state
    :math:`q+\tfrac h2\dot q+\tfrac{h^2}8a,\ \dot q+\tfrac h2a` at the time :math:`t+\tfrac h2`.
``semi_implicit``
    The plant steps :math:`\dot q_{k+1}=\dot q_k+ha_k,\ q_{k+1}=q_k+h\dot q_{k+1}` (MuJoCo, DART,
    most game engines): its velocity is that of half a period ago. The program is evaluated for
    :math:`\dot q+\tfrac h2a`, the dynamics for the velocity that the plant uses.
``continuous``
    The state as it is.

What is left in the first two cases is proportional to :math:`h^2`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from robot_dynamics_ros.errors import UnknownNameError
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.parameters import Parameter, checked, defaults, require_known
from robot_dynamics_ros.spatial.scalar import Array


class Reference:
    """Where the joints shall be now: preallocated arrays that trajectories write into.

    Attributes:
        rows: The three below, one after the other, shape (3, n).
        position: Shape (n,), rad or m.
        velocity: Shape (n,), rad/s or m/s.
        acceleration: Shape (n,), rad/s^2 or m/s^2, to hold during the coming period.
    """

    __slots__ = ('acceleration', 'position', 'rows', 'velocity')

    def __init__(self, n: int) -> None:
        self.rows = np.zeros((3, n))
        self.position, self.velocity, self.acceleration = self.rows


class ExternalEffort:
    """What the world does to the joints, for laws that answer it.

    Attributes:
        effort: Shape (n,), N m or N; 0 where nothing is known.
        measured: Whether a sensor tells it; else it is observed.
        known: Whether anything does.
    """

    __slots__ = ('effort', 'known', 'measured')

    def __init__(self, n: int) -> None:
        self.effort = np.zeros(n)
        self.measured = self.known = False


class ConstraintSnapshot(NamedTuple):
    r"""What there is to see of constraints in the last tick; new arrays.

    Attributes:
        rows: Name of each row of f.
        f: Constraint value, shape (m,), m or rad.
        f_dot: Its rate, shape (m,).
        multipliers: :math:`D^{-1}u`, shape (m,): the reactions (2.19) by which ideal constraints
            would do what the program asks; N where a row is in metres, N m where it is in rad.
        sigma_min: Smallest singular value of the constraint Jacobian.
        condition: Largest by smallest singular value.
        damped: Whether the inverse was damped.
        scale: Part of the commanded acceleration that the effort limits let through.
    """

    rows: tuple[str, ...]
    f: Array
    f_dot: Array
    multipliers: Array
    sigma_min: float
    condition: float
    damped: bool
    scale: float


class ControlLaw(ABC):
    """Computes efforts from a measured state and a reference; knows neither ROS nor limits.

    ``effort`` allocates nothing. The safe shell (limits, ramp, watchdog) is around it, not in it.

    A law is made with a robot, compiled dynamics of it (or None) and values of its parameters; its
    constructor ends with :meth:`set_parameters`. One that lives in another package is found by the
    entry-point group ``robot_dynamics_ros.laws``.

    Attributes:
        tree: The robot as the law shall believe it is, payload included.
        external: What the world does to the joints; kept up to date where ``answers_force``.
        parameters: The values in use by name, lists with one entry for all joints or n.

    Args:
        tree: As above.
    """

    name: ClassVar[str]
    #: What may be set. ``period`` and ``discretization`` are set by the loop that runs the law;
    #: a name that another law declares too must be declared alike.
    declared: ClassVar[tuple[Parameter, ...]] = ()
    #: Whether it gives way to a force, so that one that is added moves the arm.
    yields: ClassVar[bool] = False
    #: Whether it acts only while an enabling switch is pressed.
    needs_enabling: ClassVar[bool] = False
    #: What an effort that is added to the law's counts by; not 1 where the mass is shaped.
    force_gain: float = 1.0
    #: Names of those that need another law to be made when they change.
    structural: ClassVar[frozenset[str]] = frozenset()

    @property
    def follows_reference(self) -> bool:
        """Whether the joint reference matters to this law."""
        return True

    @property
    def answers_force(self) -> bool:
        """Whether external efforts matter to this law."""
        return False

    def __init__(self, tree: RobotTree) -> None:
        self.tree, self.external = tree, ExternalEffort(tree.n)
        self.parameters: dict[str, Any] = defaults(self.declared)

    @abstractmethod
    def effort(self, t: float, q: Array, v: Array, reference: Reference, out: Array) -> None:
        """Write the efforts for the coming period.

        Args:
            t: Time of the state on the program's clock, s.
            q: Measured positions, shape (n,), rad or m.
            v: Measured velocities, shape (n,), rad/s or m/s.
            reference: The joint reference of this instant; a law with its own program ignores it.
            out: Written, shape (n,), N m or N.
        """

    @abstractmethod
    def decompose(self, t: float, q: Array, v: Array, reference: Reference) -> dict[str, Array]:
        """Return the efforts by origin (inertia, coriolis, gravity, friction, feedback, ...).

        They add up to what ``effort`` writes for the same arguments. Allocates; not for the tick.
        """

    def reset(self, t: float, q: Array, v: Array) -> None:  # noqa: B027
        """Start, or start anew, from a measured state at time t; stateless laws do nothing."""

    def set_parameters(self, values: Mapping[str, Any]) -> None:
        """Change parameters such as gains between two ticks.

        Raises:
            UnknownNameError: The law has no such parameter, or a parameter no such value.
            ParameterError: A value is refused; nothing has changed then.
        """
        require_known(self.declared, values, f'parameter of law {self.name!r}')
        new = checked(self.declared, {**self.parameters, **values}, self.tree.n)
        self.configure(new)
        self.parameters = new

    def configure(self, parameters: Mapping[str, Any]) -> None:  # noqa: B027
        """Take over parameters whose types and ranges are right.

        Raises:
            ParameterError: They do not go together; nothing has changed then.
        """

    @classmethod
    def check(cls, tree: RobotTree, values: Mapping[str, Any]) -> None:
        """Refuse values that no law of this kind could be made with, whether it runs or not.

        Args:
            tree: The robot.
            values: Parameters by name; of other names than ``declared`` nothing is said.

        Raises:
            RobotDynamicsError: A value is refused.
        """
        checked(cls.declared, values, tree.n)

    # What there is to see -----------------------------------------------------------------------

    def constraints(self) -> ConstraintSnapshot | None:
        """Return what there is to see of constraints; None if the law holds none. Allocates."""
        return None

    def status(self) -> dict[str, str]:
        """Return what diagnostics say of the law, a few words by name. Allocates."""
        return {}

    def remarks(self) -> tuple[str, ...]:
        """Return what is legal in the law's parameters but may surprise, one sentence each."""
        return ()


DISCRETIZATIONS = ('continuous', 'semi_implicit', 'zero_order')


class LookAhead:
    """Predicts states; allocates nothing.

    Attributes:
        time: How far the program's time is ahead of the state's, s.
        lead: How far the velocity is ahead of the measured one, s.
        end: Time from the velocity that the dynamics are computed with to the one at which the
            plant applies its friction, s.
        q: Positions at the instant looked at, shape (n,), rad or m; written by :meth:`see`.
        v: Velocities, likewise.

    Args:
        n: Number of joints.
        discretization: One of ``DISCRETIZATIONS``.
        period: Time between two commands, s.

    Raises:
        UnknownNameError: There is no such discretization.
    """

    def __init__(self, n: int, discretization: str, period: float) -> None:
        if discretization not in DISCRETIZATIONS:
            raise UnknownNameError('discretization', discretization, DISCRETIZATIONS)
        self.time = 0.5 * period if discretization == 'zero_order' else 0.0
        self.lead = 0.0 if discretization == 'continuous' else 0.5 * period
        self.end = period if discretization == 'semi_implicit' else 0.0
        self.q = np.zeros(n)
        self.v = np.zeros(n)

    def see(self, q: Array, v: Array, a: Array) -> None:
        """Write the state at the instant looked at, from one now and its acceleration.

        Args:
            q: Positions, shape (n,), rad or m.
            v: Velocities, shape (n,), rad/s or m/s.
            a: Accelerations, shape (n,), rad/s^2 or m/s^2.
        """
        time, lead = self.time, self.lead
        state = zip(q.tolist(), v.tolist(), a.tolist(), strict=True)
        for i, (q_i, v_i, a_i) in enumerate(state):
            self.q[i] = q_i + time * (v_i + 0.5 * time * a_i)
            self.v[i] = v_i + lead * a_i
