# SPDX-License-Identifier: Apache-2.0
"""Generated parts of the site, by the paths of their pages."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tables import (
    commands,
    notation,
    parameters,
    results,
    root_page,
    topics,
    transitions,
)

#: Pages of the site alone.
PAGES: dict[str, Callable[[], str]] = {
    'index.md': partial(root_page, 'README.md'),
    'contributing.md': partial(root_page, 'CONTRIBUTING.md'),
}

#: What follows the text of a page.
TABLES: dict[str, Callable[[], str]] = {
    'commands.md': commands,
    'modes.md': transitions,
    'notation.md': notation,
    'parameters.md': parameters,
    'results.md': results,
    'topics.md': topics,
}
