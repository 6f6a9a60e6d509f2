"""Encodings in a graph: what PyTorch's compiler reads where a model makes one, or asks for its attributes.

The compiler follows encodings as objects with attributes, which they are.  What it cannot follow is how the library
keeps a structure: arrays of NumPy that nobody may write to.  So a graph has the lengths as a tensor on the host, and a
structure that is found in a graph holds this tensor alone and works the rest out when somebody outside asks.  So does
an encoding that leaves a graph: data and structure are there, `late` fills the other fields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import torch
from torch.nn.functional import pad

from ... import registry
from ...formats import Encoding, Masked, Ragged
from ...formats.structure import Structure
from . import ops
from .outside import leave_alone, refuse

Traced: TypeAlias = Any  # a batch, class, tensor or number, or what the compiler takes for one while it reads this
GRAPHED = tuple(ops.KINDS.values())

not_held = refuse("a batch that is no Ragged, Masked, Padded or Packed of tensors with its columns in a stable order")
not_built = refuse("a batch that is built of other than a tensor and lengths; Ragged and Masked can be built there")


class Found(Structure):
    """A structure that a graph has found: its lengths are a tensor, and the rest follows when it is asked for."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        """See `Structure`."""
        if name not in ("lengths", "offsets", "rows", "longest", "stable"):
            return super().__getattr__(name)
        known = ops.structure_over(self.tensor)
        for field in ("lengths", "offsets", "rows", "longest", "stable"):
            setattr(self, field, getattr(known, field))
        return getattr(self, name)


class _Tensor(dict[Any, Any]):
    """Reads the tensor of a structure as code in C would, which the compiler calls and does not follow."""

    def __missing__(self, structure: Structure) -> Any:
        return structure.tensor


def held(x: Traced) -> bool:
    """Ask: can a graph hold it?"""
    if type(x) not in GRAPHED or not isinstance(x.data, torch.Tensor):
        return False
    structure = x._structure
    return isinstance(structure, Found) or (type(structure) is Structure and structure.stable is True)


def lengths(x: Traced) -> torch.Tensor:
    """The lengths of a batch in the caller's order, on the host."""
    if not held(x):
        not_held()
    structure = x._structure
    numbers: torch.Tensor = structure.tensor if isinstance(structure, Found) else structure.graph_lengths
    return numbers


def found(numbers: torch.Tensor, structure: Traced = None) -> Any:
    """The structure with these lengths."""
    structure = object.__new__(Found) if structure is None else structure
    structure.tensor = numbers
    structure.n = numbers.shape[0]
    structure.device = {}
    return structure


def size(x: Traced, name: str) -> Any:
    """Rows, or the longest sequence: known, or found out by the graph, as is `room`, which is 2 at least.

    The compiler treats a width of 1 as another case, so a rectangle that is made in a graph is 2 wide.
    """
    if name == "rows" and x._lead == 1:
        return x.data.shape[0]
    numbers, structure = lengths(x), x._structure
    if not isinstance(structure, Found):
        return structure.rows if name == "rows" else structure.longest
    if name not in structure.device:
        measured = numbers.sum(0, keepdim=True) if name == "rows" else numbers
        structure.device[name] = torch.ops.seqformats.room.default(measured, 2 * (name == "room")).shape[0]
    return structure.device[name]


def made(kind: Traced, data: torch.Tensor, structure: Traced, side: Traced = "right") -> Any:
    """The encoding over such data; `late` fills the rest."""
    x = object.__new__(kind)
    object.__setattr__(x, "data", data.contiguous())
    object.__setattr__(x, "_structure", structure)
    if kind is Masked:
        object.__setattr__(x, "side", side)
    return x


def over(x: Traced, data: torch.Tensor) -> Any:
    """The encoding `x` over other data."""
    return made(type(x), data, x._structure, x.side if type(x) is Masked else "right")


def late(x: Any, name: str) -> Any:
    """Fill the fields that a graph has left out, where Python finds one of them empty."""
    if name not in ("_lengths", "_indices", "_size_at_t", "_shape", "_dtype") or not hasattr(x, "_structure"):
        raise AttributeError(f"{type(x).__name__!r} object has no attribute {name!r}", name=name, obj=x)
    whole = ops.batch_over(type(x).__name__, getattr(x, "side", "right"), x.data, x._structure)
    for field in ("_shape", "_dtype", *(["_lengths", "_indices", "_size_at_t"] if x._by_steps else ["_lengths"])):
        object.__setattr__(x, field, getattr(whole, field))
    return getattr(x, name)


