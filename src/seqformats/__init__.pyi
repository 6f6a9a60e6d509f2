"""Public names of the package, each once, for type checkers; `names.py` is made of it."""

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
from .arrow import from_arrow as from_arrow
from .arrow import from_table as from_table
from .arrow import to_arrow as to_arrow
from .awkward import from_awkward as from_awkward
from .awkward import to_awkward as to_awkward
from .beam import (
    AllowedTokens as AllowedTokens,
)
from .beam import (
    BannedTokens as BannedTokens,
)
from .beam import (
    BeamDecoder as BeamDecoder,
)
from .beam import (
    BeamResult as BeamResult,
)
from .beam import (
    BeamState as BeamState,
)
from .beam import (
    BeamTrace as BeamTrace,
)
from .beam import (
    Constraint as Constraint,
)
from .beam import (
    DiverseGroups as DiverseGroups,
)
from .beam import (
    ExponentialDecayLengthPenalty as ExponentialDecayLengthPenalty,
)
from .beam import (
    ForcedEnd as ForcedEnd,
)
from .beam import (
    ForcedPrefix as ForcedPrefix,
)
from .beam import (
    ForcedTokens as ForcedTokens,
)
from .beam import (
    LexicalConstraints as LexicalConstraints,
)
from .beam import (
    NoRepeatNgram as NoRepeatNgram,
)
from .beam import (
    Prune as Prune,
)
from .beam import (
    RepetitionPenalty as RepetitionPenalty,
)
from .beam import (
    Sample as Sample,
)
from .beam import (
    SequenceBias as SequenceBias,
)
from .beam import (
    Stochastic as Stochastic,
)
from .beam import (
    Trie as Trie,
)
from .beam import (
    beam_backtrace as beam_backtrace,
)
from .beam import (
    beam_search as beam_search,
)
from .beam import (
    beam_step as beam_step,
)
from .converters.convert import convert as convert
from .converters.explain import explain as explain
from .converters.like import convert_like as convert_like
from .ctc import (
    CTCAlignment as CTCAlignment,
)
from .ctc import (
    CTCResult as CTCResult,
)
from .ctc import (
    CTCState as CTCState,
)
from .ctc import (
    NGrams as NGrams,
)
from .ctc import (
    ctc_align as ctc_align,
)
from .ctc import (
    ctc_beam_search as ctc_beam_search,
)
from .ctc import (
    ctc_greedy as ctc_greedy,
)
from .ctc import (
    ctc_loss as ctc_loss,
)
from .errors import (
    ConversionError as ConversionError,
)
from .errors import (
    DeviceError as DeviceError,
)
from .errors import (
    OutOfMemory as OutOfMemory,
)
from .errors import (
    SeqFormatError as SeqFormatError,
)
from .errors import (
    StructureError as StructureError,
)
from .formats import (
    Chunks as Chunks,
)
from .formats import (
    List as List,
)
from .formats import (
    LoD as LoD,
)
from .formats import (
    Masked as Masked,
)
from .formats import (
    Packed as Packed,
)
from .formats import (
    Padded as Padded,
)
from .formats import (
    Pairs as Pairs,
)
from .formats import (
    Ragged as Ragged,
)
from .formats import (
    is_valid_lod as is_valid_lod,
)
from .gradients.custom import operation as operation
from .gradients.vjp import vjp as vjp
from .health import doctor as doctor
from .launch.threads import num_threads as num_threads
from .launch.threads import set_num_threads as set_num_threads
from .loading import batches as batches
from .memory import keep_memory as keep_memory
from .memory import kept_memory as kept_memory
from .operations.attention import (
    block_mask as block_mask,
)
from .operations.attention import (
    cu_seqlens as cu_seqlens,
)
from .operations.attention import (
    mask as mask,
)
from .operations.attention import (
    position_ids as position_ids,
)
from .operations.attention import (
    segment_ids as segment_ids,
)
from .operations.balance import Balance as Balance
from .operations.balance import balance as balance
from .operations.batch import (
    buckets as buckets,
)
from .operations.batch import (
    inverse_order as inverse_order,
)
from .operations.batch import (
    join_batches as join_batches,
)
from .operations.batch import (
    reorder as reorder,
)
from .operations.batch import (
    sort_by_length as sort_by_length,
)
from .operations.batch import (
    split_batches as split_batches,
)
from .operations.bins import bincount as bincount
from .operations.chunks import chunk as chunk
from .operations.chunks import unchunk as unchunk
from .operations.counts import (
    reduce_all as reduce_all,
)
from .operations.counts import (
    reduce_any as reduce_any,
)
from .operations.counts import (
    reduce_count as reduce_count,
)
from .operations.counts import (
    reduce_mode as reduce_mode,
)
from .operations.counts import (
    reduce_nunique as reduce_nunique,
)
from .operations.cross import cross as cross
from .operations.custom import kernel as kernel
from .operations.cut import cut as cut
from .operations.cut import shift as shift
from .operations.cut import truncate as truncate
from .operations.cut import truncate_pair as truncate_pair
from .operations.distance import levenshtein as levenshtein
from .operations.dot_attention import attention as attention
from .operations.embedding_bag import embedding_bag as embedding_bag
from .operations.error_rates import EditCounts as EditCounts
from .operations.error_rates import cer as cer
from .operations.error_rates import edits as edits
from .operations.error_rates import wer as wer
from .operations.expand import expand as expand
from .operations.expand import expand_as as expand_as
from .operations.expand import repeat as repeat
from .operations.extremes import (
    reduce_first as reduce_first,
)
from .operations.extremes import (
    reduce_last as reduce_last,
)
from .operations.extremes import (
    reduce_max as reduce_max,
)
from .operations.extremes import (
    reduce_min as reduce_min,
)
from .operations.filter import filter as filter
from .operations.filter import run_starts as run_starts
from .operations.inspection import equal as equal
from .operations.inspection import lengths as lengths
from .operations.join import concat as concat
from .operations.join import interleave as interleave
from .operations.levels import flatten_levels as flatten_levels
from .operations.levels import nest as nest
from .operations.levels import split as split
from .operations.levels import split_at as split_at
from .operations.library import astype as astype
from .operations.library import to as to
from .operations.library import to_device as to_device
from .operations.linear_loss import linear_cross_entropy as linear_cross_entropy
from .operations.loss import cross_entropy as cross_entropy
from .operations.map_sequences import map_sequences as map_sequences
from .operations.masking import (
    MaskedTokens as MaskedTokens,
)
from .operations.masking import (
    SpanCorrupted as SpanCorrupted,
)
from .operations.masking import (
    corrupt_spans as corrupt_spans,
)
from .operations.masking import (
    mask_tokens as mask_tokens,
)
from .operations.model_inputs import model_inputs as model_inputs
from .operations.moments import reduce_std as reduce_std
from .operations.moments import reduce_var as reduce_var
from .operations.order import (
    TopK as TopK,
)
from .operations.order import (
    Unique as Unique,
)
from .operations.order import (
    argsort as argsort,
)
from .operations.order import (
    sort as sort,
)
from .operations.order import (
    topk as topk,
)
from .operations.order import (
    unique as unique,
)
from .operations.packing import Packs as Packs
from .operations.packing import pack as pack
from .operations.packing import pack_bins as pack_bins
from .operations.pairwise import maxsim as maxsim
from .operations.pairwise import pairwise_dot as pairwise_dot
from .operations.pick import gather as gather
from .operations.put_back import masked_scatter as masked_scatter
from .operations.put_back import put_sequences as put_sequences
from .operations.quantiles import reduce_median as reduce_median
from .operations.quantiles import reduce_quantile as reduce_quantile
from .operations.rearrange import erase as erase
from .operations.rearrange import reshape as reshape
from .operations.rearrange import reverse as reverse
from .operations.rearrange import slice as slice
from .operations.recurrence import ema as ema
from .operations.recurrence import recurrence as recurrence
from .operations.reduce import *  # noqa: F403  its __all__ has the names
from .operations.risk import minimum_bayes_risk as minimum_bayes_risk
from .operations.scatter import scatter as scatter
from .operations.search import (
    intersect as intersect,
)
from .operations.search import (
    isin as isin,
)
from .operations.search import (
    merge_asof as merge_asof,
)
from .operations.search import (
    searchsorted as searchsorted,
)
from .operations.select import select as select
from .operations.series import diff as diff
from .operations.series import ffill as ffill
from .operations.show import show as show
from .operations.shuffle import shuffle as shuffle
from .operations.softmax import cumsum as cumsum
from .operations.softmax import log_softmax as log_softmax
from .operations.softmax import softmax as softmax
from .operations.standardize import standardize as standardize
from .operations.steps import TensorArray as TensorArray
from .operations.steps import shrink as shrink
from .operations.storage import from_arrays as from_arrays
from .operations.storage import to_arrays as to_arrays
from .operations.sums import *  # noqa: F403  its __all__ has the names
from .operations.tag_spans import TagSpans as TagSpans
from .operations.tag_spans import spans_to_tags as spans_to_tags
from .operations.tag_spans import tags_to_spans as tags_to_spans
from .operations.template import Template as Template
from .operations.template import Templated as Templated
from .operations.texts import from_text as from_text
from .operations.texts import to_text as to_text
from .operations.time_windows import window_by as window_by
from .operations.topk import argmax as argmax
from .operations.topk import argmin as argmin
from .operations.topk import topk_mean as topk_mean
from .operations.where import where as where
from .operations.windows import conv as conv
from .operations.windows import ngrams as ngrams
from .operations.windows import window as window
from .registry import conversion as conversion
from .registry import conversions as conversions
from .torch import from_njt as from_njt
from .wrap import (
    with_array as with_array,
)
from .wrap import (
    with_flatten as with_flatten,
)
from .wrap import (
    with_list as with_list,
)
from .wrap import (
    with_lod as with_lod,
)
from .wrap import (
    with_masked as with_masked,
)
from .wrap import (
    with_packed as with_packed,
)
from .wrap import (
    with_padded as with_padded,
)
from .wrap import (
    with_ragged as with_ragged,
)

__version__: str
__all__: list[str]
