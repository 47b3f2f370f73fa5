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

A body consists of the child link of a joint and all links fixed to it. A correction of the body
is applied to one of these, the carrier: the child link if it has an <inertial>, else the heaviest
link. The others keep their inertia.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.description.robot_description import Inertial, Pose
from robot_dynamics_ros.description.urdf import parse_urdf
from robot_dynamics_ros.dynamics.joint_terms import FRICTION_TERMS
from robot_dynamics_ros.errors import known_name
from robot_dynamics_ros.estimation.accumulate import ColumnTable
from robot_dynamics_ros.identification.regressor import (
    INERTIAL,
    PER_BODY,
    inertial_parameters,
    regressor,
)
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.model.build import link_inertia
from robot_dynamics_ros.model.payload import DRIVE_TERMS, STRIBECK_VELOCITY, terms_in_use
from robot_dynamics_ros.spatial.inertia import RigidBodyInertia, body_parameters
from robot_dynamics_ros.spatial.scalar import Array

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
rnea: inverse dynamics of the corrected URDF under the gravity below, without the friction and
armature in it. SI units: rad or m, N m or N."""
_STRIBECK = 0.05  # of the velocity limit: speed at which the Stribeck effect is mostly gone

_INERTIAL_UNITS = ('kg', *3 * ('kg m',), *6 * ('kg m^2',))


@dataclass(frozen=True, eq=False)
class JointMotion(ColumnTable):
    """Joint motion at N times, as required by the columns; shape (N, n) each.

    Attributes:
        q: Positions, rad or m.
        v: Velocities, rad/s or m/s.
        a: Accelerations, rad/s^2 or m/s^2.
        v_friction: Velocities at which friction acts, rad/s or m/s.
        direction: Direction of Coulomb friction: 1 or -1 where the joint slides, in between where
            the filter window contains a reversal.
    """

    q: Array
    v: Array
    a: Array
    v_friction: Array
    direction: Array


class Unknowns:
    """Names, nominal values and columns of the unknowns of one robot.

    Attributes:
        tree: The robot.
        terms: The unknown drive terms, in the order of ``TERMS``.
        names: Names of the p unknowns, such as ``link2.Izz`` and ``joint3.damping``.
        units: Their units.
        nominal: Their values in the tree, shape (p,); an offset is 0.
        links: Number of inertial parameters, which come first.

    Args:
        tree: The robot.
        terms: Some of ``TERMS``, in any order.
        loading: The robot whose rigid-body efforts load the gears; default ``tree``.

    Raises:
        UnknownNameError: A term is unknown; lists the existing ones.
    """

    def __init__(
        self,
        tree: RobotTree,
        terms: Sequence[str] = DEFAULT_TERMS,
        loading: RobotTree | None = None,
    ) -> None:
        for term in terms:
            known_name('joint term', term, TERMS)
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
            + [TERMS[term][slides] for term in self.terms for slides in tree.slides]
        )
        values = [getattr(tree, term, np.zeros(tree.n)) for term in self.terms]
        self.nominal = np.concatenate([inertial_parameters(tree), *values])

    def __len__(self) -> int:
        return len(self.names)

    def term_of(self, k: int) -> str:
        """Return the term of the k-th unknown, such as ``Izz`` or ``damping``."""
        return self.names[k].rsplit('.', 1)[1]

    def term(self, values: Array, term: str) -> Array:
        """Return one term of all joints from the values of all unknowns, shape (n,)."""
        start = self.links + self.terms.index(term) * self.tree.n
        return values[start : start + self.tree.n]

    def inertial_sizes(self) -> Array:
        """Return the order of magnitude of each nominal inertial parameter."""
        sizes: list[float] = []
        for mass, com, tensor in zip(
            self.tree.mass, self.tree.com, self.tree.inertia, strict=True
        ):
            length = float(np.linalg.norm(com) + np.sqrt(np.trace(tensor) / mass))
            sizes += [mass, *3 * [mass * length], *6 * [mass * length**2]]
        return np.array(sizes)[: self.links]

    def columns(self, motion: JointMotion) -> Array:
        """Return the effort per unit of each unknown, new array of shape (N, n, p).

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
        if term == 'armature':
            return motion.a
        speed = stribeck_velocity(self.tree)
        return FRICTION_TERMS[term](motion.v_friction, motion.direction, load, speed)

    def known(self, motion: JointMotion) -> Array:
        """Return the effort of the drive terms of the tree that are not unknown, shape (N, n)."""
        effort = np.zeros(motion.q.shape)
        for term in TERMS:
            value = described(self.tree, term)
            if term not in self.terms and value.any():
                load = effort if term != 'load_friction' else self._load(motion)
                effort = effort + value * self._column(term, motion, load)
        return effort

    def _load(self, motion: JointMotion) -> Array:
        """Return the efforts that load the gears, shape (N, n), N m or N."""
        return regressor(self.tree, motion.q, motion.v, motion.a) @ self._loading


