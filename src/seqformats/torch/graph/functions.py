"""Functions that PyTorch's compiler reads in place of those of this library, while it makes a graph of a model.

They are written for that reader: encodings are what it takes for one (see `batches`), sizes may be symbols, and what
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
from ..items import _functions as known_functions
from . import ops
from .batches import GRAPHED, KINDS, Traced, found, held, lengths, made, mask, not_held, offsets, over, size
from .outside import refuse

no_call = refuse("a call of which two trials on small batches have not told what it gives, or that is an error")
no_option = refuse("an option, or an array with a gradient, that a graph cannot follow; see docs/models.md")
no_operand = refuse("a function of other things than numbers and batches of one structure and encoding, item by item")
no_wrapper = refuse("a wrapper with backprop, of lists or trees, of sequences of other lengths, or that changes shapes")

CONSTANTS: dict[str, tuple[int, ...]] = {"rl.ratios": (1,), "rl.policy_loss": (1, 2)}
"""The places of arguments that may not ask for a gradient, which is an error outside of the graph."""


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def ordered(name: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Sort names of arguments as the function has them: gradients come in this order."""
    known = list(inspect.signature(ops.function(name)).parameters)
    return tuple(sorted(names, key=lambda key: known.index(key) if key in known else len(known)))


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def planned(name: str, args: Traced, options: Traced, data: int, cast: bool) -> Any:
    """Plan a call: its text, kinds and sides of the results, are they several, the model, what it is asked.

    No text where there is no such call: what the function says to a trial it says to the caller outside of the graph.
    """
    try:
        given = inspect.signature(ops.function(name)).bind(*args, **dict(options))
        text = repr((name, given.args, tuple(given.kwargs.items()), data, cast))
        call, result, asked = ops.parsed(text), ops.result_of(text), ops.asked(text)
    except Exception:
        return "", (), False, 0, ()
    model = 0 if call.model is None else call.model[6]
    return text, tuple([part[:3] for part in result.parts]), result.several, model, asked


def known(number: int) -> int:
    """A number that the graph is made for."""
    return len(range(number)) if number >= 0 else -len(range(-number))


class Call:
    """The arguments of a call, as literals and the tensors and sizes that they speak of."""

    def __init__(self, name: str) -> None:
        self.each = ops.ROWS.get(name, ())
        self.data: list[Any] = []
        self.batches: list[Any] = []  # the first of each structure
        self.sizes: list[Any] = []

    def tensor(self, x: Traced, lead: int) -> Any:
        """A tensor of items: its place, dtype and shape."""
        self.data.append(x)
        dtype = str(x.dtype).removeprefix("torch.")
        return len(self.data) - 1, dtype, tuple([known(size) for size in x.shape[lead:]])

    def batch(self, x: Traced) -> int:
        """The place of the structure among those of all batches."""
        for k in range(len(self.batches)):
            if self.batches[k]._structure is x._structure:
                return k
        self.batches.append(x)
        return len(self.batches) - 1

    def given(self, x: Traced, key: Traced = None) -> Any:
        """One argument; `key` is its place or name."""
        if isinstance(x, Encoding):
            if not held(x):
                not_held()
            side = x.side if type(x) is Masked else "right"
            return "batch", *self.tensor(x.data, x._lead), type(x).__name__, side, self.batch(x)
        if isinstance(x, (torch.Tensor, np.ndarray)):
            array = torch.as_tensor(x)
            each = key in self.each and array.dim() > 0
            place, dtype, shape = self.tensor(array, 1 if each else 0)
            return "array", place, dtype, (-1, *shape) if each else shape, isinstance(x, np.ndarray)
        if key == "width":
            self.sizes.append(x)  # even of one that is known by now, since a trial has its own
            return "size", len(self.sizes) - 1
        if isinstance(x, (list, tuple)):
            return "list" if isinstance(x, list) else "tuple", tuple([self.given(part) for part in x])
        if isinstance(x, type):
            return "kind", x.__name__
        if isinstance(x, torch.dtype):
            return "dtype", str(x).removeprefix("torch.")
        if isinstance(x, float):
            return "float", repr(x)
        return "is", known(x) if isinstance(x, int) and not isinstance(x, bool) else x


