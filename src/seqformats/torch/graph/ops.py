"""Two operators of PyTorch that stand for every operation of this library in a graph.

``seqformats::call`` takes tensors, sizes, and a text that says which function is called on what;
``seqformats::pullback`` takes the gradients of its results as well, and gives those of its tensors.  The tensors are
the data of the batches and other arrays, then the offsets of the batches, on the host.  So a graph holds tensors and
numbers alone, and one rule serves all: the values come from the public functions, the gradients from `vjp`.

What a call gives is known from trials on two small batches of the same kinds, dtypes and item shapes: an axis that is
as long as the batch has sequences, or rows, in both is so in all.  Of lengths a trial does not tell, since a batch of
three could be too short to be cut; so a table says which results have the structure of an argument.  All others bring
their offsets with them, and sizes that are not known before the graph runs.
"""

from __future__ import annotations

import ast
import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
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

Tensor: TypeAlias = torch.Tensor
Sizes = Sequence[int]
Given: TypeAlias = tuple[Any, ...]  # an argument in a text: a word that says what it is, and what it holds
Axis: TypeAlias = int | str | None  # a number, the name of one of `measures`, or whatever the call gives

KINDS: dict[str, type[Encoding]] = {kind.__name__: kind for kind in (Ragged, Masked, Padded, Packed)}

# What becomes of the structure.  "same": a batch that is given has that of the first argument, "like": that of the
# second; "lengths": as many sequences, of other lengths; "new": neither.  The last rule is for arrays.
_NAMES = {
    "same": "argsort attention conv convert cumsum ema ffill isin log_softmax merge_asof ngrams recurrence "
    "reverse rl.policy_loss rl.ratios rl.returns rl.traces rl.whiten run_starts shift shuffle softmax sort standardize "
    "window",
    "like": "convert_like expand_as gather searchsorted",
    "lengths": "concat cut diff erase filter interleave intersect slice truncate unique",
    "new": "expand join_batches repeat reshape select",
    "array": "argmax argmin bincount block_mask cross_entropy ctc_loss cu_seqlens embedding_bag levenshtein mask "
    "position_ids rl.mean_loss segment_ids topk_mean",
}
STRUCTURES = {name: rule for rule, names in _NAMES.items() for name in names.split()}
STRUCTURES.update({name: "array" for name in seqformats.__all__ if name.startswith("reduce")})

# Arguments that are arrays with one row a sequence, by their place or name
ROWS: dict[str, tuple[int | str, ...]] = {"expand_as": (0,), "expand": (0,), "repeat": (0,), "rl.policy_loss": (2,)}
ROWS |= {"recurrence": ("initial",), "rl.returns": ("bootstrap",)}


class Part(NamedTuple):
    """A tensor or a batch among what a call gives; beside a batch whose structure is new lie its offsets."""

    kind: str  # of the encoding; "" for a tensor
    side: str
    new: bool  # has it offsets of its own?
    dtype: torch.dtype
    axes: tuple[Axis, ...]  # of the tensor, or of an item


class Result(NamedTuple):
    """Results of a call."""

    parts: tuple[Part, ...]
    several: bool  # is it a tuple?
    gradients: tuple[int, ...]  # the places of the tensors that have one


class Call(NamedTuple):
    """A text, read."""

    name: str
    args: tuple[Given, ...]
    options: dict[str, Given]
    data: int  # so many of the tensors hold data; the others are offsets
    cast: bool  # is it in an autocast region?  The graph may run outside of it

    @property
    def keeps(self) -> bool:
        """Ask: has a batch that it gives the structure of an argument?"""
        return STRUCTURES[self.name] in ("same", "like")

    @property
    def model(self) -> Any:
        """The batch whose structure the result has, or else the first one."""
        return next(within(self.args[1:] if STRUCTURES[self.name] == "like" else self.args, "batch"), None)


def within(arguments: Iterable[Given], *tags: str) -> Iterator[Given]:
    """Yield the batches, or the arrays, among arguments, and in lists among them."""
    for given in arguments:
        if given[0] in tags:
            yield given
        elif given[0] in ("list", "tuple"):
            yield from within(given[1], *tags)


@functools.lru_cache(1024)
def parsed(text: str) -> Call:
    """The call that a text stands for."""
    name, args, options, data, cast = ast.literal_eval(text)
    if name not in STRUCTURES:
        raise BEYOND.of(ValueError, f"no operation of seqformats that a graph may hold is called {name!r}")
    return Call(name, args, dict(options), data, cast)


