"""The nodes that a graph has of this library, and the functions of `functions` that are made here."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch._dynamo import trace_rules
from torch._dynamo.eval_frame import skip_code
from torch._dynamo.exc import Unsupported
from torch._dynamo.guards import GuardBuilder
from torch._dynamo.variables import (
    ConstantVariable,
    ListVariable,
    NumpyNdarrayVariable,
    SymNodeVariable,
    TensorVariable,
    TupleVariable,
)
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builder import VariableBuilder, wrap_fx_proxy

import seqformats

from ...arrays import library_of
from ...formats import Chunks, List, LoD
from ...wrapping import wrapper as wrapping_module
from ...wrapping.wrapper import Wrapper
from .. import masks
from ..attention import varlen
from . import functions, ops
from .tracing import (
    EncodingVariable,
    KindVariable,
    StructureVariable,
    Translator,
    example,
    of,
    stop,
    wrap_array,
    wrap_encoding,
)


class FunctionVariable(VariableTracker):  # type: ignore[misc]  # of a library without types
    """One of the functions that are made here, by its name."""

    _nonvar_fields: ClassVar[set[str]] = {"function", *VariableTracker._nonvar_fields}

    def __init__(self, function: Callable[..., Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.function = function

    def as_python_constant(self) -> Any:
        """The function itself."""
        return self.function

    def python_type(self) -> type:
        """What the model takes it for."""
        return type(self.function)

    def call_function(self, tx: Translator, args: Sequence[Any], kwargs: Any) -> VariableTracker:
        """A call."""
        return _MADE[self.function](tx, *args, **kwargs)


def _over(tx: Translator, x: EncodingVariable, data: VariableTracker) -> VariableTracker:  # noqa: ARG001
    return EncodingVariable(x.kind, data, of(x), x.side)


def _offsets(tx: Translator, x: EncodingVariable) -> VariableTracker:
    return of(x).offsets(tx)


def _longest(tx: Translator, x: EncodingVariable) -> VariableTracker:
    return of(x).most(tx)


def _room(tx: Translator, x: EncodingVariable) -> VariableTracker:
    return of(x).room(tx)


def _same(tx: Translator, x: EncodingVariable, y: EncodingVariable) -> VariableTracker:
    one, two = of(x).offsets(tx).as_proxy().node, of(y).offsets(tx).as_proxy().node
    return ConstantVariable.create(one is two)


def _give_up(tx: Translator, why: VariableTracker) -> VariableTracker:  # noqa: ARG001
    stop(why.as_python_constant())
    raise AssertionError


class Encoded:
    """The arguments of a call, as a text and the tensors and sizes that it speaks of."""

    def __init__(self, tx: Translator, name: str) -> None:
        self.tx = tx
        self.name = name
        self.data: list[Any] = []
        self.hosts: list[Any] = []
        self.structures: list[StructureVariable] = []
        self.sizes: list[Any] = []

    def argument(self, x: VariableTracker) -> ops.Given:
        """One argument."""
        x = x.realize()
        if isinstance(x, EncodingVariable):
            structure = of(x)
            self.data.append(self.summed(x.data))
            place = len(self.data) - 1
            return "batch", x.kind.__name__, x.side, place, self.host(structure), self.items(x)
        if isinstance(x, (TensorVariable, NumpyNdarrayVariable)):
            self.data.append(x)
            return "numpy" if isinstance(x, NumpyNdarrayVariable) else "array", len(self.data) - 1
        if isinstance(x, SymNodeVariable):
            self.sizes.append(x)
            return "size", len(self.sizes) - 1
        if isinstance(x, (ListVariable, TupleVariable)):
            items = tuple([self.argument(part) for part in x.items])
            return "list" if isinstance(x, ListVariable) else "tuple", items
        try:
            constant = x.as_python_constant()
        except NotImplementedError:
            constant = x
        if isinstance(constant, torch.dtype):
            return "dtype", str(constant).removeprefix("torch.")
        if isinstance(constant, float):
            return "float", repr(constant)
        if constant is None or type(constant) in (bool, int, str):
            return "is", constant
        if isinstance(constant, type) and constant.__name__ in ops.KINDS:
            return "kind", constant.__name__
        stop(f"{self.name} with an argument {constant}")
        raise AssertionError

    def summed(self, data: VariableTracker) -> VariableTracker:
        """Data as it is to be added up: in float32 where an autocast region has half precision so."""
        seen = example(data)
        half = seen.dtype in (torch.float16, torch.bfloat16) and self.name in ops.SUMMED
        if half and library_of(seen).autocasts(seen):
            return data.call_method(self.tx, "float", [], {})
        return data

    def size(self, x: VariableTracker) -> ops.Given:
        """A size, even one that is known by now: a trial has its own."""
        self.sizes.append(x)
        return "size", len(self.sizes) - 1

    def items(self, x: EncodingVariable) -> int:
        """The place of the number of its items among the sizes, where a result has as many rows; -1 elsewhere."""
        found = x.structure.items(self.tx) if self.name == "convert" and x.kind._lead == 2 else None
        if found is None:
            return -1
        self.sizes.append(found)
        return len(self.sizes) - 1

    def host(self, structure: StructureVariable) -> int:
        """The place of the offsets among those of all batches."""
        offsets = structure.offsets(self.tx)
        for k, known in enumerate(self.hosts):
            if known.as_proxy().node is offsets.as_proxy().node:
                return k
        self.hosts.append(offsets)
        self.structures.append(structure)
        return len(self.hosts) - 1

    def placed(self, given: Any) -> Any:
        """The same with the offsets behind the data."""
        if given[0] == "batch":
            return (*given[:4], given[4] + len(self.data), given[5])
        if given[0] in ("list", "tuple"):
            return given[0], tuple([self.placed(part) for part in given[1]])
        return given


def _call(tx: Translator, name: VariableTracker, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    called = name.as_python_constant()
    try:
        bound = inspect.signature(ops.function(called)).bind(*args, **kwargs)
    except TypeError as error:
        stop(f"{called}: {error}")
    kind = bound.arguments["kind"].as_python_constant() if called == "reduce" else None
    encoded = Encoded(tx, called if kind is None else "reduce_mean" if kind == "average" else f"reduce_{kind}")
    given = [encoded.argument(x) for x in bound.args]
    named = [(key, encoded.size(x) if key == "width" else encoded.argument(x)) for key, x in bound.kwargs.items()]
    text = repr(
        (
            called,
            tuple([encoded.placed(x) for x in given]),
            tuple([(key, encoded.placed(x)) for key, x in named]),
            len(encoded.data),
        )
    )
    if not encoded.hosts:
        stop(f"{called} of no Ragged, Masked, Padded or Packed of tensors")
    tensors = [*encoded.data, *encoded.hosts]
    try:
        found = ops.result_of(text, ops.metas_of(ops.parsed(text), [example(x) for x in encoded.data]))
    except Unsupported:
        raise
    except Exception as error:  # what the function says to a trial; the caller gets the same outside of the graph
        stop(f"{called}: {error}")
        raise AssertionError from None
    proxy = tx.output.create_proxy(
        "call_function",
        torch.ops.seqformats.call.default,
        ([x.as_proxy() for x in tensors], [x.as_proxy() for x in encoded.sizes], text),
        {},
    )
    results = wrap_fx_proxy(tx, proxy).unpack_var_sequence(tx)
    own = ops.model(ops.parsed(text))
    structure = encoded.structures[own[4] - len(encoded.data)] if own is not None and own[0] == "batch" else None
    return result(found.tree, results, structure)


def result(tree: Any, results: list[Any], structure: StructureVariable | None) -> VariableTracker:
    """What a call gives, as the model sees it."""
    if tree[0] == "batch":
        _, kind, side, leaf, offsets = tree
        own = structure if offsets < 0 else StructureVariable(host=results[offsets])
        return EncodingVariable(ops.KINDS[kind], results[leaf], own, side)
    if tree[0] == "array":
        return results[tree[1]]
    parts = [result(part, results, structure) for part in tree[2]]
    if tree[1] != "tuple":
        stop(f"a result of type {tree[1]}")
    return TupleVariable(parts)


_MADE: dict[Callable[..., Any], Callable[..., VariableTracker]] = {
    functions.call: _call,
    functions.over: _over,
    functions.offsets: _offsets,
    functions.longest: _longest,
    functions.room: _room,
    functions.same_structure: _same,
    functions.give_up: _give_up,
}


# --- what the compiler is told ----------------------------------------------------------------------------------------


def node(name: str) -> Callable[..., Any]:
    """What is read in place of a public function that becomes a node."""

    def read(*args: Any, **options: Any) -> Any:
        return functions.call(name, *args, **options)

    return read


def refused(name: str) -> Callable[..., Any]:
    """Make what stands in place of a public function that no graph holds."""
    why = f"{name}; conversions, reductions, attention, losses and what docs/models.md lists go into one"

    def read(*args: Any, **options: Any) -> Any:  # noqa: ARG001
        functions.give_up(why)

    return read


def register() -> None:
    """Tell Dynamo, once."""
    library_of(torch.empty(0))  # what leaves a graph is built without a look at its items, which would make it known
    trace_rules.add("seqformats")
    here = (functions.__file__, wrapping_module.__file__, masks.__file__, __file__)
    trace_rules.BUILTIN_INLINE_WHEN_CALLED.update([str(Path(str(file)).absolute()) for file in here])
    trace_rules.clear_lru_cache()
    types = VariableBuilder._type_dispatch()
    types[np.ndarray] = wrap_array
    for kind in (*functions.GRAPHED, List, LoD, Chunks):
        types[kind] = wrap_encoding
        skip_code(kind.__init__.__code__)  # a dataclass makes it of a text, so it is in no file that is skipped
    ids = VariableBuilder._id_dispatch()
    for kind in functions.GRAPHED:
        ids[id(kind)] = lambda builder, value: KindVariable(
            value, source=builder.source, **builder.install_guards(GuardBuilder.CLASS_MATCH)
        )
    for function in _MADE:
        ids[id(function)] = lambda builder, value: FunctionVariable(value, source=builder.source)
    versions: dict[str, Callable[..., Any]] = {
        "block_mask": functions.block_mask,
        "convert": functions.convert,
        "convert_like": functions.convert_like,
        "cu_seqlens": functions.cu_seqlens,
        "expand": functions.expand,
        "lengths": functions.number_of_each,
        "mask": functions.padding_mask,
        "position_ids": functions.position_ids,
        "recurrence": functions.recurrence,
        "rl.policy_loss": functions.policy_loss,
        "rl.ratios": functions.ratios,
        "rl.returns": functions.returns,
        "segment_ids": functions.segment_ids,
        "with_array": functions.with_array,
        "with_masked": functions.with_masked,
        "with_packed": functions.with_packed,
        "with_padded": functions.with_padded,
        "with_ragged": functions.with_ragged,
    }
    for name in ops.STRUCTURES:
        versions.setdefault(name, node(name))
    for name in seqformats.__all__:
        if inspect.isfunction(getattr(seqformats, name)):
            versions.setdefault(name, refused(name))
    for name, version in versions.items():
        torch.compiler.substitute_in_graph(ops.function(name), skip_signature_check=True)(version)
    torch.compiler.substitute_in_graph(varlen, skip_signature_check=True)(functions.varlen)
    Wrapper.call._torchdynamo_inline = functions.call_wrapped  # type: ignore[attr-defined]  # what is read in its place
