# SPDX-License-Identifier: Apache-2.0
"""Control laws, trajectories and the safe shell, without ROS."""
