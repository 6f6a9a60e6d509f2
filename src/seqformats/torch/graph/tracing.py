"""What PyTorch's compiler takes for an encoding while it reads a model, and what it reads in place of our functions.

Dynamo follows Python; what it meets is a `VariableTracker`.  An encoding is its data, a tensor of the graph, and its
structure: the offsets, a tensor of the graph on the host, and the longest length, a symbol.  An encoding that leaves
the graph is built from these by `rebuilt`.  A public function becomes a node by `call`, or is read in another version
(`functions`); all other code of this library is skipped, so that a graph ends before it and goes on behind it.
"""

from __future__ import annotations

import ast
import inspect
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch._dynamo import trace_rules
from torch._dynamo.exc import Unsupported, unimplemented
from torch._dynamo.guards import GuardBuilder
from torch._dynamo.source import AttrSource
from torch._dynamo.variables import (
    ConstantVariable,
    ListVariable,
    NumpyNdarrayVariable,
    SymNodeVariable,
    TensorVariable,
    TupleVariable,
    UserDefinedClassVariable,
)
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builder import VariableBuilder, wrap_fx_proxy

import seqformats

from ... import registry
from ...formats import Chunks, Encoding, List, LoD, Pairs
from ...formats.structure import Structure
from ...wrapping import wrapper as wrapping_module
from ...wrapping.wrapper import Wrapper
from . import functions, ops

Translator = Any  # what follows the bytecode
Codegen = Any


def stop(what: str) -> None:
    """End the graph: a break, or the compiler's own error where there may be none."""
    unimplemented(
        gb_type="seqformats in a graph",
        context=what,
        explanation=f"seqformats cannot put this into a graph: {what}",
        hints=["Let the graph end here: torch.compile without fullgraph=True does."],
    )


@registry.provides("offsets_tensor")
def offsets_tensor(structure: Structure) -> torch.Tensor:
    """The offsets of a structure, as a graph takes them."""
    return torch.from_numpy(structure.offsets.copy())


def rebuilt(kind: str, side: str, data: torch.Tensor, offsets: torch.Tensor) -> Encoding:
    """The encoding that leaves a graph."""
    structure = ops.structure_over(offsets)
    lead = ops.KINDS[kind]._lead
    form = (data.shape[1], side) if kind == "Masked" else (data.shape[0],) if lead == 2 else ()
    if not data.is_contiguous():
        data = data.contiguous()
    ops.batch_over(kind, side, data, structure)
    return ops.KINDS[kind]._sealed(data, structure, *form)


def example(variable: VariableTracker) -> Any:
    """The tensor without items that stands for a variable."""
    return variable.as_proxy().node.meta["example_value"]


def inlined(tx: Translator, function: Callable[..., Any], *args: VariableTracker) -> VariableTracker:
    """What one of `functions` gives."""
    return tx.inline_user_function_return(VariableTracker.build(tx, function), list(args), {})


