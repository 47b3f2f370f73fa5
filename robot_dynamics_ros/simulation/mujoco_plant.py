# SPDX-License-Identifier: Apache-2.0
"""The robot simulated by MuJoCo: the only importer of it.

The model is built from the tree's arrays, so that the plant and the controller's model cannot
differ by a second reading of the URDF, and a mismatch or a payload is a change of arrays.

Equation of motion
    ``(M + armature) a + c + g = effort - damping v - Coulomb friction - joint limit force``,
    integrated semi-implicitly: ``v += period a``, then ``q += period v``. The default integrator
    takes the damping at the end of the step, which is stable for any damping; over one step
    ``(M + armature + period damping) (v_next - v) / period = effort - c - g - damping v - ...``.

Friction beyond the description's (see ``dynamics.joint_terms``) is Coulomb friction whose level
follows velocity and load; the load is that of the last integration step. It never drives a joint.

Joints that follow others (mimic joints) have MuJoCo's joint equality; the friction of both acts at
the leader. Coulomb friction, followers and joint limits are MuJoCo's soft constraints, made nearly
hard: a joint that sticks creeps by about 1e-6 rad/s or m/s.

Contacts are modelled with one :class:`Board` only. Not modelled: link flexibility, motor currents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from robot_dynamics_ros.dynamics.joint_terms import JointTerms
from robot_dynamics_ros.errors import (
    MissingDependencyError,
    ModelError,
    NonFiniteError,
    ParameterError,
    ShapeError,
)
from robot_dynamics_ros.model.payload import Payload, with_payload
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.simulation.board import Board
from robot_dynamics_ros.simulation.plant import Plant
from robot_dynamics_ros.spatial.scalar import Array

#: MuJoCo's integrators by the name used here.
INTEGRATORS = {
    'euler': 'mjINT_EULER',
    'implicitfast': 'mjINT_IMPLICITFAST',
    'rk4': 'mjINT_RK4',
}

_HARD = (0.9999, 0.9999, 0.001, 0.5, 2.0)  # impedance: the most that MuJoCo accepts
_TOUCH_TIME = 1e-3  # of a contact, s: stiffer than any board
_LIMIT_TIME = 0.01  # a joint limit brings the joint back with this time constant, s
_SOLVER_TOLERANCE = 1e-14
_STIFF = 0.1  # period times damping by inertia
_SLOWEST_SLIP = 1e-3  # m/s: below, friction grows with it
_BOARD, _TIP = 'board', 'tip of the robot'  # names in MuJoCo
_BALL, _HALF = 0.005, 0.02  # radius of the tip, half of the board's thickness, m
_REST = 1e-200  # rad/s or m/s: what a decay leaves before it underflows


class MujocoPlant(Plant):
    """A robot in MuJoCo, without contacts.

    Attributes:
        model, data: MuJoCo's own, for viewers and tests; a payload replaces them.
        board: As given.
        board_force: Mean force of the board on the robot in the last period, base axes, (3,), N.

    Args:
        tree: The robot to simulate.
        period: Duration of a step, s.
        substeps: Integration steps per period; the effort is held.
        integrator: One of ``INTEGRATORS``.
        joint_limits: Whether the joints end at their position limits.
        pins: Pairs of frames whose origins are pinned together: the closed loops of a mechanism
            whose spanning tree the robot is.
        board: What the robot may press on; None: nothing.

    Raises:
        MissingDependencyError: MuJoCo is not installed.
        ParameterError: An option has a wrong value.
        UnknownNameError: A pin, or the board, names no frame.
        ModelError: MuJoCo refuses the model; its reason is given.

    Cost: about 10 us a step for a four-joint arm.
    """

    def __init__(
        self,
        tree: RobotTree,
        period: float = 1e-3,
        *,
        substeps: int = 1,
        integrator: str = 'euler',
        joint_limits: bool = True,
        pins: Sequence[tuple[str, str]] = (),
        board: Board | None = None,
    ) -> None:
        super().__init__(tree, period)
        if substeps < 1:
            raise ParameterError('substeps', substeps, 'at least one integration step a period')
        if integrator not in INTEGRATORS:
            known = ', '.join(sorted(INTEGRATORS))
            raise ParameterError('integrator', integrator, f'known: {known}')
        self._mujoco = _import_mujoco()
        self._bare = tree
        self._friction: Array | None = None
        self._payload: Payload | None = None
        self._substeps = substeps
        self._integrator = integrator
        self._joint_limits = joint_limits
        touching = () if board is None else (board.frame,)
        for name in (*(name for pair in pins for name in pair), *touching):
            tree.frame(name)
        self._pins, self.board, self.board_force = tuple(pins), board, np.zeros(3)
        self._push: tuple[str, Array] | None = None
        self._rebuild()

    def reset(self, q: Array | None = None, v: Array | None = None) -> None:
        """Return to time 0 at a given state; see the contract."""
        zero = np.zeros(self.tree.n)
        q = zero if q is None else self._checked('q', q)
        v = zero if v is None else self._checked('v', v)
        self._mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[self._every] = self.tree.joint_positions(q)
        self.data.qvel[self._every] = self.tree.joint_rates(v)
        self.effort = np.zeros(self.tree.n)
        self.steps = 0
        self._push, self._load_unknown = None, True

    def step(self, effort: Array) -> None:
        """Advance by one period; see the contract."""
        self.data.ctrl[:] = self._checked('effort', effort)
        if self._push is not None:
            self._apply_push(*self._push)
        if self.board is not None and self.board.motion is not None:
            self.model.qpos_spring[self._board_at] = self.board.motion(self.time + self.period)
        if self.board is None and not self._further.further:
            self._mujoco.mj_step(self.model, self.data, self._substeps)
        else:
            self._step_singly()
        self.steps += 1
        self._refuse_divergence(self.data.qpos, self.data.qvel)
        self.effort[:] = self.data.actuator_force

    def read(self, q: Array, v: Array) -> None:
        """Write the state, which this plant measures exactly."""
        q[:], v[:] = self.data.qpos[self._at], self.data.qvel[self._at]
        v[np.abs(v) < _REST] = 0.0

    def _step_singly(self) -> None:
        """Advance by one period with friction of its own in every step; take the board's mean."""
        self.board_force.fill(0.0)
        for _ in range(self._substeps):
            if self._further.further:
                self._rub()
            self._mujoco.mj_step(self.model, self.data)
            self.data.qfrc_applied[:] = 0.0
            if self.board is not None:
                pressed, rubbed = self._contact()
                self.data.qfrc_applied[:] = rubbed @ self._tip_jacobian
                self.board_force += (pressed + rubbed) / self._substeps

    def _rub(self) -> None:
        """Let the friction beyond the description's act in the coming step."""
        data, at = self.data, self._at
        if self._load_unknown:
            self._mujoco.mj_forward(self.model, data)
            data.qacc[:], self._load_unknown = 0.0, False
        speed, forces = np.abs(data.qvel[at]), np.zeros(self.model.nv)
        self._mujoco.mj_rne(self.model, data, 1, forces)
        coupling, load = self.tree.coupling, forces[at]
        if coupling is not None:
            load = coupling.rate.T @ forces[self._every]
        offset = self._further.offset
        level = self._further.friction(speed, load, np.ones_like(speed)) - offset
        level += self.tree.coulomb_friction if self._friction is None else self._friction
        self.model.dof_frictionloss[self._dofs] = np.maximum(level, 0.0)
        less = np.minimum(np.maximum(-level, 0.0), self.tree.damping * speed)
        data.qfrc_applied[self._dofs] += np.sign(data.qvel[at]) * less - offset

    def board_wrench(self) -> Array:
        """Return what a force sensor tells of the last period, new array of shape (6,).

        Force (N) and moment (N m) of the board on the robot, in the axes and about the origin of
        the link that touches it; zero without a board.
        """
        if self.board is None:
            return np.zeros(6)
        axes = self.data.site(self.board.frame).xmat.reshape(3, 3)
        return np.concatenate([axes.T @ self.board_force, np.zeros(3)])

    def _contact(self) -> tuple[Array, Array]:
        """Return force across the board on the robot, and friction for the coming step, N.

        Friction is Coulomb's at the present slip. MuJoCo's own would lift a body that slides off
        the surface with the coefficient times the speed of the slip, its relaxation's price.
        """
        mujoco, model, data = self._mujoco, self.model, self.data
        wrench, pressed = np.zeros(6), np.zeros(3)
        for k in range(data.ncon):
            mujoco.mj_contactForce(model, data, k, wrench)
            pressed += wrench[0] * self._normal
        if self.board is None or not pressed.any():
            return pressed, np.zeros(3)
        J = self._tip_jacobian
        mujoco.mj_jacSite(model, data, J, None, model.site(self.board.frame).id)
        slip = J[:, :-1] @ data.qvel[:-1]  # the last is the board's own motion
        slip -= (slip @ self._normal) * self._normal
        size = max(float(np.linalg.norm(slip)), _SLOWEST_SLIP)
        return pressed, -self.board.friction * float(np.linalg.norm(pressed)) / size * slip

    def push(self, frame: str, wrench: Array) -> None:
        """Let a hand act on the robot; see the contract."""
        body = self.tree.frame(frame).body
        if np.shape(wrench) != (6,):
            raise ShapeError('wrench', np.shape(wrench), (6,))
        if not np.isfinite(wrench).all():
            raise NonFiniteError('wrench', wrench)
        self.data.xfrc_applied[:] = 0.0
        acts = body >= 0 and np.any(wrench)
        self._push = (frame, np.array(wrench, dtype=float)) if acts else None

    def _apply_push(self, frame: str, wrench: Array) -> None:
        """Turn the push into MuJoCo's wrench: base axes, about the body's centre of mass."""
        self._mujoco.mj_kinematics(self.model, self.data)
        site = self.data.site(frame)
        body = self.data.body(self.tree.link_names[self.tree.frame(frame).body])
        force, moment = wrench.reshape(2, 3) @ site.xmat.reshape(3, 3).T
        moment += np.cross(site.xpos - body.xipos, force)
        body.xfrc_applied[:] = *force, *moment

    def set_payload(self, payload: Payload | None) -> None:
        """Attach a payload in place of the present one; see the contract."""
        self.tree = self._bare if payload is None else with_payload(self._bare, payload)
        self._payload = payload
        self._rebuild(self.data)

    def set_robot(self, tree: RobotTree) -> None:
        """Become a robot of other masses and friction; see the contract."""
        self._bare, self._friction = tree, None
        self.set_payload(self._payload)

    def set_coulomb_friction(self, level: Array) -> None:
        """Replace every Coulomb friction, shape (n,), N m or N; a payload does not restore it."""
        self._friction = level
        self.model.dof_frictionloss[self._dofs] = level

    def _rebuild(self, previous: Any = None) -> None:
        """Compile the tree; carry the state over."""
        mujoco = self._mujoco
        integrator = getattr(mujoco.mjtIntegrator, INTEGRATORS[self._integrator])
        try:
            spec = _spec(mujoco, self.tree, self.period / self._substeps, self._joint_limits)
            spec.option.integrator = integrator
            for pair in self._pins:
                _add_pin(mujoco, spec, pair, self.period / self._substeps)
            if self.board is not None:
                _add_board(mujoco, spec, self.board, self.tree, self.period / self._substeps)
            self.model = spec.compile()
        except ValueError as error:
            raise ModelError(
                f'robot {self.tree.name!r}', f'MuJoCo: {error}', 'correct the model'
            ) from error
        self.data, self._load_unknown = mujoco.MjData(self.model), True
        none = np.zeros(self.tree.n)
        self._further = JointTerms(none, none, none, further=self.tree.drive_friction)
        _set_inertias(mujoco, self.model, self.data, self.tree)
        if self._integrator == 'euler':
            _solve_with_damping(mujoco, self.model, self.data)
        if previous is not None:
            for name in ('time', 'qpos', 'qvel', 'ctrl', 'qacc_warmstart'):
                setattr(self.data, name, getattr(previous, name))
        every = [self.model.joint(name) for name in self.tree.open.joint_names]
        self._every: Array = np.array([joint.qposadr[0] for joint in every])
        joints = [self.model.joint(name) for name in self.tree.joint_names]
        self._at = np.array([joint.qposadr[0] for joint in joints])  # MuJoCo goes depth first
        self._dofs = np.array([joint.dofadr[0] for joint in joints])
        if self._friction is not None:
            self.model.dof_frictionloss[self._dofs] = self._friction
        if self.board is not None:
            self._board_at = self.model.joint(_BOARD).qposadr[0]
            self._normal = np.array(self.board.normal) / np.linalg.norm(self.board.normal)
            self._tip_jacobian = np.zeros((3, self.model.nv))


