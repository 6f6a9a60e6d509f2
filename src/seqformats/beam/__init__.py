"""Ragged beam search: the step, the way back, and a decoder for any model."""

from .backtrace import Hypotheses, beam_backtrace
from .biases import ExponentialDecayLengthPenalty, ForcedEnd, SequenceBias
from .constraints import (
    AllowedTokens,
    BannedTokens,
    ForcedPrefix,
    ForcedTokens,
    NoRepeatNgram,
    RepetitionPenalty,
)
from .decoder import BeamDecoder
from .diverse import DiverseGroups
from .hypotheses import Live
from .lexical import LexicalConstraints
from .loop import beam_search
from .plan import Plan
from .protocol import Constraint, Running
from .result import BeamResult, BeamState, BeamTrace
from .rules import RULES, Prune, Rule
from .sampling import Sample, Stochastic
from .step import BeamStep, beam_step
from .trie import Trie

__all__ = [
    "RULES",
    "AllowedTokens",
    "BannedTokens",
    "BeamDecoder",
    "BeamResult",
    "BeamState",
    "BeamStep",
    "BeamTrace",
    "Constraint",
    "DiverseGroups",
    "ExponentialDecayLengthPenalty",
    "ForcedEnd",
    "ForcedPrefix",
    "ForcedTokens",
    "Hypotheses",
    "LexicalConstraints",
    "Live",
    "NoRepeatNgram",
    "Plan",
    "Prune",
    "RepetitionPenalty",
    "Rule",
    "Running",
    "Sample",
    "SequenceBias",
    "Stochastic",
    "Trie",
    "beam_backtrace",
    "beam_search",
    "beam_step",
]
