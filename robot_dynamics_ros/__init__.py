# SPDX-License-Identifier: Apache-2.0
"""Computed torque and constraint stabilization with cross-checked recursive dynamics."""

__version__ = '0.2.0'
