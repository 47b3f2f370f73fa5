# SPDX-License-Identifier: Apache-2.0
r"""Feasibility check of a program before the motion: reach, rank, joint and effort limits.

All inverses have the joint metric of the program, except for corrections of the position. The
path :math:`f(q, t) = 0` is computed from its start by continuation: a step along
:math:`\dot q = -\Gamma^+f_t + P\,\dot q_{null}`, then Gauss-Newton corrections
:math:`q \leftarrow q - \Gamma^+f`. :math:`\dot q_{null}` is the velocity at which the free joints
settle under the null-space task.

The efforts required along the path are compared with the limits of the drives:

.. math:: \ddot q = -\Gamma^{+}\beta, \qquad
          \tau = M\ddot q + c + g + J_a\ddot q + \text{friction}

:math:`\ddot q` is the acceleration for f = 0 with a settled null space. In a mechanism, the loop
transmits the efforts of the joints without a drive.
"""

from __future__ import annotations

import itertools
import math
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.constraints.constraint import Evaluation
from robot_dynamics_ros.constraints.damped_inverse import Singularity, TaskInverse
from robot_dynamics_ros.constraints.error_dynamics import projected_gains, stabilizing
from robot_dynamics_ros.constraints.program import Program, Start
from robot_dynamics_ros.constraints.signals import instants
from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.dynamics.joint_terms import JointTerms
from robot_dynamics_ros.errors import ProgramError
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.spatial.validation import array

#: f counts as solved below this, m or rad.
SOLVED = 1e-8
_ITERATIONS, _HALVINGS, _RESTARTS = 40, 6, 30
# The continuation is exact wherever the control law is, and damped below.
_DAMPED = Singularity(1e-4, 1e-3)


class FeasibilityCheck(NamedTuple):
    """A program's path in joint space.

    Attributes:
        times: Instants, shape (k,), s.
        q: Joint positions with f = 0, shape (k, n), rad or m.
        v: Joint velocities along the path, shape (k, n), rad/s or m/s.
        sigma_min: Smallest singular value of Gamma, shape (k,).
        effort: Drive efforts along the path, including friction, shape (k, n), N m or N.
        remarks: Warnings about the accepted program, one sentence each.
    """

    times: Array
    q: Array
    v: Array
    sigma_min: Array
    effort: Array
    remarks: tuple[str, ...] = ()


class _PathPoint(NamedTuple):
    """The path at an instant."""

    q: Array
    v: Array
    settling: Array  # the null-space part of v
    sigma_min: float

    def guess(self, program: Program, step: float) -> Array:
        """Predict the configuration one step later; free joints do not overshoot."""
        task = program.null_space
        settling_time = step if task is None else min(step, task.settling_time(self.q))
        return self.q + step * (self.v - self.settling) + settling_time * self.settling


def check_feasibility(
    program: Program, home: Array | None = None, samples: int = 200
) -> FeasibilityCheck:
    """Compute a program's path and reject an infeasible program.

    Args:
        program: The program.
        home: Initial guess for the start of the path if the program defines none, shape (n,), rad
            or m; if None, the posture of the null-space task or the middle of the limits.
        samples: Minimum number of instants over the program's horizon; fast motion adds more.

    Returns:
        The path.

    Raises:
        ProgramError: The start is inconsistent or out of reach, the path leaves the reach or
            exceeds a joint limit, the Jacobian loses rank, or (m > n) the projected error is
            unstable; the message names row or joint, time and value.

    Cost: about 2 ms per instant, for at most ``signals.MOST_INSTANTS`` instants.
    """
    try:
        return _checked(program, home, samples)
    except ProgramError as error:
        if program.robot:
            raise
        other = 'or the program is written for another robot, which it does not name (robot: NAME)'
        raise ProgramError(error.culprit, error.problem, f'{error.remedy}; {other}') from error


