"""What this library does while a graph is made of a model: functions that PyTorch's compiler reads in place of others.

They are written for that reader: encodings are what it takes for one (see `tracing`), sizes may be symbols, and what
cannot be said in a graph gives up, so that the graph ends there and goes on behind it.  A graph that ends within a
wrapped function goes on here, outside of any graph, so each works there as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch

import seqformats

from ...errors import TRACED
from ...formats import Masked, Packed, Padded, Ragged
from ..attention import NAMES

GRAPHED = (Ragged, Masked, Padded, Packed)


def call(name: str, *args: Any, **options: Any) -> Any:
    """A node of the graph that calls the public function of this name; `tracing` makes it."""
    return getattr(seqformats, name)(*args, **options)


def over(x: Any, data: torch.Tensor) -> Any:
    """The encoding `x` over other data; `tracing` makes it."""
    return x._with_data(data)


def offsets(x: Any) -> torch.Tensor:
    """The offsets of a batch, on the host."""
    found: torch.Tensor = x._structure.tensor
    return found


def longest(x: Any) -> int:
    """The items of its longest sequence: a number that is known, or one that the graph finds out."""
    found: int = x.max_length
    return found


def room(x: Any) -> int:
    """A width that fits its longest sequence: its length where that is known."""
    found: int = x.max_length
    return found


def same_structure(x: Any, y: Any) -> bool:
    """Is the structure of both known to be one?"""
    same: bool = x._structure.same_lengths(y._structure)
    return same


def give_up(why: str) -> NoReturn:
    """End the graph here."""
    raise TRACED(f"seqformats: {why}; call this without torch.compile")


# --- attributes -------------------------------------------------------------------------------------------------------


def lengths(x: Any) -> torch.Tensor:
    """In the caller's order."""
    return offsets(x).diff()


def ends(x: Any) -> torch.Tensor:
    """The offsets, for the model."""
    return offsets(x).clone()


def sorted_lengths(x: Any) -> torch.Tensor:
    """Falling."""
    return torch.sort(lengths(x), descending=True, stable=True)[0]


def indices(x: Any) -> torch.Tensor:
    """The caller's position of each, by falling length."""
    return torch.sort(lengths(x), descending=True, stable=True)[1]


def size_at_t(x: Any) -> torch.Tensor:
    """The sequences longer than t."""
    steps = x.data.shape[0] if x._lead == 2 else longest(x)
    return (lengths(x) > torch.arange(steps)[:, None]).sum(1)


def mask(x: Any) -> torch.Tensor:
    """True where there is an item."""
    width = x.data.shape[1]
    count = lengths(x).to(x.data.device)[:, None]
    place = torch.arange(width, device=x.data.device)
    return place >= width - count if x.side == "left" else place < count


def item_shape(x: Any) -> Any:
    """The shape of one item."""
    return tuple(x.data.shape[x._lead :])


def rows(x: Any) -> int:
    """Items in all sequences together."""
    if x._lead == 1:
        return int(x.data.shape[0])
    found = int(offsets(x)[-1].item())
    torch._check(found >= 0)
    return found


def count(x: Any) -> int:
    """How many sequences."""
    return int(offsets(x).shape[0]) - 1


# --- public functions -------------------------------------------------------------------------------------------------


def convert(x: Any, To: Any, *, copy: bool = False, **options: Any) -> Any:
    """`seqformats.convert`."""
    if not isinstance(x, GRAPHED) or To not in GRAPHED:
        give_up("convert between encodings other than Ragged, Masked, Padded and Packed")
    if isinstance(x, To) and not options and not copy:
        return x
    if copy or "truncate" in options or "level" in options:
        give_up("convert with copy, truncate or level")
    if (To is Masked or To is Padded) and options.get("width") is None:
        options = dict(options)
        if isinstance(x, To):  # another side, fill or multiple of the rectangle that is there
            options["width"] = x.data.shape[1] if To is Masked else x.data.shape[0]
        else:
            options["width"] = room(x)
    return call("convert", x, To, **options)


def convert_like(y: Any, x: Any) -> Any:
    """`seqformats.convert_like`."""
    if not isinstance(x, GRAPHED) or not isinstance(y, GRAPHED) or not same_structure(x, y):
        give_up("convert_like of batches that may have other lengths")
    return restored(y, x)


def restored(y: Any, x: Any) -> Any:
    """`y` over the same structure in the encoding of `x`."""
    if x._lead == 1:
        return y if type(y) is type(x) else call("convert", y, type(x))
    alike = type(y) is type(x) and not x._by_steps and y.side == x.side
    if alike and y.data.shape[1] == x.data.shape[1]:
        return over(y, without_padding(y))
    return call("convert_like", y, x)


def without_padding(y: Any) -> torch.Tensor:
    """The data of a `Masked`, zero where there is no item."""
    there = mask(y)
    data = y.data
    while there.dim() < data.dim():
        there = there.unsqueeze(-1)
    return torch.where(there, data, 0)


