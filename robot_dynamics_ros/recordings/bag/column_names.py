# SPDX-License-Identifier: Apache-2.0
"""Names of columns: quantity, role, joint and unit, in any order except that the unit is last.

``q1``, ``actual_qd_0``, ``j1_pos_deg``, ``effort_joint1_Nm``, ``/joint_states/elbow/velocity``,
``tau_J[0]``, ``Joint 1 Torque [Nm]``. The words of quantity and role stand before or after the
joint; words that are neither belong to its name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from robot_dynamics_ros.control.drivers.profile import (
    JOINT_EFFORT_UNITS,
    MOTOR_EFFORT_UNITS,
    POSITION_UNITS,
    VELOCITY_UNITS,
)

#: Sizes of units by quantity; units of the motor are left to the driver profile.
SIZES: Mapping[str, Mapping[str, float]] = {
    'position': {name: size for name, (size, _) in POSITION_UNITS.items()},
    'velocity': {name: size for name, (size, _) in VELOCITY_UNITS.items()},
    'effort': {name: size for name, (size, _) in JOINT_EFFORT_UNITS.items()}
    | dict.fromkeys(MOTOR_EFFORT_UNITS, 1.0),
}
UNITS_OF_TIME = {'s': 0, 'ms': -3, 'us': -6, 'ns': -9}  # powers of ten
#: Keys of columns: by quantity, as measured and as wanted.
KEYS: Mapping[str, tuple[str, str]] = {
    'position': ('position', 'reference_position'),
    'velocity': ('velocity', 'reference_velocity'),
    'effort': ('effort', 'command'),
}
_CURRENT = ('current', 'currents')
_QUANTITIES = {
    word: quantity
    for quantity, words in {
        'position': 'q pos position positions angle angles theta',
        'velocity': 'qd dq qdot vel velocity velocities speed speeds dtheta thetadot',
        'effort': 'tau eff effort efforts torque torques torq trq tq moment moments '
        'current currents',
    }.items()
    for word in words.split()
}
_MOTOR = {'theta', 'dtheta', 'thetadot'}  # where q and dq are those of the joints
_MEASURED = {'actual', 'act', 'measured', 'meas', 'ist'}
_COMMAND = {'command', 'commands', 'commanded', 'cmd'}
_WANTED = {'target', 'desired', 'des', 'd', 'reference', 'ref', 'setpoint', 'soll'} | _COMMAND
_RATE = 'dot'  # makes positions velocities, as a 'd' before q and theta does
_NO_STATE = {'dd', 'ddot', 'acc', 'acceleration', 'accelerations', 'time', 'stamp', 'timestamp'}
_WORDS = {*_QUANTITIES, *_MEASURED, *_WANTED, _RATE, *_NO_STATE}
_TOPIC = {'state', 'states', 'field'}  # before the name, in exports of messages
_JOINT = {'joint', 'joints'}
_SPELLED = {'°': 'deg', 'degree': 'deg', 'degrees': 'deg', 'radian': 'rad', 'radians': 'rad',
            '%': 'percent'}  # fmt: skip
_PER_SECOND = r'(?:[_\s]?/[_\s]?|_per_|p|_)s(?:ec)?'
_AT_END = re.compile(
    r'(.+?)(?:\s*[\[(]\s*([^\[\]()]+?)\s*[\])]'
    rf'|[\s_./-]((?:m?rad|deg|m|mm|°|degrees?|radians?)(?:{_PER_SECOND})?'
    r'|rpm|m?N[ *·._]?m|k?N|m?A))'
)


class Column(NamedTuple):
    """What the name of a column says.

    Attributes:
        key: One of ``KEYS``.
        joint: Name of the joint; a number, or empty, if there is none.
        unit: Unit as in ``SIZES``, or an unknown one in brackets; empty: none.
        rank: Columns of a lower rank are preferred.
    """

    key: str
    joint: str
    unit: str
    rank: int

    @property
    def label(self) -> str:
        """The joint for comparison: its number if its name is only counted, as in ``joint1``."""
        counted = re.fullmatch(r'(?:joint|axis|jnt|j|a)?[\s_./-]*0*(\d+)', self.joint, re.I)
        return counted[1] if counted else self.joint


def parse(head: str) -> Column | None:
    """Return what the name of a column says; None if it names no quantity of a joint."""
    bare, unit = split(head)
    words, joint = _words(bare)
    quantities = {_QUANTITIES[word] for word in words if word in _QUANTITIES}
    current = bool(words & {*_CURRENT})
    if current and len(quantities) > 1:  # the current position
        quantities = {_QUANTITIES[w] for w in words if w in _QUANTITIES and w not in _CURRENT}
        current = False
    if not quantities and words & _COMMAND:
        quantities = {'effort'}
    if words & {_RATE}:
        quantities = {'velocity'} if quantities == {'position'} else set()
    if len(quantities) != 1 or words & _NO_STATE:
        return None
    (quantity,) = quantities
    modelled = {'target', 'moment'} <= words  # of RTDE: by its model, and no command
    wanted = bool(words & _WANTED) and not modelled
    rank = 4 * bool(modelled or words & _MOTOR) + 2 * current + (not words & _MEASURED)
    return Column(KEYS[quantity][wanted], joint, unit or ('A' if current else ''), rank)


def split(head: str) -> tuple[str, str]:
    """Return a column's name without its unit, and the unit; empty if the name has none.

    Brackets hold a unit, or else the joint: ``q[0]``, ``tau[elbow]``. A single letter is a unit
    only after quantity and joint, and an unknown unit only then.
    """
    found = _AT_END.fullmatch(head)
    if not found:
        return head, ''
    bare, unit = found[1], _spelled(found[2] or found[3])
    words, joint = _words(bare)
    quantities = {_QUANTITIES[word] for word in words if word in _QUANTITIES}
    if len(unit) > 1 and any(unit in sizes for sizes in SIZES.values()):
        return bare, unit
    fits = any(unit in SIZES[quantity] for quantity in quantities)
    if joint and quantities and not unit.isdigit() and (fits or found[2]):
        return bare, unit
    return head, ''


def is_unit(text: str) -> bool:
    """Return whether a text, perhaps in brackets, is a unit of a column, or empty."""
    bare = text.strip('[]()')
    return bare in ('', '-', *UNITS_OF_TIME) or any(_spelled(bare) in x for x in SIZES.values())


def _spelled(unit: str) -> str:
    """Return a unit as in ``SIZES``, if it is a spelling of one."""
    if re.fullmatch(r'm?[Nn][ *·._]?m', unit):
        return 'mN m' if unit.startswith('m') else 'N m'
    size = re.sub(rf'{_PER_SECOND}$', '', unit)
    return _SPELLED.get(size, size) + ('/s' if size != unit else '')


def _words(bare: str) -> tuple[set[str], str]:
    """Return the words before and after the joint in a name without unit, and the joint."""
    tokens = [token for found in re.finditer(r'[^\W_]+', bare) for token in _counted(found)]
    lower = [bare[start:end].lower() for start, end in tokens]
    words: set[str] = set()
    first, last = 0, len(tokens)
    while first < last and (
        lower[first] in _WORDS
        or (lower[first] in _TOPIC and not words & _WORDS)
        or (lower[first] in _JOINT and first + 1 < last and lower[first + 1] in _WORDS | _TOPIC)
    ):
        rate = lower[first] == 'd' and lower[first + 1 : first + 2] in (['q'], ['theta'])
        words.add(_RATE if rate else lower[first])
        first += 1
    number = last if last > first and lower[last - 1].isdigit() else 0
    last -= bool(number)
    while last > first and lower[last - 1] in _WORDS:
        last -= 1
        words.add(lower[last])
    path = bare[tokens[first][0] : tokens[last - 1][1]].split('/') if last > first else []
    roles = {part: _role(part) for part in path}
    words.update(*roles.values())
    parts = ['/'.join(part for part in path if not roles[part])] * bool(path)
    parts += [lower[number - 1]] if number else []
    return words, '_'.join(filter(None, parts))


def _role(part: str) -> set[str]:
    """Return the words of a field such as ``desired_joint_state``; none if it is a name."""
    words = {word.lower() for word in re.findall(r'[^\W_]+', part)}
    role = words & _TOPIC and words & (_MEASURED | _WANTED)
    return words if role and words <= _WORDS | _TOPIC | _JOINT else set()


def _counted(found: re.Match[str]) -> list[tuple[int, int]]:
    """Return the span of a token, or of a word of a quantity and the number behind it."""
    start, end = found.span()
    word = found[0].rstrip('0123456789')
    if word != found[0] and word.lower() in _WORDS:
        return [(start, start + len(word)), (start + len(word), end)]
    return [(start, end)]
