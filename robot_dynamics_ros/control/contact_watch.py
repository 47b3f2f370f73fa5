# SPDX-License-Identifier: Apache-2.0
"""Observation of external efforts and detection of contacts, updated after every command."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from robot_dynamics_ros.contact.detector import ContactDetector, ContactEvent, ContactThresholds
from robot_dynamics_ros.contact.observer import MomentumObserver, ObserverSettings, WrenchEstimate
from robot_dynamics_ros.control.laws.control_law import ControlLaw
from robot_dynamics_ros.control.reactions import ContactReactions, ReactionSettings
from robot_dynamics_ros.control.setup import BuiltLoop
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import compile_kernel


class ContactWatch:
    """Estimates external efforts on the arm of a loop, detects contacts, and reacts to them.

    Attributes:
        observer: Observer of external efforts.
        detector: Contact detector.
        reactions: Reactions of the arm.
        wrench: Estimator of the wrench at ``wrench_frame``; None without such a frame.
        subscribed: Whether external efforts have a subscriber; otherwise they are computed only if
            contact detection or the law needs them.
        observing: Whether the observer has processed the last tick.

    Args:
        built: The loop and its components.
        parameters: Parameters by name, see ``OBSERVER`` and ``REACTION``.
        follower: See ``ContactReactions.configure``.

    Raises:
        UnknownNameError: There is no frame ``wrench_frame``.
        ConfigurationError: A file cannot be read, or the thresholds are for another bandwidth.
    """

    def __init__(
        self, built: BuiltLoop, parameters: Mapping[str, Any], follower: ControlLaw | None
    ) -> None:
        loop, kernels, tree = built.loop, built.kernels, built.loop.tree
        self._loop, names = loop, tree.joint_names
        self.observer = MomentumObserver(tree, kernels.inverse_dynamics)
        path = parameters['contact_thresholds']
        bands = ContactThresholds.read(path, names) if path else ContactThresholds.coarse(tree)
        self.observer.fit = bands.fit
        self.detector = ContactDetector(tree, kernels.gravity_forces, self.observer, bands)
        self.wrench: WrenchEstimate | None = None
        if frame := parameters['wrench_frame']:
            motion = compile_kernel(tree, outputs=('frame_motion',), frame=frame).frame_motion
            self.wrench = WrenchEstimate(motion, tree.n)
        self.reactions = ContactReactions(loop, kernels)
        self.check(parameters)
        self.configure(parameters, follower)
        self.subscribed = self.observing = False
        self._commanded: deque[Array] = deque(maxlen=1)
        self._external: deque[Array] = deque(maxlen=1)
        self._measured = np.full(tree.n, np.nan)

    def check(self, parameters: Mapping[str, Any]) -> None:
        """Check that parameters are compatible.

        Raises:
            ConfigurationError: The thresholds are for an observer of another bandwidth.
        """
        bandwidth = np.asarray(parameters['observer_bandwidth'], dtype=float)
        if parameters['contact_reaction'] != 'off' and not self.detector.thresholds.valid_for(
            bandwidth
        ):
            calibrated = ', '.join(f'{x:g}' for x in self.detector.thresholds.bandwidth)
            raise ConfigurationError(
                'contact_thresholds',
                f'were calibrated with an observer_bandwidth of {calibrated} 1/s',
                'use that, or calibrate again',
            )

    def configure(self, parameters: Mapping[str, Any], follower: ControlLaw | None) -> None:
        """Apply parameters, the loop's settings, and the law that follows in a reaction."""
        self._settings, loop = ObserverSettings.of(parameters), self._loop.settings
        self.observer.configure(self._settings, loop.discretization, loop.period)
        self.reactions.configure(ReactionSettings.of(parameters), follower)
        brake = self._loop.stopping.brake
        brake.delay, brake.acting_effort = self.detector.thresholds.delay, self.acting_effort

    @property
    def reacts(self) -> bool:
        """Whether the arm reacts to a contact."""
        return self.reactions.settings.contact_reaction not in ('off', 'report')

    @property
    def detects(self) -> bool:
        """Whether contact detection is on."""
        return self.reactions.settings.contact_reaction != 'off'

    @property
    def last(self) -> ContactEvent | None:
        """The last contact."""
        return self.detector.last

    @property
    def needs_measured_effort(self) -> bool:
        """Whether the measured efforts of the states are needed."""
        return self._needed and self._settings.observer_effort == 'measured'

    @property
    def _needed(self) -> bool:
        """Whether external efforts are needed."""
        return self.subscribed or self.detects or self._loop.law.answers_force

    def update(self) -> ContactEvent | None:
        """Process the last tick after its command was sent; return a new contact, or None."""
        if not self._needed:
            self.observing = False
            return None
        loop, observer, event = self._loop, self.observer, None
        step = loop.state.dt
        if self.observing and step > 0.0:
            observer.update(step, loop.q, loop.v, self._applied_effort())
            self._external.append(observer.raw.copy())
            if self.detects:
                event = self.detector.update(step)
        else:
            observer.begin(loop.q, loop.v)
            self.detector.begin()
            self._clear_histories()
        self.observing = True
        if self.reacts:
            self.reactions.record_position()
        self._commanded.append(loop.motor_effort())
        self._measured[:] = loop.measured_effort
        return event

    def _clear_histories(self) -> None:
        """Clear the histories; they span the delay from a command to its effect."""
        delay, period = self.detector.thresholds.delay, self._loop.settings.period
        steps = round(delay / period)
        self._commanded, self._external = deque(maxlen=steps + 1), deque(maxlen=max(steps, 1))

    def acting_effort(self) -> Array | None:
        """Return the effort that acts until the next command takes effect, shape (n,), N m or N.

        It is the mean of the commands in transit plus the mean external effort over the same time;
        None if unknown, as after a gap. Allocates.
        """
        if not (self.observing and self._external and self._loop.state.dt > 0.0):
            return None
        return np.asarray(np.mean(self._commanded, axis=0) + np.mean(self._external, axis=0))

    def _applied_effort(self) -> Array:
        """Return the efforts since the last state, shape (n,); commanded where not measured.

        A simulator measures the effort over the last step, an arm the present one.
        """
        if self._settings.observer_effort == 'commanded':
            return self._commanded[0]
        measured = self._loop.measured_effort
        if self._loop.settings.discretization != 'semi_implicit':
            measured = 0.5 * (self._measured + measured)
        return np.where(np.isfinite(measured), measured, self._commanded[0])

    def status(self) -> dict[str, str]:
        """Return the diagnostics of contacts, texts by name; allocates."""
        if not self.detects:
            return {}
        ratio, last = self.detector.ratio.max(), self.last
        return {
            'contacts': str(self.detector.count),
            'last_contact': 'none' if last is None else str(last),
            'touched_link': 'none' if last is None else last.link,
            'external_effort_by_dead_band': f'{ratio:.2f}',
        }

    def update_wrench(self) -> None:
        """Update the estimated wrench, if there is a frame for it."""
        if self.wrench is not None:
            self.wrench.update(self._loop.q, self.observer.effort)
