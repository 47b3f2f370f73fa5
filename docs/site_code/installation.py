# SPDX-License-Identifier: Apache-2.0
"""Print the table of dependencies in docs/with_ros.md with their size in this environment."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
#: Extras of requirements, such as ``rclpy[fastrtps]``, by name.
_EXTRAS = dict(re.findall(r"'([\w-]+)\[(\w+)\]'", (ROOT / 'setup.py').read_text('utf-8')))


def listed() -> list[tuple[list[str], int, str]]:
    """Return the rows of the page: packages, their size in MB, their purpose."""
    page = (ROOT / 'docs' / 'with_ros.md').read_text('utf-8').partition('## Dependencies')[2]
    rows = re.findall(r'^\| (\w[^|]*) \| (\d+) \| ([^|]*) \|$', page, re.MULTILINE)
    return [(packages.split(', '), int(size), purpose) for packages, size, purpose in rows]


def measured() -> Iterator[float]:
    """Yield the size of each row, MB: its packages and what no earlier row needs, no bytecode.

    Raises:
        PackageNotFoundError: A package is not installed.
    """
    known: set[tuple[str, str]] = set()
    for packages, _, _ in listed():
        yield 1e-6 * sum(_size(name, _EXTRAS.get(name, ''), known) for name in packages)


def _size(name: str, extra: str, known: set[tuple[str, str]]) -> int:
    """Return the bytes of a package and of all it needs that is not known yet."""
    key = re.sub(r'[-_.]+', '-', name).lower()
    if (key, extra) in known:
        return 0
    own = 0 if any(key == one for one, _ in known) else 1
    known.add((key, extra))
    installed = distribution(name)
    files = (Path(str(file.locate())) for file in installed.files or () if file.suffix != '.pyc')
    size = own * sum(file.stat().st_size for file in files if file.exists())
    for text in installed.requires or ():
        needed = Requirement(text)
        if needed.marker is None or needed.marker.evaluate({'extra': extra}):
            size += sum(_size(needed.name, one, known) for one in needed.extras or {''})
    return size


if __name__ == '__main__':
    for (packages, _, purpose), size in zip(listed(), measured(), strict=True):
        print(f'| {", ".join(packages)} | {size:.0f} | {purpose} |')
