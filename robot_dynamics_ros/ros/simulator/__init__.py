# SPDX-License-Identifier: Apache-2.0
"""Simulator and driver emulator: a plant with the topics of a robot or of its driver."""
