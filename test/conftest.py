# SPDX-License-Identifier: Apache-2.0
"""What every test may ask for; robots are in ``samples``, independent answers in ``oracles``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

# As in every command: matrices are small, and threads of BLAS would only wait for each other.
os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')

import numpy as np
import pytest
from hypothesis import settings

# Generated code and bytecode last from run to run; the names of both change with their sources.
# Every process that a test starts would compile its imports anew without the latter.
KEPT = Path(__file__).resolve().parents[1] / '.cache'
os.environ['PYTHONPYCACHEPREFIX'] = sys.pycache_prefix = str(KEPT / 'bytecode')
os.environ.pop('PYTHONDONTWRITEBYTECODE', None)
sys.dont_write_bytecode = False

# The helper modules of this folder are importable in whatever way pytest imports the tests.
sys.path.insert(0, str(Path(__file__).resolve().parent))

# The same examples on every machine, and no failure because a machine is busy.
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
