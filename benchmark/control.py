# SPDX-License-Identifier: Apache-2.0
"""Cost of a tick of the controller, and of a trajectory message."""

from __future__ import annotations

import argparse
import sys
import time
import timeit
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pinocchio

from benchmark.measuring import Results, in_own_process, race, robot_file
from robot_dynamics_ros.control.laws.registry import LAWS
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.trajectories.following import Prepared
from robot_dynamics_ros.control.trajectories.points import trajectory_arrays
from robot_dynamics_ros.control.trajectories.reference_generator import ReferenceGenerator
from robot_dynamics_ros.control.trajectories.trajectory import ReferenceSampler
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.model import Robot, load_robot
from robot_dynamics_ros.planning.motions import Quintic
from robot_dynamics_ros.spatial.scalar import Array

PERIOD_S = 1e-3

# Cost of a tick ----------------------------------------------------------------------------------

#: Arms: a shipped one with a program for the constraint law and a configuration near its start,
#: rad or m; one of seven joints with two coupled fingers. Each with a frame for law impedance.
ARMS: dict[str, tuple[str, Any, str]] = {
    'scara': ('scara_circle', (-0.315, 1.398, 0.12, 1.083), 'tool'),
    'panda': ('', 0.0, 'panda_hand'),
}
#: Contact reaction of the observations after a command.
OBSERVING = {'external efforts, us': 'off', 'and contacts, us': 'report'}


def main(_: argparse.Namespace, results: Results) -> int:
    """One tick of every law, the observer of external efforts, trajectory messages.

    The shortest of 40 blocks; *law*: the law alone, *whole loop*: from a state to the limited
    command, *rnea*: one call of `pinocchio.rnea` for the same arm. The observer runs after the
    command, so it adds nothing between a state and its command. *Interpreted*: without llvmlite.
    """
    known = [name for name in ARMS if robot_file(name)]
    ticks = [
        {'arm': name, 'law': law, 'at': frame, **loop_costs(name, law, frame)}
        for name in known
        for law, frame in [*((law, '') for law in sorted(LAWS)), ('impedance', ARMS[name][2])]
    ]
    results.table('one tick', ticks)
    compiled = {name: observer_costs(name) for name in known}
    interpreted = in_own_process(interpreted_costs, known)
    after = [
        {'arm': name, 'code': code, **costs[name]}
        for code, costs in (('compiled', compiled), ('interpreted', interpreted))
        for name in known
    ]
    results.table('after the command', after)
    messages = [trajectory_costs(count) for count in COUNTS]
    results.table('accepting a JointTrajectory of four joints; one state per ms', messages)
    return 0


def loop_costs(name: str, law: str, frame: str = '') -> dict[str, float]:
    """Return the times of one call of a law, of the whole loop, and of rnea, us; and a ratio.

    The arm is at rest at its reference and the ramp is over, as in nearly every tick. The
    stiffness of law impedance is at ``frame``; empty: in the joints.
    """
    tree, q = _tree(name)
    program, _, _ = ARMS[name]
    given = {'law': law, 'program': program, 'impedance_frame': frame, 'activation_ramp_s': 0.0}
    loop = ControllerSession(tree, given).loop
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
    times = race({name: ('call()', {'call': call}) for name, call in calls.items()})
    return {name: 1e-3 * ns for name, ns in times.items()}


def observer_costs(name: str) -> dict[str, float]:
    """Return the times of a session's observation of a state, without and with contacts, us."""
    (tree, _), calls = _tree(name), {}
    q = np.clip(0.0, tree.position_lower, tree.position_upper)
    for what, reaction in OBSERVING.items():
        session = ControllerSession(tree, {'law': 'computed_torque', 'contact_reaction': reaction})
        session.contact.subscribe(True)
        session.update(session.driver.state(1, 1, q, np.zeros(tree.n)))
        session.activate(1)
        for stamp in (1_000_001, 2_000_001):
            session.update(session.driver.state(stamp, stamp, q, np.zeros(tree.n)))
            session.settle()
        calls[what] = session.contact.update
    return microseconds(calls)


def interpreted_costs(names: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return the observer costs of arms, by name, as without llvmlite."""
    sys.modules['llvmlite'] = None  # type: ignore[assignment]
    return {name: observer_costs(name) for name in names}


def _tree(name: str) -> tuple[Robot, Array]:
    """Return an arm and its configuration."""
    tree = load_robot(str(robot_file(name)), (0.0, 0.0, -9.81), effort_limit=100.0)
    return tree, np.clip(ARMS[name][1], tree.position_lower, tree.position_upper)


# Cost of a trajectory message --------------------------------------------------------------------

COUNTS = (100, 1000, 3555)
BEGIN, END = (0.0, -1.4, -0.5, 0.7), (0.3, -1.1, -0.2, 1.0)
RATE_HZ, TOLERANCE, ROUNDS = 100.0, 0.05, 7


def trajectory_costs(count: int) -> dict[str, float]:
    """Return the times for a message of ``count`` points, by column heading."""
    from rclpy.serialization import deserialize_message
    from trajectory_msgs.msg import JointTrajectory

    tree = load_robot(shipped_robot('four_dof'))
    generator = ReferenceGenerator(tree)
    generator.configure(ReferenceSampler(tree.n, 'zero_order', PERIOD_S), TOLERANCE)
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
    from robot_dynamics_ros.control.request_worker import RequestWorker
    from robot_dynamics_ros.ros.spinning import tick_until

    begin = time.perf_counter()
    answers = [begin]

    def tick() -> bool:
        now = time.perf_counter()
        if now - begin < len(answers) * PERIOD_S:
            return False
        answers.append(now)
        return True

    worker, ended = RequestWorker(), list[object]()
    worker.submit(lambda: partial(str, work()), ended.append, slow=True)
    tick_until(lambda: bool(ended), tick, worker.proceed, PERIOD_S)
    worker.close()
    return len(answers) - 1, np.diff([*answers, time.perf_counter()]).max()
