# SPDX-License-Identifier: Apache-2.0
"""What functions and classes of constraints refuse, with culprit, number and remedy.

``test_program_file`` has what is wrong in files.
"""

from __future__ import annotations

import numpy as np
import pytest
import refusals
from samples import sample, shipped

from robot_dynamics_ros.constraints.constrained_motion import (
    constrained_linearization,
    simulate_constrained,
)
from robot_dynamics_ros.constraints.constraint import Stack
from robot_dynamics_ros.constraints.curves import Circle, Line, Lissajous, Spline, Waypoints
from robot_dynamics_ros.constraints.damped_inverse import Singularity
from robot_dynamics_ros.constraints.error_dynamics import exact_error, projected_gains
from robot_dynamics_ros.constraints.program import Program
from robot_dynamics_ros.constraints.reactions import (
    constraint_force,
    reaction_derivatives,
    reactions,
)
from robot_dynamics_ros.constraints.registry import make_constraint, moving_frame, signal
from robot_dynamics_ros.constraints.signals import Constant, Timing
from robot_dynamics_ros.constraints.stabilization import gain_matrix, stabilizing_effort
from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.errors import (
    DescriptionError,
    NonFiniteError,
    ParameterError,
    ProgramError,
    ShapeError,
    SingularityError,
    UnknownNameError,
)

TREE, OTHER = sample('rrpr').tree, shipped('scara').tree
O, NAN, INF, ZEROS = [0.0, 0.0, 0.0], float('nan'), float('inf'), np.zeros(4)
THREE = [[0.0], [1.0], [2.0]]
# Two joints, A = 2 E, one constraint along the first joint.
A, b, Q, GAMMA, BETA = [[2.0, 0.0], [0.0, 2.0]], [1.0, 0.5], [0.0, 0.0], [[1.0, 0.0]], [3.0]
DOUBT = np.array([[-1.0, 0.0], [0.0, 1.0]])
NONE, ONE = np.zeros((0, 2)), [0.0]
POINT = make_constraint('joint_program', TREE, 'x', {'joints': ['j1'], 'position': 0.0})
ELSE = make_constraint('joint_program', OTHER, 'y', {'position': [0] * 4})
STACK, UNIT = Stack([POINT]), np.eye(1)


def effort(f=ONE, G0=1.0, inverse='euclidean', gamma=GAMMA, **options):
    return stabilizing_effort(A, b, gamma, BETA, f, ONE, G0, 1.0, [0.0, 0.0], inverse, **options)


