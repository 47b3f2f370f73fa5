# SPDX-License-Identifier: Apache-2.0
"""The probable slip behind an inertia that no body has, or that does not fit the size of its link.

A tensor is tried in other orders, with parallel axes undone, with elements exchanged, and in other
units; what makes a real body of it, or one of the right size, is named.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import product as pairs

import numpy as np

from robot_dynamics_ros.description.urdf import TENSOR, Inertial
from robot_dynamics_ros.model.build import last_digit
from robot_dynamics_ros.spatial.inertia import inconsistency, shift_inertia, symmetric_tensor
from robot_dynamics_ros.spatial.rotation import rotation_from_rpy
from robot_dynamics_ros.spatial.scalar import Array

_REAL_BODY = 'a real body has positive principal moments, each at most the sum of the others'
_USUAL = (
    'in kg m^2 about the centre of mass, ixx ixy ixz iyy iyz izz: were parallel axes subtracted '
    'twice, or are the entries in another order?'
)
_MOMENTS = [name for name in TENSOR if name[1] == name[2]]
_PRODUCTS = [name for name in TENSOR if name not in _MOMENTS]
_MILLIMETRE = 1e-3  # m: a centre of mass is not known better
_CENTIMETRE = 1e-2
#: Orders in which other programs write a tensor.
_ORDERS = (
    ('ixx', 'iyy', 'izz', 'ixy', 'ixz', 'iyz'),
    ('ixx', 'ixy', 'iyy', 'ixz', 'iyz', 'izz'),
    ('ixx', 'iyy', 'izz', 'ixy', 'iyz', 'ixz'),
)
#: Units of moments of inertia and lengths, in SI units.
_INERTIAS = {
    'kg mm^2': 1e-6, 'kg cm^2': 1e-4, 'g mm^2': 1e-9, 'g cm^2': 1e-7, 'lb in^2': 2.9264e-4,
}  # fmt: skip
_LENGTHS = {'mm': 1e-3, 'cm': 1e-2, 'inches': 0.0254}
_HEAVY = 50.0  # kg: what a link that weighs more may weigh in g
_SMALLEST_PART = 0.1  # of the length of a link that its body may have


def is_beyond_rounding(inertial: Inertial) -> bool:
    """Return whether a negative principal moment is more than the rounding of a file.

    Rounding is a millionth of the largest moment, or what the mass has at the radius of 1 mm. If
    no moment on the diagonal is negative, the last digits of the file add to it; up to 5 % of the
    largest moment, or what the mass has at the radius of 1 cm.
    """
    elements = inertial[2:]
    moments = np.linalg.eigvalsh(symmetric_tensor(elements))
    largest, mass = float(np.abs(moments).max()), abs(inertial.mass)
    allowed = 1e-6 * largest + mass * _MILLIMETRE**2
    if min(inertial.ixx, inertial.iyy, inertial.izz) >= 0.0:
        digits = [last_digit(x) for x in elements if x]
        most = max(0.05 * largest, mass * _CENTIMETRE**2)
        allowed += min(1.5 * min(digits, default=0.0), most)
    return bool(moments[0] < -allowed)


def inertia_remedy(inertial: Inertial) -> str:
    """Return the probable slip that made an impossible tensor, and what would be right."""
    moments = np.linalg.eigvalsh(symmetric_tensor(inertial[2:]))
    beyond = moments[2] - moments[0] - moments[1]
    gross = beyond > max(0.05 * moments[2], inertial.mass * _MILLIMETRE**2)
    if gross or is_beyond_rounding(inertial):
        for said in _slips(inertial):
            return f'{_REAL_BODY}: {said}'
    return _REAL_BODY


def _slips(inertial: Inertial) -> Iterator[str]:
    tensor, elements = symmetric_tensor(inertial[2:]), inertial[2:]
    R, com = rotation_from_rpy(*inertial.origin.rpy), np.array(inertial.origin.xyz)
    if _is_real(shift_inertia(tensor, inertial.mass, R.T @ com)):
        yield 'the parallel-axis term m r^2 seems to be subtracted twice'
    repeated = math.isclose(inertial.iyy, inertial.ixy)
    if repeated and inertial.iyz > 2.0 * max(abs(inertial.iyy), abs(inertial.izz)):
        yield 'it seems to hold the first six numbers of a 3x3 matrix, row by row'
    if _is_real(-tensor):
        yield 'all signs seem to be reversed'
    for product, moment in pairs(_PRODUCTS, _MOMENTS):
        exchanged = dict(zip(TENSOR, elements, strict=True))
        exchanged[product], exchanged[moment] = exchanged[moment], exchanged[product]
        if not exchanged[product] and _is_real(symmetric_tensor([*exchanged.values()])):
            yield f'{product} seems to be in the place of {moment}'
    orders = [
        ' '.join(order)
        for order in _ORDERS
        for given in [dict(zip(order, elements, strict=True))]
        if _is_real(symmetric_tensor([given[name] for name in TENSOR]))
    ]
    if orders:
        yield f'its numbers seem to be in the order {" or ".join(orders)}'
    negative = [name for name in _MOMENTS if getattr(inertial, name) < 0.0]
    if negative:
        yield f'{" and ".join(negative)} cannot be negative; give it {_USUAL}'
    for name in _PRODUCTS:
        first, second = (f'i{2 * axis}' for axis in name[1:])
        if getattr(inertial, name) ** 2 > getattr(inertial, first) * getattr(inertial, second):
            yield f'{name} exceeds what {first} and {second} allow'


def _is_real(tensor: Array) -> bool:
    return bool(np.isfinite(tensor).all()) and not inconsistency(tensor, 1e-3)


def inertia_unit(
    edge: float, density: float, mass: float, longest: float, densities: tuple[float, float]
) -> str:
    """Return all units in which a tensor is that of a possible body, in words.

    Args:
        edge: Longest edge of the box that has the moments as given, m.
        density: Least density of the body as given, kg/m^3; infinite if it is flat.
        mass: As given, kg.
        longest: Longest possible edge, m.
        densities: Bounds of the density, kg/m^3.
    """

    def fits(size: float, of_mass: float) -> bool:
        found = of_mass * density / size**1.5  # it goes with m^2.5 J^-1.5; J has the mass, too
        within = densities[0] <= found <= densities[1]
        return edge * size**0.5 <= longest and (within or not math.isfinite(found))

    units = [name for name, size in _INERTIAS.items() if fits(size, 1.0)]
    if mass > _HEAVY:  # both may be in grams
        both = {name: size for name, size in _INERTIAS.items() if name.startswith('kg')}
        units += [f'{name[1:]}, the mass in g,' for name, size in both.items() if fits(size, 1e-3)]
    return _asked(units)


def length_unit(distance: float, length: float) -> str:
    """Return in which units a distance fits a link, in words."""
    return _asked(name for name, size in _LENGTHS.items() if _fits(distance * size, length))


def mass_unit(mass: float, density: float, least: float, most: float) -> str:
    """Return in which units a heavy mass gives a density (kg/m^3) within bounds, in words."""
    # Of the given moments and of moments in grams, too: the density goes with m^2.5 J^-1.5.
    factors = (1e-3**2.5, 1e-3) if mass > _HEAVY else ()
    return _asked(['g'] if any(least <= factor * density <= most for factor in factors) else [])


def _fits(size: float, length: float) -> bool:
    return _SMALLEST_PART * length <= size <= 1.2 * length


def _asked(units: Iterable[str]) -> str:
    words = ' or '.join(units)
    return f'; is it in {words}?' if words else ''
