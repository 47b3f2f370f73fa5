# SPDX-License-Identifier: Apache-2.0
"""Arguments of the public functions: lists are converted, anything else is rejected by name."""

import numpy as np
import pytest
import tables
from numpy.testing import assert_array_equal
from samples import sample

import robot_dynamics_ros
from robot_dynamics_ros import (
    ControllerSession,
    compile_kernel,
    dynamics,
    identification,
    kinematics,
    load_robot,
    make_formulation,
    model,
)
from robot_dynamics_ros.constraints import reactions
from robot_dynamics_ros.control import requests
from robot_dynamics_ros.control.requests import prepare_trajectory
from robot_dynamics_ros.control.trajectories import trajectory
from robot_dynamics_ros.estimation import regressor as regressor_module
from robot_dynamics_ros.identification import regressor
from robot_dynamics_ros.model import frame_jacobian, frame_pose
from robot_dynamics_ros.planning import trajectory_plan
from robot_dynamics_ros.recordings import recording
from robot_dynamics_ros.simulation import imperfections, mujoco_plant

XML = sample('scara').xml
ARM = load_robot(XML)
Z, LIST = np.zeros(4), [0.3, 1, 0.1, 0]
Q, NAN, TWICE = np.array(LIST), [np.nan, 0, 0, 0], [LIST, LIST]


def active() -> ControllerSession:
    session = ControllerSession(ARM)
    session.update(session.driver.state(0, 0, Z, Z))
    session.activate(0)
    return session


SESSION, NEWTON = active(), make_formulation('newton_euler', ARM)
PUBLIC = {name: getattr(robot_dynamics_ros, name) for name in robot_dynamics_ros.__all__}

test_it_names_the_argument_and_what_would_be_right = tables.called(
    """
load_arm(None)                         | DescriptionError: is None; give a path or the URDF text
load_robot(b'<robot')                  | DescriptionError: is b'<robot'; give a path
load_mechanism(XML, None)              | MechanismError: mechanism file: is None; give
load_mechanism(XML, '')                | MechanismError: mechanism file: is ''; give
load_robot(XML, (0, 0, 'x'))           | ParameterError: gravity = ... numbers
load_robot(XML, effort_limit='a')      | ParameterError: effort_limit = 'a' ... positive finite number of N m or N
load_arm(XML, effort_limit={'joint1': [1]}) | ParameterError: effort_limit of 'joint1'
load_robot(XML, joints='joint1')       | ParameterError: joints = 'joint1' ... must be a list of names, such as ['joint1']
load_arm(XML, joints=3)                | ParameterError: joints = 3 ... list of names
load_arm(XML, locked='joint1')         | ParameterError: locked = ... mapping of
load_robot(XML, locked={'joint1': 'x'}) | ParameterError: locked position of joint 'joint1' = 'x'
load_robot(XML, mappings='a')          | ParameterError: mappings = ... mapping
load_robot(XML, identified=3)          | ParameterError: identified = 3
make_formulation('kane', None)         | ParameterError: tree = ... must be a robot, as load_robot
make_law('pd_gravity', 'scara')        | ParameterError: tree = ... must be a robot, as load_robot
compile_kernel('scara.urdf')           | ParameterError: tree = ... must be a robot, as load_robot
ControllerSession(None)                | ParameterError: tree = ... must be a robot, as load_robot
load_program('scara_circle', 'scara')  | ParameterError: tree = ... must be a robot, as load_robot
identify(ARM, [])                      | ParameterError: tree = ... must be a robot, as load_robot
make_plan(None, None)                  | ParameterError: tree = ... must be a robot, as load_robot
inertial_parameters(None)              | ParameterError: tree = ... must be a robot, as load_robot
frame_jacobian(None, Z)                | ParameterError: tree = ... must be a robot, as load_robot
frame_pose(None, Z)                    | ParameterError: tree = ... must be a robot, as load_robot
dynamics.potential_energy('scara', Z)  | ParameterError: tree = ... must be a robot, as load_robot
compile_kernel(ARM, outputs='mass_matrix') | ParameterError: outputs = ... such as ['mass_matrix']
ControllerSession(ARM, 'law')          | ParameterError: must be a mapping
ControllerSession(ARM, driver='ur')    | ParameterError: a DriverInterface
read_recording(None)                   | ParameterError: path = None ... the path of a bag
identify('bag', ARM)                   | ParameterError: see read_recording
design_excitation(ARM, terms='damping') | ParameterError: list of names
design_excitation(ARM, period='a')     | ParameterError: period = ... a number
design_excitation(ARM, harmonics=5.0)  | ParameterError: harmonics = 5.0 ... a whole number
design_excitation(ARM, iterations=np.nan) | ParameterError: iterations = nan ... a whole number
Bounds(speed=np.nan)                   | ParameterError: speed = nan ... must be positive
design_excitation(ARM, seed=0.5)       | ParameterError: seed = 0.5 ... a whole number
Request(delay=1.5)                     | ParameterError: delay = 1.5 ... a whole number
Request(cutoff='low')                  | ParameterError: cutoff = 'low' ... a number
conclude([], None, 0.0)                | ParameterError: prior_weight = 0.0 ... positive
MujocoPlant(ARM, [1])                  | ParameterError: period = ... a number
inverse_kinematics(ARM, 'x')           | ParameterError: position =
inverse_kinematics(ARM, [0] * 3, tolerance='a') | ParameterError: tolerance = ... a number
inverse_kinematics(ARM, [0] * 3, iterations=2.5) | ParameterError: iterations = 2.5 ... a whole number
inverse_kinematics(ARM, [0] * 3, seed=-1) | ParameterError: seed = -1 ... not be negative
dynamics.registry.agreement(ARM, ['kane'], 'a') | ParameterError: states = 'a' ... a whole number
dynamics.registry.agreement(ARM, 'kane', 1) | ParameterError: names = 'kane' ... such as ['kane']
make_formulation('screw', ARM).section_motion(Z, Z, Z, None) | UnknownNameError: unknown frame None
make_formulation('screw', ARM).section_load(Z, Z, Z, carried='joint4') | ParameterError: carried = 'joint4'
dynamics.registry.agreement(ARM, ['kane'], 1, seed=0.5) | ParameterError: seed = 0.5 ... a whole number
NEWTON.gravity_forces([0, [1], 0, 0])  | ParameterError: q = ... one length
MujocoPlant(ARM, 0.001).read(Z, np.zeros(4, int)) | TypeError: Cannot cast ... 'int64'
ImperfectPlant(MujocoPlant(ARM, 0.001), Imperfections()).read(Q.astype(int), Z) | TypeError: Cannot cast
MujocoPlant(ARM, 0.001).step(['a'] * 4) | ParameterError: effort =
Reference('scara')                     | ParameterError: n = ... the number of joints
prepare_parameters(SESSION, 3)         | ParameterError: values = 3
SESSION.set_speed('fast')              | ParameterError: = 'fast'
prepare_trajectory(SESSION, [1, 2])    | ParameterError: points = ... times, positions, velocities and accelerations
make_formulation([], ARM)              | UnknownNameError: formulation []
point_settings(ARM, Z, {'joint': 1.0}, 0.5) | UnknownNameError: unknown joint 'joint'; known: joint1
make_law(['pd_gravity'], ARM)          | UnknownNameError: unknown law
frame_pose(ARM, Z, None)               | UnknownNameError: unknown frame None
ARM.lock_error('joint9', 0.0)          | UnknownNameError: unknown locked joint 'joint9'; known: none
load_program(None, ARM)                | ProgramError: give YAML text or a path
gravity_regressor(ARM, TWICE, Z)       | ShapeError: parameters has shape (4,); expected (40,)
Recording(ARM.joint_names, Q, *[TWICE] * 5) | ShapeError: position has shape (2, 4); expected (4, 4)
ARM.with_changes(mass=np.ones(5))      | ShapeError: mass has shape (5,); expected (4,)
ARM.with_changes(gravity=9.81)         | ShapeError: gravity has shape (); expected (3,)
with_inertial_parameters(ARM, [0])     | ShapeError: expected
dynamics.kinetic_energy(ARM, Z, [0, 1]) | ShapeError: v has shape
SESSION.driver.state(0, 0, [1], Z)     | ShapeError: q has shape (1,)
prepare_trajectory(SESSION, (3, None, None, None)) | ShapeError: times
prepare_trajectory(SESSION, ([1], TWICE, None, None)) | ShapeError: position has shape (2, 4); expected (1, 4)
constraint_force(np.eye(4), Q, Q, TWICE, [0, 0], np.nan) | ParameterError: tolerance = nan ... positive
regressor(ARM, None, None, None)       | ParameterError: q = None
NEWTON.mass_matrix(NAN)                | NonFiniteError: q is not finite
NEWTON.inverse_dynamics(None, Z, Z)    | ParameterError: q = None ... must be real numbers
frame_motion(ARM, Z, NAN)              | NonFiniteError: v is not finite
dynamics.power(ARM, Z, Z, None)        | ParameterError: tau = None
prepare_trajectory(SESSION, ([1], [NAN], None, None)) | TrajectoryError: point 0
""",  # noqa: E501
    PUBLIC | globals(), identification, imperfections, kinematics, model, mujoco_plant, reactions,
    recording, regressor_module, requests, trajectory, trajectory_plan,
)  # fmt: skip


