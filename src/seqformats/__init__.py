"""Variable-length sequences in every layout, converted at memory speed.

See `convert` for conversions, `with_padded` for wrappers, `vjp` for gradients.
"""

import importlib
from typing import TYPE_CHECKING

from .converters import nested as _nested  # noqa: F401  registers the conversions of nested lists
from .converters.convert import convert
from .converters.explain import explain
from .converters.like import convert_like
from .errors import ConversionError, DeviceError, OutOfMemory, SeqFormatError, StructureError
from .formats import List, LoD, Masked, Packed, Padded, Pairs, Ragged, is_valid_lod
from .gradients.vjp import vjp
from .launch.threads import num_threads, set_num_threads
from .operations.attention import block_mask, cu_seqlens, mask, position_ids, segment_ids
from .operations.batch import buckets, inverse_order, join_batches, pack_bins, reorder, sort_by_length, split_batches
from .operations.expand import expand, expand_as, repeat
from .operations.questions import equal, lengths, to_device
from .operations.rearrange import concat, erase, reshape, reverse, slice
from .operations.reduce import (
    reduce,
    reduce_first,
    reduce_last,
    reduce_logsumexp,
    reduce_max,
    reduce_mean,
    reduce_min,
    reduce_prod,
    reduce_sqrt,
    reduce_sum,
)
from .operations.scatter import scatter
from .operations.select import select
from .operations.softmax import cumsum, log_softmax, softmax
from .operations.steps import TensorArray, shrink
from .operations.topk import argmax, topk_mean
from .operations.windows import conv, ngrams, window
from .registry import conversion, conversions
from .wrap import (
    with_array,
    with_flatten,
    with_list,
    with_lod,
    with_masked,
    with_packed,
    with_padded,
    with_ragged,
)

if TYPE_CHECKING:  # what decodes is a third of the files, and few scripts need it
    from .beam import (
        AllowedTokens,
        BannedTokens,
        BeamDecoder,
        BeamResult,
        BeamState,
        BeamTrace,
        DiverseGroups,
        ForcedPrefix,
        ForcedTokens,
        LexicalConstraints,
        NoRepeatNgram,
        Prune,
        RepetitionPenalty,
        Stochastic,
        Trie,
        beam_backtrace,
        beam_search,
        beam_step,
    )

__version__ = "0.1.0"

__all__ = [
    "AllowedTokens",
    "BannedTokens",
    "BeamDecoder",
    "BeamResult",
    "BeamState",
    "BeamTrace",
    "ConversionError",
    "DeviceError",
    "DiverseGroups",
    "ForcedPrefix",
    "ForcedTokens",
    "LexicalConstraints",
    "List",
    "LoD",
    "Masked",
    "NoRepeatNgram",
    "OutOfMemory",
    "Packed",
    "Padded",
    "Pairs",
    "Prune",
    "Ragged",
    "RepetitionPenalty",
    "SeqFormatError",
    "Stochastic",
    "StructureError",
    "TensorArray",
    "Trie",
    "argmax",
    "beam_backtrace",
    "beam_search",
    "beam_step",
    "block_mask",
    "buckets",
    "concat",
    "conv",
    "conversion",
    "conversions",
    "convert",
    "convert_like",
    "cu_seqlens",
    "cumsum",
    "equal",
    "erase",
    "expand",
    "expand_as",
    "explain",
    "inverse_order",
    "is_valid_lod",
    "join_batches",
    "lengths",
    "log_softmax",
    "mask",
    "ngrams",
    "num_threads",
    "pack_bins",
    "position_ids",
    "reduce",
    "reduce_first",
    "reduce_last",
    "reduce_logsumexp",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_prod",
    "reduce_sqrt",
    "reduce_sum",
    "reorder",
    "repeat",
    "reshape",
    "reverse",
    "scatter",
    "segment_ids",
    "select",
    "set_num_threads",
    "shrink",
    "slice",
    "softmax",
    "sort_by_length",
    "split_batches",
    "to_device",
    "topk_mean",
    "vjp",
    "window",
    "with_array",
    "with_flatten",
    "with_list",
    "with_lod",
    "with_masked",
    "with_packed",
    "with_padded",
    "with_ragged",
]

if not TYPE_CHECKING:  # else a checker would believe in every name

    def __getattr__(name):
        """What decodes, loaded when it is first asked for."""
        if name != "beam" and name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        beam = importlib.import_module(".beam", __name__)
        globals()[name] = found = beam if name == "beam" else getattr(beam, name)
        return found

    def __dir__():
        return sorted({*globals(), *__all__})
