# SPDX-License-Identifier: Apache-2.0
"""Generated pages and pictures of the site, by their paths in the site."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pictures import law_errors, rooms, task_decay, tick, uses
from tables import (
    commands_page,
    modes_page,
    notation_page,
    parameters_page,
    root_page,
    topics_page,
)

PAGES: dict[str, Callable[[], str]] = {
    'index.md': partial(root_page, 'README.md'),
    'contributing.md': partial(root_page, 'CONTRIBUTING.md'),
    'commands.md': commands_page,
    'modes.md': modes_page,
    'notation.md': notation_page,
    'parameters.md': parameters_page,
    'topics.md': topics_page,
}

PICTURES: dict[str, Callable[[], str]] = {
    'pictures/law_errors.svg': law_errors,
    'pictures/rooms.svg': rooms,
    'pictures/task_decay.svg': task_decay,
    'pictures/tick.svg': tick,
    'pictures/uses.svg': uses,
}
