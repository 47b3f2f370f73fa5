# SPDX-License-Identifier: Apache-2.0
"""Some benchmarks need ROS; all can be begun where it is."""

from __future__ import annotations

from benchmark.__main__ import BENCHMARKS, main_of


def test_every_benchmark_can_be_begun():
    assert all(callable(main_of(name)) for name in BENCHMARKS)
