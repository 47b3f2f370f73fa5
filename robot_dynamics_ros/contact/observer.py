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

With an effort fit, r is updated with the median of the last three w: a velocity step when the arm
stops causes an acceleration spike of one sample, unlike a push.

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

Effort fit: measured efforts in terms of the model, for drives whose gains are not known
accurately (estimated in module ``calibration``).

.. math:: \tau_{measured} = \sum_k C_k\,\tau_{l,k} + J\,a + b\,v + \tau_0
   + (\tau_c + \mu\,|\tau_l| + k\sqrt{|v|})\,z

for each joint, with the rigid-body efforts :math:`\tau_{l,k}` of all joints, since the error of a
wrong mass at one joint mostly resembles the effort at another. The own coefficient C of a joint
converts the unit of its drive to that of the joint, so measured currents can be used. Higher
powers of the velocity are omitted, since they extrapolate badly beyond the recorded speeds.

The direction z of friction follows the Dahl model (1968),

.. math:: dz = (\mathrm{sign}\,dq - z)\,|dq| / \delta ,

where :math:`\delta` is the best of several values. Both sides pass the observer's low-pass filter
before they are compared. A joint at rest is almost excluded, since its friction is undetermined.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from robot_dynamics_ros.dynamics.joint_terms import JointTerms
from robot_dynamics_ros.model.robot_tree import Robot
from robot_dynamics_ros.parameters import Settings, parameter, parameters_of
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import Kernel, compile_function

#: Terms besides the rigid-body efforts; the last three are multiplied by the direction z.
TERMS = ('armature', 'damping', 'offset', 'coulomb_friction', 'load_friction', 'root_friction')
_ODD = 4.0  # ratio to the median C beyond which a joint's C is replaced: it is not loaded


def update_direction(z: Array, displacement: Array, delta: Array) -> None:
    """Update z, the direction of friction in [-1, 1], for a displacement, rad or m; in place."""
    z -= (np.sign(displacement) - z) * np.expm1(-np.abs(displacement) / delta)


def effort_terms(model: Array, a: Array, v: Array) -> Array:
    """Return the factors of ``TERMS``, without the direction z, new array of shape (6, n)."""
    one = np.ones(len(v))
    return np.stack([a, v, one, one, np.abs(model), np.sqrt(np.abs(v))])


