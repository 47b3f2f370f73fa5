# SPDX-License-Identifier: Apache-2.0
"""What a page may ask of an arm: buttons, sliders and menus before an interface of commands.

The interface by which a page commands an arm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, Protocol

from robot_dynamics_ros.control.laws.registry import LAWS
from robot_dynamics_ros.description.robot_description import Joint
from robot_dynamics_ros.viewing.page import ArmView, Page

#: Says what became of a command: whether it was taken, and the reason or what is.
Tell = Callable[[bool, str], None]


class Commands(Protocol):
    """What an arm can be asked; every method returns at once and tells later."""

    def set_controller(self, changes: Mapping[str, Any], tell: Tell) -> None:
        """Change parameters of the controller."""

    def set_simulator(self, changes: Mapping[str, Any], tell: Tell) -> None:
        """Change parameters of the simulator."""

    def activate(self, tell: Tell) -> None:
        """Activate the controller."""

    def deactivate(self, tell: Tell) -> None:
        """Deactivate the controller."""

    def move_to(self, goal: Mapping[str, float], share: float, client: int, tell: Tell) -> None:
        """Move the joints to a point, rad or m, at a share of the velocity limits."""

    def circle(self, radius: float, share: float, client: int, tell: Tell) -> None:
        """Lead the tool once around a circle from where it is, m, at a share of the speed."""

    def read_simulator(
        self, names: Sequence[str], take: Callable[[Mapping[str, Any]], None]
    ) -> None:
        """Read parameters of the simulator."""

    def push(self, link: str, force: tuple[float, float, float], client: int) -> None:
        """Push a link of a simulated arm, N in its axes, until told otherwise; zero: let go."""

    def lapse(self, client: int) -> None:
        """End what a page has begun, which is gone."""


_RED, _GREEN = '#c0392b', '#2e9e5b'
_FIRST_SPEED = 0.25  # share, until a person says otherwise
_FASTEST_GAIN = 60.0  # rad/s
_HEAVIEST_KG = 10.0
_STRONGEST_N = 100.0
_FACTORS = (0.0, 3.0, 0.05)
#: Parameters of the controller that a slider sets: label; least and greatest value, and step.
_GAINS = {
    'natural_frequency': ('natural frequency, s\u207b\u00b9', (0.0, _FASTEST_GAIN, 0.5)),
    'damping_ratio': ('damping ratio', (0.0, 3.0, 0.05)),
    'effort_scale': ('share of the effort limits', (0.0, 1.0, 0.01)),
    'payload_mass': ('payload, kg', (0.0, _HEAVIEST_KG, 0.05)),
}
#: The same of the simulator.
_PLANT = {
    'payload_mass': ('load, kg', (0.0, _HEAVIEST_KG, 0.05)),
    'mass_factor': ('masses', (0.1, 3.0, 0.05)),
    'armature_factor': ('drive inertia', _FACTORS),
    'damping_factor': ('viscous friction', _FACTORS),
    'coulomb_friction_factor': ('Coulomb friction', _FACTORS),
}
_CENTRES = 'com_shift'
#: Those that have a value for each joint or link; a slider sets all alike.
_PER_JOINT = (
    *('natural_frequency', 'damping_ratio'),
    *(name for name in _PLANT if name.endswith('factor')),
)
_MODEL_ERROR = (
    '<div style="font-size:.8em;padding:.5em .9em .1em;opacity:.6">'
    'model error: factors on what the description says</div>'
)
_STYLE = """<style>button[style*="mantine-color-red"]{height:4.2em!important}
button[style*="mantine-color-red"] span{font-size:1.15em;font-weight:800!important}</style>
<div style="font-size:.8em;padding:0 .9em .4em">STOP deactivates every
controller. <b>It is no emergency stop</b>: keep that of the arm in reach.</div>"""


class ParameterSliders:
    """Sliders for parameters of a node; after a refusal they show what holds.

    Args:
        gui: Of viser.
        ask: Changes parameters of the node, and tells.
        tell: Says what became of a change.
        refresh: Called after a refusal; shows what the node has.
    """

    def __init__(
        self,
        gui: Any,
        ask: Callable[[Mapping[str, Any], Tell], None],
        tell: Tell,
        refresh: Callable[[], None],
    ) -> None:
        self._gui, self._ask, self._tell, self._refresh = gui, ask, tell, refresh
        self._sliders: dict[str, Any] = {}

    def add(self, name: str, label: str, extent: tuple[float, float, float], first: float) -> None:
        """Add a slider of a parameter.

        Args:
            name: Of the parameter.
            label: Beside it, with the unit.
            extent: Least and greatest value, and step.
            first: Value at the beginning.
        """
        low, high, step = extent
        slider = self._gui.add_slider(label, min=low, max=high, step=step, initial_value=first)

        def act(_: Any) -> None:
            value = float(slider.value)
            self.change({name: [value] if name in _PER_JOINT else value})

        slider.on_update(from_page(act))
        self._sliders[name] = slider

    def change(self, changes: Mapping[str, Any]) -> None:
        """Ask for other parameters."""
        self._ask(changes, self._answered)

    def show(self, parameters: Mapping[str, Any]) -> None:
        """Set the sliders to what the node has."""
        for name in self._sliders.keys() & parameters.keys():
            slider = self._sliders[name]
            slider.value = min(max(first_number(parameters[name]), slider.min), slider.max)

    def _answered(self, taken: bool, text: str) -> None:
        self._tell(taken, text)
        if not taken:
            self._refresh()


class Controls:
    """The controls of one arm.

    Args:
        page: Where they are.
        arm: The arm.
        commands: What they ask.
    """

    def __init__(self, page: Page, arm: ArmView, commands: Commands) -> None:
        self._gui, self._arm, self._commands = page.server.gui, arm, commands
        self._sliders = ParameterSliders(
            self._gui, commands.set_controller, self.tell, self._show_again
        )
        self._goal: dict[str, Any] = {}
        self._parameters: Mapping[str, Any] = {}
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

    def show_parameters(self, parameters: Mapping[str, Any]) -> None:
        """Set sliders and menus to what the controller has."""
        if parameters != self._parameters:
            self._parameters = parameters
            self._show_again()

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
        for name, (label, extent) in _GAINS.items():
            self._sliders.add(name, label, extent, extent[0])

    def _set_law(self) -> None:
        changes = {'law': self._law.value, 'program': self._program.value}
        if changes['law'] == 'constraint_stabilization' and not changes['program']:
            self.tell(False, 'law constraint_stabilization needs a program: name one first')
            return
        self._sliders.change(changes)

    def _show_again(self) -> None:
        """Set sliders and menus to what the controller was last heard to have."""
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
    """Add the large button that deactivates every controller, to each browser once it is heard.

    What is clicked before a browser has drawn its first picture is lost, without a word.
    """

    def add(client: Any) -> None:
        with client.gui.add_folder('stop', order=-3.0):
            button = client.gui.add_button('STOP', color='red')
            client.gui.add_html(_STYLE)
        button.on_click(lambda _: stop())

    page.server.on_client_connect(add)


def _range(joint: Joint) -> tuple[float, float]:
    """Return the ends of a joint's range; a turn to either side where it has none."""
    span = joint.limit.range if joint.limit else None
    return span or (-math.pi, math.pi)


