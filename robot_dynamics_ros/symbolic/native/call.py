# SPDX-License-Identifier: Apache-2.0
"""The function for one state: takes numpy arrays from Python, checks them, allocates nothing.

It follows Python's fast calling convention and reads the fields of an array where every extension
module of numpy reads them. Arguments that are not exactly what it expects (a list, other numbers
than float64, a slice with gaps, a wrong shape) go on to a Python callable, which converts or
refuses them.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from robot_dynamics_ros.symbolic.native.arithmetic import DOUBLE, INTEGER, Arithmetic
from robot_dynamics_ros.symbolic.native.layout import (
    ALIGNED,
    CONTIGUOUS,
    FIELDS,
    HEADER,
    WRITEABLE,
)
from robot_dynamics_ros.symbolic.program import Program

_INT32, _BYTE, _BIT = ir.IntType(32), ir.IntType(8), ir.IntType(1)
_OBJECT = _BYTE.as_pointer()


def define_call(module: ir.Module, program: Program) -> None:
    """Define ``<name>_call`` of a program; its ``self`` is the callable to fall back on."""
    kind = ir.FunctionType(_OBJECT, [_OBJECT, _OBJECT.as_pointer(), INTEGER])
    function = ir.Function(module, kind, f'{program.name}_call')
    fallback, arguments, count = function.args
    misused, unusual = (function.append_basic_block(name) for name in ('misused', 'unusual'))
    start = function.append_basic_block('start')
    function.blocks.insert(0, function.blocks.pop())
    builder = ir.IRBuilder(start)
    arity = len(program.inputs) + len(program.results)
    _go_on_if(builder, builder.icmp_signed('==', count, _integer(arity)), misused)
    objects = [builder.load(_at(builder, arguments, k)) for k in range(arity)]
    _check_arrays(builder, program, objects, unusual)
    _run(builder, program, objects)
    none = _outside(module, 'python_none', _BYTE)
    increment = ir.FunctionType(ir.VoidType(), [_OBJECT])
    builder.call(_outside(module, 'python_incref', increment), [none])
    builder.ret(none)
    pass_on = ir.FunctionType(_OBJECT, [_OBJECT], var_arg=True)
    for block, passed in ((unusual, objects), (misused, [])):
        builder.position_at_end(block)
        call = _outside(module, 'python_call', pass_on)
        builder.ret(builder.call(call, [fallback, *passed, ir.Constant(_OBJECT, None)]))


def _check_arrays(
    builder: ir.IRBuilder, program: Program, objects: Sequence[ir.Value], unusual: ir.Block
) -> None:
    """Leave unless all are plain float64 arrays of the right shape, the results writeable.

    What an object is must be known before its fields are read, and the number of dimensions
    before their sizes are.
    """
    shapes: list[tuple[int, ...]] = [(size,) for size in program.sizes]
    shapes += [shape for _, shape, _ in program.results]
    module = builder.module

    def is_array(k: int) -> ir.Value:
        kind = builder.load(_at(builder, objects[k], HEADER - 8, _OBJECT))
        return builder.icmp_unsigned('==', kind, _outside(module, 'numpy_array', _BYTE))

    def is_plain(k: int) -> ir.Value:
        needed = CONTIGUOUS | ALIGNED | (WRITEABLE if k >= len(program.inputs) else 0)
        mask = ir.Constant(_INT32, needed)
        dtype = _field(builder, objects[k], 'dtype', _OBJECT)
        flags = builder.and_(_field(builder, objects[k], 'flags', _INT32), mask)
        ndim = _field(builder, objects[k], 'ndim', _INT32)
        right = builder.icmp_unsigned('==', dtype, _outside(module, 'numpy_float64', _BYTE))
        right = builder.and_(right, builder.icmp_unsigned('==', flags, mask))
        dimensions = ir.Constant(_INT32, len(shapes[k]))
        return builder.and_(right, builder.icmp_unsigned('==', ndim, dimensions))

    def has_shape(k: int) -> ir.Value:
        sizes = _field(builder, objects[k], 'shape', INTEGER.as_pointer())
        right: ir.Value = ir.Constant(_BIT, 1)
        for axis, size in enumerate(shapes[k]):
            found = builder.load(_at(builder, sizes, axis))
            right = builder.and_(right, builder.icmp_unsigned('==', found, _integer(size)))
        return right

    for check in (is_array, is_plain, has_shape):
        right = ir.Constant(_BIT, 1)
        for k in range(len(objects)):
            right = builder.and_(right, check(k))
        _go_on_if(builder, right, unusual)


def _run(builder: ir.IRBuilder, program: Program, objects: Sequence[ir.Value]) -> None:
    """Compute one state; all inputs are read before any result is written."""
    data = [_field(builder, array, 'data', DOUBLE.as_pointer()) for array in objects]
    sources = dict(zip(program.inputs, data, strict=False))
    targets = data[len(program.inputs) :]

    def load(name: str, index: int) -> ir.Value:
        return builder.load(_at(builder, sources[name], index))

    values = Arithmetic(builder, DOUBLE, load)
    values.run(program)
    for target, (_, _, elements) in zip(targets, program.results, strict=True):
        for index, element in enumerate(elements):
            builder.store(values[element], _at(builder, target, index))


def _go_on_if(builder: ir.IRBuilder, condition: ir.Value, otherwise: ir.Block) -> None:
    following = builder.append_basic_block()
    builder.cbranch(condition, following, otherwise)
    builder.position_at_end(following)


def _integer(value: int) -> ir.Constant:
    return ir.Constant(INTEGER, value)


def _at(
    builder: ir.IRBuilder, pointer: ir.Value, index: int, kind: ir.Type | None = None
) -> ir.Value:
    """Return the address of an element; of a given kind if the pointer is one to bytes."""
    address = builder.gep(pointer, [_integer(index)])
    return address if kind is None else builder.bitcast(address, kind.as_pointer())


def _field(builder: ir.IRBuilder, array: ir.Value, name: str, kind: ir.Type) -> ir.Value:
    return builder.load(_at(builder, array, HEADER + FIELDS[name], kind))


def _outside(module: ir.Module, name: str, kind: ir.Type) -> ir.Value:
    """Return what the loader supplies: a function, or the address of an object."""
    if name in module.globals:
        return module.globals[name]
    if isinstance(kind, ir.FunctionType):
        return ir.Function(module, kind, name)
    return ir.GlobalVariable(module, kind, name)