def function(name: str) -> Callable[..., Any]:
    """The public function of this name."""
    return functools.reduce(getattr, name.split("."), seqformats)  # type: ignore[return-value]


@functools.lru_cache(64)
def _structure(offsets: bytes) -> Structure:
    return Structure.of_offsets(np.frombuffer(offsets, np.int64).copy())


def structure_over(offsets: Tensor) -> Structure:
    """The structure with these offsets; those that have been seen last are kept, with their order."""
    return _structure(offsets.detach().numpy().tobytes())


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
    form = (lead[1], side) if kind == "Masked" else (lead[0],) if kind == "Padded" else ()
    return KINDS[kind]._sealed(data.contiguous(), structure, *form)


def called(call: Call, how: Callable[..., Any], tensors: Sequence[Tensor], sizes: Sizes) -> Any:
    """Call a function, `how` that is done, with the arguments that the tensors hold."""

    def value(given: Given) -> Any:
        tag, what = given[:2]
        if tag in ("list", "tuple"):
            return (list if tag == "list" else tuple)(map(value, what))
        if tag in ("batch", "array"):
            data = tensors[what].detach().contiguous()
            if tag == "array":
                return data.cpu().numpy() if given[4] else data
            _, _, _, _, kind, side, host = given
            return batch_over(kind, side, data, structure_over(tensors[call.data + host]))
        if tag == "dtype":
            return getattr(torch, what)
        if tag == "size":
            return int(sizes[what])
        return KINDS[what] if tag == "kind" else float(what) if tag == "float" else what

    device = tensors[0].device.type
    alike = torch.is_autocast_enabled(device) == call.cast
    with contextlib.nullcontext() if alike else torch.autocast(device, enabled=call.cast):
        options = {name: value(given) for name, given in call.options.items()}
        return how(*map(value, call.args), **options)


def parts_of(y: Any) -> Sequence[Any]:
    """The batches and tensors of a result."""
    parts: Sequence[Any] = y if type(y) is tuple else (y,)
    return parts


# --- what a call gives ------------------------------------------------------------------------------------------------


def measures(structure: Structure) -> dict[str, int]:
    """The numbers that an axis may be as long as; those of a rectangle are one more."""
    n, longest = structure.n, structure.longest
    return {"n": n, "ends": n + 1, "rows": structure.rows, "longest": longest, "width": longest + 1}


@torch.no_grad()  # type: ignore[untyped-decorator]
def trial(call: Call, whole: int, structure: Structure) -> Result:
    """Find what a call gives on a small batch of one number, and what has a gradient; TypeError for other things."""
    n, width = structure.n, structure.longest + 1
    leads = {"Masked": (n, width), "Padded": (width, n)}
    tensors = [torch.from_numpy(structure.offsets.copy())] * (2 * call.data)  # as many batches as tensors, at most
    for _, place, dtype, shape, kind, *_ in within((*call.args, *call.options.values()), "batch", "array"):
        lead = leads.get(kind, (structure.rows,)) if kind in KINDS else ()
        sizes = [n if size < 0 else size for size in (*lead, *shape)]
        tensors[place] = torch.full(sizes, 0 if "float" in dtype else whole, dtype=getattr(torch, dtype))
    work = function(call.name)
    y = called(call, work, tensors, [width] * 16)
    parts = []
    for part in parts_of(y):
        known = type(part).__name__ in KINDS
        if known and (STRUCTURES[call.name] != "same" or part._structure.same_lengths(structure)):
            side = getattr(part, "side", "right")
            parts.append(Part(type(part).__name__, side, not call.keeps, part.dtype, part.item_shape))
        elif isinstance(part, torch.Tensor):
            parts.append(Part("", "right", False, part.dtype, tuple(part.shape)))
        else:
            raise TRACED(f"no graph holds what {call.name} gives")
    try:  # the pullback wants gradients of what came with it
        again, pull = called(call, functools.partial(vjp, work), tensors, [width] * 16)
        dxs = leaves(pull(rebuild(again, list(map(torch.zeros_like, leaves(again))))))
    except (TypeError, SeqFormatError, AttributeError, KeyError):  # there is no rule, or not for this dtype
        dxs = []
    rest = iter(range(call.data))  # gradients come in the order of what they are for
    places = [next((k for k in rest if alike(dx, tensors[k])), -1) for dx in dxs]
    if -1 in places:
        raise TRACED(f"no graph knows what the gradients of {call.name} are for")
    return Result(tuple(parts), type(y) is tuple, tuple(places))


