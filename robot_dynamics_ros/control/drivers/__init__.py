# SPDX-License-Identifier: Apache-2.0
"""Conversion between model and driver: units, signs, order, gears, compensation."""
