# SPDX-License-Identifier: Apache-2.0
"""Straight-line code as machine code, through LLVM.

It needs no compiler front end: every operation is one LLVM instruction, on a double
or on a vector of them. ``functions`` makes the one for a state and the one for blocks of
states, ``code`` compiles and loads them, ``backend`` hands them to the kernels.
"""

#: States that a batch computes side by side.
LANES = 8
