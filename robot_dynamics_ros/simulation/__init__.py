# SPDX-License-Identifier: Apache-2.0
"""Simulated robots behind one contract: MuJoCo, drives, imperfections, delays."""
