# SPDX-License-Identifier: Apache-2.0
"""The MuJoCo plant obeys the equations of motion; an independent reader checks its model."""

import re
from contextlib import suppress

import linkages
import numpy as np
import pytest
import tables
from numpy.testing import assert_allclose, assert_array_equal
from oracles import PinocchioOracle, relative_error
from pushed_arm import state_of
from recorded_bags import excerpt
from samples import SAMPLES, random_state, sample
from urdf_text import described, follow, joint, link, robot, symmetric

from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.errors import DivergenceError, ModelError, RobotDynamicsError
from robot_dynamics_ros.model import frame_pose, load_mechanism, load_robot
from robot_dynamics_ros.model.payload import Payload
from robot_dynamics_ros.simulation import imperfections, mujoco_description
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant, initial_state
from robot_dynamics_ros.simulation.plant import SimulationRun

TREE = sample('scara').tree


def rigid(tree):
    """Return the bare rigid bodies: no friction, no armature."""
    zero = np.zeros(tree.n)
    return tree.with_changes(damping=zero, coulomb_friction=zero, armature=zero)


def acceleration_over_a_step(plant, effort):
    _, before = state_of(plant)
    plant.step(effort)
    return (state_of(plant)[1] - before) / plant.period


@pytest.mark.parametrize('name', SAMPLES)
def test_a_step_of_any_robot_under_a_push_accelerates_as_pinocchio_says(name, rng):
    """Pinocchio reads the URDF itself."""
    tree, oracle = sample(name).tree, PinocchioOracle.of(sample(name))
    tree = rigid(tree).with_changes(armature=rng.uniform(0.1, 0.5, tree.n))
    plant = MujocoPlant(tree, joint_limits=False)
    for frame in tree.link_names:
        q, v, _ = random_state(tree, rng)
        plant.reset(q, v)
        wrench = rng.normal(scale=5.0, size=6)
        plant.push(frame, wrench)
        effort = rng.uniform(-1, 1, tree.n)  # the samples without limits get 1
        a = acceleration_over_a_step(plant, effort)
        # v / period in the difference quotient: rounding of 1e-16 / 1e-3.
        found = oracle.inverse_dynamics(q, v, a, {frame: wrench}) + tree.armature * a
        assert np.abs(found - effort).max() < 1e-10 * max(1.0, np.abs(a).max())


def test_an_identified_offset_takes_its_effort(rng):
    offset, (q, v, effort), found = rng.uniform(1.0, 2.0, 4), rng.normal(size=(3, 4)), []
    for given in {}, {'offset': offset}:
        tree = rigid(TREE).with_changes(drive_friction=given)
        plant = MujocoPlant(tree, joint_limits=False)
        plant.reset(q, v)
        found.append(acceleration_over_a_step(plant, effort + sum(given.values())))
    assert_allclose(*found, rtol=1e-9)


def test_each_step_ends_with_the_velocity_and_position_that_gazebo_had():
    """The arm as it was recorded: under Gazebo's gravity, without friction and drive inertia."""
    plant = MujocoPlant(rigid(load_robot(shipped_robot('scara'), (0.0, 0.0, -9.8))))
    steps = excerpt()
    for q0, v0, v1, effort in zip(*steps, strict=True):
        plant.reset(q0, v0)
        plant.step(effort)
        q, v = state_of(plant)
        # Two libraries, each rounding at 1e-16 of velocities up to 2 rad/s.
        assert_allclose(v, v1, rtol=0, atol=1e-13)
        assert_allclose(q, q0 + 1e-3 * v1, rtol=0, atol=1e-15)
    assert np.abs(steps[2] - steps[1]).max() > 1e-3  # it was moving


def test_a_step_takes_off_damping_at_its_end_and_the_level_of_coulomb_friction():
    tree = TREE.with_changes(damping=30.0 * TREE.damping)
    plant, model = MujocoPlant(tree), make_formulation('newton_euler', tree)
    q, v = np.array([[0.2, 0.4, 0.1, 0.3], [0.5, -0.6, 0.1, -2.0]])
    plant.reset(q, v)
    effort = np.array([10.0, -5.0, 20.0, -1.0])
    a = acceleration_over_a_step(plant, effort)
    after = v + plant.period * a
    needed = model.inverse_dynamics(q, v, a) + tree.armature * a + tree.damping * after
    assert_allclose(needed + tree.coulomb_friction * np.sign(v), effort, rtol=0, atol=1e-9)
    assert np.abs(after).max() < np.abs(v).max()


