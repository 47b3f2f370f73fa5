# SPDX-License-Identifier: Apache-2.0
r"""Angles without branches: rotation vectors and the angle of a sine and a cosine.

A rotation vector is :math:`\varphi = g(c)\,\nu` with :math:`c = \cos\theta` and
:math:`\nu = \sin\theta\,k`, the axial vector of the rotation matrix, and
:math:`g = \theta/\sin\theta`. In terms of :math:`w = \cos\tfrac\theta2`,

.. math:: g = \frac{2\,a(z)}{w\,(1+w)},\quad z = \tan^2\tfrac\theta4 = \frac{1-w}{1+w},\quad
          a(z) = \frac{\arctan\sqrt z}{\sqrt z},

which has no case to tell apart at :math:`\theta = 0` and loses no digits there, in its derivatives
neither. So one expression serves numbers and traced symbols.
"""

from __future__ import annotations

import math

from robot_dynamics_ros.constraints.jet import Jet, compose, dot, scale, square_root, stack
from robot_dynamics_ros.spatial.scalar import Scalar

# Coefficients of arctan x = sum c_k T_{2k+1}(x) on [-1, 1]; the last is below 1e-17.
_P = math.sqrt(2.0) - 1.0
_C = [2.0 * (-1.0) ** k * _P ** (2 * k + 1) / (2 * k + 1) for k in range(21)]
# Keeps the square root real where rounding puts a cosine just below -1.
_ROUNDING = 4e-16


def arctangent_ratio(z: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    r"""Return :math:`a(z) = \arctan(\sqrt z)/\sqrt z` and its first two derivatives, z in [0, 1].

    :math:`\arctan x = 2\sum_k (-1)^k \frac{p^{2k+1}}{2k+1} T_{2k+1}(x)`, :math:`p=\sqrt2-1`; the
    polynomials :math:`W_k = T_{2k+1}(x)/x` of :math:`z = x^2` obey
    :math:`W_{k+1} = 2(2z-1)W_k - W_{k-1}`, :math:`W_0 = W_{-1} = 1`.
    """
    x = 4 * z - 2
    W, dW, ddW = 1, 0, 0
    last, dlast, ddlast = 1, 0, 0
    a, da, dda = _C[0], 0, 0
    for c in _C[1:]:
        following = x * W - last
        dfollowing = x * dW + 4 * W - dlast
        ddfollowing = x * ddW + 8 * dW - ddlast
        last, dlast, ddlast = W, dW, ddW
        W, dW, ddW = following, dfollowing, ddfollowing
        a, da, dda = a + c * W, da + c * dW, dda + c * ddW
    return a, da, dda


def angle_per_sine(cosine: Jet) -> Jet:
    r"""Return :math:`g = \theta/\sin\theta` of a cosine, both jets of shape (1,).

    Validity: :math:`|\theta| < \pi`; g grows beyond bounds at :math:`\pi`.
    """
    w = square_root(
        Jet((1 + cosine.value) / 2 + _ROUNDING, cosine.rate / 2, cosine.J / 2, cosine.drift / 2)
    )
    x = w.value[0]
    y = 1 / (1 + x)
    z = compose(w, (1 - x) * y, -2 * y * y, 4 * y * y * y)
    u = 1 / (x * (1 + x))
    du = -(1 + 2 * x) * u * u
    reciprocal = compose(w, 2 * u, 2 * du, -4 * u * u - 4 * (1 + 2 * x) * u * du)
    return scale(compose(z, *arctangent_ratio(z.value[0])), reciprocal)


def signed_angle(sine: Jet, cosine: Jet) -> Jet:
    r"""Return the angle :math:`\theta` in :math:`(-\pi, \pi)`, rad, of its sine and cosine.

    All are jets of shape (1,); :math:`\sin^2 + \cos^2 = 1`.
    """
    return scale(angle_per_sine(cosine), sine)


def rotation_error(desired: tuple[Jet, Jet, Jet], axes: tuple[Jet, Jet, Jet]) -> Jet:
    r"""Return the rotation vector :math:`\varphi = \log(C_d^TC)^\vee`, rad, a jet of shape (3,).

    Its rate is :math:`J_r^{-1}(\varphi)(\omega - C^TC_d\,\omega_d)` and its Jacobian
    :math:`J_r^{-1}(\varphi)\,[l_\omega]`; both follow here by the product rule.

    Args:
        desired: Axes of the desired frame, jets of shape (3,) in base components.
        axes: Axes of the frame itself.

    Validity: the frames are less than half a turn apart.

    Source: constraint-stabilization, section 2.1 (full pose); erratum C1.
    """
    R = [[dot(d, b) for b in axes] for d in desired]
    cosine = 0.5 * (R[0][0] + R[1][1] + R[2][2])
    cosine = Jet(cosine.value - 0.5, cosine.rate, cosine.J, cosine.drift)
    sines = stack(
        [0.5 * (R[2][1] - R[1][2]), 0.5 * (R[0][2] - R[2][0]), 0.5 * (R[1][0] - R[0][1])]
    )
    return scale(angle_per_sine(cosine), sines)
