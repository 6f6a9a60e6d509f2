"""Functions that PyTorch's compiler reads in place of those of this library, while it makes a graph of a model.

They are written for that reader: encodings are what it takes for one (see `tracing`), sizes may be symbols, and what
cannot be said in a graph gives up, so that the graph ends there and goes on behind it.  A graph that ends within a
wrapped function goes on here, outside of any graph, so each works there as well.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ...formats import Encoding, Masked, Packed, Padded, Ragged
from ..attention import NAMES
from . import ops
from .batches import (
    GRAPHED,
    KINDS,
    Traced,
    found,
    held,
    lengths,
    longest,
    made,
    mask,
    not_held,
    offsets,
    over,
    room,
    rows,
    same_structure,
)
from .outside import refuse

no_call = refuse("a call that fails on two small batches of the same kind, or takes or gives what no graph holds")
no_conversion = refuse("convert between others than Ragged, Masked, Padded and Packed, or with copy, truncate or level")
no_lengths = refuse("a time-major function of several batches, where one may have other lengths than another")
no_option = refuse("final or initial states, bootstrap, or constants that ask for a gradient")
no_layout = refuse("position_ids or segment_ids with layout, or with a start for each sequence")
no_mask = refuse("mask with a width, or of a Masked with another side")
no_varlen = refuse("varlen with these names or max_as, or keys of another number of sequences, or 2^31 rows")
no_wrapper = refuse("a wrapper with backprop, like or dtype, of lists or trees, or of a function that changes shapes")

ENDING = {"recurrence": ("final",), "rl.returns": ("bootstrap",)}
"""Options that end the graph: what they give, or take, has no shape that is known, or gradients out of order."""
CONSTANTS = {"rl.ratios": (1,), "rl.policy_loss": (1, 2)}
"""The places of arguments that may not ask for a gradient, which is an error outside of the graph."""


def coded(given: ops.Given) -> ops.Given:
    """An argument as a text can hold it."""
    tag, what = given[:2]
    if tag in ("list", "tuple"):
        return tag, tuple([coded(part) for part in what])
    if tag != "constant":
        return given if tag == "size" else (*given[:-2], str(given[-2]).removeprefix("torch."), given[-1])
    if isinstance(what, torch.dtype):
        return "dtype", str(what).removeprefix("torch.")
    if isinstance(what, type):
        return "kind", KINDS[what.__name__].__name__
    return ("float", repr(what)) if isinstance(what, float) else ("is", what)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def planned(name: str, args: Traced, options: Traced, data: int) -> Any:
    """Plan a call: its text, its results as (kind, side, tensor, offsets), are they several, the offsets that are kept.

    No text where there is no such call: what the function says to a trial it says to the caller outside of the graph.
    """
    try:
        given = inspect.signature(ops.function(name)).bind(*map(coded, args), **{key: coded(x) for key, x in options})
        text = repr((name, given.args, tuple(given.kwargs.items()), data))
        result, call = ops.result_of(text), ops.parsed(text)
    except Exception:
        return "", (), False, -1
    parts: list[Any] = []
    place = 0
    for part in result.parts:
        new = bool(part.kind) and not call.keeps
        parts.append((part.kind, part.side, place, place + 1 if new else -1))
        place += 2 if new else 1
    return text, tuple(parts), result.several, -1 if call.model is None else call.model[4]


def known(number: int) -> int:
    """A number that the graph is made for."""
    return len(range(number)) if number >= 0 else -len(range(-number))


class Call:
    """The arguments of a call, as constants and the tensors and sizes that they speak of."""

    def __init__(self, name: str, how: str) -> None:
        self.name, self.summed = name, how in ops.SUMMED
        self.data: list[Any] = []
        self.hosts: list[Any] = []
        self.structures: list[Any] = []
        self.sizes: list[Any] = []

    def tensor(self, x: Traced, lead: int) -> Any:
        """A tensor of items, in float32 where an autocast region adds half precision up so: place, dtype and shape."""
        half = x.dtype in (torch.float16, torch.bfloat16)
        if self.summed and half and torch.is_autocast_enabled(x.device.type):
            x = x.float()
        self.data.append(x)
        return len(self.data) - 1, x.dtype, tuple([known(size) for size in x.shape[lead:]])

    def size(self, x: Traced) -> int:
        """The place of a size; even of one that is known by now, since a trial has its own."""
        self.sizes.append(x)
        return len(self.sizes) - 1

    def host(self, x: Traced) -> int:
        """The place of the offsets among those of all batches."""
        for k in range(len(self.structures)):
            if self.structures[k] is x._structure:
                return k
        self.hosts.append(offsets(x))
        self.structures.append(x._structure)
        return len(self.hosts) - 1

    def given(self, x: Traced, key: str = "", each: bool = False) -> Any:
        """One argument; `each` says that an array has a row for each sequence."""
        if isinstance(x, Encoding):
            host = self.host(x)
            count = self.size(rows(x)) if self.name == "convert" and x._lead == 2 else -1
            place, dtype, item = self.tensor(x.data, x._lead)
            return "batch", type(x).__name__, x.side if type(x) is Masked else "right", place, host, count, dtype, item
        if isinstance(x, (torch.Tensor, np.ndarray)):
            array = torch.as_tensor(x)
            place, dtype, shape = self.tensor(array, 1 if each and array.dim() else 0)
            return "array", place, isinstance(x, np.ndarray), dtype, (-1, *shape) if each and array.dim() else shape
        if key == "width":
            return "size", self.size(x)
        if isinstance(x, (list, tuple)):
            return "list" if isinstance(x, list) else "tuple", tuple([self.given(part) for part in x])
        return "constant", known(x) if isinstance(x, int) and not isinstance(x, bool) else x


def call(name: str, *args: Traced, **options: Traced) -> Any:
    """Put a call of the public function of this name into the graph."""
    how = name
    if name == "reduce":
        kind = options["kind"] if "kind" in options else args[1]
        how = "reduce_mean" if kind == "average" else f"reduce_{kind}"
    for key in ENDING.get(name, ()):
        if options.get(key):
            no_option()
    for k in CONSTANTS.get(name, ()):
        data = args[k].data if k < len(args) and isinstance(args[k], Encoding) else args[k] if k < len(args) else None
        if isinstance(data, torch.Tensor) and data.requires_grad:
            no_option()
    found_in = Call(name, how)
    each = ops.ROWS.get(name, ())
    shown = tuple([found_in.given(x, "", k in each) for k, x in enumerate(args)])
    named = tuple([(key, found_in.given(x, key)) for key, x in options.items()])
    text, parts, several, own = planned(name, shown, named, len(found_in.data))
    if text == "" or not found_in.hosts:
        no_call()
    leaves = torch.ops.seqformats.call.default(found_in.data + found_in.hosts, found_in.sizes, text)
    results = []
    for kind, side, leaf, place in parts:
        y = leaves[leaf]
        if kind:
            y = made(KINDS[kind], y, found_in.structures[own] if place < 0 else found(leaves[place]), side)
        results.append(y)
    return tuple(results) if several else results[0]


# --- public functions -------------------------------------------------------------------------------------------------


def convert(x: Traced, To: Traced, *, copy: bool = False, **options: Traced) -> Any:
    """`seqformats.convert`."""
    if not held(x) or To not in GRAPHED or copy or "truncate" in options or "level" in options:
        no_conversion()
    if isinstance(x, To) and not options:
        return x
    if (To is Masked or To is Padded) and options.get("width") is None:
        options = dict(options)
        if isinstance(x, To):  # another side, fill or multiple of the rectangle that is there
            options["width"] = x.data.shape[1] if To is Masked else x.data.shape[0]
        else:
            options["width"] = room(x)
    return call("convert", x, To, **options)


def convert_like(y: Traced, x: Traced) -> Any:
    """`seqformats.convert_like`; where the lengths of both may differ, those of `y` are kept, as outside."""
    if not held(x) or not held(y):
        no_conversion()
    if x._lead == 1:
        return y if type(y) is type(x) else call("convert", y, type(x))
    if same_structure(x, y):
        if type(x) is Masked and type(y) is Masked and y.side == x.side and y.data.shape[1] == x.data.shape[1]:
            return over(y, without_padding(y))
        return call("convert_like", y, x)
    if type(x) is Masked:
        return call("convert", y, Masked, side=x.side, width=torch.sym_max(x.data.shape[1], room(y)))
    return call("convert", y, Padded, width=torch.sym_max(x.data.shape[0], room(y)))


def without_padding(y: Traced) -> torch.Tensor:
    """The data of a `Masked`, zero where there is no item."""
    there = mask(y)
    while there.dim() < y.data.dim():
        there = there.unsqueeze(-1)
    return torch.where(there, y.data, 0)


def expand(x: Traced, like: Traced, **options: Traced) -> Any:
    """`seqformats.expand`; rows of an array over a batch are as many as the batch has items."""
    if isinstance(x, torch.Tensor) and held(like) and not options:
        return call("expand_as", x, convert(like, Ragged)).data
    return call("expand", x, like, **options)


def recurrence(x: Traced, decay: Traced, *, initial: Traced = None, **options: Traced) -> Any:
    """`seqformats.recurrence`; an array of states would have to be as long as a trial batch."""
    if isinstance(initial, torch.Tensor):
        no_option()
    return call("recurrence", x, decay, initial=initial, **options)


def number_of_each(x: Traced) -> Any:
    """`seqformats.lengths` of a batch in a graph: an array of NumPy, as ever."""
    return lengths(x).numpy()


# --- attention --------------------------------------------------------------------------------------------------------


def count(x: Traced) -> Any:
    """Count the sequences."""
    return offsets(x).shape[0] - 1


def each_row(x: Traced, numbers: torch.Tensor) -> torch.Tensor:
    """A number of each sequence, for each of its rows, in the caller's order."""
    return torch.repeat_interleave(numbers, lengths(x), output_size=rows(x))


