# SPDX-License-Identifier: Apache-2.0
"""How every arm of example-robot-data follows its planned motion and program.

In lockstep with MuJoCo, 1 kHz, exact model, without noise: PD + gravity, the same with
feed-forward of the reference's friction, and computed torque, all with the same gains; then the
constraint program, started off the plane. Writes ``docs/results/arms.md``.
"""

import argparse
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import yaml
from campaigns.support import run_all
from checkout import ROOT
from samples import world_files

from robot_dynamics_ros.cli.arguments import option
from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.control.laws.computed_torque import ComputedTorque
from robot_dynamics_ros.control.laws.constraint_stabilization import ConstraintStabilization
from robot_dynamics_ros.control.laws.control_law import ControlLaw
from robot_dynamics_ros.control.laws.gravity_laws import PdGravity
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.dynamics.joint_terms import JointTerms
from robot_dynamics_ros.errors import RobotDynamicsError
from robot_dynamics_ros.estimation.accumulate import root_mean_square
from robot_dynamics_ros.geometry.collisions import Obstacles
from robot_dynamics_ros.model import Robot, load_robot
from robot_dynamics_ros.model.kinematics import frame_jacobian
from robot_dynamics_ros.planning.default_motion import DefaultMotion, default_motion
from robot_dynamics_ros.planning.robot_setup import (
    STICTION_VELOCITY,
    default_program,
    natural_frequencies,
)
from robot_dynamics_ros.recordings.lockstep import SETTLE, simulate
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.yaml_reader.parsing import read_yaml

