"""The code of a kernel for a GPU: kept in the user's cache, or compiled now.

It lies beside the code for the CPU, under the rules of `native.store`.  What it depends on is in its key: the sources
of the kernel, the releases of Numba and of its package for CUDA, and the compute capability.  A process that finds all
its kernels there imports neither.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..errors import KERNEL
from ..later import imported
from . import store
from .code import compiler, stamp
from .digest import digest
from .signature import Signature, text_of

FORMAT = 1
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
    """"kept" or "compiled"."""


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
        entry = compiled(name, function(), signature, capability)
    except ImportError as error:
        nearest = _nearest(name, signature, capability) if kept else None
        if nearest is not None:
            return _image(nearest, "kept")
        raise KERNEL(
            f"the kernel {name} is not compiled yet for GPUs of compute capability {dotted(capability)}, and "
            f'numba-cuda, which compiles it, is not there ({error}); pip install "seqformats[cuda13]" (or cuda12)'
        ) from None
    if kept:
        store.write(text, key_of(name, text), entry)
    return _image(entry, "compiled")


def compiled(name: str, function: Callable[..., Any], signature: Signature, capability: Capability) -> store.Entry:
    """Compile a kernel now, which imports Numba's package for CUDA."""
    parts = imported("..kernels.parts.cubins", __package__)
    try:
        made = parts.compiled(function, signature, capability, name)
    except ValueError as error:
        where = f"GPUs of compute capability {dotted(capability)}"
        raise KERNEL(f"the kernel {name} cannot be compiled for {where}: {error}") from error
    return store.Entry(made.cubin, {"entry": made.entry, "ptx": made.ptx})


def is_kept(name: str, text: str) -> bool:
    """Tell whether there is code of this name, of a kernel as it is now."""
    return store.read(text, key_of(name, text)) is not None


def keep(name: str, function: Callable[..., Any], signature: Signature, capability: Capability) -> bool:
    """Compile a kernel for a GPU that need not be there; tell whether it is kept now."""
    text = text_for(name, signature, capability)
    return store.write(text, key_of(name, text), compiled(name, function, signature, capability))


def text_for(name: str, signature: Signature, capability: Capability) -> str:
    """Return the key of code in the cache."""
    return f"{name}.sm_{capability[0]}{capability[1]}({text_of(signature)})"


def key_of(name: str, text: str) -> str:
    """Return the digest of all that code depends on, in hexadecimal digits."""
    parts = (str(FORMAT), text, stamp(name.partition(".")[0]), compiler("numba"), compiler("numba_cuda"))
    return digest("\0".join(parts).encode()).hex()


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


def dotted(capability: Capability) -> str:
    """Compute capability as people write it."""
    return ".".join(map(str, capability))
