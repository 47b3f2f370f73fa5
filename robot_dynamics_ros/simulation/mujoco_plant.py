# SPDX-License-Identifier: Apache-2.0
"""MuJoCo plant, built from the arrays of a robot tree.

Plant and controller model therefore cannot differ by a second parser of the URDF, and a mismatch
or a payload is a change of arrays.

Equation of motion
    ``(M + armature) a + c + g = effort - damping v - Coulomb friction - joint limit force``,
    integrated semi-implicitly: ``v += period a``, then ``q += period v``. The default integrator
    takes the damping at the end of the step, which is stable for any damping; over one step
    ``(M + armature + period damping) (v_next - v) / period = effort - c - g - damping v - ...``.

Identified friction that the description cannot express (see ``dynamics.joint_terms``) is applied
as Coulomb friction with a level that depends on velocity and load; the load is that of the last
integration step. It never drives a joint.

Mimic joints are modelled with MuJoCo's joint equality; their friction acts at the joint that they
mimic. Coulomb friction, mimic joints and joint limits are soft constraints of MuJoCo with
nearly rigid settings: a sticking joint creeps by about 1e-6 rad/s or m/s.

Contacts are modelled with one :class:`Board` only. Not modelled: link flexibility, motor currents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.dynamics.joint_terms import JointTerms
from robot_dynamics_ros.errors import (
    DivergenceError,
    MissingDependencyError,
    ModelError,
    ParameterError,
    RobotDynamicsError,
    known_name,
)
from robot_dynamics_ros.model import Mechanism, Robot
from robot_dynamics_ros.model.payload import Payload, with_payload
from robot_dynamics_ros.parameters import Values, spread
from robot_dynamics_ros.simulation.mujoco_description import (
    BOARD,
    Board,
    MujocoDescription,
    set_inertias,
    solve_with_damping,
)
from robot_dynamics_ros.simulation.plant import Plant
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.spatial.validation import require_counts

#: Integrators of MuJoCo.
INTEGRATORS = ('euler', 'implicitfast', 'rk4')

_MASSLESS = 1e12  # 1/kg or 1/(kg m^2): inverse inertia of what moves no mass of its own
_SLIGHT = 1e-9  # share of the largest inertia, which a joint needs that moves no mass of its own
_MIN_SLIP = 1e-3  # m/s: below it, friction is proportional to the slip
_MIN_VELOCITY = 1e-200  # rad/s or m/s: smaller velocities are set to zero before they underflow


class MujocoPlant(Plant):
    """A robot in MuJoCo, without contacts except with a board.

    Attributes:
        model, data: The MuJoCo objects, for viewers and tests; a new payload replaces them.
        board: As given.
        board_force: Mean force of the board on the robot in the last period, base axes, (3,), N.

    Args:
        tree: The robot to simulate.
        period: Duration of a step, s.
        substeps: Integration steps per period; the effort is held.
        integrator: One of ``INTEGRATORS``.
        joint_limits: Whether to enforce the position limits.
        pins: Pairs of frames whose origins are pinned together, which close the loops of a
            mechanism with this spanning tree.
        board: A board that the robot can press on, or None.

    Raises:
        MissingDependencyError: MuJoCo is not installed.
        ParameterError: An option is invalid.
        UnknownNameError: The integrator, or a frame of a pin or the board, is unknown.
        ModelError: MuJoCo rejects the model; gives its reason.

    Cost: about 10 us per step for a four-joint arm.
    """

    def __init__(
        self,
        tree: Robot,
        period: float = 1e-3,
        *,
        substeps: int = 1,
        integrator: str = 'euler',
        joint_limits: bool = True,
        pins: Sequence[tuple[str, str]] = (),
        board: Board | None = None,
    ) -> None:
        super().__init__(tree, period)
        require_counts(substeps=substeps)
        if substeps < 1:
            raise ParameterError('substeps', substeps, 'at least one integration step per period')
        known_name('integrator', integrator, INTEGRATORS)
        self._mujoco = _import_mujoco()
        self._unloaded = tree
        self._friction: Array | None = None
        self._payload: Payload | None = None
        self._substeps = substeps
        self._integrator = integrator
        self._joint_limits = joint_limits
        self.board_frame = '' if board is None else board.frame
        for name in (name for pair in pins for name in pair):
            tree.frame(name)
        if board is not None:
            tree.frame(board.frame, 'board_frame')
        self._pins, self.board, self.board_force = tuple(pins), board, np.zeros(3)
        self._push: tuple[str, Array] | None = None
        self._rebuild()

    def reset(self, q: Array | None = None, v: Array | None = None) -> None:
        """Return to time 0 at a given state; see :meth:`Plant.reset`."""
        zero = np.zeros(self.tree.n)
        q = zero if q is None else self._checked('q', q)
        v = zero if v is None else self._checked('v', v)
        self._mujoco.mj_resetData(self.model, self.data)
        state = self.tree.tree_state(q, v, zero)
        self.data.qpos[self._all_joints] = state.q
        self.data.qvel[self._all_joints] = state.v
        self.effort = np.zeros(self.tree.n)
        self.steps = 0
        self._push, self._load_unknown = None, True
        self.board_force.fill(0.0)

    def step(self, effort: Array) -> None:
        """Advance by one period; see :meth:`Plant.step`."""
        self.data.ctrl[:] = self._checked('effort', effort)
        if self._push is not None:
            self._apply_push(*self._push)
        if self.board is not None and self.board.motion is not None:
            self.model.qpos_spring[self._board_qpos] = self.board.motion(self.time + self.period)
        if self.board is None and not self._extra_terms.further:
            self._mujoco.mj_step(self.model, self.data, self._substeps)
        else:
            self._step_by_substeps()
        self.steps += 1
        if not (np.isfinite(self.data.qpos).all() and np.isfinite(self.data.qvel).all()):
            raise DivergenceError(f'the simulation of {self.tree.name!r}', self.time)
        self.effort[:] = self.data.actuator_force

    def read(self, q: Array, v: Array) -> None:
        """Write the state, which this plant measures exactly."""
        np.copyto(q, self.data.qpos[self._qpos])  # not into integers
        np.copyto(v, self.data.qvel[self._qpos])
        v[np.abs(v) < _MIN_VELOCITY] = 0.0

    def _step_by_substeps(self) -> None:
        """Advance by one period, with friction and board forces updated in every substep."""
        self.board_force.fill(0.0)
        for _ in range(self._substeps):
            if self._extra_terms.further:
                self._apply_friction()
            self._mujoco.mj_step(self.model, self.data)
            self.data.qfrc_applied[:] = 0.0
            if self.board is not None:
                force, friction = self._contact()
                self.data.qfrc_applied[:] = friction @ self._tip_jacobian
                self.board_force += (force + friction) / self._substeps

    def _apply_friction(self) -> None:
        """Apply the friction that the description cannot express to the next step."""
        data, at = self.data, self._qpos
        if self._load_unknown:
            self._mujoco.mj_forward(self.model, data)
            data.qacc[:], self._load_unknown = 0.0, False
        speed, forces = np.abs(data.qvel[at]), np.zeros(self.model.nv)
        self._mujoco.mj_rne(self.model, data, 1, forces)
        rates = self.tree.tree_state(data.qpos[at], data.qvel[at], 0.0 * speed).A
        load = rates.T @ forces[self._all_joints]
        offset = self._extra_terms.offset
        level = self._extra_terms.friction(speed, load, np.ones_like(speed)) - offset
        level += self.tree.coulomb_friction if self._friction is None else self._friction
        self.model.dof_frictionloss[at] = np.maximum(level, 0.0)
        reduction = np.minimum(np.maximum(-level, 0.0), self.tree.damping * speed)
        data.qfrc_applied[at] += np.sign(data.qvel[at]) * reduction - offset

    def board_wrench(self) -> Array:
        """Return the mean wrench of the last period; see :meth:`Plant.board_wrench`."""
        if self.board is None:
            return super().board_wrench()
        axes = self.data.site(self.board.frame).xmat.reshape(3, 3)
        return np.concatenate([axes.T @ self.board_force, np.zeros(3)])

    def _contact(self) -> tuple[Array, Array]:
        """Return the normal force on the robot, and the friction force for the next step, N.

        Both have shape (3,), base axes. The friction is Coulomb friction at the current slip
        velocity. MuJoCo's own friction would, by its constraint relaxation, lift a sliding body
        off the surface at the coefficient times the slip speed.
        """
        mujoco, model, data = self._mujoco, self.model, self.data
        wrench, force = np.zeros(6), np.zeros(3)
        for k in range(data.ncon):
            mujoco.mj_contactForce(model, data, k, wrench)
            force += wrench[0] * self._normal
        if self.board is None or not force.any():
            return force, np.zeros(3)
        J = self._tip_jacobian
        mujoco.mj_jacSite(model, data, J, None, model.site(self.board.frame).id)
        slip = J[:, :-1] @ data.qvel[:-1]  # the last entry is the velocity of the board
        slip -= (slip @ self._normal) * self._normal
        size = max(float(np.linalg.norm(slip)), _MIN_SLIP)
        return force, -self.board.friction * float(np.linalg.norm(force)) / size * slip

    def push(self, frame: str, wrench: Array) -> None:
        """Apply an external wrench to the robot; see :meth:`Plant.push`."""
        body = self.tree.frame(frame).body
        self._checked('wrench', wrench, 6)
        self.data.xfrc_applied[:] = 0.0
        effective = body >= 0 and np.any(wrench)
        self._push = (frame, np.array(wrench, dtype=float)) if effective else None

    def _apply_push(self, frame: str, wrench: Array) -> None:
        """Convert the push to MuJoCo's convention: base axes, about the body's centre of mass."""
        self._mujoco.mj_kinematics(self.model, self.data)
        site = self.data.site(frame)
        body = self.data.body(self.tree.link_names[self.tree.frame(frame).body])
        force, moment = wrench.reshape(2, 3) @ site.xmat.reshape(3, 3).T
        moment += np.cross(site.xpos - body.xipos, force)
        body.xfrc_applied[:] = *force, *moment

    def set_payload(self, payload: Payload | None) -> None:
        """Replace the payload; see :meth:`Plant.set_payload`."""
        self.tree = self._unloaded if payload is None else with_payload(self._unloaded, payload)
        self._payload = payload
        self._rebuild(self.data)

    def set_robot(self, tree: Robot) -> None:
        """Change masses and friction; see :meth:`Plant.set_robot`."""
        self._unloaded, self._friction = tree, None
        self.set_payload(self._payload)

    def set_coulomb_friction(self, level: Array) -> None:
        """Replace the Coulomb friction, shape (n,), N m or N; a payload does not restore it."""
        self._friction = level
        self.model.dof_frictionloss[self._qpos] = level

    def _rebuild(self, previous: Any = None) -> None:
        """Compile the MuJoCo model and copy the previous state."""
        mujoco = self._mujoco
        integrator = getattr(mujoco.mjtIntegrator, f'mjINT_{self._integrator.upper()}')
        try:
            step = self.period / self._substeps
            description = MujocoDescription(mujoco, self.tree, step, self._joint_limits)
            description.spec.option.integrator = integrator
            for pair in self._pins:
                description.add_pin(pair)
            if self.board is not None:
                description.add_board(self.board)
            self.model = description.spec.compile()
            self.data, self._load_unknown = mujoco.MjData(self.model), True
            set_inertias(mujoco, self.model, self.data, self.tree)
        except RobotDynamicsError:
            raise
        except (ValueError, mujoco.FatalError) as error:
            raise ModelError(
                f'robot {self.tree.name!r}', f'MuJoCo: {error}', 'correct the model'
            ) from error
        zeros = np.zeros(self.tree.n)
        self._extra_terms = JointTerms(zeros, zeros, zeros, further=self.tree.drive_friction)
        if self._integrator == 'euler':
            solve_with_damping(mujoco, self.model, self.data)
        if previous is not None:
            for name in ('time', 'qpos', 'qvel', 'ctrl', 'qacc_warmstart'):
                setattr(self.data, name, getattr(previous, name))
        joints = [self.model.joint(name) for name in self.tree.body_joints]
        self._all_joints: Array = np.array([joint.qposadr[0] for joint in joints])
        # Of position and velocity, as each joint has one of them; MuJoCo orders depth first.
        self._qpos = self._all_joints[self.tree.body_of_joint]
        if isinstance(self.tree, Mechanism):
            # Couplings yield by the inverse inertia of both parts, as if they were not coupled.
            follows = self.tree.mimic.rate.diagonal() == 0
            self.model.dof_invweight0[self._all_joints[follows]] = 0.0
            bare = self.model.dof_invweight0 > _MASSLESS
            self.model.dof_armature[bare] += _SLIGHT * self.model.dof_M0.max()
            for weights in (self.model.dof_invweight0, self.model.body_invweight0):
                weights[weights > _MASSLESS] = 0.0
        if self._friction is not None:
            self.model.dof_frictionloss[self._qpos] = self._friction
        if self.board is not None:
            self._board_qpos = self.model.joint(BOARD).qposadr[0]
            self._normal = self.board.direction
            self._tip_jacobian = np.zeros((3, self.model.nv))


def plant_from_parameters(tree: Robot, values: Values) -> MujocoPlant:
    """Return the plant at its initial state that the simulator's parameters describe.

    Args:
        tree: The robot to simulate.
        values: Values of the parameters by name.

    Raises:
        RobotDynamicsError: A value is invalid, or MuJoCo rejects the model.
    """
    names = [name for name in values['pins'] if name]
    if len(names) % 2:
        raise ParameterError('pins', names, 'give an even number of frames, two for each pin')
    board = None
    if values['board_program']:
        program = load_program(values['board_program'], tree, check=False)
        properties = ('stiffness', 'damping', 'friction')
        board = Board.for_program(program, **{x: values[f'board_{x}'] for x in properties})
    plant = MujocoPlant(
        tree,
        values['period'],
        substeps=values['substeps'],
        integrator=values['integrator'],
        joint_limits=values['joint_limits'],
        pins=list(zip(names[::2], names[1::2], strict=True)),
        board=board,
    )
    plant.reset(*initial_state(tree, values))
    return plant


def initial_state(tree: Robot, values: Values) -> tuple[Array, Array]:
    """Return the initial positions in parameters and velocities 0 as new arrays, shape (n,).

    Raises:
        ParameterError: A position is outside its limits.
    """
    q = np.array(spread(values['initial_position'], tree.n))
    if len(values['initial_position']) == 1:
        q = np.clip(q, tree.position_lower, tree.position_upper)
    require_within_limits(tree, 'initial_position', q)
    return q, np.zeros(tree.n)


def require_within_limits(tree: Robot, name: str, q: Array) -> None:
    """Check that positions, shape (n,), are within the joint limits.

    Raises:
        ParameterError: One is not; names the parameter.
    """
    limits = zip(tree.joint_names, tree.position_lower, tree.position_upper, strict=True)
    for (joint, lower, upper), x in zip(limits, q.tolist(), strict=True):
        if not lower <= x <= upper:
            wanted = f'the limits of joint {joint!r} are {lower:g} to {upper:g}'
            raise ParameterError(name, x, wanted)


def _import_mujoco() -> Any:
    try:
        import mujoco
    except ImportError as error:
        raise MissingDependencyError(
            'mujoco', 'the MuJoCo plant', "install it (pip 'mujoco'), or simulate with Gazebo"
        ) from error
    if mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(_ignore_warning)  # no MUJOCO_LOG.TXT: a diverged state raises
    return mujoco


def _ignore_warning(_: str) -> None:
    """Ignore a warning of MuJoCo's C code."""
