# SPDX-License-Identifier: Apache-2.0
"""LLVM functions of straight-line code: for one state, and for ``LANES`` states in parallel.

The function for one state takes numpy arrays from Python and allocates nothing. It follows
Python's fast calling convention and reads the fields of an array at the offsets of numpy's binary
interface. Other arguments (a list, a type other than float64, a non-contiguous slice, a wrong
shape) are passed to a Python callable, which converts or rejects them.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from robot_dynamics_ros.symbolic.native import (
    ALIGNED,
    CONTIGUOUS,
    FIELDS,
    HEADER,
    LANES,
    WRITEABLE,
)
from robot_dynamics_ros.symbolic.native.arithmetic import (
    DOUBLE,
    INTEGER,
    VECTOR,
    Arithmetic,
    constant,
)
from robot_dynamics_ros.symbolic.straight_line import StraightLineCode

_INT32, _BYTE, _BIT = ir.IntType(32), ir.IntType(8), ir.IntType(1)
_OBJECT = _BYTE.as_pointer()


def define_call(module: ir.Module, code: StraightLineCode) -> None:
    """Define ``<name>_call``; its ``self`` is the fallback callable."""
    kind = ir.FunctionType(_OBJECT, [_OBJECT, _OBJECT.as_pointer(), INTEGER])
    function = ir.Function(module, kind, f'{code.name}_call')
    fallback, arguments, count = function.args
    misused, unusual = (function.append_basic_block(name) for name in ('misused', 'unusual'))
    start = function.append_basic_block('start')
    function.blocks.insert(0, function.blocks.pop())
    builder = ir.IRBuilder(start)
    arity = len(code.inputs) + len(code.results)
    _continue_if(builder, builder.icmp_signed('==', count, _integer(arity)), misused)
    objects = [builder.load(_at(builder, arguments, k)) for k in range(arity)]
    _check_arrays(builder, code, objects, unusual)
    _run(builder, code, objects)
    none = _external(module, 'python_none', _BYTE)
    increment = ir.FunctionType(ir.VoidType(), [_OBJECT])
    builder.call(_external(module, 'python_incref', increment), [none])
    builder.ret(none)
    call_type = ir.FunctionType(_OBJECT, [_OBJECT], var_arg=True)
    for block, passed in ((unusual, objects), (misused, [])):
        builder.position_at_end(block)
        call = _external(module, 'python_call', call_type)
        builder.ret(builder.call(call, [fallback, *passed, ir.Constant(_OBJECT, None)]))


def _check_arrays(
    builder: ir.IRBuilder, code: StraightLineCode, objects: Sequence[ir.Value], unusual: ir.Block
) -> None:
    """Branch to ``unusual`` unless all are plain float64 arrays of the right shape.

    Results must also be writeable. The type of an object is checked before its fields are read,
    and the number of dimensions before their sizes.
    """
    shapes: list[tuple[int, ...]] = [(size,) for size in code.sizes]
    shapes += [shape for _, shape, _ in code.results]
    module = builder.module

    def is_array(k: int) -> ir.Value:
        kind = builder.load(_at(builder, objects[k], HEADER - 8, _OBJECT))
        return builder.icmp_unsigned('==', kind, _external(module, 'numpy_array', _BYTE))

    def is_plain(k: int) -> ir.Value:
        needed = CONTIGUOUS | ALIGNED | (WRITEABLE if k >= len(code.inputs) else 0)
        mask = ir.Constant(_INT32, needed)
        dtype = _field(builder, objects[k], 'dtype', _OBJECT)
        flags = builder.and_(_field(builder, objects[k], 'flags', _INT32), mask)
        ndim = _field(builder, objects[k], 'ndim', _INT32)
        valid = builder.icmp_unsigned('==', dtype, _external(module, 'numpy_float64', _BYTE))
        valid = builder.and_(valid, builder.icmp_unsigned('==', flags, mask))
        dimensions = ir.Constant(_INT32, len(shapes[k]))
        return builder.and_(valid, builder.icmp_unsigned('==', ndim, dimensions))

    def has_shape(k: int) -> ir.Value:
        sizes = _field(builder, objects[k], 'shape', INTEGER.as_pointer())
        valid: ir.Value = ir.Constant(_BIT, 1)
        for axis, size in enumerate(shapes[k]):
            length = builder.load(_at(builder, sizes, axis))
            valid = builder.and_(valid, builder.icmp_unsigned('==', length, _integer(size)))
        return valid

    for check in (is_array, is_plain, has_shape):
        valid = ir.Constant(_BIT, 1)
        for k in range(len(objects)):
            valid = builder.and_(valid, check(k))
        _continue_if(builder, valid, unusual)


def _run(builder: ir.IRBuilder, code: StraightLineCode, objects: Sequence[ir.Value]) -> None:
    """Emit the computation of one state; all inputs are read before any result is written."""
    data = [_field(builder, array, 'data', DOUBLE.as_pointer()) for array in objects]
    sources = dict(zip(code.inputs, data, strict=False))
    targets = data[len(code.inputs) :]

    def load(name: str, index: int) -> ir.Value:
        return builder.load(_at(builder, sources[name], index))

    values = Arithmetic(builder, DOUBLE, load)
    values.run(code)
    for target, (_, _, elements) in zip(targets, code.results, strict=True):
        for index, element in enumerate(elements):
            builder.store(values[element], _at(builder, target, index))


def define_batch(module: ir.Module, code: StraightLineCode, sincos: ir.Function) -> None:
    """Define ``<name>_batch(double** arrays, int64 first, int64 last)`` of a code.

    The arrays are row-major with one row per state, inputs before results. The function computes
    rows ``first`` to ``last - 1``; their number is a multiple of ``LANES``.
    """
    doubles = DOUBLE.as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [doubles.as_pointer(), INTEGER, INTEGER])
    function = ir.Function(module, kind, f'{code.name}_batch')
    arrays, first, last = function.args
    start, block, end = (function.append_basic_block(name) for name in ('start', 'block', 'end'))
    builder = ir.IRBuilder(start)
    names = [*code.inputs, *(name for name, _, _ in code.results)]
    widths = [*code.sizes, *(len(elements) for _, _, elements in code.results)]
    bases = [builder.load(builder.gep(arrays, [_integer(k)])) for k in range(len(names))]
    builder.cbranch(builder.icmp_signed('<', first, last), block, end)

    builder.position_at_end(block)
    row = builder.phi(INTEGER)
    row.add_incoming(first, start)
    rows = {
        name: (builder.gep(base, [builder.mul(row, _integer(width))]), width)
        for name, base, width in zip(names, bases, widths, strict=True)
    }
    _emit_block(builder, code, rows, sincos)
    next_row = builder.add(row, _integer(LANES))
    row.add_incoming(next_row, builder.block)
    builder.cbranch(builder.icmp_signed('<', next_row, last), block, end)
    builder.position_at_end(end)
    builder.ret_void()


def _emit_block(
    builder: ir.IRBuilder,
    code: StraightLineCode,
    rows: dict[str, tuple[ir.Value, int]],
    sincos: ir.Function,
) -> None:
    def lanes(name: str, index: int) -> list[ir.Value]:
        pointer, width = rows[name]
        return [builder.gep(pointer, [_integer(lane * width + index)]) for lane in range(LANES)]

    def load(name: str, index: int) -> ir.Value:
        value = constant(VECTOR, 0.0)
        for lane, address in enumerate(lanes(name, index)):
            value = builder.insert_element(value, builder.load(address), _integer(lane))
        return value

    values = Arithmetic(builder, VECTOR, load, sincos)
    values.run(code)
    for name, _, elements in code.results:
        for index, element in enumerate(elements):
            value = values[element]
            for lane, address in enumerate(lanes(name, index)):
                builder.store(builder.extract_element(value, _integer(lane)), address)


def _continue_if(builder: ir.IRBuilder, condition: ir.Value, otherwise: ir.Block) -> None:
    block = builder.append_basic_block()
    builder.cbranch(condition, block, otherwise)
    builder.position_at_end(block)


def _integer(value: int) -> ir.Constant:
    return ir.Constant(INTEGER, value)


def _at(
    builder: ir.IRBuilder, pointer: ir.Value, index: int, kind: ir.Type | None = None
) -> ir.Value:
    """Return the address of an element, cast to a pointer to ``kind`` unless it is None."""
    address = builder.gep(pointer, [_integer(index)])
    return address if kind is None else builder.bitcast(address, kind.as_pointer())


def _field(builder: ir.IRBuilder, array: ir.Value, name: str, kind: ir.Type) -> ir.Value:
    return builder.load(_at(builder, array, HEADER + FIELDS[name], kind))


def _external(module: ir.Module, name: str, kind: ir.Type) -> ir.Value:
    """Declare a symbol that the loader supplies: a function, or the address of an object."""
    if name in module.globals:
        return module.globals[name]
    if isinstance(kind, ir.FunctionType):
        return ir.Function(module, kind, name)
    return ir.GlobalVariable(module, kind, name)
