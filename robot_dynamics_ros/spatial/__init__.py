# SPDX-License-Identifier: Apache-2.0
"""Spatial algebra on numbers or symbols: rotations, screws, inertia, exact derivatives."""
