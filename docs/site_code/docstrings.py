# SPDX-License-Identifier: Apache-2.0
"""Convert the Sphinx formulas, roles and literal blocks of docstrings to Markdown."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import griffe

_INLINE = re.compile(r':math:`([^`]*)`', re.DOTALL)
_ROLE = re.compile(r':\w+:`~?(?:[\w.]*\.)?([^`.]+)`')
_BLOCK = re.compile(r'^( *)\.\. math::(.*\n(?:(?: *\n)*\1 +.*(?:\n|\Z))*)', re.MULTILINE)
_LITERAL = re.compile(r'::(\n\n +)')


def as_markdown(text: str) -> str:
    r"""Return a docstring with ``\(...\)`` and ``\[...\]`` in place of roles and directives."""
    text = _BLOCK.sub(_displayed, text)
    text = _INLINE.sub(lambda match: rf'\({" ".join(match[1].split())}\)', text)
    text = _ROLE.sub(r'`\1`', text)
    return _LITERAL.sub(r':\1', text)


def _displayed(match: re.Match[str]) -> str:
    formula = ' '.join(textwrap.dedent(match[2]).split())
    return f'\n{match[1]}\\[{formula}\\]\n\n'


class FromRst(griffe.Extension):
    """Converts every docstring before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Convert the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
