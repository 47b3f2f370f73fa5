# SPDX-License-Identifier: Apache-2.0
"""Files shipped with the package, and the resolution of robot names to files."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from robot_dynamics_ros.description.packages import is_package_uri, package_file
from robot_dynamics_ros.errors import DescriptionError, known_name

PACKAGE = 'robot_dynamics_ros'

#: Shipped robots, by name, with their files relative to the share directory.
ROBOTS = {
    'scara': 'urdf/scara.urdf.xacro',
    'four_dof': 'urdf/four_dof.urdf.xacro',
}

#: Shipped closed-loop mechanisms: spanning tree and mechanism file.
MECHANISMS = {
    'parallelogram': ('urdf/parallelogram.urdf.xacro', 'config/parallelogram_loops.yaml'),
    'four_bar': ('urdf/four_bar.urdf.xacro', 'config/four_bar_loops.yaml'),
    'welding_arm': ('urdf/welding_arm.urdf.xacro', 'config/welding_arm_loops.yaml'),
}
_FILES = ROBOTS | {mechanism: tree for mechanism, (tree, _) in MECHANISMS.items()}


def share_directory() -> Path:
    """Return the directory that contains urdf, config, launch and worlds.

    This is the source tree if there is one, otherwise ``share/robot_dynamics_ros`` of the install
    prefix or of a prefix in ``AMENT_PREFIX_PATH``.

    Raises:
        DescriptionError: The package's files are not installed.
    """
    here = Path(__file__).resolve()
    prefixes = [*here.parents, *map(Path, os.environ.get('AMENT_PREFIX_PATH', '').split(':'))]
    candidates = [here.parents[2], *(prefix / 'share' / PACKAGE for prefix in prefixes)]
    for folder in candidates:
        if (folder / 'urdf' / 'scara.urdf.xacro').is_file():
            return folder
    raise DescriptionError(
        f'package {PACKAGE}', 'its urdf folder is not installed', 'build it with colcon'
    )


def shipped_robot(name: str) -> Path:
    """Return the path of the xacro file of a shipped robot, or of a mechanism's spanning tree.

    Raises:
        UnknownNameError: The name is unknown; lists the shipped robots.
    """
    return share_directory() / _FILES[known_name('robot', name, _FILES)]


def wide_limits(name: str) -> dict[str, str]:
    """Return the xacro argument of a shipped arm's wide joint limits; empty if it has one profile.

    Raises:
        UnknownNameError: The name is unknown; lists the shipped robots.
    """
    text = shipped_robot(name).read_text(encoding='utf-8')
    return {'limits_profile': 'wide'} if '"limits_profile"' in text else {}


def shipped_files() -> frozenset[Path]:
    """Return the xacro files of all shipped robots, with symbolic links resolved."""
    with suppress(DescriptionError):
        folder = share_directory().resolve()
        return frozenset((folder / file).resolve() for file in _FILES.values())
    return frozenset()


def robot_file(word: str | os.PathLike[str]) -> Path | str:
    """Return the file that a robot argument refers to; the syntax is the same everywhere.

    Args:
        word: Name of a shipped robot or mechanism, path of a URDF or xacro file,
            ``package://PACKAGE/PATH``, or URDF text, which is returned unchanged.

    Raises:
        UnknownNameError: The word looks like a name, but no robot of that name is shipped.
        DescriptionError: The package is not installed, or the file does not exist.
    """
    text = os.fspath(word)
    if is_package_uri(text):
        return package_file(text, Path.cwd())
    is_name = text.isidentifier() and not os.path.exists(text)
    return shipped_robot(text) if is_name or text in _FILES else text


def shipped_mechanism(name: str) -> tuple[Path, Path]:
    """Return the paths of a shipped mechanism's xacro file and mechanism file.

    Raises:
        UnknownNameError: The name is unknown; lists the shipped mechanisms.
    """
    urdf, loops = MECHANISMS[known_name('mechanism', name, MECHANISMS)]
    return share_directory() / urdf, share_directory() / loops
