# SPDX-License-Identifier: Apache-2.0
"""Joint trajectories along a curve of the tool point, solved in advance."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from robot_dynamics_ros.constraints.curves import Curve
from robot_dynamics_ros.constraints.signals import Timing
from robot_dynamics_ros.control.laws.control_law import Reference
from robot_dynamics_ros.control.trajectories.spline import JointSpline, Knot
from robot_dynamics_ros.control.trajectories.trajectory import joint_vector, positive
from robot_dynamics_ros.errors import SingularityError, TrajectoryError, UnreachableError
from robot_dynamics_ros.kinematics.tool_task import ToolTask
from robot_dynamics_ros.spatial.linear_algebra import unit
from robot_dynamics_ros.spatial.scalar import Array, Scalar

#: Largest number of halvings of the time between knots.
HALVINGS = 6


class ToolPath(JointSpline):
    """Joint motion that moves the tool point along a curve.

    The speed ramps up and down by quintic steps, so the motion is C2 and at rest at both ends. The
    curve is solved by the constructor at knots with exact position (inverse kinematics), velocity
    and acceleration (Jacobian and drift), joined by quintics. The time between knots is halved
    until the tool point between them deviates by no more than ``tolerance``. Reach, limits and
    singularities are thus checked before the motion, and sampling needs no kinematics.

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
            and reason (out of reach, joint limit, velocity limit, singularity).
    """

    def __init__(
        self,
        task: ToolTask,
        curve: Curve,
        speed: float,
        ramp: float,
        near: Array | Sequence[float],
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
        self.start = np.array(self._start)

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


def _solve(task: ToolTask, curve: Curve, timing: Timing, near: Array, step: float) -> list[Knot]:
    """Return knots at most a step apart, including the ends of the ramps."""
    breaks = [0.0, timing.ramp, timing.duration - timing.ramp, timing.duration]
    knots: list[Knot] = []
    for begin, end in zip(breaks[:-1], breaks[1:], strict=True):
        count = math.ceil((end - begin) / step - 1e-9)
        for k in range(0 if not knots else 1, count + 1):
            knots.append(_knot(task, curve, timing, begin + (end - begin) * k / count, near))
            near = np.array(knots[-1].position)
    return knots


def _knot(task: ToolTask, curve: Curve, timing: Timing, t: float, near: Array) -> Knot:
    s, ds, dds = timing.at(t)
    p, dp, ddp = (np.array(x, dtype=float) for x in curve.at(s))
    try:
        q = task.solve(p, near)
        v, a = task.motion(q, dp * ds, ddp * (ds * ds) + dp * dds)
    except (UnreachableError, SingularityError) as refusal:
        raise TrajectoryError(
            f'tool path at s = {s:.4g} of {curve.length:.4g}', str(refusal), 'move the curve'
        ) from refusal
    for i, name in enumerate(task.tree.joint_names):
        if abs(v[i]) > task.tree.velocity_limit[i]:
            raise TrajectoryError(
                f'tool path at s = {s:.4g} of {curve.length:.4g}',
                f'joint {name!r} would move at {abs(v[i]):.4g} per second',
                f'its limit is {task.tree.velocity_limit[i]:.4g}; lower the speed',
            )
    return Knot(t, q.tolist(), v.tolist(), a.tolist())


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
        self._half = (0.5 * height * unit('direction', direction)).tolist()
        self._k = 2.0 * math.pi * waves / curve.length

    def at(self, s: Scalar) -> tuple[list[Scalar], list[Scalar], list[Scalar]]:
        """Return p, dp/ds and d2p/ds2."""
        k, sine, cosine = self._k, math.sin(self._k * s), math.cos(self._k * s)
        waves = (1.0 - cosine, k * sine, k * k * cosine)
        point, along, bend = (
            [x + wave * h for x, h in zip(row, self._half, strict=True)]
            for row, wave in zip(self.curve.at(s), waves, strict=True)
        )
        return point, along, bend
