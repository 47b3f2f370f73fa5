# SPDX-License-Identifier: Apache-2.0
"""The ROS shell: nodes and message conversions, no formulas."""
