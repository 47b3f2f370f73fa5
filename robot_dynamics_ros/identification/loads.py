# SPDX-License-Identifier: Apache-2.0
r"""Estimation of a load, or of drive gains from a known load, from a loaded run.

The arm is identified from a run without load. The additional effort in a run with load is linear
in the ten parameters :math:`\varphi` of the load,

.. math:: \Delta\tau_j = s_j^{-1}\,(1 + \mu_j\,\mathrm{sign}(\tau_j v_j))\,Y_j\varphi + F_j f

where :math:`s_j` is the correction factor of the drive gain, the factor in parentheses is the
load-dependent friction of the gear, and :math:`F f` is the change of friction, with temperature.
Of an arm that is not identified, :math:`F f` contains the inertia of the rotors, too, which would
else be that of the load.
With known gains, :math:`\varphi` is estimated; with a known mass of the load, the gains.

Source: Gautier and Briot 2014 (drive gains from a known load).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.estimation.accumulate import compared
from robot_dynamics_ros.estimation.regressor import PER_BODY, load_parameters, regressor
from robot_dynamics_ros.identification.evidence import Ridge
from robot_dynamics_ros.identification.identify import Identification, conclude, gather
from robot_dynamics_ros.identification.unknowns import described
from robot_dynamics_ros.identification.validation import implausible
from robot_dynamics_ros.model import Payload, Robot
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.recordings.samples import prepare
from robot_dynamics_ros.spatial.inertia import body_inertia, tensor_of
from robot_dynamics_ros.spatial.scalar import Array

_REACH = 0.15  # m, prior distance of the centre of mass of a load from its frame
_VAGUE = 0.5  # of it or of the estimate: deviation of a coordinate that is not determined
#: Relative deviation of described masses, and of gains that are not known better.
STILL_TRUSTED = 0.1
_CARRIES = 0.01  # of the largest gravity effort: least variation at a joint to scale its gain
_ALIKE = 0.25  # maximum relative residual between nominal and identified gravity effort
_DETERMINED = 0.25  # maximum relative deviation of a gain that a load determines
_ROUNDS = 30
_SHARE = 2.0 / 3.0  # of a correction that is made: the arm that follows it overshoots by half
_SETTLED = 2e-3  # relative correction of a gain that ends the rounds


class DriveGains(NamedTuple):
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


class LoadEstimate(NamedTuple):
    """An estimated load, with standard deviations, infinite if that of the arm is not known.

    Attributes:
        payload: Mass, centre of mass and inertia in its frame.
        mass_deviation: kg.
        com_deviation: Shape (3,), m.
        inertia_deviation: Shape (3, 3), kg m^2.
        gains: Drive gains used for the estimate.
        known: Which coordinates of the centre, and moments about it, the data determine, shape
            (6,). The centre is at the frame along the others; the other moments are as small as
            the known ones allow.
    """

    payload: Payload
    mass_deviation: float
    com_deviation: Array
    inertia_deviation: Array
    gains: DriveGains
    known: Array


def gains_by_weight(arm: Identification, recording: Recording) -> DriveGains:
    """Return the gains with which the identified weight of the arm matches its description.

    Args:
        arm: Identification of the arm without load.
        recording: The same run, or another run of the arm without load.
    """
    unknowns, tree = arm.plan.unknowns, arm.plan.unknowns.tree
    q = prepare(recording, tree, arm.plan.preparation).motion.q
    Y = regressor(tree, q, 0.0 * q, 0.0 * q)
    own, felt = (Y @ x[: unknowns.links] for x in (unknowns.nominal, arm.physical.values))
    slope, alike = compared(felt, own)
    rest = np.sqrt(np.maximum(1.0 - np.square(np.diag(alike)), 0.0))  # of what is felt
    varies = own.std(axis=0)
    carries = (varies > _CARRIES * np.abs(own).max()) & (rest < _ALIKE) & (slope > 0.0)
    if not carries.any():
        return DriveGains.of_profile(tree, STILL_TRUSTED)
    factor = np.full(tree.n, np.median(1.0 / slope[carries]))
    factor[carries] = 1.0 / slope[carries]
    relative = np.where(carries, np.hypot(STILL_TRUSTED, 0.5 * rest), _DETERMINED)
    names = ', '.join(np.array(tree.joint_names)[carries])
    source = f"gains scaled by the arm's own weight at {names}, those of the others alike"
    return DriveGains(factor, factor * relative, source)


class _Difference:
    """Difference between the efforts of a loaded run and the model of the arm without load.

    Args:
        arm: Identification of the arm without load.
        recording: The loaded run.
        frame: The link that carries the load; raises ModelError if it is fixed to the base.
        steps: Independent deviations of the arm's parameters, shape (k, p).
        rotors: Deviations of the armature, shape (n,), infinite if unknown; empty if it is known.
    """

    def __init__(
        self,
        arm: Identification,
        recording: Recording,
        frame: str,
        steps: Array | None = None,
        rotors: Sequence[float] | Array = (),
    ) -> None:
        unknowns, tree = arm.plan.unknowns, arm.plan.unknowns.tree
        self.tree, self.frame = tree, tree.moving_frame(frame)
        self.name = frame
        self.motion = motion = prepare(recording, tree, arm.plan.preparation).motion
        columns = unknowns.columns(motion)
        values = arm.physical.values
        explained = columns @ values + unknowns.known(motion)
        self.added = motion.effort - explained
        rigid = columns[:, :, : unknowns.links] @ values[: unknowns.links]
        at = slice(PER_BODY * self.frame.body, PER_BODY * (self.frame.body + 1))
        load = described(arm.tree, 'load_friction')
        pressed = 1.0 + load * np.sign(rigid) * motion.sign
        load_columns = columns[:, :, at] @ load_parameters(tree, frame).T
        self.pull = load_columns * pressed[:, :, np.newaxis]
        changed = [motion.v, motion.sign, np.ones_like(motion.v)] + [motion.a] * (len(rotors) > 0)
        self.drives = np.concatenate(
            [x[:, :, np.newaxis] * np.eye(tree.n) for x in changed], axis=2
        )
        self._spread = np.append(np.full(3 * tree.n, np.inf), rotors)
        self.steps = columns @ (np.zeros((0, len(unknowns))) if steps is None else steps).T

    def load(self, gains: DriveGains, near: Array, size: float) -> Ridge:
        """Return the ridge regression of the load; gains and arm are known up to deviations.

        A load has ten parameters as of ``load_parameters``: those that the data do not determine
        remain those of a point mass at the frame.

        Args:
            gains: Drive gains.
            near: An approximate load, shape (10,).
            size: Half the prior deviation of its mass, kg.
        """
        mass = 2.0 * size
        lever = mass * _REACH
        spread = [mass, *3 * [lever], *6 * [lever**2 / mass]]
        pull = self.pull / gains.factor[:, np.newaxis]
        by_gain = (pull @ near / gains.factor)[:, :, np.newaxis] * np.eye(self.tree.n)
        considered = np.concatenate([by_gain, self.steps], axis=2)
        known = np.concatenate([gains.deviation, np.ones(self.steps.shape[2])])
        return self._solve(pull, spread, (considered, known))

    def inverse_gains(self, gains: DriveGains, load: Array, moves: Array) -> tuple[Array, Array]:
        """Return the inverse of each joint's factor, and its deviation, shape (n,).

        Args:
            gains: Approximate drive gains.
            load: The load, shape (10,).
            moves: Independent deviations of the load, shape (k, 10).
        """
        n = self.tree.n
        pull = (self.pull @ load)[:, :, np.newaxis] * np.eye(n)
        considered = self.pull @ moves.T / gains.factor[:, np.newaxis]
        ridge = self._solve(pull, np.full(n, np.inf), (considered, np.ones(len(moves))))
        return ridge.values[:n], np.sqrt(np.diag(ridge.covariance()))[:n]

    def _solve(
        self,
        pull: Array,
        spread: Sequence[float] | Array,
        considered: tuple[Array, Array],
    ) -> Ridge:
        """Return the regression of what pulls, with the change of friction and armature."""
        columns = np.concatenate([pull, self.drives], axis=2)
        spread = np.append(spread, self._spread)
        return Ridge.of_samples(columns, self.added, self.motion.usable, spread, considered)


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
        ModelError: It is on the base.
        RecordingError: No sample can be used, or there is no load.
    """
    unknowns, base = arm.plan.unknowns, arm.estimate.base
    rotors: Sequence[float] | Array = ()
    known = described or bool(np.isfinite(arm.estimate.covariance).all())
    if described:  # one independent step per body
        # Without an armature, that of the drives is unknown.
        armature = unknowns.tree.armature
        rotors = np.where(armature > 0.0, STILL_TRUSTED * armature, np.inf)
        body = np.arange(len(unknowns)) // PER_BODY
        own = body == np.arange(unknowns.tree.bodies)[:, np.newaxis]
        steps = STILL_TRUSTED * np.where(own, unknowns.nominal, 0.0)
    else:
        steps = np.zeros((len(base), len(unknowns)))
        steps[:, base.leading] = _steps(arm.estimate.covariance) if known else 0.0
    problem = _Difference(arm, loaded, frame, steps, rotors)
    size = 0.5 * float(problem.tree.mass.sum())  # of the heaviest: as heavy as the arm
    values = size * np.eye(PER_BODY)[0]
    for _ in range(3):  # the prior deviations depend on the mass, as far as it is known
        ridge = problem.load(gains, values, size)
        values, covariance = ridge.values[:PER_BODY], ridge.covariance()[:PER_BODY, :PER_BODY]
        size = max(abs(float(values[0])), math.sqrt(covariance[0, 0]))
    if not values[0] > 0.0:
        asked = 'give the loaded run as BAG, the other one with --unloaded'
        asked = '; or, if so, '.join([asked, *implausible(arm)])
        raise RecordingError('the loaded run', f'implies a load of {values[0]:.3g} kg', asked)
    load = _in_frame(problem, values, covariance, gains)
    more = 0.0 if known else math.inf
    names = 'mass_deviation', 'com_deviation', 'inertia_deviation'
    return load._replace(**{name: getattr(load, name) + more for name in names})


