# SPDX-License-Identifier: Apache-2.0
r"""Estimation of a load, or of drive gains from a known load, from a loaded run.

The arm is identified from a run without load. The additional effort in a run with load is linear
in the ten parameters :math:`\varphi` of the load,

.. math:: \Delta\tau_j = s_j^{-1}\,(1 + \mu_j\,\mathrm{sign}(\tau_j v_j))\,Y_j\varphi + F_j f

where :math:`s_j` is the correction factor of the drive gain, the factor in parentheses is the
load-dependent friction of the gear, and :math:`F f` is the change of friction, with temperature.
With known gains, :math:`\varphi` is estimated; with a known mass of the load, the gains.

Source: Gautier and Briot 2014 (drive gains from a known load).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.estimation.regressor import PER_BODY, regressor
from robot_dynamics_ros.identification.evidence import Ridge, weak_spread
from robot_dynamics_ros.identification.identify import Identification
from robot_dynamics_ros.identification.preparation import Samples, prepare
from robot_dynamics_ros.identification.unknowns import described
from robot_dynamics_ros.model import Payload, Robot
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.spatial.inertia import body_inertia
from robot_dynamics_ros.spatial.scalar import Array

_REACH = 0.15  # m, prior distance of the centre of mass of a load from its frame
_HEAVIEST = 1.0  # initial prior mass of a load, relative to the mass of the arm
_WEAK = 10.0  # prior deviation of a friction change, in RMS efforts
#: Relative deviation of described masses, and of gains that are not known better.
STILL_TRUSTED = 0.1
_CARRIES = 0.02  # of the largest gravity variation: minimum of a joint to scale its gain
_ALIKE = 0.25  # maximum relative residual between nominal and identified gravity effort
_DETERMINED = 0.25  # maximum relative deviation of a gain that a load determines
_ROUNDS = 30


@dataclass(frozen=True, eq=False)
class DriveGains:
    """Correction factors of the drive gains.

    Attributes:
        factor: Shape (n,); 1 where unknown.
        deviation: Standard deviations, shape (n,); infinite where unknown.
        source: Origin of the factors, one sentence.
    """

    factor: Array
    deviation: Array
    source: str

    @classmethod
    def of_profile(cls, tree: Robot, deviation: float = 0.0) -> DriveGains:
        """Return uncorrected gains with a relative deviation."""
        return cls(np.ones(tree.n), np.full(tree.n, deviation), 'gains as given')


@dataclass(frozen=True, eq=False)
class LoadEstimate:
    """An estimated load, with standard deviations.

    Attributes:
        payload: Mass, centre of mass and inertia in its frame.
        mass_deviation: kg.
        com_deviation: Shape (3,), m.
        inertia_deviation: Shape (3, 3), kg m^2.
        gains: Drive gains used for the estimate.
    """

    payload: Payload
    mass_deviation: float
    com_deviation: Array
    inertia_deviation: Array
    gains: DriveGains


def gains_by_weight(arm: Identification, recording: Recording) -> DriveGains:
    """Return the gains with which the identified weight of the arm matches its description.

    Args:
        arm: Identification of the arm without load.
        recording: The same run, or another run of the arm without load.
    """
    unknowns, tree = arm.plan.unknowns, arm.plan.unknowns.tree
    q = prepare(recording, tree, arm.plan.preparation).motion.q
    Y = regressor(tree, q, 0.0 * q, 0.0 * q)
    own = Y @ unknowns.nominal[: unknowns.links]
    felt = Y @ arm.physical.values[: unknowns.links]
    own, felt = own - own.mean(axis=0), felt - felt.mean(axis=0)
    power = np.square(own).mean(axis=0)
    slope = (own * felt).mean(axis=0) / np.maximum(power, np.finfo(float).tiny)
    rest = np.sqrt(np.square(felt - slope * own).mean(axis=0))
    alike = rest < _ALIKE * np.sqrt(np.square(felt).mean(axis=0))
    carries = (power > _CARRIES**2 * power.max()) & alike & (slope > 0.0)
    if not carries.any():
        return DriveGains.of_profile(tree)
    usual = float(np.median(1.0 / slope[carries]))
    factor = np.where(carries, 1.0 / np.where(carries, slope, 1.0), usual)
    rest = rest / np.sqrt(np.maximum(np.square(felt).mean(axis=0), np.finfo(float).tiny))
    relative = np.where(carries, np.hypot(STILL_TRUSTED, 0.5 * rest), _DETERMINED)
    names = ', '.join(np.array(tree.joint_names)[carries])
    source = f"gains scaled by the arm's own weight at {names}, those of the others alike"
    return DriveGains(factor, factor * relative, source)


class _Difference:
    """Difference between the efforts of a loaded run and the model of the arm without load."""

    def __init__(self, arm: Identification, recording: Recording, frame: str) -> None:
        unknowns, tree = arm.plan.unknowns, arm.plan.unknowns.tree
        self.tree, self.frame = tree, tree.frame(frame)
        self.name = frame
        self.samples: Samples = prepare(recording, tree, arm.plan.preparation)
        motion = self.samples.motion
        columns = unknowns.columns(motion)
        values = arm.physical.values
        explained = columns @ values + unknowns.known(motion)
        self.added = self.samples.effort - explained
        rigid = columns[:, :, : unknowns.links] @ values[: unknowns.links]
        at = slice(PER_BODY * self.frame.body, PER_BODY * (self.frame.body + 1))
        load = described(arm.tree, 'load_friction')
        pressed = 1.0 + load * np.sign(rigid) * motion.sign
        self.pull = columns[:, :, at] * pressed[:, :, np.newaxis]
        eye = np.eye(tree.n)
        self.friction = np.concatenate(
            [x[:, :, np.newaxis] * eye for x in (motion.v, motion.sign, np.ones_like(motion.v))],
            axis=2,
        )
        self.drift = weak_spread(self.friction, self.samples.effort, self.samples.usable, _WEAK)

    def spread(self, mass: float) -> Array:
        """Return the prior deviations of the ten parameters of a load of a given mass, kg."""
        lever = float(np.linalg.norm(self.frame.p_BF)) + _REACH
        return np.array([mass, *3 * [mass * lever], *6 * [mass * lever**2]])

    def solve(self, factor: Array, mass: float) -> Ridge:
        """Return the ridge regression of the load parameters, followed by the friction change."""
        pull = self.pull / factor[:, np.newaxis]
        columns = np.concatenate([pull, self.friction], axis=2)
        spread = np.concatenate([self.spread(mass), self.drift])
        return Ridge.of_samples(columns, self.added, self.samples.usable, spread)


def estimate_load(
    arm: Identification,
    loaded: Recording,
    frame: str,
    gains: DriveGains,
    *,
    described: bool = False,
) -> LoadEstimate:
    """Estimate the load of an arm.

    The deviations contain those of the load, of the gains and of the arm.

    Args:
        arm: Identification of the arm without load.
        loaded: A run with the load.
        frame: The link that carries the load.
        gains: Correction factors of the efforts.
        described: Whether the arm is as described, rather than identified.

    Raises:
        UnknownNameError: The frame is unknown.
        RecordingError: No sample can be used, or there is no load.
    """
    problem = _Difference(arm, loaded, frame)
    mass = _HEAVIEST * float(problem.tree.mass.sum())
    for _ in range(3):  # the prior deviations depend on the mass
        ridge = problem.solve(gains.factor, mass)
        mass = 2.0 * max(abs(float(ridge.values[0])), 1e-3)
    covariance = ridge.covariance()[:PER_BODY, :PER_BODY] + _by_gains(problem, gains, mass)
    steps = _described_steps(arm) if described else _identified_steps(arm)
    covariance += _by_arm(problem, arm, steps, gains, mass)
    return _in_frame(problem, ridge.values[:PER_BODY], covariance, gains)


def _by_gains(problem: _Difference, gains: DriveGains, mass: float) -> Array:
    """Return the covariance of a load due to the deviations of the gains, shape (10, 10)."""
    best = problem.solve(gains.factor, mass).values[:PER_BODY]
    total = np.zeros((PER_BODY, PER_BODY))
    for j, deviation in enumerate(gains.deviation.tolist()):
        if deviation > 0.0:
            moved = gains.factor.copy()
            moved[j] += deviation
            move = problem.solve(moved, mass).values[:PER_BODY] - best
            total += np.outer(move, move)
    return total


def _described_steps(arm: Identification) -> Array:
    """Return the deviations of described parameters, one independent step per body, (b, p)."""
    unknowns = arm.plan.unknowns
    body = np.arange(len(unknowns)) // PER_BODY
    links = np.arange(len(unknowns)) < unknowns.links
    bodies = np.arange(unknowns.links // PER_BODY)[:, np.newaxis]
    return STILL_TRUSTED * np.where(links & (body == bodies), unknowns.nominal, 0.0)


def _identified_steps(arm: Identification) -> Array:
    """Return the deviations of identified base parameters, independent steps, shape (r, p)."""
    base, covariance = arm.estimate.base, arm.estimate.covariance
    sizes, axes = np.linalg.eigh(covariance)
    steps = np.zeros((len(base), len(arm.plan.unknowns)))
    steps[:, base.leading] = (axes * np.sqrt(np.maximum(sizes, 0.0))).T
    return steps


def _by_arm(
    problem: _Difference, arm: Identification, steps: Array, gains: DriveGains, mass: float
) -> Array:
    """Return the covariance of a load due to that of the arm's parameters, shape (10, 10)."""
    best = problem.solve(gains.factor, mass).values[:PER_BODY]
    columns = arm.plan.unknowns.columns(problem.samples.motion)
    total, added = np.zeros((PER_BODY, PER_BODY)), problem.added
    for step in steps:
        problem.added = added - columns @ step
        move = problem.solve(gains.factor, mass).values[:PER_BODY] - best
        total += np.outer(move, move)
    problem.added = added
    return total


