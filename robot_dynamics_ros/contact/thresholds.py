# SPDX-License-Identifier: Apache-2.0
r"""From which external effort on it is a contact: a dead band for each joint and kind of contact.

.. math:: d = d_0 + d_v\,|v| + d_a\,|ID(q, v, a) - g(q)| + d_f\,\tau_c\,u(v)

A wrong model errs the more, the faster the arm moves, the more effort its acceleration takes, and
by the dry friction :math:`\tau_c` under the present load (Coulomb, of loaded gears, Stribeck) as
long as its direction is not sure; a fifth of it never is (u, see ``ContactDetector``). The
coefficients are learned from recordings without contact, by command ``calibrate``: the smallest
dead band on the average that holds all of what was recorded, widened to the rate of false alarms
that is asked for (``calibration``).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from robot_dynamics_ros.contact.effort_fit import TERMS, EffortFit
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array

#: Kinds of contact: fast changes of the external effort, and slow ones.
KINDS = ('hit', 'push')
#: What a dead band grows with, in the order of its coefficients.
GROWTH = ('base', 'by_speed', 'by_acceleration', 'by_friction')
_COARSE = (0.1, 0.0, 0.2, 1.0)  # without calibration; the first of the effort limits


@dataclass(frozen=True, eq=False)
class ContactThresholds:
    """Dead bands of a robot.

    Attributes:
        coefficients: By kind, joint and growth, shape (2, n, 4), in the order of ``KINDS`` and
            ``GROWTH``; N m or N, and by rad/s or m/s.
        bandwidth: K of the observer that they hold for, shape (n,), 1/s; zero: any.
        delay: Time from a command to the states that show it, besides the period, s.
        fit: How measured efforts follow from the model; None: as described.
    """

    coefficients: Array
    bandwidth: Array
    delay: float = 0.0
    fit: EffortFit | None = None

    @classmethod
    def coarse(cls, tree: RobotTree) -> ContactThresholds:
        """Return dead bands for an arm of which nothing is known but its limits."""
        rows = np.tile(_COARSE, (len(KINDS), tree.n, 1))
        rows[:, :, 0] *= tree.effort_limit
        return cls(rows, np.zeros(tree.n))

    @classmethod
    def read(cls, path: str | os.PathLike[str], joints: Sequence[str]) -> ContactThresholds:
        """Return what command ``calibrate`` wrote.

        Args:
            path: Its file.
            joints: Names of the robot's joints, in its order.

        Raises:
            ConfigurationError: The file cannot be read, or lacks a number; names it.
        """
        try:
            data = yaml.safe_load(Path(path).read_text(encoding='utf-8'))
            rows = [data['joints'][name] for name in joints]
            table = [[[float(row[k][x]) for x in GROWTH] for row in rows] for k in KINDS]
            bandwidth = [float(row['observer_bandwidth']) for row in rows]
            delay = float(data['delay_s'])
            fits = [[float(x) for x in row['fit'].values()] for row in rows if 'fit' in row]
            fit = EffortFit(np.array(fits).reshape(len(rows), len(TERMS))) if fits else None
        except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError) as error:
            problem = f'cannot be read: {type(error).__name__}: {" ".join(str(error).split())}'
            raise _refusal(path, problem) from error
        thresholds = cls(np.array(table), np.array(bandwidth), delay, fit)
        numbers = np.append(thresholds.coefficients, [delay])
        if not (np.isfinite(numbers).all() and (numbers >= 0.0).all() and delay <= 1.0):
            raise _refusal(path, 'holds a number that is negative or none, or a delay above 1 s')
        if not (thresholds.coefficients[:, :, 0] > 0.0).all():
            raise _refusal(path, 'holds a base that is not positive')
        return thresholds

    def write(self, path: Path, joints: Sequence[str], remarks: dict[str, Any]) -> None:
        """Write them for ``read``, with remarks about where they come from."""
        rows = {
            name: {'observer_bandwidth': float(self.bandwidth[j])}
            | {
                kind: dict(zip(GROWTH, self.coefficients[k, j].tolist(), strict=True))
                for k, kind in enumerate(KINDS)
            }
            | self._fit_row(j)
            for j, name in enumerate(joints)
        }
        content = {**remarks, 'delay_s': float(self.delay), 'joints': rows}
        path.write_text(yaml.safe_dump(content, sort_keys=False), encoding='utf-8')

    def _fit_row(self, j: int) -> dict[str, Any]:
        if self.fit is None:
            return {}
        return {'fit': dict(zip(TERMS, self.fit.coefficients[j].tolist(), strict=True))}

    def suits(self, bandwidth: Array) -> bool:
        """Return whether they hold for an observer of this bandwidth, shape (n,), 1/s."""
        return bool(np.allclose(self.bandwidth, bandwidth) or not self.bandwidth.any())


def _refusal(path: str | os.PathLike[str], problem: str) -> ConfigurationError:
    subject = f'contact thresholds in {os.fspath(path)!r}'
    return ConfigurationError(subject, problem, 'give the file of command calibrate')
