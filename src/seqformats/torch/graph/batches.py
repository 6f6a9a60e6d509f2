"""Encodings in a graph: what PyTorch's compiler reads where a model makes one, or asks for its attributes.

The compiler follows encodings as objects with attributes, which they are: the data is a tensor of the graph, lengths
are numbers.  What it cannot follow is how the library keeps a structure: arrays of NumPy that nobody may write to.  So
a graph has the offsets as a tensor on the host, and a structure that is found in a graph holds this tensor alone and
works the rest out when somebody outside asks.  An encoding that leaves a graph is filled, field by field, as `made`
says, so it is of its own class; where the graph did not change its structure, it is that of the argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import torch

from ... import registry
from ...formats import Encoding, Masked, Packed, Padded, Ragged
from ...formats.structure import Structure
from . import ops
from .outside import leave_alone, refuse

Traced: TypeAlias = Any  # a batch, class, tensor or number, or what the compiler takes for one while it reads this
GRAPHED = (Ragged, Masked, Padded, Packed)
KINDS: dict[str, type[Any]] = {"Ragged": Ragged, "Masked": Masked, "Padded": Padded, "Packed": Packed}

not_held = refuse("a batch that is no Ragged, Masked, Padded or Packed of tensors with its columns in a stable order")
not_built = refuse("a batch that is built of other than a tensor and lengths; Ragged and Masked can be built there")


@registry.provides("offsets_tensor")
def offsets_tensor(structure: Structure) -> torch.Tensor:
    """The offsets of a structure, as a graph takes them."""
    return torch.from_numpy(structure.offsets.copy())


class Found(Structure):
    """A structure that a graph has found: its offsets are a tensor, and the rest follows when it is asked for."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        """See `Structure`."""
        if name not in ("lengths", "offsets", "rows", "longest", "stable"):
            return super().__getattr__(name)
        known = ops.structure_over(self.tensor)
        self.lengths, self.offsets, self.rows, self.stable = known.lengths, known.offsets, known.rows, True
        self.longest = known.longest
        return getattr(self, name)


class _Read(dict[Any, Any]):
    """Reads an attribute as code in C would, which the compiler does not follow but calls: it holds nothing."""

    def __init__(self, read: Callable[[Structure], Any]) -> None:
        self.read = read

    def __missing__(self, structure: Structure) -> Any:
        return self.read(structure)


for _name, _read in {
    "graph_offsets": lambda structure: structure.tensor,
    "graph_lengths": lambda structure: structure.order.lengths,
    "graph_indices": lambda structure: structure.order.indices,
    "graph_sizes": lambda structure: structure.order.size_at_t,
}.items():
    setattr(Structure, _name, property(_Read(_read).__getitem__))


def held(x: Traced) -> bool:
    """Ask: can a graph hold it?"""
    if type(x) not in GRAPHED or not isinstance(x.data, torch.Tensor):
        return False
    structure = x._structure
    if isinstance(structure, Found):
        return True
    return type(structure) is Structure and structure.stable is True


def offsets(x: Traced) -> torch.Tensor:
    """The offsets of a batch, on the host."""
    if not held(x):
        not_held()
    structure = x._structure
    found: torch.Tensor = structure.tensor if isinstance(structure, Found) else structure.graph_offsets
    return found


def found(numbers: torch.Tensor, structure: Traced = None) -> Any:
    """The structure with these offsets."""
    structure = object.__new__(Found) if structure is None else structure
    structure.tensor = numbers
    structure.n = numbers.shape[0] - 1
    structure.device = {}
    return structure


def longest(x: Traced) -> Any:
    """The items of its longest sequence: a number that is known, or one that the graph finds out."""
    return _most(x, "longest", 0)


def room(x: Traced) -> Any:
    """A width that fits: one that the graph finds out is 2 at least, since the compiler treats 1 as another case."""
    return _most(x, "room", 2)


def _most(x: Traced, name: str, least: int) -> Any:
    numbers = offsets(x)
    structure = x._structure
    if not isinstance(structure, Found):
        return structure.longest
    known = structure.device
    if name not in known:
        known[name] = torch.ops.seqformats.room.default(numbers, least).shape[0]
    return known[name]


def same_structure(x: Traced, y: Traced) -> bool:
    """Ask: is the structure of both known to be one?"""
    return x._structure is y._structure


def lengths(x: Traced) -> torch.Tensor:
    """Lengths in the caller's order."""
    return torch.ops.seqformats.lengths.default(offsets(x))


def made(kind: Traced, data: torch.Tensor, structure: Traced, side: Traced = "right") -> Any:
    """The encoding over such data, filled as `_sealed` of its class does it."""
    x = object.__new__(kind)
    fill = object.__setattr__
    data = data.contiguous()
    fill(x, "data", data)
    fill(x, "_structure", structure)
    fill(x, "_shape", data.shape)
    fill(x, "_dtype", data.dtype)
    if kind is Masked:
        fill(x, "side", side)
    new = isinstance(structure, Found)
    if kind is Ragged or kind is Masked:
        fill(
            x, "_lengths", torch.ops.seqformats.lengths.default(structure.tensor).numpy() if new else structure.lengths
        )
        return x
    if new:
        numbers, places = torch.sort(
            torch.ops.seqformats.lengths.default(structure.tensor), descending=True, stable=True
        )
        fill(x, "_lengths", numbers.numpy())
        fill(x, "_indices", places.numpy())
    else:
        fill(x, "_lengths", structure.graph_lengths)
        fill(x, "_indices", structure.graph_indices)
    fill(x, "_size_at_t", structure.graph_sizes if kind is Packed and not new else size_at_t(x))
    return x


