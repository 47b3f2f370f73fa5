# SPDX-License-Identifier: Apache-2.0
"""The monitor node: whether the model explains the efforts of a running arm."""
