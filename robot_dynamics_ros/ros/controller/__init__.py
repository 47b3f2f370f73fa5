# SPDX-License-Identifier: Apache-2.0
"""The controller node: a session on topics, parameters and an action."""
