# SPDX-License-Identifier: Apache-2.0
"""The controller's own session on recorded states."""
