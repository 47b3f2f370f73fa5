# SPDX-License-Identifier: Apache-2.0
r"""The efforts with which a program's contacts are pressed on.

The reaction's feed-forward :math:`-\Gamma_c^TF` is corrected by the measured force; what the
external efforts hold besides, friction along the surface above all, is fed forward through a low
pass, no more of it than the force across times ``FRICTION``.
"""

from __future__ import annotations

import math

import numpy as np

from robot_dynamics_ros.constraints.contact import ContactControl, ContactPhase
from robot_dynamics_ros.constraints.program_kernel import ProgramKernel
from robot_dynamics_ros.control.laws.control_law import ExternalEffort
from robot_dynamics_ros.spatial.scalar import Array

#: Largest coefficient of friction that is believed.
FRICTION = 1.0
#: What a force without a sensor may be off by besides the joints' friction, N.
UNSURE = 0.5
_LOW_PASS = 200.0  # 1/s, of the friction along the surface
_LONGEST = 0.02  # s: steps beyond count as that long


class ContactPress:
    """The contacts of a program between two ticks.

    Args:
        kernel: Of the program.
        external: What the world does to the joints.

    Attributes:
        controls: One per contact.
    """

    def __init__(self, kernel: ProgramKernel, external: ExternalEffort) -> None:
        program = kernel.program
        self._kernel, self._external = kernel, external
        self._rows = [row for row, _ in program.contacts]
        self._along = [i for i in range(program.m) if i not in self._rows]
        self.controls = [ContactControl(contact) for _, contact in program.contacts]
        self._friction, self._effort = np.zeros(program.m), np.zeros(program.n)
        self._time, self._step = math.nan, 0.0

    def reset(self, external: ExternalEffort) -> None:
        """Begin above the surfaces."""
        self._external, self._time = external, math.nan
        self._friction.fill(0.0)
        for control in self.controls:
            control.reset()

    def begin(self, t: float) -> None:
        """Tell the program what is wanted across the surfaces at a time, s."""
        self._step = min(max(t - self._time, 0.0), _LONGEST) if t > self._time else 0.0
        self._time = t
        kernel = self._kernel
        for k, (row, control) in enumerate(zip(self._rows, self.controls, strict=True)):
            kernel.held[k], kernel.wish[k] = control.held, control.wish
            place = control.contact.clearance if control.held else 0.0
            kernel.set_row_offset(row, place, control.rate)
        kernel.external[:] = self._external.effort

    def decide(self) -> None:
        """Choose the forces of the coming period, after the program was evaluated."""
        kernel, h, sensed = self._kernel, self._step, self._external.measured
        f, rate, reaction = kernel.f.tolist(), kernel.f_dot.tolist(), kernel.reaction.tolist()
        across = 0.0
        for row, control in zip(self._rows, self.controls, strict=True):
            control.advance(h, f[row], rate[row], reaction[row], sensed=sensed)
            if control.phase is ContactPhase.PRESSING:
                across += max(reaction[row], 0.0)
        part, most = -math.expm1(-_LOW_PASS * h), FRICTION * across
        for i in self._along:
            wanted = max(-most, min(most, reaction[i]))
            self._friction[i] += part * (wanted - self._friction[i])
        for row, control in zip(self._rows, self.controls, strict=True):
            self._friction[row] = control.force

    def add(self, out: Array) -> None:
        """Add the efforts that press, and those against friction, to others, shape (n,)."""
        np.dot(self._friction, self._kernel.Gamma, out=self._effort)
        out -= self._effort

    def reactions(self, multipliers: Array) -> Array:
        """Return reactions with those of the contacts as they are measured or observed, (m,)."""
        multipliers[self._rows] = self._kernel.reaction[self._rows]
        return multipliers

    def status(self) -> dict[str, str]:
        """Return what each contact is doing."""
        words, unsure = {}, self.uncertainty()
        for row, control in zip(self._rows, self.controls, strict=True):
            name = self._kernel.program.stack.rows[row]
            words[f'contact {name}'] = (
                f'{control.phase.value}, {self._kernel.reaction[row]:.2f} N, '
                f'pressing with {control.force:.2f} N +- {unsure[row]:.2f} N'
            )
        return words

    def uncertainty(self) -> Array:
        r"""Return by what the reactions may be off, shape (m,): 0 with a sensor.

        Without one nothing tells a joint that sticks from a contact: the Coulomb friction of all
        joints, mapped to the rows, :math:`|\Gamma^{\#T}|\,\tau_c`, and ``UNSURE`` besides.
        """
        if self._external.measured:
            return np.zeros(len(self._friction))
        matrix, tree = self._kernel.inverse().matrix(), self._kernel.program.tree
        return np.asarray(np.abs(matrix).T @ tree.coulomb_friction + UNSURE)