def light_joint(damping, friction):
    """Return a joint of 4e-6 kg m^2, as the last one of a TIAGo."""
    tree = load_robot(described('wrist', """
base: []
flange: [0.01, [0, 0, 0], [4.0e-6, 4.0e-6, 4.0e-6]]
turn: {of: [base, flange]}
"""), (0.0, 0.0, 0.0))  # fmt: skip
    return tree.with_changes(damping=np.array([damping]), coulomb_friction=np.array([friction]))


def test_a_light_joint_sticks_and_slides_as_its_stiff_damping_and_friction_say():
    """Period times damping is 250 times the inertia; closed form: v = (tau - 1) / 1 when sliding.

    MuJoCo's friction yields by 1e-4 of the effort, which over period by inertia with damping makes
    1e-4 rad/s; with the bare inertia it would be 0.025 rad/s.
    """
    plant = MujocoPlant(light_joint(1.0, 1.0))
    for effort, speed in ((0.5, 0.0), (0.95, 0.0), (1.1, 0.1), (1.5, 0.5)):
        plant.reset()
        for _ in range(200):
            plant.step(np.array([effort]))
        assert state_of(plant)[1][0] == pytest.approx(speed, abs=2e-4)


def test_efforts_saturate_at_their_limits_and_the_plant_tells_what_acted():
    plant, limit = MujocoPlant(TREE), TREE.effort_limit
    plant.step(np.array([1e3, -1e3, 1.0, -1e3]))
    assert_array_equal(plant.effort, [limit[0], -limit[1], 1.0, -limit[3]])
    for wrong in (np.zeros(3), np.full(4, np.inf)):  # no step
        with suppress(RobotDynamicsError):
            plant.step(wrong)
    assert plant.steps == 1
    assert plant.time == pytest.approx(1e-3)
    plant.reset()
    assert_array_equal(plant.effort, np.zeros(4))


def test_joints_end_at_their_position_limits_unless_told_otherwise():
    for limited in (True, False):
        plant = MujocoPlant(TREE, joint_limits=limited)
        plant.reset(0.9 * TREE.position_upper)
        for _ in range(1000):
            plant.step(0.9 * TREE.effort_limit)
        excess = state_of(plant)[0] - TREE.position_upper
        # A soft stop: it yields by some millimetres and milliradians.
        assert (excess < 0.02).all() if limited else (excess > 0.1).all()


@pytest.mark.parametrize(('integrator', 'order'), [('euler', 1), ('implicitfast', 1), ('rk4', 4)])
def test_substeps_refine_the_integration_within_a_period(integrator, order):
    tree = rigid(sample('four_dof').tree)

    def end(substeps):
        given = {'integrator': integrator, 'substeps': substeps, 'joint_limits': False}
        plant = MujocoPlant(tree, 0.01, **given)
        for _ in range(20):
            plant.step(np.zeros(4))
        assert plant.time == pytest.approx(0.2)
        return state_of(plant)[0]

    errors = [np.abs(end(substeps) - end(64)).max() for substeps in (1, 2, 4)]
    rate = 0.9 * 2.0**order
    assert errors[0] > rate * errors[1] > rate * rate * errors[2] > 0


def test_a_payload_moves_as_the_arm_with_another_link_of_that_mass(rng):
    mass, com = 1.7, np.array([0.02, -0.03, 0.05])
    inertia = symmetric(0.004, 0.005, 0.006, 0.0005, -0.0004, 0.0003)
    tree = rigid(sample('four_dof').tree)
    load = link('load', mass, com, inertia) + joint('grip', 'tool', 'load', 'fixed')
    text = tree.xml.replace('</robot>', f'{load}</robot>')
    oracle = PinocchioOracle(text, tree.gravity, tree.joint_names)
    plant = MujocoPlant(tree, joint_limits=False)
    plant.set_payload(Payload(mass, com, inertia))
    (q, v, _), effort = random_state(tree, rng), rng.uniform(-1, 1, tree.n)
    plant.reset(q, v)
    a = acceleration_over_a_step(plant, effort)
    # Rounding of the difference quotient, about 1e-13 of the accelerations of the tool.
    assert relative_error(a, oracle.forward_dynamics(q, v, effort)) < 1e-10


