# SPDX-License-Identifier: Apache-2.0
r"""Short expressions from scalars in canonical form.

Waves that belong together are made products again, wherever that saves a term:

.. math::
    \cos(a + b) + \cos(a - b) &= 2\cos a\cos b, &
    \cos(a + b) - \cos(a - b) &= -2\sin a\sin b, \\
    \sin(a + b) + \sin(a - b) &= 2\sin a\cos b, &
    \sin(a + b) - \sin(a - b) &= 2\cos a\sin b,

then terms with the same sines and cosines are collected, and their coefficients factored.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations
from typing import Any, NamedTuple

import sympy
from sympy.polys.domains import QQ
from sympy.polys.rings import PolyElement

from robot_dynamics_ros.symbolic.trig_polynomial import Algebra, TrigPolynomial, Wave

#: Longer coefficients are left as sums; factoring them takes long and shows nothing.
_FACTORED = 60

_SINE, _COSINE = 'sin', 'cos'
_Factor = tuple[str, Wave]


class _Term(NamedTuple):
    """A number times sines and cosines; the last factor may still be paired with another."""

    number: Any
    fixed: tuple[_Factor, ...]
    last: _Factor


def expression(scalar: TrigPolynomial | float) -> sympy.Expr:
    """Return a short SymPy expression that equals a scalar; numbers pass through exactly."""
    if not isinstance(scalar, TrigPolynomial):
        return sympy.nsimplify(scalar)
    algebra = scalar.algebra
    collected: dict[tuple[_Factor, ...], dict[Any, Any]] = defaultdict(dict)
    for monomial, waves in _by_monomial(scalar).items():
        for term in _paired(waves):
            factors = tuple(sorted(f for f in (*term.fixed, term.last) if any(f[1])))
            old = collected[factors].get(monomial, 0)
            collected[factors][monomial] = old + term.number
    parts = [
        _coefficient(algebra.ring.from_dict(dict(coefficients)))
        * sympy.Mul(*(_circular(algebra, factor) for factor in factors))
        for factors, coefficients in collected.items()
    ]
    return sympy.Add(*parts)


def _by_monomial(scalar: TrigPolynomial) -> dict[Any, list[_Term]]:
    """Return the waves of a scalar by the product of symbols that they are multiplied with."""
    found: dict[Any, list[_Term]] = defaultdict(list)
    for wave, pair in sorted(scalar.terms.items()):
        for kind, coefficient in zip((_COSINE, _SINE), pair, strict=True):
            for monomial, number in coefficient.terms():
                if number := _rounded(number):
                    found[monomial].append(_Term(number, (), (kind, wave)))
    return found


def _rounded(number: Any) -> Any:
    """Return a number of few digits as it is; one of many, from fixed angles, to 12 decimals."""
    if number.denominator < 10**6:
        return number
    numerator, denominator = int(number.numerator), int(number.denominator)
    return QQ((2 * 10**12 * numerator + denominator) // (2 * denominator), 10**12)


def _paired(terms: list[_Term]) -> list[_Term]:
    """Make products of two terms as long as there are two that allow it."""
    while True:
        options = [
            (_complexity(product), one, other, product)
            for one, other in combinations(terms, 2)
            if (product := _product_of(one, other)) is not None
        ]
        if not options:
            return terms
        _, one, other, product = min(options, key=lambda option: option[0])
        terms = [term for term in terms if term not in (one, other)] + [product]


def _product_of(one: _Term, other: _Term) -> _Term | None:
    """Return the sum of two terms as one product, or None."""
    (kind, k), (kind_other, m) = one.last, other.last
    if one.fixed != other.fixed or abs(one.number) != abs(other.number):
        return None
    if kind != kind_other:
        return None
    total = [x + y for x, y in zip(k, m, strict=True)]
    gap = [x - y for x, y in zip(k, m, strict=True)]
    if any(x % 2 for x in total) or not any(gap) or not any(total):
        return None
    a, b = tuple(x // 2 for x in total), tuple(x // 2 for x in gap)
    equal = one.number == other.number
    if kind == _COSINE:
        pair = (_COSINE, a), (_COSINE, b)
        number = 2 * one.number
        if not equal:
            pair, number = ((_SINE, a), (_SINE, b)), -number
    else:
        pair = ((_SINE, a), (_COSINE, b)) if equal else ((_COSINE, a), (_SINE, b))
        number = 2 * one.number
    factors = []
    for kind, wave in pair:
        sign, factor = _upright(kind, wave)
        number *= sign
        factors.append(factor)
    # The simpler factor is settled, the other one may still find a partner.
    factors.sort(key=lambda factor: (_size(factor[1]), factor))
    return _Term(number, tuple(sorted((*one.fixed, factors[0]))), factors[1])


def _upright(kind: str, wave: Wave) -> tuple[int, _Factor]:
    """Return a sine or cosine of a wave whose first multiple is positive, and a sign."""
    if next(x for x in wave if x) > 0:
        return 1, (kind, wave)
    return (-1 if kind == _SINE else 1), (kind, tuple(-x for x in wave))


def _size(wave: Wave) -> int:
    return sum(map(abs, wave))


def _complexity(term: _Term) -> tuple[int, Any]:
    factors = (*term.fixed, term.last)
    return sum(_size(wave) for _, wave in factors), factors


def _coefficient(polynomial: PolyElement) -> sympy.Expr:
    """Return a coefficient, factored if it is short."""
    if len(polynomial) > _FACTORED:
        return _with_decimals(polynomial.as_expr())
    number, factors = polynomial.factor_list()
    ratio = sympy.Rational(int(number.numerator), int(number.denominator))
    return _with_decimals(
        sympy.Mul(ratio, *(factor.as_expr() ** power for factor, power in factors))
    )


def _with_decimals(coefficient: sympy.Expr) -> sympy.Expr:
    """Write fractions of many digits as decimals."""
    long = [number for number in coefficient.atoms(sympy.Rational) if number.q > 10**6]
    return coefficient.xreplace({number: sympy.Float(number, 12) for number in long})


def _circular(algebra: Algebra, factor: _Factor) -> sympy.Expr:
    kind, wave = factor
    angle = sympy.Add(
        *(k * sympy.Symbol(name) for k, name in zip(wave, algebra.angles, strict=True))
    )
    return sympy.sin(angle) if kind == _SINE else sympy.cos(angle)
