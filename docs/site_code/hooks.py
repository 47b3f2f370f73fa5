# SPDX-License-Identifier: Apache-2.0
"""What the site is made of besides the pages in docs/: pages and pictures from the code.

Formulas become MathML here, so that a browser needs neither a script nor a font for them.
"""

from __future__ import annotations

import html
import re
import sys
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))

from generated import PAGES, PICTURES

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages and pictures that are made from the code."""
    for path, make in {**PAGES, **PICTURES}.items():
        files.append(File.generated(config, path, content=make()))
    return files


def on_page_content(content: str, **_: Any) -> str:
    """Return a page with its formulas as MathML."""
    return _FORMULA.sub(_mathml, content)


def _mathml(match: re.Match[str]) -> str:
    display = 'inline' if match[2] == '(' else 'block'
    return convert(html.unescape(match[3]), display=display)
