# SPDX-License-Identifier: Apache-2.0
"""Control laws, one per file with one base class; the registry finds them by name."""
