# SPDX-License-Identifier: Apache-2.0
"""The control loop without ROS: a state in, an effort out, the safe shell in between.

The node feeds it from messages, a replay from a recording: the same object, the same commands.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from typing import Any

import numpy as np

from robot_dynamics_ros.control.drivers.filtered_derivative import FilteredDerivative
from robot_dynamics_ros.control.drivers.port import DriverCompensation
from robot_dynamics_ros.control.frame_wrench import ForceSensor, TargetWrench
from robot_dynamics_ros.control.laws.control_law import ControlLaw
from robot_dynamics_ros.control.laws.pd_gravity import joint_inertia
from robot_dynamics_ros.control.payload import PayloadModel
from robot_dynamics_ros.control.safety import (
    ActivationRamp,
    Braking,
    EffortLimiter,
    JointLimitGuard,
    SafeShell,
    StateValidator,
    StateVerdict,
    make_stop_action,
)
from robot_dynamics_ros.control.safety.shell import left_to_driver
from robot_dynamics_ros.control.settings import LoopSettings
from robot_dynamics_ros.control.trajectories.path_speed import PathSpeed, speed_limit
from robot_dynamics_ros.control.trajectories.prepared import Points, Prepared, ReferenceSnapshot
from robot_dynamics_ros.control.trajectories.reference_generator import ReferenceGenerator
from robot_dynamics_ros.control.trajectories.sampling import ReferenceSampler
from robot_dynamics_ros.control.trajectories.target_stream import TargetFilter
from robot_dynamics_ros.errors import (
    ConfigurationError,
)
from robot_dynamics_ros.model.payload import Payload
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import KernelSet

_SECOND_NS = 1_000_000_000
#: How fast the command goes over to what a change, or a stop, asks for, in parts of each limit
#: per s: nothing may jump.
CHANGE_SLEW, STOP_SLEW = 50.0, 200.0


class Observation(Enum):
    """What became of a measured state."""

    #: New and believed: the loop may be run.
    NEW = 'new'
    #: The stamp has not advanced: already answered.
    REPEATED = 'repeated'
    #: Not believed (not finite, implausible, a jump); ``last_refusal`` says why.
    REFUSED = 'refused'


class ControlLoop:
    """Reference, law, ramp, joint-limit guard and effort limiter of one robot.

    Call ``observe`` for every state; ``start`` to begin where the arm is; then, for every
    observation that is ``NEW``, ``tick``. ``stop`` gives the stop action's effort. Time is that
    of the states, in ns.

    Whatever ends a motion against its plan (``hold``, ``hold_here``, a gap or a jump of time,
    states that return) is braked by :class:`Braking`, whatever the law is, while the reference
    glides to where the arm is; then the law holds it there.

    Law, ramp and guard compute all that the motors shall give. Where the driver compensates
    something by itself, its share is left to it at the end, and limit and rate apply to the rest.

    Args:
        tree: The robot without what it carries.
        kernels: Its dynamics; with a load, those of the load.
        law: Made with the same kernels.
        settings: What surrounds the law.
        driver: What the driver compensates by itself; None: nothing.
        load: What the arm carries, if that may change.
        follower: What gives the reference; one that follows trajectories if None.
        derivative: What makes velocities of believed positions, if they are not measured.

    Attributes:
        tree, law, settings: As given.
        q, v: Last believed state, shape (n,), rad or m and rad/s or m/s.
        reference: Joint reference of the last tick.
        effort: The last command, shape (n,), N m or N, less what the driver gives by itself;
            finite and within the limits.
        measured_effort: What the motors gave when that was last noted, shape (n,); else NaN.
        added: A streamed wrench that is added to the law's efforts; None: none.
        force: What the world does to the arm, for laws that answer it.
        last_refusal: Why the last refused state was refused; empty if none was.
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
        follower: ReferenceGenerator | None = None,
        derivative: FilteredDerivative | None = None,
    ) -> None:
        n = tree.n
        self.tree, self.law, self._kernels = tree, law, kernels
        self._driver, self._load, self._derivative = driver, load, derivative
        self.q: Array = np.zeros(n)
        self.v: Array = np.zeros(n)
        self._follower = follower or ReferenceGenerator(tree)
        self.reference = self._follower.reference
        self.effort: Array = np.zeros(n)
        self.last_refusal = ''
        self.added: TargetWrench | None = None
        self._gravity, self._wanted, self._fallback = np.zeros(n), np.zeros(n), np.zeros(n)
        self._before, self._offset = np.zeros(n), np.zeros(n)
        self._former_law: ControlLaw | None = None
        self.force = ForceSensor(tree)
        law.external = self.force.external
        self._reaction: ControlLaw | None = None
        self._braking = self._held = False
        self._bridges = 0
        self._ramp = ActivationRamp(0.0)
        self.monitor = StateValidator(tree, 1.0, measured_velocity=derivative is None)
        self._still = np.zeros(n)
        self.measured_effort = np.full(n, np.nan)
        self._origin_ns: int | None = None
        self._stamp_ns = 0
        self._running = self._just_started = self._stopping = False
        self.limiter = EffortLimiter(tree.effort_limit)
        self.guard = self._make_guard(1.0)
        self._shell = SafeShell(n, driven=driver is not None)
        self._states = self.q, self.v, self._gravity
        self.change_settings(settings or LoopSettings())

    # Settings -----------------------------------------------------------------------------------

    def change_settings(self, settings: LoopSettings) -> None:
        """Apply settings between two ticks.

        Raises:
            ParameterError, UnknownNameError: A setting is refused; nothing has changed then.
        """
        settings.check(self.tree)
        previous = getattr(self, 'settings', None)
        if previous == settings:
            return
        self._stop_action = make_stop_action(settings.stop_action, self.tree, self._kernels)
        sampler = ReferenceSampler(self.tree.n, settings.discretization, settings.period)
        self._follower.set_sampler(sampler)
        self.limiter.set_rate(settings.rates(self.tree.n))
        self._brake = Braking(
            self.tree, self._kernels, settings.stop_effort_share, settings.period
        )
        self._ramp.change(self._time(), settings.activation_ramp_s)
        self.monitor.set_timeout(settings.state_timeout_s)
        if previous is not None and previous.discretization != settings.discretization:
            self.limiter.soften(CHANGE_SLEW)
        if previous is None or previous.effort_scale != settings.effort_scale:
            self.limiter.set_limit(settings.effort_scale * self.tree.effort_limit)
            self.limiter.soften(CHANGE_SLEW)
            self._replace_guard(settings.effort_scale)
        self.settings = settings

    def change_law(self, law: ControlLaw) -> None:
        """Switch to another law, which is blended in over ``activation_ramp_s``.

        The reference is kept, and both laws see the same state. A law that follows the reference
        after one that does not begins where the arm is.

        Args:
            law: Made for the same robot.
        """
        former, self.law = self.law, law
        law.external = self.force.external
        if self.added is not None and not law.yields:
            self.added = None
        if not self._running or self._reaction is not None:
            return
        t = self._time()
        law.reset(t, self.q, self.v)
        self.limiter.soften(CHANGE_SLEW)
        if law.follows_reference and not former.follows_reference:
            self._begin_braking()
        else:
            self._former_law = former
            self._ramp.start(t)

    def change_model(self, other: ControlLoop) -> None:
        """Go on with the model, law and load of another loop, blended in.

        Args:
            other: Of the same joints and settings, without a state. Neither of the two brakes,
                reacts to a contact or takes the stop action.
        """
        self.tree, self._kernels, self._load = other.tree, other._kernels, other._load
        self._driver, self.force = other._driver, other.force
        self._stop_action, self._brake = other._stop_action, other._brake
        self.change_law(other.law)
        self._replace_guard(self.settings.effort_scale)

    def react(self, law: ControlLaw) -> None:
        """Let another law act instead, from now on: after a contact.

        What is followed is given up. Unless that law ignores the reference, the arm brakes before.

        Args:
            law: It acts until ``release``; may be the law itself.
        """
        self._reaction, self._former_law, self.added = law, None, None
        self._begin_braking()
        if not law.follows_reference:
            self._braking = False
            law.reset(self._time(), self.q, self.v)

    def release(self) -> None:
        """Let the law act again, blended in, with its reference where the arm is."""
        reaction, law = self._reaction, self.law
        if reaction is None:
            return
        self.hold()
        self._reaction, self.law = None, reaction
        self.change_law(law)

    @property
    def braking(self) -> bool:
        """Whether the arm is being braked, until it is at rest."""
        return self._braking

    @property
    def reaction(self) -> ControlLaw | None:
        """What acts instead of the law."""
        return self._reaction

    @property
    def stamp_ns(self) -> int:
        """Time of the last believed state, ns."""
        return self._stamp_ns

    @property
    def _acting(self) -> ControlLaw:
        return self._reaction or self.law

    def retune(self, parameters: Mapping[str, Any]) -> None:
        """Change parameters of the law; it goes on with what it does.

        Raises:
            RobotDynamicsError: One is refused; nothing has changed then.
        """
        self.law.set_parameters(parameters)
        self.limiter.soften(CHANGE_SLEW)

    def carry(self, payload: Payload | None, duration: float = 0.0) -> None:
        """Take over another payload, or none, without a step of the effort.

        Args:
            payload: What is carried from now on.
            duration: Time over which the model goes over to it, s; at once while at rest.

        Raises:
            UnknownNameError: The payload's frame does not exist.
            ModelError: The payload is not physical.
            ConfigurationError: The loop was made without a load.
        """
        if self._load is None:
            raise ConfigurationError('payload', 'the loop has no load', 'make it with one')
        self._load.change(payload, self._time(), duration if self._running else 0.0)
        self.limiter.soften(CHANGE_SLEW)
        self._replace_guard(self.settings.effort_scale)

    def check_payload(self, payload: Payload | None) -> None:
        """Refuse a payload that cannot be carried; errors as in ``carry``."""
        if self._load is not None:
            self._load.check(payload)

    def _replace_guard(self, effort_scale: float) -> None:
        counted = self.guard.active
        self.guard = self._make_guard(effort_scale)
        self.guard.active = counted

    def _make_guard(self, effort_scale: float) -> JointLimitGuard:
        """Return a guard that brakes with half of the effort that may be commanded."""
        loaded = self.tree if self._load is None else self._load.tree
        inertia = joint_inertia(loaded, self._still)
        return JointLimitGuard(self.tree, inertia, braking=0.5 * effort_scale)

    # States -------------------------------------------------------------------------------------

    def observe(self, stamp_ns: int, q: Array, v: Array) -> Observation:
        """Take over a measured state if it is to be believed.

        Args:
            stamp_ns: Time of the state, ns.
            q: Positions, shape (n,), rad or m; anything may be in it. Copied.
            v: Velocities, shape (n,), rad/s or m/s; likewise. Not looked at if they are made
                of positions.

        Returns:
            What became of it. After a jump of time or a gap the loop starts anew by itself.
        """
        if self._origin_ns is None:
            self._origin_ns = stamp_ns
        elapsed = (stamp_ns - self._origin_ns) / _SECOND_NS
        if self._derivative is not None:
            v = self._still
        verdict = self.monitor.accept(elapsed, q, v, arrival=elapsed)
        if verdict is StateVerdict.NOT_NEWER:
            return Observation.REPEATED
        if not verdict.usable:
            self.last_refusal = verdict.value
            return Observation.REFUSED
        self._stamp_ns = stamp_ns
        self.q[:], self.v[:] = q, v
        if self._derivative is not None:  # of believed positions only
            self.v[:] = self._derivative.update(elapsed, q)
        if verdict is StateVerdict.RESTARTED and self._just_started:
            self._follower.rest_at(self.q, stamp_ns)
        elif verdict is StateVerdict.RESTARTED and self._running:
            self.resume()
        self._just_started = False
        return Observation.NEW

    def start(self) -> None:
        """Begin to control: hold the last believed position, ramp from the initial effort."""
        self.monitor.begin()  # the present state is answered even if it comes again
        self._running = self._just_started = True
        self._stopping = self._braking = False
        self._reaction = None
        t, share = self._time(), self._share(self.v)
        self._begin_law(t)
        self._kernels.gravity_forces(self.q, self._gravity)
        initial = {
            'gravity': self._gravity,
            'measured': self.measured_effort,
            'zero': share,
        }[self.settings.activation_effort]
        if not np.isfinite(initial).all():
            initial = self._gravity
        self.limiter.reset(initial - share)
        np.subtract(self.limiter.last + share, self._gravity, out=self._offset)
        self._ramp.start(t)
        self.limiter.soften(math.inf)  # the ramp does that
        self._follower.rest_at(self.q, self._stamp_ns)

    def _begin_law(self, t: float) -> None:
        if self._load is not None:
            self._load.restart(t)
        self._former_law = None
        self._acting.reset(t, self.q, self.v)

    def resume(self) -> None:
        """Begin anew after a gap, a jump of time or a stop: brake, then hold where the arm is."""
        self._stopping = False
        self._begin_law(self._time())
        self._begin_braking()

    def _begin_braking(self) -> None:
        self._ramp.finish()
        self._follower.begin_glide()
        self._brake.begin(self._time(), self.q, self.v, self._limit_array())
        self._braking = True
        self.limiter.soften(STOP_SLEW)

    def _limit_array(self) -> Array:
        return self.settings.effort_scale * self.tree.effort_limit

    def note_measured_effort(self, effort: Array) -> None:
        """Remember what the motors give, shape (n,), N m or N."""
        self.measured_effort[:] = effort

    # The tick -----------------------------------------------------------------------------------

    def tick(self) -> None:
        """Compute the command that answers the last believed state into ``effort``."""
        if self._stopping:
            self.resume()
        t, dt = self._time(), self.monitor.dt or self.settings.period
        if self._load is not None and self._load.changing:
            self._load.advance(t)
        self._follower.sample(self._stamp_ns)
        if self._follower.bridges != self._bridges:
            self._bridges = self._follower.bridges
            self.limiter.soften(CHANGE_SLEW)
        q, v, wanted, ramp = self.q, self.v, self._wanted, 1.0
        self._kernels.gravity_forces(q, self._gravity)
        if self._braking:
            self._go_on_braking(t, dt)
        self.force.update(self._stamp_ns, q)
        if self._braking:
            self._brake.effort(q, v, self._limit_array(), wanted)
        else:
            self._acting.effort(t, q, v, self.reference, wanted)
            ramp = self._ramp.share(t)
            if ramp < 1.0:
                self._write_before(t)
            if (
                self.added is not None and self._reaction is None
            ):  # to what is blended alike: at once, whatever the ramp
                self.added.add(self._stamp_ns, q, wanted, self.law.force_gain)
                self.added.add(self._stamp_ns, q, self._before, self.law.force_gain)
        shell, share = self._shell, self._still if self._driver is None else self._share(v)
        parts = self._states, wanted, self._before, ramp, share, self.limiter, self.guard, dt
        if not shell.run(*parts, self.effort):
            self._write_stop(self._fallback, fresh=True)
            shell.interpret(*parts, self.effort, self._fallback)

    def _go_on_braking(self, t: float, dt: float) -> None:
        """Lead the reference to the arm; let the law take over once both are at rest."""
        follower = self._follower
        there = not follower.resting or follower.glide(self.q, dt)
        if not follower.resting or (there and self._brake.over(t, self.v)):
            self._braking = False
            if follower.resting:  # what was left of the glide is no motion to be followed
                self.reference.velocity.fill(0.0)
            self._acting.reset(t, self.q, self.v)
            self.limiter.soften(CHANGE_SLEW)

    def _write_before(self, t: float) -> None:
        """Write what acted before the law, at this very state."""
        before = self._before
        if self._former_law is not None:
            self._former_law.effort(t, self.q, self.v, self.reference, before)
        elif self.settings.activation_effort == 'zero':
            before[:] = self._share(self.v)
        else:
            np.add(self._gravity, self._offset, out=before)

    def decompose(self) -> dict[str, Array]:
        """Return the law's efforts of the last tick by origin; allocates, not for the tick."""
        return self._acting.decompose(self._time(), self.q, self.v, self.reference)

    def stop(self, *, final: bool = False, fresh: bool = False, dt: float | None = None) -> None:
        """Compute the stop action's effort from the last believed state into ``effort``.

        Args:
            final: Whether it is the last command, which nobody will follow up: then no feedback
                is used, and no rate limit holds it back from the safe value.
            fresh: Whether that state has just come, so that feedback may be used.
            dt: Time since the last command, s; the period if None.
        """
        if not self._stopping:
            self._stopping, self._held = True, False
            self._stop_action.begin(self.q)
            self._brake.begin(self._time(), self.q, self.v, self._limit_array())
            self.limiter.soften(STOP_SLEW if fresh else math.inf)
        self._write_stop(self._wanted, fresh=fresh)
        if final:
            self.limiter.reset(self._wanted)
        self.limiter.limit(self._wanted, dt or self.settings.period, None, self.effort)

    def _write_stop(self, out: Array, *, fresh: bool) -> None:
        """Write what the stop action commands the driver; one that holds brakes first."""
        if fresh and self._stop_action.holds and not self._held:
            self._brake.effort(self.q, self.v, self._limit_array(), out)
            if self._brake.over(self._time(), self.v):
                self._held = True
                self._stop_action.begin(self.q)
        else:
            self._stop_action.effort(self.q, self.v, fresh, out)
        if self._driver is not None and self._stop_action.of_motors:
            self._leave_to_driver(out, self.v if fresh else self._still)

    def _share(self, v: Array) -> Array:
        """Return what the driver gives by itself, shape (n,), N m or N."""
        return self._still if self._driver is None else self._driver.update(self.q, v)

    def _leave_to_driver(self, effort: Array, v: Array) -> None:
        """Turn what the motors shall give, within their limits, into the command of the driver."""
        rows = zip(effort.tolist(), self._share(v).tolist(), self.tree.effort_limit, strict=True)
        for i, row in enumerate(rows):
            effort[i], clipped = left_to_driver(*row)
            self.limiter.saturated[i] += clipped == 1

    def motor_effort(self) -> Array:
        """Return what the motors shall give by the last tick, driver's share included; new."""
        return self.effort.copy() if self._driver is None else self.effort + self._driver.effort

    # Trajectories -------------------------------------------------------------------------------

    def follow(
        self,
        times: Array,
        position: Array,
        velocity: Array | None,
        acceleration: Array | None,
        start_ns: int = 0,
    ) -> int:
        """Replace what is followed by a trajectory.

        Until it starts, and from its start to its first point, the motion goes on smoothly from
        the present reference.

        Args:
            times: Times of the points from the start, shape (k,), s.
            position: Shape (k, n), rad or m.
            velocity: Shape (k, n), rad/s or m/s, or None.
            acceleration: Shape (k, n), rad/s^2 or m/s^2, or None.
            start_ns: Stamp of the start, ns; 0 for now.

        Returns:
            The stamp of the start, ns.

        Raises:
            TrajectoryError: It is over already, leaves the limits, begins with a step, or its
                points break a rule; names the culprit.
        """
        points = times, position, velocity, acceleration
        return self.commit(self.prepare(self.moment(), points, start_ns))

    def moment(self) -> ReferenceSnapshot:
        """Return what a trajectory that arrives now is seen from."""
        return self._follower.moment(self.q if self._running else None)

    def prepare(self, moment: ReferenceSnapshot, points: Points, start_ns: int = 0) -> Prepared:
        """Do of ``follow`` what takes long; may run in a thread beside the ticks.

        Args:
            moment: When the trajectory arrived.
            points: Times, positions, velocities and accelerations, see ``follow``.
            start_ns: Stamp of the start, ns; 0 for now.

        Raises:
            TrajectoryError: As of ``follow``.
        """
        settings = self.settings
        prepared = self._follower.prepare(moment, points, start_ns, settings.start_tolerance)
        if not (settings.path_effort_share and self.law.follows_reference):
            return prepared
        most, moving = settings.path_effort_share * self._limit_array(), moment.reference.velocity
        limit = speed_limit(
            prepared.trajectory, self.tree, self._kernels.apart(), most, bool(moving.any())
        )
        return replace(prepared, limit=limit)

    def commit(self, prepared: Prepared) -> int:
        """Do the rest of ``follow``, between two ticks; cost: that of one segment.

        A start of 0 is now, not when the trajectory arrived: nothing jumps.

        Returns:
            The stamp of the start, ns.

        Raises:
            TrajectoryError: It is over by now, the way from the present reference to its first
                point leaves the limits, or the loop has begun anew since its moment.
        """
        return self._follower.commit(prepared, self.q if self._running else None)

    def aim(self, target: Array, limits: TargetFilter) -> bool:
        """Follow a stream of joint targets, see ``ReferenceGenerator.aim``."""
        return self._follower.aim(target, limits)

    @property
    def speed(self) -> PathSpeed:
        """How fast trajectories are passed through."""
        return self._follower.speed

    @property
    def streaming(self) -> bool:
        """Whether what is followed, or was last, is a stream."""
        return self._follower.streaming

    @property
    def target(self) -> Array:
        """Where a stream leads the reference, else where that is, shape (n,), rad or m."""
        return self._follower.target

    def hold(self) -> None:
        """Stop following: come to rest from the present motion, and stay there.

        At rest nothing changes. Under a law that ignores the reference only that comes to rest.
        """
        if not self._acting.follows_reference:
            self._follower.hold()
            self.limiter.soften(CHANGE_SLEW)
        elif self.moving or self.reference.velocity.any():
            self._begin_braking()

    def hold_here(self) -> None:
        """Stop following, brake, and stay where the arm comes to rest."""
        self._begin_braking()

    @property
    def moving(self) -> bool:
        """Whether a trajectory is being followed or waits for its start."""
        return self._follower.moving

    @property
    def progress(self) -> tuple[float, float]:
        """Time since the start of what is followed, negative before, and its duration, s."""
        return self._follower.progress

    @property
    def changes(self) -> int:
        """How often something else was followed from then on."""
        return self._follower.changes

    def _time(self) -> float:
        """Return the stamp of the last believed state on the loop's own clock, s."""
        return (self._stamp_ns - (self._origin_ns or 0)) / _SECOND_NS
