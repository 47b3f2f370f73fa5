# SPDX-License-Identifier: Apache-2.0
"""The recorder node's parameters."""

from __future__ import annotations

from robot_dynamics_ros.parameters import Parameter

P = Parameter

RECORDER = (
    P('bag', '', 'Folder of the bag, which must not exist; empty: bag_<date and time>.',
      fixed=True),
    P('controller', 'controller', 'Name of the controller node whose topics are recorded.',
      fixed=True),
    P('record_clock', False, 'Whether /clock is recorded.', fixed=True),
    P('extra_topics', [''], "Further topics, each 'name' (its type is looked up once somebody "
      "publishes it) or 'name package/msg/Type'.", fixed=True),
    P('max_duration_s', 0.0, 'Length of the recording on the clock of the states, s; 0: until '
      'stopped.', 0.0, 1e9, fixed=True),
    P('progress', False, 'Whether lines "progress <time of the states in s>" go to stdout.',
      fixed=True),
    P('fail_on_loss', True, 'Whether lost messages make the exit code 1.', fixed=True),
)  # fmt: skip
