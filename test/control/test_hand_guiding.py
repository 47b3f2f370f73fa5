# SPDX-License-Identifier: Apache-2.0
"""Law hand_guiding: its formulas; guided by forces in MuJoCo: enabling, waypoints, throws."""

import math

import numpy as np
import pytest
import tables
from numpy.testing import assert_allclose, assert_array_equal
from oracles import PinocchioOracle
from pushed_arm import START, PushedArm, arm
from samples import effort_of, sample

from robot_dynamics_ros.control.laws.registry import make_law
from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.control.requests import prepare_waypoint
from robot_dynamics_ros.control.trajectories.points import trajectory_of_file
from robot_dynamics_ros.errors import RobotDynamicsError

TABLE = 0.28  # height of the surface of program scara_press, m


class Guided(PushedArm):
    """An arm guided by hand; the switch is published every 50 ms while it is pressed."""

    def __init__(self, **parameters):
        self.tree, self.start = arm('scara', friction=True), START['scara']
        super().__init__(self.tree, self.start, {'law': 'hand_guiding', **parameters})
        self.pressed, self.efforts = None, []
        self.settle(0.3)

    def run(self, steps):
        for k in super().run(steps):
            if self.pressed is not None and k % 50 == 0:
                self.session.enable(self.pressed)
            self.efforts.append(self.session.command.copy())
            yield k

    def set_switch(self, pressed):
        self.pressed = pressed
        self.session.enable(pressed)
        return self


def guiding(oracle, tree, q, v, *, damping, share, speed, frequency):
    """Return the efforts of the law's formulas; its walls are as wide as their springs need."""
    limit, span = tree.velocity_limit, tree.position_upper - tree.position_lower
    M = oracle.mass_matrix(0.5 * (tree.position_lower + tree.position_upper))
    links = 1.0 / np.diag(np.linalg.inv(M + np.diag(tree.armature)))
    m, slow = np.maximum(links, 0.01 * tree.effort_limit / limit), speed * limit
    friction = tree.damping * v + tree.coulomb_friction * np.tanh(v / 1e-3)
    braked = damping * v + 100.0 * (v - np.clip(v, -slow, slow))
    width = np.minimum(slow / frequency, 0.25 * span)
    above = np.maximum(q - tree.position_upper + width, 0.0)
    below = np.maximum(tree.position_lower + width - q, 0.0)
    pushes = below * np.maximum(1.0 - v / slow, 0.0) - above * np.maximum(1.0 + v / slow, 0.0)
    walls = m * frequency**2 * pushes
    return oracle.gravity_forces(q) + share * friction - m * braked + walls


@pytest.mark.parametrize('frequency', [4.0, 0.2])  # of walls that are narrow, or too wide
@pytest.mark.parametrize('name', ['scara', 'four_dof'])
def test_the_efforts_are_those_of_the_formulas(name, frequency, rng):
    """A strong drive of a light link, joint 4, is damped by what it can give."""
    subject = sample(name)
    oracle, limits = PinocchioOracle.of(subject), subject.tree.effort_limit * [1, 1, 1, 1e4]
    tree = subject.tree.with_changes(effort_limit=limits)
    given = {'damping': 7.0, 'share': 0.6, 'speed': 0.1, 'frequency': frequency}
    keys = ('damping', 'friction_share', 'speed_share', 'wall_frequency')
    parameters = dict(zip((f'guiding_{key}' for key in keys), given.values(), strict=True))
    law = make_law('hand_guiding', tree, **parameters)
    for _ in range(30):
        q = rng.uniform(tree.position_lower, tree.position_upper)
        v = 0.2 * rng.normal(size=4) * tree.velocity_limit
        expected = guiding(oracle, tree, q, v, **given)
        assert_allclose(effort_of(law, q, v), expected, atol=1e-12 * np.abs(expected).max())


def test_a_switch_that_is_not_pressed_holds_the_arm_and_a_press_frees_it():
    guided = Guided()
    session = guided.session
    guided.push[:] = 5.0 * guided.tree.coulomb_friction
    guided.settle(0.5)
    held = np.abs(guided.q - guided.start)
    with pytest.raises(RobotDynamicsError, match='not enabled.*~/enable_guiding'):
        session.hold()
    with pytest.raises(RobotDynamicsError, match='resume: law .hand_guiding. is not enabled'):
        session.resume()  # ends a contact reaction, not this
    assert session.mode is SessionMode.DISABLED
    assert guided.said('info')[-1] == 'hand_guiding is not enabled: braking, holding'
    guided.set_switch(True)
    guided.settle(0.5)
    assert (np.abs(guided.q - guided.start) > 2.0 * held).all()
    guided.set_switch(False)
    guided.change(law='computed_torque')  # follows again, without a switch
    guided.settle(0.01)
    assert session.mode is SessionMode.HOLDING


