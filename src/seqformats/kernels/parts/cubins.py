"""Compile kernels for a GPU: Numba makes PTX of them, and nvJitLink what a GPU runs; neither needs one.

Importing it imports the package for CUDA, so only what compiles a kernel does.
"""

import importlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ...layout import MOST_THREADS
from ...native.signature import FOURS, Signature, Word, with_places
from . import compiler
from .building import word_of
from .compiler import list_capabilities, types
from .gpu import bind
from .record import MOVES, KernelSpec, group, kinds_of, tuples

_BOUND = f".maxntid {MOST_THREADS}, 1, 1"


class Compiled(NamedTuple):
    """A kernel as code for a GPU."""

    cubin: bytes
    """For GPUs of this capability; nothing where only a driver can make it of PTX."""
    ptx: str
    """For GPUs of this capability and later ones."""
    log: str
    """What the assembler says of registers, and of memory for what does not fit them."""
    entry: str
    """What the kernel is called there."""


def compile_kernel(
    function: Callable[..., Any], signature: Signature, capability: tuple[int, int], name: str
) -> Compiled:
    """Compile a kernel for arguments of these types and GPUs of this compute capability.

    A GPU that is newer than the compiler gets the PTX of the latest that this knows.
    """
    known = list_capabilities()
    newer = capability not in known
    if newer:
        capability = max([one for one in known if one <= capability], default=max(known))
    ptx, entry = rename_entry(ptx_of(function, signature, capability), name)
    if newer:
        return Compiled(b"", ptx, "", entry)
    return Compiled(*assemble(ptx, capability, name), entry)


_OLDEST = "8.0"
"""The PTX that a driver of CUDA 12 reads; NVVM writes its own number, whatever is in it."""


class Shipped(NamedTuple):
    """A kernel as code for several GPUs."""

    entry: str
    """What the kernel is called there."""
    cubins: dict[tuple[int, int], bytes]
    """By compute capability."""
    ptx: str
    """For all later ones."""


def for_shipping(
    function: Callable[..., Any], signature: Signature, capabilities: Sequence[tuple[int, int]], name: str
) -> Shipped:
    """Compile a kernel for several GPUs: all code is of one PTX, that for the first of these.

    NVVM gives the same PTX for 7.5 to 9.0; for later ones it has another compiler, which takes as long again.
    """
    ptx, entry = rename_entry(ptx_of(function, signature, capabilities[0]), name)
    ptx = re.sub(r"^\.version \S+", f".version {_OLDEST}", ptx, flags=re.MULTILINE)
    made = {one: assemble(ptx, one, name) for one in capabilities}
    return Shipped(entry, {one: cubin for one, (cubin, _, _) in made.items()}, made[capabilities[-1]][1])


def ptx_of(function: Callable[..., Any], signature: Signature, capability: tuple[int, int]) -> str:
    """The PTX of a kernel, which says two things that the compiler of Numba's package leaves open.

    Each sum and each product is rounded by itself: else the assembler makes one operation of some of them, of others in
    another kernel, and a sequence would have another result where all of its batch are short.  And no block has more
    than `MOST_THREADS` threads: for blocks of 1,024 the assembler saves registers, and has a load wait for the one
    before it.  Where nothing is calculated its loads are together already, and what it saves are more threads.
    """
    arguments = group(function, map(kind_of, signature), types.BaseTuple.from_types)
    ptx = compiler.ptx_of(bind(function), types.void(*arguments), capability)
    ptx = re.sub(r"\b(add|sub|mul)\.(f32|f64)\b", r"\1.rn.\2", ptx)
    if not re.search(r"\.f(32|64)\s", ptx):
        return ptx
    return re.sub(r"(\.entry [\w$]+\([^)]*\))", rf"\1\n{_BOUND}", ptx)


def rename_entry(ptx: str, name: str) -> tuple[str, str]:
    """The code with a short name for its kernel, which profilers show, in place of one that has all types in it."""
    entry = re.sub(r"\W", "_", name)
    found = re.findall(r"\.entry\s+([\w$]+)", ptx)
    if len(found) != 1:
        raise ValueError(f"{name} became {len(found)} kernels")
    return re.sub(rf"{re.escape(found[0])}(?=_param_|\b)", entry, ptx), entry


_THREADS = ".minnctapersm 4", ".maxnreg 72", ".minnctapersm 3", ".minnctapersm 2", ".minnctapersm 1"
"""What is asked of the assembler, the most threads first: where each has 72 registers a multiprocessor has room for 14
blocks of 64, and for 12 of those with the 80 that are left where it has room for 3 of 256."""


