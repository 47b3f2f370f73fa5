# SPDX-License-Identifier: Apache-2.0
"""The URDF text of a robot from text or a file: xacro expanded, meshes found."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from robot_dynamics_ros.description.packages import (
    cloned_file,
    is_package_uri,
    package_folder,
)
from robot_dynamics_ros.description.shipped import shipped_files
from robot_dynamics_ros.disk_cache import cached, new_digest
from robot_dynamics_ros.errors import DescriptionError, MissingDependencyError, shown
from robot_dynamics_ros.spatial.validation import require_type

_MESH_FILE = re.compile(r'(<mesh\b[^>]*?\bfilename\s*=\s*["\'])([^"\'<>]+)(["\'])')
_QUATERNION = re.compile(r'(<origin\b[^>]*?)\bquat_xyzw\s*=\s*(["\'])([^"\']*)\2([^>]*>)')
_COMMENT = re.compile(r'<!--.*?-->', re.DOTALL)
_EXPRESSION = re.compile(r'\$[({]')
_LINK = re.compile(r'<link[\s/>]')
_PYTHON = re.compile(r"<class '[^']*'>:? ?|\[Errno \d+\] ")
_PATH = 'give a path or the URDF text itself'
_WORDS = (
    'NAME:=VALUE is no part of a path: give it behind, as a word of its own, or to a launch as '
    'mappings'
)
_ARGUMENTS = (
    'correct the file, or give its arguments behind it, NAME:=VALUE; if the command takes none, '
    'give them to new_robot, and the robot.urdf of that'
)
_INSTALLED = (
    'correct the file, or the path in it; if the build of its package puts it there, give the '
    'installed description'
)
_BEFORE = '\ufeff \t\r\n'  # what may precede the first element
WHOLE = 'robot description'  # culprit of faults of no single element
_MAX_QUOTE = 100  # maximum number of characters of a value quoted in a message


def shortened(text: str) -> str:
    """Return a text in quotes for a message, truncated if it is long."""
    return repr(text if len(text) <= _MAX_QUOTE else text[:_MAX_QUOTE] + ' …')


def is_text(path_or_xml: str | os.PathLike[str]) -> bool:
    """Return whether a description is given as text, not as a path."""
    return os.fspath(path_or_xml).lstrip(_BEFORE).startswith('<')


def urdf_text(path_or_xml: str | os.PathLike[str], mappings: Mapping[str, str]) -> str:
    """Return the URDF text of a description, see :func:`~.urdf.read_description`.

    Text is expanded if it contains xacro, whatever the name of the file.
    """
    if not isinstance(path_or_xml, (str, os.PathLike)):
        raise DescriptionError(WHOLE, f'is {shown(path_or_xml)}', 'give a path or the URDF text')
    require_type('mappings', mappings, Mapping, 'a mapping of names to texts')
    mappings = {name: str(value) for name, value in mappings.items()}
    text = os.fspath(path_or_xml)
    path = None if is_text(text) else Path(os.path.expanduser(text))
    content = (text if path is None else _read_text(str(path))).lstrip(_BEFORE)
    if _has_xacro(content) or (path is not None and path.suffix.lower() == '.xacro'):
        if path is not None and path.resolve() in shipped_files():
            content = _expand_shipped(content, path, mappings)
        else:
            content = _expand_xacro(content, path, mappings)
    elif mappings and path is not None:
        culprit = f'arguments {", ".join(mappings)}'
        raise DescriptionError(culprit, f'{path.name} contains no xacro', 'leave them out')
    near = None if path is None else path.resolve().parent
    return _MESH_FILE.sub(lambda reference: _absolute(reference, near), content)


def _has_xacro(content: str) -> bool:
    """Return whether XML has elements or expressions of xacro, outside of comments."""
    if 'xacro' not in content:
        return False
    content = _COMMENT.sub('', content)
    return '<xacro:' in content or ('xmlns:xacro' in content and bool(_EXPRESSION.search(content)))


def _absolute(reference: re.Match[str], folder: Path | None) -> str:
    """Return the mesh reference, absolute if it is relative to the folder or in a found package.

    Meshes of packages that are only installed keep their names, which other readers know.
    """
    import html  # deferred: takes 1 ms, and most starts read no mesh reference

    before, name, quote = reference.groups()
    name = html.unescape(name)
    if is_package_uri(name):
        path = cloned_file(name, folder)
    else:
        path = None if folder is None or '://' in name else folder / name
        path = path if path is not None and path.is_file() else None
    if path is None:
        return reference[0]
    return f'{before}{html.escape(str(path))}{quote}'


def rpy_of_quaternion(text: str) -> tuple[float, float, float]:
    """Return the angles about the fixed axes x, y, z of a quaternion "x y z w", rad.

    Raises:
        ValueError: It is not four finite numbers, or all are zero.
    """
    from robot_dynamics_ros.spatial.rotation import roll_pitch_yaw, rotation_from_xyzw

    try:
        numbers = [float(word) for word in text.split()]
    except ValueError:
        numbers = []
    if len(numbers) != 4 or not all(map(math.isfinite, numbers)) or not any(numbers):
        raise ValueError(f'{shortened(text)} is no quaternion')
    return roll_pitch_yaw(rotation_from_xyzw(np.array(numbers)))


def with_rpy(xml: str) -> str:
    """Return URDF text with the quaternions of origins (URDF 1.1) written as rpy.

    Other readers of the text need not know them. What is invalid stays as it is.
    """
    return _QUATERNION.sub(_as_rpy, xml) if 'quat_xyzw' in xml else xml


def _as_rpy(origin: re.Match[str]) -> str:
    before, _, text, after = origin.groups()
    with suppress(ValueError):
        if not re.search(r'\brpy\s*=', before + after):
            return f'{before}rpy="{" ".join(map(repr, rpy_of_quaternion(text)))}"{after}'
    return origin[0]


def _read_text(path: str) -> str:
    culprit = f'{WHOLE} {shown(path)}'  # with its end, the name
    try:
        if Path(path).is_dir():
            raise DescriptionError(culprit, 'is a folder', 'name the URDF or xacro file in it')
        if not Path(path).is_file():
            raise DescriptionError(culprit, 'no such file', _WORDS if ':=' in path else _PATH)
        return Path(path).read_text(encoding='utf-8-sig')
    except UnicodeDecodeError as error:
        problem = f'is not UTF-8 text ({error.reason})'
        raise DescriptionError(culprit, problem, 'save it as UTF-8') from error
    except OSError as error:
        problem = f'cannot be read ({error.strerror})'
        raise DescriptionError(culprit, problem, 'give a readable file') from error


def _expand_shipped(content: str, path: Path, mappings: Mapping[str, str]) -> str:
    """Expand a shipped xacro file, which includes only files of its folder, with a disk cache."""
    digest = new_digest(repr((path.name, sorted(mappings.items()))).encode())
    for file in (Path(__file__), *sorted(path.parent.glob('*.xacro'))):
        digest.update(file.name.encode() + file.read_bytes())
    name = f'descriptions/{path.stem}-{digest.hexdigest()[:24]}'
    return cached(name, lambda: _expand_xacro(content, path, mappings).encode()).decode()


def _expand_xacro(content: str, path: Path | None, mappings: Mapping[str, str]) -> str:
    name = 'text' if path is None else f'file {path.name}'
    try:
        import xacro
    except ImportError as error:
        raise MissingDependencyError(
            'xacro', f'{name}', "install it (pip 'xacro', apt 'ros-<distro>-xacro')"
        ) from error
    arguments, first = _XacroArguments(mappings), len(xacro.all_includes)
    try:
        with _found_packages(path):
            if path is None:
                document = xacro.parse(content)
                xacro.process_doc(document, mappings=arguments)
            else:
                document = xacro.process_file(str(path), mappings=arguments)
    except Exception as error:  # xacro raises a dozen types, including ExpatError and its own
        raise _xacro_error(f'xacro {name}', error) from error
    arguments.require_used(f'xacro {name}')
    text = str(document.toprettyxml(indent='  '))
    if _LINK.search(text) is None:
        included = [
            Path(file).read_text('utf-8', 'replace') for file in xacro.all_includes[first:]
        ]
        macros = [
            f'{macro.getAttribute("name")}({", ".join(macro.getAttribute("params").split())})'
            for source in (content, *included)
            for macro in xacro.parse(source).getElementsByTagName('xacro:macro')
        ]
        if macros:
            raise DescriptionError(
                f'xacro {name}',
                f'only defines macros, and no link: {", ".join(macros)}',
                'write a file that includes it and uses one of them: <xacro:NAME PARAMETER="…"/>',
            )
    return text


def _xacro_error(culprit: str, error: Exception) -> DescriptionError:
    cause = getattr(error, 'exc', None)
    if isinstance(cause, DescriptionError):
        return DescriptionError(culprit, f'{cause.culprit} {cause.problem}', cause.remedy)
    if isinstance(cause, OSError):
        return DescriptionError(culprit, f'{cause.filename}: {cause.strerror}', _INSTALLED)
    said = ' '.join(_PYTHON.sub('', str(error)).split())
    return DescriptionError(culprit, said, _ARGUMENTS)


class _XacroArguments(dict[str, str]):
    """Arguments of a xacro file, and which of them it declares or uses."""

    def __init__(self, mappings: Mapping[str, str]) -> None:
        super().__init__(mappings)
        self._unused = dict.fromkeys(mappings)

    def __getitem__(self, name: str) -> str:
        self._unused.pop(name, None)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self._unused.pop(str(name), None)
        return super().__contains__(name)

    def require_used(self, culprit: str) -> None:
        """Raise an error if the file does not know one of the given arguments."""
        for name in self._unused:
            known = ', '.join(other for other in self if other not in self._unused) or 'none'
            problem = f'has no argument {name!r}; it has: {known}'
            raise DescriptionError(culprit, problem, 'correct or leave out NAME:=VALUE')


@contextmanager
def _found_packages(path: Path | None) -> Iterator[None]:
    """Let xacro find packages in the same places as meshes."""
    from xacro import substitution_args as xacro

    def find(name: str) -> str:
        return str(package_folder(name, Path.cwd() if path is None else path))

    original, expressions = xacro._eval_find, xacro._eval_dict
    xacro._eval_find = expressions['find'] = find
    try:
        yield
    finally:
        xacro._eval_find = expressions['find'] = original
