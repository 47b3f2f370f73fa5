# SPDX-License-Identifier: Apache-2.0
"""Derived equations equal the published ones, symbol by symbol; the algebra that shortens them.

What the package derives and the published formulas are compared after both are written in complex
exponentials and expanded.
"""

import math
import operator
import re
from functools import cache
from types import SimpleNamespace

import closed_forms
import numpy as np
import pytest
import sympy as sp
import tables
from four_bar_oracle import published_contributions
from hypothesis import given
from hypothesis import strategies as st
from oracles import PinocchioOracle
from samples import DOWN_Y, Sample, sample
from urdf_text import joint, link, robot, symmetric

from robot_dynamics_ros.__main__ import main
from robot_dynamics_ros.description.shipped import shipped_mechanism
from robot_dynamics_ros.model import load_mechanism, load_robot
from robot_dynamics_ros.spatial.scalar import cos, sin
from robot_dynamics_ros.symbolic import closed_form
from robot_dynamics_ros.symbolic.closed_form import derive
from robot_dynamics_ros.symbolic.equations import write_latex, write_python, write_text
from robot_dynamics_ros.symbolic.trace import Trace, Traced

q1, q3, v1, v3, g = sp.symbols('q1 q3 v1 v3 g')
m1, m2, m3, m4 = sp.symbols('m1 m2 m3 m4')
c, s = sp.cos, sp.sin


def same(found, expected) -> bool:
    """Return whether expressions are identically equal: no term is left in exponentials."""
    difference = sp.Matrix(found) - sp.Matrix(expected)
    return all(sp.expand(entry.rewrite(sp.exp), power_exp=True) == 0 for entry in difference)


def tilted(rpy) -> Sample:
    """Return a two-joint arm whose second joint frame is turned by fixed angles."""
    text = robot(
        'tilted',
        link('base'),
        link('l1', 3.0, (0.1, -0.04, 0.06), symmetric(0.05, 0.04, 0.03, 0.006, -0.009, 0.007)),
        link('l2', 2.0, (0.12, 0.05, -0.03), symmetric(0.02, 0.05, 0.06, -0.005, 0.008, 0.004)),
        joint('j1', 'base', 'l1', xyz=(0.0, 0.0, 0.3)),
        joint('j2', 'l1', 'l2', xyz=(0.2, 0.05, 0.1), rpy=rpy, axis=(0, 0.6, 0.8)),
    )
    return Sample('tilted', text, DOWN_Y)


SAMPLES = {
    'scara': lambda: sample('scara'),
    'rp': lambda: sample('rp'),
    'prr': lambda: sample('prr'),
    'planar_2r': lambda: sample('planar_2r'),
    'one fixed angle': lambda: tilted((0.7, 0, 0)),
    'three fixed angles': lambda: tilted((0.7, -0.4, 1.1)),
}


@cache
def derived(name):
    """Return the closed form of a robot of ``SAMPLES``, made once."""
    return derive(SAMPLES[name]().tree)


def published(name, **changes):
    """Return M, C and G of the texts in the symbols of the package.

    xi is the length to joint i along its parent, xCi, yCi the centre of mass.
    """
    words = {
        # Centre of mass 1 is at y = -l1 in its frame; the second moment is about z0 (N15).
        'rp': 'm1 l1=-yC1 Izz1 m2 Izz2=Iyy2',
        'prr': 'm1 m2 l2=xC2 Izz2 a2=x3 m3 l3=xC3 Izz3',
        'planar_2r': 'L1=x2 m1 x1=xC1 y1=yC1 Izz1 m2 x2=xC2 y2=yC2 Izz2',
        # I1 is about joint axis 1 (erratum S4).
        'scara': 'L1=x2 L2=x3 LC2=xC2 LC3=0 LC4=xC4 I1=Izz1+m1*xC1**2 Izz2 Izz3 Izz4 m2 m3 m4',
    }[name].split()
    given = {word.split('=')[0]: sp.sympify(word.split('=')[-1]) for word in words} | changes
    n = sample(name).tree.n
    q, v = (sp.symbols(f'{letter}1:{n + 1}') for letter in 'qv')
    return getattr(closed_forms, name)(**given, g=g, q=q, v=v), v


def assert_published(form, name, **changes):
    (M, C, G), v = published(name, **changes)
    assert same(form.M, M)
    assert same(form.C, C)
    assert same(form.Cv, C @ v)
    assert same(form.G, G)


@pytest.mark.slow
@pytest.mark.parametrize('name', ['rp', 'prr', 'planar_2r', 'scara'])
def test_published_arms_have_the_published_equations(name):
    """[N] 5.1, 5.2, and 5.3 with centres of mass off the link lines; section 5 of the SCARA's."""
    assert_published(derived(name), name)


