# SPDX-License-Identifier: Apache-2.0
r"""Equations of motion of a robot in closed form, by running a formulation on symbols.

The recursion runs on traced scalars, whose operations are then evaluated on polynomials in the
parameters and in the sines and cosines of the angles. Every entry of the equations is brought to
its unique form, a Fourier sum, and from there to a short expression: sums of sines and cosines
become products wherever that saves a term,

.. math::
    \cos(a + b) + \cos(a - b) &= 2\cos a\cos b, &
    \cos(a + b) - \cos(a - b) &= -2\sin a\sin b, \\
    \sin(a + b) + \sin(a - b) &= 2\sin a\cos b, &
    \sin(a + b) - \sin(a - b) &= 2\cos a\sin b,

then terms with the same sines and cosines are collected, and their coefficients factored.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from heapq import heappop, heappush
from itertools import count, islice, product
from operator import add, neg, sub
from typing import Any, NamedTuple

import numpy as np
import sympy
from sympy.polys.domains import QQ, ZZ
from sympy.polys.rings import PolyElement, ring

from robot_dynamics_ros.dynamics import FORMULATIONS, make_formulation
from robot_dynamics_ros.errors import MechanismError, ParameterError, brief, known_name
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.dependence import Affine
from robot_dynamics_ros.spatial.validation import name_list
from robot_dynamics_ros.symbolic.named_robot import RobotSymbol, name_constants
from robot_dynamics_ros.symbolic.outputs import QUANTITIES
from robot_dynamics_ros.symbolic.trace import Operand, Traced, reachable

Progress = Callable[[str, float], None]

_QUARTER = 1e-9  # tolerance for multiples of angles and of quarter turns


@dataclass(frozen=True)
class ClosedForm:
    r"""Equations of motion :math:`M(q)\,a + C(q, v)\,v + G(q) = \tau` in SymPy expressions.

    :math:`\tau` are the forces along the coordinates, the efforts of drives that move one each.
    Symbols are those of :func:`name_constants`: coordinates ``q1``, ..., speeds ``v1``, ... and
    the parameters. Angles occur only in sines and cosines.

    Attributes:
        robot: The robot's name, on one line, as all names here.
        formulation: The formulation's name.
        coordinates: Names of the coordinates and of their joints: ('q1', 'joint1').
        parameters: The constants that occur, with their values.
        M: Mass matrix.
        C: Christoffel matrix, so that dM/dt - 2 C is skew-symmetric.
        Cv: Centrifugal and Coriolis forces C v, a column.
        G: Gravity forces, a column.
    """

    robot: str
    formulation: str
    coordinates: tuple[tuple[str, str], ...]
    parameters: tuple[RobotSymbol, ...]
    M: sympy.Matrix
    C: sympy.Matrix
    Cv: sympy.Matrix
    G: sympy.Matrix


def derive(
    robot: Robot,
    formulation: str = 'newton_euler',
    progress: Progress | None = None,
    quantities: Collection[str] = tuple(QUANTITIES),
) -> ClosedForm:
    """Derive the equations of motion of a robot.

    Args:
        robot: A tree with numeric constants, or a mechanism whose joint positions are linear in
            its coordinates.
        formulation: Name of the formulation to run.
        progress: Callback ``(step, done)`` with the current step and the completed fraction.
        quantities: Those to derive; the other matrices are empty.

    Raises:
        UnknownNameError: There is no such formulation or quantity; the message lists the known
            ones.
        ParameterError: The formulation computes on numbers only, or the quantities are no list.
        MechanismError: The mechanism has no closed form.

    Cost: less than a second for a planar arm, 1 s for a spatial arm of four joints, 7 s for one
        of six with full inertia tensors, and more than ten minutes for one of seven.
    """
    report = progress or (lambda step, done: None)
    for name in name_list('quantities', quantities):
        known_name('quantity', name, QUANTITIES)
    named = name_constants(robot.tree)
    closed, chosen = _linear(robot, formulation), robot.body_of_joint.tolist()
    # Joint positions that are no sums of angles: derived for all joints, then substituted.
    direct = closed.rate.dtype.kind == 'i' and not closed.offset.any()
    model = make_formulation(formulation, robot.with_tree(named.tree) if direct else named.tree)
    q, v = (named.q[chosen], named.v[chosen]) if direct else (named.q, named.v)
    coriolis = cache(lambda: model.coriolis_matrix(q, v))
    arrays: dict[str, Any] = dict.fromkeys(QUANTITIES, np.zeros((0, 0)))
    for name, part, compute in (
        ('M', 0.0, lambda: model.mass_matrix(q)),
        ('G', 0.2, lambda: model.gravity_forces(q).reshape(-1, 1)),
        ('C', 0.25, coriolis),
        ('Cv', 0.25, lambda: (coriolis() @ v).reshape(-1, 1)),
    ):
        if name in quantities:
            report(QUANTITIES[name], part)
            arrays[name] = compute()
    algebra = Algebra(named.angles, named.symbols)
    entries, expressions = [x for array in arrays.values() for x in array.flat], list[sympy.Expr]()
    polynomials = algebra.polynomials(entries)
    for done, entry in enumerate(entries):
        report('expressions', 0.6 + 0.4 * done / len(entries))
        expressions.append(expression(algebra, polynomials.get(entry, entry)))
    in_order = iter(expressions)
    matrices = [
        sympy.ImmutableMatrix(*array.shape, list(islice(in_order, array.size)))
        for array in arrays.values()
    ]
    if not direct:
        matrices = [
            _substituted(closed, chosen, *pair) for pair in zip(arrays, matrices, strict=True)
        ]
    report('done', 1.0)
    used = {symbol.name for matrix in matrices for symbol in matrix.free_symbols}
    return ClosedForm(
        brief(robot.name),
        formulation,
        tuple((f'q{i + 1}', brief(robot.body_joints[i])) for i in chosen),
        tuple(parameter for parameter in named.parameters if parameter.name in used),
        *matrices,
    )


def _substituted(
    closed: Affine, chosen: list[int], quantity: str, matrix: sympy.Matrix
) -> sympy.Matrix:
    """Return a quantity in the coordinates, from that in all joints."""
    if not matrix:
        return matrix
    rate = sympy.Matrix(*closed.rate.shape, [sympy.nsimplify(x) for x in closed.rate.ravel()])
    offset = sympy.Matrix([sympy.nsimplify(x) for x in closed.offset])
    for letter, constant in (('q', offset), ('v', 0 * offset)):
        symbols = [sympy.Symbol(f'{letter}{i + 1}') for i in range(len(offset))]
        values = rate * sympy.Matrix([symbols[i] for i in chosen]) + constant
        matrix = matrix.subs(dict(zip(symbols, values, strict=True)), simultaneous=True)
    projected = rate.T * matrix
    return sympy.ImmutableMatrix(projected * rate if quantity in ('M', 'C') else projected)


def _linear(robot: Robot, formulation: str) -> Affine:
    """Return the joint positions by the coordinates; refuse what symbols cannot express."""
    if FORMULATIONS[known_name('formulation', formulation, FORMULATIONS)].numbers_only:
        raise ParameterError('formulation', formulation, 'it computes on numbers only')
    if not isinstance(robot.dependence, Affine):
        raise MechanismError(
            f'mechanism {robot.name!r}',
            'its joint positions are not linear functions of its coordinates',
            'closed-form equations exist only for parallelograms and similar loops',
        )
    return robot.dependence


#: Integer multiples of the angles; in a Fourier sum, the first nonzero one is positive.
Wave = tuple[int, ...]

_SINE, _COSINE = 'sin', 'cos'
_Factor = tuple[str, Wave]

#: Longer coefficients remain sums, because factoring them is slow and not informative.
_FACTORED = 60

#: Factors at (k + m) / 2 and (k - m) / 2, and number, of the sum (True) or the difference of two
#: sines or cosines at k and m.
_PRODUCTS = {
    (_COSINE, True): (_COSINE, _COSINE, 2),
    (_COSINE, False): (_SINE, _SINE, -2),
    (_SINE, True): (_SINE, _COSINE, 2),
    (_SINE, False): (_COSINE, _SINE, 2),
}


class Algebra:
    """Polynomials in named symbols and in the sines and cosines of named angles.

    Args:
        angles: Names of the angles.
        symbols: Names of all other symbols.
    """

    def __init__(self, angles: Sequence[str], symbols: Sequence[str]) -> None:
        self.angles = tuple(angles)
        names = [f'{function}({name})' for name in angles for function in (_COSINE, _SINE)]
        names += [*symbols, *angles]
        self._ring, *generators = ring(names, QQ)
        self._generators = dict(zip(names, generators, strict=True))
        self.coefficients = ring([*symbols, *angles], QQ)[0]

    def polynomials(self, results: Iterable[Operand]) -> dict[Traced, PolyElement]:
        """Return the polynomials of all traced scalars that results depend on.

        Raises:
            TypeError: The argument of a sine or cosine is not a sum of integer multiples of angles
                and quarter turns.
        """
        rules: dict[str, Callable[..., PolyElement]]
        rules = {'neg': neg, 'add': add, 'sub': sub, 'mul': self._product}
        values = dict[Traced, PolyElement]()
        for scalar in reachable(results):
            operation, operands = scalar.operation, scalar.operands
            if operation == 'input':
                values[scalar] = self._generators[operands[0]]
            elif operation == 'constant':
                values[scalar] = self._ring(_exact(operands[0]))
            elif operation in (_COSINE, _SINE):
                values[scalar] = self._turned(values[operands[0]])[operation == _SINE]
            else:
                values[scalar] = rules[operation](*(values[x] for x in operands))
        return values

    def _product(self, one: PolyElement, other: PolyElement) -> PolyElement:
        """Return a product without squares of sines: with them, it has several times the terms."""
        end = 2 * len(self.angles)
        numbers: dict[tuple[int, ...], Any] = defaultdict(int)
        for powers, number in (one * other).items():
            for lower, factor in _without_squares(powers[:end]):
                numbers[lower + powers[end:]] += factor * number
        return self._ring.from_dict(numbers)

    def _turned(self, angle: PolyElement) -> tuple[PolyElement, PolyElement]:
        """Return cosine and sine of an angle, turn by turn."""
        x, y = self._ring.one, self._ring.zero
        for monomial, number in angle.terms():
            name = str(self._ring({monomial: 1}))
            c, s = (self._generators.get(f'{f}({name})', f == _SINE) for f in (_COSINE, _SINE))
            turns = float(number) / (1.0 if name in self.angles else math.pi / 2)
            if name not in (*self.angles, '1') or abs(turns - round(turns)) > _QUARTER:
                raise TypeError(f'{angle} is no sum of multiples of angles and quarter turns')
            s = s if turns > 0 else -s
            for _ in range(abs(round(turns))):
                x, y = x * c - y * s, y * c + x * s
        return x, y

    def waves(self, polynomial: PolyElement) -> dict[Any, dict[_Factor, Any]]:
        r"""Return the unique Fourier sum of a polynomial: numbers by monomial and wave.

        Products of sines and cosines become sums,
        :math:`\cos a\cos b = \tfrac12[\cos(a - b) + \cos(a + b)]` and so on, so that terms
        cancel without a search for identities.
        """
        n = len(self.angles)
        groups: dict[Any, dict[_Factor, Any]] = defaultdict(lambda: defaultdict(int))
        for powers, number in polynomial.terms():
            waves = groups[powers[2 * n :]]
            for factor, value in _fourier(powers[: 2 * n]):
                waves[factor] += value * number
        return groups


@cache
def _without_squares(powers: tuple[int, ...]) -> list[tuple[tuple[int, ...], int]]:
    """Return powers of cosines and sines as a sum without squares of sines, which are 1 - cos².

    Args:
        powers: Of cosine and sine of each angle in turn.

    Returns:
        Powers, and the integer factor of their product.
    """
    terms: list[tuple[tuple[int, ...], int]] = [((), 1)]
    for cosines, sines in zip(powers[::2], powers[1::2], strict=True):
        squares = sines // 2
        terms = [
            ((*before, cosines + 2 * k, sines % 2), factor * (-1) ** k * math.comb(squares, k))
            for before, factor in terms
            for k in range(squares + 1)
        ]
    return terms


@cache
def _fourier(powers: tuple[int, ...]) -> list[tuple[_Factor, Any]]:
    """Return the Fourier sum of a product of powers of cosines and sines, angle by angle."""
    sines = sum(powers[1::2])
    numbers: dict[_Factor, int] = defaultdict(int)
    for combination in product(*map(_harmonics, powers[::2], powers[1::2])):
        wave = tuple(k for k, _ in combination)
        sign, factor = _normalized(_SINE if sines % 2 else _COSINE, wave)
        numbers[factor] += sign * (-1) ** (sines // 2) * math.prod(x for _, x in combination)
    return [(factor, QQ(x, 2 ** sum(powers))) for factor, x in numbers.items() if x]


def _exact(number: float) -> Any:
    """Convert a number: to a short fraction within 1e-15, otherwise exactly."""
    short = Fraction(number).limit_denominator(1000)
    exact = short if abs(short - Fraction(number)) < 1e-15 else Fraction(number)
    return QQ(exact.numerator, exact.denominator)


@cache
def _harmonics(cosines: int, sines: int) -> list[tuple[int, int]]:
    r"""Return multiples of a and their factors in :math:`(2\cos a)^p\,(2i\sin a)^r`."""
    _, z = ring('z', ZZ)
    waves = (z**2 + 1) ** cosines * (z**2 - 1) ** sines
    return [(power - cosines - sines, int(number)) for (power,), number in waves.terms()]


class _Term(NamedTuple):
    """A number times sines and cosines; the last factor can still be paired with another."""

    number: Any
    fixed: tuple[_Factor, ...]
    last: _Factor


def expression(algebra: Algebra, scalar: PolyElement | float) -> sympy.Expr:
    """Return a short SymPy expression equal to a scalar; numbers are converted exactly."""
    if not isinstance(scalar, PolyElement):
        return sympy.nsimplify(scalar)
    collected: dict[tuple[_Factor, ...], dict[Any, Any]] = defaultdict(dict)
    for monomial, waves in algebra.waves(scalar).items():
        ordered = sorted(waves.items(), key=lambda item: item[0][::-1])
        terms = [_Term(_rounded(number), (), factor) for factor, number in ordered]
        for term in _paired([term for term in terms if term.number]):
            factors = tuple(sorted(f for f in (*term.fixed, term.last) if any(f[1])))
            old = collected[factors].get(monomial, 0)
            collected[factors][monomial] = old + term.number
    parts = [
        _coefficient(algebra.coefficients.from_dict(dict(coefficients)))
        * sympy.Mul(*(_sine_or_cosine(algebra, factor) for factor in factors))
        for factors, coefficients in collected.items()
    ]
    return sympy.Add(*parts)


def _rounded(number: Any) -> Any:
    """Round a number with a long denominator, from a fixed angle, to 12 decimals."""
    if number.denominator < 10**6:
        return number
    numerator, denominator = int(number.numerator), int(number.denominator)
    return QQ((2 * 10**12 * numerator + denominator) // (2 * denominator), 10**12)


def _paired(terms: list[_Term]) -> list[_Term]:
    """Combine pairs of terms into products, the simplest first, until no pair is left."""
    options: list[tuple[Any, int, int, _Term]] = []
    left, alike = dict[int, _Term](), defaultdict[Any, list[int]](list)

    def add(term: _Term) -> None:
        added = next(numbers)
        others = alike[term.fixed, abs(term.number), term.last[0]]
        for one in filter(left.__contains__, others):
            if (product := _product_of(left[one], term)) is not None:
                heappush(options, (_complexity(product), one, added, product))
        others.append(added)
        left[added] = term

    numbers = count()
    for term in terms:
        add(term)
    while options:
        _, one, other, product = heappop(options)
        if one in left and other in left:
            del left[one], left[other]
            add(product)
    return list(left.values())


def _product_of(one: _Term, other: _Term) -> _Term | None:
    """Return the sum of two terms as one product, or None; they differ in waves and sign only."""
    (kind, k), (_, m) = one.last, other.last
    total = [x + y for x, y in zip(k, m, strict=True)]
    difference = [x - y for x, y in zip(k, m, strict=True)]
    if any(x % 2 for x in total) or not any(difference) or not any(total):
        return None
    a, b = tuple(x // 2 for x in total), tuple(x // 2 for x in difference)
    kind_a, kind_b, number = _PRODUCTS[kind, one.number == other.number]
    number, factors = number * one.number, []
    for kind, wave in ((kind_a, a), (kind_b, b)):
        sign, factor = _normalized(kind, wave)
        number *= sign
        factors.append(factor)
    # The simpler factor is fixed; the other one can still be paired.
    factors.sort(key=lambda factor: (_size(factor[1]), factor))
    return _Term(number, tuple(sorted((*one.fixed, factors[0]))), factors[1])


def _normalized(kind: str, wave: Wave) -> tuple[int, _Factor]:
    """Return a sign and an equal factor whose first nonzero multiple is positive."""
    if next((x for x in wave if x), 1) > 0:
        return 1, (kind, wave)
    return (-1 if kind == _SINE else 1), (kind, tuple(-x for x in wave))


def _size(wave: Wave) -> int:
    return sum(map(abs, wave))


def _complexity(term: _Term) -> tuple[int, Any]:
    factors = (*term.fixed, term.last)
    return sum(_size(wave) for _, wave in factors), factors


def _coefficient(polynomial: PolyElement) -> sympy.Expr:
    """Return a coefficient as an expression, factored if it is short."""
    if not 0 < len(polynomial) <= _FACTORED:
        return _with_decimals(polynomial.as_expr())
    common = tuple(map(min, zip(*polynomial, strict=True)))
    rest = polynomial.quo_term((common, QQ(1)))
    # Irreducible where one term alone has some symbol, linearly.
    if len(rest) == 1 or 1 in map(sum, zip(*rest, strict=True)):
        number, rest = rest.primitive()
        sign = -1 if rest.LC < 0 else 1
        number, factors = sign * number, [(sign * rest, 1), (polynomial.ring({common: QQ(1)}), 1)]
    else:
        number, factors = polynomial.factor_list()
    ratio = sympy.Rational(int(number.numerator), int(number.denominator))
    return _with_decimals(
        sympy.Mul(ratio, *(factor.as_expr() ** power for factor, power in factors))
    )


def _with_decimals(coefficient: sympy.Expr) -> sympy.Expr:
    """Write fractions with long denominators as decimals."""
    long = [number for number in coefficient.atoms(sympy.Rational) if number.q > 10**6]
    return coefficient.xreplace({number: sympy.Float(number, 12) for number in long})


def _sine_or_cosine(algebra: Algebra, factor: _Factor) -> sympy.Expr:
    kind, wave = factor
    angle = sympy.Add(
        *(k * sympy.Symbol(name) for k, name in zip(wave, algebra.angles, strict=True))
    )
    return sympy.sin(angle) if kind == _SINE else sympy.cos(angle)
