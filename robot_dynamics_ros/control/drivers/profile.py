# SPDX-License-Identifier: Apache-2.0
r"""Driver profile: topics, names, units, signs and gears of a driver, and what it compensates.

With a driver's values x (position), y (velocity), c (command) and m (measured effort) of a joint,
its ``sign`` s and its ``effort_sign`` e:

.. math::

   q = s\,p\,(x - x_0), \qquad v = s\,w\,y, \qquad
   c = \frac{\tau + \tau_0}{K}, \qquad \tau_{measured} = K_m m, \qquad
   K = \begin{cases}e\,u & \text{effort at the joint}\\
                   e\,u\,k_t\,N & \text{effort or current at the motor}\end{cases}

p, w, u are the size of one of the driver's units in rad or m, rad/s or m/s, and N m, N, A or
fractions of a rated torque; :math:`x_0` is ``position_zero``, :math:`\tau_0` ``effort_offset``,
:math:`k_t` ``torque_constant`` (1 where the unit is an effort), N ``gear_ratio``. :math:`K_m` is K
with the unit of the measured efforts.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from robot_dynamics_ros import yaml_reader as read
from robot_dynamics_ros.control.drivers.transmission import TransmissionProfile
from robot_dynamics_ros.description.shipped import share_directory
from robot_dynamics_ros.errors import ConfigurationError, shown
from robot_dynamics_ros.parameters import Parameter
from robot_dynamics_ros.yaml_reader import Section
from robot_dynamics_ros.yaml_reader.parsing import read_yaml

Source = str | os.PathLike[str] | Mapping[str, Any]
Read = Callable[[str, Any], Any]

#: Position units: size in rad or m, and whether the unit is for a prismatic joint.
POSITION_UNITS: dict[str, tuple[float, bool]] = {
    'rad': (1.0, False),
    'mrad': (1e-3, False),
    'deg': (math.pi / 180.0, False),
    'turn': (2.0 * math.pi, False),
    'm': (1.0, True),
    'mm': (1e-3, True),
}
#: Velocity units: size in rad/s or m/s, and whether the unit is for a prismatic joint.
VELOCITY_UNITS: dict[str, tuple[float, bool]] = {
    **{f'{name}/s': unit for name, unit in POSITION_UNITS.items()},
    'rpm': (2.0 * math.pi / 60.0, False),
}
#: Effort units at the joint: size in N m or N, and whether the unit is for a prismatic joint.
JOINT_EFFORT_UNITS: dict[str, tuple[float, bool]] = {
    'N m': (1.0, False),
    'mN m': (1e-3, False),
    'N': (1.0, True),
    'kN': (1e3, True),
}
#: Effort units at the motor: size in N m, A or rated torque; for both kinds of joints.
MOTOR_EFFORT_UNITS: dict[str, float] = {
    'motor N m': 1.0,
    'motor mN m': 1e-3,
    'A': 1.0,
    'mA': 1e-3,
    'rated': 1.0,
    'percent': 1e-2,
    'permille': 1e-3,
}
#: Units that require a ``torque_constant``.
NEED_CONSTANT = ('A', 'mA', 'rated', 'percent', 'permille')

COMMAND_FORMS = ('group', 'per_joint', 'joint_state', 'joint_command', 'overlay')
#: Parameters of the command without a driver profile.
COMMAND = (
    Parameter('joints', [''], 'Order of the efforts in the command; it must equal the order of '
              'joints in the receiving controller; empty: the order of the description.',
              fixed=True),
    Parameter('command_form', 'group', 'Form of the command: group: one Float64MultiArray on '
              'effort_controller/commands; per_joint: one Float64 per joint on '
              '<joint>/cmd_force.', choices=('group', 'per_joint'), fixed=True),
)  # fmt: skip
DRIVER_PROFILE = Parameter(
    'driver_profile', '', 'Driver profile: YAML file, or name of a shipped one; it determines '
    'topics, joints, command_form, period, delay and velocity_cutoff_hz, and bounds '
    'effort_rate_limit and state_timeout_s; empty: none.', fixed=True,
)  # fmt: skip
COMPENSATIONS = ('gravity', 'friction')
#: Meaning of the effort in the driver's joint states: not usable; total effort of the drive; total
#: effort without the driver's own compensation.
EFFORT_REPORTS = ('none', 'total', 'without_compensation')


def _key(reader: Read, default: Any) -> Any:
    """Return a field that is read from the key of its name."""
    return field(default=default, metadata={'read': reader})


def _readers(kind: Any) -> read.Readers:
    """Return the readers of the keys of a profile."""
    return {one.name: one.metadata['read'] for one in fields(kind) if 'read' in one.metadata}


def _one_of(*known: str | float) -> Read:
    """Return a reader of one of several texts or numbers."""
    kind: Read = read.text if isinstance(known[0], str) else read.number

    def one(place: str, value: Any) -> Any:
        if kind(place, value) not in known:
            listed = ', '.join(map(str, known))
            raise ConfigurationError(place, f'is {value!r}', f'known: {listed}')
        return value

    return one


def _unit(known: Iterable[str]) -> Read:
    """Return a reader of a unit: its name, empty for the default, or its SI value."""
    names = ('', *known)

    def unit(place: str, value: Any) -> str | float:
        if isinstance(value, str) and value in names:
            return value
        try:
            return read.positive(place, value)
        except ConfigurationError as error:
            listed = f'known: {", ".join(known)}, or the SI value of one unit'
            raise ConfigurationError(place, error.problem, listed) from error

    return unit


def _tuple_of(reader: Read, noun: str = '') -> Read:
    """Return a reader of a list; a noun and the index are the place of an entry, if given."""

    def entries(place: str, value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise ConfigurationError(place, f'is {shown(value)}', 'give a list')
        return tuple(reader(f'{noun} {k}' if noun else place, x) for k, x in enumerate(value))

    return entries


def _built(kind: type) -> Read:
    """Return a reader of a profile whose keys are all optional."""
    return read.built(kind, {}, _readers(kind))


_NUMBERS = _tuple_of(read.number)
_EFFORT_UNIT = _one_of(*JOINT_EFFORT_UNITS, *MOTOR_EFFORT_UNITS)


@dataclass(frozen=True)
class JointProfile:
    """Profile of one joint; an empty unit is SI.

    Attributes:
        joint: Name in the model; empty in a profile's defaults.
        driver_name: Name in the driver's messages and topics; empty: that of the model.
        sign: 1, or -1 if the driver's positions have the opposite sign of the model's.
        effort_sign: 1, or -1 if the driver's efforts have the opposite sign; 0: ``sign``.
        position_unit: A key of ``POSITION_UNITS``, or the size of the unit in rad or m.
        velocity_unit: A key of ``VELOCITY_UNITS``, or the size of the unit in rad/s or m/s; empty:
            that of position per s.
        position_zero: Reading at position 0 of the model, in the driver's unit.
        effort_unit: Unit of commands, a key of ``JOINT_EFFORT_UNITS`` or ``MOTOR_EFFORT_UNITS``.
        measured_effort_unit: Unit of efforts in the joint states; empty: ``effort_unit``.
        torque_constant: Torque of the motor at 1 A, N m/A, or its rated torque, N m.
        gear_ratio: Motor turns per turn of the joint; rad/m for a prismatic joint.
        effort_offset: Added to every commanded effort, N m or N at the joint.
        effort_limit: Largest effort, N m or N at the joint; None: that of the description.
        effort_rate_limit: Largest rate of change that the driver permits, N m/s or N/s; None: no
            limit.
    """

    joint: str = ''
    driver_name: str = ''
    sign: float = _key(_one_of(1.0, -1.0), 1.0)
    effort_sign: float = _key(_one_of(0.0, 1.0, -1.0), 0.0)
    position_unit: str | float = _key(_unit(POSITION_UNITS), '')
    velocity_unit: str | float = _key(_unit(VELOCITY_UNITS), '')
    position_zero: float = _key(read.number, 0.0)
    effort_unit: str = _key(_EFFORT_UNIT, '')
    measured_effort_unit: str = _key(_EFFORT_UNIT, '')
    torque_constant: float | None = _key(read.positive, None)
    gear_ratio: float = _key(read.positive, 1.0)
    effort_offset: float = _key(read.number, 0.0)
    effort_limit: float | None = _key(read.positive, None)
    effort_rate_limit: float | None = _key(read.positive, None)

    @property
    def name(self) -> str:
        """The driver's name of the joint."""
        return self.driver_name or self.joint


