# SPDX-License-Identifier: Apache-2.0
"""The control loop without ROS: converts a measured state into an effort command."""

from __future__ import annotations

import math

import numpy as np

from robot_dynamics_ros.control.drivers.port import DriverCompensation, FilteredDerivative
from robot_dynamics_ros.control.laws.control_law import ControlLaw
from robot_dynamics_ros.control.laws.gravity_laws import joint_inertia
from robot_dynamics_ros.control.payload import PayloadModel
from robot_dynamics_ros.control.safety.limits import (
    GUARD_RATE,
    EffortLimiter,
    JointLimitGuard,
)
from robot_dynamics_ros.control.safety.shell import SafeShell, Transition
from robot_dynamics_ros.control.safety.state_validator import (
    EFFORT_FACTOR,
    MeasuredState,
    StateVerdict,
)
from robot_dynamics_ros.control.safety.stop_action import Stopping
from robot_dynamics_ros.control.settings import LOOP, LoopSettings
from robot_dynamics_ros.control.targets import ForceSensor, TargetWrench
from robot_dynamics_ros.control.trajectories.following import SpeedLimit, speed_limit
from robot_dynamics_ros.control.trajectories.reference_generator import ReferenceGenerator
from robot_dynamics_ros.control.trajectories.trajectory import ReferenceSampler, Trajectory
from robot_dynamics_ros.dynamics.sampled_loop import fastest_frequency, largest_damping
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.model.payload import Payload
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.parameters import checked
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import KernelSet

#: Rate limit of the command after a change and after a stop, in effort limits per s.
CHANGE_SLEW, STOP_SLEW = 50.0, 200.0
_REST = 0.002  # share of the velocity limits below which an arm is at rest


