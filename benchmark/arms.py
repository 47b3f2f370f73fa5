# SPDX-License-Identifier: Apache-2.0
"""Measure every robot, arm and hand of example-robot-data and write ``docs/arms.md``.

With a fixed base, and default effort limits where the files have none. Files: their remarks. Arms
and hands: accuracy and time; arms also tracking of their planned motions. If the mass matrix is
not positive definite, the reported joint is locked, and the robot is loaded again.
"""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from benchmark.arm_tracking import PERIOD, ArmGroup, draw, measure_nodes, program_decay, tracking
from benchmark.measuring import (
    Contender,
    Figures,
    cell,
    compiled,
    files,
    in_own_process,
    machine,
    note,
    race,
    save,
    saved,
    show,
)
from robot_dynamics_ros.cli.arguments import option
from robot_dynamics_ros.control.laws.computed_torque import ComputedTorque
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.dynamics import FORMULATIONS, make_formulation
from robot_dynamics_ros.errors import ModelError, RobotDynamicsError
from robot_dynamics_ros.identification import inertial_parameters, regressor
from robot_dynamics_ros.model import RobotTree, load_robot
from robot_dynamics_ros.model.load import check_model
from robot_dynamics_ros.planning.default_motion import default_motion
from robot_dynamics_ros.planning.robot_setup import natural_frequencies
from robot_dynamics_ros.symbolic.kernel import KernelSet, compile_kernel
from robot_dynamics_ros.yaml_reader.parsing import read_yaml

#: Arms, hands and bodies of the package, by name.
GROUPS = {
    kind: {name: ArmGroup(**group) for name, group in groups.items()}
    for kind, groups in read_yaml(Path(__file__).with_suffix('.yaml'), 'arms').items()
}
#: Arms whose folder written by ``new_robot`` is run as nodes over DDS.
OVER_DDS = ('Panda', 'UR5', 'xArm 7', 'TIAGo', 'SO-101')
_EFFORT = 100.0  # N m or N, default effort limit
_STATES = 20
_GRAVITY = (0.0, 0.0, -9.81)
_PAGE = Path(__file__).resolve().parents[1] / 'docs' / 'arms.md'
_PICTURES = 'images/arms'  # relative to the page
_FIGURES = 'arms.json'
_FILE = {
    'joints': 'joints (bodies)',
    'errors': 'errors of check_model',
    'remarks': 'remarks',
    'deviation': 'deviation',
    'eigenvalue': 'smallest eigenvalue of M',
    'note': 'loading',
}
_GROUP = {
    'joints': 'joints (bodies)',
    'load_ms': 'load, ms',
    'compile_s': 'compile, s',
    'tick_us': 'tick, us',
    'deviation': 'deviation',
}
_HAND = {**_GROUP, 'note': ''}
_BODY = {**_GROUP, 'kernel_us': 'inverse dynamics alone, us', 'note': ''}
_ARM = {
    **_GROUP,
    'radius_m': 'circle, m',
    'effort': 'effort / limit',
    'stiff': 'D h / M',
    'error': 'error / travel',
    'better': 'PD ratio',
    'better_fed': 'PD ratio, friction',
    'decay': 'decay',
    'note': '',
}
_NODES = {
    'joints': 'joints',
    'commands': 'commands',
    'saturated': 'saturated',
    'peak': 'largest error, rad or m',
    'tool_mm': 'tool RMS error, mm',
    'pd_tool_mm': 'with PD + gravity, mm',
    'better': 'PD ratio',
    'note': '',
}
#: For each kind: heading of the first column, text above the table, columns.
_SECTIONS = {
    'arms': ('arm', '', _ARM),
    'hands': ('hand', '## Hands\n\n', _HAND),
    'bodies': ('body', '## Bodies\n\n', _BODY),
    'nodes': (
        'arm',
        """## Over DDS

The folder that `new_robot` writes, run from its parameter file: simulator, controller and
trajectory node as separate processes, in lockstep, with the friction of the URDF.

""",
        _NODES,
    ),
    'files': ('file', '## Files\n\n{reasons}\n\n', _FILE),
}
_AT_MOST = {'error': 1e-4, 'effort': 0.61, 'decay': 0.02, 'saturated': 0}
_AT_LEAST = {'better': 20.0, 'better_fed': 3.0}
_HEAD = """# Arms

Written by `python -m benchmark arms`: the robots of the PyPI package example-robot-data {version},
with a fixed base and an effort limit of {limit:g} N m where a file gives none. *Deviation* is the
largest difference of the kernel, all formulations and the regressor from Pinocchio's inverse
dynamics of the same joints (mimic joints eliminated by the coupling matrix) in {states} random
states, relative to the largest effort.
{measured} of {groups} arms, hands and bodies were measured.

## Arms

Each arm tracks the circle that `new_robot` plans for it, in lockstep with MuJoCo at 1 kHz, with
the planned gains and an exact model.

* *tick*: one call of computed torque.
* *circle*: radius.
* *effort / limit*: largest share of an effort limit under computed torque.
* *D h / M*: largest joint damping times the period, divided by the inertia seen by the drive.
* *error / travel*: largest joint error under computed torque without Coulomb friction, relative to
  the travel of the joint.
* *PD ratio*: RMS error of PD + gravity with the same gains, divided by that of computed torque,
  with the friction of the URDF; the smallest ratio of all joints that move by more than 0.05 rad
  or 0.02 m. *PD ratio, friction*: PD + gravity with feedforward of the reference's friction.
* *decay*: the planned constraint program (an oscillating plane, the posture held in the null
  space), started 5 mm off the plane: largest difference from the designed decay, relative to 5 mm.
* last column: requirements that are not met (error 1e-4, effort 0.6 to within 0.01, decay 0.02, no
  saturation, ratios of 20 and 3), or why a figure is missing.
"""


