# SPDX-License-Identifier: Apache-2.0
"""Mutations of texts, by content, by characters or both, and of bytes."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from xml.etree import ElementTree

import numpy as np
import yaml

from benchmark.measuring import drawn
from robot_dynamics_ros.errors import RobotDynamicsError
from robot_dynamics_ros.yaml_reader.parsing import parse_yaml

#: Replacements of numbers, words and whole values.
HOSTILE = (
    '', ' ', '0', '-0.0', '1e-320', '5e-324', '1e308', '-1e308', '1e400', '.inf', '-.inf', '.nan',
    'nan', 'inf', '9' * 400, '0b_', '0x_', '0o7', '1_0', '190:20:30', '2001-99-99', '2001-01-01',
    '1e3', '+', '-', '.', '~', 'null', 'true', 'no', '[]', '{}', '[[[]]]', '{a: {b: {c: 1}}}',
    '!!int ""', '!!timestamp x', '!!bool x', '!!python/object:os.system x', '!x', '&a [*a]', '*a',
    '"\\U00110000"', '"\\ud800"', "'", '"', '\x00', '\x1b[31m', '\ufffe', '\ud800', '\u202e',
    'é' * 40, 'x' * 5000, '[' * 900, '(' * 900, '- ' * 900, '../../etc/passwd', '/proc/self/mem',
    '/dev/zero', '~nosuchuser/x', '<<: *a', '? [a, b]', '---', '...', '%YAML 9', '|', '>', '#',
    '${x}', '$(eval 1)', '&lt;', '&#xD800;', '&nosuch;', '<!DOCTYPE a [<!ENTITY b "c">]>', ']]>',
    '!!python/object/apply:os.system ["touch taken"]', '&lol11;', '&outside;', '<a>' * 300,
    'http://nowhere/x.dae', 'file:///dev/zero', 'package://nowhere/x.stl',
)  # fmt: skip
#: Replacements of values in content that stays well formed.
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 7, 10**6, -(10**18), 10**400, 0.0, -0.0, 0.5, -0.5, 1e-320,
    1e-12, 1e-3, 1e3, 1e12, 1e60, 1e154, 1e200, 1e308, -1e308, math.inf, -math.inf, math.nan, '',
    ' ', 'x', 'tool', 'base_link', 'link1', 'joint1', 'joint2', 'world', 'none', 'endless', 'xyz',
    'rad', 'deg', '1e3', '0b_', '2001-99-99', 'x' * 5000, '\u202e', 'é\n', '/proc/self/mem',
    '~nosuchuser', [], {}, [[]], [{}], [0.0], [1.0, 2.0, 3.0], [math.nan] * 3, [0.0] * 3,
    [1] * 400, ['joint1', 'joint1'], {'x': 1}, {'joint1': 1.0}, {'a': {'b': [{}]}},
)  # fmt: skip
_UNWRITABLE = re.compile('[^\t\n -\ud7ff]')
_TOKEN = re.compile(r'[-+]?\d+\.?\d*(?:[eE][-+]?\d+)?|\w+|[^\w\s]')
#: The text after a colon or between quotes.
_VALUE = re.compile(r'(?<=: )[^\n]+|(?<=")[^"\n]*(?=")')


def mutated(text: str, rng: np.random.Generator) -> str:
    """Return a text after one to four mutations: of its content, of its characters, or of both."""
    kind = rng.integers(4)
    for _ in range(rng.integers(1, 5) if kind != 0 else 0):
        text = _content_mutated(text, rng)
    for _ in range(rng.integers(1, 3) if kind < 2 else 0):
        text = drawn(_MUTATIONS, rng)(text, rng)
    return text


def _content_mutated(text: str, rng: np.random.Generator) -> str:
    """Return a text that is still XML or YAML, with a changed value, key or structure."""
    if text.lstrip().startswith('<'):
        return _xml_mutated(text, rng)
    try:
        content = _plain(parse_yaml(text, 'seed'))
    except RobotDynamicsError:
        return text
    places = list(_places(content)) if isinstance(content, (dict, list)) else []
    if not places:
        return _replace_token(text, rng)
    _change(*drawn(places, rng), rng)
    return str(yaml.safe_dump(content, sort_keys=False))


def _plain(content: Any) -> Any:
    """Return content that can be serialized."""
    if isinstance(content, dict):
        return {key: _plain(value) for key, value in content.items()}
    return [_plain(value) for value in content] if isinstance(content, list) else content


def _places(content: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every mapping or list in the content with each of its keys or indices."""
    for key in list(content) if isinstance(content, dict) else range(len(content)):
        yield content, key
        if isinstance(content[key], (dict, list)):
            yield from _places(content[key])


def _change(inner: Any, key: Any, rng: np.random.Generator) -> None:
    """Replace, drop, duplicate or rename one entry."""
    kind, value = rng.integers(8), drawn(VALUES, rng)
    if kind < 5:
        inner[key] = value
    elif kind == 5:
        del inner[key]
    elif isinstance(inner, list):
        inner.insert(int(rng.integers(len(inner) + 1)), inner[key])
    else:
        inner[value if isinstance(value, (str, int, float)) else 'other'] = inner.pop(key)


