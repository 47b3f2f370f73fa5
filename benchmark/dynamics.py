# SPDX-License-Identifier: Apache-2.0
"""Measure inverse dynamics of this package and of other libraries."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmark.measuring import (
    Contender,
    Figures,
    arms,
    chain,
    compiled,
    machine,
    note,
    race,
    save,
    show,
)
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.recordings.report.figures import styled, subplots
from robot_dynamics_ros.recordings.report.toolkit import Report
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.outputs import Subject, trace_output

# One of the libraries has this fixed gravity.
_GRAVITY = np.array([0.0, 0.0, -9.80665])
_STATES = 100_000
_LOOP = 5_000  # states of a Python loop; the time per state does not depend on this number
_JOINTS = (4, 6, 8, 12, 16, 24, 32)
_OURS = 'this package'
_STARTS = 5
_NO_TIMES = ('operations', 'compile_seconds')  # of a call

# Prints the time of a new process from its first import of the package to its first effort, s,
# and the time from the loaded robot to the effort, s.
_START = """
import time
begin = time.perf_counter()
import numpy as np
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.model import load_robot
tree = load_robot(shipped_robot('scara'))
loaded = time.perf_counter()
from robot_dynamics_ros.symbolic.kernel import compile_kernel
tau = np.zeros(4)
compile_kernel(tree).inverse_dynamics(tau, tau, tau, tau)
end = time.perf_counter()
print(end - begin, end - loaded)
"""


def dynamics_benchmark() -> int:
    """Measure inverse dynamics: one call, batches, number of joints, warm start."""
    measured: Figures = {'arms': {}}
    print(machine())
    for name, xml in arms().items():
        note(f'measuring {name} ...')
        measured['arms'][name] = figures = measure_arm(xml)
        _show_arm(name, figures)
    note('measuring the number of joints ...')
    measured['joints'] = {n: measure_chain(n) for n in _JOINTS}
    chains = []
    for n, figures in measured['joints'].items():
        times = {name: f'{ns:.0f}' for name, ns in figures.items() if name not in _NO_TIMES}
        row = {'n': n, 'work': figures['operations'], **times}
        chains.append(row | {'compile, s': figures['compile_seconds']})
    show('chains of n joints: operations, ns per call or state', chains)
    measured['start_seconds'] = measure_start()
    for kind, seconds in measured['start_seconds'].items():
        print(
            f'{kind} start: {seconds["whole"]:.2f} s from the first import to the first effort, '
            f'{seconds["kernels"]:.3f} s of it for the kernels'
        )
    save('dynamics.json', measured)
    save('joints.html', _chart(measured['joints']))
    return 0


def measure(xml: str, states: int = _STATES, rounds: int = 40, without: str = '') -> Figures:
    """Return the times of one call in every library, and per state of a batch, ns.

    Args:
        xml: The robot as URDF text.
        states: Number of states of a batch.
        rounds: Number of blocks per library.
        without: Library to exclude.
    """
    tree = load_robot(xml, _GRAVITY, effort_limit=1.0)
    kernels, seconds = compiled(tree)
    many = np.random.default_rng(0).uniform(-1, 1, size=(3, states, tree.n))
    q, v, a = (np.ascontiguousarray(x[0]) for x in many)
    others, left_out = contenders(xml, _GRAVITY, q, v, a)
    others.pop(without, None)
    names = {'f': kernels.inverse_dynamics, 'q': q, 'v': v, 'a': a, 'tau': np.zeros(tree.n)}
    call = race({_OURS: Contender('f(q, v, a, tau)', names)} | others, rounds=rounds)
    batch = {_OURS: Contender("f('inverse_dynamics', *x)", {'f': kernels.batch, 'x': many})}
    per_state = {_OURS: race(batch, rounds=rounds)[_OURS] / states}
    figures = {'call': call, 'per_state': per_state, 'left_out': left_out}
    return {'joints': tree.n, 'compile_seconds': seconds, **figures}


def measure_arm(xml: str) -> Figures:
    """Return the times of an arm, and the time per state of a loop over Pinocchio's calls."""
    figures = measure(xml)
    n = figures['joints']
    many = np.random.default_rng(0).uniform(-1, 1, size=(3, _LOOP, n))
    with contextlib.suppress(ImportError):
        loop = _pinocchio(xml, _GRAVITY, *many[:, 0])
        names = loop.names | {'rows': [list(x) for x in many]}
        calls = Contender(f'for q, v, a in zip(*rows): {loop.statement}', names)
        figures['per_state']['pinocchio, loop'] = race({'loop': calls})['loop'] / _LOOP
    return figures