def _steps(covariance: Array) -> Array:
    """Return independent deviations with a covariance (k, k), one per row."""
    sizes, axes = np.linalg.eigh(covariance)
    return np.asarray((axes * np.sqrt(np.maximum(sizes, 0.0))).T)


def _in_frame(
    problem: _Difference, values: Array, covariance: Array, gains: DriveGains
) -> LoadEstimate:
    """Return a load in its frame; deviations propagated by finite differences."""
    flat = _flat(problem, values)
    root = np.linalg.cholesky(covariance + 1e-15 * np.eye(PER_BODY) * np.trace(covariance))
    moves = np.array([_flat(problem, values + 1e-3 * step) - flat for step in root.T]) / 1e-3
    deviation = np.sqrt(np.square(moves).sum(axis=0))
    com, inertia, spread = flat[1:4], flat[4:].reshape(3, 3), deviation[4:].reshape(3, 3)
    vague = _VAGUE * np.maximum(_REACH, np.abs(com))
    known = np.append(deviation[1:4] < vague, np.diag(spread) < np.diag(inertia))
    moments = np.where(known[3:], np.diag(inertia), 0.0)
    inertia = np.where(np.outer(known[3:], known[3:]), inertia, np.diag(moments))
    com = np.where(known[:3], com, 0.0)
    payload = Payload(float(values[0]), com, _possible(inertia), problem.name)
    return LoadEstimate(payload, float(deviation[0]), deviation[1:4], spread, gains, known)


