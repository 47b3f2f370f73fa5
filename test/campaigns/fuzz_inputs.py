# SPDX-License-Identifier: Apache-2.0
"""Fuzz campaign: mutations of texts and bytes, a motion and bags to mutate, limits of reading."""

import contextlib
import math
import os
import re
import resource
import signal
import struct
import tempfile
from base64 import b64encode
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch
from xml.etree import ElementTree
from xml.sax.saxutils import escape, quoteattr

import psutil
import yaml
from bags import write
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from recorded_arm import RecordedArm

from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.model import Robot, load_robot

Parts = TypeVar('Parts', list[str], bytes)

#: Replacements of numbers, words and whole values.
HOSTILE = (
    *yaml.safe_load(r"""
['', ' ', '0', '-0.0', '1e-320', '5e-324', '1e308', '-1e308', '1e400', '.inf', '-.inf', '.nan',
'nan', 'inf', '0b_', '0x_', '0o7', '1_0', '190:20:30', '2001-99-99', '2001-01-01', '1e3', '+', '-',
'.', '~', 'null', 'true', 'no', '[]', '{}', '[[[]]]', '{a: {b: {c: 1}}}', '!!int ""',
'!!timestamp x', '!!bool x', '!!python/object:os.system x', '!x', '&a [*a]', '*a', '"\U00110000"',
'"\ud800"', '''', '"', '../../etc/passwd', '/proc/self/mem', '/dev/zero', '~nosuchuser/x',
'<<: *a', '? [a, b]', '---', '...', '%YAML 9', '|', '>', '#', '${x}', '$(eval 1)', '&lt;',
'&#xD800;', '&nosuch;', '<!DOCTYPE a [<!ENTITY b "c">]>', ']]>', '&lol11;', '&outside;',
'http://nowhere/x.dae', '!!python/object/apply:os.system ["touch taken"]', 'file:///dev/zero',
'package://nowhere/x.stl']
"""),
    *('\x00', '\x1b[31m', '\ufffe', '\ud800', '\u202e', 'é' * 40, 'x' * 5000, '9' * 400),
    *('[' * 900, '(' * 900, '- ' * 900, '<a>' * 300),
)
#: Replacements of values in content that stays well formed.
VALUES: tuple[Any, ...] = (
    *yaml.safe_load("""
[null, true, false, 0, -1, 1, 2, 7, 1000000, -1000000000000000000, 0.0, -0.0, 0.5, -0.5, 1.0e-320,
1.0e-12, 1.0e-3, 1.0e+3, 1.0e+12, 1.0e+60, 1.0e+154, 1.0e+200, 1.0e+308, -1.0e+308, .inf, -.inf,
.nan, '', ' ', x, tool, base_link, link1, joint1, joint2, world, none, endless, xyz, rad, deg,
'1e3', '0b_', '2001-99-99', /proc/self/mem, '~nosuchuser', [], {}, [[]], [{}], [0.0],
[1.0, 2.0, 3.0], [.nan, .nan, .nan], [0.0, 0.0, 0.0], [joint1, joint1], {x: 1}, {joint1: 1.0},
{a: {b: [{}]}}]
"""),
    *(10**400, 'x' * 5000, '\u202e', 'é\n', [1] * 400),
)
_UNWRITABLE = re.compile('[^\t\n -\ud7ff]')
#: Parts of a text: tokens (twice as often), lines, characters.
_TOKENS = re.compile(r'[-+]?\d+\.?\d*(?:[eE][-+]?\d+)?|\w+|\s+|[^\w\s]')
_PARTS = (_TOKENS, _TOKENS, re.compile(r'[^\n]*\n|[^\n]+'), re.compile(r'[\s\S]'))
_NUMBERS = tuple(struct.pack('<d', x) for x in (math.nan, math.inf, 1e300, 5e-324, -0.0)) + tuple(
    struct.pack('<q', i) for i in (-1, 0, 2**63 - 1, -(2**63), 2**31, 10**18)
)


@st.composite
def mutated(draw: DrawFn, text: str) -> str:
    """Draw a text after one to four mutations: of its content, of its characters, or of both."""
    kind = draw(st.sampled_from(['characters', 'both', 'content', 'content']))
    for _ in range(draw(st.integers(1, 4)) if kind != 'characters' else 0):
        text = _content_mutated(draw, text)
    for _ in range(draw(st.integers(1, 2)) if kind != 'content' else 0):
        bomb = draw(st.integers(0, 9)) == 9
        text = _bomb(text) if bomb else _text_mutated(draw, text)
    return text


def _text_mutated(draw: DrawFn, text: str) -> str:
    parts = draw(st.sampled_from(_PARTS)).findall(text)
    return ''.join(_edited(draw, parts, [draw(st.sampled_from(HOSTILE))]))


@st.composite
def mutated_bytes(draw: DrawFn, data: bytes) -> bytes:
    """Draw bytes with some replaced, cut off, cut out or duplicated."""
    new = st.sampled_from(_NUMBERS) | st.binary(min_size=1, max_size=20)
    new |= st.integers(1, 199).map(bytes)
    for _ in range(draw(st.integers(1, 5))):
        data = _edited(draw, data, draw(new))
    return data


