"""Two operators of PyTorch that stand for every operation of this library in a graph.

``seqformats::call`` takes tensors, sizes, and a text that says which function is called on what;
``seqformats::pullback`` takes the gradients of its results as well, and gives those of its tensors.  The tensors are
the data of the batches and other arrays, then the offsets of the batches, on the host.  So a graph holds tensors and
numbers alone, and one rule serves all: the values come from the public functions, the gradients from `vjp`.

What a call gives is known from a trial on a small batch of the same kinds, dtypes and item shapes.  Lengths are another
matter, since a batch of three could be too short to be cut; so a table says which results have the structure of an
argument.  All others bring their offsets with them, and sizes that are not known before the graph runs.
"""

from __future__ import annotations

import ast
import functools
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch

import seqformats

from ...errors import BEYOND, CHANGED, SHAPE, TRACED, WHOLE, SeqFormatError
from ...formats import Encoding, Masked, Packed, Padded, Ragged
from ...formats.leaves import leaves, rebuild
from ...formats.structure import Structure
from ...gradients.vjp import vjp
from ...registry import Arguments

Tensor: TypeAlias = torch.Tensor
Sizes = Sequence[int]
Given: TypeAlias = tuple[Any, ...]  # an argument in a text: a letter that says what it is, and what it holds

KINDS: dict[str, type[Encoding]] = {kind.__name__: kind for kind in (Ragged, Masked, Padded, Packed)}

# What becomes of the structure.  "same": the result has that of the first argument, "like": that of the second;
# "rows": it is an array with one row a sequence; "lengths": as many sequences, of other lengths; "new": neither.
_NAMES = {
    "same": "argsort astype attention conv convert cumsum log_softmax ngrams reverse run_starts shift shuffle softmax sort window",  # noqa: E501
    "like": "convert_like expand_as gather searchsorted",
    "same  ": "ffill isin merge_asof",
    "same ": "ema recurrence standardize rl.policy_loss rl.ratios rl.returns rl.traces",
    "rows": "argmax argmin bincount cross_entropy topk_mean",
    "lengths": "concat cut diff erase filter interleave intersect slice truncate unique",
    "new": "expand join_batches repeat reshape select",
}
STRUCTURES = {name: what.strip() for what, names in _NAMES.items() for name in names.split()}
STRUCTURES.update({name: "rows" for name in seqformats.__all__ if name.startswith("reduce")})

# What adds up, and so takes half precision as float32 within an autocast region.  A graph may run outside of the region
# that it was read in, so the cast is a node of its own.
SUMMED = {f"reduce_{how}" for how in ("sum", "mean", "sqrt", "prod", "logsumexp", "var", "std")}
SUMMED |= {"softmax", "log_softmax", "cumsum", "topk_mean", "cross_entropy", *_NAMES["same "].split()}

OFFSETS = "offsets"

# Arguments that are arrays with one row a sequence, by their place
ROWS = {"expand_as": (0,), "expand": (0,), "repeat": (0,), "rl.policy_loss": (2,)}


class Leaf(NamedTuple):
    """A tensor of a result."""

    dtype: torch.dtype
    lead: str  # "data", "rows", "lengths" or "new": how many axes come before the item, and what is known of them
    kind: str  # of the encoding; "" for an array
    item: tuple[int | None, ...]  # None for what depends on the batch


class Result(NamedTuple):
    """What a call gives."""

    tree: Given
    leaves: tuple[Leaf, ...]
    gradients: int  # so many of the tensors have one, the first ones


class Parsed(NamedTuple):
    """A text, read."""

    name: str
    args: tuple[Given, ...]
    options: dict[str, Given]
    data: int  # so many of the tensors hold data; the others are offsets


@functools.lru_cache(1024)
def parsed(text: str) -> Parsed:
    """The call that a text stands for."""
    name, args, options, data = ast.literal_eval(text)
    if name not in STRUCTURES:
        raise BEYOND.of(ValueError, f"no operation of seqformats that a graph may hold is called {name!r}")
    return Parsed(name, args, dict(options), data)


