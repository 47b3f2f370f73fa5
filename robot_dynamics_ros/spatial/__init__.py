# SPDX-License-Identifier: Apache-2.0
"""Spatial algebra over numbers or symbols: rotations, screws, inertia, exact derivatives."""
