# SPDX-License-Identifier: Apache-2.0
"""Control laws with one base class; the registry finds them by name."""