def function(name: str) -> Callable[..., Any]:
    """The public function of this name."""
    found: Any = seqformats
    for part in name.split("."):
        found = getattr(found, part)
    made: Callable[..., Any] = found
    return made


_structures: OrderedDict[bytes, Structure] = OrderedDict()
_KEPT = 64


def structure_over(offsets: Tensor) -> Structure:
    """The structure with these offsets; those that have been seen last are kept, with their order."""
    host = offsets.detach().numpy()
    key = host.tobytes()
    found = _structures.get(key)
    if found is None:
        found = _structures[key] = Structure.of_offsets(host.copy())
        if len(_structures) > _KEPT:
            _structures.popitem(last=False)
    return found


def batch_over(kind: str, side: str, data: Tensor, structure: Structure) -> Encoding:
    """The encoding over such data; StructureError where it does not fit, since kernels check nothing."""
    lead = tuple(data.shape[: KINDS[kind]._lead])
    n, longest = structure.n, structure.longest
    fits = lead == (structure.rows,)
    if kind == "Masked":
        fits = lead[0] == n and lead[1] >= longest
    elif kind == "Padded":
        fits = lead[1] == n and lead[0] >= longest
    if not fits:
        raise SHAPE(f"data of shape {tuple(data.shape)} is no {kind} of {n} sequences, {structure.rows} items")
    plain = data.detach()
    form = (lead[1], side) if kind == "Masked" else (lead[0],) if kind == "Padded" else ()
    return KINDS[kind]._sealed(plain if plain.is_contiguous() else plain.contiguous(), structure, *form)


def value(given: Given, tensors: Sequence[Tensor], sizes: Sizes) -> Any:
    """An argument of the call."""
    tag = given[0]
    if tag == "batch":
        _, kind, side, data, offsets, _ = given
        return batch_over(kind, side, tensors[data], structure_over(tensors[offsets]))
    if tag == "array":
        return tensors[given[1]].detach().contiguous()
    if tag == "size":
        return int(sizes[given[1]])
    if tag == "kind":
        return KINDS[given[1]]
    if tag == "numpy":
        return tensors[given[1]].detach().cpu().numpy()
    if tag == "dtype":
        return getattr(torch, given[1])
    if tag == "float":
        return float(given[1])
    if tag in ("list", "tuple"):
        return (list if tag == "list" else tuple)([value(part, tensors, sizes) for part in given[1]])
    return given[1]


def arguments(call: Parsed, tensors: Sequence[Tensor], sizes: Sizes) -> tuple[Arguments, dict[str, Any]]:
    """The arguments of the call."""
    args = tuple([value(given, tensors, sizes) for given in call.args])
    return args, {name: value(given, tensors, sizes) for name, given in call.options.items()}


def model(call: Parsed) -> Given | None:
    """The argument whose structure the result has, if there is one."""
    place = {"same": 0, "rows": 0, "like": 1}.get(STRUCTURES[call.name])
    return None if place is None or len(call.args) <= place else call.args[place]


# --- what a call gives ------------------------------------------------------------------------------------------------


def described(call: Parsed, y: object, found: list[Leaf], lengths: list[int]) -> Given:
    """The tree of a result, whose tensors are added to `found`; TypeError for what a graph cannot hold."""
    rule = STRUCTURES[call.name]
    if isinstance(y, Encoding) and rule == "same" and y._structure.lengths.tolist() != lengths:
        raise TRACED(f"{call.name} changes lengths")
    if isinstance(y, torch.Tensor) and (y.dim() < 1 or (rule == "rows" and y.shape[0] != len(lengths))):
        raise TRACED(f"{call.name} gives no row a sequence")
    if isinstance(y, Encoding):
        kind = type(y).__name__
        if kind not in KINDS:
            raise TRACED(f"{call.name} gives a {kind}, which no graph holds")
        keeps = rule in ("same", "like")
        item: Any = y.item_shape
        found.append(Leaf(y.dtype, "data" if keeps else rule, kind, item))
        offsets = -1
        if not keeps:
            offsets = len(found)
            found.append(Leaf(torch.int64, rule, OFFSETS, ()))
        return "batch", kind, getattr(y, "side", "right"), len(found) - (1 if keeps else 2), offsets
    if isinstance(y, torch.Tensor):
        found.append(Leaf(y.dtype, rule, "", tuple(y.shape[1:])))
        return "array", len(found) - 1
    if isinstance(y, tuple):
        return "tuple", type(y).__name__, tuple([described(call, part, found, lengths) for part in y])
    raise TRACED(f"{call.name} gives a {type(y).__name__}, which no graph holds")