def alike(x: Tensor, y: Tensor) -> bool:
    """Ask: are they of one shape, dtype and layout?"""
    return x.shape == y.shape and x.dtype is y.dtype and x.layout is y.layout


@functools.lru_cache(1024)
def result_of(text: str) -> Result:
    """Find what a call gives, by two trials; an error of the function where it takes no such arguments.

    In a thread of its own: what PyTorch does to tensors while it traces a program it does in the thread that traces.
    """
    call = parsed(text)
    structures = [Structure.of_lengths(np.array(lengths)) for lengths in ([2, 3, 1], [4, 1, 2, 6])]
    with ThreadPoolExecutor(1) as pool:
        try:
            one, two = pool.map(functools.partial(trial, call, 0), structures)
        except Exception:  # some integers must not be 0
            one, two = pool.map(functools.partial(trial, call, 1), structures)
    first, second = map(measures, structures)
    names = {(first[name], second[name]): name for name in first}
    parts = []
    for p, q in zip(one.parts, two.parts, strict=True):
        if p[:3] != q[:3] or len(p.axes) != len(q.axes):
            raise TRACED(f"what {call.name} gives depends on the lengths")
        axes = [a if a == b else names.get((a, b)) for a, b in zip(p.axes, q.axes, strict=True)]
        parts.append(p._replace(axes=tuple(axes)))
    return Result(tuple(parts), one.several, one.gradients)


def asked(text: str) -> tuple[str, ...]:
    """The measures that no shape tells: they come with the call, behind its own sizes."""
    call, needed = parsed(text), set()
    rectangle = call.model is not None and call.model[4] in ("Masked", "Padded")
    for part in result_of(text).parts:
        needed |= {axis for axis in part.axes if axis == "longest" or (axis == "rows" and rectangle)}
        if call.keeps and rectangle and part.kind in ("Ragged", "Packed"):
            needed.add("rows")
    return tuple(sorted(map(str, needed)))


# --- the operators ----------------------------------------------------------------------------------------------------


def call_real(tensors: Sequence[Tensor], sizes: Sizes, text: str) -> list[Tensor]:
    """The values."""
    call = parsed(text)
    outputs: list[Tensor] = []
    parts = parts_of(called(call, function(call.name), tensors, sizes))
    for part, about in zip(parts, result_of(text).parts, strict=True):
        outputs.append(part.data if about.kind else part)
        if about.new:
            outputs.append(torch.from_numpy(part._structure.offsets.copy()))
        elif about.kind and not part._structure.same_lengths(structure_over(tensors[call.data + call.model[6]])):
            raise CHANGED(f"{call.name} has changed the lengths of the sequences, which a graph relies on")
    return _own(outputs, tensors)


def _own(outputs: Sequence[Tensor], given: Sequence[Tensor]) -> list[Tensor]:
    """Copy outputs that share memory with inputs or with each other: PyTorch allows neither."""
    taken = {tensor.untyped_storage().data_ptr() for tensor in given}
    own: list[Tensor] = []
    for output in outputs:
        place = output.untyped_storage().data_ptr()
        own.append(output.clone() if place in taken else output.detach())
        taken.add(place)
    return own


def call_fake(tensors: Sequence[Tensor], sizes: Sizes, text: str) -> list[Tensor]:
    """The shapes."""
    call, names = parsed(text), asked(text)
    unknown = torch.library.get_ctx().new_dynamic_size
    known: dict[Axis, Any] = dict(zip(names, sizes[len(sizes) - len(names) :], strict=True))
    if call.model is not None:
        _, place, _, _, kind, _, host = call.model
        shape, ends = tensors[place].shape, tensors[call.data + host].shape[0]
        known |= {"n": ends - 1, "ends": ends}
        known |= {"rows": shape[0]} if KINDS[kind]._lead == 1 else {"width": shape[kind == "Masked"]}
    of_batch = dict(known)  # axes of batches that are given: as many rows have all results of one call
    if not call.keeps:
        of_batch = {"ends": known["ends"]} if STRUCTURES[call.name] == "lengths" and "ends" in known else {}
    elif "width" in call.options:
        multiple = call.options.get("multiple_of", ("is", 1))[1]
        of_batch["width"] = (sizes[call.options["width"][1]] + multiple - 1) // multiple * multiple
    outputs = []
    for part in result_of(text).parts:
        lead: list[Any] = []
        if part.kind:
            flat = part.kind in ("Ragged", "Packed")
            for name in ("rows", "ends") if flat else ("width", "ends"):
                of_batch[name] = of_batch[name] if name in of_batch else unknown(min=int(name == "ends"))
            lead = [of_batch["rows"]] if flat else [of_batch["width"], of_batch["ends"] - 1]
            lead = lead[::-1] if part.kind == "Masked" else lead
        item = [axis if isinstance(axis, int) else known[axis] if axis in known else unknown() for axis in part.axes]
        outputs.append(torch.empty([*lead, *item], dtype=part.dtype, device=tensors[0].device))
        if part.new:
            outputs.append(torch.empty(of_batch["ends"], dtype=torch.int64, device="cpu"))
    return outputs


