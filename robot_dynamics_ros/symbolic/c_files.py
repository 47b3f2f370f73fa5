# SPDX-License-Identifier: Apache-2.0
"""What goes with generated C: a self-test against the reference, Makefile, CMake target."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from robot_dynamics_ros.symbolic.c_function import CFunction

STATES = 100
#: Largest deviation from the reference, of the largest element of a result in all states: some
#: thousand units in the last place, for sums of a hundred terms in another order.
LIMIT = 1e-12
_SEED = 20

MAKEFILE = """\
# Generated: make, make test; CC, CFLAGS as usual, such as CFLAGS='-O2 -march=native'.
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
# Generated. Elsewhere: add_subdirectory(<this folder>), then
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
/* Generated: {name} against numbers of the reference formulation, interpreted on floats.
 * Prints the worst deviation of every function from {states} states, of the largest element of
 * the result; returns 1 if one is beyond {limit}. */
#include <math.h>
#include <stdio.h>

#include "{name}.h"

#define STATES {states}

static double worst_of(double worst, const double *found, const double *expected, int count,
                       double size)
{{
    for (int i = 0; i < count; ++i) {{
        const double deviation = fabs(found[i] - expected[i]) / size;
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
    """Return a program that compares all functions with what the reference gives."""
    return _TEST.format(
        name=prefix,
        states=STATES,
        limit=LIMIT,
        tests=''.join(_test(prefix, function) for function in functions),
        calls='\n'.join(f'    failed |= test_{f.code.name}();' for f in functions),
    )


def _test(prefix: str, function: CFunction) -> str:
    rng, code = np.random.default_rng(_SEED), function.code
    states = [function.draw(rng) for _ in range(STATES)]
    expected = [function.reference(*inputs) for inputs in states]
    rows = [
        np.concatenate([np.ravel(x).astype(float) for x in (*inputs, *results)])
        for inputs, results in zip(states, expected, strict=True)
    ]
    arguments, declared, checks, place = [], [], [], 0
    for size in code.sizes:
        arguments.append(f'row + {place}')
        place += size
    for k, (name, _, elements) in enumerate(code.results):
        largest = max(float(np.max(np.abs(results[k]), initial=0.0)) for results in expected)
        call = f'worst_of(worst, {name}, row + {place}, {len(elements)}, {largest or 1.0!r})'
        checks.append(f'        worst = {call};')
        declared.append(f'{name}[{len(elements)}]')
        place += len(elements)
    return _FUNCTION.format(
        prefix=prefix,
        name=code.name,
        width=place,
        rows='\n'.join('{' + ','.join(map(repr, row.tolist())) + '},' for row in rows),
        results=', '.join(declared),
        arguments=', '.join([*arguments, *(name for name, _, _ in code.results)]),
        checks='\n'.join(checks),
    )
