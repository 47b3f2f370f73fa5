# SPDX-License-Identifier: Apache-2.0
"""Generated C: no warnings by compilers and sanitizers, equal to kernels and reference."""

import math
import shutil
import subprocess
from functools import cache

import numpy as np
import pytest
from generated_c import SANITIZED, WARNINGS, call, largest_term, library, run
from hypothesis import example, given, settings
from hypothesis import strategies as st
from samples import sample, world_files
from scipy.spatial.transform import Rotation
from special_floats import PAIRS, chosen, same_bits
from urdf_text import joint, link, symmetric
from urdf_text import robot as robot_text

from robot_dynamics_ros.__main__ import main
from robot_dynamics_ros.description.shipped import shipped_mechanism
from robot_dynamics_ros.model import load_mechanism, load_robot
from robot_dynamics_ros.symbolic.c_function import (
    CFunction,
    identifiers,
    require_identifier,
)
from robot_dynamics_ros.symbolic.c_source import c_source, robot_functions, write
from robot_dynamics_ros.symbolic.kernel import compile_kernel
from robot_dynamics_ros.symbolic.outputs import OUTPUTS
from robot_dynamics_ros.symbolic.straight_line import trace_function

COMPILERS = [
    pytest.param(name, marks=pytest.mark.skipif(shutil.which(name) is None, reason=f'no {name}'))
    for name in ('gcc', 'clang')
]
needs_gcc = COMPILERS[0].marks[0]

CORE = ('inverse_dynamics', 'mass_matrix', 'bias_forces', 'gravity_forces')
ALL = tuple(OUTPUTS)
# What is written of each robot, and the frame. Large derivatives only cost compilers their time.
ROBOTS = {
    'scara': (ALL, 'tool'),
    'parallelogram': ((*CORE, 'derivatives', 'regressor'), 'tool'),
    'panda': ((*CORE, 'frame_motion'), 'panda_rightfinger'),
}
# One in every test run; the others, which are slow to compile, in the long one.
NAMES = [pytest.param(x, marks=[] if x == 'scara' else [pytest.mark.slow]) for x in ROBOTS]


@cache
def robot(name):
    if name == 'parallelogram':
        return load_mechanism(*shipped_mechanism(name))
    if name == 'panda':  # has a follower (mimic joint)
        file = next(file for file in world_files() if file.stem == name)
        return load_robot(str(file.locate()), effort_limit=1.0)
    return sample(name).tree


def functions_of(name):
    """Return outputs, frames and formulation of a robot."""
    outputs, frame = ROBOTS[name]
    return outputs, (frame,), 'kane' if name == 'parallelogram' else 'newton_euler'


@cache
def files(name, outputs=None):
    """Return the files of a robot, with all of its outputs or some, which compile sooner."""
    given, frames, kind = functions_of(name)
    outputs = outputs or given
    return c_source(robot(name), outputs, frames=frames, formulation=kind, name='arm')


@pytest.mark.slow
@pytest.mark.parametrize('compiler', COMPILERS)
@pytest.mark.parametrize('name', NAMES)
def test_strict_compilers_and_sanitizers_are_silent_and_the_self_test_passes(
    name, compiler, tmp_path
):
    write(files(name), tmp_path)
    flags = ['-std=c99', *SANITIZED]
    assert run(compiler, *flags, 'arm.c', 'arm_test.c', '-o', 't', '-lm', cwd=tmp_path) == ''
    said = run('./t', cwd=tmp_path).splitlines()
    functions = robot_functions(robot(name), *functions_of(name))
    assert [line.split()[0] for line in said] == [f.name for f in functions]
    assert all(line.endswith(' ok') for line in said)


@pytest.mark.slow
@needs_gcc
def test_c_equals_the_compiled_kernel(tmp_path, rng):
    """Within 4 units in the last place of the largest term: both round, only one uses FMA."""
    lib, tree = library(files('scara'), tmp_path), robot('scara')
    kernels = compile_kernel(tree, outputs=ALL)
    for function, output in zip(robot_functions(tree, ALL, ('tool',)), ALL, strict=True):
        arguments = function.code.arguments
        # a usual state, denormals, thousands of turns, and not a number, which passes through
        for scale in (1.0, 1e-310, 1e4, math.nan):
            states = scale * rng.uniform(-1, 1, 4), *rng.normal(size=(2, 4))
            inputs = dict(zip(arguments.inputs, states, strict=False))
            expected = [np.full(shape, 9.0) for shape in arguments.results.values()]
            getattr(kernels, output)(*inputs.values(), *expected)
            atol = (
                4 * math.ulp(largest_term(function.code, inputs)) if not math.isnan(scale) else 0.0
            )
            for found, wanted in zip(call(lib, function, inputs.values()), expected, strict=True):
                np.testing.assert_allclose(found, wanted, rtol=0, atol=atol)


