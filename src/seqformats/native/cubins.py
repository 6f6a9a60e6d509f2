"""The code of a kernel for a GPU: shipped by a package, kept in the user's cache, or compiled now.

``seqformats-cuda13`` is such a package: `importlib.util.find_spec` finds it, and two files in it have cubins of all
kernels, see `shipped_files.Images`.  They are used where they were made of the sources that are here.

What is kept lies beside the code for the CPU, under the rules of `native.store`.  What it depends on is in its key: the
sources of the kernel, the releases of Numba and of its package for CUDA, and the compute capability.  A process that
finds all its kernels in either place imports neither.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import KERNEL
from ..lazy_import import import_now
from . import store
from .code import compiler, names, stamp
from .digest import digest
from .shipped_files import Images
from .signature import Signature, text_of

CUBIN_PACKAGES = ("seqformats_cuda13",)
"""Packages that ship code for GPUs, the one that is preferred first."""
SHIPPED_FOR = ((7, 5), (8, 0), (9, 0), (10, 0), (12, 0))
"""The compute capabilities for which they have cubins, which later ones of a generation run too."""

_CUBIN_FORMAT = 1
"""Of what a file holds, changed when it is to be read otherwise."""
_CAPABILITIES = ((7, 5), (8, 0), (8, 6), (8, 7), (8, 9), (9, 0), (10, 0), (10, 3), (11, 0), (12, 0), (12, 1))

Capability = tuple[int, int]


class Image(NamedTuple):
    """Code that a driver can load."""

    data: bytes
    """A cubin, or PTX that ends with a zero byte."""
    entry: str
    """The name of the kernel in it."""
    origin: str
    """"shipped", "kept" or "compiled"."""


def images_of(
    name: str, function: Callable[[], Callable[..., Any]], signature: Signature, capability: Capability, kept: bool
) -> Iterator[Image]:
    """Yield code of a kernel, the quickest first: the next is for a driver that cannot load the one before.

    It does not where it is older than what was shipped, or has no compiler for PTX.  See `image_of`, the last of them,
    for the parameters.
    """
    shipped = _find_shipped(name, signature) if kept else None
    if shipped is not None:
        entry, read, places = shipped
        same = [one for one in SHIPPED_FOR if one[0] == capability[0] and one <= capability and one in places]
        if same and (cubin := read(*places[same[-1]])):
            yield Image(cubin, entry, "shipped")
        elif is_kept(name, text_for(name, signature, capability)):
            yield image_of(name, function, signature, capability, kept)
        if capability >= SHIPPED_FOR[0] and (ptx := read(*places["ptx"])):
            yield Image(ptx + b"\0", entry, "shipped")
    yield image_of(name, function, signature, capability, kept)


def image_of(
    name: str, function: Callable[[], Callable[..., Any]], signature: Signature, capability: Capability, kept: bool
) -> Image:
    """The code of a kernel for arguments of these types and a GPU of this capability.

    Parameters
    ----------
    name : str
        The kernel.
    function : callable
        Gives what is to be compiled where no code is kept.
    signature : Signature
        The types.
    capability : tuple of int
        The compute capability of the GPU.
    kept : bool
        Is this a kernel of the house, whose sources are known?  Others are compiled in each process.

    Returns
    -------
    Image
        A cubin for this GPU; or PTX, where the compiler is older than the GPU.

    Raises
    ------
    DeviceError
        Where there is no code and none can be compiled.
    """
    text = text_for(name, signature, capability)
    if kept:
        found = store.read(text, key_of(name, text))
        if found is not None:
            return _image(found, "kept")
    try:
        entry = compile_now(name, function(), signature, capability)
    except ImportError as error:
        nearest = _nearest(name, signature, capability) if kept else None
        if nearest is not None:
            return _image(nearest, "kept")
        raise KERNEL(
            f"the kernel {name} is not compiled yet for GPUs of compute capability "
            f"{format_capability(capability)}, and "
            f'numba-cuda, which compiles it, is not there ({error}); pip install "seqformats[cuda13]" (or cuda12)'
        ) from None
    if kept:
        store.write(text, key_of(name, text), entry)
    return _image(entry, "compiled")


def compile_now(name: str, function: Callable[..., Any], signature: Signature, capability: Capability) -> store.Entry:
    """Compile a kernel now, which imports Numba's package for CUDA."""
    parts = import_now("..kernels.parts.cubins", __package__)
    try:
        made = parts.compile_kernel(function, signature, capability, name)
    except ValueError as error:
        where = f"GPUs of compute capability {format_capability(capability)}"
        raise KERNEL(f"the kernel {name} cannot be compiled for {where}: {error}") from error
    return store.Entry(made.cubin, {"entry": made.entry, "ptx": made.ptx})


