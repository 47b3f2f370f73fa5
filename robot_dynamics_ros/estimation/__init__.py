# SPDX-License-Identifier: Apache-2.0
"""Comparison of efforts with the model, offline and online; filters; causes of residuals."""
