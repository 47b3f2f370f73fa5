# SPDX-License-Identifier: Apache-2.0
"""Benchmarks that need ROS can be started where it is installed."""

from __future__ import annotations

from benchmark.__main__ import BENCHMARKS, main_of


def test_every_benchmark_can_be_begun():
    assert all(callable(main_of(name)) for name in BENCHMARKS)