@dataclass(frozen=True, eq=False)
class EffortFit:
    """Fitted coefficients of all joints.

    Attributes:
        coupling: C, shape (n, n): rows are joints, columns rigid-body efforts.
        terms: In the order of ``TERMS``, shape (6, n).
        delta: Shape (n,), rad or m.
    """

    coupling: Array
    terms: Array
    delta: Array

    @cached_property
    def factor(self) -> Array:
        """Ratio of measured to actual effort, shape (n,)."""
        c = np.diag(self.coupling)
        usual = float(np.median(c))
        return np.where((c > usual / _ODD) & (c < usual * _ODD), c, usual if usual > 0.0 else 1.0)

    def external(self, model: Array, a: Array, v: Array, z: Array, measured: Array) -> Array:
        """Return the external efforts: model minus measured, shape (n,), N m or N."""
        parts = self.terms * effort_terms(model, a, v)
        rest = parts[:3].sum(axis=0) + parts[3:].sum(axis=0) * z - measured
        return np.asarray((self.coupling @ model + rest) / self.factor)

    def breakaway(self, model: Array) -> Array:
        """Return the breakaway friction under rigid-body efforts, shape (n,), N m or N."""
        still = np.zeros(len(model))
        friction = (self.terms * effort_terms(model, still, still))[3:].sum(axis=0)
        return np.asarray(np.abs(friction) / self.factor)


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
        fit: Effort fit that replaces friction and armature of the robot; None: not used.
        gain: Filter coefficient :math:`1 - e^{-Kh}` of the last step, shape (n,); 0 after a
            start.

    Args:
        tree: The robot, for friction and armature.
        inverse_dynamics: Rigid-body kernel, including the payload.
        settings: Settings, of which only the bandwidth is used.
        discretization: How the plant holds an effort, see the module.
        period: Time between two commands, s.

    Cost: one inverse dynamics and about 1 us; no allocation while the step length is constant.
    """

    def __init__(
        self,
        tree: Robot,
        inverse_dynamics: Kernel,
        settings: ObserverSettings | None = None,
        *,
        discretization: str = 'semi_implicit',
        period: float = 1e-3,
    ) -> None:
        n = tree.n
        self._inverse_dynamics = inverse_dynamics
        self.effort, self.raw, self.gain = np.zeros(n), np.zeros(n), np.zeros(n)
        self.model, self.q, self.v, self.a = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
        self._q, self._v, self._end = np.zeros(n), np.zeros(n), np.zeros(n)
        self.breakaway, self._coulomb = tree.coulomb_friction.copy(), tree.coulomb_friction
        self.fit: EffortFit | None = None
        self._z, self._latest = np.zeros(n), np.zeros((3, n))
        states = dict.fromkeys(('q_before', 'v_before', 'q', 'v'), n)
        instant = dict.fromkeys(('q_between', 'v_between', 'a', 'v_end'), (n,))
        self._state_between = compile_function(
            'state_between', states | {'times': 2}, instant, state_between, fused=False
        )
        efforts = dict.fromkeys(('model', 'a', 'v_end', 'effort', 'before', 'gain'), n)
        observed = dict.fromkeys(('raw', 'observed', 'breakaway'), (n,)) | {'sum': (1,)}
        self._observed_effort = compile_function(
            'observed_effort',
            efforts,
            observed,
            partial(observed_effort, JointTerms.of(tree)),
            fused=False,
        )
        self._times, self._step, self._sum = np.zeros(2), 0.0, np.zeros(1)
        self.configure(settings or ObserverSettings(), discretization, period)

    def configure(self, settings: ObserverSettings, discretization: str, period: float) -> None:
        """Change bandwidth, discretization and period, s, between two states."""
        bandwidth = np.asarray(settings.observer_bandwidth, dtype=float)
        self.bandwidth = np.broadcast_to(bandwidth, self.effort.shape)
        self._lag = period if discretization == 'semi_implicit' else 0.0
        self._step = 0.0

    def begin(self, q: Array, v: Array) -> None:
        """Start at a state, or restart after a gap, with zero external effort."""
        self._q[:], self._v[:] = q, v
        self.effort.fill(0.0)
        self.raw.fill(0.0)
        self.gain, self._step = np.zeros(len(q)), 0.0
        self._z.fill(0.0)
        self._latest.fill(0.0)
        if self.fit is not None:
            self.breakaway[:] = self.fit.breakaway(np.zeros(len(q)))

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
            self._step, self.gain = step, -np.expm1(-step * self.bandwidth)
            self._times[:] = step, 0.5 * min(step, self._lag)
        self._state_between(
            self._q, self._v, q, v, self._times, self.q, self.v, self.a, self._end
        )  # fmt: skip
        self._inverse_dynamics(self.q, self.v, self.a, self.model)
        if self.fit is None:
            self._observed_effort(
                self.model, self.a, self._end, effort, self.effort, self.gain,
                self.raw, self.effort, self.breakaway, self._sum,
            )  # fmt: skip
        else:
            update_direction(self._z, q - self._q, self.fit.delta)
            self.raw[:] = self.fit.external(self.model, self.a, self._end, self._z, effort)
            self.breakaway[:] = self.fit.breakaway(self.model)
            self._latest[:-1] = self._latest[1:]
            self._latest[-1] = self.raw
            self.effort += self.gain * (np.sort(self._latest, axis=0)[1] - self.effort)
            self._sum[0] = self.raw.sum()
        if not math.isfinite(self._sum.item()):
            self.breakaway[:] = self._coulomb
            self.begin(q, v)
            return False
        self._q[:], self._v[:] = q, v
        return True


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
