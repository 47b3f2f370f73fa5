# SPDX-License-Identifier: Apache-2.0
"""A driver profile checked by what the arm does: poses, efforts, the likely fault by name."""
