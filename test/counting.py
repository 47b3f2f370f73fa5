# SPDX-License-Identifier: Apache-2.0
"""Scalars that count the multiplications done with them."""

from __future__ import annotations

import math

import numpy as np


class Counted:
    """A number that counts its products, including those with plain numbers, on the class."""

    products = 0

    def __init__(self, value: float) -> None:
        self.value = float(value)

    @staticmethod
    def _value(x) -> float:
        return x.value if isinstance(x, Counted) else float(x)

    def __add__(self, x):
        return (
            NotImplemented if isinstance(x, np.ndarray) else Counted(self.value + self._value(x))
        )

    def __sub__(self, x):
        return (
            NotImplemented if isinstance(x, np.ndarray) else Counted(self.value - self._value(x))
        )

    def __rsub__(self, x):
        return (
            NotImplemented if isinstance(x, np.ndarray) else Counted(self._value(x) - self.value)
        )

    def __mul__(self, x):
        if isinstance(x, np.ndarray):
            return NotImplemented
        Counted.products += 1
        return Counted(self.value * self._value(x))

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self):
        return Counted(-self.value)

    def cos(self):
        return Counted(math.cos(self.value))

    def sin(self):
        return Counted(math.sin(self.value))


def counted(array) -> np.ndarray:
    """Return the array with every number counted."""
    values = np.asarray(array, dtype=float)
    out = np.empty(values.shape, dtype=object)
    for index, value in np.ndenumerate(values):
        out[index] = Counted(value)
    return out


def products_of(call) -> int:
    """Return the number of multiplications in a call."""
    before = Counted.products
    call()
    return Counted.products - before