def _edited(draw: DrawFn, parts: Parts, new: Parts) -> Parts:
    """Return parts with some replaced (as often as all else), cut off, cut out or duplicated."""
    places = st.integers(0, len(parts))
    a, other = draw(places), draw(places)
    b, kind = a + draw(st.integers(1, 29)), draw(st.integers(0, 5))
    if kind < 3:
        return parts[:a] + new + parts[a + len(new) :]
    if kind == 3:
        return parts[:a]
    return parts[:a] + parts[b:] if kind == 4 else parts[:other] + parts[a:b] + parts[other:]


def _content_mutated(draw: DrawFn, text: str) -> str:
    """Return a text that is still XML or YAML, with a changed value, key or structure."""
    if '[' * 99 in text or '- ' * 99 in text:
        return text  # PyYAML reads it or not by how deep the stack already is
    is_xml = text.lstrip().startswith('<')
    try:
        content = _nested(ElementTree.fromstring(text)) if is_xml else yaml.safe_load(text)
        places = list(_places(content))
    except Exception:
        return text  # malformed, without end (&a [*a]), or what PyYAML does not expect
    if not places:
        return _text_mutated(draw, text)
    _change(draw, *places[draw(st.integers(0, len(places) - 1))])
    return _xml(content) if is_xml else str(yaml.safe_dump(content, sort_keys=False))


