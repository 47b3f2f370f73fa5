# SPDX-License-Identifier: Apache-2.0
"""The simulator node: a plant behind the topics of a robot, in lockstep or in real time."""
