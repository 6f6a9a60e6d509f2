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
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch

import seqformats

from ...errors import BEYOND, CHANGED, SHAPE, TRACED, WHOLE, SeqFormatError
from ...formats import Encoding, Masked, Packed, Padded, Ragged
from ...formats.encoding import shown
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

# Arguments that are arrays with one row a sequence, by their place
ROWS = {"expand_as": (0,), "expand": (0,), "repeat": (0,), "rl.policy_loss": (2,)}


class Part(NamedTuple):
    """A tensor or a batch among what a call gives; beside a batch whose structure is new lie its offsets."""

    kind: str  # of the encoding; "" for a tensor
    side: str
    dtype: torch.dtype
    item: tuple[int | None, ...]  # None for what depends on the batch


class Result(NamedTuple):
    """Results of a call."""

    parts: tuple[Part, ...]
    several: bool  # is it a tuple?
    gradients: int  # so many of the tensors have one, the first ones


class Parsed(NamedTuple):
    """A text, read."""

    name: str
    args: tuple[Given, ...]
    options: dict[str, Given]
    data: int  # so many of the tensors hold data; the others are offsets

    @property
    def rule(self) -> str:
        """Say what becomes of the structure."""
        return STRUCTURES[self.name]

    @property
    def keeps(self) -> bool:
        """Ask: has a batch that it gives the structure of an argument?"""
        return self.rule in ("same", "like")

    @property
    def model(self) -> Given | None:
        """The argument whose structure the result has, if there is one."""
        place = {"same": 0, "rows": 0, "like": 1}.get(self.rule, len(self.args))
        return self.args[place] if place < len(self.args) and self.args[place][0] == "batch" else None


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


Read: TypeAlias = Callable[[Given], Any]


def value(given: Given, batch: Read, array: Read, sizes: Sizes) -> Any:
    """An argument of the call, of which `batch` and `array` give those that hold tensors."""
    tag, what = given[:2]
    if tag in ("list", "tuple"):
        return (list if tag == "list" else tuple)([value(part, batch, array, sizes) for part in what])
    if tag in ("batch", "array"):
        return batch(given) if tag == "batch" else array(given)
    if tag == "dtype":
        return getattr(torch, what)
    if tag == "size":
        return int(sizes[what])
    return KINDS[what] if tag == "kind" else float(what) if tag == "float" else what


def arguments(call: Parsed, batch: Read, array: Read, sizes: Sizes) -> tuple[Arguments, dict[str, Any]]:
    """The arguments of the call."""
    args = tuple([value(given, batch, array, sizes) for given in call.args])
    return args, {name: value(given, batch, array, sizes) for name, given in call.options.items()}


def given_to(call: Parsed, tensors: Sequence[Tensor], sizes: Sizes) -> tuple[Arguments, dict[str, Any]]:
    """The arguments of the call, of these tensors."""

    def batch(given: Given) -> Encoding:
        _, kind, side, place, host, *_ = given
        return batch_over(kind, side, tensors[place], structure_over(tensors[call.data + host]))

    def array(given: Given) -> Any:
        plain = tensors[given[1]].detach().contiguous()
        return plain.cpu().numpy() if given[2] else plain

    return arguments(call, batch, array, sizes)


def parts_of(y: Any) -> Sequence[Any]:
    """The batches and tensors of a result."""
    parts: Sequence[Any] = y if type(y) is tuple else (y,)
    return parts


# --- what a call gives ------------------------------------------------------------------------------------------------


def part_of(call: Parsed, y: Any, structure: Structure) -> Part:
    """Describe a result; TypeError for what a graph cannot hold."""
    if isinstance(y, torch.Tensor) and y.dim() and (call.rule != "rows" or y.shape[0] == structure.n):
        return Part("", "right", y.dtype, tuple(y.shape[1:]))
    if type(y).__name__ in KINDS and (call.rule != "same" or y._structure.same_lengths(structure)):
        return Part(type(y).__name__, getattr(y, "side", "right"), y.dtype, y.item_shape)
    raise TRACED(f"no graph holds what {call.name} gives")


def trial(call: Parsed, lengths: list[int]) -> Result:
    """Find what a call gives on a small batch, and how many tensors have a gradient."""
    structure = Structure.of_lengths(np.array(lengths))
    n, width = structure.n, structure.longest + 1
    leads = {"Masked": (n, width), "Padded": (width, n)}

    def batch(given: Given) -> Encoding:
        _, kind, side, *_, dtype, item = given
        data = torch.zeros(leads.get(kind, (structure.rows,)) + item, dtype=getattr(torch, dtype))
        return batch_over(kind, side, data, structure)

    def array(given: Given) -> Any:
        *_, numpy, dtype, shape = given
        made = torch.zeros([n if size < 0 else size for size in shape], dtype=getattr(torch, dtype))
        return made.numpy() if numpy else made

    args, options = arguments(call, batch, array, [width] * 16)
    y = function(call.name)(*args, **options)
    try:
        again, pull = vjp(function(call.name), *args, **options)
        gradients = len(leaves(pull(rebuild(again, [torch.zeros_like(leaf) for leaf in leaves(again)]))))
    except (TypeError, SeqFormatError, AttributeError, KeyError):  # there is no rule, or not for this dtype
        gradients = 0
    return Result(tuple([part_of(call, part, structure) for part in parts_of(y)]), type(y) is tuple, gradients)


