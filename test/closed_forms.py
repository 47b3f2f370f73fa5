# SPDX-License-Identifier: Apache-2.0
"""The published closed-form equations of four arms, over numbers or SymPy symbols.

Typed from the (corrected) texts, without the package under test. Each returns M,
the Christoffel matrix C and the gravity forces G; g is the scalar 9.81, not a vector.
"""

from typing import NamedTuple

import numpy as np
import sympy
import yaml


class Equations(NamedTuple):
    M: np.ndarray
    C: np.ndarray
    G: np.ndarray


def cos(x):
    return sympy.cos(x) if isinstance(x, sympy.Basic) else np.cos(x)


def sin(x):
    return sympy.sin(x) if isinstance(x, sympy.Basic) else np.sin(x)


def rp(m1, l1, Izz1, m2, Izz2, g, q, v) -> Equations:
    """RP arm, gravity along -y0; q2 = d2 from axis 1 to the centre of mass of link 2.

    Izz2 is the moment about the axis parallel to z0.
    """
    (t1, d2), (dt1, dd2) = q, v
    M = np.array([[m1 * l1**2 + Izz1 + m2 * d2**2 + Izz2, 0], [0, m2]])
    C = m2 * d2 * np.array([[dd2, dt1], [-dt1, 0]])
    return Equations(M, C, g * np.array([(m1 * l1 + m2 * d2) * cos(t1), m2 * sin(t1)]))


def prr(m1, m2, l2, Izz2, a2, m3, l3, Izz3, g, q, v) -> Equations:
    """PRR arm: slide along y0, q2 from x0, gravity along -y0."""
    _, q2, q3 = q
    _, w2, w3 = v
    k, e = m2 * l2 + m3 * a2, m3 * l3
    c2, c3, c23 = cos(q2), cos(q3), cos(q2 + q3)
    s2, s3, s23 = sin(q2), sin(q3), sin(q2 + q3)
    M11 = m1 + m2 + m3
    M12, M13 = k * c2 + e * c23, e * c23
    M22 = Izz2 + m2 * l2**2 + Izz3 + m3 * (a2**2 + l3**2 + 2 * a2 * l3 * c3)
    M23, M33 = Izz3 + m3 * (l3**2 + a2 * l3 * c3), Izz3 + m3 * l3**2
    h = e * a2 * s3
    C = [
        [0, -k * s2 * w2 - e * s23 * (w2 + w3), -e * s23 * (w2 + w3)],
        [0, -h * w3, -h * (w2 + w3)],
        [0, h * w2, 0],
    ]
    G = g * np.array([m1 + m2 + m3, k * c2 + e * c23, e * c23])
    return Equations(np.array([[M11, M12, M13], [M12, M22, M23], [M13, M23, M33]]), np.array(C), G)


def planar_2r(L1, m1, x1, y1, Izz1, m2, x2, y2, Izz2, g, q, v) -> Equations:
    """Planar 2R arm, centres of mass anywhere in the plane, gravity along -y0."""
    q1, q2 = q
    w1, w2 = v
    c1, s1, c12, s12 = cos(q1), sin(q1), cos(q1 + q2), sin(q1 + q2)
    across, along = x2 * sin(q2) + y2 * cos(q2), x2 * cos(q2) - y2 * sin(q2)
    M22 = Izz2 + m2 * (x2**2 + y2**2)
    M12 = M22 + m2 * L1 * along
    M11 = Izz1 + m1 * (x1**2 + y1**2) + m2 * L1**2 + M22 + 2 * m2 * L1 * along
    C = m2 * L1 * across * np.array([[-w2, -(w1 + w2)], [w1, 0]])
    X2 = x2 * c12 - y2 * s12
    G = g * np.array([m1 * (x1 * c1 - y1 * s1) + m2 * (L1 * c1 + X2), m2 * X2])
    return Equations(np.array([[M11, M12], [M12, M22]]), C, G)


def scara(L1, L2, LC2, LC3, LC4, I1, Izz2, Izz3, Izz4, m2, m3, m4, g, q, v) -> Equations:
    """SCARA; I1 about joint axis 1, the others about the centres of mass; quill axis down."""
    _, t2, _, t4 = q
    w1, w2, _, w4 = v
    W, W4 = w1 + w2, w1 + w2 - w4
    c2, c4, c24 = cos(t2), cos(t4), cos(t2 - t4)
    Gamma = I1 + (m2 + m3 + m4) * L1**2
    Lambda = Izz2 + m2 * LC2**2 + Izz3 + m3 * (L2 + LC3) ** 2 + m4 * L2**2
    J4 = Izz4 + m4 * LC4**2
    A = L1 * (m2 * LC2 + m3 * (L2 + LC3) + m4 * L2)
    B, E = m4 * L2 * LC4, m4 * L1 * LC4
    H11 = Gamma + Lambda + J4 + 2 * A * c2 + 2 * B * c4 + 2 * E * c24
    H12 = Lambda + J4 + A * c2 + 2 * B * c4 + E * c24
    H14, H24 = -(J4 + B * c4 + E * c24), -(J4 + B * c4)
    H22 = Lambda + J4 + 2 * B * c4
    M = [[H11, H12, 0, H14], [H12, H22, 0, H24], [0, 0, m3 + m4, 0], [H14, H24, 0, J4]]
    a, b, e = A * sin(t2), B * sin(t4), E * sin(t2 - t4)
    C = [
        [-(a + e) * w2 + (e - b) * w4, -(a + e) * W + (e - b) * w4, 0, (e - b) * W4],
        [(a + e) * w1 - b * w4, -b * w4, 0, -b * W4],
        [0, 0, 0, 0],
        [b * W - e * w1, b * W, 0, 0],
    ]
    return Equations(np.array(M), np.array(C), np.array([0, 0, -(m3 + m4) * g, 0]))


# The SCARA that ships with the package, from its table of numbers.
SCARA = yaml.safe_load("""
{L1: 0.325, L2: 0.275, LC2: 0.118, LC3: 0.0, LC4: 0.021, Izz2: 0.0455, Izz3: 0.0016, Izz4: 0.0008,
 m2: 3.85, m3: 1.15, m4: 0.72}
""")
SCARA['I1'] = 0.0927 + 6.25 * 0.142**2
