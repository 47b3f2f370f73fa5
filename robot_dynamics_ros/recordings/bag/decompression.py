# SPDX-License-Identifier: Apache-2.0
"""Compressed parts of bags, as far as they can be read: zstd and lz4 as the bag library uses them.

Both formats consist of blocks that decompress one after the other, so what stands before a cut or
a damaged place is not lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from robot_dynamics_ros.errors import MissingDependencyError

#: How a zstd frame begins; a message in CDR begins with 0.
ZSTD_MAGIC = b'\x28\xb5\x2f\xfd'
_PIECE = 1 << 20
_SLICE = 1 << 16


@cache
def zstd() -> Any:
    """Return the zstd module: the standard library's (Python 3.14), or its backport.

    Raises:
        MissingDependencyError: There is none.
    """
    for name in ('compression.zstd', 'backports.zstd'):
        try:
            return import_module(name)
        except ImportError:
            continue
    raise MissingDependencyError(
        'backports.zstd', 'a compressed bag', "install it (pip 'rosbags')"
    )


def _lz4() -> Any:
    try:
        return import_module('lz4.frame')
    except ImportError as error:
        raise MissingDependencyError(
            'lz4', 'a compressed bag', "install it (pip 'rosbags')"
        ) from error


def decompress(data: Any, method: str) -> tuple[bytes, bool]:
    """Return what can be read of compressed data, and whether that is all of it.

    Args:
        data: The compressed bytes, perhaps cut off or damaged.
        method: 'zstd', 'lz4', or '' for none.
    """
    if not method:
        return bytes(data), True
    decompressor = zstd().ZstdDecompressor() if method == 'zstd' else _lz4().LZ4FrameDecompressor()
    plain = bytearray()
    for start in range(0, len(data), _SLICE):
        if decompressor.eof:
            break
        try:
            plain += decompressor.decompress(bytes(data[start : start + _SLICE]))
        except (RuntimeError, ValueError, EOFError, zstd().ZstdError):
            return bytes(plain), False
    return bytes(plain), bool(decompressor.eof)


def decompress_message(data: Any) -> bytes | None:
    """Return what a zstd-compressed message holds; None if it is damaged."""
    module = zstd()
    try:
        plain: bytes = module.decompress(data)
    except module.ZstdError:
        return None
    return plain


class ZstdFile:
    """A zstd file that is read from front to back, up to where it is damaged.

    Attributes:
        intact: False once the end was reached before the end of the data.
    """

    def __init__(self, path: Path) -> None:
        self.intact = True
        self._file: BinaryIO = path.open('rb')
        self._pieces = self._decompressed()
        self._rest = b''

    def __enter__(self) -> ZstdFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, count: int) -> bytes:
        """Return the next bytes, fewer at the end only."""
        parts, missing = [self._rest[:count]], count - len(self._rest)
        self._rest = self._rest[count:]
        while missing > 0:
            piece = next(self._pieces, None)
            if piece is None:
                break
            parts.append(piece[:missing])
            self._rest = piece[missing:]
            missing -= len(piece)
        return b''.join(parts)

    def _decompressed(self) -> Iterator[bytes]:
        module = zstd()
        decompressor, fresh = module.ZstdDecompressor(), True
        while data := self._file.read(_SLICE):
            while data:
                try:
                    yield decompressor.decompress(data)
                except module.ZstdError:
                    self.intact = False
                    return
                data, fresh = b'', False
                if decompressor.eof:
                    data, fresh = decompressor.unused_data, True
                    decompressor = module.ZstdDecompressor()
        self.intact = fresh


def unpack(source: Path, target: Path) -> bool:
    """Decompress a zstd file into another; return whether it was intact."""
    with ZstdFile(source) as packed, target.open('wb') as out:
        while piece := packed.read(_PIECE):
            out.write(piece)
        return packed.intact
