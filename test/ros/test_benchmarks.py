# SPDX-License-Identifier: Apache-2.0
"""Benchmarks that need ROS can be started where it is installed."""

from __future__ import annotations

import pytest

from benchmark.__main__ import BENCHMARKS, run


@pytest.mark.parametrize('name', BENCHMARKS)
def test_every_benchmark_can_be_begun(name, capsys):
    with pytest.raises(SystemExit) as ended:
        run(name, ['--help'])
    assert ended.value.code == 0
    assert f'python -m benchmark {name}' in capsys.readouterr().out
