# SPDX-License-Identifier: Apache-2.0
"""Browser viewer for arms, programs, efforts and plots, with plain data from topics."""
