# SPDX-License-Identifier: Apache-2.0
"""What stands between the model and a driver."""