def _import_mujoco() -> Any:
    try:
        import mujoco
    except ImportError as error:
        raise MissingDependencyError(
            'mujoco', 'the MuJoCo plant', "install it (pip 'mujoco'), or simulate with Gazebo"
        ) from error
    if mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(_ignore)  # a diverged state raises; no MUJOCO_LOG.TXT as well
    return mujoco


def _ignore(_: str) -> None:
    """Drop a warning of MuJoCo's C code."""


def _spec(mujoco: Any, tree: RobotTree, timestep: float, joint_limits: bool) -> Any:
    """Return MuJoCo's description of a tree: body i + 1 is the tree's body i."""
    spec = mujoco.MjSpec()
    spec.option.timestep = timestep
    spec.modelname = tree.name
    spec.compiler.degree = False
    spec.option.gravity = tree.gravity
    spec.option.tolerance = _SOLVER_TOLERANCE
    spec.option.disableflags = (
        mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_AUTORESET
    )
    bodies: list[Any] = []
    coupled, tree = tree, tree.open
    for i in range(tree.n):
        parent = spec.worldbody if tree.parent[i] < 0 else bodies[tree.parent[i]]
        bodies.append(_add_body(mujoco, parent, tree, i))
        _add_joint(mujoco, bodies[i], tree, i, timestep, joint_limits)
        if tree.joint_names[i] in coupled.joint_names:
            _add_motor(mujoco, spec, tree, i)
        else:
            _add_follower(mujoco, spec, coupled, i, timestep)
    for name, frame in tree.frames.items():
        body = bodies[frame.body] if frame.body >= 0 else spec.worldbody
        body.add_site(name=name, pos=frame.p_BF, quat=_quaternion(mujoco, frame.R_BF))
    return spec


