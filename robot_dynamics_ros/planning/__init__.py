# SPDX-License-Identifier: Apache-2.0
"""What is computed before the arm moves: motions, gains, default parameters, laws as C functions.

``motions`` are trajectories for any clock, ``trajectory_plan`` those of the trajectory node;
``default_motion`` chooses a motion for an arm without a configuration, ``robot_setup`` its
parameters; ``gain_design`` chooses gains, ``law_functions`` writes laws for C.
"""
