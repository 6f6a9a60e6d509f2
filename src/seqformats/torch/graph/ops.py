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
import operator
from collections.abc import Callable, Sequence
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

KIND_BY_NAME: dict[str, type[Encoding]] = {kind.__name__: kind for kind in (Ragged, Masked, Padded, Packed)}
LEADS = {"Ragged": ("rows",), "Packed": ("rows",), "Masked": ("n", "width"), "Padded": ("width", "n")}
TUPLES: dict[str, Any] = {kind.__name__: kind for kind in (tuple, Advantages, TopK, Unique)}
TRIED = [2, 3, 1], [4, 1, 2, 6]
"""Lengths of the batches of the trials."""


def measures(lengths: list[int]) -> dict[Any, int]:
    """Measure a batch, by the names of the lengths that an axis may have; a rectangle that is given is wider."""
    n, longest = len(lengths), max(lengths)
    return {"n": n, "ends": n + 1, "rows": sum(lengths), "longest": longest, "width": longest + 1}


PAIRS = dict(zip(zip(*[measures(lengths).values() for lengths in TRIED], strict=True), measures([0]), strict=True))

# What functions do with the structure: a batch that they give has that of an argument, as many sequences as the first
# argument, or neither.  Those that give arrays keep it.
_NAMES = {
    "kept": "argmax argmin argsort attention bincount block_mask conv convert cross_entropy ctc_loss "
    "cu_seqlens cumsum ema embedding_bag expand_as ffill gather isin levenshtein linear_cross_entropy log_softmax mask "
    "masked_scatter maxsim merge_asof ngrams position_ids recurrence reverse rl.gae rl.mean_loss rl.policy_loss "
    "rl.ratios rl.returns rl.traces rl.whiten run_starts scatter searchsorted segment_ids shift shuffle softmax sort "
    "standardize topk_mean where window",
    "as many": "concat cut diff erase filter interleave intersect slice topk truncate unique",
    "new": "expand join_batches repeat reshape select",
}
STRUCTURES = {name: rule for rule, names in _NAMES.items() for name in names.split()}
STRUCTURES |= {name: "kept" for name in seqformats.__all__ if name.startswith("reduce")}

# Arguments that have one row per sequence, by their place or name; the positions of `select` may be more or fewer
PER_SEQUENCE_ARGUMENTS: dict[str, tuple[int | str, ...]] = {"expand_as": (0,), "expand": (0,), "repeat": (0, 1)}
PER_SEQUENCE_ARGUMENTS |= {"select": (1,), "attention": ("prefix",), "recurrence": ("initial",)}
PER_SEQUENCE_ARGUMENTS |= {"rl.policy_loss": (2,), "rl.returns": ("bootstrap",), "rl.gae": ("bootstrap",)}


def name_of(dtype: torch.dtype) -> str:
    """The name by which PyTorch has a dtype."""
    return str(dtype).removeprefix("torch.")


FUNCTIONS: dict[str, Any] = {name: operator.attrgetter(name)(seqformats) for name in STRUCTURES}
PARAMETERS = {name: list(inspect.signature(function).parameters) for name, function in FUNCTIONS.items()}
"""Their order, in which gradients come."""


class Leaf(NamedTuple):
    """A tensor that a call takes or gives."""

    kind: str  # of the batch whose data it is, "array", or "numpy" for one that the function takes as NumPy's
    side: str
    host: int  # the structure of a batch; those that are new come behind those given
    dtype: str
    axes: Sequence[Any]  # numbers, measures of the structure, None for what the call gives
    asks: bool = False  # for a gradient, which some functions refuse