def test_what_happened_before_a_reset_or_with_a_payload_leaves_no_trace(rng):
    plant, bare = MujocoPlant(TREE), MujocoPlant(TREE)
    plant.step(np.ones(4))
    plant.reset()
    for k, effort in enumerate(rng.normal(scale=5.0, size=(100, 4))):
        plant.step(effort)
        bare.step(effort)
        if k == 50:
            plant.set_payload(Payload(2.0))
            assert plant.tree.mass[3] == pytest.approx(TREE.mass[3] + 2.0)
            plant.set_payload(None)
        assert_array_equal(state_of(plant), state_of(bare))
    assert plant.tree is TREE
    assert plant.time == bare.time


def test_the_force_of_a_board_ends_with_a_reset():
    place = frame_pose(TREE, np.zeros(4), 'tool').p_WF
    pressed = MujocoPlant(TREE, board=mujoco_description.Board(origin=tuple(place.tolist())))
    for _ in range(20):
        pressed.step(np.array([0.0, 0.0, 30.0, 0.0]))
    assert pressed.board_force[2] > 10.0
    pressed.reset()
    assert not pressed.board_force.any()


# Loops ------------------------------------------------------------------------------------------


#: Pin in a plane and mimic joints, mimic joint within the loop, ball, pin in space, universal
#: joint, weld.
CLOSED = ['gripper', 'geared_five_bar', 'ball_linkage', 'slider_crank', 'cardan', 'welded_chain']


@pytest.mark.parametrize(
    ('name', 'massless'),
    [*((name, '') for name in CLOSED), ('gripper', 'screw')],
)
def test_a_step_of_a_loop_accelerates_as_the_reduced_dynamics_say(name, massless, rng):
    robot = load_mechanism(*linkages.LINKAGES[name]())
    light = np.array([link == massless for link in robot.tree.link_names])
    inertia = np.where(light[:, np.newaxis, np.newaxis], 0.0, robot.tree.inertia)
    tree = robot.tree.with_changes(mass=np.where(light, 0.0, robot.tree.mass), inertia=inertia)
    robot = robot.with_tree(tree)
    plant = MujocoPlant(robot, 1e-5)
    u = robot.assembled[robot.body_of_joint] + 0.1
    v, effort = 0.3 * rng.normal(size=robot.n), rng.normal(size=robot.n)
    plant.reset(u, v)
    expected = make_formulation('kane', robot).forward_dynamics(u, v, effort)
    # MuJoCo's constraints yield by 1e-4 of the force (see _RIGID_IMPEDANCE).
    found = acceleration_over_a_step(plant, effort)
    assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


def test_a_mimic_joint_that_moves_no_mass_of_its_own_is_held():
    """The level of a palletizer: a massless link, at whose joint the next one turns."""
    y, I = {'axis': (0, 1, 0)}, np.diag([0.01, 0.02, 0.02])
    level = follow(joint('level', 'upper', 'virtual', xyz=(0.3, 0, 0), **y), 'j1', -1.0)
    arm = load_robot(
        robot(
            'palletizer',
            *(link('base'), link('upper', 1.0, (0.15, 0, 0), I), link('virtual')),
            *(link('fore', 0.5, (0.1, 0, 0), I), joint('j1', 'base', 'upper', **y)),
            *(level, joint('j2', 'virtual', 'fore', **y)),
        )
    )
    plant, u, effort = MujocoPlant(arm, 1e-5), np.array([0.2, -0.4]), np.array([1.0, 0.3])
    plant.reset(u)
    expected = make_formulation('kane', arm).forward_dynamics(u, 0 * u, effort)
    found = acceleration_over_a_step(plant, effort)
    assert_allclose(found, expected, rtol=1e-3, atol=1e-3)  # as of a loop


@pytest.mark.parametrize(
    ('name', 'kept'),
    [
        ('scotch_yoke', "position 'x', rotation 'none'"),
        ('pointer', "position 'yz', rotation 'none'"),
        ('spin_lock', "position 'none', rotation 'z'"),
    ],
)
def test_loops_that_mujoco_cannot_close_are_refused(name, kept):
    with pytest.raises(ModelError, match=f"^loop '[a-z]+': MuJoCo has no joint that keeps {kept}"):
        MujocoPlant(load_mechanism(*linkages.LINKAGES[name]()))


