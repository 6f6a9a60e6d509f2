"""One call of everything public that takes options, as the names of its arguments and their values."""

import functools

import numpy as np

import seqformats as sf

LENGTHS = [2, 0, 3]


def x():
    """Floats."""
    return sf.Ragged(np.array([3.0, 1.0, 2.0, 5.0, 4.0]), LENGTHS)


def ids():
    """Integers."""
    return sf.Ragged(np.array([3, 1, 2, 5, 4]), LENGTHS)


def flags():
    """Bools."""
    return sf.Ragged(np.array([True, False, True, True, False]), LENGTHS)


def rows():
    """Items of four numbers."""
    return sf.Ragged(np.arange(20.0).reshape(5, 4), LENGTHS)


def levels():
    """Two levels."""
    return sf.LoD.from_lengths(np.arange(5.0), [[2, 1], LENGTHS])


def frames():
    """Log-probabilities."""
    return sf.Ragged(np.log(np.full((5, 4), 0.25)), LENGTHS)


def step(state):
    """The scores of a model."""
    return np.zeros((len(state.tokens), 6), np.float32), state.memory


COSTS = {"cost": (1, 2), "max_cost": 100.0}


def search():
    """What `beam_search` and `BeamDecoder` take, but the step."""
    return {
        "memory": None,
        "start": np.array([1, 2]),
        "end": 0,
        "beam_size": 2,
        "max_new_tokens": 3,
        "prompt": None,
        "rule": "hf",
        "n_best": 1,
        "length_penalty": 1.0,
        "coverage": 0.0,
        "early_stopping": False,
        "patience": 1.0,
        "min_new_tokens": 0,
        "prune": None,
        "sampling": None,
        "constraints": (),
        "shared": None,
        "on_mask": None,
        "on_scores": None,
        "on_candidates": None,
        "on_selected": None,
        "trace": False,
    }


def batches(source, **options):
    """All batches of a source."""
    return list(sf.batches(source, **options))


def wrapped(name, **options):
    """A wrapper around a function, called."""
    return getattr(sf, name)(lambda z: z, **options)(x())


def steps():
    """What `beam_step` takes of a first step."""
    pre = sf.LoD(np.array([1, 1]), [[0, 1, 2], [0, 1, 2]])
    return {
        "pre_ids": pre,
        "pre_scores": sf.LoD(np.zeros(2, np.float32), pre.lod),
        "ids": None,
        "scores": sf.LoD(np.zeros((2, 4), np.float32), pre.lod),
    }


def path():
    """The steps of a search, for `beam_backtrace`."""
    found = sf.beam_search(step, **(search() | {"trace": True}))
    return {"ids": found.trace.ids, "scores": found.trace.scores}