@pytest.mark.parametrize('name', dynamics.FORMULATIONS)
def test_every_formulation_takes_lists_of_numbers(name):
    made, wrench = make_formulation(name, ARM), [0, 0, 1, 0, 0, 0]
    for method, count in (
        ('bias_forces', 2), ('coriolis_matrix', 2), ('mass_matrix', 1), ('gravity_forces', 1),
        ('forward_dynamics', 3), ('derivatives', 3), ('linearize', 3),
    ):  # fmt: skip
        of_lists, expected = (getattr(made, method)(*[x] * count) for x in (LIST, Q))
        for one, other in zip(of_lists, expected, strict=True):
            assert_array_equal(one, other)
    assert_array_equal(
        made.inverse_dynamics(LIST, LIST, LIST, {'tool': wrench}),
        made.inverse_dynamics(Q, Q, Q, {'tool': np.array(wrench, dtype=float)}),
    )


def test_the_kinematics_and_a_trajectory_take_lists():
    for call in (
        lambda q: frame_pose(ARM, q).p_WF,
        lambda q: frame_jacobian(ARM, q),
        lambda q: dynamics.total_energy(ARM, q, q),
        lambda q: regressor(ARM, [q], [q], [q]),
    ):
        assert_array_equal(call(LIST), call(Q))
    still = [[0] * 4] * 2
    answer = prepare_trajectory(active(), ([1, 2], [LIST, still[0]], still, still))()
    assert answer == 'accepted: 2 points from 0 s'


def test_kernels_pass_on_what_is_not_finite():
    """The limits of the controller answer it, whichever formulation runs."""
    for name in ('newton_euler', 'pinocchio'):
        tau = np.zeros(4)
        compile_kernel(ARM, name).inverse_dynamics(Z, Z, np.array(NAN), tau)
        assert np.isnan(tau[0])
