# SPDX-License-Identifier: Apache-2.0
"""Law hand_guiding, guided by forces in MuJoCo: energy, speed, walls, enabling, waypoints."""

import math

import numpy as np
import pytest
from oracles import PinocchioOracle
from pushed_arm import ARMS, STEP_NS, PushedArm, Spring, arm
from samples import sample

from robot_dynamics_ros.control.laws.registry import make_law
from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.control.requests import prepare_parameters, prepare_waypoint
from robot_dynamics_ros.control.trajectories.points import trajectory_of_file
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.errors import RobotDynamicsError

NAMES = ['scara', 'four_dof']
TABLE = 0.28  # height of the surface of program scara_press, m


class Guided(PushedArm):
    """An arm guided by hand; the switch is published every 50 ms while it is pressed."""

    def __init__(self, name, *, friction=True, **parameters):
        self.tree, self.start = arm(name, friction=friction), np.array(ARMS[name][1])
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

    def energy(self, pushes):
        """Push, return kinetic energy less the work of the hand, after each step, J."""
        spring, work, seen = Spring(self, '', np.zeros(self.tree.n)), 0.0, []
        for k in self.run(len(pushes)):
            v = self.plant.data.qvel
            work += 1e-9 * STEP_NS * float(self.push @ v)
            kinetic = 0.5 * float(v @ spring.mass() @ v)
            seen.append(kinetic - work)
            self.push[:] = pushes[k]
        return np.array(seen)


def random_pushes(tree, rng, steps):
    """Return smooth pushes beyond the friction, shape (steps, n)."""
    t = 1e-9 * STEP_NS * np.arange(steps)[:, np.newaxis]
    size = 3.0 * tree.coulomb_friction + 0.05 * tree.effort_limit
    rates, phases = rng.uniform(2.0, 9.0, tree.n), rng.uniform(0.0, 6.0, tree.n)
    return size * np.sin(rates * t + phases)


@pytest.mark.slow
@pytest.mark.parametrize('name', NAMES)
def test_a_hand_that_pushes_never_finds_more_energy_than_it_gave(name, rng):
    guided = Guided(name, friction=True).set_switch(True)
    seen = guided.energy(random_pushes(guided.tree, rng, 2500))
    assert np.ptp(guided.plant.data.qpos - guided.start) > 0.01  # it was moved
    # Since any earlier instant; the step of the plant adds and removes energy alternately.
    assert (seen - np.minimum.accumulate(seen)).max() < 1e-3 * abs(seen.min())


def test_a_constant_push_ends_at_the_speed_that_damping_and_brake_give():
    guided = Guided('scara', friction=False, guiding_speed_share=0.02).set_switch(True)
    law, tree = guided.session.loop.law, guided.tree
    inertia, slow = law._inertia, 0.02 * tree.velocity_limit
    guided.push[2] = inertia[2] * (5.0 * slow[2] + 100.0 * 0.1 * slow[2])
    guided.settle(0.25)
    # m (5 v + 100 (v - v_r)) is the push at v = 1.1 v_r less 0.5 / 105 of v_r
    expected = (5.0 + 10.0 + 100.0) / 105.0 * slow[2]
    np.testing.assert_allclose(guided.v[2], expected, rtol=1e-3)


@pytest.mark.slow
def test_walls_stop_a_hand_at_the_reduced_speed_before_the_position_limit():
    guided = Guided('scara', friction=False).set_switch(True)
    tree = guided.tree
    for joint in range(tree.n):
        guided.plant.reset(guided.start)
        guided.settle(0.05)
        toward = tree.position_upper[joint]
        guided.push[:] = 0.0
        for _ in guided.run(6000):
            v, goal = guided.plant.data.qvel, 0.9 * 0.25 * tree.velocity_limit[joint]
            near = toward - guided.plant.data.qpos[joint] < 0.25 * goal
            guided.push[joint] = (
                0.0 if near else 20.0 * guided.session.loop.law._inertia[joint] * (goal - v[joint])
            )
            if near and v[joint] < 0.0:
                break
        assert guided.plant.data.qpos[joint] <= toward


