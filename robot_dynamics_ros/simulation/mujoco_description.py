# SPDX-License-Identifier: Apache-2.0
"""Build MuJoCo model specifications from robot trees.

A specification has bodies, joints, motors, mimic joints, pins and an optional board on a spring
that the arm can press on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from robot_dynamics_ros.constraints.point import Plane
from robot_dynamics_ros.constraints.program import Program
from robot_dynamics_ros.constraints.signals import Constant
from robot_dynamics_ros.errors import ModelError, ParameterError
from robot_dynamics_ros.model import Mechanism, Robot
from robot_dynamics_ros.model.assembly import Assembly
from robot_dynamics_ros.model.loops import Loop, loop_motion
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.spatial.validation import require_positive, unit


@dataclass(frozen=True)
class Board:
    """A flat body that slides along its normal on a spring; the arm touches it with a small ball.

    Unloaded, its surface is the plane through ``origin`` perpendicular to ``normal``.

    Attributes:
        frame: Link whose origin touches the board.
        origin: A point of the surface in the base frame, m.
        normal: Outward normal in the base frame; of any length.
        stiffness: Stiffness of the spring, N/m.
        damping: Damping of the spring, N s/m.
        friction: Friction coefficient between board and arm.
        size: Half of its edge length along the surface, m.
        motion: Displacement of the spring's foot along the normal as a function of time (s), m;
            None: at rest.
    """

    frame: str = 'tool'
    origin: tuple[float, ...] = (0.0, 0.0, 0.0)
    normal: tuple[float, ...] = (0.0, 0.0, 1.0)
    stiffness: float = 1e4
    damping: float = 0.0
    friction: float = 0.0
    size: float = 1.0
    motion: Callable[[float], float] | None = None

    def __post_init__(self) -> None:
        require_positive(**{'board stiffness': self.stiffness, 'board size': self.size})
        for name in ('damping', 'friction'):
            if not 0.0 <= getattr(self, name) < float('inf'):
                raise ParameterError(f'board {name}', getattr(self, name), 'must not be negative')
        self.direction.setflags(write=False)

    @cached_property
    def direction(self) -> Array:
        """The unit normal, shape (3,)."""
        return unit('board normal', self.normal)

    @classmethod
    def for_program(cls, program: Program, **properties: float) -> Board:
        """Return the board at the location at which a program expects it.

        Args:
            program: A program with a contact on a plane whose normal is constant.
            properties: ``stiffness``, ``damping``, ``friction``, ``size``.

        Raises:
            ParameterError: The program has no contact on such a plane.
        """
        plane = _contact_plane(program)
        axes, start = plane.reference.pose(0.0)
        normal = axes[:, 2]

        def along(t: float) -> float:
            position = plane.reference.pose(t)[1]
            return float(normal @ (position - start)) + float(plane.target.at(t)[0][0])

        origin, outward = tuple(start.tolist()), tuple(normal.tolist())
        return cls(plane.frame, origin, outward, motion=along, **properties)


def _contact_plane(program: Program) -> Plane:
    """Return the plane of a program's contact."""
    contact_rows, first = {row for row, _ in program.contacts}, 0
    for part in program.stack.constraints:
        if first in contact_rows and isinstance(part, Plane):
            fixed = isinstance(part.reference.angle, Constant)
            if fixed and not np.any(part.point):
                return part
        first += len(part.rows)
    problem = "its contact must be on a plane that does not rotate, at a frame's origin"
    raise ParameterError('board_program', program.name, problem)


BOARD = 'board'
_BOARD_MASS = 1.0  # kg
_TIP = 'tip of the robot'
_RIGID_IMPEDANCE = (0.9999, 0.9999, 0.001, 0.5, 2.0)  # impedance: the maximum that MuJoCo accepts
_CONTACT_TIME = 1e-3  # time constant of a contact, s: stiffer than any board
_LIMIT_TIME = 0.01  # time constant of a joint limit, s
_SOLVER_TOLERANCE = 1e-14
_PLANAR = 1e-9  # distance from the plane by the size of the loops
_SHIFT = 0.01  # rad, or of the size of the loops: within the reach of any assembly
_STIFF_DAMPING = 0.1  # period times damping divided by inertia
_TIP_RADIUS, _HALF_THICKNESS = 0.005, 0.02  # radius of the tip, half of the board's thickness, m


