# SPDX-License-Identifier: Apache-2.0
"""Benchmarks that need ROS can be started where it is installed."""

from __future__ import annotations

from importlib import import_module

from benchmark.__main__ import BENCHMARKS


def test_every_benchmark_can_be_begun():
    assert all(callable(import_module(f'benchmark.{name}').main) for name in BENCHMARKS)