def assemble(ptx: str, capability: tuple[int, int], name: str) -> tuple[bytes, str, str]:
    """The code of a GPU, what it was made of, and what the assembler says of it.

    Registers are saved until a multiprocessor has room for 1,024 threads, whose loads cover each other's; or for fewer,
    where else a thread's own numbers would go to memory and back.
    """
    for wanted in _THREADS:
        crowded = ptx.replace(_BOUND, f"{_BOUND}\n{wanted}")
        cubin, log = link(crowded, capability, name)
        if not re.search(r"[1-9]\d* bytes spill", log):
            break
    return cubin, crowded, log


def link(ptx: str, capability: tuple[int, int], name: str) -> tuple[bytes, str]:
    """The code of a GPU, and what the assembler says of it."""
    linker = importlib.import_module("cuda.bindings.nvjitlink")
    options = [f"-arch=sm_{capability[0]}{capability[1]}", "-O3", "-Xptxas=-v"]
    handle = linker.create(len(options), options)
    try:
        text = ptx.encode()
        try:
            linker.add_data(handle, linker.InputType.PTX, text, len(text), name)
            linker.complete(handle)
        except linker.nvJitLinkError as error:
            raise ValueError(f"{name} is no code for {options[0][6:]}: {_log(linker, handle, 'error')}") from error
        cubin = bytearray(linker.get_linked_cubin_size(handle))
        linker.get_linked_cubin(handle, cubin)
        return bytes(cubin), _log(linker, handle, "info")
    finally:
        linker.destroy(handle)


def _log(linker: Any, handle: int, kind: str) -> str:
    size = getattr(linker, f"get_{kind}_log_size")(handle)
    text = bytearray(size)
    if size > 1:
        getattr(linker, f"get_{kind}_log")(handle, text)
    return bytes(text).rstrip(b"\0").decode()


def kind_of(word: Word) -> Any:
    """The type that the package has for an argument."""
    if isinstance(word, tuple):
        name, *parts = word
        return types.BaseTuple.from_types([kind_of(part) for part in parts], tuples()[name])
    if word in ("i", "d"):
        return types.int64 if word == "i" else types.float64
    word, _, bits = word.partition(".")
    if word == FOURS:
        kind = importlib.import_module(".fours", __package__).Fours(types.float32)
    else:
        kind = getattr(types, _NAMES[word])
    if not bits:
        return kind[::1]
    places = importlib.import_module(".places", __package__)
    return places.Items(kind, int(bits), places.GLOBAL)


def signatures_of(spec: KernelSpec) -> Iterator[tuple[str, Signature]]:
    """Requests of launchers for a kernel: ".short" for what it has for short sequences or "", and types of arguments.

    Where an array has 2**32 items they ask for places of 64 bits, which is not among these.
    """
    for variant, function in (("", spec.cuda), (".short", spec.short)):
        if function is None:
            continue
        kinds = list(kinds_of(function))
        items = _words_of(function) if spec.does == MOVES else spec.takes
        if spec.fours and (variant or spec.over in ("lines", "units")):
            items = *items, *[(FOURS,) * len(dtypes) for dtypes in items if set(dtypes) == {"f4"}]
        for dtypes in items:
            left = iter(dtypes)
            if spec.does == MOVES:
                words = [next(left), next(left), *[word_of(kind, left) for kind in kinds[2:]]]
            else:
                words = [word_of(kind, left) for kind in kinds]
            yield variant, with_places(tuple(words), 32)


def _words_of(function: Callable[..., Any]) -> tuple[tuple[str, str], ...]:
    """Tell what a kernel moves from where: machine words of an array, or of arrays at addresses if it knows these."""
    code = function.__code__
    addresses = "absolute" in (*code.co_names, *code.co_varnames)
    return tuple((of, word) for word in _MACHINE_WORDS for of in ((word, "i") if addresses else (word,)))


_MACHINE_WORDS = ("u1", "u2", "u4", "u8", "c16")  # there is no integer of 16 bytes
_NAMES = {
    **{f"{kind}{size}": f"{name}{8 * size}" for kind, name in (("i", "int"), ("u", "uint")) for size in (1, 2, 4, 8)},
    "f2": "float16",
    "f4": "float32",
    "f8": "float64",
    "c8": "complex64",
    "c16": "complex128",
}