@dataclass(frozen=True)
class CommandProfile:
    """Topics and messages of commands.

    Attributes:
        topic: Name; with form per_joint, ``{joint}`` stands for the driver's name of the joint.
        form: One of ``COMMAND_FORMS``: a Float64MultiArray for all joints, a Float64 per joint, a
            JointState with names and efforts, a JointCommand of control_msgs for interface effort,
            or an overlay: a Float64MultiArray of efforts and one of the measured positions.
        topic_of_positions: Topic of the positions; with form overlay only.
    """

    topic: str = _key(read.text, 'effort_controller/commands')
    form: str = _key(_one_of(*COMMAND_FORMS), 'group')
    topic_of_positions: str = _key(read.text, '')

    def __post_init__(self) -> None:
        per_joint = self.form == 'per_joint'
        if {self.topic.count('{joint}'), self.topic.count('{')} != {per_joint}:
            rule = 'have {joint} in it' if per_joint else 'be one name, without {joint}'
            raise ConfigurationError(
                'command, topic', f'is {self.topic!r}', f'of form {self.form} it must {rule}'
            )
        if (self.form == 'overlay') != bool(self.topic_of_positions):
            raise ConfigurationError(
                'command, topic_of_positions',
                f'is {self.topic_of_positions!r} with form: {self.form}',
                'give it with form: overlay, and only then',
            )


