# SPDX-License-Identifier: Apache-2.0
"""Recordings of arms whose motion is known exactly, for tests, in memory and in bags.

Efforts are Pinocchio's, friction by formulas: independent of the regressor and the identification
under test. :class:`RecordedArm` is an arm along sines under commands; functions make other runs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from bags import COMMANDS, MS, REFERENCE, STATES, Message, command, state, text, write
from oracles import PinocchioOracle
from samples import DOWN_Z, Sample, sample
from urdf_text import described

from robot_dynamics_ros.recordings.recording import Recording

GRAVITY = DOWN_Z
NAMES = ('shoulder', 'elbow', 'lift')


# Arms --------------------------------------------------------------------------------------------


def arm_xml(dynamics: str = '', effort: float = 200.0) -> str:
    """Return a three-joint arm loaded by gravity in every direction; its tool is frame 'tool'."""
    return described('test_arm', """
base: []
upper: [4, [0.2, 0, 0.05], [0.02, 0.06, 0.07, 0.001]]
fore: [2.5, [0.15, 0.03, 0], [0.01, 0.03, 0.03, 0, 0.002]]
quill: [1.2, [0, 0.01, -0.1], [0.006, 0.006, 0.002]]
tool: []
shoulder: {of: [base, upper], xyz: [0, 0, 0.4], axis: [0, 1, 0]}
elbow: {of: [upper, fore], xyz: [0.4, 0, 0], rpy: [0.4, 0, 0]}
lift: {of: [fore, quill, prismatic], xyz: [0.3, 0, 0], limits: [-0.2, 0.2], velocity: 2.0}
tip: {of: [quill, tool, fixed], xyz: [0, 0, -0.15]}
""", effort=effort, dynamics=dynamics)  # fmt: skip


def measured_arm(load: float = 0.0, heavier: float = 0.0) -> Sample:
    """Return an arm of pan, lift and elbow, with a frame 'tool' 0.5 m along the forearm.

    Args:
        load: Mass fixed 0.05 m beyond that frame, kg.
        heavier: Mass added to the upper arm at its centre of mass, kg.
    """

    text = described('arm', f"""
