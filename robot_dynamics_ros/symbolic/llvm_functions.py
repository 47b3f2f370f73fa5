# SPDX-License-Identifier: Apache-2.0
r"""Straight-line code as LLVM functions: for one state, and for ``LANES`` states in parallel.

No compiler front end is needed: an operation is an instruction on doubles or vectors of doubles.

The function for one state takes numpy arrays from Python and allocates nothing. It follows
Python's fast calling convention and reads the fields of an array at the offsets of numpy's binary
interface. Other arguments (a list, a type other than float64, a non-contiguous slice, a wrong
shape) are passed to a Python callable, which converts or rejects them.

Sine and cosine of a vector are LLVM code, too: the angle is reduced to
:math:`r\in[-\pi/4,\pi/4]` by the nearest multiple k of :math:`\pi/2`, Taylor series give the sine
and cosine of r, and k determines whether they are exchanged and their signs. They are within 2.5
units in the last place of the true value, 1.5 up to 100 rad. If an angle exceeds ``LARGEST`` or is
infinite or NaN, the C library computes the whole vector, lane by lane.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from robot_dynamics_ros.symbolic.machine_code import (
    ALIGNED,
    CONTIGUOUS,
    FIELDS,
    HEADER,
    LANES,
    WRITEABLE,
    target_machine,
)
from robot_dynamics_ros.symbolic.straight_line import StraightLineCode
from robot_dynamics_ros.symbolic.trace import Traced

DOUBLE = ir.DoubleType()
VECTOR = ir.VectorType(DOUBLE, LANES)
INTEGER, _INT32, _BYTE, _BIT = (ir.IntType(bits) for bits in (64, 32, 8, 1))
_INTEGERS = ir.VectorType(INTEGER, LANES)
_OBJECT = _BYTE.as_pointer()

#: ``a * b + c`` may be rounded once instead of twice.
FUSED = ('contract',)

_INSTRUCTION = {'neg': 'fneg', 'add': 'fadd', 'sub': 'fsub', 'mul': 'fmul', 'div': 'fdiv'}


def compile_codes(codes: Iterable[StraightLineCode], *, batch: bool = True) -> bytes:
    """Compile code for this processor to an object file for :class:`MachineCode`.

    Args:
        codes: The code to compile.
        batch: Whether to define the functions for many states as well.

    Raises:
        RuntimeError: LLVM fails.
    """
    module, target = ir.Module('kernels'), target_machine()
    sincos = _define_sincos(module) if batch else None
    for code in codes:
        _define_call(module, code)
        if sincos is not None:
            _define_batch(module, code, sincos)
    module.triple, module.data_layout = target.triple, str(target.target_data)
    return bytes(target.emit_object(llvm.parse_assembly(str(module))))


def _constant(kind: ir.Type, value: float) -> ir.Constant:
    """Return a number as a double or integer, or as a vector with equal lanes."""
    return ir.Constant(kind, [value] * LANES if kind in (VECTOR, _INTEGERS) else value)


def _external(module: ir.Module, name: str, kind: ir.Type) -> ir.Value:
    """Declare a symbol outside of the module once: a function, or the address of an object."""
    if name in module.globals:
        return module.globals[name]
    make = ir.Function if isinstance(kind, ir.FunctionType) else ir.GlobalVariable
    return make(module, kind, name)


def _call(builder: ir.IRBuilder, name: str, x: ir.Value) -> ir.Value:
    """Call an external function whose result has the type of its argument.

    If the type is a vector and the function one of a double, it is called lane by lane.
    """
    kind = x.type if name.endswith(f'v{LANES}f64') else DOUBLE
    function = _external(builder.module, name, ir.FunctionType(kind, [kind]))
    if kind == x.type:
        return builder.call(function, [x])
    lanes = (builder.extract_element(x, _constant(INTEGER, k)) for k in range(LANES))
    return _joined(builder, (builder.call(function, [lane]) for lane in lanes))


def _joined(builder: ir.IRBuilder, lanes: Iterable[ir.Value]) -> ir.Value:
    """Return the vector of the values of its lanes."""
    vector = _constant(VECTOR, 0.0)
    for k, value in enumerate(lanes):
        vector = builder.insert_element(vector, value, _constant(INTEGER, k))
    return vector


def _emit(
    builder: ir.IRBuilder,
    code: StraightLineCode,
    kind: ir.Type,
    load: Callable[[str, int], ir.Value],
    sincos: ir.Function | None = None,
) -> dict[str, list[ir.Value]]:
    """Emit all operations of a code.

    Args:
        builder: Builder that receives the instructions.
        code: The operations.
        kind: ``DOUBLE`` or ``VECTOR``.
        load: Reads an input element, ``load(name, index)``.
        sincos: Sine and cosine of a vector.

    Returns:
        The elements of every result, by its name.
    """
    suffix, flags = f'v{LANES}f64' if kind == VECTOR else 'f64', FUSED if code.fused else ()
    values: dict[Traced, ir.Value] = {}
    sines_cosines: dict[Traced, tuple[ir.Value, ir.Value]] = {}

    def sine_and_cosine(angle: Traced) -> tuple[ir.Value, ir.Value]:
        """Return both, since code that needs one usually needs the other."""
        if angle not in sines_cosines:
            x = values[angle]
            if sincos is None:
                pair = _call(builder, 'llvm.sin.f64', x), _call(builder, 'llvm.cos.f64', x)
            else:
                with builder.goto_entry_block():
                    pointers = [builder.alloca(kind) for _ in range(2)]
                builder.call(sincos, [x, *pointers])
                pair = builder.load(pointers[0]), builder.load(pointers[1])
            sines_cosines[angle] = pair
        return sines_cosines[angle]

    def value(operation: str, operands: tuple[Any, ...]) -> ir.Value:
        if operation == 'constant':
            return _constant(kind, operands[0])
        if operation == 'input':
            return load(*operands)
        if operation in ('sin', 'cos'):
            return sine_and_cosine(operands[0])[operation == 'cos']
        found = [values[x] for x in operands]
        if operation in _INSTRUCTION:
            instruction: Any = getattr(builder, _INSTRUCTION[operation])
            return instruction(*found, flags=flags)
        if operation == 'select':
            a, b, x, y = found
            not_less = builder.fcmp_ordered('>=', a, b)
            y = builder.select(not_less, y, _constant(kind, math.nan))
            return builder.select(builder.fcmp_ordered('<', a, b), x, y)
        return _call(builder, f'llvm.sqrt.{suffix}' if operation == 'sqrt' else operation, *found)

    for scalar in code.scalars:
        values[scalar] = value(scalar.operation, scalar.operands)
    return {
        name: [values[x] if isinstance(x, Traced) else _constant(kind, x) for x in elements]
        for name, elements in code.results.items()
    }


def _define_call(module: ir.Module, code: StraightLineCode) -> None:
    """Define ``<name>_call``; its ``self`` is a callable for other arguments."""
    kind = ir.FunctionType(_OBJECT, [_OBJECT, _OBJECT.as_pointer(), INTEGER])
    function = ir.Function(module, kind, f'{code.arguments.name}_call')
    fallback, arguments, count = function.args
    misused, slow_path = (function.append_basic_block(name) for name in ('misused', 'slow_path'))
    start = function.append_basic_block('start')
    function.blocks.insert(0, function.blocks.pop())
    builder, arity = ir.IRBuilder(start), len(code.arguments.shapes)
    _continue_if(builder, [(count, _constant(INTEGER, arity))], misused)
    objects = [builder.load(_at(builder, arguments, k)) for k in range(arity)]
    _check_arrays(builder, code, objects, slow_path)
    _run(builder, code, objects)
    none = _external(module, 'python_none', _BYTE)
    increment = ir.FunctionType(ir.VoidType(), [_OBJECT])
    builder.call(_external(module, 'python_incref', increment), [none])
    builder.ret(none)
    call = _external(module, 'python_call', ir.FunctionType(_OBJECT, [_OBJECT], var_arg=True))
    for block, passed in ((slow_path, objects), (misused, [])):
        builder.position_at_end(block)
        builder.ret(builder.call(call, [fallback, *passed, ir.Constant(_OBJECT, None)]))


def _check_arrays(
    builder: ir.IRBuilder, code: StraightLineCode, objects: Sequence[ir.Value], slow_path: ir.Block
) -> None:
    """Branch to ``slow_path`` unless all are plain float64 arrays of the right shape.

    Results must also be writeable. The type of an object is checked before its fields are read,
    and the number of dimensions before their sizes.
    """
    array, float64 = (
        _external(builder.module, name, _BYTE) for name in ('numpy_array', 'numpy_float64')
    )
    arguments = list(zip(objects, code.arguments.shapes.items(), strict=True))

    def types() -> Iterator[tuple[ir.Value, ir.Value]]:
        for one, _ in arguments:
            yield _field(builder, one, 'type', _OBJECT), array

    def layouts() -> Iterator[tuple[ir.Value, ir.Value]]:
        for one, (name, shape) in arguments:
            yield _field(builder, one, 'dtype', _OBJECT), float64
            needed = CONTIGUOUS | ALIGNED | (WRITEABLE if name in code.results else 0)
            mask = ir.Constant(_INT32, needed)
            yield builder.and_(_field(builder, one, 'flags', _INT32), mask), mask
            yield _field(builder, one, 'ndim', _INT32), ir.Constant(_INT32, len(shape))

    def shapes() -> Iterator[tuple[ir.Value, ir.Value]]:
        for one, (_, shape) in arguments:
            sizes = _field(builder, one, 'shape', INTEGER.as_pointer())
            for axis, size in enumerate(shape):
                yield builder.load(_at(builder, sizes, axis)), _constant(INTEGER, size)

    for pairs in (types, layouts, shapes):
        _continue_if(builder, pairs(), slow_path)


def _run(builder: ir.IRBuilder, code: StraightLineCode, objects: Sequence[ir.Value]) -> None:
    """Emit the computation of one state; all inputs are read before any result is written."""
    fields = (_field(builder, array, 'data', DOUBLE.as_pointer()) for array in objects)
    data = dict(zip(code.arguments.shapes, fields, strict=True))

    def load(name: str, index: int) -> ir.Value:
        return builder.load(_at(builder, data[name], index))

    for name, values in _emit(builder, code, DOUBLE, load).items():
        for index, value in enumerate(values):
            builder.store(value, _at(builder, data[name], index))


def _continue_if(
    builder: ir.IRBuilder, pairs: Iterable[tuple[ir.Value, ir.Value]], otherwise: ir.Block
) -> None:
    """Branch to ``otherwise`` unless the values of each pair are equal."""
    valid: ir.Value = ir.Constant(_BIT, 1)
    for found, expected in pairs:
        valid = builder.and_(valid, builder.icmp_unsigned('==', found, expected))
    block = builder.append_basic_block()
    builder.cbranch(valid, block, otherwise)
    builder.position_at_end(block)


def _at(builder: ir.IRBuilder, pointer: ir.Value, index: int) -> ir.Value:
    """Return the address of an element."""
    return builder.gep(pointer, [_constant(INTEGER, index)])


def _field(builder: ir.IRBuilder, array: ir.Value, name: str, kind: ir.Type) -> ir.Value:
    address = _at(builder, array, HEADER + FIELDS[name])
    return builder.load(builder.bitcast(address, kind.as_pointer()))


def _define_batch(module: ir.Module, code: StraightLineCode, sincos: ir.Function) -> None:
    """Define ``<name>_batch(double** arrays, int64 first, int64 last)`` of a code.

    The arrays are row-major with one row per state, inputs before results. The function computes
    rows ``first`` to ``last - 1``; their number is a multiple of ``LANES``.
    """
    doubles = DOUBLE.as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [doubles.as_pointer(), INTEGER, INTEGER])
    function = ir.Function(module, kind, f'{code.arguments.name}_batch')
    arrays, first, last = function.args
    start, block, end = (function.append_basic_block(name) for name in ('start', 'block', 'end'))
    builder = ir.IRBuilder(start)
    shapes = code.arguments.shapes
    bases = [builder.load(_at(builder, arrays, k)) for k in range(len(shapes))]
    builder.cbranch(builder.icmp_signed('<', first, last), block, end)

    builder.position_at_end(block)
    row = builder.phi(INTEGER)
    row.add_incoming(first, start)
    rows = {}
    for (name, shape), base in zip(shapes.items(), bases, strict=True):
        width = math.prod(shape)
        rows[name] = builder.gep(base, [builder.mul(row, _constant(INTEGER, width))]), width

    def lanes(name: str, index: int) -> list[ir.Value]:
        pointer, width = rows[name]
        return [_at(builder, pointer, lane * width + index) for lane in range(LANES)]

    def load(name: str, index: int) -> ir.Value:
        return _joined(builder, map(builder.load, lanes(name, index)))

    for name, values in _emit(builder, code, VECTOR, load, sincos).items():
        for index, value in enumerate(values):
            for lane, address in enumerate(lanes(name, index)):
                element = builder.extract_element(value, _constant(INTEGER, lane))
                builder.store(element, address)
    next_row = builder.add(row, _constant(INTEGER, LANES))
    row.add_incoming(next_row, builder.block)
    builder.cbranch(builder.icmp_signed('<', next_row, last), block, end)
    builder.position_at_end(end)
    builder.ret_void()


# Sine and cosine of a vector ---------------------------------------------------------------------

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


def _define_sincos(module: ir.Module) -> ir.Function:
    """Define ``void sincos(vector angle, vector* sine, vector* cosine)`` in a module."""
    pointer = VECTOR.as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [VECTOR, pointer, pointer])
    function = ir.Function(module, kind, 'sincos_vector')
    function.linkage = 'internal'
    angle, *targets = function.args
    builder = ir.IRBuilder(function.append_basic_block('check'))
    near, far = (function.append_basic_block(name) for name in ('near', 'far'))
    builder.cbranch(_all_within_reach(builder, angle), near, far)
    for block, sine_and_cosine in ((near, _reduced_sincos), (far, _library_sincos)):
        builder.position_at_end(block)
        for value, target in zip(sine_and_cosine(builder, angle), targets, strict=True):
            builder.store(value, target)
        builder.ret_void()
    return function


def _all_within_reach(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    size = _call(builder, f'llvm.fabs.v{LANES}f64', x)
    lanes = builder.fcmp_ordered('<=', size, _constant(VECTOR, LARGEST))
    bits = ir.IntType(LANES)
    return builder.icmp_unsigned('==', builder.bitcast(lanes, bits), ir.Constant(bits, -1))


def _library_sincos(builder: ir.IRBuilder, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    return _call(builder, 'llvm.sin.f64', x), _call(builder, 'llvm.cos.f64', x)


def _reduced_sincos(builder: ir.IRBuilder, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    b = builder
    shifted = b.fadd(b.fmul(x, _constant(VECTOR, 2 / math.pi)), _constant(VECTOR, _ROUNDER))
    k = b.fsub(shifted, _constant(VECTOR, _ROUNDER))
    r = x
    for part in (_HIGH, _MIDDLE, _LOW):
        r = b.fsub(r, b.fmul(k, _constant(VECTOR, float(part)), flags=FUSED), flags=FUSED)
    sine, cosine = _series(b, r)
    quarter = b.bitcast(shifted, _INTEGERS)
    odd = b.icmp_unsigned('!=', b.and_(quarter, _constant(_INTEGERS, 1)), _constant(_INTEGERS, 0))
    return (
        _with_sign(b, b.select(odd, cosine, sine), quarter),
        _with_sign(b, b.select(odd, sine, cosine), b.add(quarter, _constant(_INTEGERS, 1))),
    )


def _series(builder: ir.IRBuilder, r: ir.Value) -> tuple[ir.Value, ir.Value]:
    r"""Return :math:`r + r^3 S(r^2)` and :math:`1 - r^2/2 + r^4 C(r^2)`.

    The rounding error of ``w = 1 - h`` is ``(1 - w) - h``; it is added to the cosine.
    """
    b = builder
    z = b.fmul(r, r)
    sine = _fused(b, b.fmul(r, z), _horner(b, _SINE, z), r)
    h = b.fmul(_constant(VECTOR, 0.5), z)
    w = b.fsub(_constant(VECTOR, 1.0), h)
    correction = b.fsub(b.fsub(_constant(VECTOR, 1.0), w), h)
    cosine = b.fadd(w, _fused(b, b.fmul(z, z), _horner(b, _COSINE, z), correction))
    return sine, cosine


def _horner(builder: ir.IRBuilder, coefficients: Sequence[float], z: ir.Value) -> ir.Value:
    value = _constant(VECTOR, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        value = _fused(builder, value, z, _constant(VECTOR, coefficient))
    return value


def _fused(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    return builder.fadd(builder.fmul(a, b, flags=FUSED), c, flags=FUSED)


def _with_sign(builder: ir.IRBuilder, value: ir.Value, quarter: ir.Value) -> ir.Value:
    """Negate the lanes whose quarter turn is 2 or 3, modulo 4."""
    sign = builder.shl(builder.and_(quarter, _constant(_INTEGERS, 2)), _constant(_INTEGERS, 62))
    flipped = builder.xor(builder.bitcast(value, _INTEGERS), sign)
    return builder.bitcast(flipped, VECTOR)
