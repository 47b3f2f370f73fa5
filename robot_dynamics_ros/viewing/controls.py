# SPDX-License-Identifier: Apache-2.0
"""Buttons, sliders and menus to command an arm."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from html import escape
from typing import Any

from robot_dynamics_ros.control.laws.registry import known_laws
from robot_dynamics_ros.viewing.page import ArmView, Page

#: Reports the result of a command, later: whether it was accepted, and a message.
Reply = Callable[[bool, str], None]

_RED, _GREEN = '#c0392b', '#2e9e5b'
_FIRST_SPEED = 0.25  # initial fraction of the limits
_MAX_PUSH_N = 100.0
_FACTORS = (0.0, 3.0, 0.05)
#: Controller parameters with sliders: label; minimum, maximum and step.
_GAINS = {
    'natural_frequency': ('natural frequency, s\u207b\u00b9', (0.0, 60.0, 0.5)),
    'damping_ratio': ('damping ratio', (0.0, 3.0, 0.05)),
    'effort_scale': ('share of the effort limits', (0.0, 1.0, 0.01)),
    'payload_mass': ('payload, kg', (0.0, 10.0, 0.05)),
}
#: Simulator parameters with sliders: the load, and the model error.
_LOAD = {'payload_mass': ('load, kg', (0.0, 10.0, 0.05))}
_MISMATCH = {
    'mass_factor': ('masses', (0.1, 3.0, 0.05)),
    'armature_factor': ('drive inertia', _FACTORS),
    'damping_factor': ('viscous friction', _FACTORS),
    'coulomb_friction_factor': ('Coulomb friction', _FACTORS),
}
_COM_SHIFT = 'com_shift'
#: Parameters with a value per joint or link; a slider sets all of them.
_PER_JOINT = ('natural_frequency', 'damping_ratio', *_MISMATCH)
_MODEL_ERROR = (
    '<div style="font-size:.8em;padding:.5em .9em .1em;opacity:.6">'
    'model error: factors on the values of the description</div>'
)
_STYLE = """<style>button[style*="mantine-color-red"]{height:4.2em!important}
button[style*="mantine-color-red"] span{font-size:1.15em;font-weight:800!important}</style>
<div style="font-size:.8em;padding:0 .9em .4em">STOP deactivates every
controller. <b>It is not an emergency stop</b>: keep that of the arm in reach.</div>"""


class NodeParameters:
    """Controls of parameters of a node; they show the node's values if a change is rejected.

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
        self._controls: dict[str, tuple[Any, Callable[[Any], Any]]] = {}

    def bind(self, name: str, control: Any, shown: Callable[[Any], Any]) -> None:
        """Let a control show a parameter; ``shown`` converts the value of the parameter."""
        self._controls[name] = control, shown

    def add_sliders(self, sliders: Mapping[str, tuple[str, tuple[float, float, float]]]) -> None:
        """Add sliders: label, and minimum, maximum and step, by parameter."""
        for name, (label, (low, high, step)) in sliders.items():
            first = 1.0 if name in _MISMATCH else low
            slider = self._gui.add_slider(label, min=low, max=high, step=step, initial_value=first)
            slider.on_update(from_page(partial(self._send_slider, name, slider)))
            self.bind(name, slider, partial(_within, slider))

    def _send_slider(self, name: str, slider: Any, _: Any) -> None:
        value = float(slider.value)
        self.change({name: [value] if name in _PER_JOINT else value})

    def change(self, changes: Mapping[str, Any]) -> None:
        """Request changes of parameters."""
        self._send(changes, self._on_reply)

    def show(self, parameters: Mapping[str, Any]) -> None:
        """Set the controls to the values of the node."""
        for name in self._controls.keys() & parameters.keys():
            control, shown = self._controls[name]
            control.value = shown(parameters[name])

    def _on_reply(self, accepted: bool, text: str) -> None:
        self._reply(accepted, text)
        if not accepted:
            self._refresh()


