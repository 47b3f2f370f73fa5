# SPDX-License-Identifier: Apache-2.0
"""The recorder node: topics to an mcap bag, without losing one message."""
