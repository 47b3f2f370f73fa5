# SPDX-License-Identifier: Apache-2.0
"""MkDocs hooks: add what is generated from the code, convert formulas to MathML.

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

from generated import PAGES, TABLES

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages."""
    for path, make in PAGES.items():
        files.append(File.generated(config, path, content=make()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return the text of a page with the tables that are generated for it.

    Links to the files of ``results`` lead to their tables on the page of the results.
    """
    markdown = re.sub(r'\]\(results/(\w+)\.md\)', r'](results.md#\1)', markdown)
    make = TABLES.get(page.file.src_uri)
    return f'{markdown}\n\n{make()}' if make else markdown


def on_page_content(content: str, **_: Any) -> str:
    """Return a page with its formulas converted to MathML."""
    return _FORMULA.sub(_mathml, content)


def _mathml(match: re.Match[str]) -> str:
    display = 'inline' if match[2] == '(' else 'block'
    return convert(html.unescape(match[3]), display=display)
