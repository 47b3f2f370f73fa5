# SPDX-License-Identifier: Apache-2.0
"""What stands between the model and an arm's driver: units, signs, order, compensation."""
