# SPDX-License-Identifier: Apache-2.0
"""Reports as HTML files that need no network."""
