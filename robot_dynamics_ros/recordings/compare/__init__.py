# SPDX-License-Identifier: Apache-2.0
"""Two recordings against each other."""
