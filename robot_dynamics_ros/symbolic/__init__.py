# SPDX-License-Identifier: Apache-2.0
"""Formulations run on symbols: printed equations, compiled kernels, C source."""
