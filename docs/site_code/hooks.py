# SPDX-License-Identifier: Apache-2.0
"""MkDocs hooks: add the pages and pictures generated from the code, convert formulas to MathML.

MathML needs neither scripts nor fonts in the browser.
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
    """Add the generated pages and pictures."""
    for path, make in {**PAGES, **PICTURES}.items():
        files.append(File.generated(config, path, content=make()))
    return files


def on_page_content(content: str, **_: Any) -> str:
    """Return a page with its formulas converted to MathML."""
    return _FORMULA.sub(_mathml, content)


def _mathml(match: re.Match[str]) -> str:
    display = 'inline' if match[2] == '(' else 'block'
    return convert(html.unescape(match[3]), display=display)
