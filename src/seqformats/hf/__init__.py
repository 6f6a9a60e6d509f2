"""Hugging Face: datasets, tokenizers, and the collators and models of transformers."""

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
