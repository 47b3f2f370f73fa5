# SPDX-License-Identifier: Apache-2.0
"""Evaluation of bags: reading, alignment, metrics, replay, comparison, reports."""
