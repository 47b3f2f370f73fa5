# SPDX-License-Identifier: Apache-2.0
r"""The gravity that efforts fit, in words.

Inverse dynamics is linear in the gravity vector,
:math:`\tau(g) = \tau(g_0) + G(q)(g - g_0)`, so another gravity is one of the causes of a residual
(``residual_causes``). Components in unobservable directions are not changed.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.spatial.scalar import Array

#: Advice to set the gravity of command ``analyze``.
ADVICE = 'analyze with --gravity {}'
_CERTAIN = 0.9  # least explained fraction to report gravity as the cause
_POSSIBLE = 0.5  # least explained fraction to report gravity as a possible cause
_REVERSED = -0.5  # of gravity: largest component along that of the model that is against it
_COMMON = (9.8, 9.80665, 9.81)  # of Gazebo, standard, of MuJoCo; m/s^2
_COMMON_TOLERANCE = 5e-4  # m/s^2
_LEAST_CHANGE = 1e-4  # smaller differences are not reported, m/s^2
_ABSENT = 0.05  # fraction of gravity below which it is missing in the efforts
_LEAST_TILT = math.radians(0.1)  # tilt that is reported
_SAME_SIZE = 0.05  # relative tolerance of the magnitude of a tilted gravity


class GravityFit(NamedTuple):
    """The gravity of a model, and that which efforts fit.

    Attributes:
        model: Gravity of the model, shape (3,), m/s^2, base frame.
        fitted: Gravity fitted to the efforts, shape (3,), m/s^2, base frame.
        squares_before, squares_after: Squared residual of each joint that the other causes leave,
            and that all leave, summed over the instants, shape (n,), (N m)^2 or N^2.
        effort: Squared effort of each joint, likewise.
        counts: Number of instants of each joint, shape (n,).
    """

    model: Array
    fitted: Array
    squares_before: Array
    squares_after: Array
    effort: Array
    counts: Array

    def _relative(self, squares: Array) -> float:
        """Return squared residuals of all joints relative to the effort of each, RMS."""
        used = self.effort > 0.0
        weight = np.where(used, self.counts / np.where(used, self.effort, 1.0), 0.0)
        return math.sqrt(float(weight @ squares) / max(1.0, float(self.counts[used].sum())))

    @property
    def before(self) -> float:
        """RMS residual of all joints relative to the effort, without the fit."""
        return self._relative(self.squares_before)

    @property
    def after(self) -> float:
        """RMS residual of all joints relative to the effort, with the fit."""
        return self._relative(self.squares_after)

    @property
    def explained(self) -> float:
        """Fraction of the squared relative residual that the fit explains."""
        return 1.0 - (self.after / self.before) ** 2 if self.before > 0.0 else 0.0

    def _rms(self, squares: Array) -> Array:
        return np.sqrt(squares / np.maximum(self.counts, 1.0))

    @property
    def verdict(self) -> str:
        """Classification: 'mismatch', 'tilt', 'compensated', 'perhaps', or 'agrees'."""
        change = float(np.linalg.norm(self.fitted - self.model))
        if change < _LEAST_CHANGE or self.explained < _POSSIBLE:
            return 'agrees'
        if self.explained < _CERTAIN:
            return 'perhaps'
        size, own = np.linalg.norm(self.fitted), np.linalg.norm(self.model)
        if size < _ABSENT * own:
            return 'compensated'
        if self.tilt < _LEAST_TILT:
            return 'mismatch'
        return 'tilt' if abs(size - own) < _SAME_SIZE * own else 'perhaps'

    @property
    def is_common_value(self) -> bool:
        """Whether the verdict is 'mismatch' and the magnitude is common in simulators."""
        size = float(np.linalg.norm(self.fitted))
        common = any(abs(size - value) < _COMMON_TOLERANCE for value in _COMMON)
        return common and self.verdict == 'mismatch'

    @property
    def is_reversed(self) -> bool:
        """Whether it points against that of the model, as efforts of the wrong sign do."""
        return bool(self.fitted @ self.model < _REVERSED * (self.model @ self.model))

    @property
    def tilt(self) -> float:
        """Angle between the gravity vectors, rad; 0 if one of them is zero."""
        sizes = np.linalg.norm(self.fitted) * np.linalg.norm(self.model)
        if not sizes:
            return 0.0
        return math.acos(min(1.0, max(-1.0, float(self.fitted @ self.model) / float(sizes))))

    def sentence(self, change: str = ADVICE, compensated: str = '') -> str:
        """Describe the fitted gravity in a sentence; empty if it agrees with the model.

        Args:
            change: Advice to set the fitted gravity, with {} for its three components.
            compensated: Advice if the driver compensates gravity; empty to set gravity to zero.
        """
        size, own = np.linalg.norm(self.fitted), np.linalg.norm(self.model)
        vector = ', '.join(f'{x:.4f}' for x in self.fitted)
        comma = ', ' if '[' in change else ' '
        change = change.format(comma.join(f'{round(float(x), 4) + 0.0:g}' for x in self.fitted))
        effect = (
            f'with it the residual falls from {self.before:.2g} to {self.after:.2g} of the effort'
        )
        gazebo = " (Gazebo's own default is 9.8)" if abs(size - 9.8) < 5e-4 else ''
        angle = math.degrees(self.tilt)
        texts = {
            'mismatch': f'gravity differs: the efforts fit {size:.4f} m/s², the model has '
            f'{own:.4f}{gazebo}; {effect}; {change}',
            'tilt': f'gravity points elsewhere: ({vector}) m/s², {angle:.2f}° from that of the '
            f'model, as if the base were tilted; {effect}; {change}',
            'compensated': 'the efforts contain no gravity: the driver compensates it, or '
            f'gravity does not load the arm; {effect}; {compensated or ADVICE.format("0 0 0")}',
            'perhaps': f'{100 * self.explained:.0f} % of the residual looks like gravity '
            f'({vector}) m/s²: masses or centres of mass may be wrong',
        }
        return texts.get(self.verdict, '')

    def figures(self) -> dict[str, Any]:
        """Return the fit as plain numbers, lists and strings."""
        return {
            'model': self.model.tolist(),
            'fitted': self.fitted.tolist(),
            'magnitude': float(np.linalg.norm(self.fitted)),
            'verdict': self.verdict,
            'explained': self.explained,
            'residual_before': self._rms(self.squares_before).tolist(),
            'residual_after': self._rms(self.squares_after).tolist(),
        }
