# SPDX-License-Identifier: Apache-2.0
"""Layouts of ROS messages as bytes: read in place, written prepared; no ROS is imported."""
