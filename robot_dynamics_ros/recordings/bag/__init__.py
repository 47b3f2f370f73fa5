# SPDX-License-Identifier: Apache-2.0
"""Bags on disk."""