def pullback_real(tensors: Sequence[Tensor], gradients: Sequence[Tensor], sizes: Sizes, text: str) -> list[Tensor]:
    """The gradients of the tensors that have one."""
    call = parsed(text)
    y, pull = called(call, functools.partial(vjp, function(call.name)), tensors, sizes)
    given, dys = iter(gradients), []
    for part, about in zip(leaves(y), result_of(text).parts, strict=True):
        dy = next(given)
        dys.append(dy.detach().contiguous() if dy.is_floating_point() or dy.is_complex() else part)
        if about.new:
            next(given)  # of the offsets
    return _own(leaves(pull(rebuild(y, dys))), (*tensors, *gradients))


def pullback_fake(tensors: Sequence[Tensor], gradients: Sequence[Tensor], sizes: Sizes, text: str) -> list[Tensor]:  # noqa: ARG001
    """Their shapes."""
    own = [tensors[k] for k in result_of(text).gradients]
    return [torch.empty_like(x, memory_format=torch.contiguous_format) for x in own]


def keep(ctx: Any, inputs: tuple[Any, ...], output: object) -> None:  # noqa: ARG001
    """Keep what the gradient needs."""
    tensors, ctx.sizes, ctx.text = inputs
    ctx.save_for_backward(*tensors)


def backward(ctx: Any, gradients: Sequence[Tensor]) -> tuple[Any, ...]:
    """The gradients, None where there are none."""
    tensors, places = list(ctx.saved_tensors), result_of(ctx.text).gradients
    found: list[Any] = [None] * len(tensors)
    if places:
        made = torch.ops.seqformats.pullback(tensors, list(gradients), ctx.sizes, ctx.text)
        for k, dx in zip(places, made, strict=True):
            found[k] = dx if tensors[k].is_floating_point() or tensors[k].is_complex() else None
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


def room_real(offsets: Tensor, least: int) -> Tensor:
    """A tensor without items, as long as the longest sequence is, and `least` at least."""
    longest = int(offsets.diff().max()) if offsets.shape[0] > 1 else 0
    return torch.empty((max(longest, least), 0), device="cpu")


def room_fake(offsets: Tensor, least: int) -> Tensor:  # noqa: ARG001
    """Its shape, which the graph finds out."""
    return torch.empty((torch.library.get_ctx().new_dynamic_size(min=least), 0), device="cpu")


LIBRARY = torch.library.Library("seqformats", "DEF")  # `custom_op` checks more, and longer, with each call
for _name, _schema, _real, _fake in (
    ("call", "(Tensor[] tensors, SymInt[] sizes, str text) -> Tensor[]", call_real, call_fake),
    (
        "pullback",
        "(Tensor[] tensors, Tensor[] gradients, SymInt[] sizes, str text) -> Tensor[]",
        pullback_real,
        pullback_fake,
    ),
    ("offsets", "(Tensor lengths, SymInt rows, SymInt n=-1, SymInt width=-1) -> Tensor", offsets_real, offsets_fake),
    ("room", "(Tensor offsets, int least) -> Tensor", room_real, room_fake),
):
    LIBRARY.define(_name + _schema, tags=(torch.Tag.pt2_compliant_tag,))
    LIBRARY.impl(_name, _real, "CompositeExplicitAutograd")
    torch.library.register_fake(f"seqformats::{_name}", _fake, lib=LIBRARY)
torch.library.register_autograd("seqformats::call", backward, setup_context=keep, lib=LIBRARY)
