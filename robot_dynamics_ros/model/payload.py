# SPDX-License-Identifier: Apache-2.0
"""A rigid payload fixed to a frame of the robot."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from robot_dynamics_ros.errors import ModelError
from robot_dynamics_ros.model.robot_tree import Robot
from robot_dynamics_ros.parameters import Parameter, Values
from robot_dynamics_ros.spatial.inertia import (
    RigidBodyInertia,
    combine,
    inconsistency,
    symmetric_tensor,
)
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.spatial.validation import array, require_numbers

P = Parameter
_ROUNDING = 1e-9  # relative asymmetry of a tensor, as of a rotated one

#: Payload parameters of the nodes.
PAYLOAD = (
    P('payload_mass', 0.0, 'Mass fixed to payload_frame; 0: no payload.', 0.0, 1e6, unit='kg'),
    P('payload_com', [0.0, 0.0, 0.0], 'Centre of mass in payload_frame.', -10.0, 10.0, unit='m',
      size=3),
    P('payload_inertia', [0.0] * 6, 'Tensor about the centre of mass: xx, xy, xz, yy, yz, zz; '
      'all 0: point mass.', -1e6, 1e6, unit='kg m^2', size=6, entries='xx, xy, xz, yy, yz, zz'),
    P('payload_frame', 'tool', 'Link that carries the payload.'),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Payload:
    """Mass and inertia of a rigid payload, and the frame that it is fixed to.

    Attributes:
        mass: kg.
        com: Centre of mass in the frame, shape (3,), m.
        inertia: Tensor about the centre of mass in the frame's axes, shape (3, 3), kg m^2; zero
            for a point mass.
        frame: Name of the link that carries the payload.
    """

    mass: float
    com: Array = field(default_factory=lambda: np.zeros(3))
    inertia: Array = field(default_factory=lambda: np.zeros((3, 3)))
    frame: str = 'tool'


def payload_from_parameters(values: Values) -> Payload | None:
    """Return the payload described by parameters; None if its mass is 0.

    Args:
        values: Values of the parameters in ``PAYLOAD``, by name.
    """
    if not values['payload_mass']:
        return None
    return Payload(
        values['payload_mass'],
        np.array(values['payload_com'], dtype=float),
        symmetric_tensor(values['payload_inertia']),
        values['payload_frame'],
    )


def loaded(tree: Robot, values: Values) -> Robot:
    """Return the robot with the payload that parameters describe, if they do.

    Raises:
        RobotDynamicsError: As :func:`with_payload`.
    """
    payload = payload_from_parameters(values)
    return tree if payload is None else with_payload(tree, payload)


def with_payload(tree: Robot, payload: Payload) -> Robot:
    """Return the robot with a payload lumped into the body that carries it.

    Args:
        tree: The robot.
        payload: The payload.

    Returns:
        New tree; mass, com and inertia of one body differ.

    Raises:
        UnknownNameError: The frame does not exist.
        ShapeError, ParameterError, NonFiniteError: com or inertia is no such array.
        ModelError: The payload is not physically consistent, or is fixed to the base, where it
            has no effect.
    """
    _check(payload)
    body, load = on_body(tree, payload)
    bare = RigidBodyInertia(tree.mass[body], tree.com[body], tree.inertia[body])
    combined = combine([bare, load])
    mass, com, inertia = tree.mass.copy(), tree.com.copy(), tree.inertia.copy()
    mass[body], com[body], inertia[body] = combined.mass, combined.com, combined.inertia
    return tree.with_changes(mass=mass, com=com, inertia=inertia)


def on_body(tree: Robot, payload: Payload) -> tuple[int, RigidBodyInertia]:
    """Return the index of the body that carries a payload, and its inertia in that body's frame.

    Raises:
        UnknownNameError: The frame does not exist.
        ModelError: It is fixed to the base.
    """
    frame = tree.moving_frame(payload.frame, 'payload_frame')
    com, inertia = np.asarray(payload.com, float), np.asarray(payload.inertia, float)
    load = RigidBodyInertia(payload.mass, com, inertia)
    return frame.body, load.transformed(frame.R_BF, frame.p_BF)


def _check(payload: Payload) -> None:
    culprit = f'payload on {payload.frame!r}'
    for name, shape in (('com', (3,)), ('inertia', (3, 3))):
        array(f'{name} of the {culprit}', getattr(payload, name), shape)
    require_numbers(**{f'mass of the {culprit}': payload.mass})
    if not 0.0 < payload.mass < np.inf:
        raise ModelError(culprit, f'mass {payload.mass:g} kg', 'the mass must be positive')
    inertia = np.asarray(payload.inertia, float)
    if np.abs(inertia - inertia.T).max() > _ROUNDING * np.abs(inertia).max():
        raise ModelError(culprit, 'inertia is not symmetric', 'give a symmetric tensor')
    problem = inconsistency(inertia) if inertia.any() else ''
    if problem:
        raise ModelError(
            culprit,
            f'inertia {problem}',
            'a real body has positive principal moments, each at most the sum of the others',
        )
