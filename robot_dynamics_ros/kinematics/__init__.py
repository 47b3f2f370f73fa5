# SPDX-License-Identifier: Apache-2.0
"""Closed forms of the two arms, numeric inverse for the others, paths of the tool."""
