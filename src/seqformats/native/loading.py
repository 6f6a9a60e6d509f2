"""Object files of machine code in memory, and their functions as functions of Python."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ..errors import KERNEL
from ..later import imported
from . import objects

ALWAYS, NEVER = 0, 2**62
"""From how many bytes of arrays on a kernel lets other threads run meanwhile."""
SMALL = 1 << 18
"""The same where nobody knows better.

Who gives the GIL away gets it back when another thread wakes up, which takes longer than such a kernel."""


_BEGINNINGS = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\x64\x86")  # of ELF, Mach-O and COFF files


def load(code: bytes, names: Iterable[str], wanted: Iterable[str]) -> list[int]:
    """The addresses of some functions of an object file, which stays for ever; `wanted` is what it calls itself.

    One thread at a time.  LookupError for a function that is nowhere to be found, ValueError for what is no object
    file, and DeviceError where there is no memory for it: with them LLVM, which loads what `elf` does not know, would
    end the process.
    """
    check_memory()
    names = tuple(names)
    try:
        placed: list[int] = imported(".elf", __package__).place(code, names, address_of)
        return placed
    except OSError as error:
        raise _no_memory(error) from None
    except (ValueError, LookupError):
        return _by_llvm(code, names, wanted)


def check_memory() -> None:
    """DeviceError where the system gives no memory for machine code; LLVM would not say so, and Numba has no way on."""
    if sys.platform != "linux":
        return
    try:
        imported(".elf", __package__).try_memory()
    except OSError as error:
        raise _no_memory(error) from None


def _no_memory(error: OSError) -> Exception:
    return KERNEL(
        f"this process may not have memory for machine code ({error.strerror}), and the kernels are machine code; "
        "allow it: MemoryDenyWriteExecute=no in a unit of systemd, execmem in SELinux, no prctl(PR_SET_MDWE)"
    )


def _by_llvm(code: bytes, names: Iterable[str], wanted: Iterable[str]) -> list[int]:
    import llvmlite.binding as llvm

    if not code.startswith(_BEGINNINGS):
        raise ValueError("no object file")
    engine = _engine()
    for name in wanted:
        if llvm.address_of_symbol(name) is None:
            llvm.add_symbol(name, address_of(name))
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    found = {name: engine.get_function_address(name) for name in names}
    for name, address in found.items():
        if not address:
            raise LookupError(f"no function is called {name}")
    return list(found.values())


@functools.cache
def _engine() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()  # without it there is no engine
    target = llvm.Target.from_triple(llvm.get_process_triple())
    machine = target.create_target_machine(jit=True, codemodel="jitdefault")
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


@functools.cache
def address_of(name: str) -> int:
    """Of a function of CPython or C; LookupError where there is none."""
    for library in _libraries():
        try:
            return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
        except AttributeError:
            continue
    raise LookupError(f"no function is called {name}")


def _libraries() -> Iterator[ctypes.CDLL]:
    yield ctypes.pythonapi
    yield ctypes.CDLL(None) if sys.platform != "win32" else ctypes.cdll.msvcrt
    from ctypes.util import find_library  # which loads what starts processes, and is hardly ever asked

    mathematics = find_library("m")
    if mathematics:
        yield ctypes.CDLL(mathematics)


class _Method(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_FASTCALL = 0x0080
_kept: list[object] = []  # CPython keeps no more than the address of a method


def function_at(address: int, name: str, world: np.ndarray) -> Callable[..., Any]:
    """A builtin function of the machine code there, whose `self` is `world`, an array of int64."""
    method = _Method(name.encode(), address, _FASTCALL, None)
    _kept.append(method)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    made: Callable[..., Any] = make(ctypes.addressof(method), world, None)
    return made


@functools.cache
def world_of_entries(release_from: int) -> np.ndarray:
    """What an entry has to know of this process; `kernels.parts.building` reads the words by their places."""
    errors = id(TypeError), id(IndexError)
    world = np.array([id(np.ndarray), release_from, id(None), *errors, objects.tuple_items()], np.int64)
    world.flags.writeable = False
    return world
