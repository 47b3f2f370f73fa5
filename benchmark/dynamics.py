# SPDX-License-Identifier: Apache-2.0
"""Inverse dynamics of this package, of Pinocchio and of MuJoCo, by their Python interfaces."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import mujoco
import numpy as np
import pinocchio

from benchmark.measuring import Contender, Figures, Results, arms, chain, race
from robot_dynamics_ros.model import Robot, load_robot
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import KernelSet, compile_kernel
from robot_dynamics_ros.symbolic.outputs import KernelSpec, trace_output

_GRAVITY = np.array([0.0, 0.0, -9.81])
_STATES = 100_000
_LOOP = 5_000  # states of a Python loop; the time per state does not depend on this number
_JOINTS = (4, 6, 8, 12, 16, 24, 32)
_OURS = 'this package'
_STARTS = 5
#: Largest difference to Pinocchio, relative to its largest effort, of what is timed.
_SAME = 1e-6

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


def main(_: argparse.Namespace, results: Results) -> int:
    """Inverse dynamics: one call, batches, number of joints, start of a process.

    The libraries are measured alternately in blocks of 2 ms, and the shortest block of each
    counts, so that other load affects all equally. A library is timed only if its efforts equal
    Pinocchio's to six digits.

    A call of ours checks type, shape, layout and writeability of all arrays, which takes about
    20 ns with Python's own overhead, and allocates nothing. MuJoCo's time includes copying q, v
    and a into its data. The other libraries, in C++, interpret a model; ours is code of one robot
    with its constants folded in.

    In a batch eight states are processed in parallel in SIMD registers, and parts of it run on any
    free processor. The chains have revolute joints with perpendicular axes and full inertia
    tensors.
    """
    measured = {name: measure_arm(xml) for name, xml in arms().items()}
    for key, title in (('call', 'one call, ns'), ('batch', 'state of a batch, ns')):
        results.table(
            title, [{'robot': name, **figures[key]} for name, figures in measured.items()]
        )
    chains = [{'joints': n, **measure_chain(n)} for n in _JOINTS]
    results.table('chains of n joints: operations, ns per call or state, s', chains)
    starts = [{'cache': kind, **seconds} for kind, seconds in measure_start().items()]
    results.table('first import to first effort of a new process, s', starts)
    return 0


def compiled(tree: Robot) -> tuple[KernelSet, float]:
    """Return the inverse dynamics of a robot, compiled without a cache, and the time, s."""
    with (
        tempfile.TemporaryDirectory() as empty,
        patch.dict(os.environ, {'ROBOT_DYNAMICS_CACHE': empty}),
    ):
        begin = time.perf_counter()
        kernels = compile_kernel(tree, outputs=('inverse_dynamics',))
        return kernels, time.perf_counter() - begin


def measure(xml: str, states: int, rounds: int = 40) -> Figures:
    """Return times of one call, ns, of a state in our batch, ns, and of compiling, s."""
    tree = load_robot(xml, _GRAVITY, effort_limit=1.0)
    kernels, seconds = compiled(tree)
    many = np.random.default_rng(0).uniform(-1, 1, size=(3, states, tree.n))
    q, v, a = (np.ascontiguousarray(x[0]) for x in many)
    names = {'f': kernels.inverse_dynamics, 'q': q, 'v': v, 'a': a, 'tau': np.zeros(tree.n)}
    call = race(contenders(xml, q, v, a) | {_OURS: ('f(q, v, a, tau)', names)}, rounds=rounds)
    whole = race({_OURS: ("f('inverse_dynamics', *x)", {'f': kernels.batch, 'x': many})})
    return {'call': call, 'batch': {_OURS: whole[_OURS] / states}, 'compile, s': seconds}


def measure_arm(xml: str) -> Figures:
    """Return the times of an arm, and the time per state of a loop over Pinocchio's calls."""
    figures, n = measure(xml, _STATES), load_robot(xml, effort_limit=1.0).n
    many = np.random.default_rng(0).uniform(-1, 1, size=(3, _LOOP, n))
    statement, names = _pinocchio(xml, *many[:, 0])
    loop = f'for q, v, a in zip(*rows): {statement}', {**names, 'rows': [list(x) for x in many]}
    figures['batch']['pinocchio, loop'] = race({'loop': loop})['loop'] / _LOOP
    return figures


def measure_chain(n: int) -> dict[str, float]:
    """Return times for a chain of n joints, ns, its operations, and its compile time, s."""
    figures = measure(chain(n), max(_STATES // n, 4096), 15)
    tree = load_robot(chain(n), _GRAVITY)
    work = trace_output('inverse_dynamics', KernelSpec(tree, 'newton_euler', 'link1')).operations()
    batch = {'batch': figures['batch'][_OURS], 'compile, s': figures['compile, s']}
    return {'operations': work.total(), **figures['call'], **batch}


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


def contenders(xml: str, q: Array, v: Array, a: Array) -> dict[str, Contender]:
    """Return the calls of the other libraries at a state, shape (n,) each.

    Raises:
        ArithmeticError: They disagree, so that different things would be timed.
    """
    racing = {make.__name__[1:]: make(xml, q, v, a) for make in (_pinocchio, _mujoco)}
    answers = [np.array(eval(call, dict(names))) for call, names in racing.values()]
    if np.max(np.abs(answers[1] - answers[0])) > _SAME * np.max(np.abs(answers[0])):
        raise ArithmeticError(f'MuJoCo gives {answers[1]}, Pinocchio {answers[0]}')
    return racing


def _pinocchio(xml: str, q: Any, v: Any, a: Any) -> Contender:
    model = pinocchio.buildModelFromXML(xml)
    model.gravity.linear = _GRAVITY
    names = {'rnea': pinocchio.rnea, 'model': model, 'data': model.createData()}
    return 'rnea(model, data, q, v, a)', names | {'q': q, 'v': v, 'a': a}


def _mujoco(xml: str, q: Any, v: Any, a: Any) -> Contender:
    model = mujoco.MjModel.from_xml_string(xml)
    model.opt.gravity[:] = _GRAVITY
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

    return 'inverse()', {'inverse': inverse}
