# SPDX-License-Identifier: Apache-2.0
"""Bags on disk: mcap and sqlite3, compressed, split or damaged."""
