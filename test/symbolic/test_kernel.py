# SPDX-License-Identifier: Apache-2.0
"""Kernels agree with their formulation, in all their forms."""

import dataclasses
import math
import pickle
import subprocess
import sys
import tracemalloc
from itertools import repeat

import linkages
import numpy as np
import pytest
from checkout import ROOT
from samples import random_state, sample

from robot_dynamics_ros.description.shipped import shipped_mechanism
from robot_dynamics_ros.dynamics.energy import kinetic_energy, potential_energy
from robot_dynamics_ros.dynamics.kane import KaneMechanism
from robot_dynamics_ros.dynamics.newton_euler import NewtonEuler
from robot_dynamics_ros.dynamics.registry import FORMULATIONS, make_formulation
from robot_dynamics_ros.errors import (
    NonFiniteError,
    ParameterError,
    SingularityError,
)
from robot_dynamics_ros.estimation.regressor import inertial_parameters
from robot_dynamics_ros.model import load_mechanism
from robot_dynamics_ros.model.kinematics import frame_motion
from robot_dynamics_ros.spatial.scalar import sqrt
from robot_dynamics_ros.symbolic.kernel import (
    PythonBackend,
    compile_kernel,
    generated_source,
)
from robot_dynamics_ros.symbolic.outputs import OUTPUTS, KernelSpec
from robot_dynamics_ros.symbolic.straight_line import functions, module_source, trace_function

TREE = sample('rrpr').tree
TRACED = [name for name, kind in FORMULATIONS.items() if not kind.numbers_only]

# Reordered and contracted sums differ by rounding: 1e-12 of the largest entry is some thousand
# units in the last place; forward dynamics divides by a mass matrix of condition up to 1e3.
TOLERANCE = 1e-12
ILL_CONDITIONED = 1e-9


def close(found, expected, tolerance=TOLERANCE):
    size = max(1.0, np.max(np.abs(expected), initial=0.0))
    assert found.shape == np.shape(expected)
    assert np.max(np.abs(found - expected), initial=0.0) <= tolerance * size


def call(kernels, name, n, *inputs):
    """Return the results of a kernel for one state, in new arrays."""
    shapes = OUTPUTS[name].arguments(name, n, n).results
    results = [np.full(shape, np.nan) for shape in shapes.values()]
    getattr(kernels, name)(*inputs, *results)
    return results


def interpreted(name, model, frame, q, v, x):
    """Return the results of an output by the methods of a formulation, of a mechanism also."""
    tree, state = model.tree, model.robot.tree_state(q, v, 0.0 * v)
    R, p, J, bias = frame_motion(tree, state.q, state.v, frame)
    energy = kinetic_energy(tree, state.q, state.v), potential_energy(tree, state.q)
    special = {
        'energies': lambda: [np.array(energy)],
        'frame_motion': lambda: [R, p, J @ state.A, bias + J @ state.gamma],
        'frame_pose': lambda: [R, p],
        'frame_jacobian': lambda: [J @ state.A],
        'derivatives': lambda: list(model.derivatives(q, v, x)),
        'regressor': lambda: [NewtonEuler(tree).regressor(q, v, x)],
    }
    plain = (q, v, x)[: len(OUTPUTS[name].inputs)]
    return special[name]() if name in special else [getattr(model, name)(*plain)]


def compare(kernels, name, model, frame, q, v, x):
    """Compare a kernel with the formulation at a state; x are accelerations or efforts."""
    found = call(kernels, name, len(q), *(q, v, x)[: len(OUTPUTS[name].inputs)])
    tolerance = ILL_CONDITIONED if name == 'forward_dynamics' else TOLERANCE
    for one, other in zip(found, interpreted(name, model, frame, q, v, x), strict=True):
        close(one, other, tolerance)


@pytest.fixture(scope='module')
def kernels():
    """Return the kernels of the arm with all outputs, created once."""
    return compile_kernel(TREE, outputs=tuple(OUTPUTS))


