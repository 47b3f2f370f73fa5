# SPDX-License-Identifier: Apache-2.0
"""What efforts mean: filters, derivatives, the model against measured efforts."""
