# SPDX-License-Identifier: Apache-2.0
"""Play recorded runs on the page: a slider of time, plots that move along, jumps to instants."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.viewing.arm_panel import effort_limit
from robot_dynamics_ros.viewing.bag_run import BagRun
from robot_dynamics_ros.viewing.controls import from_page
from robot_dynamics_ros.viewing.instant import ArmInstant
from robot_dynamics_ros.viewing.page import ArmView, Page

_WINDOW_S = 10.0  # of the plots
_ROWS = 400
_RATE_HZ = 30.0
_WRITE_S = 0.15
_MOST_INSTANTS = 60
_SPEEDS = {'1/10': 0.1, '1/4': 0.25, '1': 1.0, '2': 2.0, '4': 4.0}


class Playback:
    """Runs on a page, at one time.

    Attributes:
        time: From the first state of each run, s.
        playing: Whether time goes on.

    Args:
        page: Where they are shown.
        runs: One or two.
        robot: URDF text where a bag has none; empty: there is none.
        overlay: Whether the second run is the ghost of the first.
    """

    def __init__(
        self, page: Page, runs: Sequence[BagRun], robot: str = '', *, overlay: bool = False
    ) -> None:
        self.time, self.playing = 0.0, False
        self._page, self._runs = page, list(runs)
        self._ghost = self._runs.pop() if overlay and len(runs) == 2 else None
        self._arms = [self._arm(k, run, robot) for k, run in enumerate(self._runs)]
        self._duration = max(run.duration for run in runs)
        self._written = 0.0
        self._add_controls()
        self.show(force=True)

    def _arm(self, k: int, run: BagRun, robot: str) -> ArmView:
        names = [other.name for other in self._runs]
        arm = self._page.arm(run.name if names.count(run.name) == 1 else f'{run.name} {k + 1}')
        arm.name_joints(run.joints)
        xml = run.description or robot
        if xml:
            arm.describe(xml)
        else:
            arm.tell('the bag has no description of the arm: name one with --robot')
        arm.draw_program(run.parameters)
        if arm.scene is not None:
            rows = [dict(zip(run.joints, q, strict=True)) for q in run.path().tolist()]
            arm.scene.trail.replace(np.array([arm.scene.tip(row) for row in rows]))
            arm.scene.send_trails()
            arm.scene.trail_grows = False
        return arm

    def _add_controls(self) -> None:
        gui = self._page.server.gui
        with gui.add_folder('playback', order=-1.0):
            step = max(self._duration / 2000.0, 1e-3)
            self._slider = gui.add_slider(
                'time (s)', min=0.0, max=max(self._duration, step), step=step, initial_value=0.0
            )
            self._button = gui.add_button('play')
            self._speed = gui.add_dropdown('speed', tuple(_SPEEDS), initial_value='1')
            instants = self._instants()
            jump = gui.add_dropdown('go to', ('', *instants), initial_value='')
        self._slider.on_update(from_page(lambda _: self.go_to(self._slider.value)))
        self._button.on_click(lambda _: self.play(not self.playing))
        jump.on_update(from_page(lambda _: self.go_to(instants.get(jump.value, self.time))))

    def _instants(self) -> dict[str, float]:
        """Return the instants that are worth a look, by a unique name."""
        found: dict[str, float] = {}
        for arm, run in zip(self._arms, self._runs, strict=True):
            instants = list(run.instants())
            limits = {name: effort_limit(joint) for name, joint in arm.joints.items()}
            saturated = run.saturation(limits)
            if not math.isnan(saturated):
                instants.insert(1, ('first saturation', saturated))
            before = f'{run.name}: ' if len(self._runs) > 1 else ''
            for name, t in instants[:_MOST_INSTANTS]:
                found[f'{before}{name[:60]} at {t:.3f} s'] = t
        return found

    def go_to(self, t: float) -> None:
        """Go to a time, s."""
        self.time = min(max(float(t), 0.0), self._duration)
        self.show(force=True)

    def play(self, on: bool) -> None:
        """Let time go on, from the beginning if it was at the end, or stop it."""
        if on and self.time >= self._duration:
            self.time = 0.0
        self.playing = on
        self._button.label = 'pause' if on else 'play'

    def advance(self, seconds: float) -> None:
        """Let time go on by so many seconds of the clock on the wall."""
        if self.playing:
            self.time = min(self.time + _SPEEDS[self._speed.value] * seconds, self._duration)
            self.show()
            if self.time >= self._duration:
                self.play(False)

    def show(self, *, force: bool = False) -> None:
        """Show the present time: poses always, numbers and plots some times a second."""
        now = time.monotonic()
        write = force or now - self._written > _WRITE_S
        with self._page.server.atomic():
            for arm, run in zip(self._arms, self._runs, strict=True):
                instant = self._with_ghost(run.at(self.time))
                arm.show(instant)
                if write:
                    arm.write(instant, partial(self._window, run))
            if write:
                self._written = now
                self._slider.value = self.time

    def _with_ghost(self, instant: ArmInstant) -> ArmInstant:
        if self._ghost is None:
            return instant
        return replace(instant, reference=self._ghost.at(self.time).position)

    def _window(self, run: BagRun, key: str) -> tuple[Array, list[str]]:
        return run.table(key, self.time - _WINDOW_S, self.time, _ROWS)

    def run(self) -> None:
        """Play until an interrupt."""
        last = time.monotonic()
        while True:
            time.sleep(1.0 / _RATE_HZ)
            now = time.monotonic()
            self.advance(now - last)
            last = now
