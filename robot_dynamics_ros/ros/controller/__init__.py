# SPDX-License-Identifier: Apache-2.0
"""The controller node."""
