# SPDX-License-Identifier: Apache-2.0
"""Parameters of simulator and driver emulator, and the plants that they describe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.control.drivers.profile import COMMAND, DriverProfile
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.model.load import ROBOT
from robot_dynamics_ros.model.payload import PAYLOAD
from robot_dynamics_ros.parameters import Parameter, checked, spread
from robot_dynamics_ros.simulation.drives import DrivenPlant, Drives
from robot_dynamics_ros.simulation.imperfections import (
    Imperfections,
    ImperfectPlant,
    LinkBehavior,
    LinkedPlant,
    Mismatch,
    with_mismatch,
)
from robot_dynamics_ros.simulation.mujoco_description import Board
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant
from robot_dynamics_ros.simulation.plant import Plant
from robot_dynamics_ros.spatial.scalar import Array

P = Parameter

MODES = ('lockstep', 'real_time')
ON_PEER_TIMEOUT = ('wait', 'exit', 'zero')
ON_END = ('pause', 'exit')

#: How time passes, and who is waited for.
TIME = (
    P('mode', 'lockstep', 'lockstep: each step waits for the command that answers its state; '
      'real_time: steps at a fixed rate, the last command is held.', choices=MODES, fixed=True),
    P('period', 0.001, 'Time between two states.', 1e-5, 1.0, unit='s', fixed=True),
    P('real_time_factor', 1.0, 'Simulated seconds per second, mode real_time.', 0.001, 1000.0,
      fixed=True),
    P('start_paused', False, 'Begin paused at the first state, until ~/pause is called with '
      'false.', fixed=True),
    P('end_time_s', 0.0, 'Simulated time at which the run ends, s; 0: never.', 0.0, 1e9),
    P('on_end', 'pause', 'At end_time_s: pause or exit.', choices=ON_END),
    P('lockstep_timeout_s', 5.0, 'Wait for a command after which its sender is called missing.',
      0.05, 3600.0, unit='s'),
    P('on_peer_timeout', 'wait', 'After that wait: wait (warn and go on waiting), exit, or '
      'zero (step with zero effort).', choices=ON_PEER_TIMEOUT),
    P('command_timeout_s', 0.0, 'Mode real_time: age of the last command at which zero effort '
      'acts, s; 0: never.', 0.0, 3600.0),
)  # fmt: skip

#: What is published and how commands come.
TOPICS = (
    *COMMAND,
    P('publish_clock', True, 'Whether /clock is published.', fixed=True),
    P('clock_period', 0.01, 'Simulated time between two messages of /clock.', 1e-5, 1.0, unit='s',
      fixed=True),
    P('publish_description', True, 'Whether robot_description is published, latched, if it did '
      'not come by topic.', fixed=True),
    P('republish_period_s', 0.02, 'Wall time after which an unanswered or paused state is sent '
      'again.', 0.001, 10.0, unit='s', fixed=True),
)  # fmt: skip

#: What moves.
PLANT = (
    P('substeps', 1, 'Integration steps per period.', 1, 1000, fixed=True),
    P('integrator', 'euler', 'euler (semi-implicit), implicitfast or rk4.',
      choices=('euler', 'implicitfast', 'rk4'), fixed=True),
    P('joint_limits', True, 'Whether joints end at their position limits.', fixed=True),
    P('pins', [''], 'Closed loops: pairs of frames whose origins are pinned together, one name '
      'after the other.', fixed=True),
    P('initial_position', [0.0], 'First positions, rad or m, one per joint; a single number is '
      'taken for all, moved into the limits.', per_joint=True, fixed=True),
    P('initial_velocity', [0.0], 'First velocities.', unit='rad/s or m/s', per_joint=True,
      fixed=True),
    P('position_resolution', [0.0], 'Encoder step.', 0.0, unit='rad or m', per_joint=True,
      fixed=True),
    P('velocity_from_encoder', False, 'Whether velocity is the difference of encoder readings.',
      fixed=True),
    P('position_noise', [0.0], 'Standard deviation of positions.', 0.0, unit='rad or m',
      per_joint=True, fixed=True),
    P('velocity_noise', [0.0], 'Standard deviation of velocities.', 0.0, unit='rad/s or m/s',
      per_joint=True, fixed=True),
    P('measurement_delay', 0, 'Periods by which the state is late.', 0, 10000, fixed=True),
    P('command_delay', 0, 'Periods by which the effort acts late.', 0, 10000, fixed=True),
    P('noise_seed', 0, 'Seed of the noise.', 0, 2**31 - 1, fixed=True),
)  # fmt: skip

#: In what the simulated robot differs from its description; may change while the node runs.
MISMATCH = (
    P('mass_factor', [1.0], 'Model error: factor on mass and inertia.', per_joint=True),
    P('damping_factor', [1.0], 'Model error: factor on the viscous friction.', per_joint=True),
    P('coulomb_friction_factor', [1.0], 'Model error: factor on Coulomb friction.', 0.0,
      per_joint=True),
    P('armature_factor', [1.0], 'Model error: factor on the drive inertia.', per_joint=True),
    P('com_shift', [0.0, 0.0, 0.0], 'Model error: displacement of the centres of mass along '
      'the link axes.', unit='m', size=3),
)  # fmt: skip

#: What is carried; may change while the node runs.
SIMULATED_PAYLOAD = (
    *PAYLOAD,
    P('payload_time_s', 0.0, 'Simulated time at which it is taken.', 0.0, 1e9, unit='s'),
)  # fmt: skip

PUSH = (
    P('push_timeout_s', 0.5, 'Simulated time for which a push acts if no other comes.',
      0.0, 1e9, unit='s'),
)  # fmt: skip

#: What it may press on, as ``simulation.mujoco_description`` has it.
BOARD = (
    P('board_program', '', 'Constraint program on whose plane with a contact a board is, also '
      'where that moves; empty: none.', fixed=True),
    P('board_stiffness', 1e4, 'Of the spring on which the board is, across it.', 1.0, 1e7,
      unit='N/m', fixed=True),
    P('board_damping', 0.0, 'Of that spring.', 0.0, unit='N s/m', fixed=True),
    P('board_mass', 1.0, 'Of the board.', 1e-3, 1e3, unit='kg', fixed=True),
    P('board_friction', 0.0, 'Coefficient of Coulomb friction on the board.', 0.0, 10.0,
      fixed=True),
    P('board_offset', 0.0, 'How far the board is beyond where the program expects it, along the '
      'normal.', unit='m', fixed=True),
    P('wrench_topic', '', 'Topic of a force sensor at the link that touches the board, published '
      'before each state; empty: none.', fixed=True),
)  # fmt: skip

SIMULATOR = (*ROBOT, *TIME, *TOPICS, *PLANT, *MISMATCH, *BOARD, *SIMULATED_PAYLOAD, *PUSH)
MISMATCH_NAMES = frozenset(one.name for one in MISMATCH)
PAYLOAD_NAMES = frozenset(one.name for one in SIMULATED_PAYLOAD)


def plant_from_parameters(tree: RobotTree, settings: Mapping[str, Any]) -> Plant:
    """Return the plant at its initial state, model error and imperfections applied.

    Raises:
        ParameterError: A value is refused.
        ModelError: The simulator refuses the model.
    """
    return imperfect(exact_plant(tree, settings), settings)


def exact_plant(tree: RobotTree, settings: Mapping[str, Any]) -> MujocoPlant:
    """Return the plant at its initial state, model error applied, seen as it is."""
    plant = MujocoPlant(
        mistaken(tree, settings),
        settings['period'],
        substeps=settings['substeps'],
        integrator=settings['integrator'],
        joint_limits=settings['joint_limits'],
        pins=_pairs(settings['pins']),
        board=board_from_parameters(tree, settings),
    )
    plant.reset(*initial_state(tree, settings))
    return plant


def board_from_parameters(tree: RobotTree, settings: Mapping[str, Any]) -> Board | None:
    """Return what the robot may press on, or None.

    Raises:
        RobotDynamicsError: The program is refused, or presses on no plane.
    """
    if not settings['board_program']:
        return None
    program = load_program(settings['board_program'], tree, check=False)
    names = ('stiffness', 'damping', 'mass', 'friction', 'offset')
    return Board.expected_by(program, **{name: settings[f'board_{name}'] for name in names})


def mistaken(tree: RobotTree, settings: Mapping[str, Any]) -> RobotTree:
    """Return a robot as it is simulated: its description with the model error of the parameters.

    Raises:
        ParameterError: A value is refused.
    """
    mismatch = Mismatch(
        mass=settings['mass_factor'],
        damping=settings['damping_factor'],
        coulomb_friction=settings['coulomb_friction_factor'],
        armature=settings['armature_factor'],
        com_shift=settings['com_shift'],
    )
    return with_mismatch(tree, mismatch)


def imperfect(plant: Plant, settings: Mapping[str, Any]) -> Plant:
    """Return a plant seen and driven through the imperfections that the parameters describe."""
    imperfections = Imperfections(
        position_resolution=settings['position_resolution'],
        velocity_from_encoder=settings['velocity_from_encoder'],
        position_noise=settings['position_noise'],
        velocity_noise=settings['velocity_noise'],
        measurement_delay=settings['measurement_delay'],
        command_delay=settings['command_delay'],
        seed=settings['noise_seed'],
    )
    return plant if imperfections.perfect else ImperfectPlant(plant, imperfections)


def _pairs(names: list[str]) -> list[tuple[str, str]]:
    """Return names two by two."""
    names = [name for name in names if name]
    if len(names) % 2:
        raise ParameterError('pins', names, 'give an even number of frames, two for each pin')
    return list(zip(names[::2], names[1::2], strict=True))


def initial_state(tree: RobotTree, settings: Mapping[str, Any]) -> tuple[Array, Array]:
    """Return the first positions and velocities, each new, shape (n,).

    Raises:
        ParameterError: A count is neither 1 nor n, or a position is outside its limits.
    """
    settings = checked(PLANT, settings, tree.n)
    q = np.array(spread(settings['initial_position'], tree.n))
    if len(settings['initial_position']) == 1 < tree.n:
        q = np.clip(q, tree.position_lower, tree.position_upper)
    for name, x, lower, upper in zip(
        tree.joint_names, q, tree.position_lower, tree.position_upper, strict=True
    ):
        if not lower <= x <= upper:
            raise ParameterError(
                'initial_position', x, f'the limits of joint {name!r} are {lower:g} to {upper:g}'
            )
    return q, np.array(spread(settings['initial_velocity'], tree.n))


# Behind a driver ---------------------------------------------------------------------------------

OWN_CONTROLLERS = ('hold', 'none')

#: What the profile decides instead, and what a driver is like unless told otherwise.
_DECIDED = frozenset({'joints', 'command_form', 'period'})
_DEFAULTS = {
    'mode': 'real_time',
    'publish_clock': False,
    'substeps': 4,
    'velocity_from_encoder': True,
    'position_resolution': [1e-5],
    'command_timeout_s': 0.1,
}

DRIVER = (
    P('driver_profile', 'generic_ros2_control', 'Driver profile that is emulated: YAML file, '
      'or name of a shipped one. It decides topics, names, units and the period.', fixed=True),
    P('own_controller', 'hold', "The driver's own controller, until the first command and "
      'after the last: hold (a stiff position controller) or none. Mode real_time.',
      choices=OWN_CONTROLLERS, fixed=True),
    P('own_position', [0.0], 'Where it holds, rad or m, one per joint; a single number: where '
      'the arm is.', per_joint=True),
    P('own_speed', 0.5, 'Speed at which it goes there.', 0.001, 10.0, unit='rad/s or m/s'),
    P('rate_check', True, 'Whether a command that changes faster than the profile allows makes '
      'the driver stop with a reflex, until ~/recover is called.', fixed=True),
    P('torque_ripple', [0.0], 'Part of the effort that alternates with the position.',
      per_joint=True, fixed=True),
    P('cogging', [0.0], 'Effort that alternates with the position.', unit='N m or N',
      per_joint=True, fixed=True),
    P('ripple_periods', [20.0], 'Periods of both per rad or m, times 2 pi.', per_joint=True,
      fixed=True),
    P('breakaway', [1.0], 'Coulomb friction at rest by that in motion, at least 1.', 1.0,
      per_joint=True, fixed=True),
    P('command_jitter', 0, 'Most periods by which a command is late at random.', 0, 1000,
      fixed=True),
    P('state_jitter', 0, 'The same of a state.', 0, 1000, fixed=True),
    P('command_loss', 0.0, 'Probability that a command is lost.', 0.0, 0.99, fixed=True),
    P('state_loss', 0.0, 'Probability that a state is lost.', 0.0, 0.99, fixed=True),
)  # fmt: skip

EMULATOR = (
    *(
        replace(one, default=_DEFAULTS.get(one.name, one.default))
        for one in SIMULATOR
        if one.name not in _DECIDED
    ),
    *DRIVER,
)


def as_emulated(settings: Mapping[str, Any], profile: DriverProfile) -> dict[str, Any]:
    """Return parameters with what the profile decides."""
    return {**settings, 'joints': [''], 'period': 1.0 / profile.state.rate_hz}


def emulated_plant(
    tree: RobotTree, settings: Mapping[str, Any], profile: DriverProfile
) -> tuple[LinkedPlant, DrivenPlant]:
    """Return the robot at the other end of its network, and the same at its drives.

    Raises:
        ParameterError: A value is refused.
    """
    drives = Drives(
        ripple=settings['torque_ripple'],
        cogging=settings['cogging'],
        periods=settings['ripple_periods'],
        breakaway=settings['breakaway'],
        compensates=profile.compensated_by_driver,
        payload_known=profile.payload_known_to_driver,
    )
    driven = DrivenPlant(exact_plant(tree, settings), drives, tree)
    link = LinkBehavior(
        settings['command_jitter'],
        settings['state_jitter'],
        settings['command_loss'],
        settings['state_loss'],
        settings['noise_seed'],
    )
    return LinkedPlant(imperfect(driven, settings), link), driven


def own_position(tree: RobotTree, settings: Mapping[str, Any]) -> Array | None:
    """Return where the driver's own controller shall hold; None: where the arm is.

    Raises:
        ParameterError: The count is neither 1 nor n, or a position is outside its limits.
    """
    value = np.array(settings['own_position'], dtype=float)
    if value.size == 1 < tree.n:
        return None
    if value.size != tree.n or not np.isfinite(value).all():
        raise ParameterError('own_position', value.tolist(), f'give {tree.n} finite numbers')
    outside = (value < tree.position_lower) | (value > tree.position_upper)
    if outside.any():
        name = tree.joint_names[int(np.argmax(outside))]
        raise ParameterError('own_position', value.tolist(), f'joint {name!r} is out of limits')
    return value
