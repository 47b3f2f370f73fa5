# SPDX-License-Identifier: Apache-2.0
r"""Bodies of which each alone, other than described, explains the data.

The data determine combinations of parameters. Where the robot as described, with any joint terms,
does not explain them, but one body other than described does, the others are taken as described.
Several bodies may each do so: a load on the last link or a heavier link before it give nearly the
same efforts. Then the data determine the sum of their masses only, and the change is shared in
proportion to their described masses,

.. math:: \pi = \pi_0 + \sum_i w_i\,\delta_i,\qquad w_i = m_i / \sum_k m_k

where each :math:`\pi_0 + \delta_i` explains the data. So does :math:`\pi`, since efforts are
linear in the parameters, and it is physical, since the physical set is convex.

If one of them explains the data by its mass alone, at the described centre, with an inertia in
proportion or as described, it is taken: a mass that is wrong is likelier than one that is wrong
together with its centre.

A hypothesis explains the data if the squared distance of its base parameters from those of the
data is one of chance, or if it adds less than one percent to the residual.

Source: Wensing, Kim and Slotine 2018 (the physical set is convex).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.estimation.regressor import PER_BODY
from robot_dynamics_ros.identification.least_squares import SURE, Estimate
from robot_dynamics_ros.identification.physical import (
    SIGNED,
    PhysicalParameters,
    data_rows,
    joint_terms,
    physical_parameters,
)
from robot_dynamics_ros.identification.unknowns import Unknowns
from robot_dynamics_ros.spatial.inertia import TENSOR_ELEMENTS, point_mass_inertia
from robot_dynamics_ros.spatial.scalar import Array

_CHANCE = 0.999  # probability of a smaller distance, if the hypothesis is true
_GAIN = 0.01  # relative increase of the residual that does not count
_VAGUE = 0.1  # deviation of a mass, relative to the described one, that determines it
_LOOSE = 1e-3  # weight of the divergence: the body stays physical, and is otherwise free


class SingleChange(NamedTuple):
    """Bodies of which each alone explains the data.

    Attributes:
        bodies: Their indices.
        near: Inertial parameters with the change shared among them, shape (10 bodies,).
        mass: Mass of these bodies together, if one of them alone is other than described, kg.
        nominal: The same as described, kg.
        deviation: Standard deviation of ``mass``, kg.
        rotors: Whether this needs armature that is not separable from link inertia.
        centred: Whether a body explains the data by its mass alone, at its described centre.
    """

    bodies: tuple[int, ...]
    near: Array
    mass: float
    nominal: float
    deviation: float
    rotors: bool
    centred: bool = False


def single_change(estimate: Estimate, unknowns: Unknowns) -> SingleChange | None:
    """Return the bodies of which each alone explains the data.

    None if the described links explain the data, no body alone does, or several do of which the
    data would not determine the mass of one even then. Hypotheses are tried in the order of their
    unknowns: the described links, the mass of one body, one body; the first two without the
    inertia of rotors before with it.

    Args:
        estimate: The estimated base parameters.
        unknowns: The unknowns of the robot, with nominal values.
    """
    if not np.isfinite(estimate.deviations).all():
        return None
    for rotors in (False, True):
        if _explains(estimate, unknowns, rotors, None):
            return None
    for rotors in (False, True):
        fits = {
            i: physical_parameters(estimate, unknowns, _LOOSE, rotors, only=i)
            for i in range(unknowns.tree.bodies)
            if _explains(estimate, unknowns, rotors, i)
        }
        most = _chance(estimate) + physical_parameters(estimate, unknowns, _LOOSE, rotors).misfit
        fits = {i: fit for i, fit in fits.items() if fit.misfit <= most}
        heavier = {i: _heavier(estimate, unknowns, rotors, i) for i in fits}
        likely = {i: change for i, change in heavier.items() if change is not None}
        if len(likely) == 1:
            ((i, (change, deviation)),) = likely.items()
            near, at = unknowns.nominal[: unknowns.links].copy(), PER_BODY * i
            nominal = float(near[at])
            near[at : at + PER_BODY] += change
            return SingleChange((i,), near, near[at], nominal, deviation, rotors, centred=True)
    masses = {i: unknowns.nominal[PER_BODY * i] for i in fits}
    if any(fit.deviations[PER_BODY * i] > _VAGUE * masses[i] for i, fit in fits.items()):
        return None
    return _shared(fits, unknowns) if fits else None


def _shared(fits: Mapping[int, PhysicalParameters], unknowns: Unknowns) -> SingleChange:
    """Return the change shared among bodies, from the fit with each of them alone."""
    nominal = unknowns.nominal[: unknowns.links]
    masses = nominal[::PER_BODY][list(fits)]
    share = masses / masses.sum()
    change = np.array([fit.values[: unknowns.links] - nominal for fit in fits.values()])
    gained = change[:, ::PER_BODY].sum(axis=1)
    own = np.array([fit.deviations[PER_BODY * i] for i, fit in fits.items()])
    mean = float(share @ gained)
    deviation = float(np.sqrt(share @ (np.square(own) + np.square(gained - mean))))
    total = float(masses.sum())
    near = nominal + share @ change
    return SingleChange(tuple(fits), near, total + mean, total, deviation, rotors=True)


def _explains(estimate: Estimate, unknowns: Unknowns, rotors: bool, body: int | None) -> bool:
    """Return whether joint terms and one body, physical or not, explain the data."""
    free = np.eye(PER_BODY) if body is not None else np.zeros((PER_BODY, 0))
    return _change(estimate, unknowns, rotors, body or 0, free) is not None


def _heavier(
    estimate: Estimate, unknowns: Unknowns, rotors: bool, body: int
) -> tuple[Array, float] | None:
    """Return the change of a body to another mass at its described centre that explains the data.

    Its inertia grows in proportion, or is as described; where both explain the data, the mass is
    their mean by likelihood, and its deviation includes how far they are apart. None if neither
    does.

    Returns:
        The change of its inertial parameters, shape (10,), and the deviation of its mass, kg.
    """
    nominal = unknowns.nominal[PER_BODY * body : PER_BODY * (body + 1)]
    centre = nominal[1:4] / nominal[0]
    point = np.array([1.0, *centre, *point_mass_inertia(1.0, centre)[TENSOR_ELEMENTS]])
    tried = []
    for of_body in (nominal / nominal[0], point):
        found = _change(estimate, unknowns, rotors, body, of_body[:, np.newaxis])
        if found is not None and nominal[0] + found[0][0] > 0.0:
            (mass,), (deviation,), distance = found
            tried.append((distance, mass, deviation, mass * of_body))
    if not tried:
        return None
    distances, masses, deviations, changes = (np.array(x) for x in zip(*tried, strict=True))
    share = np.exp(0.5 * (distances.min() - distances))
    share /= share.sum()
    apart = np.square(masses - share @ masses)
    return share @ changes, float(np.sqrt(share @ (np.square(deviations) + apart)))


def _change(
    estimate: Estimate, unknowns: Unknowns, rotors: bool, body: int, free: Array
) -> tuple[Array, Array, float] | None:
    """Return the change of a body along columns (10, k) that explains the data, with joint terms.

    Returns:
        The change and its standard deviations, shape (k,) each, and the squared distance that it
        leaves; None if it does not, or with negative friction or armature only.
    """
    W, y = data_rows(estimate)
    X, drives = W @ estimate.base.B, joint_terms(estimate, unknowns, rotors)[0]
    fixed = unknowns.nominal.copy()
    fixed[drives] = 0.0
    own = X[:, PER_BODY * body : PER_BODY * (body + 1)]
    columns = np.column_stack([own @ free, X[:, drives]])
    size = np.linalg.norm(columns, axis=0)
    size[size == 0.0] = 1.0
    scaled, wanted = columns / size, y - X @ fixed
    found = np.linalg.lstsq(scaled, wanted, rcond=None)[0]
    wanted -= scaled @ found
    distance = float(wanted @ wanted)
    if distance > _chance(estimate):
        return None
    follow = np.linalg.pinv(scaled) @ W  # the base parameters
    deviations = np.sqrt(np.einsum('ij,jk,ik->i', follow, estimate.covariance, follow))
    count, signed = free.shape[1], np.isin(drives, unknowns.places(*SIGNED))
    if (~signed & (found < -SURE * deviations)[count:]).any():
        return None
    changes, deviations = ((x / size)[:count] for x in (found, deviations))
    return changes, deviations, distance


def _chance(estimate: Estimate) -> float:
    """Return the largest squared distance of a hypothesis that explains the data."""
    from scipy.special import chdtri  # scipy.stats takes three times as long to load

    lessened = np.linalg.norm(data_rows(estimate)[0])
    lessened /= np.linalg.norm(estimate.information[:-1, :-1])
    little = 2.0 * _GAIN * float(estimate.counts.sum()) * float(lessened) ** 2
    return max(float(chdtri(len(estimate.values), 1.0 - _CHANCE)), little)
