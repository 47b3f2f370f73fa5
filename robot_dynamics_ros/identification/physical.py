# SPDX-License-Identifier: Apache-2.0
r"""Physically consistent parameters, close to the nominal ones where the data are uninformative.

The estimate minimizes a convex function, the sum of the data misfit and the divergence from the
nominal robot, which is infinite at the boundary of the physical set:

.. math:: \tfrac12\,\|W(\beta(\pi) - \hat\beta)\|^2
    + \lambda\sum_i\big[\mathrm{tr}(P_{0i}^{-1}P_i) - \log\det P_i\big]
    - \mu\sum_k \log x_k

The function is self-concordant; Newton's method follows the minima while the weight of the
divergence falls to its own, about five steps each.

Source: Lee, Wensing and Park 2020 (the function); Nesterov and Nemirovskii 1994 (the method).

The pseudo-inertia P of a body is

.. math:: P = \int \begin{pmatrix}x\\1\end{pmatrix}\begin{pmatrix}x\\1\end{pmatrix}^T dm
    = \begin{pmatrix}\tfrac12\mathrm{tr}(I)E - I & m c\\ m c^T & m\end{pmatrix}

A body is physical if and only if :math:`P \succ 0`, which implies positive mass, positive moments
and the triangle inequality. P is linear in the ten parameters.

Source: Wensing, Kim and Slotine 2018 (pseudo-inertia, linear matrix inequality); Lee, Wensing and
Park 2020 (entropic divergence as regularization).

A body consists of the child link of a joint and all links fixed to it. A correction of the body
is applied to one of these, the carrier: the child link if it has an <inertial>, else the heaviest
link. The others keep their inertia.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from robot_dynamics_ros.description.urdf import Inertial, Pose, parse_urdf
from robot_dynamics_ros.errors import ModelError
from robot_dynamics_ros.estimation.regressor import PER_BODY
from robot_dynamics_ros.identification.least_squares import Estimate
from robot_dynamics_ros.identification.unknowns import Unknowns
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.build import link_inertia
from robot_dynamics_ros.spatial.inertia import (
    RigidBodyInertia,
    body_parameters,
    pseudo_inertia,
    tensor_of,
)
from robot_dynamics_ros.spatial.scalar import Array

_BARRIER = 1e-3  # mu; shifts a scalar at 0 by 3 % of its standard deviation
_REGULAR = 1e-14  # least ratio of the moments of a body: inverses exist in spite of rounding
_STEPS = 100
_CONVERGED = 1e-7  # Newton decrement; its square bounds the excess over the minimum
_NEAR = 0.1  # the same before the weight falls
_THINNEST = 0.01  # least to largest spread of a body without volume: a tenth as thick as long
_FALL = 5.0  # ratio of the weights of the divergence from one minimum to the next
#: Joint terms that may be negative.
SIGNED = (
    'offset',
    'root_friction',
    'square_friction',
    'cubic_friction',
    'stribeck_friction',
)


@dataclass(frozen=True, eq=False)
class PhysicalParameters:
    """All p parameters of a robot, physically consistent.

    Attributes:
        values: Shape (p,), inertias of whole bodies.
        deviations: Standard deviations given data and nominal model, shape (p,); 0 for held terms.
        held: Indices of joint terms that the data do not determine; kept at nominal values.
        steps: Number of Newton steps.
        cost: Minimum of the cost: misfit plus divergence from the nominal robot.
        misfit: Squared distance of the base parameters from those of the data, in standard
            deviations.
    """

    values: Array
    deviations: Array
    held: Array
    steps: int
    cost: float
    misfit: float


def physical_parameters(
    estimate: Estimate,
    unknowns: Unknowns,
    prior_weight: float = 1.0,
    rotors: bool = True,
    near: Array | None = None,
    only: int | None = None,
) -> PhysicalParameters:
    """Return the physical parameters that fit the data best.

    The links that corrections do not change keep their inertia; the rest of each body is estimated
    and is itself physical.

    Args:
        estimate: The estimated base parameters.
        unknowns: The unknowns of the robot, with nominal values.
        prior_weight: lambda; 1: standard deviation of the nominal inertia equal to its size.
        rotors: See :func:`joint_terms`: the nominal link then decides the split.
        near: Physical inertial parameters to stay close to, shape (10 bodies,); default: nominal.
        only: Index of the only body that may differ from ``near``; default: every body may.

    Returns:
        The parameters; always physical.

    Raises:
        ModelError: A nominal body without its fixed parts has no mass, or no extent.
    """
    known, tree = unknowns.nominal.copy(), unknowns.tree
    if near is not None:
        known[: unknowns.links] = near
    inertias, roots = known[: unknowns.links].reshape(-1, PER_BODY), dict[int, Array]()
    for i, (_, fixed) in enumerate(body_links(tree)):
        if only in (None, i):
            roots[i] = _root(tree.link_names[i], inertias[i] - fixed)
            inertias[i] = fixed
    free, held = joint_terms(estimate, unknowns, rotors)
    known[free] = 0.0
    size = _sizes(estimate, unknowns, free)
    T = _to_parameters(len(unknowns), roots, free, size)
    W, effort = data_rows(estimate)
    A, y = W @ estimate.base.B @ T, effort - W @ estimate.base.B @ known
    signed = np.isin(free, unknowns.places(*SIGNED))
    distance = Divergence(len(roots), ~signed, prior_weight, _BARRIER)
    x, steps = _follow(A, y, distance, distance.start(unknowns.nominal[free] / size))
    prior = distance.root(distance.start(np.ones(len(free))))  # its barriers are no information
    deviations = np.linalg.norm(T @ np.linalg.pinv(np.vstack([A, prior])), axis=1)
    if not np.isfinite(estimate.deviations).all():
        deviations[deviations > 0.0] = np.inf
    misfit = float(np.sum(np.square(A @ x - y)))
    cost = 0.5 * misfit + distance.value(x)
    return PhysicalParameters(known + T @ x, deviations, held, steps, cost, misfit)


def data_rows(estimate: Estimate) -> tuple[Array, Array]:
    """Return W and y, whose misfit |W beta - y| counts standard deviations of base parameters.

    The weight is reduced for the correlation of residuals in time.
    """
    R, effort = estimate.information[:-1, :-1], estimate.information[:-1, -1]
    ratio = estimate.deviations / np.linalg.norm(np.linalg.pinv(R), axis=1)
    excess = max(1.0, float(np.median(ratio))) if np.isfinite(ratio).all() else 1.0
    return R / excess, effort / excess


def _root(name: str, inertias: Array) -> Array:
    """Return the Cholesky factor of the pseudo-inertia of the unknown part of a body.

    A body that cannot exist, as in a third of the published descriptions, counts as the nearest
    one of this mass, centre of mass and principal axes that can.
    """
    P = pseudo_inertia_of(inertias)
    with np.errstate(all='ignore'):
        covariance = P[:3, :3] - np.outer(P[:3, 3], P[:3, 3]) / P[3, 3]
    spread, axes = np.linalg.eigh(np.nan_to_num(covariance))
    if not (P[3, 3] > 0.0 and spread[-1] > 0.0):
        raise ModelError(
            f'body of link {name!r}',
            'nominal pseudo-inertia is not positive definite',
            'give it a physically consistent inertia (see command check_model)',
        )
    if spread[0] <= 0.0:
        lack = np.maximum(_THINNEST * spread[-1] - spread, 0.0)
        P[:3, :3] += axes * lack @ axes.T
    return np.linalg.cholesky(P)


def joint_terms(estimate: Estimate, unknowns: Unknowns, rotors: bool) -> tuple[Array, Array]:
    """Return the joint terms to estimate and those to hold.

    Args:
        estimate: The estimated base parameters.
        unknowns: The unknowns of the robot.
        rotors: Whether to estimate armature, too, that the data do not tell from link inertia, and
            for which the description has no value.
    """
    terms = np.arange(unknowns.links, len(unknowns))
    known = np.isin(terms, estimate.base.leading)
    if rotors:
        lacking = estimate.base.B[:, terms].any(axis=0) & (unknowns.nominal[terms] == 0.0)
        known |= lacking & np.isin(terms, unknowns.places('armature'))
    return terms[known], terms[~known]


def _sizes(estimate: Estimate, unknowns: Unknowns, free: Array) -> Array:
    """Return the scale of each free joint term: nominal, estimated or its uncertainty."""
    B = estimate.base.B
    at = np.argmax(np.abs(B[:, free]), axis=0)  # combination that contains the term
    share = B[at, free]
    candidates = (
        estimate.values[at] / share,
        unknowns.nominal[free],
        estimate.deviations[at] / share,
    )
    size = np.max(np.abs(candidates), axis=0)
    return np.where(np.isfinite(size) & (size > 0.0), size, 1.0)


def _to_parameters(count: int, roots: Mapping[int, Array], free: Array, size: Array) -> Array:
    """Return the matrix from the coordinates of ``Divergence`` to parameters."""
    columns = []
    for i, L in roots.items():
        own = np.zeros((count, PER_BODY))
        moved = [parameters_of(P) for P in L @ symmetric_units() @ L.T]
        own[PER_BODY * i : PER_BODY * (i + 1)] = np.transpose(moved)
        columns.append(own)
    return np.hstack([*columns, np.eye(count)[:, free] * size])


def _follow(A: Array, y: Array, distance: Divergence, x: Array) -> tuple[Array, int]:
    """Minimize as :func:`_minimize`, on the path of the minima from the nominal robot.

    The weight of the divergence falls from one at which the nominal robot is nearly the minimum:
    far from it, Newton's steps would be cut at the boundary of the physical set, and their number
    grow with the misfit (a load of 16 % of the arm: 100 steps, and 25 times the minimum).
    """
    count, far = 0, 0.5 * float(np.sum(np.square(A @ x - y))) / (len(x) * distance.weight)
    for stage in range(math.ceil(math.log(max(far, 1.0), _FALL)), -1, -1):
        times = _FALL**stage
        enough = _NEAR * math.sqrt(times * distance.weight) if stage else _CONVERGED
        x, steps = _minimize(A, y, distance.scaled(times), x, enough)
        count += steps
    return x, count


def _minimize(
    A: Array, y: Array, distance: Divergence, x: Array, enough: float
) -> tuple[Array, int]:
    """Minimize ``|A x - y|^2 / 2 + distance(x)``; return x and the number of Newton steps.

    Each step is solved as a least-squares problem with the rows [A; F], which avoids the loss of
    precision of the normal equations: the Hessian is ``A^T A + F^T F``, and the right-hand side f
    satisfies ``F^T f = gradient``.
    """
    steps = 0
    while steps < _STEPS:
        steps += 1
        F, misfit = distance.root(x), A @ x - y
        f = np.linalg.lstsq(F.T, distance.gradient(x), rcond=None)[0]
        rows = np.vstack([A, F])
        size = np.linalg.norm(rows, axis=0)
        size[size == 0.0] = 1.0
        move = -np.linalg.lstsq(rows / size, np.append(misfit, f), rcond=None)[0] / size
        decrement = float(np.linalg.norm(rows @ move))
        length = _length(A @ move, misfit, distance, x, move, decrement)
        x = x + length * move
        if decrement < enough or length == 0.0:
            break
    return x, steps


def _length(
    along: Array, misfit: Array, distance: Divergence, x: Array, move: Array, decrement: float
) -> float:
    """Return the step length of a backtracking line search; 0 if the function cannot decrease."""
    here, length = distance.value(x), 1.0
    while length > 1e-10:
        data = length * float(misfit @ along) + 0.5 * length**2 * float(along @ along)
        if data + distance.value(x + length * move) - here <= -0.1 * length * decrement**2:
            return length
        length *= 0.5
    return 0.0


def pseudo_inertia_of(block: Array) -> Array:
    """Return the pseudo-inertia P, shape (4, 4), of the ten parameters of a body."""
    return pseudo_inertia(block[0], block[1:4], tensor_of(block))


def parameters_of(P: Array) -> Array:
    """Return the ten parameters of a pseudo-inertia of shape (4, 4), new array of shape (10,)."""
    second = P[:3, :3]
    tensor = np.trace(second) * np.eye(3) - second
    return np.concatenate([[P[3, 3]], P[:3, 3], tensor[np.triu_indices(3)]])


@cache
def symmetric_units() -> Array:
    """Return the symmetric unit matrices, shape (10, 4, 4), the four diagonal ones first."""
    units = np.zeros((PER_BODY, 4, 4))
    places = [(k, k) for k in range(4)] + [(i, j) for i in range(4) for j in range(i + 1, 4)]
    for unit, (i, j) in zip(units, places, strict=True):
        unit[i, j] = unit[j, i] = 1.0
    return units


class Divergence:
    r"""Divergence of bodies and scalars from nominal, in coordinates with Q = 1 at nominal.

    .. math:: \lambda\sum_i[\mathrm{tr}\,Q_i - \log\det Q_i] - \mu\sum_k\log x_k,\qquad
        P_i = L_i Q_i L_i^T,\quad P_{0i} = L_i L_i^T

    The first sum is the entropic divergence, independent of frames and units and infinite at the
    boundary of the physical set; the second is a weak barrier that keeps friction and armature
    positive.

    Args:
        bodies: Number of bodies; the ten elements of Q of each come first in the coordinates.
        positive: Mask of the following scalars that must be positive.
        weight: lambda.
        barrier: mu.
    """

    def __init__(self, bodies: int, positive: Array, weight: float, barrier: float) -> None:
        self.bodies, self.positive = bodies, positive
        self.weight, self.barrier = weight, barrier
        self._links = PER_BODY * bodies

    def scaled(self, times: float) -> Divergence:
        """Return a multiple of this function."""
        return Divergence(self.bodies, self.positive, times * self.weight, times * self.barrier)

    def start(self, scalars: Array) -> Array:
        """Return the coordinates of the nominal bodies and of scalars, made positive if needed."""
        inside = np.where(self.positive, np.maximum(scalars, 1e-2), scalars)
        return np.concatenate([np.tile([1.0] * 4 + [0.0] * 6, self.bodies), inside])

    def _matrices(self, x: Array) -> Array:
        coordinates = x[: self._links].reshape(self.bodies, PER_BODY)
        return np.einsum('nk,kij->nij', coordinates, symmetric_units())

    def value(self, x: Array) -> float:
        """Return the divergence; infinite outside its domain."""
        scalars = x[self._links :][self.positive]
        moments = np.linalg.eigvalsh(self._matrices(x))
        if (scalars <= 0.0).any() or (moments <= _REGULAR * moments[:, -1:]).any():
            return float(np.inf)
        bodies = float((moments - np.log(moments)).sum())
        return self.weight * bodies - self.barrier * float(np.log(scalars).sum())

    def gradient(self, x: Array) -> Array:
        """Return the gradient, new array of the shape of x."""
        slopes = np.eye(4) - np.linalg.inv(self._matrices(x))
        scalars = np.zeros(len(x) - self._links)
        scalars[self.positive] = -self.barrier / x[self._links :][self.positive]
        bodies = self.weight * np.einsum('nij,kij->nk', slopes, symmetric_units())
        return np.concatenate([bodies.ravel(), scalars])

    def root(self, x: Array) -> Array:
        """Return a square matrix F with the Hessian ``F^T F``."""
        F = np.zeros((len(x), len(x)))
        inverse = np.linalg.inv(np.linalg.cholesky(self._matrices(x)))[:, np.newaxis]
        turned = inverse @ symmetric_units() @ inverse.swapaxes(2, 3)
        columns = turned.reshape(-1, PER_BODY, 16).swapaxes(1, 2)
        for i, block in enumerate(np.linalg.qr(columns, mode='r')):
            at = slice(PER_BODY * i, PER_BODY * (i + 1))
            F[at, at] = np.sqrt(self.weight) * block
        scalars = np.arange(self._links, len(x))[self.positive]
        F[scalars, scalars] = np.sqrt(self.barrier) / x[scalars]
        return F


def body_links(tree: Robot) -> list[tuple[str, Array]]:
    """Return for every body, in the order of the tree, the links that are corrected or fixed.

    Each is the name of the carrier, which receives corrections, and the inertial parameters of
    all other links about the body origin, shape (10,).

    Args:
        tree: The robot; without URDF text, each body has one link.
    """
    if not tree.xml:
        return [(name, np.zeros(PER_BODY)) for name in tree.link_names]
    parts: list[dict[str, Array]] = [{} for _ in range(tree.bodies)]
    for link in parse_urdf(tree.xml).links:
        frame = tree.frame(link.name)
        if link.inertial is None or frame.body < 0 or link.inertial.is_zero:
            continue
        inertia = link_inertia(link.inertial)
        parts[frame.body][link.name] = body_parameters(inertia.transformed(frame.R_BF, frame.p_BF))
    bodies = []
    for own, links in zip(tree.link_names, parts, strict=True):
        named = own in links or not links  # a body without mass has no other carrier
        carrier = own if named else max(links, key=lambda name: links[name][0])
        others = [value for name, value in links.items() if name != carrier]
        bodies.append((carrier, np.sum([np.zeros(PER_BODY), *others], axis=0)))
    return bodies


def link_inertial(tree: Robot, link: str, inertia: RigidBodyInertia) -> Inertial:
    """Convert an inertia in the frame of a body to the <inertial> of a link of that body."""
    frame = tree.frame(link)
    return inertial(inertia.transformed(frame.R_BF.T, -frame.R_BF.T @ frame.p_BF))


def inertial(own: RigidBodyInertia) -> Inertial:
    """Return an inertia as the <inertial> of a link in whose frame it is."""
    x, y, z = _rounded(own.com).tolist()
    elements = _rounded(own.inertia[np.triu_indices(3)]).tolist()
    return Inertial(float(own.mass), Pose((x, y, z)), *elements)


def _rounded(values: Array) -> Array:
    """Return values without what is rounding of the largest one: beyond its 13th digit."""
    largest = float(np.abs(values).max())
    digits = 12 - math.floor(math.log10(largest)) if largest > 0.0 else 0
    return np.asarray(np.round(values, min(digits, 300)) + 0.0)