def test_a_switch_that_is_not_pressed_holds_the_arm_and_a_press_frees_it():
    guided = Guided('scara')
    session = guided.session
    assert session.mode is SessionMode.REACTING
    guided.push[:] = 5.0 * guided.tree.coulomb_friction
    guided.settle(0.5)
    held = np.abs(guided.plant.data.qpos - guided.start)
    with pytest.raises(RobotDynamicsError, match='not enabled.*~/enable_guiding'):
        session.hold()
    session.resume()  # ends a contact reaction, not this
    guided.settle(0.01)
    assert session.mode is SessionMode.REACTING
    guided.set_switch(True)
    assert session.mode is SessionMode.HOLDING
    guided.settle(0.5)
    assert (np.abs(guided.plant.data.qpos - guided.start) > 2.0 * held).all()


def moving():
    """Return an arm while it is guided."""
    guided = Guided('scara').set_switch(True)
    guided.push[:] = 3.0 * guided.tree.coulomb_friction + 0.02 * guided.tree.effort_limit
    guided.settle(0.3)
    assert np.abs(guided.v).max() > 0.05
    guided.push[:] = 0.0
    return guided


def lost(guided):
    guided.pressed = None  # messages cease


def let_go(guided):
    guided.set_switch(False)


def silent(guided):
    now = guided.now_ns + 300_000_000
    assert guided.session.watch(now)
    guided.efforts.append(guided.session.command.copy())


def nonsense(guided):
    now = guided.now_ns + guided.period_ns // 2
    bad = np.full(guided.tree.n, math.nan)
    guided.session.update(guided.session.driver.state(now, now, bad, bad))
    guided.efforts.append(guided.session.command.copy())
    lost(guided)


@pytest.mark.parametrize('fault', [lost, let_go, silent, nonsense])
def test_whatever_ends_the_enabling_brakes_and_only_a_new_press_frees_it(fault):
    guided = moving()
    session = guided.session
    fault(guided)
    guided.settle(1.5)
    assert session.mode is SessionMode.REACTING
    rest = guided.plant.data.qpos.copy()
    if guided.pressed is None:
        guided.pressed = True  # a button that was pressed all the time
    guided.settle(0.3)
    efforts = np.array(guided.efforts)
    assert np.isfinite(efforts).all()
    assert (np.abs(efforts) <= guided.tree.effort_limit).all()
    if fault is not let_go:
        assert session.mode is SessionMode.REACTING
        np.testing.assert_allclose(guided.plant.data.qpos, rest, atol=1e-3)
        guided.set_switch(False)
    guided.set_switch(True)
    assert session.mode is SessionMode.HOLDING


def test_another_law_ends_the_wait_and_follows_again():
    guided = Guided('scara')
    prepare_parameters(guided.session, {'law': 'computed_torque'})()
    guided.settle(0.2)
    assert guided.session.mode is SessionMode.HOLDING
    np.testing.assert_allclose(guided.plant.data.qpos, guided.start, atol=1e-3)


@pytest.mark.slow
def test_surfaces_of_a_program_are_walls_with_the_stiffness_asked_for():
    subject, q = sample('scara'), np.array(ARMS['scara'][1])
    tree, out, bare = subject.tree, np.zeros(4), np.zeros(4)
    oracle = PinocchioOracle(subject.xml, subject.gravity, tree.joint_names)
    given = {'guiding_wall_stiffness': 1500.0}
    law = make_law('hand_guiding', tree, guiding_program='scara_press', **given)
    plain = make_law('hand_guiding', tree, **given)
    for speed in (0.0, 0.1, -0.1, -0.3):
        for height in (TABLE + 0.01, TABLE, TABLE - 0.004, TABLE - 0.02):
            slope = oracle.frame_jacobian('tool', q)[2, 2]
            q[2] += (height - oracle.frame_pose('tool', q)[1][2]) / slope
            v = np.array([0.0, 0.0, speed, 0.0])
            law.effort(0.0, q, v, Reference(4), out)
            plain.effort(0.0, q, v, Reference(4), bare)
            J = oracle.frame_jacobian('tool', q)[2]
            push = 1500.0 * max(TABLE - height, 0.0) * max(1.0 - slope * speed / 0.25, 0.0)
            np.testing.assert_allclose(out - bare, J * push, atol=1e-8)
    with pytest.raises(RobotDynamicsError, match='no row with contact'):
        make_law('hand_guiding', tree, guiding_program='scara_circle')


