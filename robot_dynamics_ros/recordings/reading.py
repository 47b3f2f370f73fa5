# SPDX-License-Identifier: Apache-2.0
"""Read recordings: as they are, or with the model, joints, units and time span that are chosen."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from shlex import quote
from typing import Any

import numpy as np

from robot_dynamics_ros.control.drivers.driver_interface import DriverInterface
from robot_dynamics_ros.control.drivers.profile import (
    NEED_CONSTANT,
    DriverProfile,
    load_driver_profile,
)
from robot_dynamics_ros.description.shipped import robot_file
from robot_dynamics_ros.dynamics.joint_terms import JointTerms
from robot_dynamics_ros.errors import ConfigurationError, RecordingError, RobotDynamicsError
from robot_dynamics_ros.model import load_arm, load_robot
from robot_dynamics_ros.model.identified import LOCKED
from robot_dynamics_ros.model.robot_tree import STANDARD_GRAVITY, Robot
from robot_dynamics_ros.recordings.recording import (
    UNCONVERTED,
    WHOLE,
    Recording,
    current_unit,
    in_model_units,
    recorded_driver,
    require_one_unit,
    require_units_of,
    unwrapped,
)
from robot_dynamics_ros.recordings.recording_reader import RecordingReader, with_velocities
from robot_dynamics_ros.recordings.timing import evened
from robot_dynamics_ros.symbolic.kernel import compile_kernel
from robot_dynamics_ros.yaml_reader.parsing import with_texts

UNLIMITED = 1e12  #: N m or N, if the description gives no effort limit
MOVED = 'locked joint '  # begins the note on one that stood elsewhere or moved
#: Columns of a recording by the keys of a table's efforts.
_OF_TABLE = {'command': 'effort', 'effort': 'measured_effort'}
_LOCK_TOLERANCE = 0.02  # rad or m, of a locked joint, as of the controller


def read_recording(path: str | os.PathLike[str], **choices: Any) -> Recording:
    """Read the states, commands and references of one run.

    Args:
        path: The bag's folder, or one of its files.
        choices: Keyword arguments of :class:`RecordingReader`.

    Returns:
        One row per state with increasing timestamps.

    Raises:
        RecordingError: The bag cannot be read, or has no states.
    """
    with RecordingReader(path, **choices) as reader:
        return with_velocities(reader.read(), reader.turning)


@dataclass(frozen=True)
class RobotChoice:
    """The robot model, joint names, units and time span with which to read a recording.

    Attributes:
        robot: Name of a shipped robot, or another robot specification such as a URDF or xacro
            file; empty for the description in the bag.
        gravity: Gravity in the base frame, m/s^2; None for that in the controller's parameters,
            else standard gravity.
        effort_limit: Limit for joints whose description gives none, N m or N; None for no limit.
        selection: Controlled joints and positions of locked ones, keywords of ``load_robot``; by
            default the joints that are recorded, the others are locked.
        recorded_joints: Recorded names of the model's joints, in model order; empty if they are
            the same.
        topics: Namespace and topics, keywords of ``bag_layout.choose_topics``.
        driver_profile: Driver profile that defines the recorded units: YAML file, or name of a
            shipped one; empty for SI units at the joints.
        identified: File ``parameters.yaml`` written by ``identify``; empty for the one named in
            the controller's parameters, if any.
        span: First and last second to use: relative to ``span_origin``, or timestamps since 1970.
    """

    robot: str = ''
    gravity: tuple[float, float, float] | None = None
    effort_limit: float | None = None
    selection: Mapping[str, Any] = field(default_factory=dict)
    recorded_joints: tuple[str, ...] = ()
    topics: Mapping[str, str] = field(default_factory=dict)
    driver_profile: str = ''
    identified: str = ''
    span: tuple[float, float] = WHOLE

    @cached_property
    def profile(self) -> DriverProfile | None:
        """The driver profile, read once; None without one."""
        return load_driver_profile(self.driver_profile) if self.driver_profile else None

    def read(
        self, bag: str | os.PathLike[str], tree: Robot | None = None, **more: Any
    ) -> RecordingReader:
        """Return a reader of a bag, limited to the joints of the driver if ``tree`` is given.

        Args:
            bag: The bag's folder, or one of its files.
            tree: The robot, or None.
            more: Further keyword arguments of the reader.

        Raises:
            ConfigurationError: The driver profile cannot be read; or a table declares a unit,
                too, or ``recorded_joints`` names the joints.
        """
        driver, profile = self.driver(tree) if tree else None, self.profile
        if profile and self.recorded_joints:
            raise ConfigurationError(
                '--recorded-joints',
                'conflicts with --driver-profile, which names them',
                'give one of them; driver_name of each joint in the profile is its recorded name',
            )
        named = tuple(row.name for row in profile.joints) if profile else self.recorded_joints
        joints = driver.names if driver else named
        models = tree.joint_names if tree and driver else ()
        choices: dict[str, Any] = {'joints': joints, 'reference_joints': models}
        choices |= {**self.topics, **more}
        if profile:
            choices['driver'] = profile.state.topic, profile.command.topic
            choices['command_joints'] = driver.command_names if driver else joints
            choices['reference_joints'] = models or tuple(row.joint for row in profile.joints)
        reader = RecordingReader(bag, **choices)
        declared = reader.bag.units
        units = {_OF_TABLE[key]: unit for key, own in declared.items()
                 for unit in own.values() if unit in NEED_CONSTANT}  # fmt: skip
        cause = 'no driver profile (--driver-profile) gives a torque_constant'
        if profile:
            require_one_unit(profile, declared)
            units = dict.fromkeys(_OF_TABLE.values(), current_unit(profile))
            cause = 'the driver profile gives no torque_constant'
        reader.left_out = tuple(column for column, unit in units.items() if unit)
        if reader.left_out:
            reader.remarks.append(
                f'{UNCONVERTED}{units[reader.left_out[0]]}, and {cause}: '
                'residual, energy, saturation, loads and contacts are not evaluated'
            )
        return reader

    def driver(self, tree: Robot) -> DriverInterface | None:
        """Return the driver conversion for a robot; None if recorded in SI by the same names."""
        return recorded_driver(self.profile, self.recorded_joints, tree)

    def run(self, reader: RecordingReader, tree: Robot, *, as_stamped: bool = False) -> Recording:
        """Return the run within the span, with the joints of the model, in its order and units.

        Args:
            reader: Of ``read``.
            tree: The robot.
            as_stamped: Whether to take states at their times, as a controller does.

        Raises:
            RecordingError: The span holds no state, or no state can be used.
            UnknownNameError: A joint was not recorded.
        """
        return self.converted(reader, tree, as_stamped=as_stamped).between(*self.span)

    def converted(
        self, reader: RecordingReader, tree: Robot, *, as_stamped: bool = False
    ) -> Recording:
        """Return what is read, with the joints of the model, in its order, names and units.

        A note tells of locked joints that were not where the model has them. See :meth:`run`.

        Raises:
            RecordingError: No state can be used, a table declares a unit of another kind of
                joint, or the recorded controller had a driver profile that is needed.
            UnknownNameError: A joint was not recorded.
        """
        run = self.in_model_units(reader, tree)
        self._require_profile(reader, tree)
        notes = *run.notes, *_moved_locks(run, tree)
        run = unwrapped(replace(run.of_joints(tree.joint_names), notes=notes), tree)
        return with_velocities(run if as_stamped else evened(run), tree.joint_is_continuous)

    def in_model_units(self, reader: RecordingReader, tree: Robot) -> Recording:
        """Return what is read with the names and units of the model, else as it is.

        Without a driver it has locked joints, too. Errors are those of :meth:`converted`.
        """
        driver = self.driver(tree)
        require_units_of(tree, driver, reader.bag.units)
        return in_model_units(reader.read(self.span), driver)

    def total(self, run: Recording, tree: Robot, loaded: Robot) -> Recording:
        """Return a run with total efforts: what the driver added itself is added to its efforts.

        Args:
            run: Of ``converted``.
            tree: The robot without payload.
            loaded: The robot with the payload of the controller.
        """
        driver = self.driver(tree)
        terms = driver.profile.compensated_by_driver if driver else ()
        if driver is None or not terms:
            return run
        share = np.zeros(run.position.shape)
        if 'gravity' in terms:
            known = loaded if driver.profile.payload_known_to_driver else tree
            kernels = compile_kernel(known, outputs=('gravity_forces',))
            share = kernels.batch('gravity_forces', run.position)
        if 'friction' in terms:
            own = JointTerms.of(tree.with_changes(drive_friction={}))
            share += own.compensation(run.velocity, share)
        reported = run.measured_effort + (share if driver.reports_less else 0.0)
        return replace(run, effort=run.effort + share, measured_effort=reported)

    def _require_profile(self, reader: RecordingReader, tree: Robot) -> None:
        """Refuse to take numbers for SI that the recorded controller converted."""
        name = reader.parameters.get('driver_profile')
        if not name or self.recorded_joints or self.profile:
            return
        try:
            driver = DriverInterface(load_driver_profile(name), tree)
        except RobotDynamicsError:  # such as of a file on another machine
            return
        one = np.ones(tree.n)
        convert = driver.position, driver.velocity, driver.measured_effort
        lacks = driver.profile.compensated_by_driver and driver.profile.state.effort != 'total'
        if lacks or any((by(one) != 1.0).any() for by in convert):
            problem = f'was recorded with driver profile {name!r}, whose numbers are others'
            culprit = f'bag {str(reader.bag.path)!r}'
            raise RecordingError(culprit, problem, f'give --driver-profile {name}')

    def load(self, reader: RecordingReader) -> Robot:
        """Load the robot, with ``UNLIMITED`` efforts if the description gives no limits.

        Joints without states are locked, and a remark of the reader says so, if no selection is
        given; grippers also if fewer joints are named.

        Raises:
            RecordingError: The bag has no description, and ``robot`` is empty; or a selected
                joint, or any joint, was not recorded.
            DescriptionError: The description is invalid.
        """
        tree = self._load(reader, self.selection)
        reader.remarks += [remark for remark in tree.remarks if remark.startswith(LOCKED)]
        if self.effort_limit not in (None, *tree.effort_limit):
            reader.remarks.append('--effort-limit has no effect, every joint has a limit')
        rows = self.profile.joints if self.profile else ()
        names = tuple(row.joint for row in rows) or reader.layout.joints  # of the model
        missing = [name for name in tree.joint_names if name not in names]
        chosen = self.selection.get('joints') or self.selection.get('tip') or tree.mechanism
        if self.recorded_joints:
            fewer = len(self.recorded_joints) < tree.n and not chosen
            arm = self._load(reader, self.selection, load_arm) if fewer else tree
            if len(self.recorded_joints) != arm.n:
                return tree
            reader.remarks += arm.remarks[:1] if fewer else ()  # which joints are of a gripper
            return arm
        of_model = {*tree.joint_names, *tree.locked, *tree.mimic_joints}
        known = [name for name in tree.joint_names if name in names]
        others = [name for name in names if name not in of_model]
        if missing and (chosen or not known):
            remedy = (
                f'give the recorded names, in the order of {", ".join(tree.joint_names)} (of a '
                'gripper may be left out), with --recorded-joints A,B,...; or choose joints with '
                '--joints, --tip or --locked'
            )
            if profile := reader.parameters.get('driver_profile'):
                remedy = f'the controller ran with --driver-profile {profile}, which names them'
            problem = f'have no states; recorded are {", ".join(names)}'
            raise RecordingError(f'joints {", ".join(missing)}', problem, remedy)
        if others:
            reader.remarks.append(f'joints {", ".join(others)} are not of the robot: left out')
        if not missing:
            return tree
        locked = ', '.join(missing)
        reader.remarks.append(
            f'joints without states are locked ({locked}): see --locked; states on another topic, '
            'too, by --states A,B'
        )
        return self._load(reader, {**self.selection, 'joints': known})

    def _load(
        self,
        reader: RecordingReader,
        selection: Mapping[str, Any],
        loader: Callable[..., Robot] = load_robot,
    ) -> Robot:
        source = robot_file(self.robot) if self.robot else reader.description
        if not source:
            raise RecordingError(
                f'bag {str(reader.bag.path)!r}',
                'has no robot description',
                'give --robot or --description',
            )
        given = {key: value for key, value in selection.items() if key != 'loops' or value}
        recorded = with_texts(reader.parameters)
        limit = UNLIMITED if self.effort_limit is None else self.effort_limit
        return loader(
            source,
            self.gravity or _recorded_gravity(reader.parameters),
            identified=self.identified or str(recorded.get('identified') or ''),
            effort_limit=limit,
            **{'loops': str(recorded.get('loops') or ''), **given},
        )


def _moved_locks(run: Recording, tree: Robot) -> Iterator[str]:
    """Yield a note for each locked joint that matters and was not where the model has it."""
    for name in [x for x in tree.influential if x in run.joints]:
        q = run.position[:, run.joints.index(name)]
        q = np.unwrap(q) if name in tree.turning_locks else q
        if max(tree.lock_error(name, x) for x in q.tolist()) > _LOCK_TOLERANCE:
            low, high, rest = q.min(), q.max(), f'{np.median(q):.4g}'
            moved = high - low > _LOCK_TOLERANCE
            stood = f'moved from {low:.4g} to {high:.4g}' if moved else f'stood at {rest}'
            yield (
                f'{MOVED}{name!r} {stood}, the model has it at {tree.locked[name]:.4g}: what it '
                'carries is modelled wrongly; take it into the joints, or give '
                f'--locked {quote(f"{name}:={rest}")}'
            )


def _recorded_gravity(parameters: Mapping[str, Any]) -> tuple[float, float, float]:
    """Return the gravity in the controller's parameters, else standard gravity, m/s^2."""
    try:
        x, y, z = (float(value) for value in parameters['gravity'])
    except (KeyError, TypeError, ValueError):
        return STANDARD_GRAVITY
    return x, y, z
