# SPDX-License-Identifier: Apache-2.0
"""Laws as C functions: equal to those of the control tick, case by case."""

import shutil

import numpy as np
import pytest
from generated_c import SANITIZED, call, library, run, write
from samples import shipped

from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.control.laws.computed_torque import ComputedTorque
from robot_dynamics_ros.control.laws.constraint_stabilization import ConstraintStabilization
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.control.transfer import TransferWeight
from robot_dynamics_ros.description.shipped import shipped_mechanism
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.planning.law_functions import (
    computed_torque_function,
    constraint_law_function,
)
from robot_dynamics_ros.symbolic.c_source import c_source

pytestmark = pytest.mark.skipif(shutil.which('gcc') is None, reason='no gcc')

#: One that is damped, and one that closes loops; the robot of each.
PROGRAMS = {'near_singular': 'four_dof', 'four_bar_loop': 'four_bar'}
SAMPLED = {'period': 1e-3, 'discretization': 'zero_order'}


def tree_of(robot):
    if robot == 'four_bar':
        return load_robot(shipped_mechanism(robot)[0], effort_limit=200.0)
    return shipped(robot).tree


def law_of(program, robot, **parameters):
    tree = tree_of(robot)
    if program is not None:
        program = load_program(program, tree, check=False)
    return ConstraintStabilization(tree, program=program, **parameters)


def inputs_of(function, given):
    return [np.array(given[name], dtype=float).ravel() for name in function.code.arguments.inputs]


def test_a_contact_which_has_a_memory_is_refused():
    with pytest.raises(ParameterError, match='has a contact'):
        constraint_law_function(law_of('scara_press', 'scara'))


def close(found, expected, tolerance):
    size = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * size)


DRAWN = """
name: drawn
blend: 2.0
constraints:
- name: p
  kind: point
  frame: tool
  axes: xy
  natural_frequency: 10.0
  target:
    spline: {points: [[0.3, 0.1], [0.35, 0.2], [0.3, 0.25], [0.2, 0.2]]}
    speed: 0.1
"""
#: Program, robot, parameters and inputs of laws: of a motion ahead, without a program, and with an
#: initial error that blends out while a spline is followed.
CASES = {
    **{name: (name, robot, SAMPLED, 't q v previous') for name, robot in PROGRAMS.items()},
    'reference': (None, 'scara', {**SAMPLED, 'limit_effort': False}, 't q v previous reference'),
    'drawn': (DRAWN, 'scara', {}, 't q v initial'),
}


@pytest.mark.slow
@pytest.mark.parametrize('case', CASES)
def test_the_function_is_the_law_of_the_tick(case, tmp_path, rng):
    """From the start through many times; efforts beyond their limits."""
    program, robot, parameters, inputs = CASES[case]
    law = law_of(program, robot, **parameters)
    tree, n = law.tree, law.tree.n
    function = constraint_law_function(law)
    assert tuple(function.code.arguments.inputs) == tuple(inputs.split())
    lib = library(c_source(tree, functions=[function], name='arm'), tmp_path)
    law.reset(0.0, np.full(n, 0.2), np.zeros(n))
    reference, expected, limited = Reference(n), np.zeros(n), 0
    initial = np.concatenate([law.f, law.f_dot])
    for t in (0.0, 0.5, 1.2, 1.9999, 2.0, 3.7, 5.4, 50.0):
        for spread in (0.02, 0.3):
            q, v = spread * rng.normal(size=(2, n)) + [[0.3], [0.0]]
            q = np.clip(q, tree.position_lower, tree.position_upper)
            reference.rows[:] = asked = rng.normal(size=(3, n))
            given = {'t': t, 'q': q, 'v': v, 'previous': law.acceleration.copy()}
            law.effort(t, q, v, reference, expected)
            limited += law.scale < 1.0
            given |= {'reference': asked, 'initial': initial}
            tau, acceleration, f, f_dot = call(lib, function, inputs_of(function, given))
            # Two ways through the decomposition, of condition up to 1e3 far from the program.
            close(tau, expected, 1e-10 if case in PROGRAMS else 1e-12)
            close(acceleration, law.acceleration, 1e-10)
            close(f, law.f, 1e-13)
            close(f_dot, law.f_dot, 1e-13)
    assert limited > 0 or not law.parameters['limit_effort'], 'the limits must have been met'


# ---- computed torque ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(('robot', 'follow'), [('scara', 'measured'), ('four_dof', 'desired')])
def test_computed_torque_in_c_is_the_law_ramp_and_limits_around_it(robot, follow, tmp_path, rng):
    tree = shipped(robot).tree
    law = ComputedTorque(tree, natural_frequency=8.0, friction_velocity=follow, period=1e-3)
    assert tuple(computed_torque_function(law).code.arguments.inputs) == ('q', 'v', 'reference')
    function = computed_torque_function(law, 0.5)
    write(c_source(tree, functions=[function], name='arm'), tmp_path)
    # It compiles in silence, and passes its own test: results of its formula in Python.
    flags = ['-std=c99', *SANITIZED, '-o', 't', '-lm']
    assert run('gcc', 'arm.c', 'arm_test.c', *flags, cwd=tmp_path) == ''
    assert 'FAILED' not in run('./t', cwd=tmp_path)
    lib = library(c_source(tree, functions=[function], name='arm'), tmp_path)
    ramp, reference, wanted, clipped = TransferWeight(0.5, 0.0), Reference(4), np.zeros(4), 0
    for since in (-0.1, 0.0, 0.1, 0.4, 0.5, 3.0):
        for spread in (0.1, 3.0):
            q, v, before, *asked = spread * rng.normal(size=(6, 4))
            reference.rows[:] = asked
            law.effort(0.0, q, v, reference, wanted)
            blended = before + ramp.at(since) * (wanted - before)
            expected = np.clip(blended, -tree.effort_limit, tree.effort_limit)
            clipped += np.any(expected != blended)
            given = {'q': q, 'v': v, 'reference': asked, 'since': since, 'before': before}
            close(call(lib, function, inputs_of(function, given))[0], expected, 1e-13)
    assert clipped > 0, 'the limits must have been met'


# ---- the command -------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_writes_either_law_or_says_what_is_wrong(command, tmp_path):
    words = f'derive --format c --functions gravity_forces --name arm --force --output {tmp_path}'
    program, ramp = ' --program scara_circle', ' --ramp 0.5'
    for more, declared in (
        (ramp, 'const double before[ARM_N]'),
        (program, 'void arm_constraint_law(const double t[ARM_CONSTRAINT_LAW_t_SIZE],'),
        (f'{program} --set discretization=zero_order', 'previous[ARM_N]'),
        (f'{program} --frames tool', 'void arm_tool_pose('),
    ):
        command(f'{words} --set period=0.001{more}', 'scara')
        header = (tmp_path / 'arm.h').read_text()
        assert declared in header
        assert ('for program scara_circle' in header) == (program in more)
    for more, said in (
        (' --set periode=0', "'periode'"),
        (ramp, 'has no effect with --ramp'),
    ):
        assert said in command(f'{words}{program}{more}', 'scara', code=2).err