class SimulatorControls:
    """Push, load and model error of a simulated arm, in the container that is in use.

    Args:
        gui: Of viser.
        links: That may be pushed.
        commands: What is asked.
        tell: Says what became of it.
    """

    def __init__(self, gui: Any, links: list[str], commands: Commands, tell: Tell) -> None:
        self._gui, self._commands = gui, commands
        self._sliders = ParameterSliders(gui, commands.set_simulator, tell, self._read)
        with gui.add_folder('simulator', expand_by_default=False):
            self._add_push(links)
            for name, (label, extent) in _PLANT.items():
                self._sliders.add(name, label, extent, 1.0 if name in _PER_JOINT else 0.0)
                if name == 'payload_mass':
                    gui.add_html(_MODEL_ERROR)
            self._add_centres()
        self._read()

    def _add_push(self, links: list[str]) -> None:
        gui, most = self._gui, (_STRONGEST_N,) * 3
        link = gui.add_dropdown('push link', tuple(links), initial_value=links[-1])
        force = gui.add_vector3(
            'force, N', (0.0, 0.0, 0.0), min=tuple(-x for x in most), max=most, step=1.0,
            hint='in the axes of the link',
        )  # fmt: skip
        push = gui.add_checkbox('push', initial_value=False)

        def act(event: Any) -> None:
            x, y, z = (float(x) if push.value else 0.0 for x in force.value)
            self._commands.push(link.value, (x, y, z), client_of(event))

        for handle in (link, force, push):
            handle.on_update(from_page(act))

    def _add_centres(self) -> None:
        """Add the displacement of the centres of mass."""
        self._shift = self._gui.add_vector3(
            'centres of mass, m', (0.0, 0.0, 0.0), min=(-0.1,) * 3, max=(0.1,) * 3, step=0.001,
            hint='displaced along the axes of every link',
        )  # fmt: skip

        def act(_: Any) -> None:
            shift = [float(x) for x in self._shift.value]
            self._sliders.change({_CENTRES: shift})

        self._shift.on_update(from_page(act))

    def _read(self) -> None:
        self._commands.read_simulator([*_PLANT, _CENTRES], self._show)

    def _show(self, parameters: Mapping[str, Any]) -> None:
        """Set the widgets to what the simulator has."""
        self._sliders.show(parameters)
        if len(parameters.get(_CENTRES, ())) == 3:
            self._shift.value = tuple(parameters[_CENTRES])


def from_page(act: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return a callback that acts if a browser caused the event, not this program."""

    def on_update(event: Any) -> None:
        if getattr(event, 'client', None) is not None:
            act(event)

    return on_update


def client_of(event: Any) -> int:
    """Return the number of the browser that caused an event; -1 if none did."""
    client = getattr(event, 'client', None)
    return -1 if client is None else int(client.client_id)


def first_number(value: Any) -> float:
    """Return a number of a parameter, the first of a list."""
    first = value[0] if isinstance(value, list) and value else value
    return float(first) if isinstance(first, (int, float)) else 0.0