CALLS = {
    "AllowedTokens": lambda: {"trie_or_lists": [[1, 2], [3]]},
    "BannedTokens": lambda: {"tokens": [1, 2], "until": None},
    "BeamDecoder": search,
    "BeamState": lambda: {"live": None, "place": None, "memory": None, "shared": None, "prompt": None},
    "NGrams": lambda: {"model": None},
    "CTCState": lambda: {"history": None, "rows": None, "source": None, "t": 0, "put": None},
    "Chunks": lambda: {"data": None, "lod": None, "starts": None, "sequence_lengths": None},
    "DiverseGroups": lambda: {"groups": 2, "penalty": 0.5},
    "ExponentialDecayLengthPenalty": lambda: {"start": 2, "factor": 1.5},
    "ForcedEnd": lambda: {"free": False},
    "ForcedPrefix": lambda: {"tokens": [1, 2], "free": False},
    "ForcedTokens": lambda: {"tokens": {1: 2}, "free": False},
    "LexicalConstraints": lambda: {"phrases": [[[1, 2]], [[3]]]},
    "List": lambda: {"items": [np.zeros(2)], "like": None},
    "LoD": lambda: {"data": np.zeros(3), "lod": [[0, 1, 3]]},
    "Masked": lambda: {"data": np.zeros((2, 3)), "lengths": [2, 3], "side": "right"},
    "NoRepeatNgram": lambda: {"n": 2},
    "Packed": lambda: {"data": np.zeros(3), "size_at_t": [2, 1], "lengths": [2, 1], "indices": [0, 1]},
    "Padded": lambda: {"data": np.zeros((2, 2)), "size_at_t": [2, 1], "lengths": [2, 1], "indices": [0, 1]},
    "Pairs": lambda: {"one": x(), "two": ids()},
    "Prune": lambda: {"relative": 0.1, "absolute": 1.0, "local": 1.0, "per_parent": 1, "safe": False},
    "Ragged": lambda: {"data": np.zeros(3), "lengths": [2, 1]},
    "RepetitionPenalty": lambda: {"penalty": 1.5},
    "Sample": lambda: {
        "seed": 1,
        "temperature": 1.0,
        "top_k": 3,
        "top_p": 0.9,
        "min_p": 0.1,
        "typical": 0.9,
        "replacement": True,
    },
    "SequenceBias": lambda: {"biases": {(1, 2): 0.5}},
    "Stochastic": lambda: {"seed": 1},
    "Template": lambda: {"parts": [1, "a", 2], "types": None},
    "TensorArray": lambda: {"steps": [np.zeros(2)], "like": None},
    "Trie": lambda: {"sequences": [[1, 2], [1, 3]]},
    "argmax": lambda: {"x": x()},
    "argmin": lambda: {"x": x()},
    "argsort": lambda: {"x": x(), "descending": False},
    "astype": lambda: {"x": x(), "dtype": "float32"},
    "attention": lambda: {"q": rows(), "k": rows(), "v": rows(), "causal": False, "scale": None, "window": None},
    "batches": lambda: {
        "source": [[1, 2], [3]],
        "max_items": 9,
        "to": sf.Masked,
        "columns": None,
        "by": None,
        "shuffle_buffer": 5,
        "seed": 1,
        "prefetch": 0,
        "drop_last": False,
        "padded": True,
        "max_sequences": 3,
        **COSTS,
        "too_long": "raise",
        "missing": "raise",
        "items": "raise",
        "library": None,
        "device": None,
        "progress": False,
        "workers": "raise",
        "fill": 0,
        "side": "left",
        "multiple_of": 2,
        "width": None,
        "truncate": False,
    },
    "beam_backtrace": lambda: path() | {"beam_size": 2, "end": 0},
    "beam_search": lambda: {"step": step} | search(),
    "beam_step": lambda: steps() | {"beam_size": 2, "end": 0, "accumulated": True, "level": 0},
    "block_mask": lambda: {"x": x(), "causal": False},
    "balance": lambda: {
        "lengths": [1, 2],
        "ranks": 1,
        "cost": (1, 2),
        "max_items": 9,
        "micro_batches": 1,
        "equal_counts": False,
    },
    "buckets": lambda: {
        "lengths": [1, 2],
        "max_items": 9,
        "padded": True,
        "multiple_of": 2,
        "max_sequences": None,
        **COSTS,
    },
    "chunk": lambda: {"x": x(), "size": 2, "overlap": 1, "last": "keep", "fill": 0},
    "concat": lambda: {"parts": [x(), x()]},
    "conv": lambda: {"x": rows(), "weight": np.zeros((12, 3)), "before": 1, "after": 1},
    "convert": lambda: {
        "x": x(),
        "To": sf.Masked,
        "copy": False,
        "fill": 0,
        "side": "left",
        "multiple_of": 2,
        "width": None,
        "truncate": False,
    },
    "convert_like": lambda: {"y": x(), "x": x()},
    "corrupt_spans": lambda: {"ids": ids(), "sentinel": 90, "seed": 1, "rate": 0.15, "mean": 3.0, "special": [1]},
    "cross": lambda: {"x": x(), "y": x()},
    "cross_entropy": lambda: {
        "logits": rows(),
        "targets": sf.Ragged(np.array([3, 1, 2, 0, 3]), LENGTHS),
        "ignore": None,
        "label_smoothing": 0.0,
        "reduction": "sequence",
        "weights": None,
    },
    "linear_cross_entropy": lambda: {
        "hidden": rows(),
        "weight": np.arange(16.0).reshape(4, 4) / 16,
        "targets": sf.Ragged(np.array([3, 1, 2, 0, 3]), LENGTHS),
        "bias": None,
        "ignore": None,
        "label_smoothing": 0.0,
        "reduction": "sequence",
        "weights": None,
        "chunk": None,
    },
    "ctc_align": lambda: {"log_probs": frames(), "targets": [[1], [], [2]], "blank": 0, "normalised": True},
    "ctc_beam_search": lambda: {
        "log_probs": frames(),
        "blank": 0,
        "beam_size": 2,
        "n_best": 1,
        "token_beam": None,
        "token_threshold": None,
        "threshold": None,
        "token_bonus": 0.0,
        "lexicon": None,
        "on_new": None,
        "lm": None,
        "exact": False,
        "normalised": True,
    },
    "ctc_loss": lambda: {
        "log_probs": frames(),
        "labels": [[1], [], [2]],
        "blank": 0,
        "normalised": True,
        "reduction": "mean",
        "zero_infinity": False,
    },
    "ctc_greedy": lambda: {"log_probs": frames(), "blank": 0, "normalised": True},
    "cu_seqlens": lambda: {"x": x()},
    "cumsum": lambda: {"x": x()},
    "cut": lambda: {"x": x(), "start": 0, "stop": 2, "step": 1},
    "doctor": lambda: {"cuda": False},
    "ema": lambda: {"x": x(), "decay": 0.5, "adjust": False, "where": flags()},
    "bincount": lambda: {"x": ids(), "size": 9, "weights": x()},
    "diff": lambda: {"x": x(), "n": 1},
    "ffill": lambda: {"x": x(), "valid": flags()},
    "from_text": lambda: {"strings": ["ab"], "unit": "bytes"},
    "intersect": lambda: {"x": ids(), "y": ids()},
    "isin": lambda: {"x": ids(), "y": ids()},
    "merge_asof": lambda: {"left": x(), "right": x(), "tolerance": 1.0, "direction": "nearest"},
    "searchsorted": lambda: {"sorted": x(), "values": x(), "side": "left"},
    "spans_to_tags": lambda: {"spans": sf.tags_to_spans(ids()), "x": ids(), "labels": [*"abcdefghO"]},
    "tags_to_spans": lambda: {"tags": ids(), "labels": [*"abcdefghO"]},
    "to_text": lambda: {"x": ids()},
    "window_by": lambda: {"x": x(), "keys": x(), "before": 1, "after": 0.5, "closed": "both"},
    "cer": lambda: {"references": ["abc"], "hypotheses": ["abd"]},
    "edits": lambda: {"references": ids(), "hypotheses": ids()},
    "wer": lambda: {"references": ["a b"], "hypotheses": ["a c"]},
    "embedding_bag": lambda: {
        "table": np.arange(200.0).reshape(100, 2),
        "ids": ids(),
        "weights": None,
        "mode": "sum",
        "sparse": False,
    },
    "equal": lambda: {"a": x(), "b": x(), "equal_nan": False},
    "erase": lambda: {"x": ids(), "tokens": [1, 2]},
    "expand": lambda: {"x": x(), "like": levels(), "level": -1, "out": None},
    "expand_as": lambda: {"x": np.arange(3.0), "like": x(), "out": None},
    "explain": lambda: {"From": sf.Ragged, "To": sf.Masked, "device": "cpu"},
    "filter": lambda: {"x": x(), "keep": flags()},
    "flatten_levels": lambda: {"x": levels(), "levels": 1, "outermost": False},
    "from_arrays": lambda: {"arrays": sf.to_arrays(x()), "prefix": ""},
    "gather": lambda: {"x": x(), "index": [[0], [], [1, 2]]},
    "interleave": lambda: {"batches": [x(), x()]},
    "inverse_order": lambda: {"order": [1, 0, 2]},
    "is_valid_lod": lambda: {"lod": [[0, 2]], "rows": 2},
    "join_batches": lambda: {"batches": [x(), x()]},
    "keep_memory": lambda: {"limit": 0},
    "lengths": lambda: {"x": x(), "level": -1},
    "levenshtein": lambda: {"x": ids(), "y": ids()},
    "where": lambda: {"mask": flags(), "a": x(), "b": 0},
    "log_softmax": lambda: {"x": x()},
    "map_sequences": lambda: {"fn": lambda z: z, "x": x(), "result": "auto", "like": None},
    "mask": lambda: {"lengths": [1, 2], "width": 3, "side": "left"},
    "mask_tokens": lambda: {
        "ids": ids(),
        "mask_id": 9,
        "seed": 1,
        "rate": 0.15,
        "vocabulary": 10,
        "special": (),
        "whole": None,
        "spans": None,
        "split": (0.8, 0.1, 0.1),
        "ignore": -100,
    },
    "masked_scatter": lambda: {"base": x(), "mask": flags(), "values": np.arange(float(flags().data.sum()))},
    "maxsim": lambda: {"queries": rows(), "documents": rows(), "candidates": [[0], [], [1, 2]]},
    "minimum_bayes_risk": lambda: {"x": sf.LoD.from_lengths(np.arange(3), [[2], [1, 2]]), "scores": None},
    "model_inputs": lambda: {
        "ids": ids(),
        "side": "left",
        "pad_id": 0,
        "multiple_of": 1,
        "most": None,
        "truncation_side": "right",
        "labels": True,
        "ignore": -100,
        "library": "numpy",
    },
    "nest": lambda: {"x": x(), "lengths": [2, 1]},
    "ngrams": lambda: {"x": ids(), "size": 2, "fill": 0},
    "operation": lambda: {"function": lambda z: (z, lambda dz: dz), "transpose": None},
    "kernel": lambda: {"cpu": step, "cuda": None, "takes": "items", "gives": "items", "dtype": None, "over": "units"},
    "pack": lambda: {
        "documents": ids(),
        "capacity": 4,
        "labels": ids(),
        "keep_order": False,
        "too_long": "raise",
    },
    "pack_bins": lambda: {"lengths": [1, 2], "capacity": 4, "fewest": False},
    "position_ids": lambda: {"x": x(), "start": 0, "layout": False},
    "pairwise_dot": lambda: {"x": rows(), "y": rows()},
    "put_sequences": lambda: {"base": x(), "index": [0], "values": [[7.0]]},
    "recurrence": lambda: {
        "x": x(),
        "decay": 0.5,
        "initial": None,
        "reverse": False,
        "exclusive": False,
        "where": flags(),
        "final": False,
    },
    "reduce": lambda: {"x": x(), "kind": "sum", "empty": 0.0},
    "reduce_quantile": lambda: {"x": x(), "q": 0.5, "interpolation": "linear", "empty": 0.0},
    "reduce_std": lambda: {"x": x(), "ddof": 0, "empty": 0.0},
    "reduce_var": lambda: {"x": x(), "ddof": 0, "empty": 0.0},
    "reorder": lambda: {"x": x(), "permutation": [2, 0, 1]},
    "repeat": lambda: {"x": x(), "counts": [1, 0, 2], "out": None},
    "reshape": lambda: {"x": sf.Ragged(np.zeros((4, 1)), [2, 2]), "width": 2},
    "reverse": lambda: {"x": x()},
    "run_starts": lambda: {"x": x()},
    "scatter": lambda: {"base": x(), "index": [[0], [], [1, 2]], "updates": [[1.0], [], [2.0, 3.0]], "mode": "add"},
    "segment_ids": lambda: {"x": x(), "layout": False},
    "select": lambda: {"x": x(), "index": [0, 2], "level": 0},
    "set_num_threads": lambda: {"k": None},
    "shift": lambda: {"x": x(), "by": 1, "fill": 0},
    "show": lambda: {"x": x()},
    "shrink": lambda: {"x": np.zeros(3), "like": x(), "step": 1},
    "shuffle": lambda: {"x": x(), "seed": 1},
    "slice": lambda: {"x": x(), "start": [0, 0, 1], "length": [1, 0, 2]},
    "softmax": lambda: {"x": x()},
    "sort": lambda: {"x": x(), "descending": False, "by": None},
    "sort_by_length": lambda: {"x": x(), "by": None},
    "split": lambda: {"x": x(), "where": flags(), "lengths": None, "keep": "end"},
    "split_at": lambda: {"x": ids(), "tokens": [1], "keep": "end"},
    "split_batches": lambda: {"x": x(), "sizes": [1, 2]},
    "standardize": lambda: {
        "x": x(),
        "level": -1,
        "where": flags(),
        "center": "mean",
        "scale": "std",
        "ddof": 1,
        "eps": 1e-6,
    },
    "to": lambda: {"x": x(), "library": "numpy", "device": None, "dtype": None},
    "to_arrays": lambda: {"x": x(), "prefix": ""},
    "to_device": lambda: {"x": x(), "device": "cpu"},
    "topk": lambda: {"x": x(), "k": 2, "largest": True},
    "topk_mean": lambda: {"x": x(), "topks": [1, 2]},
    "truncate": lambda: {"x": x(), "most": 2, "side": "right"},
    "truncate_pair": lambda: {"a": x(), "b": x(), "most": 3, "strategy": "longest_first", "side": "right"},
    "unchunk": lambda: {"y": sf.chunk(x(), 2), "how": "first", "like": None},
    "unique": lambda: {"x": x(), "counts": False},
    "window": lambda: {"x": x(), "before": 1, "after": 1},
}
CALLS |= {
    f"reduce_{name}": lambda: {"x": x(), "empty": 0.0}
    for name in (
        *("all", "any", "count", "first", "last", "logsumexp", "max", "median", "min", "mode", "norm", "nunique"),
        *("prod", "sqrt"),
    )
}
CALLS |= {f"reduce_{name}": lambda: {"x": x(), "weights": None, "empty": 0.0} for name in ("mean", "sum")}
CALLS |= {
    f"with_{name}": lambda: {"fn": lambda z: z, "backprop": False}
    for name in ("array", "flatten", "list", "lod", "masked", "packed", "padded", "ragged")
}

