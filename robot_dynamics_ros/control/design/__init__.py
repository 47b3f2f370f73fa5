# SPDX-License-Identifier: Apache-2.0
"""Gain design, stability margins, and the files for a new arm."""
