# SPDX-License-Identifier: Apache-2.0
r"""Unknowns of an identification: names, nominal values and regressor columns.

Inertial parameters of the links come first, then drive terms of the joints:

.. math::
    \tau_{motor} = Y(q, v, a)\,\pi + b\,v_f + \tau_c\,d + J_a\,a + \tau_0 + \mu\,|\tau_l|\,d
    + k_{1/2}\sqrt{|v_f|}\,d + k_2\,v_f|v_f| + k_3\,v_f^3 + \tau_s\,e^{-(v_f/v_s)^2}\,d

with the velocity :math:`v_f` at which friction acts and its direction :math:`d`, which is
sign(v_f) where the joint slides; :math:`\tau_l` is the effort that loads the gear, that of the
rigid bodies alone. Rows are joint efforts, columns are unknowns.

Source: Bittencourt and Gunnarsson 2012 (friction that depends on load and speed; Stribeck).

Base parameters: the linear combinations of parameters that a set of motions can identify.

A regressor column that depends linearly on others cannot be separated from them. With the
independent columns :math:`W_b` and the dependent ones :math:`W_d = W_b K`,

.. math:: W\pi = W_b\,\beta, \qquad \beta = \pi_b + K\,\pi_d = B\,\pi

Columns are processed in order, so a parameter is grouped with earlier ones: the mass of a link
with the moment of inertia of its parent link, armature with the inertia of a link.

Source: Gautier 1991 (QR decomposition, numerical base parameters); Atkeson, An and Hollerbach 1986
for the three kinds of parameters: identifiable alone, only in combination, not identifiable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from robot_dynamics_ros.dynamics.joint_terms import FRICTION_TERMS
from robot_dynamics_ros.errors import known_name
from robot_dynamics_ros.estimation.effort_model import Instants
from robot_dynamics_ros.estimation.regressor import (
    INERTIAL,
    PER_BODY,
    inertial_parameters,
    regressor,
)
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.build import with_exact_angles
from robot_dynamics_ros.model.identified import (
    DRIVE_TERMS,
    RECORDED_SPEED,
    STRIBECK_VELOCITY,
    terms_in_use,
)
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.spatial.validation import name_list

#: Drive terms of a joint, in the order of the columns, with units for revolute and prismatic.
TERMS = {
    'damping': ('N m s/rad', 'N s/m'),
    'coulomb_friction': ('N m', 'N'),
    'armature': ('kg m^2', 'kg'),
    'offset': ('N m', 'N'),
    'load_friction': ('1', '1'),
    'root_friction': ('N m (s/rad)^0.5', 'N (s/m)^0.5'),
    'square_friction': ('N m (s/rad)^2', 'N (s/m)^2'),
    'cubic_friction': ('N m (s/rad)^3', 'N (s/m)^3'),
    'stribeck_friction': ('N m', 'N'),
}
DEFAULT_TERMS = ('damping', 'coulomb_friction', 'armature')
#: Further terms of real drives, selected for each joint by cross-validation.
EVIDENCE_TERMS = DRIVE_TERMS
#: Formula in the header of parameter files, to compute the effort from the file and the URDF.
FORMULA = """effort = rnea(q, v, a) + armature a + damping v + coulomb_friction sign(v) + offset
       + load_friction |rnea(q, v, a)| sign(v) + root_friction sqrt(|v|) sign(v)
       + square_friction v |v| + cubic_friction v^3
       + stribeck_friction exp(-(v / stribeck_velocity)^2) sign(v)