def is_kept(name: str, text: str) -> bool:
    """Tell whether there is code of this name, of a kernel as it is now."""
    return store.read(text, key_of(name, text)) is not None


def keep(name: str, function: Callable[..., Any], signature: Signature, capability: Capability) -> bool:
    """Compile a kernel for a GPU that need not be there; tell whether it is kept now."""
    text = text_for(name, signature, capability)
    return store.write(text, key_of(name, text), compile_now(name, function, signature, capability))


def text_for(name: str, signature: Signature, capability: Capability) -> str:
    """Return the key of code in the cache."""
    return f"{name}.sm_{capability[0]}{capability[1]}({text_of(signature)})"


def key_of(name: str, text: str) -> str:
    """Return the digest of all that code depends on, in hexadecimal digits."""
    parts = (str(_CUBIN_FORMAT), text, stamp(name.partition(".")[0]), compiler("numba"), compiler("numba_cuda"))
    return digest("\0".join(parts).encode()).hex()


def _find_shipped(
    name: str, signature: Signature
) -> tuple[str, Callable[[int, int], bytes], dict[Any, tuple[int, int]]] | None:
    """Find a kernel that was shipped: its name there, what reads an image, and where these lie.

    None where it was not shipped for these types, or was made of other sources.
    """
    images = None if os.environ.get("SEQFORMATS_JIT", "0") not in ("", "0") else bundle()
    if images is None:
        return None
    kernel = name.partition(".")[0]
    own, found = images.facts(kernel), images.facts(shipped_name(name, signature))
    if own is None or found is None or own["stamp"] != stamp(kernel):
        return None
    return found["entry"], images.image, found["images"]


def shipped_name(name: str, signature: Signature) -> str:
    """Name what is shipped of a kernel for some types, and all compute capabilities."""
    return f"{name}({text_of(signature)})"


@functools.cache
def bundle() -> Images | None:
    """Find the code for GPUs that a package has; None where none is installed."""
    for package in CUBIN_PACKAGES:
        found = importlib.util.find_spec(package)
        if found is not None and found.origin is not None:
            return Images.open(Path(found.origin).parent)
    return None


def list_outdated() -> list[str]:
    """List the kernels whose code for GPUs was made of other sources, and is not used."""
    images = bundle()
    known = {} if images is None else {name: images.facts(name) for name in names()}
    return [name for name, facts in known.items() if facts is not None and facts["stamp"] != stamp(name)]


def _image(entry: store.Entry, origin: str) -> Image:
    facts = entry.facts
    return Image(entry.code or facts["ptx"].encode() + b"\0", facts["entry"], origin)


def _nearest(name: str, signature: Signature, capability: Capability) -> store.Entry | None:
    """Return kept code of an older GPU that runs here too: a cubin of the same generation, else PTX."""
    for older in reversed([one for one in _CAPABILITIES if one < capability]):
        text = text_for(name, signature, older)
        found = store.read(text, key_of(name, text))
        if found is not None:
            return found if older[0] == capability[0] else store.Entry(b"", found.facts)
    return None


def format_capability(capability: Capability) -> str:
    """Compute capability as people write it."""
    return ".".join(map(str, capability))