def test_a_loop_that_closes_for_centimetres_is_simulated():
    text, _ = linkages.linkage('slider_crank')
    loops = (
        'loops: {pin: {frames: [piston, rod_end], position: xy}}\ncoordinates: [piston_joint]\n'
        'assembly: {at: {piston_joint: 0.77}, guess: {crank_joint: 0.4, rod_joint: -0.5}}'
    )
    mechanism = load_mechanism(text, loops, effort_limit={'piston_joint': 1.0})
    assert MujocoPlant(mechanism).model.neq == 1


def test_one_number_is_clamped_to_the_limits_of_one_joint_as_of_many():
    tree = light_joint(0.0, 0.0)
    tree = tree.with_changes(position_lower=np.array([0.5]), position_upper=np.array([1.0]))
    assert initial_state(tree, {'initial_position': [0.0]})[0] == [0.5]


# Refusals ---------------------------------------------------------------------------------------

PLANT, PUSHED = MujocoPlant(TREE), SimulationRun(MujocoPlant(TREE), np.zeros(4), np.zeros(4))
SLIDER, LOOPS = linkages.linkage('slider_crank')
HUNG = load_mechanism(re.sub('(<link name="piston">).*?(?=</link>)', r'\1', SLIDER), LOOPS)
TWIN = TREE.with_changes(link_names=('twin', 'twin', *TREE.link_names[2:]))
test_a_refusal_names_culprit_and_remedy = tables.called("""
PLANT.set_payload(Payload(1.0, frame='gripper'))   | UnknownNameError: tool
PUSHED.push('nowhere', np.ones(6), 1.0)            | UnknownNameError: tool
PUSHED.schedule_payload(Payload(1.0, frame='hand'), 100.0) | UnknownNameError: unknown payload_frame 'hand'
PLANT.set_payload(Payload(0.0))                    | ModelError: mass must be positive
MujocoPlant(HUNG)                                  | ModelError: MuJoCo: ... has 0 mass
MujocoPlant(TWIN)                                  | ModelError: MuJoCo: ... repeated name 'twin'
PUSHED.push('tool', np.ones(3), 1.0)               | ShapeError: wrench
PLANT.step(np.zeros(3))                            | ShapeError: effort has shape
PLANT.step(np.array([0, np.inf, 0, 0]))          | NonFiniteError: effort is not finite
PLANT.reset(None, np.full(4, np.nan))            | NonFiniteError: v is not finite
MujocoPlant(TREE, 0.0)                             | ParameterError: period
MujocoPlant(TREE, substeps=0)                      | ParameterError: substeps
MujocoPlant(TREE, substeps=1.5)                    | ParameterError: substeps ... whole number
Imperfections(command_jitter=1.5)                  | ParameterError: a whole number
Imperfections(seed=-1)                             | ParameterError: seed
with_mismatch(TREE, maas=2.0)                      | UnknownNameError: 'maas'; known: armature
MujocoPlant(TREE, integrator='heun')               | UnknownNameError: known: euler, implicitfast, rk4
ImperfectPlant(PLANT, Imperfections(position_noise=-0.001)) | ParameterError: not negative
ImperfectPlant(PLANT, Imperfections(measurement_delay=-1)) | ParameterError: must not be negative
Board(normal=(0.0, 0.0, 0.0))                      | ParameterError: board normal ... not zero
with_mismatch(TREE, mass=0.0)                      | ParameterError: positive
with_mismatch(TREE, com_shift=(0.0, 0.0))          | ShapeError: com_shift has shape (2,)
""", globals(), imperfections, mujoco_description)  # fmt: skip  # noqa: E501


def test_an_inertia_of_no_real_body_is_simulated_as_it_is():
    """Arms of the world have such: MuJoCo's compiler refuses them, its equations do not."""
    tree = light_joint(0.0, 0.0)
    plant = MujocoPlant(tree.with_changes(inertia=np.diag([0.01, 0.02, 0.08])[np.newaxis]))
    # 0.4 N m on 0.08 kg m^2; of the velocity after 1 ms 12 digits are left.
    assert acceleration_over_a_step(plant, np.array([0.4]))[0] == pytest.approx(5.0, abs=1e-10)


def test_divergence_is_an_error_with_its_time_and_leaves_no_log_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plant = MujocoPlant(rigid(sample('four_dof').tree), joint_limits=False)
    plant.reset(None, np.full(4, 1e160))  # its square overflows
    with pytest.raises(DivergenceError, match=r"'four_dof' diverged at t = 0\.001 s"):
        plant.step(np.zeros(4))
    assert list(tmp_path.iterdir()) == []