class ControlLoop:
    """Reference, law, ramp, joint-limit guard and effort limiter of one robot.

    Call ``observe`` for every state, ``start`` to begin control at the measured position, then
    ``tick`` for every one that is usable. ``stop`` computes the effort of the stop
    action. The only clock is that of the states' timestamps, in ns.

    When a motion is aborted (``hold``, ``brake``, a gap or a jump of the time, the end of a state
    timeout), :class:`Braking` brakes the arm regardless of the law, while the reference moves to
    the measured position; then the law holds the arm there.

    Law, ramp and guard compute the total motor effort. If the driver compensates terms itself,
    these are subtracted at the end; effort and rate limits apply to the rest.

    Args:
        tree: The robot without its payload.
        kernels: Its dynamics; with a load, the kernels of the load.
        law: Control law built with the same kernels.
        settings: Settings of the loop.
        driver: Terms that the driver compensates; None: none.
        load: Model of a changeable payload; None: the payload cannot change.
        generator: Reference generator; a trajectory follower if None.
        derivative: Filter that differentiates valid positions; None: velocities are measured.

    Attributes:
        tree, kernels, law, settings, driver, generator: As given.
        state: The last valid state.
        q, v: Its positions and velocities, shape (n,), rad or m and rad/s or m/s.
        reference: Joint reference of the last tick.
        effort: The last command, shape (n,), N m or N, finite and limited, without driver share.
        measured_effort: Last measured motor effort, shape (n,), N m or N; NaN if unknown.
        added: Streamed wrench that is added to the law's efforts; None: none.
        force: External force on the arm, for laws that use it.
        reaction: Law that acts instead of ``law``; None: ``law`` acts.
        braking: Whether the arm is being braked; False again once it is at rest.
        stopping: Stop action and braking.
    """

    def __init__(
        self,
        tree: RobotTree,
        kernels: KernelSet,
        law: ControlLaw,
        settings: LoopSettings | None = None,
        *,
        driver: DriverCompensation | None = None,
        load: PayloadModel | None = None,
        generator: ReferenceGenerator | None = None,
        derivative: FilteredDerivative | None = None,
    ) -> None:
        n = tree.n
        self.tree, self.law, self.kernels = tree, law, kernels
        self.driver, self._load = driver, load
        self.state = MeasuredState(tree, derivative)
        self.q, self.v = self.state.q, self.state.v
        self.generator = generator or ReferenceGenerator(tree)
        self.generator.speed_limit = self._speed_limit
        self.reference = self.generator.reference
        self.effort: Array = np.zeros(n)
        self._speeds = tree.speeds()
        self.added: TargetWrench | None = None
        self._gravity, self._desired, self._fallback = np.zeros(n), np.zeros(n), np.zeros(n)
        self._transition = Transition(n)
        self.force = ForceSensor(tree)
        law.external = self.force.external
        self.reaction: ControlLaw | None = None
        self._blends, self._zeros = 0, np.zeros(n)
        self.measured_effort = np.full(n, np.nan)
        self.braking = self._running = self._just_started = self._resumed = False
        self.limiter = EffortLimiter(tree.effort_limit)
        self.stopping = Stopping(self.state, self.limiter)
        self.guard = JointLimitGuard(tree, joint_inertia(tree, self._zeros))
        states, efforts = (self.q, self.v, self._gravity), (self._desired, self._transition.effort)
        self._shell = SafeShell(states, efforts, self.limiter, self.guard)
        self.change_settings(settings or LoopSettings())

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

        def differs(name: str) -> bool:
            return bool(getattr(previous, name, None) != getattr(settings, name))

        sampler = ReferenceSampler(self.tree.n, settings.discretization, settings.period)
        self.generator.set_sampler(sampler)
        self.generator.start_tolerance = settings.start_tolerance
        self.generator.moving_end = settings.allow_nonzero_velocity_at_trajectory_end
        self.generator.integrates = settings.allow_integration_in_goal_trajectories
        self.limiter.rates[:] = settings.rates(self.tree.n)
        if differs('stopping'):
            self.stopping.configure(self.tree, self.kernels, *settings.stopping)
            if self.braking or self.stopping.active:
                self.limiter.soften(STOP_SLEW)
        t, ramp = self.state.time, self._transition.ramp
        ramping = ramp.share(t) < 1.0
        ramp.change(t, settings.activation_ramp_s)
        self.state.validator.timeout = settings.state_timeout_s
        if differs('discretization') or (ramping and differs('activation_ramp_s')):
            self.limiter.soften(CHANGE_SLEW)
        if differs('effort_scale'):
            self.limiter.set_limit(settings.effort_scale * self.tree.effort_limit)
            self.limiter.soften(CHANGE_SLEW)
            self._fit_guard()

    def change_law(self, law: ControlLaw) -> None:
        """Switch to another law, blended in over ``activation_ramp_s``.

        The reference is kept. If the new law follows the reference and the previous one does not,
        the arm brakes, and the reference restarts at the measured position.

        Args:
            law: Control law built for the same robot.
        """
        former, self.law = self.law, law
        law.external = self.force.external
        if self.added is not None and not law.yields:
            self.added = None
        if not self._running or self.reaction is not None:
            return
        t = self.state.time
        law.reset(t, self.q, self.v)
        self.limiter.soften(CHANGE_SLEW)
        if law.follows_reference and not former.follows_reference:
            self.brake()
        else:
            self._transition.start(t, former)

    def react(self, law: ControlLaw) -> None:
        """Replace the law by another one, as the reaction to a contact.

        Aborts the trajectory. If the other law follows the reference, the arm brakes first.

        Args:
            law: Acts until ``release``; may be the present law.
        """
        self.reaction, self._transition.former = law, None
        self.brake()
        if not law.follows_reference:
            self.braking = False
            law.reset(self.state.time, self.q, self.v)

    def release(self) -> None:
        """End a reaction: blend the law in again, with its reference at the measured position."""
        if self.reaction is not None:
            self.hold()
            law, self.law, self.reaction = self.law, self.reaction, None
            self.change_law(law)

    @property
    def _active_law(self) -> ControlLaw:
        return self.reaction or self.law

    @property
    def load(self) -> PayloadModel:
        """Model of the payload; raises ConfigurationError if the loop was built without one."""
        if self._load is None:
            raise ConfigurationError('payload', 'the loop has no load', 'build it with one')
        return self._load

    def set_payload(self, payload: Payload | None, duration: float = 0.0) -> None:
        """Change the payload without a step of the effort.

        Args:
            payload: The new payload; None: none.
            duration: Time over which the model changes, s; not used before ``start``.

        Raises:
            UnknownNameError: The payload's frame does not exist.
            ModelError: The payload is not physical.
            ConfigurationError: The loop was built without a load.
        """
        self.load.change(payload, self.state.time, duration if self._running else 0.0)
        self.limiter.soften(CHANGE_SLEW)
        self._fit_guard()

    def _fit_guard(self) -> None:
        """Fit the guard to the present load; it brakes with half of the permitted effort.

        Its loop has half of the largest stable frequency.
        """
        inertia = joint_inertia(self.tree if self._load is None else self._load.tree, self._zeros)
        sampling, part = self.settings.sampling, 0.5 * self.settings.effort_scale
        rate = min(GUARD_RATE, 0.5 * fastest_frequency(sampling, 1.0, 'none'))
        self.guard.fit(self.tree, inertia, part, rate, 0.5 * largest_damping(sampling))

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
        if verdict is StateVerdict.RESTARTED and self._just_started:
            self._begin_law(self.state.time)
            self.generator.rest_at(self.q, stamp_ns)
        elif self._running and (
            verdict is StateVerdict.RESTARTED
            or (verdict is StateVerdict.TOO_FAST and not self.braking)
        ):
            self.resume()
        self._just_started = self._just_started and not verdict.usable
        return verdict

    def observe_effort(self, effort: Array) -> None:
        """Store a measured motor effort, shape (n,), N m or N; implausible entries are unknown."""
        self.measured_effort[:] = effort
        self.measured_effort[np.abs(effort) > EFFORT_FACTOR * self.tree.effort_limit] = np.nan

    def start(self) -> None:
        """Start control: hold the last valid position, ramp from the gravity forces."""
        self.state.validator.allow_repeat()  # a repetition of the present state is answered too
        self._running = self._just_started = True
        self.stopping.active, self.braking, self.reaction = False, False, None
        self.added = None
        if self._load is not None:
            self._load.advance(math.inf)  # a change made while inactive needs no transition
        share = self._driver_share(self.v)
        self._begin_law(self.state.time)
        self.kernels.gravity_forces(self.q, self._gravity)
        self.limiter.reset(self._gravity - share)
        self._transition.set_offset(self.limiter.last + share, self._gravity)
        self.limiter.soften(math.inf)  # the ramp already prevents a jump
        self.generator.rest_at(self.q, self.state.stamp_ns)
        self.generator.measured = self.q

    def _begin_law(self, t: float) -> None:
        if self._load is not None:
            self._load.restart(t)
        self._transition.start(t)
        self._active_law.reset(t, self.q, self.v)

    def resume(self) -> None:
        """Restart after a gap or a jump of the time, or after a stop: brake, then hold."""
        self.stopping.active, self._resumed = False, True
        self._begin_law(self.state.time)
        self.brake()

    def brake(self) -> None:
        """Abort trajectory and streamed wrench, brake, and hold where the arm comes to rest."""
        self._transition.ramp.finish()
        self.generator.begin_glide()
        self.stopping.begin_braking()
        self.braking, self.added = True, None
        self.limiter.soften(STOP_SLEW)

    # The tick -----------------------------------------------------------------------------------

    def tick(self) -> None:
        """Compute the command for the last valid state into ``effort``."""
        if self.stopping.active:
            self.resume()
        t, dt = self.state.time, self.state.dt or self.settings.period
        if self._resumed:  # the gap must not enlarge the permitted change of effort
            self._resumed, dt = False, min(dt, self.settings.period)
        if self._load is not None and self._load.changing:
            self._load.advance(t)
        self.generator.sample(self.state.stamp_ns)
        if self.generator.blends != self._blends:
            self._blends = self.generator.blends
            self.limiter.soften(CHANGE_SLEW)
        q, v, effort, ramp = self.q, self.v, self._desired, 1.0
        self.kernels.gravity_forces(q, self._gravity)
        if self.braking:
            self._update_braking(t, dt)
        self.force.update(self.state.stamp_ns, q)
        if self.braking:
            self.stopping.brake.effort(q, v, self.limiter.limits, effort)
        else:
            self._active_law.effort(t, q, v, self.reference, effort)
            ramp = self._transition.ramp.share(t)
            if ramp < 1.0:
                self._transition.write(t, q, v, self.reference, self._gravity)
            if self.added is not None and self.reaction is None:
                # Added to both blended efforts, so that the ramp does not scale it.
                gain = self.law.force_gain
                self.added.add(self.state.stamp_ns, q, effort, gain)
                self.added.add(self.state.stamp_ns, q, self._transition.effort, gain)
        shell, share = self._shell, self._driver_share(v)
        if not shell.run(ramp, share, dt, self.effort):
            self.stopping.write(self._fallback, share, fresh=True)
            shell.interpret(ramp, share, dt, self.effort, self._fallback)

    def _update_braking(self, t: float, dt: float) -> None:
        """Move the reference to the arm; return control to the law once both are at rest."""
        generator = self.generator
        arrived = not generator.resting or generator.glide(self.q, dt)
        if not generator.resting or (arrived and self.stopping.brake.is_over(t, self.v)):
            self.braking = False
            if generator.resting:  # discard the remaining velocity of the glide
                self.reference.velocity.fill(0.0)
            self._active_law.reset(t, self.q, self.v)
            self.limiter.soften(CHANGE_SLEW)

    def decompose(self) -> dict[str, Array]:
        """Return the law's efforts of the last tick by term; allocates, so not for the tick."""
        return self._active_law.decompose(self.state.time, self.q, self.v, self.reference)

    def stop(self, *, final: bool = False, fresh: bool = False, dt: float | None = None) -> None:
        """Compute the stop action's effort from the last valid state into ``effort``.

        Args:
            final: Whether it is the last command; if so, no rate limit applies.
            fresh: Whether the state is current, so that feedback may be used.
            dt: Time since the last command, s; the period if None.
        """
        if not self.stopping.active:
            self.stopping.begin()
            self.limiter.soften(STOP_SLEW if fresh else math.inf)
        share = self._driver_share(self.v if fresh else self._zeros)
        self.stopping.write(self._desired, share, fresh=fresh)
        if final:
            self.limiter.reset(self._desired - share)
        step = self.settings.period if dt is None else dt
        self.limiter.limit(self._desired, step, None, self.effort, share)

    def _driver_share(self, v: Array) -> Array:
        """Return the effort that the driver adds itself, shape (n,), N m or N."""
        return self._zeros if self.driver is None else self.driver.update(self.q, v)

    def motor_effort(self) -> Array:
        """Return a new array: total motor effort of the last tick, shape (n,), N m or N."""
        return self.effort.copy() if self.driver is None else self.effort + self.driver.effort

    def _speed_limit(self, trajectory: Trajectory, moving: bool) -> SpeedLimit | None:
        """Return the speed limit of a trajectory that keeps the model within its efforts."""
        share = self.settings.path_effort_share
        if not (share and self.law.follows_reference):
            return None
        most = share * self.limiter.limits
        return speed_limit(trajectory, self.tree, self.kernels.apart(), most, moving)

    @property
    def moving(self) -> bool:
        """Whether the arm or its reference moves, beyond a share of the velocity limits."""
        fastest = np.maximum(np.abs(self.v), np.abs(self.reference.velocity))
        return bool((fastest > _REST * self._speeds).any())

    @property
    def holds(self) -> bool:
        """Whether the law that acts follows the reference, and so holds the arm."""
        return self._active_law.follows_reference

    def hold(self) -> None:
        """Abort the trajectory: come to rest from the present motion, and stay there.

        No effect at rest. With a law that ignores the reference, only the reference stops.
        """
        if not self.holds:
            self.generator.begin_glide()
        elif self.generator.moving or self.reference.velocity.any():
            self.brake()