class StructureVariable(VariableTracker):
    """The structure of a batch."""

    _nonvar_fields = {"real", *VariableTracker._nonvar_fields}

    def __init__(
        self,
        real: Structure | None = None,
        host: Any = None,
        longest: Any = None,
        *,
        known: Any = None,
        filled: Any = None,  # data with a row an item
        width: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.real = real
        self.host = host
        self.longest = longest
        self.known = {} if known is None else known
        self.filled = filled
        self.width = width

    def items(self, tx: Translator) -> VariableTracker | None:
        """How many items all sequences have together, where that is known."""
        if self.filled is not None:
            return self.filled.call_method(tx, "size", [ConstantVariable.create(0)], {})
        if self.source is not None:
            return VariableBuilder(tx, AttrSource(self.source, "rows"))(self.real.rows)
        return None

    def offsets(self, tx: Translator) -> VariableTracker:
        """The offsets."""
        if self.host is None:
            self.host = VariableBuilder(tx, AttrSource(self.source, "tensor"))(self.real.tensor)
        return self.host

    def most(self, tx: Translator) -> VariableTracker:
        """The longest length."""
        if self.longest is None:
            if self.source is not None:
                self.longest = VariableBuilder(tx, AttrSource(self.source, "longest"))(self.real.longest)
            else:
                self.longest = inlined(tx, functions.greatest, self.offsets(tx))
        return self.longest


    def room(self, tx: Translator) -> VariableTracker:
        """A width that fits."""
        if self.longest is None and self.source is None:
            if self.width is None:
                self.width = inlined(tx, functions.wide_enough, self.offsets(tx))
            return self.width
        return self.most(tx)


class EncodingVariable(VariableTracker):
    """An encoding.  One that no graph can hold has no structure here, and stops whatever asks it for something."""

    _nonvar_fields = {"kind", "side", "identity", *VariableTracker._nonvar_fields}

    def __init__(
        self,
        kind: type[Any],
        data: Any = None,
        structure: Any = None,
        side: str = "right",
        *,
        identity: object = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.identity = object() if identity is None else identity
        self.kind = kind
        self.data = data
        self.structure = structure
        self.side = side
        if structure is not None and kind._lead == 1 and structure.filled is None:
            structure.filled = data

    def python_type(self) -> type:
        return self.kind

    def get_real_python_backed_value(self) -> object:
        return self.identity  # what `is` compares

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.kind.__name__})"

    def var_getattr(self, tx: Translator, name: str) -> VariableTracker:
        if self.structure is None:
            stop(f"{self.kind.__name__}.{name}")
        if name == "data":
            return self.data
        if name == "side" and self.kind.__name__ == "Masked":
            return ConstantVariable.create(self.side)
        if name == "dtype":
            return self.data.var_getattr(tx, "dtype")
        if name == "max_length":
            return self.structure.most(tx)
        if name == "device":
            device = example(self.data).device
            return ConstantVariable.create("cpu" if device.type == "cpu" else str(device))
        by_steps = self.kind._by_steps
        if name in ("lengths", "offsets") and not by_steps and (name == "lengths" or self.kind.__name__ == "Ragged"):
            return self.numbers(tx, name, functions.lengths if name == "lengths" else functions.offsets)
        if by_steps and name in ("lengths", "indices", "size_at_t"):
            found = {"lengths": functions.sorted_lengths, "indices": functions.indices, "size_at_t": functions.size_at_t}
            return inlined(tx, found[name], self).call_method(tx, "numpy", [], {})
        if name == "mask" and self.kind.__name__ == "Masked":
            return inlined(tx, functions.mask, self)
        if name in ("item_shape", "rows"):
            return inlined(tx, getattr(functions, name), self)
        stop(f"{self.kind.__name__}.{name}")
        raise AssertionError

    def numbers(self, tx: Translator, name: str, function: Callable[..., Any]) -> VariableTracker:
        """Lengths or offsets as an array of NumPy, of which it is remembered whose they are."""
        known = self.structure.known
        if name not in known:
            tensor = inlined(tx, function, self)
            array = tensor.call_method(tx, "numpy", [], {})
            for variable in (tensor, array):
                remembered(tx)[name, variable.as_proxy().node] = self.structure
            known[name] = array
        return known[name]

    def call_obj_hasattr(self, tx: Translator, name: str) -> VariableTracker:  # noqa: ARG002
        return ConstantVariable.create(hasattr(self.kind, name) or name in ("data", "lengths"))

    def call_method(self, tx: Translator, name: str, args: Sequence[Any], kwargs: Any) -> VariableTracker:
        if name == "__len__" and self.structure is not None:
            return inlined(tx, functions.count, self)
        stop(f"{self.kind.__name__}.{name}(...)")
        raise AssertionError

    def sq_length(self, tx: Translator) -> VariableTracker:
        return self.call_method(tx, "__len__", [], {})

    mp_length = sq_length

    def reconstruct(self, codegen: Codegen) -> None:
        if self.source is not None:
            codegen(self.source)
            return
        codegen.add_push_null(lambda: codegen.load_import_from(__name__, "rebuilt"))
        for part in (self.kind.__name__, self.side):
            codegen(ConstantVariable.create(part))
        codegen(self.data)
        codegen(self.structure.host)
        codegen.call_function(4, False)


