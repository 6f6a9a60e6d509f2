"""Variable-length sequences in every layout, converted at memory speed.

See `convert` for conversions, `with_padded` for wrappers, `vjp` for gradients.
"""

from . import nested as _nested  # noqa: F401  registers the conversions of nested lists
from ._threads import num_threads, set_num_threads
from .attention import block_mask, cu_seqlens, mask, position_ids, segment_ids
from .batch import buckets, inverse_order, join_batches, pack_bins, reorder, sort_by_length, split_batches
from .beam import beam_backtrace, beam_step
from .convert import convert, convert_like, explain
from .errors import ConversionError, DeviceError, SeqFormatError, StructureError
from .expand import expand, expand_as, repeat
from .formats import List, LoD, Masked, Packed, Padded, Pairs, Ragged, is_valid_lod
from .grad import vjp
from .reduce import (
    argmax,
    reduce,
    reduce_first,
    reduce_last,
    reduce_logsumexp,
    reduce_max,
    reduce_mean,
    reduce_min,
    reduce_sqrt,
    reduce_sum,
    topk_mean,
)
from .registry import conversion, conversions
from .select import equal, lengths, select, to_device
from .sequence import (
    concat,
    conv,
    cumsum,
    erase,
    log_softmax,
    ngrams,
    reshape,
    reverse,
    scatter,
    slice,
    softmax,
    window,
)
from .steps import TensorArray, shrink
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

__version__ = "0.1.0"

__all__ = [
    "ConversionError",
    "DeviceError",
    "List",
    "LoD",
    "Masked",
    "Packed",
    "Padded",
    "Pairs",
    "Ragged",
    "SeqFormatError",
    "StructureError",
    "TensorArray",
    "argmax",
    "beam_backtrace",
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
