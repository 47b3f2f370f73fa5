# SPDX-License-Identifier: Apache-2.0
"""Formulations of robot dynamics, one paper a file, behind one contract."""

from robot_dynamics_ros.dynamics.formulation import Formulation
from robot_dynamics_ros.dynamics.registry import FORMULATIONS, make_formulation

__all__ = ['FORMULATIONS', 'Formulation', 'make_formulation']
