# SPDX-License-Identifier: Apache-2.0
"""The ROS shell, one folder a node: messages, timers, life cycle; no formulas."""
