# SPDX-License-Identifier: Apache-2.0
"""A real browser for tests: displayed text, pixels and positions of points."""

from __future__ import annotations

import base64
import contextlib
import io
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from PIL import Image
from playwright.sync_api import sync_playwright

CHROMIUM = shutil.which('chromium') or shutil.which('chromium-browser') or ''
# Rendering without a graphics card; half the pixels each way take a quarter of the time.
_OPTIONS = ['--no-sandbox', '--use-gl=angle', '--use-angle=swiftshader',
            '--enable-unsafe-swiftshader']  # fmt: skip
_HEIGHT = 750
_SCALE = 0.5
#: An idle machine needs seconds, a busy one a minute.
PATIENCE_S = 90.0


@contextmanager
def chromium() -> Iterator[Any]:
    """Yield a browser; skip the test with the reason if there is none."""
    if not CHROMIUM:
        pytest.skip('chromium is not installed (apt install chromium)')
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=_OPTIONS)
        _favour_other_sessions()
        try:
            yield browser
        finally:
            browser.close()


def _favour_other_sessions() -> None:
    """Raise the priority of the browser's session if the kernel schedules by session.

    Next to two busy loops it got a twentieth of a processor. Without root this has no effect.
    """
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(OSError):
            if os.getsid(child.pid) != os.getsid(0):
                Path(f'/proc/{child.pid}/autogroup').write_text('-15', encoding='ascii')


class Tab:
    """An open page of a browser; a context manager."""

    def __init__(self, browser: Any, address: str, width: int = 1300) -> None:
        self._context = browser.new_context(
            viewport={'width': width, 'height': _HEIGHT}, device_scale_factor=_SCALE
        )
        self.page = self._context.new_page()
        self.page.set_default_timeout(1e3 * PATIENCE_S)
        self.errors: list[str] = []
        self.page.on('pageerror', lambda error: self.errors.append(str(error)))
        self.page.goto(address)

    def __enter__(self) -> Tab:
        return self

    def __exit__(self, *_: object) -> None:
        self._context.close()

    def button(self, name: str) -> Any:
        """Return the button of a name."""
        return self.page.get_by_role('button', name=name, exact=True)

    def enter(self, name: str, text: str) -> None:
        """Enter a text in the field of an action of the viewer."""
        field = self.page.locator(f'input[data-act="{name}"]')
        field.fill(text)
        field.press('Enter')

    @property
    def text(self) -> str:
        """Visible text of the page."""
        return str(self.page.inner_text('body'))

    def reads(self, text: str, meanwhile: Callable[[], Any] = lambda: None) -> None:
        """Wait until a text is visible; call a function repeatedly meanwhile."""
        self.until(lambda: text in self.text, f'{text!r} on the page', meanwhile)

    def until(
        self,
        condition: Callable[[], Any],
        what: str,
        meanwhile: Callable[[], Any] = lambda: None,
    ) -> Any:
        """Return the first true value of a condition."""
        end = time.monotonic() + PATIENCE_S
        while not (value := condition()):
            meanwhile()
            if time.monotonic() > end:
                raise AssertionError(f'{what}: not within {PATIENCE_S:g} s; page:\n{self.text}')
            self.page.wait_for_timeout(100.0)
        return value

    def picture(self) -> np.ndarray:
        """Return the page as pixels, shape (height, width, 3)."""
        session = self._context.new_cdp_session(self.page)
        png = base64.b64decode(session.send('Page.captureScreenshot')['data'])
        return np.asarray(Image.open(io.BytesIO(png)).convert('RGB'))

    def canvas(self) -> tuple[float, float, float, float]:
        """Return left, top, width and height of the scene, in pixels of a picture."""
        boxes = [x.bounding_box() for x in self.page.locator('canvas').all()]
        box = max((x for x in boxes if x), key=lambda x: x['width'] * x['height'])
        return tuple(box[key] for key in ('x', 'y', 'width', 'height'))

    def pixel(self, point: Any, camera: Any) -> np.ndarray:
        """Return where a pinhole camera (position, look_at, fov) sees a point, x to the right."""
        left, top, width, height = self.canvas()
        eye = np.array(camera.position)
        forward = np.array(camera.look_at) - eye
        forward = forward / np.linalg.norm(forward)
        right = np.cross(forward, (0.0, 0.0, 1.0))
        right = right / np.linalg.norm(right)
        seen = np.array([right, np.cross(right, forward), forward]) @ (np.array(point) - eye)
        x, y = seen[:2] / seen[2] * (height / 2.0) / np.tan(camera.fov / 2.0)
        return np.array([left + width / 2.0 + x, top + height / 2.0 - y])


# Some environments set fonts that never become ready; a picture does not wait for them.
os.environ.setdefault('PW_TEST_SCREENSHOT_NO_FONTS_READY', '1')
