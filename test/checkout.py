# SPDX-License-Identifier: Apache-2.0
"""The folder of this project."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
