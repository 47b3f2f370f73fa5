# SPDX-License-Identifier: Apache-2.0
"""Every campaign and the parts that only real processes use can be started."""

from __future__ import annotations

from importlib import import_module

import pytest
from campaigns.__main__ import CAMPAIGNS


@pytest.mark.parametrize('name', [*CAMPAIGNS, 'fault_processes', 'fuzz_processes'])
def test_its_module_imports_what_there_is(name):
    import_module(f'campaigns.{name}')
