"""Machine code in this process, loaded by the system or by LLVM."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Iterable
from pathlib import Path

from ..errors import KERNEL

ALWAYS = 0
"""From how many bytes of arrays on a kernel lets other threads run meanwhile."""
MIN_BYTES_WITHOUT_GIL = 1 << 18
"""The same where nobody knows better.

Who gives the GIL away gets it back when another thread wakes up, which takes longer than such a kernel."""


_kept: list[object] = []  # what stays for ever
_BEGINNINGS = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\x64\x86")  # of ELF, Mach-O and COFF files


def open_shared(path: Path) -> ctypes.CDLL:
    """A shared object, which stays for ever; OSError where the system does not load it."""
    return ctypes.CDLL(str(path))


def address_in(library: ctypes.CDLL, symbol: str) -> int:
    """Find the address of a function of a shared object; 0 where there is none of that name."""
    try:
        return ctypes.cast(library[symbol], ctypes.c_void_p).value or 0
    except AttributeError:
        return 0


def load(path: Path | None, code: bytes, symbols: Iterable[str]) -> list[int]:
    """The addresses of some functions of a shared object, or without one (None) of an object file, by LLVM.

    Both are of the same code.  One thread at a time.  LookupError for a function that is nowhere to be found,
    ValueError if the code is no object file, and DeviceError where there is no memory for it.
    """
    if path is not None:
        try:
            library = open_shared(path)
        except OSError:  # from where nothing may be executed, say
            pass
        else:
            return [_find(symbol, address_in(library, symbol)) for symbol in symbols]
    check_memory()  # LLVM would end the process
    return _by_llvm(code, symbols)


def _find(symbol: str, address: int) -> int:
    if not address:
        raise LookupError(f"no function is called {symbol}")
    return address


def check_memory() -> None:
    """DeviceError where the system gives no memory for machine code; LLVM would not say so, and Numba has no way on."""
    if sys.platform != "linux":
        return
    try:
        kind, may = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
        mmap.mmap(-1, mmap.PAGESIZE, kind, may).close()
    except OSError as error:
        raise KERNEL(
            f"this process may not have memory for machine code ({error.strerror}), which what is compiled now needs; "
            "use a wheel, whose kernels need none, or allow it: MemoryDenyWriteExecute=no in a unit of systemd, "
            "execmem in SELinux, no prctl(PR_SET_MDWE)"
        ) from None


def _by_llvm(code: bytes, symbols: Iterable[str]) -> list[int]:
    """Load an object file by LLVM, which finds in this process what it calls of CPython, C and mathematics."""
    import llvmlite.binding as llvm

    if not code.startswith(_BEGINNINGS):
        raise ValueError("no object file")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()  # without it there is no engine
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)  # a new one: symbols of two may be the same
    _kept.append(engine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return [_find(symbol, engine.get_function_address(symbol)) for symbol in symbols]