class MujocoDescription:
    """MuJoCo model specification of a tree: body i + 1 is the tree's body i.

    Attributes:
        spec: The ``MjSpec``, to be compiled.

    Args:
        mujoco: The library.
        tree: The robot.
        timestep: Integration step, s.
        joint_limits: Whether to enforce the position limits.
    """

    def __init__(self, mujoco: Any, tree: Robot, timestep: float, joint_limits: bool) -> None:
        self._mujoco, self._tree, self._timestep = mujoco, tree, timestep
        self._bodies = tree.tree
        self.spec = spec = mujoco.MjSpec()
        spec.option.timestep = timestep
        spec.modelname = tree.name
        spec.compiler.degree = False
        spec.option.gravity = tree.gravity
        spec.option.tolerance = _SOLVER_TOLERANCE
        spec.option.disableflags = (
            mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_AUTORESET
        )
        self._spec_bodies: list[Any] = []
        bodies = self._spec_bodies
        for i, parent_index in enumerate(self._bodies.parent):
            parent = spec.worldbody if parent_index < 0 else bodies[parent_index]
            bodies.append(self._add_body(parent, i))
            self._add_joint(bodies[i], i, joint_limits)
        for i in tree.body_of_joint:
            self._add_motor(i)
        for name, frame in self._bodies.frames.items():
            body = bodies[frame.body] if frame.body >= 0 else spec.worldbody
            body.add_site(name=name, pos=frame.p_BF, quat=self._quaternion(frame.R_BF))
        if isinstance(tree, Mechanism):
            self._add_mimic_joints(*tree.mimic)
            for loop in tree.loops:
                self._close(loop, tree.assembly)

    def add_board(self, board: Board) -> None:
        """Add a board on a spring, and the ball with which the robot touches it; both rigid."""
        mujoco, spec, tree = self._mujoco, self.spec, self._tree
        spec.option.disableflags = mujoco.mjtDisableBit.mjDSBL_AUTORESET
        normal = board.direction
        quat = np.zeros(4)
        mujoco.mju_quatZ2Vec(quat, normal)
        rigid = {
            'solref': (max(2.0 * self._timestep, _CONTACT_TIME), 1.0),
            'solimp': _RIGID_IMPEDANCE,
            'condim': 1,
        }
        plate = spec.worldbody.add_body(
            name=BOARD,
            pos=np.array(board.origin) - (_TIP_RADIUS + _HALF_THICKNESS) * normal,
            quat=quat,
            mass=_BOARD_MASS,
            inertia=np.full(3, _BOARD_MASS),
            explicitinertial=True,
            gravcomp=1.0,
        )
        slide = plate.add_joint(name=BOARD, type=mujoco.mjtJoint.mjJNT_SLIDE, axis=(0.0, 0.0, 1.0))
        slide.stiffness[0], slide.damping[0] = board.stiffness, board.damping
        size = (board.size, board.size, _HALF_THICKNESS)
        plate.add_geom(name=BOARD, type=mujoco.mjtGeom.mjGEOM_BOX, size=size, **rigid)
        frame = tree.frame(board.frame, 'board_frame')
        body = spec.worldbody if frame.body < 0 else spec.body(tree.link_names[frame.body])
        ball = mujoco.mjtGeom.mjGEOM_SPHERE
        body.add_geom(name=_TIP, type=ball, size=(_TIP_RADIUS, 0.0, 0.0), pos=frame.p_BF, **rigid)

    def add_pin(self, pair: tuple[str, str]) -> None:
        """Pin the origins of two sites together, as rigidly as MuJoCo allows."""
        pin = self.spec.add_equality(
            name=f'{pair[0]} - {pair[1]}',
            type=self._mujoco.mjtEq.mjEQ_CONNECT,
            objtype=self._mujoco.mjtObj.mjOBJ_SITE,
            name1=pair[0],
            name2=pair[1],
        )
        self._make_rigid(pin)

    def _add_mimic_joints(self, rate: Array, offset: Array) -> None:
        """Couple mimic joints to those that they follow, as rigidly as MuJoCo allows."""
        names = self._bodies.joint_names
        for i, name in enumerate(names):
            [mimicked] = np.flatnonzero(rate[i])
            if mimicked == i:
                continue
            gear = self.spec.add_equality(
                name=name,
                type=self._mujoco.mjtEq.mjEQ_JOINT,
                name1=name,
                name2=names[mimicked],
            )
            gear.data[:2] = offset[i], rate[i, mimicked]
            self._make_rigid(gear)

    def _close(self, loop: Loop, assembly: Assembly) -> None:
        """Close a loop by a ball, a pin (two balls on its axis) or a weld.

        A pin of a planar loop, whose other components the loop keeps anyway, is a ball.

        Raises:
            ModelError: MuJoCo has no such joint.
        """
        pair, turns = (loop.first, loop.second), len(loop.rotation)
        if len(loop.position) < 3 and not _keeps_position(assembly, loop) or turns == 1:
            raise ModelError(
                f'loop {loop.name!r}',
                f'MuJoCo has no joint that keeps position {loop.position or "none"!r}, rotation '
                f'{loop.rotation or "none"!r}',
                'simulate balls, pins or welds: position xyz, with rotation none, two axes or xyz',
            )
        if turns == 3:
            mujoco, names = self._mujoco, {'name1': loop.first, 'name2': loop.second}
            kinds = {'type': mujoco.mjtEq.mjEQ_WELD, 'objtype': mujoco.mjtObj.mjOBJ_SITE}
            self._make_rigid(self.spec.add_equality(name=loop.name, **kinds, **names))
            return
        self.add_pin(pair)
        if turns == 2:
            [free] = {0, 1, 2} - set(loop.turns)
            ends = f'{loop.name}: {loop.first}', f'{loop.name}: {loop.second}'
            for end, name in zip(ends, pair, strict=True):
                frame = self._bodies.frame(name)
                body = self.spec.worldbody if frame.body < 0 else self._spec_bodies[frame.body]
                point = frame.p_BF + assembly.equations.length * frame.R_BF[:, free]
                body.add_site(name=end, pos=point)
            self.add_pin(ends)

    def _make_rigid(self, equality: Any) -> None:
        """Make an equality constraint as rigid as MuJoCo allows."""
        equality.solref[:2] = (2.0 * self._timestep, 1.0)
        equality.solimp[:] = _RIGID_IMPEDANCE

    def _add_body(self, parent: Any, i: int) -> Any:
        tree = self._bodies
        _, R_BA = _principal_inertia(tree, i)
        return parent.add_body(
            name=tree.link_names[i],
            pos=tree.p_PJ[i],
            quat=self._quaternion(tree.R_PJ[i]),
            mass=1.0,  # the actual value is set in the compiled model, see set_inertias
            ipos=tree.com[i],
            iquat=self._quaternion(R_BA),
            inertia=np.ones(3),
            explicitinertial=True,
        )

    def _add_joint(self, body: Any, i: int, joint_limits: bool) -> None:
        tree, kinds = self._bodies, self._mujoco.mjtJoint
        joint = body.add_joint(
            name=tree.joint_names[i],
            type=kinds.mjJNT_SLIDE if tree.prismatic[i] else kinds.mjJNT_HINGE,
            axis=tree.axis[i],
            frictionloss=tree.coulomb_friction[i],
            armature=tree.armature[i],
            solimp_friction=_RIGID_IMPEDANCE,
            solref_friction=(
                2.0 * self._timestep,
                1.0,
            ),  # the smallest stable time constant: stops within a step
            solimp_limit=_RIGID_IMPEDANCE,
            solref_limit=(_LIMIT_TIME, 1.0),
            limited=False,
        )
        joint.damping[0] = tree.damping[i]
        if joint_limits and np.isfinite((tree.position_lower[i], tree.position_upper[i])).all():
            joint.limited = True
            joint.range = (tree.position_lower[i], tree.position_upper[i])

    def _add_motor(self, i: int) -> None:
        limit, name = self._bodies.effort_limit[i], self._bodies.joint_names[i]
        motor = self.spec.add_actuator(
            name=name,
            target=name,
            trntype=self._mujoco.mjtTrn.mjTRN_JOINT,
            ctrllimited=True,
            ctrlrange=(-limit, limit),
        )
        motor.set_to_motor()

    def _quaternion(self, R: Array) -> Array:
        quat = np.zeros(4)
        self._mujoco.mju_mat2Quat(quat, np.ascontiguousarray(R, dtype=float).ravel())
        return quat