def _add_board(mujoco: Any, spec: Any, board: Board, tree: RobotTree, timestep: float) -> None:
    """Add a board on a spring, and the ball by which the robot touches it, as hard as can be."""
    spec.option.disableflags = mujoco.mjtDisableBit.mjDSBL_AUTORESET
    normal = np.array(board.normal) / np.linalg.norm(board.normal)
    quat = np.zeros(4)
    mujoco.mju_quatZ2Vec(quat, normal)
    hard = {
        'solref': (max(2.0 * timestep, _TOUCH_TIME), 1.0),
        'solimp': _HARD,
        'condim': 1,
    }
    plate = spec.worldbody.add_body(
        name=_BOARD,
        pos=np.array(board.origin) - (_BALL + _HALF) * normal,
        quat=quat,
        mass=board.mass,
        inertia=np.full(3, board.mass),
        explicitinertial=True,
        gravcomp=1.0,
    )
    slide = plate.add_joint(name=_BOARD, type=mujoco.mjtJoint.mjJNT_SLIDE, axis=(0.0, 0.0, 1.0))
    slide.stiffness[0], slide.damping[0] = board.stiffness, board.damping
    size = (board.size, board.size, _HALF)
    plate.add_geom(name=_BOARD, type=mujoco.mjtGeom.mjGEOM_BOX, size=size, **hard)
    frame = tree.frame(board.frame)
    body = spec.worldbody if frame.body < 0 else spec.body(tree.link_names[frame.body])
    ball = mujoco.mjtGeom.mjGEOM_SPHERE
    body.add_geom(name=_TIP, type=ball, size=(_BALL, 0.0, 0.0), pos=frame.p_BF, **hard)


