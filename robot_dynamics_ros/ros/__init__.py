# SPDX-License-Identifier: Apache-2.0
"""ROS layer: messages, timers and life cycle of the nodes; no formulas."""
