"""Decoding of what is trained by connectionist temporal classification."""

from .greedy import ctc_greedy
from .result import CTCResult

__all__ = ["CTCResult", "ctc_greedy"]
