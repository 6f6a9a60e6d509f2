"""Functions that PyTorch's compiler reads in place of those of this library, while it makes a graph of a model.

They are written for that reader: encodings are what it takes for one (see `batches`), sizes may be symbols, and what
cannot be said in a graph gives up, so that the graph ends there and goes on behind it.  A graph that ends within a
wrapped function goes on here, outside of any graph, so each works there as well.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import seqformats

from ...formats import Encoding, Masked, Packed, Padded, Ragged
from ...formats.arithmetic import Arithmetic, map_one, map_two
from ...wrapping.flatten import call_flat
from ...wrapping.wrapper import Wrapper, unknown_option
from ..attention import VARLEN_ARGUMENTS
from ..items import _functions as known_functions
from . import ops
from .batches import GRAPHED, Traced, lengths, make_batch, make_structure, refuse, size, with_data

no_call = refuse("a call of which two trials on small batches have not told what it gives, or that is an error")
no_option = refuse("an option that a graph cannot follow; see docs/models.md")
no_operand = refuse("a function of other things than numbers, batches and arrays no larger than an item, item by item")
no_side = refuse("x @ w, since the compiler does not tell on which side a matrix stands; torch.matmul(x, w) tells")
no_list = refuse("sf.with_flatten, whose function takes a list; that of sf.with_array takes the rows")
no_wrapper = refuse("a wrapper with backprop, of lists or trees, of sequences of other lengths, or that changes shapes")


@torch.compiler.assume_constant_result
def plan_call(*call: Traced) -> Any:
    """Plan a call: its text, kinds, sides and structures of the results, the tuple of several, what it is asked.

    No text where there is no such call: what the function says to a trial it says to the caller outside of the graph.
    """
    try:
        this = ops.parsed(json.dumps(call))
        return json.dumps(call), [leaf[:3] for leaf in this.parts], this.several, this.measures
    except Exception:
        return "", (), "", ()


def call(name: str, *args: Traced, **options: Traced) -> Any:
    """Put a call of the public function of this name into the graph: literals, and what tensors and sizes they mean."""
    tensors: list[Any] = []
    leaves: list[Any] = []
    batches: list[Any] = []  # the first of each structure
    sizes: list[Any] = []

    def describe_argument(x: Traced, key: Traced = None) -> Any:  # `key` is its place or name
        each = key in ops.PER_SEQUENCE_ARGUMENTS.get(name, ())
        if isinstance(x, Encoding):
            lengths(x)  # or the graph ends
            hosts = [k for k, y in enumerate(batches) if y._structure is x._structure]
            if not hosts:
                batches.append(x)
            kind, side, host = type(x).__name__, x.side if type(x) is Masked else "right", [*hosts, len(batches) - 1][0]
            array, lead = x.data, ops.LEADS[kind]
        elif isinstance(x, (torch.Tensor, np.ndarray)) or (each and isinstance(x, (list, tuple))):
            kind, side, host = "numpy" if isinstance(x, np.ndarray) else "array", "right", 0
            array = torch.as_tensor(x)
            lead = ("n",) if each and array.dim() > 0 else ()
        elif key == "width":
            sizes.append(x)  # even of one that is known by now, since a trial has its own
            return "size", len(sizes) - 1
        elif isinstance(x, (list, tuple)):
            return "list" if isinstance(x, list) else "tuple", [describe_argument(part) for part in x]
        elif isinstance(x, (type, torch.dtype)):
            return "is", x.__name__ if isinstance(x, type) else ops.name_of(x)
        else:
            return "is", operator.index(x) if isinstance(x, int) and not isinstance(x, bool) else x  # a constant
        tensors.append(array)
        axes = [*lead, *[operator.index(size) for size in array.shape[len(lead) :]]]
        asks = array.requires_grad and torch.is_grad_enabled()
        leaves.append((kind, side, host, ops.name_of(array.dtype), axes, asks))
        return "tensor", len(tensors) - 1

    shown = [describe_argument(x, k) for k, x in enumerate(args)]
    order = dict.fromkeys((*ops.PARAMETERS[name], *options))
    named = {key: describe_argument(options[key], key) for key in order if key in options}
    if not batches:
        no_call()
    cast = torch.is_autocast_enabled(tensors[0].device.type)
    text, parts, several, asked = plan_call(name, shown, named, leaves, cast)
    if text == "":
        no_call()
    sizes = sizes + [size(batches[host], measure) for measure, host in asked]
    outputs = torch.ops.seqformats.call.default(tensors + [lengths(x) for x in batches], sizes, text)
    structures = [x._structure for x in batches] + [make_structure(numbers) for numbers in outputs[len(parts) :]]
    results = []
    for y, (kind, side, host) in zip(outputs, parts):  # noqa: B905  not followed
        results.append(make_batch(ops.KIND_BY_NAME[kind], y, structures[host], side) if kind else y)
    if not several:
        return results[0]
    return tuple(results) if several == "tuple" else ops.TUPLES[several](*results)


def convert(x: Traced, To: Traced, *, copy: bool = False, **options: Traced) -> Any:
    """`seqformats.convert`."""
    lengths(x)  # or the graph ends
    if To not in GRAPHED or copy or "truncate" in options or "level" in options:
        no_option()
    if isinstance(x, To) and not options:
        return x
    if (To is Masked or To is Padded) and options.get("width") is None:
        # another side, fill or multiple of the rectangle that is there, or a new one
        options = {**options, "width": size(x, "width" if isinstance(x, To) else "room")}
    return call("convert", x, To, **options)


def convert_like(y: Traced, x: Traced) -> Any:
    """`seqformats.convert_like`; where the lengths of both may differ, those of `y` are kept, as outside."""
    lengths(x), lengths(y)
    if x._lead == 1:
        return convert(y, type(x))
    options = {"fill": 0, "side": x.side} if type(x) is Masked else {"fill": 0}  # or what is in the padding could stay
    width = size(x, "width")
    width = width if y._structure is x._structure else torch.sym_max(width, size(y, "room"))
    return call("convert", y, type(x), width=width, **options)


def index(x: Traced, where: Traced) -> Any:
    """``x[where]``."""
    if isinstance(where, slice):
        where = torch.arange(lengths(x).shape[0])[where]
    return call("select", x, [where] if isinstance(where, int) else where)


def astype(x: Traced, dtype: Traced) -> Any:
    """`seqformats.astype`, which casts padding too."""
    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    lengths(x)  # or the graph ends
    if not isinstance(found, torch.dtype):
        no_option()
    return x if found is x.data.dtype else with_data(x, x.data.to(found))


def varlen(q: Traced, k: Traced = None, *, names: str = "flash_attn", max_as: str = "int") -> dict[str, Any]:
    """`seqformats.torch.varlen`."""
    keys = q if k is None else k
    if names not in ("flash_attn", "torch", "hf") or max_as != "int" or lengths(q).shape != lengths(keys).shape:
        no_option()
    cumulated = call("cu_seqlens", q), call("cu_seqlens", keys).to(q.data.device)
    return dict(zip(VARLEN_ARGUMENTS[names], (*cumulated, size(q, "longest"), size(keys, "longest"))))  # noqa: B905  not followed


def elementwise(operate: Callable[..., Any], *operands: Traced) -> Any:
    """A function of single items, of batches, numbers and arrays; rows alone, never what is padding."""
    batches = [x for x in operands if isinstance(x, Encoding)]
    [lengths(x) for x in batches]  # or the graph ends
    first, axes = batches[0], max([x.data.dim() - x._lead for x in batches])
    plain = first._lead == 1 and all(type(x) is type(first) and x._structure is first._structure for x in batches)
    To = type(first) if plain else Ragged
    rows = convert(first, To)
    arrays = []
    for x in operands:
        if isinstance(x, Encoding):
            if x._structure is not first._structure:  # which checks that the lengths are the same
                there = torch.ones(rows.data.shape[0], dtype=torch.bool, device=rows.data.device)
                x = call("where", with_data(rows, there), x, x)
            data = convert(x, To).data
            x = data.reshape(data.shape[0], *[1] * (axes + 1 - data.dim()), *data.shape[1:])
        elif not isinstance(x, (bool, int, float, complex)) and not (isinstance(x, torch.Tensor) and x.dim() <= axes):
            no_operand()
        arrays.append(x)
    return convert_like(with_data(rows, operate(*arrays)), first)


def product(x: Traced, y: Traced) -> Any:
    """``x @ y``, of a batch and a matrix or vector."""
    batch, matrix = (x, y) if isinstance(x, Encoding) else (y, x)
    item = batch.data.shape[batch._lead :]
    if not isinstance(matrix, torch.Tensor) or not 1 <= matrix.dim() <= 2 or len(item) == 0:
        no_operand()
    if len(item) == 1 and batch is y and matrix.dim() == 2:
        matrix = matrix.T  # W v is v W.T
    right = batch is x or len(item) == 1
    if matrix.shape[0 if right else -1] != item[-1 if right else -2]:
        no_operand()
    return elementwise(lambda data: data @ matrix if right else matrix @ data, batch)


@torch.compiler.assume_constant_result
def role_of(function: Callable[..., Any]) -> str | None:
    """Ask: is it a function of single items, a product, an operator of a product, or none of these?"""
    return "operator" if function in (torch.Tensor.matmul, torch.Tensor.__matmul__) else known_functions().get(function)


def torch_function(_: Traced, function: Traced, types: Traced, args: Traced = (), options: Traced = None) -> Any:  # noqa: ARG001
    """A function of PyTorch with batches among its arguments."""
    role = role_of(function)
    if options or role is None:
        no_operand()
    if role == "item":
        return elementwise(function, *args)
    if role == "operator" and [x for x in args if isinstance(x, torch.Tensor) and x.dim() > 1]:
        no_side()
    return product(*args)


def call_wrapped(wrapper: Traced, fn: Callable[..., Any], args: Traced, kwargs: Traced) -> Any:
    """Call a wrapped function: convert, call, convert back; see `wrapping.wrapper`."""
    To, bare = wrapper.To, wrapper.rows
    given = [x for x in (*args, *kwargs.values()) if isinstance(x, Encoding)]
    if not given and bare and [x for x in args if isinstance(x, torch.Tensor)]:
        return fn(*args, **kwargs)
    if not given or [x for x in args if isinstance(x, (list, dict))] or wrapper.backprop:
        no_wrapper()
    first = given[0]
    for x in given:
        lengths(x)  # or the graph ends
        if (To is Padded or To is Packed) and x._structure is not first._structure:
            no_wrapper()
    alone = bare and len(given) == 1 and first._lead == 1  # the rows of a Packed in its own order
    shown = [x if alone else convert(x, To, **wrapper.options) for x in given]
    rest = iter([x.data if bare else x for x in shown])
    placed = [next(rest) if isinstance(x, Encoding) else x for x in args]
    y = fn(*placed, **{name: next(rest) if isinstance(x, Encoding) else x for name, x in kwargs.items()})
    z = y[0] if isinstance(y, tuple) else y
    if isinstance(z, torch.Tensor):
        if z.shape[: shown[0]._lead] != shown[0].data.shape[: shown[0]._lead]:
            no_wrapper()
        z = with_data(shown[0], z)
    z = z if z is first else convert_like(z, first)
    return (z, *y[1:]) if isinstance(y, tuple) else z


FUNCTION_VERSIONS: dict[Any, Callable[..., Any]] = {
    public: lambda *args, _name=name, **options: call(_name, *args, **options) for name, public in ops.FUNCTIONS.items()
}
FUNCTION_VERSIONS[vars(Masked)["mask"].fget] = FUNCTION_VERSIONS[seqformats.mask]
FUNCTION_VERSIONS |= {seqformats.convert: convert, seqformats.convert_like: convert_like, Encoding.__getitem__: index}
FUNCTION_VERSIONS |= {seqformats.astype: astype, Arithmetic.astype: astype, seqformats.torch.varlen: varlen}
FUNCTION_VERSIONS |= {seqformats.lengths: lambda x: lengths(x).clone().numpy()}  # an array of NumPy, as ever
FUNCTION_VERSIONS |= {map_one: elementwise, map_two: elementwise}
FUNCTION_VERSIONS[Arithmetic.__torch_function__.__func__] = torch_function  # type: ignore[attr-defined]
FUNCTION_VERSIONS |= {Wrapper.call: call_wrapped, call_flat: lambda *_: no_list()}
FUNCTION_VERSIONS[unknown_option] = lambda *_: no_option()