def position_ids(x: Traced, start: Traced = 0, *, layout: bool = False, level: int = -1) -> torch.Tensor:
    """`seqformats.position_ids`."""
    if layout or level != -1 or not isinstance(start, int):
        no_layout()
    places = torch.arange(rows(x)) - each_row(x, offsets(x)[:-1]) + start
    return places.to(x.data.device)


def segment_ids(x: Traced, *, layout: bool = False, level: int = -1) -> torch.Tensor:
    """`seqformats.segment_ids`."""
    if layout or level != -1:
        no_layout()
    return each_row(x, torch.arange(count(x))).to(x.data.device)


def cu_seqlens(x: Traced) -> torch.Tensor:
    """`seqformats.cu_seqlens`."""
    numbers = offsets(x)
    if x._lead == 1 and x.data.shape[0] >= 2**31:
        no_varlen()
    return numbers.to(device=x.data.device, dtype=torch.int32, copy=True)


def padding_mask(x: Traced, *, width: Traced = None, side: Traced = None) -> torch.Tensor:
    """`seqformats.mask`."""
    numbers = lengths(x)[:, None]
    if width is not None or side not in (None, "left", "right") or (type(x) is Masked and side not in (None, x.side)):
        no_mask()
    if type(x) is Masked:
        return mask(x)
    size = longest(x)
    place = torch.arange(size)
    there = place >= size - numbers if side == "left" else place < numbers
    return there.to(x.data.device)