#: Name of the factor between the current of a drive and the effort of the rigid bodies.
PER_EFFORT = 'current_per_effort'


class CurrentUnknowns(Unknowns):
    r"""Unknowns of drives whose torque constants are unknown, in the unit of their current.

    .. math:: i_j = c_j\,\tau_{l,j} + J_j a_j + b_j v_j + i_{c,j}\,\mathrm{sign}\,v_j + \dots

    with the effort :math:`\tau_l` of the rigid bodies as described. Each joint has its own factor
    c, so masses and currents cannot be separated: twice the masses with half of c give the same
    current.

    Args:
        tree: The robot as described.
    """

    def __init__(self, tree: RobotTree) -> None:
        super().__init__(tree, tuple(TERMS))
        self.terms, self.links = (PER_EFFORT, *self.terms), 0
        self.names = tuple(f'{joint}.{term}' for term in self.terms for joint in tree.joint_names)
        self.nominal = np.zeros(len(self.names))

    def columns(self, motion: JointMotion) -> Array:
        """Return the current per unit of each unknown, new array of shape (N, n, p)."""
        count, n = motion.q.shape
        columns, load, joints = np.zeros((count, n, len(self))), self._load(motion), np.arange(n)
        for k, term in enumerate(self.terms):
            own = load if term == PER_EFFORT else self._column(term, motion, load)
            columns[:, joints, k * n + joints] = own
        return columns


def with_terms(tree: RobotTree, values: Mapping[str, Array]) -> RobotTree:
    """Return a robot with the given drive terms, shape (n,) each; others are unchanged."""
    own = {term: value for term, value in values.items() if term in DEFAULT_TERMS}
    further = {term: values.get(term, described(tree, term)) for term in DRIVE_TERMS}
    further[STRIBECK_VELOCITY] = stribeck_velocity(tree)
    return tree.with_changes(drive_friction=terms_in_use(further), **own)


def described(tree: RobotTree, term: str) -> Array:
    """Return the values of a drive term of a robot, shape (n,)."""
    further = tree.drive_friction.get(term, np.zeros(tree.n))
    return getattr(tree, term, further)


def stribeck_velocity(tree: RobotTree) -> Array:
    """Return the speed at which the Stribeck effect is mostly gone, shape (n,), rad/s or m/s."""
    if STRIBECK_VELOCITY in tree.drive_friction:
        return tree.drive_friction[STRIBECK_VELOCITY]
    limit = tree.velocity_limit
    return _STRIBECK * np.where(np.isfinite(limit) & (limit > 0.0), limit, 1.0)


@dataclass(frozen=True, eq=False)
class BodyLinks:
    """The links of one body.

    Attributes:
        carrier: Name of the link that receives corrections.
        fixed: Inertial parameters of all other links, about the body origin, shape (10,).
    """

    carrier: str
    fixed: Array


def body_links(tree: RobotTree) -> list[BodyLinks]:
    """Return the links of every body, in the order of the tree.

    Args:
        tree: The robot; without URDF text, each body has one link.
    """
    if not tree.xml:
        return [BodyLinks(name, np.zeros(PER_BODY)) for name in tree.link_names]
    parts: list[dict[str, Array]] = [{} for _ in range(tree.bodies)]
    for link in parse_urdf(tree.xml).links:
        frame = tree.frame(link.name)
        if link.inertial is None or frame.body < 0 or link.inertial.is_zero:
            continue
        inertia = link_inertia(link.inertial)
        parts[frame.body][link.name] = body_parameters(inertia.seen_from(frame.R_BF, frame.p_BF))
    bodies = []
    for own, links in zip(tree.link_names, parts, strict=True):
        carrier = own if own in links else max(links, key=lambda name: links[name][0])
        others = [value for name, value in links.items() if name != carrier]
        bodies.append(BodyLinks(carrier, np.sum([np.zeros(PER_BODY), *others], axis=0)))
    return bodies


def link_inertial(tree: RobotTree, link: str, inertia: RigidBodyInertia) -> Inertial:
    """Convert an inertia in the frame of a body to the <inertial> of a link of that body."""
    frame = tree.frame(link)
    own = inertia.seen_from(frame.R_BF.T, -frame.R_BF.T @ frame.p_BF)
    x, y, z = own.com.tolist()
    I = own.inertia
    elements = (I[0, 0], I[0, 1], I[0, 2], I[1, 1], I[1, 2], I[2, 2])
    return Inertial(float(own.mass), Pose((x, y, z)), *(float(element) for element in elements))
