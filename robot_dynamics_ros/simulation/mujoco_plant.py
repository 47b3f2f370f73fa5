# SPDX-License-Identifier: Apache-2.0
"""The robot simulated by MuJoCo: the only importer of it.

The model is built from the tree's arrays, so that the plant and the controller's model cannot
differ by a second reading of the URDF, and a mismatch or a payload is a change of arrays.

Equation of motion
    ``(M + armature) a + c + g = effort - damping v - Coulomb friction - joint limit force``,
    integrated semi-implicitly: ``v += period a``, then ``q += period v``. The default integrator
    takes the damping at the end of the step, which is stable for any damping; over one step
    ``(M + armature + period damping) (v_next - v) / period = effort - c - g - damping v - ...``.

Joints that follow others (mimic joints) have MuJoCo's joint equality; the friction of both acts at
the leader. Coulomb friction, followers and joint limits are MuJoCo's soft constraints, made nearly
hard: a joint that sticks creeps by about 1e-6 rad/s or m/s.

Not modelled: contacts, link flexibility, motor currents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from robot_dynamics_ros.errors import MissingDependencyError, ModelError, ParameterError
from robot_dynamics_ros.model.payload import Payload, with_payload
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.simulation.plant import Plant
from robot_dynamics_ros.spatial.scalar import Array

#: MuJoCo's integrators by the name used here.
INTEGRATORS = {
    'euler': 'mjINT_EULER',
    'implicitfast': 'mjINT_IMPLICITFAST',
    'rk4': 'mjINT_RK4',
}

_HARD = (0.9999, 0.9999, 0.001, 0.5, 2.0)  # impedance: the most that MuJoCo accepts
_LIMIT_TIME = 0.01  # a joint limit brings the joint back with this time constant, s
_SOLVER_TOLERANCE = 1e-14


class MujocoPlant(Plant):
    """A robot in MuJoCo, without contacts.

    Attributes:
        model, data: MuJoCo's own, for viewers and tests; ``set_payload`` replaces them.

    Args:
        tree: The robot to simulate.
        period: Duration of a step, s.
        substeps: Integration steps per period; the effort is held.
        integrator: One of ``INTEGRATORS``.
        joint_limits: Whether the joints end at their position limits.
        pins: Pairs of frames whose origins are pinned together: the closed loops of a mechanism
            whose spanning tree the robot is.

    Raises:
        MissingDependencyError: MuJoCo is not installed.
        ParameterError: An option has a wrong value.
        UnknownNameError: A pin names no frame.
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
    ) -> None:
        super().__init__(tree, period)
        if substeps < 1:
            raise ParameterError('substeps', substeps, 'at least one integration step a period')
        if integrator not in INTEGRATORS:
            known = ', '.join(sorted(INTEGRATORS))
            raise ParameterError('integrator', integrator, f'known: {known}')
        self._mujoco = _import_mujoco()
        self._bare = tree
        self._substeps = substeps
        self._integrator = integrator
        self._joint_limits = joint_limits
        for name in (name for pair in pins for name in pair):
            tree.frame(name)
        self._pins = tuple(pins)
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

    def step(self, effort: Array) -> None:
        """Advance by one period; see the contract."""
        self.data.ctrl[:] = self._checked('effort', effort)
        self._mujoco.mj_step(self.model, self.data, self._substeps)
        self.steps += 1
        self._refuse_divergence(self.data.qpos, self.data.qvel)
        self.effort[:] = self.data.actuator_force

    def read(self, q: Array, v: Array) -> None:
        """Write the state, which this plant measures exactly."""
        q[:], v[:] = self.data.qpos[self._at], self.data.qvel[self._at]

    def set_payload(self, payload: Payload | None) -> None:
        """Attach a payload in place of the present one; see the contract."""
        self.tree = self._bare if payload is None else with_payload(self._bare, payload)
        self._rebuild(self.data)

    def set_coulomb_friction(self, level: Array) -> None:
        """Replace every Coulomb friction, shape (n,), N m or N; a payload restores it."""
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
            self.model = spec.compile()
        except ValueError as error:
            raise ModelError(
                f'robot {self.tree.name!r}', f'MuJoCo: {error}', 'correct the model'
            ) from error
        self.data = mujoco.MjData(self.model)
        _set_inertias(mujoco, self.model, self.data, self.tree)
        if previous is not None:
            for name in ('time', 'qpos', 'qvel', 'ctrl', 'qacc_warmstart'):
                setattr(self.data, name, getattr(previous, name))
        every = [self.model.joint(name) for name in self.tree.open.joint_names]
        self._every = np.array([joint.qposadr[0] for joint in every])
        joints = [self.model.joint(name) for name in self.tree.joint_names]
        self._at = np.array([joint.qposadr[0] for joint in joints])  # MuJoCo goes depth first
        self._dofs = np.array([joint.dofadr[0] for joint in joints])


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
