# SPDX-License-Identifier: Apache-2.0
"""The driver emulator node: a simulated arm behind a driver profile."""
