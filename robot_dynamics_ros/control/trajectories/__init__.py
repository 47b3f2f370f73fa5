# SPDX-License-Identifier: Apache-2.0
"""Trajectories that keep the contract of ``control/trajectory.py``."""