def load(path: Path) -> tuple[RobotTree, tuple[str, ...]]:
    """Return a robot, and the joints locked to make its mass matrix positive definite."""
    locked: dict[str, float] = {}
    while True:
        try:
            tree = load_robot(path, _GRAVITY, effort_limit=_EFFORT, locked=locked)
            return tree, tuple(locked)
        except ModelError as error:
            named = re.fullmatch(r"joint '(.*)'", error.culprit)
            if 'mass matrix' not in error.problem or named is None or named[1] in locked:
                raise
            locked[named[1]] = 0.0


class Pinocchio:
    """Pinocchio's model of a robot's text, with every joint independent."""

    def __init__(self, tree: RobotTree) -> None:
        import pinocchio

        self.library, self._tree = pinocchio, tree
        self.model = pinocchio.buildModelFromXML(tree.xml)
        self.model.gravity.linear = np.array(_GRAVITY)
        self.data = self.model.createData()
        names = tree.open.joint_names
        self._dofs = [self.model.joints[self.model.getJointId(name)].idx_v for name in names]
        coupling = tree.coupling
        self._G = np.eye(tree.n) if coupling is None else coupling.rate.astype(float)

    def rates(self, joints: Any) -> Any:
        """Return rates or angles of all joints in Pinocchio's layout."""
        inside = np.zeros(self.model.nv)
        inside[self._dofs] = joints
        return inside

    def configuration(self, q: Any) -> Any:
        """Return a configuration in Pinocchio's layout."""
        still = self.library.neutral(self.model)
        angles = self.rates(self._tree.joint_positions(q))
        return self.library.integrate(self.model, still, angles)

    def inverse_dynamics(self, q: Any, *rates: Any) -> Any:
        """Return the efforts at the independent joints."""
        inside = (self.rates(self._G @ rate) for rate in rates)
        tau = self.library.rnea(self.model, self.data, self.configuration(q), *inside)
        return self._G.T @ tau[self._dofs]

    def least_eigenvalue(self, q: Any) -> float:
        """Return that of the mass matrix in the independent joints."""
        upper = np.triu(self.library.crba(self.model, self.data, self.configuration(q)))
        M = (upper + np.triu(upper, 1).T)[np.ix_(self._dofs, self._dofs)]
        return float(np.linalg.eigvalsh(self._G.T @ M @ self._G)[0])


