"""Decoding of what is trained by connectionist temporal classification."""

from .greedy import ctc_greedy
from .result import CTCResult
from .search import ctc_beam_search

__all__ = ["CTCResult", "ctc_beam_search", "ctc_greedy"]
