# SPDX-License-Identifier: Apache-2.0
"""Gazebo: bridge, launch, start and end of a robot."""