def measure(path: Path) -> Iterator[Figures]:
    """Yield the results of one file, or the reason of its rejection."""
    check = check_model(path, effort_limit=_EFFORT)
    try:
        tree, locked = load(path)
    except RobotDynamicsError as error:
        yield {'errors': len(check.errors), 'note': f'rejected: {error}'}
        return
    yield {
        'joints': _joints(tree),
        'errors': len(check.errors),
        'remarks': len(tree.remarks),
        'note': f'locked, since it moves no inertia: {", ".join(locked)}' if locked else '',
    }
    oracle, kernel = Pinocchio(tree), compile_kernel(tree, outputs=('inverse_dynamics',))
    tau, deviations, eigenvalues = np.zeros(tree.n), [], []
    for motion in _motions(tree):
        kernel.inverse_dynamics(*motion, tau)
        deviations.append(_deviation(tau, oracle.inverse_dynamics(*motion)))
        eigenvalues.append(oracle.least_eigenvalue(motion[0]))
    yield {'deviation': max(deviations), 'eigenvalue': min(eigenvalues)}


def measure_group(
    path: Path, group: ArmGroup, leads: bool, picture: Path | None = None
) -> Iterator[Figures]:
    """Yield the results of an arm or, without a tip link, of a hand or body; draw its picture."""
    begin = time.perf_counter()
    chain = {'base': group.base, 'tip': group.frame} if group.chain else {}
    tree = load_robot(path, _GRAVITY, effort_limit=_EFFORT, **chain)
    yield {'joints': _joints(tree), 'load_ms': (time.perf_counter() - begin) * 1e3}
    kernels, seconds = compiled(tree)
    yield {'compile_s': seconds}
    yield _exactness(tree, kernels)
    yield _times(tree, kernels)
    if picture is not None:
        draw(tree, tree.middle, picture)
        yield {'picture': f'![]({_PICTURES}/{picture.name})'}
    if leads:
        motion = default_motion(tree, group.frame)
        if picture is not None:
            draw(tree, motion.home, picture)
        yield {'radius_m': motion.radius}
        gains = natural_frequencies(tree, motion.home, PERIOD)
        yield tracking(tree, motion, gains)
        yield program_decay(tree, motion, gains)


def _joints(tree: RobotTree) -> str:
    return f'{tree.n} ({tree.bodies})' if tree.bodies != tree.n else str(tree.n)


def _deviation(effort: Any, expected: Any) -> float:
    return float(np.max(np.abs(effort - expected)) / np.max(np.abs(expected)))


def _exactness(tree: RobotTree, kernels: KernelSet) -> dict[str, float]:
    """Return the largest deviation of kernel, formulations and regressor from Pinocchio."""
    oracle, tau = Pinocchio(tree), np.zeros(tree.n)
    models = [make_formulation(name, tree) for name in FORMULATIONS]
    parameters = inertial_parameters(tree)
    deviations = []
    for motion in _motions(tree):
        kernels.inverse_dynamics(*motion, tau)
        Y = regressor(tree, *(part[np.newaxis] for part in motion))[0]
        efforts = [tau, Y @ parameters, *(model.inverse_dynamics(*motion) for model in models)]
        expected = oracle.inverse_dynamics(*motion)
        deviations += [_deviation(one, expected) for one in efforts]
    return {'deviation': max(deviations)}


def _times(tree: RobotTree, kernels: KernelSet) -> dict[str, float]:
    """Return the times of one call of computed torque, and of inverse dynamics alone, us."""
    law, still = ComputedTorque(tree, kernels), np.zeros(tree.n)
    names = {'q': still, 'r': Reference(tree.n), 'tau': np.zeros(tree.n)}
    tick = Contender('f(0.0, q, q, r, tau)', {**names, 'f': law.effort})
    kernel = Contender('f(q, q, q, tau)', {**names, 'f': kernels.inverse_dynamics})
    times = race({'tick_us': tick, 'kernel_us': kernel}, rounds=10)
    return {name: time * 1e-3 for name, time in times.items()}


def _motions(tree: RobotTree) -> Iterator[Any]:
    rng = np.random.default_rng(0)
    for _ in range(_STATES):
        yield rng.uniform(*tree.sampled_range), rng.normal(size=tree.n), rng.normal(size=tree.n)


def arms_benchmark(args: argparse.Namespace) -> int:
    """Measure every robot, arm and hand of example-robot-data; write ``docs/arms.md``."""
    measured = _measured(args)
    rows = [
        {'arm': name} | dict(zip(_ARM.values(), _cells(row, _ARM), strict=True))
        for name, row in measured['arms'].items()
    ]
    show(f'Arms of example-robot-data\n{machine()}', rows)
    return 0


