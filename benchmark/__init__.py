# SPDX-License-Identifier: Apache-2.0
"""Benchmarks: ``python -m benchmark`` runs all of them, ``python -m benchmark list`` names them.

Each module has a function ``main``, and ``add_arguments`` if it has options; it prints tables and
writes JSON to out/benchmark/.
"""
