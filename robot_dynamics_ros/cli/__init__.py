# SPDX-License-Identifier: Apache-2.0
"""Commands of ``python -m robot_dynamics_ros``, one module per command.

Each defines ``add_arguments(parser)``, which declares the arguments, and ``run(args)``, which
returns the exit code. ``COMMANDS`` in ``__main__`` holds the summaries that ``--help`` lists.
"""
