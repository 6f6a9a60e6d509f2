"""The encodings: frozen dataclasses, valid once built, one file each."""

from .. import core
from ..launch import threads
from ..post_import_hook import when_imported
from .chunks import Chunks
from .encoding import Encoding
from .list import List
from .lod import LoD, is_valid_lod, level_index, rows_of_level, structure_of
from .masked import Masked
from .packed import Packed
from .padded import Padded
from .pairs import Pairs, is_own
from .ragged import Ragged
from .structure import Order, Structure

for _kind in (Chunks, Encoding, List, LoD, Masked, Packed, Padded, Pairs, Ragged):
    _kind.__module__ = __name__  # where users find them, and pickles too

NATIVE: tuple[type[Encoding], ...] = (List, Ragged, Masked, Padded, Packed)
"""The encodings of one level, between any two of which rows are moved at once."""

__all__ = [
    "NATIVE",
    "Chunks",
    "Encoding",
    "List",
    "LoD",
    "Masked",
    "Packed",
    "Padded",
    "Pairs",
    "Ragged",
    "is_own",
    "is_valid_lod",
    "level_index",
    "rows_of_level",
    "structure_of",
]

core.use_encodings((Ragged, Masked, Padded, Packed, LoD, List), Structure, Order)
threads.follow(core.with_threads)
when_imported("numba", ".numba_types")
