# SPDX-License-Identifier: Apache-2.0
"""What a page may do to a simulated arm: push it, load it, make its model wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from robot_dynamics_ros.viewing.commands import Commands, Tell
from robot_dynamics_ros.viewing.widgets import client_of, first_number, from_page, number_slider

_STRONGEST_N = 100.0
_FACTORS = (0.0, 3.0, 0.05)
#: Parameters of the simulator that a slider sets, for all joints alike: label and extent.
_PLANT: dict[str, tuple[str, tuple[float, float, float]]] = {
    'payload_mass': ('load, kg', (0.0, 10.0, 0.05)),
    'mass_factor': ('masses', (0.1, 3.0, 0.05)),
    'armature_factor': ('drive inertia', _FACTORS),
    'damping_factor': ('viscous friction', _FACTORS),
    'coulomb_friction_factor': ('Coulomb friction', _FACTORS),
}
_CENTRES = 'com_shift'
_MODEL_ERROR = (
    '<div style="font-size:.8em;padding:.5em .9em .1em;opacity:.6">'
    'model error: factors on what the description says</div>'
)


class SimulatorControls:
    """Push, load and model error of a simulated arm, in the container that is in use.

    Args:
        gui: Of viser.
        links: That may be pushed.
        commands: What is asked.
        tell: Says what became of it.
    """

    def __init__(self, gui: Any, links: list[str], commands: Commands, tell: Tell) -> None:
        self._gui, self._commands, self._tell = gui, commands, tell
        self._numbers: dict[str, Any] = {}
        with gui.add_folder('simulator', expand_by_default=False):
            self._add_push(links)
            for name, (label, extent) in _PLANT.items():
                first = 1.0 if name.endswith('factor') else 0.0
                setter = self._setter(name)
                self._numbers[name] = number_slider(gui, label, extent, first, setter)
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
            self._commands.set_simulator({_CENTRES: shift}, self._refusal_resets)

        self._shift.on_update(from_page(act))

    def _setter(self, name: str) -> Callable[[float], None]:
        many, ask = name.endswith('factor'), self._commands.set_simulator
        return lambda value: ask({name: [value] if many else value}, self._refusal_resets)

    def _refusal_resets(self, taken: bool, text: str) -> None:
        """Say what became of a change; after a refusal show what holds."""
        self._tell(taken, text)
        if not taken:
            self._read()

    def _read(self) -> None:
        self._commands.read_simulator([*_PLANT, _CENTRES], self._show)

    def _show(self, given: Mapping[str, Any]) -> None:
        """Set the sliders to what the simulator has."""
        for name, slider in self._numbers.items():
            if name in given:
                slider.value = min(max(first_number(given[name]), slider.min), slider.max)
        if len(given.get(_CENTRES, ())) == 3:
            self._shift.value = tuple(given[_CENTRES])
