# SPDX-License-Identifier: Apache-2.0
"""From recordings to a better model: what the data tell, how surely, and what they do not."""