def _flat(problem: _Difference, values: Array) -> Array:
    """Return mass, centre of mass and inertia about it, in the frame of the load, shape (13,)."""
    R = problem.frame.R_BF
    tensor = R.T @ tensor_of(values) @ R
    own = body_inertia(np.append(values[:4], tensor[np.triu_indices(3)]))
    return np.concatenate([[own.mass], own.com, np.ravel(own.inertia)])


def _possible(inertia: Array) -> Array:
    """Return the nearest physical inertia tensor: second moments of mass not negative."""
    second = 0.5 * np.trace(inertia) * np.eye(3) - inertia
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
        UnknownNameError, ModelError: As :func:`estimate_load`.
        RecordingError: No sample can be used, or the load determines no gain.
    """
    problem = _Difference(arm, loaded, frame)
    n = problem.tree.n
    load = mass * np.eye(PER_BODY)[0]
    gains, still = DriveGains.of_profile(problem.tree), np.zeros((0, PER_BODY))
    for _ in range(_ROUNDS):
        start = problem.load(gains, load, mass).values[:PER_BODY]
        if not start[0] > 0.0:
            raise RecordingError(
                'the loaded run',
                f'implies a load of {start[0]:.3g} kg',
                'give the run without the load first, the loaded one second',
            )
        load = start * mass / start[0]
        inverse, deviation = problem.inverse_gains(gains, load, still)
        known = (inverse > 0.0) & (deviation < _DETERMINED * np.abs(inverse))
        if not known.any():
            raise RecordingError(
                'the loaded run', 'shows no effect of the load', 'give the loaded run second'
            )
        new = np.full(n, np.median(1.0 / inverse[known]))
        new[known] = 1.0 / inverse[known]
        settled = np.max(np.abs(new - gains.factor)) < 1e-6
        gains = gains._replace(factor=new)
        if settled:
            break
    # Only the mass of the load is known. The gain of a joint whose effort depends mainly on the
    # lever arm of the load is not separable from it.
    factor, spread = gains.factor, np.where(known, gains.factor**2 * deviation, 0.0)
    ridge = problem.load(gains._replace(deviation=spread), load, mass)
    best = ridge.values[:PER_BODY]
    moves = _steps(ridge.covariance()[:PER_BODY, :PER_BODY])
    moves = (moves - np.outer(moves[:, 0] / best[0], best)) * mass / best[0]
    _, deviation = problem.inverse_gains(gains, best * mass / best[0], moves)
    spread = np.where(known, factor**2 * deviation, np.inf)
    known &= spread < _DETERMINED * factor
    if not known.any():
        raise RecordingError('the loaded run', 'determines no gain', 'use a heavier load')
    names = np.array(problem.tree.joint_names)[known].tolist()
    source = f'gains by a load of {mass:g} kg at {", ".join(names)}'
    factor, spread = np.where(known, factor, 1.0), np.where(known, spread, np.inf)
    return DriveGains(factor, spread, source), names


def gains_by_runs(
    arm: Identification, unloaded: Recording, loaded: Recording, frame: str, mass: float
) -> tuple[DriveGains, list[str]]:
    """Return the gains by a known load, and the joints whose gains it determines.

    No arm explains efforts with unequal gains, and what it leaves would be that of the load in
    another motion: the arm is identified with the corrected efforts, until both agree.

    Args:
        arm: Identification of the arm from ``unloaded``, with the gains as given.
        unloaded: A run without the load.
        loaded: A run with the load.
        frame: The link that carries the load.
        mass: Mass of the load, kg.

    Raises:
        UnknownNameError, ModelError: See :func:`gains_by_load`.
        RecordingError: See there; or the two do not agree.
    """
    factor, plan = np.ones(arm.plan.unknowns.tree.n), replace(arm.plan, reference=None)
    for _ in range(_ROUNDS):
        gains, names = gains_by_load(arm, _scaled(loaded, factor), frame, mass)
        known = np.isfinite(gains.deviation)
        correction = np.where(known, gains.factor, np.median(gains.factor[known])) ** _SHARE
        factor = factor * correction
        if np.abs(correction - 1.0).max() < _SETTLED:
            break
        arm = conclude(gather(_scaled(unloaded, factor), plan), plan)
    else:
        raise RecordingError(
            'the gains',
            f'and the arm do not agree after {_ROUNDS} corrections',
            'record motions in which each joint carries more of the load',
        )
    deviation = factor * gains.deviation
    return gains._replace(factor=np.where(known, factor, 1.0), deviation=deviation), names


def _scaled(run: Recording, factor: Array) -> Recording:
    """Return a recording with its efforts times a factor of each joint."""
    return replace(run, effort=run.effort * factor, measured_effort=run.measured_effort * factor)
