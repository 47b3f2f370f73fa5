# SPDX-License-Identifier: Apache-2.0
"""Benchmarks: ``python -m benchmark`` runs all of them, ``python -m benchmark list`` names them.

The benchmark NAME is a function ``NAME_benchmark``, with ``OPTIONS[NAME]`` if it has options; it
prints tables and writes JSON to out/benchmark/.
"""