Figures = dict[str, Any]  # by name
PERIOD = 1e-3  # s
MOVES = (0.05, 0.02)  # rad, m: only joints that move by more are compared
_OFF = 0.005  # m off the plane at the start of the program
_DECAY = 10.0  # duration of the observed decay, in time constants
_EFFORT = 100.0  # N m or N, default effort limit
_PAGE = ROOT / 'docs' / 'results' / 'arms.md'
_ARM = yaml.safe_load("""
joints: joints (bodies)
radius_m: circle, m
effort: effort / limit
stiff: D h / M
error: error / travel
better: PD ratio
better_fed: PD ratio, friction
decay: decay
note: ''
""")
_AT_MOST = {'error': 1e-4, 'effort': 0.61, 'decay': 0.02, 'saturated': 0}
_AT_LEAST = {'better': 20.0, 'better_fed': 3.0}
_HEAD = """## Arms

Written by `make campaign CAMPAIGN=arms`: the arms of the PyPI package example-robot-data
{version}, with a fixed base and an effort limit of {limit:g} N m where a file gives none. That the
dynamics of all robots of the package equal Pinocchio's is decided by
`test/model/test_world_robots.py`.

Each arm tracks the circle that `new_robot` plans for it, in lockstep with MuJoCo at 1 kHz, with
the planned gains and an exact model. The ground is 1 m below those that do not stand on it (the
left arm of Alex, whose other hand hangs, and the flying arm).

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


class ArmGroup(NamedTuple):
    """Joints of one fixed-base robot that are controlled together.

    Attributes:
        file: Path of the URDF in example-robot-data.
        frame: Name of the controlled link (tip).
        base: Name of the base link of the chain; the root if empty.
        chain: Whether to use only the joints from base to frame; otherwise all.
        ground_below: Distance of the ground below the base frame, m.
    """

    file: str
    frame: str
    base: str = ''
    chain: bool = True
    ground_below: float = 0.0


FILES = {str(file).split('robots/', 1)[-1]: Path(str(file.locate())) for file in world_files()}
ARMS = {
    name: ArmGroup(**group)
    for name, group in read_yaml(Path(__file__).with_suffix('.yaml'), 'arms')['arms'].items()
}


class PdFriction(PdGravity):
    """PD + gravity with feed-forward of the friction at the reference velocity."""

    name: ClassVar[str] = 'pd_gravity_friction'

    def effort(self, t: float, q: Array, v: Array, reference: Reference, out: Array) -> None:
        """Write the efforts for the coming period, see :class:`ControlLaw`."""
        super().effort(t, q, v, reference, out)
        terms = JointTerms.of(self.tree, stiction_velocity=STICTION_VELOCITY)
        out += terms.friction(reference.velocity)


def tracking(tree: Robot, motion: DefaultMotion, gains: Array) -> Figures:
    """Return tracking errors and the margin to the effort limits.

    Returns:
        ``error``: largest error relative to the joint's travel under computed torque, without
        Coulomb friction. ``better`` and ``better_fed``: smallest ratio of the RMS errors of PD +
        gravity (with friction feed-forward) and of computed torque, with the friction of the URDF.
        ``effort``: largest share of an effort limit. ``stiff``: largest damping relative to
        inertia and rate, D h / M.
    """
    smooth = tree.with_changes(coulomb_friction=np.zeros(tree.n))
    own = {'natural_frequency': gains.tolist(), 'period': PERIOD}
    exact = torque = _track(smooth, motion, ComputedTorque(smooth, **own))
    if tree.coulomb_friction.any():
        law = ComputedTorque(tree, stiction_velocity=STICTION_VELOCITY, **own)
        torque = _track(tree, motion, law)
    moves = exact['travel'] > np.where(tree.joint_is_prismatic, MOVES[1], MOVES[0])
    figures = {
        'error': float(np.max(exact['peak'][moves] / exact['travel'][moves])),
        'effort': float(max(run['share'].max() for run in (exact, torque))),
        'stiff': float(np.max(tree.damping * PERIOD / _inertia(tree, motion.home))),
    }
    for name, kind in (('better', PdGravity), ('better_fed', PdFriction)):
        pd = _track(tree, motion, kind(tree, home=motion.home.tolist(), **own))
        figures[name] = float(np.min(pd['rms'][moves] / torque['rms'][moves]))
    return figures


def _inertia(tree: Robot, q: Array) -> Array:
    """Return the inertia of each joint with all others free, 1 / (M^-1)_ii, shape (n,)."""
    M = make_formulation('newton_euler', tree).mass_matrix(q) + np.diag(tree.armature)
    return 1.0 / np.diag(np.linalg.inv(M))


def _track(tree: Robot, motion: DefaultMotion, law: ControlLaw) -> dict[str, Array]:
    """Return travel, peak error, RMS error and largest share of the effort limit per joint."""
    session = ControllerSession(tree, {'period': PERIOD})
    session.loop.replace(session.loop.law, law)
    run = simulate(session, MujocoPlant(tree, PERIOD), motion.using(laps=1.0).path(tree))
    begun = run.time > SETTLE
    error = (run.reference_position - run.position)[begun]
    return {
        'travel': np.ptp(run.reference_position[begun], axis=0),
        'peak': np.max(np.abs(error), axis=0),
        'rms': root_mean_square(error),
        'share': np.max(np.abs(run.effort[begun]), axis=0) / tree.effort_limit,
    }


def program_decay(tree: Robot, motion: DefaultMotion, gains: Array) -> Figures:
    """Return how well the planned program tracks when started 5 mm off its plane.

    Returns:
        ``decay``: largest difference of f from the designed decay, relative to its first value.
        ``saturated``: number of ticks in which the limits scaled the acceleration.
    """
    smooth = tree.with_changes(coulomb_friction=np.zeros(tree.n))
    content = default_program(tree, motion, gains.tolist())
    w = float(content['constraints'][0]['natural_frequency'])
    law = ConstraintStabilization(
        smooth,
        program=load_program(content, smooth),
        period=PERIOD,
        discretization='semi_implicit',
        lead_in=0.0,
    )
    plant = MujocoPlant(smooth, PERIOD)
    slope = motion.toward @ frame_jacobian(tree, motion.home, motion.frame)[:3]
    plant.reset(motion.home + _OFF * slope / float(slope @ slope))
    q, v, tau = np.zeros((3, tree.n))
    reference, values, saturated = Reference(tree.n), [], 0
    for k in range(round(_DECAY / w / PERIOD)):
        plant.read(q, v)
        law.effort(k * PERIOD, q, v, reference, tau)
        values.append((law.f[0], law.f_dot[0]))
        saturated += law.scale < 1.0
        plant.step(tau)
    f, f_dot = np.array(values).T
    t = PERIOD * np.arange(len(f))
    designed = (f[0] + (f_dot[0] + w * f[0]) * t) * np.exp(-w * t)
    return {'decay': float(np.max(np.abs(f - designed)) / abs(f[0])), 'saturated': saturated}


def follow(group: ArmGroup) -> Figures:
    """Return how an arm follows its planned motion and program, or why it has none."""
    try:
        return _followed(group)
    except RobotDynamicsError as error:
        return {'note': str(error)}


def _followed(group: ArmGroup) -> Figures:
    chain = {'base': group.base, 'tip': group.frame} if group.chain else {}
    tree = load_robot(FILES[group.file], (0.0, 0.0, -9.81), effort_limit=_EFFORT, **chain)
    joints = str(tree.n) if tree.bodies == tree.n else f'{tree.n} ({tree.bodies})'
    motion = default_motion(tree, group.frame, Obstacles(ground_below=group.ground_below))
    gains = natural_frequencies(tree, motion.home, PERIOD)
    figures = {'joints': joints, 'radius_m': motion.size, **tracking(tree, motion, gains)}
    return figures | program_decay(tree, motion, gains)


def verdict(row: Mapping[str, Any]) -> str:
    """Return the note of an arm, and the requirements that it does not meet."""
    missed = [
        f'{_ARM.get(name, name)} {row[name]:.2g} instead of at {word} {limit:g}'
        for word, limits in (('most', _AT_MOST), ('least', _AT_LEAST))
        for name, limit in limits.items()
        if name in row and (row[name] > limit if word == 'most' else row[name] < limit)
    ]
    return '; '.join(filter(None, (row.get('note', ''), *missed)))


def main(args: argparse.Namespace) -> int:
    """Measure every arm; write ``docs/results/arms.md``; return 1 if one misses a requirement."""
    found = run_all(follow, [*ARMS.values()], lambda _, why: {'note': why}, args.jobs)
    rows = {name: row | {'note': verdict(row)} for name, row in zip(ARMS, found, strict=True)}
    lines = [['arm', *_ARM.values()], ['---', *['---:'] * len(_ARM)]]
    for name, row in rows.items():
        print(f'{name}: {row["note"] or "as required"}')
        cells = (row.get(key, '') for key in _ARM)
        texts = (f'{x:.2g}' if isinstance(x, float) else str(x) for x in cells)
        lines.append([name, *(x.replace('|', '/') for x in texts)])
    head = _HEAD.format(version=metadata.version('example-robot-data'), limit=_EFFORT)
    table = ''.join(f'| {" | ".join(line)} |\n' for line in lines)
    _PAGE.write_text(f'{head}\n{table}', encoding='utf-8')
    return int(any(row['note'] for row in rows.values()))


OPTIONS = {'--jobs': option(1, 'number of parallel processes')}
