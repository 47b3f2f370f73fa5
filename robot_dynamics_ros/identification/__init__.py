# SPDX-License-Identifier: Apache-2.0
"""Parameter identification from recordings: excitation, regressor, estimation, validation.

``identify`` runs it in one call; ``make_plan``, ``gather`` and ``conclude`` are its three steps,
for use with many recordings or machines.
"""

from robot_dynamics_ros.estimation.regressor import (
    inertial_parameters,
    regressor,
    with_inertial_parameters,
)
from robot_dynamics_ros.identification.choice import Request
from robot_dynamics_ros.identification.correction import corrected_urdf
from robot_dynamics_ros.identification.excitation import Bounds, Excitation, design_excitation
from robot_dynamics_ros.identification.identify import (
    Identification,
    IdentificationPlan,
    conclude,
    gather,
    identify,
    make_plan,
)
from robot_dynamics_ros.identification.least_squares import Estimate
from robot_dynamics_ros.identification.physical import PhysicalParameters
from robot_dynamics_ros.identification.unknowns import TERMS, BaseParameters

__all__ = [
    'TERMS',
    'BaseParameters',
    'Bounds',
    'Estimate',
    'Excitation',
    'Identification',
    'IdentificationPlan',
    'PhysicalParameters',
    'Request',
    'conclude',
    'corrected_urdf',
    'design_excitation',
    'gather',
    'identify',
    'inertial_parameters',
    'make_plan',
    'regressor',
    'with_inertial_parameters',
]
