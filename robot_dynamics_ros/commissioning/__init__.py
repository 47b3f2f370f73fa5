# SPDX-License-Identifier: Apache-2.0
"""A driver profile checked by what the arm does."""
