# SPDX-License-Identifier: Apache-2.0
"""Straight-line code as LLVM instructions, on doubles or on vectors of doubles."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from llvmlite import ir

from robot_dynamics_ros.symbolic.folding import Operand
from robot_dynamics_ros.symbolic.native import LANES
from robot_dynamics_ros.symbolic.straight_line import StraightLineCode
from robot_dynamics_ros.symbolic.trace import Traced

DOUBLE = ir.DoubleType()
VECTOR = ir.VectorType(DOUBLE, LANES)
INTEGER = ir.IntType(64)

#: ``a * b + c`` may be rounded once instead of twice.
FUSED = ('contract',)

_INSTRUCTION = {'neg': 'fneg', 'add': 'fadd', 'sub': 'fsub', 'mul': 'fmul', 'div': 'fdiv'}


def constant(kind: ir.Type, value: float) -> ir.Constant:
    """Return a number as a double, or in every lane of a vector."""
    return ir.Constant(kind, [value] * LANES if kind is VECTOR else value)


def declare(module: ir.Module, name: str, kind: ir.Type) -> ir.Function:
    """Return an outside function of one argument that returns its kind, declared once."""
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
        builder: Where to write.
        kind: ``DOUBLE`` or ``VECTOR``.
        load: Reads an input element, ``load(name, index)``.
        sincos: Defined by ``sincos.define_sincos``; needed for vectors.
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
        self._circular: dict[Traced, tuple[ir.Value, ir.Value]] = {}

    def run(self, code: StraightLineCode) -> None:
        """Write all operations of a code."""
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
        otherwise = builder.fcmp_ordered('>=', a, b)
        y = builder.select(otherwise, y, constant(self._kind, math.nan))
        return builder.select(builder.fcmp_ordered('<', a, b), x, y)

    def _call(self, intrinsic: str, value: ir.Value) -> ir.Value:
        suffix = 'f64' if self._kind is DOUBLE else f'v{LANES}f64'
        function = declare(self._builder.module, f'{intrinsic}.{suffix}', self._kind)
        return self._builder.call(function, [value])

    def _sine_and_cosine(self, angle: Traced) -> tuple[ir.Value, ir.Value]:
        """Return both, since an angle that needs one mostly needs the other."""
        if angle not in self._circular:
            builder, x = self._builder, self._values[angle]
            if self._sincos is None:
                pair = self._call('llvm.sin', x), self._call('llvm.cos', x)
            else:
                with builder.goto_entry_block():
                    places = [builder.alloca(self._kind) for _ in range(2)]
                builder.call(self._sincos, [x, *places])
                pair = builder.load(places[0]), builder.load(places[1])
            self._circular[angle] = pair
        return self._circular[angle]
