# SPDX-License-Identifier: Apache-2.0
r"""Friction that real drives have beyond the viscous and Coulomb friction of a URDF.

.. math:: \tau_f = \tau_0 + \mu\,|\tau_l|\,d + k_{1/2}\sqrt{|v|}\,d + k_2\,v|v| + k_3\,v^3
    + \tau_s\,e^{-(v/v_s)^2}\,d, \qquad d = \mathrm{sign}\,v

with the effort :math:`\tau_l` of the rigid bodies that loads the gear. Command ``identify`` writes
these terms, joint by joint, into ``parameters.yaml``.

Source: Bittencourt and Gunnarsson 2012 (load, speed, Stribeck effect).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.spatial.scalar import Array

#: Effort by a unit of each term: of velocity, its direction, load and Stribeck velocity.
FRICTION_TERMS: dict[str, Callable[[Array, Array, Array, Array], Array]] = {
    'offset': lambda v, d, load, vs: np.ones_like(v),
    'load_friction': lambda v, d, load, vs: np.abs(load) * d,
    'root_friction': lambda v, d, load, vs: np.sqrt(np.abs(v)) * d,
    'square_friction': lambda v, d, load, vs: v * np.abs(v),
    'cubic_friction': lambda v, d, load, vs: v**3,
    'stribeck_friction': lambda v, d, load, vs: np.exp(-np.square(v / vs)) * d,
}


@dataclass(frozen=True, eq=False)
class DriveFriction:
    """The terms of every joint of one robot.

    Attributes:
        values: By name, some of ``FRICTION_TERMS``, shape (n,) each.
        stribeck_velocity: Speed at which the Stribeck effect is mostly gone, shape (n,), rad/s
            or m/s.
    """

    values: Mapping[str, Array]
    stribeck_velocity: Array

    @classmethod
    def read(cls, path: str | os.PathLike[str], joints: Sequence[str]) -> DriveFriction:
        """Return the terms that command ``identify`` wrote.

        Args:
            path: Its ``parameters.yaml``.
            joints: Names of the robot's joints, in its order.

        Raises:
            ConfigurationError: The file cannot be read, or lacks a number; names it.
        """
        try:
            data = yaml.safe_load(Path(path).read_text(encoding='utf-8'))
            if 'effort_unit' in data:
                raise ValueError(f'its terms are in {data["effort_unit"]}, not in N m or N')
            rows = data['joints']
            values = {
                term: np.array([float(rows[name].get(term, 0.0)) for name in joints])
                for term in FRICTION_TERMS
            }
            speed = np.array([float(rows[name]['stribeck_velocity']) for name in joints])
        except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConfigurationError(
                f'friction in {os.fspath(path)!r}',
                f'cannot be read: {" ".join(str(error).split())}',
                'give the parameters.yaml of command identify for this robot',
            ) from error
        if not (np.isfinite([*values.values()]).all() and (speed > 0.0).all()):
            raise ConfigurationError(
                f'friction in {os.fspath(path)!r}', 'holds a number that is none', 'correct it'
            )
        return cls(values, speed)

    def effort(self, v: Array, load: Array) -> Array:
        """Return the friction, new array of the shape of v, N m or N; 0 but the offset at rest.

        Args:
            v: Velocities, shape (..., n), rad/s or m/s.
            load: Efforts of the rigid bodies alone, same shape.
        """
        direction, vs = np.sign(v), self.stribeck_velocity
        parts = [
            value * FRICTION_TERMS[term](v, direction, load, vs)
            for term, value in self.values.items()
        ]
        return np.asarray(np.sum(parts, axis=0))
