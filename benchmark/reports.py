# SPDX-License-Identifier: Apache-2.0
"""Size and opening time of a report, and of the same page without packing."""

from __future__ import annotations

import argparse
import base64
import re
import shutil
import statistics
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from benchmark.measuring import Results
from benchmark.recordings import write_bag
from robot_dynamics_ros.cli.arguments import option
from robot_dynamics_ros.errors import MissingDependencyError
from robot_dynamics_ros.recordings.metrics.analysis import AnalysisSettings, analyze_bag
from robot_dynamics_ros.recordings.report.figures import plot_library

_PATIENCE_MS = 300_000
_VIEW = {'width': 1100, 'height': 800}
_OPTIONS = ['--no-sandbox', '--use-gl=angle', '--use-angle=swiftshader',
            '--enable-unsafe-swiftshader']  # fmt: skip
#: Whether arm and plots that are in view are drawn.
_DRAWN = """() => document.querySelector('.arm').scene &&
  [...document.querySelectorAll('.plot')].every((plot) =>
    plot.getBoundingClientRect().top > innerHeight || plot.classList.contains('js-plotly-plot'))"""
#: Draws every plot at once, and takes data that are not packed.
_PLAIN = """<script>
IntersectionObserver = class {
  constructor(seen) { this.seen = seen; }
  observe(target) { this.seen([{target, isIntersecting: true}]); }
};
fetch = async (url) => new Response(new Blob([document.getElementById('plain').textContent]));
DecompressionStream = class extends TransformStream { constructor() { super(); } };
</script>"""


def main(args: argparse.Namespace, results: Results) -> int:
    """A report, and the same page without packing: size, and time until it is drawn."""
    chromium = shutil.which('chromium')
    if chromium is None:
        raise MissingDependencyError('chromium', 'opening reports', 'apt install chromium')
    with tempfile.TemporaryDirectory() as folder:
        bag = args.bag or Path(folder, 'bag')
        if args.bag is None:
            write_bag(bag, 10.0)
        analyze_bag(bag, AnalysisSettings(tables=False), Path(folder))
        pages = {'report': Path(folder, 'report.html'), 'not packed': Path(folder, 'plain.html')}
        pages['not packed'].write_text(plain(pages['report'].read_text('utf-8')), 'utf-8')
        seconds: dict[str, list[float]] = {name: [] for name in pages}
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=chromium, args=_OPTIONS)
            for _ in range(args.rounds):
                for name, page in pages.items():
                    seconds[name].append(opening(browser, page))
            browser.close()
        rows = [
            {
                'page': name,
                'MB': page.stat().st_size * 1e-6,
                'opened, s': statistics.median(seconds[name]),
                'fastest, s': min(seconds[name]),
                'slowest, s': max(seconds[name]),
            }
            for name, page in pages.items()
        ]
    results.table('report of a recording, opened in Chromium with software WebGL, in turns', rows)
    return 0


def plain(html: str) -> str:
    """Return a page with data and library as text, which draws all plots at once."""
    packed = re.search(r'id="data">(.*?)</script>', html, re.DOTALL)
    assert packed is not None
    data = zlib.decompress(base64.b64decode(packed.group(1))).decode()
    data = f'<script type="application/json" id="plain">{data}</script>'
    library = f'<script>{plot_library().decode()}</script>'
    start = html.index('<script type="application/octet-stream" id="data">')
    end = html.index('<script>', start)
    empty = '<script id="data" type="text/plain"></script><script id="library" type="text/plain">'
    parts = (html[:start], data, library, _PLAIN, f'{empty}</script>', html[end:])
    return '\n'.join(parts).replace("await unpacked('library')", "''")


def opening(browser: Any, page: Path) -> float:
    """Return the time until arm and plots in view are drawn, s."""
    tab = browser.new_page(viewport=_VIEW)
    begin = time.perf_counter()
    tab.set_default_timeout(_PATIENCE_MS)
    tab.goto(page.as_uri())
    tab.evaluate('ready')
    tab.wait_for_function(_DRAWN)
    seconds = time.perf_counter() - begin
    tab.close()
    return seconds


OPTIONS = {
    '--bag': option(Path, 'recording (default: ten simulated seconds of the SCARA)'),
    '--rounds': option(5, 'how often each page is opened'),
}