def every_form(kernels, name, inputs, rows):
    """Yield the results of states (N, n) at some rows, in each way to compute them."""
    subject = KernelSpec(TREE, 'newton_euler', 'tool')
    python = PythonBackend(generated_source(subject, tuple(OUTPUTS)))
    arguments, batch = subject.arguments(name), kernels.batch(name, *inputs)
    for found in (batch if isinstance(batch, tuple) else [batch], python.batch(arguments, inputs)):
        assert {len(x) for x in found} == {len(inputs[0])}
        yield [x[rows] for x in found]
    for kernel in (getattr(kernels, name), python.kernel(arguments)):
        results = [np.full((len(rows), *x), np.nan) for x in arguments.results.values()]
        for row in zip(*(x[rows] for x in inputs), *results, strict=True):
            kernel(*row)
        yield results
    assert functions(python._source, np) is functions(python._source, np), 'compiled once'


@pytest.mark.parametrize('name', OUTPUTS)
@pytest.mark.parametrize('count', [1, 9, 5000])
def test_every_form_of_a_kernel_equals_its_formulation(kernels, name, count, rng):
    """Also in the rest of a batch that is no multiple of the lanes, and at the end of a part."""
    assert kernels.kind == 'machine code'
    rows = sorted({0, 2047 % count, count - 1, count - count % 8 - 1} - {-1})
    states = np.stack([random_state(TREE, rng) for _ in range(count)], axis=1)
    tolerance = ILL_CONDITIONED if name == 'forward_dynamics' else TOLERANCE
    expected = [interpreted(name, NewtonEuler(TREE), 'tool', *states[:, k]) for k in rows]
    for form in every_form(kernels, name, [*states[: len(OUTPUTS[name].inputs)]], rows):
        for k, wanted in enumerate(expected):
            for one, other in zip(form, wanted, strict=True):
                close(one[k], other, tolerance)


@pytest.mark.slow
@pytest.mark.parametrize('formulation', sorted(set(TRACED) - {'newton_euler'}))
def test_other_formulations_compile_as_they_are(formulation, rng):
    outputs, model = ('inverse_dynamics', 'mass_matrix'), make_formulation(formulation, TREE)
    kernels = compile_kernel(TREE, formulation, outputs)
    for name in outputs:
        compare(kernels, name, model, 'tool', *random_state(TREE, rng))


def test_batch_takes_no_states_slices_and_whole_numbers_and_passes_not_a_number_on(kernels):
    empty = np.zeros((0, 4))
    assert kernels.batch('inverse_dynamics', empty, empty, empty).shape == (0, 4)
    whole, q = np.arange(80).reshape(20, 4)[::2], np.zeros((16, 4))
    expected = kernels.batch('mass_matrix', np.array(whole, dtype=float))
    assert np.array_equal(kernels.batch('mass_matrix', whole), expected)
    q[[3, 9], 1] = np.nan, np.inf
    M = kernels.batch('mass_matrix', q)
    assert [*np.flatnonzero(np.isnan(M[:, 0, 0]))] == [3, 9]


def test_every_form_passes_on_what_is_not_finite(kernels):
    """``math`` raises errors where machine code computes NaN; inputs may be results."""
    inputs = np.zeros((3, 1, 4))
    inputs[0, 0, 1] = np.inf
    for [[tau]] in every_form(kernels, 'inverse_dynamics', [*inputs], [0]):
        assert np.isnan(tau).all()
    code = trace_function('pole', {'x': 2}, None, lambda x: (1 / x[:1], sqrt(x[0] - x[1])))
    pole = PythonBackend(module_source([code], '')).kernel(code.arguments)
    x, root = np.array([0.0, 1.0]), np.zeros(())
    pole(x, x[:1], root)
    assert x[0] == np.inf
    assert np.isnan(root)


def allocated(kernel, *arrays):
    """Return the peak memory of 1000 calls, bytes, and the number of blocks not released."""
    for _ in repeat(None, 10):
        kernel(*arrays)
    blocks = sys.getallocatedblocks()
    for _ in repeat(None, 1000):
        kernel(*arrays)
    blocks = sys.getallocatedblocks() - blocks
    tracemalloc.start()
    try:
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        for _ in repeat(None, 1000):
            kernel(*arrays)
        return tracemalloc.get_traced_memory()[1] - held, blocks
    finally:
        tracemalloc.stop()


def test_a_call_allocates_nothing(kernels, rng):
    arrays = [*rng.normal(size=(3, 4)), np.zeros(4)]
    held, blocks = allocated(kernels.inverse_dynamics, *arrays)
    # The iterator of the loop itself takes one small block.
    assert held <= 64
    assert blocks <= 1
    reference = compile_kernel(TREE, 'pinocchio').inverse_dynamics
    assert allocated(reference, *arrays)[0] > 64, 'the measure sees no allocation'


