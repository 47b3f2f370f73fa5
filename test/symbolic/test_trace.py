# SPDX-License-Identifier: Apache-2.0
"""Traced arithmetic: folding, sharing, and unchanged values."""

import math

import numpy as np
import pytest
import tables
from generated_c import values
from hypothesis import given
from hypothesis import strategies as st
from oracles import complex_step
from special_floats import PAIRS, chosen, same_bits

from robot_dynamics_ros.spatial import scalar
from robot_dynamics_ros.spatial.scalar import cos, select, sin, sqrt, tanh
from robot_dynamics_ros.symbolic.kernel import compile_function
from robot_dynamics_ros.symbolic.llvm_functions import compile_codes
from robot_dynamics_ros.symbolic.machine_code import MachineCode
from robot_dynamics_ros.symbolic.straight_line import (
    functions,
    jacobian,
    python_source,
    trace_function,
)
from robot_dynamics_ros.symbolic.trace import Trace, Traced, reachable


def value(x, inputs):
    """Evaluate a traced scalar by walking its operands, for inputs given by name."""
    return values(reachable([x]), inputs)[x] if isinstance(x, Traced) else x


def work(*results):
    """Return the operations that results need, in order."""
    found = [scalar.operation for scalar in reachable(results)]
    return [name for name in found if name not in ('input', 'constant')]


@pytest.fixture
def xy():
    return Trace().inputs('x', 2)


EQUAL = """
x * 0 = 0
x * 1 = x
0.0 + x = x
x - 0 = x
0 / x = 0
x / 1 = x
x - x = 0
x / x = 1
(x + y) - x = y
x - (x - y) = y
(x - y) + y = x
1 + (-1) * (1 - cos(x)) = cos(x)
1 - (1 - cos(x)) = cos(x)
2 * (0.5 * x) = x
2 * x - 2 * x = 0
3 * x - 2 * x = x
(-x) * y = -(x * y)
(x - y) * y = -((y - x) * y)
-(-x) = x
x - (-y) = x + y
cos(-x) = cos(x)
sin(-x) = -sin(x)
tanh(-x) = -tanh(x)
x * y = y * x
x + y = y + x
x**2 = x * x
x**0 = 1
x**-1 = 1 / x
x**0.5 = sqrt(x)
select(1.0, 2.0, x, y) = x
select(2.0, 2.0, x, y) = y
"""


@pytest.mark.parametrize('row', EQUAL.strip().splitlines())
def test_equal_values_are_one_scalar(row, xy):
    """The entries of a rotation about a coordinate axis are made of 1 - cos."""
    found, same = (
        eval(side, vars(scalar) | {'x': xy[0], 'y': xy[1]}) for side in row.split(' = ')
    )
    assert found is same if isinstance(same, Traced) else found == same, work(found)


@tables.rows('formula needed', """
(x - y) - x, neg
2 * (3 * x), mul
1 + (2 + x), add
3 - (2 - x), add
x / 4, mul
2 * x + 3 * x, mul
cos(x * y) + cos(y * x), mul cos mul
'minimum(x, y)', select
'maximum(x, 3.0)', select
""")  # fmt: skip
def test_numbers_are_merged_and_what_is_computed_twice_is_stored_once(formula, needed, xy):
    assert work(eval(formula, vars(scalar) | {'x': xy[0], 'y': xy[1]})) == needed.split()


def test_gathered_factors_meet_in_one_number():
    x, y = Trace(gather_factors=True).inputs('x', 2)
    assert work((2 * x) * (3 * y)) == ['mul', 'mul']
    assert (2 * x) * (3 * y) is 6 * (x * y)


def test_numpy_holds_scalars_without_looking_into_them(xy):
    a = np.array([1.0, 2.0])
    for product in (xy[0] * a, a * xy[0], np.eye(2) @ xy):
        assert product.dtype == object
        assert isinstance(product[1], Traced)
    assert isinstance(np.float64(2.0) * xy[0], Traced)


def test_a_traced_scalar_does_not_pass_for_a_number(xy):
    with pytest.raises(TypeError, match="not 'Traced'"):
        float(xy[0])
    with pytest.raises(TypeError, match='no power'):
        xy[0] ** 1.5
    with pytest.raises(TypeError, match="not 'Traced'"):
        np.zeros(2)[0:1] = xy[:1]


# Any expression: folding must not change its value.
EXPRESSIONS = st.recursive(
    st.sampled_from(['x0', 'x1', 0, 1, -1, 2, 0.5, -3.0]),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from('+-*/'), inner, inner),
        st.tuples(st.sampled_from(['neg', 'cos', 'sin', 'tanh', 'square', 'root']), inner),
        st.tuples(st.just('select'), inner, inner, inner, inner),
    ),
    max_leaves=25,
)