def _in_frame(
    problem: _Difference, values: Array, covariance: Array, gains: DriveGains
) -> LoadEstimate:
    """Return a load in its frame; deviations propagated by finite differences."""
    mass = float(values[0])
    if not mass > 0.0 or not np.isfinite(values).all():
        raise RecordingError(
            'the loaded run',
            f'implies a load of {mass:.3g} kg',
            'give the loaded run as BAG, the other one with --unloaded',
        )
    flat = _flat(problem, values)
    root = np.linalg.cholesky(covariance + 1e-15 * np.eye(PER_BODY) * np.trace(covariance))
    moves = np.array([_flat(problem, values + 1e-3 * step) - flat for step in root.T]) / 1e-3
    deviation = np.sqrt(np.square(moves).sum(axis=0))
    com, inertia = flat[1:4], flat[4:].reshape(3, 3)
    payload = Payload(mass, com, _possible(inertia), problem.name)
    return LoadEstimate(
        payload, float(deviation[0]), deviation[1:4], deviation[4:].reshape(3, 3), gains
    )


def _flat(problem: _Difference, values: Array) -> Array:
    """Return mass, centre of mass and inertia about it, in the frame of the load, shape (13,)."""
    frame = problem.frame
    own = body_inertia(values).transformed(frame.R_BF.T, -frame.R_BF.T @ frame.p_BF)
    return np.concatenate([[own.mass], own.com, np.ravel(own.inertia)])


