# SPDX-License-Identifier: Apache-2.0
"""Measure the controller: cost of a tick, of a trajectory message, and accuracy of a program."""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pinocchio

from benchmark.faults import interpret
from benchmark.measuring import Contender, files, in_own_process, race, save, show
from robot_dynamics_ros.control.laws.registry import LAWS, make_law
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.trajectories.following import Prepared
from robot_dynamics_ros.control.trajectories.points import trajectory_arrays
from robot_dynamics_ros.control.trajectories.reference_generator import ReferenceGenerator
from robot_dynamics_ros.control.trajectories.trajectory import Reference, ReferenceSampler
from robot_dynamics_ros.description.shipped import ROBOTS, shipped_robot
from robot_dynamics_ros.model import RobotTree, load_robot
from robot_dynamics_ros.planning.motions import Quintic
from robot_dynamics_ros.simulation.imperfections import (
    Imperfections,
    ImperfectPlant,
    with_mismatch,
)
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant
from robot_dynamics_ros.spatial.scalar import Array

PERIOD_S = 1e-3

# Cost of a tick ----------------------------------------------------------------------------------

_LIMIT_S = 3600.0  # without compiled code
#: Arms: a shipped one with a program for the constraint law and a configuration near its start,
#: rad or m; one of seven joints with two coupled fingers.
ARMS = {
    'scara': ('scara_circle', (-0.315, 1.398, 0.12, 1.083)),
    'panda_description/urdf/panda.urdf': ('', 0.0),
}
#: Contact reaction of the observations after a command.
OBSERVING = {'external efforts, us': 'off', 'and contacts, us': 'report'}


def control_benchmark() -> int:
    """Measure the cost of one tick of every law, and of the observer of external efforts."""
    known = [name for name in ARMS if name in ROBOTS or name in files()]
    ticks = [
        {'arm': Path(name).stem, 'law': law, **loop_costs(name, law)}
        for name in known
        for law in sorted(LAWS)
    ]
    show('one tick', ticks)
    compiled = {name: observer_costs(name) for name in known}
    interpreted = in_own_process(interpreted_costs, known, limit_s=_LIMIT_S)
    after = [
        {'arm': Path(name).stem, 'code': code, **costs[name]}
        for code, costs in (('compiled', compiled), ('interpreted', interpreted))
        for name in known
    ]
    show('after the command', after)
    save('control.json', {'tick': ticks, 'after_command': after})
    return 0


def loop_costs(name: str, law: str) -> dict[str, float]:
    """Return the times of one call of a law, of the whole loop, and of rnea, us; and a ratio.

    The arm is at rest at its reference and the ramp is over, as in nearly every tick.
    """
    tree, q = _tree(name)
    parameters = {'law': law, 'program': ARMS[name][0], 'activation_ramp_s': 0.0}
    loop = ControllerSession(tree, parameters).loop
    loop.observe(1, q, np.zeros(tree.n))
    loop.start()
    loop.tick()
    arguments = 0.0, loop.q, loop.v, loop.reference, np.zeros(tree.n)
    model = pinocchio.buildModelFromXML(tree.xml)  # including its fingers
    state = pinocchio.neutral(model), np.zeros(model.nv), np.zeros(model.nv)
    times = microseconds(
        {
            'law, us': partial(loop.law.effort, *arguments),
            'whole loop, us': loop.tick,
            'pin.rnea, us': partial(pinocchio.rnea, model, model.createData(), *state),
        }
    )
    return times | {'loop / rnea': times['whole loop, us'] / times['pin.rnea, us']}