def _keeps_position(assembly: Assembly, loop: Loop) -> bool:
    """Whether a loop's frames cannot part in the components of position that it leaves free."""
    all_of_them, equations = loop._replace(position='xyz', rotation=''), assembly.equations
    for shift in (0.0, _SHIFT * equations.unit[equations.coordinates]):
        q = assembly.positions(assembly.assembled[equations.coordinates] + shift)
        motion = loop_motion(equations.tree, all_of_them, q, 0.0 * q)
        free = [axis for axis in range(3) if axis not in loop.rows]
        apart = np.abs(np.column_stack([motion.value, motion.J @ equations.mimic.rate])[free])
        if apart.max() > _PLANAR * equations.length:
            return False
    return True


def _principal_inertia(tree: Robot, i: int) -> tuple[Array, Array]:
    """Return the principal moments of body i, kg m^2, and its right-handed principal axes."""
    moments, R_BA = np.linalg.eigh(np.asarray(tree.inertia[i], dtype=float))
    return moments, R_BA * np.sign(np.linalg.det(R_BA))


def set_inertias(mujoco: Any, model: Any, data: Any, tree: Robot) -> None:
    """Set masses and inertias in the compiled model; the compiler rejects unphysical ones."""
    for i, name in enumerate(tree.link_names):
        body = model.body(name)
        body.mass[:], body.inertia[:] = tree.mass[i], _principal_inertia(tree, i)[0]
    mujoco.mj_setConst(model, data)


def solve_with_damping(mujoco: Any, model: Any, data: Any) -> None:
    """Include stiff damping in the computation of friction and joint limit forces.

    MuJoCo computes these forces with the inertia alone and adds ``period damping`` to it only
    afterwards; a sticking joint with negligible inertia then creeps. With ``period damping`` as
    armature and explicit damping, the step is the same, but the forces take the damping into
    account.
    """
    damping = model.opt.timestep * model.dof_damping
    if (damping * model.dof_invweight0 > _STIFF_DAMPING).any():
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_EULERDAMP
        model.dof_armature[:] += damping
        mujoco.mj_setConst(model, data)
