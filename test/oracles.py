# SPDX-License-Identifier: Apache-2.0
"""Independent references: other libraries that parse the URDF themselves, and derivatives.

Independent of the package under test.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pinocchio as pin


class PinocchioOracle:
    """Pinocchio's own model of the URDF text; arrays in the order of ``joint_names``."""

    def __init__(self, xml: str, gravity: Sequence[float], joint_names: Sequence[str]) -> None:
        self.model = pin.buildModelFromXML(xml)
        self.model.gravity.linear = np.array(gravity, dtype=float)
        self.data = self.model.createData()
        assert self.model.nv == len(joint_names), 'the two readers see different joints'
        self.joints = [self.model.joints[self.model.getJointId(name)] for name in joint_names]
        self.dofs = np.array([joint.idx_v for joint in self.joints])

    @classmethod
    def of(cls, robot: Any) -> Any:
        """Return the oracle of a sample or a robot tree, from its text and under its gravity."""
        return cls(robot.xml, robot.gravity, getattr(robot, 'tree', robot).joint_names)

    def configuration(self, q: np.ndarray) -> np.ndarray:
        """Return q in Pinocchio's layout: a continuous joint is its cosine and sine there."""
        out = np.zeros(self.model.nq)
        for joint, angle in zip(self.joints, q, strict=True):
            if joint.nq == 2:
                out[joint.idx_q : joint.idx_q + 2] = np.cos(angle), np.sin(angle)
            else:
                out[joint.idx_q] = angle
        return out

    def _in(self, v: np.ndarray) -> np.ndarray:
        out = np.zeros(self.model.nv)
        out[self.dofs] = v
        return out

    def _state(self, q, v, a) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.configuration(q), self._in(v), self._in(a)

    def inverse_dynamics(self, q, v, a, wrenches: Mapping[str, Any] | None = None) -> np.ndarray:
        """Return tau; wrenches by link name, ``[F; M]`` in that link's axes about its origin."""
        forces = self._forces(wrenches)
        return pin.rnea(self.model, self.data, *self._state(q, v, a), forces)[self.dofs].copy()

    def mass_matrix(self, q) -> np.ndarray:
        """Return M."""
        upper = np.triu(pin.crba(self.model, self.data, self.configuration(q)))
        M = upper + np.triu(upper, 1).T
        return M[np.ix_(self.dofs, self.dofs)]

    def gravity_forces(self, q) -> np.ndarray:
        """Return g."""
        g = pin.computeGeneralizedGravity(self.model, self.data, self.configuration(q))
        return g[self.dofs].copy()

    def coriolis_matrix(self, q, v) -> np.ndarray:
        """Return a C with the right ``C v``."""
        C = pin.computeCoriolisMatrix(self.model, self.data, self.configuration(q), self._in(v))
        return C[np.ix_(self.dofs, self.dofs)]

    def forward_dynamics(self, q, v, tau) -> np.ndarray:
        """Return a, by the articulated-body algorithm."""
        a = pin.aba(self.model, self.data, self.configuration(q), self._in(v), self._in(tau))
        return a[self.dofs].copy()

    def _forces(self, wrenches: Mapping[str, np.ndarray] | None) -> pin.StdVec_Force:
        """Return the wrenches on links, which turn with them, in the frames of their joints."""
        forces = pin.StdVec_Force([pin.Force.Zero()] * self.model.njoints)
        for name, wrench in (wrenches or {}).items():
            frame = self.model.frames[self._frame(name)]
            forces[frame.parentJoint] += frame.placement.act(pin.Force(np.array(wrench)))
        return forces

    def joint_wrenches(self, q, v, a, wrenches=None) -> np.ndarray:
        """Return what every joint transmits, ``[F; M]`` in the axes of the body it moves."""
        pin.rnea(self.model, self.data, *self._state(q, v, a), self._forces(wrenches))
        return np.array([self.data.f[joint.id].vector for joint in self.joints])

    def derivatives(self, q, v, a, wrenches=None) -> tuple[np.ndarray, np.ndarray]:
        """Return the derivatives of inverse dynamics by q and by v."""
        dq, dv, _ = pin.computeRNEADerivatives(
            self.model, self.data, *self._state(q, v, a), self._forces(wrenches)
        )
        at = np.ix_(self.dofs, self.dofs)
        return dq[at], dv[at]

    def regressor(self, q, v, a) -> np.ndarray:
        """Return Y by m, m c, Ixx, Ixy, Ixz, Iyy, Iyz, Izz of each body that a joint moves."""
        Y = pin.computeJointTorqueRegressor(self.model, self.data, *self._state(q, v, a))
        # Its bodies are in its own order of joints, its tensor is xx, xy, yy, xz, yz, zz.
        bodies = [10 * (joint.id - 1) for joint in self.joints]
        order = [0, 1, 2, 3, 4, 5, 7, 6, 8, 9]
        columns = [body + k for body in bodies for k in order]
        return np.atleast_2d(Y)[np.ix_(self.dofs, columns)]  # of one joint it is a row

    def energies(self, q, v) -> tuple[float, float]:
        """Return kinetic and potential energy; the latter up to the reference of the base."""
        configuration = self.configuration(q)
        kinetic = pin.computeKineticEnergy(self.model, self.data, configuration, self._in(v))
        return kinetic, pin.computePotentialEnergy(self.model, self.data, configuration)

    def _frame(self, name: str) -> int:
        index = self.model.getFrameId(name, pin.FrameType.BODY)
        assert index < self.model.nframes, f'no link {name}'
        return index

    def frame_pose(self, name: str, q) -> tuple[np.ndarray, np.ndarray]:
        """Return rotation and origin of a link in the base."""
        pin.framesForwardKinematics(self.model, self.data, self.configuration(q))
        pose = self.data.oMf[self._frame(name)]
        return pose.rotation.copy(), pose.translation.copy()

    def frame_jacobian(self, name: str, q) -> np.ndarray:
        """Return the Jacobian of a link in base axes, linear rows first."""
        J = pin.computeFrameJacobian(
            self.model,
            self.data,
            self.configuration(q),
            self._frame(name),
            pin.LOCAL_WORLD_ALIGNED,
        )
        return J[:, self.dofs].copy()

    def frame_bias(self, name: str, q, v) -> np.ndarray:
        """Return the classical acceleration of a link at zero joint acceleration, base axes."""
        still = np.zeros(self.model.nv)
        pin.forwardKinematics(self.model, self.data, self.configuration(q), self._in(v), still)
        found = pin.getFrameClassicalAcceleration(
            self.model, self.data, self._frame(name), pin.LOCAL_WORLD_ALIGNED
        )
        return np.concatenate([found.linear, found.angular])


