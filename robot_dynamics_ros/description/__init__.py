# SPDX-License-Identifier: Apache-2.0
"""Robot descriptions as written in their files: parsing, shipped files, patching."""
