# SPDX-License-Identifier: Apache-2.0
r"""Generalized-momentum observer of external efforts, and estimation of an external wrench.

With the momentum :math:`p = (M + J_a)\,\dot q` and friction f, the equation of motion is

.. math:: \dot p = \tau + C^T \dot q - g - f + \tau_{ext},

and :math:`\dot r = K\,(\tau_{ext} - r)` estimates :math:`\tau_{ext}` without an acceleration
(De Luca, Albu-Schäffer, Haddadin, Hirzinger 2006). Integrated over the time h between two states,
with the effort held constant,

.. math:: r_{k+1} = r_k + (1 - e^{-K h})\,(w_k - r_k), \qquad
   h\,w_k = \Delta p - h\,(\tau + \overline{C^T \dot q - g - f}).

The means are evaluated at one state :math:`(q_*, v_*)` between both, where
:math:`\Delta p - h\,C^T v_* = M\,\Delta v + h\,c` up to :math:`h^3`, so one evaluation of inverse
dynamics gives

.. math:: w_k = ID(q_*, v_*, \Delta v / h) + J_a\,\Delta v / h + f(v_f) - \tau .

Of identified drives, r is updated with the median of the last three w: a velocity step when the
arm stops causes an acceleration spike of one sample, unlike a push.

Neither :math:`\dot M` nor C is needed, any formulation can be used, and r is updated by
:math:`(1 - e^{-Kh})\,M\Delta v/h \approx K M \Delta v`, without differentiation. The states are

``zero_order``, ``continuous``
    :math:`q_*, v_*, v_f` at the midpoint: exact to second order in h.
``semi_implicit``
    :math:`q_* = q_k,\ v_* = v_k,\ v_f = v_{k+1}`, as in the plant: exact. If states were lost,
    the midpoint of the steps of the plant in between.

External wrench: external efforts are explained by the wrench F at a frame with the smallest
forces and moments, weighted by W,

.. math:: F = W J\,(J^T W J + \epsilon E)^{-1}\,\tau_{ext}, \qquad
   \tau_{rest} = \tau_{ext} - J^T F,

with W = diag(1, 1, 1, l^2, l^2, l^2) and the lever arm l of a moment. With six joints or more this
is the least-squares wrench, with fewer the minimum wrench that gives the efforts;
:math:`\epsilon` bounds it near singular configurations. :math:`\tau_{rest}` is the unexplained
part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from robot_dynamics_ros.dynamics.joint_terms import JointTerms
from robot_dynamics_ros.model.identified import has_drive_terms
from robot_dynamics_ros.model.robot_tree import Robot
from robot_dynamics_ros.parameters import Settings, parameter, parameters_of
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.spatial.validation import spread_numbers
from robot_dynamics_ros.symbolic.kernel import Kernel, compile_function


@dataclass(frozen=True)
class ObserverSettings(Settings):
    """Settings of the observer.

    Each field declares the parameter of the same name, see ``OBSERVER``.
    """

    observer_bandwidth: Any = parameter(
        [200.0],
        'Bandwidth K of the observer of external efforts.',
        1e-3,
        1e5,
        unit='1/s',
        per_joint=True,
    )
    observer_effort: str = parameter(
        'commanded',
        'Effort used by the observer: commanded, or measured by the driver.',
        choices=('commanded', 'measured'),
    )
    wrench_frame: str = parameter(
        '',
        "Link at which the external wrench is estimated from external efforts; '': none.",
        fixed=True,
    )


OBSERVER = parameters_of(ObserverSettings)


class MomentumObserver:
    """Estimates external efforts from states and the efforts between them.

    Attributes:
        effort: r, the external effort, shape (n,), N m or N; 0 after a start.
        raw: w, its unfiltered mean since the previous state, shape (n,), N m or N.
        model: Rigid-body efforts at the last evaluated state, shape (n,), N m or N.
        q, v, a: That state and its acceleration, shape (n,).
        breakaway: Breakaway friction at the load of that state, shape (n,), N m or N.
        gain: Filter coefficient :math:`1 - e^{-Kh}` of the last step, shape (n,); 0 after a
            start.

    Args:
        tree: The robot, for friction and armature.
        inverse_dynamics: Rigid-body kernel, including the payload.

    Cost: one inverse dynamics and about 1 us; no allocation while the step length is constant.
    """

    def __init__(self, tree: Robot, inverse_dynamics: Kernel) -> None:
        n = tree.n
        self._inverse_dynamics = inverse_dynamics
        self.effort, self.raw, self.gain, self.model, self.q, self.v, self.a = np.zeros((7, n))
        self._q, self._v, self._end, self._filtered, self._low = np.zeros((5, n))
        self.breakaway, self._coulomb = tree.coulomb_friction.copy(), tree.coulomb_friction
        self._state_between = compile_function(state_between, n, times=2, fused=False)
        observed = partial(observed_effort, JointTerms.of(tree))
        self._observed_effort = compile_function(observed, n, fused=False)
        self._identified = has_drive_terms(tree)
        self._latest, self._times, self._sum = np.zeros((3, n)), np.zeros(2), np.zeros(1)
        self.configure(ObserverSettings(), 'semi_implicit', 1e-3)

    def configure(self, settings: ObserverSettings, discretization: str, period: float) -> None:
        """Change the settings between two states; at first they are those of a simulator, 1 kHz.

        Args:
            settings: Settings, of which only the bandwidth is used.
            discretization: How the plant holds an effort, see the module.
            period: Time between two commands, s.
        """
        bandwidth, n = settings.observer_bandwidth, len(self.effort)
        self.bandwidth = spread_numbers('observer_bandwidth', bandwidth, n)
        self._lag = period if discretization == 'semi_implicit' else 0.0
        self._step = 0.0

    def begin(self, q: Array, v: Array) -> None:
        """Start at a state, or restart after a gap, with zero external effort."""
        self._q[:], self._v[:] = q, v
        for array in (self.effort, self.raw, self.gain, self._latest):
            array.fill(0.0)
        self._step = 0.0

    def update(self, step: float, q: Array, v: Array, effort: Array) -> bool:
        """Update the estimate with a new state.

        A state or an effort that gives no finite estimate restarts the observer at the next one.

        Args:
            step: Time since the previous state, s; positive, also if states were lost.
            q: Positions, shape (n,), rad or m; copied.
            v: Velocities, shape (n,), rad/s or m/s; copied.
            effort: Motor efforts in that time, shape (n,), N m or N.

        Returns:
            Whether the estimate is finite; if not, restart what depends on it, too.
        """
        if step != self._step:
            self._step, self.gain[:] = step, -np.expm1(-step * self.bandwidth)
            self._times[:] = step, 0.5 * min(step, self._lag)
        self._state_between(
            self._q, self._v, q, v, self._times, self.q, self.v, self.a, self._end
        )  # fmt: skip
        self._inverse_dynamics(self.q, self.v, self.a, self.model)
        self._observed_effort(
            self.model, self.a, self._end, effort, self.effort, self.gain,
            self.raw, self._filtered, self.breakaway, self._sum,
        )  # fmt: skip
        if self._identified:
            middle = self._median()
            middle -= self.effort
            middle *= self.gain
            self.effort += middle
        else:
            self.effort[:] = self._filtered
        if not math.isfinite(self._sum.item()):
            self.breakaway[:] = self._coulomb
            self.begin(q, v)
            return False
        self._q[:], self._v[:] = q, v
        return True

    def _median(self) -> Array:
        """Return the median of the last three w, shape (n,), N m or N; without allocation."""
        first, second, third = self._latest
        first[:] = second
        second[:] = third
        third[:] = self.raw
        low, middle = self._low, self._filtered
        np.minimum(second, third, out=low)
        np.maximum(first, low, out=middle)
        np.maximum(second, third, out=low)
        np.minimum(middle, low, out=middle)
        return middle


def state_between(
    q_before: Array, v_before: Array, q: Array, v: Array, times: Array
) -> tuple[Array, ...]:
    """Return :math:`q_*, v_*`, acceleration and :math:`v_f` of two states; numbers or symbols.

    Args:
        q_before: Positions of the first state, shape (n,).
        v_before: Its velocities.
        q: Positions of the second state.
        v: Its velocities.
        times: Time between the states, and time from :math:`q_*` to the midpoint, s.
    """
    step, middle = times
    a = (v - v_before) * (1.0 / step)
    mean = 0.5 * (v_before + v)
    position = (q_before + q) * 0.5 - (middle / step) * (q - q_before)
    return position, mean - middle * a, a, mean + middle * a


def observed_effort(
    terms: JointTerms,
    model: Array,
    a: Array,
    v_end: Array,
    effort: Array,
    before: Array,
    gain: Array,
) -> tuple[Array, ...]:
    """Return w and r after a step, breakaway friction, and a sum that is finite if all are.

    Arguments are numbers or symbols.

    Args:
        terms: Friction and armature.
        model: Rigid-body efforts, shape (n,), N m or N.
        a: Acceleration, shape (n,).
        v_end: Velocity at which friction acts, shape (n,).
        effort: Motor efforts, shape (n,), N m or N.
        before: Previous r, shape (n,), N m or N.
        gain: Filter coefficient, shape (n,).
    """
    raw = model + terms.effort(v_end, a, model) - effort
    return raw, before + gain * (raw - before), terms.breakaway(model), raw.sum(keepdims=True)


_LEVER = 0.1  # l, m
_DAMPING = 1e-6  # epsilon, relative to the largest matrix entry


class WrenchEstimate:
    r"""Estimates the external wrench at a frame from external efforts.

    Attributes:
        wrench: F, force on the robot and moment about the frame origin, ``[F; M]``, in the axes
            of the frame, shape (6,), N and N m.
        residual: :math:`\tau_{rest}`, shape (n,), N m or N.

    Args:
        frame_motion: Kernel ``(q, v, R, p, J, bias)`` of the frame.
        n: Number of joints.
    """

    def __init__(self, frame_motion: Kernel, n: int) -> None:
        self._frame_motion = frame_motion
        self._R, self._p, self._drift = np.zeros((3, 3)), np.zeros(3), np.zeros(6)
        self._J, self._still = np.zeros((6, n)), np.zeros(n)
        self._weight = np.array([1.0] * 3 + [_LEVER**2] * 3)[:, np.newaxis]
        self.wrench, self.residual = np.zeros(6), np.zeros(n)

    def update(self, q: Array, effort: Array) -> None:
        """Update the wrench from external efforts, shape (n,), N m or N, at positions q."""
        self._frame_motion(q, self._still, self._R, self._p, self._J, self._drift)
        weighted = self._weight * self._J
        A = self._J.T @ weighted
        A[np.diag_indices_from(A)] += _DAMPING * np.abs(A).max() + 1e-300
        wrench = weighted @ np.linalg.solve(A, effort)
        np.subtract(effort, self._J.T @ wrench, out=self.residual)
        self.wrench[:3], self.wrench[3:] = self._R.T @ wrench[:3], self._R.T @ wrench[3:]