def test_parallelogram_equals_sections_3_3_and_3_4_of_the_paper():
    """[MXL], the sum over its links, which is section 3.5, with erratum K3.

    C is that of the Christoffel symbols; where m2 l1 d2 = m2' l1' d2', M is diagonal and constant.
    Joints 1 to 4 are theta1, theta2, theta1', theta2', coordinates q1 and q3.
    """
    form = derive(load_mechanism(*shipped_mechanism('parallelogram')), 'kane')
    assert form.coordinates == (('q1', 'lower_arm_joint'), ('q3', 'crank_joint'))
    alone = derive(load_mechanism(*shipped_mechanism('parallelogram')), 'kane', None, ['G'])
    assert (alone.G, len(alone.M), len(alone.Cv)) == (form.G, 0, 0)
    theirs = 'd1 d2 d1p d2p l1 l1p I1z I2z I1pz I2pz m1 m2 m1p m2p g'
    ours = sp.symbols('xC1 xC2 xC3 xC4 x2 x4 Izz1 Izz2 Izz3 Izz4 m1 m2 m3 m4 g')
    letters = SimpleNamespace(**dict(zip(theirs.split(), ours, strict=True)))
    u, v, a = (q1, q3), (v1, v3), sp.symbols('a1 a3')
    rows = published_contributions(letters, u, v, a, sp.sin, sp.cos)
    expected = sum(map(sp.Matrix, rows), sp.zeros(2, 1))
    M, C, Cv, G = (sp.Matrix(x) for x in (form.M, form.C, form.Cv, form.G))
    assert same(M @ sp.Matrix(a) + Cv + G, expected)
    at = letters
    unbalanced = at.m2 * at.l1 * at.d2 - at.m2p * at.l1p * at.d2p
    assert same(C, unbalanced * sp.cos(q1 - q3) * sp.Matrix([[0, -v3], [v1, 0]]))
    assert same(C @ sp.Matrix(v), Cv)
    assert same(G, expected.subs(dict.fromkeys((*v, *a), 0)))
    balanced = M.subs(at.d2p, at.m2 * at.l1 * at.d2 / (at.m2p * at.l1p))
    assert balanced.is_diagonal()
    assert not balanced.has(q1, q3)


def test_names_are_text_in_all_that_is_written():
    names = {'name': '""";planted = 1;"""\\', 'joint_names': ('a\nplanted = 1', 'b\\')}
    form, code = derive(sample('rp').tree.with_changes(**names)), {}
    exec(write_python(form), code)
    assert 'planted' not in code
    assert f'of {names["name"]}, derived' in code['__doc__']
    for text in (write_text(form), write_latex(form)):
        assert '\nplanted' not in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ('name', 'named', 'tolerance'),
    # Fixed angles that stay numbers, where there are many, have 12 decimals.
    [('one fixed angle', ['roll2'], 1e-13), ('three fixed angles', [], 1e-10)],
)
def test_derived_python_code_agrees_with_pinocchio(name, named, tolerance, rng):
    form, code, oracle = derived(name), {}, PinocchioOracle.of(SAMPLES[name]())
    assert [p.name for p in form.parameters if re.match('roll|pitch|yaw', p.name)] == named
    exec(write_python(form), code)
    q, v = rng.uniform(-1, 1, 2), rng.normal(size=2)
    M, G = oracle.mass_matrix(q), oracle.gravity_forces(q)
    Cv = oracle.inverse_dynamics(q, v, 0 * q) - G
    # Rounding of some hundred terms.
    tolerance *= max(1, np.abs(M).max() * 40)
    for found, expected in (
        (code['mass_matrix'](q), M),
        (code['gravity_forces'](q), G),
        (code['velocity_forces'](q, v), Cv),
        (code['coriolis_matrix'](q, v) @ v, Cv),
    ):
        assert found == pytest.approx(expected, abs=tolerance)


def test_gravity_out_of_the_axes_has_a_name_for_each_component_that_matters():
    """RP arm: link 2 slides along (cos q1, sin q1, 0), so gz has none."""
    form = derive(load_robot(sample('rp').xml, gravity=(1.0, -2.0, -9.0)))
    gx, gy = sp.symbols('gx gy')
    values = {p.name: p.value for p in form.parameters if p.name[0] == 'g'}
    assert values == {'gx': 1.0, 'gy': -2.0}
    assert same([form.G[1]], [-m2 * (gx * c(q1) + gy * s(q1))])


def test_text_has_short_names_and_values():
    text = write_text(derived('scara'))
    assert '    c2m4 = cos(q2 - q4)\n' in text
    assert '    M14 = M41 = -Izz4 - c2m4*m4*x2*xC4 - c4*m4*x3*xC4 - m4*xC4**2\n' in text
    assert '    G3 = -g*(m3 + m4)\n    G1 = G2 = G4 = 0\n' in text
    assert 'xC4  = 0.021 ' in text


def test_latex_is_written_in_the_symbols_of_the_papers():
    text = write_latex(derived('scara'), ['M', 'Cv', 'G'])
    assert r'M_{14} = M_{41} &= - I_{zz4} - c_{2-4} m_{4} x_{2} x_{C4}' in text
    assert '% c_{2-4}: cos(q2 - q4)\n' in text
    assert r'(C\dot{q})_{4} &= ' in text
    assert r'\dot{q}_{1}^{2}' in text
    assert text.count(r'\begin{aligned}') == text.count(r'\end{aligned}') == 3
    assert text.count('{') == text.count('}')
    assert 'Christoffel' not in text