base: []
shoulder: [6, [0, 0, 0], [0.03, 0.03, 0.03]]
upper: [{9.0 + heavier}, [0.28, 0, 0.05], [0.2, 0.2, 0.2]]
fore: [4, [0.22, 0, 0], [0.08, 0.08, 0.08]]
tool: {[load, [0.05, 0, 0], [0.01, 0.01, 0.01]] if load else []}
pan: {{of: [base, shoulder], xyz: [0, 0, 0.2]}}
lift: {{of: [shoulder, upper], xyz: [0, 0.1, 0], axis: [0, 1, 0]}}
elbow: {{of: [upper, fore], xyz: [0.6, 0, 0], axis: [0, 1, 0]}}
grasp: {{of: [fore, tool, fixed], xyz: [0.5, 0, 0]}}
""", limits=(-6.0, 6.0), velocity=6.0, effort=500.0)  # fmt: skip
    return Sample('arm', text)


def pinocchio_parameters(sample: Sample) -> np.ndarray:
    """Return the inertial parameters (10 n,) as Pinocchio reads them, in our order."""
    oracle = PinocchioOracle.of(sample)
    inertias = [oracle.model.inertias[joint.id] for joint in oracle.joints]
    order = [0, 1, 2, 3, 4, 5, 7, 6, 8, 9]  # its tensor is xx, xy, yy, xz, yz, zz
    return np.concatenate([inertia.toDynamicParameters()[order] for inertia in inertias])


# Motions -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExactMotion:
    """Times (N,), s, and exact positions, velocities and accelerations (N, n)."""

    time: np.ndarray
    q: np.ndarray
    v: np.ndarray
    a: np.ndarray


def sinusoids(
    rng: np.random.Generator, n: int, time: np.ndarray, pace: float = 1.0
) -> ExactMotion:
    """Return a motion of three sines for each joint, with frequencies of 0.1 to 0.37 Hz."""
    w = 2.0 * np.pi * pace * np.array([0.1, 0.23, 0.37])
    amplitude, phase = rng.uniform(0.25, 0.6, (3, n)), rng.uniform(0.0, 6.0, (3, n))
    return _sines(time, amplitude, w[:, np.newaxis], phase)


def _sines(time: Any, size: np.ndarray, w: np.ndarray, phase: np.ndarray) -> ExactMotion:
    """Return sums of sines, each argument but the times in rows of (n,) to be added."""
    angle = w * np.asarray(time)[:, np.newaxis, np.newaxis] + phase
    terms = size * np.sin(angle), size * w * np.cos(angle), -size * w**2 * np.sin(angle)
    return ExactMotion(time, *(term.sum(axis=1) for term in terms))


def periodic_motion(seed: int, n: int, duration: float, step: float, swing=1.0) -> np.ndarray:
    """Return positions (N, n) of five harmonics of 0.25 Hz with random amplitudes."""
    rng, t = np.random.default_rng(seed), np.arange(0.0, duration, step)[:, np.newaxis]
    q = np.zeros((len(t), n))
    for harmonic in range(1, 6):
        angle = 2.0 * np.pi * 0.25 * harmonic * t
        sine, cosine = rng.normal(size=(2, n)) * swing / harmonic
        q += sine * np.sin(angle) + cosine * np.cos(angle)
    return q


# Runs under commands -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Drives:
    """Friction and armature of every joint, each n numbers or one."""

    damping: Any
    coulomb_friction: Any
    armature: Any
    offset: Any = 0.0


#: Of a planar arm of two links, whose description has none.
DRIVES = Drives([0.6, 0.3], [0.8, 0.4], [0.05, 0.02])


def two_link_run(
    motion: int | np.ndarray,
    seconds: float = 4.0,
    drives: Drives = DRIVES,
    step: float = 2e-3,
    swing: float = 0.3,
) -> Recording:
    """Return the run of that arm along given positions, or a periodic motion of a seed."""
    q = motion
    if isinstance(motion, int):
        q = periodic_motion(motion, 2, seconds, step, swing=swing)
    return semi_implicit_run(sample('planar_2r'), drives, q, step)


def _efforts(oracle: PinocchioOracle, drives: Drives, q, v, a, v_friction) -> np.ndarray:
    rigid = np.array([oracle.inverse_dynamics(*row) for row in zip(q, v, a, strict=True)])
    damping, friction, armature, offset = map(np.array, vars(drives).values())
    return rigid + armature * a + damping * v_friction + friction * np.sign(v_friction) + offset


def _semi_implicit(oracle: PinocchioOracle, drives: Drives, q, step: float) -> tuple[Any, ...]:
    """Return q, v, v at the end of each step, and efforts; see :func:`semi_implicit_run`."""
    v = np.diff(q, axis=0) / step
    q, v, v_end = q[1:-1], v[:-1], v[1:]
    return q, v, v_end, _efforts(oracle, drives, q, v, (v_end - v) / step, v_end)


def semi_implicit_run(sample: Sample, drives: Drives, q: np.ndarray, step: float) -> Recording:
    """Return the run of a plant that steps semi-implicitly along given positions.

    ``v[k] = (q[k] - q[k-1]) / h``; the effort of step k belongs to q[k], v[k] and
    ``(v[k+1] - v[k]) / h``, its friction to v[k+1]. No joint sticks: the direction of dry
    friction is the sign of v[k+1].
    """
    q, v, _, effort = _semi_implicit(PinocchioOracle.of(sample), drives, q, step)
    return recording(sample, step, q, v, effort)


def midpoint_run(sample: Sample, drives: Drives, q: np.ndarray, step: float) -> Recording:
    """Return the run of a continuous plant: all of a step's effort belongs to its middle.

    ``q`` are positions at half steps; states are shown at every second.
    """
    v = (q[2:] - q[:-2]) / step
    a = (q[2:] - 2.0 * q[1:-1] + q[:-2]) / (0.5 * step) ** 2
    q = q[1:-1]
    middle = slice(1, None, 2)
    moved = q[middle], v[middle], a[middle], v[middle]
    effort = _efforts(PinocchioOracle.of(sample), drives, *moved)
    count = len(effort)
    return recording(sample, step, q[::2][:count], v[::2][:count], effort)


def recording(sample: Sample, step: float, q, v, effort) -> Recording:
    """Return arrays as a recording; the reference is where the robot is."""
    time = step * np.arange(1, len(q) + 1)
    return Recording(sample.tree.joint_names, time, q, v, effort, q, v, description=sample.xml)


@dataclass
class RecordedArm:
    """States along sines with semi-implicit steps; efforts by inverse dynamics plus disturbances.

    Attributes:
        count: States.
        gravity: Gravity that acts on the arm.
        viscous, dry: Friction at the velocity at the end of the step.
        armature: Drive inertia.
        factor: Recorded effort / acting effort, per joint.
        measured_late: Whether states contain efforts, namely those of the previous step.
        period: Period of the states, ns.
    """

    count: int = 1500
    gravity: Sequence[float] = GRAVITY
    viscous: Any = 0.0
    dry: Any = 0.0
    armature: Any = 0.0
    factor: Any = 1.0
    measured_late: bool = False
    period: int = MS
    xml: str = field(default_factory=arm_xml)

    def __post_init__(self) -> None:
        h = self.period * 1e-9
        q = _one_sine_each(h * np.arange(-1, self.count + 1)).q
        oracle = self.oracle_of(self.xml, self.gravity)
        drives = Drives(self.viscous, self.dry, self.armature)
        self.q, self.v, self.v_next, self.acting = _semi_implicit(oracle, drives, q, h)
        self.tau = self.factor * self.acting
        self.reference = self.q + np.array([1e-3, -2e-3, 5e-4])
        self.stamps = self.period * np.arange(self.count, dtype=np.int64)

    @staticmethod
    def oracle_of(xml: str, gravity: Sequence[float] = GRAVITY) -> PinocchioOracle:
        """Return Pinocchio's model of the arm."""
        return PinocchioOracle(xml, gravity, NAMES)

    @staticmethod
    def at(time: Any) -> Recording:
        """Return measured states and efforts of a continuous motion at times, shape (N,), s."""
        return measured_run(Sample('arm', arm_xml()), _one_sine_each(time), frictionless)

    def recording(self) -> Recording:
        """Return the run as it is read from its bag."""
        late = np.vstack([self.tau[:1], self.tau[:-1]])
        run = 1e-9 * self.stamps, self.q, self.v, self.tau, self.reference, self.v
        return Recording(NAMES, *run, self.xml, measured_effort=late if self.measured_late else ())

    def messages(self) -> list[Message]:
        """Return the messages, in order."""
        return messages(self.recording())

    def bag(self, path: Path, form: str = 'mcap') -> Path:
        """Write them into a bag."""
        return write(path, self.messages(), form)


