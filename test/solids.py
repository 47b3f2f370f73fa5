# SPDX-License-Identifier: Apache-2.0
"""Inertia of common homogeneous solids; numbers or symbols.

Every solid is described in a frame at its centre of mass (the cone: at the centre of its base),
axes along its axes of symmetry. Place it with ``RigidBodyInertia.transformed`` and join several
with ``inertia.combine``.

Source: newton-euler-lagrange, section 2.1; each entry follows by integration over the solid.
"""

from __future__ import annotations

import numpy as np

from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.spatial.inertia import RigidBodyInertia
from robot_dynamics_ros.spatial.scalar import Scalar


def cylinder(mass: Scalar, radius: Scalar, length: Scalar) -> RigidBodyInertia:
    r"""Return a solid cylinder along z.

    :math:`I_{xx} = I_{yy} = \tfrac1{12}m(3R^2+h^2)`, :math:`I_{zz} = \tfrac12mR^2`

    Args:
        mass: kg.
        radius: R, m.
        length: h, m.

    Raises:
        ParameterError: A number is not positive; so do all solids.
    """
    _positive(mass=mass, radius=radius, length=length)
    across = mass * (3 * radius**2 + length**2) / 12
    return _body(mass, across, across, mass * radius**2 / 2)


def tube(
    mass: Scalar, inner_radius: Scalar, outer_radius: Scalar, length: Scalar
) -> RigidBodyInertia:
    r"""Return a thick tube along z.

    :math:`I_{xx} = I_{yy} = \tfrac1{12}m(3R_i^2+3R_o^2+h^2)`,
    :math:`I_{zz} = \tfrac12m(R_i^2+R_o^2)`

    Args:
        mass: kg.
        inner_radius: R_i, m; below the outer one.
        outer_radius: R_o, m.
        length: h, m.
    """
    _positive(mass=mass, inner_radius=inner_radius, outer_radius=outer_radius, length=length)
    if _is_number(inner_radius) and _is_number(outer_radius) and inner_radius >= outer_radius:
        raise ParameterError(
            'inner_radius', inner_radius, f'must be below outer_radius {outer_radius!r}'
        )
    squares = inner_radius**2 + outer_radius**2
    across = mass * (3 * squares + length**2) / 12
    return _body(mass, across, across, mass * squares / 2)


def cylindrical_shell(mass: Scalar, radius: Scalar, length: Scalar) -> RigidBodyInertia:
    r"""Return a thin cylindrical shell along z, open at both ends.

    :math:`I_{xx} = I_{yy} = \tfrac1{12}m(6R^2+h^2)`, :math:`I_{zz} = mR^2`

    Args:
        mass: kg.
        radius: R, m.
        length: h, m.
    """
    _positive(mass=mass, radius=radius, length=length)
    across = mass * (6 * radius**2 + length**2) / 12
    return _body(mass, across, across, mass * radius**2)


def rod(mass: Scalar, length: Scalar) -> RigidBodyInertia:
    r"""Return a thin rod along x, :math:`I_{xx} = 0`, :math:`I_{yy} = I_{zz} = \tfrac1{12}mh^2`.

    Args:
        mass: kg.
        length: h, m.

    Validity: an idealization; a separate link needs :math:`I_{xx} > 0`.
    """
    _positive(mass=mass, length=length)
    across = mass * length**2 / 12
    return _body(mass, 0 * mass, across, across)


def disc(mass: Scalar, radius: Scalar) -> RigidBodyInertia:
    r"""Return a thin disc, normal z.

    :math:`I_{xx} = I_{yy} = \tfrac14mR^2`, :math:`I_{zz} = \tfrac12mR^2`

    Args:
        mass: kg.
        radius: R, m.
    """
    _positive(mass=mass, radius=radius)
    across = mass * radius**2 / 4
    return _body(mass, across, across, mass * radius**2 / 2)


def cuboid(mass: Scalar, a: Scalar, b: Scalar, c: Scalar) -> RigidBodyInertia:
    r"""Return a cuboid with edges a, b, c along x, y, z.

    :math:`I_{xx} = \tfrac1{12}m(b^2+c^2)`, :math:`I_{yy} = \tfrac1{12}m(a^2+c^2)`,
    :math:`I_{zz} = \tfrac1{12}m(a^2+b^2)`

    Args:
        mass: kg.
        a: Edge along x, m.
        b: Edge along y, m.
        c: Edge along z, m.
    """
    _positive(mass=mass, a=a, b=b, c=c)
    return _from_squares(mass, a, b, c, 12)


def sphere(mass: Scalar, radius: Scalar) -> RigidBodyInertia:
    r"""Return a solid sphere, :math:`I = \tfrac25mR^2`.

    Args:
        mass: kg.
        radius: R, m.
    """
    _positive(mass=mass, radius=radius)
    moment = 2 * mass * radius**2 / 5
    return _body(mass, moment, moment, moment)


def spherical_shell(mass: Scalar, radius: Scalar) -> RigidBodyInertia:
    r"""Return a thin spherical shell, :math:`I = \tfrac23mR^2`.

    Args:
        mass: kg.
        radius: R, m.
    """
    _positive(mass=mass, radius=radius)
    moment = 2 * mass * radius**2 / 3
    return _body(mass, moment, moment, moment)


def ellipsoid(mass: Scalar, a: Scalar, b: Scalar, c: Scalar) -> RigidBodyInertia:
    r"""Return a solid ellipsoid with semi-axes a, b, c along x, y, z.

    :math:`I_{xx} = \tfrac15m(b^2+c^2)`, :math:`I_{yy} = \tfrac15m(a^2+c^2)`,
    :math:`I_{zz} = \tfrac15m(a^2+b^2)`

    Args:
        mass: kg.
        a: Semi-axis along x, m.
        b: Semi-axis along y, m.
        c: Semi-axis along z, m.
    """
    _positive(mass=mass, a=a, b=b, c=c)
    return _from_squares(mass, a, b, c, 5)


def cone(mass: Scalar, radius: Scalar, height: Scalar) -> RigidBodyInertia:
    r"""Return a solid cone, base in the plane z = 0, tip at z = h, centre of mass at h/4.

    About the centre of mass: :math:`I_{xx} = I_{yy} = \tfrac3{80}m(4R^2+h^2)`,
    :math:`I_{zz} = \tfrac3{10}mR^2`

    Args:
        mass: kg.
        radius: R of the base, m.
        height: h, m.
    """
    _positive(mass=mass, radius=radius, height=height)
    across = 3 * mass * (4 * radius**2 + height**2) / 80
    return _body(mass, across, across, 3 * mass * radius**2 / 10, height / 4)


def _from_squares(mass: Scalar, a: Scalar, b: Scalar, c: Scalar, divisor: int) -> RigidBodyInertia:
    return _body(
        mass,
        mass * (b**2 + c**2) / divisor,
        mass * (a**2 + c**2) / divisor,
        mass * (a**2 + b**2) / divisor,
    )


def _body(
    mass: Scalar, ixx: Scalar, iyy: Scalar, izz: Scalar, com_z: Scalar = 0
) -> RigidBodyInertia:
    moments = np.array([ixx, iyy, izz])
    return RigidBodyInertia(mass, np.array([0, 0, com_z], dtype=moments.dtype), np.diag(moments))


def _is_number(value: Scalar) -> bool:
    return isinstance(value, (int, float))


def _positive(**arguments: Scalar) -> None:
    """Reject numbers that are not positive; symbols pass."""
    for name, value in arguments.items():
        if _is_number(value) and not (0.0 < value < float('inf')):
            raise ParameterError(name, value, 'must be a positive number')