def flattened(y: object, keeps: bool, found: list[Tensor]) -> list[Tensor]:
    """The tensors of a result, in the order of `described`."""
    if isinstance(y, Encoding):
        found.append(y.data)
        if not keeps:
            found.append(torch.from_numpy(y._structure.offsets.copy()))
    elif isinstance(y, torch.Tensor):
        found.append(y)
    else:
        assert isinstance(y, tuple)
        for part in y:
            flattened(part, keeps, found)
    return found


Meta: TypeAlias = tuple[torch.dtype, tuple[int, ...]]
_TRIALS = ([2, 3, 1], [4, 1, 2, 6])


def trial(call: Parsed, metas: tuple[Meta, ...], lengths: list[int]) -> tuple[Any, int]:
    """What a call gives on a small batch, and how many tensors have a gradient; shapes are of items, or whole."""
    structure = Structure.of_lengths(np.array(lengths))
    offsets = torch.from_numpy(structure.offsets.copy())
    leads = {
        "Ragged": (structure.rows,),
        "Packed": (structure.rows,),
        "Masked": (structure.n, structure.longest + 1),
        "Padded": (structure.longest + 1, structure.n),
    }
    tensors: list[Tensor] = [offsets] * (len(metas) + 16)

    def fill(given: Given, rows: bool) -> None:
        if given[0] == "batch":
            dtype, item = metas[given[3]]
            tensors[given[3]] = torch.zeros(leads[given[1]] + item, dtype=dtype)
        elif given[0] in ("array", "numpy"):
            dtype, shape = metas[given[1]]
            tensors[given[1]] = torch.zeros((structure.n, *shape[1:]) if rows else shape, dtype=dtype)
        elif given[0] in ("list", "tuple"):
            for part in given[1]:
                fill(part, rows)

    for place, given in enumerate(call.args):
        fill(given, place in ROWS.get(call.name, ()))
    for given in call.options.values():
        fill(given, rows=False)
    args, options = arguments(call, tensors, [structure.longest + 1] * 16)
    y = function(call.name)(*args, **options)
    try:
        again, pull = vjp(function(call.name), *args, **options)
        gradients = len(leaves(pull(rebuild(again, [torch.zeros_like(leaf) for leaf in leaves(again)]))))
    except (TypeError, SeqFormatError, AttributeError, KeyError):  # there is no rule, or not for this dtype
        gradients = 0
    return y, gradients


@functools.lru_cache(1024)
def result_of(text: str, metas: tuple[Meta, ...]) -> Result:
    """What a call gives; an error of the function where it takes no such arguments."""
    call = parsed(text)
    with torch.utils._python_dispatch._disable_current_modes(), torch.no_grad():
        trees, found = [], []
        for lengths in _TRIALS:
            y, gradients = trial(call, metas, lengths)
            leaf_list: list[Leaf] = []
            trees.append(described(call, y, leaf_list, lengths))
            found.append(leaf_list)
    if trees[0] != trees[1]:
        raise TRACED(f"what {call.name} gives depends on the lengths")
    known = [
        one._replace(item=tuple([a if a == b else None for a, b in zip(one.item, two.item, strict=True)]))
        for one, two in zip(*found, strict=True)
    ]
    return Result(trees[0], tuple(known), gradients)


