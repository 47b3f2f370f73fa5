# SPDX-License-Identifier: Apache-2.0
r"""Contact force control: one row of f for which the reaction is controlled, not the value.

A row with a contact defines the expected position of a surface; f is the distance from it along
its outward normal. The other rows are controlled as usual. Along the normal the position is not
controlled, only its rate relative to the surface is, and the drives apply the force F:

.. math:: u_c = -(\beta + \Gamma_1(\dot f - \dot f_w)),\qquad
          Q = M\,(\Gamma^{\#}u + Pv) + b - \Gamma_c^TF - \Gamma_t^TN_t .

While the arm rests on the surface, :math:`\ddot f = \dot f = 0`, and (2.19) gives the reaction
:math:`N_c = F` for any surface stiffness. Since
:math:`\Lambda(\ddot f + \Gamma_1\dot f) = N_c - F`, with :math:`\Lambda` the effective mass of the
arm along the normal, kg, the contact with any passive surface is stable for a constant F, as long
as the effort acts at once.

A surface of the stiffness k gives :math:`N_c = -kf`, so

.. math:: \Lambda\ddot f + \Lambda\Gamma_1\dot f + kf = -F .

Sampled and delayed, this loop decays by the factor :math:`\rho` per period h (``contact_loop``;
undelayed :math:`\rho = e^{sh}` with the slower root s); with :math:`\rho \ge 1` the surface is too
stiff for the delay, and the law refuses it. A measured force is corrected by
:math:`\dot F = c\,(F_r - N_c)`. Undelayed, the characteristic polynomial
:math:`\Lambda s^3 + \Lambda\Gamma_1s^2 + ks + ck` is stable for :math:`c < \Gamma_1`, whatever k
is, and the force does not overshoot for a quarter of the slowest decay. Since k is an estimate,
an eighth is used,

.. math:: c = -\frac{\ln\rho}{8h} \quad [1/s].

Source: A. T. Zaremba 1990, (2.19), (3.1); constraint-stabilization, sections 2 and 3; the
criterion of Routh and Hurwitz.
"""

from __future__ import annotations

import math
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.dynamics.sampled_loop import FeedbackLoop, Sampling, spectral_radius
from robot_dynamics_ros.errors import ProgramError, known_name
from robot_dynamics_ros.yaml_reader import Readers, Section, at_most, not_negative, positive

#: Responses to a lost contact.
ON_CONTACT_LOSS = ('retract', 'approach')
_ACCELERATION = 0.5  # acceleration limit of the reference speed along the normal, m/s^2
#: A speed below this fraction of the reference for this time means contact.
_STALL_RATIO, _STALL_S = 0.3, 0.05
_LOSS_S = 0.02  # time without force after which the contact counts as lost
#: Force error, N, that breaks a joint out of stiction like a reference velocity of 1 m/s.
_FORCE_PER_SPEED = 100.0
_FALL_S = 0.1  # the same for falling, if no force is measured
_APPROACH_GAIN = 2.0  # 1/s: increase of the approach speed per metre above the clearance
_RETRACT_SPEED, _RETRACT_GAIN = 0.1, 10.0  # speed limit, m/s, and position gain, 1/s
_RELEASE_S = 0.02  # ramp-down time of the reference force after a lost contact


class Contact(NamedTuple):
    """Contact parameters of a row.

    Attributes:
        force: Reference force, N.
        stiffness: k, estimated surface stiffness, N/m; determines the correction of the force.
        speed: Touch-down speed, m/s.
        clearance: Distance above the expected surface within which ``speed`` applies, m.
        max_force: Maximum force of the drives, N.
        threshold: Measured force above which contact is detected, N.
        depth: Distance below the expected surface at which the approach is aborted, m.
        ramp: Ramp-up time of the force, s.
        on_contact_loss: One of ``ON_CONTACT_LOSS``: retract to the clearance and stay there, or
            approach again.
    """

    force: float
    stiffness: float = 1e4
    speed: float = 0.02
    clearance: float = 0.005
    max_force: float = math.inf
    threshold: float = 0.0
    depth: float = 0.03
    ramp: float = 0.3
    on_contact_loss: str = 'retract'


