# SPDX-License-Identifier: Apache-2.0
"""Compile, load and call generated C in tests, and evaluate what it was generated from."""

import ctypes
import math
import subprocess

import numpy as np

from robot_dynamics_ros.symbolic.c_source import write

WARNINGS = ['-Wall', '-Wextra', '-Wpedantic', '-Wconversion', '-Wshadow']
SANITIZED = ['-O2', *WARNINGS, '-fsanitize=undefined,address']


def run(*command, cwd):
    """Run a command that must succeed; return its output of both streams."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout + done.stderr


def library(texts, folder):
    """Return the functions of generated C, loaded."""
    write(texts, folder)
    (source,) = folder.glob('*[!t].c')
    command = ['-O2', '-std=c99', '-shared', '-fPIC', '-o', 'arm.so', source.name, '-lm']
    run('gcc', *command, cwd=folder)
    return ctypes.CDLL(str(folder / 'arm.so'))


def call(library, function, inputs):
    """Return the results of a C function for arrays of floats."""
    results = [np.full(shape, 7.0) for shape in function.code.arguments.results.values()]
    pointers = [ctypes.c_void_p(x.ctypes.data) for x in (*inputs, *results)]
    getattr(library, f'arm_{function.name}')(*pointers)
    return results


def values(scalars, inputs):
    """Return the values of traced scalars, which follow their operands, for inputs by name."""
    found = {}
    for scalar in scalars:
        if scalar.operation == 'input':
            name, index = scalar.operands
            found[scalar] = inputs[name][index]
            continue
        a, *b = (found.get(x, x) for x in scalar.operands)
        found[scalar] = {
            'constant': lambda a: a,
            'neg': lambda a: -a,
            'add': lambda a, b: a + b,
            'sub': lambda a, b: a - b,
            'mul': lambda a, b: a * b,
            'div': lambda a, b: a / b,
            'cos': math.cos,
            'sin': math.sin,
            'sqrt': math.sqrt,
            'tanh': math.tanh,
            'select': lambda a, b, x, y: x if a < b else y if a >= b else math.nan,
        }[scalar.operation](a, *b)
    return found


def largest_term(code, inputs):
    """Return the largest intermediate value of straight-line code, without the inputs."""
    found = values(code.scalars, inputs)
    return max((abs(found[x]) for x in found if x.operation != 'input'), default=0.0)
