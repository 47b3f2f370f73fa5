# SPDX-License-Identifier: Apache-2.0
"""What a page may ask of an arm: buttons, sliders and menus before an interface of commands."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from html import escape
from typing import Any

from robot_dynamics_ros.control.laws.registry import LAWS
from robot_dynamics_ros.description.robot_description import Joint
from robot_dynamics_ros.viewing.commands import Commands
from robot_dynamics_ros.viewing.page import ArmView, Page
from robot_dynamics_ros.viewing.simulator_controls import SimulatorControls
from robot_dynamics_ros.viewing.widgets import client_of, first_number, from_page, number_slider

_RED, _GREEN = '#c0392b', '#2e9e5b'
_FIRST_SPEED = 0.25  # share, until a person says otherwise
_FASTEST_GAIN = 60.0  # rad/s
_HEAVIEST_KG = 10.0
#: Numbers of the controller that a slider sets, for all joints alike: label, range, step.
_GAINS = {
    'natural_frequency': ('natural frequency, s\u207b\u00b9', 0.0, _FASTEST_GAIN, 0.5),
    'damping_ratio': ('damping ratio', 0.0, 3.0, 0.05),
    'effort_scale': ('share of the effort limits', 0.0, 1.0, 0.01),
    'payload_mass': ('payload, kg', 0.0, _HEAVIEST_KG, 0.05),
}
_PER_JOINT = ('natural_frequency', 'damping_ratio')
_STYLE = """<style>button[style*="mantine-color-red"]{height:4.2em!important}
button[style*="mantine-color-red"] span{font-size:1.15em;font-weight:800!important}</style>
<div style="font-size:.8em;padding:0 .9em .4em">STOP deactivates every
controller. <b>It is no emergency stop</b>: keep that of the arm in reach.</div>"""


class Controls:
    """The controls of one arm.

    Args:
        page: Where they are.
        arm: The arm.
        commands: What they ask.
    """

    def __init__(self, page: Page, arm: ArmView, commands: Commands) -> None:
        self._gui, self._arm, self._commands = page.server.gui, arm, commands
        self._numbers: dict[str, Any] = {}
        self._goal: dict[str, Any] = {}
        self._given: Mapping[str, Any] = {}
        self._simulator: SimulatorControls | None = None
        self._folder = self._gui.add_folder(f'command {arm.name}')
        with self._folder:
            self._said = self._gui.add_html('')
            self._add_life_cycle()
            self._add_law()
            self._motion = self._gui.add_folder('motion', expand_by_default=False)
        with self._motion:
            self._add_motion()

    def tell(self, taken: bool, text: str) -> None:
        """Say what became of a command."""
        colour, mark = (_GREEN, '&#10003;') if taken else (_RED, 'refused:')
        self._said.content = (
            f'<div style="font-size:.85em;padding:.2em .9em;color:{colour}">'
            f'<b>{mark}</b> {escape(text)}</div>'
        )

    def show_parameters(self, given: Mapping[str, Any]) -> None:
        """Set sliders and menus to what the controller has."""
        if given == self._given:
            return
        self._given = given
        if given.get('law') in LAWS:
            self._law.value = given['law']
        self._program.value = str(given.get('program', ''))
        for name, slider in self._numbers.items():
            slider.value = min(first_number(given.get(name)), slider.max)

    def offer_joints(self) -> None:
        """Offer a slider for each joint of the arm, once they are known."""
        joints = self._arm.joints
        if self._goal or not joints or self._arm.scene is None:
            return
        with self._motion:
            for name, joint in joints.items():
                low, high = _range(joint)
                self._goal[name] = self._gui.add_slider(
                    name, min=low, max=high, step=(high - low) / 1000.0,
                    initial_value=min(max(0.0, low), high),
                )  # fmt: skip

    def offer_simulator(self, links: list[str]) -> None:
        """Offer what can be done to a simulated arm, once."""
        if self._simulator is None:
            with self._folder:
                self._simulator = SimulatorControls(self._gui, links, self._commands, self.tell)

    def _add_life_cycle(self) -> None:
        buttons = self._gui.add_button_group('life cycle', ('activate', 'deactivate'))

        def act(_: Any) -> None:
            getattr(self._commands, buttons.value)(self.tell)

        buttons.on_click(act)

    def _add_law(self) -> None:
        self._law = self._gui.add_dropdown('law', tuple(sorted(LAWS)))
        self._program = self._gui.add_text('program', '', hint='name, file or text')
        self._law.on_update(from_page(lambda _: self._set_law()))
        self._program.on_update(from_page(lambda _: self._set_law()))
        for name, (label, low, high, step) in _GAINS.items():
            self._numbers[name] = number_slider(
                self._gui, label, (low, high, step), low, self._setter(name)
            )

    def _set_law(self) -> None:
        changes = {'law': self._law.value, 'program': self._program.value}
        if changes['law'] == 'constraint_stabilization' and not changes['program']:
            self.tell(False, 'law constraint_stabilization needs a program: name one first')
            return
        self._commands.set_controller(changes, self._refusal_resets)

    def _setter(self, name: str) -> Callable[[float], None]:
        many, ask = name in _PER_JOINT, self._commands.set_controller
        return lambda value: ask({name: [value] if many else value}, self._refusal_resets)

    def _refusal_resets(self, taken: bool, text: str) -> None:
        """Say what became of a change; after a refusal show what holds."""
        self.tell(taken, text)
        if not taken:
            given, self._given = self._given, {}
            self.show_parameters(given)

    def _add_motion(self) -> None:
        gui = self._gui
        self._share = gui.add_slider(
            'speed (share of the limits)', min=0.05, max=1.0, step=0.05,
            initial_value=_FIRST_SPEED,
        )  # fmt: skip
        circle, radius = gui.add_button('circle with the tool'), gui.add_number('radius, m', 0.05)
        here, go = gui.add_button('take the present posture'), gui.add_button('move there')
        here.on_click(lambda _: self._take_posture())
        go.on_click(self._go)
        circle.on_click(
            lambda event: self._commands.circle(
                float(radius.value), self._share.value, client_of(event), self.tell
            )
        )

    def _take_posture(self) -> None:
        for name, slider in self._goal.items():
            slider.value = min(max(self._arm.position.get(name, 0.0), slider.min), slider.max)

    def _go(self, event: Any) -> None:
        goal = {name: float(slider.value) for name, slider in self._goal.items()}
        self._commands.move_to(goal, self._share.value, client_of(event), self.tell)


def add_stop(page: Page, stop: Callable[[], None]) -> None:
    """Add the large button that deactivates every controller."""
    gui = page.server.gui
    with gui.add_folder('stop', order=-3.0):
        button = gui.add_button('STOP', color='red')
        gui.add_html(_STYLE)
    button.on_click(lambda _: stop())


def _range(joint: Joint) -> tuple[float, float]:
    """Return the ends of a joint's range; a turn to either side where it has none."""
    limit = joint.limit
    if limit and limit.lower is not None and limit.upper is not None and limit.upper > limit.lower:
        return limit.lower, limit.upper
    return -math.pi, math.pi
