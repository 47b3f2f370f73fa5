# SPDX-License-Identifier: Apache-2.0
"""Commands of ``python -m robot_dynamics_ros``, one module per command.

Each defines its commands, see ``arguments.Command``, by name in its own ``COMMANDS``;
``COMMANDS`` in ``__main__`` holds the summaries that ``--help`` lists.
"""