# The functions of modules, under dotted names.
OF_MODULES = {
    "rl.gae": lambda: {
        "rewards": np.ones(3),
        "values": x(),
        "gamma": 0.9,
        "lam": 0.9,
        "where": flags(),
        "done": None,
        "bootstrap": np.ones(3),
    },
    "rl.group_advantages": lambda: {
        "rewards": np.ones(4),
        "group": 2,
        "center": "mean",
        "scale": None,
        "ddof": 1,
        "eps": 0.1,
        "where": None,
    },
    "rl.mean_loss": lambda: {
        "losses": x(),
        "where": None,
        "per": "sequence",
        "length": 4,
        "total": None,
        "ranks": 1,
    },
    "rl.moments": lambda: {"x": x(), "where": flags()},
    "rl.policy_loss": lambda: {
        "logp": x(),
        "old": x(),
        "advantages": np.ones(3),
        "where": flags(),
        "clip": (0.2, 0.3),
        "dual": 3.0,
        "level": "token",
        "limit": 20.0,
    },
    "rl.ratios": lambda: {"logp": x(), "old": x(), "where": None, "level": "token", "limit": 20.0},
    "rl.returns": lambda: {"rewards": x(), "gamma": 0.9, "where": None, "done": flags(), "bootstrap": x()},
    "rl.token_rewards": lambda: {"outcome": np.ones(3), "where": flags(), "kl": x(), "beta": 0.1},
    "rl.traces": lambda: {"x": x(), "gamma": 0.9, "lam": 0.9, "where": None, "done": None},
    "rl.whiten": lambda: {"x": x(), "where": None, "moments": None, "ddof": 1, "eps": 0.1},
}

