"""Connectionist temporal classification: the loss, and decoding of what is trained by it."""

# The package before parts of it, or threads that import both might wait for each other.
from ..beam import Trie as Trie
from .align import CTCAlignment, ctc_align
from .decoder import BeamSearchDecoderCTC, build_ctcdecoder
from .fusion import CTCState
from .greedy import ctc_greedy
from .loss import ctc_loss
from .ngrams import NGrams
from .result import CTCResult
from .search import ctc_beam_search
from .speech import TokenModel, WordModel
from .stand_in import as_pyctcdecode

__all__ = [
    "BeamSearchDecoderCTC",
    "CTCAlignment",
    "CTCResult",
    "CTCState",
    "NGrams",
    "TokenModel",
    "WordModel",
    "as_pyctcdecode",
    "build_ctcdecoder",
    "ctc_align",
    "ctc_beam_search",
    "ctc_greedy",
    "ctc_loss",
]
