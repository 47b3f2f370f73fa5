# SPDX-License-Identifier: Apache-2.0
"""A library that is imported when it is first used: a help, or a refusal, does without."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any


class PostponedModule(ModuleType):
    """Stands for a library, and becomes it when something in it is asked for."""

    def __getattr__(self, name: str) -> Any:
        """Import the library, and return what was asked for."""
        own = self.__dict__['__name__']
        if sys.modules.get(own) is self:
            del sys.modules[own]
        library = import_module(own)
        self.__class__ = ModuleType  # type: ignore[assignment] # from now on as fast as any
        self.__dict__.update(library.__dict__)
        return getattr(library, name)


@contextmanager
def postponed(name: str) -> Iterator[None]:
    """Postpone the import of a library; if it is not used at all, no trace of it is left.

    Args:
        name: Of the library; nothing happens if it is imported already, or not installed.
    """
    spec = None if name in sys.modules else find_spec(name)
    if spec is None:
        yield
        return
    module = PostponedModule(name)
    module.__spec__ = spec
    sys.modules[name] = module
    try:
        yield
    finally:
        if sys.modules.get(name) is module:
            del sys.modules[name]