def contact_loop(stiffness: float, mass: float, damping: float) -> FeedbackLoop:
    r"""Return the sampled loop of an arm that rests on a surface, with a constant force.

    Args:
        stiffness: k, stiffness of the surface, N/m.
        mass: :math:`\Lambda`, effective mass of the arm along the normal, kg.
        damping: :math:`\Gamma_1` of the row, 1/s.
    """
    one = np.array([[1.0]])
    subject = f'pressing on a surface of {stiffness:g} N/m'
    return FeedbackLoop(
        'program',
        mass * one,
        0.0 * one,
        mass * damping * one,
        'commanded',
        subject=subject,
        environment=stiffness * one,
    )


def force_gain(loop: FeedbackLoop, sampling: Sampling) -> float:
    """Return c, the integral gain on the measured force error, 1/s.

    Args:
        loop: See :func:`contact_loop`.
        sampling: Period, discretization and delay; with a period of 0 it is continuous.
    """
    if sampling.period > 0.0:
        decay = -math.log(spectral_radius(loop, sampling)) / sampling.period
    else:
        assert loop.environment is not None
        polynomial = loop.mass, loop.damping, loop.environment
        decay = -float(np.roots([x.item() for x in polynomial]).real.max())
    return max(decay, 0.0) / 8.0


def read_contact(place: str, value: Any) -> Contact:
    """Read the contact parameters of a row from a program file.

    Raises:
        ConfigurationError: A key or value is invalid; the message names it.
    """
    section = Section(place, value)
    force = section.take('force', positive)
    limits = section.take('limits', Section, Section('limits', {}))
    max_force = limits.take('force', positive, 2.0 * force)
    limits.close()
    contact = section.build(
        partial(Contact, force, max_force=max_force, threshold=max(0.05 * force, 0.5)),
        {},
        _OPTIONAL,
    )
    section.close()
    if contact.max_force < max(force, contact.threshold):
        raise ProgramError(
            f'{place}, limits, force',
            f'is {max_force:g}',
            f'the force is {force:g}, the threshold {contact.threshold:g}; allow both',
        )
    return contact


_OPTIONAL: Readers = {
    **dict.fromkeys(('stiffness', 'threshold'), positive),
    **dict.fromkeys(('speed', 'depth'), at_most(1.0)),
    'clearance': at_most(1.0, not_negative),
    'ramp': at_most(60.0),
    'on_contact_loss': lambda _, value: known_name(
        'response to a lost contact', value, ON_CONTACT_LOSS
    ),
}


class ContactPhase(Enum):
    """Phase of a row with a contact."""

    #: Approaches the surface at the reference speed.
    APPROACHING = 'approaching'
    #: Applies the force.
    PRESSING = 'pressing'
    #: No contact: moves back to the clearance and stays there.
    RETRACTED = 'retracted'


