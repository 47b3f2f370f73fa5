# SPDX-License-Identifier: Apache-2.0
"""A tree as MuJoCo's description of a model: bodies, joints, motors, followers, pins, a board.

A board that an arm may press on: a body of stated mass on a spring of stated stiffness.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_dynamics_ros.constraints.point import Plane
from robot_dynamics_ros.constraints.program import Program
from robot_dynamics_ros.constraints.signals import Constant
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.spatial.scalar import Array


@dataclass(frozen=True)
class Board:
    """A flat body that slides along its normal on a spring; the arm touches it with a small ball.

    Its surface is where the plane through ``origin`` across ``normal`` is while nobody presses.

    Attributes:
        frame: Link whose origin touches it.
        origin: A point of the surface in the base, m.
        normal: Out of the board, in the base; of any length.
        mass: kg.
        stiffness: Of the spring, N/m.
        damping: Of the spring, N s/m.
        friction: Coefficient between board and arm.
        size: Half of its length along the surface, m.
        motion: How far the spring's foot is along the normal at a time, m; None: at rest.
    """

    frame: str = 'tool'
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)
    normal: tuple[float, float, float] = (0.0, 0.0, 1.0)
    mass: float = 1.0
    stiffness: float = 1e4
    damping: float = 0.0
    friction: float = 0.0
    size: float = 1.0
    motion: Callable[[float], float] | None = None

    def __post_init__(self) -> None:
        for name in ('mass', 'stiffness', 'size'):
            if not 0.0 < getattr(self, name) < float('inf'):
                raise ParameterError(f'board {name}', getattr(self, name), 'must be positive')
        for name in ('damping', 'friction'):
            if not 0.0 <= getattr(self, name) < float('inf'):
                raise ParameterError(f'board {name}', getattr(self, name), 'must not be negative')

    @classmethod
    def expected_by(cls, program: Program, *, offset: float = 0.0, **properties: float) -> Board:
        """Return the board on which a program presses, where and as the program expects it.

        Args:
            program: It has a plane with a contact, of a normal that does not turn.
            offset: How far along the normal the surface is beyond where it is expected, m.
            properties: ``mass``, ``stiffness``, ``damping``, ``friction``, ``size``.

        Raises:
            ParameterError: The program presses on no such plane.
        """
        plane = _pressed_plane(program)
        axes, begin = plane.reference.pose(0.0)
        normal = axes[:, 2]

        def along(t: float) -> float:
            place = plane.reference.pose(t)[1]
            return float(normal @ (place - begin)) + float(plane.target.at(t)[0][0])

        x, y, z = (begin + offset * normal).tolist()
        nx, ny, nz = normal.tolist()
        return cls(plane.frame, (x, y, z), (nx, ny, nz), motion=along, **properties)


def _pressed_plane(program: Program) -> Plane:
    """Return the plane on which a program presses."""
    pressed, first = {row for row, _ in program.contacts}, 0
    for part in program.stack.constraints:
        if first in pressed and isinstance(part, Plane) and _is_simple(part):
            return part
        first += len(part.rows)
    problem = "its contact must be on a plane that does not turn, at a frame's origin"
    raise ParameterError('board_program', program.name, problem)


def _is_simple(plane: Plane) -> bool:
    """Return whether a plane does not turn, and is met at a frame's origin."""
    return isinstance(plane.reference.angle, Constant) and not np.any(plane.point)


BOARD = 'board'
_TIP = 'tip of the robot'
_HARD = (0.9999, 0.9999, 0.001, 0.5, 2.0)  # impedance: the most that MuJoCo accepts
_TOUCH_TIME = 1e-3  # of a contact, s: stiffer than any board
_LIMIT_TIME = 0.01  # a joint limit brings the joint back with this time constant, s
_SOLVER_TOLERANCE = 1e-14
_STIFF = 0.1  # period times damping by inertia
_BALL, _HALF = 0.005, 0.02  # radius of the tip, half of the board's thickness, m