@pytest.mark.parametrize('fault', ['lost', 'released', 'silent', 'nonsense', 'deactivated'])
def test_whatever_ends_the_enabling_brakes_and_only_a_new_press_frees_it(fault):
    guided = Guided().set_switch(True)
    session = guided.session
    guided.push[:] = 3.0 * guided.tree.coulomb_friction + 0.02 * guided.tree.effort_limit
    guided.settle(0.3)
    assert np.abs(guided.v).max() > 0.05
    guided.push[:] = 0.0
    if fault == 'released':
        guided.set_switch(False)
    elif fault == 'silent':
        assert session.watch(guided.now_ns + 300_000_000)
    elif fault == 'deactivated':
        session.deactivate(moves=False)
        guided.activate()
    else:
        guided.pressed = None  # messages cease
        if fault == 'nonsense':
            now, bad = guided.now_ns + guided.period_ns // 2, np.full(4, math.nan)
            session.update(session.driver.state(now, now, bad, bad))
    guided.settle(1.0)
    rest = guided.q.copy()
    if fault != 'released':
        guided.pressed = True  # a button that was pressed all the time
        guided.settle(0.3)
        assert session.mode is SessionMode.DISABLED
        assert_allclose(guided.q, rest, atol=1e-3)
        guided.set_switch(False)
    assert session.mode is SessionMode.DISABLED
    guided.set_switch(True)
    assert session.mode is SessionMode.HOLDING
    assert (np.abs(guided.efforts) <= guided.tree.effort_limit).all()


@pytest.mark.slow
def test_surfaces_of_a_program_are_walls_with_the_stiffness_asked_for():
    subject, q = sample('scara'), START['scara'].copy()
    oracle, given = PinocchioOracle.of(subject), {'guiding_wall_stiffness': 1500.0}
    law = make_law('hand_guiding', subject.tree, guiding_program='scara_press', **given)
    plain = make_law('hand_guiding', subject.tree, **given)
    slope = oracle.frame_jacobian('tool', q)[2, 2]
    for depth in (-0.01, 0.0, 0.004, 0.02):
        q[2] += (TABLE - depth - oracle.frame_pose('tool', q)[1][2]) / slope
        for speed in (0.0, 0.1, -0.1, -0.3):
            v = np.array([0.0, 0.0, speed, 0.0])
            push = 1500.0 * max(depth, 0.0) * max(1.0 - slope * speed / 0.25, 0.0)
            found = effort_of(law, q, v) - effort_of(plain, q, v)
            expected = oracle.frame_jacobian('tool', q)[2] * push
            assert_allclose(found, expected, atol=1e-8)
    with pytest.raises(RobotDynamicsError, match='no row with contact'):
        make_law('hand_guiding', subject.tree, guiding_program='scara_circle')


def test_way_points_are_a_trajectory_that_the_controller_follows(tmp_path):
    path = tmp_path / 'taught.yaml'
    guided = Guided(waypoint_file=str(path)).set_switch(True)
    knots = []
    for push in (4.0, -6.0, 3.0):
        guided.push[:] = push * guided.tree.coulomb_friction
        guided.settle(0.3)
        assert str(path) in prepare_waypoint(guided.session)()
        knots.append(guided.session.loop.q.copy())
    (tmp_path / 'another').touch()
    assert path.stat().st_mode == (tmp_path / 'another').stat().st_mode, 'others may read it, too'
    taught = trajectory_of_file(path, guided.tree.joint_names)
    position, velocity, _ = taught.table(np.arange(0.0, taught.duration, 1e-3))
    assert_array_equal(position[0], knots[0])
    for knot in knots:  # each is met, within the way of a step
        assert np.abs(position - knot).max(axis=1).min() < 1e-3 * np.abs(velocity).max()
    reached = (np.abs(velocity) / guided.tree.velocity_limit).max()
    assert reached == pytest.approx(0.25, rel=1e-3)  # of the limits, as fast as may be


@tables.written("""
taught.yaml      | moves elbow
''               | waypoint_file is empty
none/taught.yaml | cannot be written
""")
def test_a_file_of_another_robot_or_none_is_refused_and_left_as_it_is(given, said, tmp_path):
    path, text = tmp_path / 'taught.yaml', 'joint_names: [elbow]\npoints: []\n'
    path.write_text(text)
    guided = Guided(waypoint_file=given and str(tmp_path / given))
    with pytest.raises(RobotDynamicsError, match=said):
        prepare_waypoint(guided.session)()
    assert path.read_text() == text


@tables.rows('law mode', 'computed_torque, HOLDING\nhand_guiding, DISABLED')
def test_an_arm_that_is_thrown_faster_than_plausible_is_braked(law, mode):
    """The positions show that it is a fact; it does not run on under gravity compensation."""
    given = {'activation_ramp_s': 0.0, 'law': law}
    thrown = PushedArm(arm('four_dof'), START['four_dof'], given)
    session, speeds = thrown.session, []
    session.enable(True)
    thrown.settle(0.02)
    thrown.plant.data.qvel[3] = 15.0 * session.tree.velocity_limit[3]
    for _ in thrown.run(300):
        speeds.append(np.abs(thrown.v / session.tree.velocity_limit).max())
        session.enable(True)  # a switch that was pressed before
    assert max(speeds) > 14.0
    assert max(speeds[-100:]) < 0.1
    assert session.timeouts == 0
    texts = ''.join(thrown.said('warning'))
    assert texts.count('times its velocity limit: braking') == 1
    assert session.mode is SessionMode[mode]  # disabled: a new press is needed
    # A law that follows the reference takes over after the brake, as it was changed meanwhile.
    thrown.change(natural_frequency=[9.0])
    assert (session.loop.present is session.loop.law) == (mode == 'HOLDING')
