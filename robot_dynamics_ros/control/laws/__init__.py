# SPDX-License-Identifier: Apache-2.0
"""Control laws, one file each behind one contract; the registry knows them by name."""
