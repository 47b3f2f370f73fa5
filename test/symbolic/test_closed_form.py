# SPDX-License-Identifier: Apache-2.0
"""Derived equations equal the published ones, symbol by symbol.

Published formulas are typed here from the rebuilt texts, in the symbols of the papers; what the
package derives is compared after both are written in complex exponentials and expanded.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import sympy as sp
from oracles import PinocchioOracle
from samples import DOWN_Y, Sample, sample
from urdf_text import joint, link, robot, symmetric

from robot_dynamics_ros.__main__ import main
from robot_dynamics_ros.description.shipped import share_directory
from robot_dynamics_ros.dynamics.registry import FORMULATIONS
from robot_dynamics_ros.model import load_mechanism, load_robot
from robot_dynamics_ros.symbolic.closed_form import derive
from robot_dynamics_ros.symbolic.equations import write_latex, write_python, write_text

TRACED = [name for name, kind in FORMULATIONS.items() if not kind.numbers_only]
q1, q2, q3, q4, v1, v2, v3, v4, g = sp.symbols('q1 q2 q3 q4 v1 v2 v3 v4 g')
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
    'four_dof': lambda: sample('four_dof'),
    'rp': lambda: sample('rp'),
    'prr': lambda: sample('prr'),
    'planar_2r': lambda: sample('planar_2r'),
    'one fixed angle': lambda: tilted((0.7, 0, 0)),
    'three fixed angles': lambda: tilted((0.7, -0.4, 1.1)),
}


@cache
def derived(name, formulation='newton_euler'):
    """Return the closed form of a robot of ``SAMPLES``, made once."""
    return derive(SAMPLES[name]().tree, formulation)


def scara_equations(quill_offset):
    """Return M, Christoffel matrix, C v and G of [C] section 5.

    x2, x3 are L1, L2; xCi is LCi; I1 is about joint axis 1 (erratum S4).
    """
    L1, L2, LC1, LC2, LC4 = sp.symbols('x2 x3 xC1 xC2 xC4')
    LC3 = sp.Symbol('xC3') if quill_offset else 0
    Izz1, Izz2, Izz3, Izz4 = sp.symbols('Izz1 Izz2 Izz3 Izz4')
    I1 = Izz1 + m1 * LC1**2
    Gamma = I1 + (m2 + m3 + m4) * L1**2
    Lambda = Izz2 + m2 * LC2**2 + Izz3 + m3 * (L2 + LC3) ** 2 + m4 * L2**2
    J4 = Izz4 + m4 * LC4**2
    A = L1 * (m2 * LC2 + m3 * (L2 + LC3) + m4 * L2)
    B, E = m4 * L2 * LC4, m4 * L1 * LC4
    c2, c4, c24, s2, s4, s24 = c(q2), c(q4), c(q2 - q4), s(q2), s(q4), s(q2 - q4)
    H11 = Gamma + Lambda + J4 + 2 * A * c2 + 2 * B * c4 + 2 * E * c24
    H12 = Lambda + J4 + A * c2 + 2 * B * c4 + E * c24
    H14, H22, H24 = -(J4 + B * c4 + E * c24), Lambda + J4 + 2 * B * c4, -(J4 + B * c4)
    M = [[H11, H12, 0, H14], [H12, H22, 0, H24], [0, 0, m3 + m4, 0], [H14, H24, 0, J4]]
    W = v1 + v2
    W4 = W - v4
    Cv = [
        -A * s2 * (W**2 - v1**2) + B * s4 * (W4**2 - W**2) + E * s24 * (v1**2 - W4**2),
        A * s2 * v1**2 + B * s4 * (W4**2 - W**2) + E * s24 * v1**2,
        0,
        B * s4 * W**2 - E * s24 * v1**2,
    ]
    a, b, e = A * s2, B * s4, E * s24
    C = [
        [-(a + e) * v2 + (e - b) * v4, -(a + e) * W + (e - b) * v4, 0, (e - b) * W4],
        [(a + e) * v1 - b * v4, -b * v4, 0, -b * W4],
        [0, 0, 0, 0],
        [b * W - e * v1, b * W, 0, 0],
    ]
    return M, C, Cv, [0, 0, -(m3 + m4) * g, 0]


@pytest.mark.slow
@pytest.mark.parametrize('formulation', TRACED)
def test_scara_equals_section_5_of_the_paper(formulation):
    form = derived('scara', formulation)
    M, C, Cv, G = scara_equations(quill_offset=False)
    assert same(form.M, M)
    assert same(form.C, C)
    assert same(form.Cv, Cv)
    assert same(form.G, G)


@pytest.mark.slow
def test_scara_with_an_offset_quill_equals_its_generalization():
    tree = sample('scara').tree
    com = tree.com.copy()
    com[2, 0] = 0.03
    form = derive(tree.with_changes(com=com))
    M, C, Cv, G = scara_equations(quill_offset=True)
    assert same(form.M, M)
    assert same(form.C, C)
    assert same(form.Cv, Cv)
    assert same(form.G, G)


@pytest.mark.slow
def test_the_comparison_sees_a_wrong_sign_and_a_wrong_factor():
    form = derived('scara')
    M, _, Cv, _ = scara_equations(quill_offset=False)
    M[0][3] = -M[0][3]
    assert not same(form.M, M)
    Cv[0] = 2 * Cv[0]
    assert not same(form.Cv, Cv)


def test_rp_arm_equals_the_notes():
    """[N] 5.1: d2 is the distance of CoM 2, I_zz2 is Iyy of link 2's own frame."""
    form = derived('rp')
    # Centre of mass 1 is at y = -l1 in its frame.
    l1, Izz1, Iyy2 = -sp.Symbol('yC1'), sp.Symbol('Izz1'), sp.Symbol('Iyy2')
    assert same(form.M, [[m1 * l1**2 + Izz1 + m2 * q2**2 + Iyy2, 0], [0, m2]])
    assert same(form.C, [[m2 * q2 * v2, m2 * q2 * v1], [-m2 * q2 * v1, 0]])
    assert same(form.Cv, [2 * m2 * q2 * v1 * v2, -m2 * q2 * v1**2])
    assert same(form.G, [g * (m1 * l1 + m2 * q2) * c(q1), g * m2 * s(q1)])


