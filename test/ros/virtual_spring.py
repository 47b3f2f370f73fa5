# SPDX-License-Identifier: Apache-2.0
"""A law as defined by another package: springs to a pose in addition to gravity."""

import numpy as np

from robot_dynamics_ros.control.laws.control_law import ControlLaw
from robot_dynamics_ros.parameters import Parameter, spread
from robot_dynamics_ros.symbolic.kernel import compile_kernel


class VirtualSpring(ControlLaw):
    """Gravity and springs, tau = g(q) + k (q_0 - q)."""

    name = 'virtual_spring'
    remainder = 'gravity'
    follows_reference = False
    declared = (
        Parameter('stiffness', [1.0], 'Stiffness k.', 0.0, unit='N m/rad', per_joint=True),
        Parameter('rest_pose', [0.0], 'Pose q_0 at rest.', unit='rad', per_joint=True),
    )

    def __init__(self, tree, kernels=None, **parameters):
        super().__init__(tree)
        kernels = kernels or compile_kernel(tree, outputs=('gravity_forces',))
        self._gravity = kernels.gravity_forces
        self.set_parameters(parameters)

    def configure(self, parameters):
        self._k = np.array(spread(parameters['stiffness'], self.tree.n))
        self._rest = np.array(spread(parameters['rest_pose'], self.tree.n))

    def effort(self, t, q, v, reference, out):
        self._gravity(q, out)
        out += self._k * (self._rest - q)

    def parts(self, q, v, reference):
        return {'spring': self._k * (self._rest - q)}

    def status(self):
        return {'stiffest': f'{self._k.max():g} N m/rad'}
