# SPDX-License-Identifier: Apache-2.0
r"""Scalars in a canonical form: Fourier sums of joint angles with polynomial coefficients.

The dynamics of an arm are polynomials in the sines and cosines of its angles, and in its
parameters, prismatic positions, speeds and accelerations. Products of sines and cosines become
sums,

.. math:: \cos a\cos b = \tfrac12[\cos(a - b) + \cos(a + b)], \quad\text{and so on},

so every scalar is a sum :math:`\sum_k C_k\cos(k\cdot q) + S_k\sin(k\cdot q)` over integer vectors
k. The form is unique: equal scalars have the same terms, and terms cancel without a search for
identities.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from sympy.polys.domains import QQ
from sympy.polys.rings import PolyElement, ring

#: Integer multiples of the angles; in a sum, the first nonzero one is positive.
Wave = tuple[int, ...]
_Term = tuple[Wave, PolyElement, PolyElement]

_NUMBERS = (int, float, Fraction)
_HALF = QQ(1, 2)


class Algebra:
    """The named angles and other symbols of a set of scalars.

    Args:
        angles: Names of the angles.
        symbols: Names of all other symbols.
    """

    def __init__(self, angles: Sequence[str], symbols: Sequence[str]) -> None:
        self.angles, self.symbols = tuple(angles), tuple(symbols)
        self.ring, *self._generators = ring(list(symbols), QQ)

    def angle(self, name: str) -> Angle:
        """Return a named angle."""
        return Angle(self, tuple(int(name == other) for other in self.angles))

    def quarter_turns(self, count: int) -> Angle:
        """Return the fixed angle of ``count`` quarter turns."""
        return Angle(self, (0,) * len(self.angles), count)

    def symbol(self, name: str) -> TrigPolynomial:
        """Return a symbol that is not an angle, as a scalar."""
        return self.scalar(self._generators[self.symbols.index(name)])

    def scalar(self, coefficient: PolyElement) -> TrigPolynomial:
        """Return a polynomial in the symbols as a scalar."""
        return self.sum([((0,) * len(self.angles), coefficient, self.ring.zero)])

    def number(self, value: float | Fraction) -> TrigPolynomial:
        """Convert a number to a scalar, exactly."""
        exact = Fraction(value)
        return self.scalar(self.ring.ground_new(QQ(exact.numerator, exact.denominator)))

    def sum(self, terms: Iterable[_Term]) -> TrigPolynomial:
        """Return the sum of waves with given coefficients of cosine and sine."""
        total: dict[Wave, tuple[PolyElement, PolyElement]] = {}
        for wave, cosine, sine in terms:
            leading = next((k for k in wave if k), 0)
            if leading < 0:
                wave, sine = tuple(-k for k in wave), -sine
            elif leading == 0:
                sine = self.ring.zero
            old = total.get(wave)
            total[wave] = (cosine, sine) if old is None else (old[0] + cosine, old[1] + sine)
        return TrigPolynomial(self, {k: pair for k, pair in total.items() if any(pair)})


class Angle:
    """An integer combination of named angles, plus quarter turns.

    Sums and integer multiples of angles are angles, and an angle has a sine and a cosine. It is
    not a scalar: in equations of motion, angles occur only in sines and cosines.
    """

    __slots__ = ('_algebra', '_quarters', '_wave')

    def __init__(self, algebra: Algebra, wave: Wave, quarters: int = 0) -> None:
        self._algebra, self._wave, self._quarters = algebra, wave, quarters % 4

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Angle):
            wave = tuple(a + b for a, b in zip(self._wave, other._wave, strict=True))
            return Angle(self._algebra, wave, self._quarters + other._quarters)
        if isinstance(other, _NUMBERS):
            return Angle(self._algebra, self._wave, self._quarters + _quarter_turns(other))
        if isinstance(other, TrigPolynomial) and not other.terms:  # 0 times a symbol
            return self
        return NotImplemented

    def __mul__(self, factor: Any) -> Any:
        if not isinstance(factor, _NUMBERS):
            return NotImplemented
        if factor != int(factor):
            raise TypeError(f'{factor} times an angle has no sine in closed form')
        if factor == 0:
            return 0
        wave = tuple(int(factor) * k for k in self._wave)
        return Angle(self._algebra, wave, int(factor) * self._quarters)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Angle:
        return Angle(self._algebra, tuple(-k for k in self._wave), -self._quarters)

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def cos(self) -> TrigPolynomial:
        """Return the cosine."""
        return self._shifted_cosine(self._quarters)

    def sin(self) -> TrigPolynomial:
        """Return the sine, which is the cosine of the angle minus a quarter turn."""
        return self._shifted_cosine(self._quarters - 1)

    def _shifted_cosine(self, quarters: int) -> TrigPolynomial:
        zero, one = self._algebra.ring.zero, self._algebra.ring.one
        cosine, sine = ((one, zero), (zero, -one), (-one, zero), (zero, one))[quarters % 4]
        return self._algebra.sum([(self._wave, cosine, sine)])


def _quarter_turns(angle: float | Fraction) -> int:
    turns = float(angle) / (math.pi / 2)
    if abs(turns - round(turns)) > 1e-9:
        raise TypeError(f'{angle} rad is not a multiple of a quarter turn; give it a name')
    return round(turns)


class TrigPolynomial:
    """A scalar in canonical form; see the module docstring.

    Attributes:
        algebra: Its angles and symbols.
        terms: Coefficients of cosine and sine by wave; waves with zero coefficients are omitted.
    """

    __slots__ = ('algebra', 'terms')

    def __init__(
        self, algebra: Algebra, terms: dict[Wave, tuple[PolyElement, PolyElement]]
    ) -> None:
        self.algebra, self.terms = algebra, terms

    def __add__(self, other: Any) -> Any:
        other = self._as_scalar(other)
        if other is None:
            return NotImplemented
        both = (*self.terms.items(), *other.terms.items())
        return self.algebra.sum((wave, *pair) for wave, pair in both)

    def __mul__(self, other: Any) -> Any:
        other = self._as_scalar(other)
        if other is None:
            return NotImplemented
        terms: list[_Term] = []
        for a in self.terms.items():
            for b in other.terms.items():
                terms += _product(a, b)
        return self.algebra.sum(terms)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> TrigPolynomial:
        return TrigPolynomial(self.algebra, {k: (-c, -s) for k, (c, s) in self.terms.items()})

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __truediv__(self, other: Any) -> Any:
        if not isinstance(other, _NUMBERS):
            return NotImplemented
        return self * (1 / Fraction(other))

    def __pow__(self, exponent: int) -> TrigPolynomial:
        result = self.algebra.number(1)
        for _ in range(exponent):
            result = result * self
        return result

    def __eq__(self, other: object) -> bool:
        scalar = self._as_scalar(other)
        return scalar is not None and self.terms == scalar.terms

    __hash__ = None  # type: ignore[assignment]

    def _as_scalar(self, other: Any) -> TrigPolynomial | None:
        """Convert a scalar or number to a scalar; None for anything else, such as arrays."""
        if isinstance(other, TrigPolynomial):
            return other
        return self.algebra.number(other) if isinstance(other, _NUMBERS) else None


def _product(
    a: tuple[Wave, tuple[PolyElement, PolyElement]],
    b: tuple[Wave, tuple[PolyElement, PolyElement]],
) -> list[_Term]:
    """Return the product of two waves as a sum of waves."""
    (wave_a, (cos_a, sin_a)), (wave_b, (cos_b, sin_b)) = a, b
    if not any(wave_b):
        return [(wave_a, cos_a * cos_b, sin_a * cos_b)]
    if not any(wave_a):
        return [(wave_b, cos_b * cos_a, sin_b * cos_a)]
    cc, ss, sc, cs = cos_a * cos_b, sin_a * sin_b, sin_a * cos_b, cos_a * sin_b
    total = tuple(k + m for k, m in zip(wave_a, wave_b, strict=True))
    difference = tuple(k - m for k, m in zip(wave_a, wave_b, strict=True))
    return [
        (total, (cc - ss) * _HALF, (sc + cs) * _HALF),
        (difference, (cc + ss) * _HALF, (sc - cs) * _HALF),
    ]
