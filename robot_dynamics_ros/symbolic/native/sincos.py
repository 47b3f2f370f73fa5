# SPDX-License-Identifier: Apache-2.0
r"""Sine and cosine of a vector of doubles, as LLVM code.

The angle is reduced to :math:`r\in[-\pi/4,\pi/4]` by the nearest multiple k of :math:`\pi/2`,
Taylor series give the sine and cosine of r, and k tells which is which and their signs.

Validity: within one and a half units in the last place of the true value. If an angle is beyond
``LARGEST``, infinite or NaN, the C library does the whole vector, one by one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from llvmlite import ir

from robot_dynamics_ros.symbolic.native import LANES
from robot_dynamics_ros.symbolic.native.arithmetic import (
    DOUBLE,
    FUSED,
    INTEGER,
    VECTOR,
    constant,
    declare,
    each_lane,
)

_INTEGERS = ir.VectorType(INTEGER, LANES)

#: Largest angle reduced here, rad: k has 19 bits then, and its product with 33 bits is exact.
LARGEST = 2.0**19

# Half of pi, from 40 of its digits, split into 33 + 33 + 53 bits.
_HALF_PI = Fraction('3.1415926535897932384626433832795028841972') / 2
_HIGH = Fraction(math.floor(_HALF_PI * 2**32), 2**32)
_MIDDLE = Fraction(math.floor((_HALF_PI - _HIGH) * 2**65), 2**65)
_LOW = _HALF_PI - _HIGH - _MIDDLE

# A small number plus this one is rounded to an integer, which stands in the last bits.
_ROUNDER = 1.5 * 2.0**52

# Coefficients of r^3, r^5, ... r^17 and r^4, r^6, ... r^16; the next terms are below 1e-17.
_SINE = [(-1.0) ** k / math.factorial(2 * k + 1) for k in range(1, 9)]
_COSINE = [(-1.0) ** k / math.factorial(2 * k) for k in range(2, 9)]


def define_sincos(module: ir.Module) -> ir.Function:
    """Define ``void sincos(vector angle, vector* sine, vector* cosine)`` in a module."""
    pointer = VECTOR.as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [VECTOR, pointer, pointer])
    function = ir.Function(module, kind, 'sincos_vector')
    function.linkage = 'internal'
    builder = ir.IRBuilder(function.append_basic_block('check'))
    near, far = (function.append_basic_block(name) for name in ('near', 'far'))
    builder.cbranch(_all_within_reach(builder, function.args[0]), near, far)
    for block, values in ((near, _reduced_sincos), (far, _library_sincos)):
        builder.position_at_end(block)
        for value, target in zip(
            values(builder, function.args[0]), function.args[1:], strict=True
        ):
            builder.store(value, target)
        builder.ret_void()
    return function


def _all_within_reach(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    size = builder.call(declare(builder.module, f'llvm.fabs.v{LANES}f64', VECTOR), [x])
    lanes = builder.fcmp_ordered('<=', size, _all(LARGEST))
    bits = ir.IntType(LANES)
    return builder.icmp_unsigned('==', builder.bitcast(lanes, bits), ir.Constant(bits, -1))


def _library_sincos(builder: ir.IRBuilder, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    sin, cos = (declare(builder.module, f'llvm.{name}.f64', DOUBLE) for name in ('sin', 'cos'))
    return each_lane(builder, sin, x), each_lane(builder, cos, x)


def _reduced_sincos(builder: ir.IRBuilder, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    b = builder
    shifted = b.fadd(b.fmul(x, _all(2 / math.pi)), _all(_ROUNDER))
    k = b.fsub(shifted, _all(_ROUNDER))
    r = x
    for part in (_HIGH, _MIDDLE, _LOW):
        r = b.fsub(r, b.fmul(k, _all(float(part)), flags=FUSED), flags=FUSED)
    sine, cosine = _series(b, r)
    quarter = b.bitcast(shifted, _INTEGERS)
    odd = b.icmp_unsigned('!=', b.and_(quarter, _integers(1)), _integers(0))
    return (
        _with_sign(b, b.select(odd, cosine, sine), quarter),
        _with_sign(b, b.select(odd, sine, cosine), b.add(quarter, _integers(1))),
    )


def _series(builder: ir.IRBuilder, r: ir.Value) -> tuple[ir.Value, ir.Value]:
    r"""Return :math:`r + r^3 S(r^2)` and :math:`1 - r^2/2 + r^4 C(r^2)`.

    The rounding error of ``w = 1 - h`` is ``(1 - w) - h``; it is given back to the cosine.
    """
    b = builder
    z = b.fmul(r, r)
    sine = _fused(b, b.fmul(r, z), _horner(b, _SINE, z), r)
    h = b.fmul(_all(0.5), z)
    w = b.fsub(_all(1.0), h)
    lost = b.fsub(b.fsub(_all(1.0), w), h)
    cosine = b.fadd(w, _fused(b, b.fmul(z, z), _horner(b, _COSINE, z), lost))
    return sine, cosine


def _horner(builder: ir.IRBuilder, coefficients: Sequence[float], z: ir.Value) -> ir.Value:
    value = _all(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        value = _fused(builder, value, z, _all(coefficient))
    return value


def _fused(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    return builder.fadd(builder.fmul(a, b, flags=FUSED), c, flags=FUSED)


def _all(value: float) -> ir.Constant:
    return constant(VECTOR, value)


def _with_sign(builder: ir.IRBuilder, value: ir.Value, quarter: ir.Value) -> ir.Value:
    """Negate the lanes whose quarter turn is 2 or 3, modulo 4."""
    sign = builder.shl(builder.and_(quarter, _integers(2)), _integers(62))
    flipped = builder.xor(builder.bitcast(value, _INTEGERS), sign)
    return builder.bitcast(flipped, VECTOR)


def _integers(value: int) -> ir.Constant:
    return ir.Constant(_INTEGERS, [value] * LANES)