def _possible(inertia: Array) -> Array:
    """Return the nearest physical inertia tensor: second moments of mass not negative."""
    symmetric = 0.5 * (inertia + inertia.T)
    second = 0.5 * np.trace(symmetric) * np.eye(3) - symmetric
    sizes, axes = np.linalg.eigh(second)
    second = (axes * np.maximum(sizes, 1e-9)) @ axes.T
    second = 0.5 * (second + second.T)
    return np.trace(second) * np.eye(3) - second


def gains_by_load(
    arm: Identification, loaded: Recording, frame: str, mass: float
) -> tuple[DriveGains, list[str]]:
    """Return the gains that match a known load, and the joints whose gains it determines.

    Args:
        arm: Identification of the arm without load, with the gains as given.
        loaded: A run with the load.
        frame: The link that carries the load.
        mass: Mass of the load, kg; its centre of mass and inertia are estimated.

    Raises:
        UnknownNameError: The frame is unknown.
        RecordingError: No sample can be used, or the load determines no gain.
    """
    problem = _Difference(arm, loaded, frame)
    n = problem.tree.n
    factor, known = np.ones(n), np.ones(n, dtype=bool)
    for _ in range(_ROUNDS):
        start = problem.solve(factor, 2.0 * mass).values[:PER_BODY]
        if not start[0] > 0.0:
            raise RecordingError(
                'the loaded run',
                f'implies a load of {start[0]:.3g} kg',
                'give the run without the load first, the loaded one second',
            )
        load = start * mass / max(float(start[0]), 1e-6)
        inverse, deviation = _each_gain(problem, load)
        known = (inverse > 0.0) & (deviation < _DETERMINED * np.abs(inverse))
        if not known.any():
            break
        new = np.where(known, 1.0 / np.where(known, inverse, 1.0), 1.0)
        new = np.where(known, new, np.median(new[known]))
        settled = np.max(np.abs(new - factor)) < 1e-6
        factor = new
        if settled:
            break
    if not known.any():
        raise RecordingError(
            'the loaded run', 'shows no effect of the load', 'give the loaded run second'
        )
    spread = factor**2 * np.where(known, deviation, np.inf)
    by_load = factor**2 * _by_centre(problem, DriveGains(factor, spread, ''), mass)
    spread = np.hypot(spread, by_load)
    known &= spread < _DETERMINED * factor
    names = [name for name, x in zip(problem.tree.joint_names, known, strict=True) if x]
    factor = np.where(known, factor, 1.0)
    spread = np.where(known, spread, np.inf)
    return DriveGains(
        factor, spread, f'gains by a load of {mass:g} kg at {", ".join(names)}'
    ), names


