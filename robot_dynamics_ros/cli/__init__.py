# SPDX-License-Identifier: Apache-2.0
"""Commands of ``python -m robot_dynamics_ros``: one module each, with two functions.

``add_arguments(parser)`` declares the arguments, ``run(args)`` returns the exit code. The first
line of the module's docstring is what ``--help`` lists.
"""