def _work() -> Iterator[tuple[str, str, Any]]:
    """Yield kind, name, and the measuring function with its arguments."""
    known = files()
    for kind, groups in GROUPS.items():
        for name, one in groups.items():
            picture = f'{re.sub("[^a-z0-9]+", "_", name.lower())}.png'
            place = _PAGE.parent / _PICTURES / picture
            yield kind, name, (measure_group, known[one.file], one, kind == 'arms', place)
    for name in OVER_DDS:
        one = GROUPS['arms'][name]
        yield 'nodes', name, (measure_nodes, known[one.file], one, _EFFORT)
    for name, path in known.items():
        yield 'files', name, (measure, path)


def _measured(args: argparse.Namespace) -> dict[str, Figures]:
    """Return all results by kind and name; page and JSON are updated as they come."""
    asked = args.only or tuple(_SECTIONS)
    work = [row for row in _work() if row[0] in asked]
    kept = saved(_FIGURES)
    measured = {kind: {} if kind in asked else kept.get(kind, {}) for kind in _SECTIONS}
    begin = time.monotonic()
    with ThreadPoolExecutor(args.jobs) as threads:
        tasks = [threads.submit(in_own_process, *call, limit_s=args.limit) for _, _, call in work]
        for k, ((kind, name, _), task) in enumerate(zip(work, tasks, strict=True), 1):
            measured[kind][name] = task.result()
            note(f'{k} of {len(work)}, {time.monotonic() - begin:.0f} s: {name} {task.result()}')
            _PAGE.write_text(page(measured), encoding='utf-8')
            save(_FIGURES, measured)
    return measured


def page(measured: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """Return the documentation page of the results."""
    head = _HEAD.format(
        version=metadata.version('example-robot-data'),
        limit=_EFFORT,
        states=_STATES,
        measured=sum(len(measured.get(kind, ())) for kind in GROUPS),
        groups=sum(map(len, GROUPS.values())),
    )
    counts = Counter(
        re.sub(r"'.*?'", '...', row['note']).split(';')[0] or 'loads unchanged'
        for row in measured['files'].values()
    )
    reasons = '\n'.join(f'* {count}: {reason}' for reason, count in counts.most_common())
    arms = {name: {**row, 'note': _verdict(row)} for name, row in measured['arms'].items()}
    shown = {**measured, 'arms': arms}
    return head + '\n'.join(
        ['']
        + [
            about.format(reasons=reasons) + _table(one, shown[kind], columns)
            for kind, (one, about, columns) in _SECTIONS.items()
            if shown.get(kind)
        ]
    )


def _verdict(row: Mapping[str, Any]) -> str:
    """Return the note of an arm, and the requirements that it does not meet."""
    missed = [
        f'{_ARM.get(name, name)} {row[name]:.2g} instead of at {word} {limit:g}'
        for word, limits in (('most', _AT_MOST), ('least', _AT_LEAST))
        for name, limit in limits.items()
        if name in row and (row[name] > limit if word == 'most' else row[name] < limit)
    ]
    return '; '.join(filter(None, (row.get('note', ''), *missed)))


def _table(first: str, rows: Mapping[str, Mapping[str, Any]], columns: Mapping[str, str]) -> str:
    lines = [f'| {first} | {" | ".join(columns.values())} |']
    lines.append('| --- |' + ' ---: |' * len(columns))
    for name, row in rows.items():
        cells = ' | '.join(text.replace('|', '/') for text in _cells(row, columns))
        lines.append(f'| {" ".join(filter(None, (row.get("picture"), name)))} | {cells} |')
    return '\n'.join(lines) + '\n'


def _cells(row: Mapping[str, Any], columns: Mapping[str, str]) -> list[str]:
    return [cell(row.get(column, ''), digits=2) for column in columns]


OPTIONS = {
    'arms': {
        '--jobs': option(1, 'number of parallel processes'),
        '--limit': option(300.0, 'time limit for each robot, s'),
        '--only': option(
            None,
            'measure only these, keep the previous results of the others',
            nargs='+',
            choices=tuple(_SECTIONS),
        ),
    },
}