@functools.lru_cache(1024)
def result_of(text: str) -> Result:
    """Find what a call gives, by two trials; an error of the function where it takes no such arguments.

    In a thread of its own: what PyTorch does to tensors while it traces a program it does in the thread that traces.
    """
    call = parsed(text)
    found: list[Any] = []

    def work() -> None:
        try:
            with torch.no_grad():
                found.extend([trial(call, lengths) for lengths in ([2, 3, 1], [4, 1, 2, 6])])
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if isinstance(found[-1], Exception):
        raise found[-1]
    one: Result
    one, two = found
    if [part[:3] for part in one.parts] != [part[:3] for part in two.parts]:
        raise TRACED(f"what {call.name} gives depends on the lengths")
    items = [
        tuple([a if a == b else None for a, b in zip(p.item, q.item, strict=True)])
        for p, q in zip(one.parts, two.parts, strict=True)
    ]
    return one._replace(parts=tuple([p._replace(item=item) for p, item in zip(one.parts, items, strict=True)]))


# --- the operators ----------------------------------------------------------------------------------------------------


def call_real(tensors: Sequence[Tensor], sizes: Sizes, text: str) -> list[Tensor]:
    """The values."""
    call = parsed(text)
    args, options = given_to(call, tensors, sizes)
    outputs: list[Tensor] = []
    for y in parts_of(function(call.name)(*args, **options)):
        outputs.append(y.data if isinstance(y, Encoding) else y)
        if isinstance(y, Encoding) and not call.keeps:
            outputs.append(torch.from_numpy(y._structure.offsets.copy()))
        elif isinstance(y, Encoding) and not y._structure.same_lengths(
            args[0 if call.rule == "same" else 1]._structure
        ):
            raise CHANGED(f"{call.name} has changed the lengths of the sequences, which a graph relies on")
    given = {tensor.untyped_storage().data_ptr() for tensor in tensors}
    seen: list[Tensor] = []
    for output in outputs:  # an operator gives nothing that it was given, nor one tensor twice
        place = output.untyped_storage().data_ptr()
        seen.append(output.clone() if place in given else output.detach())
        given.add(place)
    return seen


def call_fake(tensors: Sequence[Tensor], sizes: Sizes, text: str) -> list[Tensor]:
    """The shapes."""
    call = parsed(text)
    outputs = []
    fresh: dict[str, Any] = {}  # as many rows have the results of one call

    def unknown(name: str) -> Any:
        if name not in fresh:
            fresh[name] = torch.library.get_ctx().new_dynamic_size()
        return fresh[name]

    for part in result_of(text).parts:
        lead = _kept(call, part, tensors, sizes, unknown) if call.keeps and part.kind else None
        if lead is None and call.rule == "rows" and call.model is not None:
            lead = [tensors[call.data + call.model[4]].shape[0] - 1]
        if lead is None:
            first = call.args[0]
            while first[0] in ("list", "tuple"):
                first = first[1][0]
            alike = call.rule == "lengths" and first[0] == "batch"
            ends = tensors[call.data + first[4]].shape[0] if alike else unknown("offsets")
            lead = [unknown("width"), ends - 1] if part.kind in ("Masked", "Padded") else [unknown("rows")]
            lead = lead[::-1] if part.kind == "Masked" else lead
        item = [torch.library.get_ctx().new_dynamic_size() if size is None else size for size in part.item]
        outputs.append(torch.empty([*lead, *item], dtype=part.dtype, device=tensors[0].device))
        if part.kind and not call.keeps:
            outputs.append(torch.empty(ends, dtype=torch.int64, device="cpu"))
    return outputs


def _kept(call: Parsed, part: Part, tensors: Sequence[Tensor], sizes: Sizes, unknown: Callable[[str], Any]) -> Any:
    """The axes before those of an item, of a result with the structure of an argument."""
    assert call.model is not None
    _, kind, _, place, host, count, *_ = call.model
    given, n = tensors[place], tensors[call.data + host].shape[0] - 1
    if part.kind == kind and "width" not in call.options:
        return list(given.shape[: KINDS[kind]._lead])
    if part.kind in ("Ragged", "Packed"):
        return [given.shape[0] if kind in ("Ragged", "Packed") else sizes[count] if count >= 0 else unknown("rows")]
    width = sizes[call.options["width"][1]] if "width" in call.options else unknown("width")
    multiple = call.options.get("multiple_of", ("is", 1))[1]
    width = (width + multiple - 1) // multiple * multiple
    return [n, width] if part.kind == "Masked" else [width, n]