def microseconds(calls: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Return the shortest time of each call, us."""
    times = race({name: Contender('call()', {'call': call}) for name, call in calls.items()})
    return {name: 1e-3 * ns for name, ns in times.items()}


def observer_costs(name: str) -> dict[str, float]:
    """Return the times of a session's observation of a state, without and with contacts, us."""
    (tree, _), calls = _tree(name), {}
    q = np.clip(0.0, tree.position_lower, tree.position_upper)
    for what, reaction in OBSERVING.items():
        session = ControllerSession(tree, {'law': 'computed_torque', 'contact_reaction': reaction})
        session.contact.subscribed = True
        session.on_state(1, 1, q, np.zeros(tree.n))
        session.activate(1)
        for stamp in (1_000_001, 2_000_001):
            session.on_state(stamp, stamp, q, np.zeros(tree.n))
            session.settle()
        calls[what] = session.contact.update
    return microseconds(calls)


def interpreted_costs(names: Sequence[str]) -> Iterator[dict[str, dict[str, float]]]:
    """Yield the observer costs of arms, by name, without compiled code."""
    interpret()
    for name in names:
        yield {name: observer_costs(name)}


def _tree(name: str) -> tuple[RobotTree, Array]:
    """Return an arm and its configuration."""
    path = shipped_robot(name) if name in ROBOTS else str(files()[name])
    tree = load_robot(path, (0.0, 0.0, -9.81), effort_limit=100.0)
    return tree, np.clip(ARMS[name][1], tree.position_lower, tree.position_upper)


# Accuracy of a program ---------------------------------------------------------------------------

DURATION_S, SETTLED_S = 6.0, 3.0
PERIODS_MS = (0.5, 1.0, 2.0, 4.0)
#: Initial positions on the circle's start, and centimetres away, rad and m.
ON, OFF = (-0.315, 1.398, 0.12, 1.083), (-0.30, 1.28, 0.10, 0.90)
#: Natural frequency of the PD law, rad/s: that of the program's circle.
FREQUENCY = 20.0
#: A plant without friction.
SMOOTH = {'coulomb_friction': 0.0, 'damping': 0.0}


class ProgramCase(NamedTuple):
    """A plant and a law.

    Attributes:
        plant: Difference of the plant from the description.
        friction: Whether the law compensates the friction of the description.
        delay: Delay of the measured states, periods.
    """

    plant: Mapping[str, Any]
    friction: bool = False
    delay: int = 0


CASES = {
    'exact model, no friction': ProgramCase(SMOOTH),
    'mass and inertia of the plant + 20 %': ProgramCase({**SMOOTH, 'mass': 1.2}),
    'friction, not compensated': ProgramCase({}),
    'friction, compensated': ProgramCase({}, friction=True),
    '1 ms delay': ProgramCase(SMOOTH, delay=1),
}


def program_benchmark() -> int:
    """Measure the effect of imperfections on the circle under the constraint-stabilization law."""
    tree, exact = load_robot(shipped_robot('scara')), ProgramCase(SMOOTH)
    _, path = run(tree, exact)
    program = {title: run(tree, case)[0] for title, case in CASES.items()}
    pd = {title: run(tree, case, path=path)[0] for title, case in CASES.items()}
    floors = {t: 1e-3 * run(tree, exact, 1e-3 * t, OFF)[0] for t in PERIODS_MS}
    show(
        'tool from its path at 0.5 m/s, 1 kHz, RMS in mm',
        [
            {'plant': title, 'constraint stabilization': mm, 'PD + gravity': pd[title]}
            for title, mm in program.items()
        ],
    )
    rows = [
        {'period, ms': f'{t:g}', 'RMS of f, m': f'{f:.3e}', 'per ms': f'{f / t:.3e}'}
        for t, f in floors.items()
    ]
    show('floor of f by period', rows)
    results = {'constraint_stabilization_mm': program, 'pd_gravity_mm': pd, 'floor_m': floors}
    save('program.json', results)
    return 0


def run(
    tree: RobotTree,
    case: ProgramCase,
    period: float = PERIOD_S,
    start: tuple[float, ...] = ON,
    path: Array | None = None,
) -> tuple[float, Array]:
    """Run the program on a plant, or PD + gravity along a path.

    Args:
        tree: The robot of the law.
        case: Its plant.
        period: Sampling period, s.
        start: Initial joint positions, rad or m.
        path: Reference of PD + gravity, shape (N, 2, n); None: the program, which needs none.

    Returns:
        RMS distance of the tool from its path after the transient, mm; and the true states, shape
        (N, 2, n), which can be used as a path.
    """
    exact = MujocoPlant(with_mismatch(tree, **case.plant), period)
    exact.reset(np.array(start))
    plant = ImperfectPlant(exact, Imperfections(measurement_delay=case.delay))
    law, probe = (  # the probe evaluates f of the plant
        make_law(
            'constraint_stabilization',
            tree,
            program='scara_circle',
            friction_compensation=case.friction,
            period=period,
            discretization='semi_implicit',
        )
        for _ in range(2)
    )
    if path is not None:
        gains = {'natural_frequency': FREQUENCY, 'home': list(ON)}
        law = make_law('pd_gravity', tree, period=period, **gains)
    reference, (q, v, tau) = Reference(tree.n), np.zeros((3, tree.n))
    steps = round(DURATION_S / period)
    errors, states = np.zeros((steps, 3)), np.zeros((steps, 2, tree.n))
    for k in range(steps):
        if path is not None:
            reference.position, reference.velocity = path[k]
        exact.read(*states[k])
        probe.effort(k * period, *states[k], reference, tau)
        errors[k] = probe.f[:3]
        plant.read(q, v)
        law.effort(k * period, q, v, reference, tau)
        plant.step(np.clip(tau, -tree.effort_limit, tree.effort_limit))
    settled = errors[round(SETTLED_S / period) :]
    return 1e3 * np.sqrt(np.mean(np.sum(np.square(settled), axis=1))), states


# Cost of a trajectory message --------------------------------------------------------------------

COUNTS = (100, 1000, 3555)
BEGIN, END = (0.0, -1.4, -0.5, 0.7), (0.3, -1.1, -0.2, 1.0)
RATE_HZ, TOLERANCE, ROUNDS = 100.0, 0.05, 7


def trajectories_benchmark() -> int:
    """Measure accepting a trajectory message: processor time per point, and ticks meanwhile."""
    measured = [trajectory_costs(count) for count in COUNTS]
    show('Accepting a JointTrajectory of four joints; one state per ms', measured)
    save('trajectories.json', measured)
    return 0


def trajectory_costs(count: int) -> dict[str, float]:
    """Return the times for a message of ``count`` points, by column heading."""
    from rclpy.serialization import deserialize_message
    from trajectory_msgs.msg import JointTrajectory

    tree = load_robot(shipped_robot('four_dof'))
    generator = ReferenceGenerator(tree)
    generator.start_tolerance = TOLERANCE
    generator.set_sampler(ReferenceSampler(tree.n, 'zero_order', PERIOD_S))
    generator.rest_at(np.array(BEGIN), 1)
    read = partial(deserialize_message, message(tree.joint_names, count), JointTrajectory)
    arrays = partial(trajectory_arrays, joints=tree.joint_names)
    points = arrays(read())

    def prepare() -> Prepared:
        return generator.prepare(generator.snapshot(), points)

    def accept() -> Prepared:
        return generator.prepare(generator.snapshot(), arrays(read()))

    part = 1e6 / count
    ticks, gap = min((ticks_meanwhile(accept) for _ in range(ROUNDS)), key=lambda row: row[1])
    return {
        'points': count,
        'read, us/point': shortest(read) * part,
        'arrays, us/point': shortest(partial(arrays, read())) * part,
        'check, us/point': shortest(prepare) * part,
        'commit, us': min(commit_after(generator, prepare()) for _ in range(ROUNDS)) * 1e6,
        'ticks': ticks,
        'gap, ms': gap * 1e3,
    }


def message(joints: tuple[str, ...], count: int) -> bytes:
    """Return a serialized motion of ``count`` points."""
    from builtin_interfaces.msg import Duration
    from rclpy.serialization import serialize_message
    from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

    times = np.arange(1, count + 1) / RATE_HZ
    rows = Quintic(BEGIN, END, float(times[-1])).table(times)
    points = [
        JointTrajectoryPoint(
            positions=q.tolist(),
            velocities=v.tolist(),
            accelerations=a.tolist(),
            time_from_start=Duration(sec=int(t), nanosec=round(t % 1.0 * 1e9) % 10**9),
        )
        for t, q, v, a in zip(times.tolist(), *rows, strict=True)
    ]
    return serialize_message(JointTrajectory(joint_names=list(joints), points=points))


def commit_after(generator: ReferenceGenerator, prepared: Prepared) -> float:
    """Return the processor time of the commit, one tick after the trajectory arrived, s."""
    generator.sample(prepared.snapshot.now_ns + round(PERIOD_S * 1e9))
    begin = time.process_time()
    generator.commit(prepared)
    return time.process_time() - begin


def shortest(work: Callable[[], object]) -> float:
    """Return the minimum processor time of several calls, s."""
    return min(timeit.repeat(work, number=1, repeat=ROUNDS, timer=time.process_time))


def ticks_meanwhile(work: Callable[[], object]) -> tuple[int, float]:
    """Return the number of periodic states answered during ``work``, and the longest gap, s."""
    from robot_dynamics_ros.ros.spinning import run_in_background

    begin = time.perf_counter()
    answers = [begin]

    def tick() -> bool:
        now = time.perf_counter()
        if now - begin < len(answers) * PERIOD_S:
            return False
        answers.append(now)
        return True

    run_in_background(work, tick, lambda: None, 1.0)
    return len(answers) - 1, np.diff([*answers, time.perf_counter()]).max()
