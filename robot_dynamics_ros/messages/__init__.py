# SPDX-License-Identifier: Apache-2.0
"""Layouts of ROS messages as bytes; no ROS is imported."""
