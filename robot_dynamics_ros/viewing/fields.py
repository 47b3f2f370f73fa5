# SPDX-License-Identifier: Apache-2.0
"""Fields and buttons of the page that its script sends: a value at once, never each keystroke."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from html import escape
from threading import Thread
from typing import Any

import numpy as np

#: Reports the result of a command, later: whether it was accepted, and a message.
Reply = Callable[[bool, str], None]
#: Acts for the client of a number, and reports.
Act = Callable[[int, Reply], None]

RED, GREEN, GREY = '#c0392b', '#2e9e5b', '#868e96'
_NUMBER = re.compile(r'[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?')
_ROW = (
    '<div style="display:flex;flex-wrap:wrap;gap:.1em .5em;align-items:baseline;font-size:.8em;'
    'padding:.15em .9em">{label}{control}'
    '<span data-note style="flex:1 1 7em;color:{colour};overflow-wrap:anywhere">{note}</span>'
    '{buttons}</div>'
)
_LABEL = '<span style="flex:0 0 36%;overflow-wrap:anywhere">{}</span>'
_INPUT = (
    '<input data-act="{name}" title="sent on Enter or on leaving" {off}'
    ' style="width:6.5em;font:inherit;background:transparent;border:1px solid #adb5bd">'
)
_BUTTON = (
    '<button data-act="{name}" {off} style="font:inherit;cursor:pointer;border-radius:4px;'
    'padding:.2em .7em;border:1px solid #adb5bd;{dress}">{label}</button>'
)
_PRIMARY = 'background:#26547c;color:#fff;font-weight:600'


def read_numbers(text: str, count: int) -> list[float]:
    """Return the numbers of a text.

    Raises:
        ValueError: There is another number of them, or something else.
    """
    words = text.split()
    for word in words:
        if _NUMBER.fullmatch(word) is None:
            raise ValueError(f'{word!r} is not a number: write 0.5, several with spaces between')
    if len(words) != count:
        raise ValueError(f'{count} expected, {len(words)} given')
    return [float(word) for word in words]


def shown(value: Any) -> str:
    """Return a value as text: numbers with spaces between; an empty one is none."""
    if isinstance(value, (list, tuple)):
        return ' '.join(map(shown, value)) or 'none'
    return f'{value:g}' if isinstance(value, float) else str(value) or 'none'


class FieldRow:
    """A row of the page: a label, a control and a note, which the server may change.

    Attributes:
        html: What shows it.

    Args:
        page: The page.
        name: Name of its action, unique on the page.
        label: Label.
    """

    def __init__(self, page: Any, name: str, label: str) -> None:
        self._name, self._label, self._off = name, label, ''
        self._note, self._colour = '', GREY
        self.html = page.server.gui.add_html('')

    def enable(self, on: bool) -> None:
        """Accept input, or not."""
        off = '' if on else 'disabled'
        if off != self._off:
            self._off = off
            self._draw()

    def note(self, text: str, colour: str = GREY) -> None:
        """Show a text beside the control."""
        self._note, self._colour = text, colour
        self._draw()

    def _draw(self) -> None:
        self.html.content = _ROW.format(
            label=_LABEL.format(escape(self._label)) if self._label else '',
            control=self._control(),
            note=escape(self._note),
            colour=self._colour,
            buttons=self._buttons(),
        )

    def _control(self) -> str:
        return ''

    def _buttons(self) -> str:
        return ''

    def _button(self, name: str, label: str, dress: str = '') -> str:
        return _BUTTON.format(name=escape(name), label=escape(label), off=self._off, dress=dress)


class Button(FieldRow):
    """A button with the answer beside it.

    Args:
        page, name, label: See :class:`FieldRow`; the label is that of the button.
        act: Called with the client's number and the reply.
        primary: Whether it is the main button of its group.
    """

    def __init__(
        self, page: Any, name: str, label: str, act: Act,
        *, primary: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(page, name, '')
        self._text, self._dress = label, _PRIMARY * primary
        page.web.actions[name] = partial(self._press, act)
        self._draw()

    def _press(self, act: Act, client: int, _: str) -> str:
        self.note('\u2026')
        Thread(target=act, args=(client, self.reply), daemon=True).start()
        return 'sent'

    def reply(self, accepted: bool, text: str) -> None:
        """Show an answer."""
        self.note(text if accepted else f'refused: {text}', GREEN if accepted else RED)

    def _control(self) -> str:
        return self._button(self._name, self._text, self._dress)


class Field(FieldRow):
    """A field for a value; beside it what acts, is pending, was refused, or can be undone.

    Args:
        page, name, label: See :class:`FieldRow`.
        read: Converts a text to a value; raises ValueError.
        send: Called with the client's number, a value and the reply.
        asks: Whether numbers below half or above twice the present ones need a confirmation.
    """

    def __init__(
        self,
        page: Any,
        name: str,
        label: str,
        read: Callable[[str], Any],
        send: Callable[[int, Any, Reply], None],
        *,
        asks: bool = False,
    ) -> None:
        super().__init__(page, name, label)
        self.value: Any = None
        self._read, self._send, self._asks = read, send, asks
        self._asked: Any = None
        self._before: Any = None
        actions = page.web.actions
        actions[name] = self._enter
        actions[f'{name}/apply'] = lambda client, _: self._request(client, self._asked)
        actions[f'{name}/undo'] = lambda client, _: self._request(client, self._before)
        self._draw()

    def show(self, value: Any) -> None:
        """Show the present value."""
        if value != self.value:
            self.value = value
            self._note = ''
            self._draw()

    def _enter(self, client: int, text: str) -> str:
        value = self._read(text)
        now, then = np.array(self.value if self._asks else 0.0, dtype=float), np.array(value)
        if self._asks and ((now > 0.0) & ((2.0 * then < now) | (then > 2.0 * now))).any():
            self._asked = value
            self.note(f'{shown(value)}: far from {shown(self.value)}')
            return 'asked'
        return self._request(client, value)

    def _request(self, client: int, value: Any) -> str:
        self._asked, before = None, self.value
        self.note(f'pending: {shown(value)}')

        def reply(accepted: bool, text: str) -> None:
            if accepted:
                self._before, self.value, self._note = before, value, ''
                self._draw()
            else:
                self.note(f'refused: {text}', RED)

        self._send(client, value, reply)
        return 'sent'

    def _draw(self) -> None:
        if not self._note and self.value is not None:
            self._note, self._colour = f'acts: {shown(self.value)}', GREY
        super()._draw()

    def _control(self) -> str:
        return _INPUT.format(name=escape(self._name), off=self._off)

    def _buttons(self) -> str:
        if self._asked is not None:
            return self._button(f'{self._name}/apply', 'apply')
        if self._before is not None and self._before != self.value:
            return self._button(f'{self._name}/undo', f'undo: {shown(self._before)}')
        return ''
