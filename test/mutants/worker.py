# SPDX-License-Identifier: Apache-2.0
"""Runs given tests in their order; writes a line when one begins and when it ends."""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_ORDER = ('failed', 'skipped', 'passed')


class Reporter:
    """Selects tests and reports them.

    Args:
        tests: Their identifiers, or one test file.
        report: File of the lines.
    """

    def __init__(self, tests: list[str], report: str) -> None:
        self.tests, self.report, self.outcomes = tests, Path(report), set()

    def write(self, *values: Any) -> None:
        with self.report.open('a', encoding='utf-8') as stream:
            stream.write(json.dumps(values) + '\n')

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        found = {item.nodeid: item for item in items}
        if '::' in self.tests[0]:
            items[:] = [found[name] for name in self.tests if name in found]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.write(item.nodeid)
        self.outcomes.clear()
        processor, wall = sum(os.times()[:4]), time.monotonic()
        result = yield
        spent = sum(os.times()[:4]) - processor, time.monotonic() - wall
        self.write(item.nodeid, min(self.outcomes, key=_ORDER.index), *spent)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.outcomes.add(report.outcome)


if __name__ == '__main__':
    tests, report, options = json.loads(Path(sys.argv[1]).read_text('utf-8'))
    files = dict.fromkeys(test.partition('::')[0] for test in tests)
    options = ['-q', '--tb=line', '-p', 'no:cacheprovider', '-p', 'no:xdist', *options]
    sys.exit(pytest.main([*options, *files], plugins=[Reporter(tests, report)]))