def call(name: str, *args: Traced, **options: Traced) -> Any:
    """Put a call of the public function of this name into the graph."""
    seen = Call(name)
    shown = tuple([seen.given(x, k) for k, x in enumerate(args)])
    named = tuple([(key, seen.given(options[key], key)) for key in ordered(name, tuple(options))])
    if not seen.batches:
        no_call()
    for x in [args[k] for k in CONSTANTS.get(name, ()) if k < len(args)]:
        if isinstance(x, (Encoding, torch.Tensor)) and (x.data if isinstance(x, Encoding) else x).requires_grad:
            no_option()
    cast = torch.is_autocast_enabled(seen.data[0].device.type)
    text, parts, several, model, asked = planned(name, shown, named, len(seen.data), cast)
    if text == "":
        no_call()
    sizes = seen.sizes + [size(seen.batches[model], measure) for measure in asked]
    leaves = torch.ops.seqformats.call.default(seen.data + [offsets(x) for x in seen.batches], sizes, text)
    rest, results = iter(leaves), []
    for kind, side, new in parts:
        y = next(rest)
        if kind:
            y = made(KINDS[kind], y, found(next(rest)) if new else seen.batches[model]._structure, side)
        results.append(y)
    return tuple(results) if several else results[0]


# --- public functions -------------------------------------------------------------------------------------------------


def convert(x: Traced, To: Traced, *, copy: bool = False, **options: Traced) -> Any:
    """`seqformats.convert`."""
    if not held(x) or To not in GRAPHED or copy or "truncate" in options or "level" in options:
        no_option()
    if isinstance(x, To) and not options:
        return x
    if (To is Masked or To is Padded) and options.get("width") is None:
        options = dict(options)
        if isinstance(x, To):  # another side, fill or multiple of the rectangle that is there
            options["width"] = x.data.shape[1] if To is Masked else x.data.shape[0]
        else:
            options["width"] = size(x, "room")
    return call("convert", x, To, **options)


def convert_like(y: Traced, x: Traced) -> Any:
    """`seqformats.convert_like`; where the lengths of both may differ, those of `y` are kept, as outside."""
    if not held(x) or not held(y):
        not_held()
    if x._lead == 1:
        return y if type(y) is type(x) else call("convert", y, type(x))
    if y._structure is x._structure:
        if type(x) is Masked and type(y) is Masked and y.side == x.side and y.data.shape[1] == x.data.shape[1]:
            there = mask(y).reshape(*y.data.shape[:2], *[1] * (y.data.dim() - 2))
            return over(y, torch.where(there, y.data, 0))
        return call("convert_like", y, x)
    if type(x) is Masked:
        return call("convert", y, Masked, side=x.side, width=torch.sym_max(x.data.shape[1], size(y, "room")))
    return call("convert", y, Padded, width=torch.sym_max(x.data.shape[0], size(y, "room")))


def expand(x: Traced, like: Traced, **options: Traced) -> Any:
    """`seqformats.expand`; rows of an array over a batch are as many as the batch has items."""
    if isinstance(x, torch.Tensor) and held(like) and not options:
        return call("expand_as", x, convert(like, Ragged)).data
    return call("expand", x, like, **options)


def astype(x: Traced, dtype: Traced) -> Any:
    """`seqformats.astype`, which casts padding too."""
    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if not held(x) or not isinstance(found, torch.dtype):
        no_option()
    return x if found is x.data.dtype else over(x, x.data.to(found))


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def of_items(function: Callable[..., Any]) -> bool:
    """Ask: is it a function of single items?"""
    return known_functions().get(function) == "item"


def torch_function(_: Traced, function: Traced, types: Traced, args: Traced = (), options: Traced = None) -> Any:  # noqa: ARG001
    """A function of PyTorch with batches among its arguments."""
    if options or not of_items(function):
        no_operand()
    return elementwise(function, *args)


