# SPDX-License-Identifier: Apache-2.0
"""What is evaluated of a recorded run: one file a question, each chunk by chunk."""
