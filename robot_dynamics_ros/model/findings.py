# SPDX-License-Identifier: Apache-2.0
r"""Check the mass and inertia of every link and the mass matrix of a tree.

Warnings are based on physical bounds. The *equivalent box* of a link has the link's mass and
principal moments; its edge lengths show the size that the tensor implies. The *least density* is
that of the homogeneous ellipsoid of the same mass and moments. No body with these is less dense
everywhere, so a link denser than lead has too much mass or too little inertia.

Eliminating the joints from the tips to the base, :math:`M = L^TDL`, yields for every joint the
pivot :math:`D_i`: the inertia about the joint axis with all outboard joints free. M is positive
definite if and only if all pivots are positive.

Source: the composite-rigid-body algorithm and the :math:`L^TDL` factorization of Featherstone
2008, *Rigid Body Dynamics Algorithms*, sections 6.2 and 6.5, for several configurations at once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

import numpy as np

from robot_dynamics_ros.description.unread import of_several
from robot_dynamics_ros.description.urdf import Inertial, Link
from robot_dynamics_ros.errors import DescriptionError, ModelError
from robot_dynamics_ros.model.build import link_inertia
from robot_dynamics_ros.model.robot_tree import Robot
from robot_dynamics_ros.model.slips import (
    inertia_remedy,
    inertia_unit,
    is_beyond_rounding,
    length_unit,
    mass_unit,
)
from robot_dynamics_ros.spatial.inertia import (
    inconsistency,
    pseudo_inertia,
    shift_inertia,
    symmetric_tensor,
)
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.spatial.screw import motion_subspace, spatial_inertia, wrench_transform

LEAD = 11340.0  # kg/m^3
LIGHTEST_BODY = 50.0  # kg/m^3
LIGHTEST_LINK = 1e-3  # kg; a smaller mass is probably not measured, or in other units
TOO_LONG = 2.0  # maximum plausible ratio of an equivalent box to the longest link
FULL_TURN = 2.0 * math.pi


#: Severities, most severe first: what is wrong, what is to be checked, and what was found good.
SEVERITIES = ('error', 'warning', 'ok')
Severity = Literal['error', 'warning', 'ok']


class Finding(NamedTuple):
    """What a check of a model, a driver profile or a recording found.

    ``load_robot(strict=True)`` rejects a robot for an error, not for a warning.

    Attributes:
        severity: One of ``SEVERITIES``.
        problem: What is wrong with the culprit, or a whole sentence.
        culprit: The element, such as "link 'link2'"; empty if the problem names it.
        remedy: How to correct it; empty if the problem says so.
        fault: The exception of an error, for callers that reject errors.
        fatal: Whether ``load_robot`` rejects the robot for this error even without ``strict``.
        cause: What findings of one cause have in common, if their problems differ in numbers.
    """

    severity: Severity
    problem: str
    culprit: str = ''
    remedy: str = ''
    fault: DescriptionError | None = None
    fatal: bool = False
    cause: str = ''

    def __str__(self) -> str:
        named = f'{self.culprit}: {self.problem}' if self.culprit else self.problem
        return f'{named}; {self.remedy}' if self.remedy else named


def error(fault: DescriptionError, *, fatal: bool = False, cause: str = '') -> Finding:
    """Convert an exception of the package to a finding."""
    return Finding('error', fault.problem, fault.culprit, fault.remedy, fault, fatal, cause)


def warning(culprit: str, problem: str, remedy: str, cause: str = '') -> Finding:
    """Return a finding that does not prevent the robot from being loaded."""
    return Finding('warning', problem, culprit, remedy, cause=cause)


_ELEMENT = re.compile(r"(link|joint) '(.*)'", re.DOTALL)


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """Return one finding for each cause, with the names of all links or joints concerned."""
    causes: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings:
        element = _ELEMENT.fullmatch(finding.culprit)
        kind = element[1] if element else finding.culprit
        cause = (finding.cause,) if finding.cause else (finding.problem, finding.remedy)
        key = finding.severity, kind, *cause
        causes.setdefault(key, []).append(finding)
    return [_together(key[1], of_cause) for key, of_cause in causes.items()]


def _together(kind: str, findings: list[Finding]) -> Finding:
    """Return the first of several findings of a cause, with the names of all."""
    first = findings[0]
    if len(findings) == 1 or kind == first.culprit:
        return first
    names = [finding.culprit.removeprefix(f'{kind} ')[1:-1] for finding in findings]
    same = all((x.problem, x.remedy) == (first.problem, first.remedy) for x in findings)
    problem = first.problem if same else f'{first.problem} ({first.culprit})'
    culprit, problem = of_several(kind, names, problem)
    return first._replace(culprit=culprit, problem=problem)


class LinkReport(NamedTuple):
    """Inertial properties of one link; NaN if the file has no valid number.

    Attributes:
        name: Name of the link.
        moved_by: The moving joint that carries it, possibly via fixed joints; '' in the base.
        mass: kg.
        com: Centre of mass in the link's frame, shape (3,), m.
        principal_moments: About the centre of mass, ascending, shape (3,), kg m^2.
        principal_axes: Columns in the link's frame, shape (3, 3).
        triangle_margin: ``(I1 + I2 - I3) / I3`` of the ascending moments; impossible if negative.
        pseudo_inertia_eigenvalues: Of the 4x4 second moment matrix about the link's origin,
            ascending, shape (4,); all positive for a real body.
        equivalent_box: Edge lengths along the principal axes of the box of this inertia, (3,), m.
        least_density: Density of the homogeneous ellipsoid of this inertia, kg/m^3.
    """

    name: str
    moved_by: str
    mass: float
    com: Array
    principal_moments: Array
    principal_axes: Array
    triangle_margin: float
    pseudo_inertia_eigenvalues: Array
    equivalent_box: Array
    least_density: float


def report_link(link: Link, moved_by: str) -> LinkReport:
    """Return the inertial properties of a link that has an <inertial>, valid or not."""
    inertial = link.inertial
    assert inertial is not None  # callers select links that have one
    body = link_inertia(inertial)
    mass, com, tensor = body.mass, body.com, body.inertia
    moments, pseudo, axes = (np.full(shape, math.nan) for shape in (3, 4, (3, 3)))
    box, margin, density = moments, math.nan, math.nan
    second_moments = pseudo_inertia(mass, mass * com, shift_inertia(tensor, mass, com))
    finite = np.isfinite(second_moments).all()
    if finite:
        moments, axes = np.linalg.eigh(tensor)
        pseudo = np.linalg.eigvalsh(second_moments)
        margin = (moments[0] + moments[1] - moments[2]) / (moments[2] or math.nan)
    if finite and mass > 0.0:
        box = np.sqrt(6.0 * np.maximum(moments.sum() - 2.0 * moments, 0.0) / mass)
        volume = 4.0 / 3.0 * math.pi * math.prod(box * math.sqrt(5.0 / 12.0))
        density = mass / volume if volume > 0.0 else math.inf
    return LinkReport(
        link.name, moved_by, mass, com, moments, axes, float(margin), pseudo, box, density
    )


def link_findings(
    link: Link, report: LinkReport, child_origins: list[Array], longest: float
) -> Iterator[Finding]:
    """Yield the errors and warnings for a link's <inertial>.

    Args:
        link: The link.
        report: Its inertial properties.
        child_origins: Origins of its child joints in the link frame, each (3,), m.
        longest: Largest distance between consecutive joints of the robot, m.
    """
    culprit, inertial = f'link {link.name!r}', link.inertial
    assert inertial is not None  # callers select links that have one
    faults = list(_inertia_faults(culprit, inertial))
    yield from faults
    if faults or not np.isfinite(report.principal_moments).all():
        return
    if max(abs(angle) for angle in inertial.origin.rpy) > FULL_TURN:
        yield warning(culprit, f'rpy {inertial.origin.rpy} exceeds a turn', 'angles are in rad')
    if inertial.mass < LIGHTEST_LINK:
        yield warning(
            culprit, f'mass {inertial.mass:g} kg is below a gram', 'masses are in kg', 'light'
        )
    yield from _size_findings(culprit, report, child_origins, longest)


def _inertia_faults(culprit: str, inertial: Inertial) -> Iterator[Finding]:
    """Yield the faults of a mass and an inertia tensor of no real body; the reader reports NaN."""
    mass, tensor = inertial.mass, symmetric_tensor(inertial[2:])
    if mass <= 0.0:
        fault = ModelError(culprit, f'mass {mass:g} kg', 'the mass must be positive')
        yield error(fault, fatal=mass < 0.0)
    if np.isfinite(tensor).all() and (problem := inconsistency(tensor)):
        fault = ModelError(culprit, f'inertia {problem}', inertia_remedy(inertial))
        yield error(fault, fatal=is_beyond_rounding(inertial), cause=problem.partition('(')[0])


def _size_findings(
    culprit: str, report: LinkReport, child_origins: list[Array], longest: float
) -> Iterator[Finding]:
    """Yield warnings for an inertia that is implausible for the size of the link or robot."""
    if report.least_density > LEAD:
        yield warning(
            culprit,
            f'only a body of {report.least_density:.3g} kg/m^3 or more has this mass and inertia; '
            f'lead has {LEAD:.3g}',
            'the inertia, kg m^2 about the centre of mass, is too small for the mass, kg'
            + mass_unit(report.mass, report.least_density, LIGHTEST_BODY, LEAD),
            'dense',
        )
    if longest <= 0.0:
        return
    length = max((float(np.linalg.norm(p)) for p in child_origins), default=0.0)
    edge = float(report.equivalent_box.max())
    distance = _distance(report.com, child_origins)
    if distance > max(2.0 * length, edge, 1.5 * longest):
        yield warning(
            culprit,
            f'the centre of mass is {distance:.3g} m off the line of its joints; '
            f'the longest link measures {longest:.3g} m',
            'it is in m, in the frame of the link, whose origin is the joint that moves it'
            + length_unit(distance, max(length, longest)),
            'far',
        )
    most = TOO_LONG * max(length, distance, longest)
    if edge > most:
        a, b, c = report.equivalent_box
        yield warning(
            culprit,
            f'the inertia is that of a box of {a:.3g} x {b:.3g} x {c:.3g} m; '
            f'the longest link measures {longest:.3g} m',
            'the inertia, kg m^2 about the centre of mass, is too large for the mass, kg'
            + inertia_unit(edge, report.least_density, report.mass, most, (LIGHTEST_BODY, LEAD)),
            'large',
        )


def _distance(point: Array, joints: list[Array]) -> float:
    """Return the distance (m) of a point from the segments from the origin to the joints."""
    nearest = float(np.linalg.norm(point))
    for joint in joints:
        squared = float(joint @ joint)
        along = min(max(float(point @ joint) / squared, 0.0), 1.0) if squared > 0.0 else 0.0
        nearest = min(nearest, float(np.linalg.norm(point - along * joint)))
    return nearest


_SAMPLES = 8  # configurations
_ROUNDS = 50  # iterations; each at least halves the error of the root
#: Threshold of the ratio of a pivot to the inertia with the outboard joints locked; the ratio is
#: about 1e-16 (rounding error) if the matrix is singular, more than 1e-6 for real arms.
_SMALLEST = 1e-10
_LEAST_INERTIA = 1e-19  # kg m^2 or kg; smaller values are treated as zero
_MOST_LINKS = 6  # maximum number of links in a message


def sampled_positions(tree: Robot) -> Array:
    """Return deterministic joint positions within ``tree.sampled_range``, (k, n).

    An additive recurrence with powers of the root of x^(n+1) = x + 1 spreads them evenly. It
    avoids numpy's random generators, whose import takes as long as the rest of loading a robot.
    """
    (lower, upper), root = tree.sampled_range, 1.0
    for _ in range(_ROUNDS):
        root = (1.0 + root) ** (1.0 / (tree.n + 1))
    steps = np.outer(np.arange(1, _SAMPLES + 1), root ** -np.arange(1.0, tree.n + 1.0))
    return lower + (upper - lower) * (steps % 1.0)


def mass_matrix_fault(tree: Robot, q: Array) -> ModelError | None:
    """Return the fault if the mass matrix is not positive definite at any of k positions.

    Args:
        tree: The robot.
        q: Joint positions, shape (k, n), rad or m.

    Returns:
        The fault, naming the joint; None if the mass matrix is positive definite.

    Cost: about 0.1 ms per body.
    """
    G = tree.rate.astype(float)
    M = G.T @ _mass_matrices(tree, tree.positions(q)) @ G
    locked, pivots = M.diagonal(axis1=1, axis2=2).copy(), np.empty((len(q), tree.n))
    for i in reversed(range(tree.n)):
        row, pivots[:, i] = M[:, i, :i], M[:, i, i]
        D = np.where(pivots[:, i] == 0.0, np.inf, pivots[:, i])[:, None, None]
        M[:, :i, :i] -= row[:, :, None] * row[:, None, :] / D
    weightless = np.flatnonzero((pivots <= _SMALLEST * locked + _LEAST_INERTIA).any(axis=0))
    if not len(weightless):
        return None
    i = int(weightless[-1])  # the outermost: it may be the only cause
    return _fault(tree, i, float(np.min(pivots[:, i])), float(np.max(locked[:, i])))


def _fault(tree: Robot, joint: int, inertia: float, alone: float) -> ModelError:
    """Return the fault of a joint: its inertia with the other joints free, and with them held."""
    moved = set(np.flatnonzero(tree.joint_of_body == joint).tolist())
    for k in range(tree.bodies):
        moved |= {k} if tree.parent[k] in moved else set()
    links = [name for name, frame in tree.frames.items() if frame.body in moved]
    listed = ', '.join(links[:_MOST_LINKS]) + (', …' if len(links) > _MOST_LINKS else '')
    lacking = (
        'their mass lies on its axis: give these links moments of inertia'
        if alone <= _LEAST_INERTIA and any(tree.mass[k] > 0.0 for k in moved)
        else 'give these links mass and inertia'
    )
    remedy = f'{lacking}, or lock the joint; new_robot --estimate-inertia takes them from shapes'
    return ModelError(
        f'joint {tree.joint_names[joint]!r}',
        f'mass matrix is not positive definite: the joint has an inertia of {inertia:.3g} '
        f'{"kg" if tree.joint_is_prismatic[joint] else "kg m^2"}; it moves {listed}',
        remedy,
    )


def _mass_matrices(tree: Robot, q: Array) -> Array:
    """Return the mass matrices of all joints, (k, bodies, bodies), from composite bodies."""
    axes = [motion_subspace(*joint) for joint in zip(tree.axis, tree.prismatic, strict=True)]
    bodies = zip(tree.mass, tree.com, tree.inertia, strict=True)
    composite = np.array([[spatial_inertia(*body)] * len(q) for body in bodies])
    transforms = [
        np.array([wrench_transform(*tree.placement(i, x)) for x in q[:, i]])
        for i in range(tree.bodies)
    ]
    M = np.zeros((len(q), tree.bodies, tree.bodies))
    for i in reversed(range(tree.bodies)):
        force, j, L = composite[i] @ axes[i], i, transforms[i]
        while j >= 0:
            M[:, i, j] = M[:, j, i] = force @ axes[j]
            force, j = np.einsum('kab,kb->ka', transforms[j], force), tree.parent[j]
        if tree.parent[i] >= 0:
            composite[tree.parent[i]] += L @ composite[i] @ L.transpose(0, 2, 1)
    return M