def _checked(program: Program, home: Array | None, samples: int) -> FeasibilityCheck:
    """Compute the path; see :func:`check_feasibility`."""
    horizon = max(program.horizon, 1e-3)
    times = instants(program.stack.signals, horizon, samples)
    start = starting_configuration(program, home)
    # A slower run remedies a fast joint, but no path that leaves the reach: this is told first.
    fast: list[ProgramError] = []
    points = [_checked_point(program, start, 0.0, fast)]
    for before, t in itertools.pairwise(times.tolist()):
        guess = points[-1].guess(program, t - before)
        points.append(_checked_point(program, guess, t, fast))
    unchecked = list[str]()
    if times[-1] < horizon:  # there it may be far, but is as fast as it becomes
        unchecked.append(
            f'the path is checked only until t = {times[-1]:.3g} s; covering all of its parts '
            f'once takes {horizon:.3g} s'
        )
        with suppress(ProgramError):
            _checked_point(program, points[-1].q, horizon, fast)
    sigma = np.array([point.sigma_min for point in points])
    for k in range(1, len(times) - 1):
        if sigma[k] < 20.0 * program.min_singular_value and sigma[k] == sigma[k - 1 : k + 2].min():
            _search_minimum(program, points[k - 1], times[k - 1], times[k + 1], fast)
    if fast:
        raise fast[0]
    q, v = np.array([point.q for point in points]), np.array([point.v for point in points])
    if sigma.max() < program.singularity.threshold:
        unchecked.append(
            f'the path is damped all along: its singularity threshold is above {sigma.max():.3g}'
        )
    effort = path_efforts(program, times, q, v)
    remarks = [*unchecked, *effort_remarks(program.tree, times, effort)]
    return FeasibilityCheck(times, q, v, sigma, effort, tuple(remarks))


def _checked_point(
    program: Program, guess: Array, t: float, fast: list[ProgramError]
) -> _PathPoint:
    """Return and check the path at an instant, near an initial guess.

    A velocity beyond a limit is added to ``fast``, all else is rejected.
    """
    q, found = solve(program, guess, t)
    _require_reached(program, found.f, q, t)
    solution = TaskInverse(found.Gamma, program.joint_metric(q), program.row_weights, _DAMPED)
    settling = solution.project(program.settling_velocity(q, np.zeros(program.n)))
    along = solution.solve(-found.f_dot)
    _require_rank(program, solution, q, t)
    _require_limits(program, q, along + settling, settling, t, fast)
    _require_projected_stability(program, found.Gamma, t)
    return _PathPoint(q, along + settling, settling, solution.sigma_min)


def _search_minimum(
    program: Program,
    first: _PathPoint,
    begin: float,
    end: float,
    fast: list[ProgramError],
) -> None:
    """Search for the smallest singular value between two instants; reject it there."""
    from scipy.optimize import minimize_scalar  # here: few programs come near a singularity

    def sigma(t: float) -> float:
        guess = first.guess(program, t - begin)
        return _checked_point(program, guess, t, fast).sigma_min

    accuracy = 1e-4 * (end - begin)
    minimize_scalar(sigma, bounds=(begin, end), method='bounded', options={'xatol': accuracy})


def starting_configuration(program: Program, home: Array | None = None) -> Array:
    """Return a configuration with f = 0 at time 0, within the joint limits.

    Args:
        program: The program; if it defines a start, that is the initial guess.
        home: First initial guess otherwise, shape (n,), rad or m; see :func:`check_feasibility`.

    Returns:
        New array, shape (n,), rad or m.

    Raises:
        ProgramError: The program's start is inconsistent, or no solution was found.
    """
    tree = program.tree
    if program.start is not None:
        _require_consistent(program, program.start)
        return solve(program, program.start.position, 0.0)[0]
    middle = tree.middle
    posture = middle if program.null_space is None else program.null_space.posture
    rng = np.random.default_rng(0)
    first = posture if home is None else array('home', home, (program.n,))
    drawn = (tree.random_positions(rng, 1)[0] for _ in range(_RESTARTS))
    best, best_f = middle, np.full(program.m, np.inf)
    for guess in itertools.chain((first, middle), drawn):
        if not tree.reaches(guess):
            continue
        q, found = solve(program, guess, 0.0)
        f = found.f
        inside = np.all((q >= tree.reference_lower) & (q <= tree.reference_upper))
        if np.abs(f).max() < SOLVED and inside:
            return q
        if np.abs(f).max() < np.abs(best_f).max():
            best, best_f = q, f
    _require_reached(program, best_f, best, 0.0)
    return best


