# SPDX-License-Identifier: Apache-2.0
"""Arguments of the public functions: lists are converted, anything else is rejected by name."""

from __future__ import annotations

import numpy as np
import pytest
from samples import sample

from robot_dynamics_ros import (
    ControllerSession,
    compile_kernel,
    dynamics,
    identify,
    load_arm,
    load_mechanism,
    load_program,
    load_robot,
    make_formulation,
    make_law,
    read_recording,
)
from robot_dynamics_ros.control.requests import prepare_parameters, prepare_trajectory
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.errors import (
    DescriptionError,
    NonFiniteError,
    ParameterError,
    ProgramError,
    ShapeError,
    TrajectoryError,
    UnknownNameError,
)
from robot_dynamics_ros.identification import (
    design_excitation,
    inertial_parameters,
    make_plan,
    regressor,
    with_inertial_parameters,
)
from robot_dynamics_ros.kinematics import inverse_kinematics
from robot_dynamics_ros.model import frame_jacobian, frame_motion, frame_pose
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant

XML = sample('scara').xml
ARM = load_robot(XML)
MODELS = {name: make_formulation(name, ARM) for name in dynamics.FORMULATIONS}
NEWTON = MODELS['newton_euler']
Z, LIST = np.zeros(4), [0.3, 1, 0.1, 0]
Q = np.array(LIST)
NAN = [np.nan, 0, 0, 0]
NO_ROBOT = 'tree = .* must be a robot, as load_robot'


def active() -> ControllerSession:
    session = ControllerSession(ARM)
    session.update(session.driver.state(0, 0, Z, Z))
    session.activate(0)
    return session


SESSION = active()


REFUSED = {
    DescriptionError: {
        'is None; give a path or the URDF text': lambda: load_arm(None),
        "is b'<robot'; give a path": lambda: load_robot(b'<robot'),
        'mechanism file: is None; give': lambda: load_mechanism(XML, None),
        "mechanism file: is ''; give": lambda: load_mechanism(XML, ''),
    },
    ParameterError: {
        'gravity = .* numbers': lambda: load_robot(XML, (0, 0, 'x')),
        "effort_limit = 'a' .* positive finite number of N m or N": lambda: load_robot(
            XML, effort_limit='a'
        ),
        "effort_limit of 'joint1'": lambda: load_arm(XML, effort_limit={'joint1': [1]}),
        r"joints = 'joint1' .* must be a list of names, such as \['joint1'\]": lambda: load_robot(
            XML, joints='joint1'
        ),
        'joints = 3 .* list of names': lambda: load_arm(XML, joints=3),
        'locked = .* mapping of': lambda: load_arm(XML, locked='joint1'),
        "locked position of joint 'joint1' = 'x'": lambda: load_robot(XML, locked={'joint1': 'x'}),
        'mappings = .* mapping': lambda: load_robot(XML, mappings='a'),
        'identified = 3': lambda: load_robot(XML, identified=3),
        NO_ROBOT: [
            lambda: make_formulation('kane', None),
            lambda: make_law('pd_gravity', 'scara'),
            lambda: compile_kernel('scara.urdf'),
            lambda: ControllerSession(None),
            lambda: load_program('scara_circle', 'scara'),
            lambda: identify(ARM, []),
            lambda: make_plan(None, None),
            lambda: inertial_parameters(None),
            lambda: frame_pose(None, Z),
            lambda: dynamics.potential_energy('scara', Z),
        ],
        r"outputs = .* such as \['mass_matrix'\]": lambda: compile_kernel(
            ARM, outputs='mass_matrix'
        ),
        'must be a mapping': lambda: ControllerSession(ARM, 'law'),
        'a DriverInterface': lambda: ControllerSession(ARM, driver='ur'),
        'path = None .* the path of a bag': lambda: read_recording(None),
        'see read_recording': lambda: identify('bag', ARM),
        'list of names': lambda: design_excitation(ARM, terms='damping'),
        'period = .* a number': [
            lambda: design_excitation(ARM, period='a'),
            lambda: MujocoPlant(ARM, [1]),
        ],
        'position = ': lambda: inverse_kinematics(ARM, 'x'),
        'tolerance = .* a number': lambda: inverse_kinematics(ARM, [0] * 3, tolerance='a'),
        'q = .* one length': lambda: NEWTON.gravity_forces([0, [1], 0, 0]),
        'effort = ': lambda: MujocoPlant(ARM, 0.001).step(['a'] * 4),
        'n = .* the number of joints': lambda: Reference('scara'),
        'values = 3': lambda: prepare_parameters(SESSION, 3),
        "= 'fast'": lambda: SESSION.set_speed('fast'),
        'points = .* times, positions, velocities and accelerations': lambda: prepare_trajectory(
            SESSION, [1, 2]
        ),
    },
    UnknownNameError: {
        r'formulation \[\]': lambda: make_formulation([], ARM),
        'unknown law': lambda: make_law(['pd_gravity'], ARM),
        'unknown frame None': lambda: frame_pose(ARM, Z, None),
    },
    ProgramError: {
        'give YAML text or a path': lambda: load_program(None, ARM),
    },
    ShapeError: {
        'expected': lambda: with_inertial_parameters(ARM, [0]),
        'v has shape': lambda: dynamics.kinetic_energy(ARM, Z, [0, 1]),
        r'q has shape \(1,\)': lambda: SESSION.driver.state(0, 0, [1], Z),
        'times': lambda: prepare_trajectory(SESSION, (3, None, None, None)),
        r'position has shape \(2, 4\); expected \(1, 4\)': lambda: prepare_trajectory(
            SESSION, ([1], [LIST, LIST], None, None)
        ),
    },
    NonFiniteError: {
        'q is not finite': [
            lambda: regressor(ARM, None, None, None),
            lambda: NEWTON.mass_matrix(NAN),
            lambda: NEWTON.inverse_dynamics(None, Z, Z),
        ],
        'v is not finite': lambda: frame_motion(ARM, Z, NAN),
        'tau is not finite': lambda: dynamics.power(ARM, Z, Z, None),
    },
    TrajectoryError: {
        'point 0': lambda: prepare_trajectory(SESSION, ([1], [NAN], None, None)),
    },
}
CALLS = [
    (call, error, text)
    for error, texts in REFUSED.items()
    for text, calls in texts.items()
    for call in (calls if isinstance(calls, list) else [calls])
]


