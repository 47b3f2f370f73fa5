# SPDX-License-Identifier: Apache-2.0
"""Benchmarks: ``python -m benchmark`` runs all, ``python -m benchmark NAME`` one of them.

The benchmark NAME is the function ``main`` of its module, with ``OPTIONS``, if any. It prints
tables; JSON and a page go to out/benchmark/, with ``--docs`` the page to docs/results/, too.
"""