def test_prr_arm_equals_the_notes():
    """[N] 5.2."""
    form = derived('prr')
    l2, a2, l3, Izz2, Izz3 = sp.symbols('xC2 x3 xC3 Izz2 Izz3')
    k, c23, s23 = m2 * l2 + m3 * a2, c(q2 + q3), s(q2 + q3)
    M12, M13 = k * c(q2) + m3 * l3 * c23, m3 * l3 * c23
    M22 = Izz2 + m2 * l2**2 + Izz3 + m3 * (a2**2 + l3**2 + 2 * a2 * l3 * c(q3))
    M23, M33 = Izz3 + m3 * (l3**2 + a2 * l3 * c(q3)), Izz3 + m3 * l3**2
    assert same(form.M, [[m1 + m2 + m3, M12, M13], [M12, M22, M23], [M13, M23, M33]])
    w, h = m3 * l3 * s23, m3 * a2 * l3 * s(q3)
    C = [
        [0, -k * s(q2) * v2 - w * (v2 + v3), -w * (v2 + v3)],
        [0, -h * v3, -h * (v2 + v3)],
        [0, h * v2, 0],
    ]
    assert same(form.C, C)
    Cv = [-k * s(q2) * v2**2 - w * (v2 + v3) ** 2, -h * (2 * v2 * v3 + v3**2), h * v2**2]
    assert same(form.Cv, Cv)
    assert same(form.G, [g * (m1 + m2 + m3), g * (k * c(q2) + m3 * l3 * c23), g * m3 * l3 * c23])


