# SPDX-License-Identifier: Apache-2.0
"""Controller node: the topics, parameters and action of a controller session."""