def remembered(tx: Translator) -> dict[Any, StructureVariable]:
    """Whose lengths the arrays in this graph are."""
    output = tx.output
    if not hasattr(output, "_seqformats"):
        output._seqformats = {}
    found: dict[Any, StructureVariable] = output._seqformats
    return found


# What gives the numbers that it is given
_SAME_NUMBERS = ("as_tensor", "from_numpy", "asarray", "detach", "numpy", "_to_tensor", "view_as", "clone", "contiguous")


def known_structure(tx: Translator, name: str, variable: VariableTracker) -> StructureVariable | None:
    """The structure that these lengths or offsets come from, if they come from one."""
    node = variable.as_proxy().node
    found = remembered(tx)
    for _ in range(8):
        if (name, node) in found:
            return found[name, node]
        target = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
        if target not in _SAME_NUMBERS or not node.all_input_nodes or len(node.kwargs):
            return None
        node = node.all_input_nodes[0]
    return None


def wrap_encoding(builder: VariableBuilder, value: Encoding) -> VariableTracker:
    """An encoding that comes into a graph."""
    builder.install_guards(GuardBuilder.TYPE_MATCH)
    source = builder.get_source()
    kind = type(value)
    data = getattr(value, "data", None)
    graphed = kind in functions.GRAPHED and isinstance(data, torch.Tensor)
    side = "right"
    if graphed and kind.__name__ == "Masked":
        side = VariableBuilder(builder.tx, AttrSource(source, "side"))(value.side).as_python_constant()
    where = AttrSource(source, "_structure")
    if graphed and kind._by_steps:
        stable = VariableBuilder(builder.tx, AttrSource(where, "stable"))(value._structure.stable)
        graphed = stable.as_python_constant() is True
    if not graphed:
        return EncodingVariable(kind, identity=value, source=source)
    data = VariableBuilder(builder.tx, AttrSource(source, "data"))(data)
    structure = StructureVariable(value._structure, source=where)
    return EncodingVariable(kind, data, structure, side, identity=value, source=source)


class KindVariable(UserDefinedClassVariable):
    """The class of an encoding, which may be called in a graph."""

    def call_function(self, tx: Translator, args: Sequence[Any], kwargs: Any) -> VariableTracker:
        name = self.value.__name__
        if name not in ("Ragged", "Masked"):
            stop(f"{name}(...)")
        bound = inspect.signature(lambda data, lengths, side=None: None).bind(*args, **kwargs)  # noqa: ARG005
        data, lengths = bound.arguments["data"], bound.arguments["lengths"]
        side = bound.arguments.get("side")
        return made(tx, self.value, data, lengths, "lengths", "right" if side is None else side.as_python_constant())

    def call_method(self, tx: Translator, name: str, args: Sequence[Any], kwargs: Any) -> VariableTracker:
        if self.value.__name__ == "Ragged" and name == "from_offsets" and len(args) == 2 and not kwargs:
            return made(tx, self.value, args[0], args[1], "offsets", "right")
        return super().call_method(tx, name, args, kwargs)


