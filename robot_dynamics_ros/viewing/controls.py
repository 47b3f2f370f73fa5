# SPDX-License-Identifier: Apache-2.0
"""Buttons, sliders and menus to command an arm."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from html import escape
from typing import Any

from robot_dynamics_ros.control.laws.registry import LAWS
from robot_dynamics_ros.description.robot_description import Joint
from robot_dynamics_ros.viewing.page import ArmView, Page

#: Reports the result of a command, later: whether it was accepted, and a message.
Reply = Callable[[bool, str], None]


_RED, _GREEN = '#c0392b', '#2e9e5b'
_FIRST_SPEED = 0.25  # initial fraction of the limits
_MAX_FREQUENCY = 60.0  # rad/s
_MAX_PAYLOAD_KG = 10.0
_MAX_PUSH_N = 100.0
_FACTORS = (0.0, 3.0, 0.05)
#: Controller parameters with sliders: label; minimum, maximum and step.
_GAINS = {
    'natural_frequency': ('natural frequency, s\u207b\u00b9', (0.0, _MAX_FREQUENCY, 0.5)),
    'damping_ratio': ('damping ratio', (0.0, 3.0, 0.05)),
    'effort_scale': ('share of the effort limits', (0.0, 1.0, 0.01)),
    'payload_mass': ('payload, kg', (0.0, _MAX_PAYLOAD_KG, 0.05)),
}
#: Simulator parameters with sliders.
_PLANT = {
    'payload_mass': ('load, kg', (0.0, _MAX_PAYLOAD_KG, 0.05)),
    'mass_factor': ('masses', (0.1, 3.0, 0.05)),
    'armature_factor': ('drive inertia', _FACTORS),
    'damping_factor': ('viscous friction', _FACTORS),
    'coulomb_friction_factor': ('Coulomb friction', _FACTORS),
}
_COM_SHIFT = 'com_shift'
#: Parameters with a value per joint or link; a slider sets all of them.
_PER_JOINT = (
    *('natural_frequency', 'damping_ratio'),
    *(name for name in _PLANT if name.endswith('factor')),
)
_MODEL_ERROR = (
    '<div style="font-size:.8em;padding:.5em .9em .1em;opacity:.6">'
    'model error: factors on the values of the description</div>'
)
_STYLE = """<style>button[style*="mantine-color-red"]{height:4.2em!important}
button[style*="mantine-color-red"] span{font-size:1.15em;font-weight:800!important}</style>
<div style="font-size:.8em;padding:0 .9em .4em">STOP deactivates every
controller. <b>It is not an emergency stop</b>: keep that of the arm in reach.</div>"""


class ParameterSliders:
    """Sliders for parameters of a node; reset to the node's values if a change is rejected.

    Args:
        gui: The viser GUI.
        send: Changes parameters of the node, and reports the result.
        reply: Displays the result of a change.
        refresh: Called after a rejected change; shows the values of the node.
    """

    def __init__(
        self,
        gui: Any,
        send: Callable[[Mapping[str, Any], Reply], None],
        reply: Reply,
        refresh: Callable[[], None],
    ) -> None:
        self._gui, self._send, self._reply, self._refresh = gui, send, reply, refresh
        self._sliders: dict[str, Any] = {}

    def add(self, name: str, label: str, extent: tuple[float, float, float], first: float) -> None:
        """Add a slider for a parameter.

        Args:
            name: Name of the parameter.
            label: Label with the unit.
            extent: Minimum, maximum and step.
            first: Initial value.
        """
        low, high, step = extent
        slider = self._gui.add_slider(label, min=low, max=high, step=step, initial_value=first)

        def act(_: Any) -> None:
            value = float(slider.value)
            self.change({name: [value] if name in _PER_JOINT else value})

        slider.on_update(from_page(act))
        self._sliders[name] = slider

    def change(self, changes: Mapping[str, Any]) -> None:
        """Request changes of parameters."""
        self._send(changes, self._on_reply)

    def show(self, parameters: Mapping[str, Any]) -> None:
        """Set the sliders to the values of the node."""
        for name in self._sliders.keys() & parameters.keys():
            slider = self._sliders[name]
            slider.value = min(max(first_number(parameters[name]), slider.min), slider.max)

    def _on_reply(self, accepted: bool, text: str) -> None:
        self._reply(accepted, text)
        if not accepted:
            self._refresh()


class Controls:
    """Controls of one arm.

    Attributes:
        commands: As given.

    Args:
        page: The page to add them to.
        arm: The arm.
        commands: Receiver of the commands, an ``ArmCommands`` of ``ros.view``.
    """

    def __init__(self, page: Page, arm: ArmView, commands: Any) -> None:
        self._gui, self._arm, self.commands = page.server.gui, arm, commands
        self._sliders = ParameterSliders(
            self._gui, partial(commands.set_parameters, 'controller'), self.reply, self._refresh
        )
        self._goal: dict[str, Any] = {}
        self._parameters: Mapping[str, Any] = {}
        self._simulator: SimulatorControls | None = None
        self._folder = self._gui.add_folder(f'command {arm.name}')
        with self._folder:
            self._result = self._gui.add_html('')
            self._add_life_cycle()
            self._add_law()
            self._motion = self._gui.add_folder('motion', expand_by_default=False)
        with self._motion:
            self._add_motion()

    def reply(self, accepted: bool, text: str) -> None:
        """Display the result of a command."""
        colour, mark = (_GREEN, '&#10003;') if accepted else (_RED, 'refused:')
        self._result.content = (
            f'<div style="font-size:.85em;padding:.2em .9em;color:{colour}">'
            f'<b>{mark}</b> {escape(text)}</div>'
        )

    def show_parameters(self, parameters: Mapping[str, Any]) -> None:
        """Set sliders and menus to the parameters of the controller."""
        if parameters != self._parameters:
            self._parameters = parameters
            self._refresh()

    def add_joint_sliders(self) -> None:
        """Add a slider for each joint of the arm, once the joints are known."""
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

    def add_simulator(self, links: list[str]) -> None:
        """Add the controls of a simulated arm, once."""
        if self._simulator is None:
            with self._folder:
                self._simulator = SimulatorControls(self._gui, links, self.commands, self.reply)

    def _add_life_cycle(self) -> None:
        buttons = self._gui.add_button_group('life cycle', ('activate', 'deactivate'))
        buttons.on_click(lambda _: self.commands.change_state(buttons.value, self.reply))

    def _add_law(self) -> None:
        self._law = self._gui.add_dropdown('law', tuple(sorted(LAWS)))
        self._program = self._gui.add_text('program', '', hint='name, file or text')
        self._law.on_update(from_page(lambda _: self._set_law()))
        self._program.on_update(from_page(lambda _: self._set_law()))
        for name, (label, extent) in _GAINS.items():
            self._sliders.add(name, label, extent, extent[0])

    def _set_law(self) -> None:
        changes = {'law': self._law.value, 'program': self._program.value}
        if changes['law'] == 'constraint_stabilization' and not changes['program']:
            self.reply(False, 'law constraint_stabilization requires a program: enter one first')
            return
        self._sliders.change(changes)

    def _refresh(self) -> None:
        """Set sliders and menus to the last received parameters of the controller."""
        parameters = self._parameters
        if parameters.get('law') in LAWS:
            self._law.value = parameters['law']
        self._program.value = str(parameters.get('program', ''))
        self._sliders.show(parameters)

    def _add_motion(self) -> None:
        gui = self._gui
        self._share = gui.add_slider(
            'speed (share of the limits)', min=0.05, max=1.0, step=0.05,
            initial_value=_FIRST_SPEED,
        )  # fmt: skip
        circle, radius = gui.add_button('circle with the tool'), gui.add_number('radius, m', 0.05)
        here, go = gui.add_button('take the current position'), gui.add_button('move there')
        here.on_click(lambda _: self._copy_position())
        go.on_click(self._move)
        circle.on_click(
            lambda event: self.commands.circle(
                float(radius.value), self._share.value, event.client_id, self.reply
            )
        )

    def _copy_position(self) -> None:
        for name, slider in self._goal.items():
            slider.value = min(max(self._arm.position.get(name, 0.0), slider.min), slider.max)

    def _move(self, event: Any) -> None:
        goal = {name: float(slider.value) for name, slider in self._goal.items()}
        self.commands.move_to(goal, self._share.value, event.client_id, self.reply)


def add_stop(page: Page, stop: Callable[[], None]) -> None:
    """Add the large STOP button that deactivates all controllers to each connected browser.

    It is added once the browser has connected, as clicks before its first frame are lost silently.
    """

    def add(client: Any) -> None:
        with client.gui.add_folder('stop', order=-3.0):
            button = client.gui.add_button('STOP', color='red')
            client.gui.add_html(_STYLE)
        button.on_click(lambda _: stop())

    page.server.on_client_connect(add)


def _range(joint: Joint) -> tuple[float, float]:
    """Return the range of a joint, rad or m; (-pi, pi) if it has none."""
    span = joint.limit.range if joint.limit else None
    return span or (-math.pi, math.pi)


class SimulatorControls:
    """Push, load and model error of a simulated arm, added to the current GUI container.

    Args:
        gui: The viser GUI.
        links: Links that can be pushed.
        commands: Receiver of the commands.
        reply: Displays the result of a command.
    """

    def __init__(self, gui: Any, links: list[str], commands: Any, reply: Reply) -> None:
        self._commands = commands
        send = partial(commands.set_parameters, 'simulator')
        self._sliders = ParameterSliders(gui, send, reply, self._read)
        with gui.add_folder('simulator', expand_by_default=False):
            self._add_push(gui, links)
            for name, (label, extent) in _PLANT.items():
                self._sliders.add(name, label, extent, 1.0 if name in _PER_JOINT else 0.0)
                if name == 'payload_mass':
                    gui.add_html(_MODEL_ERROR)
            self._add_com_shift(gui)
        self._read()

    def _add_push(self, gui: Any, links: list[str]) -> None:
        most = (_MAX_PUSH_N,) * 3
        link = gui.add_dropdown('push link', tuple(links), initial_value=links[-1])
        force = gui.add_vector3(
            'force, N', (0.0, 0.0, 0.0), min=tuple(-x for x in most), max=most, step=1.0,
            hint='in the axes of the link',
        )  # fmt: skip
        push = gui.add_checkbox('push', initial_value=False)

        def act(event: Any) -> None:
            x, y, z = (float(x) if push.value else 0.0 for x in force.value)
            self._commands.push(link.value, (x, y, z), event.client_id)

        for handle in (link, force, push):
            handle.on_update(from_page(act))

    def _add_com_shift(self, gui: Any) -> None:
        """Add the control to displace the centres of mass."""
        self._shift = gui.add_vector3(
            'centres of mass, m', (0.0, 0.0, 0.0), min=(-0.1,) * 3, max=(0.1,) * 3, step=0.001,
            hint='displaced along the axes of every link',
        )  # fmt: skip

        def act(_: Any) -> None:
            shift = [float(x) for x in self._shift.value]
            self._sliders.change({_COM_SHIFT: shift})

        self._shift.on_update(from_page(act))

    def _read(self) -> None:
        self._commands.read_simulator([*_PLANT, _COM_SHIFT], self._show)

    def _show(self, parameters: Mapping[str, Any]) -> None:
        """Set the controls to the parameters of the simulator."""
        self._sliders.show(parameters)
        if len(parameters.get(_COM_SHIFT, ())) == 3:
            self._shift.value = tuple(parameters[_COM_SHIFT])


def from_page(callback: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return a callback that ignores events not caused by a browser."""

    def on_update(event: Any) -> None:
        if event.client_id is not None:
            callback(event)

    return on_update


def first_number(value: Any) -> float:
    """Return the value of a numeric parameter, the first if it is a list, else 0."""
    first = value[0] if isinstance(value, list) and value else value
    return float(first) if isinstance(first, (int, float)) else 0.0
