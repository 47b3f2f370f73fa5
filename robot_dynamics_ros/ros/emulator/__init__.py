# SPDX-License-Identifier: Apache-2.0
"""The driver emulator node."""