def _by_centre(problem: _Difference, gains: DriveGains, mass: float) -> Array:
    """Return deviations of inverse factors due to the estimated load, shape (n,).

    Only the mass is known; centre of mass and inertia are estimated with these gains. The gain of
    a joint whose effort depends mainly on the lever arm of the load is not separable from it.
    """
    ridge = problem.solve(gains.factor, 2.0 * mass)
    known = replace(gains, deviation=np.where(np.isfinite(gains.deviation), gains.deviation, 0.0))
    covariance = ridge.covariance()[:PER_BODY, :PER_BODY] + _by_gains(problem, known, 2.0 * mass)
    loads = [ridge.values[:PER_BODY]]
    sizes, axes = np.linalg.eigh(covariance)
    loads += [loads[0] + step for step in (axes * np.sqrt(np.maximum(sizes, 0.0))).T]
    best, *moved = (_each_gain(problem, x * mass / max(float(x[0]), 1e-6))[0] for x in loads)
    return np.sqrt(np.square(np.array(moved) - best).sum(axis=0))


def _each_gain(problem: _Difference, load: Array) -> tuple[Array, Array]:
    """Return the inverse of each joint's factor for a load, and its deviation, shape (n,)."""
    n = problem.tree.n
    pull = (problem.pull @ load)[:, :, np.newaxis] * np.eye(n)
    columns = np.concatenate([pull, problem.friction], axis=2)
    spread = np.concatenate([np.full(n, _WEAK), problem.drift])
    ridge = Ridge.of_samples(columns, problem.added, problem.samples.usable, spread)
    return ridge.values[:n], np.sqrt(np.diag(ridge.covariance()))[:n]
