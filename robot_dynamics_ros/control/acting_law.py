# SPDX-License-Identifier: Apache-2.0
"""Which law acts in a control loop: exactly one, and how another one takes over."""

from __future__ import annotations

from collections.abc import Callable

from robot_dynamics_ros.control.drivers.driver_interface import DriverInterface
from robot_dynamics_ros.control.drivers.filtered_derivative import FilteredDerivative
from robot_dynamics_ros.control.force_sensor import ForceSensor
from robot_dynamics_ros.control.laws.control_law import ControlLaw
from robot_dynamics_ros.control.laws.stop_laws import (
    STOP_ACTIONS,
    Brake,
    Gravity,
    StopLaw,
    StopSettings,
)
from robot_dynamics_ros.control.safety.limits import EffortLimiter
from robot_dynamics_ros.control.safety.state_validator import MeasuredState
from robot_dynamics_ros.control.settings import LoopSettings
from robot_dynamics_ros.control.target_wrench import TargetWrench
from robot_dynamics_ros.control.trajectories.reference_generator import ReferenceGenerator
from robot_dynamics_ros.control.transfer import Transfer
from robot_dynamics_ros.model.robot_tree import Robot
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import KernelSet


class ActingLaw:
    """The law that acts, and the one that will act once an arm that is braked is at rest.

    Args:
        tree: The robot without its payload.
        kernels: Its dynamics; with a load, the kernels of the load.
        law: Control law built with the same kernels.
        driver: Interface to the driver.
        generator: Reference generator.
        derivative: Filter that differentiates valid positions; None: velocities are measured.

    Attributes:
        tree, kernels, driver, generator: As given.
        law: The selected law.
        acting: The law that acts.
        state: The last valid state.
        q, v: Its positions and velocities, shape (n,), rad or m and rad/s or m/s.
        limiter: Limits of the command.
        wrench: Streamed wrench, whose efforts compliant laws add.
        force: External force on the arm, for laws that use it.
        stop_law: The stop action.
        transfer: Transfer from the former law.
    """

    stop_law: StopLaw
    _brake: Brake

    def __init__(
        self,
        tree: Robot,
        kernels: KernelSet,
        law: ControlLaw,
        driver: DriverInterface,
        generator: ReferenceGenerator,
        derivative: FilteredDerivative | None,
    ) -> None:
        self.tree, self.law, self.kernels = tree, law, kernels
        self.driver, self.generator = driver, generator
        self.state = MeasuredState(tree, derivative)
        self.q, self.v = self.state.q, self.state.v
        self.limiter = EffortLimiter(tree.effort_limit)
        self.force, self.transfer = ForceSensor(tree), Transfer(self.limiter)
        self.wrench = TargetWrench()
        self._acting_effort: Callable[[], Array | None] = lambda: None
        self._idle = Gravity(tree, kernels)  # from which control begins
        self.acting: ControlLaw = self._idle
        self._next: ControlLaw | None = None  # after the brake, or a stop action without states

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
            self.transfer.limit_rate('law')
            return
        following = self._next
        if self.law is former:
            self.law = law
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
            self._end_wrench()
        self.acting, self._next = law, following
        law.use_external(self.force.external)
        law.reset(t, self.q, self.v)
        self.transfer.start(t, former, urgent=law.urgent)

    @property
    def present(self) -> ControlLaw:
        """The law that acts, or will act once the arm is at rest."""
        return self._next or self.acting

    @property
    def braking(self) -> bool:
        """Whether the arm is being braked; False again once it is at rest."""
        return self.acting is self._brake

    def _end_wrench(self) -> None:
        self.wrench.reset()
        self.force.external.commanded.fill(0.0)

    def _make_stop_laws(self, settings: LoopSettings) -> None:
        """Make the stop action and the brake; they replace those that act."""
        stopping = StopSettings(
            self.limiter.limits,
            settings.stop_effort_share,
            settings.sampling,
            lambda: self._acting_effort(),
            self.driver.compensation,
        )
        made = STOP_ACTIONS[settings.stop_action](self.tree, self.kernels, stopping)
        brake = Brake(self.tree, self.kernels, stopping)
        if hasattr(self, 'stop_law'):
            self.replace(self.stop_law, made)
            self.replace(self._brake, brake)
        self.stop_law, self._brake = made, brake

    def use_acting_effort(self, acting_effort: Callable[[], Array | None]) -> None:
        """Give the brake the motor plus external effort that acts until the next command does.

        Args:
            acting_effort: Returns it, shape (n,), N m or N; None: unknown.
        """
        self._acting_effort = acting_effort
