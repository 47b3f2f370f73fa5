# SPDX-License-Identifier: Apache-2.0
"""Gains and margins."""
