"""Decoding of what is trained by connectionist temporal classification."""

from .. import beam as _beam  # noqa: F401  whole, before parts of it: else two threads may wait for each other
from .align import CTCAlignment, ctc_align
from .fusion import CTCState
from .greedy import ctc_greedy
from .result import CTCResult
from .search import ctc_beam_search

__all__ = ["CTCAlignment", "CTCResult", "CTCState", "ctc_align", "ctc_beam_search", "ctc_greedy"]
