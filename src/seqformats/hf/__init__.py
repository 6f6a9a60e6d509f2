"""Hugging Face: datasets, tokenizers, and the collators of transformers."""

from .collator import Collator
from .datasets import ArrowMap, arrow_map
from .encodings import from_encodings

__all__ = ["ArrowMap", "Collator", "arrow_map", "from_encodings"]
