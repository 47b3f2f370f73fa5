# SPDX-License-Identifier: Apache-2.0
"""Play recorded runs on the page, with a time slider, plots, and jumps to notable instants."""

from __future__ import annotations

import math
import os
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np

from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.messages import NANO, stamp_ns
from robot_dynamics_ros.recordings.bag.reader import BagReader
from robot_dynamics_ros.recordings.metrics.program import ProgramRun, read_program_run
from robot_dynamics_ros.recordings.reading import RecordingReader, recorded_parameters
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.viewing.arm import (
    FLASH_S,
    ArmInstant,
    ContactFlash,
    by_origin,
    diagnostic_status,
)
from robot_dynamics_ros.viewing.arm_panel import MAX_SAMPLES, effort_limit
from robot_dynamics_ros.viewing.arm_scene import MAX_TRAIL
from robot_dynamics_ros.viewing.controls import from_page
from robot_dynamics_ros.viewing.page import ArmView, Page

_DIAGNOSTICS, _RESPONSE, _COMPONENTS = '/diagnostics', '/trajectory_status', '/effort_components'

_MAX_COMPONENTS = 4000  # instants at which effort components are kept


class BagRun:
    """States, references, efforts, constraints and events of a recorded run over time.

    Attributes:
        name: Name of the bag.
        time: Times of the states since the first, shape (N,), s.
        joints: Joint names.
        description: URDF text; empty if the bag has none.
        parameters: Parameters of the controller, by name.
        program: Recorded constraint data; None if there is none.
        events: Time since the first state, s, and text of each event.
        notes: Remarks about the bag.

    Args:
        path: The bag's folder, or one of its files.
        choices: Keyword arguments of :class:`RecordingReader`, such as ``namespace``.

    Raises:
        RecordingError: The bag cannot be read, or has no states.
    """

    def __init__(self, path: str | os.PathLike[str], **choices: Any) -> None:
        with RecordingReader(path, **choices) as reader:
            (self._run,) = reader.chunks(float('inf'))
            path_of_bag = reader.bag.path.resolve()
            usual = path_of_bag.name == 'bag'
            self.name = path_of_bag.parent.name if usual else path_of_bag.stem
        run = self._run
        self._first = float(run.time[0])
        self.time, self.joints, self.notes = run.time - self._first, run.joints, run.notes
        self.description = run.description
        self.parameters: Mapping[str, Any] = recorded_parameters(run.parameters)
        self.program = _program(path, choices.get('namespace', ''))
        self.events: list[tuple[float, str]] = []
        self._timed: dict[str, list[tuple[float, Any]]] = defaultdict(list)
        self._space = f'/{namespace}/' if (namespace := choices.get('namespace', '')) else '/'
        with BagReader(path) as bag:
            for read in (self._read_events, self._read_components):
                try:
                    read(bag)  # up to a damaged message
                except RecordingError as error:
                    self.notes = (*self.notes, str(error))

    @property
    def duration(self) -> float:
        """Time of the last state since the first, s."""
        return float(self.time[-1])

    def at(self, t: float) -> ArmInstant:
        """Return the state of the arm at a time since the first state, s."""
        k = int(np.clip(np.searchsorted(self.time, t, side='right') - 1, 0, len(self.time) - 1))
        run = self._run
        status = self._status(t)
        f, sigma_min = self._constraints(t)
        start = float(status.get('program_start_s', 'nan'))
        parts = self._latest('components', t, FLASH_S)
        return ArmInstant(
            time=float(self.time[k]),
            position=dict(zip(self.joints, run.position[k].tolist(), strict=True)),
            reference=self._named(run.reference_position[k]),
            effort=self._named(run.effort[k]) or self._named(run.measured_effort[k]),
            f=f,
            sigma_min=sigma_min,
            components=by_origin(parts.name, parts.effort) if parts else {},
            touched=self._latest('contact', t, FLASH_S) or '',
            program_time=float(run.time[k]) - start,
            status=status,
        )

    def notable_instants(self) -> Iterator[tuple[str, float]]:
        """Yield names and times, s, of the largest tracking error and of all events."""
        error = np.abs(self._run.reference_position - self._run.position)
        if self.at(self.duration).error and np.isfinite(error).any():
            worst = np.unravel_index(int(np.nanargmax(error)), error.shape)
            yield f'worst error ({self.joints[worst[1]]})', float(self.time[worst[0]])
        yield from ((text, t) for t, text in self.events)

    def first_saturation(self, limits: Mapping[str, float]) -> float:
        """Return the first time at which an effort is at its limit, s; NaN if there is none.

        Args:
            limits: Effort limits by joint, N m or N; 0 if unknown.
        """
        limit = np.array([limits.get(name, 0.0) or math.inf for name in self.joints])
        with np.errstate(invalid='ignore'):
            rows = np.nonzero((np.abs(self._run.effort) >= limit * (1.0 - 1e-9)).any(axis=1))[0]
        return float(self.time[rows[0]]) if len(rows) else math.nan

    def path(self) -> Array:
        """Return at most ``MAX_TRAIL`` positions in the order of the joints, shape (k, n)."""
        rows = np.unique(np.linspace(0, len(self.time) - 1, MAX_TRAIL).astype(int))
        return self._run.position[rows]

    def _named(self, values: Array) -> dict[str, float]:
        """Return values by joint; empty if there are none."""
        known = np.isfinite(values).any()
        return dict(zip(self.joints, values.tolist(), strict=True)) if known else {}

    def _constraints(self, t: float) -> tuple[dict[str, float], float]:
        program = self.program
        if program is None:
            return {}, math.nan
        k = int(np.searchsorted(program.time - self._first, t, side='right')) - 1
        if k < 0:
            return {}, math.nan
        values = program.f[k].tolist()
        return dict(zip(program.rows, values, strict=True)), float(program.sigma_min[k])

    def _status(self, t: float) -> dict[str, str]:
        status = self._latest('status', t) or {'message': 'recorded'}
        response = self._latest('trajectory', t)
        return {**status, 'trajectory': response} if response else status

    def _latest(self, key: str, t: float, seconds: float = math.inf) -> Any:
        """Return what was last recorded under a key up to a time; None if too long before."""
        timed = self._timed[key]
        k = bisect_right(timed, t, key=itemgetter(0)) - 1
        return timed[k][1] if k >= 0 and t - timed[k][0] < seconds else None

    def _topics(self, bag: BagReader, ending: str) -> list[str]:
        return [x for x in bag.topics if x.startswith(self._space) and x.endswith(ending)]

    def _read_components(self, bag: BagReader) -> None:
        """Read the effort components at up to 4000 instants."""
        due, step = 0.0, self.duration * NANO / _MAX_COMPONENTS
        for block in bag.blocks(*self._topics(bag, _COMPONENTS)):
            for topic, time_ns, data in block:
                if time_ns >= due:
                    due = time_ns + step
                    message = bag.deserialize(data, bag.topics[topic])
                    self._add('components', stamp_ns(message) / NANO - self._first, message)

    def _add(self, key: str, t: float, value: Any, event: str = '') -> None:
        """Add a value at a time, and an event if it has a text."""
        self._timed[key].append((t, value))
        if event:
            self.events.append((t, event))

    def _read_events(self, bag: BagReader) -> None:
        """Read diagnostics and trajectory responses of the controller."""
        flash, last = ContactFlash(), ''
        for topic, time_ns, message in bag.messages(_DIAGNOSTICS, *self._topics(bag, _RESPONSE)):
            t = max(time_ns / NANO - self._first, 0.0)
            if topic != _DIAGNOSTICS:
                self._add('trajectory', t, message.data, message.data)
                continue
            for status in message.status:
                name = f'/{status.name}'
                if not (name.startswith(self._space) and name.endswith(': control loop')):
                    continue
                now = diagnostic_status(status)
                if flash.update(now, t):
                    self._add('contact', t, now.get('touched_link', ''), now['last_contact'])
                self._add('status', t, now, '' if now['message'] == last else now['message'])
                last = now['message']


