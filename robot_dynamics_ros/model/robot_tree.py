# SPDX-License-Identifier: Apache-2.0
"""Robot model as read-only arrays: parents first, fixed joints lumped, followers coupled."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.errors import NonFiniteError, ShapeError, known_name
from robot_dynamics_ros.spatial.rotation import rotation_about
from robot_dynamics_ros.spatial.scalar import Array, Scalar

STANDARD_GRAVITY = (0.0, 0.0, -9.81)
TURN = 2.0 * math.pi  # rad
_ENDLESS_TRAVEL = 1.0  # m


class BodyFrame(NamedTuple):
    """A frame fixed in a body, such as a URDF link lumped into it.

    Attributes:
        body: Index of the body, -1 for the base.
        R_BF: Rotation, shape (3, 3): maps frame components to body components.
        p_BF: Origin in the body frame, shape (3,), m.
    """

    body: int
    R_BF: Array
    p_BF: Array


class Coupling(NamedTuple):
    r"""Coupling of followers: every joint is an affine function of the n independent joints.

    .. math:: q_{bodies} = G\,q + o

    Attributes:
        joint_names: Names of the joints of all b bodies, in body order.
        rate: G, shape (b, n); the row of a leader has a single 1. Integers if all entries are.
        offset: o, shape (b,), rad or m.
    """

    joint_names: tuple[str, ...]
    rate: Array
    offset: Array


@dataclass(frozen=True, eq=False)
class RobotTree:
    """A tree of rigid bodies, each moved by one joint; n of the joints are independent.

    Without coupling, every joint is independent and joint i moves body i. With coupling, *joint*
    attributes have n entries and *body* attributes (link_names to inertia below) have one entry
    per body; friction and armature of followers are included in those of their leaders.

    Arrays are read-only copies of those given. They hold floats, or symbols (dtype object) for
    printed equations.

    Attributes:
        name: Name of the robot.
        base_link: Name of the root link.
        joint_names: Names of the n independent joints, parents first.
        link_names: Name of the child link of each body's joint.
        parent: Index of the parent body of each body; -1 for the base.
        prismatic: Whether the joint of each body is prismatic (True) or revolute (False); of the
            independent joints see ``joint_is_prismatic``.
        axis: Unit joint axes in the joint's own frame, shape (n, 3).
        R_PJ: Rotation of each joint frame in its parent body, shape (n, 3, 3).
        p_PJ: Origin of each joint frame in its parent body at q = 0, shape (n, 3), m.
        mass: Body masses, shape (n,), kg.
        com: Centres of mass in the body frames, shape (n, 3), m.
        inertia: Tensors about the centres of mass, body axes, shape (n, 3, 3), kg m^2.
        gravity: Free-fall acceleration in the base frame, shape (3,), m/s^2.
        position_lower, position_upper: Joint limits, shape (n,), rad or m; infinite if continuous.
        velocity_limit: Velocity limits, shape (n,), rad/s or m/s; infinite if not given.
        effort_limit: Effort limits, shape (n,), N m or N; positive.
        damping: Viscous friction, shape (n,), N m s/rad or N s/m.
        coulomb_friction: Coulomb friction, shape (n,), N m or N.
        armature: Reflected drive inertia, shape (n,), kg m^2 or kg.
        frames: Frame of every link of the file in the body that it is lumped into, by link name.
        xml: Source URDF text, expanded and with locked joints fixed; empty if not from a URDF.
        coupling: Coupling of followers (mimic joints) to the independent joints; None if none.
        locked: Positions of the locked joints by name, rad or m.
        influential: Those locked joints on whose position the dynamics depend: the ones that a
            controlled revolute joint carries, and the ones that turn controlled joints against
            gravity or a controlled slide.
        lock_paths: Names of the locked joints between the root and a link, by the name of the
            link; links without any are missing.
        remarks: Suspicious or reinterpreted parts of the description, one sentence each.
        drive_friction: Additional friction terms by name, see ``model.identified``; shape (n,)
            each.
        soft_lower, soft_upper: Soft position limits, which bound references (trajectories,
            targets, paths, samples) within the position limits, shape (n,), rad or m; infinite
            for joints without one, None if no joint has one.
    """

    name: str
    base_link: str
    joint_names: tuple[str, ...]
    link_names: tuple[str, ...]
    parent: tuple[int, ...]
    prismatic: tuple[bool, ...]
    axis: Array
    R_PJ: Array
    p_PJ: Array
    mass: Array
    com: Array
    inertia: Array
    gravity: Array
    position_lower: Array
    position_upper: Array
    velocity_limit: Array
    effort_limit: Array
    damping: Array
    coulomb_friction: Array
    armature: Array
    frames: Mapping[str, BodyFrame]
    xml: str = ''
    coupling: Coupling | None = None
    locked: Mapping[str, float] = field(default_factory=dict)
    influential: tuple[str, ...] = ()
    lock_paths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    drive_friction: Mapping[str, Array] = field(default_factory=dict)
    soft_lower: Array | None = None
    soft_upper: Array | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            object.__setattr__(self, name, _frozen(value))

    @property
    def n(self) -> int:
        """Number of independent joints, the degrees of freedom."""
        return len(self.joint_names)

    @property
    def bodies(self) -> int:
        """Number of bodies; more than ``n`` if there are followers."""
        return len(self.parent)

    def joint_positions(self, q: Array) -> Array:
        """Return the joint positions of all bodies, shape (bodies,), from q of shape (n,)."""
        coupling = self.coupling
        return q if coupling is None else coupling.rate @ q + coupling.offset

    def joint_rates(self, v: Array) -> Array:
        """Return the joint velocities of all bodies; v has shape (n,), or (n, k) for k vectors."""
        return v if self.coupling is None else self.coupling.rate @ v

    @property
    def open(self) -> RobotTree:
        """The same bodies with all joints independent; followers have no limits or friction."""
        coupling = self.coupling
        if coupling is None:
            return self
        unlimited = {'position_lower': -np.inf, 'position_upper': np.inf, 'velocity_limit': np.inf}
        changes: dict[str, Any] = {'effort_limit': np.inf, 'damping': 0.0, **unlimited}
        for name in (*changes, 'coulomb_friction', 'armature'):
            expanded = np.full(self.bodies, changes.get(name, 0.0))
            expanded[self.body_of_joint] = getattr(self, name)
            changes[name] = expanded
        changes |= {'joint_names': coupling.joint_names, 'coupling': None, 'drive_friction': {}}
        changes |= {'soft_lower': None, 'soft_upper': None}
        return replace(self, **changes)

    @property
    def followers(self) -> tuple[str, ...]:
        """Names of the mimic joints, in body order."""
        names = () if self.coupling is None else self.coupling.joint_names
        return tuple(name for name in names if name not in self.joint_names)

    @property
    def body_of_joint(self) -> Array:
        """Index of the body that each independent joint moves, shape (n,)."""
        names = self.joint_names if self.coupling is None else self.coupling.joint_names
        return np.array([names.index(name) for name in self.joint_names])

    @property
    def joint_of_body(self) -> Array:
        """Index of the independent joint that each body's joint is or follows, shape (bodies,)."""
        if self.coupling is None:
            return np.arange(self.n)
        return np.asarray(np.abs(self.coupling.rate).argmax(axis=1))

    @property
    def joint_is_prismatic(self) -> tuple[bool, ...]:
        """Whether each of the n independent joints is prismatic (True) or revolute (False)."""
        return tuple(self.prismatic[body] for body in self.body_of_joint)

    @property
    def joint_is_continuous(self) -> Array:
        """Whether each of the n independent joints may turn without end, shape (n,).

        A whole turn of it changes nothing, so its positions are angles. Not so if mimic joints
        follow it that slide, or turn by a fraction of its turns.
        """
        found = ~np.array(self.joint_is_prismatic)
        found &= np.isinf(self.position_lower) & np.isinf(self.position_upper)
        if self.coupling is not None:
            rate = self.coupling.rate
            slides = np.array(self.prismatic)[:, np.newaxis]
            found &= ~((rate != 0.0) & (slides | (rate % 1.0 != 0.0))).any(axis=0)
        return found

    def nearest_turn(self, q: Array, near: Array) -> Array:
        """Return positions with continuous joints turned by whole turns to be nearest to others.

        Args:
            q: Shape (..., n), rad or m.
            near: Shape (..., n), rad or m.

        Returns:
            New array, shape (..., n).
        """
        return q + TURN * np.round((near - q) / TURN) * self.joint_is_continuous

    @property
    def position_range(self) -> Array:
        """Width of the position limits, shape (n,), rad or m; 0 for unlimited joints."""
        span = self.position_upper - self.position_lower
        return np.where(np.isfinite(span), span, 0.0)

    @property
    def reference_lower(self) -> Array:
        """Lower limit of references, shape (n,), rad or m: of the position, and the soft one."""
        soft = self.soft_lower
        return self.position_lower if soft is None else np.maximum(self.position_lower, soft)

    @property
    def reference_upper(self) -> Array:
        """Upper limit of references, shape (n,), rad or m; see ``reference_lower``."""
        soft = self.soft_upper
        return self.position_upper if soft is None else np.minimum(self.position_upper, soft)

    def limits_word(self, i: int) -> str:
        """Return what the reference limits of joint i are called in messages."""
        reference = self.reference_lower[i], self.reference_upper[i]
        own = self.position_lower[i], self.position_upper[i]
        return 'limits' if reference == own else 'soft limits'

    @property
    def middle(self) -> Array:
        """Middle of the reference limits, shape (n,), rad or m; nearest to 0 if endless.

        It is the one default posture: of searches, of programs and of laws without another one.
        """
        lower, upper = self.reference_lower, self.reference_upper
        ends = np.where(self._limited, [lower, upper], np.clip(0.0, lower, upper))
        return ends.mean(axis=0)

    @property
    def sampled_range(self) -> tuple[Array, Array]:
        """Lower and upper bound of samples, shape (n,) each, rad or m.

        They are the reference limits, but at most a turn about the middle of a revolute joint, and
        ``_ENDLESS_TRAVEL`` to both sides of an endless prismatic one.
        """
        endless = np.where(self._limited, np.inf, _ENDLESS_TRAVEL)
        reach, middle = np.where(self.joint_is_prismatic, endless, np.pi), self.middle
        lower = np.maximum(self.reference_lower, middle - reach)
        return lower, np.minimum(self.reference_upper, middle + reach)

    @property
    def _limited(self) -> Array:
        return np.isfinite(self.position_lower) & np.isfinite(self.position_upper)

    def speeds(self, usual: float = 1.0) -> Array:
        """Return the velocity limits, shape (n,), rad/s or m/s; ``usual`` where there is none."""
        return np.where(np.isfinite(self.velocity_limit), self.velocity_limit, usual)

    def joint_index(self, name: str) -> int:
        """Return the index of a joint.

        Raises:
            UnknownNameError: There is no such joint; the message lists the known joints.
        """
        return self.joint_names.index(known_name('joint', name, self.joint_names))

    def frame(self, name: str) -> BodyFrame:
        """Return a frame by its link name.

        Raises:
            UnknownNameError: There is no such frame; the message lists the known frames.
        """
        return self.frames[known_name('frame', name, self.frames)]

    def placement(self, i: int, q_i: Scalar) -> tuple[Array, Array]:
        """Return the pose of body i in its parent at joint position q_i.

        Returns:
            ``R_PB`` (3, 3), mapping body to parent components, and ``p_PB`` (3,), m, in parent
            axes.
        """
        if self.prismatic[i]:
            return self.R_PJ[i], self.p_PJ[i] + self.R_PJ[i] @ self.axis[i] * q_i
        return self.R_PJ[i] @ rotation_about(self.axis[i], q_i), self.p_PJ[i]

    def path(self, body: int) -> tuple[int, ...]:
        """Return the indices of the bodies from the base to a body, inclusive."""
        bodies: list[int] = []
        while body >= 0:
            bodies.append(body)
            body = self.parent[body]
        return tuple(reversed(bodies))

    def with_gravity(self, gravity: Any) -> RobotTree:
        """Return a copy with another gravity vector, shape (3,), m/s^2."""
        return replace(self, gravity=vector('gravity', gravity))

    def with_changes(self, **changes: Any) -> RobotTree:
        """Return a copy with some attributes replaced (payload, model error, symbols)."""
        return replace(self, **changes)


def _frozen(value: Any) -> Any:
    """Return an array that nobody can write to, and a mapping of arrays as a mapping of such."""
    if isinstance(value, Mapping):
        return {key: _frozen(part) for key, part in value.items()}
    if not isinstance(value, np.ndarray) or not (value.flags.writeable or value.base is not None):
        return value
    value = value.copy()
    value.setflags(write=False)
    return value


def vector(name: str, value: Any) -> Array:
    """Convert three numbers or symbols to an array.

    Raises:
        ShapeError: The shape is not (3,).
        NonFiniteError: A number is NaN or infinite.
    """
    array = np.array(value)
    if array.dtype != object:
        array = array.astype(float)
    if array.shape != (3,):
        raise ShapeError(name, array.shape, '(3,)')
    if array.dtype != object and not np.isfinite(array).all():
        raise NonFiniteError(name, array.tolist())
    return array
