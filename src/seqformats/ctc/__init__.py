"""Connectionist temporal classification: the loss, and decoding of what is trained by it."""

# The package before parts of it, or threads that import both might wait for each other.
from ..beam import Trie as Trie
from .align import CTCAlignment, ctc_align
from .fusion import CTCState
from .greedy import ctc_greedy
from .loss import ctc_loss
from .result import CTCResult
from .search import ctc_beam_search

__all__ = ["CTCAlignment", "CTCResult", "CTCState", "ctc_align", "ctc_beam_search", "ctc_greedy", "ctc_loss"]
