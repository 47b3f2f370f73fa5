# SPDX-License-Identifier: Apache-2.0
"""What every test may ask for; robots are in ``samples``, independent answers in ``oracles``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

# The helper modules of this folder are importable in whatever way pytest imports the tests.
sys.path.insert(0, str(Path(__file__).resolve().parent))

# The same examples on every machine, and no failure because a machine is busy.
settings.register_profile('reproducible', derandomize=True, deadline=None)
settings.load_profile('reproducible')


@pytest.fixture(scope='session', autouse=True)
def _generated_code_of_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep generated code in one place for the session, not in the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('ROBOT_DYNAMICS_CACHE', str(tmp_path_factory.mktemp('kernels')))
        yield


@pytest.fixture
def rng() -> np.random.Generator:
    """Return a generator with the same numbers in every run and test."""
    return np.random.default_rng(1988)
