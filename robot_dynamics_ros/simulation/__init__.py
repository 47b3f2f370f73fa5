# SPDX-License-Identifier: Apache-2.0
"""Simulated robots with a common interface: MuJoCo, drives, imperfections, delays."""
