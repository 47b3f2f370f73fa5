# SPDX-License-Identifier: Apache-2.0
"""Every robot of the package example-robot-data: what is said of it, how exact, how fast.

Fixed-base, effort limits given where the files are silent. Where the mass matrix is not positive
definite, the joint that is named is locked, and the robot is loaded again.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmark.measuring import Contender, files, machine, note, race, save, show
from robot_dynamics_ros.errors import ModelError, RobotDynamicsError
from robot_dynamics_ros.model import RobotTree, load_robot
from robot_dynamics_ros.model.check import check_model
from robot_dynamics_ros.symbolic.kernel import compile_kernel

_EFFORT = 100.0  # N m or N, where a file gives none
_STATES = 20
_GRAVITY = (0.0, 0.0, -9.81)
_COLUMNS = {
    'joints': 'joints\n(bodies)',
    'load_ms': 'load\nms',
    'errors': 'errors of\ncheck_model',
    'remarks': 'remarks',
    'deviation': 'deviation\nfrom Pinocchio',
    'eigenvalue': 'least eigenvalue\nof M (Pinocchio)',
    'compile_s': 'compile\ns',
    'call_ns': 'call\nns',
    'rnea_ns': 'pin.rnea\nns',
    'note': '',
}


def load(path: Path) -> tuple[RobotTree, tuple[str, ...]]:
    """Return a robot, and the joints that had to be locked to give it a mass matrix."""
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
    """Pinocchio's own reading of a robot's text, every joint independent."""

    def __init__(self, tree: RobotTree) -> None:
        import pinocchio

        self.library, self._tree = pinocchio, tree
        self.model = pinocchio.buildModelFromXML(tree.xml)
        self.model.gravity.linear = np.array(_GRAVITY)
        self.data = self.model.createData()
        names = tree.open.joint_names
        self._joints = [self.model.joints[self.model.getJointId(name)] for name in names]
        self._dofs = [joint.idx_v for joint in self._joints]
        coupling = tree.coupling
        self._G = np.eye(tree.n) if coupling is None else coupling.rate.astype(float)

    def state(self, q: Any, *rates: Any) -> list[Any]:
        """Return positions and rates in Pinocchio's layout."""
        inside = [np.zeros(self.model.nq), *(np.zeros(self.model.nv) for _ in rates)]
        for joint, angle in zip(self._joints, self._tree.joint_positions(q), strict=True):
            one = (angle,) if joint.nq == 1 else (np.cos(angle), np.sin(angle))
            inside[0][joint.idx_q : joint.idx_q + joint.nq] = one
        for target, rate in zip(inside[1:], rates, strict=True):
            target[self._dofs] = self._G @ rate
        return inside

    def inverse_dynamics(self, *motion: Any) -> Any:
        """Return the efforts at the independent joints."""
        tau = self.library.rnea(self.model, self.data, *self.state(*motion))
        return self._G.T @ tau[self._dofs]

    def least_eigenvalue(self, q: Any) -> float:
        """Return that of the mass matrix in the independent joints."""
        upper = np.triu(self.library.crba(self.model, self.data, *self.state(q)))
        M = (upper + np.triu(upper, 1).T)[np.ix_(self._dofs, self._dofs)]
        return float(np.linalg.eigvalsh(self._G.T @ M @ self._G)[0])


def measure(path: Path) -> dict[str, Any]:
    """Return the figures of one file, or why it is refused."""
    check = check_model(path, effort_limit=_EFFORT)
    begin = time.perf_counter()
    try:
        tree, locked = load(path)
    except RobotDynamicsError as error:
        return {'errors': len(check.errors), 'note': f'refused: {error}'}
    figures = {
        'joints': f'{tree.n} ({tree.bodies})',
        'load_ms': (time.perf_counter() - begin) * 1e3,
        'errors': len(check.errors),
        'remarks': len(tree.remarks),
        'note': f'locked, since nothing moves with it: {", ".join(locked)}' if locked else '',
    }
    with tempfile.TemporaryDirectory() as empty:
        with patch.dict(os.environ, {'ROBOT_DYNAMICS_CACHE': empty}):
            begin = time.perf_counter()
            kernel = compile_kernel(tree, outputs=('inverse_dynamics',)).inverse_dynamics
            figures['compile_s'] = time.perf_counter() - begin
        return figures | _compared(tree, kernel)


def _compared(tree: RobotTree, kernel: Any) -> dict[str, float]:
    oracle, tau = Pinocchio(tree), np.zeros(tree.n)
    deviations, eigenvalues = [], []
    for q, v, a in _motions(tree):
        kernel(q, v, a, tau)
        expected = oracle.inverse_dynamics(q, v, a)
        deviations.append(np.max(np.abs(tau - expected)) / np.max(np.abs(expected)))
        eigenvalues.append(oracle.least_eigenvalue(q))
    ours = {'f': kernel, 'q': q, 'v': v, 'a': a, 'tau': tau}
    theirs = {'f': oracle.library.rnea, 'x': (oracle.model, oracle.data, *oracle.state(q, v, a))}
    times = race(
        {'call_ns': Contender('f(q, v, a, tau)', ours), 'rnea_ns': Contender('f(*x)', theirs)}
    )
    return {'deviation': max(deviations), 'eigenvalue': min(eigenvalues)} | times


def _motions(tree: RobotTree) -> Iterator[Any]:
    rng = np.random.default_rng(0)
    lower, upper = np.maximum(tree.position_lower, -3.0), np.minimum(tree.position_upper, 3.0)
    for _ in range(_STATES):
        yield rng.uniform(lower, upper), rng.normal(size=tree.n), rng.normal(size=tree.n)


def main() -> int:
    """Measure all, print and write a table."""
    measured = {}
    for name, path in files().items():
        note(f'measuring {name} ...')
        measured[name] = measure(path)
    rows = [
        (name, *(figures.get(column, '') for column in _COLUMNS))
        for name, figures in measured.items()
    ]
    title = f'Robots of example-robot-data\n{machine()}'
    show(title, ('robot', *_COLUMNS.values()), rows, width=220)
    refused = sum('refused' in row['note'] for row in measured.values())
    worst = max((row.get('deviation', 0.0) for row in measured.values()), default=0.0)
    print(f'{len(measured) - refused} of {len(measured)} load; largest deviation {worst:.1e}')
    save('arms.json', measured)
    return 0