@dataclass(frozen=True)
class StateProfile:
    """Topic and properties of states.

    Attributes:
        topic: Topic of the joint states.
        rate_hz: Rate of the joint states, Hz; each is answered by one command.
        timeout_s: Age of the last state at which the stop action begins, s.
        velocity: ``message`` (measured) or ``differentiate`` (derived from positions).
        cutoff_hz: Cut-off frequency of the derivative filter, Hz; None: velocities are measured.
        effort: One of ``EFFORT_REPORTS``.
    """

    topic: str = _key(read.text, 'joint_states')
    rate_hz: float = _key(read.positive, 1000.0)
    timeout_s: float = _key(read.positive, 0.05)
    velocity: str = _key(_one_of('message', 'differentiate'), 'message')
    cutoff_hz: float | None = _key(read.positive, None)
    effort: str = _key(_one_of(*EFFORT_REPORTS), 'none')

    def __post_init__(self) -> None:
        if self.timeout_s * self.rate_hz < 2.0:
            raise ConfigurationError(
                'state, timeout_s',
                f'{self.timeout_s:g} s is less than two periods of {self.rate_hz:g} Hz',
                f'give at least {2.0 / self.rate_hz:g}',
            )
        if (self.velocity == 'differentiate') != (self.cutoff_hz is not None):
            raise ConfigurationError(
                'state, cutoff_hz',
                f'is {self.cutoff_hz} with velocity: {self.velocity}',
                'give it with velocity: differentiate, and only then',
            )
        if self.cutoff_hz is not None and self.cutoff_hz > 0.5 * self.rate_hz:
            raise ConfigurationError(
                'state, cutoff_hz',
                f'{self.cutoff_hz:g} Hz is above half the rate of {self.rate_hz:g} Hz',
                'give at most half the rate',
            )


_GEAR = read.built(
    TransmissionProfile,
    {'joints': _tuple_of(read.text), 'matrix': _tuple_of(_NUMBERS)},
    {'offset': _NUMBERS, 'motor_effort_limit': _NUMBERS},
)
_GEARS = _tuple_of(_GEAR, 'transmission')


