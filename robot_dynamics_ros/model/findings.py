# SPDX-License-Identifier: Apache-2.0
r"""What checks find, one finding per cause; and the check of the mass matrix of a robot.

Eliminating the joints from the tips to the base, :math:`M = L^TDL`, yields for every joint the
pivot :math:`D_i`: the inertia about the joint axis with all outboard joints free. M is positive
definite if and only if all pivots are positive.

Source: the :math:`L^TDL` factorization of Featherstone 2008, *Rigid Body Dynamics Algorithms*,
section 6.5, for several configurations at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

import numpy as np

from robot_dynamics_ros.description.unread import of_several
from robot_dynamics_ros.errors import DescriptionError, ModelError
from robot_dynamics_ros.model.kinematics import body_poses
from robot_dynamics_ros.model.robot_tree import Robot
from robot_dynamics_ros.spatial.scalar import Array

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


def error(fault: DescriptionError, fatal: bool = False, cause: str = '') -> Finding:
    """Convert an exception of the package to a finding."""
    return Finding('error', fault.problem, fault.culprit, fault.remedy, fault, fatal, cause)


def warning(culprit: str, problem: str, remedy: str, cause: str = '') -> Finding:
    """Return a finding that does not prevent the robot from being loaded."""
    return Finding('warning', problem, culprit, remedy, cause=cause)


#: Whether it is so; 'fatal', 'error' or 'warning'; problem, remedy, cause (if any) of the finding.
Row = tuple[bool, str, str, str] | tuple[bool, str, str, str, str]


def found(culprit: str, rows: Iterable[Row]) -> list[Finding]:
    """Return the findings of those rows of a table that are so."""
    return [
        warning(culprit, problem, remedy, *cause)
        if level == 'warning'
        else error(ModelError(culprit, problem, remedy), level == 'fatal', *cause)
        for is_so, level, problem, remedy, *cause in rows
        if is_so
    ]


_ELEMENT = re.compile(r"(link|joint) '(.*)'", re.DOTALL)


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """Return one finding for each cause, with the names of all links or joints concerned."""
    causes: dict[tuple[str, ...], dict[str, Finding]] = {}
    for finding in findings:
        element = _ELEMENT.fullmatch(finding.culprit)
        kind, name = element.groups() if element else (finding.culprit, '')
        cause = (finding.cause,) if finding.cause else (finding.problem, finding.remedy)
        causes.setdefault((finding.severity, kind, *cause), {}).setdefault(name, finding)
    return [_together(kind, named) for (_, kind, *_), named in causes.items()]


def _together(kind: str, named: dict[str, Finding]) -> Finding:
    """Return the first of several findings of a cause, with the names of all."""
    first = next(iter(named.values()))
    if len(named) == 1:
        return first
    same = len({(finding.problem, finding.remedy) for finding in named.values()}) == 1
    problem = first.problem if same else f'{first.problem} ({first.culprit})'
    culprit, problem = of_several(kind, named, problem)
    return first._replace(culprit=culprit, problem=problem)


_SAMPLES, _GOLDEN = 8, 0.6180339887498949  # configurations; spread evenly by its multiples
#: Threshold of the ratio of a pivot to the inertia with the outboard joints locked; the ratio is
#: about 1e-16 (rounding error) if the matrix is singular, more than 1e-6 for real arms.
_SMALLEST = 1e-10
_LEAST_INERTIA = 1e-19  # kg m^2 or kg; smaller values are treated as zero
_MOST_LINKS = 6  # maximum number of links in a message


def sampled_positions(tree: Robot) -> Array:
    """Return deterministic joint positions within ``tree.sampled_range``, (k, n).

    Joint i moves on by i golden ratios of its range. Without numpy's random generators, whose
    import takes as long as the rest of loading a robot.
    """
    lower, upper = tree.sampled_range
    steps = np.outer(np.arange(1, _SAMPLES + 1), np.arange(1, tree.n + 1)) * _GOLDEN
    return lower + (upper - lower) * (steps % 1.0)


def mass_matrix_fault(tree: Robot, q: Array) -> ModelError | None:
    """Return the fault if the mass matrix is not positive definite at any of k positions.

    Args:
        tree: The robot.
        q: Joint positions, shape (k, n), rad or m.

    Returns:
        The fault, naming the joint; None if the mass matrix is positive definite.
    """
    G = tree.rate.astype(float)
    M = G.T @ np.array([_mass_matrix(tree, x) for x in tree.positions(q)]) @ G
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


def _mass_matrix(tree: Robot, q: Array) -> Array:
    r"""Return :math:`\sum_k m_k J_{v,k}^TJ_{v,k} + J_{\omega,k}^TI_kJ_{\omega,k}` at the joints.

    Args:
        tree: The robot.
        q: Positions of the joints of all bodies, shape (bodies,), rad or m.
    """
    poses, slides = body_poses(tree.tree, q), np.array(tree.prismatic)
    z = np.array([pose.R_WF @ axis for pose, axis in zip(poses, tree.axis, strict=True)])
    p = np.array([pose.p_WF for pose in poses])
    slide, turn = z * slides[:, np.newaxis], z * ~slides[:, np.newaxis]
    turned = np.cross(turn[:, np.newaxis], np.eye(3))  # what each turn makes of x, y, z
    M = np.zeros((tree.bodies, tree.bodies))
    for k, pose in enumerate(poses):
        on = np.array(tree.path(k))
        arms = pose.R_WF @ tree.com[k] + (p[k] - p[on])
        v = slide[on] + np.einsum('ij,ijk->ik', arms, turned[on])
        w = turn[on] @ pose.R_WF
        M[np.ix_(on, on)] += tree.mass[k] * (v @ v.T) + w @ tree.inertia[k] @ w.T
    return M


def _fault(tree: Robot, joint: int, inertia: float, alone: float) -> ModelError:
    """Return the fault of a joint: its inertia with the other joints free, and with them held."""
    moving = {*np.flatnonzero(tree.joint_of_body == joint).tolist()}
    moved = [k for k in range(tree.bodies) if moving.intersection(tree.path(k))]
    links = [name for name, frame in tree.frames.items() if frame.body in moved]
    listed = ', '.join(links[:_MOST_LINKS]) + (', …' if len(links) > _MOST_LINKS else '')
    lacking = (
        'their mass lies on its axis: give these links moments of inertia'
        if alone <= _LEAST_INERTIA and tree.mass[moved].any()
        else 'give these links mass and inertia'
    )
    return ModelError(
        f'joint {tree.joint_names[joint]!r}',
        f'mass matrix is not positive definite: the joint has an inertia of {inertia:.3g} '
        f'{"kg" if tree.joint_is_prismatic[joint] else "kg m^2"}; it moves {listed}',
        f'{lacking}, or lock the joint; new_robot --estimate-inertia 2000 takes them from shapes',
    )
