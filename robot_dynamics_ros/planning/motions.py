# SPDX-License-Identifier: Apache-2.0
"""Motions: point to point, sinusoids, Fourier series, and along a curve of the tool point."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from robot_dynamics_ros.constraints.curves import PARTS, Curve, Lissajous, Path
from robot_dynamics_ros.constraints.signals import Timed, Timing
from robot_dynamics_ros.control.trajectories.spline import JointSpline, Points
from robot_dynamics_ros.control.trajectories.trajectory import (
    Reference,
    Trajectory,
    Vector,
    joint_vector,
    positive,
)
from robot_dynamics_ros.errors import SingularityError, TrajectoryError, UnreachableError
from robot_dynamics_ros.kinematics.tool_task import ToolTask
from robot_dynamics_ros.spatial.scalar import Array, Scalar
from robot_dynamics_ros.spatial.validation import array, unit


class Quintic(JointSpline):
    r"""Motion from rest to rest by a quintic step, :math:`q = q_0 + (q_1 - q_0)\,s(t/T)`.

    All joints start and stop together. The peak velocity is :math:`\tfrac{15}8\Delta/T`, the peak
    acceleration :math:`\tfrac{10}{\sqrt3}\Delta/T^2`.

    Args:
        start: Shape (n,), rad or m.
        goal: Shape (n,), rad or m.
        duration: T, s, positive.

    Raises:
        TrajectoryError: Start and goal have different lengths, or a number is not finite or
            positive.
    """

    def __init__(self, start: Vector, goal: Vector, duration: float) -> None:
        a = joint_vector('start', start)
        ends = np.array([a, joint_vector('goal', goal, len(a))])
        super().__init__(Points.at_rest([0.0, positive('duration', duration)], ends))


PerJoint = Vector | float


class Sine(Trajectory):
    r"""Sinusoids :math:`q_i = c_i + A_i\sin(2\pi f_i\,\sigma(t) + \varphi_i)`.

    The time :math:`\sigma` accelerates from standstill during ``ramp`` seconds and decelerates
    before the end, so that the motion is C2 and at rest at both ends for any phase.

    Args:
        centre: Shape (n,), rad or m.
        amplitude: Shape (n,) or one for all joints, rad or m.
        frequency: Shape (n,) or one for all, Hz.
        phase: Shape (n,) or one for all, rad.
        ramp: Duration of each ramp, s.
        duration: Duration of the motion, s, at least twice the ramp; infinite by default.

    Raises:
        TrajectoryError: A length is wrong, or a number is not finite or positive.
    """

    def __init__(
        self,
        centre: Vector,
        amplitude: PerJoint,
        frequency: PerJoint,
        phase: PerJoint = 0.0,
        ramp: float = 1.0,
        duration: float = math.inf,
    ) -> None:
        c = joint_vector('centre', centre)
        self.n = len(c)
        if not duration >= 2.0 * ramp:
            raise TrajectoryError('duration', f'is {duration}', f'needs two ramps of {ramp} s')
        timing = Timing(duration - ramp, 1.0, positive('ramp', ramp))
        self.duration = timing.duration
        named = {'amplitude': amplitude, 'frequency': frequency, 'phase': phase}
        A, f, phi = (joint_vector(name, value, self.n) for name, value in named.items())
        self._signal = Timed(Lissajous(c, A, f, phi), timing)

    def sample(self, t: float, reference: Reference) -> None:
        """Compute the motion at a time; see :class:`Trajectory`."""
        reference.rows[:] = self._signal.at(t)


Matrix = Sequence[Sequence[float]] | Array

_REST = 1e-9  # tolerance, relative to the weighted sum of the amplitudes


class Fourier(Trajectory):
    r"""Periodic motion of several harmonics, repeated a whole number of times.

    .. math:: q_i(t) = c_i + \sum_{l=1}^{L} [s_{il}\sin(l\omega t) + k_{il}\cos(l\omega t)]

    It is at rest at the start of each period if :math:`\sum_l l\,s_{il} = 0` (velocity) and
    :math:`\sum_l l^2 k_{il} = 0` (acceleration).

    Args:
        centre: c, shape (n,), rad or m.
        sine: s, shape (n, L), rad or m.
        cosine: k, shape (n, L), rad or m.
        period: Duration of one period, s.
        periods: Number of periods.

    Raises:
        ShapeError, ParameterError, NonFiniteError: Of sine or cosine, see ``validation.array``.
        TrajectoryError: Another shape is wrong, a number is not finite or positive, or the motion
            does not start at rest; names the joint.

    Source: Swevers et al. 1997, (4), with the conditions of rest.
    """

    def __init__(
        self,
        centre: Vector,
        sine: Matrix,
        cosine: Matrix,
        period: float,
        periods: int = 1,
    ) -> None:
        self._centre = np.array(joint_vector('centre', centre))
        self.n = len(self._centre)
        if periods < 1:
            raise TrajectoryError('periods', f'is {periods}', 'at least one is needed')
        self.period = positive('period', period)
        self.duration = self.period * periods
        s = array('sine', sine, (self.n, 'harmonics'))
        k = array('cosine', cosine, s.shape)
        harmonics = np.arange(1, s.shape[1] + 1)
        _refuse_motion('velocity', s * harmonics)
        _refuse_motion('acceleration', k * harmonics**2)
        self._s, self._k, self._rates = s, k, 2.0 * math.pi * harmonics / self.period

    def sample(self, t: float, reference: Reference) -> None:
        """Compute the motion at a time; see :class:`Trajectory`."""
        w, moving = self._rates, float(0.0 < t < self.duration)
        angle = (t if moving else 0.0) * w
        sine, cosine = np.sin(angle), np.cos(angle)
        wave = self._s * sine + self._k * cosine
        reference.position[:] = self._centre + wave.sum(axis=1)
        reference.velocity[:] = moving * (self._s * cosine - self._k * sine) @ w
        reference.acceleration[:] = -moving * wave @ (w * w)


def _refuse_motion(what: str, terms: Array) -> None:
    """Check that the coefficients of each joint sum to zero, so that the motion starts at rest."""
    size = np.abs(terms).sum(axis=1)
    for i, rest in enumerate(np.abs(terms.sum(axis=1)) > _REST * size):
        if rest:
            raise TrajectoryError(
                f'joint {i}',
                f'does not start with zero {what}',
                'the sum over l of l sine, and of l^2 cosine, must vanish',
            )


#: Largest number of halvings of the time between knots.
HALVINGS = 6


class ToolPath(JointSpline):
    """Joint motion that moves the tool point along a curve.

    The speed ramps up and down by quintic steps, so the motion is C2 and at rest at both ends. The
    curve is solved by the constructor at knots with exact position (inverse kinematics), velocity
    and acceleration (Jacobian and bias acceleration), joined by quintics. The time between knots
    is halved until the tool point between them deviates by no more than ``tolerance``. Reach and
    singularities are thus checked before the motion, and sampling needs no kinematics; for
    velocities see ``check_limits``.

    Attributes:
        start: Joint positions at the start, shape (n,), rad or m.

    Args:
        task: Task of the tool, with the robot.
        curve: Curve in the base frame, 3 components, m; finite length.
        speed: Speed along the curve between the ramps, in the curve's parameter per second (m/s
            for lines and circles).
        ramp: Duration of each ramp of the speed, s.
        near: Configuration that selects the branch at the start, shape (n,), rad or m.
        step: Initial time between knots, s.
        tolerance: Largest deviation of the tool point, m.

    Raises:
        TrajectoryError: The curve is not finite or not 3D, or cannot be followed; gives position
            and reason (out of reach, joint limit, singularity).
    """

    def __init__(
        self,
        task: ToolTask,
        curve: Curve,
        speed: float,
        ramp: float,
        near: Vector,
        step: float = 0.02,
        tolerance: float = 1e-8,
    ) -> None:
        if curve.size != 3 or not math.isfinite(curve.length):
            raise TrajectoryError(
                'curve', 'is endless or not in space', 'give a finite length (laps of a circle)'
            )
        timing = Timing(curve.length, positive('speed', speed), positive('ramp', ramp))
        configuration = np.array(joint_vector('near', near, task.tree.n))
        step = positive('step', step)
        for _ in range(HALVINGS):
            super().__init__(_solve(task, curve, timing, configuration, step))
            if self._deviation(task, curve, timing) <= tolerance:
                break
            step *= 0.5
        else:
            raise TrajectoryError(
                'tool path', f'cannot be joined within {tolerance:g} m', 'avoid singularities'
            )
        self.start = self.table(np.zeros(1))[0][0]

    def _deviation(self, task: ToolTask, curve: Curve, timing: Timing) -> float:
        """Return the largest deviation between knots: task Jacobian times joint error, m."""
        reference, worst = Reference(self.n), 0.0
        for before, after in zip(self._times[:-1], self._times[1:], strict=True):
            t = 0.5 * (before + after)
            self.sample(t, reference)
            p = np.array(curve.at(timing.at(t)[0])[0], dtype=float)
            exact = task.solve(p, reference.position)
            J, _ = task.rates(exact, np.zeros(self.n))
            worst = max(worst, float(np.abs(J @ (reference.position - exact)).max()))
        return worst


def _solve(task: ToolTask, curve: Curve, timing: Timing, near: Array, step: float) -> Points:
    """Return knots at most a step apart, including the ends of the ramps."""
    breaks = [0.0, timing.ramp, timing.duration - timing.ramp, timing.duration]
    times = list[float]()
    for begin, end in zip(breaks[:-1], breaks[1:], strict=True):
        count = math.ceil((end - begin) / step - 1e-9)
        times += np.linspace(begin, end, count, endpoint=False).tolist()
    knots = list[tuple[float, Array, Array, Array]]()
    for t in (*times, timing.duration):
        s, ds, dds = timing.at(t)
        p, dp, ddp = (np.array(x, dtype=float) for x in curve.at(s))
        try:
            near = task.solve(p, near)
            knots.append((t, near, *task.motion(near, dp * ds, ddp * (ds * ds) + dp * dds)))
        except (UnreachableError, SingularityError) as refusal:
            raise TrajectoryError(
                f'tool path at s = {s:.4g} of {curve.length:.4g}', str(refusal), 'move the curve'
            ) from refusal
    return Points(*map(np.array, zip(*knots, strict=True)))


class WavyCurve(Curve):
    r"""Curve with an added wave :math:`\tfrac h2(1 - \cos ks)` along a direction.

    Args:
        curve: The original curve; finite length.
        direction: Direction of the wave, shape (3,).
        height: h, m.
        waves: Number of waves along the length; a whole number ends at height 0.

    Raises:
        ParameterError: The direction is zero.
    """

    size = 3

    def __init__(
        self, curve: Curve, direction: Sequence[float], height: float, waves: float = 1.0
    ) -> None:
        self.curve, self.length, self.lap = curve, curve.length, curve.length
        self.grain = self.lap / PARTS
        self._half = 0.5 * height * unit('direction', direction)
        self._k = 2.0 * math.pi * waves / curve.length

    def sample(self, numbers: Sequence[Scalar]) -> Path:
        """Return p, dp/ds and d2p/ds2."""
        s, k = numbers[0], self._k
        sine, cosine = math.sin(k * s), math.cos(k * s)
        point, along, bend = self.curve.at(s)
        return (
            point + (1.0 - cosine) * self._half,
            along + k * sine * self._half,
            bend + k * k * cosine * self._half,
        )
