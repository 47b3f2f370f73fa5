# SPDX-License-Identifier: Apache-2.0
"""Straight-line code as a C99 function of arrays.

Also the files that accompany it: a self-test against the reference, Makefile and CMake target.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, count
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.straight_line import StraightLineCode, assignments

#: ``spatial.scalar.select`` in C; the generated functions that call it contain no branch.
CHOOSE = """
/* x if a < b, y if a >= b, NaN if a or b is NaN */
static double choose(double a, double b, double x, double y)
{
    return a < b ? x : a >= b ? y : NAN;
}
"""

_KEYWORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl
    const const_cast constexpr continue decltype default delete do double dynamic_cast else enum
    explicit export extern false float for friend goto if inline int long mutable namespace new
    noexcept not not_eq nullptr operator or or_eq private protected public register
    reinterpret_cast restrict return short signed sizeof static static_assert static_cast struct
    switch template this thread_local throw true try typedef typeid typename union unsigned
    using virtual void volatile wchar_t while xor xor_eq
"""


class CFunction(NamedTuple):
    """A function to be printed as C, with the data of its self-test.

    Attributes:
        code: The operations; the function is named ``<prefix>_<name of the code>`` in C.
        meaning: The equation that it computes.
        arguments: Meaning and unit of every input and result, by name.
        reference: The interpreted function ``(*inputs) -> results`` on arrays of floats.
        draw: Returns the inputs of a random state.
    """

    code: StraightLineCode
    meaning: str
    arguments: Mapping[str, str]
    reference: Callable[..., Sequence[Array]]
    draw: Callable[[np.random.Generator], Sequence[Array]]

    @property
    def name(self) -> str:
        """Name of the function, without prefix."""
        return self.code.arguments.name


def identifiers(names: Sequence[str]) -> dict[str, str]:
    """Return a distinct C identifier for each of some names, which may have any characters."""
    chosen: dict[str, str] = {}
    for name in dict.fromkeys(names):
        word = re.sub('[^A-Za-z0-9]+', '_', name).strip('_')
        if not word[:1].isalpha() or re.search(rf'\b{word}\b', _KEYWORDS):
            word = f'x_{word}'.rstrip('_')
        numbered = (f'{word}_{k}' for k in count(2))
        chosen[name] = next(x for x in chain([word], numbered) if x not in chosen.values())
    return chosen


def require_identifier(kind: str, name: str) -> str:
    """Check that a name is a valid identifier in C and C++, and return it.

    Raises:
        ParameterError: It is not.
    """
    if (
        not re.fullmatch(r'[A-Za-z][A-Za-z0-9_]*', name)
        or '__' in name
        or re.search(rf'\b{name}\b', _KEYWORDS)
    ):
        raise ParameterError(
            kind, name, 'is not a C identifier: use letters, digits and single _, first a letter'
        )
    return name


def in_comment(text: str) -> str:
    """Return text, which may contain any names, without what begins or ends a comment in C."""
    return re.sub(r'/(?=\*)|\*(?=/)', r'\g<0> ', text)


def declaration(prefix: str, function: CFunction, n: int) -> str:
    """Return the prototype of a function with its documentation and size macros.

    Args:
        prefix: Prefix of all names.
        function: The function.
        n: Number of coordinates; vectors of this size use the common macro ``<PREFIX>_N``.
    """
    macros, arguments = [], []
    for name, shape in function.code.arguments.shapes.items():
        if shape != (n,):
            size, order = ' x '.join(map(str, shape)), ', row-major' if len(shape) > 1 else ''
            macro = _size_macro(prefix, function, name)
            macros.append(f'#define {macro} {math.prod(shape)} /* {size}{order} */')
        arguments.append(f' *   {name:<13}{function.arguments[name]}')
    work = f' * {function.code.operations().total()} operations. */'
    meaning = f'/* {in_comment(function.meaning)}'
    lines = [*macros, meaning, *arguments, work, _head(prefix, function, n) + ';']
    return '\n'.join([*lines, ''])


def definition(prefix: str, function: CFunction, n: int) -> str:
    """Return the C definition of a function; it reads all inputs before it writes any result."""
    code = function.code
    lines, results = assignments(code)
    read = {scalar.operands[0] for scalar in code.scalars if scalar.operation == 'input'}
    body = [f'(void){name};' for name in code.arguments.inputs if name not in read]
    body += [f'const double {line};' for line in lines]
    for name, texts in zip(code.results, results, strict=True):
        body += [f'{name}[{k}] = {text};' for k, text in enumerate(texts)]
    return '\n    '.join([f'{_head(prefix, function, n)}\n{{', *map(_in_c, body)]) + '\n}\n'


def _in_c(text: str) -> str:
    """Replace the names in an expression that differ between Python and C."""
    for pattern, name in (
        (r'\binf\b', 'INFINITY'),
        (r'\bnan\b', 'NAN'),
        (r'\bselect\(', 'choose('),
    ):
        text = re.sub(pattern, name, text)
    return text


def _head(prefix: str, function: CFunction, n: int) -> str:
    head, arguments = f'void {prefix}_{function.name}(', []
    for name, shape in function.code.arguments.shapes.items():
        size = f'{prefix.upper()}_N' if shape == (n,) else _size_macro(prefix, function, name)
        constant = '' if name in function.code.results else 'const '
        arguments.append(f'{constant}double {name}[{size}]')
    return head + (',\n' + ' ' * len(head)).join(arguments) + ')'


