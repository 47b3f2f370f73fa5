# SPDX-License-Identifier: Apache-2.0
"""What functions and classes of constraints refuse, with culprit, number and remedy.

``test_program_file`` has what is wrong in files.
"""

import numpy as np
import pytest
import tables
from samples import sample, shipped

from robot_dynamics_ros.constraints import (
    constrained_motion,
    constraint,
    curves,
    error_dynamics,
    program,
    reactions,
    signals,
    stabilization,
)
from robot_dynamics_ros.constraints.constraint import Stack
from robot_dynamics_ros.constraints.registry import make_constraint, moving_frame, signal
from robot_dynamics_ros.constraints.stabilization import stabilizing_effort
from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.errors import DescriptionError

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
KANE, LAGRANGE = (make_formulation(name, TREE) for name in ('kane', 'lagrange'))


def demanded(f=ONE, G0=1.0, inverse='euclidean', gamma=GAMMA, **options):
    return stabilizing_effort(A, b, gamma, BETA, f, ONE, G0, 1.0, [0.0, 0.0], inverse, **options)


test_it_is_refused_by_name = tables.called("""
Timing(1.0, -1.0)                                  | ParameterError: rate = -1.0 refused
Timing(1.0, 1.0, 0.0)                              | ParameterError: ramp = 0.0 refused
Timing(1.0, 1.0, 1.0, -1.0)                        | ParameterError: start = -1.0 refused
Timing.of_duration(1.0, 2.0, 1.5)                  | ParameterError: ramp = 1.5 refused: ... at most 1
Line(O, O)                                         | ParameterError: must differ from the start
Circle(O, 0.0)                                     | ParameterError: radius = 0.0 refused
Circle(O, 1.0, O)                                  | ParameterError: normal ... must be a direction
Circle(O, 1.0, [0, 0, 1], [0, 0, 2])               | ParameterError: toward across the normal = [0.0, 0.0, 0.0] refused: must be a direction
Circle(O, 1.0, laps=0)                             | ParameterError: laps = 0 refused
Spline(THREE, closed=True).formula(0.0)            | ParameterError: laps = inf refused: must be finite
Spline(THREE, laps=2)                              | ParameterError: laps = 2 refused: ... of a closed spline
Spline(THREE, closed=True, laps=-1)                | ParameterError: laps = -1 refused: must be positive
Spline([[0.0], [0.0]])                             | ParameterError: neighbours must differ
Spline([O, [0.0]])                                 | ParameterError: must be real numbers in rows
Waypoints([0.0, 1.0, 0.5], THREE)                  | ParameterError: strictly increasing
Waypoints([0.5, 1.0, 2.0], THREE)                  | ParameterError: begin with 0
Stack([])                                          | ParameterError: at least one, with different names
Stack([POINT, ELSE])                               | ParameterError: all must be of one robot
Program('p', STACK, UNIT, UNIT, [1.0], 'moore')    | ParameterError: inverse
demanded(G0='soft')                                  | ParameterError: 'soft' refused: must be real numbers
demanded(weights=[-1.0])                             | ParameterError: weights ... must be positive definite
demanded(metric=[-1.0, 1.0])                         | ParameterError: metric ... must be positive definite
Singularity(threshold=0.0)                         | ParameterError: threshold = ... positive
Singularity(damping=0.0)                           | ParameterError: damping = ... positive
constraint_force(DOUBT, b, Q, GAMMA, BETA)         | ParameterError: A ... must be positive definite
reactions(1j * UNIT, ONE, ONE, UNIT, ONE)          | ParameterError: A ... must be real numbers
Waypoints(np.array([0, 1], 'm8[s]'), THREE[:2])    | ParameterError: times ... must be real numbers
POINT.evaluate(ZEROS, [1, [2], 3, 4], 0.0)         | ParameterError: v ... must be real numbers in rows
exact_error(UNIT, UNIT, ONE, ONE, ['now'])         | ParameterError: times ... must be real numbers in
constrained_linearization(KANE, POINT, ZEROS, ZEROS, ['a'] * 4, 0.0) | ParameterError: Q = ... must be real numbers
LAGRANGE.hamilton_equations(ZEROS, ZEROS, ZEROS, ['b'] * 4) | ParameterError: damping ... must be real numbers
constraint_force(A, b, [[1.0], b], GAMMA, BETA)    | ParameterError: Q ... must be real numbers in rows of one length
Line([0.0, 1.0], O)                                | ShapeError: to has shape (3,); expected (2,)
Spline([0.0])                                      | ShapeError: points has shape (1,); expected (points
Constant([])                                       | ShapeError: value has shape (0,); expected (numbers
POINT.evaluate(np.zeros(5), np.zeros(4), 0.0)      | ShapeError: q has shape (5,); expected (4,)
Program('p', STACK, np.eye(2), UNIT, ONE)          | ShapeError: G0
exact_error(UNIT, UNIT, b, ONE, ONE)               | ShapeError: f0 has shape (2,); expected (1,)
projected_gains(UNIT, UNIT, np.eye(2))             | ShapeError: G0 has shape (1, 1); expected
projected_gains(1.0, 2.0, [[1.0, 0.0], [2.0, 0.0]]) | SingularityError: M^T W M ... leave joints free
roots(1.0, np.eye(2))                              | ShapeError: G1 has shape (2, 2); expected
proved_stable(A, UNIT)                             | ShapeError: G1 has shape (1, 1); expected
MovingFrame(rotation=np.eye(2))         | ShapeError: rotation has shape (2, 2); expected (3, 3)
simulate_constrained(KANE, POINT, None, np.zeros(5), np.zeros(3), 0.1) | ShapeError: q has shape (5,); expected (4,)
simulate_constrained(KANE, POINT, lambda *x: O, ZEROS, ZEROS, 0.1) | ShapeError: effort has shape (3,); expected (4,)
second_derivatives(POINT, ZEROS, ZEROS, 0.0, O, ZEROS) | ShapeError: N has shape (3,); expected (1,)
LAGRANGE.separated_form(ZEROS).forces(O)           | ShapeError: v has shape (3,); expected (4,)
Program('p', STACK, UNIT, UNIT, b)                 | ShapeError: weights
gain_matrix('G0', O, 2)                            | ShapeError: G0 has shape (3,); expected
demanded(metric=O)                                   | ShapeError: metric
TaskInverse([1.0, 1.0])                            | ShapeError: Gamma has shape (2,); expected (m, n)
TaskInverse(UNIT).solve(b)                         | ShapeError: u has shape (2,); expected (1,) or (1, k)
TaskInverse(UNIT).project(b)                       | ShapeError: v has shape (2,); expected (1,) or (1, k)
TaskInverse(UNIT).reactions(b)                     | ShapeError: effort has shape (2,); expected (1,) or
NullSpaceTask.of(TREE, damping=b)                  | ShapeError: damping has shape (2,); expected () or (4,)
NullSpaceTask.of(TREE, posture=b)                  | ShapeError: posture has shape (2,); expected (4,)
NullSpaceTask.of(TREE, stiffness=-1.0)             | ParameterError: stiffness = -1.0 refused: must not be negative
NullSpaceTask.of(TREE, limit_margin=0.0)           | ParameterError: limit_margin = 0.0 refused: must be positive
demanded(f=[1j])                                   | ParameterError: f = [1j] refused: must be real numbers
stabilizing_effort(UNIT, b, GAMMA, BETA, ONE, ONE, 1.0, 1.0, None, 'inertia') | ShapeError: A has shape (1, 1); expected (2, 2)
task_acceleration(BETA, b, ONE, 1.0, 1.0)          | ShapeError: f has shape (2,); expected (1,)
effort(A, ONE, b)                                  | ShapeError: b has shape (1,); expected (2,)
gains_from_frequency(b, O)                         | ShapeError: damping_ratio has shape (3,); expected () or (2,)
gains_from_frequency(1.0, 1.0)                     | ShapeError: natural_frequency has shape (); expected (m,)
TaskInverse([[NAN]])                               | NonFiniteError: Gamma
Program('p', STACK, UNIT, UNIT, [1.0], metric=-np.ones(4)) | ParameterError: metric = -1.0 refused: must be positive
constrained_linearization(KANE, POINT, ZEROS, ZEROS, ZEROS, 0.0, O) | ShapeError: armature has shape (3,); expected (4,)
demanded(gamma=NONE)                                 | ShapeError: Gamma has shape (0, 2)
reaction_derivatives(A, A, b, GAMMA, GAMMA, GAMMA) | ShapeError: K has shape (2,); expected (2, 2)
reactions([b], b, Q, GAMMA, BETA)                  | ShapeError: A has shape (1, 2)
reactions(A, b, Q, b, BETA)                        | ShapeError: Gamma has shape (2,); expected (m, n)
constraint_force(A, b, Q, NONE, BETA)              | ShapeError: Gamma has shape (0, 2); expected (m, n)
reactions(A, b, Q, GAMMA, b)                       | ShapeError: beta has shape (2,); expected (1,)
Lissajous([0.0], [NAN], [1.0])                     | NonFiniteError: is not finite
Constant([INF])                                    | NonFiniteError: is not finite
gain_matrix('G1', NAN, 2)                          | NonFiniteError: G1
demanded(f=[NAN])                                    | NonFiniteError: f is not finite
reactions(A, [1.0, NAN], Q, GAMMA, BETA)           | NonFiniteError: b is not finite
make_constraint('torus', TREE, 'c', {})            | UnknownNameError: constraint kind 'torus'; known: ... sphere
demanded(inverse='moore')                            | UnknownNameError: unknown inverse 'moore'; known: euclidean, inertia
make_constraint('joint_coupling', TREE, 'c', {'coefficients': {'elbow': 1.0}, 'value': 0.0}) | ProgramError: unknown joint 'elbow'; known:
reactions(A, b, Q, [[0.0, 0.0]], BETA)             | SingularityError: linearly dependent
""", globals(), constrained_motion, constraint, curves, error_dynamics, program, reactions, signals, stabilization)  # fmt: skip  # noqa: E501


@tables.written("""
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


@tables.written("""
{rpy: [0, 0, 0], z: [0, 0, 0]}   | x, z: has rpy beside it; give rpy, or z
{origin: [0, 1]}                 | x: origin has shape (2,)
{turn: {axis: [0, 0, 1]}}        | turn: 'angle' is missing
{z: [0, 0, 0]}                   | z is ... ; must be a direction
""")
def test_a_moving_frame_is_refused_by_name(given, said):
    with pytest.raises(DescriptionError, match=said):
        moving_frame('x', given)
