# SPDX-License-Identifier: Apache-2.0
"""The node that plans a motion and sends it to a controller."""
