# SPDX-License-Identifier: Apache-2.0
"""Fields, buttons and menus to command an arm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from robot_dynamics_ros.control.laws.registry import known_laws
from robot_dynamics_ros.parameters import Values
from robot_dynamics_ros.viewing.arm import Status
from robot_dynamics_ros.viewing.fields import (
    RED,
    Act,
    Button,
    Field,
    FieldRow,
    Reply,
    read_numbers,
)
from robot_dynamics_ros.viewing.page import ArmView, Page

_FIRST_SPEED = 0.25  # initial fraction of the limits
_FIRST_RADIUS = 0.05  # m
_MAX_PUSH_N = 100.0
#: Controller parameters with a value per joint, and others: labels.
_GAINS = {
    'natural_frequency': 'natural frequency, s\u207b\u00b9',
    'damping_ratio': 'damping ratio',
}
_SHARES = {'effort_scale': 'share of the effort limits', 'payload_mass': 'payload, kg'}
#: Simulator parameters: the load, factors of the model error, and displaced centres of mass.
_LOAD = {'payload_mass': 'load, kg'}
_MISMATCH = {
    'mass_factor': 'masses, factor',
    'armature_factor': 'drive inertia, factor',
    'damping_factor': 'viscous friction, factor',
    'coulomb_friction_factor': 'Coulomb friction, factor',
}
_COM_SHIFT = 'com_shift'
_LISTS = {*_GAINS, *_MISMATCH}  # of numbers, or one for all


def _one(text: str) -> float:
    return read_numbers(text, 1)[0]


def _three(text: str) -> list[float]:
    return read_numbers(text, 3)


def _one_or_each(count: int, text: str) -> float | list[float]:
    """Return one number, or one for each joint."""
    return read_numbers(text, count) if text.split()[1:] else _one(text)


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
        self._page, self._arm, self.commands = page, arm, commands
        self._parameters: Values = {}
        self._shown: dict[str, Field] = {}  # of parameters of the controller
        self._simulator: dict[str, Field] = {}
        self._message = ''
        gui = page.server.gui
        self._folder = gui.add_folder(f'command {arm.name}')
        with self._folder:
            self._switches = [
                self._button(word, word, partial(self._switch, word))
                for word in ('activate', 'deactivate')
            ]
            self._law = gui.add_dropdown('law', tuple(sorted(known_laws())))
            self._law_note = FieldRow(page, '', '')
            self._law.on_update(from_page(lambda _: self._change_law()))
            self._shown['program'] = self._field('program', 'program', str, self._send_program)
            for name, label in _SHARES.items():
                self._shown[name] = self._parameter('controller', name, label)
            self._gains = gui.add_folder('gains')
            self._motion = gui.add_folder('motion', expand_by_default=False)

    # Building ------------------------------------------------------------------------------------

    def _field(self, name: str, label: str, read: Any, send: Any, **options: Any) -> Field:
        return Field(self._page, f'{self._arm.name}/{name}', label, read, send, **options)

    def _button(self, name: str, label: str, act: Any, **options: Any) -> Button:
        return Button(self._page, f'{self._arm.name}/{name}', label, act, **options)

    def _parameter(self, peer: str, name: str, label: str, read: Any = _one) -> Field:
        """Add a field of a parameter of a peer; a number holds for every joint or link."""

        def send(_: int, value: Any, reply: Reply) -> None:
            changes = {name: [value] if name in _LISTS and isinstance(value, float) else value}
            self.commands.set_parameters(peer, changes, reply)

        return self._field(f'{peer}/{name}', label, read, send, asks=peer == 'controller')

    def add_joints(self) -> None:
        """Add gains and goals of the joints, once these are known."""
        joints = list(self._arm.joints)
        if self._shown.keys() & _GAINS.keys() or not joints or self._arm.scene is None:
            return
        with self._gains:
            for name, label in _GAINS.items():
                read = partial(_one_or_each, len(joints))
                self._shown[name] = self._parameter('controller', name, label, read)
        with self._motion:
            self._add_motion(joints)
        self._show()

    def add_simulator(self, links: list[str]) -> None:
        """Add the controls of a simulated arm, once: push, load and model error."""
        if self._simulator:
            return
        with self._folder, self._page.server.gui.add_folder('simulator', expand_by_default=False):
            self._add_push(links)
            for name, label in {**_LOAD, **_MISMATCH}.items():
                self._simulator[name] = self._parameter('simulator', name, label)
            label = 'centres of mass, shifted by x y z, m'
            self._simulator[_COM_SHIFT] = self._parameter('simulator', _COM_SHIFT, label, _three)
        self.commands.read_simulator(list(self._simulator), partial(_show_values, self._simulator))

    def _add_push(self, links: list[str]) -> None:
        gui = self._page.server.gui
        link = gui.add_dropdown('push link', tuple(links), initial_value=links[-1])
        push = gui.add_checkbox('push', initial_value=False)

        def act(client: int) -> None:
            x, y, z = force.value if push.value else (0.0, 0.0, 0.0)
            self.commands.push(link.value, (x, y, z), client)

        def change(client: int, value: list[float], reply: Reply) -> None:
            if max(map(abs, value)) > _MAX_PUSH_N:
                reply(False, f'at most {_MAX_PUSH_N:g} N along an axis of the link')
                return
            reply(True, '')
            act(client)

        force = self._field('force', 'force x y z in axes of the link, N', _three, change)
        force.show([0.0, 0.0, 0.0])
        for handle in (link, push):
            handle.on_update(from_page(lambda event: act(event.client_id)))

    def _add_motion(self, joints: list[str]) -> None:
        speed = self._field('speed', 'speed, share of the limits', _one, partial(_accept, 1.0))
        speed.show(_FIRST_SPEED)
        radius = self._field('radius', 'radius of the circle, m', _one, partial(_accept, 10.0))
        radius.show(_FIRST_RADIUS)

        def circle(client: int, reply: Reply) -> None:
            self.commands.circle(radius.value, speed.value, client, reply)

        def move(client: int, reply: Reply) -> None:
            goal = {name: x.value for name, x in goals.items() if isinstance(x.value, float)}
            self.commands.move_to(goal, speed.value, client, reply)

        self._button('circle', 'circle with the tool', self._of_page(circle))
        goals = {name: self._field(f'goal/{name}', f'{name} to', _one, _aim) for name in joints}

        def clear(_: int, reply: Reply) -> None:
            for field in goals.values():
                field.show('stays')
            reply(True, '')

        clear(0, lambda *_: None)
        self._button('clear', 'clear the goals', clear)
        self._button('move', 'move there', self._of_page(move), primary=True)

    def _of_page(self, act: Act) -> Act:
        """Return an action that needs a connected page, as it ends with the page."""

        def of_page(client: int, reply: Reply) -> None:
            if client in self._page.server.get_clients():
                act(client, reply)
            else:
                reply(False, 'the page is not connected yet')

        return of_page

    # Acting --------------------------------------------------------------------------------------

    def switched(self, accepted: bool, text: str) -> None:
        """Show the answer to a deactivation."""
        self._switches[1].reply(accepted, text)

    def _switch(self, word: str, _: int, reply: Reply) -> None:
        self.commands.change_state(word, reply)

    def _send_program(self, _: int, program: str, reply: Reply) -> None:
        changes = {'law': self._law.value, 'program': program}
        self.commands.set_parameters('controller', changes, reply)

    def _change_law(self) -> None:
        def reply(accepted: bool, text: str) -> None:
            self._law_note.note('' if accepted else f'refused: {text}', RED)
            if not accepted:
                self._show()

        if self._law.value == 'constraint_stabilization' and not self._parameters.get('program'):
            text = 'law constraint_stabilization requires a program: enter one, with Enter'
            self._law_note.note(text, RED)
            return
        self.commands.set_parameters('controller', {'law': self._law.value}, reply)

    # Showing -------------------------------------------------------------------------------------

    def show(self, parameters: Values, status: Status) -> None:
        """Show parameters and state of the controller; without one nothing can be commanded."""
        alive = 'message' in status and 'stale' not in status
        for row in (*self._switches, *self._shown.values()):
            row.enable(alive)
        if self._law.disabled == alive:
            self._law.disabled = not alive
        if status.get('message') != self._message:
            self._message = status.get('message', '')
            for switch in self._switches:
                switch.note('')
        if parameters != self._parameters:
            self._parameters = parameters
            self._show()

    def _show(self) -> None:
        parameters = {'program': '', **self._parameters}
        if parameters.get('law') in known_laws():
            self._law.value = parameters['law']
        _show_values(self._shown, parameters)


def _aim(_: int, position: float, reply: Reply) -> None:
    reply(True, '')


def _show_values(fields: Mapping[str, Field], values: Values) -> None:
    for name in fields.keys() & values.keys():
        value = values[name]
        equal = name in _LISTS and len(set(value)) == 1
        fields[name].show(value[0] if equal else value)


def _accept(most: float, _: int, value: float, reply: Reply) -> None:
    allowed = 0.0 < value <= most
    reply(allowed, '' if allowed else f'above 0 and at most {most:g}')


def from_page(callback: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return a callback that ignores events not caused by a browser."""

    def on_update(event: Any) -> None:
        if event.client_id is not None:
            callback(event)

    return on_update
