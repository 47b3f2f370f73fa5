# SPDX-License-Identifier: Apache-2.0
"""Parameters of the simulator and the driver emulator, and the plants built from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.control.drivers.profile import COMMAND, DriverProfile
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.model.payload import PAYLOAD
from robot_dynamics_ros.model.robot_parameters import ROBOT
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

#: Time, and waiting for commands.
TIME = (
    P('mode', 'lockstep', 'lockstep: each step waits for the command that answers its state; '
      'real_time: steps at a fixed rate, the last command is held.',
      choices=('lockstep', 'real_time'), fixed=True),
    P('period', 0.001, 'Time between two states.', 1e-5, 1.0, unit='s', fixed=True),
    P('real_time_factor', 1.0, 'Mode real_time: simulated seconds per second of wall time.',
      0.001, 1000.0, fixed=True),
    P('start_paused', False, 'Start paused at the initial state, until ~/pause is called with '
      'false.', fixed=True),
    P('end_time_s', 0.0, 'Simulated time at which the run ends, s; 0: never.', 0.0, 1e9),
    P('on_end', 'pause', 'Action at end_time_s: pause or exit.', choices=('pause', 'exit')),
    P('lockstep_timeout_s', 5.0, 'Mode lockstep: wall time without a command after which '
      'on_peer_timeout applies.', 0.05, 3600.0, unit='s'),
    P('on_peer_timeout', 'wait', 'Action after lockstep_timeout_s: wait (warn and keep waiting), '
      'exit, or zero (step with zero effort).',
      choices=('wait', 'exit', 'zero')),
    P('command_timeout_s', 0.0, 'Mode real_time: age of the last command after which zero effort '
      'is applied, s; 0: never.', 0.0, 3600.0),
)  # fmt: skip

#: Published topics and the form of commands.
TOPICS = (
    *COMMAND,
    P('publish_clock', True, 'Publish /clock.', fixed=True),
    P('clock_period', 0.01, 'Simulated time between two /clock messages.', 1e-5, 1.0, unit='s',
      fixed=True),
    P('publish_description', True, 'Publish robot_description (latched), unless the description '
      'was received on that topic.', fixed=True),
    P('republish_period_s', 0.02, 'Wall time after which an unanswered or paused state is '
      'published again.', 0.001, 10.0, unit='s', fixed=True),
)  # fmt: skip

#: Integration, initial state and sensors.
PLANT = (
    P('substeps', 1, 'Integration steps per period.', 1, 1000, fixed=True),
    P('integrator', 'euler', 'Integrator of MuJoCo: euler (semi-implicit), implicitfast or rk4.',
      choices=('euler', 'implicitfast', 'rk4'), fixed=True),
    P('joint_limits', True, 'Enforce the position limits of the joints.', fixed=True),
    P('pins', [''], 'Closed loops: frame names in pairs; the origins of each pair are pinned '
      'together.', fixed=True),
    P('initial_position', [0.0], 'Initial positions, rad or m, one per joint; a single number '
      'applies to all joints and is clamped to their limits.', per_joint=True, fixed=True),
    P('initial_velocity', [0.0], 'Initial velocities.', unit='rad/s or m/s', per_joint=True,
      fixed=True),
    P('position_resolution', [0.0], 'Encoder resolution; 0: exact.', 0.0, unit='rad or m',
      per_joint=True, fixed=True),
    P('velocity_from_encoder', False, 'Compute velocities as differences of consecutive encoder '
      'readings.', fixed=True),
    P('position_noise', [0.0], 'Standard deviation of the position noise.', 0.0, unit='rad or m',
      per_joint=True, fixed=True),
    P('velocity_noise', [0.0], 'Standard deviation of the velocity noise.', 0.0,
      unit='rad/s or m/s', per_joint=True, fixed=True),
    P('measurement_delay', 0, 'Delay of the measured state, in periods.', 0, 10000, fixed=True),
    P('command_delay', 0, 'Delay of the applied effort, in periods.', 0, 10000, fixed=True),
    P('noise_seed', 0, 'Seed of the random noise.', 0, 2**31 - 1, fixed=True),
)  # fmt: skip

#: Model error of the simulated robot relative to its description; may change at run time.
MISMATCH = (
    P('mass_factor', [1.0], 'Model error: factor on mass and inertia.', per_joint=True),
    P('damping_factor', [1.0], 'Model error: factor on viscous friction.', per_joint=True),
    P('coulomb_friction_factor', [1.0], 'Model error: factor on Coulomb friction.', 0.0,
      per_joint=True),
    P('armature_factor', [1.0], 'Model error: factor on the armature (drive inertia).',
      per_joint=True),
    P('com_shift', [0.0, 0.0, 0.0], 'Model error: displacement of the centres of mass along '
      'the link axes.', unit='m', size=3),
)  # fmt: skip

#: Payload; may change at run time.
SIMULATED_PAYLOAD = (
    *PAYLOAD,
    P('payload_time_s', 0.0, 'Simulated time at which the payload is attached.', 0.0, 1e9,
      unit='s'),
)  # fmt: skip

PUSH = (
    P('push_timeout_s', 0.5, 'Simulated time for which a push acts unless another one follows.',
      0.0, 1e9, unit='s'),
)  # fmt: skip

#: Board that the robot can press on, see ``simulation.mujoco_description``.
BOARD = (
    P('board_program', '', 'Constraint program with a contact on a plane; the board is placed on '
      'this plane and moves with it; empty: no board.', fixed=True),
    P('board_stiffness', 1e4, 'Stiffness of the spring that supports the board along its normal.',
      1.0, 1e7, unit='N/m', fixed=True),
    P('board_damping', 0.0, 'Damping of this spring.', 0.0, unit='N s/m', fixed=True),
    P('board_mass', 1.0, 'Mass of the board.', 1e-3, 1e3, unit='kg', fixed=True),
    P('board_friction', 0.0, 'Coefficient of Coulomb friction between board and robot.', 0.0,
      10.0, fixed=True),
    P('board_offset', 0.0, 'Displacement of the board along its normal from the plane of the '
      'program.', unit='m', fixed=True),
    P('wrench_topic', '', 'Topic of a simulated force sensor at the link that touches the board, '
      'published before each state; empty: none.', fixed=True),
)  # fmt: skip

SIMULATOR = (*ROBOT, *TIME, *TOPICS, *PLANT, *MISMATCH, *BOARD, *SIMULATED_PAYLOAD, *PUSH)
MISMATCH_NAMES = frozenset(one.name for one in MISMATCH)
PAYLOAD_NAMES = frozenset(one.name for one in SIMULATED_PAYLOAD)


def exact_plant(tree: RobotTree, settings: Mapping[str, Any]) -> MujocoPlant:
    """Return the plant at its initial state, with model error but without imperfections.

    Raises:
        ParameterError: A value is invalid.
        ModelError: MuJoCo rejects the model.
    """
    plant = MujocoPlant(
        with_model_error(tree, settings),
        settings['period'],
        substeps=settings['substeps'],
        integrator=settings['integrator'],
        joint_limits=settings['joint_limits'],
        pins=_pin_pairs(settings['pins']),
        board=board_from_parameters(tree, settings),
    )
    plant.reset(*initial_state(tree, settings))
    return plant


def board_from_parameters(tree: RobotTree, settings: Mapping[str, Any]) -> Board | None:
    """Return the board that the robot can press on, or None.

    Raises:
        RobotDynamicsError: The program is invalid or has no contact on a plane.
    """
    if not settings['board_program']:
        return None
    program = load_program(settings['board_program'], tree, check=False)
    names = ('stiffness', 'damping', 'mass', 'friction', 'offset')
    return Board.for_program(program, **{name: settings[f'board_{name}'] for name in names})


def with_model_error(tree: RobotTree, settings: Mapping[str, Any]) -> RobotTree:
    """Return the robot with the model error that the parameters describe.

    Raises:
        ParameterError: A value is invalid.
    """
    mismatch = Mismatch(
        mass=settings['mass_factor'],
        damping=settings['damping_factor'],
        coulomb_friction=settings['coulomb_friction_factor'],
        armature=settings['armature_factor'],
        com_shift=settings['com_shift'],
    )
    return with_mismatch(tree, mismatch)


def with_imperfections(plant: Plant, settings: Mapping[str, Any]) -> Plant:
    """Return the plant wrapped in the imperfections that the parameters describe, if any."""
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


def _pin_pairs(names: list[str]) -> list[tuple[str, str]]:
    """Return consecutive names as pairs."""
    names = [name for name in names if name]
    if len(names) % 2:
        raise ParameterError('pins', names, 'give an even number of frames, two for each pin')
    return list(zip(names[::2], names[1::2], strict=True))


def initial_state(tree: RobotTree, settings: Mapping[str, Any]) -> tuple[Array, Array]:
    """Return the initial positions and velocities as new arrays, shape (n,).

    Raises:
        ParameterError: A list has neither 1 nor n entries, or a position is outside its limits.
    """
    settings = checked(PLANT, settings, tree.n)
    q = np.array(spread(settings['initial_position'], tree.n))
    if len(settings['initial_position']) == 1 < tree.n:
        q = np.clip(q, tree.position_lower, tree.position_upper)
    _check_limits(tree, 'initial_position', q)
    return q, np.array(spread(settings['initial_velocity'], tree.n))


def _check_limits(tree: RobotTree, name: str, positions: Array) -> None:
    limits = zip(tree.joint_names, tree.position_lower, tree.position_upper, strict=True)
    for (joint, lower, upper), x in zip(limits, positions.tolist(), strict=True):
        if not lower <= x <= upper:
            wanted = f'the limits of joint {joint!r} are {lower:g} to {upper:g}'
            raise ParameterError(name, x, wanted)


# Driver emulator ---------------------------------------------------------------------------------

#: Simulator parameters that the profile replaces, and defaults that differ from the simulator's.
_SET_BY_PROFILE = frozenset({'joints', 'command_form', 'period'})
_DEFAULTS = {
    'mode': 'real_time',
    'publish_clock': False,
    'substeps': 4,
    'velocity_from_encoder': True,
    'position_resolution': [1e-5],
    'command_timeout_s': 0.1,
}

DRIVER = (
    P('driver_profile', 'generic_ros2_control', 'Driver profile to emulate: YAML file or name of '
      'a shipped profile. It defines topics, names, units and the period.', fixed=True),
    P('own_controller', 'hold', "Mode real_time: the driver's own controller, active before the "
      'first and after the last command: hold (a stiff position controller) or none.',
      choices=('hold', 'none'), fixed=True),
    P('own_position', [0.0], "Setpoint of the driver's own controller, rad or m, one per joint; a "
      'single number: the current position of the arm.', per_joint=True),
    P('own_speed', 0.5, "Speed at which the driver's own controller moves to own_position.", 0.001,
      10.0, unit='rad/s or m/s'),
    P('rate_check', True, 'Stop with a reflex, until ~/recover is called, if a command changes '
      'faster than the profile allows.', fixed=True),
    P('torque_ripple', [0.0], 'Amplitude of the torque ripple, as a fraction of the effort.',
      per_joint=True, fixed=True),
    P('cogging', [0.0], 'Amplitude of the cogging effort.', unit='N m or N', per_joint=True,
      fixed=True),
    P('ripple_periods', [20.0], 'Spatial angular frequency of ripple and cogging: 2 pi times '
      'their periods per rad or m.', per_joint=True, fixed=True),
    P('breakaway', [1.0], 'Ratio of the Coulomb friction at rest to that in motion.', 1.0,
      per_joint=True, fixed=True),
    P('command_jitter', 0, 'Maximum random delay of a command, in periods.', 0, 1000, fixed=True),
    P('state_jitter', 0, 'Maximum random delay of a state, in periods.', 0, 1000, fixed=True),
    P('command_loss', 0.0, 'Probability that a command is lost.', 0.0, 0.99, fixed=True),
    P('state_loss', 0.0, 'Probability that a state is lost.', 0.0, 0.99, fixed=True),
)  # fmt: skip

EMULATOR = (
    *(
        replace(one, default=_DEFAULTS.get(one.name, one.default))
        for one in SIMULATOR
        if one.name not in _SET_BY_PROFILE
    ),
    *DRIVER,
)


def emulated_plant(
    tree: RobotTree, settings: Mapping[str, Any], profile: DriverProfile
) -> tuple[LinkedPlant, DrivenPlant]:
    """Return the plant behind its network link, and the plant with its drives inside it.

    Raises:
        ParameterError: A value is invalid.
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
    return LinkedPlant(with_imperfections(driven, settings), link), driven


def own_position(tree: RobotTree, settings: Mapping[str, Any]) -> Array | None:
    """Return the setpoint of the driver's own controller; None for the current position.

    Raises:
        ParameterError: The list has neither 1 nor n entries, or a position is outside its limits.
    """
    value = np.array(settings['own_position'])
    if value.size == 1 < tree.n:
        return None
    if value.size != tree.n:
        raise ParameterError('own_position', value.tolist(), f'give {tree.n} finite numbers')
    _check_limits(tree, 'own_position', value)
    return value
