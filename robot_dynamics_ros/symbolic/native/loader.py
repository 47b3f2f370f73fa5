# SPDX-License-Identifier: Apache-2.0
"""Loader of object files without LLVM, whose library takes far longer to load than they do.

With its large code model for x86-64, LLVM emits only absolute addresses of eight bytes as
references (relocation R_X86_64_64 of the processor's ELF supplement): the loader copies sections
and fills in addresses. All other object files and processors are left to LLVM.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Callable
from typing import NamedTuple

#: The first bytes of an object file for x86-64: ELF, 64 bits, little-endian; relocatable.
_IDENTITY, _KIND = b'\x7fELF\x02\x01', (1, 62)
_PROGRAM, _SYMBOLS, _RELOCATIONS, _UNWINDING = 1, 2, 4, 0x70000001  # types of sections
_IN_MEMORY = 0x2  # among the flags of a section
_UNDEFINED = 0  # the section of an external symbol
_ADDRESS = 1  # R_X86_64_64


class _ElfSection(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry: int


class LoadedObject:
    """The loaded functions of an object file, callable during the lifetime of this object.

    Args:
        data: Content of the object file.
        outside: Returns the address of an external symbol by name.

    Raises:
        ValueError: The file has features that only LLVM can load.
        AttributeError: ``outside`` does not find a symbol.
        OSError: The system refuses executable memory.
    """

    def __init__(self, data: bytes, external: Callable[[str], int]) -> None:
        if data[:6] != _IDENTITY or struct.unpack_from('<2H', data, 16) != _KIND:
            raise ValueError('no object file for x86-64')
        self._data, (table,) = data, struct.unpack_from('<Q', data, 40)
        size, count = struct.unpack_from('<2H', data, 58)
        self._sections = [
            _ElfSection._make(struct.unpack_from('<2I4Q2I2Q', data, table + k * size))
            for k in range(count)
        ]
        self._copy()
        self._symbols = self._addresses(external)
        for section in self._sections:
            if section.kind == _RELOCATIONS and section.info in self._offsets:
                self._relocate(section)
        self._protect()

    def address(self, symbol: str) -> int:
        """Return the address of a function; 0 if there is none of that name."""
        return self._names.get(symbol, 0)

    def _copy(self) -> None:
        """Copy the sections that are needed at run time."""
        end, self._offsets = 0, dict[int, int]()
        for k, section in enumerate(self._sections):
            if not section.flags & _IN_MEMORY or section.kind == _UNWINDING:
                continue
            if section.kind != _PROGRAM:
                raise ValueError(f'a section of type {section.kind}')
            self._offsets[k] = -(-end // section.alignment) * section.alignment
            end = self._offsets[k] + section.size
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._memory = mmap.mmap(-1, end, flags=flags)
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        for k, offset in self._offsets.items():
            content = self._content(self._sections[k])
            self._memory[offset : offset + len(content)] = content

    def _content(self, section: _ElfSection) -> bytes:
        return self._data[section.offset : section.offset + section.size]

    def _addresses(self, external: Callable[[str], int]) -> list[int]:
        """Return the address of every symbol; 0 if it has none."""
        (table,) = (section for section in self._sections if section.kind == _SYMBOLS)
        names, addresses = self._content(self._sections[table.link]), list[int]()
        self._names = dict[str, int]()
        for start, _, _, section, value, _ in struct.iter_unpack('<I2BH2Q', self._content(table)):
            name, address = names[start : names.index(b'\0', start)].decode(), 0
            if section in self._offsets:
                address = self._base + self._offsets[section] + value
            elif section == _UNDEFINED and name:
                address = external(name)
            addresses.append(address)
            self._names[name] = address
        return addresses

    def _relocate(self, relocations: _ElfSection) -> None:
        start = self._offsets[relocations.info]
        for offset, kind, symbol, addend in struct.iter_unpack(
            '<Q2Iq', self._content(relocations)
        ):
            if kind != _ADDRESS or not self._symbols[symbol]:
                raise ValueError(f'a relocation of type {kind}')
            address = self._symbols[symbol] + addend
            struct.pack_into('<Q', self._memory, start + offset, address)

    def _protect(self) -> None:
        """Make the memory executable and read-only."""
        mprotect = ctypes.CDLL(None, use_errno=True).mprotect
        mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        if mprotect(self._base, len(self._memory), mmap.PROT_READ | mmap.PROT_EXEC):
            raise OSError(ctypes.get_errno(), 'mprotect')