class Controls:
    """Controls of one arm, and of its simulator if there is one.

    Attributes:
        commands: As given.

    Args:
        page: The page to add them to.
        arm: The arm.
        commands: Receiver of the commands, an ``ArmCommands`` of ``ros.view``.
    """

    def __init__(self, page: Page, arm: ArmView, commands: Any) -> None:
        self._gui, self._arm, self.commands = page.server.gui, arm, commands
        self._goal: dict[str, Any] = {}
        self._parameters: Mapping[str, Any] = {}
        self._simulator: NodeParameters | None = None
        self._folder = self._gui.add_folder(f'command {arm.name}')
        with self._folder:
            self._result = self._gui.add_html('')
            buttons = self._gui.add_button_group('life cycle', ('activate', 'deactivate'))
            buttons.on_click(lambda _: self.commands.change_state(buttons.value, self.reply))
            self._controller = self._add_controller()
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
                span = joint.limit.range if joint.limit else None
                low, high = span or (-math.pi, math.pi)
                self._goal[name] = self._gui.add_slider(
                    name, min=low, max=high, step=(high - low) / 1000.0,
                    initial_value=min(max(0.0, low), high),
                )  # fmt: skip

    def add_simulator(self, links: list[str]) -> None:
        """Add the controls of a simulated arm, once: push, load and model error."""
        if self._simulator is not None:
            return
        gui, send = self._gui, partial(self.commands.set_parameters, 'simulator')
        peer = self._simulator = NodeParameters(gui, send, self.reply, self._read_simulator)
        with self._folder, gui.add_folder('simulator', expand_by_default=False):
            self._add_push(links)
            peer.add_sliders(_LOAD)
            gui.add_html(_MODEL_ERROR)
            peer.add_sliders(_MISMATCH)
            hint = 'displaced along the axes of every link'
            shift = self._add_vector('centres of mass, m', 0.1, 0.001, hint)
        peer.bind(_COM_SHIFT, shift, tuple)
        shift.on_update(from_page(lambda _: peer.change({_COM_SHIFT: list(shift.value)})))
        self._read_simulator()

    def _read_simulator(self) -> None:
        if self._simulator is not None:
            names = [*_LOAD, *_MISMATCH, _COM_SHIFT]
            self.commands.read_simulator(names, self._simulator.show)

    def _add_vector(self, label: str, most: float, step: float, hint: str) -> Any:
        ends = (-most,) * 3, (most,) * 3
        return self._gui.add_vector3(
            label, (0.0, 0.0, 0.0), min=ends[0], max=ends[1], step=step, hint=hint
        )

    def _add_push(self, links: list[str]) -> None:
        link = self._gui.add_dropdown('push link', tuple(links), initial_value=links[-1])
        force = self._add_vector('force, N', _MAX_PUSH_N, 1.0, 'in the axes of the link')
        push = self._gui.add_checkbox('push', initial_value=False)

        def act(event: Any) -> None:
            x, y, z = (float(x) if push.value else 0.0 for x in force.value)
            self.commands.push(link.value, (x, y, z), event.client_id)

        for handle in (link, force, push):
            handle.on_update(from_page(act))

    def _add_controller(self) -> NodeParameters:
        """Add law, program and gains of the controller."""
        send = partial(self.commands.set_parameters, 'controller')
        peer = NodeParameters(self._gui, send, self.reply, self._refresh)
        law = self._gui.add_dropdown('law', tuple(sorted(known_laws())))
        program = self._gui.add_text('program', '', hint='name, file or text')

        def act(_: Any) -> None:
            if law.value == 'constraint_stabilization' and not program.value:
                text = 'law constraint_stabilization requires a program: enter one first'
                self.reply(False, text)
            else:
                peer.change({'law': law.value, 'program': program.value})

        for handle in (law, program):
            handle.on_update(from_page(act))
        peer.bind('law', law, lambda name: name if name in known_laws() else law.value)
        peer.bind('program', program, str)
        peer.add_sliders(_GAINS)
        return peer

    def _refresh(self) -> None:
        """Show the last received parameters of the controller."""
        self._controller.show({'program': '', **self._parameters})

    def _add_motion(self) -> None:
        gui = self._gui
        share = gui.add_slider(
            'speed (share of the limits)', min=0.05, max=1.0, step=0.05,
            initial_value=_FIRST_SPEED,
        )  # fmt: skip
        circle, radius = gui.add_button('circle with the tool'), gui.add_number('radius, m', 0.05)
        here, go = gui.add_button('take the current position'), gui.add_button('move there')

        def move(event: Any) -> None:
            goal = {name: float(slider.value) for name, slider in self._goal.items()}
            self.commands.move_to(goal, share.value, event.client_id, self.reply)

        here.on_click(lambda _: self._copy_position())
        go.on_click(move)
        circle.on_click(
            lambda event: self.commands.circle(
                float(radius.value), share.value, event.client_id, self.reply
            )
        )

    def _copy_position(self) -> None:
        for name, slider in self._goal.items():
            position, joint = self._arm.position.get(name, 0.0), self._arm.joints[name]
            if joint.kind == 'continuous':
                position = math.remainder(position, 2.0 * math.pi)
            slider.value = _within(slider, position)


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


def from_page(callback: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return a callback that ignores events not caused by a browser."""

    def on_update(event: Any) -> None:
        if event.client_id is not None:
            callback(event)

    return on_update


def _within(slider: Any, value: Any) -> float:
    """Return a number, the first if it is a list, within the range of a slider; else its least."""
    first = value[0] if isinstance(value, list) and value else value
    number = float(first) if isinstance(first, (int, float)) else 0.0
    return float(min(max(number, slider.min), slider.max))