def metas_of(call: Parsed, tensors: Sequence[Tensor]) -> tuple[Meta, ...]:
    """What a trial needs to know of the tensors that hold data: dtypes and shapes, of batches those of items."""
    lead = [0] * call.data
    rows = [False] * call.data

    def look(given: Given, per_sequence: bool) -> None:
        if given[0] == "batch":
            lead[given[3]] = KINDS[given[1]]._lead
        elif given[0] in ("array", "numpy"):
            rows[given[1]] = per_sequence
        elif given[0] in ("list", "tuple"):
            for part in given[1]:
                look(part, per_sequence)

    for place, given in enumerate(call.args):
        look(given, place in ROWS.get(call.name, ()))
    for given in call.options.values():
        look(given, per_sequence=False)
    metas = []
    for k in range(call.data):
        shape = list(tensors[k].shape[lead[k] :])
        if rows[k] and shape:
            shape[0] = 1  # as many as there are sequences
        metas.append((tensors[k].dtype, tuple([int(size) for size in shape])))
    return tuple(metas)


# --- the operators ----------------------------------------------------------------------------------------------------


def call_real(tensors: Sequence[Tensor], sizes: Sizes, text: str) -> list[Tensor]:
    """The values."""
    call = parsed(text)
    args, options = arguments(call, tensors, sizes)
    y = function(call.name)(*args, **options)
    rule = STRUCTURES[call.name]
    outputs = flattened(y, rule in ("same", "like"), [])
    given = {tensor.untyped_storage().data_ptr() for tensor in tensors}
    seen: list[Tensor] = []
    for output in outputs:  # an operator gives nothing that it was given, nor one tensor twice
        place = output.untyped_storage().data_ptr()
        seen.append(output.clone() if place in given else output.detach())
        given.add(place)
    if rule in ("same", "like") and isinstance(y, Encoding):
        own = model(call)
        assert own is not None
        if not y._structure.same_lengths(structure_over(tensors[own[4]])):
            raise CHANGED(f"{call.name} has changed the lengths of the sequences, which a graph relies on")
    return seen


def call_fake(tensors: Sequence[Tensor], sizes: Sizes, text: str) -> list[Tensor]:
    """The shapes."""
    call = parsed(text)
    found = result_of(text, metas_of(call, tensors))
    own = model(call)
    outputs = []
    fresh: dict[str, Any] = {}  # as many rows have the results of one call, as TopK has
    for leaf in found.leaves:
        lead = _lead(call, leaf, own, tensors, sizes, fresh)
        item = [_unknown() if size is None else size for size in leaf.item]
        like = tensors[0]
        device = "cpu" if leaf.kind == OFFSETS else like.device
        outputs.append(torch.empty([*lead, *item], dtype=leaf.dtype, device=device))
    return outputs


def _size(given: Given, sizes: Sizes) -> Any:
    return sizes[given[1]] if given[0] == "size" else given[1]


def _unknown() -> Any:
    return torch.library.get_ctx().new_dynamic_size()


def _lead(
    call: Parsed, leaf: Leaf, own: Given | None, tensors: Sequence[Tensor], sizes: Sizes, fresh: dict[str, Any]
) -> list[Any]:
    """The axes before those of an item."""

    def unknown(name: str) -> Any:
        if name not in fresh:
            fresh[name] = _unknown()
        return fresh[name]

    if leaf.lead == "data":
        assert own is not None
        _, kind, _, data, offsets, rows = own
        given, n = tensors[data], tensors[offsets].shape[0] - 1
        if leaf.kind == kind and "width" not in call.options:
            return list(given.shape[: KINDS[kind]._lead])
        if leaf.kind in ("Ragged", "Packed"):
            return [given.shape[0] if kind in ("Ragged", "Packed") else sizes[rows] if rows >= 0 else unknown("rows")]
        width = unknown("width") if "width" not in call.options else _size(call.options["width"], sizes)
        multiple = _size(call.options.get("multiple_of", ("is", 1)), sizes)
        width = (width + multiple - 1) // multiple * multiple
        return [n, width] if leaf.kind == "Masked" else [width, n]
    if leaf.lead == "rows":
        assert own is not None
        return [tensors[own[4]].shape[0] - 1]
    first = call.args[0]
    while first[0] in ("list", "tuple"):
        first = first[1][0]
    if leaf.kind in ("Ragged", "Packed", ""):
        return [unknown("rows")]
    if leaf.lead == "lengths" and first[0] == "batch":
        ends = tensors[first[4]].shape[0]
    else:
        ends = unknown("offsets")
    if leaf.kind == OFFSETS:
        return [ends]
    return [ends - 1, unknown("width")] if leaf.kind == "Masked" else [unknown("width"), ends - 1]


