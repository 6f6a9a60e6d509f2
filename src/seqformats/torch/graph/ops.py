"""Two operators of PyTorch that stand for every operation of this library in a graph.

``seqformats::call`` takes tensors, sizes, and a text that says which function is called on what;
``seqformats::pullback`` takes the gradients of its results as well, and gives those of its tensors.  The tensors are
the data of the batches and other arrays, then the lengths of each structure, on the host.  So a graph holds tensors and
numbers alone, and one rule serves all: the values come from the public functions, the gradients from `vjp`.

What a call gives is known from trials on two small batches of the same kinds, dtypes and item shapes: an axis that is
as long as the batch has sequences, or rows, in both is so in all.  Whether a structure is kept a trial does not tell,
since a batch of three could be too short to be cut; so a table says which functions keep it.  The others bring new
lengths with them, and sizes that are not known before the graph runs.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch

import seqformats

from ...errors import BEYOND, CHANGED, SHAPE, TRACED, SeqFormatError
from ...formats import Encoding, Masked, Packed, Padded, Ragged
from ...formats.leaves import leaves, rebuild
from ...formats.structure import Structure, integers
from ...gradients.vjp import vjp
from ...operations.order import TopK, Unique
from ...rl.steps import Advantages
from ...wrapping.wrapper import rebuild_tuple

Tensor: TypeAlias = torch.Tensor
Tensors: TypeAlias = Sequence[torch.Tensor]
Sizes: TypeAlias = Sequence[int]
Axis: TypeAlias = int | tuple[str, int] | None  # a number, a measure of a structure, or whatever the call gives

KINDS: dict[str, type[Encoding]] = {kind.__name__: kind for kind in (Ragged, Masked, Padded, Packed)}
LEADS = {"Ragged": ("rows",), "Packed": ("rows",), "Masked": ("n", "width"), "Padded": ("width", "n")}
TUPLES: dict[str, Any] = {kind.__name__: kind for kind in (Advantages, TopK, Unique)}
MEASURES: dict[str, Callable[[list[int]], int]] = {
    "n": len,
    "ends": lambda lengths: len(lengths) + 1,
    "rows": sum,
    "longest": max,
    "width": lambda lengths: max(lengths) + 1,  # of a rectangle that is given
    "size": lambda lengths: max(lengths) + 2,  # of one that is asked for
}
"""Lengths that an axis may have on the batches of the trials."""

# What functions do with the structure: a batch that they give has that of an argument, as many sequences as the first
# argument, or neither.  Those that give arrays keep it.
_NAMES = {
    "kept": "argmax argmin argsort attention bincount block_mask conv convert cross_entropy ctc_loss "
    "cu_seqlens cumsum ema embedding_bag expand_as ffill gather isin levenshtein log_softmax mask merge_asof ngrams "
    "position_ids recurrence reverse rl.gae rl.mean_loss rl.policy_loss rl.ratios rl.returns rl.traces rl.whiten "
    "run_starts searchsorted segment_ids shift shuffle softmax sort standardize topk_mean where window",
    "as many": "concat cut diff erase filter interleave intersect slice topk truncate unique",
    "new": "expand join_batches repeat reshape select",
}
STRUCTURES = {name: rule for rule, names in _NAMES.items() for name in names.split()}
STRUCTURES |= {name: "kept" for name in seqformats.__all__ if name.startswith("reduce")}

# Arguments that have one row a sequence, by their place or name; the positions of `select` may be more or fewer
ROWS: dict[str, tuple[int | str, ...]] = {"expand_as": (0,), "expand": (0,), "repeat": (0, 1), "select": (1,)}
ROWS |= {"rl.policy_loss": (2,), "rl.returns": ("bootstrap",), "rl.gae": ("bootstrap",)}
ROWS |= {"attention": ("prefix",), "recurrence": ("initial",)}


class Given(NamedTuple):
    """A tensor among the arguments, in a text."""

    tag: str  # "batch", "array", or "numpy" for one that the function takes as NumPy's
    place: int  # among the tensors
    dtype: str
    item: Sequence[int]  # the shape of an item, or of the array; -1 stands for as many as there are sequences
    kind: str = ""
    side: str = "right"
    host: int = -1  # which structure


class Result(NamedTuple):
    """The result of a call: tensors, the data of its parts and then the lengths of new structures."""

    parts: tuple[tuple[str, str, int], ...]  # the kind and side of each batch, and its structure: behind those given
    several: str  # the class where it is a tuple
    dtypes: tuple[torch.dtype, ...]  # of the data
    axes: tuple[tuple[Axis, ...], ...]  # of the data, and of the lengths
    gradients: tuple[int, ...]  # the places of the arguments that have one


def function(name: str) -> Any:
    """The public function of this name."""
    return functools.reduce(getattr, name.split("."), seqformats)


class Call:
    """A text, read: a public function, and its arguments."""

    def __init__(self, text: str) -> None:
        self.name, self.args, options, self.cast = json.loads(text)  # is it in an autocast region, or outside?
        if self.name not in STRUCTURES:
            raise BEYOND.of(ValueError, f"no operation of seqformats that a graph may hold is called {self.name!r}")
        self.function = function(self.name)
        names = list(inspect.signature(self.function).parameters)  # gradients come in this order
        self.options = dict(sorted(options, key=lambda pair: names.index(pair[0]) if pair[0] in names else len(names)))
        self.given = list(_tensors([*self.args, *self.options.values()]))
        self.data = len(self.given)  # so many of the tensors hold data; the others are lengths
        self.hosts = 1 + max([given.host for given in self.given])
        self.rule = STRUCTURES[self.name]

    def structures(self, tensors: Tensors) -> list[Structure]:
        """The structures of the arguments."""
        return [structure_over(lengths) for lengths in tensors[self.data :]]

    def run(self, how: Callable[..., Any], tensors: Tensors, hosts: Sequence[Structure], sizes: Sizes) -> Any:
        """Call the function, or `how` that is done, with the arguments that the tensors hold."""

        def value(argument: Any) -> Any:
            tag, what, *about = argument
            if tag in ("list", "tuple"):
                return (list if tag == "list" else tuple)(map(value, what))
            if tag == "size":
                return int(sizes[what])
            if tag == "is":
                return KINDS.get(what, what) if isinstance(what, str) else what
            data, given = tensors[what].detach().contiguous(), Given(tag, what, *about)
            if tag == "batch":
                return batch_over(given.kind, given.side, data, hosts[given.host])
            return data if tag == "array" else data.cpu().numpy()

        device = tensors[0].device.type
        alike = torch.is_autocast_enabled(device) == self.cast
        with contextlib.nullcontext() if alike else torch.autocast(device, enabled=self.cast):
            return how(*map(value, self.args), **{name: value(given) for name, given in self.options.items()})


def _tensors(arguments: Iterable[Any]) -> Iterator[Given]:
    """Yield the tensors among arguments, and in lists among them."""
    for tag, *about in arguments:
        if tag in ("list", "tuple"):
            yield from _tensors(about[0])
        elif tag not in ("is", "size"):
            yield Given(tag, *about)


@functools.lru_cache(64)
def _structure(lengths: bytes) -> Structure:
    return Structure.of_lengths(np.frombuffer(lengths, np.int64).copy())


def structure_over(lengths: Tensor) -> Structure:
    """The structure of these lengths; those that have been seen last are kept, with their order."""
    return _structure(lengths.detach().numpy().tobytes())


def batch_over(kind: str, side: str, data: Tensor, structure: Structure) -> Encoding:
    """The encoding over such data; StructureError where it does not fit, since kernels check nothing."""
    n, rows, longest = structure.n, structure.rows, structure.longest
    lead = {"n": n, "rows": rows, "width": longest} | dict(zip(LEADS[kind], data.shape, strict=False))
    if lead["n"] != n or lead["rows"] != rows or lead["width"] < longest:
        raise SHAPE(f"data of shape {tuple(data.shape)} is no {kind} of {n} sequences, {rows} items")
    form = {"Masked": (lead["width"], side), "Padded": (lead["width"],)}.get(kind, ())
    return KINDS[kind]._freeze(data.contiguous(), structure, *form)


def parts_of(y: Any) -> tuple[Any, ...]:
    """The batches and tensors of a result."""
    return tuple(y) if isinstance(y, tuple) else (y,)


def differentiable(x: Tensor) -> bool:
    """Ask: can it have a gradient?"""
    return bool(x.dtype.is_floating_point or x.dtype.is_complex)


def like(x: Tensor) -> tuple[Any, ...]:
    """Give the shape and dtype, which a gradient shares."""
    return x.shape, x.dtype


# --- what a call gives ------------------------------------------------------------------------------------------------


@functools.lru_cache(1024)
def parsed(text: str) -> Call:
    """The call that a text stands for."""
    return Call(text)


@torch.no_grad()  # type: ignore[untyped-decorator]
def trial(call: Call, whole: int, lengths: list[int]) -> Result:
    """Find what a call gives on a small batch of one number, and what has a gradient; TypeError for other things."""
    hosts = [Structure.of_lengths(np.array(lengths)) for _ in range(call.hosts)]
    tensors = [torch.empty(0)] * call.data
    for given in call.given:
        lead = [MEASURES[role](lengths) for role in LEADS.get(given.kind, ())]
        shape = [*lead, *[len(lengths) if size < 0 else size for size in given.item]]
        number = 0 if "float" in given.dtype else whole
        tensors[given.place] = torch.full(shape, number, dtype=getattr(torch, given.dtype))
    arguments = tensors, hosts, [MEASURES["size"](lengths)] * 16
    y = call.run(call.function, *arguments)
    parts, axes, several = [], [], type(y).__name__ if isinstance(y, tuple) else ""
    if several not in ("", "tuple", *TUPLES):
        raise TRACED(f"no graph holds the {several} that {call.name} gives")
    structures: list[Any] = [host if call.rule == "kept" else None for host in hosts]
    for part in parts_of(y):
        kind, side = type(part).__name__, getattr(part, "side", "right")
        if kind in KINDS:
            host = next((k for k, known in enumerate(structures) if known is part._structure), len(structures))
            structures += [part._structure] * (host == len(structures))
            measures: dict[str, Axis] = {role: (role, host) for role in LEADS[kind]}
            if call.rule == "as many" and "n" in measures:
                measures["n"] = ("n", 0)
            if host < len(hosts) and "width" in measures:
                measures["width"] = ("size", 0) if "width" in call.options else part.data.shape[kind == "Masked"]
            parts.append((kind, side, host))
            axes.append((*measures.values(), *part.item_shape))
        elif isinstance(part, torch.Tensor):
            parts.append(("", side, -1))
            axes.append(tuple(part.shape))
        else:
            raise TRACED(f"no graph holds what {call.name} gives")
    axes += [(("n", 0 if call.rule == "as many" else host),) for host in range(len(hosts), len(structures))]
    try:
        dxs = leaves(pulled(call.run(functools.partial(vjp, call.function), *arguments)))
    except (TypeError, SeqFormatError, AttributeError, KeyError):  # there is no rule, or not for this dtype
        dxs = []
    rest = iter([given.place for given in call.given])  # gradients come in the order of what they are for
    places = [
        next((k for k in rest if dx.shape == tensors[k].shape and dx.dtype is tensors[k].dtype), -1) for dx in dxs
    ]
    if -1 in places:
        raise TRACED(f"no graph knows what the gradients of {call.name} are for")
    return Result(tuple(parts), several, tuple([x.dtype for x in parts_of(y)]), tuple(axes), tuple(places))


def pulled(found: tuple[Any, Callable[[Any], Any]], gradients: Tensors = ()) -> Any:
    """Give a pullback gradients, or zeros; those of integers nobody reads."""
    y, pull = found
    own = leaves(y)
    dys = gradients[: len(own)] or list(map(torch.zeros_like, own))
    dys = [dy.detach().contiguous() if differentiable(dy) else x for x, dy in zip(own, dys, strict=True)]
    return pull(rebuild_tuple(y, rebuild(tuple(y), dys)) if isinstance(y, tuple) else rebuild(y, dys))


@functools.lru_cache(1024)
def result_of(text: str) -> Result:
    """Find what a call gives, by two trials; an error of the function where it takes no such arguments.

    In a thread of its own: what PyTorch does to tensors while it traces a program it does in the thread that traces.
    """
    call, lengths = parsed(text), ([2, 3, 1], [4, 1, 2, 6])
    one: Result
    with ThreadPoolExecutor(1) as pool:
        try:
            one, two = pool.map(functools.partial(trial, call, 0), lengths)
        except Exception:  # some integers must not be 0
            one, two = pool.map(functools.partial(trial, call, 1), lengths)
    if one._replace(axes=()) != two._replace(axes=()) or list(map(len, one.axes)) != list(map(len, two.axes)):
        raise TRACED(f"what {call.name} gives depends on the lengths")
    names: dict[Any, Axis] = {tuple(map(measure, lengths)): (name, 0) for name, measure in MEASURES.items()}
    pairs = [zip(p, q, strict=True) for p, q in zip(one.axes, two.axes, strict=True)]
    return one._replace(axes=tuple([tuple([a if a == b else names.get((a, b)) for a, b in axes]) for axes in pairs]))


def asked(text: str) -> tuple[tuple[str, int], ...]:
    """The measures that no shape tells: they come with the call, behind its own sizes."""
    call = parsed(text)
    there = {(role, given.host) for given in call.given for role in LEADS.get(given.kind, ())}
    axes = {axis for axes in result_of(text).axes for axis in axes if isinstance(axis, tuple)}
    return tuple(sorted(axis for axis in axes - there if axis[0] in ("rows", "longest") and axis[1] < call.hosts))


# --- the operators ----------------------------------------------------------------------------------------------------


def call_real(tensors: Tensors, sizes: Sizes, text: str) -> list[Tensor]:
    """The values."""
    call, result = parsed(text), result_of(text)
    hosts = call.structures(tensors)
    parts = parts_of(call.run(call.function, tensors, hosts, sizes))
    outputs = [part.data if kind else part for part, (kind, _, _) in zip(parts, result.parts, strict=True)]
    for part, (kind, _, host) in zip(parts, result.parts, strict=True):
        if host == len(hosts):
            hosts.append(part._structure)
            outputs.append(torch.from_numpy(part._structure.lengths.copy()))
        elif kind and not part._structure.same_lengths(hosts[host]):
            raise CHANGED(f"{call.name} has changed the lengths of the sequences, which a graph relies on")
    return _own(outputs, tensors)


def _own(outputs: Tensors, given: Tensors) -> list[Tensor]:
    """Copy outputs that share memory with inputs or with each other: PyTorch allows neither."""
    taken, own = {tensor.untyped_storage().data_ptr() for tensor in given}, []
    for output in outputs:
        place = output.untyped_storage().data_ptr()
        own.append(output.clone() if place in taken else output.detach())
        taken.add(place)
    return own


def call_fake(tensors: Tensors, sizes: Sizes, text: str) -> list[Tensor]:
    """The shapes."""
    call, result, names = parsed(text), result_of(text), asked(text)
    known: dict[Axis, Any] = dict(zip(names, sizes[len(sizes) - len(names) :], strict=True))
    for given in call.given:
        for role, size in zip(LEADS.get(given.kind, ()), tensors[given.place].shape, strict=False):
            known.setdefault((role, given.host), size)
    for k, lengths in enumerate(tensors[call.data :]):
        known["n", k], known["ends", k] = lengths.shape[0], lengths.shape[0] + 1
    if "width" in call.options:
        multiple = call.options.get("multiple_of", ("is", 1))[1]
        known["size", 0] = (sizes[call.options["width"][1]] + multiple - 1) // multiple * multiple
    shapes = []
    for axes in result.axes:
        for axis in axes:
            if not isinstance(axis, int) and (axis is None or axis not in known):
                known[axis] = torch.library.get_ctx().new_dynamic_size()
        shapes.append([axis if isinstance(axis, int) else known[axis] for axis in axes])
    like = [(dtype, tensors[0].device) for dtype in result.dtypes]
    like += [(torch.int64, torch.device("cpu"))] * (len(shapes) - len(like))
    return [torch.empty(shape, dtype=dtype, device=device) for shape, (dtype, device) in zip(shapes, like, strict=True)]


def pullback_real(tensors: Tensors, gradients: Tensors, sizes: Sizes, text: str) -> list[Tensor]:
    """The gradients of the tensors that have one."""
    call = parsed(text)
    found = call.run(functools.partial(vjp, call.function), tensors, call.structures(tensors), sizes)
    return _own(leaves(pulled(found, gradients)), (*tensors, *gradients))


def pullback_fake(tensors: Tensors, gradients: Tensors, sizes: Sizes, text: str) -> list[Tensor]:  # noqa: ARG001
    """Their shapes."""
    own = [tensors[k] for k in result_of(text).gradients]
    return [torch.empty_like(x, memory_format=torch.contiguous_format) for x in own]


def keep(ctx: Any, inputs: tuple[Any, ...], output: object) -> None:  # noqa: ARG001
    """Keep what the gradient needs."""
    tensors, ctx.sizes, ctx.text = inputs
    ctx.save_for_backward(*tensors)


def backward(ctx: Any, gradients: Tensors) -> tuple[Any, ...]:
    """The gradients, None where there are none."""
    tensors, places = list(ctx.saved_tensors), result_of(ctx.text).gradients
    found: list[Any] = [None] * len(tensors)
    if places:
        made = torch.ops.seqformats.pullback(tensors, list(gradients), ctx.sizes, ctx.text)
        for k, dx in zip(places, made, strict=True):
            found[k] = dx if differentiable(tensors[k]) else None
    return found, None if len(ctx.sizes) else [], None  # a list without numbers counts as one of tensors


def lengths_real(data: Tensor, lengths: Tensor, kind: str) -> Tensor:
    """Checked lengths of a Ragged or Masked over such data, a tensor that nobody else has."""
    structure = Structure.of_lengths(integers(lengths, "lengths"), data.shape[0] if kind == "Ragged" else None)
    batch_over(kind, "right", data, structure)
    return torch.from_numpy(structure.lengths.copy())


def lengths_fake(data: Tensor, lengths: Tensor, kind: str) -> Tensor:  # noqa: ARG001
    """Their shape."""
    return torch.empty(lengths.shape[0], dtype=torch.int64, device="cpu")


def room_real(numbers: Tensor, least: int) -> Tensor:
    """A tensor without items, as long as the largest number says, and `least` at least."""
    return torch.empty((max([least, *numbers.tolist()]), 0), device="cpu")


def room_fake(numbers: Tensor, least: int) -> Tensor:  # noqa: ARG001
    """Its shape, which the graph finds out."""
    return torch.empty((torch.library.get_ctx().new_dynamic_size(min=least), 0), device="cpu")


LIBRARY = torch.library.Library("seqformats", "DEF")  # `custom_op` checks more, and longer, with each call
for _name, _arguments, _result in (
    ("call", "Tensor[] tensors, SymInt[] sizes, str text", "Tensor[]"),
    ("pullback", "Tensor[] tensors, Tensor[] gradients, SymInt[] sizes, str text", "Tensor[]"),
    ("lengths", "Tensor data, Tensor lengths, str kind", "Tensor"),
    ("room", "Tensor numbers, int least", "Tensor"),
):
    LIBRARY.define(f"{_name}({_arguments}) -> {_result}", tags=(torch.Tag.pt2_compliant_tag,))
    LIBRARY.impl(_name, globals()[f"{_name}_real"], "CompositeExplicitAutograd")
    torch.library.register_fake(f"seqformats::{_name}", globals()[f"{_name}_fake"], lib=LIBRARY)
torch.library.register_autograd("seqformats::call", backward, setup_context=keep, lib=LIBRARY)