class Call:
    """A text, read: a public function, its arguments and what it gives, found out by two trials.

    An error of the function where it takes no such arguments.  The trials have a thread of their own: what PyTorch does
    to tensors while it traces a program it does in one thread.
    """

    parts: Sequence[Leaf]  # of the result; tensors are the data of these, then the lengths of new structures
    several: str  # the class where the result is a tuple
    gradients: tuple[int, ...]  # the places of the arguments that have one

    def __init__(self, text: str) -> None:
        self.name, self.args, self.options, given, self.cast = json.loads(text)  # is it in an autocast region?
        if self.name not in STRUCTURES:
            raise BEYOND.as_error(
                ValueError, f"no operation of seqformats that a graph may hold is called {self.name!r}"
            )
        self.rule, self.function = STRUCTURES[self.name], FUNCTIONS[self.name]
        self.given = [Leaf(*about) for about in given]  # so many of the tensors hold data; the others are lengths
        self.hosts = 1 + max([leaf.host for leaf in self.given])
        with ThreadPoolExecutor(1) as pool:
            try:
                found = list(pool.map(functools.partial(trial, self, 0), TRIED))
            except Exception:  # some integers must not be 0
                found = list(pool.map(functools.partial(trial, self, 1), TRIED))
        (one, self.several, self.gradients), (two, *others) = found
        if [leaf[:4] for leaf in one] != [leaf[:4] for leaf in two] or others != [self.several, self.gradients]:
            raise TRACED(f"what {self.name} gives depends on the lengths")
        pairs = [zip(leaf.axes, other.axes, strict=True) for leaf, other in zip(one, two, strict=True)]
        axes = [[a if a == b else PAIRS.get((a, b)) for a, b in pair] for pair in pairs]
        self.parts = [leaf._replace(axes=each) for leaf, each in zip(one, axes, strict=True)]
        # the measures that no shape tells come with the call, behind its own sizes
        there = {(axis, leaf.host) for leaf in self.given for axis in leaf.axes}
        asked = {(axis, leaf.host) for leaf in self.parts for axis in leaf.axes if axis in ("rows", "longest")}
        self.measures = sorted([(axis, host) for axis, host in asked - there if host < self.hosts])

    def run(self, how: Callable[..., Any], tensors: Tensors, hosts: Sequence[Structure], sizes: Sizes) -> Any:
        """Call the function, or `how` that is done, with the arguments that the tensors hold."""

        def value(argument: Any) -> Any:
            tag, what = argument
            if tag in ("list", "tuple"):
                return (list if tag == "list" else tuple)(map(value, what))
            if tag == "size":
                return int(sizes[what])
            if tag != "tensor":
                return KIND_BY_NAME.get(what, what) if isinstance(what, str) else what
            leaf, data = self.given[what], tensors[what].contiguous()
            if leaf.kind in KIND_BY_NAME:
                return batch_over(leaf.kind, leaf.side, data, hosts[leaf.host])
            return data if leaf.kind == "array" else data.numpy(force=True)

        device = tensors[0].device.type
        alike = torch.is_autocast_enabled(device) == self.cast
        with contextlib.nullcontext() if alike else torch.autocast(device, enabled=self.cast):
            return how(*map(value, self.args), **{name: value(given) for name, given in self.options.items()})

    def pull(self, tensors: Tensors, hosts: Sequence[Structure], sizes: Sizes, gradients: Tensors = ()) -> list[Tensor]:
        """Run the pullback of the call on gradients, or zeros; those of integers nobody reads."""
        y, pullback = self.run(functools.partial(vjp, self.function), tensors, hosts, sizes)
        own = leaves(y)
        dys = gradients[: len(own)] or list(map(torch.zeros_like, own))
        dys = [dy.detach().contiguous() if differentiable(dy) else x for x, dy in zip(own, dys, strict=True)]
        dy = rebuild_tuple(y, rebuild(tuple(y), dys)) if isinstance(y, tuple) else rebuild(y, dys)
        return list(filter(differentiable, leaves(pullback(dy))))


parsed = functools.lru_cache(1024)(Call)


@functools.lru_cache(64)
def _structure(lengths: bytes) -> Structure:
    return Structure.of_lengths(np.frombuffer(lengths, np.int64).copy())


def structure_over(lengths: Tensor) -> Structure:
    """The structure of these lengths; those that have been seen last are kept, with their order."""
    return _structure(lengths.numpy().tobytes())


def batch_over(kind: str, side: str, data: Tensor, structure: Structure) -> Encoding:
    """The encoding over such data; StructureError where it does not fit, since kernels check nothing."""
    n, rows, longest = structure.n, structure.rows, structure.longest
    lead = {"n": n, "rows": rows, "width": longest} | dict(zip(LEADS[kind], data.shape, strict=False))
    if lead["n"] != n or lead["rows"] != rows or lead["width"] < longest:
        raise SHAPE(f"data of shape {tuple(data.shape)} is no {kind} of {n} sequences, {rows} items")
    form = {"Masked": (lead["width"], side), "Padded": (lead["width"],)}.get(kind, ())
    return KIND_BY_NAME[kind]._freeze(data.contiguous(), structure, *form)


