"""Thinc: its types, its layers and its Ops on these kernels."""

from typing import TYPE_CHECKING

from ..errors import import_extra, no_attribute
from ..lazy_import import import_now
from ..post_import_hook import when_imported

if TYPE_CHECKING:
    from .layers import (
        ParametricAttention,
        expand_window,
        list2array,
        list2padded,
        list2ragged,
        padded2list,
        ragged2list,
        reduce_first,
        reduce_last,
        reduce_max,
        reduce_mean,
        reduce_sum,
        softmax_sequences,
        with_array,
        with_array2d,
        with_flatten,
        with_list,
        with_masked,
        with_packed,
        with_padded,
        with_ragged,
    )
    from .ops import SequenceOps, use

__all__ = [
    "ParametricAttention",
    "SequenceOps",
    "expand_window",
    "list2array",
    "list2padded",
    "list2ragged",
    "padded2list",
    "ragged2list",
    "reduce_first",
    "reduce_last",
    "reduce_max",
    "reduce_mean",
    "reduce_sum",
    "softmax_sequences",
    "use",
    "with_array",
    "with_array2d",
    "with_flatten",
    "with_list",
    "with_masked",
    "with_packed",
    "with_padded",
    "with_ragged",
]

# The names of layers, in Thinc's registry once there is one; and of the callback of spaCy's.
when_imported("thinc.api", ".thinc.layers")
when_imported("spacy.util", ".thinc.spacy")

if not TYPE_CHECKING:  # else a checker would believe in every name

    def __getattr__(name):
        """Load a name, with Thinc, when it is first asked for."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            import_extra("thinc.api", "thinc")
            module = import_now(f".{'ops' if name in ('SequenceOps', 'use') else 'layers'}", __name__)
        except ImportError as error:
            raise no_attribute(__name__, name, error) from error
        globals()[name] = found = getattr(module, name)
        return found

    def __dir__():
        return sorted({*globals(), *__all__})