def _add_pin(mujoco: Any, spec: Any, pair: tuple[str, str], timestep: float) -> None:
    """Pin the origins of two sites together, as hard as MuJoCo can."""
    pin = spec.add_equality(
        name=f'{pair[0]} - {pair[1]}',
        type=mujoco.mjtEq.mjEQ_CONNECT,
        objtype=mujoco.mjtObj.mjOBJ_SITE,
        name1=pair[0],
        name2=pair[1],
    )
    _harden(pin, timestep)


def _add_follower(mujoco: Any, spec: Any, tree: RobotTree, i: int, timestep: float) -> None:
    """Let the joint of body i follow its leader, as hard as MuJoCo can."""
    assert tree.coupling is not None  # otherwise all joints are independent
    [leader] = np.flatnonzero(tree.coupling.rate[i])
    gear = spec.add_equality(
        name=tree.coupling.joint_names[i],
        type=mujoco.mjtEq.mjEQ_JOINT,
        name1=tree.coupling.joint_names[i],
        name2=tree.joint_names[leader],
    )
    gear.data[:2] = tree.coupling.offset[i], tree.coupling.rate[i, leader]
    _harden(gear, timestep)


def _harden(equality: Any, timestep: float) -> None:
    """Make a condition as hard as MuJoCo can."""
    equality.solref[:2] = (2.0 * timestep, 1.0)
    equality.solimp[:] = _HARD


