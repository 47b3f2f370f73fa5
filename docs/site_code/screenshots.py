# SPDX-License-Identifier: Apache-2.0
"""Write screenshots of the viewer and of a report into ``docs/images``.

``python docs/site_code/screenshots.py [NAME…]`` requires chromium, the dependencies
of the tests, and for the report the runs of ``make demo`` in ``out``.
"""

from __future__ import annotations

import base64
import io
import re
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

from robot_dynamics_ros.cli.processes import SceneProcesses, own_domain

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / 'out'
#: Running arms: their names, and arguments of the controller.
RUNNING = {
    'viewer_ghost': ('scara', ['--law', 'pd_gravity']),
    'viewer_program': (
        'four_dof',
        ['--law', 'constraint_stabilization', '--program', 'four_dof_moving_plane'],
    ),
    'viewer_control': ('four_dof', []),
}
_REPORT, _REPORT_S = 'scara/pd_gravity/report.html', 2.2
_OPTIONS = ['--no-sandbox', '--use-gl=angle', '--use-angle=swiftshader',
            '--enable-unsafe-swiftshader']  # fmt: skip
_COLOURS = 256
_TIMEOUT_MS = 120_000
_SETTLE_MS = 15_000  # the scene fades in and is rendered without a GPU
_USUAL, _HIGH, _OF_REPORT = (1400, 800), (1400, 1240), (1100, 1270)  # pixels
_LOW = (1400, 500)  # a small scene, so that the page responds immediately


def main() -> None:
    """Write all pictures, or those named on the command line."""
    pictures: dict[str, Any] = {name: partial(live, *RUNNING[name]) for name in RUNNING}
    pictures['report'] = report
    with sync_playwright() as driver:
        chromium = shutil.which('chromium')
        browser = driver.chromium.launch(executable_path=chromium, args=_OPTIONS)
        for name in sys.argv[1:] or pictures:
            with pictures[name](browser) as tab:
                file = ROOT / 'docs' / 'images' / f'{name}.png'
                file.write_bytes(photograph(tab))
                print(f'{file.relative_to(ROOT)}: {file.stat().st_size // 1000} kB', flush=True)
        browser.close()


@contextmanager
def live(arm: str, law: list[str], browser: Any) -> Iterator[Any]:
    """Yield the viewer page of a running arm: under a program, on a circle, or also pushed."""
    place = ['--robot', arm, '--namespace', arm]
    with own_domain() as domain, SceneProcesses(OUT / 'screenshots', domain) as nodes:
        slow = ['-p', 'mode:=real_time', '-p', 'real_time_factor:=0.05']
        slow += ['-p', 'push_timeout_s:=9.']
        nodes.start_command('simulator', ['simulate', *place, *slow])
        slow_peer = ['-p', 'state_timeout_s:=60.', '-p', 'wrench_frame:=tool']
        slow_peer += ['-p', 'autostart:=true']
        nodes.start_command('controller', ['control', *place, *law, *slow_peer])
        page = ['--port', '0', '--rate', '5', *([] if law else ['--control'])]
        nodes.start_command('view', ['view', *page])
        if '--program' not in law and law:
            nodes.start_command('trajectory', ['send', *place])
        while not (match := re.search(r'http://\S+', nodes.output('view'))):
            time.sleep(0.2)
        tab = opened(browser, match.group(), _USUAL if law else _LOW)
        tab.get_by_text('active: ').first.wait_for(timeout=_TIMEOUT_MS)
        if not law:
            command(tab)
            tab.set_viewport_size(_extent(_HIGH))
            tab.get_by_role('button', name='STOP').scroll_into_view_if_needed()
        tab.wait_for_timeout(2 * _SETTLE_MS)
        yield tab


def command(tab: Any) -> None:
    """Send a circle, and push the arm."""
    tab.get_by_text('motion', exact=True).first.click()
    tab.get_by_role('button', name='circle with the tool').click()
    tab.get_by_text('a motion of').first.wait_for(timeout=_TIMEOUT_MS)
    tab.get_by_text('motion', exact=True).first.click()
    tab.get_by_text('simulator', exact=True).first.click()
    force = tab.locator('input[data-act$="/force"]').first
    force.fill('0 8 0')
    force.press('Enter')
    tab.locator('label:text-is("push")').locator('xpath=following::input').first.click()


@contextmanager
def report(browser: Any) -> Iterator[Any]:
    """Yield a report with the arm shown during its motion."""
    tab = browser.new_page(viewport=_extent(_OF_REPORT))
    tab.goto((OUT / _REPORT).as_uri())
    time_slider = tab.locator('.arm input')
    time_slider.fill(str(_REPORT_S))
    time_slider.blur()
    tab.wait_for_timeout(_SETTLE_MS)
    yield tab


def _extent(size: tuple[int, int]) -> dict[str, int]:
    return {'width': size[0], 'height': size[1]}


def opened(browser: Any, address: str, size: tuple[int, int] = _USUAL) -> Any:
    """Return a tab with a viewer page, once it shows an arm."""
    tab = browser.new_page(viewport=_extent(size))
    tab.set_default_timeout(_TIMEOUT_MS)
    tab.goto(address)
    tab.get_by_text('t = ').first.wait_for(timeout=_TIMEOUT_MS)
    tab.add_style_tag(content='.mantine-Notification-root {display: none}')
    tab.wait_for_timeout(_SETTLE_MS)
    return tab


def photograph(tab: Any) -> bytes:
    """Return a screenshot of a tab as PNG with a reduced palette, and close the tab."""
    session = tab.context.new_cdp_session(tab)
    shot = base64.b64decode(session.send('Page.captureScreenshot')['data'])
    tab.close()
    image = Image.open(io.BytesIO(shot)).convert('RGB')
    stream = io.BytesIO()
    image.quantize(_COLOURS, Image.Quantize.MAXCOVERAGE).save(stream, 'PNG', optimize=True)
    return stream.getvalue()


if __name__ == '__main__':
    main()
