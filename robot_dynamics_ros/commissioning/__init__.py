# SPDX-License-Identifier: Apache-2.0
"""Verification of a driver profile from poses and efforts of the arm, with likely faults."""
