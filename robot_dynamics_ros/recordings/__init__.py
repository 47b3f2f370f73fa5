# SPDX-License-Identifier: Apache-2.0
"""From bags to figures: reading, alignment, metrics, replay, comparison, reports."""