def test_way_points_are_a_trajectory_that_the_controller_follows(tmp_path):
    path = tmp_path / 'taught.yaml'
    guided = Guided('scara', waypoint_file=str(path)).set_switch(True)
    session, places = guided.session, []
    for push in (4.0, -6.0, 3.0):
        guided.push[:] = push * guided.tree.coulomb_friction
        guided.settle(0.3)
        assert str(path) in prepare_waypoint(session)()
        places.append(session.loop.q.copy())
    taught = trajectory_of_file(path, guided.tree.joint_names)
    knots, step = np.array(places), 1e-3
    position, velocity, _ = taught.table(np.arange(0.0, taught.duration, step))
    np.testing.assert_array_equal(position[0], knots[0])
    for knot in knots:  # each is met, within the way of a step
        assert np.abs(position - knot).max(axis=1).min() < step * np.abs(velocity).max()
    reached = (np.abs(velocity) / guided.tree.velocity_limit).max()
    assert reached == pytest.approx(0.25, rel=1e-3)  # of the limits, as fast as may be


def test_a_file_of_another_robot_or_none_is_refused_and_left_as_it_is(tmp_path):
    path = tmp_path / 'taught.yaml'
    path.write_text('joint_names: [elbow]\npoints: []\n')
    guided = Guided('scara', waypoint_file=str(path))
    with pytest.raises(RobotDynamicsError, match='moves elbow'):
        prepare_waypoint(guided.session)()
    assert path.read_text() == 'joint_names: [elbow]\npoints: []\n'
    prepare_parameters(guided.session, {'waypoint_file': ''})()
    with pytest.raises(RobotDynamicsError, match='waypoint_file is empty'):
        prepare_waypoint(guided.session)()
    missing = str(tmp_path / 'none' / 'taught.yaml')
    prepare_parameters(guided.session, {'waypoint_file': missing})()
    with pytest.raises(RobotDynamicsError, match='cannot be written'):
        prepare_waypoint(guided.session)()


class Thrown(PushedArm):
    """A light wrist without rotor and friction; it may be thrown or pushed."""

    def __init__(self, **given):
        tree = arm('four_dof')
        mass, inertia, com = tree.mass.copy(), tree.inertia.copy(), tree.com.copy()
        mass[-1], inertia[-1], com[-1] = 0.05, 2e-4 * np.eye(3), 0.0
        tree = tree.with_changes(mass=mass, inertia=inertia, com=com, armature=np.zeros(4))
        super().__init__(tree, ARMS['four_dof'][1], {'activation_ramp_s': 0.0, **given})
        self.speeds, self.modes = [], set()

    def run(self, steps):
        for k in super().run(steps):
            self.watch()
            self.speeds.append(np.abs(self.v / self.session.tree.velocity_limit).max())
            self.modes.add(self.session.mode)
            yield k


@pytest.mark.slow
def test_a_hand_does_not_throw_a_light_wrist_beyond_its_velocity_limit():
    """5 N at 0.1 m; damping by the inertia of the links would be 1 mN m per rad/s."""
    arm = Thrown(law='hand_guiding')
    for k in arm.run(1500):
        if k % 50 == 0:
            arm.session.enable(True)
        arm.push[3] = 0.5 * min(k / 150, 1.0)
    assert SessionMode.STOPPED not in arm.modes
    assert 0.1 < max(arm.speeds) < 1.0


@pytest.mark.parametrize('law', ['computed_torque', 'hand_guiding'])
def test_an_arm_that_is_thrown_faster_than_plausible_is_braked(law):
    """The positions show that it is a fact; it does not run on under gravity compensation."""
    arm = Thrown(law=law)
    if law == 'hand_guiding':
        arm.session.enable(True)
    arm.settle(0.02)
    arm.plant.data.qvel[3] = 15.0 * arm.session.tree.velocity_limit[3]
    arm.speeds.clear()
    arm.settle(0.3)
    assert SessionMode.STOPPED not in arm.modes
    assert max(arm.speeds) > 14.0
    assert max(arm.speeds[-100:]) < 0.1
    texts = [remark.text for remark in arm.session.remarks]
    assert any('times its velocity limit: braking' in text for text in texts)
    expected = SessionMode.REACTING if law == 'hand_guiding' else SessionMode.HOLDING
    assert arm.session.mode is expected  # a new press is needed
