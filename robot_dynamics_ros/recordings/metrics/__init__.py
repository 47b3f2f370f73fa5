# SPDX-License-Identifier: Apache-2.0
"""Metrics of recorded runs, computed chunk by chunk."""