# Public names without an argument that an option could stand for.
WITHOUT = {
    *("ConversionError", "DeviceError", "OutOfMemory", "SeqFormatError", "StructureError", "Constraint"),
    *("conversions", "kept_memory", "num_threads"),
    # named tuples and dataclasses of results, which keep what they are given
    *("Balance", "BeamResult", "BeamTrace", "CTCAlignment", "CTCResult", "EditCounts", "MaskedTokens", "Packs"),
    *("SpanCorrupted", "TagSpans", "Templated", "TopK"),
    "Unique",
}

# Functions of other libraries' objects, by the package that they need.
OTHERS = {
    "from_arrow": "pyarrow",
    "from_table": "pyarrow",
    "to_arrow": "pyarrow",
    "from_awkward": "awkward",
    "to_awkward": "awkward",
    "from_njt": "torch",
}


def others(name):
    """A call of one of `OTHERS`, where its package is."""
    if name in ("from_arrow", "from_table"):
        import pyarrow as pa

        column = pa.array([[1, 2], [3]])
        given = {"missing": "raise", "items": "raise"}
        if name == "from_arrow":
            return {"column": column} | given
        return {"table": pa.table({"a": column}), "columns": ["a"]} | given
    if name == "from_awkward":
        import awkward as ak

        return {"x": ak.Array([[1, 2], [3]]), "missing": "raise", "items": "raise"}
    if name == "from_njt":
        import torch

        return {"nt": torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)], layout=torch.jagged)}
    return {"x": x()} | ({"large": True, "type": None} if name == "to_arrow" else {})


def run(name, arguments):
    """Call it, and what it makes where that is a function of a batch."""
    function = batches if name == "batches" else functools.reduce(getattr, name.split("."), sf)
    first = arguments.pop("fn", None) if name == "map_sequences" else None
    made = function(**arguments) if first is None else function(first, arguments.pop("x"), **arguments)
    if name.startswith("with_") and name != "with_flatten":
        made(x())
    return made