def test_planar_2r_arm_equals_the_notes():
    """[N] 5.3, centres of mass off the link lines."""
    form = derived('planar_2r')
    L1, x1, y1, x2, y2, Izz1, Izz2 = sp.symbols('x2 xC1 yC1 xC2 yC2 Izz1 Izz2')
    u, w = x2 * c(q2) - y2 * s(q2), x2 * s(q2) + y2 * c(q2)
    M22 = Izz2 + m2 * (x2**2 + y2**2)
    M12 = M22 + m2 * L1 * u
    M11 = Izz1 + m1 * (x1**2 + y1**2) + m2 * L1**2 + M22 + 2 * m2 * L1 * u
    assert same(form.M, [[M11, M12], [M12, M22]])
    C = m2 * L1 * w * sp.Matrix([[-v2, -(v1 + v2)], [v1, 0]])
    assert same(form.C, C)
    X2 = x2 * c(q1 + q2) - y2 * s(q1 + q2)
    G = [m1 * (x1 * c(q1) - y1 * s(q1)) + m2 * (L1 * c(q1) + X2), m2 * X2]
    assert same(form.G, [g * entry for entry in G])


@pytest.fixture(scope='module')
def parallelogram():
    files = share_directory()
    return load_mechanism(
        files / 'urdf' / 'parallelogram.urdf.xacro', files / 'config' / 'parallelogram_loops.yaml'
    )


@pytest.mark.parametrize('formulation', ['kane', 'newton_euler'])
def test_parallelogram_equals_section_3_5_of_the_paper(parallelogram, formulation):
    """[MXL] 3.5; joints 1 to 4 are theta1, theta2, theta1', theta2', coordinates q1 and q3."""
    form = derive(parallelogram, formulation)
    assert form.coordinates == (('q1', 'lower_arm_joint'), ('q3', 'crank_joint'))
    d1, d2, d1p, d2p = sp.symbols('xC1 xC2 xC3 xC4')
    l1, l1p = sp.symbols('x2 x4')
    I1, I2, I1p, I2p = sp.symbols('Izz1 Izz2 Izz3 Izz4')
    m1p, m2p = m3, m4
    a, b, delta = m2 * l1 * d2, m2p * l1p * d2p, q1 - q3
    M11 = m1 * d1**2 + m2 * l1**2 + m2p * d2p**2 + I1 + I2p
    M22 = m1p * d1p**2 + m2p * l1p**2 + m2 * d2**2 + I1p + I2
    off = -(m2 * l1 * d2 * s(q3 - q1) + m2p * l1p * d2p * s(q1 - q3))
    assert same(form.M, [[M11, off], [off, M22]])
    CM = [(-a + b) * c(delta) * v3**2, (-b + a) * c(delta) * v1**2]
    assert same(form.Cv, CM)
    assert same(form.C, (a - b) * c(delta) * sp.Matrix([[0, -v3], [v1, 0]]))
    GM = [
        -g * (m1 * d1 + m2 * l1 + m2p * d2p) * s(q1),
        g * (m1p * d1p + m2p * l1p - m2 * d2) * c(q3),
    ]
    assert same(form.G, GM)


@pytest.mark.parametrize('name', ['rp', 'prr'])
def test_an_open_arm_declared_as_a_mechanism_has_the_same_equations(name):
    tree = sample(name).tree
    coordinates = f'coordinates: [{", ".join(tree.joint_names)}]\n'
    form = derive(load_mechanism(tree.xml, coordinates, tree.gravity), 'kane')
    assert [form.M, form.Cv, form.G] == [derived(name).M, derived(name).Cv, derived(name).G]


