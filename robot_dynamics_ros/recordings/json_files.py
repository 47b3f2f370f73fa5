# SPDX-License-Identifier: Apache-2.0
"""Figures as JSON that every reader takes: no NaN, no infinity."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


def json_ready(value: Any) -> Any:
    """Return a value of plain types; a number that is not finite is None."""
    if isinstance(value, Mapping):
        return {str(key): json_ready(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_ready(inner) for inner in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_json(path: Path, document: Any) -> None:
    """Write a document as JSON."""
    text = json.dumps(json_ready(document), indent=2, allow_nan=False, ensure_ascii=False)
    path.write_text(text + '\n', encoding='utf-8')
