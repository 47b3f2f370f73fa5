# SPDX-License-Identifier: Apache-2.0
"""Tables as texts: rows of any values, and calls that are refused with what their errors say."""

import pickle
import re
from collections import ChainMap
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import yaml

from robot_dynamics_ros.errors import RobotDynamicsError


def _cells(rows: str) -> list[list[str]]:
    """Return what is before and behind the last bar of each line."""
    lines = (line.rsplit(' | ', 1) for line in rows.strip().splitlines())
    return [[cell.strip() for cell in line] for line in lines]


def _pattern(said: str) -> str:
    """Return a pattern of ``words ... words``, in this order."""
    return '(?s)' + '.*'.join(map(re.escape, said.split(' ... ')))


def rows(names: str, text: str) -> pytest.MarkDecorator:
    """Return a parametrization of a test by names, from the items of each line of a text, YAML."""
    lines = text.strip().splitlines()
    cases = [yaml.safe_load(f'[{line}]') for line in lines]
    return pytest.mark.parametrize(names.split(), cases, ids=lines)


def written(rows: str) -> pytest.MarkDecorator:
    """Return a parametrization of a test by ``given`` and ``said``, from lines of a text.

    A line is ``YAML | words ... words``: what is given, and a pattern of words in this order.
    """
    lines = _cells(rows)
    cases = [(yaml.safe_load(given), _pattern(said)) for given, said in lines]
    return pytest.mark.parametrize(('given', 'said'), cases, ids=[given for given, _ in lines])


def called(rows: str, names: dict[str, Any], *modules: ModuleType) -> Callable[..., None]:
    """Return a test of the lines ``call | error: words ... words`` of a text.

    A call is an expression of given names, and of those in modules. It raises an error of that
    class whose text contains the words in this order: culprit, number and remedy. Arrays, lists
    and mappings that it names are unchanged by it.
    """
    names = dict(ChainMap(*map(vars, modules), names))

    @pytest.mark.parametrize(('call', 'said'), _cells(rows))
    def test(call: str, said: str) -> None:
        code, (error, words) = compile(call, call, 'eval'), said.split(': ', 1)
        given = [names[x] for x in code.co_names if x in names]
        inputs = [x for x in given if isinstance(x, (np.ndarray, list, dict))]
        before = pickle.dumps(inputs)
        kinds = (RobotDynamicsError, TypeError, AttributeError)
        with pytest.raises(kinds, match=_pattern(words)) as refusal:
            eval(code, names)
        assert refusal.typename == error
        assert pickle.dumps(inputs) == before

    return test