def solve(
    program: Program, q: Array, t: float, wanted: Array | float = 0.0
) -> tuple[Array, Evaluation]:
    """Minimize f, or what it lacks of a wanted value, by Gauss-Newton steps with step halving.

    Args:
        program: The program.
        q: Where to begin, shape (n,), rad or m.
        t: Time of the program, s.
        wanted: Wanted value of the rows of f, shape (m,) or one for all, m or rad.

    Returns:
        The configuration, and f at rest there.
    """
    tree, at_rest = program.tree, np.zeros(program.n)
    # A long rail is crossed in a few steps.
    rails = np.where(tree.joint_is_prismatic, tree.position_range, 0.0)
    longest = np.maximum(0.5, rails / 4.0)
    found = program.stack.evaluate(q, at_rest, t)
    for _ in range(_ITERATIONS):
        if np.abs(found.f - wanted).max() < SOLVED:
            break
        inverse = TaskInverse(found.Gamma, None, program.row_weights, _DAMPED)
        step = inverse.solve(wanted - found.f)
        scale = 1.0 / max(1.0, float((np.abs(step) / longest).max()))
        for _ in range(_HALVINGS):
            trial = q + scale * step
            if tree.reaches(trial):
                nearer = program.stack.evaluate(trial, at_rest, t)
                if np.linalg.norm(nearer.f - wanted) < np.linalg.norm(found.f - wanted):
                    break
            scale *= 0.5
        else:
            break
        q, found = trial, nearer
    return q, found


def _require_consistent(program: Program, start: Start) -> None:
    f = program.stack.evaluate(start.position, np.zeros(program.n), 0.0).f
    worst = int(np.argmax(np.abs(f)))
    if abs(f[worst]) > start.tolerance:
        raise ProgramError(
            'start',
            f'is inconsistent: {program.stack.rows[worst]} is {f[worst]:.4g} there',
            f'begin within {start.tolerance:g}, or raise the tolerance',
        )


def _require_reached(program: Program, f: Array, q: Array, t: float) -> None:
    worst = int(np.argmax(np.abs(f)))
    if not abs(f[worst]) < 1e3 * SOLVED:
        in_degrees = program.stack.rows[worst].endswith('(rad)') and abs(f[worst]) > math.tau
        units = '; angles are in rad, not degrees' if in_degrees else ''
        raise ProgramError(
            program.stack.rows[worst],
            f'cannot be reached at t = {t:.3f} s: the residual is {abs(f[worst]):.4g} at '
            f'q = {_vector_text(q)}',
            'move the path into the reach of the arm, or correct contradicting conditions' + units,
        )


def _require_rank(program: Program, solution: TaskInverse, q: Array, t: float) -> None:
    if solution.sigma_min < program.min_singular_value:
        raise ProgramError(
            f'program {program.name!r}',
            f'is singular at t = {t:.3f} s: the smallest singular value of its Jacobian is '
            f'{solution.sigma_min:.3g} at q = {_vector_text(q)}',
            'route the path around it, drop a dependent row, or lower singularity, '
            f'min_singular_value ({program.min_singular_value:g})',
        )


