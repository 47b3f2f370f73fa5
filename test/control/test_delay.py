# SPDX-License-Identifier: Apache-2.0
"""Sessions whose driver is delayed: what is accepted is calm, what would oscillate is refused.

The plant is MuJoCo with a queue of delayed commands.
"""

import re
from collections import deque
from typing import Any

import mujoco
import numpy as np
import pytest
from pushed_arm import START, PlantArm
from samples import sample
from still_arm import driver_of

from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model import Robot

#: By parameter, a value beyond what any delay bears, and the others of its law.
LAWS: dict[str, tuple[list[float], dict[str, Any]]] = {
    'natural_frequency': ([900.0], {'law': 'computed_torque'}),
    'joint_stiffness': ([1e6], {'law': 'impedance', 'null_space_frequency': 0.0}),
    'frame_stiffness': ([1e6] * 3 + [2e4] * 3, {'law': 'impedance', 'impedance_frame': 'tool'}),
    'damping': ([1e5], {'law': 'gravity_compensation'}),
}


class DelayedArm(PlantArm):
    """An arm whose commands act some periods late.

    Attributes:
        push: Generalized force on the arm, shape (n,), N m or N.

    Args:
        tree: The arm.
        start: Position, shape (n,), rad or m.
        delay: Of the plant, periods.
        declared: Of the profile, periods; that of the plant if None.
        given: Parameters.
    """

    def __init__(
        self, tree: Robot, start: Any, delay: int, declared: int | None = None, **given: Any
    ) -> None:
        driver = driver_of(tree, delay=delay if declared is None else declared)
        super().__init__(
            tree, start, {'activation_ramp_s': 0.0, **given}, driver, joint_limits=False
        )
        self.push, gravity = np.zeros((2, tree.n))
        self.activate()
        self.session.loop.kernels.gravity_forces(np.array(start), gravity)
        self._queue = deque([gravity] * delay)

    def act(self) -> None:
        """Apply the push and a late command for a period."""
        self._queue.append(self.effort.copy())
        self.plant.data.qfrc_applied[:] = self.push
        self.plant.step(self._queue.popleft())

    def energy(self, steps: int) -> float:
        """Run steps; return the largest kinetic energy, J."""
        most, M = 0.0, np.zeros((len(self.q),) * 2)
        for _ in self.run(steps):
            mujoco.mj_fullM(self.plant.model, self.plant.data, M)
            most = max(most, 0.5 * float(self.v @ M @ self.v))
        return most

    def is_calm(self) -> bool:
        """Return whether the energy of a small push decreases, after it has acted."""
        self.push[:] = 0.005 * self.session.tree.effort_limit
        first = self.energy(20)
        self.push[:] = 0.0
        energy = [self.energy(100) for _ in range(10)]
        return energy[-1] < min(energy[4] + 1e-12, first)


def named_limit(error: ParameterError) -> np.ndarray:
    """Return the largest value that an error names."""
    return np.array(re.findall(r'[\d.e+-]+', str(error).split('give at most')[1]), float)


PLACE = START['four_dof']
NONE = np.zeros(4)  # friction and rotors would hide an oscillation
TREE = sample('four_dof').tree.with_changes(damping=NONE, coulomb_friction=NONE, armature=NONE)


def late(delay: int, declared: float | None = None, **given: Any) -> DelayedArm:
    return DelayedArm(TREE, PLACE, delay, declared, **given)


@pytest.mark.slow
@pytest.mark.parametrize('name', LAWS)
@pytest.mark.parametrize('delay', [0, 3])
def test_the_largest_value_that_is_named_is_calm_and_a_quarter_more_is_refused(name, delay):
    """With reason: with one and a half times the frequency that the delay, hidden, bears."""
    value, given = LAWS[name]
    most, accepted = np.array(value), None

    def arm(factor, **declared):
        return late(delay, **declared, **given, **{name: (factor * most).tolist()})

    while accepted is None:  # the bound of the middle of the limits, then that of the position
        try:
            accepted = arm(1.0)
        except ParameterError as error:
            most = 0.995 * named_limit(error)
    assert accepted.is_calm()
    with pytest.raises(ParameterError, match=f'{name} = .* unstable at a period'):
        arm(1.25)
    if delay and name != 'damping':
        assert not arm(1.5 if name == 'natural_frequency' else 2.25, declared=0).is_calm()


def test_a_delay_of_one_period_is_the_default_of_a_profile_and_none_without_one():
    """Filtered velocities, late by 8 ms at 20 Hz, bear less than measured ones."""
    given = {'law': 'computed_torque', 'natural_frequency': [390.0]}
    ControllerSession(TREE, given)
    ControllerSession(TREE, given, driver_of(TREE, delay=0))
    filtered = {'velocity': 'differentiate', 'cutoff_hz': 20.0}
    for profile, most in (({}, 390.0), ({'delay': 0, 'state': filtered}, 250.0)):
        with pytest.raises(ParameterError, match='natural_frequency.*give at most') as caught:
            ControllerSession(TREE, given, driver_of(TREE, **profile))
        assert 200.0 < named_limit(caught.value).item() < most


@pytest.mark.slow
def test_where_the_arm_moves_to_a_faster_mode_the_stiffness_is_limited_and_this_is_said():
    """Without limits the middle is 0, stretched out; upright joint 1 has little inertia."""
    endless = np.full(4, np.inf)
    tree = TREE.with_changes(position_lower=-endless, position_upper=endless)
    upright = np.array([0.0, -1.5, 0.1, 0.2])
    given = {'law': 'impedance', 'joint_stiffness': [1e9, 10.0, 5.0, 1.0]}
    with pytest.raises(ParameterError) as caught:
        DelayedArm(tree, NONE, 3, **given)
    given['joint_stiffness'][0] = 0.9 * named_limit(caught.value)[0]
    for declared in (3, 0):  # hidden, the delay makes it oscillate
        arm = DelayedArm(tree, NONE, 3, declared, **given)
        assert arm.is_calm()
        assert not any('limited' in text for text in arm.said('warning'))
        arm.plant.reset(upright)
        arm.settle(0.6)  # the state has jumped: it brakes, the reference glides there, it holds
        assert arm.is_calm() == (declared == 3)
        said = [text for text in arm.said('warning') if 'is limited to' in text]
        # Hidden, the period alone bears more.
        assert ['delay of 3 periods' in text for text in said] == [declared == 3]
