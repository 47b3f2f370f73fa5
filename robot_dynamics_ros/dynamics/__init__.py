# SPDX-License-Identifier: Apache-2.0
"""Formulations of robot dynamics with a common interface; energy and momentum.

Index order of derivatives: the differentiated quantity first, the joint last, so
``mass_matrix_derivatives(q)[i, j, s]`` is the derivative of M[i, j] with respect to q[s].
"""

from robot_dynamics_ros.dynamics.energy import (
    centre_of_mass,
    kinetic_energy,
    momentum,
    potential_energy,
    power,
    total_energy,
)
from robot_dynamics_ros.dynamics.formulation import Formulation
from robot_dynamics_ros.dynamics.joint_terms import linearize_driven
from robot_dynamics_ros.dynamics.registry import FORMULATIONS, make_formulation

__all__ = [
    'FORMULATIONS',
    'Formulation',
    'centre_of_mass',
    'kinetic_energy',
    'linearize_driven',
    'make_formulation',
    'momentum',
    'potential_energy',
    'power',
    'total_energy',
]
