# SPDX-License-Identifier: Apache-2.0
r"""Straight-line code as LLVM instructions, on doubles or on vectors of doubles.

Sine and cosine of a vector are LLVM code, too: the angle is reduced to
:math:`r\in[-\pi/4,\pi/4]` by the nearest multiple k of :math:`\pi/2`, Taylor series give the sine
and cosine of r, and k determines whether they are exchanged and their signs.

Validity: within 2.5 units in the last place of the true value, 1.5 up to 100 rad. If an angle
exceeds ``LARGEST`` or is infinite or NaN, the C library computes the whole vector, lane by lane.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from llvmlite import ir

from robot_dynamics_ros.symbolic.native import LANES
from robot_dynamics_ros.symbolic.straight_line import StraightLineCode
from robot_dynamics_ros.symbolic.trace import Operand, Traced

DOUBLE = ir.DoubleType()
VECTOR = ir.VectorType(DOUBLE, LANES)
INTEGER = ir.IntType(64)

#: ``a * b + c`` may be rounded once instead of twice.
FUSED = ('contract',)

_INSTRUCTION = {'neg': 'fneg', 'add': 'fadd', 'sub': 'fsub', 'mul': 'fmul', 'div': 'fdiv'}


def constant(kind: ir.Type, value: float) -> ir.Constant:
    """Return a number as a double, or as a vector with equal lanes."""
    return ir.Constant(kind, [value] * LANES if kind is VECTOR else value)


def declare(module: ir.Module, name: str, kind: ir.Type) -> ir.Function:
    """Return an external function ``kind -> kind``, declared once per module."""
    if name in module.globals:
        return module.globals[name]
    return ir.Function(module, ir.FunctionType(kind, [kind]), name)


def each_lane(builder: ir.IRBuilder, function: ir.Function, x: ir.Value) -> ir.Value:
    """Apply a function of a double to a vector, lane by lane."""
    result = constant(VECTOR, 0.0)
    for lane in range(LANES):
        index = ir.Constant(INTEGER, lane)
        value = builder.call(function, [builder.extract_element(x, index)])
        result = builder.insert_element(result, value, index)
    return result


class Arithmetic:
    """Values of straight-line code in one basic block.

    Args:
        builder: Builder that receives the instructions.
        kind: ``DOUBLE`` or ``VECTOR``.
        load: Reads an input element, ``load(name, index)``.
        sincos: Defined by :func:`define_sincos`; required for vectors.
    """

    def __init__(
        self,
        builder: ir.IRBuilder,
        kind: ir.Type,
        load: Callable[[str, int], ir.Value],
        sincos: ir.Function | None = None,
    ) -> None:
        self._builder, self._kind, self._load, self._sincos = builder, kind, load, sincos
        self._values: dict[Traced, ir.Value] = {}
        self._flags: tuple[str, ...] = FUSED
        self._sines_cosines: dict[Traced, tuple[ir.Value, ir.Value]] = {}

    def run(self, code: StraightLineCode) -> None:
        """Emit all operations of a code."""
        self._flags = FUSED if code.fused else ()
        for scalar in code.scalars:
            self._values[scalar] = self._value(scalar)

    def __getitem__(self, x: Operand) -> ir.Value:
        """Return the value of a result."""
        return self._values[x] if isinstance(x, Traced) else constant(self._kind, x)

    def _value(self, scalar: Traced) -> ir.Value:
        operation = scalar.operation
        if operation == 'constant':
            return constant(self._kind, scalar.operands[0])
        if operation == 'input':
            return self._load(*scalar.operands)
        if operation in _INSTRUCTION:
            instruction: Any = getattr(self._builder, _INSTRUCTION[operation])
            return instruction(*(self._values[x] for x in scalar.operands), flags=self._flags)
        if operation == 'select':
            return self._select(*(self._values[x] for x in scalar.operands))
        x = scalar.operands[0]
        if operation in ('sin', 'cos'):
            return self._sine_and_cosine(x)[operation == 'cos']
        if operation == 'sqrt':
            return self._call('llvm.sqrt', self._values[x])
        module = self._builder.module
        function = declare(module, operation, DOUBLE)
        if self._kind is VECTOR:
            return each_lane(self._builder, function, self._values[x])
        return self._builder.call(function, [self._values[x]])

    def _select(self, a: ir.Value, b: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
        builder = self._builder
        not_less = builder.fcmp_ordered('>=', a, b)
        y = builder.select(not_less, y, constant(self._kind, math.nan))
        return builder.select(builder.fcmp_ordered('<', a, b), x, y)

    def _call(self, intrinsic: str, value: ir.Value) -> ir.Value:
        suffix = 'f64' if self._kind is DOUBLE else f'v{LANES}f64'
        function = declare(self._builder.module, f'{intrinsic}.{suffix}', self._kind)
        return self._builder.call(function, [value])

    def _sine_and_cosine(self, angle: Traced) -> tuple[ir.Value, ir.Value]:
        """Return both sine and cosine, since code that needs one usually needs the other."""
        if angle not in self._sines_cosines:
            builder, x = self._builder, self._values[angle]
            if self._sincos is None:
                pair = self._call('llvm.sin', x), self._call('llvm.cos', x)
            else:
                with builder.goto_entry_block():
                    pointers = [builder.alloca(self._kind) for _ in range(2)]
                builder.call(self._sincos, [x, *pointers])
                pair = builder.load(pointers[0]), builder.load(pointers[1])
            self._sines_cosines[angle] = pair
        return self._sines_cosines[angle]


_INTEGERS = ir.VectorType(INTEGER, LANES)

#: Largest angle reduced here, rad: k then has 19 bits, and its product with 33 bits is exact.
LARGEST = 2.0**19

# pi/2, from 40 decimals of pi, split into 33 + 33 + 53 bits.
_HALF_PI = Fraction('3.1415926535897932384626433832795028841972') / 2
_HIGH = Fraction(math.floor(_HALF_PI * 2**32), 2**32)
_MIDDLE = Fraction(math.floor((_HALF_PI - _HIGH) * 2**65), 2**65)
_LOW = _HALF_PI - _HIGH - _MIDDLE

# Adding this rounds a small number to an integer, which is then in the last bits of the sum.
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
    lanes = builder.fcmp_ordered('<=', size, _splat(LARGEST))
    bits = ir.IntType(LANES)
    return builder.icmp_unsigned('==', builder.bitcast(lanes, bits), ir.Constant(bits, -1))


def _library_sincos(builder: ir.IRBuilder, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    sin, cos = (declare(builder.module, f'llvm.{name}.f64', DOUBLE) for name in ('sin', 'cos'))
    return each_lane(builder, sin, x), each_lane(builder, cos, x)


def _reduced_sincos(builder: ir.IRBuilder, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    b = builder
    shifted = b.fadd(b.fmul(x, _splat(2 / math.pi)), _splat(_ROUNDER))
    k = b.fsub(shifted, _splat(_ROUNDER))
    r = x
    for part in (_HIGH, _MIDDLE, _LOW):
        r = b.fsub(r, b.fmul(k, _splat(float(part)), flags=FUSED), flags=FUSED)
    sine, cosine = _series(b, r)
    quarter = b.bitcast(shifted, _INTEGERS)
    odd = b.icmp_unsigned('!=', b.and_(quarter, _integers(1)), _integers(0))
    return (
        _with_sign(b, b.select(odd, cosine, sine), quarter),
        _with_sign(b, b.select(odd, sine, cosine), b.add(quarter, _integers(1))),
    )


def _series(builder: ir.IRBuilder, r: ir.Value) -> tuple[ir.Value, ir.Value]:
    r"""Return :math:`r + r^3 S(r^2)` and :math:`1 - r^2/2 + r^4 C(r^2)`.

    The rounding error of ``w = 1 - h`` is ``(1 - w) - h``; it is added to the cosine.
    """
    b = builder
    z = b.fmul(r, r)
    sine = _fused(b, b.fmul(r, z), _horner(b, _SINE, z), r)
    h = b.fmul(_splat(0.5), z)
    w = b.fsub(_splat(1.0), h)
    correction = b.fsub(b.fsub(_splat(1.0), w), h)
    cosine = b.fadd(w, _fused(b, b.fmul(z, z), _horner(b, _COSINE, z), correction))
    return sine, cosine


def _horner(builder: ir.IRBuilder, coefficients: Sequence[float], z: ir.Value) -> ir.Value:
    value = _splat(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        value = _fused(builder, value, z, _splat(coefficient))
    return value


def _fused(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    return builder.fadd(builder.fmul(a, b, flags=FUSED), c, flags=FUSED)


def _splat(value: float) -> ir.Constant:
    return constant(VECTOR, value)


def _with_sign(builder: ir.IRBuilder, value: ir.Value, quarter: ir.Value) -> ir.Value:
    """Negate the lanes whose quarter turn is 2 or 3, modulo 4."""
    sign = builder.shl(builder.and_(quarter, _integers(2)), _integers(62))
    flipped = builder.xor(builder.bitcast(value, _INTEGERS), sign)
    return builder.bitcast(flipped, VECTOR)


def _integers(value: int) -> ir.Constant:
    return ir.Constant(_INTEGERS, [value] * LANES)
