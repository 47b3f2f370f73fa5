# SPDX-License-Identifier: Apache-2.0
"""Identification in three steps: plan, gather, conclude.

``make_plan`` chooses from one recording how all are prepared; ``gather`` reduces a recording to
regression data of a few kB; ``conclude`` identifies the robot from these. Recordings can be
gathered in sequence or on many machines: the order of the blocks affects rounding only.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from robot_dynamics_ros.dynamics.joint_terms import FRICTION_TERMS
from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.estimation.effort_model import FAR, excluded_counts, marked
from robot_dynamics_ros.estimation.regressor import with_inertial_parameters
from robot_dynamics_ros.identification.choice import (
    Choice,
    Request,
    choose_preparation,
)
from robot_dynamics_ros.identification.evidence import evident_columns
from robot_dynamics_ros.identification.gravity import GravityEstimate, estimate_gravity
from robot_dynamics_ros.identification.least_squares import (
    SURE,
    Block,
    Estimate,
    estimate,
    estimated,
    merged,
    summarize,
)
from robot_dynamics_ros.identification.physical import (
    PhysicalParameters,
    physical_parameters,
)
from robot_dynamics_ros.identification.single_change import SingleChange, single_change
from robot_dynamics_ros.identification.unknowns import (
    DEFAULT_TERMS,
    TERMS,
    BaseParameters,
    Unknowns,
    recorded_speed,
    structural_base,
    with_terms,
)
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.identified import RECORDED_SPEED
from robot_dynamics_ros.model.robot_tree import require_robot
from robot_dynamics_ros.recordings.outliers import require_clean
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.recordings.samples import Preparation, effort_source, prepare
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.spatial.validation import require_positive, require_type

_WELL_CONDITIONED = 100.0
_DESCRIBED = 1000.0  # times the prior weight: links change only as far as the data demand,
_ALONE = 1e5  # the same of what one link alone explains: the files are that one change
USED = 'used'
_FAR = 6.0  # standard deviations above which a residual is a disturbance
_VAGUE = 0.3  # relative standard deviation above which a value is reported as uncertain,
_MATTERS = 1e-3  # if its effect exceeds this share of a joint's RMS effort


@dataclass(frozen=True, eq=False)
class IdentificationPlan:
    """How recordings of one robot are evaluated.

    Attributes:
        unknowns: Parameters to identify, with nominal values.
        base: Structurally identifiable base parameters.
        choice: Preparation of the recordings.
        reference: Parameter values for outlier rejection, shape (p,); None for no rejection.
        gravity: Estimated gravity of the recording that the plan was made from; None if not
            estimated.
    """

    unknowns: Unknowns
    base: BaseParameters
    choice: Choice
    reference: Array | None = None
    gravity: GravityEstimate | None = None

    def refined(self, first: Identification) -> IdentificationPlan:
        """Return the plan of a second pass: gear loads from the first, outliers excluded.

        Args:
            first: Result of the first pass.
        """
        unknowns = Unknowns(self.unknowns.tree, self.unknowns.terms, first.tree)
        return replace(self, unknowns=unknowns, reference=first.physical.values)

    @property
    def preparation(self) -> Preparation:
        """Preparation of the recordings."""
        return self.choice.preparation


@dataclass(frozen=True, eq=False)
class Identification:
    """Result of an identification.

    Attributes:
        plan: The plan it was made with.
        base: Identified base parameters: those of the plan without rejected drive terms.
        chosen: Why further drive terms were included, one sentence each.
        estimate: Base parameters with their standard deviations.
        physical: All parameters, physically consistent.
        tree: The corrected robot, including drive friction.
        urdf_friction: Viscous and Coulomb friction closest to the friction of the corrected robot,
            in the recorded motion, which is all that a URDF can hold; shape (2, n).
        single: Bodies of which each alone, other than described, explains the data, if any.
    """

    plan: IdentificationPlan
    base: BaseParameters
    chosen: tuple[str, ...]
    estimate: Estimate
    physical: PhysicalParameters
    tree: Robot
    urdf_friction: Array
    single: SingleChange | None = None

    def undetermined(self) -> list[str]:
        """Return what the data do not determine, one sentence each."""
        unknowns, estimate = self.plan.unknowns, self.estimate
        names = np.array(unknowns.names)
        said = [
            f'{joint} has no usable sample: its drive is unknown'
            for joint, count in zip(unknowns.tree.joint_names, estimate.counts, strict=True)
            if count == 0
        ]
        if estimate.condition > _WELL_CONDITIONED:
            said.append(
                f'the condition of the regressor is {estimate.condition:.3g}: some combinations '
                'are poorly determined (command excite designs a better motion)'
            )
        known = np.isfinite(estimate.deviations)
        if not known.all():
            said.append('the spread of no value is known: one stretch alone was usable')
        vague = known & (estimate.deviations > _VAGUE * np.abs(estimate.values))
        vague &= estimate.deviations * estimate.influence > _MATTERS
        columns = np.array(estimate.base.names), estimate.values, estimate.deviations
        for name, value, deviation in zip(*(column[vague] for column in columns), strict=True):
            said.append(f'{name} is {value:.3g} with a standard deviation of {deviation:.2g}')
        held = np.intersect1d(self.physical.held, unknowns.places(*DEFAULT_TERMS))
        base, links = estimate.base, unknowns.links
        together = np.setdiff1d(np.flatnonzero(base.B.any(axis=0)), base.alone)
        for which, text in (
            (
                np.setdiff1d(self.base.leading, base.leading),
                'the motion did not excite independently of others',
            ),
            (base.leading[estimate.described], 'known by the description rather than the data'),
            (held, 'kept at the nominal value, since not separable'),
            (
                together,
                'known only in combination, split according to the nominal model',
            ),
            (
                base.no_effect[base.no_effect < links],
                'without effect on any effort, as close to the nominal robot as is physical',
            ),
        ):
            if len(which):
                said.append(f'{text}: {", ".join(names[which])}')
        return said


def make_plan(
    recording: Recording,
    tree: Robot,
    terms: Sequence[str] | None = DEFAULT_TERMS,
    request: Request | None = None,
) -> IdentificationPlan:
    """Plan the evaluation of all recordings from one of them.

    Args:
        recording: A recording without outliers in which all joints move.
        tree: The nominal robot, with the gravity of the recordings.
        terms: Drive terms to identify, some of ``TERMS``; None: ``DEFAULT_TERMS``, with measured
            efforts ``TERMS``.
        request: User settings of the preparation; the rest is chosen from the data.

    Raises:
        UnknownNameError: A term, a timing or a joint is unknown.
        RecordingError: No part of the recording can be used.
    """
    require_robot(tree)
    request = request or Request()
    effort = effort_source(recording, request.effort)
    if terms is None:
        terms = tuple(TERMS) if effort == 'measured' else DEFAULT_TERMS
    unknowns = Unknowns(tree, terms)
    base = structural_base(unknowns)
    choice = choose_preparation(recording, unknowns, base, request)
    return IdentificationPlan(unknowns, base, choice)


def plan_with_gravity(
    recording: Recording,
    tree: Robot,
    terms: Sequence[str] | None,
    request: Request,
    *,
    gravity_known: bool,
) -> IdentificationPlan:
    """Plan as :func:`make_plan`, with an estimate of gravity, whose direction is taken if tilted.

    Args:
        recording: A recording without outliers in which all joints move.
        tree: The nominal robot.
        terms: Drive terms to identify, or None.
        request: User settings of the preparation.
        gravity_known: Whether to keep the gravity of the tree even if the estimate is tilted.
    """
    plan = make_plan(recording, tree, terms, request)
    gravity = estimate_gravity(recording, tree, plan.preparation)
    if gravity is not None and gravity.tilted and not gravity_known:
        plan = make_plan(recording, tree.with_gravity(gravity.direction), terms, request)
    return replace(plan, gravity=gravity)


def gather(
    recording: Recording,
    plan: IdentificationPlan,
    efforts: defaultdict[str, Counter[str]] | None = None,
) -> list[Block]:
    """Reduce a recording to regression data of a few kB.

    Args:
        recording: A recording of the robot, without outliers.
        plan: The identification plan.
        efforts: Receives the number of excluded samples, by reason and joint, and of used ones.

    Raises:
        RecordingError: No part of the recording can be used.
        UnknownNameError: A joint was not recorded.
    """
    tree, efforts = plan.unknowns.tree, defaultdict(Counter) if efforts is None else efforts
    samples = prepare(recording, tree, plan.preparation)
    motion, counts = samples.motion, excluded_counts(samples.motion.excluded)
    if plan.reference is not None:
        rest = np.abs(motion.effort - plan.unknowns.explained(motion, plan.reference))
        columns = zip(rest.T, motion.usable.T, strict=True)
        usual = np.array(
            [np.median(column[used]) if used.any() else 0.0 for column, used in columns]
        )
        far = motion.usable & (rest > _FAR * 1.4826 * usual)
        counts['far from what the model explains'] = far.sum(axis=0)
        motion = replace(motion, excluded=motion.excluded | marked(far, FAR))
        samples = samples._replace(motion=motion)
    for why, count in (counts | {USED: motion.usable.sum(axis=0)}).items():
        efforts[why].update(dict(zip(tree.joint_names, count.tolist(), strict=True)))
    return summarize(samples, plan.unknowns, plan.base)


def conclude(
    blocks: Sequence[Block], plan: IdentificationPlan, prior_weight: float = 1.0
) -> Identification:
    """Identify the robot from gathered regression data.

    Args:
        blocks: Blocks of all recordings.
        plan: The plan they were gathered with.
        prior_weight: Weight of the nominal inertia; 1: standard deviation equal to its size.

    Raises:
        ParameterError: The weight is not positive and finite.
        RecordingError: There is no usable sample.
        ModelError: The nominal robot is not physical.
    """
    require_positive(prior_weight=prior_weight)
    unknowns = plan.unknowns
    base, fitted, chosen = _determined(blocks, plan)
    single = single_change(fitted, unknowns)
    physical = _trusted(fitted, plan, prior_weight, single)
    drives = dict(zip(unknowns.terms, physical.values[unknowns.drives], strict=True))
    tree = with_inertial_parameters(unknowns.tree, physical.values[: unknowns.links])
    fastest = np.max([block.speeds for block in blocks], axis=0)
    rubs = unknowns.places(*FRICTION_TERMS)
    found = ~np.isin(rubs, physical.held).all(axis=0) & (fastest > 0.0)
    # Friction that is not identified is valid as far as before.
    known = np.where(found, fastest, recorded_speed(tree))
    tree = with_terms(tree, {**drives, RECORDED_SPEED: known})
    friction = _urdf_friction(blocks, plan, physical.values, tree)
    return Identification(plan, base, tuple(chosen), fitted, physical, tree, friction, single)


def _determined(
    blocks: Sequence[Block], plan: IdentificationPlan
) -> tuple[BaseParameters, Estimate, list[str]]:
    """Return base parameters with the further drive terms that the data support.

    Load friction may reduce held-out residuals although the data hardly tell it from Coulomb
    friction, as where the load hardly changes; later loads would multiply its error. That of a
    joint is left out unless it is beyond three standard deviations, the least certain one first.

    Returns:
        The base parameters, their estimate, and why further terms were included or left out.
    """
    unknowns = plan.unknowns
    kept, chosen = evident_columns(blocks, unknowns, plan.base)
    while True:
        base = plan.base.only(kept)
        rows, late = [block.only(kept) for block in blocks], plan.choice.lag.deviation
        fitted = estimate(rows, base, unknowns, late)
        leading, values, deviations = fitted.base.leading, fitted.values, fitted.deviations
        sure = np.abs(values) / np.maximum(deviations, np.finfo(float).tiny)
        sure[~np.isin(leading, unknowns.places('load_friction'))] = np.inf
        least = int(np.argmin(sure))
        if sure[least] >= SURE:
            return base, fitted, chosen
        name, told = unknowns.names[leading[least]], estimated(values[least], deviations[least])
        chosen = [reason for reason in chosen if reason.split()[0] != name]
        chosen.append(
            f'{name} is left out: at {told}, the recordings do not tell it from Coulomb friction'
        )
        kept = kept[plan.base.leading[kept] != leading[least]]


def _urdf_friction(
    blocks: Sequence[Block], plan: IdentificationPlan, values: Array, tree: Robot
) -> Array:
    """Return the viscous and Coulomb friction closest to all friction terms, shape (2, n).

    They minimize the squared difference of the friction efforts over the samples. A joint whose
    two terms are not both unknown keeps those of the robot.
    """
    from scipy.optimize import nnls

    unknowns, leading, factors = plan.unknowns, plan.base.leading, merged(blocks).factors
    friction = np.array([tree.damping, tree.coulomb_friction])
    if unknowns.terms[:2] != DEFAULT_TERMS[:2]:
        return friction
    rubs = unknowns.places(*(term for term in FRICTION_TERMS if term != 'offset'))
    for j, (own, rows) in enumerate(zip(rubs.T, factors, strict=True)):
        every, both = (x[np.isin(x, leading)] for x in (own, own[:2]))
        if len(both) == 2 and np.count_nonzero(values[every]) > 2:
            columns, wanted = (rows[:, np.searchsorted(leading, x)] for x in (every, both))
            friction[:, j] = nnls(wanted, columns @ values[every])[0]
    return friction


def _trusted(
    fitted: Estimate, plan: IdentificationPlan, prior_weight: float, single: SingleChange | None
) -> PhysicalParameters:
    """Return physical parameters whose links are as close to the nominal ones as the data allow.

    Links close to the nominal ones are taken if they explain the data as well: along what the data
    hardly determine, noise alone would move them. Those close to a single change explain the data,
    else there is none. Deviations remain those of the original weight.
    """
    rotors, near = (True, None) if single is None else (single.rotors, single.near)
    first, close = (
        physical_parameters(fitted, plan.unknowns, times * prior_weight, rotors, start)
        for times, start in ((1.0, None), (_DESCRIBED if single is None else _ALONE, near))
    )
    if single is None and close.misfit > first.misfit + SURE**2:
        return first
    return replace(close, deviations=first.deviations)


def identify(
    recordings: Iterable[Recording],
    tree: Robot,
    terms: Sequence[str] = DEFAULT_TERMS,
    request: Request | None = None,
    prior_weight: float = 1.0,
) -> Identification:
    """Identify a robot; the preparation of all recordings is chosen from the first.

    Args:
        recordings: Recordings, read one at a time.
        tree: The nominal robot, with the gravity of the recordings.
        terms: Drive terms to identify, some of ``TERMS``.
        request: User settings of the preparation; the rest is chosen from the data.
        prior_weight: See :func:`conclude`.

    Raises:
        RecordingError: There is no recording, no part of one can be used, or it has too many
            outliers.
        UnknownNameError: A term, a timing or a joint is unknown.
        ModelError: The nominal robot is not physical.

    Cost: 1 s per minute at 1 kHz of a four-joint arm; memory of one recording.
    """
    require_robot(tree)
    require_type('recordings', recordings, Iterable, 'a list of recordings')
    plan: IdentificationPlan | None = None
    blocks: list[Block] = []
    for recording in recordings:
        require_type('recordings', recording, Recording, 'recordings, see read_recording')
        run, _ = require_clean(recording.of_joints(tree.joint_names))
        plan = plan or make_plan(run, tree, terms, request)
        blocks += gather(run, plan)
    if plan is None:
        raise RecordingError('identification', 'has no recording', 'give at least one')
    return conclude(blocks, plan, prior_weight)