def _one_sine_each(time: Any) -> ExactMotion:
    """Return the motion of the three-joint arm."""
    return _sines(time, *np.array([[[0.7, 0.9, 0.12]], [[2.0, 3.1, 4.3]], [[0.1, 0.7, 1.3]]]))


# Measured efforts --------------------------------------------------------------------------------

Friction = Callable[[np.ndarray, np.ndarray], np.ndarray]


def viscous_and_dry(v: np.ndarray, rigid: np.ndarray) -> np.ndarray:
    """Return friction (N, n) of velocities and rigid-body efforts (N, n)."""
    return 0.8 * v + 1.5 * np.sign(v)


def frictionless(v: np.ndarray, rigid: np.ndarray) -> np.ndarray:
    """Return no friction (N, n)."""
    return 0.0 * v


def measured_run(
    sample: Sample,
    motion: ExactMotion,
    friction: Friction = viscous_and_dry,
    *,
    gravity: Sequence[float] = DOWN_Z,
    noise: tuple[float, float, float] = (0.0, 0.0, 0.0),
    resolution: float = 0.0,
    wrench: Callable[[float], np.ndarray | None] = lambda t: None,
    rng: np.random.Generator | None = None,
) -> Recording:
    """Return a run whose states contain efforts: Pinocchio's, plus friction.

    Args:
        sample: The arm that moves.
        motion: Its motion.
        friction: Function of velocities and rigid-body efforts.
        gravity: Acts on it, m/s^2.
        noise: Standard deviations of position, velocity and effort.
        resolution: Step of the encoder, rad or m; the velocity has that step per period.
        wrench: Of the environment on frame 'tool' at a time, in its axes.
        rng: Draws the noise.
    """
    rng, names = rng or np.random.default_rng(0), sample.tree.joint_names
    oracle = PinocchioOracle(sample.xml, gravity, names)
    forces = map(wrench, motion.time.tolist())
    wrenches = (None if force is None else {'tool': force} for force in forces)
    rigid = np.array(
        [
            oracle.inverse_dynamics(*row, load)
            for *row, load in zip(motion.q, motion.v, motion.a, wrenches, strict=True)
        ]
    )
    effort = rigid + friction(motion.v, rigid)
    columns = (motion.q, motion.v, effort)
    q, v, effort = (
        x + s * rng.normal(size=x.shape) if s else x for x, s in zip(columns, noise, strict=True)
    )
    if resolution:
        period = float(np.median(np.diff(motion.time)))
        q = resolution * np.round(q / resolution)
        v = resolution / period * np.round(v * period / resolution)
    none = np.full(q.shape, np.nan)
    return Recording(
        names, motion.time, q, v, none, none, none, sample.xml, measured_effort=effort
    )