@pytest.mark.slow
@needs_gcc
def test_the_object_has_functions_alone_and_needs_libm_alone(tmp_path):
    write(files('scara'), tmp_path)
    run('gcc', '-std=c99', '-O2', '-c', 'arm.c', cwd=tmp_path)
    symbols = [line.split()[-2:] for line in run('nm', 'arm.o', cwd=tmp_path).splitlines()]
    assert {name for kind, name in symbols if kind == 'U'} <= {'sin', 'cos', 'sincos', 'sqrt'}
    # No data: neither D nor B; constants of the code are in r.
    assert {kind for kind, _ in symbols} <= {'T', 'U', 't', 'r'}


@pytest.mark.slow
@needs_gcc
@pytest.mark.parametrize(
    ('before', 'after', 'said'),
    [
        ('0.325', '0.32500000001', 'gravity_forces               0.00e+00 ok'),
        ('tau[2] = ', 'tau[2] = NAN + ', 'inverse_dynamics             inf FAILED'),
    ],
)
def test_a_wrong_number_and_none_fail_the_self_test(before, after, said, tmp_path):
    texts = dict(files('scara', CORE))
    assert before in texts['arm.c']
    texts['arm.c'] = texts['arm.c'].replace(before, after)
    write(texts, tmp_path)
    run('gcc', '-std=c99', 'arm.c', 'arm_test.c', '-o', 't', '-lm', cwd=tmp_path)
    done = subprocess.run(['./t'], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert 'FAILED' in done.stdout
    assert said in done.stdout


@pytest.mark.slow
@needs_gcc
def test_results_that_are_zero_but_for_rounding_pass_the_self_test(tmp_path):
    """The velocity terms of a single joint, and its gravity forces about the vertical."""
    tensor = symmetric(0.02, 0.05, 0.06, 0.003, -0.002, 0.004)
    body, turned = link('l', 2.0, (0.1, -0.2, 0.05), tensor), (0.3, -0.4, 0.9)
    upright = Rotation.from_euler('xyz', turned).as_matrix()[2]
    outputs = ('inverse_dynamics', 'gravity_forces', 'derivatives')
    for axis in ((3, 1, 7), upright):
        one = robot_text('one', link('b'), body, joint('j', 'b', 'l', rpy=turned, axis=axis))
        write(c_source(load_robot(one), outputs, name='arm'), tmp_path)
        run('gcc', '-std=c99', 'arm.c', 'arm_test.c', '-o', 't', '-lm', cwd=tmp_path)
        assert 'FAILED' not in run('./t', cwd=tmp_path)


@pytest.mark.parametrize('compiler', COMPILERS)
def test_cpp_includes_the_header(compiler, tmp_path):
    cpp = {'gcc': 'g++', 'clang': 'clang++'}[compiler]
    if shutil.which(cpp) is None:
        pytest.skip(f'no {cpp}')
    write(files('scara', CORE), tmp_path)
    (tmp_path / 'main.cpp').write_text(
        '#include "arm.h"\n'
        'static_assert(ARM_N == 4 && ARM_MASS_MATRIX_M_SIZE == 16, "sizes");\n'
        'int main() { double q[ARM_N] = {};  // results may share memory with inputs\n'
        '  arm_inverse_dynamics(q, q, q, q); return q[2] < -18.0 ? 0 : 1; }\n'
    )
    run(compiler, '-std=c99', '-c', 'arm.c', cwd=tmp_path)
    assert run(cpp, *WARNINGS, 'main.cpp', 'arm.o', '-o', 'm', '-lm', cwd=tmp_path) == ''
    run('./m', cwd=tmp_path)


@pytest.mark.slow
@needs_gcc
@pytest.mark.skipif(not (shutil.which('make') and shutil.which('cmake')), reason='no make, cmake')
def test_make_builds_the_library_and_cmake_the_target_for_one_of_ones_own(tmp_path):
    folder = tmp_path / 'with a space'
    write(files('scara', CORE), folder)
    assert 'inverse_dynamics' in run('make', 'test', cwd=folder)
    assert (folder / 'libarm.a').exists()
    run('make', 'clean', cwd=folder)
    assert sorted(file.name for file in folder.iterdir()) == sorted(files('scara', CORE))
    folder.rename(tmp_path / 'arm')
    (tmp_path / 'user.c').write_text(
        '#include "arm.h"\nvoid f(double *g);\n'
        'void f(double *g) { double q[ARM_N] = {0}; arm_gravity_forces(q, g); }\n'
    )
    (tmp_path / 'CMakeLists.txt').write_text(
        'cmake_minimum_required(VERSION 3.16)\nproject(user LANGUAGES C)\n'
        'add_subdirectory(arm)\nadd_library(user SHARED user.c)\n'
        'target_link_libraries(user PRIVATE arm)\n'
    )
    run('cmake', '-S', '.', '-B', 'build', cwd=tmp_path)
    run('cmake', '--build', 'build', cwd=tmp_path)
    run('./build/arm/arm_test', cwd=tmp_path)


# ---- selection, and any function ---------------------------------------------------------------


def every_number(x):
    """Return every kind of selection, and every kind of non-finite constant."""
    return [*chosen(x), np.array([math.inf, -math.inf, math.nan])]


@pytest.mark.slow
@needs_gcc
def test_selection_in_c_is_the_interpreted_one_to_the_last_bit(tmp_path):
    code = trace_function('chosen', {'x': 2}, {'y': (3,), 'z': (3,)}, every_number)
    words = {'x': 'two numbers', 'y': 'choices', 'z': 'constants'}
    function = CFunction(code, 'choices', words, every_number, lambda rng: [rng.normal(size=2)])
    lib = library(c_source(robot('scara'), functions=[function], name='arm'), tmp_path)
    for pair in PAIRS:
        expected = every_number(pair.tolist())
        for found, wanted in zip(call(lib, function, [pair]), expected, strict=True):
            same_bits(found, wanted)
    flags = ['-std=c99', *SANITIZED]
    assert run('gcc', *flags, '-c', 'arm.c', cwd=tmp_path) == ''


# ---- rejected inputs, and the command ----------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=30)
@given(st.lists(st.text(max_size=8), max_size=6))
@example(['/ee_link', 'ee_link', 'ee link', '7', 'int', '', 'Gelenk_ä4', '../x'])
@example(['link', 'link_3', 'link.', 'link_3.'])
def test_any_names_have_distinct_identifiers(names):
    chosen = identifiers(names)
    assert chosen.keys() == set(names)
    assert len(set(chosen.values())) == len(chosen)
    for word in chosen.values():
        require_identifier('name', word)


@needs_gcc
def test_names_that_are_no_identifiers_or_end_a_comment_compile_without_a_warning(tmp_path):
    """As ROS 1 named links: with a slash; the robot's name has others."""
    xml = robot('scara').xml.replace('"tool"', '"/a*/b"').replace('"joint1"', '"c/*d*/*/*e"')
    tree = load_robot(xml.replace('name="scara"', 'name="a/ b"'))
    files = c_source(tree, ('gravity_forces',), frames=('/a*/b',))
    assert 'void a_b_a_b_pose(' in files['a_b.h']
    write(files, tmp_path)
    run('gcc', *WARNINGS, '-c', 'a_b.c', cwd=tmp_path)


def test_the_header_says_what_it_is_of():
    header = files('scara')['arm.h']
    for words in ('0  joint1: revolute, rad, N m', '2  joint3: prismatic, m, N',
                  'Gravity 0 0 -9.81', 'Source: course notes "Dynamics" [N], sections 3.1',
                  'rad/s^2 or m/s^2', '/* tau = M(q) a + c(q, v) + g(q)',
                  'robot_dynamics_ros 0.'):  # fmt: skip
        assert words in header
    tree = robot('scara')
    heavier = c_source(tree.with_changes(mass=2 * tree.mass), ('mass_matrix',), name='arm')
    (description, constants), other = (
        [line for line in text.splitlines() if 'sha256' in line]
        for text in (header, heavier['arm.h'])
    )
    assert [other[0] == description, other[1] == constants] == [True, False]


def test_the_command_asks_for_a_folder(capsys):
    """``planning/test_law_functions`` has what it writes there."""
    assert main(['derive', 'scara', '--format', 'c', '--functions', 'gravity_forces']) != 0
    assert 'writes several files; add --output FOLDER' in capsys.readouterr().err
    assert main(['derive', 'scara', '--format', 'c', '--output', 'x', '--ramp', '-1']) == 2
    assert '--ramp: is -1.0; must not be negative' in capsys.readouterr().err
