# SPDX-License-Identifier: Apache-2.0
"""The robot as written in its file: links, joints, limits; parsed, shipped, patched."""
