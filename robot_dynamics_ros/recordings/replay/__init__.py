# SPDX-License-Identifier: Apache-2.0
"""Replay of a controller session on recorded states."""
