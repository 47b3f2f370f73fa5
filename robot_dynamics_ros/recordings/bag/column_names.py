# SPDX-License-Identifier: Apache-2.0
"""Names of columns: the word of a quantity, the joint before or after it, and the unit last.

``actual_q_0``, ``tau_J[0]``, ``j1_pos_deg``, ``effort_joint1_Nm``, ``elbow/velocity``.
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
#: Keys of columns, and their quantity.
QUANTITIES: Mapping[str, str] = {
    **{key: key for key in SIZES},
    'command': 'effort',
    'reference_position': 'position',
    'reference_velocity': 'velocity',
}
#: Words of a key, preferred ones first, those between bars alike; others need a YAML file.
_WORDS: Mapping[str, str] = {
    'position': 'actual_q actual_position measured_position pos_act pos_meas'
    ' | q pos position positions angle angles | theta',
    'velocity': 'actual_qd actual_velocity measured_velocity vel_act vel_meas'
    ' | qd dq qdot q_dot vel velocity velocities speed | dtheta theta_dot omega',
    'effort': 'actual_torque measured_torque tau_meas'
    ' | tau tau_J eff effort efforts torque torques trq moment'
    ' | actual_current current currents | target_moment',
    'command': 'tau_J_d tau_d tau_cmd cmd command commands | target_current',
    'reference_position': 'target_q q_d q_des q_ref reference_position pos_des pos_ref pos_cmd',
    'reference_velocity': 'target_qd dq_d dq_des dq_ref reference_velocity vel_des vel_ref',
}
_NO_STATE = re.compile(r'(?:^|[\W_])(?:acc|err|error|ext|limit|raw|filtered)(?:[\W_]|$)', re.I)
_CURRENTS = ('actual_current', 'current', 'currents', 'target_current')
_RANKS = {
    word.lower(): (key, rank)
    for key, words in _WORDS.items()
    for rank, alike in enumerate(words.split('|'))
    for word in alike.split()
}
_WORD = '|'.join(sorted(_RANKS, key=len, reverse=True))
_NAME = re.compile(
    r'(?:/?(?:\w+/)*joint_states?/|field\.|state\.)?'
    rf'(?:(?P<first>{_WORD})(?![^\W\d_])[\W_]*(?P<after>\d[\W\d_]*?|[^\W\d_].*?|)[\W_]*'
    rf'|(?P<before>.+?)[\W_]+(?P<last>{_WORD}))',
    re.I,
)
_PER_SECOND = r'(?:[_\s]?/[_\s]?|_per_|p|_)s(?:ec)?'
_IN_BRACKETS = re.compile(r'(.+?)\s*[\[(]\s*([^\[\]()]+?)\s*[\])]')
_AT_END = re.compile(
    rf'(.+?)[\s_./-]((?:m?rad|deg|m|mm)(?:{_PER_SECOND})?|rpm|m?N[ *·._]?m|k?N|m?A)'
)


class Column(NamedTuple):
    """What the name of a column says.

    Attributes:
        key: One of ``QUANTITIES``.
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
        counted = re.fullmatch(r'(?:joint|axis|j|a)?[\s_./-]*0*(\d+)', self.joint, re.I)
        return counted[1] if counted else self.joint


def parse(head: str) -> Column | None:
    """Return what the name of a column says; None if it begins and ends with no known word."""
    bare, unit = split(head)
    found = _NAME.fullmatch(bare)
    if not found or _NO_STATE.search(bare):
        return None
    word = (found['first'] or found['last']).lower()
    key, rank = _RANKS[word]
    unit = unit or ('A' if word in _CURRENTS else '')
    return Column(key, found['before'] or found['after'] or '', unit, rank)


def split(head: str) -> tuple[str, str]:
    """Return a column's name without its unit, and the unit; empty if the name has none.

    What is behind the word of a quantity alone is the joint, unless it is a unit of two letters
    or more: ``q[0]``, ``tau[elbow]``, ``pos_A``, ``q [deg]``.
    """
    found = _IN_BRACKETS.fullmatch(head) or _AT_END.fullmatch(head)
    if not found:
        return head, ''
    bare, unit = found[1], _spelled(found[2])
    named = _NAME.fullmatch(bare)
    has_joint = named is not None and (named['before'] or named['after'])
    known = len(unit) > 1 and any(unit in sizes for sizes in SIZES.values())
    return (bare, unit) if known or (has_joint and not unit.isdigit()) else (head, '')


def is_unit(text: str) -> bool:
    """Return whether a text, perhaps in brackets, is a unit of a column, or empty."""
    bare = text.strip('[]()')
    return bare in ('', '-', *UNITS_OF_TIME) or any(_spelled(bare) in x for x in SIZES.values())


def _spelled(unit: str) -> str:
    """Return a unit as in ``SIZES``, if it is a spelling of one."""
    if re.fullmatch(r'm?N[ *·._]?m', unit):
        return 'mN m' if unit.startswith('m') else 'N m'
    size = re.sub(rf'{_PER_SECOND}$', '', unit)
    return size.replace('°', 'deg') + ('/s' if size != unit else '')
