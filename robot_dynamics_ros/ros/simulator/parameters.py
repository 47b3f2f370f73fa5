# SPDX-License-Identifier: Apache-2.0
"""The simulator node's parameters, and the plant that they describe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from robot_dynamics_ros.errors import ParameterError, UnknownNameError
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.ros.parameters import ParameterSpec
from robot_dynamics_ros.ros.payload_parameters import PAYLOAD as CARRIED
from robot_dynamics_ros.ros.payload_parameters import (
    payload_from_parameters as payload_from_parameters,
)
from robot_dynamics_ros.simulation.imperfections import Imperfections, ImperfectPlant
from robot_dynamics_ros.simulation.model_error import Mismatch, with_mismatch
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant
from robot_dynamics_ros.simulation.plant import Plant
from robot_dynamics_ros.spatial.scalar import Array

P = ParameterSpec

MODES = ('lockstep', 'real_time')
ON_PEER_TIMEOUT = ('wait', 'exit', 'zero')
ON_END = ('pause', 'exit')
COMMAND_FORMS = ('group', 'per_joint')

#: Which robot is simulated.
ROBOT = (
    P('robot', '', 'Name of a shipped robot; empty: take robot_description.', fixed=True),
    P('robot_description', '', 'URDF text; empty: take the topic robot_description.', fixed=True),
    P('limits_profile', '', 'Profile of joint limits of a shipped robot, if it has several.',
      fixed=True),
    P('prefix', '', "Prefix of a shipped robot's link and joint names.", fixed=True),
    P('joints', [''], 'Order of the efforts in the command. Empty: the order of the description.',
      fixed=True),
    P('gravity', [0.0, 0.0, -9.81], "Free-fall acceleration in the robot's base frame, m/s^2.",
      fixed=True),
    P('effort_limit', [0.0], 'Effort limit per joint, N m or N; 0: from the description.',
      fixed=True),
)  # fmt: skip

#: How time passes, and who is waited for.
TIME = (
    P('mode', 'lockstep', 'lockstep: each step waits for the command that answers its state; '
      'real_time: steps at a fixed rate, the last command is held.', fixed=True),
    P('period', 0.001, 'Time between two states, s.', 1e-5, 1.0, fixed=True),
    P('real_time_factor', 1.0, 'Simulated seconds per second, mode real_time.', 1e-3, 1e3,
      fixed=True),
    P('start_paused', False, 'Begin paused at the first state, until ~/pause is called with '
      'false.', fixed=True),
    P('end_time_s', 0.0, 'Simulated time at which the run ends, s; 0: never.', 0.0, 1e9),
    P('on_end', 'pause', 'At end_time_s: pause or exit.'),
    P('lockstep_timeout_s', 5.0, 'Wait for a command after which its sender is called missing, '
      's.', 0.05, 3600.0),
    P('on_peer_timeout', 'wait', 'After that wait: wait (warn and go on waiting), exit, or zero '
      '(step with zero effort).'),
    P('command_timeout_s', 0.0, 'Mode real_time: age of the last command at which zero effort '
      'acts, s; 0: never.', 0.0, 3600.0),
)  # fmt: skip

#: What is published and how commands come.
TOPICS = (
    P('command_form', 'group', 'group: one Float64MultiArray on effort_controller/commands; '
      'per_joint: one Float64 on <joint>/cmd_force each.', fixed=True),
    P('publish_clock', True, 'Whether /clock is published.', fixed=True),
    P('clock_period', 0.01, 'Simulated time between two messages of /clock, s.', 1e-5, 1.0,
      fixed=True),
    P('publish_description', True, 'Whether robot_description is published, latched, if it did '
      'not come by topic.', fixed=True),
    P('republish_period_s', 0.02, 'Wall time after which an unanswered or paused state is sent '
      'again, s.', 0.001, 10.0, fixed=True),
)  # fmt: skip

#: What moves.
PLANT = (
    P('substeps', 1, 'Integration steps per period.', 1, 1000, fixed=True),
    P('integrator', 'euler', 'euler (semi-implicit), implicitfast or rk4.', fixed=True),
    P('joint_limits', True, 'Whether joints end at their position limits.', fixed=True),
    P('pins', [''], 'Closed loops: pairs of frames whose origins are pinned together, one name '
      'after the other.', fixed=True),
    P('initial_position', [0.0], 'First positions, rad or m, one per joint; a single number is '
      'taken for all, moved into the limits.', fixed=True),
    P('initial_velocity', [0.0], 'First velocities, rad/s or m/s (one for all or one per joint).',
      fixed=True),
    P('mass_factor', [1.0], 'Model error: factor on mass and inertia (one for all or one per '
      'joint).', fixed=True),
    P('damping_factor', [1.0], 'Model error: factor on the viscous friction.', fixed=True),
    P('coulomb_friction_factor', [1.0], 'Model error: factor on Coulomb friction.', fixed=True),
    P('armature_factor', [1.0], 'Model error: factor on the drive inertia.', fixed=True),
    P('com_shift', [0.0, 0.0, 0.0], 'Model error: displacement of the centres of mass along the '
      'link axes, m.', fixed=True),
    P('position_resolution', [0.0], 'Encoder step, rad or m (one for all or one per joint).',
      fixed=True),
    P('velocity_from_encoder', False, 'Whether velocity is the difference of encoder readings.',
      fixed=True),
    P('position_noise', [0.0], 'Standard deviation of positions, rad or m.', fixed=True),
    P('velocity_noise', [0.0], 'Standard deviation of velocities, rad/s or m/s.', fixed=True),
    P('measurement_delay', 0, 'Periods by which the state is late.', 0, 10000, fixed=True),
    P('command_delay', 0, 'Periods by which the effort acts late.', 0, 10000, fixed=True),
    P('noise_seed', 0, 'Seed of the noise.', 0, 2**31 - 1, fixed=True),
)  # fmt: skip

#: What is carried; may change while the node runs.
PAYLOAD = (
    *CARRIED,
    P('payload_time_s', 0.0, 'Simulated time at which it is taken, s.', 0.0, 1e9),
)  # fmt: skip

SIMULATOR = (*ROBOT, *TIME, *TOPICS, *PLANT, *PAYLOAD)
PAYLOAD_NAMES = frozenset(spec.name for spec in PAYLOAD)


def check_choices(given: Mapping[str, Any]) -> None:
    """Refuse names that do not exist.

    Raises:
        UnknownNameError: Lists the names that do.
    """
    choices = {
        'mode': MODES,
        'on_peer_timeout': ON_PEER_TIMEOUT,
        'on_end': ON_END,
        'command_form': COMMAND_FORMS,
    }
    for name, known in choices.items():
        if name in given and given[name] not in known:
            raise UnknownNameError(name, given[name], known)


def plant_from_parameters(tree: RobotTree, given: Mapping[str, Any]) -> Plant:
    """Return the plant at its initial state, model error and imperfections applied.

    Raises:
        ParameterError: A value is refused.
        ModelError: The simulator refuses the model.
    """
    return imperfect(exact_plant(tree, given), given)


def exact_plant(tree: RobotTree, given: Mapping[str, Any]) -> MujocoPlant:
    """Return the plant at its initial state, model error applied, seen as it is."""
    real = with_mismatch(
        tree,
        Mismatch(
            mass=given['mass_factor'],
            damping=given['damping_factor'],
            coulomb_friction=given['coulomb_friction_factor'],
            armature=given['armature_factor'],
            com_shift=given['com_shift'],
        ),
    )
    plant = MujocoPlant(
        real,
        given['period'],
        substeps=given['substeps'],
        integrator=given['integrator'],
        joint_limits=given['joint_limits'],
        pins=_pairs(given['pins']),
    )
    plant.reset(*initial_state(tree, given))
    return plant


def imperfect(plant: Plant, given: Mapping[str, Any]) -> Plant:
    """Return a plant seen and driven through the imperfections that the parameters describe."""
    imperfections = Imperfections(
        position_resolution=given['position_resolution'],
        velocity_from_encoder=given['velocity_from_encoder'],
        position_noise=given['position_noise'],
        velocity_noise=given['velocity_noise'],
        measurement_delay=given['measurement_delay'],
        command_delay=given['command_delay'],
        seed=given['noise_seed'],
    )
    return plant if imperfections.perfect else ImperfectPlant(plant, imperfections)


def _pairs(names: list[str]) -> list[tuple[str, str]]:
    """Return names two by two."""
    names = [name for name in names if name]
    if len(names) % 2:
        raise ParameterError('pins', names, 'give an even number of frames, two for each pin')
    return list(zip(names[::2], names[1::2], strict=True))


def initial_state(tree: RobotTree, given: Mapping[str, Any]) -> tuple[Array, Array]:
    """Return the first positions and velocities, each new, shape (n,).

    Raises:
        ParameterError: A count is neither 1 nor n, or a position is outside its limits.
    """
    q = _per_joint(tree, 'initial_position', given['initial_position'])
    if len(given['initial_position']) == 1 < tree.n:
        q = np.clip(q, tree.position_lower, tree.position_upper)
    for name, x, lower, upper in zip(
        tree.joint_names, q, tree.position_lower, tree.position_upper, strict=True
    ):
        if not lower <= x <= upper:
            raise ParameterError(
                'initial_position', x, f'the limits of joint {name!r} are {lower:g} to {upper:g}'
            )
    return q, _per_joint(tree, 'initial_velocity', given['initial_velocity'])


def _per_joint(tree: RobotTree, name: str, value: list[float]) -> Array:
    if len(value) not in (1, tree.n) or not np.isfinite(value).all():
        raise ParameterError(name, value, f'give one finite number or {tree.n}')
    return np.full(tree.n, value[0]) if len(value) == 1 else np.array(value, dtype=float)