def sinusoidal_run(
    sample: Sample,
    rng: np.random.Generator,
    seconds: float = 24.0,
    *,
    pace: float = 1.0,
    rests: Sequence[int] = (),
    **given: Any,
) -> Recording:
    """Return a run along :func:`sinusoids` at 100 Hz, in which some joints may rest at 0.

    Further arguments are those of :func:`measured_run`.
    """
    motion = sinusoids(rng, sample.tree.n, np.arange(0.0, seconds, 0.01), pace)
    for rows in (motion.q, motion.v, motion.a):
        rows[:, list(rests)] = 0.0
    return measured_run(sample, motion, rng=rng, **given)


# Poses -------------------------------------------------------------------------------------------


def held_poses(count: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Return random poses of the arm 'four_dof', and the efforts that hold it, each (count, 4).

    Friction holds up to 70 % of its level.
    """
    tree, rng = sample('four_dof').tree, np.random.default_rng(5)
    q = rng.uniform(0.9 * tree.position_lower, 0.9 * tree.position_upper, (count, 4))
    return q, rigid(q) + 0.7 * tree.coulomb_friction * rng.uniform(-1.0, 1.0, q.shape)


def from_pose_to_pose(q: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the next row, and the motion, every 5 ms: 0.6 s to each row, 0.6 s there.

    The motion is positions, velocities and accelerations.
    """
    t = np.arange(0.0, 1.2 * (len(q) - 1), 0.005)
    leg, x = (t // 1.2).astype(int), np.minimum(t % 1.2, 0.6)[:, None] / 0.6
    step = q[leg + 1] - q[leg]
    position, velocity = step * x**2 * (3.0 - 2.0 * x), step * 6.0 * x * (1.0 - x) / 0.6
    return leg + 1, q[leg] + position, velocity, step * 6.0 * (1.0 - 2.0 * x) / 0.36 * (x < 1.0)


def swing(count: int = 8) -> tuple[np.ndarray, ...]:
    """Return positions, velocities, efforts of that arm, every 5 ms; it rests in ``count`` poses.

    Friction opposes the motion.
    """
    q, held = held_poses(count + 1)
    row, position, velocity, acceleration = from_pose_to_pose(q)
    tree = sample('four_dof').tree
    moving = rigid(position, velocity, acceleration) + tree.armature * acceleration
    moving += tree.damping * velocity + tree.coulomb_friction * np.sign(velocity)
    return (
        position,
        velocity,
        np.where(velocity != 0.0, moving, rigid(position) + (held - rigid(q))[row]),
    )


def rigid(q: np.ndarray, *rates: np.ndarray) -> np.ndarray:
    """Return the efforts of the bodies of that arm, without rates those of gravity, (N, 4)."""
    oracle, motion = PinocchioOracle.of(sample('four_dof')), (q, *(rates or (0.0 * q, 0.0 * q)))
    return np.array([oracle.inverse_dynamics(*row) for row in zip(*motion, strict=True)])


# Bags --------------------------------------------------------------------------------------------


def messages(run: Recording) -> list[Message]:
    """Return a recording as messages, in order; what is unknown is not sent."""
    arrivals = run.arrival_ns.tolist()
    found = [text(arrivals[0], run.description)] if run.description else []
    for k, (stamp, arrival) in enumerate(zip(run.stamp_ns.tolist(), arrivals, strict=True)):
        effort = run.measured_effort[k]
        measured = () if np.isnan(effort).all() else effort
        row = run.joints, run.position[k], run.velocity[k]
        found.append(state(stamp, *row, measured, time=arrival))
        if np.isfinite(run.effort[k]).any():
            found.append(command(arrival, run.effort[k]))
        if np.isfinite(run.reference_position[k]).any():
            row = run.joints, run.reference_position[k], run.reference_velocity[k]
            found.append(state(stamp, *row, topic=REFERENCE, time=arrival))
    return found


#: Driver of that arm: it counts degrees, millimetres and milliamperes, under other names.
COUNTED = """
name: counted
state: {effort: total}
defaults: {gear_ratio: 100, effort_unit: mA}
joints:
- {joint: shoulder, driver_name: axis_shoulder, position_unit: deg, torque_constant: 0.05}
- {joint: elbow, driver_name: axis_elbow, position_unit: deg, torque_constant: 0.04}
- {joint: lift, driver_name: axis_lift, position_unit: mm, torque_constant: 0.3}
"""


def driven_arm(*, ours: bool = False, **given: Any) -> tuple[list[Message], dict[str, Any]]:
    """Record the arm in the units and names of ``COUNTED``; return it and that profile.

    Args:
        ours: Whether the driver has its own topics, and commands and references of our
            controller are recorded, all in a namespace.
        given: See :class:`RecordedArm`.
    """
    arm, profile = RecordedArm(**{'count': 300, **given}), yaml.safe_load(COUNTED)
    unit = np.array([180.0 / np.pi, 180.0 / np.pi, 1e3])
    current = 1e3 * arm.tau / [5.0, 4.0, 30.0]  # of N m/A, and N/A of the slide
    late = np.vstack([current[:1], current[:-1]])
    # Stamps of a wall clock: seconds count from the first state on.
    stamps = 1_700_000_000 * 10**9 + arm.stamps
    unknown = np.full(arm.q.shape, np.nan)
    sent = (current, arm.q + 0.01, arm.v) if ours else 3 * [unknown]
    joints = tuple(row['driver_name'] for row in profile['joints'])
    run = Recording(joints, 1e-9 * stamps, arm.q * unit, arm.v * unit, *sent, arm.xml,
                    measured_effort=late, stamp_ns=stamps, arrival_ns=stamps)  # fmt: skip
    found = messages(run)
    if ours:
        topics = {
            STATES: 'can/states',
            COMMANDS: 'can/currents',
            REFERENCE: 'controller/reference',
        }
        for message in found[1:]:
            if message.topic == REFERENCE:
                message.content.name = [*NAMES]
            message.topic = f'/cell/{topics[message.topic]}'
        found.append(text(0, 'driver_profile: can.yaml', '/cell/controller/parameters'))
        profile['state']['topic'], profile['command'] = 'can/states', {'topic': 'can/currents'}
    return found, profile


def write_run(path: Path, run: Recording) -> Path:
    """Write a recording to a bag with rosbags, at its timestamps and times of arrival."""
    return write(path, messages(run))
