# SPDX-License-Identifier: Apache-2.0
"""What functions and classes of constraints refuse, with culprit, number and remedy.

``test_program_file`` has what is wrong in files.
"""

from __future__ import annotations

import numpy as np
import pytest
import refusals
from samples import sample, shipped

from robot_dynamics_ros.constraints.constraint import Stack
from robot_dynamics_ros.constraints.curves import Circle, Line, Lissajous, Spline, Waypoints
from robot_dynamics_ros.constraints.damped_inverse import Singularity
from robot_dynamics_ros.constraints.program import Program
from robot_dynamics_ros.constraints.reactions import (
    constraint_force,
    reaction_derivatives,
    reactions,
)
from robot_dynamics_ros.constraints.registry import make_constraint, moving_frame, signal
from robot_dynamics_ros.constraints.signals import Constant, Timing
from robot_dynamics_ros.constraints.stabilization import gain_matrix, stabilizing_effort
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
O, NAN, INF = [0.0, 0.0, 0.0], float('nan'), float('inf')
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


REFUSED: dict[str, refusals.Refusal] = {
    'rate': (lambda: Timing(1.0, -1.0), ParameterError, 'rate = -1.0 refused'),
    'ramp': (lambda: Timing(1.0, 1.0, 0.0), ParameterError, 'ramp = 0.0 refused'),
    'start': (lambda: Timing(1.0, 1.0, 1.0, -1.0), ParameterError, 'start = -1.0 refused'),
    'ramp of a duration': (lambda: Timing.of_duration(1.0, 2.0, 1.5), ParameterError,
                           'ramp = 1.5 refused: .* at most 1'),
    'line of a point': (lambda: Line(O, O), ParameterError, 'must differ from the start'),
    'line of two sizes': (lambda: Line([0.0, 1.0], O), ShapeError,
                          r'to has shape \(3,\); expected \(2,\)'),
    'radius': (lambda: Circle(O, 0.0), ParameterError, 'radius = 0.0 refused'),
    'normal': (lambda: Circle(O, 1.0, O), ParameterError, 'normal .* must be a direction'),
    'toward': (lambda: Circle(O, 1.0, [0, 0, 1], [0, 0, 2]), ParameterError,
               'toward .* must be a direction'),
    'laps': (lambda: Circle(O, 1.0, laps=0), ParameterError, 'laps = 0 refused'),
    'endless spline': (lambda: Spline(THREE, closed=True).symbolic(0.0), ParameterError,
                       'laps = inf refused: must be finite'),
    'equal points': (lambda: Spline([[0.0], [0.0]]), ParameterError, 'neighbours must differ'),
    'rows': (lambda: Spline([O, [0.0]]), ParameterError, 'numbers in rows of one length'),
    'points': (lambda: Spline([0.0]), ShapeError, r'points has shape \(1,\); expected \(points'),
    'times': (lambda: Waypoints([0.0, 1.0, 0.5], THREE), ParameterError, 'strictly increasing'),
    'first time': (lambda: Waypoints([0.5, 1.0, 2.0], THREE), ParameterError, 'begin with 0'),
    'amplitude': (lambda: Lissajous([0.0], [NAN], [1.0]), NonFiniteError, 'is not finite'),
    'value': (lambda: Constant([INF]), NonFiniteError, 'is not finite'),
    'no value': (lambda: Constant([]), ShapeError, r'value has shape \(0,\); expected \(numbers'),
    'state': (lambda: POINT.evaluate(np.zeros(5), np.zeros(4), 0.0), ShapeError,
              r'q has shape \(5,\); expected \(4,\)'),
    'kind': (lambda: make_constraint('torus', TREE, 'c', {}), UnknownNameError,
             "constraint kind 'torus'; known: .*sphere"),
    'joint': (lambda: make_constraint('joint_coupling', TREE, 'c',
                                      {'coefficients': {'elbow': 1.0}, 'value': 0.0}),
              ProgramError, "unknown joint 'elbow'; known: "),
    'no constraint': (lambda: Stack([]), ParameterError, 'at least one, with different names'),
    'two robots': (lambda: Stack([POINT, ELSE]), ParameterError, 'all must be of one robot'),
    'program: G0': (lambda: Program('p', STACK, np.eye(2), UNIT, ONE), ShapeError, 'G0'),
    'program: weights': (lambda: Program('p', STACK, UNIT, UNIT, b), ShapeError, 'weights'),
    'program: inverse': (lambda: Program('p', STACK, UNIT, UNIT, [1.0], 'moore'), ParameterError,
                         'inverse'),
    'gain: shape': (lambda: gain_matrix('G0', O, 2), ShapeError, r'G0 has shape \(3,\); expected'),
    'gain: number': (lambda: gain_matrix('G1', NAN, 2), NonFiniteError, 'G1'),
    'gain: word': (lambda: effort(G0='soft'), ParameterError, "'soft' refused: must be numbers"),
    'effort: f': (lambda: effort(f=[NAN]), NonFiniteError, 'f is not finite'),
    'effort: inverse': (lambda: effort(inverse='moore'), UnknownNameError,
                        'unknown inverse .moore.; known: euclidean, inertia'),
    'effort: weights': (lambda: effort(weights=[-1.0]), ParameterError,
                        'weights .* must be positive definite'),
    'effort: metric': (lambda: effort(metric=[-1.0, 1.0]), ParameterError,
                       'metric .* must be positive definite'),
    'effort: size of metric': (lambda: effort(metric=O), ShapeError, 'metric'),
    'effort: Gamma': (lambda: effort(gamma=NONE), ShapeError, r'Gamma has shape \(0, 2\)'),
    'threshold': (lambda: Singularity(threshold=0.0), ParameterError, 'threshold = .* positive'),
    'damping': (lambda: Singularity(damping=0.0), ParameterError, 'damping = .* positive'),
    'dependent': (lambda: reactions(A, b, Q, [[0.0, 0.0]], BETA), SingularityError,
                  'linearly dependent'),
    'K': (lambda: reaction_derivatives(A, A, b, GAMMA, GAMMA, GAMMA), ShapeError,
          r'K has shape \(2,\); expected \(2, 2\)'),
    'reactions: A': (lambda: reactions([b], b, Q, GAMMA, BETA), ShapeError,
                     r'A has shape \(1, 2\)'),
    'force: A': (lambda: constraint_force(DOUBT, b, Q, GAMMA, BETA), ParameterError,
                 'A .*must be positive definite'),
    'reactions: b': (lambda: reactions(A, [1.0, NAN], Q, GAMMA, BETA), NonFiniteError,
                     'b is not finite'),
    'force: Q': (lambda: constraint_force(A, b, [[1.0], b], GAMMA, BETA), ParameterError,
                 'Q .*must be numbers in rows of one length'),
    'reactions: Gamma': (lambda: reactions(A, b, Q, b, BETA), ShapeError,
                         r'Gamma has shape \(2,\); expected \(m, n\)'),
    'force: Gamma': (lambda: constraint_force(A, b, Q, NONE, BETA), ShapeError,
                     r'Gamma has shape \(0, 2\); expected .* at least one'),
    'reactions: beta': (lambda: reactions(A, b, Q, GAMMA, b), ShapeError,
                        r'beta has shape \(2,\); expected \(1,\)'),
}  # fmt: skip


@refusals.table(REFUSED)
def test_it_is_refused_by_name(call, error, text):
    refusals.check(call, error, text)


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