def _require_limits(
    program: Program, q: Array, v: Array, settling: Array, t: float, fast: list[ProgramError]
) -> None:
    """Reject positions beyond the limits of a joint; add velocities to ``fast``, by what moves it.

    Free joints move at most at the velocity at which pull and damping of the null-space task
    balance.
    """
    tree = program.tree
    for i, joint in enumerate(tree.joint_names):
        lower, upper = tree.reference_lower[i], tree.reference_upper[i]
        if not lower - 1e-9 <= q[i] <= upper + 1e-9:
            raise ProgramError(
                f'joint {joint!r}',
                f'is at {q[i]:.4g} at t = {t:.3f} s',
                f'its {tree.limits_word(i)} are {lower:.4g} to {upper:.4g}; move the path, or '
                f'choose another posture or start{tree.if_degrees(i, q[i])}',
            )
        limit, by, remedy = tree.velocity_limit[i], '', 'run the path slower'
        if abs(v[i] - settling[i]) <= limit:
            by = f' from {q[i]:.4g}, by the null-space task'
            remedy = 'give null_space a posture near that position, or less stiffness'
        if not abs(v[i]) <= limit:
            fast.append(
                ProgramError(
                    f'joint {joint!r}',
                    f'moves at {abs(v[i]):.4g} per second at t = {t:.3f} s{by}',
                    f'its velocity limit is {limit:.4g}; {remedy}',
                )
            )


def _require_projected_stability(program: Program, Gamma: Array, t: float) -> None:
    """Reject gains for which the projected error of m > n conditions grows (erratum C8)."""
    if program.proved or np.linalg.matrix_rank(Gamma) < program.n:
        return  # where a singular path is accepted, f leaves joints free, and tells nothing
    if not stabilizing(*projected_gains(program.G0, program.G1, Gamma, program.weights)):
        raise ProgramError(
            f'program {program.name!r}',
            f'is unstable at t = {t:.3f} s: with {program.m} conditions on {program.n} joints '
            'only the projected error decays, and these gains make it grow',
            'use symmetric positive definite gains, preferably equal for all rows',
        )


def _vector_text(q: Array) -> str:
    return '(' + ', '.join(f'{x:.4g}' for x in q) + ')'


def path_efforts(program: Program, times: Array, q: Array, v: Array) -> Array:
    """Return the efforts that keep f = 0 along a path.

    Args:
        program: The program.
        times: Instants, shape (k,), s.
        q: Joint positions on the path, shape (k, n), rad or m.
        v: Joint velocities along it, shape (k, n), rad/s or m/s.

    Returns:
        New array, shape (k, n), N m or N; 0 for joints without a drive.
    """
    dynamics, terms = make_formulation('newton_euler', program.tree), JointTerms.of(program.tree)
    efforts, passive = [], list(program.passive)
    for t, position, velocity in zip(times.tolist(), q, v, strict=True):
        _, _, Gamma, beta = program.stack.evaluate(position, velocity, t)
        a = program.inverse_of(Gamma, position).solve(-beta)
        load = dynamics.inverse_dynamics(position, velocity, a)
        tau = load + terms.effort(velocity, a, load)
        if passive:  # tau - Gamma_c^T N with N such that these joints need no effort
            rows = Gamma[list(program.mechanical)]
            tau -= rows.T @ np.linalg.lstsq(rows[:, passive].T, tau[passive], rcond=None)[0]
            tau[passive] = 0.0
        efforts.append(tau)
    return np.array(efforts)


def effort_remarks(tree: Robot, times: Array, effort: Array) -> list[str]:
    """Return a remark for each joint whose effort limit is exceeded: peak effort and its time."""
    remarks = []
    for i, joint in enumerate(tree.joint_names):
        worst = int(np.argmax(np.abs(effort[:, i])))
        peak, limit = abs(effort[worst, i]), tree.effort_limit[i]
        if peak > limit:
            remarks.append(
                f'joint {joint!r} needs an effort of {peak:.4g} at t = {times[worst]:.3f} s and '
                f'its limit is {limit:.4g}: the arm will leave the path; run it slower'
            )
    return remarks
