# SPDX-License-Identifier: Apache-2.0
"""Sensorless estimation of external efforts, and contact detection."""
