"""Hugging Face: datasets, tokenizers, and the collators and models of transformers."""

from typing import TYPE_CHECKING

from ..hints import look_up
from .collator import Collator
from .datasets import ArrowMap, arrow_map
from .encodings import from_encodings
from .flops import cost
from .models import by_length, padding_free
from .settings import search_options
from .steps import decoder_step, encoder_decoder_step

__all__ = [
    "ArrowMap",
    "Collator",
    "arrow_map",
    "by_length",
    "cost",
    "decoder_step",
    "encoder_decoder_step",
    "from_encodings",
    "padding_free",
    "search_options",
]

if not TYPE_CHECKING:  # else a checker would believe in every name

    def __getattr__(name):
        return look_up(__name__, name, __all__)
