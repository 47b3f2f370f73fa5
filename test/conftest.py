# SPDX-License-Identifier: Apache-2.0
"""Shared fixtures; robots are in ``samples``, independent references in ``oracles``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

# As in every command: matrices are small, so BLAS threads would only slow each other down.
os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')

import numpy as np
import pytest
from hypothesis import settings

# Generated code and bytecode are kept between runs; their names change with their sources.
# Without the latter every process started by a test would compile its imports again.
KEPT = Path(__file__).resolve().parents[1] / '.cache'
os.environ['PYTHONPYCACHEPREFIX'] = sys.pycache_prefix = str(KEPT / 'bytecode')
os.environ.pop('PYTHONDONTWRITEBYTECODE', None)
sys.dont_write_bytecode = False

# Makes the helper modules of this folder importable, however pytest imports the tests.
sys.path.insert(0, str(Path(__file__).resolve().parent))

# The same examples on every machine, and no failures on a busy machine.
settings.register_profile('reproducible', derandomize=True, deadline=None)
settings.load_profile('reproducible')


@pytest.fixture(scope='session', autouse=True)
def _generated_code_of_tests() -> Iterator[None]:
    """Keep generated code in the checkout, not in the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('ROBOT_DYNAMICS_CACHE', str(KEPT / 'kernels'))
        yield


@pytest.fixture
def rng() -> np.random.Generator:
    """Return a generator with the same numbers in every run and test."""
    return np.random.default_rng(1988)
