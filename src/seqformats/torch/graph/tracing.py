"""What PyTorch's compiler takes for an encoding while it reads a model, and what it reads in place of our functions.

Dynamo follows Python; what it meets is a `VariableTracker`.  An encoding is its data, a tensor of the graph, and its
structure: the offsets, a tensor of the graph on the host, and the longest length, a symbol.  An encoding that leaves
the graph is built from these by `rebuilt`.  A public function becomes a node by `call`, or is read in another version
(`functions`); all other code of this library is skipped, so that a graph ends before it and goes on behind it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch._dynamo.exc import unimplemented
from torch._dynamo.guards import GuardBuilder
from torch._dynamo.source import AttrSource
from torch._dynamo.variables import (
    ConstantVariable,
    ListVariable,
    NumpyNdarrayVariable,
    TensorVariable,
    TupleVariable,
    UserDefinedClassVariable,
)
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builder import VariableBuilder

from ... import registry
from ...formats import Encoding
from ...formats.structure import Structure
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


def rebuilt(kind: str, side: str, data: torch.Tensor, given: Structure | torch.Tensor) -> Encoding:
    """The encoding that leaves a graph, over the structure of an argument, or one with these offsets."""
    structure = given if isinstance(given, Structure) else ops.structure_over(given)
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


class StructureVariable(VariableTracker):  # type: ignore[misc]  # of a library without types
    """The structure of a batch."""

    _nonvar_fields: ClassVar[set[str]] = {"real", *VariableTracker._nonvar_fields}

    def __init__(
        self,
        real: Any = None,
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


class EncodingVariable(VariableTracker):  # type: ignore[misc]  # of a library without types
    """An encoding.  One that no graph can hold has no structure here, and stops whatever asks it for something."""

    _nonvar_fields: ClassVar[set[str]] = {"kind", "side", "identity", *VariableTracker._nonvar_fields}

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
        """What the model takes it for."""
        return self.kind

    def get_real_python_backed_value(self) -> object:
        """What `is` compares."""
        return self.identity  # what `is` compares

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.kind.__name__})"

    def var_getattr(self, tx: Translator, name: str) -> VariableTracker:
        """An attribute."""
        if self.structure is None:
            stop(f"{self.kind.__name__}.{name}")
        if name in ("_lead", "_by_steps"):
            return ConstantVariable.create(getattr(self.kind, name))
        if name == "data":
            return self.data
        if name == "side" and self.kind.__name__ == "Masked":
            return ConstantVariable.create(self.side)
        if name == "dtype":
            return ConstantVariable.create(example(self.data).dtype)
        if name == "max_length":
            return self.structure.most(tx)
        if name == "device":
            device = example(self.data).device
            return ConstantVariable.create("cpu" if device.type == "cpu" else str(device))
        by_steps = self.kind._by_steps
        if name in ("lengths", "offsets") and not by_steps and (name == "lengths" or self.kind.__name__ == "Ragged"):
            return self.numbers(tx, name, functions.lengths if name == "lengths" else functions.ends)
        if by_steps and name in ("lengths", "indices", "size_at_t"):
            found = {
                "lengths": functions.sorted_lengths,
                "indices": functions.indices,
                "size_at_t": functions.size_at_t,
            }
            return inlined(tx, found[name], self).call_method(tx, "numpy", [], {})
        if name == "mask" and self.kind.__name__ == "Masked":
            return inlined(tx, functions.mask, self)
        if name in ("item_shape", "rows"):
            return inlined(tx, getattr(functions, name), self)
        stop(f"{self.kind.__name__}.{name}")
        raise AssertionError

    tp_getattro_impl = var_getattr  # its name from 2.14 on

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

    def call_obj_hasattr(self, tx: Translator, name: str) -> VariableTracker:
        """Is there such an attribute?"""
        return ConstantVariable.create(hasattr(self.kind, name) or name in ("data", "lengths"))

    def call_method(self, tx: Translator, name: str, args: Sequence[Any], kwargs: Any) -> VariableTracker:
        """A method."""
        if name == "__len__" and self.structure is not None:
            return inlined(tx, functions.count, self)
        stop(f"{self.kind.__name__}.{name}(...)")
        raise AssertionError

    def sq_length(self, tx: Translator) -> VariableTracker:
        """How many sequences."""
        return self.call_method(tx, "__len__", [], {})

    mp_length = sq_length
    sq_length_impl = mp_length_impl = sq_length  # the same, from 2.14 on

    def reconstruct(self, codegen: Codegen) -> None:
        """How it is built where it leaves the graph."""
        if self.source is not None:
            codegen(self.source)
            return
        codegen.add_push_null(lambda: codegen.load_import_from(__name__, "rebuilt"))
        for part in (self.kind.__name__, self.side):
            codegen(ConstantVariable.create(part))
        codegen(self.data)
        codegen(self.structure.host if self.structure.source is None else self.structure.source)
        codegen.call_function(4, False)


def remembered(tx: Translator) -> dict[Any, StructureVariable]:
    """Whose lengths the arrays in this graph are."""
    output = tx.output
    if not hasattr(output, "_seqformats"):
        output._seqformats = {}
    found: dict[Any, StructureVariable] = output._seqformats
    return found


# What gives the numbers that it is given
_SAME_NUMBERS = (
    "as_tensor",
    "from_numpy",
    "asarray",
    "detach",
    "numpy",
    "_to_tensor",
    "view_as",
    "clone",
    "contiguous",
)


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


def wrap_encoding(builder: VariableBuilder, value: Any) -> VariableTracker:
    """An encoding that comes into a graph."""
    builder.install_guards(GuardBuilder.TYPE_MATCH)
    source = builder.get_source()
    kind = type(value)
    data = getattr(value, "data", None)
    graphed = kind in functions.GRAPHED and isinstance(data, torch.Tensor) and hasattr(value, "_structure")
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


def wrap_array(builder: VariableBuilder, value: np.ndarray) -> VariableTracker:
    """An array of NumPy: the compiler would write to it, which those of a structure refuse."""
    base = value.base
    if not value.flags.writeable and isinstance(base, np.ndarray) and not base.flags.writeable:
        stop("a read-only array of NumPy; torch.tensor(x.lengths) gives a tensor that may come into a graph")
    return builder.wrap_numpy_ndarray(value)


class KindVariable(UserDefinedClassVariable):  # type: ignore[misc]  # of a library without types
    """The class of an encoding, which may be called in a graph."""

    def call_function(self, tx: Translator, args: Sequence[Any], kwargs: Any) -> VariableTracker:
        """A call."""
        name = self.value.__name__
        if name not in ("Ragged", "Masked"):
            stop(f"{name}(...)")
        bound = inspect.signature(lambda data, lengths, side=None: None).bind(*args, **kwargs)  # noqa: ARG005
        data, lengths = bound.arguments["data"], bound.arguments["lengths"]
        side = bound.arguments.get("side")
        return made(tx, self.value, data, lengths, "lengths", "right" if side is None else side.as_python_constant())


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
        host = inlined(
            tx, functions.offsets_of if kind.__name__ == "Ragged" else functions.offsets_alone, numbers, data
        )
        structure = StructureVariable(host=host)
    return EncodingVariable(kind, data, structure, side)


def of(x: EncodingVariable) -> StructureVariable:
    """The structure of a batch that a graph can hold."""
    if x.structure is None:
        stop(f"a {x.kind.__name__} that is no batch of tensors with the columns in a stable order")
    structure: StructureVariable = x.structure
    return structure
