# SPDX-License-Identifier: Apache-2.0
"""From recordings to figures: bags, metrics, reports."""
