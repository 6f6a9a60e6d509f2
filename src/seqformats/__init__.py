"""Variable-length sequences in every layout, converted at memory speed.

See `convert` for conversions, `with_padded` for wrappers, `vjp` for gradients.
"""

from typing import TYPE_CHECKING

from . import hints as _hints
from .arrays.memory import keep_memory, kept_memory
from .converters import nested as _nested  # noqa: F401  registers the conversions of nested lists
from .converters.convert import convert
from .errors import ConversionError, DeviceError, OutOfMemory, SeqFormatError, StructureError
from .errors import no_attribute as _no_attribute
from .formats import Chunks, List, LoD, Masked, Packed, Padded, Pairs, Ragged, is_valid_lod
from .later import imported as _imported
from .launch.threads import num_threads, set_num_threads
from .registry import conversion, conversions
from .when_imported import when_imported as _when_imported

if TYPE_CHECKING:  # loaded when it is first asked for: a conversion needs none of it, and bridges need their libraries
    from . import arrow as arrow
    from . import awkward as awkward
    from . import beam as beam
    from . import ctc as ctc
    from . import engines as engines
    from . import hf as hf
    from . import jax as jax
    from . import loading as loading
    from . import plot as plot
    from . import rl as rl
    from . import thinc as thinc
    from . import torch as torch
    from .arrow import from_arrow, from_table, to_arrow
    from .awkward import from_awkward, to_awkward
    from .beam import (
        AllowedTokens,
        BannedTokens,
        BeamDecoder,
        BeamResult,
        BeamState,
        BeamTrace,
        Constraint,
        DiverseGroups,
        ExponentialDecayLengthPenalty,
        ForcedEnd,
        ForcedPrefix,
        ForcedTokens,
        LexicalConstraints,
        NoRepeatNgram,
        Prune,
        RepetitionPenalty,
        Sample,
        SequenceBias,
        Stochastic,
        Trie,
        beam_backtrace,
        beam_search,
        beam_step,
    )
    from .converters.explain import explain
    from .converters.like import convert_like
    from .ctc import CTCAlignment, CTCResult, CTCState, NGrams, ctc_align, ctc_beam_search, ctc_greedy, ctc_loss
    from .gradients.own import operation
    from .gradients.vjp import vjp
    from .health import doctor
    from .loading import batches
    from .operations.attention import block_mask, cu_seqlens, mask, position_ids, segment_ids
    from .operations.balance import Balance, balance
    from .operations.batch import (
        buckets,
        inverse_order,
        join_batches,
        reorder,
        sort_by_length,
        split_batches,
    )
    from .operations.bins import bincount
    from .operations.chunks import chunk, unchunk
    from .operations.counts import reduce_all, reduce_any, reduce_count, reduce_mode, reduce_nunique
    from .operations.cross import cross
    from .operations.cut import cut, shift, truncate, truncate_pair
    from .operations.distance import levenshtein
    from .operations.dot_attention import attention
    from .operations.embedding_bag import embedding_bag
    from .operations.error_rates import EditCounts, cer, edits, wer
    from .operations.expand import expand, expand_as, repeat
    from .operations.extremes import reduce_first, reduce_last, reduce_max, reduce_min
    from .operations.filter import filter, run_starts
    from .operations.join import concat, interleave
    from .operations.levels import flatten_levels, nest, split, split_at
    from .operations.library import astype, to, to_device
    from .operations.linear_loss import linear_cross_entropy
    from .operations.loss import cross_entropy
    from .operations.map_sequences import map_sequences
    from .operations.masking import MaskedTokens, SpanCorrupted, corrupt_spans, mask_tokens
    from .operations.model_inputs import model_inputs
    from .operations.moments import reduce_std, reduce_var
    from .operations.order import TopK, Unique, argsort, sort, topk, unique
    from .operations.own import kernel
    from .operations.packing import Packs, pack, pack_bins
    from .operations.pairwise import maxsim, pairwise_dot
    from .operations.pick import gather
    from .operations.put_back import masked_scatter, put_sequences
    from .operations.quantiles import reduce_median, reduce_quantile
    from .operations.questions import equal, lengths
    from .operations.rearrange import erase, reshape, reverse, slice
    from .operations.recurrence import ema, recurrence
    from .operations.reduce import reduce, reduce_logsumexp, reduce_mean, reduce_prod, reduce_sqrt, reduce_sum
    from .operations.risk import minimum_bayes_risk
    from .operations.scatter import scatter
    from .operations.search import intersect, isin, merge_asof, searchsorted
    from .operations.select import select
    from .operations.series import diff, ffill
    from .operations.show import show
    from .operations.shuffle import shuffle
    from .operations.softmax import cumsum, log_softmax, softmax
    from .operations.standardize import standardize
    from .operations.steps import TensorArray, shrink
    from .operations.storage import from_arrays, to_arrays
    from .operations.template import Template, Templated
    from .operations.texts import from_text, to_text
    from .operations.time_windows import window_by
    from .operations.topk import argmax, argmin, topk_mean
    from .operations.where import where
    from .operations.windows import conv, ngrams, window
    from .torch.nested import from_njt
    from .wrap import with_array, with_flatten, with_list, with_lod, with_masked, with_packed, with_padded, with_ragged

