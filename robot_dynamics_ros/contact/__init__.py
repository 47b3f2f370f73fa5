# SPDX-License-Identifier: Apache-2.0
"""What the world does to the arm: external efforts without a sensor, contacts."""
