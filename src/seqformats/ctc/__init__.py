"""Decoding of what is trained by connectionist temporal classification."""

from .fusion import CTCState
from .greedy import ctc_greedy
from .result import CTCResult
from .search import ctc_beam_search

__all__ = ["CTCResult", "CTCState", "ctc_beam_search", "ctc_greedy"]
