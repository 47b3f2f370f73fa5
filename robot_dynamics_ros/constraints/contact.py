# SPDX-License-Identifier: Apache-2.0
r"""Force along what a program binds: one row of f whose reaction is wanted, not its value.

A row with a contact says where a surface is thought to be, f being the distance from it along its
outward normal. Along the other rows the program is followed as ever. Across the surface the
position no longer counts, only its rate against the surface's own, and the drives press with F:

.. math:: u_c = -(\beta + \Gamma_1(\dot f - \dot f_w)),\qquad
          Q = M\,(\Gamma^{\#}u + Pv) + b - \Gamma_c^TF - \Gamma_t^TN_t .

While the surface holds the arm, :math:`\ddot f = \dot f = 0`, (2.19) gives the reaction
:math:`N_c = F` whatever the surface's stiffness; and since
:math:`\Lambda(\ddot f + \Gamma_1\dot f) = N_c - F` with :math:`\Lambda` the arm's mass across it,
the contact with any passive surface is stable for a constant F.

Source: A. T. Zaremba 1990, (2.19), (3.1); constraint-stabilization, sections 2 and 3.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import Any, NamedTuple

from robot_dynamics_ros.errors import ProgramError, UnknownNameError
from robot_dynamics_ros.yaml_reader import Section, not_negative, positive, text

#: What is done when a contact is lost.
LOST = ('retract', 'approach')
_SLOPE = 0.5  # of the wanted speed across the surface, m/s^2
_STALLED, _STALL_S = 0.3, 0.05  # part of the wanted speed, for so long: something is in the way
_GONE_S = 0.02  # after so long without a force the contact counts as lost
#: An error of this many newtons makes a joint that sticks break away as fast as 1 m/s would.
_PER_SPEED = 100.0
_FALLEN_S = 0.1  # the same after so long of falling, where no force is measured
_ABOVE = 2.0  # 1/s: how much faster it comes down per metre above the clearance
_BACK, _ARRIVES = 0.1, 10.0  # m/s and 1/s: how fast it goes back, and nears the clearance
_RELEASED_S = 0.02  # in which the drives no longer press with the wanted force


class Contact(NamedTuple):
    """What is wanted of a row that is pressed on.

    Attributes:
        force: Wanted, N.
        stiffness: Guess of the surface's, N/m: how fast the force is corrected.
        speed: Of the touch-down, m/s.
        clearance: Above the surface's expected place from which on that speed holds, m.
        most: Largest force that the drives press with, N.
        threshold: From which on it counts as a contact, N.
        depth: Below the surface's expected place, from which on there is none, m.
        ramp: Time in which the force goes to the wanted one, s.
        lost: One of ``LOST``: back to the clearance and stay there, or touch down again.
    """

    force: float
    stiffness: float = 1e4
    speed: float = 0.02
    clearance: float = 0.005
    most: float = math.inf
    threshold: float = 0.0
    depth: float = 0.03
    ramp: float = 0.3
    lost: str = 'retract'

    @property
    def rate(self) -> float:
        """How fast a measured error of the force is corrected, 1/s."""
        return min(max(self.stiffness / 1000.0, 1.0), 5.0)


def read_contact(place: str, value: Any) -> Contact:
    """Return the contact of a row from a program file.

    Raises:
        ConfigurationError: A key or value is wrong; names it.
    """
    section = Section(place, value)
    force = section.take('force', positive)
    limits = section.maybe('limits', lambda p, x: Section(p, x))
    most = 2.0 * force
    if limits is not None:
        most = limits.take('force', positive, most)
        limits.close()
    contact = Contact(
        force,
        section.take('stiffness', positive, 1e4),
        section.take('speed', positive, 0.02),
        section.take('clearance', not_negative, 0.005),
        most,
        section.take('threshold', positive, max(0.05 * force, 0.5)),
        section.take('depth', positive, 0.03),
        section.take('ramp', positive, 0.3),
        section.take('lost', _lost, 'retract'),
    )
    section.close()
    if contact.most < force:
        raise ProgramError(f'{place}, limits, force', f'is {most:g}', f'the force is {force:g}')
    return contact


def _lost(place: str, value: Any) -> str:
    if text(place, value) not in LOST:
        raise UnknownNameError(f'{place}: answer to a lost contact', value, LOST)
    return str(value)


class ContactPhase(Enum):
    """What a row with a contact is doing."""

    #: It comes down with the wanted speed.
    APPROACHING = 'approaching'
    #: It presses.
    PRESSING = 'pressing'
    #: The contact was lost: it is back at the clearance, and stays there.
    RETRACTED = 'retracted'


class ContactControl:
    """The force across one surface: touches down, presses, notices when the surface is gone.

    Attributes, written by :meth:`advance`:
        phase: What it is doing.
        force: F, with which the drives press, N; never negative.
        held: 1 where the position counts, 0 where only the rate does.
        place: Wanted f where the position counts, m.
        rate: Wanted rate of f, m/s.
        wish: Velocity in whose direction a joint that sticks shall break away, m/s.
        touches: How often a surface was met.

    Args:
        contact: What is wanted.
    """

    def __init__(self, contact: Contact) -> None:
        self.contact = contact
        self.reset()

    def reset(self) -> None:
        """Begin above the surface."""
        self.phase, self.touches = ContactPhase.APPROACHING, 0
        self.force = self.held = self.place = self.rate = self.wish = 0.0
        self._sum = self._since = self._slow = self._gone = self._left = 0.0
        self._moved = False

    def advance(self, h: float, f: float, f_dot: float, measured: float, *, sensed: bool) -> None:
        """Decide about the coming period.

        Args:
            h: Time since the last call, s.
            f: Distance from the expected surface, m.
            f_dot: Its rate against the surface's own, m/s.
            measured: Force of the surface on the arm along the normal, N.
            sensed: Whether it is measured; else it is only observed, and not fed back.
        """
        self._left = max(self._left - h / _RELEASED_S * self.contact.force, 0.0)
        self.force = self._left
        if self.phase is ContactPhase.APPROACHING:
            self._come_down(h, f, f_dot, measured, sensed)
        elif self.phase is ContactPhase.PRESSING:
            self._press(h, f, f_dot, measured, sensed)
        else:
            self._go_back(h)

    def _come_down(self, h: float, f: float, f_dot: float, measured: float, sensed: bool) -> None:
        wanted = self.contact.speed + _ABOVE * max(f - self.contact.clearance, 0.0)
        self.rate = max(self.rate - _SLOPE * h, -wanted)
        self.wish = 0.0
        slow = self._moved and -f_dot < _STALLED * -self.rate
        self._slow = self._slow + h if slow else 0.0
        self._moved = self._moved or -f_dot > 0.7 * self.contact.speed
        met = sensed and measured > self.contact.threshold
        if met or self._slow > _STALL_S:
            self.phase, self.touches = ContactPhase.PRESSING, self.touches + 1
            self._sum = self._since = self._gone = 0.0
        elif f < -self.contact.depth:
            self._retract(f)

    def _press(self, h: float, f: float, f_dot: float, measured: float, sensed: bool) -> None:
        contact = self.contact
        self._since += h
        x = min(self._since / contact.ramp, 1.0)
        wanted = x * x * (3.0 - 2.0 * x) * contact.force
        self.rate *= max(1.0 - 50.0 * h, 0.0)
        error = wanted - measured if sensed else 0.0
        if self._since > 2.0 * contact.ramp:  # what a soft surface is late by is no error
            self._sum += contact.rate * h * error
        self._sum = max(-wanted, min(contact.most - wanted, self._sum))
        self.force, self.wish = self._left + wanted + self._sum, -error / _PER_SPEED
        # Without a force, or falling: whatever was pressed on is not there any more.
        gone = measured < 0.1 * wanted if sensed else -f_dot > 3.0 * contact.speed
        self._gone = self._gone + h if gone and x == 1.0 else 0.0
        if self._gone > (_GONE_S if sensed else _FALLEN_S):
            self._lose(f)

    def _lose(self, f: float) -> None:
        self._left = self.force
        if self.contact.lost == 'retract':
            self._retract(f)
            return
        self.phase, self._moved = ContactPhase.APPROACHING, False
        self.wish = self._slow = 0.0

    def _retract(self, f: float) -> None:
        """Hold it where it is, and go back from there: nothing steps."""
        self.phase, self.held, self.place, self.wish = ContactPhase.RETRACTED, 1.0, f, 0.0

    def _go_back(self, h: float) -> None:
        away = self.contact.clearance - self.place
        fastest = max(-_BACK, min(_BACK, _ARRIVES * away))
        self.rate += max(-_SLOPE * h, min(_SLOPE * h, fastest - self.rate))
        self.place += self.rate * h
