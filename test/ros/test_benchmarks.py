# SPDX-License-Identifier: Apache-2.0
"""Benchmarks that need ROS can be started where it is installed."""

from __future__ import annotations

from importlib import import_module

from benchmark.__main__ import MODULES


def test_every_benchmark_can_be_begun():
    assert all(
        callable(getattr(import_module(f'benchmark.{module}'), f'{name}_benchmark'))
        for name, module in MODULES.items()
    )