def block_mask(x: Traced, *, causal: bool = False) -> torch.Tensor:
    """`seqformats.block_mask`."""
    numbers = segment_ids(x)
    seen = numbers[:, None] == numbers
    if causal:
        place = torch.arange(rows(x), device=x.data.device)
        seen = seen & (place[:, None] >= place)
    return seen


def varlen_of(q: Traced, k: Traced = None, *, names: str = "flash_attn", max_as: str = "int") -> dict[str, Any]:
    """`seqformats.torch.varlen`."""
    keys = q if k is None else k
    if names not in ("flash_attn", "torch", "hf") or max_as != "int" or count(q) != count(keys):
        no_varlen()
    values = cu_seqlens(q), cu_seqlens(keys).to(q.data.device), longest(q), longest(keys)
    return dict(zip(NAMES[names], values))  # noqa: B905  the compiler knows no strict


# --- wrappers ---------------------------------------------------------------------------------------------------------


def call_wrapped(wrapper: Traced, fn: Callable[..., Any], args: Traced, kwargs: Traced) -> Any:
    """Call a wrapped function; see `wrapping.wrapper`."""
    if wrapper.backprop:
        no_wrapper()
    return wrapping(wrapper.To, wrapper.rows, wrapper.options, fn, args, kwargs)


def wrapping(To: Traced, bare: bool, options: Traced, fn: Callable[..., Any], args: Traced, kwargs: Traced) -> Any:
    """Convert, call, convert back."""
    given = [x for x in (*args, *kwargs.values()) if isinstance(x, Encoding)]
    if not given:
        if bare and [x for x in args if isinstance(x, torch.Tensor)]:
            return fn(*args, **kwargs)
        no_wrapper()
    first = given[0]
    for x in given:
        if not held(x):
            not_held()
        if (To is Padded or To is Packed) and not same_structure(x, first):
            no_lengths()
    for x in args:
        if isinstance(x, (list, dict)):
            no_wrapper()
    alone = bare and len(given) == 1 and first._lead == 1  # the rows of a Packed in its own order
    shown = [x if alone else convert(x, To, **options) for x in given]
    passed = [x.data if bare else x for x in shown]
    rest = iter(passed)
    placed_args = [next(rest) if isinstance(x, Encoding) else x for x in args]
    named = {name: next(rest) if isinstance(x, Encoding) else x for name, x in kwargs.items()}
    y = fn(*placed_args, **named)
    if isinstance(y, tuple):
        return (back(y[0], shown[0], first), *y[1:])
    return back(y, shown[0], first)


