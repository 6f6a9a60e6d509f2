"""Hints at the end of errors: names of other libraries, and the functions that do the same here.

Tables of names alone.  No library is imported; a class is known by where its module is and what it is called.
"""

import sys
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

from .lazy_import import import_now

# The first part of a module and the name of a class, or "*" -> how its batches come in.
_BATCHES = {
    ("awkward", "Array"): "sf.from_awkward(x) takes one",
    # Without the Arrow PyCapsule interface, as older ones are.
    ("pandas", "Series"): "sf.convert(x.tolist(), ...) takes one whose elements are arrays or lists",
    ("polars", "Series"): "sf.convert(x.to_list(), ...) takes one of lists",
    ("pyarrow", "RecordBatch"): "sf.from_table(x) gives its columns as batches",
    ("pyarrow", "Table"): "sf.from_table(x) gives its columns as batches",
    ("scipy", "csr_array"): "its rows are sf.Ragged.from_offsets(x.data, x.indptr)",
    ("scipy", "csr_matrix"): "its rows are sf.Ragged.from_offsets(x.data, x.indptr)",
    ("tensorflow", "RaggedTensor"): "sf.LoD(x.flat_values.numpy(), [splits.numpy() for splits in x.nested_row_splits]) "
    "takes one, sf.Ragged.from_row_splits(x.values.numpy(), x.row_splits.numpy()) one of one ragged axis",
    ("thinc", "Padded"): "sf.Padded(x.data, x.size_at_t, x.lengths, x.indices) has the same fields",
    ("thinc", "Ragged"): "sf.Ragged(x.dataXd, x.lengths) has the same fields",
    ("torch", "PackedSequence"): "sf.Packed.from_torch(x) takes one",
    ("transformers", "BatchEncoding"): 'sf.Masked.from_mask(x["input_ids"], x["attention_mask"]) takes padded arrays, '
    "sf.convert(x, ...) lists",
    (
        "builtins",
        "dict",
    ): "convert, to, select, reorder, join_batches, split_batches, sort_by_length and the wrappers take "
    'a dict of columns, everything else one of them, as x["ids"]',
    ("datasets", "Dataset"): 'sf.from_table(x.with_format("arrow")[:]) gives its columns as batches',
    ("pandas", "DataFrame"): "sf.from_table(x) gives its columns as batches",
    ("polars", "DataFrame"): "sf.from_table(x) gives its columns as batches",
    ("builtins", "generator"): "give list(x)",
    ("builtins", "str"): "sf.from_text(texts) makes a batch of code points of a list of str, "
    'with unit="bytes" one of bytes',
    ("builtins", "range"): "one sequence alone is [np.arange(...)], a list with one array in it",
}

# An option by its name elsewhere, or on a target that has none -> what does it.
_OPTIONS = dict.fromkeys(
    ("max_length", "max_len", "maxlen", "total_length", "length", "width", "truncate", "truncation"),
    "Padded and Masked take width=, and truncate=True to cut what is longer; "
    "sf.truncate(x, k) cuts in any encoding, sf.slice(x, start, length) wherever you like",
)
_OPTIONS |= dict.fromkeys(
    ("padding_value", "pad_value", "pad_token_id", "padding", "pad", "constant_values", "value", "fill"),
    "Padded and Masked take fill=",
)
_OPTIONS |= dict.fromkeys(
    ("pad_to_multiple_of", "multiple", "multiple_of"),
    "Padded and Masked take multiple_of=",
)
_OPTIONS |= dict.fromkeys(("padding_side", "side"), 'Masked takes side="right" or "left"')
_OPTIONS |= {
    "batch_first": "sf.Masked is batch-major, sf.Padded time-major",
    "device": "sf.to_device(x, device) moves a batch",
    "dtype": "sf.astype(x, dtype) casts a batch",
    "library": 'sf.to(x, "torch") brings a batch to a library',
    "like": "sf.List((), like=array) says what an empty list holds",
}

# Functions and methods that have the name of the operation along sequences.
_SAME_NAME = (
    "argmax",
    "argmin",
    "argsort",
    "bincount",
    "cumsum",
    "diff",
    "equal",
    "ffill",
    "gather",
    "isin",
    "log_softmax",
    "repeat",
    "reshape",
    "scatter",
    "searchsorted",
    "shift",
    "softmax",
    "sort",
    "split",
    "topk",
    "unique",
)
_SAME_FUNCTION = ("cross_entropy", "ctc_loss", "embedding_bag")
"""Functions alone."""
_OF_UFUNCS = {
    ("add", "accumulate"): "cumsum",
    ("add", "reduce"): "reduce_sum",
    ("logical_and", "reduce"): "reduce_all",
    ("logical_or", "reduce"): "reduce_any",
    ("maximum", "reduce"): "reduce_max",
    ("minimum", "reduce"): "reduce_min",
    ("multiply", "reduce"): "reduce_prod",
}