REFUSED = {
    ParameterError: {
        'rate = -1.0 refused': lambda: Timing(1.0, -1.0),
        'ramp = 0.0 refused': lambda: Timing(1.0, 1.0, 0.0),
        'start = -1.0 refused': lambda: Timing(1.0, 1.0, 1.0, -1.0),
        'ramp = 1.5 refused: .* at most 1': lambda: Timing.of_duration(1.0, 2.0, 1.5),
        'must differ from the start': lambda: Line(O, O),
        'radius = 0.0 refused': lambda: Circle(O, 0.0),
        'normal .* must be a direction': lambda: Circle(O, 1.0, O),
        'toward .* must be a direction': lambda: Circle(O, 1.0, [0, 0, 1], [0, 0, 2]),
        'laps = 0 refused': lambda: Circle(O, 1.0, laps=0),
        'laps = inf refused: must be finite': lambda: Spline(THREE, closed=True).symbolic(0.0),
        'neighbours must differ': lambda: Spline([[0.0], [0.0]]),
        'must be real numbers in rows': lambda: Spline([O, [0.0]]),
        'strictly increasing': lambda: Waypoints([0.0, 1.0, 0.5], THREE),
        'begin with 0': lambda: Waypoints([0.5, 1.0, 2.0], THREE),
        'at least one, with different names': lambda: Stack([]),
        'all must be of one robot': lambda: Stack([POINT, ELSE]),
        'inverse': lambda: Program('p', STACK, UNIT, UNIT, [1.0], 'moore'),
        "'soft' refused: must be real numbers": lambda: effort(G0='soft'),
        'weights .* must be positive definite': lambda: effort(weights=[-1.0]),
        'metric .* must be positive definite': lambda: effort(metric=[-1.0, 1.0]),
        'threshold = .* positive': lambda: Singularity(threshold=0.0),
        'damping = .* positive': lambda: Singularity(damping=0.0),
        'A .*must be positive definite': lambda: constraint_force(DOUBT, b, Q, GAMMA, BETA),
        'A .*must be real numbers': lambda: reactions(1j * UNIT, ONE, ONE, UNIT, ONE),
        'times .*must be real numbers': lambda: Waypoints(np.array([0, 1], 'm8[s]'), THREE[:2]),
        'v .*must be real numbers in rows': lambda: POINT.evaluate(ZEROS, [1, [2], 3, 4], 0.0),
        'times .*must be real numbers in': lambda: exact_error(UNIT, UNIT, ONE, ONE, ['now']),
        'Q = .*must be real numbers': lambda: constrained_linearization(
            make_formulation('kane', TREE), POINT, ZEROS, ZEROS, ['a'] * 4, 0.0
        ),
        'damping .*must be real numbers': lambda: make_formulation(
            'lagrange', TREE
        ).hamilton_equations(ZEROS, ZEROS, ZEROS, ['b'] * 4),
        'Q .*must be real numbers in rows of one length': lambda: constraint_force(
            A, b, [[1.0], b], GAMMA, BETA
        ),
    },
    ShapeError: {
        r'to has shape \(3,\); expected \(2,\)': lambda: Line([0.0, 1.0], O),
        r'points has shape \(1,\); expected \(points': lambda: Spline([0.0]),
        r'value has shape \(0,\); expected \(numbers': lambda: Constant([]),
        r'q has shape \(5,\); expected \(4,\)': lambda: POINT.evaluate(
            np.zeros(5), np.zeros(4), 0.0
        ),
        'G0': lambda: Program('p', STACK, np.eye(2), UNIT, ONE),
        r'f0 has shape \(2,\); expected \(1,\)': lambda: exact_error(UNIT, UNIT, b, ONE, ONE),
        r'G0 has shape \(1, 1\); expected': lambda: projected_gains(UNIT, UNIT, np.eye(2)),
        r'q has shape \(5,\); expected \(4,\)$': lambda: simulate_constrained(
            make_formulation('kane', TREE), POINT, None, np.zeros(5), np.zeros(3), 0.1
        ),
        'weights': lambda: Program('p', STACK, UNIT, UNIT, b),
        r'G0 has shape \(3,\); expected': lambda: gain_matrix('G0', O, 2),
        'metric': lambda: effort(metric=O),
        r'Gamma has shape \(0, 2\)': lambda: effort(gamma=NONE),
        r'K has shape \(2,\); expected \(2, 2\)': lambda: reaction_derivatives(
            A, A, b, GAMMA, GAMMA, GAMMA
        ),
        r'A has shape \(1, 2\)': lambda: reactions([b], b, Q, GAMMA, BETA),
        r'Gamma has shape \(2,\); expected \(m, n\)': lambda: reactions(A, b, Q, b, BETA),
        r'Gamma has shape \(0, 2\); expected .* at least one': lambda: constraint_force(
            A, b, Q, NONE, BETA
        ),
        r'beta has shape \(2,\); expected \(1,\)': lambda: reactions(A, b, Q, GAMMA, b),
    },
    NonFiniteError: {
        'is not finite': [lambda: Lissajous([0.0], [NAN], [1.0]), lambda: Constant([INF])],
        'G1': lambda: gain_matrix('G1', NAN, 2),
        'f is not finite': lambda: effort(f=[NAN]),
        'b is not finite': lambda: reactions(A, [1.0, NAN], Q, GAMMA, BETA),
    },
    UnknownNameError: {
        "constraint kind 'torus'; known: .*sphere": lambda: make_constraint(
            'torus', TREE, 'c', {}
        ),
        'unknown inverse .moore.; known: euclidean, inertia': lambda: effort(inverse='moore'),
    },
    ProgramError: {
        "unknown joint 'elbow'; known: ": lambda: make_constraint(
            'joint_coupling', TREE, 'c', {'coefficients': {'elbow': 1.0}, 'value': 0.0}
        ),
    },
    SingularityError: {
        'linearly dependent': lambda: reactions(A, b, Q, [[0.0, 0.0]], BETA),
    },
}


test_it_is_refused_by_name = refusals.every(REFUSED)


@refusals.written("""
{spiral: {}}                                   | has none of them; give one of circle, line,
{circle: {center: [0, 0, 0]}, speed: 1}        | circle: 'radius' is missing
{circle: {center: [0, 0, 0], radius: 1}}       | give one of speed, duration
{circle: {center: [0, 0, 0], radius: 1}, duration: 3} | no end; give laps
{line: {from: [0], to: [1]}, speed: 1, sped: 2} | key 'sped'; known: ... speed
{line: {from: [0], to: [1]}, speed: -1}        | speed: is -1; must be positive
high                                           | is 'high'; give a finite number
[]                                             | is empty
{spline: {points: 3}, speed: 1}                | points: is 3; give a list of rows
{spline: {points: [[0.0], [1.0], [2.0]], closed: 1}, speed: 1} | give true or false
""")
def test_a_signal_is_refused_by_name(given, said):
    with pytest.raises(DescriptionError, match=said):
        signal('x', given)


@refusals.written("""
{rpy: [0, 0, 0], z: [0, 0, 0]}   | x: has rpy and z; give one
{origin: [0, 1]}                 | x: origin has shape (2,)
{turn: {axis: [0, 0, 1]}}        | turn: 'angle' is missing
{z: [0, 0, 0]}                   | z is ... ; must be a direction
""")
def test_a_moving_frame_is_refused_by_name(given, said):
    with pytest.raises(DescriptionError, match=said):
        moving_frame('x', given)