def _xml_mutated(text: str, rng: np.random.Generator) -> str:
    """Return XML with an attribute set or dropped, or an element dropped, duplicated or moved."""
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError):
        return text
    elements = list(root.iter())
    one, parent = drawn(elements, rng), drawn(elements, rng)
    kind = rng.integers(6)
    if kind < 3 and one.attrib:
        name = drawn(list(one.attrib), rng)
        one.set(name, _attribute(one.get(name, ''), rng))
    elif kind == 3 and one.attrib:
        del one.attrib[drawn(list(one.attrib), rng)]
    elif kind == 4 and len(one):
        one.remove(drawn(list(one), rng))
    elif one not in parent.iter() and parent not in one.iter():
        parent.append(one)
    return ElementTree.tostring(root, encoding='unicode')


def _attribute(value: str, rng: np.random.Generator) -> str:
    """Return a changed attribute value: one of its numbers, or all of it."""
    hostile, words = str(drawn(VALUES, rng)), value.split()
    if words and rng.random() < 0.6:
        words[rng.integers(len(words))] = hostile
        hostile = ' '.join(words)
    return _UNWRITABLE.sub('', hostile)


def _replace_token(text: str, rng: np.random.Generator, pattern: re.Pattern[str] = _TOKEN) -> str:
    """Replace a match of the pattern, a token without one."""
    found = list(pattern.finditer(text)) or list(_TOKEN.finditer(text))
    if not found:
        return text + drawn(HOSTILE, rng)
    begin, end = drawn(found, rng).span()
    return text[:begin] + drawn(HOSTILE, rng) + text[end:]


_replace_value = partial(_replace_token, pattern=_VALUE)


def _edit_lines(text: str, rng: np.random.Generator) -> str:
    """Drop, duplicate, move or indent a line."""
    lines = text.splitlines()
    if not lines:
        return text
    k, other = rng.integers(len(lines)), rng.integers(len(lines))
    kind = rng.integers(4)
    if kind == 0:
        del lines[k]
    elif kind == 1:
        lines.insert(other, lines[k])
    elif kind == 2:
        lines[k], lines[other] = lines[other], lines[k]
    else:
        lines[k] = ' ' * int(rng.integers(1, 9)) + lines[k]
    return '\n'.join(lines) + '\n'


def _edit_characters(text: str, rng: np.random.Generator) -> str:
    for _ in range(rng.integers(1, 6)):
        k = int(rng.integers(len(text) + 1))
        new = chr(rng.integers(0, 0x300)) if rng.random() < 0.7 else ''
        text = text[:k] + new + text[k + int(rng.integers(2)) :]
    return text


def _cut(text: str, rng: np.random.Generator) -> str:
    a, b = sorted(rng.integers(0, len(text) + 1, 2).tolist())
    return text[:a] if rng.random() < 0.3 else text[:a] + text[b:]


def _bomb(text: str, rng: np.random.Generator) -> str:
    """Insert an unbounded expansion, or an external file, before a text and into it."""
    if not text.lstrip().startswith('<'):
        lines = [f'a{k}: &a{k} [{", ".join([f"*a{k - 1}"] * 9)}]' for k in range(1, 12)]
        return '\n'.join(['a0: &a0 [x]', *lines, text])
    entities = ''.join(f'<!ENTITY lol{k} "{f"&lol{k - 1};" * 9}">' for k in range(1, 12))
    outside = '<!ENTITY outside SYSTEM "file:///etc/passwd">'
    body = text.partition('?>')[2] or text
    begin = f'<!DOCTYPE robot [<!ENTITY lol0 "x">{entities}{outside}]>'
    return begin + _replace_value(body, rng).replace('name="', 'name="&lol11;', 1)


def _swap_tokens(text: str, rng: np.random.Generator) -> str:
    tokens = list(_TOKEN.finditer(text))
    if len(tokens) < 2:
        return text
    one, other = sorted(rng.choice(len(tokens), 2, replace=False).tolist())
    a, b = tokens[one], tokens[other]
    middle = text[a.end() : b.start()]
    return text[: a.start()] + b.group() + middle + a.group() + text[b.end() :]


_MUTATIONS: tuple[Callable[[str, np.random.Generator], str], ...] = (
    _replace_token, _replace_token, _replace_value, _replace_value, _edit_lines, _edit_characters,
    _cut, _swap_tokens, _bomb,
)  # fmt: skip

# Bytes -------------------------------------------------------------------------------------------

_NUMBERS = tuple(struct.pack('<d', x) for x in (math.nan, math.inf, 1e300, 5e-324, -0.0)) + tuple(
    struct.pack('<q', i) for i in (-1, 0, 2**63 - 1, -(2**63), 2**31, 10**18)
)


def mutated_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """Return bytes with some flipped, replaced, truncated, cut out, moved or duplicated."""
    for _ in range(rng.integers(1, 4)):
        changed, size = bytearray(data), len(data)
        a, b = sorted(rng.integers(0, size + 1, 2).tolist())
        kind = rng.integers(7)
        if kind < 2:
            for k in rng.integers(0, size, rng.integers(1, 20)) if size else ():
                changed[k] = changed[k] ^ 1 << rng.integers(8) if kind else rng.integers(256)
        elif kind == 2:
            changed[a : a + 8] = drawn(_NUMBERS, rng)
        elif kind == 3:
            changed[a : min(b, a + 200)] = bytes(min(b, a + 200) - a)
        elif kind == 4:
            del changed[a:]
        elif kind == 5:
            del changed[a : min(b, a + 500)]
        else:
            changed[a:a] = changed[b : b + 300]
        data = bytes(changed)
    return data