# An attribute of arrays that batches do not have -> what does the same, where it is no operation along sequences.
_ATTRIBUTES = {
    "T": "x.data.T turns the array; sequences have no other order of axes",
    "abs": "abs(x) does what that does",
    "backward": "reduce it to one number, as sf.reduce_sum(x).sum().backward() does",
    "clip": "np.clip(x, low, high) or torch.clamp(x, low, high) do what that does",
    "clone": "sf.convert(x, type(x), copy=True) does what that does",
    "copy": "sf.convert(x, type(x), copy=True) does what that does",
    "dim": "x.data.dim() counts the axes of the array, len(x.item_shape) those of an item",
    "exp": "np.exp(x) or torch.exp(x) do what that does",
    "flatten": "sf.convert(x, sf.Ragged).data has the items of all sequences",
    "float": 'x.astype("float32") does what that does',
    "isnan": "np.isnan(x) or torch.isnan(x) do what that does",
    "item": "x.to_nested() has the numbers",
    "log": "np.log(x) or torch.log(x) do what that does",
    "long": 'x.astype("int64") does what that does',
    "ndim": "x.data.ndim counts the axes of the array, len(x.item_shape) those of an item",
    "requires_grad": "x.data.requires_grad says so of the array, which is in the graph",
    "numpy": 'np.asarray(x) is the array, sf.to(x, "numpy") the batch in NumPy',
    "round": "np.round(x, decimals) or torch.round(x) do what that does",
    "shape": "x.data.shape is that of the array, x.item_shape that of an item, sf.lengths(x) has the lengths",
    "size": "x.rows counts the items, len(x) the sequences, sf.lengths(x) has the lengths",
    "pad": "sf.convert(x, sf.Masked) does what that does",
    "sqrt": "np.sqrt(x) or torch.sqrt(x) do what that does",
    "to_numpy": 'np.asarray(x) is the array, sf.to(x, "numpy") the batch in NumPy',
    "to_padded_tensor": "sf.convert(x, sf.Masked).data does what that does",
    "to_tensor": "sf.convert(x, sf.Masked).data does what that does",
    "to_list": "x.to_nested() does what that does",
    "tolist": "x.to_nested() does what that does",
    "unbind": "x.sequences() does what that does",
    "values": "x.data is the array",
    "view": "sf.reshape(x, width) gives items another width",
    "where": "sf.where(mask, x, y) does what that does",
}
_REDUCED = ("all", "amax", "amin", "any", "logsumexp", "max", "mean", "median", "min", "prod", "std", "sum", "var")
_OTHERS = ("apply", "fillna", "flip", "groupby", "index_select", "masked_fill", "masked_select", "rolling")
ABSENT = (*_ATTRIBUTES, *_SAME_NAME, *_REDUCED, *_OTHERS)
"""All of these."""


def is_recurrent(fn: object) -> bool:
    """Tell whether this is a recurrent layer of PyTorch, which takes tensors or a PackedSequence."""
    return any(kind.__name__ == "RNNBase" and kind.__module__.startswith("torch.nn.") for kind in type(fn).__mro__)


def for_batch(x: object) -> str:
    """Return the hint for an object of another library: the function that reads it; "" where nothing is known."""
    for kind in type(x).__mro__:
        root = (kind.__module__ or "").partition(".")[0]
        found = _BATCHES.get((root, kind.__name__)) or _BATCHES.get((root, "*"))
        if found is not None:
            return f"; {found}"
    return ""


def suggest(name: object, known: Iterable[str]) -> str:
    """The name that is meant by a misspelt one, as the end of an error's sentence; "" where none is near."""
    difflib = import_now("difflib", None)  # for errors alone

    by_lower = {one.lower(): one for one in known}
    found = difflib.get_close_matches(name.lower(), by_lower, 1) if isinstance(name, str) and len(name) < 100 else []
    return f"; did you mean {by_lower[found[0]]!r}?" if found else ""


def for_option(name: str, known: Iterable[str]) -> str:
    """Return the hint for an unknown option: the option that does the same, else the known one that it is like."""
    return f"; {_OPTIONS[name]}" if name in _OPTIONS else suggest(name, known)


def for_attribute(name: str, known: Iterable[str]) -> str:
    """Return the hint for an unknown name: the function that other libraries call so, else the name that it is like."""
    if name.startswith("_"):
        return ""
    found = _alias(name)
    return f"; sf.{found} does what that does" if found else suggest(name, known)


def look_up(module: str, name: str, known: Iterable[str]) -> Any:
    """Return what a renamed public name is called now, with a DeprecationWarning; AttributeError for other names."""
    found: str | None = import_now(".aliases", __package__).RENAMED.get(f"{module}.{name}")
    if found is None:
        # With a name of its own, or Python would look for a near one too.
        raise AttributeError(f"module {module!r} has no attribute {name!r}{for_attribute(name, known)}", name=name)
    short = module.replace("seqformats", "sf", 1)
    warnings.warn(f"{short}.{name} is called {short}.{found} now", DeprecationWarning, stacklevel=3)
    return getattr(sys.modules[module], found)


def for_method(name: str) -> str:
    """Return the hint for an attribute of `ABSENT`: the function that does for a batch what it does for an array."""
    return _ATTRIBUTES.get(name) or f"sf.{name if name in _SAME_NAME else _alias(name)}(x) does what that does"


def for_function(name: str) -> str:
    """Return the name of the function that does along sequences what a function of an array library does."""
    found = name if name in (*_SAME_NAME, *_SAME_FUNCTION) else _alias(name.removeprefix("nan"))
    return f"; sf.{found} is for sequences" if found else ""


def of_ufunc(name: str, method: str) -> str:
    """Return the hint for a method of a ufunc of NumPy."""
    found = _OF_UFUNCS.get((name, method))
    return f"; sf.{found} is for sequences" if found else ""


def for_operation(name: str, known: Sequence[str]) -> str:
    """Return the hint for a function that is no operation: the way to a gradient; `known` have one."""
    difflib = import_now("difflib", None)  # for errors alone

    found = _alias(name) or f"reduce_{name}"
    near = [found] if found in known else difflib.get_close_matches(name, known, 1)
    nearest = f"; the nearest one is sf.{near[0]}" if near and near[0] != name else ""
    if near and near[0] == name:
        nearest = f"; give sf.{name}"
    return f"{nearest}; sf.operation makes one of a function and its gradient"


def _alias(name: str) -> str | None:
    """The name of this library for one of another."""
    found: str | None = import_now(".aliases", __package__).name_of(name)  # for errors alone
    return found