__version__ = "0.1.0"

__all__ = [
    "AllowedTokens",
    "Balance",
    "BannedTokens",
    "BeamDecoder",
    "BeamResult",
    "BeamState",
    "BeamTrace",
    "CTCAlignment",
    "CTCResult",
    "CTCState",
    "Chunks",
    "Constraint",
    "ConversionError",
    "DeviceError",
    "DiverseGroups",
    "EditCounts",
    "ExponentialDecayLengthPenalty",
    "ForcedEnd",
    "ForcedPrefix",
    "ForcedTokens",
    "LexicalConstraints",
    "List",
    "LoD",
    "Masked",
    "MaskedTokens",
    "NGrams",
    "NoRepeatNgram",
    "OutOfMemory",
    "Packed",
    "Packs",
    "Padded",
    "Pairs",
    "Prune",
    "Ragged",
    "RepetitionPenalty",
    "Sample",
    "SeqFormatError",
    "SequenceBias",
    "SpanCorrupted",
    "Stochastic",
    "StructureError",
    "Template",
    "Templated",
    "TensorArray",
    "TopK",
    "Trie",
    "Unique",
    "argmax",
    "argmin",
    "argsort",
    "astype",
    "attention",
    "balance",
    "batches",
    "beam_backtrace",
    "beam_search",
    "beam_step",
    "bincount",
    "block_mask",
    "buckets",
    "cer",
    "chunk",
    "concat",
    "conv",
    "conversion",
    "conversions",
    "convert",
    "convert_like",
    "corrupt_spans",
    "cross",
    "cross_entropy",
    "ctc_align",
    "ctc_beam_search",
    "ctc_greedy",
    "ctc_loss",
    "cu_seqlens",
    "cumsum",
    "cut",
    "diff",
    "doctor",
    "edits",
    "ema",
    "embedding_bag",
    "equal",
    "erase",
    "expand",
    "expand_as",
    "explain",
    "ffill",
    "filter",
    "flatten_levels",
    "from_arrays",
    "from_arrow",
    "from_awkward",
    "from_njt",
    "from_table",
    "from_text",
    "gather",
    "interleave",
    "intersect",
    "inverse_order",
    "is_valid_lod",
    "isin",
    "join_batches",
    "keep_memory",
    "kept_memory",
    "kernel",
    "lengths",
    "levenshtein",
    "linear_cross_entropy",
    "log_softmax",
    "map_sequences",
    "mask",
    "mask_tokens",
    "masked_scatter",
    "maxsim",
    "merge_asof",
    "minimum_bayes_risk",
    "model_inputs",
    "nest",
    "ngrams",
    "num_threads",
    "operation",
    "pack",
    "pack_bins",
    "pairwise_dot",
    "position_ids",
    "put_sequences",
    "recurrence",
    "reduce",
    "reduce_all",
    "reduce_any",
    "reduce_count",
    "reduce_first",
    "reduce_last",
    "reduce_logsumexp",
    "reduce_max",
    "reduce_mean",
    "reduce_median",
    "reduce_min",
    "reduce_mode",
    "reduce_nunique",
    "reduce_prod",
    "reduce_quantile",
    "reduce_sqrt",
    "reduce_std",
    "reduce_sum",
    "reduce_var",
    "reorder",
    "repeat",
    "reshape",
    "reverse",
    "run_starts",
    "scatter",
    "searchsorted",
    "segment_ids",
    "select",
    "set_num_threads",
    "shift",
    "show",
    "shrink",
    "shuffle",
    "slice",
    "softmax",
    "sort",
    "sort_by_length",
    "split",
    "split_at",
    "split_batches",
    "standardize",
    "to",
    "to_arrays",
    "to_arrow",
    "to_awkward",
    "to_device",
    "to_text",
    "topk",
    "topk_mean",
    "truncate",
    "truncate_pair",
    "unchunk",
    "unique",
    "vjp",
    "wer",
    "where",
    "window",
    "window_by",
    "with_array",
    "with_flatten",
    "with_list",
    "with_lod",
    "with_masked",
    "with_packed",
    "with_padded",
    "with_ragged",
]