def differentiable(x: Tensor) -> bool:
    """Ask: can it have a gradient?"""
    return bool(x.dtype.is_floating_point or x.dtype.is_complex)


def trial(call: Call, whole: int, lengths: list[int]) -> tuple[list[Leaf], str, tuple[int, ...]]:
    """Find what a call gives on a small batch of one number, and what has a gradient; an error for other things."""
    hosts, known = [Structure.of_lengths(np.array(lengths)) for _ in range(call.hosts)], measures(lengths)
    tensors = []
    for leaf in call.given:
        shape, number = [known.get(axis, axis) for axis in leaf.axes], 0 if "float" in leaf.dtype else whole
        tensors.append(torch.full(shape, number, dtype=getattr(torch, leaf.dtype), requires_grad=leaf.asks))
    arguments = tensors, hosts, [max(lengths) + 2] * 16
    y = call.run(call.function, *arguments)
    structures: list[Any] = [host if call.rule == "kept" else None for host in hosts]
    parts = []
    lead: Sequence[str]
    for part in y if isinstance(y, tuple) else (y,):
        kind, data, host, lead = "", part, 0, ()
        if isinstance(part, Encoding):
            kind, data = type(part).__name__, part.data
            host = next((k for k, one in enumerate(structures) if one is part._structure), len(structures))
            structures += [part._structure] * (host == len(structures))
            lead = LEADS[kind] if host >= call.hosts or "width" in call.options else ()
        axes = (*lead, *data.shape[len(lead) :])
        parts.append(Leaf(kind, getattr(part, "side", "right"), host, name_of(data.dtype), axes))
    try:
        with torch.no_grad():
            dxs = call.pull(*arguments)
    except (TypeError, SeqFormatError, AttributeError, KeyError):  # there is no rule, or not for this dtype
        dxs = []
    rest = iter(range(len(tensors)))  # gradients come in the order of what they are for
    places = [next(k for k in rest if (dx.shape, dx.dtype) == (tensors[k].shape, tensors[k].dtype)) for dx in dxs]
    return parts, TUPLES[type(y).__name__].__name__ if isinstance(y, tuple) else "", tuple(places)


def separate_memory(outputs: Tensors, given: Tensors) -> list[Tensor]:
    """Copy outputs that share memory with inputs or with each other: PyTorch allows neither."""
    taken, found = {tensor.untyped_storage().data_ptr() for tensor in given}, []
    for output in outputs:
        place = output.untyped_storage().data_ptr()
        found.append(output.clone() if place in taken else output.detach())
        taken.add(place)
    return found


def call(tensors: Tensors, sizes: Sizes, text: str) -> list[Tensor]:
    """The values."""
    this, given = parsed(text), [tensor.detach() for tensor in tensors]
    hosts = list(map(structure_over, given[len(this.given) :]))
    outputs, numbers = [], []
    y = this.run(this.function, given, hosts, sizes)
    for part, known in zip(y if isinstance(y, tuple) else (y,), this.parts, strict=True):
        outputs.append(part.data if known.kind else part)
        if known.host == len(hosts):
            hosts.append(part._structure)
            numbers.append(torch.from_numpy(part._structure.lengths.copy()))
        elif known.kind and not part._structure.same_lengths(hosts[known.host]):
            raise CHANGED(f"{this.name} has changed the lengths of the sequences, which a graph relies on")
    return separate_memory(outputs + numbers, tensors)


