# SPDX-License-Identifier: Apache-2.0
"""Joint references over time, one file each behind one contract, and how they are sampled."""