@pytest.mark.parametrize(('call', 'error', 'text'), CALLS)
def test_it_names_the_argument_and_what_would_be_right(call, error, text):
    with pytest.raises(error, match=text):
        call()
    assert (Z.any(), LIST, Q.tolist(), NAN[1:]) == (False, [0.3, 1, 0.1, 0], LIST, [0, 0, 0])


@pytest.mark.parametrize('name', MODELS)
def test_every_formulation_takes_lists_of_numbers(name):
    model, wrench = MODELS[name], [0, 0, 1, 0, 0, 0]
    for method, count in (
        ('inverse_dynamics', 3), ('bias_forces', 2), ('coriolis_matrix', 2), ('mass_matrix', 1),
        ('gravity_forces', 1), ('forward_dynamics', 3), ('derivatives', 3), ('linearize', 3),
    ):  # fmt: skip
        of_lists, expected = (getattr(model, method)(*[x] * count) for x in (LIST, Q))
        for one, other in zip(of_lists, expected, strict=True):
            np.testing.assert_array_equal(one, other)
    exact = model.inverse_dynamics(Q, Q, Q, {'tool': np.array(wrench, dtype=float)})
    np.testing.assert_array_equal(
        model.inverse_dynamics(LIST, LIST, LIST, {'tool': wrench}), exact
    )


@pytest.mark.parametrize(
    'call',
    [
        lambda q: frame_pose(ARM, q).p_WF,
        lambda q: frame_jacobian(ARM, q),
        lambda q: dynamics.total_energy(ARM, q, q),
        lambda q: regressor(ARM, [q], [q], [q]),
    ],
)
def test_functions_of_the_kinematics_take_lists(call):
    np.testing.assert_array_equal(call(LIST), call(Q))


def test_a_trajectory_may_consist_of_lists():
    still = [[0, 0, 0, 0]] * 2
    answer = prepare_trajectory(active(), ([1, 2], [LIST, still[0]], still, still))()
    assert answer == 'accepted: 2 points from 0 s'


def test_kernels_pass_on_what_is_not_finite():
    """The limits of the controller answer it, whichever formulation runs."""
    for name in ('newton_euler', 'pinocchio'):
        tau = np.zeros(4)
        compile_kernel(ARM, name).inverse_dynamics(Z, Z, np.array(NAN), tau)
        assert np.isnan(tau[0])
