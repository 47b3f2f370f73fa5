# SPDX-License-Identifier: Apache-2.0
"""Output of a closed form as text, LaTeX or Python.

Sines and cosines of joint angles are abbreviated: ``c12`` is cos(q1 + q2), ``s2m4`` is
sin(q2 - q4); LaTeX has a minus sign instead of m.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import sympy

from robot_dynamics_ros.symbolic.closed_form import ClosedForm
from robot_dynamics_ros.symbolic.outputs import QUANTITIES

_Index = tuple[int, ...]


def write_text(form: ClosedForm, quantities: Sequence[str] = tuple(QUANTITIES)) -> str:
    """Return the equations as plain text."""
    short = _Shorthand(form)
    body: list[str] = []
    for name in quantities:
        body += ['', QUANTITIES[name]]
        for places, entry in _distinct_entries(form, name):
            names = ' = '.join(name + _digits(place) for place in places)
            body.append(f'    {names} = {short(entry)}')
    lines = [
        f'Equations of motion of {form.robot}, derived by {form.formulation}',
        '    M(q) a + C(q, v) v + G(q) = tau, forces along the coordinates',
        *(f'    {name}, v{name[1:]}: {joint}' for name, joint in form.coordinates),
        *(f'    {name} = {meaning}' for name, meaning in short.meanings.items()),
        *body,
        '',
        'parameters',
    ]
    width = max((len(p.name) for p in form.parameters), default=0)
    lines += [f'    {p.name:{width}} = {p.value:<22.15g} {p.meaning}' for p in form.parameters]
    return '\n'.join(lines) + '\n'


def write_latex(form: ClosedForm, quantities: Sequence[str] = tuple(QUANTITIES)) -> str:
    """Return the equations as LaTeX, with an ``aligned`` block (amsmath) for each quantity."""
    short = _Shorthand(form)
    symbols = {sympy.Symbol(p.name): p.latex for p in form.parameters}
    for name, _ in form.coordinates:
        number = name[1:]
        symbols[sympy.Symbol(name)] = f'q_{{{number}}}'
        symbols[sympy.Symbol(f'v{number}')] = rf'\dot{{q}}_{{{number}}}'
    lines = [
        f'% Equations of motion of {form.robot}, derived by {form.formulation}',
        r'% M(q) \ddot{q} + C(q, \dot{q}) \dot{q} + G(q) = \tau, forces along the coordinates',
        *(f'% q_{{{name[1:]}}}: {joint}' for name, joint in form.coordinates),
        *(f'% {p.latex} = {p.value:.15g}: {p.meaning}' for p in form.parameters),
    ]
    first = len(lines)  # the abbreviations are inserted here once they are known
    for name in quantities:
        rows = []
        for places, entry in _distinct_entries(form, name):
            letter = r'(C\dot{q})' if name == 'Cv' else name
            names = ' = '.join(f'{letter}_{{{_digits(place)}}}' for place in places)
            shortened = short(entry)
            formula = sympy.latex(shortened, symbol_names=symbols | short.latex)
            rows.append(f'  {names} &= {formula}')
        lines += [
            f'% {QUANTITIES[name]}',
            r'\[\begin{aligned}',
            ' \\\\\n'.join(rows),
            r'\end{aligned}\]',
        ]
    lines[first:first] = [
        f'% {short.latex[sympy.Symbol(symbol)]}: {meaning}'
        for symbol, meaning in short.meanings.items()
    ]
    return '\n'.join(lines) + '\n'


def write_python(form: ClosedForm, quantities: Sequence[str] = tuple(QUANTITIES)) -> str:
    """Return the equations as a Python module that requires only numpy."""
    about = (
        f'Equations of motion of {form.robot}, derived by {form.formulation}.\n\n'
        'M(q) a + C(q, v) v + G(q) = tau, forces along the coordinates '
        f'{", ".join(joint for _, joint in form.coordinates)}.\n'
    )
    parameters = [f"    '{p.name}': {p.value!r},  # {p.meaning}" for p in form.parameters]
    quoted = about.replace('\\', r'\\').replace('"', r'\"')  # a name may have any characters
    parts = [
        f'"""{quoted}"""\n\nfrom math import cos, sin\n\nimport numpy as np\n',
        '\n'.join(['PARAMETERS = {', *parameters, '}', '']),
        *(_python_function(form, name) for name in quantities),
    ]
    return '\n\n'.join(parts)


_FUNCTIONS = {
    'M': 'mass_matrix',
    'C': 'coriolis_matrix',
    'Cv': 'velocity_forces',
    'G': 'gravity_forces',
}


def _python_function(form: ClosedForm, name: str) -> str:
    matrix = getattr(form, name)
    shape = matrix.shape if matrix.shape[1] > 1 or name in ('M', 'C') else matrix.shape[:1]
    short, used = _Shorthand(form), matrix.free_symbols
    speeds = name in ('C', 'Cv')
    lines = [
        f'def {_FUNCTIONS[name]}(q, {"v, " if speeds else ""}p=PARAMETERS):',
        f'    """Return {QUANTITIES[name]}, shape {shape}."""',
    ]
    for k, (coordinate, _) in enumerate(form.coordinates):
        for symbol, vector in ((coordinate, 'q'), (f'v{coordinate[1:]}', 'v')):
            if sympy.Symbol(symbol) in used:
                lines.append(f'    {symbol} = {vector}[{k}]')
    lines += [
        f"    {p.name} = p['{p.name}']" for p in form.parameters if sympy.Symbol(p.name) in used
    ]
    entries = [(places, short(entry)) for places, entry in _distinct_entries(form, name)]
    lines += [f'    {symbol} = {meaning}' for symbol, meaning in short.meanings.items()]
    lines.append(f'    {name} = np.zeros({shape})')
    for places, entry in entries:
        if entry != 0:
            targets = ' = '.join(f'{name}[{", ".join(map(str, place))}]' for place in places)
            lines.append(f'    {targets} = {sympy.pycode(entry, fully_qualified_modules=False)}')
    return '\n'.join([*lines, f'    return {name}', ''])


def _distinct_entries(form: ClosedForm, name: str) -> Iterator[tuple[list[_Index], sympy.Expr]]:
    """Yield the distinct entries of a quantity with their indices, zeros last."""
    matrix = getattr(form, name)
    entries: dict[sympy.Expr, list[_Index]] = {}
    for i in range(matrix.rows):
        for j in range(matrix.cols):
            place = (i, j) if name in ('M', 'C') else (i,)
            entries.setdefault(matrix[i, j], []).append(place)
    for entry, places in sorted(entries.items(), key=lambda item: item[0] == 0):
        yield places, entry


def _digits(place: _Index) -> str:
    """Return row and column, counted from 1; separated by a comma if one has two digits."""
    numbers = [str(k + 1) for k in place]
    return (',' if any(len(number) > 1 for number in numbers) else '').join(numbers)


class _Shorthand:
    """Abbreviations of sines and cosines, created on first use.

    Attributes:
        meanings: Python text of the abbreviated function, by abbreviation.
        latex: LaTeX of each abbreviation, by symbol.
    """

    def __init__(self, form: ClosedForm) -> None:
        self._numbers = {sympy.Symbol(name): name[1:] for name, _ in form.coordinates}
        self.meanings: dict[str, str] = {}
        self.latex: dict[sympy.Symbol, str] = {}

    def __call__(self, expression: sympy.Expr) -> sympy.Expr:
        """Replace the sines and cosines of an expression by abbreviations."""
        waves = sorted(expression.atoms(sympy.sin, sympy.cos), key=sympy.default_sort_key)
        return expression.xreplace({function: self._symbol(function) for function in waves})

    def _symbol(self, function: Any) -> sympy.Expr:
        multiples = function.args[0].as_coefficients_dict()
        if any(abs(k) != 1 or angle not in self._numbers for angle, k in multiples.items()):
            return function
        letter, text, latex = type(function).__name__[0], '', ''
        order = sorted(multiples, key=lambda angle: int(self._numbers[angle]))
        joint = '_' if any(len(number) > 1 for number in self._numbers.values()) else ''
        for angle in order:
            number, positive = self._numbers[angle], multiples[angle] > 0
            text += (joint if text and positive else '' if positive else 'm') + number
            latex += (',' if joint and latex and positive else '' if positive else '-') + number
        symbol = sympy.Symbol(letter + text)
        self.meanings[symbol.name] = str(function)
        self.latex[symbol] = f'{letter}_{{{latex}}}'
        return symbol


WRITERS = {'text': write_text, 'latex': write_latex, 'python': write_python}
