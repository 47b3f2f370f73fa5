# SPDX-License-Identifier: Apache-2.0
"""Tables of refusals of a room: what is called, the error, and what its text contains."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import yaml


def by_error(
    rows: Mapping[type[Exception], Mapping[str, Callable[[], Any] | list[Callable[[], Any]]]],
) -> pytest.MarkDecorator:
    """Return a parametrization by ``call``, ``error`` and ``text``, what an error contains."""
    cases = [
        (call, error, text)
        for error, texts in rows.items()
        for text, calls in texts.items()
        for call in (calls if isinstance(calls, list) else [calls])
    ]
    return pytest.mark.parametrize(('call', 'error', 'text'), cases)


def every(rows: Mapping[type[Exception], Any]) -> Callable[..., None]:
    """Return a test that checks every row of a table."""

    @by_error(rows)
    def test(call: Callable[[], Any], error: type[Exception], text: str) -> None:
        check(call, error, text)

    return test


def written(rows: str) -> pytest.MarkDecorator:
    """Return a parametrization of a test by ``given`` and ``said``, from lines of a text.

    A line is ``YAML | words ... words``: what is given, and a pattern of words in this order.
    """
    lines = [line.rsplit(' | ', 1) for line in rows.strip().splitlines()]
    cases = [
        (yaml.safe_load(given), '(?s)' + '.*'.join(map(re.escape, said.strip().split(' ... '))))
        for given, said in lines
    ]
    return pytest.mark.parametrize(('given', 'said'), cases, ids=[row.strip() for row, _ in lines])


def check(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    """Check that a call raises an error that names culprit, number and remedy.

    The arrays, lists and mappings that its code names are unchanged by it.

    Args:
        call: A lambda of a table; its inputs are globals of the module.
        error: The error, or a base.
        text: Pattern of its message.
    """
    known = (call.__globals__.get(name) for name in call.__code__.co_names)
    inputs = [value for value in known if isinstance(value, (np.ndarray, list, dict))]
    before = pickle.dumps(inputs)
    with pytest.raises(error, match=text):
        call()
    assert pickle.dumps(inputs) == before