def _add_body(mujoco: Any, parent: Any, tree: RobotTree, i: int) -> Any:
    _, R_BA = _principal_inertia(tree, i)
    return parent.add_body(
        name=tree.link_names[i],
        pos=tree.p_PJ[i],
        quat=_quaternion(mujoco, tree.R_PJ[i]),
        mass=1.0,  # what is meant is set in the compiled model, whatever it is
        ipos=tree.com[i],
        iquat=_quaternion(mujoco, R_BA),
        inertia=np.ones(3),
        explicitinertial=True,
    )


def _principal_inertia(tree: RobotTree, i: int) -> tuple[Array, Array]:
    """Return the principal moments of body i, kg m^2, and their axes in it, right-handed."""
    moments, R_BA = np.linalg.eigh(np.asarray(tree.inertia[i], dtype=float))
    return moments, R_BA * np.sign(np.linalg.det(R_BA))


def _set_inertias(mujoco: Any, model: Any, data: Any, tree: RobotTree) -> None:
    """Write masses and inertias past the compiler, which refuses those of no real body."""
    for i, name in enumerate(tree.link_names):
        body = model.body(name)
        body.mass[:], body.inertia[:] = tree.mass[i], _principal_inertia(tree, i)[0]
    mujoco.mj_setConst(model, data)


def _solve_with_damping(mujoco: Any, model: Any, data: Any) -> None:
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


def _add_joint(
    mujoco: Any, body: Any, tree: RobotTree, i: int, timestep: float, joint_limits: bool
) -> None:
    kinds = mujoco.mjtJoint
    joint = body.add_joint(
        name=tree.joint_names[i],
        type=kinds.mjJNT_SLIDE if tree.prismatic[i] else kinds.mjJNT_HINGE,
        axis=tree.axis[i],
        frictionloss=tree.coulomb_friction[i],
        armature=tree.armature[i],
        solimp_friction=_HARD,
        solref_friction=(2.0 * timestep, 1.0),  # the least that is stable: stops within a step
        solimp_limit=_HARD,
        solref_limit=(_LIMIT_TIME, 1.0),
        limited=False,
    )
    joint.damping[0] = tree.damping[i]
    if joint_limits and np.isfinite((tree.position_lower[i], tree.position_upper[i])).all():
        joint.limited = True
        joint.range = (tree.position_lower[i], tree.position_upper[i])


def _add_motor(mujoco: Any, spec: Any, tree: RobotTree, i: int) -> None:
    limit = tree.effort_limit[i]
    motor = spec.add_actuator(
        name=tree.joint_names[i],
        target=tree.joint_names[i],
        trntype=mujoco.mjtTrn.mjTRN_JOINT,
        ctrllimited=True,
        ctrlrange=(-limit, limit),
    )
    motor.set_to_motor()


def _quaternion(mujoco: Any, R: Array) -> Array:
    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, np.ascontiguousarray(R, dtype=float).ravel())
    return quat