def made(tx: Translator, kind: type, data: Any, numbers: Any, name: str, side: str) -> VariableTracker:
    """An encoding that is built in a graph."""
    if not isinstance(data, TensorVariable) or isinstance(data, NumpyNdarrayVariable):
        stop(f"{kind.__name__} of {data}")
    if isinstance(numbers, (ListVariable, TupleVariable)):
        numbers = inlined(tx, functions.as_numbers, numbers)
    if not isinstance(numbers, TensorVariable):
        stop(f"{kind.__name__} with lengths {numbers}")
    structure = known_structure(tx, name, numbers)
    if structure is None:
        if isinstance(numbers, NumpyNdarrayVariable):
            numbers = inlined(tx, functions.as_numbers, numbers)
        if name == "offsets":
            numbers = inlined(tx, functions.lengths_of_offsets, numbers)
        host = inlined(tx, functions.offsets_of if kind.__name__ == "Ragged" else functions.offsets_alone, numbers, data)
        structure = StructureVariable(host=host)
    return EncodingVariable(kind, data, structure, side)


class FunctionVariable(VariableTracker):
    """One of the functions that are made here, by its name."""

    _nonvar_fields = {"function", *VariableTracker._nonvar_fields}

    def __init__(self, function: Callable[..., Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.function = function

    def as_python_constant(self) -> Any:
        return self.function

    def python_type(self) -> type:
        return type(self.function)

    def call_function(self, tx: Translator, args: Sequence[Any], kwargs: Any) -> VariableTracker:
        return _MADE[self.function](tx, *args, **kwargs)


def _over(tx: Translator, x: EncodingVariable, data: VariableTracker) -> VariableTracker:  # noqa: ARG001
    return EncodingVariable(x.kind, data, x.structure, x.side)


def _offsets(tx: Translator, x: EncodingVariable) -> VariableTracker:
    return x.structure.offsets(tx)


def _longest(tx: Translator, x: EncodingVariable) -> VariableTracker:
    return x.structure.most(tx)


def _room(tx: Translator, x: EncodingVariable) -> VariableTracker:
    return x.structure.room(tx)


def _same(tx: Translator, x: EncodingVariable, y: EncodingVariable) -> VariableTracker:
    one, two = x.structure.offsets(tx).as_proxy().node, y.structure.offsets(tx).as_proxy().node
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
            if x.structure is None:
                stop(f"{self.name} of a {x.kind.__name__}, or of arrays of another library")
            self.data.append(x.data)
            place = len(self.data) - 1
            return "batch", x.kind.__name__, x.side, place, self.host(x.structure), self.items(x)
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
    encoded = Encoded(tx, called)
    given = [encoded.argument(x) for x in bound.args]
    named = [(key, encoded.argument(x)) for key, x in bound.kwargs.items()]
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
        ast.literal_eval(text)
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


def register() -> None:
    """Tell Dynamo, once."""
    trace_rules.add("seqformats")
    here = (functions.__file__, wrapping_module.__file__, __file__)
    trace_rules.BUILTIN_INLINE_WHEN_CALLED.update([os.path.abspath(file) for file in here])
    trace_rules.clear_lru_cache()
    types = VariableBuilder._type_dispatch()
    for kind in (*functions.GRAPHED, List, LoD, Chunks):
        types[kind] = wrap_encoding
    ids = VariableBuilder._id_dispatch()
    for kind in functions.GRAPHED:
        ids[id(kind)] = lambda builder, value: KindVariable(
            value, source=builder.source, **builder.install_guards(GuardBuilder.CLASS_MATCH)
        )
    for function in _MADE:
        ids[id(function)] = lambda builder, value: FunctionVariable(value, source=builder.source)
    versions = {
        "convert": functions.convert,
        "convert_like": functions.convert_like,
        "expand": functions.expand,
        "lengths": functions.number_of_each,
        "with_array": functions.with_array,
        "with_masked": functions.with_masked,
        "with_packed": functions.with_packed,
        "with_padded": functions.with_padded,
        "with_ragged": functions.with_ragged,
    }
    for name in ops.STRUCTURES:
        versions.setdefault(name, node(name))
    for name, version in versions.items():
        torch.compiler.substitute_in_graph(getattr(seqformats, name), skip_signature_check=True)(version)
    Wrapper.call._torchdynamo_inline = functions.call_wrapped
