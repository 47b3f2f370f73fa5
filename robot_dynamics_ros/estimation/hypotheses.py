# SPDX-License-Identifier: Apache-2.0
r"""Hypotheses on efforts that a model does not explain: columns, bounds, sentences and remedies.

Faults of a driver profile have the same sentence whatever finds them: an arm at rest in several
poses, the weight of an arm in motion, or the regression of its residual.

Inverse dynamics is linear in the gravity vector,
:math:`\tau(g) = \tau(g_0) + G(q)(g - g_0)`, so another gravity is one of the causes of a
residual. Components in unobservable directions are not changed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.findings import Finding, Severity
from robot_dynamics_ros.spatial.scalar import Array

#: Ratios of masses to those of a description. Beyond the possible ones another cause is likelier:
#: a unit, a sign, another robot. A tool or a cable may weigh several times a small link.
POSSIBLE_ARM, POSSIBLE_LINK = (0.5, 2.0), (0.2, 3.0)
_SMALL = 0.25  # of the mass of the arm: a link may always weigh this much more
_ROUNDING = 1e-9  # share of the largest friction of a joint that is none
_OTHER_JOINT = (0.8, 1.2)  # plausible factor of an effort that is another joint's
_CURRENT = 0.3  # factor of efforts below which, or above whose inverse, no mass causes it
_OTHER_MASSES = _CURRENT - 1.0, 1.0 / _CURRENT - 1.0  # shares that all masses may differ by


class Cause(NamedTuple):
    """A possible cause of a residual.

    Attributes:
        name: Kind of the cause.
        columns: Its columns of the regressor.
        joint: The joint that it affects, or -1 for all.
        body: The body whose mass is wrong, or that carries a load, or -1.
    """

    name: str
    columns: tuple[int, ...]
    joint: int = -1
    body: int = -1

    def overlaps(self, others: Sequence[Cause]) -> bool:
        """Return whether it has columns of another one."""
        return any(
            self.joint == other.joint and not set(self.columns).isdisjoint(other.columns)
            for other in others
        )

    def is_part_of(self, other: Cause) -> bool:
        """Return whether it has some of the columns of another one."""
        return self.joint == other.joint and set(self.columns) < set(other.columns)


#: Columns of the regressor that precede those of the bodies and of the order of joints; of
#: gravity: along that of the model, and across.
_LOAD = ('load', 'load x', 'load y', 'load z')
_EXTENT = ('load xx', 'load xy', 'load xz', 'load yy', 'load yz', 'load zz')
COLUMNS = ('g', 'gx', 'gy', 'delay', *_LOAD, *_EXTENT, 'mass', 'factor', 'rotor', 'offset',
            'viscous', 'dry')  # fmt: skip
PER_JOINT = {
    'factor': ('factor',),
    'rotor inertia': ('rotor',),
    'offset': ('offset',),
    'friction': ('viscous', 'dry'),
    'dry friction': ('dry',),
    'viscous friction': ('viscous',),
}
#: What a description usually lacks at every joint, and the simpler forms of it.
USUAL = ('friction', 'rotor inertia')
PER_DRIVE = (*USUAL, 'dry friction', 'viscous friction')
COMMON = {
    'weight': ('g',),
    'gravity': ('g', 'gx', 'gy'),
    'timing': ('delay',),
    'mass': ('mass',),
    'unit': ('mass',),
}

#: All kinds of causes, and those of a recording that can be of the robot: it has no other unit.
EVERY = (*COMMON, *PER_JOINT, 'load', 'link', 'order')
LIKELY = tuple(name for name in EVERY if name != 'unit')
GRAVITY = ('weight', 'gravity')  #: causes of another gravity: of its size; of any direction
LOADS = (_LOAD, _LOAD + _EXTENT)  #: columns of a load: a mass near the tool; of any extent


def columns_of(*names: str) -> tuple[int, ...]:
    """Return the indices of columns."""
    return tuple(COLUMNS.index(name) for name in names)


def order_causes(tree: Robot) -> list[Cause]:
    """Return for each joint the other joints whose effort it may have, with their friction."""
    n, first = tree.n, len(COLUMNS) + tree.bodies
    pairs = [(j, first + k) for j in range(n) for k in range(n) if j != k]
    return [Cause('order', (own, own + n, own + 2 * n), j) for j, own in pairs]


def possible_masses(mass: Array, described: Array) -> Array:
    """Return whether each link may have a mass, kg, instead of the described one, shape (b,)."""
    low, high = POSSIBLE_LINK
    heavier = (mass > high * described) & (mass - described > _SMALL * described.sum())
    return np.asarray((mass >= low * described) & ~heavier)


def is_unit(factor: float) -> bool:
    """Return whether efforts are so small or large that they have another unit, or sign."""
    return factor < _CURRENT or factor > 1.0 / _CURRENT


def is_possible(tree: Robot, cause: Cause, x: Array) -> bool:
    """Return whether the coefficients x of a cause are physical and plausible."""
    if cause.name == 'link':
        mass = tree.mass + np.where(np.arange(tree.bodies) == cause.body, x, 0.0)
        return bool(possible_masses(mass, tree.mass).all())
    if cause.name == 'unit':
        return is_unit(1.0 + float(x[0]))
    if cause.name in PER_DRIVE:
        known = {'viscous': tree.damping, 'dry': tree.coulomb_friction, 'rotor': tree.armature}
        least, most = [-known[x][cause.joint] for x in PER_JOINT[cause.name]], math.inf
    else:
        load = -tree.mass[cause.body], tree.mass.sum()
        bounds = {'mass': _OTHER_MASSES, 'order': _OTHER_JOINT, 'load': load}
        x, (least, most) = x[:1], bounds.get(cause.name, (-math.inf, math.inf))
    tolerance = 1e-6 * np.abs(x).max()
    return bool((x >= least - tolerance).all() and (x <= most + tolerance).all())


def is_mass(tree: Robot, x: Array) -> bool:
    """Return whether the mass and first moments of a load have their centre within the arm."""
    reach = float(np.linalg.norm(tree.p_PJ, axis=1).sum())
    return bool(np.linalg.norm(x[1:4]) <= reach * abs(x[0]))


#: By whether a joint is prismatic: factor to the right unit, the confusion, and the right unit.
POSITION_UNITS = {
    False: (
        (math.pi / 180.0, 'degrees are taken for radians', 'deg'),
        (180.0 / math.pi, 'radians are taken for degrees', 'rad'),
    ),
    True: (
        (1e-3, 'millimetres are taken for metres', 'mm'),
        (1e3, 'metres are taken for millimetres', 'm'),
    ),
}
#: Problem and remedy of faults of efforts, with place for a value.
_EFFORT_FAULTS = {
    'sign': ('wrong sign of effort', 'change effort_sign in the driver profile'),
    'order': (
        'its effort is what {} needs',
        'correct driver_name, or the order of joints, in the driver profile',
    ),
    'offset': (
        'its efforts are {:+.3g} {} off',
        'an offset of sensor or drive; if commands show it too, effort_offset in the driver '
        'profile',
    ),
    'unit': (
        'wrong unit of effort: it must be multiplied by about {:g}',
        'currents (A) taken for N m, or efforts of the motor for those of the joint: make the '
        'product of effort_unit, torque_constant and gear_ratio {:g} times as large',
    ),
    'thousand': (
        'wrong unit of effort: it must be multiplied by about {:g}',
        'write effort_unit: {} in the driver profile, or mA for A',
    ),
    'load': (
        'its efforts are {:.0f} % of what the model needs',
        'a load or tool missing in the model, or a slightly wrong torque_constant',
    ),
}
_COMMON_UNIT = ', the common factor: an own one is not clear'
_OTHER_LIKENESS = (
    'another mass, several at once, or a wrong zero of a joint may explain nearly as much'
)
SAME = 0.15  # relative tolerance within which two factors of efforts are the same
_SLIGHT = (0.6, 1.7)  # factors of efforts that a load may cause


def effort_fault(culprit: str, kind: str, *value: float | str, detail: str = '') -> Finding:
    """Return a fault of efforts as a finding.

    Args:
        culprit: The joints, see :func:`named`.
        kind: 'sign'; 'order', with the joint that needs the effort; 'offset', with its size and
            unit; 'unit', with the factor by which efforts must be multiplied.
        value: See above.
        detail: End of the problem.
    """
    if kind == 'unit':
        factor = float(value[0])
        value = (float(f'{factor:.2g}'),)  # a load, friction and noise change the third digit
        if _SLIGHT[0] < factor < _SLIGHT[1]:
            kind, value = 'load', (100.0 / factor,)
        for thousand, unit in ((1e-3, 'mN m'), (1e3, 'kN')):
            if abs(factor / thousand - 1.0) < SAME:
                kind, value = 'thousand', (*value, unit)
    problem, remedy = _EFFORT_FAULTS[kind]
    last = value[-1:]
    severity: Severity = 'warning' if kind == 'offset' else 'error'
    return Finding(severity, problem.format(*value) + detail, culprit, remedy.format(*last))


#: What of two joints is exchanged: problem; whether positions are, and efforts.
EXCHANGES = (
    ('swapped: each is taken for the other', True, True),
    ('positions are swapped, efforts are not', True, False),
    ('efforts are swapped, positions are not', False, True),
)


#: What of a joint is reversed: problem; remedy; whether its effort is, too.
REVERSALS = (
    (
        'wrong sign: the driver counts against the axis of the model',
        'give it sign: -1 in the driver profile, or +1 if it has -1',
        True,
    ),
    (
        'wrong sign of its position: efforts have the right one',
        'change sign in the driver profile, and write effort_sign so that it stays',
        False,
    ),
)


def exchange_fault(tree: Robot, i: int, j: int, problem: str) -> Finding:
    """Return the fault that two joints are exchanged in a driver profile as a finding."""
    return Finding('error', problem, named(tree, [i, j]), _EFFORT_FAULTS['order'][1])


def unit_faults(tree: Robot, factors: Array, own: Sequence[int]) -> list[Finding]:
    """Return that efforts have another unit: one of all or, as currents, of each joint.

    Args:
        tree: The robot.
        factors: Recorded effort / effort in the unit of the model, by joint, shape (n,).
        own: Joints whose factor is known; that of the others is that of all.
    """
    if np.ptp(factors) > SAME * factors.min():
        others = [j for j in range(tree.n) if j not in own]
        return [
            effort_fault(named(tree, joints), 'unit', 1.0 / factors[joints[0]], detail=detail)
            for joints, detail in (*(([j], '') for j in sorted(own)), (others, _COMMON_UNIT))
            if joints
        ]
    fault = effort_fault('the efforts', 'unit', 1.0 / float(factors[0]))
    load = 'does it carry more than its own mass, ' if factors[0] > 1.0 else ''
    return [fault._replace(remedy=f'{fault.remedy}; or {load}is it another robot?')]


def named(tree: Robot, joints: Sequence[int] | Array) -> str:
    """Return the names of joints as the culprit of a finding."""
    names = [tree.joint_names[i] for i in joints]
    return f'joint {names[0]!r}' if len(names) == 1 else f'joints {", ".join(names)}'


def finding(tree: Robot, cause: Cause, x: Array, share: Array, joints: Sequence[int]) -> Finding:
    """Return a cause as a finding.

    Masses are told as what the motion looks like: other masses of several links look like one of
    a single link, of all links or at the tool.

    Args:
        tree: The model.
        cause: The cause; neither gravity nor a unit.
        x: Its coefficients.
        share: Share of the squared residual of each joint that it explains, shape (n,).
        joints: The joints where it explains most.
    """
    names = ', '.join(np.array(tree.joint_names)[list(joints)])
    rest = f'{100.0 * share[list(joints)].min():.0f} % of the residual of {names}'
    if cause.joint >= 0:
        return _joint_finding(tree, cause, x, rest)
    if cause.name == 'timing':
        how = 'late' if x[0] < 0.0 else 'early'
        return Finding('warning', f'the efforts are {1e3 * abs(x[0]):.3g} ms too {how}: {rest}')
    if cause.name == 'load' and not is_mass(tree, x):
        text = (
            f'the arm moves as if {tree.link_names[cause.body]} had its centre of mass elsewhere'
        )
        return Finding(
            'error',
            f'{text}, or a joint its zero: {rest}',
            remedy='compare a posture with the model (position_zero in the driver profile), else '
            'identify the arm',
        )
    more, which = (
        ('more', 'a load, a tool that the model lacks, or heavier links')
        if x[0] > 0.0
        else ('less', 'a tool of the model is missing, or its links are lighter')
    )
    if cause.name == 'load':
        text = f'it carried {abs(x[0]):.3g} kg {more} than the model at its tool, {which}'
    elif cause.name == 'link':
        name, mass = tree.link_names[cause.body], float(tree.mass[cause.body])
        text = f'{name} weighed {abs(x[0]):.3g} kg {more} than the {mass:.4g} kg of the model'
    else:
        text = f'all masses were about {1.0 + x[0]:.3g} times those of the model, or all efforts '
        text += 'in another unit'
    return Finding('error', f'the arm moves as if {text}: {rest}; {_OTHER_LIKENESS}')


def _joint_finding(tree: Robot, cause: Cause, x: Array, rest: str) -> Finding:
    """Return a cause at a single joint as a finding."""
    joint, value = named(tree, [cause.joint]), float(x[0])
    slides = tree.joint_is_prismatic[cause.joint]
    force, speed = ('N', 'm/s') if slides else ('N m', 'rad/s')
    if cause.name == 'order':
        other = tree.joint_names[cause.columns[0] - len(COLUMNS) - tree.bodies]
        return effort_fault(joint, 'order', other, detail=f': {rest}')
    if cause.name == 'factor' and value < -1.0:
        return effort_fault(joint, 'sign')
    if cause.name == 'factor':
        return effort_fault(joint, 'unit', 1.0 / max(1.0 + value, 1e-9))
    if cause.name == 'offset':
        return effort_fault(joint, 'offset', value, force, detail=f': {rest}')
    if cause.name == 'rotor inertia':
        text = f'about {value:.3g} {"kg" if slides else "kg m²"} of the rotor'
        return Finding('warning', f'{rest} is inertia that the model lacks: {text}')
    units = {'viscous': f'{force} per {speed}', 'dry': f'{force} dry'}
    shown = np.abs(x) > _ROUNDING * np.abs(x).max()
    how, form = 'other than that of the model', '+.3g'
    if (x[shown] > 0.0).all():
        how, form = 'that the model lacks', '.3g'
    elif (x[shown] < 0.0).all():
        how, form, x = 'that the arm lacks', '.3g', -x
    parts = zip(x.tolist(), PER_JOINT[cause.name], shown, strict=True)
    told = ' and '.join(f'{size:{form}} {units[kind]}' for size, kind, some in parts if some)
    return Finding('warning', f'{rest} is friction {how}: about {told}')


# Gravity ----------------------------------------------------------------------------------------

#: Advice to set the gravity of command ``analyze``.
ADVICE = 'analyze with --gravity {}'
#: Verdicts on gravity that a setting corrects.
SETTABLE = ('mismatch', 'tilt')
_CERTAIN = 0.9  # least explained fraction to report gravity as the cause
_POSSIBLE = 0.5  # least explained fraction to report gravity as a possible cause
_REVERSED = -0.5  # of gravity: largest component along that of the model that is against it
_COMMON = (9.8, 9.80665, 9.81)  # of Gazebo, standard, of MuJoCo; m/s^2
_COMMON_TOLERANCE = 5e-4  # m/s^2
_LEAST_CHANGE = 1e-4  # smaller differences are not reported, m/s^2
_ABSENT = 0.05  # fraction of gravity below which it is missing in the efforts
_LEAST_TILT = math.radians(0.1)  # tilt that is reported
_HEAVIEST = 20.0  # m/s^2: more is another unit of efforts
_SAME_SIZE = 0.05  # relative tolerance of the size of a known gravity: noise


def is_gravity(model: Array, vector: Array) -> bool:
    """Return whether a gravity (3,), m/s^2, is possible beside that of a model.

    It is the earth's or the model's in any direction, or none; one that is reversed tells of
    efforts that are.
    """
    size, own = (float(np.linalg.norm(x.astype(float))) for x in (vector, model))
    turned = is_reversed(model, vector) and size < _HEAVIEST
    least = min(abs(size / known - 1.0) for known in (_COMMON[0], own) if known)
    return bool(turned or least < _SAME_SIZE or size < _SAME_SIZE * _COMMON[0])


def is_reversed(model: Array, vector: Array) -> bool:
    """Return whether a gravity points against that of a model, as efforts of the wrong sign do."""
    return bool(vector @ model < _REVERSED * (model @ model))


class GravityFit(NamedTuple):
    """The gravity of a model, and that which efforts fit.

    Attributes:
        model: Gravity of the model, shape (3,), m/s^2, base frame.
        fitted: Gravity fitted to the efforts, shape (3,), m/s^2, base frame.
        before, after: RMS residual of all joints relative to the effort of each, that the other
            causes leave, and that all leave.
        rms_before, rms_after: The same of each joint, shape (n,), N m or N.
    """

    model: Array
    fitted: Array
    before: float
    after: float
    rms_before: Array
    rms_after: Array

    @property
    def explained(self) -> float:
        """Fraction of the squared relative residual that the fit explains."""
        return 1.0 - (self.after / self.before) ** 2 if self.before > 0.0 else 0.0

    @property
    def verdict(self) -> str:
        """Classification: 'mismatch', 'tilt', 'compensated', 'perhaps', or 'agrees'."""
        change = float(np.linalg.norm(self.fitted - self.model))
        if change < _LEAST_CHANGE or self.explained < _POSSIBLE:
            return 'agrees'
        if self.explained < _CERTAIN:
            return 'perhaps'
        if np.linalg.norm(self.fitted) < _ABSENT * _COMMON[0]:
            return 'compensated'
        return 'mismatch' if self.tilt < _LEAST_TILT else 'tilt'

    @property
    def is_common_value(self) -> bool:
        """Whether the verdict is 'mismatch' and the magnitude is common in simulators."""
        size = float(np.linalg.norm(self.fitted))
        common = any(abs(size - value) < _COMMON_TOLERANCE for value in _COMMON)
        return common and self.verdict == 'mismatch'

    @property
    def tilt(self) -> float:
        """Angle between the gravity vectors, rad; 0 if one of them is zero."""
        sizes = np.linalg.norm(self.fitted) * np.linalg.norm(self.model)
        if not sizes:
            return 0.0
        return math.acos(min(1.0, max(-1.0, float(self.fitted @ self.model) / float(sizes))))

    def sentence(self, change: str = ADVICE, compensated: str = '') -> str:
        """Describe the fitted gravity in a sentence; empty if it agrees with the model.

        Args:
            change: Advice to set the fitted gravity, with {} for its three components.
            compensated: Advice if the driver compensates gravity; empty to set gravity to zero.
        """
        size, own = np.linalg.norm(self.fitted), np.linalg.norm(self.model)
        vector = ', '.join(f'{x:.4f}' for x in self.fitted)
        comma = ', ' if '[' in change else ' '
        change = change.format(comma.join(f'{round(float(x), 4) + 0.0:g}' for x in self.fitted))
        effect = (
            f'with it the residual falls from {self.before:.2g} to {self.after:.2g} of the effort'
        )
        gazebo = " (Gazebo's own default is 9.8)" if abs(size - 9.8) < 5e-4 else ''
        angle = math.degrees(self.tilt)
        texts = {
            'mismatch': f'gravity differs: the efforts fit {size:.4f} m/s², the model has '
            f'{own:.4f}{gazebo}; {effect}; {change}',
            'tilt': f'gravity points elsewhere: ({vector}) m/s², {angle:.2f}° from that of the '
            f'model, as if the base were tilted; {effect}; {change}',
            'compensated': 'the efforts contain no gravity: the driver compensates it, or '
            f'gravity does not load the arm; {effect}; {compensated or ADVICE.format("0 0 0")}',
            'perhaps': f'{100 * self.explained:.0f} % of the residual looks like gravity '
            f'({vector}) m/s²: masses or centres of mass may be wrong',
        }
        return texts.get(self.verdict, '')

    def figures(self) -> dict[str, Any]:
        """Return the fit as plain numbers, lists and strings."""
        return {
            'model': self.model.tolist(),
            'fitted': self.fitted.tolist(),
            'magnitude': float(np.linalg.norm(self.fitted)),
            'verdict': self.verdict,
            'explained': self.explained,
            'residual_before': self.rms_before.tolist(),
            'residual_after': self.rms_after.tolist(),
        }
