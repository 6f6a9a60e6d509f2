"""What users of other libraries try first, and what does it here: the last words of an error.

Tables of names alone.  No library is imported; a class is known by where its module is and what it is called.
"""

# The first part of a module and the name of a class, or "*" -> how its batches come in.
_BATCHES = {
    ("awkward", "Array"): "sf.Ragged(ak.to_numpy(ak.flatten(x)), ak.to_numpy(ak.num(x))) takes one of two axes, "
    "sf.convert(ak.to_list(x), ...) any",
    ("pandas", "Series"): "sf.convert(x.tolist(), ...) takes one whose elements are arrays or lists",
    ("polars", "Series"): "sf.convert(x.to_list(), ...) takes one of lists",
    ("pyarrow", "*"): "an array of lists comes in as sf.Ragged(x.flatten().to_numpy(), x.value_lengths().to_numpy()), "
    "a chunked one after x.combine_chunks()",
    ("scipy", "csr_array"): "its rows are sf.Ragged.from_offsets(x.data, x.indptr)",
    ("scipy", "csr_matrix"): "its rows are sf.Ragged.from_offsets(x.data, x.indptr)",
    ("tensorflow", "RaggedTensor"): "sf.Ragged.from_offsets(x.flat_values.numpy(), x.row_splits.numpy()) takes one",
    ("thinc", "Padded"): "sf.Padded(x.data, x.size_at_t, x.lengths, x.indices) has the same fields",
    ("thinc", "Pairs"): "sf.Pairs(one, two) takes two batches",
    ("thinc", "Ragged"): "sf.Ragged(x.dataXd, x.lengths) has the same fields",
    ("torch", "PackedSequence"): "sf.Packed.from_torch(x) takes one",
    ("transformers", "BatchEncoding"): 'sf.Masked.from_mask(x["input_ids"], x["attention_mask"]) takes padded arrays, '
    'sf.convert(x["input_ids"], ...) lists',
    ("builtins", "dict"): "convert its columns one by one: "
    "{name: sf.convert(column, ...) for name, column in x.items()}",
    ("datasets", "Dataset"): "convert its columns one by one, as sf.convert(list(x[name]), ...)",
    ("pandas", "DataFrame"): "convert its columns one by one, as sf.convert(x[name].tolist(), ...)",
    ("polars", "DataFrame"): "convert its columns one by one, as sf.convert(x[name].to_list(), ...)",
    ("builtins", "generator"): "give list(x)",
    ("builtins", "range"): "one sequence alone is [np.arange(...)], a list with one array in it",
}

# An option by its name elsewhere, or on a target that has none -> what does it.
_OPTIONS = dict.fromkeys(
    ("max_length", "max_len", "maxlen", "total_length", "length", "width", "truncate", "truncation"),
    "Padded and Masked take width=, and truncate=True to cut what is longer; "
    "sf.slice(x, 0, np.minimum(sf.lengths(x), k)) cuts in any encoding",
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
    "dtype": "dtype= is for lists of Python numbers; arrays keep theirs",
    "like": "sf.List((), like=array) says what an empty list holds",
}


def for_batch(x: object) -> str:
    """How an object of another library comes in, as the end of an error's sentence; "" where nothing is known."""
    for kind in type(x).__mro__:
        root = (kind.__module__ or "").partition(".")[0]
        found = _BATCHES.get((root, kind.__name__)) or _BATCHES.get((root, "*"))
        if found is not None:
            return f"; {found}"
    return ""


def for_option(name: str) -> str:
    """What does what an unknown option would do, as the end of an error's sentence."""
    return f"; {_OPTIONS[name]}" if name in _OPTIONS else ""