def expand(x: Any, like: Any, **options: Any) -> Any:
    """`seqformats.expand`; rows of an array over a batch are as many as the batch has items."""
    if isinstance(x, torch.Tensor) and isinstance(like, GRAPHED) and not options:
        return call("expand_as", x, convert(like, Ragged)).data
    return call("expand", x, like, **options)


def recurrence(x: Any, decay: Any, *, initial: Any = None, final: bool = False, **options: Any) -> Any:
    """`seqformats.recurrence`; an array of states would have to be as long as a trial batch."""
    if final or isinstance(initial, torch.Tensor):
        give_up("recurrence with final, or with an array of initial states")
    return call("recurrence", x, decay, initial=initial, **options)


def returns(rewards: Any, *, bootstrap: Any = None, **options: Any) -> Any:
    """`seqformats.rl.returns`; gradients belong to the first tensors of a call, and what follows is behind marks."""
    if bootstrap is not None:
        give_up("returns with bootstrap")
    return call("rl.returns", rewards, **options)


def constants(*given: Any) -> None:
    """End the graph where what is a constant asks for a gradient, which is an error outside of it."""
    for x in given:
        data = x.data if isinstance(x, GRAPHED) else x
        if isinstance(data, torch.Tensor) and data.requires_grad:
            give_up("old log-probabilities or advantages that ask for a gradient")


def ratios(logp: Any, old: Any, **options: Any) -> Any:
    """`seqformats.rl.ratios`."""
    constants(old)
    return call("rl.ratios", logp, old, **options)


def policy_loss(logp: Any, old: Any, advantages: Any, **options: Any) -> Any:
    """`seqformats.rl.policy_loss`."""
    constants(old, advantages)
    return call("rl.policy_loss", logp, old, advantages, **options)


def number_of_each(x: Any) -> Any:
    """`seqformats.lengths` of a batch in a graph: an array of NumPy, as ever."""
    if not isinstance(x, GRAPHED):
        give_up("lengths of what is no Ragged, Masked, Padded or Packed")
    return lengths(x).numpy()


# --- attention --------------------------------------------------------------------------------------------------------


def of_graph(x: Any) -> None:
    """End the graph for what is no batch that it can hold."""
    if not isinstance(x, GRAPHED):
        give_up("what attention asks for, of anything but a Ragged, Masked, Padded or Packed")


def each_row(x: Any, numbers: torch.Tensor) -> torch.Tensor:
    """A number of each sequence, for each of its rows, in the caller's order."""
    return torch.repeat_interleave(numbers, lengths(x), output_size=rows(x))


def position_ids(x: Any, start: Any = 0, *, layout: bool = False) -> torch.Tensor:
    """`seqformats.position_ids`."""
    of_graph(x)
    if layout or not isinstance(start, int):
        give_up("position_ids with layout, or a start for each sequence")
    places = torch.arange(rows(x)) - each_row(x, offsets(x)[:-1]) + start
    return places.to(x.data.device)


def segment_ids(x: Any, *, layout: bool = False) -> torch.Tensor:
    """`seqformats.segment_ids`."""
    of_graph(x)
    if layout:
        give_up("segment_ids with layout")
    return each_row(x, torch.arange(count(x))).to(x.data.device)


def cu_seqlens(x: Any) -> torch.Tensor:
    """`seqformats.cu_seqlens`."""
    of_graph(x)
    if x._lead == 1 and x.data.shape[0] >= 2**31:
        give_up("cu_seqlens of more rows than int32 can count")
    return offsets(x).to(device=x.data.device, dtype=torch.int32, copy=True)


def padding_mask(x: Any, *, width: Any = None, side: Any = None) -> torch.Tensor:
    """`seqformats.mask`."""
    of_graph(x)
    if width is not None:
        give_up("mask with a width")
    if isinstance(x, Masked):
        if side is not None and side != x.side:
            give_up("mask of a Masked with another side")
        return mask(x)
    size = longest(x)
    numbers = lengths(x)[:, None]
    place = torch.arange(size)
    if side is not None and side not in ("left", "right"):
        give_up("mask with such a side")
    found = place >= size - numbers if side == "left" else place < numbers
    return found.to(x.data.device)


def block_mask(x: Any, *, causal: bool = False) -> torch.Tensor:
    """`seqformats.block_mask`."""
    numbers = segment_ids(x)
    found = numbers[:, None] == numbers
    if causal:
        place = torch.arange(rows(x), device=x.data.device)
        found = found & (place[:, None] >= place)
    return found


def varlen(q: Any, k: Any = None, *, names: str = "flash_attn") -> dict[str, Any]:
    """`seqformats.torch.varlen`."""
    keys = q if k is None else k
    of_graph(keys)
    if names not in NAMES or count(q) != count(keys):
        give_up("varlen with such names, or with keys of another number of sequences")
    found = cu_seqlens(q), cu_seqlens(keys).to(q.data.device), longest(q), longest(keys)
    return dict(zip(NAMES[names], found))  # noqa: B905  the compiler knows no strict