@pytest.mark.slow
@pytest.mark.parametrize('formulation', TRACED[1:])
@pytest.mark.parametrize('name', ['four_dof', 'prr'])
def test_all_formulations_derive_the_same_expressions(name, formulation):
    """The canonical form is unique, so not even an order of terms may differ."""
    one, other = (derived(name, f) for f in (TRACED[0], formulation))
    assert (one.M, one.C, one.Cv, one.G) == (other.M, other.C, other.Cv, other.G)


@pytest.mark.slow
@pytest.mark.parametrize('name', SAMPLES)
def test_derived_python_code_agrees_with_pinocchio(name, rng):
    one = SAMPLES[name]()
    tree = one.tree
    oracle = PinocchioOracle(one.xml, one.gravity, tree.joint_names)
    code: dict = {}
    exec(write_python(derived(name)), code)
    for _ in range(5):
        q, v = rng.uniform(-1, 1, tree.n), rng.normal(size=tree.n)
        M, G = oracle.mass_matrix(q), oracle.gravity_forces(q)
        Cv = oracle.inverse_dynamics(q, v, np.zeros(tree.n)) - G
        # Rounding of some hundred terms; fixed angles that stay numbers have 12 decimals.
        tolerance = 1e-10 if name == 'three fixed angles' else 1e-13
        for found, expected in (
            (code['mass_matrix'](q), M),
            (code['gravity_forces'](q), G),
            (code['velocity_forces'](q, v), Cv),
            (code['coriolis_matrix'](q, v) @ v, Cv),
        ):
            assert found == pytest.approx(expected, abs=tolerance * max(1, np.abs(M).max() * 40))


def test_a_fixed_angle_has_a_name_unless_there_are_many():
    names = [p.name for p in derived('one fixed angle').parameters]
    assert 'roll2' in names
    names = [p.name for p in derived('three fixed angles').parameters]
    assert not [name for name in names if name.startswith(('roll', 'pitch', 'yaw'))]


@pytest.mark.slow
def test_gravity_out_of_the_axes_has_three_names():
    tree = load_robot(sample('scara').xml, gravity=(1.0, -2.0, -9.0))
    form = derive(tree)
    gx, gy, gz = sp.symbols('gx gy gz')
    assert {p.name: p.value for p in form.parameters if p.name[0] == 'g'} == {
        'gx': 1.0,
        'gy': -2.0,
        'gz': -9.0,
    }
    assert same([form.G[2]], [(m3 + m4) * gz])


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


def test_progress_is_told_from_start_to_end():
    steps = []
    derive(sample('rp').tree, progress=lambda step, done: steps.append((step, done)))
    shares = [done for _, done in steps]
    assert shares == sorted(shares)
    assert (steps[0], steps[-1]) == (('mass matrix', 0.0), ('done', 1.0))


@pytest.mark.slow
def test_the_command_prints_and_writes(tmp_path, capsys):
    assert main(['derive', 'scara', '--show', 'G', '--gravity', '0', '0', '9.81']) == 0
    assert 'G3 = g*(m3 + m4)' in capsys.readouterr().out
    file = tmp_path / 'scara.py'
    assert main(['derive', 'scara', '--format', 'python', '--output', str(file)]) == 0
    code: dict = {}
    exec(file.read_text(), code)
    assert code['gravity_forces'](np.zeros(4))[2] == pytest.approx(-(1.15 + 0.72) * 9.81)
    assert main(['derive', 'scara', '--formulation', 'pinocchio']) == 2
    assert 'numbers only' in capsys.readouterr().err


def test_the_command_closes_loops(capsys):
    files = share_directory()
    robot_file = str(files / 'urdf' / 'parallelogram.urdf.xacro')
    loops = str(files / 'config' / 'parallelogram_loops.yaml')
    for words in (['parallelogram'], [robot_file, '--loops', loops]):
        assert main(['derive', *words, '--show', 'M']) == 0
        assert 'M12 = M21 = s1m3*(m2*x2*xC2 - m4*x4*xC4)' in capsys.readouterr().out
