# SPDX-License-Identifier: Apache-2.0
r"""Base class of control laws, and prediction of states.

A plant holds an effort for a whole period h. If the effort is computed for the state at the
*start* of the period, it is late by h/2 on average, and the error is proportional to h. It is
therefore computed for a predicted state, with the last commanded acceleration a:

``zero_order``
    The effort acts in the middle of the period on average, so it is computed for the state
    :math:`q+\tfrac h2\dot q+\tfrac{h^2}8a,\ \dot q+\tfrac h2a` at the time :math:`t+\tfrac h2`.
``semi_implicit``
    The plant steps :math:`\dot q_{k+1}=\dot q_k+ha_k,\ q_{k+1}=q_k+h\dot q_{k+1}` (MuJoCo, DART,
    most game engines): its velocity lags by half a period. The program is evaluated for
    :math:`\dot q+\tfrac h2a`, the dynamics for the velocity that the plant uses.
``continuous``
    The measured state is used.

The remaining error of the first two is proportional to :math:`h^2`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.dynamics.sampled_loop import FeedbackLoop, Sampling
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.parameters import Parameter, Values, checked, defaults, require_known
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import Kernel, KernelSet, compile_kernel, effort_of

#: Efforts by the name of their part, shape (n,) each, N m or N.
Parts = dict[str, Array]
_LEAST_INERTIA = 1e-12  # kg m^2 or kg, below which it is rounding


class ExternalEffort:
    """External effort on the joints, for laws that use it.

    Attributes:
        effort: Shape (n,), N m or N; 0 if unknown.
        measured: Whether it comes from a force-torque sensor; else from the observer.
        known: Whether it is measured or observed.
        stepped: Whether its value may have stepped or its source changed, see ``has_stepped``.
        commanded: Efforts of a wrench that the arm shall exert, which compliant laws add, shape
            (n,), N m or N.
    """

    def __init__(self, n: int) -> None:
        self.effort, self.commanded = np.zeros((2, n))
        self.measured = self.known = self.stepped = self._observed = False

    def step(self) -> None:
        """Note that the effort may change by a step, as with each measurement that arrives."""
        self.stepped = True

    def has_stepped(self) -> bool:
        """Return whether its value may have stepped or its source changed since last asked."""
        stepped, self.stepped = self.stepped, False
        return stepped

    def sense(self, measured: bool) -> None:
        """Note whether a sensor measures the effort, which is written to ``effort``."""
        self.stepped |= measured != self.measured
        self.measured, self.known = measured, self.known or measured

    def observe(self, effort: Array, known: bool) -> None:
        """Store observed efforts, shape (n,), N m or N, unless a sensor measures the wrench."""
        observed = known and not self.measured
        self.stepped |= observed != self._observed
        self._observed = observed
        if not self.measured:
            self.known = known
            self.effort[:] = effort if known else 0.0


class ConstraintSnapshot(NamedTuple):
    r"""State of the constraints in the last tick; new arrays.

    Attributes:
        rows: Name of each row of f.
        f: Constraint value, shape (m,), m or rad.
        f_dot: Its rate, shape (m,), m/s or rad/s.
        multipliers: :math:`D^{-1}u`, shape (m,): the reactions (2.19) of ideal constraints with
            the same motion; N where a row is in metres, N m where it is in rad.
        sigma_min: Smallest singular value of the constraint Jacobian.
        condition: Condition number of the constraint Jacobian.
        damped: Whether the inverse was damped.
        scale: Fraction of the commanded acceleration that the effort limits permit.
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
    """Base class of control laws: computes efforts from a measured state and a reference.

    A law is independent of ROS. ``effort`` allocates nothing; limits, ramp and timeouts are
    applied around the law, not in it.

    A law is constructed with a robot, its compiled dynamics (or None) and parameter values; the
    constructor ends with :meth:`set_parameters`. Laws of other packages are found by the
    entry-point group ``robot_dynamics_ros.laws``.

    Attributes:
        tree: The model of the robot, payload included.
        external: External effort on the joints, see ``use_external``.
        parameters: The present values by name, lists with one entry for all joints or n.

    Args:
        tree: The model of the robot, payload included.
    """

    name: ClassVar[str]
    #: Parameters of the law. ``period`` and ``discretization`` are set by the loop; a parameter
    #: that another law declares too must have the same declaration.
    declared: ClassVar[tuple[Parameter, ...]] = ()
    #: Whether the law is compliant; it then adds ``external.commanded`` to its efforts.
    yields: ClassVar[bool] = False
    #: Whether it acts only while an enabling switch is pressed.
    needs_enabling: ClassVar[bool] = False
    #: Whether it takes over at once, at 1/5 of the limits per ms, instead of by a transfer.
    urgent: ClassVar[bool] = False
    #: Whether it may act while states are missing: at the last position, with zero velocity.
    acts_on_old_states: ClassVar[bool] = False
    #: Whether its efforts depend on past states, so that it is kept when parameters change.
    has_memory: ClassVar[bool] = True
    #: Name of what remains of the efforts without their ``parts``.
    remainder: ClassVar[str] = 'feedback'
    #: Whether the law uses the joint reference.
    follows_reference: bool = True
    #: Indices of joints without a drive, which closed loops bear.
    passive: tuple[int, ...] = ()
    #: What the law limits since it began to act, one sentence; empty: nothing.
    notice: str = ''
    #: Whether the law still moves the arm to where it begins.
    leading: bool = False
    #: Whether the law uses external efforts.
    answers_force: bool = False
    #: Names of parameters whose change requires a new law.
    structural: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, tree: Robot) -> None:
        tree.require_direct_drives(f'the law {self.name}')
        self.tree, self.external = tree, ExternalEffort(tree.n)
        self.parameters: dict[str, Any] = defaults(self.declared)

    def use_external(self, external: ExternalEffort) -> None:
        """Use an external effort, which the loop updates if ``answers_force``."""
        self.external = external

    def keep_structural(self, values: Values) -> None:
        """Keep the values of structural parameters, by which ``resembles`` tells laws apart."""
        self.parameters |= {name: x for name, x in values.items() if name in self.structural}

    @abstractmethod
    def effort(self, t: float, q: Array, v: Array, reference: Reference, out: Array) -> None:
        """Compute the efforts for the coming period.

        Args:
            t: Time of the state on the loop's clock, s.
            q: Measured positions, shape (n,), rad or m.
            v: Measured velocities, shape (n,), rad/s or m/s.
            reference: The present joint reference; ignored unless ``follows_reference``.
            out: Receives the efforts, shape (n,), N m or N.
        """

    def parts(self, q: Array, v: Array, reference: Reference) -> Parts:
        """Return parts of the efforts of the last tick by name, each shape (n,), N m or N.

        Called with the arguments of that tick; changes no state. Allocates. See ``decompose``.
        """
        return {}

    def decompose(self, q: Array, v: Array, reference: Reference, effort: Array) -> Parts:
        """Return the efforts of the last tick by part: ``parts``, and the rest as ``remainder``.

        Call it with the arguments and the result of that tick. Allocates, so not for the tick.
        """
        parts = self.parts(q, v, reference)
        return {**parts, self.remainder: effort - sum(parts.values(), np.zeros(len(effort)))}

    def reset(self, t: float, q: Array, v: Array) -> None:  # noqa: B027
        """Start or restart at a measured state at time t, s; stateless laws do nothing."""

    def adapt(self, q: Array) -> None:  # noqa: B027
        """Adapt to another posture q or load, between two ticks; most laws do nothing."""

    def rehearse(self, t: float, q: Array, v: Array) -> None:  # noqa: B027
        """Prepare a reset that follows soon at such a state, see ``reset``; stateless laws do not.

        Called in another thread than that of the ticks, before the law acts.
        """

    def resembles(self, other: ControlLaw) -> bool:
        """Return whether another law differs only by parameters that may change."""
        return type(self) is type(other) and all(
            self.parameters[name] == other.parameters[name] for name in self.structural
        )

    def set_parameters(self, values: Values) -> None:
        """Change parameters such as gains between two ticks.

        Raises:
            UnknownNameError: The law has no such parameter, or a parameter no such value.
            ParameterError: A value is rejected; nothing has changed.
        """
        require_known(self.declared, values, f'parameter of law {self.name!r}')
        old = self.parameters
        self.apply(checked(self.declared, {**old, **values}, self.tree.n))
        try:
            self.require_stable(self.tree.middle)
        except ParameterError:
            self.apply(old)
            raise

    def apply(self, parameters: dict[str, Any]) -> None:
        """Apply all parameters, which another law of the same robot has checked."""
        self.configure(parameters)
        self.parameters = parameters

    def configure(self, parameters: Values) -> None:  # noqa: B027
        """Apply parameters whose types and ranges have been checked.

        Raises:
            ParameterError: They are incompatible; nothing has changed.
        """

    @classmethod
    def check(cls, tree: Robot, values: Values) -> None:
        """Check parameter values without constructing the law.

        Args:
            tree: The robot.
            values: Parameters by name; names that are not in ``declared`` are ignored.

        Raises:
            RobotDynamicsError: A value is rejected.
        """
        checked(cls.declared, values, tree.n)

    # Stability ----------------------------------------------------------------------------------

    def feedback_loops(self, q: Array) -> Iterable[FeedbackLoop]:
        """Return the law's feedback, linearized at rest at positions q; none by default.

        Allocates, and may take milliseconds.
        """
        return ()

    def require_stable(self, q: Array, sampling: Sampling | None = None) -> None:
        """Check that all feedback loops are stable.

        Args:
            q: Positions, shape (n,), rad or m.
            sampling: Sampling of the loop. None: by the law's parameters; a law that declares no
                ``period`` is then not checked, but by the loop before it acts.

        Raises:
            ParameterError: One is unstable; names its parameter and what would be stable.
        """
        sampling = sampling or Sampling.of(self.parameters)
        for loop in self.feedback_loops(q):
            if not loop.is_stable(sampling):
                raise self._unstable(loop, sampling)

    def _unstable(self, loop: FeedbackLoop, sampling: Sampling) -> ParameterError:
        part, value = loop.largest(sampling), self.parameters[loop.parameter]
        if loop.environment is not None:
            most = loop.bearable_environment(sampling) * loop.environment.max()
            remedy = f'give a stiffness of at most {most:.3g} N/m'
        elif isinstance(value, str):
            remedy = f'multiply its gains by at most {part:.3g}'
        elif part == 0.0:
            remedy = 'no smaller value is stable either: give damping'
        else:
            scaled = np.atleast_1d(part * np.array(value, dtype=float))
            remedy = f'give at most {", ".join(f"{x:.3g}" for x in scaled)}'
        text = f'is unstable at {sampling}; {remedy}'
        return ParameterError(loop.parameter, value, f'{loop.subject} {text}'.strip())

    # Diagnostics --------------------------------------------------------------------------------

    def constraints(self) -> ConstraintSnapshot | None:
        """Return the state of the constraints; None if the law has none. Allocates."""
        return None

    @property
    def pressing(self) -> bool:
        """Whether the law presses on a surface."""
        return False

    def status(self) -> dict[str, str]:
        """Return the law's diagnostics, short texts by name. Allocates."""
        return {}

    def start(self, origin: float = 0.0) -> str:
        """Return how the law has started; empty if in the only way that it can.

        Args:
            origin: Timestamp of the states at the time 0 of the loop, s: texts name timestamps.
        """
        return ''

    def remarks(self) -> tuple[str, ...]:
        """Return remarks on valid but unusual parameters, one sentence each."""
        return ()


