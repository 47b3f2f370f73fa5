# SPDX-License-Identifier: Apache-2.0
"""The function for many states: ``LANES`` of them side by side in the registers."""

from __future__ import annotations

from llvmlite import ir

from robot_dynamics_ros.symbolic.native import LANES
from robot_dynamics_ros.symbolic.native.arithmetic import (
    DOUBLE,
    INTEGER,
    VECTOR,
    Arithmetic,
    constant,
)
from robot_dynamics_ros.symbolic.program import Program


def define_batch(module: ir.Module, program: Program, sincos: ir.Function) -> None:
    """Define ``<name>_batch(double** arrays, int64 first, int64 last)`` of a program.

    The arrays are row-major, one row a state, inputs before results; rows ``first`` to ``last``
    are done, a multiple of ``LANES`` of them.
    """
    doubles = DOUBLE.as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [doubles.as_pointer(), INTEGER, INTEGER])
    function = ir.Function(module, kind, f'{program.name}_batch')
    arrays, first, last = function.args
    start, block, end = (function.append_basic_block(name) for name in ('start', 'block', 'end'))
    builder = ir.IRBuilder(start)
    names = [*program.inputs, *(name for name, _, _ in program.results)]
    widths = [*program.sizes, *(len(elements) for _, _, elements in program.results)]
    bases = [builder.load(builder.gep(arrays, [_integer(k)])) for k in range(len(names))]
    builder.cbranch(builder.icmp_signed('<', first, last), block, end)

    builder.position_at_end(block)
    row = builder.phi(INTEGER)
    row.add_incoming(first, start)
    rows = {
        name: (builder.gep(base, [builder.mul(row, _integer(width))]), width)
        for name, base, width in zip(names, bases, widths, strict=True)
    }
    _emit_block(builder, program, rows, sincos)
    following = builder.add(row, _integer(LANES))
    row.add_incoming(following, builder.block)
    builder.cbranch(builder.icmp_signed('<', following, last), block, end)
    builder.position_at_end(end)
    builder.ret_void()


def _emit_block(
    builder: ir.IRBuilder,
    program: Program,
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
    values.run(program)
    for name, _, elements in program.results:
        for index, element in enumerate(elements):
            value = values[element]
            for lane, address in enumerate(lanes(name, index)):
                builder.store(builder.extract_element(value, _integer(lane)), address)


def _integer(value: int) -> ir.Constant:
    return ir.Constant(INTEGER, value)