def measure_chain(n: int) -> dict[str, float]:
    """Return times for a chain of n joints, ns, its operations, and its compile time, s."""
    # Without the toolbox, which takes milliseconds per call.
    figures = measure(chain(n), max(_STATES // n, 4096), 15, without='roboticstoolbox')
    tree = load_robot(chain(n), _GRAVITY)
    operations = trace_output('inverse_dynamics', Subject(tree, 'newton_euler', 'link1'))
    return {
        **figures['call'],
        f'{_OURS}, batch': figures['per_state'][_OURS],
        'operations': operations.operations().total(),
        'compile_seconds': figures['compile_seconds'],
    }


def measure_start() -> dict[str, dict[str, float]]:
    """Return the time of a new process to its first effort, s, with cold and warm cache."""
    seconds, command = {}, [sys.executable, '-c', _START]
    with tempfile.TemporaryDirectory() as place:
        environment = {**os.environ, 'ROBOT_DYNAMICS_CACHE': place}
        for kind, starts in (('cold', 1), ('warm', _STARTS)):
            printed = [
                subprocess.check_output(command, env=environment, text=True) for _ in range(starts)
            ]
            whole, kernel = min([float(word) for word in out.split()] for out in printed)
            seconds[kind] = {'whole': whole, 'kernels': kernel}
    return seconds


def _show_arm(name: str, figures: Figures) -> None:
    rows = []
    for part, key, loop in (('one call', 'call', ''), ('state of many', 'per_state', ', loop')):
        reference = figures[key].get(f'pinocchio{loop}', np.nan)
        for library, ns in figures[key].items():
            ratio = {'to pinocchio': ns / reference}
            rows.append({'': f'{part}, {library}', 'ns': f'{ns:.1f}', **ratio})
    show(f'{name}, {figures["joints"]} joints', rows)
    for library, reason in figures['left_out'].items():
        note(f'  left out: {library}, {reason}')


def _chart(joints: dict[int, dict[str, float]]) -> str:
    figure = subplots()
    for name in joints[_JOINTS[0]]:
        if name not in _NO_TIMES:
            times = {n: values[name] for n, values in joints.items() if name in values}
            figure.add_scatter(x=list(times), y=list(times.values()), name=name)
    figure.update_xaxes(type='log', title='joints', tickvals=list(joints))
    figure.update_yaxes(type='log', title='ns per call')
    heading = 'Inverse dynamics of a chain'
    lead = 'Time of a call by the number of joints.'
    return Report(heading, lead, figures=[('', styled(figure, 560))]).html()


# Other libraries, each called by its fastest Python interface ------------------------------------

#: Largest difference to Pinocchio, relative to its largest effort, of a library that is timed.
_SAME = 1e-6


def contenders(
    xml: str, gravity: Array, q: Array, v: Array, a: Array
) -> tuple[dict[str, Contender], dict[str, str]]:
    """Return the installed libraries with correct results, and why others are excluded.

    Args:
        xml: The robot as URDF text.
        gravity: Shape (3,), m/s^2.
        q: Joint positions, shape (n,).
        v: Joint velocities, shape (n,).
        a: Joint accelerations, shape (n,).
    """
    racing: dict[str, Contender] = {}
    left_out: dict[str, str] = {}
    expected: Array | None = None
    for name, make in _MAKERS.items():
        try:
            contender = make(xml, gravity, q, v, a)
            answer = np.asarray(eval(contender.statement, contender.names), dtype=float)
        except ImportError:
            left_out[name] = 'not installed'
            continue
        except Exception as error:  # a library that cannot load the robot is excluded
            left_out[name] = f'{type(error).__name__}: {error}'.splitlines()[0]
            continue
        if expected is None:
            expected = answer
        if np.max(np.abs(answer - expected)) > _SAME * np.max(np.abs(expected)):
            left_out[name] = f'gives {answer}, not {expected}'
        else:
            racing[name] = contender
    return racing, left_out


def _pinocchio(xml: str, gravity: Any, q: Any, v: Any, a: Any) -> Contender:
    import pinocchio

    model = pinocchio.buildModelFromXML(xml)
    model.gravity.linear = np.array(gravity)
    names = {'rnea': pinocchio.rnea, 'model': model, 'data': model.createData()}
    return Contender('rnea(model, data, q, v, a)', names | {'q': q, 'v': v, 'a': a})


def _mujoco(xml: str, gravity: Any, q: Any, v: Any, a: Any) -> Contender:
    import mujoco

    model = mujoco.MjModel.from_xml_string(xml)
    model.opt.gravity[:] = gravity
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    model.dof_damping[:] = 0.0
    model.dof_armature[:] = 0.0
    data = mujoco.MjData(model)

    def inverse(
        call: Callable[[Any, Any], None] = mujoco.mj_inverse,
        position: Any = data.qpos,
        velocity: Any = data.qvel,
        acceleration: Any = data.qacc,
        effort: Any = data.qfrc_inverse,
    ) -> Any:
        position[:] = q
        velocity[:] = v
        acceleration[:] = a
        call(model, data)
        return effort

    return Contender('inverse()', {'inverse': inverse})


def _drake(xml: str, gravity: Any, q: Any, v: Any, a: Any) -> Contender:
    import logging

    from pydrake.multibody.parsing import Parser
    from pydrake.multibody.plant import MultibodyPlant
    from pydrake.multibody.tree import MultibodyForces

    logging.getLogger('drake').setLevel(logging.ERROR)
    plant = MultibodyPlant(0.0)
    Parser(plant).AddModelsFromString(xml, 'urdf')
    root = load_robot(xml, effort_limit=1.0).base_link
    if root != 'world':  # in Drake that link is the world itself
        plant.WeldFrames(plant.world_frame(), plant.GetBodyByName(root).body_frame())
    plant.mutable_gravity_field().set_gravity_vector(gravity)
    plant.Finalize()
    context, forces = plant.CreateDefaultContext(), MultibodyForces(plant)

    def inverse() -> Any:
        plant.SetPositions(context, q)
        plant.SetVelocities(context, v)
        forces.SetZero()
        plant.CalcForceElementsContribution(context, forces)
        return plant.CalcInverseDynamics(context, a, forces)

    return Contender('inverse()', {'inverse': inverse})


def _dynibo(xml: str, gravity: Any, q: Any, v: Any, a: Any) -> Contender:
    import dynibo

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / 'robot.urdf'
        file.write_text(xml, encoding='utf-8')
        robot = dynibo.Robot.from_urdf(str(file))
    names = {'inverse': robot.inverse_dynamics, 'q': q, 'v': v, 'a': a, 'tau': np.zeros(len(q))}
    return Contender('inverse(q, v, a, out=tau)', names)


def _robotics_toolbox(xml: str, gravity: Any, q: Any, v: Any, a: Any) -> Contender:
    import warnings

    warnings.simplefilter('ignore', DeprecationWarning)
    import roboticstoolbox

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / 'robot.urdf'
        file.write_text(xml, encoding='utf-8')
        robot = roboticstoolbox.Robot.URDF(str(file))
    names = {'rne': robot.rne, 'q': q, 'v': v, 'a': a, 'g': np.array(gravity)}
    return Contender('rne(q, v, a, gravity=g)', names)


_MAKERS = {
    'pinocchio': _pinocchio,
    'mujoco': _mujoco,
    'drake': _drake,
    'dynibo': _dynibo,
    'roboticstoolbox': _robotics_toolbox,
}