class EliminationOracle:
    """Mimic joints eliminated by hand: Pinocchio's model with every joint independent.

    Reads the couplings q_all = G q + o from the text and forms G^T tau(G q + o, G v, G a).
    Joints of ``locked`` stay there.
    """

    def __init__(
        self,
        xml: str,
        gravity: Sequence[float],
        names: Sequence[str],
        locked: Mapping[str, float] | None = None,
    ) -> None:
        root = ElementTree.fromstring(xml)
        every = [e for e in root.findall('joint') if e.get('type') != 'fixed']
        self.every = [element.get('name') for element in every]
        mimic = {e.get('name'): e.find('mimic') for e in every if e.find('mimic') is not None}
        self.G, self.o = np.zeros((len(every), len(names))), np.zeros(len(every))
        for i, name in enumerate(self.every):
            factor, locked = 1.0, locked or {}
            while name in mimic and name not in locked:
                self.o[i] += factor * float(mimic[name].get('offset', 0.0))
                factor *= float(mimic[name].get('multiplier', 1.0))
                name = mimic[name].get('joint')
            if name in locked:
                self.o[i] += factor * locked[name]
            else:
                self.G[i, names.index(name)] = factor
        self.pinocchio = PinocchioOracle(xml, gravity, self.every)

    of = classmethod(PinocchioOracle.of.__func__)

    def joints(self, q, v, a):
        """Return the rates of all joints by those of the coordinates, and their motion."""
        return self.G, self.G @ q + self.o, self.G @ v, self.G @ a

    def inverse_dynamics(self, q, v, a, wrenches=None):
        G, *motion = self.joints(q, v, a)
        return G.T @ self.pinocchio.inverse_dynamics(*motion, wrenches)

    def mass_matrix(self, q):
        G, position, *_ = self.joints(q, 0 * q, 0 * q)
        return G.T @ self.pinocchio.mass_matrix(position) @ G

    def forward_dynamics(self, q, v, tau):
        bias = self.inverse_dynamics(q, v, np.zeros(len(q)))
        return np.linalg.solve(self.mass_matrix(q), tau - bias)

    def derivatives(self, q, v, a, wrenches=None):
        G, *motion = self.joints(q, v, a)
        return tuple(G.T @ D @ G for D in self.pinocchio.derivatives(*motion, wrenches))

    def frame_pose(self, name, q):
        return self.pinocchio.frame_pose(name, self.G @ q + self.o)

    def frame_jacobian(self, name, q):
        return self.pinocchio.frame_jacobian(name, self.G @ q + self.o) @ self.G

    def frame_bias(self, name, q, v):
        return self.pinocchio.frame_bias(name, self.G @ q + self.o, self.G @ v)


