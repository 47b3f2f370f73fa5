# SPDX-License-Identifier: Apache-2.0
"""What efforts mean: explained by the model in batch and online, filters, causes of residuals."""