class MujocoDescription:
    """MuJoCo's description of a tree: body i + 1 is the tree's body i.

    Attributes:
        spec: MuJoCo's own, to be compiled.

    Args:
        mujoco: The library.
        tree: The robot.
        timestep: Of the integration, s.
        joint_limits: Whether the joints end at their position limits.
    """

    def __init__(self, mujoco: Any, tree: RobotTree, timestep: float, joint_limits: bool) -> None:
        self._mujoco, self._tree, self._timestep = mujoco, tree, timestep
        self._open = tree.open
        self.spec = spec = mujoco.MjSpec()
        spec.option.timestep = timestep
        spec.modelname = tree.name
        spec.compiler.degree = False
        spec.option.gravity = tree.gravity
        spec.option.tolerance = _SOLVER_TOLERANCE
        spec.option.disableflags = (
            mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_AUTORESET
        )
        bodies: list[Any] = []
        for i, above in enumerate(self._open.parent):
            parent = spec.worldbody if above < 0 else bodies[above]
            bodies.append(self._add_body(parent, i))
            self._add_joint(bodies[i], i, joint_limits)
            if self._open.joint_names[i] in tree.joint_names:
                self._add_motor(i)
            else:
                self._add_follower(i)
        for name, frame in self._open.frames.items():
            body = bodies[frame.body] if frame.body >= 0 else spec.worldbody
            body.add_site(name=name, pos=frame.p_BF, quat=self._quaternion(frame.R_BF))

    def add_board(self, board: Board) -> None:
        """Add a board on a spring, and the ball by which the robot touches it; both hard."""
        mujoco, spec, tree = self._mujoco, self.spec, self._tree
        spec.option.disableflags = mujoco.mjtDisableBit.mjDSBL_AUTORESET
        normal = np.array(board.normal) / np.linalg.norm(board.normal)
        quat = np.zeros(4)
        mujoco.mju_quatZ2Vec(quat, normal)
        hard = {
            'solref': (max(2.0 * self._timestep, _TOUCH_TIME), 1.0),
            'solimp': _HARD,
            'condim': 1,
        }
        plate = spec.worldbody.add_body(
            name=BOARD,
            pos=np.array(board.origin) - (_BALL + _HALF) * normal,
            quat=quat,
            mass=board.mass,
            inertia=np.full(3, board.mass),
            explicitinertial=True,
            gravcomp=1.0,
        )
        slide = plate.add_joint(name=BOARD, type=mujoco.mjtJoint.mjJNT_SLIDE, axis=(0.0, 0.0, 1.0))
        slide.stiffness[0], slide.damping[0] = board.stiffness, board.damping
        size = (board.size, board.size, _HALF)
        plate.add_geom(name=BOARD, type=mujoco.mjtGeom.mjGEOM_BOX, size=size, **hard)
        frame = tree.frame(board.frame)
        body = spec.worldbody if frame.body < 0 else spec.body(tree.link_names[frame.body])
        ball = mujoco.mjtGeom.mjGEOM_SPHERE
        body.add_geom(name=_TIP, type=ball, size=(_BALL, 0.0, 0.0), pos=frame.p_BF, **hard)

    def add_pin(self, pair: tuple[str, str]) -> None:
        """Pin the origins of two sites together, as hard as MuJoCo can."""
        pin = self.spec.add_equality(
            name=f'{pair[0]} - {pair[1]}',
            type=self._mujoco.mjtEq.mjEQ_CONNECT,
            objtype=self._mujoco.mjtObj.mjOBJ_SITE,
            name1=pair[0],
            name2=pair[1],
        )
        self._harden(pin)

    def _add_follower(self, i: int) -> None:
        """Let the joint of body i follow its leader, as hard as MuJoCo can."""
        coupling = self._tree.coupling
        assert coupling is not None  # otherwise all joints are independent
        [leader] = np.flatnonzero(coupling.rate[i])
        gear = self.spec.add_equality(
            name=coupling.joint_names[i],
            type=self._mujoco.mjtEq.mjEQ_JOINT,
            name1=coupling.joint_names[i],
            name2=self._tree.joint_names[leader],
        )
        gear.data[:2] = coupling.offset[i], coupling.rate[i, leader]
        self._harden(gear)

    def _harden(self, equality: Any) -> None:
        """Make a condition as hard as MuJoCo can."""
        equality.solref[:2] = (2.0 * self._timestep, 1.0)
        equality.solimp[:] = _HARD

    def _add_body(self, parent: Any, i: int) -> Any:
        tree = self._open
        _, R_BA = _principal_inertia(tree, i)
        return parent.add_body(
            name=tree.link_names[i],
            pos=tree.p_PJ[i],
            quat=self._quaternion(tree.R_PJ[i]),
            mass=1.0,  # what is meant is set in the compiled model, whatever it is
            ipos=tree.com[i],
            iquat=self._quaternion(R_BA),
            inertia=np.ones(3),
            explicitinertial=True,
        )

    def _add_joint(self, body: Any, i: int, joint_limits: bool) -> None:
        tree, kinds = self._open, self._mujoco.mjtJoint
        joint = body.add_joint(
            name=tree.joint_names[i],
            type=kinds.mjJNT_SLIDE if tree.prismatic[i] else kinds.mjJNT_HINGE,
            axis=tree.axis[i],
            frictionloss=tree.coulomb_friction[i],
            armature=tree.armature[i],
            solimp_friction=_HARD,
            solref_friction=(
                2.0 * self._timestep,
                1.0,
            ),  # the least that is stable: stops within a step
            solimp_limit=_HARD,
            solref_limit=(_LIMIT_TIME, 1.0),
            limited=False,
        )
        joint.damping[0] = tree.damping[i]
        if joint_limits and np.isfinite((tree.position_lower[i], tree.position_upper[i])).all():
            joint.limited = True
            joint.range = (tree.position_lower[i], tree.position_upper[i])

    def _add_motor(self, i: int) -> None:
        limit, name = self._open.effort_limit[i], self._open.joint_names[i]
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


def _principal_inertia(tree: RobotTree, i: int) -> tuple[Array, Array]:
    """Return the principal moments of body i, kg m^2, and their axes in it, right-handed."""
    moments, R_BA = np.linalg.eigh(np.asarray(tree.inertia[i], dtype=float))
    return moments, R_BA * np.sign(np.linalg.det(R_BA))


def set_inertias(mujoco: Any, model: Any, data: Any, tree: RobotTree) -> None:
    """Write masses and inertias past the compiler, which refuses those of no real body."""
    for i, name in enumerate(tree.link_names):
        body = model.body(name)
        body.mass[:], body.inertia[:] = tree.mass[i], _principal_inertia(tree, i)[0]
    mujoco.mj_setConst(model, data)


def solve_with_damping(mujoco: Any, model: Any, data: Any) -> None:
    """Let friction and joint limits feel the damping at the end of the step where it is stiff.

    MuJoCo finds their forces with the inertia alone, and takes ``period damping`` to it
    afterwards. A joint without inertia to speak of creeps then although it sticks. As armature and
    explicit damping the step is the same, and the forces are found with all of it.
    """
    taken = model.opt.timestep * model.dof_damping
    if (taken * model.dof_invweight0 > _STIFF).any():
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_EULERDAMP
        model.dof_armature[:] += taken
        mujoco.mj_setConst(model, data)
