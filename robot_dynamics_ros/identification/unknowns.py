# SPDX-License-Identifier: Apache-2.0
r"""What is to be identified: names, nominal values and columns, links first, then joints.

.. math::
    \tau_{motor} = Y(q, v, a)\,\pi + b\,v_f + \tau_c\,d + J_a\,a + \tau_0 + \mu\,|\tau_l|\,d
    + k_{1/2}\sqrt{|v_f|}\,d + k_2\,v_f|v_f| + k_3\,v_f^3 + \tau_s\,e^{-(v_f/v_s)^2}\,d

with the velocity :math:`v_f` at which friction acts and its direction :math:`d`, which is
sign(v_f) where the joint slides; :math:`\tau_l` is the effort that loads the gear, that of the
rigid bodies alone. Rows are efforts of joints, columns are unknowns.

Source: Bittencourt and Gunnarsson 2012 (friction that depends on load and speed; Stribeck).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_dynamics_ros.dynamics.drive_friction import FRICTION_TERMS
from robot_dynamics_ros.errors import UnknownNameError
from robot_dynamics_ros.identification.regressor import (
    INERTIAL,
    PER_BODY,
    inertial_parameters,
    regressor,
)
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array

#: What a joint's drive may add, in the order of the columns; the unit of each, revolute and
#: prismatic.
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
#: What real drives add beyond these; chosen joint by joint by held-out evidence.
EVIDENCE_TERMS = tuple(FRICTION_TERMS)
#: What a parameter file says so that anybody can compute the effort from it and the URDF.
FORMULA = """effort = rnea(q, v, a) + armature a + damping v + coulomb_friction sign(v) + offset
       + load_friction |rnea(q, v, a)| sign(v) + root_friction sqrt(|v|) sign(v)
       + square_friction v |v| + cubic_friction v^3
       + stribeck_friction exp(-(v / stribeck_velocity)^2) sign(v)
rnea: inverse dynamics of the corrected URDF under the gravity below, without the friction and
armature in it. SI units: rad or m, N m or N."""
_STRIBECK = 0.05  # of the velocity limit: speed at which the Stribeck effect is mostly gone

_INERTIAL_UNITS = ('kg', *3 * ('kg m',), *6 * ('kg m^2',))


@dataclass(frozen=True, eq=False)
class JointMotion:
    """Motion of the joints at N instants, as the columns need it; shape (N, n) each.

    Attributes:
        q: Positions, rad or m.
        v: Velocities, rad/s or m/s.
        a: Accelerations, rad/s^2 or m/s^2.
        v_friction: Velocities at which friction acts, rad/s or m/s.
        direction: Of the Coulomb friction: 1 or -1 where the joint slides, in between where a
            filter spans a reversal.
    """

    q: Array
    v: Array
    a: Array
    v_friction: Array
    direction: Array

    def rows(self, rows: Any) -> JointMotion:
        """Return some of the instants."""
        return JointMotion(*(array[rows] for array in vars(self).values()))


class Unknowns:
    """Names, nominal values and columns of the unknowns of one robot.

    Attributes:
        tree: The robot.
        terms: Which of ``TERMS`` are unknown.
        names: Such as ``link2.Izz`` and ``joint3.damping``, p of them.
        units: Their units.
        nominal: Their values in the tree, shape (p,); an offset is 0.
        links: Number of the inertial ones, which come first.

    Args:
        tree: The robot.
        terms: Some of ``TERMS``, in any order.
        loading: The robot whose rigid-body efforts load the gears; the same by default.

    Raises:
        UnknownNameError: A term does not exist; lists those that do.
    """

    def __init__(
        self,
        tree: RobotTree,
        terms: Sequence[str] = DEFAULT_TERMS,
        loading: RobotTree | None = None,
    ) -> None:
        for term in terms:
            if term not in TERMS:
                raise UnknownNameError('joint term', term, TERMS)
        self.tree = tree
        self._loading = inertial_parameters(loading or tree)
        self.terms = tuple(term for term in TERMS if term in terms)
        self.links = PER_BODY * tree.bodies
        self.names = tuple(
            [f'{link}.{key}' for link in tree.link_names for key in INERTIAL]
            + [f'{joint}.{term}' for term in self.terms for joint in tree.joint_names]
        )
        self.units = tuple(
            [unit for _ in tree.link_names for unit in _INERTIAL_UNITS]
            + [TERMS[term][slides] for term in self.terms for slides in tree.prismatic]
        )
        values = {term: getattr(tree, term, np.zeros(tree.n)) for term in self.terms}
        self.nominal = np.concatenate([inertial_parameters(tree), *values.values()])

    def __len__(self) -> int:
        return len(self.names)

    def term(self, values: Array, term: str) -> Array:
        """Return one term of every joint from values of all unknowns, shape (n,)."""
        start = self.links + self.terms.index(term) * self.tree.n
        return values[start : start + self.tree.n]

    def columns(self, motion: JointMotion) -> Array:
        """Return the effort by each unknown, new array of shape (N, n, p).

        Cost: that of the regressor.
        """
        count, n = motion.q.shape
        columns = np.zeros((count, n, len(self)))
        rigid = columns[:, :, : self.links]
        rigid[:] = regressor(self.tree, motion.q, motion.v, motion.a)
        joints = np.arange(n)
        for k, term in enumerate(self.terms):
            load = rigid @ self._loading if term == 'load_friction' else motion.q
            columns[:, joints, self.links + k * n + joints] = self._column(term, motion, load)
        return columns

    def _column(self, term: str, motion: JointMotion, load: Array) -> Array:
        v, direction = motion.v_friction, motion.direction
        columns = {'damping': v, 'coulomb_friction': direction, 'armature': motion.a}
        if term in FRICTION_TERMS:
            speed = stribeck_velocity(self.tree)
            return FRICTION_TERMS[term](v, direction, load, speed)
        return columns[term]

    def known(self, motion: JointMotion) -> Array:
        """Return the effort of the terms that are not unknown, by the tree, shape (N, n)."""
        effort = np.zeros(motion.q.shape)
        for term in DEFAULT_TERMS:
            if term not in self.terms:
                effort = effort + getattr(self.tree, term) * self._column(term, motion, effort)
        return effort


def stribeck_velocity(tree: RobotTree) -> Array:
    """Return the speed at which the Stribeck effect is mostly gone, shape (n,), rad/s or m/s."""
    limit = tree.velocity_limit
    return _STRIBECK * np.where(np.isfinite(limit) & (limit > 0.0), limit, 1.0)
