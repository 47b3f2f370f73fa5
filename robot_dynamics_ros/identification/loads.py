# SPDX-License-Identifier: Apache-2.0
r"""What an arm carries, and what its drives' numbers are worth, from a run with a load.

The arm was learned from a run without load. What a run with load adds to its effort is linear in
the ten parameters :math:`\varphi` of the load,

.. math:: \Delta\tau_j = s_j^{-1}\,(1 + \mu_j\,\mathrm{sign}(\tau_j v_j))\,Y_j\varphi + F_j f

where :math:`s_j` is what the gain of a drive has to be multiplied by, the load presses on the gear
too, and F is friction that has changed with temperature. With the gains known, :math:`\varphi` is
estimated; with the mass of the load known, the gains are.

Source: Gautier and Briot 2014 (drive gains from a known load).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.identification.evidence import Ridge, rms_effort
from robot_dynamics_ros.identification.identify import Identification
from robot_dynamics_ros.identification.preparation import Samples, prepare
from robot_dynamics_ros.identification.regressor import PER_BODY, regressor, tensor_of
from robot_dynamics_ros.identification.unknowns import described
from robot_dynamics_ros.model import Payload, RobotTree
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.spatial.inertia import RigidBodyInertia, shift_inertia
from robot_dynamics_ros.spatial.linear_algebra import root_mean_square
from robot_dynamics_ros.spatial.scalar import Array

_REACH = 0.15  # m: how far the centre of a load may be from its frame
_HEAVIEST = 1.0  # of the mass of the arm
_WEAK = 10.0  # RMS efforts that friction may have changed by
_STILL_TRUSTED = 0.1  # relative deviation of the nominal masses that scale gains
_CARRIES = 0.02  # of the largest swing of weight: a joint with less scales no gain
_ALIKE = 0.25  # relative difference of the shapes of weight up to which one scales the other
_DETERMINED = 0.25  # relative deviation up to which a gain counts as determined by a load
_ROUNDS = 30


@dataclass(frozen=True, eq=False)
class DriveGains:
    """Factors that the drive gains have to be multiplied by.

    Attributes:
        factor: Shape (n,); 1 where nothing is known.
        deviation: Shape (n,); infinite where nothing is known.
        source: One sentence: where they are from.
    """

    factor: Array
    deviation: Array
    source: str

    @classmethod
    def of_profile(cls, tree: RobotTree) -> DriveGains:
        """Return the gains as they were given."""
        return cls(np.ones(tree.n), np.zeros(tree.n), 'gains as given')


@dataclass(frozen=True, eq=False)
class LoadEstimate:
    """A load.

    Attributes:
        payload: Mass, centre and inertia in its frame.
        mass_deviation: kg.
        com_deviation: Shape (3,), m.
        inertia_deviation: Shape (3, 3), kg m^2.
        gains: Those it was weighed with.
    """

    payload: Payload
    mass_deviation: float
    com_deviation: Array
    inertia_deviation: Array
    gains: DriveGains


def gains_by_weight(arm: Identification, recording: Recording) -> DriveGains:
    """Return the gains with which the arm weighs what its description says.

    Args:
        arm: What was learned of the arm without load.
        recording: The same run, or another one of it.
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
    relative = np.where(carries, np.hypot(_STILL_TRUSTED, 0.5 * rest), _DETERMINED)
    names = ', '.join(np.array(tree.joint_names)[carries])
    source = f"gains scaled by the arm's own weight at {names}, those of the others alike"
    return DriveGains(factor, factor * relative, source)


class _Difference:
    """What a loaded run adds to the effort of the arm without load."""

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
        pressed = 1.0 + load * np.sign(rigid) * motion.direction
        self.pull = columns[:, :, at] * pressed[:, :, np.newaxis]
        eye = np.eye(tree.n)
        self.friction = np.concatenate(
            [
                x[:, :, np.newaxis] * eye
                for x in (motion.v, motion.direction, np.ones_like(motion.v))
            ],
            axis=2,
        )
        self.rms = rms_effort(self.samples.effort, self.samples.usable)
        size = root_mean_square(self.friction).max(axis=0)
        self.drift = _WEAK * np.tile(self.rms, 3) / np.maximum(size, 1e-9)

    def spread(self, mass: float) -> Array:
        """Return how large the parameters of a load of some mass may be, about the body."""
        lever = float(np.linalg.norm(self.frame.p_BF)) + _REACH
        return np.array([mass, *3 * [mass * lever], *6 * [mass * lever**2]])

    def solve(self, factor: Array, mass: float) -> Ridge:
        """Return the ridge of the load's parameters with gains, then of friction's change."""
        pull = self.pull / factor[:, np.newaxis]
        columns = np.concatenate([pull, self.friction], axis=2)
        spread = np.concatenate([self.spread(mass), self.drift])
        start = np.zeros(len(spread))
        return Ridge(columns, self.added, self.samples.usable, start, spread)