# --- constructors and attributes --------------------------------------------------------------------------------------


def empty(kind: Traced) -> Any:
    """Make an encoding with nothing in it."""
    return object.__new__(kind)


def empty_in_graph(kind: Traced) -> Any:
    """Make it behind its structure, since a graph hands out objects in the order in which they have been made."""
    structure = object.__new__(Found)
    x = object.__new__(kind)
    object.__setattr__(x, "_structure", structure)
    return x


def construct(x: Traced, data: Traced = None, lengths: Traced = None, side: Traced = "right") -> None:
    """Check and fill what the constructor of `Ragged` or `Masked` is given."""
    if isinstance(lengths, (list, tuple, np.ndarray)):
        lengths = torch.as_tensor(lengths)
    fits = isinstance(data, torch.Tensor) and isinstance(lengths, torch.Tensor) and side in ("left", "right")
    if not fits or data.dim() < x._lead:
        not_built()
    found(torch.ops.seqformats.lengths.default(data.detach(), lengths, type(x).__name__), x._structure)
    object.__setattr__(x, "data", data)
    if type(x) is Masked:
        object.__setattr__(x, "side", side)


def mask(x: Traced) -> torch.Tensor:
    """``x.mask``."""
    width = x.data.shape[1]
    count = lengths(x).to(x.data.device)[:, None]
    place = torch.arange(width, device=x.data.device)
    return place >= width - count if x.side == "left" else place < count


def falling(x: Traced) -> Any:
    """The lengths by falling length, and the places of the sequences."""
    return torch.sort(lengths(x), descending=True, stable=True)


def size_at_t(x: Traced) -> Any:
    """``x.size_at_t``."""
    steps = x.data.shape[0] if x._lead == 2 else size(x, "longest")
    return (lengths(x) > torch.arange(steps)[:, None]).sum(1).numpy()


def alone(numbers: Traced) -> Any:
    """A copy that nobody may write to: as an argument the compiler does not take a view of such an array."""
    if not isinstance(numbers, np.ndarray):
        return numbers
    found = numbers.copy()
    found.flags.writeable = False
    return found


VIEWS: dict[str, Callable[[Traced], Any]] = {
    "lengths": lambda x: (falling(x)[0] if x._by_steps else lengths(x).clone()).numpy(),
    "indices": lambda x: falling(x)[1].numpy(),
    "size_at_t": size_at_t,
}
"""Fields that are handed out as views."""
ATTRIBUTES: dict[str, Callable[[Traced], Any]] = {
    "item_shape": lambda x: tuple(x.data.shape[x._lead :]),
    "dtype": lambda x: x.data.dtype,
    "rows": lambda x: size(x, "rows"),
    "max_length": lambda x: size(x, "longest"),
    "device": lambda x: "cpu" if x.data.device.type == "cpu" else str(x.data.device),
}
"""Others, which the compiler may follow outside of a graph."""


def register() -> None:
    """Tell the compiler, once."""
    registry.provides("lengths_tensor")(lambda structure: torch.from_numpy(structure.lengths.copy()))
    Structure.graph_lengths = property(_Tensor().__getitem__)  # type: ignore[attr-defined]
    leave_alone(vars(Ragged)["offsets"].fget, lambda x: pad(lengths(x).cumsum(0), (1, 0)).numpy(), alone)
    leave_alone(vars(Masked)["mask"].fget, mask)
    for name, version in ATTRIBUTES.items():
        torch.compiler.substitute_in_graph(vars(Encoding)[name].fget, skip_signature_check=True)(version)
    for kind in GRAPHED:
        kind.__getattr__ = late  # type: ignore[attr-defined]
        for name in VIEWS.keys() & vars(kind):

            def view(x: Any, _name: str = f"_{name}") -> Any:
                return alone(getattr(x, _name))  # in Python, since the compiler follows no function of C

            setattr(kind, name, property(view, vars(kind)[f"_{name}"].__set__))
            leave_alone(view, VIEWS[name])
    for built in (Ragged, Masked):
        leave_alone(built.__init__, construct)
        built.__new__ = staticmethod(lambda kind, *_, **__: empty(kind))  # type: ignore[assignment]
    torch.compiler.substitute_in_graph(empty, skip_signature_check=True)(empty_in_graph)
