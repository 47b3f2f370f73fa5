# SPDX-License-Identifier: Apache-2.0
"""What is evaluated of a recorded run: one question a file, chunk by chunk."""