# --- wrappers ---------------------------------------------------------------------------------------------------------


def call_wrapped(wrapper: Any, fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """What a wrapped function does; see `wrapping.wrapper`."""
    if wrapper.backprop:
        give_up("a wrapper with backprop=True")
    return wrapping(wrapper.To, wrapper.rows, wrapper.options, fn, args, kwargs)


def wrapping(To: Any, bare: bool, options: Any, fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Convert, call, convert back."""
    first = None
    batches = 0
    for x in (*args, *kwargs.values()):
        if isinstance(x, GRAPHED):
            batches += 1
            if first is None:
                first = x
    if bare and first is None:
        for x in args:
            if isinstance(x, torch.Tensor):
                return fn(*args, **kwargs)
    if first is None:
        give_up("a wrapped function of other batches than Ragged, Masked, Padded and Packed")
    if batches > 1 and (To is Padded or To is Packed):
        for x in (*args, *kwargs.values()):
            if isinstance(x, GRAPHED) and not same_structure(x, first):
                give_up("a time-major function of several batches")
    seen = None
    passed = []
    for x in args:
        shown = x
        if isinstance(x, GRAPHED):
            rows_alone = bare and batches == 1 and x._lead == 1  # those of a Packed in its own order
            shown = x if rows_alone else convert(x, To, **options)
            if seen is None:
                seen = shown
            if bare:
                shown = shown.data
        elif isinstance(x, (list, dict)):
            give_up("a wrapped function of lists or trees")
        passed.append(shown)
    named = {}
    for name, x in kwargs.items():
        shown = x
        if isinstance(x, GRAPHED):
            shown = convert(x, To, **options)
            if seen is None:
                seen = shown
            if bare:
                shown = shown.data
        named[name] = shown
    y = fn(*passed, **named)
    if isinstance(y, tuple):
        return (_back(y[0], seen, first), *y[1:])
    return _back(y, seen, first)


def _back(y: Any, seen: Any, first: Any) -> Any:
    """What a function returned, as the caller gets it."""
    if isinstance(y, torch.Tensor):
        lead = seen._lead
        if y.shape[:lead] != seen.data.shape[:lead]:
            give_up("a wrapped function that returned an array of another leading shape")
        y = over(seen, y)
    elif not isinstance(y, GRAPHED) or not same_structure(y, seen):
        give_up("a wrapped function that returned a batch of other lengths")
    if y is first:
        return y
    return restored(y, first)


def _with(To: Any, bare: bool, fn: Any, options: Any) -> Any:
    options = dict(options)
    if options.pop("backprop", False) or options.pop("like", None) is not None or "dtype" in options:
        give_up("a wrapper with backprop, like or dtype")

    def decorate(fn: Any) -> Any:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            return wrapping(To, bare, options, fn, args, kwargs)

        return wrapped

    return decorate if fn is None else decorate(fn)


def with_ragged(fn: Any = None, **options: Any) -> Any:
    """`seqformats.with_ragged`."""
    return _with(Ragged, False, fn, options)


def with_masked(fn: Any = None, **options: Any) -> Any:
    """`seqformats.with_masked`."""
    return _with(Masked, False, fn, options)


def with_padded(fn: Any = None, **options: Any) -> Any:
    """`seqformats.with_padded`."""
    return _with(Padded, False, fn, options)


def with_packed(fn: Any = None, **options: Any) -> Any:
    """`seqformats.with_packed`."""
    return _with(Packed, False, fn, options)


def with_array(fn: Any = None, **options: Any) -> Any:
    """`seqformats.with_array`."""
    return _with(Ragged, True, fn, options)


# --- structures that are made in a graph ------------------------------------------------------------------------------


def as_numbers(x: Any) -> torch.Tensor:
    """Lengths as a tensor."""
    return torch.as_tensor(x)


def lengths_of_offsets(numbers: torch.Tensor) -> torch.Tensor:
    """The lengths between offsets."""
    return numbers.diff()


def offsets_of(numbers: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
    """The offsets of sequences that fill an array."""
    return torch.ops.seqformats.offsets(numbers, data.shape[0])


def offsets_alone(numbers: torch.Tensor, data: torch.Tensor) -> torch.Tensor:  # noqa: ARG001
    """The offsets of sequences with padding."""
    return torch.ops.seqformats.offsets(numbers, -1)


def greatest(x: torch.Tensor) -> int:
    """The longest length, which the graph finds out."""
    found = int(torch.nn.functional.pad(x.diff(), (0, 1)).max().item())
    torch._check(found >= 0)
    return found


def wide_enough(x: torch.Tensor) -> int:
    """A width for sequences that the graph measures: 2 at least, since the compiler treats 1 as a case of its own."""
    found = int(torch.nn.functional.pad(x.diff(), (0, 1)).max().clamp(min=2).item())
    torch._check(found >= 2)
    return found
