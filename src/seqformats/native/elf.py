"""Object files of x86-64 in memory without LLVM, whose binding takes as long to import as this package.

What `kernels.parts.building` makes may lie anywhere (LLVM's large model of code): all that is to be filled in are
addresses of 64 bits.  So placing it is copying its sections and writing these.  Whatever else a file asks for is
refused, and LLVM does it.

References
----------
.. [1] "System V Application Binary Interface", chapters 4 and 5, and its AMD64 supplement, chapter 4.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from collections.abc import Callable, Iterable
from typing import NamedTuple

_HEADER = struct.Struct("<4sBBB9sHHI3QI6H")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_ADDRESS = struct.Struct("<Q")

_OBJECT, _X86_64 = 1, 62
_SYMBOLS, _RELOCATIONS, _ZEROS, _UNWIND = 2, 4, 8, 0x70000001  # kinds of sections; the last is for errors of C++
_WRITABLE, _IN_MEMORY = 1, 2
_IS_ADDRESS = 1  # a relocation: the address of a symbol and a number
_UNDEFINED, _RESERVED = 0, 0xFF00
_PAGE = 4096


class _Section(NamedTuple):
    """Its header, as the standard has it."""

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


class _Symbol(NamedTuple):
    name: int
    info: int
    other: int
    section: int
    value: int
    size: int


_kept: list[mmap.mmap] = []
"""Memory with machine code, which stays for ever."""


def place(code: bytes, names: Iterable[str], address_of: Callable[[str], int]) -> list[int]:
    """The addresses of some functions of an object file, which from now on lies in memory.

    Parameters
    ----------
    code : bytes
        The file.
    names : iterable of str
        The functions.
    address_of : function
        Of the name of a function that the file calls, which others have.

    Raises
    ------
    ValueError
        For a file of another machine, and one that is no whole object file or asks for more than addresses.
    LookupError
        For a function that is nowhere to be found, or in no section that is needed in memory.
    OSError
        Where the system gives no memory for machine code.
    """
    try:
        return _placed(code, list(names), address_of)
    except (struct.error, OverflowError) as error:
        raise ValueError(str(error)) from None


def _placed(code: bytes, names: list[str], address_of: Callable[[str], int]) -> list[int]:
    sections = _sections(code)
    begins, size = _places(sections)
    memory = mmap.mmap(-1, max(size, 1), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    first = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for number, begin in begins.items():
        memory[begin : begin + sections[number].size] = _bytes_of(code, sections[number])

    def value_of(table: _Section, symbol: _Symbol) -> int:
        if symbol.section == _UNDEFINED:
            return address_of(_name(code, sections[table.link], symbol.name))
        return first + begins[symbol.section] + symbol.value

    for section in sections:
        if section.kind == _RELOCATIONS and section.info in begins:
            table, begin, size = sections[section.link], begins[section.info], sections[section.info].size
            for at, what, number in _RELOCATION.iter_unpack(_bytes_of(code, section)):
                if what & 0xFFFFFFFF != _IS_ADDRESS or at + _ADDRESS.size > size:
                    raise ValueError(f"relocation {what & 0xFFFFFFFF} at {at}")
                _ADDRESS.pack_into(memory, begin + at, value_of(table, _symbol(code, table, what >> 32)) + number)
    functions = _functions(code, sections, set(names))
    found = [value_of(*functions[name]) for name in names]
    _make_executable(first, len(memory))
    _kept.append(memory)
    return found


def _places(sections: list[_Section]) -> tuple[dict[int, int], int]:
    """Where the sections begin that are needed in memory, by number, and how many bytes that takes."""
    begins, size = {}, 0
    for number, section in enumerate(sections):
        if section.flags & _IN_MEMORY and section.kind != _UNWIND:
            if section.flags & _WRITABLE or section.kind == _ZEROS or section.alignment > _PAGE:
                raise ValueError("a section has variables, or wants a place of its own")
            begins[number] = -(-size // max(section.alignment, 1)) * max(section.alignment, 1)
            size = begins[number] + section.size
    return begins, size


def _sections(code: bytes) -> list[_Section]:
    """Those of an object file of this machine."""
    magic, bits, order, _, _, kind, machine, *_ = header = _HEADER.unpack_from(code)
    if (magic, bits, order, kind, machine) != (b"\x7fELF", 2, 1, _OBJECT, _X86_64):
        raise ValueError("no object file of x86-64")
    begin, (wide, count) = header[10], header[-3:-1]
    if wide != _SECTION.size:
        raise ValueError(f"headers of {wide} bytes")
    return [_Section(*_SECTION.unpack_from(code, begin + wide * number)) for number in range(count)]


def _bytes_of(code: bytes, section: _Section) -> bytes:
    if section.offset + section.size > len(code):
        raise ValueError("a section ends behind the file")
    return code[section.offset : section.offset + section.size]


def _symbol(code: bytes, table: _Section, number: int) -> _Symbol:
    if number * _SYMBOL.size >= table.size:
        raise ValueError(f"no symbol {number}")
    symbol = _Symbol(*_SYMBOL.unpack_from(code, table.offset + number * _SYMBOL.size))
    if symbol.section >= _RESERVED:
        raise ValueError(f"symbol {number} is in no section")
    return symbol


def _name(code: bytes, strings: _Section, place: int) -> str:
    begin = strings.offset + place
    return code[begin : code.index(b"\0", begin)].decode()


def _functions(code: bytes, sections: list[_Section], names: set[str]) -> dict[str, tuple[_Section, _Symbol]]:
    """The symbols of these, each behind its table."""
    found = {}
    for table in sections:
        for number in range(1, table.size // _SYMBOL.size) if table.kind == _SYMBOLS else ():
            symbol = _Symbol(*_SYMBOL.unpack_from(code, table.offset + number * _SYMBOL.size))
            if _UNDEFINED < symbol.section < _RESERVED:
                found[_name(code, sections[table.link], symbol.name)] = table, symbol
    for name in names - found.keys():
        raise LookupError(f"no function is called {name}")
    return found


def try_memory() -> None:
    """OSError where the system gives no memory for machine code."""
    page = mmap.mmap(-1, _PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    _make_executable(ctypes.addressof(ctypes.c_char.from_buffer(page)), _PAGE)


def _make_executable(address: int, size: int) -> None:
    """And not to be written any more."""
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    if protect(address, size, mmap.PROT_READ | mmap.PROT_EXEC):
        error = ctypes.get_errno()
        raise OSError(error, f"mprotect: {os.strerror(error)}")