class LoopOracle(EliminationOracle):
    """A mechanism, whose motion ``model/test_mechanism`` examines, by Pinocchio's tree.

    The rates of its joints by those of the coordinates are complex steps through the loops.
    """

    def __init__(self, mechanism: Any) -> None:
        self.mechanism, self.pinocchio = mechanism, PinocchioOracle.of(mechanism.tree)
        self.rates = cache(lambda *q: complex_step(mechanism.positions, np.array(q)))

    def joints(self, q, v, a):
        state = self.mechanism.tree_state(q, v, a)
        return self.rates(*q), state.q, state.v, state.a

    def derivatives(self, q, v, a, wrenches=None):
        """Return differences, of fourth order: the rates change with the position."""
        by_q = central_difference(lambda x: self.inverse_dynamics(x, v, a, wrenches), q)
        return by_q, central_difference(lambda x: self.inverse_dynamics(q, x, a, wrenches), v)


def complex_step(f: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    """Return the Jacobian ``df_i/dx_j`` of an analytic function, exact to rounding.

    The imaginary part of f(x + i h e_j) / h has an error of order h^2, and no difference is taken:
    h may be so small that the error vanishes (Squire and Trapp, 1998).
    """
    h = 1e-100
    columns = []
    for j in range(len(x)):
        z = np.array(x, dtype=complex)
        z[j] += 1j * h
        columns.append(np.imag(f(z)) / h)
    return np.stack(columns, axis=-1)


def complex_step_along(f: Callable[[np.ndarray], np.ndarray], x, direction) -> np.ndarray:
    """Return the derivative of an analytic function along a direction, exact to rounding."""
    h = 1e-100
    return np.imag(f(np.asarray(x) + 1j * h * np.asarray(direction))) / h


def central_difference(
    f: Callable[[np.ndarray], np.ndarray], x: np.ndarray, h: float = 1e-3
) -> np.ndarray:
    """Return the Jacobian ``df_i/dx_j`` by the central difference of fourth order.

    Error about h^4 plus rounding / h: 1e-11 of the size of f for lengths and angles near 1.
    """
    columns = []
    for j in range(len(x)):
        step = np.zeros(len(x))
        step[j] = h
        near = np.asarray(f(x + step)) - np.asarray(f(x - step))
        far = np.asarray(f(x + 2 * step)) - np.asarray(f(x - 2 * step))
        columns.append((8 * near - far) / (12 * h))
    return np.stack(columns, axis=-1)


def relative_error(found: np.ndarray, expected: np.ndarray, floor: float = 1e-3) -> float:
    """Return the largest difference, relative to the largest entry expected.

    Below the floor the difference is judged absolutely, so that rounding around an exact zero
    does not count as an error.
    """
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape, f'shape {found.shape}, expected {expected.shape}'
    return float(np.max(np.abs(found - expected)) / max(floor, np.max(np.abs(expected))))