def _size_macro(prefix: str, function: CFunction, argument: str) -> str:
    return f'{prefix}_{function.name}'.upper() + f'_{argument}_SIZE'


STATES = 100
#: Largest deviation from the reference, relative to the largest element of a result over all
#: states: several thousand units in the last place, for reordered sums of a hundred terms.
LIMIT = 1e-12
#: Results that are everywhere below this part of the largest number of the test are zero but for
#: rounding, such as the velocity terms of a single joint; they are compared with that number.
_ROUNDING = 1e-14
_SEED = 20

MAKEFILE = """\
# Generated. Run make or make test; CC and CFLAGS can be set: make CFLAGS='-O2 -march=native'.
CFLAGS ?= -O2 -Wall -Wextra -Wpedantic

lib{name}.a: {name}.o
	$(AR) rcs $@ $<

{name}.o: {name}.c {name}.h
	$(CC) -std=c99 $(CFLAGS) -fPIC -c -o $@ $<

{name}_test: {name}_test.c lib{name}.a
	$(CC) -std=c99 $(CFLAGS) -o $@ $^ -lm

.PHONY: test clean
test: {name}_test
	./{name}_test

clean:
	rm -f {name}.o lib{name}.a {name}_test
"""

CMAKE = """\
# Generated. To use the library: add_subdirectory(<this folder>), then
# target_link_libraries(<yours> PRIVATE {name}).
cmake_minimum_required(VERSION 3.16)
project({name} LANGUAGES C)

add_library({name} STATIC {name}.c)
set_target_properties({name} PROPERTIES
  C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
target_include_directories({name} PUBLIC $<BUILD_INTERFACE:${{CMAKE_CURRENT_SOURCE_DIR}}>)
target_link_libraries({name} PUBLIC m)

enable_testing()
add_executable({name}_test {name}_test.c)
target_link_libraries({name}_test PRIVATE {name})
add_test(NAME {name}_test COMMAND {name}_test)
"""

_TEST = """\
/* Generated: compares {name} with the reference formulation, interpreted on floats.
 * Prints the largest deviation of every function over {states} states, relative to the largest
 * element of the result; returns 1 if one exceeds {limit}. */
#include <math.h>
#include <stdio.h>

#include "{name}.h"

#define STATES {states}

static double worst_of(double worst, const double *computed, const double *expected, int count,
                       double size)
{{
    for (int i = 0; i < count; ++i) {{
        const double deviation = fabs(computed[i] - expected[i]) / size;
        if (!(deviation <= worst))
            worst = isnan(deviation) ? INFINITY : deviation;
    }}
    return worst;
}}

static int report(const char *function, double worst)
{{
    const int failed = !(worst <= {limit});
    printf("%-28s %.2e %s\\n", function, worst, failed ? "FAILED" : "ok");
    return failed;
}}
{tests}
int main(void)
{{
    int failed = 0;
{calls}
    return failed;
}}
"""

_FUNCTION = """
/* Each row: inputs, then expected results. */
static const double {name}_rows[STATES][{width}] = {{
{rows}
}};

static int test_{name}(void)
{{
    double worst = 0.0;
    for (int k = 0; k < STATES; ++k) {{
        const double *row = {name}_rows[k];
        double {results};
        {prefix}_{name}({arguments});
{checks}
    }}
    return report("{name}", worst);
}}
"""


def self_test(prefix: str, functions: Sequence[CFunction]) -> str:
    """Return the C source of a program that compares all functions with the reference."""
    tables = [_table(function) for function in functions]
    top = max((_largest(part) for table in tables for part in table), default=1.0)
    return _TEST.format(
        name=prefix,
        states=STATES,
        limit=LIMIT,
        tests=''.join(_test(prefix, *one, top) for one in zip(functions, tables, strict=True)),
        calls='\n'.join(f'    failed |= test_{f.name}();' for f in functions),
    )


def _table(function: CFunction) -> list[Array]:
    """Return the inputs and results of a function, each in rows of one state."""
    rng = np.random.default_rng(_SEED)
    states = [function.draw(rng) for _ in range(STATES)]
    rows = [[np.ravel(x).astype(float) for x in (*q, *function.reference(*q))] for q in states]
    return [np.array(column) for column in zip(*rows, strict=True)]


def _largest(numbers: Array) -> float:
    return float(np.max(np.abs(numbers), initial=0.0))


def _test(prefix: str, function: CFunction, table: list[Array], top: float) -> str:
    code, rows = function.code, np.hstack(table)
    passed, declared, checks, place = list[str](), list[str](), list[str](), 0
    for (name, shape), numbers in zip(code.arguments.shapes.items(), table, strict=True):
        size = math.prod(shape)
        if name in code.arguments.inputs:
            passed.append(f'row + {place}')
        else:
            largest = _largest(numbers)
            scale = largest if largest > _ROUNDING * top else top
            call = f'worst_of(worst, {name}, row + {place}, {size}, {scale!r})'
            checks.append(f'        worst = {call};')
            declared.append(f'{name}[{size}]')
            passed.append(name)
        place += size
    return _FUNCTION.format(
        prefix=prefix,
        name=function.name,
        width=place,
        rows='\n'.join('{' + ','.join(map(repr, row.tolist())) + '},' for row in rows),
        results=', '.join(declared),
        arguments=', '.join(passed),
        checks='\n'.join(checks),
    )