def _program(path: str | os.PathLike[str], namespace: str) -> ProgramRun | None:
    """Return the constraint data of a robot in a bag; None if there is none."""
    try:
        return read_program_run(path, namespace)
    except RecordingError:
        return None


_WINDOW_S = 10.0  # time window of the plots
_RATE_HZ = 30.0  # of the poses
_WRITE_S = 0.15  # between updates of numbers and plots
_MAX_INSTANTS = 60
_SPEEDS = {'1/10': 0.1, '1/4': 0.25, '1': 1.0, '2': 2.0, '4': 4.0}


class Playback:
    """Synchronous playback of runs on a page.

    Attributes:
        time: Current time since the first state of each run, s.
        playing: Whether the playback is running.

    Args:
        page: The page.
        runs: The runs to show.
        robot: URDF text for bags without a description, or empty.
        overlay: Whether to show the second of two runs as the ghost of the first.
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
            arm.set_description(xml)
        else:
            arm.set_message('the bag has no description of the arm: give one with --robot')
        arm.draw_program(run.parameters)
        if arm.scene is not None:
            rows = [dict(zip(run.joints, q, strict=True)) for q in run.path().tolist()]
            arm.scene.trail.replace(np.array([arm.scene.tool_position(row) for row in rows]))
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
            instants = self._notable_instants()
            jump = gui.add_dropdown('go to', ('', *instants), initial_value='')
        self._slider.on_update(from_page(lambda _: self.go_to(self._slider.value)))
        self._button.on_click(lambda _: self.play(not self.playing))
        jump.on_update(from_page(lambda _: self.go_to(instants.get(jump.value, self.time))))

    def _notable_instants(self) -> dict[str, float]:
        """Return the notable instants of all runs, s, by unique name."""
        by_name: dict[str, float] = {}
        for arm, run in zip(self._arms, self._runs, strict=True):
            instants = list(run.notable_instants())
            limits = {name: effort_limit(joint) for name, joint in arm.joints.items()}
            saturated = run.first_saturation(limits)
            if not math.isnan(saturated):
                instants.insert(1, ('first saturation', saturated))
            before = f'{run.name}: ' if len(self._runs) > 1 else ''
            for name, t in instants[:_MAX_INSTANTS]:
                by_name[f'{before}{name[:60]} at {t:.3f} s'] = t
        return by_name

    def go_to(self, t: float) -> None:
        """Go to a time, s."""
        self.time = min(max(float(t), 0.0), self._duration)
        self.show(force=True)

    def play(self, on: bool) -> None:
        """Start the playback, from the beginning if it is at the end, or pause it."""
        if on and self.time >= self._duration:
            self.time = 0.0
        self.playing = on
        self._button.label = 'pause' if on else 'play'

    def advance(self, seconds: float) -> None:
        """Advance the playback by a wall-clock time, s."""
        if self.playing:
            self.time = min(self.time + _SPEEDS[self._speed.value] * seconds, self._duration)
            self.show()
            if self.time >= self._duration:
                self.play(False)

    def show(self, *, force: bool = False) -> None:
        """Show the current time: poses always, numbers and plots at a lower rate."""
        now = time.monotonic()
        write = force or now - self._written > _WRITE_S
        times = np.linspace(max(self.time - _WINDOW_S, 0.0), self.time, MAX_SAMPLES)
        with self._page.server.atomic():
            for arm, run in zip(self._arms, self._runs, strict=True):
                instant = self._with_ghost(run.at(self.time))
                arm.show(instant)
                if write:
                    arm.write(instant, map(run.at, times.tolist()))
            if write:
                self._written = now
                self._slider.value = self.time

    def _with_ghost(self, instant: ArmInstant) -> ArmInstant:
        if self._ghost is None:
            return instant
        return replace(instant, ghost=self._ghost.at(self.time).position)

    def run(self) -> None:
        """Run the playback until interrupted."""
        last = time.monotonic()
        while True:
            time.sleep(1.0 / _RATE_HZ)
            now = time.monotonic()
            self.advance(now - last)
            last = now