def choose(a, b, x, y):
    """Return x or y by the real parts of a and b: the complex step takes a branch as well."""
    if isinstance(a, complex) or isinstance(b, complex):
        return select(complex(a).real, complex(b).real, x, y)
    return select(a, b, x, y)


def evaluate(expression, leaves):
    """Evaluate a nested tuple over scalars of any kind; a divisor is kept away from zero."""
    if not isinstance(expression, tuple):
        return leaves.get(expression, expression)
    operator, *operands = expression
    a, *b = (evaluate(operand, leaves) for operand in operands)
    return {
        '+': lambda: a + b[0],
        '-': lambda: a - b[0],
        '*': lambda: a * b[0],
        '/': lambda: a / (b[0] * b[0] + 1),
        'neg': lambda: -a,
        'cos': lambda: cos(a),
        'sin': lambda: sin(a),
        'tanh': lambda: tanh(a),
        'square': lambda: a * a,
        'root': lambda: sqrt(a * a + 1),
        'select': lambda: choose(a, *b),
    }[operator]()


@pytest.mark.slow
@given(EXPRESSIONS, st.booleans())
def test_folding_does_not_change_a_value(expression, gather):
    x = np.array([0.7312, -1.234])
    traced = Trace(gather).inputs('x', 2)
    expected = evaluate(expression, {'x0': float(x[0]), 'x1': float(x[1])})
    found = value(evaluate(expression, {'x0': traced[0], 'x1': traced[1]}), {'x': x})
    if math.isfinite(expected) and abs(expected) < 1e12:
        # Reordered sums and products: rounding of intermediate values, which powers of 3 up to
        # the twelfth may make as large as 1e6 times the result.
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.slow
@given(EXPRESSIONS)
def test_jacobian_is_the_derivative(expression):
    """The chain rule of every operation, against the complex step."""
    x = np.array([0.7312, -1.234])
    traced = Trace().inputs('x', 2)
    result = evaluate(expression, {'x0': traced[0], 'x1': traced[1]})
    J = jacobian(np.array([result], dtype=object), traced)
    found = np.array([value(entry, {'x': x}) for entry in J[0]])

    def f(z):
        leaves = {'x0': complex(z[0]), 'x1': complex(z[1])}
        return np.array([evaluate(expression, leaves)])

    expected = complex_step(f, x)[0]
    if np.all(np.isfinite(expected)) and np.max(np.abs(expected)) < 1e12:
        # As above.
        assert found == pytest.approx(expected, rel=1e-8, abs=1e-8)


def test_a_branch_on_a_traced_scalar_is_refused(xy):
    x, y = xy
    for decide in (lambda: bool(x), lambda: x < y, lambda: x > 0.0, lambda: max(x, y)):
        with pytest.raises(TypeError, match='use select, minimum or maximum'):
            decide()


def test_no_order_of_a_number_and_none_selects_anything(xy):
    assert math.isnan(select(math.nan, 2.0, *xy))


def of_machine_code(code, out):
    run = compile_function(chosen, 2)
    assert run is compile_function(chosen, 2) is not compile_function(chosen, 2, fused=False)
    assert 'built-in' in str(run)
    for pair, row in zip(PAIRS, out, strict=True):
        run(pair, row)


def of_python(code, out):
    for pair, row in zip(PAIRS.tolist(), out, strict=True):
        functions(python_source(code), math)['chosen'](pair, row)


def of_rows(code, out):
    functions(python_source(code), np)['chosen'](PAIRS.T, out.T)


def of_a_batch(code, out):
    rows = np.concatenate([PAIRS, PAIRS[:4]])  # a multiple of the lanes
    (found,) = MachineCode(compile_codes([code])).batch(code.arguments, [rows])
    out[:] = found[: len(PAIRS)]


@pytest.mark.parametrize('compute', [of_machine_code, of_python, of_rows, of_a_batch])
def test_selection_is_the_same_to_the_last_bit_interpreted_and_compiled(compute):
    expected = np.array([chosen(pair)[0] for pair in PAIRS.tolist()])
    found = np.empty_like(expected)
    compute(trace_function('chosen', {'x': 2}, {'z': (3,)}, chosen), found)
    same_bits(found, expected)


FORMULAS = """
x[1] - x[0] * 2.0
x[0] + x[1] * 2.0
x[0] - x[1] * 2.0000000000000004
x[0] - x[1] / 2.0
x[1] * 2.0
0.0
-0.0
1.0
nan
inf
"""


def test_the_listing_tells_functions_apart_whatever_little_differs():
    def listing(formula='x[0] - x[1] * 2.0', *, fused=True, size=2, name='f'):
        def compute(x):
            return [[eval(formula, vars(math), {'x': x})]]

        return trace_function(name, {'x': size}, {'y': (1,)}, compute, fused=fused).listing()

    others = {*map(listing, FORMULAS.strip().splitlines()), listing(fused=False)}
    others |= {listing(size=3), listing(name='g')}
    assert len(others - {listing()}) == 13