def _places(content: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every mapping or list in the content with each of its keys or indices."""
    if isinstance(content, (dict, list)):
        for key in list(content) if isinstance(content, dict) else range(len(content)):
            yield content, key
            yield from _places(content[key])


def _change(draw: DrawFn, inner: Any, key: Any) -> None:
    """Replace, drop, duplicate or rename one entry."""
    kind, value = draw(st.integers(0, 7)), deepcopy(draw(st.sampled_from(VALUES)))
    if kind < 5:
        inner[key] = value
    elif kind == 5:
        del inner[key]
    elif isinstance(inner, list):
        inner.insert(draw(st.integers(0, len(inner))), inner[key])
    else:
        inner[value if isinstance(value, (str, int, float)) else 'other'] = inner.pop(key)


def _nested(element: ElementTree.Element) -> list[Any]:
    """Return an element as a list: its tag, words of its attributes, text, children."""
    attributes = {name: value.split() for name, value in element.attrib.items()}
    text = (element.text or '').strip()
    return [element.tag, attributes, *[text] * bool(text), *map(_nested, element)]


def _xml(content: Any) -> str:
    """Return the text of an element from its list; of anything else, the thing itself."""
    if not (isinstance(content, list) and len(content) > 1 and isinstance(content[1], dict)):
        return escape(_UNWRITABLE.sub('', str(content)))
    tag, attributes, *inner = content
    words = [str(tag)]
    for name, value in attributes.items():
        text = ' '.join(map(str, value)) if isinstance(value, list) else str(value)
        words.append(f'{name}={quoteattr(_UNWRITABLE.sub("", text))}')
    return f'<{" ".join(words)}>{"".join(map(_xml, inner))}</{tag}>'


def _bomb(text: str) -> str:
    """Insert an unbounded expansion, or an external file, before a text and in a name."""
    if not text.lstrip().startswith('<'):
        lines = [f'a{k}: &a{k} [{", ".join([f"*a{k - 1}"] * 9)}]' for k in range(1, 12)]
        return '\n'.join(['a0: &a0 [x]', *lines, text])
    entities = ''.join(f'<!ENTITY lol{k} "{f"&lol{k - 1};" * 9}">' for k in range(1, 12))
    outside = '<!ENTITY outside SYSTEM "file:///etc/passwd">'
    body = text.partition('?>')[2] or text
    begin = f'<!DOCTYPE robot [<!ENTITY lol0 "x">{entities}{outside}]>'
    return begin + body.replace('name="', 'name="&lol11;', 1)


# Inputs ------------------------------------------------------------------------------------------


@cache
def tree_of(robot: str) -> Robot:
    """Return a shipped robot, or the spanning tree of a mechanism."""
    return load_robot(shipped_robot(robot), effort_limit=1.0)


def motion() -> str:
    """Return a short trajectory file."""
    names = ', '.join(tree_of('scara').joint_names)
    points = ''.join(
        f'- positions: [0.{k}, 0.2, 0.05, 0.0]\n  velocities: [0.0, 0.0, 0.0, 0.0]\n'
        f'  time_from_start: {{sec: {k}, nanosec: 0}}\n'
        for k in range(4)
    )
    return f'joint_names: [{names}]\npoints:\n{points}'


#: Separator of ``metadata.yaml`` and the storage file in the text form of a bag.
STORAGE = '\0storage\0'
#: Forms of the bags, and the names of their files.
BAGS = {
    'mcap': 'bag.mcap',
    'sqlite3': 'bag.db3',
    'mcap_chunks': 'bag.mcap',
    'mcap_file': 'bag.mcap.zstd',
    'sqlite3_message': 'bag.db3',
}


@cache
def bags() -> tuple[str, ...]:
    """Return a short bag in every form, each as one text."""
    texts, messages = [], RecordedArm(30, measured_late=True).messages()
    with tempfile.TemporaryDirectory() as folder:
        for form, name in BAGS.items():
            bag = write(Path(folder, form, 'bag'), messages, form)
            metadata = (bag / 'metadata.yaml').read_text('utf-8')
            texts.append(metadata + STORAGE + (bag / name).read_bytes().decode('latin-1'))
    return tuple(texts)


@st.composite
def bag_mutated(draw: DrawFn, text: str) -> str:
    """Draw a bag whose metadata or storage file is mutated."""
    metadata, _, storage = text.partition(STORAGE)
    if draw(st.integers(0, 4)) == 4:
        return draw(mutated(metadata)) + STORAGE + storage
    data = draw(mutated_bytes(storage.encode('latin-1')))
    return metadata + STORAGE + data.decode('latin-1')


#: A square in every format of meshes; colours of another file.
MESHES = {
    'a.stl': 'vertex 0 0 0\nvertex 1 0 0\nvertex 1 1 0\n' * 2,
    'b.stl': struct.pack('<80xi12fH', 1, *range(12), 0).decode('latin-1'),
    'a.obj': 'mtllib a.mtl\nv 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nusemtl red\nf 1/1/1 2 3//3 -1\n',
    'a.dae': """<COLLADA><asset><unit meter="1.0"/></asset>
<library_geometries><geometry id="square"><mesh>
  <source id="points"><float_array count="12">0 0 0 1 0 0 1 1 0 0 1 0</float_array>
    <technique_common><accessor stride="3"/></technique_common></source>
  <vertices id="corners"><input semantic="POSITION" source="#points"/></vertices>
  <polylist material="red"><input semantic="VERTEX" source="#corners" offset="0"/>
    <vcount>4</vcount><p>0 1 2 3</p></polylist>
</mesh></geometry></library_geometries>
<library_nodes><node id="part"><translate>0 0 1</translate>
  <instance_geometry url="#square"/></node></library_nodes>
<library_visual_scenes><visual_scene id="scene"><node id="all"><matrix>
  1 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1</matrix><instance_node url="#part"/></node>
</visual_scene></library_visual_scenes></COLLADA>""",
    'a.gltf': """{"asset": {"version": "2.0"}, "scene": 0, "scenes": [{"nodes": [0]}],
"nodes": [{"mesh": 0, "translation": [0.0, 0.0, 1.0]}],
"meshes": [{"primitives": [{"attributes": {"POSITION": 1}, "indices": 0}]}],
"accessors": [{"bufferView": 0, "componentType": 5123, "count": 3, "type": "SCALAR"},
 {"bufferView": 1, "componentType": 5126, "count": 3, "type": "VEC3"}],
"bufferViews": [{"buffer": 0, "byteLength": 6}, {"buffer": 0, "byteOffset": 8, "byteLength": 36}],
"buffers": [{"byteLength": 44, "uri": "data:application/octet-stream;base64,DATA"}]}""".replace(
        'DATA', b64encode(struct.pack('<4H9f', 0, 1, 2, 0, 0, 0, 0, 1, 0, 0, 1, 1, 0)).decode()
    ),
}
#: A robot of such a mesh.
MESH_ROBOT = """<robot name="r"><link name="a"><visual><geometry><mesh filename="{}"/>
  </geometry></visual></link></robot>"""


def mesh_mutated(text: str) -> st.SearchStrategy[str]:
    """Return the mutations of a mesh file: as a text, and as bytes."""
    of_bytes = mutated_bytes(text.encode('latin-1')).map(lambda data: data.decode('latin-1'))
    return mutated(text) | of_bytes


# Limits ------------------------------------------------------------------------------------------

MOST_BYTES = 1 << 30


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Stop after a processor time, s, or after ten times that wall time."""

    def stop(*_: object) -> None:
        raise TimeoutError(f'longer than {seconds:g} s')

    timers = {signal.SIGPROF: signal.ITIMER_PROF, signal.SIGALRM: signal.ITIMER_REAL}
    before = {number: signal.signal(number, stop) for number in timers}
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, 10.0 * seconds)
    try:
        yield
    finally:
        for number, timer in timers.items():
            signal.setitimer(timer, 0.0)
            signal.signal(number, before[number])


@contextlib.contextmanager
def own_folder() -> Iterator[str]:
    """Work in ``a/b/here`` of a temporary folder, yielded, that also holds temporary files."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder, 'a', 'b', 'here')  # paths upwards stay inside
        work.mkdir(parents=True)
        before = Path.cwd()
        os.chdir(work)
        try:
            with patch.object(tempfile, 'tempdir', folder):
                yield folder
        finally:
            os.chdir(before)


@contextlib.contextmanager
def memory_limited() -> Iterator[None]:
    """Limit a process to a gigabyte more than it begins with: beyond, a ``MemoryError``."""
    with contextlib.suppress(ImportError):
        import_module('llvmlite.binding')  # its library alone uses a tenth of it
    limits = resource.getrlimit(resource.RLIMIT_AS)
    most = psutil.Process().memory_info().vms + MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