@pytest.mark.slow
def test_the_command_prints_and_writes(tmp_path, capsys):
    newer, file, code = tmp_path / 'newer.urdf', tmp_path / 'scara.py', {}
    newer.write_text(sample('scara').tree.xml.replace('<robot ', '<robot version="1.9" ', 1))
    assert main(['derive', str(newer), '--show', 'G', '--gravity', '0', '0', '9.81']) == 0
    printed = capsys.readouterr()
    assert 'G3 = g*(m3 + m4)' in printed.out
    assert printed.err.startswith('remark: ')
    assert 'remark' not in printed.out  # not among the equations
    assert main(['derive', 'scara', '--format', 'python', '--output', str(file)]) == 0
    exec(file.read_text(), code)
    assert code['gravity_forces'](np.zeros(4))[2] == pytest.approx(-(1.15 + 0.72) * 9.81)


# ---- the algebra of waves -----------------------------------------------------------------------

ALGEBRA, TRACE = closed_form.Algebra(['a', 'b', 'd'], ['x', 'y']), Trace()
A, B, D, X, Y = (TRACE.symbol(name) for name in 'abdxy')
VALUES = {'a': 0.7, 'b': -1.9, 'd': 2.3, 'x': 1.25, 'y': -0.5}
QUARTER = math.pi / 2


def polynomial(scalar):
    return ALGEBRA.polynomials([scalar]).get(scalar, scalar)


def waves(scalar):
    """Return the numbers that are not zero, by monomial and wave."""
    found = ALGEBRA.waves(polynomial(scalar)) if isinstance(scalar, Traced) else {}
    numbers = {(power, wave): x for power, group in found.items() for wave, x in group.items()}
    return {place: x for place, x in numbers.items() if x}


def expression(scalar):
    return closed_form.expression(ALGEBRA, polynomial(scalar))


def number(scalar) -> float:
    """Return the value of the short expression of a scalar."""
    return float(sp.sympify(expression(scalar)).subs(VALUES))


def leaves(a, b, d, x, y):
    """Return what random expressions are made of, as scalars or numbers."""
    angles = {'cos a': cos(a), 'sin b': sin(b), 'cos d': cos(d), 'sin(a+b)': sin(a + b)}
    return angles | {'x': x, 'y': y, '2': 2, '1/2': 0.5}


OPERATIONS = {'+': operator.add, '-': operator.sub, '*': operator.mul}
TRACED_LEAVES, NUMBERS = leaves(A, B, D, X, Y), leaves(*VALUES.values())
EXPRESSIONS = st.recursive(
    st.sampled_from(sorted(NUMBERS)),
    lambda inner: st.tuples(st.sampled_from(sorted(OPERATIONS)), inner, inner),
    max_leaves=10,
)


def evaluated(tree, leaves):
    """Return the value of a random expression over its leaves."""
    if isinstance(tree, str):
        return leaves[tree]
    return OPERATIONS[tree[0]](*(evaluated(part, leaves) for part in tree[1:]))


# Ten factors of at most 2.3: sums of numbers below some thousand, rounded at 1e-13.
@pytest.mark.slow
@given(EXPRESSIONS)
def test_arithmetic_and_short_expressions_keep_the_value(tree):
    value = evaluated(tree, NUMBERS)
    found = number(evaluated(tree, TRACED_LEAVES))
    assert found == pytest.approx(value, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize('quarters', [-3, 1, 2, 4])
def test_quarter_turns_are_exact(quarters):
    turned = A + quarters * QUARTER
    angle = VALUES['a'] + quarters * QUARTER
    assert number(cos(turned)) == pytest.approx(math.cos(angle), abs=1e-15)
    assert number(sin(turned)) == pytest.approx(math.sin(angle), abs=1e-15)
    assert len(waves(sin(turned))) == 1


def test_angles_without_a_sine_in_closed_form_are_refused():
    for angle in (A * X, A + 0.3, 0.5 * A, QUARTER * X):
        with pytest.raises(TypeError, match='no sum of multiples of angles'):
            polynomial(sin(angle))


@tables.rows('scalar written', """
cos(A + B) + cos(A - B), 2*cos(a)*cos(b)
cos(A + B) - cos(A - B), -2*sin(a)*sin(b)
sin(A + B) + sin(A - B), 2*sin(a)*cos(b)
sin(A + B) - sin(A - B), 2*sin(b)*cos(a)
X * cos(A) * cos(A) + Y * sin(A) * sin(A), x*cos(a)**2 + y*sin(a)**2
cos(A) * cos(B) * sin(D), sin(d)*cos(a)*cos(b)
X * cos(A + B), x*cos(a + b)
X * X * cos(A) + X * Y * cos(A), x*(x + y)*cos(a)
X - X, '0'
'2.5', 5/2
""")  # fmt: skip
def test_waves_become_products_where_that_is_shorter(scalar, written):
    """The four identities of the module's docstring, squares, and collected coefficients."""
    assert str(expression(eval(scalar))) == written