def over(x: Traced, data: torch.Tensor) -> Any:
    """The encoding `x` over other data."""
    return made(type(x), data, x._structure, x.side if type(x) is Masked else "right")


# --- attributes -------------------------------------------------------------------------------------------------------


def _sorted(x: Traced) -> Any:
    return torch.sort(lengths(x), descending=True, stable=True)


def lengths_of(x: Traced) -> Any:
    """``x.lengths``."""
    return (_sorted(x)[0] if x._by_steps else lengths(x)).numpy()


def indices_of(x: Traced) -> Any:
    """``x.indices``."""
    return _sorted(x)[1].numpy()


def size_at_t(x: Traced) -> Any:
    """``x.size_at_t``."""
    steps = x.data.shape[0] if x._lead == 2 else longest(x)
    return (lengths(x) > torch.arange(steps)[:, None]).sum(1).numpy()


def offsets_of(x: Traced) -> Any:
    """``x.offsets``."""
    return offsets(x).clone().numpy()


def mask(x: Traced) -> torch.Tensor:
    """``x.mask``."""
    width = x.data.shape[1]
    count = lengths(x).to(x.data.device)[:, None]
    place = torch.arange(width, device=x.data.device)
    return place >= width - count if x.side == "left" else place < count


def item_shape(x: Traced) -> Any:
    """``x.item_shape``."""
    return tuple(x.data.shape[x._lead :])


def rows(x: Traced) -> Any:
    """``x.rows``."""
    if x._lead == 1:
        return x.data.shape[0]
    structure = x._structure
    if not isinstance(structure, Found):
        return structure.rows
    known = structure.device
    if "rows" not in known:
        known["rows"] = torch.ops.seqformats.room.default(torch.stack([offsets(x)[0], offsets(x)[-1]]), 0).shape[0]
    return known["rows"]


def device_of(x: Traced) -> str:
    """``x.device``."""
    return "cpu" if x.data.device.type == "cpu" else str(x.data.device)


# --- constructors -----------------------------------------------------------------------------------------------------


def new(kind: Traced, *args: Any, **options: Any) -> Any:  # noqa: ARG001  what a constructor is given
    """Make what a constructor fills."""
    return empty(kind)


def empty(kind: Traced) -> Any:
    """Make an encoding with nothing in it."""
    return object.__new__(kind)


def empty_in_graph(kind: Traced) -> Any:
    """Make it with its structure, since a graph hands out objects in the order in which they have been made."""
    structure = object.__new__(Found)
    x = object.__new__(kind)
    object.__setattr__(x, "_structure", structure)
    return x


def construct(x: Traced) -> Any:
    """Check and fill what the constructor of `Ragged` or `Masked` has been given."""
    kind, data, numbers = type(x), x.data, x._lengths
    if (kind is not Ragged and kind is not Masked) or not isinstance(data, torch.Tensor) or numbers is None:
        not_built()
    if isinstance(numbers, (list, tuple, np.ndarray)):
        numbers = torch.as_tensor(numbers)
    if not isinstance(numbers, torch.Tensor) or data.dim() < kind._lead:
        not_built()
    if kind is Ragged:
        numbers = torch.ops.seqformats.offsets.default(numbers, data.shape[0])
    elif x.side in ("left", "right"):
        numbers = torch.ops.seqformats.offsets.default(numbers, -1, data.shape[0], data.shape[1])
    else:
        not_built()
    found(numbers, x._structure)
    fill = object.__setattr__
    fill(x, "_lengths", torch.ops.seqformats.lengths.default(numbers).numpy())
    fill(x, "_shape", data.shape)
    fill(x, "_dtype", data.dtype)
    return x


def alone(numbers: Traced) -> Any:
    """A copy that nobody may write to: as an argument the compiler does not take a view of such an array."""
    if not isinstance(numbers, np.ndarray):
        return numbers
    found = numbers.copy()
    found.flags.writeable = False
    return found


def _field(kind: type[Encoding[Any]], name: str, read: Callable[[Any], Any]) -> None:
    """Let the compiler follow a field that is handed out as a view, which outside stays what it is."""
    own: Any = vars(kind)[f"_{name}"]

    def view(self: Any) -> Any:
        return alone(getattr(self, f"_{name}"))

    def put(self: Any, value: Any) -> None:
        own.__set__(self, value)

    def put_in_graph(self: Any, value: Any) -> None:
        object.__setattr__(self, f"_{name}", value)

    setattr(kind, name, property(view, put))
    torch.compiler.substitute_in_graph(view, skip_signature_check=True)(read)
    torch.compiler.substitute_in_graph(put, skip_signature_check=True)(put_in_graph)


def register() -> None:
    """Tell the compiler, once."""
    for kind in GRAPHED:
        _field(kind, "lengths", lengths_of)
        if kind._by_steps:
            _field(kind, "indices", indices_of)
            _field(kind, "size_at_t", size_at_t)
    for kind in (Ragged, Masked):
        leave_alone(kind.__post_init__, construct)
        kind.__new__ = staticmethod(new)  # type: ignore[assignment]
    for owner, name, version in (
        (Ragged, "offsets", offsets_of),
        (Masked, "mask", mask),
        (Encoding, "item_shape", item_shape),
        (Encoding, "rows", rows),
        (Encoding, "max_length", longest),
        (Encoding, "device", device_of),
    ):
        torch.compiler.substitute_in_graph(vars(owner)[name].fget, skip_signature_check=True)(version)
    torch.compiler.substitute_in_graph(empty, skip_signature_check=True)(empty_in_graph)
