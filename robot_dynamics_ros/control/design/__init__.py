# SPDX-License-Identifier: Apache-2.0
"""Gains, margins, and the set-up of an arm of one's own."""
