# SPDX-License-Identifier: Apache-2.0
"""The control loop without ROS: converts a measured state into an effort command."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from robot_dynamics_ros.control.drivers.driver_interface import DriverInterface
from robot_dynamics_ros.control.drivers.filtered_derivative import FilteredDerivative
from robot_dynamics_ros.control.force_sensor import ForceSensor
from robot_dynamics_ros.control.laws.control_law import ControlLaw, Parts, inertia_of
from robot_dynamics_ros.control.laws.stop_laws import (
    STOP_ACTIONS,
    Brake,
    Gravity,
    StopLaw,
    StopSettings,
)
from robot_dynamics_ros.control.payload import PAYLOAD_TRANSITION_S, PayloadModel
from robot_dynamics_ros.control.safety.limits import EffortLimiter, JointLimitGuard
from robot_dynamics_ros.control.safety.shell import SafetyFilter
from robot_dynamics_ros.control.safety.state_validator import (
    EFFORT_FACTOR,
    MeasuredState,
    StateVerdict,
)
from robot_dynamics_ros.control.settings import LOOP, LoopSettings
from robot_dynamics_ros.control.target_wrench import TargetWrench
from robot_dynamics_ros.control.trajectories.following import SpeedLimit, speed_limit
from robot_dynamics_ros.control.trajectories.reference_generator import ReferenceGenerator
from robot_dynamics_ros.control.trajectories.trajectory import ReferenceSampler, Trajectory
from robot_dynamics_ros.control.transfer import STOP_SLEW, Transfer
from robot_dynamics_ros.model.payload import Payload
from robot_dynamics_ros.model.robot_tree import Robot
from robot_dynamics_ros.parameters import checked
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import KernelSet

_REST = 0.002  # share of the velocity limits below which an arm is at rest
#: Motion of a joint, rad or m, within which inertias count as unchanged.
_SAME_POSTURE = 0.02


class ControlLoop:
    """Reference, law, transfer, joint-limit guard and effort limiter of one robot.

    Exactly one law acts. Call ``observe`` for every state, ``start`` to begin control at the
    measured position, then ``tick`` for every state that is usable, and ``tick_without_state``
    while states are missing. ``switch`` lets another law act. The only clock is that of the
    states' timestamps, in ns.

    When a motion is aborted (``switch`` with ``brake``, a gap or a jump of the time), the brake
    acts first, while the reference moves to the measured position; then the law holds the arm
    there.

    Laws compute the total motor effort. If the driver compensates terms itself, these are
    subtracted at the end; effort and rate limits apply to the rest.

    Args:
        tree: The robot without its payload.
        kernels: Its dynamics; with a load, the kernels of the load.
        law: Control law built with the same kernels.
        load: Model of the payload.
        settings: Settings of the loop.
        driver: Interface to the driver: its compensation, joints that share motors; None: no
            profile.
        generator: Reference generator; a trajectory follower if None.

    Attributes:
        tree, kernels, load, driver, generator, settings: As given.
        law: The selected law.
        acting: The law that acts.
        stop_law: The stop action.
        transfer: Transfer from the former law.
        state: The last valid state.
        q, v: Its positions and velocities, shape (n,), rad or m and rad/s or m/s; read only.
        limiter: Limits of the command.
        wrench: Streamed wrench, whose efforts compliant laws add.
        force: External force on the arm, for laws that use it.
        reference: Joint reference of the last tick.
        effort: The last command, shape (n,), N m or N, finite and limited, without driver share.
        measured_effort: Last measured motor effort, shape (n,), N m or N; NaN if unknown.
        guard: Joint-limit guard.
    """

    stop_law: StopLaw
    _brake: Brake

    def __init__(
        self,
        tree: Robot,
        kernels: KernelSet,
        law: ControlLaw,
        load: PayloadModel,
        settings: LoopSettings,
        *,
        driver: DriverInterface | None = None,
        generator: ReferenceGenerator | None = None,
    ) -> None:
        self.tree, self.law, self.kernels, self.load = tree, law, kernels, load
        self.driver = driver or DriverInterface(None, tree)
        self.generator = generator or ReferenceGenerator(tree)
        self.reference = self.generator.reference
        cutoff, gap = settings.velocity_cutoff_hz, settings.state_timeout_s
        derivative = FilteredDerivative(tree.n, cutoff, gap) if cutoff else None
        self.state = MeasuredState(tree, derivative)
        # Read only: a law that changed them would mislead the guard.
        self.q, self.v = (np.broadcast_to(x, x.shape) for x in (self.state.q, self.state.v))
        self.effort, self._speeds = np.zeros(tree.n), tree.velocity_limits()
        self._gravity, self._bias, self._desired, self._zeros = np.zeros((4, tree.n))
        self._fitted, self._moved = np.zeros((2, tree.n))
        self._bearable = np.concatenate([tree.effort_limit, self.driver.drive_limit])
        self.measured_effort = np.full(tree.n, np.nan)
        self.force, self.wrench = ForceSensor(tree), TargetWrench()
        self.limiter = EffortLimiter(tree.effort_limit)
        self.transfer = Transfer(self.limiter)
        self.guard = JointLimitGuard(tree, np.eye(tree.n))  # fitted at the start
        states = self.q, self.v, self._gravity, self._bias
        efforts = self._desired, self.transfer.effort
        joined = self.driver.transmissions
        self._filter = SafetyFilter(states, efforts, self.limiter, self.guard, joined)
        self._acting_effort: Callable[[], Array | None] = lambda: None
        self._idle = Gravity(tree, kernels)  # from which control begins
        self.acting: ControlLaw = self._idle
        self._next: ControlLaw | None = None  # after the brake, or a stop action without states
        self._begun = True  # whether there was a command since the start
        self.change_settings(settings)

    # Settings -----------------------------------------------------------------------------------

    def change_settings(self, settings: LoopSettings) -> None:
        """Apply settings between two ticks.

        Raises:
            ParameterError, UnknownNameError: A setting is rejected; nothing has changed.
        """
        checked(LOOP, vars(settings), self.tree.n)
        previous = getattr(self, 'settings', None)
        if previous == settings:
            return
        self.settings = settings
        sampler = ReferenceSampler(self.tree.n, settings.discretization, settings.period)
        self.generator.configure(
            sampler,
            settings.start_tolerance,
            moving_end=settings.allow_nonzero_velocity_at_trajectory_end,
            integrates=settings.allow_integration_in_goal_trajectories,
            measured=self.q,
            speed_limit=self._speed_limit,
            on_transition=self.transfer.limit_rate,
        )
        scaled = settings.effort_scale * self.tree.effort_limit
        limits = np.minimum(scaled, self.driver.command_limit)
        self.limiter.configure(limits, settings.rates(self.tree.n))
        self._bearable[: self.tree.n] = limits
        if getattr(previous, 'stopping', None) != settings.stopping:
            self._make_stop_laws(settings)
        self.state.validator.configure(settings.state_timeout_s)
        self._fitted.fill(np.inf)  # to no posture: zero may be one that loops do not reach
        self.transfer.limit_rate()

    def _make_stop_laws(self, settings: LoopSettings) -> None:
        """Make the stop action and the brake; they replace those that act."""
        stopping = StopSettings(
            self._bearable,
            settings.stop_effort_share,
            settings.sampling,
            lambda: self._acting_effort(),
            self.driver.compensation,
            loads=self.driver.loads,
        )
        made = STOP_ACTIONS[settings.stop_action](self.tree, self.kernels, stopping)
        brake = Brake(self.tree, self.kernels, stopping)
        if hasattr(self, 'stop_law'):
            self.replace(self.stop_law, made)
            self.replace(self._brake, brake)
        self.stop_law, self._brake = made, brake

    def set_payload(self, payload: Payload | None) -> None:
        """Change the payload, without a step of the effort while the arm is controlled.

        Args:
            payload: The new payload; None: none.

        Raises:
            UnknownNameError: The payload's frame does not exist.
            ModelError: The payload is not physical.
        """
        running = not self.acting.acts_on_old_states
        self.load.change(payload, self.state.time, PAYLOAD_TRANSITION_S if running else 0.0)
        self.transfer.limit_rate()

    def adapt_guard(self) -> None:
        """Fit guard and law again once arm, load or settings changed; called after a tick."""
        np.subtract(self.q, self._fitted, out=self._moved)
        if max(map(abs, self._moved.tolist())) > _SAME_POSTURE or self.load.changing:
            self._fit_guard()
            self.acting.adapt(self.q)

    def _fit_guard(self) -> None:
        """Fit the guard to load and posture; it brakes with half of the permitted effort."""
        self._fitted[:] = self.q
        M = inertia_of(self.kernels.inverse_dynamics, self.tree, self.q)
        part, sampling = 0.5 * self.settings.effort_scale, self.settings.sampling
        # What the driver bears takes nothing of the command.
        bears = 'gravity' in self.driver.profile.compensated_by_driver
        limit = self.tree.effort_limit if bears else self.limiter.limits
        passive = self.law.passive
        self.guard.fit(self.tree, M, part, sampling, limit, passive)

    # Which law acts ------------------------------------------------------------------------------

    def switch(self, law: ControlLaw | None = None, *, brake: bool = False) -> None:
        """Let a law act from the present state on.

        The effort changes from that of the former law over ``activation_ramp_s``. The brake acts
        first if the law follows the reference and the former one does not: the reference restarts
        at the measured position. An arm that is being braked comes to rest first. The brake and
        urgent laws act at once, and abort trajectory and streamed wrench.

        Args:
            law: Control law built for the same robot; None: the one that acts, or will act once
                the arm is at rest.
            brake: Whether the arm is braked in any case.
        """
        law, former = law or self.present, self.acting
        follows = law.follows_reference and not (former.follows_reference or self.braking)
        if brake or follows:
            self._act(self._brake, following=law)
        elif self.braking and not law.urgent:
            self._next = law
        else:
            self._act(law, former)

    def replace(self, former: ControlLaw, law: ControlLaw, *, later: bool = False) -> None:
        """Let a law take the place of another one; it acts if and when that one would.

        Args:
            former: The other law.
            law: Built for the same robot; if both differ only by parameters and have a memory,
                its parameters are taken instead.
            later: Whether the other one, if it acts as a reaction, goes on until the next switch.
        """
        alike = law.resembles(former)
        if alike and former.has_memory:
            former.apply(law.parameters)
            self.transfer.limit_rate()
            return
        following = self._next
        if self.law is former:
            self.law = law
            self._fitted.fill(np.inf)
        if later and not alike:
            return
        if following is former:
            self._next = law
        elif self.acting is former:
            self.switch(law)
            self._next = self._next or following

    def _act(
        self,
        law: ControlLaw,
        former: ControlLaw | None = None,
        following: ControlLaw | None = None,
    ) -> None:
        """Let a law act, by transfer from the former one or at once, and then another one."""
        t = self.state.time
        if law.urgent:
            self.generator.begin_glide()
        if law.urgent or not law.yields:
            self.wrench.reset()
            self.force.external.commanded.fill(0.0)
        self.acting, self._next = law, following
        law.use_external(self.force.external)
        law.reset(t, self.q, self.v)
        self.transfer.start(t, self.settings.activation_ramp_s, former, law.urgent)

    @property
    def present(self) -> ControlLaw:
        """The law that acts, or will act once the arm is at rest."""
        return self._next or self.acting

    @property
    def braking(self) -> bool:
        """Whether the arm is being braked; False again once it is at rest."""
        return self.acting is self._brake

    @property
    def interrupted(self) -> bool:
        """Whether the stop action acts because states are missing; then the brake follows."""
        return self.acting is self.stop_law and self._next is not None

    def use_acting_effort(self, acting_effort: Callable[[], Array | None]) -> None:
        """Give the brake the motor plus external effort that acts until the next command does.

        Args:
            acting_effort: Returns it, shape (n,), N m or N; None: unknown.
        """
        self._acting_effort = acting_effort

    # States -------------------------------------------------------------------------------------

    def observe(self, stamp_ns: int, q: Array, v: Array) -> StateVerdict:
        """Validate and store a measured state.

        After a jump or a gap of the time, the loop restarts at the measured state; an arm that is
        too fast is braked.

        Args:
            stamp_ns: Timestamp of the state, ns.
            q: Positions, shape (n,), rad or m; may contain invalid values. Copied.
            v: Velocities, shape (n,), rad/s or m/s; may contain invalid values. Not used if
                velocities are derived from positions.

        Returns:
            The verdict; ``tick`` may be called if it is usable.
        """
        verdict = self.state.take(stamp_ns, q, v)
        restarted = verdict is StateVerdict.RESTARTED
        if restarted:
            self._pass_over_time()
        if restarted and not self._begun:
            self._begin()
        elif self.acting.acts_on_old_states:
            if restarted:
                self.acting.reset(self.state.time, self.q, self.v)
        elif restarted or (verdict is StateVerdict.TOO_FAST and not self.braking):
            self.switch(brake=True)
        return verdict

    def _pass_over_time(self) -> None:
        """Go on with load and reference as if no time had passed since the last tick."""
        self.load.restart(self.state.time)
        self.generator.restart(self.state.stamp_ns)
        self.force.begin()

    def observe_effort(self, effort: Array) -> None:
        """Store a measured motor effort, shape (n,), N m or N; implausible entries are unknown."""
        self.measured_effort[:] = effort
        self.measured_effort[np.abs(effort) > EFFORT_FACTOR * self.tree.effort_limit] = np.nan

    def start(self) -> None:
        """Start control: hold the last valid position, from gravity compensation to the law."""
        self.state.validator.allow_repeat()  # a repetition of the present state is answered too
        self.load.advance(math.inf)  # a change made while inactive needs no transition
        self._begin()

    def _begin(self) -> None:
        """Let the selected law act at the last state, from gravity compensation."""
        self.force.begin()
        self.wrench.reset()
        self._fit_guard()
        self._act(self.law, self._idle)
        self.kernels.gravity_forces(self.q, self._gravity)
        self.limiter.reset(self._gravity - self.driver.compensation(self.q, self.v))
        if self.settings.activation_ramp_s:  # which the guard does not wait for
            self.transfer.limit_rate(STOP_SLEW)
        self.generator.rest_at(self.q, self.state.stamp_ns)
        self._begun = False

    # The tick -----------------------------------------------------------------------------------

    def tick(self, dt: float | None = None) -> None:
        """Compute the command for the last valid state into ``effort``.

        Args:
            dt: Time since the last command, s; None: since the last state.
        """
        t, q, v, effort = self.state.time, self.q, self.v, self._desired
        self._begun = True
        if dt is None:
            dt = self.state.dt or self.settings.period
        if self.acting is self.stop_law and self._next is not None:  # states are back
            self._pass_over_time()
            self.switch(brake=True)
            dt = min(dt, self.settings.period)  # the gap does not enlarge the permitted change
        if not self.acting.acts_on_old_states:
            self._update_inputs(t)
        self.kernels.gravity_forces(q, self._gravity)
        self.kernels.inverse_dynamics(q, v, self._zeros, self._bias)
        law, driver = self.acting, self.driver
        if driver.compensates:
            driver.compensation(q, v)
        law.effort(t, q, v, self.reference, effort)
        if law.acts_on_old_states:
            self._limit(dt)
            return
        transfer, weight = self.transfer, 1.0
        if transfer.former is not None:
            weight = transfer.update(t, q, v, self.reference)
        if not self._filter.run(weight, driver.share, dt, self.effort):
            stop = self.stop_law
            stop.reset(t, q, v)
            stop.effort(t, q, v, self.reference, effort)
            self._limit(dt)

    def tick_without_state(self, dt: float | None = None, *, final: bool = False) -> None:
        """Compute a command of the stop action for the last valid position into ``effort``.

        With the next ``tick``, the arm brakes, and the law that acted before goes on.

        Args:
            dt: Time since the last command, s; None: the period.
            final: Whether it is the last command; if so, no rate limit applies.
        """
        if not self.acting.acts_on_old_states:
            self._act(self.stop_law, following=self.present)
        law, t, q, v, effort = self.acting, self.state.time, self.q, self._zeros, self._desired
        self._begun = True
        law.reset(t, q, v)
        law.effort(t, q, v, self.reference, effort)
        share = self.driver.compensation(q, v)
        self.limiter.harden()
        if final:
            self.limiter.reset(effort - share)
        self._limit(self.settings.period if dt is None else dt)

    def _limit(self, dt: float) -> None:
        """Limit the effort of a stop action; one that is not finite becomes the last command."""
        share = self.driver.share
        if not self._filter.run(1.0, share, dt, self.effort, guarded=False):
            self._filter.run_decaying(share, dt, self.effort)

    def _update_inputs(self, t: float) -> None:
        """Update payload, reference, external efforts, and which law acts."""
        if self.load.changing:
            self.load.advance(t)
        self.generator.sample(self.state.stamp_ns)
        if self._next is not None:
            self._follow_on(t)
        if self.force.frame:
            self.force.update(self.state.stamp_ns, self.q)
        external, transfer = self.force.external, self.transfer
        uses_force = self.acting.answers_force or transfer.former is not None
        if external.stepped and external.has_stepped() and uses_force:
            transfer.limit_rate()
        if self.wrench.active:
            self.wrench.update(self.state.stamp_ns, self.q, external.commanded)

    def _follow_on(self, t: float) -> None:
        """Let the next law act once arm and reference are at rest, or the reference moves on."""
        generator, law = self.generator, self._next
        assert law is not None
        is_over = self._brake.is_over(t, self.v)
        if not generator.resting or generator.glide(self.q, is_over):
            self._act(law)

    def decompose(self) -> Parts:
        """Return the law's efforts of the last tick by part; allocates, so not for the tick."""
        return self.acting.decompose(self.q, self.v, self.reference, self._desired)

    def motor_effort(self) -> Array:
        """Return a new array: total motor effort of the last tick, shape (n,), N m or N."""
        return self.effort + self.driver.share

    def _speed_limit(self, trajectory: Trajectory, moving: bool) -> SpeedLimit | None:
        """Return the speed limit of a trajectory that keeps the model within its efforts."""
        share = self.settings.path_effort_share
        if not (share and self.law.follows_reference):
            return None
        most, loads = share * self._bearable, self.driver.loads
        return speed_limit(trajectory, self.tree, self.kernels, most, loads, moving)

    @property
    def moving(self) -> bool:
        """Whether the arm or its reference moves, beyond a share of the velocity limits."""
        fastest = np.abs(self.v)
        if not self.acting.acts_on_old_states:  # with which no reference moves
            fastest = np.maximum(fastest, np.abs(self.reference.velocity))
        return bool((fastest > _REST * self._speeds).any())

    def hold(self) -> None:
        """Abort the trajectory: come to rest from the present motion, and stay there.

        No effect at rest. With a law that ignores the reference, only the reference stops.
        """
        if not self.present.follows_reference:
            self.generator.come_to_rest()
        elif self.generator.moving or self.reference.velocity.any():
            self.switch(brake=True)
