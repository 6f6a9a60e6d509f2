"""Variable-length sequences in every layout, converted at memory speed.

See `convert` for conversions, `with_padded` for wrappers, `vjp` for gradients.
"""

from . import nested as _nested  # noqa: F401  registers the conversions of nested lists
from ._threads import num_threads, set_num_threads
from .convert import convert, convert_like, explain
from .errors import ConversionError, DeviceError, SeqFormatError, StructureError
from .formats import List, LoD, Masked, Packed, Padded, Pairs, Ragged, is_valid_lod
from .grad import vjp
from .reduce import reduce_mean, reduce_sum
from .registry import conversion, conversions
from .select import equal, lengths, to_device
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
    "conversion",
    "conversions",
    "convert",
    "convert_like",
    "equal",
    "explain",
    "is_valid_lod",
    "lengths",
    "num_threads",
    "reduce_mean",
    "reduce_sum",
    "set_num_threads",
    "to_device",
    "vjp",
    "with_array",
    "with_flatten",
    "with_list",
    "with_lod",
    "with_masked",
    "with_packed",
    "with_padded",
    "with_ragged",
]
