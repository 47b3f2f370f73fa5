# SPDX-License-Identifier: Apache-2.0
"""A frame that stands, moves along a path, or turns about an axis: what surfaces are tied to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.constraints.curves import unit
from robot_dynamics_ros.constraints.jet import Jet, compose, stack
from robot_dynamics_ros.constraints.motion import Motion
from robot_dynamics_ros.constraints.signals import Constant, Signal
from robot_dynamics_ros.errors import ShapeError
from robot_dynamics_ros.spatial.scalar import Array, cos, cross_matrix, sin


@dataclass(frozen=True)
class FrameJets:
    """Origin and axes of a moving frame in base axes: jets of shape (3,)."""

    origin: Jet
    axes: tuple[Jet, Jet, Jet]


class MovingFrame:
    r"""A frame given in time: its origin along a signal, its axes turned about a fixed axis.

    .. math:: C(t) = C_k(\alpha(t))\,C_0, \qquad
              C_k(\alpha) = kk^T + \cos\alpha\,(E - kk^T) + \sin\alpha\,\langle k\rangle

    Args:
        origin: Signal of size 3, m, base axes.
        rotation: :math:`C_0`, shape (3, 3); the unit matrix if None.
        axis: Turning axis k in base axes, shape (3,); through the origin.
        angle: Signal of size 1, rad; not turning if None.

    Raises:
        ShapeError: A signal has the wrong size.
        ParameterError: The axis is zero.
    """

    def __init__(
        self,
        origin: Signal | None = None,
        rotation: Array | None = None,
        axis: Sequence[float] = (0.0, 0.0, 1.0),
        angle: Signal | None = None,
    ) -> None:
        self.origin = origin or Constant([0.0, 0.0, 0.0])
        self.angle = angle or Constant([0.0])
        for name, signal, size in (('origin', self.origin, 3), ('angle', self.angle, 1)):
            if signal.size != size:
                raise ShapeError(name, (signal.size,), f'({size},)')
        C0 = np.eye(3) if rotation is None else rotation
        k = unit('axis', axis)
        along = np.outer(k, k)
        # Columns of the matrices are the axes of the frame; rows base components.
        self._fixed = along @ C0
        self._cosine = (np.eye(3) - along) @ C0
        self._sine = cross_matrix(k) @ C0

    @property
    def signals(self) -> tuple[Signal, Signal]:
        """The signals that move it: origin and angle."""
        return self.origin, self.angle

    def jets(self, motion: Motion, origin: Jet, angle: Jet) -> FrameJets:
        """Return origin and axes, given the jets of the two signals."""
        a = angle.value[0]
        c, s = cos(a), sin(a)
        turn = stack([compose(angle, c, -s, -c), compose(angle, s, c, -s)])
        x, y, z = (self._axis(i, turn, motion) for i in range(3))
        return FrameJets(origin, (x, y, z))

    def _axis(self, i: int, turn: Jet, motion: Motion) -> Jet:
        parts: Array = np.column_stack([self._cosine[:, i], self._sine[:, i]])
        return parts @ turn + motion.fixed(self._fixed[:, i])