def call_fake(tensors: Tensors, sizes: Sizes, text: str) -> list[Tensor]:
    """The shapes."""
    this = parsed(text)
    known: dict[Any, Any] = dict(zip(this.measures, sizes[len(sizes) - len(this.measures) :], strict=True))
    for leaf, tensor in zip(this.given, tensors, strict=False):
        known = {(axis, leaf.host): length for axis, length in zip(leaf.axes, tensor.shape, strict=True)} | known
    for k, lengths in enumerate(tensors[len(this.given) :]):
        known["n", k], known["ends", k] = lengths.shape[0], lengths.shape[0] + 1
    if "width" in this.options:
        multiple = this.options.get("multiple_of", ("is", 1))[1]
        known["width", 0] = (sizes[this.options["width"][1]] + multiple - 1) // multiple * multiple

    def size(axis: Any, host: int) -> Any:
        if isinstance(axis, int):
            return axis
        key = axis, 0 if axis == "n" and this.rule == "as many" else host
        if axis is None or key not in known:
            known[key] = torch.library.get_ctx().new_dynamic_size()
        return known[key]

    outputs = []
    for leaf in this.parts:
        shape = [size(axis, leaf.host) for axis in leaf.axes]
        outputs.append(torch.empty(shape, dtype=getattr(torch, leaf.dtype), device=tensors[0].device))
    new = range(this.hosts, 1 + max([leaf.host for leaf in this.parts]))
    return outputs + [torch.empty(size("n", host), dtype=torch.int64, device="cpu") for host in new]


def pullback(tensors: Tensors, gradients: Tensors, sizes: Sizes, text: str) -> list[Tensor]:
    """The gradients of the tensors that have one."""
    this, given = parsed(text), [tensor.detach() for tensor in tensors]
    hosts = list(map(structure_over, given[len(this.given) :]))
    return separate_memory(this.pull(given, hosts, sizes, gradients), (*tensors, *gradients))


def keep(ctx: Any, inputs: tuple[Any, ...], output: object) -> None:
    """Keep what the gradient needs."""
    tensors, ctx.sizes, ctx.text = inputs
    ctx.save_for_backward(*tensors)


def backward(ctx: Any, gradients: Tensors) -> tuple[Any, ...]:
    """The gradients, None where there are none."""
    tensors, places = list(ctx.saved_tensors), parsed(ctx.text).gradients
    made = torch.ops.seqformats.pullback(tensors, list(gradients), ctx.sizes, ctx.text) if places else []
    found = [*map(dict(zip(places, made, strict=True)).get, range(len(tensors)))]
    return found, None if len(ctx.sizes) else [], None  # a list without numbers counts as one of tensors


def check_lengths(data: Tensor, lengths: Tensor, kind: str) -> Tensor:
    """Checked lengths of a Ragged or Masked over such data, a tensor that nobody else has."""
    structure = Structure.of_lengths(integers(lengths, "lengths"), data.shape[0] if kind == "Ragged" else None)
    batch_over(kind, "right", data, structure)
    return torch.from_numpy(structure.lengths.copy())


OPERATORS: Sequence[tuple[str, Callable[..., Any], Callable[..., Any]]] = (
    ("call(Tensor[] tensors, SymInt[] sizes, str text) -> Tensor[]", call, call_fake),
    (
        "pullback(Tensor[] tensors, Tensor[] gradients, SymInt[] sizes, str text) -> Tensor[]",
        pullback,
        lambda tensors, _, __, text: [tensors[k].new_empty(tensors[k].shape) for k in parsed(text).gradients],
    ),
    (
        "lengths(Tensor data, Tensor lengths, str kind) -> Tensor",
        check_lengths,
        lambda _, lengths, __: torch.empty(lengths.shape[0], dtype=torch.int64, device="cpu"),
    ),
    (
        "room(Tensor numbers, int least) -> Tensor",
        lambda numbers, least: torch.empty((max([least, *numbers.tolist()]), 0), device="cpu"),
        lambda _, least: torch.empty((torch.library.get_ctx().new_dynamic_size(min=least), 0), device="cpu"),
    ),
)
"""Schemas, what the operators do, and what they give without values.

``room`` is a tensor without items, as long as the largest number says, and `least` at least: a size that the graph
finds out.
"""
_TORCH_LIBRARY = torch.library.Library("seqformats", "DEF")  # `custom_op` checks more, and longer, with each call
for _schema, _real, _fake in OPERATORS:
    _name = _schema.partition("(")[0]
    _TORCH_LIBRARY.define(_schema, tags=(torch.Tag.pt2_compliant_tag,))
    _TORCH_LIBRARY.impl(_name, _real, "CompositeExplicitAutograd")
    torch.library.register_fake(f"seqformats::{_name}", _fake, lib=_TORCH_LIBRARY)
torch.library.register_autograd("seqformats::call", backward, setup_context=keep, lib=_TORCH_LIBRARY)