def pullback_real(tensors: Sequence[Tensor], gradients: Sequence[Tensor], sizes: Sizes, text: str) -> list[Tensor]:
    """The gradients of the first tensors."""
    call = parsed(text)
    args, options = arguments(call, tensors, sizes)
    y, pull = vjp(function(call.name), *args, **options)
    given = iter(gradients)
    dys = []
    for leaf in leaves(y):
        gradient = next(given)
        dys.append(gradient.detach().contiguous() if gradient.is_floating_point() or gradient.is_complex() else leaf)
        if STRUCTURES[call.name] not in ("same", "like", "rows"):
            next(given, None)  # of the offsets
    found = leaves(pull(rebuild(y, dys)))
    own = {tensor.untyped_storage().data_ptr() for tensor in (*tensors, *gradients)}
    return [dx.clone() if dx.untyped_storage().data_ptr() in own else dx for dx in found]


def pullback_fake(tensors: Sequence[Tensor], gradients: Sequence[Tensor], sizes: Sizes, text: str) -> list[Tensor]:  # noqa: ARG001
    """Their shapes."""
    count = result_of(text, metas_of(parsed(text), tensors)).gradients
    return [torch.empty_like(tensors[k], memory_format=torch.contiguous_format) for k in range(count)]


def keep(ctx: Any, inputs: tuple[Any, ...], output: object) -> None:  # noqa: ARG001
    """What the gradient needs."""
    tensors, ctx.sizes, ctx.text = inputs
    ctx.save_for_backward(*tensors)


def backward(ctx: Any, gradients: Sequence[Tensor]) -> tuple[Any, ...]:
    """The gradients, None where there are none."""
    tensors = list(ctx.saved_tensors)
    count = result_of(ctx.text, metas_of(parsed(ctx.text), tensors)).gradients
    found: list[Any] = [None] * len(tensors)
    if count:
        made = torch.ops.seqformats.pullback(tensors, list(gradients), ctx.sizes, ctx.text)
        floats = [x.is_floating_point() or x.is_complex() for x in tensors]
        found[:count] = [dx if floats[k] else None for k, dx in enumerate(made)]
    return found, None if len(ctx.sizes) else [], None  # a list without numbers counts as one of tensors


# --- offsets ----------------------------------------------------------------------------------------------------------


def offsets_real(lengths: Tensor, rows: int) -> Tensor:
    """The offsets of sequences that have `rows` items together, or any number where that is negative."""
    host = lengths.detach().cpu().numpy()
    structure = Structure.of_lengths(host.astype(np.int64), None if rows < 0 else int(rows))
    return torch.from_numpy(structure.offsets.copy())


def offsets_fake(lengths: Tensor, rows: int) -> Tensor:  # noqa: ARG001
    """Their shape."""
    if lengths.dim() != 1:
        raise SHAPE(f"lengths must have one axis, but have shape {tuple(lengths.shape)}")
    if lengths.dtype.is_floating_point or lengths.dtype.is_complex or lengths.dtype is torch.bool:
        raise WHOLE(f"lengths must be integers, not {lengths.dtype}")
    return torch.empty(lengths.shape[0] + 1, dtype=torch.int64, device="cpu")


LIBRARY = torch.library.Library("seqformats", "DEF")
for schema in (
    "call(Tensor[] tensors, SymInt[] sizes, str text) -> Tensor[]",
    "pullback(Tensor[] tensors, Tensor[] gradients, SymInt[] sizes, str text) -> Tensor[]",
    "offsets(Tensor lengths, SymInt rows) -> Tensor",
):
    LIBRARY.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
for name, real, fake in (
    ("call", call_real, call_fake),
    ("pullback", pullback_real, pullback_fake),
    ("offsets", offsets_real, offsets_fake),
):
    LIBRARY.impl(name, real, "CompositeExplicitAutograd")
    torch.library.register_fake(f"seqformats::{name}", fake, lib=LIBRARY)
torch.library.register_autograd("seqformats::call", backward, setup_context=keep, lib=LIBRARY)