def elementwise(operate: Callable[..., Any], *operands: Traced) -> Any:
    """A function of single items, of batches of one structure and of numbers; rows alone, never what is padding."""
    x = [y for y in operands if isinstance(y, Encoding)][0]  # noqa: RUF015  not followed
    for y in operands:
        if not isinstance(y, (Encoding, bool, int, float, complex)) or not held(x):
            no_operand()
        if isinstance(y, Encoding) and (type(y) is not type(x) or y._structure is not x._structure):
            no_operand()
        if isinstance(y, Encoding) and y.data.dim() != x.data.dim():
            no_operand()
    rows = x if x._lead == 1 else convert(x, Ragged)
    flat = [(y if x._lead == 1 else convert(y, Ragged)).data if isinstance(y, Encoding) else y for y in operands]
    return convert_like(over(rows, operate(*flat)), x)


def varlen(q: Traced, k: Traced = None, *, names: str = "flash_attn", max_as: str = "int") -> dict[str, Any]:
    """`seqformats.torch.varlen`."""
    keys = q if k is None else k
    if names not in ("flash_attn", "torch", "hf") or max_as != "int" or offsets(q).shape != offsets(keys).shape:
        no_option()
    cumulated = call("cu_seqlens", q), call("cu_seqlens", keys).to(q.data.device)
    return dict(zip(NAMES[names], (*cumulated, size(q, "longest"), size(keys, "longest"))))  # noqa: B905  not followed


# --- wrappers ---------------------------------------------------------------------------------------------------------


def call_wrapped(wrapper: Traced, fn: Callable[..., Any], args: Traced, kwargs: Traced) -> Any:
    """Call a wrapped function; see `wrapping.wrapper`."""
    options = {**wrapper.options, "backprop": True} if wrapper.backprop else wrapper.options
    return wrapping(wrapper.To, wrapper.rows, options, fn, args, kwargs)


def wrapping(To: Traced, bare: bool, options: Traced, fn: Callable[..., Any], args: Traced, kwargs: Traced) -> Any:
    """Convert, call, convert back."""
    given = [x for x in (*args, *kwargs.values()) if isinstance(x, Encoding)]
    if not given and bare and [x for x in args if isinstance(x, torch.Tensor)]:
        return fn(*args, **kwargs)
    if not given or [x for x in args if isinstance(x, (list, dict))] or {"backprop", "like", "dtype"} & {*options}:
        no_wrapper()
    first = given[0]
    for x in given:
        if not held(x):
            not_held()
        if (To is Padded or To is Packed) and x._structure is not first._structure:
            no_wrapper()
    alone = bare and len(given) == 1 and first._lead == 1  # the rows of a Packed in its own order
    shown = [x if alone else convert(x, To, **options) for x in given]
    rest = iter([x.data if bare else x for x in shown])
    placed = [next(rest) if isinstance(x, Encoding) else x for x in args]
    named = {name: next(rest) if isinstance(x, Encoding) else x for name, x in kwargs.items()}
    y = fn(*placed, **named)
    if isinstance(y, tuple):
        return (back(y[0], shown[0], first), *y[1:])
    return back(y, shown[0], first)


def back(y: Traced, seen: Traced, first: Traced) -> Any:
    """Give what a function returned as the caller gets it."""
    if isinstance(y, torch.Tensor):
        if y.shape[: seen._lead] != seen.data.shape[: seen._lead]:
            no_wrapper()
        y = over(seen, y)
    return y if y is first else convert_like(y, first)


def with_kind(To: Traced, bare: bool = False) -> Callable[..., Any]:
    """Make the version of a `with_...` that is called in a graph."""

    def version(fn: Traced = None, **options: Traced) -> Any:
        def decorate(fn: Traced) -> Any:
            return lambda *args, **kwargs: wrapping(To, bare, options, fn, args, kwargs)

        return decorate if fn is None else decorate(fn)

    return version


VERSIONS: dict[str, Callable[..., Any]] = {
    name: lambda *args, _name=name, **options: call(_name, *args, **options) for name in ops.STRUCTURES
}
VERSIONS.update(
    {"astype": astype, "convert": convert, "convert_like": convert_like, "expand": expand, "torch.varlen": varlen}
)
VERSIONS["where"] = lambda mask, a, b: elementwise(torch.where, mask, a, b)
VERSIONS["lengths"] = lambda x: lengths(x).numpy()  # an array of NumPy, as ever
VERSIONS.update({f"with_{kind.lower()}": with_kind(KINDS[kind]) for kind in KINDS})
VERSIONS["with_array"] = with_kind(Ragged, bare=True)