def test_inputs_stay_as_they_are_but_may_share_memory_with_results(kernels, rng):
    given = rng.normal(size=(3, 4))
    q, v, a = given.copy()
    expected = call(kernels, 'inverse_dynamics', 4, q, v, a)[0]
    assert np.array_equal((q, v, a), given)
    kernels.inverse_dynamics(q, v, a, a)
    assert np.array_equal(a, expected)


def test_unambiguous_arguments_are_converted(kernels):
    """Lists, slices, whole numbers, other floats; results may be slices, inputs read-only.

    The type of numbers of an array that was pickled is an equal object, not the same.
    """
    given, kernel = np.arange(12.0).reshape(3, 4), kernels.inverse_dynamics
    [expected] = call(kernels, 'inverse_dynamics', 4, *given)
    wide, single = np.zeros((4, 3)), np.zeros(4, dtype=np.float32)
    wide[:, 1] = given[1]
    frozen = given[0].copy()
    frozen.setflags(write=False)
    kernel(frozen, wide[:, 1], np.arange(8, 12), wide[:, 2])
    assert np.array_equal(wide[:, 2], expected)
    assert not wide[:, 0].any()
    kernel(given[0].tolist(), *given[1:].astype('>f8'), single)
    assert single == pytest.approx(expected, rel=1e-6)  # single precision
    sent, received = pickle.loads(pickle.dumps((given, np.zeros(4))))
    kernel(*sent, received)
    assert np.array_equal(received, expected)


def test_a_name_is_text_in_generated_python():
    """The file of a robot must not run what its names say."""
    named = dataclasses.replace(TREE, name='""";planted = 1;"""\\')
    source = generated_source(KernelSpec(named, 'newton_euler', 'tool'), ('gravity_forces',))
    assert 'planted' not in functions(source, math)


@pytest.mark.parametrize('scalars', [math, np])
def test_generated_python_knows_the_constants_that_python_prints(scalars):
    code = functions(f'def f(): return {math.inf!r}, {math.nan!r}', scalars)
    largest, none = code['f']()
    assert largest == math.inf
    assert math.isnan(none)


def test_outputs_may_come_one_by_one():
    assert compile_kernel(TREE, outputs=iter(('mass_matrix',))).mass_matrix


def test_pinocchio_is_called_as_it_is(rng):
    kernels = compile_kernel(TREE, 'pinocchio', ('inverse_dynamics',))
    assert kernels.kind == 'formulation'
    states = rng.normal(size=(3, 6, 4))
    batch = kernels.batch('inverse_dynamics', *states)
    assert np.array_equal(batch[2], call(kernels, 'inverse_dynamics', 4, *states[:, 2])[0])


def driven_at_the_elbow():
    """Return the parallelogram with a drive of a dependent joint: efforts are not forces of u."""
    mechanism = load_mechanism(*shipped_mechanism('parallelogram'))
    crank, elbow = map(mechanism.tree.joint_index, ('crank_joint', 'upper_arm_joint'))
    actuators = {name: rates.copy() for name, rates in mechanism.actuators.items()}
    for rates in actuators.values():
        rates[elbow] += rates[crank]
        rates[crank] = 0.0
    return dataclasses.replace(mechanism, actuators=actuators)


SLIDER, FORMULA = linkages.linkage('slider_crank'), linkages.slider_crank_form(0.2, 0.6)
CORE = ('inverse_dynamics', 'forward_dynamics', 'derivatives', 'frame_motion')
LOOPS = {
    'parallelogram': (*shipped_mechanism('parallelogram'), sorted(OUTPUTS.keys() - {'regressor'})),
    'a mimic joint': (*linkages.linkage('geared_five_bar'), CORE[:1]),
    'a formula, of any formulation': (*SLIDER, CORE),
    'driven at the elbow': (*shipped_mechanism('parallelogram'), CORE),
}


