# SPDX-License-Identifier: Apache-2.0
"""Measure how an arm of example-robot-data tracks its planned motion and program.

In lockstep with MuJoCo, 1 kHz, exact model, without noise: PD + gravity, the same with
feed-forward of the reference's friction, and computed torque, all with the same gains; then the
constraint program, started off the plane. Also as nodes over DDS, from the folder of
``new_robot``. Small pictures of robots are drawn from the shapes of their URDF, far
triangles first.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
from PIL import Image, ImageDraw

from benchmark.measuring import Figures
from robot_dynamics_ros.__main__ import main as command
from robot_dynamics_ros.cli.demo import LAWS, Arm, run_scene
from robot_dynamics_ros.cli.new_robot import PARAMETERS
from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.control.laws.computed_torque import ComputedTorque
from robot_dynamics_ros.control.laws.constraint_stabilization import ConstraintStabilization
from robot_dynamics_ros.control.laws.control_law import ControlLaw
from robot_dynamics_ros.control.laws.gravity_laws import PdGravity
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.dynamics.joint_terms import JointTerms
from robot_dynamics_ros.errors import SceneError
from robot_dynamics_ros.geometry import robot_shapes
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.model.kinematics import frame_jacobian, link_poses
from robot_dynamics_ros.planning.default_motion import DefaultMotion
from robot_dynamics_ros.planning.robot_setup import STICTION_VELOCITY, default_program
from robot_dynamics_ros.recordings.lockstep import SETTLE, run_lockstep
from robot_dynamics_ros.recordings.series import root_mean_square
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant
from robot_dynamics_ros.spatial.rotation import rotation_from_rpy
from robot_dynamics_ros.spatial.scalar import Array

PERIOD = 1e-3  # s
MOVES = (0.05, 0.02)  # rad, m: only joints that move by more are compared
_OFF = 0.005  # m off the plane at the start of the program
_DECAY = 10.0  # duration of the observed decay, in time constants


class ArmGroup(NamedTuple):
    """Joints of one fixed-base robot that are controlled together.

    Attributes:
        file: Path of the URDF in example-robot-data.
        frame: Name of the controlled link (tip).
        base: Name of the base link of the chain; the root if empty.
        chain: Whether to use only the joints from base to frame; otherwise all.
    """

    file: str
    frame: str
    base: str = ''
    chain: bool = True


class PdFriction(PdGravity):
    """PD + gravity with feed-forward of the friction at the reference velocity."""

    name: ClassVar[str] = 'pd_gravity_friction'

    def effort(self, t: float, q: Array, v: Array, reference: Reference, out: Array) -> None:
        """Write the efforts for the coming period, see :class:`ControlLaw`."""
        super().effort(t, q, v, reference, out)
        terms = JointTerms.of(self.tree, stiction_velocity=STICTION_VELOCITY)
        out += terms.friction(reference.velocity)


def tracking(tree: RobotTree, motion: DefaultMotion, gains: Array) -> Figures:
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


def _inertia(tree: RobotTree, q: Array) -> Array:
    """Return the inertia of each joint with all others free, 1 / (M^-1)_ii, shape (n,)."""
    M = make_formulation('newton_euler', tree).mass_matrix(q) + np.diag(tree.armature)
    return 1.0 / np.diag(np.linalg.inv(M))


def _track(tree: RobotTree, motion: DefaultMotion, law: ControlLaw) -> dict[str, Array]:
    """Return travel, peak error, RMS error and largest share of the effort limit per joint."""
    run = run_lockstep(MujocoPlant(tree, PERIOD), law, motion.path(tree, laps=1.0))
    begun = run.time > SETTLE
    error = (run.reference_position - run.position)[begun]
    return {
        'travel': np.ptp(run.reference_position[begun], axis=0),
        'peak': np.max(np.abs(error), axis=0),
        'rms': root_mean_square(error),
        'share': np.max(np.abs(run.effort[begun]), axis=0) / tree.effort_limit,
    }


def program_decay(tree: RobotTree, motion: DefaultMotion, gains: Array) -> Figures:
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


def measure_nodes(path: Path, group: ArmGroup, effort_limit: float) -> Iterator[Figures]:
    """Yield how well simulator, controller and trajectory node track the folder's motion.

    Raises:
        SceneError: The folder was not written, or a node failed.
    """
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / 'arm'
        words = ['--tip', group.frame, '--effort-limit', f'{effort_limit:g}', '--out', str(folder)]
        words += ['--base', group.base] if group.base else []
        if command(['new_robot', str(path), *words]):
            raise SceneError('new_robot', 'wrote no folder', 'its last line gives the reason')
        arm = Arm('arm', folder / PARAMETERS, group.frame)
        pd, torque = (
            run_scene(arm, law, Path(place) / law, lambda now, end: None).metrics for law in LAWS
        )
        ratios = [a / b for a, b in zip(pd.rms_error, torque.rms_error, strict=True)]
        yield {
            'joints': str(len(torque.joints)),
            'commands': torque.commands,
            'saturated': sum(torque.saturated_ticks),
            'peak': max(torque.peak_error),
            'tool_mm': torque.tool_rms_mm,
            'pd_tool_mm': pd.tool_rms_mm,
            'better': min(ratios),
        }


_SIZE, _FINER, _MARGIN = 180, 3, 0.06  # side, px; supersampling factor; share of the side
_FACES = 20_000
_VIEW = rotation_from_rpy(-1.2, 0.0, 0.0) @ rotation_from_rpy(0.0, 0.0, -0.9)
_LIGHT = np.array([0.3, 0.5, 0.8]) / np.linalg.norm([0.3, 0.5, 0.8])
_MOVES, _RESTS = np.array([70.0, 130.0, 180.0]), np.array([215.0, 218.0, 222.0])


def draw(tree: RobotTree, q: Array, path: Path) -> None:
    """Write a picture of a robot, centred on its moving links, which are in colour.

    Args:
        tree: The robot; its ``xml`` contains the shapes.
        q: Joint positions, shape (n,), rad or m.
        path: Path of the PNG file.
    """
    corners, colours, moving = _triangles(tree, q)
    seen = corners @ _VIEW.T
    shown = seen[moving] if moving.any() else seen
    points = shown.reshape(-1, 3)[:, :2]
    low, high = points.min(axis=0), points.max(axis=0)
    side = _SIZE * _FINER
    scale = (1.0 - 2.0 * _MARGIN) * side / float(np.max(high - low))
    pixels = (seen[:, :, :2] - (low + high) / 2.0) * (scale, -scale) + side / 2.0
    image = Image.new('RGB', (side, side), 'white')
    pen = ImageDraw.Draw(image)
    for k in np.argsort(seen[:, :, 2].mean(axis=1)):
        pen.polygon(pixels[k].ravel().tolist(), fill=tuple(colours[k].tolist()))
    path.parent.mkdir(parents=True, exist_ok=True)
    image.resize((_SIZE, _SIZE), Image.Resampling.LANCZOS).quantize(32).save(path, optimize=True)


def _triangles(tree: RobotTree, q: Array) -> tuple[Array, Array, Array]:
    """Return corners in the base, (F, 3, 3), m; shaded colours, (F, 3); moving flags, (F,)."""
    poses = link_poses(tree, q)
    parts = []
    shapes = robot_shapes(tree.xml, _FACES).shapes
    for shape in [x for x in shapes if x.colour[3] == 1.0] or shapes:  # no boxes of inertias
        R, p = poses[shape.link]
        corners = (shape.vertices @ R.T + p)[shape.faces]
        moves = tree.frames[shape.link].body >= 0
        normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        sizes = np.maximum(np.linalg.norm(normals, axis=1), 1e-15)
        shade = 0.55 + 0.45 * np.abs(normals @ _LIGHT) / sizes
        colours = shade[:, np.newaxis] * (_MOVES if moves else _RESTS)
        parts.append((corners, colours.astype(int), np.full(len(corners), moves)))
    corners, colours, moving = (np.concatenate(column) for column in zip(*parts, strict=True))
    return corners, colours, moving
