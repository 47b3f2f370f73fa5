# SPDX-License-Identifier: Apache-2.0
"""Folders of ROS packages: given, cloned next to a description, or installed; and their files.

A package that is only cloned is found without a ROS installation: the folders above a description
and their neighbours are searched, in a folder ``src`` as colcon does.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain
from pathlib import Path

from robot_dynamics_ros.errors import ConfigurationError, DescriptionError

_URI = re.compile(r'(?:package|model)://+')
_MANIFEST_NAME = re.compile(r'<name>\s*([^<\s]+)\s*</name>')
_CLIMB = 3  # folders searched above a package or, without one, above the file
_DEPTH_SRC = 4  # levels searched below a folder src
_SKIPPED = frozenset(('build', 'install', 'log', 'node_modules', '__pycache__'))
#: Environment variables with NAME:=PATH of packages (separated by ;), with folders that contain
#: packages, and with installation prefixes.
_GIVEN, _PREFIXES = 'ROBOT_DYNAMICS_PACKAGES', 'AMENT_PREFIX_PATH'
_SOURCES = 'ROS_PACKAGE_PATH', 'GZ_SIM_RESOURCE_PATH'


def is_package_uri(name: str) -> bool:
    """Return whether a file is named ``package://PACKAGE/PATH``, or ``model://`` as in Gazebo."""
    return _URI.match(name) is not None


def give_packages(words: Iterable[str]) -> None:
    """Set folders of packages, NAME:=PATH each, for this process and those that it starts.

    Raises:
        ConfigurationError: A word is not NAME:=PATH, or the folder does not exist.
    """
    folders = _given()
    for word in words:
        name, assigned, path = word.partition(':=')
        if not (name and assigned):
            raise ConfigurationError(f'package {word!r}', 'has no :=', 'write NAME:=PATH')
        folder = Path(os.path.expanduser(path))
        if not folder.is_dir():
            raise ConfigurationError(f'package {word!r}', 'no such folder', 'give its folder')
        folders[name] = folder.resolve()
    os.environ[_GIVEN] = ';'.join(f'{name}:={folder}' for name, folder in folders.items())


def _given() -> dict[str, Path]:
    words = (word.partition(':=') for word in os.environ.get(_GIVEN, '').split(';') if word)
    return {name: Path(folder) for name, _, folder in words}


def package_file(uri: str, near: Path | None = None) -> Path:
    """Return the file that a URI names in a package.

    Args:
        uri: ``package://PACKAGE/PATH``.
        near: File or folder above and next to which packages may have been cloned.

    Raises:
        DescriptionError: The package is not found, or has no such file; tells what was searched.
    """
    name, _, inside = _URI.sub('', uri).partition('/')
    folders = list(_package_folders(name, near))
    for folder in folders:
        if (folder / inside).is_file():
            return folder / inside
    if folders:
        listed = ', '.join(map(str, dict.fromkeys(folders)))
        problem = f'the package has no such file in {listed}'
        raise DescriptionError(f'file {uri!r}', problem, 'correct the path')
    raise _missing_package(name, near)


def cloned_file(uri: str, near: Path | None) -> Path | None:
    """Return the file of a package that is given or cloned near a description, or None.

    Also a file that does not exist, if no installed package of the name has it, either.
    """
    name, _, inside = _URI.sub('', uri).partition('/')
    folders = list(_not_installed(name, near))
    for folder in folders:
        if (folder / inside).is_file():
            return folder / inside
    if folders and not any((folder / inside).is_file() for folder in _package_folders(name, near)):
        return folders[0] / inside
    return None


def package_folder(name: str, near: Path | None = None) -> Path:
    """Return the folder of a package, see :func:`package_file`.

    Raises:
        DescriptionError: It is not found; tells what was searched.
    """
    for folder in _package_folders(name, near):
        return folder
    raise _missing_package(name, near)


class MissingPackageError(DescriptionError):
    """A package is not found; the problem says what to do, the remedy lists what was searched."""


def _missing_package(name: str, near: Path | None) -> MissingPackageError:
    above = 'the folders above the description and next to them'
    if near is not None:
        above += f' ({near if near.is_dir() else near.parent})'
    keys = *_SOURCES, _PREFIXES
    settings = [f'{key} ({os.environ.get(key) or "not set"})' for key in keys]
    return MissingPackageError(
        f'package {name!r}',
        f'not found: clone it next to the description, give --package {name}:=PATH, or source its '
        'workspace',
        f'searched: {above}, {", ".join(settings)}, {sys.prefix}/share',
    )


def _not_installed(name: str, near: Path | None) -> Iterator[Path]:
    if name in (given := _given()):
        yield given[name]
    if near is not None:
        yield from _cloned(name, near.resolve())


def _package_folders(name: str, near: Path | None) -> Iterator[Path]:
    """Yield the existing folders of a package, best first."""
    yield from _not_installed(name, near)
    here = Path(__file__).resolve()
    yield from (folder for folder in here.parents if _manifest_name(folder) == name)
    for source in chain(*map(_paths, _SOURCES)):
        yield from [source] if _is_package(source, name) else _below(source, name, _DEPTH_SRC)
    prefixes = [*_paths(_PREFIXES), Path(sys.prefix), *here.parents]
    prefixes += [Path(folder, 'cmeel.prefix') for folder in sys.path]
    for prefix in prefixes:
        if (folder := prefix / 'share' / name).is_dir():
            yield folder


def _paths(variable: str) -> list[Path]:
    return [Path(folder) for folder in os.environ.get(variable, '').split(os.pathsep) if folder]


@lru_cache(maxsize=256)
def _cloned(name: str, near: Path) -> tuple[Path, ...]:
    """Return the folders of a package above a file or folder and next to them, nearest first."""
    import tempfile  # loads libraries, which nodes do before rclpy loads its own

    found: dict[Path, None] = {}
    in_package, climbed = False, 0
    ends = {Path.home(), Path(tempfile.gettempdir()).resolve(), Path(near.anchor)}
    for folder in (near, *near.parents) if near.is_dir() else near.parents:
        if folder in ends or climbed > _CLIMB:
            break
        if _is_package(folder, name):
            found[folder] = None
        depth = _DEPTH_SRC if folder.name == 'src' else 1 + (folder / '.git').exists()
        found |= dict.fromkeys(_below(folder, name, depth))
        if folder.name == 'src':
            break
        in_package = in_package or (folder / 'package.xml').is_file()
        climbed += in_package or not any((x / 'package.xml').is_file() for x in folder.parents)
    return tuple(sorted(found, key=lambda folder: not _manifest_name(folder)))


def _below(folder: Path, name: str, depth: int) -> Iterator[Path]:
    """Yield the folders of a package below a folder, at most ``depth`` levels deep."""
    try:
        inside = sorted(entry.path for entry in os.scandir(folder) if entry.is_dir())
    except OSError:
        return
    for path in map(Path, inside):
        if path.name in _SKIPPED or path.name.startswith('.'):
            continue
        if _is_package(path, name):
            yield path
        elif depth > 1 and not (path / 'package.xml').is_file():
            yield from _below(path, name, depth - 1)


def _is_package(folder: Path, name: str) -> bool:
    """Return whether a folder is a package: by its manifest or, without one, by its own name."""
    return (_manifest_name(folder) or folder.name) == name


def _manifest_name(folder: Path) -> str:
    """Return the name in the ``package.xml`` of a folder, or nothing."""
    try:
        text = (folder / 'package.xml').read_text(encoding='utf-8', errors='replace')
    except OSError:
        return ''
    match = _MANIFEST_NAME.search(text)
    return match[1] if match else folder.name
