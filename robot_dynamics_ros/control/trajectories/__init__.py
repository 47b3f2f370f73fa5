# SPDX-License-Identifier: Apache-2.0
"""Joint references over time with one interface, their sampling, and their tolerances."""