def pullback_real(tensors: Sequence[Tensor], gradients: Sequence[Tensor], sizes: Sizes, text: str) -> list[Tensor]:
    """The gradients of the first tensors."""
    call = parsed(text)
    args, options = given_to(call, tensors, sizes)
    y, pull = vjp(function(call.name), *args, **options)
    given = iter(gradients)
    dys = []
    for part in parts_of(y):
        gradient = next(given)
        numbers = gradient.is_floating_point() or gradient.is_complex()
        dys.append(gradient.detach().contiguous() if numbers else leaves(part)[0])
        if isinstance(part, Encoding) and not call.keeps:
            next(given)  # of the offsets
    found = leaves(pull(rebuild(y, dys)))
    own = {tensor.untyped_storage().data_ptr() for tensor in (*tensors, *gradients)}
    return [dx.clone() if dx.untyped_storage().data_ptr() in own else dx for dx in found]


def pullback_fake(tensors: Sequence[Tensor], gradients: Sequence[Tensor], sizes: Sizes, text: str) -> list[Tensor]:  # noqa: ARG001
    """Their shapes."""
    firsts = tensors[: result_of(text).gradients]
    return [torch.empty_like(x, memory_format=torch.contiguous_format) for x in firsts]


def keep(ctx: Any, inputs: tuple[Any, ...], output: object) -> None:  # noqa: ARG001
    """Keep what the gradient needs."""
    tensors, ctx.sizes, ctx.text = inputs
    ctx.save_for_backward(*tensors)


def backward(ctx: Any, gradients: Sequence[Tensor]) -> tuple[Any, ...]:
    """The gradients, None where there are none."""
    tensors = list(ctx.saved_tensors)
    count = result_of(ctx.text).gradients
    found: list[Any] = [None] * len(tensors)
    if count:
        made = torch.ops.seqformats.pullback(tensors, list(gradients), ctx.sizes, ctx.text)
        floats = [x.is_floating_point() or x.is_complex() for x in tensors]
        found[:count] = [dx if floats[k] else None for k, dx in enumerate(made)]
    return found, None if len(ctx.sizes) else [], None  # a list without numbers counts as one of tensors


# --- offsets ----------------------------------------------------------------------------------------------------------


def offsets_real(lengths: Tensor, rows: int, n: int = -1, width: int = -1) -> Tensor:
    """The offsets of sequences that have `rows` items together, or lie in `n` rooms of a width; -1 for any."""
    host = lengths.detach().cpu().numpy()
    structure = Structure.of_lengths(host.astype(np.int64), None if rows < 0 else int(rows))
    if n >= 0 and (n != structure.n or width < structure.longest):
        raise SHAPE(f"data of {n} rows and {width} columns is no Masked of lengths {shown(structure.lengths)}")
    return torch.from_numpy(structure.offsets.copy())


def offsets_fake(lengths: Tensor, rows: int, n: int = -1, width: int = -1) -> Tensor:  # noqa: ARG001
    """Their shape."""
    if lengths.dim() != 1:
        raise SHAPE(f"lengths must have one axis, but have shape {tuple(lengths.shape)}")
    if lengths.dtype.is_floating_point or lengths.dtype.is_complex or lengths.dtype is torch.bool:
        raise WHOLE(f"lengths must be integers, not {lengths.dtype}")
    return torch.empty(lengths.shape[0] + 1, dtype=torch.int64, device="cpu")


def lengths_real(offsets: Tensor) -> Tensor:
    """Lengths of the sequences between offsets, of which the graph may not know how many there are."""
    return offsets.diff()


def lengths_fake(offsets: Tensor) -> Tensor:
    """Their shape."""
    return torch.empty(offsets.shape[0] - 1, dtype=torch.int64, device="cpu")


def room_real(offsets: Tensor, least: int) -> Tensor:
    """A tensor without items, as long as the longest sequence is, and `least` at least."""
    longest = int(offsets.diff().max()) if offsets.shape[0] > 1 else 0
    return torch.empty((max(longest, least), 0), device="cpu")


def room_fake(offsets: Tensor, least: int) -> Tensor:  # noqa: ARG001
    """Its shape, which the graph finds out."""
    return torch.empty((torch.library.get_ctx().new_dynamic_size(min=least), 0), device="cpu")


LIBRARY = torch.library.Library("seqformats", "DEF")
for schema in (
    "call(Tensor[] tensors, SymInt[] sizes, str text) -> Tensor[]",
    "pullback(Tensor[] tensors, Tensor[] gradients, SymInt[] sizes, str text) -> Tensor[]",
    "offsets(Tensor lengths, SymInt rows, SymInt n=-1, SymInt width=-1) -> Tensor",
    "lengths(Tensor offsets) -> Tensor",
    "room(Tensor offsets, int least) -> Tensor",
):
    LIBRARY.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
for name, real, fake in (
    ("call", call_real, call_fake),
    ("pullback", pullback_real, pullback_fake),
    ("offsets", offsets_real, offsets_fake),
    ("lengths", lengths_real, lengths_fake),
    ("room", room_real, room_fake),
):
    LIBRARY.impl(name, real, "CompositeExplicitAutograd")
    torch.library.register_fake(f"seqformats::{name}", fake, lib=LIBRARY)
torch.library.register_autograd("seqformats::call", backward, setup_context=keep, lib=LIBRARY)