@pytest.mark.slow
@pytest.mark.parametrize('name', LOOPS)
def test_kernels_of_a_mechanism_equal_the_interpreted_recursion(name, rng):
    """The oracle is Kane's recursion with the loops solved by Newton's method."""
    *files, outputs = LOOPS[name]
    mechanism, formulation = load_mechanism(*files), 'kane'
    if name == 'driven at the elbow':
        mechanism = driven_at_the_elbow()
    model, frame = KaneMechanism(mechanism), mechanism.link_names[-1]
    if name.startswith('a formula'):
        mechanism, formulation = load_mechanism(*files, closed_form=FORMULA), 'newton_euler'
    kernels = compile_kernel(mechanism, formulation, tuple(outputs), frame)
    for _ in range(3):
        motion = rng.uniform(*mechanism.sampled_range), *rng.normal(size=(2, mechanism.n))
        (Y,) = OUTPUTS['regressor'].compute(KernelSpec(mechanism, formulation, frame), *motion)
        close(Y @ inertial_parameters(mechanism.tree), model.inverse_dynamics(*motion))
        for output in outputs:
            compare(kernels, output, model, frame, *motion)


def test_the_kernels_of_a_flat_parallelogram_raise_what_the_recursion_raises():
    mechanism = load_mechanism(*shipped_mechanism('parallelogram'))
    kernels = compile_kernel(mechanism, 'kane', ('gravity_forces', 'mass_matrix'))
    u, g = np.array([math.pi / 2 - 0.2, -0.2]), np.zeros(2)
    with pytest.raises(SingularityError, match="Phi_phi of loop 'pin'"):
        kernels.gravity_forces(u, g)
    with pytest.raises(SingularityError, match="Phi_phi of loop 'pin'"):
        kernels.batch('mass_matrix', np.array([[0.3, -0.2], u]))
    kernels.gravity_forces(u - [0.5, 0.0], g)
    assert np.abs(g).max() > 0.0


def test_kernels_refuse_what_the_loops_of_a_mechanism_refuse():
    mechanism, M = load_mechanism(*linkages.short_rod()), np.zeros((1, 1))
    kernel = compile_kernel(mechanism, outputs=('mass_matrix',)).mass_matrix
    with pytest.raises(NonFiniteError):
        kernel(np.array([np.nan]), M)
    with pytest.raises(ParameterError, match='u .*must hold real numbers'):
        kernel(['0.1'], M)


def test_machine_code_that_rejects_plain_arrays_says_so_once(monkeypatch):
    """The code then compares the dtype with that of another type, as a foreign numpy would."""
    from robot_dynamics_ros.symbolic import kernel, machine_code

    monkeypatch.setattr(kernel, '_machine_code', machine_code.MachineCode)  # loaded anew
    symbols = machine_code._external_symbols() | {'numpy_float64': id(np.dtype(np.float32))}
    monkeypatch.setattr(machine_code, '_external_symbols', lambda: symbols)
    g = compile_kernel(sample('planar_2r').tree, outputs=('gravity_forces',)).gravity_forces
    for q in (np.zeros(2), [0.0, 0.0]):
        with pytest.raises(RuntimeError, match='gravity_forces: its machine code rejects'):
            g(q, np.zeros(2))


WITHOUT_COMPILER = """
import sys
sys.modules['llvmlite'] = None
import numpy as np
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.dynamics.registry import make_formulation
from robot_dynamics_ros.errors import ShapeError
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.symbolic.kernel import compile_kernel
tree = load_robot(shipped_robot('scara'))
kernels = [compile_kernel(tree) for _ in range(3)][0]
q, v, a = np.random.default_rng(0).normal(size=(3, 4))
tau = np.zeros(4)
kernels.inverse_dynamics(q, v, a, tau)
expected = make_formulation('newton_euler', tree).inverse_dynamics(q, v, a)
assert np.max(np.abs(tau - expected)) < 1e-13, (tau, expected)
assert np.allclose(kernels.batch('inverse_dynamics', q[None], v[None], a[None])[0], tau)
try:
    kernels.gravity_forces(np.zeros(3), tau)
except ShapeError:
    print(kernels.kind)
"""


def test_without_llvmlite_the_generated_python_runs_and_says_so_once():
    command = [sys.executable, '-c', WITHOUT_COMPILER]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == 'python\n'
    (line,) = done.stderr.splitlines()
    assert 'about 70 times slower per call' in line
    assert 'llvmlite' in line


def test_an_llvmlite_that_does_not_load_is_none(monkeypatch):
    def broken():
        raise OSError("Could not find/load shared object file 'libllvmlite.so'")

    monkeypatch.setattr('robot_dynamics_ros.symbolic.machine_code.machine', broken)
    assert compile_kernel(TREE).kind == 'python'