@dataclass(frozen=True)
class DriverProfile:
    """Profile of a driver.

    Attributes:
        name: Name of the profile.
        summary: Description in one sentence.
        command, state: Topics and messages.
        delay: Time from the measurement of a state until the effort computed from it acts, in
            periods of the states; not negative.
        compensated_by_driver: Which of ``COMPENSATIONS`` the driver adds to every command.
        payload_known_to_driver: Whether its gravity compensation includes the payload.
        defaults: Default values of the joints.
        joints: Joints in the order of the command; empty: those of the model in its order.
        transmissions: Joints that share motors; their entries in ``joints`` are for the motors.
    """

    name: str
    summary: str = _key(read.text, '')
    command: CommandProfile = _key(_built(CommandProfile), CommandProfile())
    state: StateProfile = _key(_built(StateProfile), StateProfile())
    delay: float = _key(read.not_negative, 1.0)
    compensated_by_driver: tuple[str, ...] = _key(_tuple_of(_one_of(*COMPENSATIONS)), ())
    payload_known_to_driver: bool = _key(read.switch, True)
    defaults: JointProfile = JointProfile()
    joints: tuple[JointProfile, ...] = ()
    transmissions: tuple[TransmissionProfile, ...] = _key(_GEARS, ())

    def __post_init__(self) -> None:
        topics = self.state.topic, self.command.topic, self.command.topic_of_positions
        read.each_once('topics', [topic for topic in topics if topic])
        read.each_once('compensated_by_driver', self.compensated_by_driver)
        read.each_once('joints', [joint.joint for joint in self.joints])
        read.each_once('joints, driver_name', [joint.name for joint in self.joints])
        read.each_once('transmissions, joints', self.coupled)
        if not self.payload_known_to_driver and 'gravity' not in self.compensated_by_driver:
            raise ConfigurationError(
                'payload_known_to_driver',
                'has no effect: the driver does not compensate gravity',
                'leave it out, or give compensated_by_driver: [gravity]',
            )
        if self.coupled and self.command.form == 'per_joint':
            raise ConfigurationError(
                'command, form',
                'is per_joint, but joints that share motors need one message for all',
                'use group or joint_state',
            )

    @property
    def delay_s(self) -> float:
        """The delay, s."""
        return self.delay / self.state.rate_hz

    @property
    def lacks_gravity(self) -> bool:
        """Whether the efforts of the states lack gravity, which the driver compensates."""
        return (
            self.state.effort == 'without_compensation' and 'gravity' in self.compensated_by_driver
        )

    @property
    def coupled(self) -> list[str]:
        """The joints of all transmissions."""
        return [name for one in self.transmissions for name in one.joints]


def load_driver_profile(source: Source) -> DriverProfile:
    """Load a driver profile.

    Args:
        source: A mapping, the path of a YAML file, YAML text, or the name of a shipped profile.

    Raises:
        ConfigurationError: There is no such file, or a key or value is rejected; names the
            culprit and valid values.
    """
    data: Any = source
    if not isinstance(source, Mapping):
        data = read_yaml(source, 'driver profile', shipped_profiles())
    name = source.get('name', '') if isinstance(source, Mapping) else os.fspath(source)
    label = shown(name).strip('\'"')
    with read.reported_as(ConfigurationError, f'driver profile {label}: '):
        section = Section('driver', data)
        defaults = section.take('defaults', _built(JointProfile), JointProfile())
        joints = {'joints': _tuple_of(partial(_joint, defaults), 'joint')}
        make = partial(DriverProfile, defaults=defaults)
        readers = {**_readers(DriverProfile), **joints}
        profile = section.build(make, {'name': read.text}, readers)
        section.close()
    return profile


def shipped_profiles() -> dict[str, Path]:
    """Return the driver profiles that ship with the package, by name."""
    folder = share_directory() / 'config' / 'drivers'
    return {path.stem: path for path in sorted(folder.glob('*.yaml'))}


def _joint(defaults: JointProfile, place: str, data: Any) -> JointProfile:
    data = {'joint': data} if isinstance(data, str) else data
    section = Section(f'joint {Section(place, data).take("joint", read.text)!r}', data)
    keys = {'joint': read.text, 'driver_name': read.text, **_readers(JointProfile)}
    joint = section.build(partial(replace, defaults), {}, keys)
    section.close()
    return joint