compensated in control as at recorded_speed where a joint moves faster than it was recorded.
rnea: inverse dynamics of the corrected URDF under the gravity below, without the friction and
armature in it (that friction is the closest viscous and Coulomb). SI units: rad or m, N m or N."""
SLAB = 8192  #: samples whose columns are in memory at once
_STRIBECK = 0.05  # of the velocity limit: speed at which the Stribeck effect is mostly gone

_INERTIAL_UNITS = ('kg', *3 * ('kg m',), *6 * ('kg m^2',))


class Unknowns:
    """Names, nominal values and columns of the unknowns of one robot.

    Attributes:
        tree: The robot.
        terms: The unknown drive terms, in the order of ``TERMS``.
        names: Names of the p unknowns, such as ``link2.Izz`` and ``joint3.damping``.
        units: Their units.
        nominal: Their values in the tree, shape (p,); an offset is 0.
        links: Number of inertial parameters, which come first.
        drives: Indices of each term of the joints, shape (terms, n).

    Args:
        tree: The robot.
        terms: Some of ``TERMS``, in any order.
        loading: The robot whose rigid-body efforts load the gears; default ``tree``.

    Raises:
        UnknownNameError: A term is unknown; lists the existing ones.
    """

    def __init__(
        self,
        tree: Robot,
        terms: Sequence[str] = DEFAULT_TERMS,
        loading: Robot | None = None,
    ) -> None:
        for term in name_list('terms', terms):
            known_name('joint term', term, TERMS)
        self.tree = tree
        self._loading = inertial_parameters(loading or tree)
        self.terms = tuple(term for term in TERMS if term in terms)
        self.links = PER_BODY * tree.bodies
        self.drives = self.links + np.arange(len(self.terms) * tree.n).reshape(-1, tree.n)
        self.names = tuple(
            [f'{link}.{key}' for link in tree.link_names for key in INERTIAL]
            + [f'{joint}.{term}' for term in self.terms for joint in tree.joint_names]
        )
        self.units = tuple(
            [unit for _ in tree.link_names for unit in _INERTIAL_UNITS]
            + [TERMS[term][slides] for term in self.terms for slides in tree.joint_is_prismatic]
        )
        values = [getattr(tree, term, np.zeros(tree.n)) for term in self.terms]
        self.nominal = np.concatenate([inertial_parameters(tree), *values])

    def __len__(self) -> int:
        return len(self.names)

    def places(self, *terms: str) -> Array:
        """Return the indices of those of the terms that are unknown, shape (k, n)."""
        return np.asarray(self.drives[[term in terms for term in self.terms]])

    def inertial_sizes(self) -> Array:
        """Return the order of magnitude of each nominal inertial parameter; 0 without a mass."""
        mass, moments = self.tree.mass, np.trace(self.tree.inertia, axis1=1, axis2=2)
        spread = np.sqrt(moments / np.where(mass > 0.0, mass, np.inf))
        length = np.linalg.norm(self.tree.com, axis=1) + spread
        sizes = [mass, *3 * [mass * length], *6 * [mass * length**2]]
        return np.stack(sizes, axis=1).ravel()

    def columns(self, motion: Instants) -> Array:
        """Return the effort per unit of each unknown, new array of shape (N, n, p).

        Cost: that of the regressor.
        """
        count, n = motion.q.shape
        columns, joints = np.zeros((count, n, len(self))), np.arange(n)
        rigid = regressor(self.tree, motion.q, motion.v, motion.a)
        columns[:, :, : self.links], load = rigid[:, :, : self.links], rigid @ self._loading
        for term, at in zip(self.terms, self.drives, strict=True):
            columns[:, joints, at] = self._column(term, motion, load)
        return columns

    def _column(self, term: str, motion: Instants, load: Array) -> Array:
        if term == 'armature':
            return motion.a
        speed = stribeck_velocity(self.tree)
        return FRICTION_TERMS[term](motion.v_friction, motion.sign, load, speed)

    def known(self, motion: Instants) -> Array:
        """Return the effort of the drive terms of the tree that are not unknown, shape (N, n)."""
        effort = np.zeros(motion.q.shape)
        for term in TERMS:
            value = described(self.tree, term)
            if term not in self.terms and value.any():
                load = effort
                if term == 'load_friction':
                    load = regressor(self.tree, motion.q, motion.v, motion.a) @ self._loading
                effort = effort + value * self._column(term, motion, load)
        return effort

    def explained(self, motion: Instants, values: Array) -> Array:
        """Return the effort of some values of the unknowns, and of what is known, shape (N, n)."""
        effort = np.zeros(motion.q.shape)
        for start in range(0, len(effort), SLAB):
            some = slice(start, start + SLAB)
            part = motion.take(some)
            effort[some] = self.columns(part) @ values + self.known(part)
        return effort


def with_terms(tree: Robot, values: Mapping[str, Array]) -> Robot:
    """Return a robot with the given drive terms, shape (n,) each; others are unchanged.

    ``RECORDED_SPEED`` may be among them.
    """
    own = {term: value for term, value in values.items() if term in DEFAULT_TERMS}
    further = {term: values.get(term, described(tree, term)) for term in DRIVE_TERMS}
    further[STRIBECK_VELOCITY] = stribeck_velocity(tree)
    further[RECORDED_SPEED] = values.get(RECORDED_SPEED, recorded_speed(tree))
    return tree.with_changes(drive_friction=terms_in_use(further), **own)


def described(tree: Robot, term: str) -> Array:
    """Return the values of a drive term of a robot, shape (n,)."""
    further = tree.drive_friction.get(term, np.zeros(tree.n))
    return getattr(tree, term, further)


def stribeck_velocity(tree: Robot) -> Array:
    """Return the speed at which the Stribeck effect is mostly gone, shape (n,), rad/s or m/s."""
    if STRIBECK_VELOCITY in tree.drive_friction:
        return tree.drive_friction[STRIBECK_VELOCITY]
    limit = tree.velocity_limit
    return _STRIBECK * np.where(np.isfinite(limit) & (limit > 0.0), limit, 1.0)


def recorded_speed(tree: Robot) -> Array:
    """Return the highest recorded speeds, shape (n,), rad/s or m/s; infinite if unknown."""
    return tree.drive_friction.get(RECORDED_SPEED, np.full(tree.n, np.inf))


_STATES_PER_UNKNOWN = 4
_STRUCTURAL = 1e-9  # relative remainder after projection below which a column is dependent
_EXCITED = 1e-6  # the same for data, whose columns contain noise and rounding
_NOTHING = 1e-12  # relative size below which a column has no effect
_FAINT = 1e-4  # of a dependent column: a larger part of it is no noise, whatever its precision
_SNAP = 1e-9  # coefficients this close to an integer are rounded


@dataclass(frozen=True, eq=False)
class BaseParameters:
    """The r identifiable combinations of p parameters.

    Attributes:
        parameters: Names of the p parameters.
        independent: Indices of the columns kept from the reduced matrix, shape (r,).
        leading: Index of the leading parameter of each combination, shape (r,).
        no_effect: Indices of the parameters without any effect.
        B: Shape (r, p), with ``beta = B @ parameters``.
        shown: B without coefficients that are noise.
    """

    parameters: tuple[str, ...]
    independent: Array
    leading: Array
    no_effect: Array
    B: Array
    shown: Array

    def __len__(self) -> int:
        return len(self.independent)

    @property
    def names(self) -> tuple[str, ...]:
        """The combinations in words, such as ``link1.Izz + 0.105625 link2.m + ...``."""
        return tuple(combination(row, self.parameters) for row in self.shown)

    @property
    def alone(self) -> Array:
        """Indices of the parameters that are identifiable alone."""
        single = self.B[np.count_nonzero(self.B, axis=1) == 1]
        return np.flatnonzero(single.any(axis=0))

    def only(self, kept: Array) -> BaseParameters:
        """Return the combinations with the given indices."""
        independent, leading = self.independent[kept], self.leading[kept]
        B, shown = self.B[kept], self.shown[kept]
        return replace(self, independent=independent, leading=leading, B=B, shown=shown)

    def of_data(self, factor: Array) -> BaseParameters:
        """Return the combinations that data can identify, possibly fewer.

        Args:
            factor: Regressor of the data or its triangular factor, base columns, shape (k, r).
        """
        return reduce_columns(factor, self.parameters, tolerance=_EXCITED, within=self)


def combination(row: Array, names: Sequence[str]) -> str:
    """Return a linear combination as text; coefficients to six digits, 1 omitted."""
    words = []
    for coefficient, name in zip(row.tolist(), names, strict=True):
        if coefficient:
            size = abs(coefficient)
            factor = '' if size == 1.0 else f'{size:.6g} '
            words.append(f'{"-" if coefficient < 0.0 else "+"} {factor}{name}')
    return ' '.join(words).removeprefix('+ ') or 'nothing'


def reduce_columns(
    W: Array,
    names: Sequence[str],
    tolerance: float = _STRUCTURAL,
    within: BaseParameters | None = None,
) -> BaseParameters:
    """Find the columns that are independent of earlier ones, and express the others by them.

    Args:
        W: Stacked regressor of many states, or its triangular factor, shape (k, p).
        names: Names of the parameters; of the p columns, if ``within`` is not given.
        tolerance: Relative remainder after projection below which a column is dependent.
        within: The base parameters that the columns belong to, if they are combinations.

    Returns:
        The base parameters.

    Cost: O(k p^2).
    """
    R = np.asarray(np.linalg.qr(W, mode='r')) if len(W) > W.shape[1] else W
    size = np.linalg.norm(R, axis=0)
    effective = size > _NOTHING * max(float(size.max(initial=0.0)), np.finfo(float).tiny)
    kept, dropped = _select(R, size, np.flatnonzero(effective), tolerance)
    B = np.zeros((len(kept), R.shape[1]))
    B[:, kept] = np.eye(len(kept))
    noise = np.zeros(B.shape, dtype=bool)
    if kept and dropped:
        K = np.linalg.lstsq(R[:, kept] / size[kept], R[:, dropped], rcond=None)[0]
        B[:, dropped] = K / size[kept][:, np.newaxis]
        if within is not None:  # the remainder that was tolerated has coefficients, too
            spread = tolerance * np.linalg.norm(np.linalg.pinv(R[:, kept] / size[kept]), axis=1)
            noise[:, dropped] = np.abs(K) < np.outer(np.minimum(spread, _FAINT), size[dropped])
    independent = np.array(kept, dtype=int)
    leading = independent if within is None else within.leading[independent]
    shown = np.where(noise, 0.0, B)
    if within is not None:
        B, shown = B @ within.B, shown @ within.shown
    B, shown = _snapped(B, _SNAP), _snapped(shown, tolerance)
    silent = np.flatnonzero(~B.any(axis=0))
    return BaseParameters(tuple(names), independent, leading, silent, B, shown)


def _snapped(B: Array, tolerance: float) -> Array:
    """Return coefficients, to integers within a tolerance; to 0 within rounding only."""
    nearest = np.round(B)
    return np.where(np.abs(B - nearest) < np.where(nearest, tolerance, _SNAP), nearest, B)


def _select(
    R: Array, size: Array, candidates: Array, tolerance: float
) -> tuple[list[int], list[int]]:
    """Return the columns kept and those dropped, by Gram-Schmidt in column order."""
    basis = np.zeros((len(R), 0))
    kept: list[int] = []
    dropped: list[int] = []
    for k in candidates.tolist():
        rest = R[:, k] / size[k]
        for _ in range(2):  # reorthogonalize against rounding
            rest = rest - basis @ (basis.T @ rest)
        left = float(np.linalg.norm(rest))
        if left > tolerance:
            kept.append(k)
            basis = np.column_stack([basis, rest / left])
        else:
            dropped.append(k)
    return kept, dropped


def structural_base(unknowns: Unknowns) -> BaseParameters:
    """Return the structurally identifiable base parameters, from geometry and gravity alone.

    Right angles that the description rounds are exact here (``model.build.with_exact_angles``).

    Args:
        unknowns: The unknowns of the robot.
    """
    unknowns = copy(unknowns)
    unknowns.tree = with_exact_angles(unknowns.tree)
    rng = np.random.default_rng(0)  # any seed gives the same result
    shape = _STATES_PER_UNKNOWN * len(unknowns), unknowns.tree.n
    v, q = rng.normal(size=shape), np.array(unknowns.tree.random_positions(rng, shape[0]))
    v, a = v[: len(q)], rng.normal(size=shape)[: len(q)]
    columns = unknowns.columns(Instants.of_motion(q, v, a, np.sign(v)))
    return reduce_columns(columns.reshape(-1, len(unknowns)), unknowns.names)