class ContactControl:
    """Force controller for one surface: touch-down, pressing and detection of a lost contact.

    Attributes, written by :meth:`advance`:
        phase: Current phase.
        force: Force F of the drives, N; never negative.
        position_controlled: 1 if the position is controlled, 0 if only the rate is.
        position_reference: Reference of f if the position is controlled, m.
        rate: Reference rate of f, m/s.
        breakaway_velocity: Velocity in whose direction a joint in stiction is to break away, m/s.
        touches: Number of touch-downs.

    Attributes:
        gain: Integral gain on the measured force error, 1/s, see :func:`force_gain`.

    Args:
        contact: The parameters.
    """

    def __init__(self, contact: Contact) -> None:
        self.contact = contact
        self.reset(0.0)

    def reset(self, gain: float) -> None:
        """Restart with the approach and an integral gain, 1/s."""
        self.gain = gain
        self.phase, self.touches = ContactPhase.APPROACHING, 0
        self.force = self.rate = self.position_controlled = 0.0
        self.position_reference = self.breakaway_velocity = 0.0
        self._integral = self._press_s = self._stall_s = self._loss_s = self._fading = 0.0
        self._moved = False

    def advance(self, h: float, f: float, f_dot: float, measured: float, *, sensed: bool) -> None:
        """Update phase, force and references for the next period.

        Args:
            h: Time since the last call, s.
            f: Distance from the expected surface, m.
            f_dot: Its rate relative to the surface, m/s.
            measured: Force of the surface on the arm along the normal, N.
            sensed: Whether a sensor measures the force; an observer's estimate is not fed back.
        """
        self._fading = max(self._fading - h / _RELEASE_S * self.contact.force, 0.0)
        self.force = self._fading
        if self.phase is ContactPhase.APPROACHING:
            self._approach(h, f, f_dot, measured, sensed)
        elif self.phase is ContactPhase.PRESSING:
            self._press(h, f, f_dot, measured, sensed)
        else:
            self._retract(h)

    def _approach(self, h: float, f: float, f_dot: float, measured: float, sensed: bool) -> None:
        speed = self.contact.speed + _APPROACH_GAIN * max(f - self.contact.clearance, 0.0)
        self.rate = max(self.rate - _ACCELERATION * h, -speed)
        self.breakaway_velocity = 0.0
        stalled = self._moved and -f_dot < _STALL_RATIO * -self.rate
        self._stall_s = self._stall_s + h if stalled else 0.0
        self._moved = self._moved or -f_dot > 0.7 * self.contact.speed
        touched = sensed and measured > self.contact.threshold
        if touched or self._stall_s > _STALL_S:
            self.phase, self.touches = ContactPhase.PRESSING, self.touches + 1
            self._integral = self._press_s = self._loss_s = 0.0
        elif f < -self.contact.depth:
            self._start_retraction(f)

    def _press(self, h: float, f: float, f_dot: float, measured: float, sensed: bool) -> None:
        contact = self.contact
        self._press_s += h
        x = min(self._press_s / contact.ramp, 1.0)
        reference = x * x * (3.0 - 2.0 * x) * contact.force
        self.rate *= max(1.0 - 50.0 * h, 0.0)
        error = reference - measured if sensed else 0.0
        if self._press_s > 2.0 * contact.ramp:  # do not integrate the lag of a soft surface
            self._integral += self.gain * h * error
        self._integral = max(-reference, min(contact.max_force - reference, self._integral))
        self.force = min(self._fading + reference + self._integral, contact.max_force)
        self.breakaway_velocity = -error / _FORCE_PER_SPEED
        # The contact is lost if there is no force or, without a sensor, if the tool falls.
        lost = measured < 0.1 * reference if sensed else -f_dot > 3.0 * contact.speed
        self._loss_s = self._loss_s + h if lost and x == 1.0 else 0.0
        if self._loss_s > (_LOSS_S if sensed else _FALL_S):
            self._handle_loss(f)

    def _handle_loss(self, f: float) -> None:
        self._fading = self.force
        if self.contact.on_contact_loss == 'retract':
            self._start_retraction(f)
            return
        self.phase, self._moved = ContactPhase.APPROACHING, False
        self.breakaway_velocity = self._stall_s = 0.0

    def _start_retraction(self, f: float) -> None:
        """Start the retraction at the current f, so that the reference does not jump."""
        self.phase, self.position_controlled = ContactPhase.RETRACTED, 1.0
        self.position_reference, self.breakaway_velocity = f, 0.0

    def _retract(self, h: float) -> None:
        distance = self.contact.clearance - self.position_reference
        speed = max(-_RETRACT_SPEED, min(_RETRACT_SPEED, _RETRACT_GAIN * distance))
        self.rate += max(-_ACCELERATION * h, min(_ACCELERATION * h, speed - self.rate))
        self.position_reference += self.rate * h
