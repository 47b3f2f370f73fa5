# SPDX-License-Identifier: Apache-2.0
"""Symbolic evaluation of formulations: closed-form equations, compiled kernels, C source."""