def back(y: Traced, seen: Traced, first: Traced) -> Any:
    """Give what a function returned as the caller gets it."""
    if isinstance(y, torch.Tensor):
        if y.shape[: seen._lead] != seen.data.shape[: seen._lead]:
            no_wrapper()
        y = over(seen, y)
    if y is first:
        return y
    return convert_like(y, first)


def with_kind(To: Traced, bare: bool) -> Callable[..., Any]:
    """Make the version of a `with_...` that is called in a graph."""

    def version(fn: Traced = None, **options: Traced) -> Any:
        if options.get("backprop") or options.get("like") is not None or "dtype" in options:
            no_wrapper()
        own = {key: value for key, value in options.items() if key not in ("backprop", "like")}

        def decorate(fn: Traced) -> Any:
            def wrapped(*args: Traced, **kwargs: Traced) -> Any:
                return wrapping(To, bare, own, fn, args, kwargs)

            return wrapped

        return decorate if fn is None else decorate(fn)

    return version


def node(name: str) -> Callable[..., Any]:
    """Make what is read in place of a public function that becomes a node."""

    def read(*args: Traced, **options: Traced) -> Any:
        return call(name, *args, **options)

    return read


VERSIONS: dict[str, Callable[..., Any]] = {name: node(name) for name in ops.STRUCTURES}
VERSIONS.update(
    {
        "block_mask": block_mask,
        "convert": convert,
        "convert_like": convert_like,
        "cu_seqlens": cu_seqlens,
        "expand": expand,
        "lengths": number_of_each,
        "mask": padding_mask,
        "position_ids": position_ids,
        "recurrence": recurrence,
        "segment_ids": segment_ids,
        "torch.varlen": varlen_of,
        "with_array": with_kind(Ragged, True),
        "with_masked": with_kind(Masked, False),
        "with_packed": with_kind(Packed, False),
        "with_padded": with_kind(Padded, False),
        "with_ragged": with_kind(Ragged, False),
    }
)