class ModelLaw(ControlLaw):
    """Base class of laws that use the compiled dynamics of the robot.

    Attributes:
        kernels: The compiled dynamics.

    Args:
        tree: The model of the robot, payload included.
        kernels: With ``outputs``; compiled from the tree if None.
        parameters: By name, see ``declared``.

    Raises:
        ParameterError: A parameter is rejected.
    """

    #: The compiled functions that the law needs.
    outputs: ClassVar[tuple[str, ...]]

    def __init__(self, tree: Robot, kernels: KernelSet | None = None, **parameters: Any) -> None:
        super().__init__(tree)
        self.kernels = kernels or compile_kernel(tree, outputs=self.outputs)
        self.keep_structural(parameters)
        self.build()
        self.set_parameters(parameters)

    def build(self) -> None:
        """Allocate and compile what the structural parameters determine."""

    def set_parameters(self, values: Values) -> None:
        """Change parameters except the structural ones; see :class:`ControlLaw`."""
        for name in self.structural & values.keys():
            if values[name] != self.parameters[name]:
                raise ParameterError(name, values[name], 'requires a new law')
        super().set_parameters(values)


def effort_terms(
    inverse_dynamics: Kernel,
    tree: Robot,
    q: Array,
    v: Array,
    accelerations: Mapping[Any, Array],
) -> dict[Any, Array]:
    """Return the efforts of gravity, of the velocities, and of accelerations; allocates.

    Args:
        inverse_dynamics: Kernel of the robot.
        tree: The robot, for drive inertia.
        q: Positions, shape (n,), rad or m.
        v: Velocities, shape (n,), rad/s or m/s.
        accelerations: Terms of the acceleration by name, each of shape (n,).

    Returns:
        Terms ``gravity``, ``coriolis`` and those of the accelerations, each shape (n,), N m or N.
    """
    still = np.zeros(len(q))
    gravity = effort_of(inverse_dynamics, q, still, still)
    moving = effort_of(inverse_dynamics, q, v, still)
    terms = {'gravity': gravity, 'coriolis': moving - gravity}
    for name, a in accelerations.items():
        effort = effort_of(inverse_dynamics, q, still, a)
        terms[name] = effort - gravity + tree.armature * a
    return terms


def inertia_of(inverse_dynamics: Kernel, tree: Robot, q: Array) -> Array:
    """Return the mass matrix plus armature of a kernel's robot, new array of shape (n, n).

    Its diagonal is positive, also where a point mass is on the axis of its joint.
    """
    units = dict(enumerate(np.eye(tree.n)))
    columns = effort_terms(inverse_dynamics, tree, q, q, units)
    M = np.array([columns[j] for j in units])
    np.fill_diagonal(M, np.maximum(np.diag(M), _LEAST_INERTIA))
    return M


class LookAhead:
    """Times of the prediction of states.

    Attributes:
        time: Prediction time of positions and of the program's time, s.
        lead: Prediction time of velocities, s.
        end: Time from the velocity used in the dynamics to the one at which the plant applies its
            friction, s.

    Args:
        discretization: One of ``DISCRETIZATIONS``.
        period: Time between two commands, s.
    """

    def __init__(self, discretization: str, period: float) -> None:
        self.time = 0.5 * period if discretization == 'zero_order' else 0.0
        self.lead = 0.0 if discretization == 'continuous' else 0.5 * period
        self.end = period if discretization == 'semi_implicit' else 0.0
