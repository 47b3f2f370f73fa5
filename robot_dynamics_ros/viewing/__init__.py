# SPDX-License-Identifier: Apache-2.0
"""Arms, programs, efforts and plots in a browser, fed with plain data from topics or bags."""
