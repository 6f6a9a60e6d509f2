"""Encodings in a graph: what PyTorch's compiler reads where a model makes one, or asks for its attributes.

The compiler follows encodings as objects with attributes, which they are.  What it cannot follow is how the library
keeps a structure: arrays of NumPy that nobody may write to.  So a graph has the lengths as a tensor on the host, and a
structure that is found in a graph holds this tensor alone and works the rest out when somebody outside asks.  So does
an encoding that leaves a graph: data and structure are there, `fill_missing` fills the other fields.
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

Traced: TypeAlias = Any  # a batch, class, tensor or number, or what the compiler takes for one while it reads this
GRAPHED = tuple(ops.KIND_BY_NAME.values())
OF_STRUCTURE = ("lengths", "offsets", "rows", "longest", "stable")
OF_BATCH = ("_shape", "_dtype", "_lengths", "_indices", "_size_at_t")

ENDS = (
    "seqformats ends the graph here: {}. Conversions, reductions, attention, losses and what docs/models.md lists go "
    "into one; without fullgraph=True the graph ends and goes on behind this"
)


def refuse(why: str) -> Callable[[], Any]:
    """Make a function that ends the graph, and says why."""
    stop: Callable[[], Any] = torch.compiler.disable(lambda: None, reason=ENDS.format(why))
    return stop


not_held = refuse("a batch that is no Ragged, Masked, Padded or Packed of tensors with its columns in a stable order")
not_built = refuse("a batch that is built of other than a tensor and lengths; Ragged and Masked can be built there")


class Found(Structure):
    """A structure that a graph has found: its lengths are a tensor, and the rest follows when it is asked for."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        """See `Structure`."""
        if name not in OF_STRUCTURE:
            return super().__getattr__(name)
        known = ops.structure_over(self.tensor)
        for field in OF_STRUCTURE:
            setattr(self, field, getattr(known, field))
        return getattr(self, name)


class _Tensor(dict[Any, Any]):
    """Reads the tensor of a structure as code in C would, which the compiler calls and does not follow."""

    def __missing__(self, structure: Structure) -> Any:
        return structure.tensor


def fill_missing(x: Any, name: str) -> Any:
    """Fill the fields that a graph has left out, where Python finds one of them empty."""
    if name not in OF_BATCH or not hasattr(type(x), name) or not hasattr(x, "_structure"):
        raise AttributeError(f"{type(x).__name__!r} object has no attribute {name!r}", name=name, obj=x)
    known = ops.batch_over(type(x).__name__, getattr(x, "side", "right"), x.data, x._structure)
    for field in OF_BATCH:
        if hasattr(type(x), field):
            object.__setattr__(x, field, getattr(known, field))
    return getattr(x, name)


def lengths(x: Traced) -> torch.Tensor:
    """The lengths of a batch in the caller's order, on the host; the graph ends where it cannot hold the batch."""
    if type(x) not in GRAPHED or not isinstance(x.data, torch.Tensor):
        not_held()
    structure: Any = x._structure
    if isinstance(structure, Found):
        return structure.tensor
    if type(structure) is not Structure or structure.stable is not True:
        not_held()
    return structure.graph_lengths


def make_structure(numbers: torch.Tensor, structure: Traced = None) -> Any:
    """The structure with these lengths."""
    structure = object.__new__(Found) if structure is None else structure
    structure.tensor, structure.n, structure.device = numbers, numbers.shape[0], {}
    return structure


def size(x: Traced, name: str) -> Any:
    """Rows, the longest sequence or the width: known, or found out by the graph, as is `room`, which is 2 at least.

    The compiler treats a width of 1 as another case, so a rectangle that is made in a graph is 2 wide.
    """
    if name == "width" or (name == "rows" and x._lead == 1):
        return x.data.shape[1 if type(x) is Masked else 0]
    numbers, structure = lengths(x), x._structure
    if not isinstance(structure, Found):
        return structure.rows if name == "rows" else structure.longest
    if name not in structure.device:
        measured = numbers.sum(0, keepdim=True) if name == "rows" else numbers
        structure.device[name] = torch.ops.seqformats.room.default(measured, 2 * (name == "room")).shape[0]
    return structure.device[name]


def make_batch(kind: Traced, data: torch.Tensor, structure: Traced, side: Traced = "right") -> Any:
    """The encoding over such data; `fill_missing` fills the rest."""
    x = object.__new__(kind)
    construct(x, data.contiguous(), structure, side)
    return x


def with_data(x: Traced, data: torch.Tensor) -> Any:
    """The encoding `x` over other data."""
    return make_batch(type(x), data, x._structure, x.side if type(x) is Masked else "right")


def empty(kind: Traced, *_: Traced, **__: Traced) -> Any:
    """Make an encoding with nothing in it; behind its structure, since a graph hands objects out in their order."""
    structure = object.__new__(Found) if torch.compiler.is_compiling() else None
    x = object.__new__(kind)
    if structure is not None:
        object.__setattr__(x, "_structure", structure)
    return x


def construct(x: Traced, data: Traced = None, lengths: Traced = None, side: Traced = "right") -> None:
    """Check and fill what the constructor of `Ragged` or `Masked` is given, or what `make_batch` is."""
    if not isinstance(lengths, Structure):
        if isinstance(lengths, (list, tuple, np.ndarray)):
            lengths = torch.as_tensor(lengths)
        fits = isinstance(data, torch.Tensor) and isinstance(lengths, torch.Tensor) and side in ("left", "right")
        if not fits or data.dim() < x._lead:
            not_built()
        lengths = make_structure(
            torch.ops.seqformats.lengths.default(data.detach(), lengths, type(x).__name__), x._structure
        )
    object.__setattr__(x, "data", data)
    object.__setattr__(x, "_structure", lengths)
    if type(x) is Masked:
        object.__setattr__(x, "side", side)


def falling(x: Traced) -> Any:
    """The lengths by falling length, and the places of the sequences."""
    return torch.sort(lengths(x), descending=True, stable=True)


VIEWS: dict[str, Callable[[Traced], Any]] = {
    "lengths": lambda x: (falling(x).values if x._by_steps else lengths(x).clone()).numpy(),
    "indices": lambda x: falling(x).indices.numpy(),
    "size_at_t": lambda x: (
        (lengths(x) > torch.arange(size(x, "width" if x._lead == 2 else "longest"))[:, None]).sum(1).numpy()
    ),
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
BATCH_VERSIONS: dict[Any, Callable[..., Any]] = {
    vars(Ragged)["offsets"].fget: lambda x: pad(lengths(x).cumsum(0), (1, 0)).numpy()
}
for _kind in GRAPHED:
    _kind.__getattr__ = fill_missing  # type: ignore[attr-defined]
    if _kind in (Ragged, Masked):
        _kind.__new__ = staticmethod(empty)  # type: ignore[assignment]
        BATCH_VERSIONS[_kind.__init__] = construct
    for _name in VIEWS.keys() & vars(_kind):

        def _view(x: Any, field: str = f"_{_name}") -> Any:  # in Python, since the compiler follows no function of C
            return getattr(x, field)

        setattr(_kind, _name, property(_view, vars(_kind)[f"_{_name}"].__set__))
        BATCH_VERSIONS[_view] = VIEWS[_name]
for _name, _version in ATTRIBUTES.items():
    torch.compiler.substitute_in_graph(vars(Encoding)[_name].fget, skip_signature_check=True)(_version)
registry.provides("lengths_tensor")(lambda structure: torch.from_numpy(structure.lengths.copy()))
Structure.graph_lengths = property(_Tensor().__getitem__)  # type: ignore[attr-defined]