def estimate_load(
    arm: Identification, loaded: Recording, frame: str, gains: DriveGains
) -> LoadEstimate:
    """Return what an arm carries.

    Args:
        arm: What was learned of the arm without load.
        loaded: A run with it.
        frame: The link that carries it.
        gains: What efforts are to be multiplied by.

    Raises:
        UnknownNameError: There is no such frame.
        RecordingError: Nothing can be used, or there is no load.
    """
    problem = _Difference(arm, loaded, frame)
    mass = _HEAVIEST * float(problem.tree.mass.sum())
    for _ in range(3):  # the reach of a load depends on its mass
        ridge = problem.solve(gains.factor, mass)
        mass = 2.0 * max(abs(float(ridge.values[0])), 1e-3)
    covariance = ridge.covariance()[:PER_BODY, :PER_BODY] + _by_gains(problem, gains, mass)
    return _in_frame(problem, ridge.values[:PER_BODY], covariance, gains)


def _by_gains(problem: _Difference, gains: DriveGains, mass: float) -> Array:
    """Return the covariance of a load that the deviations of the gains make, shape (10, 10)."""
    best = problem.solve(gains.factor, mass).values[:PER_BODY]
    total = np.zeros((PER_BODY, PER_BODY))
    for j, deviation in enumerate(gains.deviation.tolist()):
        if deviation > 0.0:
            moved = gains.factor.copy()
            moved[j] += deviation
            move = problem.solve(moved, mass).values[:PER_BODY] - best
            total += np.outer(move, move)
    return total


def _in_frame(
    problem: _Difference, values: Array, covariance: Array, gains: DriveGains
) -> LoadEstimate:
    """Return a load in its frame; deviations by small changes of every parameter."""
    mass = float(values[0])
    if not mass > 0.0 or not np.isfinite(values).all():
        raise RecordingError(
            'the loaded run',
            f'speaks of a load of {mass:.3g} kg',
            'give the loaded run as BAG, the other one by --unloaded',
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
    """Return mass, centre, inertia about it in the load's frame, shape (13,)."""
    mass, com = values[0], values[1:4] / values[0]
    about = shift_inertia(tensor_of(values), -mass, com)
    frame = problem.frame
    own = RigidBodyInertia(mass, com, about).seen_from(frame.R_BF.T, -frame.R_BF.T @ frame.p_BF)
    return np.concatenate([[own.mass], own.com, np.ravel(own.inertia)])


def _possible(inertia: Array) -> Array:
    """Return the nearest tensor of a real body: moments of mass along each axis not negative."""
    symmetric = 0.5 * (inertia + inertia.T)
    second = 0.5 * np.trace(symmetric) * np.eye(3) - symmetric
    sizes, axes = np.linalg.eigh(second)
    second = (axes * np.maximum(sizes, 1e-9)) @ axes.T
    second = 0.5 * (second + second.T)
    return np.trace(second) * np.eye(3) - second


def gains_by_load(
    arm: Identification, loaded: Recording, frame: str, mass: float
) -> tuple[DriveGains, list[str]]:
    """Return the gains with which a load weighs what it does, and the joints that it tells.

    Args:
        arm: What was learned of the arm without load, with the gains as given.
        loaded: A run with the load.
        frame: The link that carries it.
        mass: Of the load, kg; its centre and inertia are estimated.

    Raises:
        UnknownNameError: There is no such frame.
        RecordingError: Nothing can be used, or no joint feels the load.
    """
    problem = _Difference(arm, loaded, frame)
    n = problem.tree.n
    factor, known = np.ones(n), np.ones(n, dtype=bool)
    for _ in range(_ROUNDS):
        start = problem.solve(factor, 2.0 * mass).values[:PER_BODY]
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
            'the loaded run', 'shows no joint that feels the load', 'give the loaded run second'
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
    """Return deviations of inverse factors, shape (n,), as the load is known by its mass alone.

    Its centre and inertia are estimated with these gains: a gain of a joint that feels little but
    the lever of the load cannot be separated from the lever.
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
    ridge = Ridge(columns, problem.added, problem.samples.usable, np.zeros(len(spread)), spread)
    return ridge.values[:n], np.sqrt(np.diag(ridge.covariance()))[:n]