# Where the names are that are loaded when they are first asked for.
_IN_BEAM = (
    "AllowedTokens BannedTokens BeamDecoder BeamResult BeamState BeamTrace Constraint DiverseGroups "
    "ExponentialDecayLengthPenalty ForcedEnd ForcedPrefix ForcedTokens LexicalConstraints NoRepeatNgram Prune "
    "RepetitionPenalty Sample SequenceBias Stochastic Trie beam_backtrace beam_search beam_step"
)
_IN_CTC = "CTCAlignment CTCResult CTCState NGrams ctc_align ctc_beam_search ctc_greedy ctc_loss"
_WRAPPERS = "with_array with_flatten with_list with_lod with_masked with_packed with_padded with_ragged"
_LATER = dict.fromkeys(_IN_BEAM.split(), "beam") | dict.fromkeys(_IN_CTC.split(), "ctc")
_LATER |= dict.fromkeys(_WRAPPERS.split(), "wrap") | {
    "Balance": "operations.balance",
    "EditCounts": "operations.error_rates",
    "MaskedTokens": "operations.masking",
    "Packs": "operations.packing",
    "SpanCorrupted": "operations.masking",
    "Template": "operations.template",
    "Templated": "operations.template",
    "TensorArray": "operations.steps",
    "TopK": "operations.order",
    "Unique": "operations.order",
    "argmax": "operations.topk",
    "argmin": "operations.topk",
    "argsort": "operations.order",
    "astype": "operations.library",
    "attention": "operations.dot_attention",
    "balance": "operations.balance",
    "batches": "loading",
    "bincount": "operations.bins",
    "block_mask": "operations.attention",
    "buckets": "operations.batch",
    "cer": "operations.error_rates",
    "chunk": "operations.chunks",
    "concat": "operations.join",
    "conv": "operations.windows",
    "convert_like": "converters.like",
    "corrupt_spans": "operations.masking",
    "cross": "operations.cross",
    "cross_entropy": "operations.loss",
    "embedding_bag": "operations.embedding_bag",
    "cu_seqlens": "operations.attention",
    "cumsum": "operations.softmax",
    "cut": "operations.cut",
    "diff": "operations.series",
    "doctor": "health",
    "edits": "operations.error_rates",
    "ema": "operations.recurrence",
    "equal": "operations.questions",
    "erase": "operations.rearrange",
    "expand": "operations.expand",
    "expand_as": "operations.expand",
    "explain": "converters.explain",
    "ffill": "operations.series",
    "filter": "operations.filter",
    "flatten_levels": "operations.levels",
    "from_arrays": "operations.storage",
    "from_arrow": "arrow",
    "from_awkward": "awkward",
    "from_njt": "torch",
    "from_table": "arrow",
    "from_text": "operations.texts",
    "gather": "operations.pick",
    "interleave": "operations.join",
    "intersect": "operations.search",
    "inverse_order": "operations.batch",
    "isin": "operations.search",
    "join_batches": "operations.batch",
    "kernel": "operations.own",
    "lengths": "operations.questions",
    "levenshtein": "operations.distance",
    "linear_cross_entropy": "operations.linear_loss",
    "log_softmax": "operations.softmax",
    "map_sequences": "operations.map_sequences",
    "mask": "operations.attention",
    "mask_tokens": "operations.masking",
    "masked_scatter": "operations.put_back",
    "merge_asof": "operations.search",
    "maxsim": "operations.pairwise",
    "minimum_bayes_risk": "operations.risk",
    "model_inputs": "operations.model_inputs",
    "nest": "operations.levels",
    "ngrams": "operations.windows",
    "operation": "gradients.own",
    "pack": "operations.packing",
    "pack_bins": "operations.packing",
    "pairwise_dot": "operations.pairwise",
    "position_ids": "operations.attention",
    "put_sequences": "operations.put_back",
    "recurrence": "operations.recurrence",
    "reduce": "operations.reduce",
    "reduce_all": "operations.counts",
    "reduce_any": "operations.counts",
    "reduce_count": "operations.counts",
    "reduce_first": "operations.extremes",
    "reduce_last": "operations.extremes",
    "reduce_logsumexp": "operations.reduce",
    "reduce_max": "operations.extremes",
    "reduce_mean": "operations.reduce",
    "reduce_median": "operations.quantiles",
    "reduce_min": "operations.extremes",
    "reduce_mode": "operations.counts",
    "reduce_nunique": "operations.counts",
    "reduce_prod": "operations.reduce",
    "reduce_quantile": "operations.quantiles",
    "reduce_sqrt": "operations.reduce",
    "reduce_std": "operations.moments",
    "reduce_sum": "operations.reduce",
    "reduce_var": "operations.moments",
    "reorder": "operations.batch",
    "repeat": "operations.expand",
    "reshape": "operations.rearrange",
    "reverse": "operations.rearrange",
    "run_starts": "operations.filter",
    "scatter": "operations.scatter",
    "searchsorted": "operations.search",
    "segment_ids": "operations.attention",
    "select": "operations.select",
    "shift": "operations.cut",
    "show": "operations.show",
    "shrink": "operations.steps",
    "shuffle": "operations.shuffle",
    "slice": "operations.rearrange",
    "softmax": "operations.softmax",
    "sort": "operations.order",
    "sort_by_length": "operations.batch",
    "split": "operations.levels",
    "split_at": "operations.levels",
    "split_batches": "operations.batch",
    "standardize": "operations.standardize",
    "to": "operations.library",
    "to_arrays": "operations.storage",
    "to_arrow": "arrow",
    "to_awkward": "awkward",
    "to_device": "operations.library",
    "to_text": "operations.texts",
    "topk": "operations.order",
    "topk_mean": "operations.topk",
    "truncate": "operations.cut",
    "truncate_pair": "operations.cut",
    "unchunk": "operations.chunks",
    "unique": "operations.order",
    "vjp": "gradients.vjp",
    "wer": "operations.error_rates",
    "where": "operations.where",
    "window": "operations.windows",
    "window_by": "operations.time_windows",
}
_MODULES = ("arrow", "awkward", "beam", "ctc", "engines", "hf", "jax", "loading", "plot", "rl", "thinc", "torch")

if not TYPE_CHECKING:  # else a checker would believe in every name

    def __getattr__(name):
        """What is loaded when it is first asked for."""
        if name not in _LATER and name not in _MODULES:
            hint = _hints.for_attribute(name, (*__all__, *_MODULES))
            # with a name of its own, or Python would look for a near one too
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}", name=name)
        try:
            module = _imported(f".{_LATER.get(name, name)}", __name__)
        except ImportError as error:
            raise _no_attribute(__name__, name, error) from error
        globals()[name] = found = module if name in _MODULES else getattr(module, name)
        return found

    def __dir__():
        return sorted({*globals(), *_MODULES, *__all__})


# Who has to know encodings before it meets one.
_when_imported("jax", ".jax")
_when_imported("torch", ".torch.citizen")
_when_imported("torch._dynamo", ".torch.graph")
_when_imported("thinc.types", ".thinc.types")
