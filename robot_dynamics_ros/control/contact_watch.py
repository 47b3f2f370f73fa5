# SPDX-License-Identifier: Apache-2.0
"""Observation of external efforts, detection of contacts after every command, and reactions.

A reaction (stop, hold, retract or float) lasts until the arm is told to resume.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from robot_dynamics_ros.contact.detector import ContactDetector, ContactEvent, ContactThresholds
from robot_dynamics_ros.contact.observer import MomentumObserver, ObserverSettings, WrenchEstimate
from robot_dynamics_ros.control.loop import ControlLoop
from robot_dynamics_ros.control.trajectories.approach import ApproachLimits
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.parameters import Parameter, Values
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import compile_kernel

#: Reactions by name.
REACTIONS = {
    'off': 'no contact detection',
    'report': 'a warning',
    'stop': 'the arm brakes and holds where it comes to rest',
    'hold': 'the arm brakes and returns to the position of the contact',
    'retract': 'the arm brakes and moves back along its path',
    'float': 'the arm is compliant, with gravity compensation and damping',
}
_MAX_POSITIONS, _STEPS = 400, 50  # past positions; their number per ``contact_retract_way``
#: Return path: fraction of the velocity limits, time to reach it, s, bandwidth, rad/s, and time at
#: that speed, s, within which a point must be before the next one is approached.
_SPEED, _ACCELERATING_S, _BANDWIDTH, _AHEAD_S = 0.25, 0.2, 50.0, 0.02


#: Parameters of the reaction to a contact.
REACTION = (
    Parameter(
        'contact_reaction',
        'off',
        f'Reaction to a contact: {"; ".join(f"{x}: {does}" for x, does in REACTIONS.items())}.',
        choices=tuple(REACTIONS),
    ),
    Parameter(
        'contact_thresholds',
        '',
        'File with thresholds of contact detection, written by command calibrate; empty: coarse '
        'thresholds.',
        fixed=True,
    ),
    Parameter(
        'contact_retract_way',
        0.05,
        'Distance of reaction retract, for the joint that moves farthest.',
        0.0,
        10.0,
        unit='rad or m',
    ),
)


def return_path(positions: list[Array], length: float) -> list[Array]:
    """Return past positions, latest first, up to a path length, rad or m."""
    path, covered = positions[:1], 0.0
    for q in positions[1:]:
        if covered >= length:
            break
        covered += float(np.abs(q - path[-1]).max())
        path.append(q)
    return path


class ContactWatch:
    """Estimates external efforts on the arm of a loop, detects contacts, and reacts to them.

    Attributes:
        observer: Observer of external efforts.
        detector: Contact detector.
        wrench: Estimator of the wrench at ``wrench_frame``; None without such a frame.
        subscribed: Whether external efforts have a subscriber; otherwise they are computed only if
            contact detection or the law needs them.
        observing: Whether the observer has processed the last tick.

    Args:
        loop: The loop.
        parameters: Parameters by name, see ``OBSERVER`` and ``REACTION``.

    Raises:
        UnknownNameError: There is no frame ``wrench_frame``.
        ModelError: It is fixed to the base.
        ConfigurationError: A file cannot be read, or the thresholds are for another bandwidth.
    """

    def __init__(self, loop: ControlLoop, parameters: Values) -> None:
        kernels, tree = loop.kernels, loop.tree
        self._loop, names = loop, tree.joint_names
        self.observer = MomentumObserver(tree, kernels.inverse_dynamics)
        path = parameters['contact_thresholds']
        bands = ContactThresholds.read(path, names) if path else ContactThresholds.coarse(tree)
        self.detector = ContactDetector(tree, kernels.gravity_forces, self.observer, bands)
        self.wrench: WrenchEstimate | None = None
        if frame := parameters['wrench_frame']:
            tree.moving_frame(frame, 'wrench_frame')
            motion = compile_kernel(tree, outputs=('frame_motion',), frame=frame).frame_motion
            self.wrench = WrenchEstimate(motion, tree.n)
        self._positions: deque[Array] = deque(maxlen=_MAX_POSITIONS)
        self._path: list[Array] = []
        fastest = _SPEED * tree.velocity_limits()
        self._ahead = _AHEAD_S * fastest
        self._back = ApproachLimits.of(fastest, fastest / _ACCELERATING_S, _BANDWIDTH)
        self.check(parameters)
        self.configure(parameters)
        self.subscribed = self.observing = False
        self._commanded: deque[Array] = deque(maxlen=1)
        self._external: deque[Array] = deque(maxlen=1)
        self._measured = np.full(tree.n, np.nan)
        loop.use_acting_effort(self.acting_effort)

    def check(self, parameters: Values) -> None:
        """Check that parameters are compatible.

        Raises:
            ConfigurationError: The thresholds are for an observer of another bandwidth, or for a
                loop with another delay.
        """
        settings, thresholds = self._loop.settings, self.detector.thresholds
        late = settings.delay * settings.period
        if (
            parameters['contact_thresholds']
            and abs(thresholds.delay - late) > 0.5 * settings.period
        ):
            raise ConfigurationError(
                'contact_thresholds',
                f'were calibrated with a delay of {thresholds.delay:g} s, but that of the driver '
                f'profile, or of parameter delay, is {late:g} s',
                'correct one of them',
            )
        bandwidth = np.asarray(parameters['observer_bandwidth'], dtype=float)
        if parameters['contact_reaction'] != 'off' and not thresholds.valid_for(bandwidth):
            calibrated = ', '.join(f'{x:g}' for x in thresholds.bandwidth)
            raise ConfigurationError(
                'contact_thresholds',
                f'were calibrated with an observer_bandwidth of {calibrated} 1/s',
                'use that, or calibrate again',
            )

    def configure(self, parameters: Values) -> None:
        """Apply parameters, see ``OBSERVER`` and ``REACTION``, and the loop's settings."""
        self._settings, loop = ObserverSettings.of(parameters), self._loop
        self.observer.configure(self._settings, loop.settings.discretization, loop.settings.period)
        self._reaction = parameters['contact_reaction']
        if not self.detects:  # what it holds would look like a hit when it is switched on
            self.detector.reset()
        self._retract_way = parameters['contact_retract_way']

    def subscribe(self, subscribed: bool) -> None:
        """Note whether external efforts have a subscriber."""
        self.subscribed = subscribed

    @property
    def reacts(self) -> bool:
        """Whether the arm reacts to a contact."""
        return self._reaction not in ('off', 'report')

    @property
    def detects(self) -> bool:
        """Whether contact detection is on."""
        return self._reaction != 'off'

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
        if (
            self.observing
            and step > 0.0
            and observer.update(step, loop.q, loop.v, self._applied_effort())
        ):
            self._external.append(observer.raw.copy())
            if self.detects:
                event = self.detector.update(step)
        else:
            self.detector.begin(loop.q, loop.v)
            steps = round(loop.settings.delay)  # from a command to its effect
            self._commanded, self._external = deque(maxlen=steps + 1), deque(maxlen=max(steps, 1))
            self._positions.clear()  # the way from there to here is unknown
        self.observing = True
        q, least = loop.q, self._retract_way / _STEPS
        if not self._positions or float(np.abs(q - self._positions[-1]).max()) > least:
            self._positions.append(q.copy())
        self._commanded.append(loop.motor_effort())
        self._measured[:] = loop.measured_effort
        return event

    def react(self) -> None:
        """Note the way back from a contact at the present state."""
        loop, self._path = self._loop, []
        self._holds = loop.generator.holds
        if self._reaction in ('hold', 'retract'):
            length = self._retract_way if self._reaction == 'retract' else 0.0
            back = return_path([loop.q.copy(), *reversed(self._positions)], length)
            inside = np.clip(back, loop.tree.reference_lower, loop.tree.reference_upper)
            self._path = [loop.reference.position, *inside]  # it begins wherever the arm rests
        self._positions.clear()

    def go_back(self) -> None:
        """Approach the next point of the return path, once the arm rests and the last is near."""
        path, generator = self._path, self._loop.generator
        if generator.holds != self._holds:  # no motion resumes, as after a timeout
            path.clear()
        if not path or self._loop.braking:
            return
        if (np.abs(path[0] - generator.reference.position) <= self._ahead).all():
            del path[0]
            if path:
                generator.approach(path[0], self._back)
                self._holds = generator.holds

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
